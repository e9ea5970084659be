//! Expressions without side effects: as a statement, they do nothing.

use harn_syntax::ast::*;
use harn_syntax::signature::Effect;
use harn_syntax::visit::{self, Visitor};

use super::uses::Uses;
use crate::world::Signatures;

/// Methods of lists and strings that change nothing and return a new value.
const GIVE_ANEW: [&str; 17] = [
    "chars",
    "concat",
    "filter",
    "lower",
    "lowercase",
    "map",
    "merge",
    "push",
    "replace",
    "reverse",
    "slice",
    "sort",
    "split",
    "to_set",
    "trim",
    "upper",
    "uppercase",
];

/// Returns whether an expression, of a kind that is written for its value, has no side effects.
pub(super) fn is_idle(value: &Expr, uses: &Uses<'_>, signatures: &dyn Signatures) -> bool {
    let mut search = Search { uses, signatures, runs: false };
    match &value.kind {
        ExprKind::Name(name) => name != "_",
        ExprKind::MethodCall { object, name, .. } if search.is_plain(object) && gives_anew(name) => true,
        ExprKind::Binary { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Logic { .. }
        | ExprKind::Ternary { .. }
        | ExprKind::Range { .. }
        | ExprKind::Member { .. }
        | ExprKind::Index { .. }
        | ExprKind::Slice { .. }
        | ExprKind::Call { .. }
        | ExprKind::MethodCall { .. }
        | ExprKind::Nil
        | ExprKind::Bool(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Duration(_)
        | ExprKind::Str(_)
        | ExprKind::Interp(_)
        | ExprKind::List(_)
        | ExprKind::Dict(_)
        | ExprKind::StructLit { .. }
        | ExprKind::Closure { .. }
        | ExprKind::Paren(_) => {
            search.expr(value);
            !search.runs
        }
        _ => false,
    }
}

/// Returns whether an expression may be intended to fail.
pub(super) fn may_fail(value: &Expr) -> bool {
    matches!(
        value.kind,
        ExprKind::Call { .. } | ExprKind::MethodCall { .. } | ExprKind::Index { .. } | ExprKind::Slice { .. }
    )
}

fn gives_anew(name: &Ident) -> bool {
    GIVE_ANEW.contains(&name.name.as_str())
}

struct Search<'s, 'a> {
    uses: &'s Uses<'a>,
    signatures: &'s dyn Signatures,
    /// Code runs that may have side effects.
    runs: bool,
}

impl Search<'_, '_> {
    /// Returns whether a name is bound to a list or string.
    fn is_plain(&self, object: &Expr) -> bool {
        object.as_name().is_some_and(|name| self.uses.is_plain(name))
    }

    /// Returns whether a value certainly has a built-in type, with known methods.
    fn is_made_here(&self, object: &Expr) -> bool {
        match &object.kind {
            ExprKind::Paren(inner) => self.is_made_here(inner),
            ExprKind::Str(_) | ExprKind::Interp(_) | ExprKind::List(_) => true,
            ExprKind::Dict(items) => items.iter().all(|item| matches!(item, DictItem::Entry { .. })),
            // Their receivers and callees are checked as well.
            ExprKind::MethodCall { .. } | ExprKind::Call { .. } | ExprKind::Range { .. } => true,
            _ => self.is_plain(object),
        }
    }

    /// Returns whether a call is that of a pure builtin whose result is its only purpose. A builtin that returns any
    /// value may be called to check whether it fails.
    fn is_pure(&self, callee: &Expr, args: &[Arg]) -> bool {
        let Some(name) = callee.as_name().filter(|name| !self.uses.is_declared(name)) else { return false };
        let Some(signature) = self.signatures.builtin(name) else { return false };
        // A generator argument would be advanced, and a function would be called.
        let takes = |(at, arg): (usize, &Arg)| {
            let parameter = signature.parameter(at);
            let hidden = matches!(
                arg.value.kind,
                ExprKind::Name(_)
                    | ExprKind::Member { .. }
                    | ExprKind::Index { .. }
                    | ExprKind::Closure { .. }
            );
            !arg.spread && parameter.is_some_and(|parameter| !hidden || takes_values(parameter.ty))
        };
        signature.effect == Effect::Pure
            && !matches!(signature.returns, "any" | "never" | "nil")
            && args.iter().enumerate().all(takes)
    }
}

/// Returns whether values of a type are neither consumed nor called.
fn takes_values(ty: &str) -> bool {
    !["any", "function", "closure", "builtin", "iter", "generator", "stream"]
        .iter()
        .any(|word| ty.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| part == *word))
}

impl<'a> Visitor<'a> for Search<'_, '_> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        self.runs |= !matches!(stmt.kind, StmtKind::Expr(_));
        visit::walk_stmt(self, stmt);
    }

    fn expr(&mut self, expr: &'a Expr) {
        self.runs |= match &expr.kind {
            ExprKind::Call { callee, args, .. } => !self.is_pure(callee, args),
            ExprKind::MethodCall { object, name, .. } => !gives_anew(name) || !self.is_made_here(object),
            ExprKind::Pipe { .. }
            | ExprKind::Propagate { .. }
            | ExprKind::TryStar(_)
            | ExprKind::Spawn(_)
            | ExprKind::Parallel(_)
            | ExprKind::Select(_)
            | ExprKind::Error => true,
            _ => false,
        };
        visit::walk_expr(self, expr);
    }
}
