//! The working directories of programs and sub-agents in a file: literal ones must exist, unless the file may create
//! them.

use std::path::Path;

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Span};
use harn_system::{System, SystemExt};

use crate::codes::MISSING_FOLDER;

/// Reports missing directories. They are relative to the working directory, as in a run.
pub(super) fn check(tree: &Program, system: &dyn System) -> Vec<Diagnostic> {
    let mut search = Search::default();
    search.stmts(&tree.items);
    let Search { named, texts } = search;
    let work_dir = system.work_dir();
    let mut found = Vec::new();
    for (what, folder, span) in named {
        // `mkdir("out")`, `shell("git clone x out")`, `read_file("out/log")`: the program mentions it elsewhere.
        let told_elsewhere = texts.iter().any(|(text, at)| *at != span && mentions(text, folder));
        let place = work_dir.join(Path::new(folder));
        if folder.is_empty() || told_elsewhere || system.is_dir(&place) {
            continue;
        }
        let message = format!("preflight: {what} '{folder}' does not exist at {}", place.display());
        found.push(
            Diagnostic::error(message).with_code(MISSING_FOLDER).with_label(span, "preflight").with_help(
                "make it in the program, or write the path from the folder that the program is started in",
            ),
        );
    }
    found
}

/// Returns whether a string contains a path, or one inside of that directory.
fn mentions(text: &str, folder: &str) -> bool {
    text.match_indices(folder).any(|(at, _)| {
        let next = text[at + folder.len()..].chars().next();
        next.is_none_or(|c| !c.is_alphanumeric() && !"_-.".contains(c))
    })
}

#[derive(Default)]
struct Search<'a> {
    /// The use of a directory, its path, and the span of the literal.
    named: Vec<(&'static str, &'a str, Span)>,
    /// All literal strings.
    texts: Vec<(&'a str, Span)>,
}

impl<'a> Search<'a> {
    fn names(&mut self, what: &'static str, value: Option<&'a Expr>) {
        if let Some(Expr { kind: ExprKind::Str(text), span, .. }) = value {
            self.named.push((what, text, *span));
        }
    }
}

/// The value of a key of a dict literal.
fn entry<'a>(value: Option<&'a Expr>, wanted: &str) -> Option<&'a Expr> {
    let ExprKind::Dict(items) = &value?.kind else { return None };
    items.iter().find_map(|item| match item {
        DictItem::Entry { key, value } if key.name == wanted => Some(value),
        _ => None,
    })
}

impl<'a> Visitor<'a> for Search<'a> {
    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Str(text) => self.texts.push((text, expr.span)),
            ExprKind::Call { callee, args, .. } => {
                let first = args.first().map(|arg| &arg.value);
                match callee.as_name().map(Name::as_str) {
                    Some("exec_at" | "shell_at") => self.names("execution directory", first),
                    Some("spawn_agent") => {
                        let execution = entry(first, "execution");
                        self.names("execution directory", entry(execution, "cwd"));
                        self.names("worktree repo", entry(entry(execution, "worktree"), "repo"));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        visit::walk_expr(self, expr);
    }
}
