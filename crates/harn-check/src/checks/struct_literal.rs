//! Struct literals: the struct and its fields must exist, and required fields must be present.

use std::rc::Rc;

use harn_front::Unit;
use harn_syntax::Diagnostic;
use harn_syntax::ast::{DictItem, Ident, StructDecl};
use rustc_hash::FxHashSet;

use super::call_target;
use crate::codes::{DECLARED_TYPE, STRUCT_FIELD, UNKNOWN_FIELD};
use crate::pass::Pass;
use crate::scope::{Kind, Lookup};
use crate::types::{Ty, Typing, substitute, type_text};
use harn_syntax::suggest::close;

/// Checks `Name {a: 1}`.
pub(crate) fn check<'a>(pass: &mut Pass<'a>, name: &'a Ident, items: &'a [DictItem]) {
    let found = pass.scopes.look_up(&name.name, name.span.start);
    let (decl, home) = match found {
        Lookup::Is(Kind::Struct(decl)) => (decl, None),
        Lookup::Is(Kind::Imported) | Lookup::Missing => match imported(pass, &name.name) {
            Some((decl, home)) => (decl, Some(home)),
            None if matches!(found, Lookup::Missing) => {
                return call_target::unknown_struct(pass, &name.name, name.span);
            }
            None => return,
        },
        _ => return,
    };
    let mut given: Vec<&Ident> = Vec::with_capacity(items.len());
    let mut complete = true;
    for item in items {
        match item {
            DictItem::Entry { key, .. } => given.push(key),
            DictItem::Computed { .. } | DictItem::Spread(_) => complete = false,
        }
    }
    types(pass, decl, home, items);
    let declared: FxHashSet<&str> = decl.fields.iter().map(|field| field.name.name.as_str()).collect();
    let names: FxHashSet<&str> = given.iter().map(|key| key.name.as_str()).collect();
    for key in &given {
        if !declared.contains(key.name.as_str()) {
            let message = format!("Unknown field '{}' in struct '{}'", key.name, name.name);
            let mut diagnostic = Diagnostic::warning(message).with_code(UNKNOWN_FIELD).at(key.span);
            let near = close(&key.name, decl.fields.iter().map(|field| field.name.name.as_str()));
            diagnostic.help = near.map(|near| format!("did you mean `{near}`?"));
            pass.report(diagnostic);
        }
    }
    let missing = decl.fields.iter().filter(|field| !field.optional).map(|field| &field.name.name);
    for field in missing.filter(|field| complete && !names.contains(field.as_str())) {
        let message = format!("Missing field '{field}' in struct '{}' construction", name.name);
        pass.report(Diagnostic::warning(message).with_code(STRUCT_FIELD).at(name.span));
    }
}

/// Resolves a name to a struct of another file, and returns that file.
fn imported<'a>(pass: &Pass<'a>, name: &str) -> Option<(&'a StructDecl, &'a Rc<Unit>)> {
    let (decl, home) = pass.typing.struct_named(name).filter(|_| !pass.is_opaque())?;
    Some((decl, home?))
}

/// Compares the values with the types of their fields.
fn types<'a>(pass: &mut Pass<'a>, decl: &'a StructDecl, home: Option<&'a Rc<Unit>>, items: &'a [DictItem]) {
    let bound = pass.struct_bindings(decl, home, items);
    let env = Typing::vars(&decl.type_params);
    for item in items {
        let DictItem::Entry { key, value } = item else { continue };
        let field = decl.fields.iter().find(|field| field.name.name == key.name);
        let Some(written) = field.and_then(|field| field.ty.as_ref()) else { continue };
        let pattern = pass.typing.resolve_at(written, &env, home);
        let wanted = substitute(&pattern, &bound);
        let got = pass.infer_as(&wanted, value);
        if !pass.typing.fits(&wanted, &got) && !field.is_some_and(|field| field.optional && got == Ty::Nil) {
            let (field, owner, written) = (&key.name, &decl.name.name, type_text(written));
            let message = format!("Field '{field}' in struct '{owner}' expects {written}, got {got}");
            let found = super::annotation::misfit(pass, &wanted, value, message);
            pass.report(found.with_code(DECLARED_TYPE).at(value.span));
        }
    }
}
