//! Operators on types that they do not work on.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{BinaryOp, Expr, ExprKind};

use crate::codes::OPERAND_TYPE;
use crate::walk::Pass;

/// The types that the rules are about.
const KNOWN: [&str; 7] = ["bool", "dict", "float", "int", "list", "nil", "string"];

/// Looks at `a + b` and its kin.
pub(crate) fn check<'a>(pass: &mut Pass<'a>, expr: &'a Expr) {
    let ExprKind::Binary { op, lhs, rhs, .. } = &expr.kind else { return };
    if !matches!(
        op,
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem | BinaryOp::Pow
    ) {
        return;
    }
    let (left, right) = (pass.infer(lhs), pass.infer(rhs));
    let (Some(a), Some(b)) = (left.plain(), right.plain()) else { return };
    if !KNOWN.contains(&a) || !KNOWN.contains(&b) {
        return;
    }
    let number = |word: &str| matches!(word, "int" | "float");
    let numbers = number(a) && number(b);
    let message = match op {
        BinaryOp::Add if numbers || (a == b && matches!(a, "string" | "list" | "dict")) => return,
        BinaryOp::Add => format!("can't add {a} and {b}"),
        BinaryOp::Mul if numbers || matches!((a, b), ("string", "int") | ("int", "string")) => return,
        BinaryOp::Mul => format!("can't multiply {a} and {b} (try string * int)"),
        _ if numbers => return,
        other => format!("can't use '{}' on {a} and {b} (needs numeric operands)", other.symbol()),
    };
    pass.report(Diagnostic::error(message).with_code(OPERAND_TYPE).at(expr.span));
}
