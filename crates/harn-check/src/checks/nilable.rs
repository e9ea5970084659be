//! Operations on values that may be nil, and methods that not every member of a union has.

use harn_syntax::ast::{BinaryOp, Expr, ExprKind, Ident, UnaryOp};
use harn_syntax::{Diagnostic, Span};

use crate::codes::{MAY_BE_NIL, UNKNOWN_METHOD};
use crate::pass::Pass;
use crate::types::{Ty, members};

/// Checks an expression whose parts have been walked.
pub(crate) fn check<'a>(pass: &mut Pass<'a>, expr: &'a Expr) {
    match &expr.kind {
        ExprKind::MethodCall { object, name, optional: false, .. } => {
            let fails = format!("nil has no method `{}`", name.name);
            let is_reported = report(pass, object, object.span, &fails, Some("?."));
            if !is_reported {
                of_union(pass, object, name);
            }
        }
        ExprKind::Member { object, name, optional: false } => {
            report(pass, object, object.span, &format!("nil has no field `{}`", name.name), Some("?."));
        }
        ExprKind::Index { object, optional: false, .. } | ExprKind::Slice { object, .. } => {
            report(pass, object, object.span, "nil has no items", None);
        }
        ExprKind::Call { callee, .. } => {
            report(pass, callee, callee.span, "nil cannot be called", None);
        }
        ExprKind::Unary { op: UnaryOp::Neg, operand, .. } => {
            report(pass, operand, operand.span, "`-` fails for nil", None);
        }
        ExprKind::Binary { op, lhs, rhs, .. } if !compares(*op) => {
            let fails = format!("`{}` fails for nil", op.symbol());
            let _ = report(pass, lhs, lhs.span, &fails, None) || report(pass, rhs, rhs.span, &fails, None);
        }
        _ => {}
    }
}

/// Reports the value of a compound assignment.
pub(crate) fn assigned<'a>(pass: &mut Pass<'a>, op: BinaryOp, value: &'a Expr) {
    report(pass, value, value.span, &format!("`{}=` fails for nil", op.symbol()), None);
}

/// Returns a finding if an argument may be nil and the parameter takes everything else that it may be.
pub(crate) fn argument<'a>(pass: &mut Pass<'a>, name: &str, value: &'a Expr) -> Option<Diagnostic> {
    finding(pass, value, value.span, &format!("`{name}` does not take nil"), None)
}

/// Whether an operator takes nil.
fn compares(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Eq | BinaryOp::Ne | BinaryOp::In | BinaryOp::NotIn)
}

fn report<'a>(pass: &mut Pass<'a>, value: &'a Expr, at: Span, fails: &str, chain: Option<&str>) -> bool {
    let found = finding(pass, value, at, fails, chain);
    let is_found = found.is_some();
    found.into_iter().for_each(|found| pass.report(found));
    is_found
}

fn finding<'a>(
    pass: &mut Pass<'a>,
    value: &'a Expr,
    at: Span,
    fails: &str,
    chain: Option<&str>,
) -> Option<Diagnostic> {
    // The result of a builtin is a `OneOf`: the program may know that it is not nil.
    let Ty::Union(types) = pass.infer(value) else { return None };
    if !types.contains(&Ty::Nil) {
        return None;
    }
    let text = value.span.slice(pass.source.text);
    let shown =
        if text.len() <= 40 && !text.contains('\n') { format!("`{text}`") } else { "this value".to_owned() };
    let found = Diagnostic::warning(format!("{shown} may be nil: {fails}")).with_code(MAY_BE_NIL).at(at);
    let (name, chain) = match value.kind {
        ExprKind::Name(_) | ExprKind::Member { .. } => (text, chain),
        _ => ("value", chain),
    };
    let chain = chain.map_or(String::new(), |chain| format!(" use `{chain}`,"));
    Some(found.with_help(format!("test it before (`if {name} != nil`),{chain} or give a default with `??`")))
}

/// Reports a method that some members of a union do not have.
fn of_union<'a>(pass: &mut Pass<'a>, object: &'a Expr, name: &Ident) {
    // A list that is written out may have a fixed type at each index.
    if matches!(object.kind, ExprKind::Index { .. }) {
        return;
    }
    let ty = pass.infer(object);
    let Ty::Union(types) = &ty else { return };
    let words: Option<Vec<&'static str>> = members(&ty).iter().map(Ty::word).collect();
    let Some(words) = words.filter(|words| !words.contains(&"dict") && types.len() > 1) else { return };
    let lacks = |word: &&'static str| pass.world.signatures.method(word, &name.name).is_none();
    if let Some(word) = words.into_iter().find(lacks) {
        let message = format!("unknown method `{}` on {word}: the value is {ty}", name.name);
        let found = Diagnostic::warning(message).with_code(UNKNOWN_METHOD).at(name.span);
        pass.report(found.with_help("test its type before: `if type_of(value) == \"...\"`"));
    }
}
