//! Operators on unsupported types.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{BinaryOp, Expr, ExprKind, Parallel};

use crate::codes::{ARGUMENT_TYPE, COMPARED_TYPES, OPERAND_TYPE};
use crate::pass::Pass;
use crate::types::{Ty, members};

/// The types of the rules for comparisons. The rules for arithmetic also cover durations.
const KNOWN: [&str; 7] = ["bool", "dict", "float", "int", "list", "nil", "string"];

/// Checks `a + b` and other arithmetic.
pub(crate) fn check<'a>(pass: &mut Pass<'a>, expr: &'a Expr) {
    let ExprKind::Binary { op, lhs, rhs, .. } = &expr.kind else { return };
    if is_order(*op) {
        return compared(pass, expr, *op, lhs, rhs);
    }
    if matches!(op, BinaryOp::Eq | BinaryOp::Ne) {
        return never_equal(pass, expr, *op, lhs, rhs);
    }
    if !matches!(
        op,
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem | BinaryOp::Pow
    ) {
        return;
    }
    let (left, right) = (pass.infer(lhs), pass.infer(rhs));
    let Some(diagnostic) = unfit(*op, &left, &right) else { return };
    let mut diagnostic = diagnostic.at(expr.span);
    let (Some(a), Some(b)) = (left.plain(), right.plain()) else { return pass.report(diagnostic) };
    if *op == BinaryOp::Add
        && let Some(text) = interpolated(pass.source.text, lhs, rhs)
    {
        diagnostic.help = Some(format!("interpolate the value: {text}"));
        diagnostic = diagnostic.with_fix(format!("write {text}"), vec![(expr.span, text)]);
    } else if *op == BinaryOp::Add && [a, b].contains(&"string") {
        diagnostic.help = Some("convert the other side: `to_string(value)`, or `to_int(text)`".to_owned());
    } else if [a, b].contains(&"task_handle") {
        diagnostic.help = Some("`await` gives the result of a task".to_owned());
    } else if *op == BinaryOp::Rem && a == "string" {
        // String concatenation as in Python and Ruby.
        diagnostic.help = Some("interpolate the value: \"... ${value}\"".to_owned());
    }
    pass.report(diagnostic);
}

/// Returns why an arithmetic operator certainly fails on two types. It is an error if the types are plain names;
/// otherwise a warning, and the program fails when it is reached.
pub(super) fn unfit(op: BinaryOp, left: &Ty, right: &Ty) -> Option<Diagnostic> {
    let head = |ty: &'_ Ty| match ty.plain() {
        Some("task_handle") => Some("task_handle"),
        plain => ty.word().filter(|_| op != BinaryOp::Add || plain.is_some()),
    };
    let (a, b) = (head(left)?, head(right)?);
    let is_known = |word: &str| KNOWN.contains(&word) || ["duration", "task_handle"].contains(&word);
    if !is_known(a) || !is_known(b) || works(op, a, b) {
        return None;
    }
    let shown = |ty: &Ty| ty.plain().map_or_else(|| ty.to_string(), str::to_owned);
    let (a, b) = (shown(left), shown(right));
    let message = match op {
        BinaryOp::Add => format!("can't add {a} and {b}"),
        BinaryOp::Mul => format!("can't multiply {a} and {b} (try string * int)"),
        other => format!("can't use '{}' on {a} and {b} (needs numeric operands)", other.symbol()),
    };
    let plain = [left, right].iter().all(|ty| ty.plain().is_some_and(|name| KNOWN.contains(&name)));
    let found = if plain { Diagnostic::error(message) } else { Diagnostic::warning(message) };
    Some(found.with_code(OPERAND_TYPE))
}

/// Returns whether an arithmetic operator supports two types.
fn works(op: BinaryOp, a: &str, b: &str) -> bool {
    let number = |word: &str| matches!(word, "int" | "float");
    if number(a) && number(b) {
        return true;
    }
    match op {
        BinaryOp::Add => a == b && matches!(a, "string" | "list" | "dict" | "duration"),
        BinaryOp::Sub | BinaryOp::Div => (a, b) == ("duration", "duration"),
        BinaryOp::Mul => matches!((a, b), ("string" | "duration", "int") | ("int", "string" | "duration")),
        _ => false,
    }
}

/// `"n=" + x` as one string.
fn interpolated(source: &str, lhs: &Expr, rhs: &Expr) -> Option<String> {
    let (text, other, text_first) = match (&lhs.kind, &rhs.kind) {
        (ExprKind::Str(_), ExprKind::Str(_)) => return None,
        (ExprKind::Str(_), _) => (lhs, rhs, true),
        (_, ExprKind::Str(_)) => (rhs, lhs, false),
        _ => return None,
    };
    let text = text.span.slice(source).strip_prefix('"')?.strip_suffix('"')?;
    let other = other.span.slice(source);
    if text.starts_with('"') || other.contains(['}', '"', '\n']) {
        return None;
    }
    Some(if text_first { format!("\"{text}${{{other}}}\"") } else { format!("\"${{{other}}}{text}\"") })
}

/// Reports a comparison of values of two types, which are never equal, and one with a literal that a union of literals does not
/// have.
fn never_equal<'a>(pass: &mut Pass<'a>, expr: &'a Expr, op: BinaryOp, lhs: &'a Expr, rhs: &'a Expr) {
    let always = if op == BinaryOp::Eq { "false" } else { "true" };
    let (left, right) = (pass.infer(lhs), pass.infer(rhs));
    if let (Some(a), Some(b)) = (left.word(), right.word())
        && a != b
        && ![a, b].contains(&"nil")
        && [a, b].iter().any(|word| !matches!(*word, "int" | "float"))
    {
        let message = format!("this is always {always}: {left} is never equal to {right}");
        let mut found = Diagnostic::warning(message).with_code(COMPARED_TYPES).at(expr.span);
        if [a, b].contains(&"string") && [a, b].iter().any(|word| matches!(*word, "int" | "float")) {
            found.help = Some("convert one side: `to_string(number)`, or `to_int(text)`".to_owned());
        }
        return pass.report(found);
    }
    for (value, literal) in [(lhs, rhs), (rhs, lhs)] {
        let word = match &literal.kind {
            ExprKind::Str(text) => Ty::Str(text.clone()),
            ExprKind::Int(number) => Ty::Int(*number),
            _ => continue,
        };
        let ty = pass.infer(value);
        let types = members(&ty);
        let is_literal = |ty: &Ty| matches!(ty, Ty::Str(_) | Ty::Int(_) | Ty::Nil);
        if types.len() > 1 && types.iter().all(is_literal) && !types.contains(&word) {
            let message = format!("this is always {always}: the value is {ty}");
            return pass.report(Diagnostic::warning(message).with_code(COMPARED_TYPES).at(expr.span));
        }
    }
}

fn is_order(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Lt | BinaryOp::Gt | BinaryOp::Le | BinaryOp::Ge)
}

/// Checks `a < b` and other comparisons.
fn compared<'a>(pass: &mut Pass<'a>, expr: &'a Expr, op: BinaryOp, lhs: &'a Expr, rhs: &'a Expr) {
    let (left, right) = (pass.infer(lhs), pass.infer(rhs));
    // `1 < n < 5` asks whether a bool is less than 5.
    if let ExprKind::Binary { op: inner, rhs: middle, .. } = &lhs.kind
        && is_order(*inner)
    {
        let slice = |expr: &Expr| expr.span.slice(pass.source.text);
        let (op, got) = (op.symbol(), right.plain().unwrap_or("any"));
        let message = format!("Comparison '{op}' may not be meaningful for types bool and {got}");
        let help = format!("both are asked: `{} && {} {op} {}`", slice(lhs), slice(middle), slice(rhs));
        return pass
            .report(Diagnostic::warning(message).with_code(COMPARED_TYPES).at(expr.span).with_help(help));
    }
    // `list<T>` is compared as a list.
    let kind = |ty: &'_ Ty| ty.word().or(ty.plain()).map(str::to_owned);
    let (Some(a), Some(b)) = (kind(&left), kind(&right)) else { return };
    let (a, b) = (a.as_str(), b.as_str());
    if !KNOWN.contains(&a) || !KNOWN.contains(&b) {
        return;
    }
    let orders = |word: &str| matches!(word, "int" | "float" | "string");
    let op = op.symbol();
    let message = match (a == "string", b == "string") {
        _ if !orders(a) || !orders(b) => {
            format!("Comparison '{op}' may not be meaningful for types {left} and {right}")
        }
        (true, false) | (false, true) => {
            format!("Comparing {a} with {b} using '{op}' may give unexpected results")
        }
        _ => return,
    };
    pass.report(Diagnostic::warning(message).with_code(COMPARED_TYPES).at(expr.span));
}

/// Checks the limit of a `parallel`.
pub(crate) fn max_concurrent<'a>(pass: &mut Pass<'a>, parallel: &'a Parallel) {
    let Some(limit) = &parallel.max_concurrent else { return };
    let got = pass.infer(limit);
    // Without a limit, and with nil for it, all run at once.
    if !pass.typing.fits(&Ty::union([Ty::Nil, Ty::named("int")]), &got) {
        let message = format!("`max_concurrent` on `parallel` must be int, got {got}");
        pass.report(Diagnostic::error(message).with_code(ARGUMENT_TYPE).at(limit.span));
    }
}
