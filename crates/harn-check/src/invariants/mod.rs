//! `harn check --invariants`: an `@invariant("NAME", ...)` of a function, tool or pipeline must hold on every path
//! out of it, including the functions that it calls or passes on, also in other files.
//!
//! `reach.rs` walks these paths, `rules.rs` defines what is allowed on them, `acts.rs` lists the builtins with
//! effects, `place.rs` resolves names.

mod acts;
mod place;
mod reach;
mod rules;

use std::sync::Arc;

use harn_syntax::ast::*;
use harn_syntax::{Diagnostic, SourceFile, Span};

pub use acts::{is_act, written_paths};

use crate::codes::{APPROVAL_REACHED, BUDGET_GROWS, INVARIANT_FORM, WRITES_ELSEWHERE};
use crate::preflight::Located;
use crate::world::{Source, World};
use harn_syntax::suggest::close;
use rules::Rule;

/// The supported invariants.
pub const INVARIANTS: [&str; 3] = ["approval.reachability", "budget.remaining", "fs.writes"];

/// A place where an invariant does not hold, and the path to it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The invariant, as the attribute names it.
    pub invariant: String,
    /// The function, tool or pipeline that has it.
    pub handler: String,
    /// The message.
    pub message: String,
    /// The path from the handler to the place, which is the last step.
    pub steps: Vec<Step>,
    /// The advice.
    pub help: String,
    code: &'static str,
}

/// A step on the path to a violation.
#[derive(Clone, Debug)]
pub struct Step {
    /// The file; `None` for the checked program itself.
    pub file: Option<Arc<SourceFile>>,
    /// The place in it.
    pub span: Span,
    /// Description of the step.
    pub label: String,
}

impl Violation {
    /// Returns the diagnostic at the place of the violation.
    pub fn located(&self) -> Located {
        let mut found = Diagnostic::error(self.message.clone()).with_code(self.code);
        let file = self.steps.last().and_then(|last| {
            found = found.clone().with_label(last.span, format!("invariant[{}]", self.invariant));
            last.file.clone()
        });
        if self.steps.len() > 2 {
            let ways: Vec<&str> =
                self.steps[1..self.steps.len() - 1].iter().map(|step| step.label.as_str()).collect();
            found.notes.push(format!("`{}` {}", self.handler, ways.join(", which ")));
        } else if file.is_some() || self.steps.len() > 1 {
            found.notes.push(format!("in `{}`, which has the invariant", self.handler));
        }
        found.help = Some(self.help.clone());
        Located { file, diagnostic: found }
    }
}

/// The declarations at the top of a file that may have invariants, with their attributes.
fn handlers(tree: &Program) -> impl Iterator<Item = &Decl> {
    tree.items.iter().filter_map(|item| match &item.kind {
        StmtKind::Decl(decl)
            if matches!(decl.kind, DeclKind::Fn(_) | DeclKind::Tool(_) | DeclKind::Pipeline(_)) =>
        {
            Some(&**decl)
        }
        _ => None,
    })
}

/// Returns whether a program declares a top-level function, tool or pipeline with this name.
pub fn has_handler(tree: &Program, name: &str) -> bool {
    handlers(tree).any(|decl| decl.kind.name().name == name)
}

/// Returns the violations of invariants in a program, in source order.
pub fn check_invariants(source: &Source<'_>, world: &World<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for decl in handlers(source.tree) {
        for attr in decl.attrs.iter().filter(|attr| attr.name.name == "invariant") {
            let Some(first) = attr.args.first() else { continue };
            match Rule::read(attr, first) {
                Ok((invariant, rule)) => found.extend(reach::walk(source, world, decl, invariant, rule)),
                Err((invariant, message, help)) => found.push(Violation {
                    handler: decl.kind.name().name.to_string(),
                    steps: vec![Step { file: None, span: attr.span, label: "is written here".to_owned() }],
                    invariant,
                    message,
                    help,
                    code: INVARIANT_FORM,
                }),
            }
        }
    }
    found
}

/// Returns the code of a violation.
fn code(rule: &Rule) -> &'static str {
    match rule {
        Rule::Writes { .. } => WRITES_ELSEWHERE,
        Rule::Budget { .. } => BUDGET_GROWS,
        Rule::Approval => APPROVAL_REACHED,
    }
}

/// Returns message and help for an unknown invariant.
fn unknown(name: &str) -> (String, String) {
    let help = match close(name, INVARIANTS) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the invariants are {}", INVARIANTS.map(|name| format!("`{name}`")).join(", ")),
    };
    (format!("there is no invariant `{name}`"), help)
}
