//! Code with a shorter equivalent.

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Span};

use super::inferred::Types;
use super::uses::Uses;
use crate::codes::{EAGER, ELSE_RETURN, LET_RETURN, NIL_TERNARY, NO_CAST, NO_CLONE};
use crate::scope::names_of;

/// Runs the rules of this file.
pub(super) fn run(text: &str, tree: &Program, uses: &Uses<'_>, types: &Types<'_>) -> Vec<Diagnostic> {
    let mut rules = Rules { text, uses, types, has_clone: false, out: Vec::new() };
    let clones = |decl: &Decl| match &decl.kind {
        DeclKind::Impl(own) => own.methods.iter().any(|method| method.decl.name.name == "clone"),
        _ => false,
    };
    rules.has_clone = tree.items.iter().any(|item| match &item.kind {
        StmtKind::Decl(decl) => clones(decl),
        StmtKind::Import(_) => true,
        _ => false,
    });
    rules.stmts(&tree.items);
    rules.out
}

struct Rules<'a> {
    text: &'a str,
    uses: &'a Uses<'a>,
    types: &'a Types<'a>,
    /// The file may define a method `clone`.
    has_clone: bool,
    out: Vec<Diagnostic>,
}

impl Rules<'_> {
    fn report(&mut self, rule: &'static str, span: Span, message: String, fix: Option<(&str, Span, String)>) {
        self.out.push(warning(rule, span, message, fix));
    }

    /// `x == nil ? d : x` and its mirror.
    fn ternary(&mut self, expr: &Expr, cond: &Expr, then: &Expr, other: &Expr) {
        let cond = match &cond.kind {
            ExprKind::Paren(inner) => inner,
            _ => cond,
        };
        let ExprKind::Binary { op: op @ (BinaryOp::Eq | BinaryOp::Ne), lhs, rhs, .. } = &cond.kind else {
            return;
        };
        let value = match (&lhs.kind, &rhs.kind) {
            (_, ExprKind::Nil) => lhs,
            (ExprKind::Nil, _) => rhs,
            _ => return,
        };
        let (default, again) = if *op == BinaryOp::Eq { (then, other) } else { (other, then) };
        let slice = |expr: &Expr| expr.span.slice(self.text);
        let plain = matches!(value.kind, ExprKind::Name(_) | ExprKind::Member { .. });
        if !plain || slice(value) != slice(again) {
            return;
        }
        let simple = matches!(
            default.kind,
            ExprKind::Name(_)
                | ExprKind::Str(_)
                | ExprKind::Int(_)
                | ExprKind::Float(_)
                | ExprKind::Bool(_)
                | ExprKind::List(_)
                | ExprKind::Dict(_)
                | ExprKind::Call { .. }
                | ExprKind::Member { .. }
                | ExprKind::Paren(_)
        );
        let short = format!("{} ?? {}", slice(value), slice(default));
        let message = format!("a ternary that stands for `??`: use `{} ?? ...`", slice(value));
        let fix = simple.then_some(("write it with `??`", expr.span, short));
        self.report(NIL_TERNARY, expr.span, message, fix);
    }

    /// `let x = e` followed by `return x`.
    fn let_then_return(&mut self, stmts: &[Stmt]) {
        let [.., first, last] = stmts else { return };
        let (
            StmtKind::Let { mutable: false, pattern, ty: None, value },
            StmtKind::Return(Some(Expr { kind: ExprKind::Name(returned), .. })),
        ) = (&first.kind, &last.kind)
        else {
            return;
        };
        let PatternKind::Name(name) = &pattern.kind else { return };
        let between = &self.text[first.span.end as usize..last.span.start as usize];
        if name.name != *returned || between.contains("//") || between.contains("/*") {
            return;
        }
        let span = Span::new(first.span.start, last.span.end);
        let new = format!("return {}", value.span.slice(self.text));
        let message = format!("binding `{}` is immediately returned", name.name);
        self.report(LET_RETURN, first.span, message, Some(("return the value", span, new)));
    }

    /// `else` after a branch that returns, where the `else` branch returns too.
    fn else_return(&mut self, stmt: &Stmt) {
        let StmtKind::Expr(Expr { kind: ExprKind::If { arms, else_body: Some(last) }, span }) = &stmt.kind
        else {
            return;
        };
        let returns =
            |block: &Block| block.stmts.last().is_some_and(|stmt| matches!(stmt.kind, StmtKind::Return(_)));
        if let [arm] = arms.as_slice()
            && returns(&arm.body)
            && returns(last)
        {
            let message = "both if and else branches return — else is unnecessary".to_owned();
            let fix = self.flat(stmt, arm, last);
            let fix = fix.as_ref().map(|(at, new)| ("leave the `else` out", *at, new.clone()));
            self.report(ELSE_RETURN, Span::new(span.start, arm.cond.span.end), message, fix);
        }
    }

    /// Returns the replacement of an `else` and its block: its statements. Names that they bind must not exist around
    /// them, and the end of the block must have no effects.
    fn flat(&self, stmt: &Stmt, arm: &IfArm, last: &Block) -> Option<(Span, String)> {
        let body = last.span.slice(self.text).strip_prefix('{')?.strip_suffix('}')?;
        let between = &self.text[arm.body.span.end as usize..last.span.start as usize];
        let around = [&self.text[..last.span.start as usize], &self.text[last.span.end as usize..]];
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let is_new = |name: &Ident| {
            !around.iter().any(|text| text.split(|c| !is_word(c)).any(|word| word == name.name.as_str()))
        };
        let moves = last.stmts.iter().all(|stmt| match &stmt.kind {
            StmtKind::Let { pattern, .. } => {
                let mut new = true;
                names_of(pattern, &mut |name| new &= is_new(name));
                new
            }
            StmtKind::Decl(_) | StmtKind::Defer(_) => false,
            _ => true,
        });
        if !moves || between.trim() != "else" {
            return None;
        }
        let head = &self.text[..stmt.span.start as usize];
        let indent = head.rsplit('\n').next().filter(|head| head.trim().is_empty())?;
        let lines = body.trim_matches(['\r', '\n']).trim_end().lines();
        // A multi-line string preserves its whitespace.
        let kept = body.contains("\"\"\"");
        let lines = lines.map(|line| match line.strip_prefix("  ") {
            Some(less) if !kept && body.trim_start_matches([' ', '\t', '\r']).starts_with('\n') => {
                less.to_owned()
            }
            _ if body.contains('\n') => line.to_owned(),
            _ => format!("{indent}{}", line.trim()),
        });
        let new = lines.fold(String::new(), |text, line| text + "\n" + &line);
        Some((Span::new(arm.body.span.end, last.span.end), new))
    }

    /// `x.clone()` as an argument: values have value semantics, so the callee cannot change them.
    fn clones(&mut self, args: &[Arg]) {
        for arg in args.iter().filter(|_| !self.has_clone) {
            let ExprKind::MethodCall { object, name, args, optional: false } = &arg.value.kind else {
                continue;
            };
            if name.name == "clone" && args.is_empty() {
                let new = object.span.slice(self.text).to_owned();
                let message =
                    "an argument needs no `clone()`: a function does not change the values of its caller";
                let fix = ("pass the value itself", arg.value.span, new);
                let fix = Some(fix).filter(|_| self.types.has_only_methods(object.span));
                self.out.push(warning(NO_CLONE, arg.value.span, message.to_owned(), fix));
            }
        }
    }

    /// Checks the results at the end of a function.
    fn results(&mut self, func: &Function) {
        let last = func.body.stmts.last().map(|stmt| &stmt.kind);
        if let Some(StmtKind::Return(Some(value)) | StmtKind::Expr(value)) = last {
            self.eager(func.ret.as_ref(), value);
        }
    }

    /// An iterator where a list, set or dict is expected.
    fn eager(&mut self, ty: Option<&TypeExpr>, value: &Expr) {
        let Some(TypeExpr { kind: TypeKind::Named { name, .. }, .. }) = ty else { return };
        let wanted = match name.name.as_str() {
            wanted @ ("list" | "set" | "dict") => wanted,
            _ => return,
        };
        if self.is_iterator(value) {
            let message = format!("expected `{wanted}`, got an iterator");
            let end = Span::new(value.span.end, value.span.end);
            let fix = ("collect it", end, format!(".to_{wanted}()"));
            self.report(EAGER, value.span, message, Some(fix));
        }
    }

    /// Returns whether an expression certainly is an iterator.
    fn is_iterator(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Paren(inner) => self.is_iterator(inner),
            ExprKind::Call { callee, args, .. } => {
                args.len() == 1
                    && callee.as_name().is_some_and(|name| name == "iter" && !self.uses.is_declared(name))
            }
            ExprKind::MethodCall { object, name, args, .. } => {
                (name.name == "iter" && args.is_empty())
                    || (LAZY.contains(&name.name.as_str()) && self.is_iterator(object))
            }
            _ => false,
        }
    }

    /// `to_string("s")`, and repeated conversions.
    fn cast(&mut self, expr: &Expr, name: &str, arg: &Expr) {
        let same = match (name, &arg.kind) {
            ("to_string", ExprKind::Str(_) | ExprKind::Interp(_))
            | ("to_int", ExprKind::Int(_))
            | ("to_float", ExprKind::Float(_))
            | ("to_list", ExprKind::List(_)) => true,
            (_, ExprKind::Call { callee, .. }) => {
                name.starts_with("to_") && callee.as_name().is_some_and(|inner| inner == name)
            }
            _ => false,
        };
        if same && !self.uses.is_declared(name) {
            let message = format!("`{name}` has nothing to convert here");
            let new = arg.span.slice(self.text).to_owned();
            self.report(NO_CAST, expr.span, message, Some(("take the value itself", expr.span, new)));
        }
    }
}

fn warning(rule: &'static str, span: Span, message: String, fix: Option<(&str, Span, String)>) -> Diagnostic {
    let found = Diagnostic::warning(message).with_code(rule).with_label(span, format!("lint[{rule}]"));
    match fix {
        Some((title, at, new)) => found.with_fix(title, vec![(at, new)]),
        None => found,
    }
}

/// Methods of iterators that return an iterator.
const LAZY: [&str; 9] =
    ["chain", "enumerate", "filter", "flat_map", "map", "skip", "take", "take_while", "zip"];

impl<'a> Visitor<'a> for Rules<'a> {
    fn stmts(&mut self, stmts: &'a [Stmt]) {
        self.let_then_return(stmts);
        stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        self.else_return(stmt);
        match &stmt.kind {
            StmtKind::Let { ty, value, .. } => self.eager(ty.as_ref(), value),
            StmtKind::Decl(decl) => match &decl.kind {
                DeclKind::Fn(d) => self.results(&d.func),
                DeclKind::Tool(d) => self.results(&d.func),
                DeclKind::Pipeline(d) => self.results(&d.func),
                _ => {}
            },
            _ => {}
        }
        visit::walk_stmt(self, stmt);
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::MethodCall { args, .. } => self.clones(args),
            ExprKind::Ternary { cond, then, other } => self.ternary(expr, cond, then, other),
            ExprKind::Call { callee, args, .. } => {
                self.clones(args);
                if let (Some(name), [Arg { spread: false, value }]) = (callee.as_name(), args.as_slice()) {
                    self.cast(expr, name, value);
                }
            }
            _ => {}
        }
        visit::walk_expr(self, expr);
    }
}
