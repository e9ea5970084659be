//! Attributes that do not exist or precede the wrong kind of declaration.

use harn_syntax::ast::{AttrValue, Decl, DeclKind};
use harn_syntax::{Diagnostic, Span};

use crate::codes::ATTRIBUTE;
use crate::pass::Pass;
use crate::retry::RetryPolicy;
use harn_syntax::suggest::close;

const KNOWN: [&str; 11] = [
    "acp_skill",
    "acp_tool",
    "archivist",
    "complexity",
    "deprecated",
    "deterministic",
    "invariant",
    "retroactive",
    "retry",
    "semantic",
    "test",
];

/// Checks the attributes of a declaration.
pub(crate) fn check(pass: &mut Pass<'_>, decl: &Decl) {
    for attr in &decl.attrs {
        let name = attr.name.name.as_str();
        let is_fn = matches!(decl.kind, DeclKind::Fn(_));
        let message = match name {
            "test" | "retry" if !matches!(decl.kind, DeclKind::Pipeline(_)) => {
                format!("`@{name}` only applies to pipeline declarations")
            }
            "acp_tool" | "acp_skill" | "deprecated" | "complexity" | "deterministic" | "semantic"
            | "archivist" | "retroactive"
                if !is_fn =>
            {
                format!("`@{name}` only applies to function declarations")
            }
            "invariant"
                if !matches!(decl.kind, DeclKind::Fn(_) | DeclKind::Tool(_) | DeclKind::Pipeline(_)) =>
            {
                "`@invariant` only applies to function, tool, or pipeline declarations".to_owned()
            }
            _ if KNOWN.contains(&name) => continue,
            _ => format!("unknown attribute `@{name}`"),
        };
        let mut diagnostic = Diagnostic::warning(message).with_code(ATTRIBUTE).at(attr.span);
        diagnostic.help =
            close(name, KNOWN).filter(|_| !KNOWN.contains(&name)).map(|n| format!("did you mean `@{n}`?"));
        pass.report(diagnostic);
    }
    predicate(pass, decl);
    let retry = decl.attrs.iter().find(|attr| attr.name.name == "retry");
    if let Some(Err((span, message))) = retry.map(RetryPolicy::of_attribute) {
        pass.report(Diagnostic::warning(message).with_code(ATTRIBUTE).at(span));
    }
}

/// Checks the attributes of a flow predicate, which belong together: `@invariant` without arguments, its decision,
/// and its origin.
fn predicate(pass: &mut Pass<'_>, decl: &Decl) {
    let find = |name: &str| decl.attrs.iter().find(|attr| attr.name.name == name);
    let mut found: Vec<(Span, String)> = Vec::new();
    let (deterministic, semantic, archivist) = (find("deterministic"), find("semantic"), find("archivist"));
    let bare = find("invariant").filter(|attr| attr.args.is_empty());
    if let (Some(attr), Some(_)) = (deterministic, semantic) {
        let message =
            "`@deterministic` and `@semantic` are mutually exclusive: a predicate is decided in one way";
        found.push((attr.span, message.to_owned()));
    }
    if let Some(attr) = bare {
        if deterministic.or(semantic).is_none() {
            let message = "bare `@invariant` needs `@deterministic` or `@semantic(fallback: ...)`";
            found.push((attr.span, message.to_owned()));
        }
        if archivist.is_none() {
            found.push((attr.span, "bare `@invariant` needs `@archivist(evidence: [...])`".to_owned()));
        }
    }
    for attr in [archivist, find("retroactive")].into_iter().flatten().filter(|_| find("invariant").is_none())
    {
        found.push((attr.span, format!("`@{}` means nothing without `@invariant`", attr.name.name)));
    }
    if let Some(attr) = archivist {
        for arg in &attr.args {
            match &arg.name {
                None => found.push((arg.span, "the arguments of `@archivist` have names".to_owned())),
                Some(name) if !EVIDENCE.contains(&name.name.as_str()) => {
                    found.push((arg.span, format!("`@archivist` takes no argument `{}`", name.name)));
                }
                Some(name) if name.name == "confidence" && !is_share(&arg.value) => {
                    found.push((
                        arg.span,
                        "`confidence` of `@archivist` must be a number from 0 to 1".to_owned(),
                    ));
                }
                Some(_) => {}
            }
        }
        if !attr.args.iter().any(|arg| arg.name.as_ref().is_some_and(|name| name.name == "evidence")) {
            found.push((attr.span, "`@archivist` needs `evidence: [...]`".to_owned()));
        }
    }
    for (span, message) in found {
        pass.report(Diagnostic::warning(message).with_code(ATTRIBUTE).at(span));
    }
}

/// Arguments of `@archivist`.
const EVIDENCE: [&str; 4] = ["confidence", "coverage_examples", "evidence", "source_date"];

fn is_share(value: &AttrValue) -> bool {
    match value {
        AttrValue::Int(number) => (0..=1).contains(number),
        AttrValue::Float(number) => (0.0..=1.0).contains(number),
        _ => false,
    }
}
