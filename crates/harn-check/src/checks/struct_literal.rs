//! Struct literals: the struct must exist, its fields too, and none that it needs may be missing.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{DictItem, Ident};
use rustc_hash::FxHashSet;

use super::call_target;
use crate::codes::STRUCT_FIELD;
use crate::scope::{Kind, Lookup};
use crate::suggest::nearest;
use crate::walk::Pass;

/// Looks at `Name {a: 1}`.
pub(crate) fn check<'a>(pass: &mut Pass<'a>, name: &'a Ident, items: &[DictItem]) {
    let decl = match pass.scopes.look_up(&name.name, name.span.start) {
        Lookup::Missing => return call_target::unknown_struct(pass, &name.name, name.span),
        Lookup::Is(Kind::Struct(decl)) => decl,
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
    let declared: FxHashSet<&str> = decl.fields.iter().map(|field| field.name.name.as_str()).collect();
    let names: FxHashSet<&str> = given.iter().map(|key| key.name.as_str()).collect();
    for key in &given {
        if !declared.contains(key.name.as_str()) {
            let message = format!("Unknown field '{}' in struct '{}'", key.name, name.name);
            let mut diagnostic = Diagnostic::warning(message).with_code(STRUCT_FIELD).at(key.span);
            let near = nearest(&key.name, decl.fields.iter().map(|field| field.name.name.as_str()));
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
