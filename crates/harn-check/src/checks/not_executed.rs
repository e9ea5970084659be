//! Code that looks as if it were executed: top-level statements of a file with pipelines, where only declarations and variables
//! take effect, and a function `main` that nothing calls.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{DeclKind, Stmt, StmtKind};

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

/// Reports a private function `main` of a file without statements at its top level: no program calls it by itself.
pub(crate) fn check_main(pass: &mut Pass<'_>, items: &[Stmt]) {
    let mut main = None;
    for item in items {
        match &item.kind {
            StmtKind::Import(_) => {}
            StmtKind::Decl(decl) => match &decl.kind {
                DeclKind::Fn(function) if function.name.name == "main" && !decl.is_pub => {
                    main = Some(function)
                }
                _ => {}
            },
            _ => return,
        }
    }
    let Some(main) = main else { return };
    pass.report(
        Diagnostic::warning(
            "`main` is never called: a file without pipelines runs its top-level statements, and it has none",
        )
        .with_code(NOT_EXECUTED)
        .at(main.name.span)
        .with_help("call it at the end of the file: `main()`"),
    );
}
