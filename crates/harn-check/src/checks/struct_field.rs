//! Accesses of fields that a struct does not have.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{DeclKind, Expr, Ident};

use crate::codes::UNKNOWN_MEMBER;
use crate::pass::Pass;
use crate::types::{Ty, TypeName};
use harn_syntax::suggest::close;

/// Checks `object.name` if the object is a struct.
pub(crate) fn check<'a>(pass: &mut Pass<'a>, object: &'a Expr, name: &Ident) {
    let Ty::Named(owner, _) = pass.infer(object) else { return };
    let decl = match pass.typing.name(&owner) {
        TypeName::Own(DeclKind::Struct(decl)) | TypeName::Imported(DeclKind::Struct(decl)) => decl,
        _ => return,
    };
    let fields = || decl.fields.iter().map(|field| field.name.name.as_str());
    // A method without parentheses is a value.
    let methods = pass.typing.declared.methods(&owner);
    if fields().any(|field| field == name.name) || methods.iter().any(|m| m.name.name == name.name) {
        return;
    }
    let message = format!("Unknown field '{}' in struct '{owner}'", name.name);
    let mut diagnostic = Diagnostic::warning(message).with_code(UNKNOWN_MEMBER).at(name.span);
    diagnostic.help = close(&name.name, fields()).map(|near| format!("did you mean `{near}`?"));
    pass.report(diagnostic);
}
