//! Builtins with effects.

use harn_syntax::ast::*;

/// Builtins that write files, with the positions of their path arguments.
const WRITES: &[(&str, &[usize])] = &[
    ("append_file", &[0]),
    ("copy_file", &[1]),
    ("delete_file", &[0]),
    ("http_download", &[1]),
    ("mkdir", &[0]),
    ("move_file", &[0, 1]),
    ("run_record_save", &[1]),
    ("write_file", &[0]),
    ("write_file_bytes", &[0]),
];

/// Further builtins with effects: they run programs, send data, or call the host.
const ACTS: &[&str] = &[
    "exec",
    "exec_at",
    "host_call",
    "host_tool_call",
    "http_delete",
    "http_patch",
    "http_post",
    "http_put",
    "http_request",
    "http_session_request",
    "mcp_call",
    "mcp_connect",
    "shell",
    "shell_at",
    "sse_connect",
    "websocket_connect",
    "websocket_send",
];

/// Host operations that only read.
const LOOKS: &[&str] = &[
    "diagnostics.get_causal_traces",
    "diagnostics.get_errors",
    "editor.get_active_file",
    "editor.get_selection",
    "editor.get_visible_files",
    "git.get_branch",
    "git.get_diff",
    "interaction.ask",
    "learning.get_learned_rules",
    "process.get_default_shell",
    "process.list_shells",
    "process.shell_invocation",
    "project.agent_instructions",
    "project.code_patterns",
    "project.compute_content_hash",
    "project.ide_context",
    "project.lessons",
    "project.mcp_config",
    "project.metadata_get",
    "project.metadata_stale",
    "project.scan",
    "project.scope_test_command",
    "project.test_commands",
    "runtime.approved_plan",
    "runtime.dry_run",
    "runtime.pipeline_input",
    "runtime.task",
    "session.active_roots",
    "session.changed_paths",
    "session.preread_get",
    "session.preread_read_many",
    "template.render",
    "workspace.exists",
    "workspace.file_exists",
    "workspace.list",
    "workspace.project_root",
    "workspace.read_text",
    "workspace.roots",
];

/// The positions of the paths that a builtin writes; `None` for one that writes no file.
pub fn written_paths(builtin: &str) -> Option<&'static [usize]> {
    WRITES.iter().find(|(name, _)| *name == builtin).map(|(_, paths)| *paths)
}

/// Returns whether a builtin may have effects outside of the program.
pub fn is_act(builtin: &str) -> bool {
    written_paths(builtin).is_some() || ACTS.contains(&builtin)
}

/// Returns whether a call of such a builtin only reads, according to its first argument.
pub(super) fn only_looks(builtin: &str, args: &[Arg]) -> bool {
    let Some(Arg { spread: false, value: Expr { kind: ExprKind::Str(first), .. } }) = args.first() else {
        return false;
    };
    match builtin {
        "host_call" => LOOKS.contains(&first.as_str()),
        "http_request" | "sse_connect" => ["GET", "HEAD", "OPTIONS"].contains(&first.to_uppercase().as_str()),
        _ => false,
    }
}
