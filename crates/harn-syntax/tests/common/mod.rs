//! Helpers shared by several test modules.
#![allow(dead_code, reason = "every test file uses a part")]

pub(crate) mod sexpr;

use harn_syntax::ast::{Expr, Program, Stmt, StmtKind};
use harn_syntax::{SourceFile, parse};

/// Parses a source that must have no errors.
pub(crate) fn program(source: &str) -> Program {
    let parsed = parse(source);
    let errors: Vec<_> = parsed.errors.iter().map(|error| error.canonical(source)).collect();
    assert!(errors.is_empty(), "{source}\n{errors:?}");
    parsed.program
}

/// Parses one statement.
pub(crate) fn stmt(source: &str) -> Stmt {
    let mut items = program(source).items;
    assert_eq!(items.len(), 1, "{source}");
    items.remove(0)
}

/// Parses one expression statement.
pub(crate) fn expr(source: &str) -> Expr {
    match stmt(source).kind {
        StmtKind::Expr(expr) => expr,
        other => panic!("{source}: {other:?}"),
    }
}

/// Returns the canonical messages of all errors.
pub(crate) fn canonical(source: &str) -> Vec<String> {
    parse(source).errors.iter().map(|error| error.canonical(source)).collect()
}

/// Returns the source and all rendered errors.
pub(crate) fn rendered(source: &str) -> String {
    let file = SourceFile::new("main.harn", source);
    let errors = parse(source).errors;
    assert!(!errors.is_empty(), "{source}");
    let drawn: Vec<_> = errors.iter().map(|error| error.diagnostic(source).render(&file, false)).collect();
    format!("{source}\n~~~\n{}", drawn.join("\n"))
}
