//! Fields that the result of a builtin does not have: they read as nil.

use harn_syntax::ast::{Expr, ExprKind, Ident};
use harn_syntax::signature::Record;
use harn_syntax::suggest::close;
use harn_syntax::{Diagnostic, Span};

use crate::codes::{RESULT_FIELD, UNKNOWN_MEMBER};
use crate::pass::Pass;
use crate::scope::{Kind, Lookup};
use crate::types::{Ty, TypeName};

/// Remembers the result of a builtin that a variable holds.
pub(crate) fn note<'a>(pass: &mut Pass<'a>, name: &'a Ident, value: &'a Expr) {
    if let Some(record) = record(pass, value) {
        pass.held_records.insert(name.span.start, record);
    }
}

/// Returns the fields of a value, if it is the result of a builtin or a part of one.
fn record(pass: &Pass<'_>, value: &Expr) -> Option<&'static Record> {
    match &value.kind {
        ExprKind::Paren(inner) => record(pass, inner),
        ExprKind::Name(name) => match pass.scopes.look_up(name, value.span.start) {
            Lookup::Is(Kind::Let | Kind::Other) => {
                pass.held_records.get(&pass.scopes.definition(name)?).copied()
            }
            _ => None,
        },
        ExprKind::Call { callee, .. } => {
            let name = callee.as_name()?;
            let is_builtin = matches!(pass.scopes.look_up(name, value.span.start), Lookup::Missing)
                && !pass.declared.contains(name.as_str())
                && !pass.is_opaque();
            pass.world.signatures.record(name).filter(|_| is_builtin)
        }
        ExprKind::Member { object, name, .. } => record(pass, object)?.field(&name.name)?.record,
        _ => None,
    }
}

/// Checks `object.name` or `object["name"]`.
pub(crate) fn check<'a>(pass: &mut Pass<'a>, object: &'a Expr, name: &str, span: Span) {
    if let Some(record) = record(pass, object) {
        if record.field(name).is_some() {
            return;
        }
        let text = format!("{} has no field '{name}'", record.name);
        let foreign = record.foreign.iter().find(|(word, _)| *word == name).map(|(_, meant)| *meant);
        let names = record.fields.iter().map(|field| field.name);
        let meant = foreign.or_else(|| close(name, names));
        let mut found = Diagnostic::warning(text).with_code(RESULT_FIELD).at(span);
        found.help = Some(match meant {
            Some(meant) if meant.starts_with('`') => format!("use {meant}"),
            Some(meant) => format!("did you mean `{meant}`?"),
            None => {
                let names: Vec<&str> = record.fields.iter().map(|field| field.name).collect();
                format!("it has {}", names.join(", "))
            }
        });
        return pass.report(found);
    }
    // The checker does not track the values of variables that are assigned again.
    let is_var = object
        .as_name()
        .is_some_and(|name| !matches!(pass.scopes.look_up(name, object.span.start), Lookup::Is(Kind::Let)));
    let is_result = !is_var && matches!(pass.infer(object), Ty::Named(owner, _) if owner == "Result");
    let declared = matches!(pass.typing.name("Result"), TypeName::Own(_) | TypeName::Imported(_));
    if is_result && !declared && !["variant", "fields"].contains(&name) {
        let text = format!("Result has no field '{name}'; use match, ?, unwrap(r) or unwrap_or(r, default)");
        pass.report(Diagnostic::warning(text).with_code(UNKNOWN_MEMBER).at(span));
    }
}
