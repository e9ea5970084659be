//! Statements after one that always leaves the block.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{Block, ExprKind, Stmt, StmtKind};

use crate::codes::UNREACHABLE;
use crate::pass::Pass;

/// Reports the first dead statement of a block; returns how many statements are alive.
pub(crate) fn check(pass: &mut Pass<'_>, stmts: &[Stmt]) -> usize {
    if let Some(dead) = dead(stmts) {
        pass.report(Diagnostic::warning("unreachable code").with_code(UNREACHABLE).at(dead.span));
    }
    live(stmts)
}

/// Returns the number of reachable statements of a block.
fn live(stmts: &[Stmt]) -> usize {
    stmts.iter().position(exits).map_or(stmts.len(), |exit| exit + 1)
}

/// Returns the first dead statement of a block. Declarations take effect at its start, so none of them is dead.
pub(crate) fn dead(stmts: &[Stmt]) -> Option<&Stmt> {
    stmts[live(stmts)..].iter().find(|stmt| !matches!(stmt.kind, StmtKind::Decl(_) | StmtKind::Import(_)))
}

/// Returns whether the code after a statement is unreachable.
fn exits(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Return(_) | StmtKind::Throw(_) | StmtKind::Break | StmtKind::Continue => true,
        StmtKind::Expr(expr) => match &expr.kind {
            ExprKind::If { arms, else_body: Some(last) } => {
                arms.iter().all(|arm| block_exits(&arm.body)) && block_exits(last)
            }
            _ => false,
        },
        _ => false,
    }
}

/// Returns whether the end of a block is unreachable.
pub(crate) fn block_exits(block: &Block) -> bool {
    block.stmts.iter().any(exits)
}
