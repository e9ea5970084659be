//! Paths through the body of a function that end without a value: the function then returns nil.

use harn_syntax::Span;
use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};

use crate::pass::Pass;
use crate::types::Ty;

impl<'a> Pass<'a> {
    /// Returns where a body ends without a value. Other checks handle the value of its last expression.
    pub(crate) fn end_without_value(&mut self, block: &'a Block) -> Option<Span> {
        if self.block_leaves(block) {
            return None;
        }
        let Some(last) = block.stmts.last() else { return Some(block.span) };
        match &last.kind {
            StmtKind::Expr(value) => self.expression_without_value(value),
            StmtKind::Mutex(body) => self.end_without_value(body),
            // A declaration takes effect at the start of the block, but is not its value.
            _ => Some(last.span),
        }
    }

    /// The same for a branch. A branch with the value nil is not reported elsewhere, because it may have side effects
    /// only.
    fn branch_without_value(&mut self, block: &'a Block) -> Option<Span> {
        if !self.block_leaves(block) && self.block_type(block) == Ty::Nil {
            return Some(block.stmts.last().map_or(block.span, |last| last.span));
        }
        self.end_without_value(block)
    }

    fn expression_without_value(&mut self, value: &'a Expr) -> Option<Span> {
        match &value.kind {
            ExprKind::Paren(inner) => self.expression_without_value(inner),
            ExprKind::If { else_body: None, .. } => Some(value.span),
            ExprKind::If { arms, else_body: Some(last) } => arms
                .iter()
                .map(|arm| &arm.body)
                .chain([last])
                .find_map(|body| self.branch_without_value(body)),
            ExprKind::Match { arms, .. } => arms.iter().find_map(|arm| self.branch_without_value(&arm.body)),
            ExprKind::Try { body, catch: Some(catch), .. } => {
                self.branch_without_value(body).or_else(|| self.branch_without_value(&catch.body))
            }
            ExprKind::Retry { body, .. } | ExprKind::Deadline { body, .. } => self.branch_without_value(body),
            _ => None,
        }
    }

    /// Returns whether the end of a block is unreachable. This is less strict than the rules for dead code, which
    /// must be certain.
    fn block_leaves(&mut self, block: &'a Block) -> bool {
        block.stmts.iter().any(|stmt| self.never_passes(stmt))
    }

    fn never_passes(&mut self, stmt: &'a Stmt) -> bool {
        match &stmt.kind {
            StmtKind::Return(_) | StmtKind::Throw(_) | StmtKind::Break | StmtKind::Continue => true,
            StmtKind::Require { cond, .. } => is_bool(cond, false),
            StmtKind::While { cond, body } => is_bool(cond, true) && !has_break(body),
            StmtKind::Mutex(body) => self.block_leaves(body),
            StmtKind::Expr(value) => self.expression_leaves(value),
            StmtKind::Let { value, .. } | StmtKind::Assign { value, .. } => self.infer(value) == Ty::Never,
            _ => false,
        }
    }

    fn expression_leaves(&mut self, value: &'a Expr) -> bool {
        match &value.kind {
            ExprKind::Paren(inner) => self.expression_leaves(inner),
            ExprKind::If { arms, else_body: Some(last) } => {
                arms.iter().all(|arm| self.block_leaves(&arm.body)) && self.block_leaves(last)
            }
            // A value without a matching arm throws.
            ExprKind::Match { arms, .. } => arms.iter().all(|arm| self.block_leaves(&arm.body)),
            ExprKind::Try { body, catch, finally } => {
                let caught = match catch {
                    Some(catch) => self.block_leaves(&catch.body),
                    None => true,
                };
                (self.block_leaves(body) && caught)
                    || finally.as_ref().is_some_and(|finally| self.block_leaves(finally))
            }
            ExprKind::Retry { body, .. } | ExprKind::Deadline { body, .. } => self.block_leaves(body),
            ExprKind::Select(select) => {
                let cases = select.cases.iter().map(|case| &case.body);
                let others = select.timeout.iter().map(|(_, body)| body).chain(&select.default);
                cases.chain(others).all(|body| self.block_leaves(body))
            }
            _ => self.infer(value) == Ty::Never,
        }
    }
}

fn is_bool(cond: &Expr, wanted: bool) -> bool {
    match &cond.kind {
        ExprKind::Paren(inner) => is_bool(inner, wanted),
        ExprKind::Bool(value) => *value == wanted,
        _ => false,
    }
}

/// Whether a `break` leaves the loop that a block is the body of.
fn has_break(body: &Block) -> bool {
    struct Breaks(bool);
    impl<'a> Visitor<'a> for Breaks {
        fn stmt(&mut self, stmt: &'a Stmt) {
            match &stmt.kind {
                StmtKind::Break => self.0 = true,
                StmtKind::For { .. } | StmtKind::While { .. } => {}
                _ => visit::walk_stmt(self, stmt),
            }
        }
        fn function(&mut self, _: &'a Function, _: &'a [TypeParam]) {}
    }
    let mut breaks = Breaks(false);
    breaks.block(body);
    breaks.0
}
