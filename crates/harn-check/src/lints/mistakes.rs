//! Valid syntax that fails or has no effect at its place.

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Span};

use crate::checks::dead;
use crate::codes::*;
use crate::types::BUILTIN;

/// Runs the rules of this file.
pub(super) fn run(text: &str, tree: &Program) -> Vec<Diagnostic> {
    let mut rules = Rules { text, out: Vec::new(), loops: 0, functions: 0, in_pipeline: false };
    rules.stmts(&tree.items);
    rules.out
}

/// Returns whether a name is a type of Harn or of another language, or looks like one.
fn is_type(name: &str) -> bool {
    let is_foreign = || harn_syntax::habits::type_instead_of(name).is_some();
    name == "any"
        || BUILTIN.contains(&name)
        || is_foreign()
        || name.starts_with(|c: char| c.is_ascii_uppercase())
}

struct Rules<'a> {
    text: &'a str,
    out: Vec<Diagnostic>,
    /// The loops around this place, within its function.
    loops: usize,
    /// The number of enclosing functions; the body of a pipeline is not a function.
    functions: usize,
    in_pipeline: bool,
}

impl<'a> Rules<'a> {
    fn report(&mut self, rule: &'static str, span: Span, message: String, help: &str) {
        self.keep(rule, span, Diagnostic::warning(message).with_help(help));
    }

    fn keep(&mut self, rule: &'static str, span: Span, found: Diagnostic) {
        self.out.push(found.with_code(rule).with_label(span, format!("lint[{rule}]")));
    }

    fn slice(&self, span: Span) -> &'a str {
        span.slice(self.text)
    }

    fn operands(&mut self, expr: &Expr, op: BinaryOp, sides: [&Expr; 2]) {
        let arithmetic = matches!(
            op,
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem | BinaryOp::Pow
        );
        if arithmetic && sides.iter().any(|side| matches!(side.kind, ExprKind::Bool(_) | ExprKind::Nil)) {
            let message = format!(
                "operator '{}' used with boolean or nil literal — this will cause a runtime error",
                op.symbol()
            );
            let found = Diagnostic::warning(message).with_help("write a number or a text");
            let found = match self.in_text(op, sides) {
                Some(text) => found.with_fix("put the value into the text", vec![(expr.span, text)]),
                None => found,
            };
            self.keep(BOOL_OPERAND, expr.span, found);
        }
    }

    /// `"a" + true` as one string.
    fn in_text(&self, op: BinaryOp, [lhs, rhs]: [&Expr; 2]) -> Option<String> {
        let text = |side: &Expr| {
            let is_text = matches!(side.kind, ExprKind::Str(_) | ExprKind::Interp(_));
            let written = self.slice(side.span);
            let inner = written.strip_prefix('"')?.strip_suffix('"')?;
            (is_text && !written.starts_with("\"\"\"")).then_some(inner)
        };
        let (left, right) = (self.slice(lhs.span), self.slice(rhs.span));
        match (op, text(lhs), text(rhs)) {
            (BinaryOp::Add, Some(text), None) => Some(format!("\"{text}${{{right}}}\"")),
            (BinaryOp::Add, None, Some(text)) => Some(format!("\"${{{left}}}{text}\"")),
            _ => None,
        }
    }

    /// `a int` declares two fields, because commas between fields are optional.
    fn fields(&mut self, fields: &[StructField]) {
        for pair in fields.windows(2) {
            let [field, next] = pair else { continue };
            let gap = Span { start: field.name.span.end, end: next.name.span.start };
            let between = self.slice(gap);
            let blank = between.strip_prefix('?').unwrap_or(between);
            let (name, ty) = (field.name.name.as_str(), next.name.name.as_str());
            if field.ty.is_some()
                || blank.is_empty()
                || !blank.trim_matches([' ', '\t']).is_empty()
                || !is_type(ty)
            {
                continue;
            }
            let mark = if field.optional { "?" } else { "" };
            let message = format!("`{name}{mark} {ty}` declares two fields, `{name}` and `{ty}`");
            let found = Diagnostic::warning(message).with_help(format!(
                "the type of a field stands behind `:`: `{name}{mark}: {ty}`; two fields, with a comma"
            ));
            self.keep(FIELD_WITHOUT_COLON, field.name.span.to(next.name.span), found);
        }
    }

    fn condition(&mut self, cond: &Expr) {
        if let ExprKind::Bool(value) = cond.kind {
            let message = format!("if condition is always `{value}`");
            let help = "write what is meant, or the branch alone";
            self.report(POINTLESS_COMPARISON, cond.span, message, help);
        }
    }
}

impl<'a> Visitor<'a> for Rules<'a> {
    fn stmts(&mut self, stmts: &'a [Stmt]) {
        if let Some(dead) = dead(stmts) {
            let message = "unreachable code after a terminating statement".to_owned();
            self.report(
                DEAD_CODE,
                dead.span,
                message,
                "remove it, or move it before the statement that leaves",
            );
        }
        stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Break | StmtKind::Continue if self.loops == 0 => {
                let message =
                    format!("`{}` used outside of a loop", self.slice(stmt.span).trim_end_matches(';'));
                let found = Diagnostic::error(message).with_help("to leave a function, use `return`");
                self.keep(BREAK_OUTSIDE, stmt.span, found);
            }
            StmtKind::Yield(_) if self.functions == 0 => {
                let message = "this value is yielded outside of a generator".to_owned();
                let help = "use `yield` only inside a function, which then returns a generator";
                self.report(UNUSED_RESULT, stmt.span, message, help);
            }
            StmtKind::For { .. } | StmtKind::While { .. } => {
                self.loops += 1;
                visit::walk_stmt(self, stmt);
                self.loops -= 1;
                return;
            }
            _ => {}
        }
        visit::walk_stmt(self, stmt);
    }

    fn decl(&mut self, decl: &'a Decl) {
        if let DeclKind::Struct(d) = &decl.kind {
            self.fields(&d.fields);
        }
        if let DeclKind::Pipeline(pipeline) = &decl.kind {
            let name = pipeline.name.name.as_str();
            let free = matches!(name, "default" | "main" | "auto") || name.starts_with("test");
            if decl.is_pub && !free && pipeline.func.ret.is_none() {
                let message = format!("public pipeline `{name}` does not say what it returns");
                self.report(
                    PIPELINE_RETURN,
                    pipeline.name.span,
                    message,
                    "write its type: `-> dict`, `-> nil`",
                );
            }
        }
        self.in_pipeline = matches!(decl.kind, DeclKind::Pipeline(_));
        visit::walk_decl(self, decl);
        self.in_pipeline = false;
    }

    fn function(&mut self, func: &'a Function, _: &'a [TypeParam]) {
        let loops = std::mem::take(&mut self.loops);
        let inner = usize::from(!std::mem::take(&mut self.in_pipeline));
        self.functions += inner;
        visit::walk_function(self, func);
        self.functions -= inner;
        self.loops = loops;
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Binary { op, lhs, rhs, .. } => self.operands(expr, *op, [lhs, rhs]),
            ExprKind::If { arms, .. } => arms.iter().for_each(|arm| self.condition(&arm.cond)),
            _ => {}
        }
        visit::walk_expr(self, expr);
    }
}
