//! Calls of names that do not exist, and literals of structs that do not exist.
//!
//! A name may come from an import. So unresolved names are collected, and resolved at the end of the walk: only then,
//! and only if names remain, imported files are read. If one of them cannot be read, nothing is reported.

use harn_syntax::ast::{Expr, ExprKind, Ident};
use harn_syntax::habits::{instead_of, name_advice, of_a_shell, undefined};
use harn_syntax::{Diagnostic, Span};

use crate::codes::{CALL_TARGET, UNKNOWN_STRUCT, UNKNOWN_VARIABLE};
use crate::pass::{Pass, Unknown, What};
use crate::scope::Lookup;
use crate::world::Signatures;
use harn_syntax::suggest::{close, nearest};

/// Maximum number of names with suggestions: a source that is not Harn may have very many.
const MAX_SUGGESTIONS: usize = 100;

/// Names without a declaration, of values or of the host.
fn is_special(name: &str) -> bool {
    matches!(name, "_" | "Ok" | "Err") || name.starts_with("hostlib_")
}

/// Looks up the name of a call.
pub(crate) fn check<'a>(pass: &mut Pass<'a>, name: &'a str, span: Span) -> Lookup<'a> {
    let found = pass.scopes.look_up(name, span.start);
    let unknown = matches!(found, Lookup::Missing)
        && !pass.world.signatures.is_builtin(name)
        && !is_special(name)
        // Internal functions.
        && !name.starts_with("__")
        && !pass.is_opaque();
    if unknown {
        let what = What::Function(pass.scopes.local_functions());
        pass.unknown.push(Unknown { name, span, what });
    }
    found
}

/// Returns whether a namespace of builtins lacks an operation; reports it then.
pub(crate) fn operation(pass: &mut Pass<'_>, object: &Expr, name: &Ident) -> bool {
    let ExprKind::Name(space) = &object.kind else { return false };
    let unknown = matches!(pass.scopes.look_up(space, object.span.start), Lookup::Missing)
        && !pass.world.signatures.is_builtin(space)
        && !pass.declared.contains(space.as_str())
        && !pass.is_opaque();
    if !unknown {
        return false;
    }
    let start = format!("{space}.");
    let names = pass.world.signatures.builtin_names();
    let mut of_space: Vec<&str> = names.into_iter().filter(|known| known.starts_with(&start)).collect();
    of_space.sort_unstable();
    if of_space.is_empty()
        || pass.imported_names().is_none_or(|imported| imported.contains_key(space.as_str()))
    {
        return false;
    }
    let full = format!("{start}{}", name.name);
    let near = close(&full, of_space.iter().copied()).map(str::to_owned);
    let span = Span { end: name.span.end, ..object.span };
    let message = format!("call target `{full}` is not defined or imported");
    let mut found = with_suggestion(CALL_TARGET, message, near, span);
    if found.help.is_none() {
        found.help = Some(format!("there are {}", of_space.join(", ")));
    }
    pass.report(found);
    true
}

/// Looks up a name that is read or assigned.
pub(crate) fn variable<'a>(pass: &mut Pass<'a>, name: &'a str, span: Span) {
    let unknown = matches!(pass.scopes.look_up(name, span.start), Lookup::Missing)
        && !pass.world.signatures.is_builtin(name)
        && !is_special(name)
        // The enum of `Ok` and `Err`.
        && name != "Result"
        && !pass.is_opaque();
    if unknown {
        let near = if pass.unknown.len() < MAX_SUGGESTIONS { pass.scopes.variables() } else { Vec::new() };
        pass.unknown.push(Unknown { name, span, what: What::Variable(near) });
    }
}

/// Records a struct literal with an unknown struct.
pub(crate) fn unknown_struct<'a>(pass: &mut Pass<'a>, name: &'a str, span: Span) {
    if !pass.is_opaque() {
        pass.unknown.push(Unknown { name, span, what: What::Struct });
    }
}

/// Reports the names that neither the file nor its imports define.
pub(crate) fn settle(pass: &mut Pass<'_>) {
    let mut unknown = std::mem::take(&mut pass.unknown);
    unknown.retain(|unknown| !pass.declared.contains(unknown.name));
    if unknown.is_empty() {
        return;
    }
    let Some(imported) = pass.imported_names() else { return };
    let mut functions = pass.scopes.file_functions();
    functions.extend(imported.keys().map(|name| name.as_str()));
    functions.extend(pass.world.signatures.builtin_names());
    let structs = std::mem::take(&mut pass.structs);
    let missing = unknown.into_iter().filter(|unknown| !imported.contains_key(unknown.name));
    for (number, Unknown { name, span, what }) in missing.enumerate() {
        let near = |names: &mut dyn Iterator<Item = &str>| {
            let names: Vec<&str> = names.collect();
            let meant = instead_of(name).filter(|meant| names.contains(meant));
            let alike = || match what {
                What::Variable(_) => nearest(name, names.iter().copied()),
                What::Function(_) | What::Struct => close(name, names.iter().copied()),
            };
            let near = || alike().filter(|_| name_advice(name).is_none());
            (number < MAX_SUGGESTIONS).then(|| meant.or_else(near).map(str::to_owned)).flatten()
        };
        let diagnostic = match &what {
            What::Function(local) => {
                let message = format!("call target `{name}` is not defined or imported");
                let method = method_of(pass.world.signatures, name);
                let near = match method {
                    Some(_) => None,
                    None => near(&mut local.iter().chain(&functions).copied()),
                };
                let mut diagnostic = with_suggestion(CALL_TARGET, message, near, span);
                if let Some(advice) = name_advice(name) {
                    diagnostic.help = Some(advice.to_owned());
                } else if let Some(kind) = method {
                    diagnostic.help = Some(format!("`{name}` is a method of {kind}: `value.{name}(...)`"));
                } else if diagnostic.help.is_none() {
                    diagnostic.help = relatives(name, &functions);
                }
                diagnostic
            }
            What::Variable(local) => {
                let near = near(&mut local.iter().chain(&functions).copied());
                let hint = near.as_ref().map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
                let mut diagnostic = Diagnostic::warning(format!("Undefined variable: {name}{hint}"))
                    .with_code(UNKNOWN_VARIABLE)
                    .at(span);
                let behind = pass.source.text.get(span.end as usize..).unwrap_or_default();
                diagnostic.help = of_a_shell(pass.source.text, span).or_else(|| undefined(name, behind));
                match near {
                    Some(near) => diagnostic.with_fix(format!("write `{near}`"), vec![(span, near)]),
                    None => diagnostic,
                }
            }
            What::Struct => {
                let message = format!("unknown struct type `{name}`");
                with_suggestion(UNKNOWN_STRUCT, message, near(&mut structs.iter().copied()), span)
            }
        };
        pass.report(diagnostic);
    }
}

/// Returns the functions with the same prefix up to the last `_`: one of them may be the intended one.
fn relatives(name: &str, functions: &[&str]) -> Option<String> {
    let stem = &name[..=name.rfind('_').filter(|at| *at > 2)?];
    let mut near: Vec<&str> = functions.iter().copied().filter(|known| known.starts_with(stem)).collect();
    near.sort_unstable();
    near.dedup();
    near.truncate(12);
    (!near.is_empty()).then(|| format!("similar names: {}", near.join(", ")))
}

/// The first type whose values have a method of this name.
fn method_of(signatures: &dyn Signatures, name: &str) -> Option<&'static str> {
    ["string", "list", "dict", "set"].into_iter().find(|kind| signatures.method(kind, name).is_some())
}

fn with_suggestion(code: &'static str, message: String, near: Option<String>, span: Span) -> Diagnostic {
    match near {
        Some(near) => Diagnostic::error(format!("{message} — did you mean `{near}`?"))
            .with_fix(format!("write `{near}`"), vec![(span, near)]),
        None => Diagnostic::error(message),
    }
    .with_code(code)
    .at(span)
}
