//! What evaluating an expression may do to the function around it, besides giving a value or throwing.
//!
//! Expressions may contain blocks of the same function (`if`, `match`, `try`, ...), so an operand may assign variables
//! that were read before, or leave in the middle. Every shortcut of the compiler that uses a variable in place, moves
//! it away early, or stores a part of a result asks here, and nowhere else.

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use smallvec::SmallVec;

/// What an expression may do. Functions inside of it are none of its doing: variables that they share are cells.
#[derive(Default)]
pub(super) struct Effects {
    /// Variables it may assign, by name: a variable of its own with the name of another one counts for both.
    assigned: SmallVec<[Name; 2]>,
    /// Whether it may end or repeat a loop that is around it.
    pub(super) jumps: bool,
    /// Whether it may return from the function (`return`, `?`).
    pub(super) returns: bool,
    /// Whether the function may be suspended in it for good (`yield`).
    pub(super) yields: bool,
}

impl Effects {
    /// Of one expression.
    pub(super) fn of(e: &Expr) -> Effects {
        Effects::of_all([e])
    }

    /// Of several expressions together.
    pub(super) fn of_all<'e>(list: impl IntoIterator<Item = &'e Expr>) -> Effects {
        let mut walk = Walk::default();
        list.into_iter().for_each(|e| walk.expr(e));
        walk.effects
    }

    /// Of choosing an arm of a `match`: its patterns and guards.
    pub(super) fn of_choice(arms: &[MatchArm]) -> Effects {
        let mut walk = Walk::default();
        for arm in arms {
            arm.patterns.iter().for_each(|p| walk.match_pattern(p));
            arm.guard.iter().for_each(|e| walk.expr(e));
        }
        walk.effects
    }

    /// Of a block of statements.
    pub(super) fn of_block(block: &Block) -> Effects {
        let mut walk = Walk::default();
        walk.block(block);
        walk.effects
    }

    /// Whether it may assign the variable.
    pub(super) fn assigns(&self, name: &str) -> bool {
        self.assigned.iter().any(|n| n == name)
    }

    /// Whether what follows may never run, although nothing was thrown.
    pub(super) fn leaves(&self) -> bool {
        self.jumps || self.returns || self.yields
    }
}

#[derive(Default)]
struct Walk {
    effects: Effects,
    /// Loops of the expression's own that are around.
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
            // The condition of a `while` belongs to the loop, what a `for` goes over does not.
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

    /// The effects of the value of a `let`.
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
