//! Side effects of evaluating an expression on the enclosing function, apart from its value or error.
//!
//! Expressions may contain blocks of the same function (`if`, `match`, `try`, ...), so an operand may assign variables
//! that were read before, or leave the function. Every optimization of the compiler that uses a variable in place,
//! moves it early, or stores a partial result must check its safety here, and only here.

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use smallvec::SmallVec;

/// Side effects of an expression. Nested functions are not included: the variables that they share are cells.
#[derive(Default)]
pub(super) struct Effects {
    /// Variables that it may assign, by name. Assigning an inner variable that shadows an outer one marks both.
    assigned: SmallVec<[Name; 2]>,
    /// Whether it may end or repeat an enclosing loop.
    pub(super) jumps: bool,
    /// Whether it may return from the function (`return`, `?`).
    pub(super) returns: bool,
    /// Whether the function may be suspended in it and never resumed (`yield`).
    pub(super) yields: bool,
}

impl Effects {
    /// Returns the effects of one expression.
    pub(super) fn of(e: &Expr) -> Effects {
        Effects::of_all([e])
    }

    /// Returns the combined effects of several expressions.
    pub(super) fn of_all<'e>(list: impl IntoIterator<Item = &'e Expr>) -> Effects {
        let mut walk = Walk::default();
        list.into_iter().for_each(|e| walk.expr(e));
        walk.effects
    }

    /// Returns the effects of choosing an arm of a `match`: its patterns and guards.
    pub(super) fn of_choice(arms: &[MatchArm]) -> Effects {
        let mut walk = Walk::default();
        for arm in arms {
            arm.patterns.iter().for_each(|p| walk.match_pattern(p));
            arm.guard.iter().for_each(|e| walk.expr(e));
        }
        walk.effects
    }

    /// Returns the effects of a block of statements.
    pub(super) fn of_block(block: &Block) -> Effects {
        let mut walk = Walk::default();
        walk.block(block);
        walk.effects
    }

    /// Returns whether it may assign the variable.
    pub(super) fn assigns(&self, name: &str) -> bool {
        self.assigned.iter().any(|n| n == name)
    }

    /// Returns whether the code after it may never run although nothing was thrown.
    pub(super) fn leaves(&self) -> bool {
        self.jumps || self.returns || self.yields
    }
}

#[derive(Default)]
struct Walk {
    effects: Effects,
    /// Number of enclosing loops that are part of the expression.
    loops: u32,
}

impl<'a> Visitor<'a> for Walk {
    fn function(&mut self, _func: &'a Function, _type_params: &'a [TypeParam]) {}

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Assign { target, .. } => self.effects.assigned.push(target.root.name.clone()),
            StmtKind::Break | StmtKind::Continue => self.effects.jumps |= self.loops == 0,
            StmtKind::Return(_) => self.effects.returns = true,
            StmtKind::Yield(_) | StmtKind::Emit(_) => self.effects.yields = true,
            // The condition of a `while` is part of the loop; the iterated value of a `for` is not.
            StmtKind::While { .. } => {
                self.loops += 1;
                visit::walk_stmt(self, stmt);
                self.loops -= 1;
                return;
            }
            _ => {}
        }
        visit::walk_stmt(self, stmt);
    }

    fn for_body(&mut self, pattern: &'a Pattern, body: &'a Block) {
        self.loops += 1;
        self.pattern(pattern);
        self.block(body);
        self.loops -= 1;
    }

    fn expr(&mut self, expr: &'a Expr) {
        self.effects.returns |= matches!(expr.kind, ExprKind::Propagate { .. });
        visit::walk_expr(self, expr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the effects of the value of a `let`.
    fn effects(text: &str) -> Effects {
        let parsed = harn_syntax::parse(&format!("while true {{ let v = {text}\n}}"));
        assert!(parsed.errors.is_empty(), "{text}");
        let StmtKind::While { body, .. } = &parsed.program.items[0].kind else { panic!("a loop") };
        let StmtKind::Let { value, .. } = &body.stmts[0].kind else { panic!("a variable") };
        Effects::of(value)
    }

    #[test]
    fn assignments_anywhere_but_in_functions() {
        for text in [
            "1 + (if true { x = 2\n3 } else { 4 })",
            "[1, {a: \"${try { x += 1 }}\"}]",
            "f(match 1 { _ -> { x.y[1] = 2\n3 } })",
            "retry 2 { x[0] = 1 }",
            "if true { for i in [1] { x = i } }",
        ] {
            assert!(effects(text).assigns("x"), "{text}");
            assert!(!effects(text).assigns("y"), "{text}");
        }
        for text in ["{ -> x = 1 }", "spawn { x = 1 }", "parallel 2 { i -> x = i }", "x + f(x)"] {
            assert!(!effects(text).assigns("x"), "{text}");
        }
    }

    #[test]
    fn ways_out() {
        let leaving = ["if true { break }", "f(try { continue })", "if true { return 1 } else { 2 }", "f()?"];
        for text in leaving {
            assert!(effects(text).leaves(), "{text}");
        }
        for text in ["if true { while true { break } }", "{ -> return 1 }", "if f() { 1 } else { throw 2 }"] {
            assert!(!effects(text).leaves(), "{text}");
        }
        assert!(effects("if true { for x in (if true { break } else { [] }) { } }").jumps);
    }
}
