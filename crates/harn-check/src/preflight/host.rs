//! Host calls: a literal name must be an operation that hosts have.

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Span};
use rustc_hash::FxHashSet;

use crate::codes::HOST_OPERATION;
use crate::settings::Settings;
use harn_syntax::suggest::close;

/// The operations that every host may have, by capability.
const KNOWN: &[(&str, &[&str])] = &[
    ("diagnostics", &["get_causal_traces", "get_errors"]),
    ("editor", &["get_active_file", "get_selection", "get_visible_files"]),
    ("git", &["get_branch", "get_diff"]),
    ("interaction", &["ask"]),
    ("learning", &["get_learned_rules", "report_correction"]),
    ("process", &["exec", "get_default_shell", "list_shells", "set_default_shell", "shell_invocation"]),
    (
        "project",
        &[
            "agent_instructions",
            "code_patterns",
            "compute_content_hash",
            "ide_context",
            "lessons",
            "mcp_config",
            "metadata_get",
            "metadata_refresh_hashes",
            "metadata_save",
            "metadata_set",
            "metadata_stale",
            "scan",
            "scope_test_command",
            "test_commands",
        ],
    ),
    ("runtime", &["approved_plan", "dry_run", "pipeline_input", "record_run", "set_result", "task"]),
    ("session", &["active_roots", "changed_paths", "preread_get", "preread_read_many"]),
    ("template", &["render"]),
    (
        "workspace",
        &[
            "apply_edit",
            "cwd",
            "delete",
            "exists",
            "file_exists",
            "list",
            "project_root",
            "read_text",
            "roots",
            "write_text",
        ],
    ),
];

/// Checks the host calls of a file.
pub(super) fn check(tree: &Program, settings: &Settings) -> Vec<Diagnostic> {
    let mut search = Search::default();
    search.stmts(&tree.items);
    let Search { mut named, mocked, own } = search;
    named.retain(|(asked, _)| !own.contains(asked.function()));
    let allowed = |op: &str| {
        let capability = op.split('.').next().unwrap_or_default();
        settings.preflight_allow.iter().any(|entry| {
            entry == "*" || entry == op || entry == capability || entry.strip_suffix(".*") == Some(capability)
        })
    };
    let standard: Vec<String> = KNOWN
        .iter()
        .flat_map(|(capability, ops)| ops.iter().map(move |op| format!("{capability}.{op}")))
        .collect();
    let known = |op: &str| {
        standard.iter().any(|known| known == op)
            || settings.host_operations.contains(op)
            || mocked.contains(op)
    };
    let mut found = Vec::new();
    for (asked, span) in named {
        let (message, help) = match asked {
            Asked::Operation(op) if known(op) || allowed(op) => continue,
            Asked::Operation(op) => {
                let all = standard.iter().chain(&settings.host_operations).map(String::as_str);
                let near = close(op, all).map(|near| format!("did you mean `{near}`?"));
                let help = near.unwrap_or_else(|| {
                    "declare the operations of your host in `[check.host_capabilities]` of harn.toml".to_owned()
                });
                (format!("preflight: unknown host capability/operation '{op}'"), help)
            }
            Asked::Computed | Asked::Removed if allowed("") => continue,
            Asked::Removed => (
                "preflight: host_invoke(...) was removed; use host_call(\"capability.operation\", args)".to_owned(),
                "write the capability and the operation as one text, with a point between them".to_owned(),
            ),
            Asked::Computed => (
                "preflight: host_call(...) requires a literal \"capability.operation\" name for static validation"
                    .to_owned(),
                "write the name itself, or allow `*` in `[check] preflight_allow` of harn.toml".to_owned(),
            ),
        };
        let error = Diagnostic::error(message).with_code(HOST_OPERATION).with_label(span, "preflight");
        found.push(error.with_help(help));
    }
    found
}

/// The operation of a host call.
enum Asked<'a> {
    /// A named operation.
    Operation(&'a str),
    /// An operation whose name is not a literal.
    Computed,
    /// `host_invoke`, which older programs call.
    Removed,
}

impl Asked<'_> {
    /// The function that is called.
    fn function(&self) -> &'static str {
        match self {
            Asked::Operation(_) | Asked::Computed => CALL,
            Asked::Removed => REMOVED,
        }
    }
}

const CALL: &str = "host_call";
const REMOVED: &str = "host_invoke";

#[derive(Default)]
struct Search<'a> {
    named: Vec<(Asked<'a>, Span)>,
    /// Operations that the file mocks.
    mocked: FxHashSet<String>,
    /// The host functions that the file redefines.
    own: FxHashSet<&'a str>,
}

impl<'a> Search<'a> {
    fn declares(&mut self, name: &'a str) {
        if matches!(name, CALL | REMOVED) {
            self.own.insert(name);
        }
    }
}

impl<'a> Visitor<'a> for Search<'a> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        let names = match &stmt.kind {
            StmtKind::Import(import) => import.names.as_deref().unwrap_or_default(),
            _ => &[],
        };
        names.iter().for_each(|name| self.declares(&name.name));
        visit::walk_stmt(self, stmt);
    }

    fn decl(&mut self, decl: &'a Decl) {
        self.declares(&decl.kind.name().name);
        visit::walk_decl(self, decl);
    }

    fn expr(&mut self, expr: &'a Expr) {
        let text = |arg: Option<&'a Arg>| match arg.map(|arg| &arg.value.kind) {
            Some(ExprKind::Str(text)) => Some(text.as_str()),
            _ => None,
        };
        match &expr.kind {
            ExprKind::Call { callee, args, .. } => {
                match (callee.as_name().map(Name::as_str), args.as_slice()) {
                    (Some(CALL), [first, ..]) if !first.spread => {
                        let asked = text(Some(first)).map_or(Asked::Computed, Asked::Operation);
                        self.named.push((asked, first.value.span));
                    }
                    (Some(REMOVED), _) => self.named.push((Asked::Removed, callee.span)),
                    (Some("host_mock"), [capability, op, ..]) => {
                        if let (Some(capability), Some(op)) = (text(Some(capability)), text(Some(op))) {
                            self.mocked.insert(format!("{capability}.{op}"));
                        }
                    }
                    _ => {}
                }
            }
            // A tool that the host executes.
            ExprKind::Dict(items) => {
                let entry = |wanted: &str| {
                    items.iter().find_map(|item| match item {
                        DictItem::Entry { key, value } if key.name == wanted => match &value.kind {
                            ExprKind::Str(text) => Some((text.as_str(), value.span)),
                            _ => None,
                        },
                        _ => None,
                    })
                };
                if entry("executor").is_some_and(|(executor, _)| executor == "host_bridge")
                    && let Some((op, span)) = entry("host_capability")
                {
                    self.named.push((Asked::Operation(op), span));
                }
            }
            _ => {}
        }
        visit::walk_expr(self, expr);
    }
}
