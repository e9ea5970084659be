//! Tools of the runtime: `read_file` and `list_directory`, and the tools with which a model maintains a plan.

use std::path::Path;

use harn_agent::ToolRun;
use harn_prompt::{Prose, prose::agent_asset};
use harn_system::{Refusal, SystemExt};
use harn_value::{Data as Json, json};
use harn_vm::Cx;

/// Maximum size of a file for `read_file`: 64 MiB.
const MAX_READ: u64 = 64 << 20;

/// Maximum number of lines that `read_file` returns.
const MAX_LINES: usize = 2000;

/// Why such a tool has no result.
pub(crate) enum Problem {
    /// The call failed.
    Failed(String),
    /// A policy forbids it.
    Refused(String),
}

type Answer = Result<String, Problem>;

impl Problem {
    fn of(tool: &str, error: &std::io::Error, failed: impl FnOnce() -> String) -> Problem {
        match Refusal::of(error) {
            Some(refusal) => Problem::Refused(format!("tool '{tool}' {refusal}.")),
            None => Problem::Failed(failed()),
        }
    }
}

/// Runs a call of such a tool with the permissions of the task.
pub(crate) fn answer(cx: &Cx, run: &ToolRun, prose: &dyn Prose) -> Answer {
    let text_of = |key: &str| run.arguments.get(key).and_then(Json::as_str);
    let number =
        |key: &str| run.arguments.get(key).and_then(Json::as_u64).and_then(|n| usize::try_from(n).ok());
    match run.name.as_str() {
        "read_file" => {
            let path = text_of("path").ok_or_else(|| Problem::Failed("missing path".to_owned()))?;
            read_file(cx, path, number("offset"), number("limit"), prose)
        }
        "list_directory" => list_directory(cx, &cx.system().work_dir().join(text_of("path").unwrap_or("."))),
        name => match harn_agent::plan_artifact::emitted(name, &run.arguments) {
            Some(plan) => plan.map(|plan| plan.to_string()).map_err(Problem::Failed),
            None => Ok(serde_json::to_string_pretty(&run.arguments).unwrap_or_default()),
        },
    }
}

fn read_file(cx: &Cx, path: &str, offset: Option<usize>, limit: Option<usize>, prose: &dyn Prose) -> Answer {
    may(cx, "read_file")?;
    let system = cx.system();
    let file = system.work_dir().join(path);
    let cannot = |e: std::io::Error| Problem::of("read_file", &e, || format!("cannot read {path}: {e}"));
    if system.facts(&file).map_err(cannot)?.is_dir() {
        return list_directory(cx, &file);
    }
    let bytes = system.read(&file, MAX_READ).map_err(cannot)?;
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| Problem::Failed(format!("{path} is not UTF-8 text")))?;
    let first = offset.unwrap_or(1).max(1);
    let limit = limit.unwrap_or(MAX_LINES).min(MAX_LINES);
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines.iter().enumerate().skip(first - 1).take(limit);
    let mut out: Vec<String> = shown.map(|(n, line)| format!("{}\t{line}", n + 1)).collect();
    let next = first + out.len();
    if next <= lines.len() {
        let bindings = json!({"more": lines.len() + 1 - next, "next": next});
        let bindings = bindings.as_object().cloned().unwrap_or_default();
        let more = prose.render(&agent_asset("read_file_more"), &bindings);
        out.push(more.map_err(|e| Problem::Failed(e.to_string()))?.trim().to_owned());
    }
    Ok(out.join("\n"))
}

fn list_directory(cx: &Cx, folder: &Path) -> Answer {
    may(cx, "list_dir")?;
    let system = cx.system();
    let shown = folder.display();
    let cannot = |e| Problem::of("list_directory", &e, || format!("cannot list {shown}: {e}"));
    let names = system.names(folder).map_err(cannot)?;
    let lines = names.iter().map(|name| {
        let slash = if system.is_dir(&folder.join(name)) { "/" } else { "" };
        format!("{}{slash}", name.display())
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Checks that the program may call a builtin before the runtime does the same: restrictions of the command line also
/// apply to the runtime's tools.
fn may(cx: &Cx, builtin: &str) -> Result<(), Problem> {
    match cx.allows_name(builtin) {
        true => Ok(()),
        false => Err(Problem::Refused(format!("Tool '{builtin}' is not permitted."))), // prose-ok: diagnostic
    }
}
