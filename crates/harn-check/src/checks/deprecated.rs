//! Calls of functions marked `@deprecated(since: s, use: n)`.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{AttrValue, Attribute, Expr};

use crate::codes::DEPRECATED;
use crate::infer::Called;
use crate::pass::Pass;
use crate::scope::Lookup;

/// Checks the attributes of the callee.
pub(crate) fn check<'a>(pass: &mut Pass<'a>, name: &'a str, call: &Expr, found: &Lookup<'a>) {
    let Some(Called { decl, attrs, .. }) = pass.called(name, found) else { return };
    let Some(attr) = attrs.iter().find(|attr| attr.name.name == "deprecated") else { return };
    let since = text(attr, "since").map(|since| format!(" (since {since})")).unwrap_or_default();
    let message = format!("`{}` is deprecated{since}", decl.name.name);
    let mut diagnostic = Diagnostic::warning(message).with_code(DEPRECATED).at(call.span);
    diagnostic.help = text(attr, "use").map(|other| format!("use `{other}` instead"));
    pass.report(diagnostic);
}

/// Returns the string of a named argument.
fn text<'a>(attr: &'a Attribute, name: &str) -> Option<&'a str> {
    let arg = attr.args.iter().find(|arg| arg.name.as_ref().is_some_and(|known| known.name == name))?;
    match &arg.value {
        AttrValue::Str(text) | AttrValue::Name(text) => Some(text),
        _ => None,
    }
}
