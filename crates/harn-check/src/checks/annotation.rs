//! Values that the annotation of a variable, a parameter or a result does not allow.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{
    Block, Expr, ExprKind, Function, Ident, Pattern, PatternKind, Stmt, StmtKind, TypeExpr, TypeKind,
};

use crate::codes::{DECLARED_TYPE, RESULT_TYPE};
use crate::scope::{Kind, Lookup};
use crate::types::{Ty, detail, fits, type_text};
use crate::walk::{Known, Pass};

/// What a function must give back.
#[derive(Clone)]
pub(crate) struct Result<'a> {
    ty: Ty,
    written: &'a TypeExpr,
    /// The block that is the body: its last expression is the result as well.
    body: *const Block,
    /// The function is a stream, and this is the type of what it emits.
    emits: bool,
}

/// Looks at a statement whose parts have been walked.
pub(crate) fn statement<'a>(pass: &mut Pass<'a>, stmt: &'a Stmt) {
    match &stmt.kind {
        StmtKind::Let { mutable, pattern: Pattern { kind: PatternKind::Name(name), .. }, ty, value } => {
            match ty {
                Some(written) => declared(pass, name, written, value),
                None if !mutable => {
                    let ty = pass.infer(value);
                    pass.known.insert(name.span.start, Known { ty, written: None });
                }
                None => {}
            }
        }
        StmtKind::Assign { target, op: None, value, .. } if target.path.is_empty() => {
            assigned(pass, &target.root, value);
        }
        StmtKind::Return(Some(value)) => returned(pass, value),
        StmtKind::Emit(value) => emitted(pass, value),
        _ => {}
    }
}

fn declared<'a>(pass: &mut Pass<'a>, name: &'a Ident, written: &'a TypeExpr, value: &'a Expr) {
    let (ty, got) = (pass.typing.resolve(written), pass.infer(value));
    let text = type_text(written);
    if !fits(&ty, &got) {
        let detail = match (&ty, &got) {
            (Ty::Shape(wanted), Ty::Shape(given)) => format!(" ({})", detail(wanted, given).join("; ")),
            _ => String::new(),
        };
        let message = format!("'{}' declared as {text}, but assigned {got}{detail}", name.name);
        pass.report(Diagnostic::error(message).with_code(DECLARED_TYPE).at(value.span));
    }
    pass.known.insert(name.span.start, Known { ty, written: Some(text) });
}

fn assigned<'a>(pass: &mut Pass<'a>, name: &'a Ident, value: &'a Expr) {
    let got = pass.infer(value);
    let Lookup::Is(kind) = pass.scopes.look_up(&name.name, name.span.start) else { return };
    // That nothing can be assigned at all is a finding of its own.
    if matches!(kind, Kind::Let | Kind::Closure) {
        return;
    }
    let Some(known) = pass.known_at(&name.name) else { return };
    let Some(written) = known.written.as_ref().filter(|_| !fits(&known.ty, &got)) else { return };
    let message = format!("can't assign {got} to '{}' (declared as {written})", name.name);
    pass.report(Diagnostic::error(message).with_code(DECLARED_TYPE).at(value.span));
}

/// Notes what a loop variable holds.
pub(crate) fn loop_variable<'a>(pass: &mut Pass<'a>, pattern: &'a Pattern, iter: &'a Expr) {
    let PatternKind::Name(name) = &pattern.kind else { return };
    let ty = match pass.infer(iter) {
        Ty::Named(name, _) if name == "range" => Ty::named("int"),
        Ty::Named(name, args) if name == "list" && args.len() == 1 => {
            args.into_iter().next().unwrap_or(Ty::Any)
        }
        _ => return,
    };
    // What is assigned in the loop may be of another type.
    if !pass.typing.declared.is_assigned(&name.name) {
        pass.known.insert(name.span.start, Known { ty, written: None });
    }
}

/// Notes what the parameters of a function hold, and looks at their defaults.
pub(crate) fn parameters<'a>(pass: &mut Pass<'a>, func: &'a Function) {
    for param in func.params.iter().filter(|param| !param.rest) {
        let Some(written) = &param.ty else { continue };
        match &param.default {
            Some(default) => declared(pass, &param.name, written, default),
            None => {
                let known = Known { ty: pass.typing.resolve(written), written: Some(type_text(written)) };
                pass.known.insert(param.name.span.start, known);
            }
        }
    }
}

/// What a function says that it gives back.
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
    // A generator gives back values one by one.
    (!func.has_yield).then(|| Result { ty: pass.typing.resolve(written), written, body, emits: false })
}

fn returned<'a>(pass: &mut Pass<'a>, value: &'a Expr) {
    let Some(Some(result)) = pass.results.last().cloned() else { return };
    if result.emits {
        return;
    }
    let got = pass.infer(value);
    if !fits(&result.ty, &got) {
        let message = format!("return type doesn't match: expected {}, got {got}", type_text(result.written));
        pass.report(Diagnostic::error(message).with_code(RESULT_TYPE).at(value.span));
    }
}

fn emitted<'a>(pass: &mut Pass<'a>, value: &'a Expr) {
    let Some(Some(result)) = pass.results.last().cloned() else { return };
    let got = pass.infer(value);
    if result.emits && !fits(&result.ty, &got) {
        let message = format!("emit type doesn't match: expected {}, got {got}", type_text(result.written));
        pass.report(Diagnostic::error(message).with_code(RESULT_TYPE).at(value.span));
    }
}

/// Looks at the last expression of a body, which is its result.
pub(crate) fn last_value<'a>(pass: &mut Pass<'a>, block: &'a Block) {
    let Some(Some(result)) = pass.results.last() else { return };
    // Nobody asks for the value of a function whose result is nil.
    if !std::ptr::eq(result.body, block) || result.ty == Ty::Nil {
        return;
    }
    if let Some(Stmt { kind: StmtKind::Expr(value), .. }) = block.stmts.last()
        // Their branches may leave the function.
        && !matches!(value.kind, ExprKind::If { .. } | ExprKind::Match { .. } | ExprKind::Try { .. })
    {
        returned(pass, value);
    }
}
