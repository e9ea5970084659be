//! Top-level statements of a file with pipelines: only declarations and variables take effect.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{Stmt, StmtKind};

use crate::codes::NOT_EXECUTED;
use crate::pass::Pass;

/// Reports the first statement that is not executed.
pub(crate) fn check(pass: &mut Pass<'_>, items: &[Stmt]) {
    let mut ignored = items
        .iter()
        .filter(|item| !matches!(item.kind, StmtKind::Import(_) | StmtKind::Decl(_) | StmtKind::Let { .. }));
    let Some(first) = ignored.next() else { return };
    let mut diagnostic = Diagnostic::warning("top-level statement is never executed: the file has pipelines")
        .with_code(NOT_EXECUTED)
        .at(first.span)
        .with_help("move it into a pipeline, or into a function that a pipeline calls");
    let others = ignored.count();
    if others > 0 {
        let word = if others == 1 { "statement is" } else { "statements are" };
        diagnostic = diagnostic.with_note(format!("{others} more top-level {word} not executed either"));
    }
    pass.report(diagnostic);
}
