//! Attributes that do not exist or stand before the wrong kind of declaration.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{Decl, DeclKind};

use crate::codes::ATTRIBUTE;
use crate::pass::Pass;
use crate::suggest::nearest;

const KNOWN: [&str; 10] = [
    "acp_skill",
    "acp_tool",
    "archivist",
    "complexity",
    "deprecated",
    "deterministic",
    "invariant",
    "retroactive",
    "semantic",
    "test",
];

/// Looks at the attributes of a declaration.
pub(crate) fn check(pass: &mut Pass<'_>, decl: &Decl) {
    for attr in &decl.attrs {
        let name = attr.name.name.as_str();
        let is_fn = matches!(decl.kind, DeclKind::Fn(_));
        let message = match name {
            "test" if !matches!(decl.kind, DeclKind::Pipeline(_)) => {
                "`@test` only applies to pipeline declarations".to_owned()
            }
            "acp_tool" | "acp_skill" | "deprecated" | "complexity" if !is_fn => {
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
            nearest(name, KNOWN).filter(|_| !KNOWN.contains(&name)).map(|n| format!("did you mean `@{n}`?"));
        pass.report(diagnostic);
    }
}
