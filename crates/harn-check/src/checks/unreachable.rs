//! Statements behind one that always leaves the block.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{Block, ExprKind, Stmt, StmtKind};

use crate::codes::UNREACHABLE;
use crate::pass::Pass;

/// Reports the first dead statement of a block; returns how many statements are alive.
pub(crate) fn check(pass: &mut Pass<'_>, stmts: &[Stmt]) -> usize {
    let Some(exit) = stmts.iter().position(exits) else { return stmts.len() };
    let live = exit + 1;
    // Declarations take effect at the start of their block, so that none of them is dead.
    let dead =
        stmts[live..].iter().find(|stmt| !matches!(stmt.kind, StmtKind::Decl(_) | StmtKind::Import(_)));
    if let Some(dead) = dead {
        pass.report(Diagnostic::warning("unreachable code").with_code(UNREACHABLE).at(dead.span));
    }
    live
}

/// Whether control never passes a statement.
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

/// Whether control never passes the end of a block.
pub(crate) fn block_exits(block: &Block) -> bool {
    block.stmts.iter().any(exits)
}
