//! Values that do not match the annotation of a variable, a parameter or a result.

use harn_syntax::ast::{
    BinaryOp, Block, Catch, Expr, ExprKind, Function, Ident, Param, Pattern, PatternKind, Stmt, StmtKind,
    Target, TargetStep, TypeExpr, TypeKind, TypeParam,
};
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Span};

use crate::checks::unreachable::block_exits;
use crate::checks::{nilable, operator, result_field, type_name};
use crate::codes::{DECLARED_TYPE, LATER_PARAMETER, NO_RESULT, RESULT_TYPE};
use crate::infer::soft;
use crate::pass::{Known, Pass, Result};
use crate::scope::{Kind, Lookup};
use crate::types::{Ty, detail, type_text};

/// Checks a statement whose parts have been walked.
pub(crate) fn statement<'a>(pass: &mut Pass<'a>, stmt: &'a Stmt) {
    match &stmt.kind {
        StmtKind::Let { mutable, pattern: Pattern { kind: PatternKind::Name(name), .. }, ty, value } => {
            if !mutable {
                pass.held_values.insert(name.span.start, value);
                pass.note_schema(name, value);
                result_field::note(pass, name, value);
            }
            match ty {
                Some(written) => declared(pass, name, written, value),
                None => {
                    let got = pass.infer(value);
                    let is_open = *mutable && got == Ty::Nil;
                    let ty = match got {
                        _ if is_open => Ty::Any,
                        got if *mutable => widened(got),
                        got => got,
                    };
                    pass.known.insert(name.span.start, Known { ty, written: None, is_open });
                }
            }
        }
        StmtKind::Assign { target, op, value, .. } => assigned(pass, target, *op, value),
        StmtKind::Return(Some(value)) => returned(pass, value),
        StmtKind::Emit(value) => emitted(pass, value),
        _ => {}
    }
}

/// Returns the type that a variable without annotation may have later: the same kind of value as its first one.
fn widened(ty: Ty) -> Ty {
    match ty {
        Ty::Shape(_) => Ty::named("dict"),
        Ty::Str(_) => Ty::named("string"),
        Ty::Int(_) => Ty::named("int"),
        Ty::Fn(..) => Ty::named("closure"),
        Ty::Named(name, _) => Ty::Named(name, Vec::new()),
        Ty::Union(members) => Ty::union(members.into_iter().map(widened)),
        Ty::OneOf(members) => Ty::OneOf(members.into_iter().map(widened).collect()),
        Ty::Never | Ty::Unknown => Ty::Any,
        other => other,
    }
}

fn declared<'a>(pass: &mut Pass<'a>, name: &'a Ident, written: &'a TypeExpr, value: &'a Expr) {
    let ty = pass.typing.resolve(written);
    let got = pass.infer_as(&ty, value);
    let text = type_text(written);
    if !pass.typing.fits(&ty, &got) {
        let detail = match (&ty, &got) {
            (Ty::Shape(wanted), Ty::Shape(given)) => {
                format!(" ({})", detail(&pass.typing, wanted, given).join("; "))
            }
            _ => String::new(),
        };
        let message = format!("'{}' declared as {text}, but assigned {got}{detail}", name.name);
        let mut found = misfit(pass, &ty, value, message).with_code(DECLARED_TYPE).at(value.span);
        // Reports only the unknown name of the type.
        for (at, told) in type_name::misnamed(&pass.typing, written) {
            pass.misnamed.insert(at);
            found.help = Some(told);
        }
        pass.report(found);
    }
    pass.known.insert(name.span.start, Known { ty, written: Some(text), is_open: false });
}

fn assigned<'a>(pass: &mut Pass<'a>, target: &'a Target, op: Option<BinaryOp>, value: &'a Expr) {
    let name = &target.root;
    let Lookup::Is(kind) = pass.scopes.look_up(&name.name, name.span.start) else {
        return pass.assigned_type(name, None);
    };
    if !matches!(kind, Kind::Let | Kind::Closure) {
        part_assigned(pass, target, op, value);
    }
    // An assignment to a constant is a separate finding.
    if matches!(kind, Kind::Let | Kind::Closure) || !target.path.is_empty() {
        return pass.assigned_type(name, None);
    }
    let Some(def) = pass.scopes.definition(&name.name) else { return };
    let Some(declared) = pass.known.get(&def).map(|known| known.ty.clone()) else {
        return pass.assigned_type(name, None);
    };
    let mut got = if op.is_none() { pass.infer_as(&declared, value) } else { pass.infer(value) };
    if let Some(op) = op {
        nilable::assigned(pass, op, value);
    }
    let Some(known) = pass.known.get(&def) else { return };
    if let Some(op) = op {
        let wrong = operator::unfit(op, &known.ty, &got);
        got = pass.binary(op, &known.ty, &got);
        if let Some(found) = wrong.filter(|_| !known.is_open) {
            pass.report(found.at(value.span));
            return pass.assigned_type(name, None);
        }
    }
    if known.is_open {
        let ty = match &got {
            Ty::Nil => return pass.assigned_type(name, None),
            Ty::Any | Ty::Unknown | Ty::Never => Ty::Any,
            got => Ty::union([Ty::OneOf(vec![Ty::Nil]), widened(got.clone())]),
        };
        pass.known.insert(def, Known { ty, written: None, is_open: false });
        return pass.assigned_type(name, Some(got));
    }
    let (ty, written) = (known.ty.clone(), known.written.clone());
    // Numbers without annotation may become floats later.
    let is_number = |ty: &Ty| matches!(ty.plain(), Some("int" | "float"));
    let grows = written.is_none() && is_number(&ty) && is_number(&got);
    // Every variable may be set to nil.
    let ends = written.is_none() && got == Ty::Nil;
    if ends {
        let ty = Ty::union([Ty::OneOf(vec![Ty::Nil]), ty]);
        pass.known.insert(def, Known { ty, written: None, is_open: false });
        return pass.assigned_type(name, Some(Ty::Nil));
    }
    if !grows && !pass.typing.fits(&ty, &got) {
        let declared = written.clone().unwrap_or_else(|| ty.to_string());
        let message = format!("can't assign {got} to '{}' (declared as {declared})", name.name);
        let found = match op {
            None => misfit(pass, &ty, value, message),
            Some(_) => Diagnostic::error(message),
        };
        pass.report(found.with_code(DECLARED_TYPE).at(value.span));
    }
    let tells = matches!(ty, Ty::Union(_) | Ty::OneOf(_));
    let now = if written.is_none() { widened(got) } else { got };
    pass.assigned_type(name, Some(now).filter(|now| tells && pass.typing.fits(&ty, now)));
}

/// Checks an assignment to a part of a variable: a field of a struct, or an item or entry of an annotated variable.
fn part_assigned<'a>(pass: &mut Pass<'a>, target: &'a Target, op: Option<BinaryOp>, value: &'a Expr) {
    let Some(known) = pass.scopes.definition(&target.root.name).and_then(|def| pass.known.get(&def)) else {
        return;
    };
    let is_struct =
        |ty: &Ty| matches!(ty, Ty::Named(owner, args) if pass.typing.struct_fields(owner, args).is_some());
    // The first value of a variable without annotation says nothing about later ones of its parts.
    if target.path.is_empty() || known.written.is_none() && !is_struct(&known.ty) {
        return;
    }
    let part = |ty: &Ty, step: &TargetStep| match (ty, step) {
        (Ty::Named(name, args), _) if name == "dict" && args.len() == 2 => args[1].clone(),
        (Ty::Named(name, args), TargetStep::Index { .. }) if name == "list" && args.len() == 1 => {
            args[0].clone()
        }
        (_, TargetStep::Member(name)) => pass.field_of(ty, &name.name),
        (_, TargetStep::Index { index: Expr { kind: ExprKind::Str(name), .. }, .. }) => {
            pass.field_of(ty, name)
        }
        _ => Ty::Any,
    };
    let ty = target.path.iter().fold(known.ty.clone(), |ty, step| part(&ty, step));
    let got = match op {
        None => pass.infer_as(&ty, value),
        Some(op) => {
            let added = pass.infer(value);
            pass.binary(op, &ty, &added)
        }
    };
    if !pass.typing.fits(&ty, &got) {
        let place = target.span.slice(pass.source.text);
        let message = format!("can't assign {got} to '{place}' (declared as {ty})");
        pass.report(Diagnostic::warning(message).with_code(DECLARED_TYPE).at(value.span));
    }
}

/// Records the type of a caught error.
pub(crate) fn caught<'a>(pass: &mut Pass<'a>, catch: &'a Catch) {
    if let (Some(name), Some(written)) = (&catch.name, &catch.ty) {
        let known =
            Known { ty: pass.typing.resolve(written), written: Some(type_text(written)), is_open: false };
        pass.known.insert(name.span.start, known);
    }
}

/// Records the type of a loop variable.
pub(crate) fn loop_variable<'a>(pass: &mut Pass<'a>, pattern: &'a Pattern, iter: &'a Expr) {
    let item = match pass.infer(iter) {
        Ty::Named(name, args) => match (name.as_str(), args.as_slice()) {
            ("range", _) => Ty::named("int"),
            ("string", _) => Ty::named("string"),
            ("list" | "iter" | "Generator" | "generator" | "Stream" | "stream" | "set", [item]) => {
                item.clone()
            }
            _ => return,
        },
        _ => return,
    };
    // A list that is written out is often a table of cases.
    let item = if matches!(iter.kind, ExprKind::List(_)) { soft(&item) } else { item };
    let mut note = |name: &Ident, ty: Ty| {
        // An assignment in the loop may have another type.
        if !pass.typing.declared.is_assigned(&name.name) {
            pass.known.insert(name.span.start, Known { ty, written: None, is_open: false });
        }
    };
    match (&pattern.kind, item) {
        (PatternKind::Name(name), item) => note(name, item),
        (PatternKind::Pair(first, second), Ty::Named(pair, mut args))
            if pair == "Pair" && args.len() == 2 =>
        {
            let value = args.pop().unwrap_or(Ty::Any);
            note(first, args.pop().unwrap_or(Ty::Any));
            note(second, value);
        }
        _ => {}
    }
}

/// Records the types of the parameters of a function, and checks their defaults.
pub(crate) fn parameters<'a>(pass: &mut Pass<'a>, func: &'a Function) {
    for (at, param) in func.params.iter().enumerate() {
        param.default.iter().for_each(|default| later_parameter(pass, &func.params[at..], default));
    }
    for param in func.params.iter().filter(|param| !param.rest) {
        let Some(written) = &param.ty else { continue };
        match &param.default {
            Some(default) => declared(pass, &param.name, written, default),
            None => {
                let (ty, written) = (pass.typing.resolve(written), Some(type_text(written)));
                pass.known.insert(param.name.span.start, Known { ty, written, is_open: false });
            }
        }
    }
}

/// A finding about a value that does not fit. A literal outside of the expected literals is only a
/// warning: the run checks the value itself.
pub(crate) fn misfit<'a>(pass: &mut Pass<'a>, wanted: &Ty, value: &'a Expr, message: String) -> Diagnostic {
    if pass.differs_by_literal(wanted, value) {
        Diagnostic::warning(message)
    } else {
        Diagnostic::error(message)
    }
}

/// Reports a default that reads its own parameter or a later one: these have no value yet.
fn later_parameter<'a>(pass: &mut Pass<'a>, later: &'a [Param], default: &'a Expr) {
    struct Mentions<'a>(&'a [Param], Vec<(&'a str, Span)>);
    impl<'a> Visitor<'a> for Mentions<'a> {
        fn expr(&mut self, expr: &'a Expr) {
            if let ExprKind::Name(name) = &expr.kind
                && self.0.iter().any(|param| param.name.name == *name)
            {
                self.1.push((name, expr.span));
            }
            visit::walk_expr(self, expr);
        }
        // It runs later.
        fn function(&mut self, _: &'a Function, _: &'a [TypeParam]) {}
    }
    let mut mentions = Mentions(later, Vec::new());
    mentions.expr(default);
    for (name, span) in mentions.1 {
        let own = later.first().is_some_and(|param| param.name.name == name);
        let which = if own { "its own parameter" } else { "a later parameter" };
        let message = format!("a default cannot use {which}: `{name}` has no value yet");
        pass.report(Diagnostic::warning(message).with_code(LATER_PARAMETER).at(span));
    }
}

/// Returns the declared result of a function.
pub(crate) fn result_of<'a>(pass: &Pass<'a>, func: &'a Function) -> Option<Result<'a>> {
    let written = func.ret.as_ref()?;
    let body = std::ptr::from_ref(&func.body);
    if func.is_gen {
        return match &written.kind {
            TypeKind::Named { name, args } if matches!(name.name.as_str(), "Stream" | "stream") => {
                let written = args.first()?;
                Some(Result { ty: pass.typing.resolve(written), written, body, emits: true })
            }
            _ => None,
        };
    }
    // A generator yields its values one by one.
    (!func.has_yield).then(|| Result { ty: pass.typing.resolve(written), written, body, emits: false })
}

fn returned<'a>(pass: &mut Pass<'a>, value: &'a Expr) {
    let Some(Some(result)) = pass.results.last().cloned() else { return };
    if result.emits {
        return;
    }
    let got = pass.infer_as(&result.ty, value);
    if !pass.typing.fits(&result.ty, &got) {
        let message = format!("return type doesn't match: expected {}, got {got}", type_text(result.written));
        let found = misfit(pass, &result.ty, value, message);
        pass.report(found.with_code(RESULT_TYPE).at(value.span));
    }
}

fn emitted<'a>(pass: &mut Pass<'a>, value: &'a Expr) {
    let Some(Some(result)) = pass.results.last().cloned() else { return };
    let got = pass.infer_as(&result.ty, value);
    if result.emits && !pass.typing.fits(&result.ty, &got) {
        let message = format!("emit type doesn't match: expected {}, got {got}", type_text(result.written));
        let found = misfit(pass, &result.ty, value, message);
        pass.report(found.with_code(RESULT_TYPE).at(value.span));
    }
}

/// Checks the last expression of a body, which is its result.
pub(crate) fn last_value<'a>(pass: &mut Pass<'a>, block: &'a Block) {
    let Some(Some(result)) = pass.results.last() else { return };
    // The value of a function with result nil is not used; one that is never reached has none.
    if std::ptr::eq(result.body, block) && result.ty != Ty::Nil && !block_exits(block) {
        let nil_fits = result.emits || pass.typing.fits(&result.ty, &Ty::Nil);
        let written = result.written;
        last_of(pass, block);
        // An empty body is a placeholder.
        if !nil_fits && let Some(end) = pass.end_without_value(block).filter(|_| !block.stmts.is_empty()) {
            let message =
                format!("missing return value on some paths: expected {}, got nil", type_text(written));
            let found = Diagnostic::warning(message).with_code(NO_RESULT);
            // Shows the first line of a block.
            let line = end.slice(pass.source.text).lines().next().unwrap_or_default().trim_end();
            let end = Span::new(end.start, end.start + line.len() as u32);
            pass.report(found.with_label(end, "without a value").with_label(written.span, "the result"));
        }
    }
}

fn last_of<'a>(pass: &mut Pass<'a>, block: &'a Block) {
    let Some(Stmt { kind: StmtKind::Expr(value), .. }) = block.stmts.last() else { return };
    match &value.kind {
        ExprKind::If { arms, else_body: Some(last) } => {
            arms.iter().for_each(|arm| branch_value(pass, &arm.body));
            branch_value(pass, last);
        }
        ExprKind::Match { arms, .. } => arms.iter().for_each(|arm| branch_value(pass, &arm.body)),
        ExprKind::If { .. } | ExprKind::Try { .. } => {}
        _ => returned(pass, value),
    }
}

/// A branch that results in nil may be used for its side effects.
fn branch_value<'a>(pass: &mut Pass<'a>, block: &'a Block) {
    if pass.block_type(block) != Ty::Nil {
        last_of(pass, block);
    }
}
