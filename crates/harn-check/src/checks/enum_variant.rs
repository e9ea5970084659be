//! Variants of enums, where they are made and where they are matched.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{EnumDecl, Expr, Ident};

use crate::codes::UNKNOWN_VARIANT;
use crate::pass::Pass;
use crate::suggest::nearest;

/// Looks at `object.name` or `object.name(args)`; whether the object is an enum.
pub(crate) fn check(pass: &mut Pass<'_>, object: &Expr, name: &Ident) -> bool {
    let Some(decl) = pass.enum_named(object) else { return false };
    variant(pass, decl, name);
    true
}

/// Looks at a pattern `Enum.variant`.
pub(crate) fn pattern(pass: &mut Pass<'_>, enum_name: &Ident, name: &Ident) {
    if let Some(decl) = pass.enum_of(&enum_name.name, enum_name.span.start) {
        variant(pass, decl, name);
    }
}

fn variant(pass: &mut Pass<'_>, decl: &EnumDecl, name: &Ident) {
    let names = || decl.variants.iter().map(|variant| variant.name.name.as_str());
    if names().any(|known| known == name.name) {
        return;
    }
    let message = format!("Unknown variant '{}' in enum '{}'", name.name, decl.name.name);
    let mut diagnostic = Diagnostic::warning(message).with_code(UNKNOWN_VARIANT).at(name.span);
    diagnostic.help = match nearest(&name.name, names()) {
        Some(near) => Some(format!("did you mean `{near}`?")),
        None => Some(format!("it has {}", names().collect::<Vec<_>>().join(", "))),
    };
    pass.report(diagnostic);
}
