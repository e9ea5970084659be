//! `override` of a missing function, which would replace nothing.

use harn_syntax::Diagnostic;
use harn_syntax::ast::Ident;

use crate::codes::CALL_TARGET;
use crate::pass::Pass;
use crate::scope::Lookup;
use harn_syntax::suggest::close;

/// Checks the name after `override`.
pub(crate) fn check<'a>(pass: &mut Pass<'a>, name: &'a Ident) {
    let unknown = matches!(pass.scopes.look_up(&name.name, name.span.start), Lookup::Missing)
        && !pass.world.signatures.is_builtin(&name.name)
        && !pass.is_opaque()
        && pass.imported_names().is_some_and(|names| !names.contains_key(&name.name));
    if !unknown {
        return;
    }
    let mut functions = pass.scopes.local_functions();
    functions.extend(pass.scopes.file_functions());
    let near = close(&name.name, functions).map(str::to_owned);
    let message = format!("`override {}` replaces nothing: the parent has no such function", name.name);
    let mut found = Diagnostic::error(message).with_code(CALL_TARGET).at(name.span);
    if let Some(near) = near {
        found.help = Some(format!("did you mean `{near}`?"));
        found = found.with_fix(format!("write `{near}`"), vec![(name.span, near)]);
    }
    pass.report(found);
}
