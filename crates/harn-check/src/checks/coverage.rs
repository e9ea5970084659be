//! Places that require exhaustive tests: `unreachable(x)`, a `throw` or a call of a function that never returns,
//! after tests of the type of an `unknown` value.

use harn_syntax::ast::{Arg, Expr};
use harn_syntax::{Diagnostic, Span};

use crate::codes::{NOT_COVERED, STILL_REACHED};
use crate::pass::Pass;
use crate::scope::Lookup;
use crate::types::Ty;

/// Checks the call of a name.
pub(crate) fn check<'a>(
    pass: &mut Pass<'a>,
    name: &'a str,
    call: &'a Expr,
    args: &'a [Arg],
    found: &Lookup<'a>,
) {
    if name == "unreachable" && matches!(found, Lookup::Missing) {
        if let [Arg { value, spread: false }] = args
            && value.as_name().is_some()
        {
            let ty = pass.infer(value);
            if !matches!(ty, Ty::Never | Ty::Any | Ty::Unknown) {
                let message = format!("unreachable() argument has type `{ty}` — not all cases are handled");
                pass.report(Diagnostic::error(message).with_code(STILL_REACHED).at(call.span));
            }
        }
        leaving(pass, call.span, "unreachable()");
    } else if let Some(called) = pass.called(name, found)
        && called.is_own
        && called.decl.func.ret.as_ref().is_some_and(|ret| pass.typing.resolve(ret) == Ty::Never)
    {
        leaving(pass, call.span, &format!("{name}()"));
    }
}

/// Checks a place that never continues: an `unknown` value that was tested must have been tested for all types.
pub(crate) fn leaving(pass: &mut Pass<'_>, span: Span, site: &str) {
    for (def, left) in pass.flow.half_covered() {
        let Some(name) = pass.scopes.name_of(def) else { continue };
        let message = format!(
            "`{site}` reached but `{name}: unknown` was not fully narrowed — uncovered concrete type(s): {}",
            left.join(", ")
        );
        pass.report(Diagnostic::warning(message).with_code(NOT_COVERED).at(span));
    }
}
