//! Checks of a run's results: fixtures, comparisons, suites.

use harn_value::{Data as Json, json};

use super::observe::{observe, tool_recordings};

/// The list fields of a run record, which are empty if missing.
const LISTS: [&str; 7] =
    ["stages", "transitions", "checkpoints", "pending_nodes", "completed_nodes", "child_runs", "artifacts"];

/// Reads a run record and fills in missing fields.
///
/// # Errors
/// The value is not a dict, or a field has a wrong type.
pub fn normalise(input: &Json, now: &str, ids: &dyn Fn() -> String) -> Result<Json, String> {
    let Some(given) = input.as_object() else {
        return Err(format!("run must be a dict, got {}", input.type_name()));
    };
    if given.get("_type").is_some_and(|word| !word.is_null() && word != "run_record") {
        return Err(format!("expected a run record, got {}", input["_type"].printed()));
    }
    let mut out = json!({"_type": "run_record"});
    for key in LISTS.iter().chain(&["handoffs"]) {
        out[*key] = match &input[*key] {
            Json::Null => json!([]),
            list @ Json::Array(_) => list.clone(),
            _ => return Err(format!("{key} must be a list")),
        };
    }
    super::packed::unpack(&mut out);
    let text = |key: &str, default: &dyn Fn() -> String| -> Result<Json, String> {
        match &input[key] {
            Json::Null => Ok(default().into()),
            text @ Json::String(_) => Ok(text.clone()),
            other => Err(format!("{key} must be a string, got {}", other.type_name())),
        }
    };
    out["id"] = text("id", &|| format!("run_{}", ids()))?;
    out["workflow_id"] = text("workflow_id", &|| "workflow".to_owned())?;
    out["status"] = text("status", &|| "completed".to_owned())?;
    out["started_at"] = text("started_at", &|| now.to_owned())?;
    out["task"] = text("task", &String::new)?;
    out["workflow_name"] = if input["workflow_name"].is_null() {
        out["workflow_id"].clone()
    } else {
        input["workflow_name"].clone()
    };
    out["root_run_id"] =
        if input["root_run_id"].is_null() { out["id"].clone() } else { input["root_run_id"].clone() };
    for key in [
        "finished_at",
        "parent_run_id",
        "policy",
        "execution",
        "transcript",
        "persisted_path",
        "replay_fixture",
        "error",
    ] {
        if key != "error" || !input[key].is_null() {
            out[key] = input[key].clone();
        }
    }
    out["metadata"] = if input["metadata"].is_object() { input["metadata"].clone() } else { json!({}) };
    let mut usage = super::outcome::no_usage();
    for stage in out["stages"].as_array().into_iter().flatten() {
        usage = super::outcome::add_usage(&usage, &stage["usage"]);
    }
    out["usage"] = if input["usage"].is_object() {
        super::outcome::add_usage(&super::outcome::no_usage(), &input["usage"])
    } else {
        usage
    };
    for key in ["trace_spans", "hitl_questions"] {
        out[key] = input[key].clone();
    }
    let mut out = complete(out);
    if input["tool_recordings"].as_array().is_some_and(|list| !list.is_empty()) {
        out["tool_recordings"] = input["tool_recordings"].clone();
    }
    Ok(out)
}

/// Returns a fixture with the expected results of runs like this one.
pub fn fixture(run: &Json, now: &str) -> Json {
    let stages = run["stages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let assertions: Vec<Json> = stages
        .iter()
        .map(|stage| {
            let mut kinds: Vec<Json> = Vec::new();
            for made in stage["artifacts"].as_array().into_iter().flatten() {
                if !made["kind"].is_null() && !kinds.contains(&made["kind"]) {
                    kinds.push(made["kind"].clone());
                }
            }
            json!({
                "node_id": stage["node_id"], "expected_status": stage["status"],
                "expected_outcome": stage["outcome"], "expected_branch": stage["branch"],
                "required_artifact_kinds": kinds, "visible_text_contains": null,
            })
        })
        .collect();
    json!({
        "_type": "replay_fixture", "id": format!("fixture_{}", run["id"].printed()), "source_run_id": run["id"],
        "workflow_id": run["workflow_id"], "workflow_name": run["workflow_name"], "created_at": now,
        "eval_kind": "replay", "clarifying_question": null, "expected_status": run["status"],
        "stage_assertions": assertions,
    })
}

/// Compares a run with a fixture: `{pass, failures, stage_count}`.
pub fn evaluate(run: &Json, fixture: &Json) -> Json {
    let stages = run["stages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut failures = Vec::new();
    let mut expect = |what: String, wanted: &Json, got: &Json| {
        if !wanted.is_null() && wanted != got {
            failures.push(format!("{what}: expected {}, got {}", wanted.printed(), got.printed()));
        }
    };
    expect("run status".to_owned(), &fixture["expected_status"], &run["status"]);
    let assertions = fixture["stage_assertions"].as_array().map(Vec::as_slice).unwrap_or_default();
    // The n-th assertion about a node applies to its n-th stage.
    let mut seen: Vec<&Json> = Vec::new();
    let mut more = Vec::new();
    for assertion in assertions {
        let node = &assertion["node_id"];
        let before = seen.iter().filter(|known| **known == node).count();
        seen.push(node);
        let name = format!("stage {}", node.printed());
        let Some(stage) = stages.iter().filter(|stage| stage["node_id"] == *node).nth(before) else {
            more.push(format!("{name}: missing"));
            continue;
        };
        for (key, field) in
            [("expected_status", "status"), ("expected_outcome", "outcome"), ("expected_branch", "branch")]
        {
            expect(format!("{name} {field}"), &assertion[key], &stage[field]);
        }
        for kind in assertion["required_artifact_kinds"].as_array().into_iter().flatten() {
            let made = stage["artifacts"].as_array().into_iter().flatten();
            if !made.into_iter().any(|one| one["kind"] == *kind) {
                more.push(format!("{name}: no artifact of kind {}", kind.printed()));
            }
        }
        if let Some(text) = assertion["visible_text_contains"].as_str()
            && !stage["visible_text"].printed().contains(text)
        {
            more.push(format!("{name}: visible text does not contain '{text}'"));
        }
    }
    if let Some(question) = fixture["clarifying_question"].as_str() {
        let asked = run["hitl_questions"].as_array().into_iter().flatten();
        if !asked.map(self::question).any(|text| text.contains(question)) {
            more.push(format!("question was not asked: '{question}'"));
        }
    }
    failures.extend(more);
    json!({"pass": failures.is_empty(), "failures": failures, "stage_count": stages.len()})
}

/// Returns the prompt of a question that a run asked.
pub(crate) fn question(asked: &Json) -> String {
    if asked.is_object() { asked["prompt"].printed() } else { asked.printed() }
}

/// Returns whether a value is a fixture with expected results.
pub fn is_fixture(fixture: &Json) -> bool {
    fixture["_type"] == "replay_fixture"
        || fixture["stage_assertions"].is_array()
        || fixture["expected_status"].is_string()
}

/// Returns the differences between two runs.
pub fn diff(left: &Json, right: &Json) -> Json {
    let list = |run: &Json, key: &str| run[key].as_array().cloned().unwrap_or_default();
    let stages = stage_diffs(&list(left, "stages"), &list(right, "stages"));
    let tools = tool_diffs(&list(left, "tool_recordings"), &list(right, "tool_recordings"));
    let seen = observability_diffs(left, right);
    let delta = |key: &str| list(right, key).len() as i64 - list(left, key).len() as i64;
    let status_changed = left["status"] != right["status"];
    let deltas = [delta("transitions"), delta("artifacts"), delta("checkpoints")];
    let identical = !status_changed
        && stages.is_empty()
        && tools.is_empty()
        && seen.is_empty()
        && deltas.iter().all(|delta| *delta == 0);
    json!({
        "left_run_id": left["id"], "right_run_id": right["id"], "identical": identical,
        "status_changed": status_changed, "left_status": left["status"], "right_status": right["status"],
        "stage_diffs": stages, "tool_diffs": tools, "observability_diffs": seen,
        "transition_count_delta": deltas[0], "artifact_count_delta": deltas[1], "checkpoint_count_delta": deltas[2],
    })
}

fn stage_diffs(left: &[Json], right: &[Json]) -> Vec<Json> {
    let mut out = Vec::new();
    for at in 0..left.len().max(right.len()) {
        match (left.get(at), right.get(at)) {
            (Some(a), Some(b)) => {
                let fields = ["node_id", "kind", "status", "outcome", "branch", "visible_text"];
                let details: Vec<String> = fields
                    .iter()
                    .filter(|key| a[**key] != b[**key])
                    .map(|key| format!("{key}: {} -> {}", a[*key].printed(), b[*key].printed()))
                    .collect();
                if !details.is_empty() {
                    out.push(json!({"index": at, "node_id": a["node_id"], "change": "changed", "details": details}));
                }
            }
            (Some(a), None) => {
                out.push(json!({"index": at, "node_id": a["node_id"], "change": "removed", "details": []}))
            }
            (None, Some(b)) => {
                out.push(json!({"index": at, "node_id": b["node_id"], "change": "added", "details": []}))
            }
            (None, None) => {}
        }
    }
    out
}

fn tool_diffs(left: &[Json], right: &[Json]) -> Vec<Json> {
    let mut out = Vec::new();
    for at in 0..left.len().max(right.len()) {
        let (a, b) = (left.get(at).unwrap_or(&Json::Null), right.get(at).unwrap_or(&Json::Null));
        let same = ["tool_name", "arguments", "result"].iter().all(|key| a[*key] == b[*key]);
        if !same {
            let name = if a["tool_name"].is_null() { &b["tool_name"] } else { &a["tool_name"] };
            out.push(json!({
                "index": at, "tool_name": name, "arguments_changed": a["arguments"] != b["arguments"],
                "result_changed": a["result"] != b["result"],
            }));
        }
    }
    out
}

fn observability_diffs(left: &Json, right: &Json) -> Vec<Json> {
    let count = |run: &Json, key: &str| match &run["observability"][key] {
        Json::Array(list) => list.len() as i64,
        other => other.as_i64().unwrap_or(0),
    };
    [
        "planner_rounds",
        "research_fact_count",
        "worker_lineage",
        "verification_outcomes",
        "compaction_events",
        "daemon_events",
    ]
    .iter()
    .filter(|key| count(left, key) != count(right, key))
    .map(|key| json!({"section": key, "left_count": count(left, key), "right_count": count(right, key)}))
    .collect()
}

/// Returns the report of a suite from its cases: `run`, `fixture`, `label`, `path`, and `baseline` to compare with.
pub fn suite(cases: &[Json]) -> Json {
    let reports: Vec<Json> = cases
        .iter()
        .map(|case| {
            let run = &case["run"];
            let own;
            let fixture = match &case["fixture"] {
                Json::Null => {
                    own = match &run["replay_fixture"] {
                        Json::Null => fixture(run, ""),
                        kept => kept.clone(),
                    };
                    &own
                }
                given => given,
            };
            let mut report = evaluate(run, fixture);
            let comparison = match &case["baseline"] {
                Json::Null => Json::Null,
                baseline => diff(baseline, run),
            };
            if comparison["identical"] == false {
                let text = format!("differs from its baseline {}", comparison["left_run_id"].printed());
                if let Some(list) = report["failures"].as_array_mut() {
                    list.push(text.into());
                }
                report["pass"] = false.into();
            }
            json!({
                "run_id": run["id"], "workflow_id": run["workflow_id"], "label": case["label"],
                "pass": report["pass"], "failures": report["failures"], "stage_count": report["stage_count"],
                "source_path": case["path"], "comparison": comparison,
            })
        })
        .collect();
    let passed = reports.iter().filter(|report| report["pass"] == true).count();
    json!({
        "pass": passed == reports.len(), "total": reports.len(), "passed": passed, "failed": reports.len() - passed,
        "cases": reports,
    })
}

/// Adds the fields that are derived from the stages: observability, recordings, the fixture.
pub(crate) fn complete(mut run: Json) -> Json {
    run["observability"] = observe(&run);
    run["tool_recordings"] = tool_recordings(&run);
    for key in ["trace_spans", "hitl_questions"] {
        if run[key].is_null() {
            run[key] = json!([]);
        }
    }
    if run["replay_fixture"].is_null() {
        run["replay_fixture"] = fixture(&run, run["finished_at"].as_str().unwrap_or_default());
    }
    run
}
