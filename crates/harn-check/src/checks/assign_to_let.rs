//! Assignments to variables declared with `let`.

use harn_syntax::Diagnostic;
use harn_syntax::ast::Target;

use crate::codes::ASSIGN_TO_LET;
use crate::pass::Pass;
use crate::scope::{Kind, Lookup};

/// Looks up the variable of an assignment.
pub(crate) fn check(pass: &mut Pass<'_>, target: &Target) {
    let name = &target.root.name;
    let Lookup::Is(Kind::Let | Kind::Closure) = pass.scopes.look_up(name, target.span.start) else { return };
    let message = format!("Cannot assign to '{name}': variable is immutable (declared with 'let')");
    let diagnostic = Diagnostic::warning(message)
        .with_code(ASSIGN_TO_LET)
        .at(target.span)
        .with_help("declare it with `var`, or give the new value another name");
    pass.report(diagnostic);
}
