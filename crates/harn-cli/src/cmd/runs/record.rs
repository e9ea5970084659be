//! Run records in files: of workflows, loops and the demo.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use harn_runtime::{RunRecord, diff_run_records};
use harn_system::{Real, System, SystemExt};
use harn_value::{Data as Value, json};

use super::{Failure, Outcome, Shown, show};
use crate::args::{ReplayArgs, RunsListArgs, usage_error};
use crate::cmd::providers::text;
use crate::table;

fn read(path: &Path) -> Outcome<RunRecord> {
    RunRecord::read(&Real::new(), &path.display().to_string())
        .map_err(|error| Failure::new("bad_record", error))
}

/// Formats a value in one line.
pub(crate) fn line(value: &Value) -> String {
    let text = text(value).split_whitespace().collect::<Vec<_>>().join(" ");
    harn_syntax::printable(&text).into_owned()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Formats the outcome of a stage.
fn outcome(stage: &Value) -> String {
    let part = |key| line(&stage[key]);
    format!("status={} outcome={} branch={}", part("status"), part("outcome"), part("branch"))
}

/// Summarizes a record.
fn summary(record: &RunRecord) -> Value {
    let run = &record.run;
    let stages: Vec<Value> = list(run, "stages")
        .iter()
        .map(|stage| {
            json!({
                "id": stage["id"], "node_id": stage["node_id"], "kind": stage["kind"], "status": stage["status"],
                "outcome": stage["outcome"], "branch": stage["branch"],
            })
        })
        .collect();
    let seen = |key: &str| list(&run["observability"], key).len();
    json!({
        "id": run["id"], "workflow_id": run["workflow_id"], "workflow_name": run["workflow_name"],
        "status": run["status"], "task": run["task"], "started_at": run["started_at"],
        "finished_at": run["finished_at"], "stages": stages, "artifacts": list(run, "artifacts").len(),
        "transitions": list(run, "transitions").len(), "checkpoints": list(run, "checkpoints").len(),
        "hitl_questions": list(run, "hitl_questions").len(),
        "observability": {
            "planner_rounds": seen("planner_rounds"),
            "research_facts": run["observability"]["research_fact_count"],
            "workers": seen("worker_lineage"), "verifications": seen("verification_outcomes"),
            "compactions": seen("compaction_events"), "daemon_events": seen("daemon_events"),
        },
        "pending_nodes": run["pending_nodes"],
        "replay_fixture": if record.is_fixture_embedded { "embedded" } else { "derived" },
    })
}

/// Formats a summary.
fn page(summary: &Value) -> String {
    let mut out = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(out, "{name}: {value}");
    };
    row("Run", line(&summary["id"]));
    row("Workflow", format!("{} ({})", line(&summary["workflow_name"]), line(&summary["workflow_id"])));
    row("Status", line(&summary["status"]));
    row("Task", line(&summary["task"]));
    row("Stages", list(summary, "stages").len().to_string());
    for (name, key) in [
        ("Artifacts", "artifacts"),
        ("Transitions", "transitions"),
        ("Checkpoints", "checkpoints"),
        ("HITL questions", "hitl_questions"),
    ] {
        row(name, summary[key].to_string());
    }
    let seen = summary["observability"].as_object().into_iter().flatten();
    row("Observability", seen.map(|(name, count)| format!("{name}={count}")).collect::<Vec<_>>().join(" "));
    let pending: Vec<String> = list(summary, "pending_nodes").iter().map(line).collect();
    row("Pending nodes", if pending.is_empty() { "-".to_owned() } else { pending.join(", ") });
    row("Replay fixture", line(&summary["replay_fixture"]));
    for stage in list(summary, "stages") {
        let _ = writeln!(out, "- {} [{}] {}", line(&stage["node_id"]), line(&stage["kind"]), outcome(stage));
    }
    out
}

/// Formats the differences between two records.
pub(crate) fn differences(found: &Value) -> String {
    let mut out = format!("Compared with {}: ", line(&found["right_run_id"]));
    if found["identical"] == true {
        return out + "no difference\n";
    }
    out.push_str("they differ\n");
    if found["status_changed"] == true {
        let _ =
            writeln!(out, "- status: {} -> {}", line(&found["left_status"]), line(&found["right_status"]));
    }
    for stage in list(found, "stage_diffs") {
        let details: Vec<String> = list(stage, "details").iter().map(line).collect();
        let details = if details.is_empty() { String::new() } else { format!(": {}", details.join(", ")) };
        let _ = writeln!(
            out,
            "- stage {} {} {}{details}",
            stage["index"],
            line(&stage["node_id"]),
            line(&stage["change"])
        );
    }
    for tool in list(found, "tool_diffs") {
        let what = match (tool["arguments_changed"] == true, tool["result_changed"] == true) {
            (true, true) => "arguments and result",
            (true, false) => "arguments",
            _ => "result",
        };
        let _ = writeln!(out, "- call {} of {}: other {what}", tool["index"], line(&tool["tool_name"]));
    }
    for section in list(found, "observability_diffs") {
        let (left, right) = (&section["left_count"], &section["right_count"]);
        let _ = writeln!(out, "- {}: {left} -> {right}", line(&section["section"]));
    }
    for (name, key) in [
        ("transitions", "transition_count_delta"),
        ("artifacts", "artifact_count_delta"),
        ("checkpoints", "checkpoint_count_delta"),
    ] {
        if found[key] != 0 {
            let _ = writeln!(out, "- {name}: {:+}", found[key].as_i64().unwrap_or_default());
        }
    }
    out
}

pub(super) fn inspect(path: &Path, other: Option<&Path>) -> Outcome<Shown> {
    let record = read(path)?;
    let mut data = summary(&record);
    let mut text = page(&data);
    data["comparison"] = match other {
        None => Value::Null,
        Some(other) => {
            let found = diff_run_records(&record.run, &read(other)?.run);
            text += &differences(&found);
            found
        }
    };
    Ok(Shown::new(text, data))
}

pub(super) fn view(path: &Path) -> Outcome<Shown> {
    let record = read(path)?;
    Ok(Shown::new(page(&summary(&record)), record.run))
}

/// Returns the files of a directory, recursively.
fn files(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    /// The portal stores records two levels down. The limit stops cycles of links.
    const MAX_LEVELS: usize = 8;
    let system = Real::new();
    let mut found = Vec::new();
    let mut open: Vec<(PathBuf, usize)> =
        system.names(dir)?.into_iter().map(|name| (dir.join(name), 1)).collect();
    while let Some((path, level)) = open.pop() {
        if !system.is_dir(&path) {
            found.push(path);
        } else if level < MAX_LEVELS {
            // An unreadable directory has no records for this user.
            let names = system.names(&path).unwrap_or_default();
            open.extend(names.into_iter().map(|name| (path.join(name), level + 1)));
        }
    }
    found.retain(|path| path.extension().is_some_and(|word| word == "json") && system.is_file(path));
    Ok(found)
}

/// Returns the default directory of records: `HARN_RUN_DIR`, or `.harn-runs`.
pub(crate) fn records(system: &dyn System) -> PathBuf {
    let named = system.env("HARN_RUN_DIR").filter(|dir| !dir.is_empty());
    named.map_or_else(|| PathBuf::from(".harn-runs"), PathBuf::from)
}

pub(super) fn list_of(dir: &Path, args: &RunsListArgs) -> Outcome<Shown> {
    let found = files(dir)
        .map_err(|error| Failure::new("bad_folder", format!("cannot read {}: {error}", dir.display())))?;
    // The directory may contain JSON files that are not records.
    let mut found: Vec<(PathBuf, Value)> = found
        .into_iter()
        .filter_map(|path| read(&path).ok().map(|record| (path, summary(&record))))
        .collect();
    let started = |run: &Value| text(&run["started_at"]);
    found.sort_by(|(a, left), (b, right)| started(right).cmp(&started(left)).then_with(|| a.cmp(b)));
    found.truncate(usize::try_from(args.limit).unwrap_or(usize::MAX));
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|(path, run)| {
            vec![
                line(&run["id"]),
                line(&run["status"]),
                line(&run["started_at"]),
                list(run, "stages").len().to_string(),
                line(&run["workflow_name"]),
                harn_syntax::printable(&path.display().to_string()).into_owned(),
            ]
        })
        .collect();
    let text = if rows.is_empty() {
        "No records of runs.\n".to_owned()
    } else {
        table::draw(&["RUN", "STATUS", "STARTED", "STAGES", "WORKFLOW", "FILE"], &rows)
    };
    let data = found.into_iter().map(|(path, mut run)| {
        run["path"] = path.display().to_string().into();
        run
    });
    Ok(Shown::new(text, json!({"runs": data.collect::<Vec<_>>()})))
}

/// Whether a run argument is the path of a record file.
pub(crate) fn is_record(id: &str) -> bool {
    id.ends_with(".json") && (id.contains(['/', '\\']) || Real::new().is_file(Path::new(id)))
}

/// Prints the data of a record and compares it with its fixture. Returns the exit code.
pub(crate) fn replay(args: &ReplayArgs) -> u8 {
    for (option, given) in
        [("--until", args.until.is_some()), ("--check", args.check), ("--debug", args.debug)]
    {
        if given {
            usage_error(
                "replay",
                &format!("{option} needs a run with a journal, and {} is a record", args.id),
            );
        }
    }
    show(replayed(Path::new(&args.id)), args.json)
}

fn replayed(path: &Path) -> Outcome<Shown> {
    let record = read(path)?;
    let run = &record.run;
    let mut out = format!("Replay: {}\n", line(&run["id"]));
    for stage in list(run, "stages") {
        let _ = writeln!(out, "[{}] {}", line(&stage["node_id"]), outcome(stage));
        for row in text(&stage["visible_text"]).lines().filter(|_| !stage["visible_text"].is_null()) {
            let _ = writeln!(out, "  {}", harn_syntax::printable(row));
        }
    }
    let found = record.evaluate();
    let passed = found["pass"] == true;
    let kind = if record.is_fixture_embedded { "Embedded" } else { "Derived" };
    let _ = writeln!(out, "{kind} replay fixture: {}", if passed { "PASS" } else { "FAIL" });
    for failure in list(&found, "failures") {
        let _ = writeln!(out, "- {}", line(failure));
    }
    let _ = writeln!(out, "Transitions: {}", list(run, "transitions").len());
    for one in list(run, "transitions") {
        let part = |key| line(&one[key]);
        let _ = writeln!(out, "- {} -> {} ({})", part("from_node_id"), part("to_node_id"), part("branch"));
    }
    let mut data = summary(&record);
    data["stages"] = run["stages"].clone();
    data["transitions"] = run["transitions"].clone();
    data["evaluation"] = found;
    Ok(Shown { code: u8::from(!passed), ..Shown::new(out, data) })
}
