//! Workflows that run, and the records of their runs.

use std::cell::RefCell;

use harn_agent::workflow::{fixture as pure, pack};
use harn_stdlib::timestamp_now;
use harn_value::Value;
use harn_value::{Data as Json, json};
use harn_vm::{Cx, Result, builtins};

use crate::convert::{data, from_json, text, thrown, to_json};
use crate::llm_embedder::new_id;
use crate::workflow;

builtins! {
    /// Workflows that run.
    pub(crate) static WORKFLOWS: "workflows";

    /// Runs a workflow: `{status, run, artifacts, transcript, path}`.
    ///
    /// `status` is `completed`, or `paused` when `max_steps` ran out. What a stage throws ends the run; a stage that
    /// fails follows its `failed` edge. The record of the run is written after each stage.
    ///
    /// ```harn
    /// llm_mock({text: "A haiku."})
    /// let g = workflow_graph({name: "write", act: {mode: "llm", model_policy: {provider: "mock"}}})
    /// let r = workflow_execute("Write a haiku", g, [], {persist_path: "write-run.json"})
    /// println([r.status, r.artifacts[0].text, r.run.stages[0].outcome]) // -> [completed, A haiku., success]
    /// ```
    Loop async fn workflow_execute(cx, task: Value as "any?", graph: Value as "!workflow_input", artifacts: Value as "!list?", options: Value as "!workflow_options?") -> "dict" {
        workflow::execute(&cx, &task, &graph, &artifacts, &options).await?
    }

    /// Does a piece of work of a workflow in a task of its own.
    Loop async fn workflow_work = "__workflow_work"(cx, work: Value as "any?", options: Value as "any?") -> "dict" {
        workflow::perform_described(&cx, &work, &options).await?
    }

    /// Reads the record of a run and fills in what is missing.
    ///
    /// ```harn
    /// println(run_record({workflow_id: "w"}).status) // -> completed
    /// ```
    Random fn run_record(cx, run: Value as "dict?") -> "dict" {
        from_json(&record(cx, "run_record", &run)?)
    }

    /// Writes the record of a run: `{path, run}`.
    ///
    /// ```harn
    /// println(run_record_save({id: "r", workflow_id: "w"}, "run.json").run.persisted_path) // -> run.json
    /// ```
    Fs fn run_record_save(cx, run: Value as "dict?", path: Value as "string?") -> "dict" {
        let mut run = record(cx, "run_record_save", &run)?;
        let chosen = text(&path).or_else(|| run["persisted_path"].as_str().map(str::to_owned));
        let path = chosen.unwrap_or_else(|| {
            harn_stdlib::run_folder(cx).join(format!("{}.json", new_id(cx.vm()))).display().to_string()
        });
        run["persisted_path"] = path.as_str().into();
        let system = cx.system();
        let file = harn_system::SystemExt::work_dir(&*system).join(&path);
        let mut packed = run.clone();
        pack(&mut packed);
        workflow::write_record(&*system, &file, &packed).map_err(|error| {
            cx.refusal(&error).unwrap_or_else(|| thrown(format!("run_record_save: cannot write {path}: {error}")))
        })?;
        from_json(&json!({"path": path, "run": run}))
    }

    /// Reads the record of a run from a file.
    ///
    /// ```harn
    /// run_record_save({id: "r", workflow_id: "w"}, "run.json")
    /// println(run_record_load("run.json").id) // -> r
    /// ```
    Fs fn run_record_load(cx, path: Value as "!string") -> "dict" {
        from_json(&load(cx, "run_record_load", &path)?)
    }

    /// Reads the record of a run with those of the runs that it started: `{run, children: [tree]}`.
    ///
    /// ```harn
    /// run_record_save({id: "r", workflow_id: "w"}, "run.json")
    /// println(load_run_tree("run.json").children) // -> []
    /// ```
    Fs fn load_run_tree(cx, path: Value as "!string") -> "dict" {
        let run = load(cx, "load_run_tree", &path)?;
        from_json(&tree(cx, run, &mut Vec::new()))
    }

    /// Makes the fixture of a run: what another run has to look like to be as good.
    ///
    /// ```harn
    /// println(run_record_fixture({id: "r", workflow_id: "w", status: "completed"}).expected_status) // -> completed
    /// ```
    Random fn run_record_fixture(cx, run: Value as "dict?") -> "dict" {
        let run = record(cx, "run_record_fixture", &run)?;
        from_json(&pure::fixture(&run, &timestamp_now(cx)))
    }

    /// Holds a run against a fixture: `{pass, failures, stage_count}`. Without one, against its own.
    ///
    /// ```harn
    /// let f = run_record_fixture({workflow_id: "w", status: "completed"})
    /// println(run_record_eval({workflow_id: "w", status: "failed"}, f).failures) // -> [run status: expected completed, got failed]
    /// ```
    Random fn run_record_eval(cx, run: Value as "dict?", fixture: Value as "dict?") -> "dict" {
        let run = record(cx, "run_record_eval", &run)?;
        let fixture = if fixture.is_nil() { run["replay_fixture"].clone() } else { to_json(&fixture) };
        from_json(&pure::evaluate(&run, &checked("run_record_eval", fixture)?))
    }

    /// Tells what is different between two runs.
    ///
    /// ```harn
    /// let d = run_record_diff({workflow_id: "w"}, {workflow_id: "w", status: "failed"})
    /// println([d.identical, d.status_changed]) // -> [false, true]
    /// ```
    Random fn run_record_diff(cx, left: Value as "dict?", right: Value as "dict?") -> "dict" {
        let (left, right) = (record(cx, "run_record_diff", &left)?, record(cx, "run_record_diff", &right)?);
        from_json(&pure::diff(&left, &right))
    }

    /// Evaluates several runs: a list of `{run, fixture?, path?, label?, compare_to?}`.
    ///
    /// ```harn
    /// let r = run_record_eval_suite([{run: {id: "r", workflow_id: "w"}, label: "one"}])
    /// println([r.pass, r.total, r.cases[0].label]) // -> [true, 1, one]
    /// ```
    Fs fn run_record_eval_suite(cx, cases: Value as "!list<{run?: dict, fixture?: dict, path?: string, label?: string, compare_to?: string | dict}>") -> "dict" {
        let Json::Array(given) = to_json(&cases) else {
            return Err(thrown("run_record_eval_suite: cases must be a list"));
        };
        let mut cases = Vec::with_capacity(given.len());
        for case in given {
            let run = match (&case["run"], case["path"].as_str()) {
                (Json::Null, Some(path)) => workflow::load(&*cx.system(), path).map_err(|e| thrown(format!("run_record_eval_suite: {e}")))?,
                (run, _) => run.clone(),
            };
            let baseline = match &case["compare_to"] {
                Json::Null => Json::Null,
                Json::String(path) => workflow::load(&*cx.system(), path).map_err(|e| thrown(format!("run_record_eval_suite: {e}")))?,
                run => run.clone(),
            };
            cases.push(case_of(cx, "run_record_eval_suite", run, case["fixture"].clone(), baseline, &case["label"], &case["path"])?);
        }
        from_json(&pure::suite(&cases))
    }

    /// Notes a number that a run is judged by, and returns it as `{name, value, metadata}`.
    ///
    /// ```harn
    /// println(eval_metric("recall", 0.9)) // -> {metadata: {}, name: recall, value: 0.9}
    /// ```
    State fn eval_metric(cx, name: Value as "!string", value: Value as "!int | float", metadata: Value as "!dict?") -> "dict" {
        let (name, value) = (to_json(&name), to_json(&value));
        let metadata = data("eval_metric: metadata", &metadata)?;
        if name.as_str().is_none_or(str::is_empty) {
            return Err(thrown("eval_metric: name must be a string that is not empty"));
        }
        if !value.is_number() {
            return Err(thrown("eval_metric: value must be a finite number"));
        }
        if !metadata.is_null() && !metadata.is_object() {
            return Err(thrown("eval_metric: metadata must be a dict"));
        }
        let metadata = if metadata.is_null() { json!({}) } else { metadata };
        let noted = json!({"name": name, "value": value, "metadata": metadata});
        cx.state::<Metrics>().0.borrow_mut().push(noted.clone());
        from_json(&noted)
    }

    /// Returns the numbers that the program has noted, in order.
    ///
    /// ```harn
    /// eval_metric("recall", 1)
    /// println(eval_metrics().map({ m -> m.name })) // -> [recall]
    /// ```
    State fn eval_metrics(cx) -> "list<dict>" {
        from_json(&cx.state::<Metrics>().0.borrow().clone().into())
    }

    /// Reads the manifest of a suite: `{id, name, base_dir, cases: [{label, run_path, fixture_path, compare_to}]}`.
    ///
    /// ```harn
    /// println(eval_suite_manifest({id: "s", cases: [{run_path: "a.json"}]}).cases[0].label) // -> a.json
    /// ```
    Pure fn eval_suite_manifest(cx, manifest: Value as "suite_manifest?") -> "dict" {
        from_json(&suite_manifest("eval_suite_manifest", &to_json(&manifest))?)
    }

    /// Evaluates the runs of a manifest, whose paths lie below its `base_dir`.
    ///
    /// ```harn
    /// run_record_save({id: "r", workflow_id: "w"}, "suite/run.json")
    /// println(eval_suite_run({id: "s", base_dir: "suite", cases: [{run_path: "run.json"}]}).passed) // -> 1
    /// ```
    Fs fn eval_suite_run(cx, manifest: Value as "suite_manifest?") -> "dict" {
        let manifest = suite_manifest("eval_suite_run", &to_json(&manifest))?;
        let base = manifest["base_dir"].as_str().unwrap_or_default();
        let below = |path: &str| std::path::Path::new(base).join(path).display().to_string();
        let read = |path: &Json| match path.as_str() {
            None => Ok(Json::Null),
            Some(path) => json_file(cx, &below(path)).map_err(|e| thrown(format!("eval_suite_run: {e}"))),
        };
        let mut cases = Vec::new();
        for case in manifest["cases"].as_array().into_iter().flatten() {
            let run = read(&case["run_path"])?;
            let (fixture, baseline) = (read(&case["fixture_path"])?, read(&case["compare_to"])?);
            cases.push(case_of(cx, "eval_suite_run", run, fixture, baseline, &case["label"], &case["run_path"])?);
        }
        from_json(&pure::suite(&cases))
    }
}

/// The numbers that a program has noted.
#[derive(Default)]
struct Metrics(RefCell<Vec<Json>>);

fn record(cx: &Cx, function: &str, run: &Value) -> Result<Json> {
    normal(cx, function, &to_json(run))
}

fn normal(cx: &Cx, function: &str, run: &Json) -> Result<Json> {
    pure::normalise(run, &timestamp_now(cx), &|| new_id(cx.vm()))
        .map_err(|error| thrown(format!("{function}: {error}")))
}

fn load(cx: &Cx, function: &str, path: &Value) -> Result<Json> {
    let Some(path) = path.as_str() else {
        return Err(thrown(format!("{function}: path must be a string")));
    };
    let run = workflow::load(&*cx.system(), path).map_err(|error| thrown(format!("{function}: {error}")))?;
    let mut run = normal(cx, function, &run)?;
    run["persisted_path"] = path.as_str().into();
    Ok(run)
}

/// A run with its children; one that is its own child is named once.
fn tree(cx: &Cx, run: Json, seen: &mut Vec<String>) -> Json {
    seen.push(run["persisted_path"].as_str().unwrap_or_default().to_owned());
    let paths: Vec<String> = run["child_runs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|child| child["run_path"].as_str().map(str::to_owned))
        .collect();
    let mut children = Vec::new();
    for path in paths {
        if seen.contains(&path) || seen.len() > 10_000 {
            continue;
        }
        children.push(match load(cx, "load_run_tree", &Value::from(path.as_str())) {
            Ok(child) => tree(cx, child, seen),
            Err(error) => json!({"run": null, "path": path, "error": error.uncaught_text(), "children": []}),
        });
    }
    json!({"run": run, "children": children})
}

fn checked(function: &str, fixture: Json) -> Result<Json> {
    if fixture["_type"] == "replay_fixture"
        || fixture["stage_assertions"].is_array()
        || fixture["expected_status"].is_string()
    {
        return Ok(fixture);
    }
    Err(thrown(format!("{function}: that is no fixture (run_record_fixture makes one)")))
}

fn case_of(
    cx: &Cx,
    function: &str,
    run: Json,
    fixture: Json,
    baseline: Json,
    label: &Json,
    path: &Json,
) -> Result<Json> {
    let run = normal(cx, function, &run)?;
    let fixture = if fixture.is_null() { Json::Null } else { checked(function, fixture)? };
    let baseline = if baseline.is_null() { Json::Null } else { normal(cx, function, &baseline)? };
    let label = if label.is_null() { run["workflow_name"].clone() } else { label.clone() };
    Ok(json!({"run": run, "fixture": fixture, "baseline": baseline, "label": label, "path": path}))
}

fn json_file(cx: &Cx, path: &str) -> std::result::Result<Json, String> {
    let system = cx.system();
    let file = harn_system::SystemExt::work_dir(&*system).join(path);
    let bytes = system.read(&file, 1 << 30).map_err(|e| format!("cannot read {path}: {e}"))?;
    serde_json::from_slice(&bytes).map_err(|e| format!("{path} is no JSON: {e}"))
}

fn suite_manifest(function: &str, given: &Json) -> Result<Json> {
    let wrong = |text: &str| thrown(format!("{function}: {text}"));
    if !given.is_object() {
        return Err(wrong("manifest must be a dict"));
    }
    let cases = match &given["cases"] {
        Json::Null => Vec::new(),
        Json::Array(cases) => cases.clone(),
        _ => return Err(wrong("cases must be a list")),
    };
    let mut read = Vec::with_capacity(cases.len());
    for (at, case) in cases.iter().enumerate() {
        let path = |key: &str| match &case[key] {
            text @ (Json::Null | Json::String(_)) => Ok(text.clone()),
            _ => Err(wrong(&format!("cases[{at}].{key} must be a path"))),
        };
        let run = path("run_path")?;
        if run.is_null() {
            return Err(wrong(&format!("cases[{at}].run_path is required")));
        }
        let label = if case["label"].is_null() { run.clone() } else { case["label"].clone() };
        read.push(json!({
            "label": label, "run_path": run, "fixture_path": path("fixture_path")?, "compare_to": path("compare_to")?,
        }));
    }
    Ok(json!({
        "_type": "eval_suite_manifest", "id": given["id"], "name": given["name"], "base_dir": given["base_dir"],
        "cases": read,
    }))
}
