//! `emit` belongs into a `gen fn`, `yield` into any other function.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{Stmt, StmtKind};

use crate::codes::{EMIT_OUTSIDE, YIELD_INSIDE};
use crate::pass::Pass;

/// Checks an `emit` or `yield` and the enclosing function.
pub(crate) fn check(pass: &mut Pass<'_>, stmt: &Stmt) {
    let in_stream = pass.streams.last().copied().unwrap_or(false);
    let diagnostic = match (&stmt.kind, in_stream) {
        (StmtKind::Emit(_), false) => {
            let nested = pass.streams.contains(&true);
            let help = if nested {
                "the innermost function around it is not the `gen fn` itself; collect the values and emit them there"
            } else {
                "declare the function with `gen fn`, or write `yield` to make it a generator"
            };
            Diagnostic::error("`emit` can only be used inside a `gen fn`")
                .with_code(EMIT_OUTSIDE)
                .with_help(help)
        }
        (StmtKind::Yield(_), true) => {
            Diagnostic::error("`yield` is not a stream emit; use `emit` inside `gen fn`")
                .with_code(YIELD_INSIDE)
        }
        _ => return,
    };
    pass.report(diagnostic.at(stmt.span));
}
