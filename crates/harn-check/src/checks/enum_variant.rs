//! Variants of enums, in constructors and patterns.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{Arg, EnumDecl, Expr, Ident, Name, VariantField};

use super::argument::THE_ARGUMENT;
use crate::codes::{PAYLOAD, UNKNOWN_VARIANT};
use crate::pass::Pass;
use crate::types::{Ty, Typing, type_text};
use harn_syntax::suggest::close;

/// Checks `object.name` or `object.name(args)`; returns whether the object is an enum.
pub(crate) fn check(pass: &mut Pass<'_>, object: &Expr, name: &Ident) -> bool {
    let Some(decl) = pass.enum_named(object) else { return false };
    variant(pass, decl, name);
    true
}

/// Checks a pattern `Enum.variant`.
pub(crate) fn pattern(pass: &mut Pass<'_>, enum_name: &Ident, name: &Ident) {
    if let Some(decl) = pass.enum_of(&enum_name.name, enum_name.span.start) {
        variant(pass, decl, name);
    }
}

/// Checks the values of `Enum.variant(values)`, which have been walked.
pub(crate) fn payload<'a>(pass: &mut Pass<'a>, object: &Expr, name: &Ident, call: &Expr, args: &'a [Arg]) {
    let Some(decl) = pass.enum_named(object) else { return };
    let Some(variant) = decl.variants.iter().find(|variant| variant.name.name == name.name) else { return };
    if args.iter().any(|arg| arg.spread) {
        return;
    }
    let whole = format!("{}.{}", decl.name.name, name.name);
    let (wanted, given) = (variant.fields.len(), args.len());
    if wanted != given {
        let message = format!("{whole} expects {wanted} argument(s), got {given}");
        return pass.report(Diagnostic::warning(message).with_code(PAYLOAD).at(call.span));
    }
    let env = Typing::env(&decl.type_params, &[]);
    for (field, arg) in variant.fields.iter().zip(args) {
        let Some((wanted, shown)) = field_type(pass, decl, field, &env) else { continue };
        let got = pass.infer_as(&wanted, &arg.value);
        if !pass.typing.fits(&wanted, &got) {
            let message = format!("{whole} expects {shown}, got {got}");
            let found = Diagnostic::warning(message).with_code(PAYLOAD);
            pass.report(found.with_label(arg.value.span, THE_ARGUMENT));
        }
    }
}

/// Returns the type of a value of a payload, and its written form.
fn field_type<'a>(
    pass: &Pass<'a>,
    decl: &'a EnumDecl,
    field: &'a VariantField,
    env: &[(Name, Ty)],
) -> Option<(Ty, String)> {
    let own = pass.typing.declared.get(&decl.name.name).is_some();
    match (&field.name, &field.ty) {
        (name, Some(written)) => {
            let ty = match own {
                true => pass.typing.resolve_with(written, env),
                false => pass.typing.resolve_foreign(written, env),
            };
            let name = name.as_ref().map_or_else(String::new, |name| format!("{}: ", name.name));
            Some((ty, format!("{name}{}", type_text(written))))
        }
        // A bare name may be a field or a type; these are types.
        (Some(word), None) if matches!(word.name.as_str(), "int" | "float" | "string" | "bool") => {
            Some((Ty::named(&word.name), word.name.to_string()))
        }
        _ => None,
    }
}

fn variant(pass: &mut Pass<'_>, decl: &EnumDecl, name: &Ident) {
    let names = || decl.variants.iter().map(|variant| variant.name.name.as_str());
    if names().any(|known| known == name.name) {
        return;
    }
    let message = format!("Unknown variant '{}' in enum '{}'", name.name, decl.name.name);
    let mut diagnostic = Diagnostic::warning(message).with_code(UNKNOWN_VARIANT).at(name.span);
    diagnostic.help = match close(&name.name, names()) {
        Some(near) => Some(format!("did you mean `{near}`?")),
        None => Some(format!("variants: {}", names().collect::<Vec<_>>().join(", "))),
    };
    pass.report(diagnostic);
}
