//! Running workflows, and the records of their runs.

use harn_agent::workflow::{fixture as pure, pack};
use harn_stdlib::timestamp_now;
use harn_value::Value;
use harn_value::{Data as Json, json};
use harn_vm::{Cx, Result, builtins};

use crate::convert::{from_json, text, thrown, to_json};
use crate::llm_embedder::new_id;
use crate::workflow;

builtins! {
    /// Workflow runs and their records.
    pub(crate) static WORKFLOWS: "workflows";

    /// Runs a workflow: `{status, run, artifacts, transcript, path}`.
    ///
    /// `status` is `completed`, or `paused` when `max_steps` is exhausted. An error thrown in a stage ends the run;
    /// a failed stage follows its `failed` edge. The record of the run is written after each stage.
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

    /// Runs a piece of work of a workflow in a separate task.
    Loop async fn workflow_work = "__workflow_work"(cx, work: Value as "any?", options: Value as "any?") -> "dict" {
        workflow::perform_described(&cx, &work, &options).await?
    }

    /// Parses a run record and fills in missing fields.
    ///
    /// ```harn
    /// println(run_record({workflow_id: "w"}).status) // -> completed
    /// ```
    Random fn run_record(cx, run: Value as "dict?") -> "dict" {
        from_json(&record(cx, "run_record", &run)?)
    }

    /// Writes a run record: `{path, run}`.
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

    /// Reads a run record from a file.
    ///
    /// ```harn
    /// run_record_save({id: "r", workflow_id: "w"}, "run.json")
    /// println(run_record_load("run.json").id) // -> r
    /// ```
    Fs fn run_record_load(cx, path: Value as "!string") -> "dict" {
        from_json(&load(cx, "run_record_load", &path)?)
    }

    /// Reads a run record with the records of its child runs: `{run, children: [tree]}`.
    ///
    /// ```harn
    /// run_record_save({id: "r", workflow_id: "w"}, "run.json")
    /// println(load_run_tree("run.json").children) // -> []
    /// ```
    Fs fn load_run_tree(cx, path: Value as "!string") -> "dict" {
        let run = load(cx, "load_run_tree", &path)?;
        from_json(&tree(cx, run, &mut Vec::new()))
    }

    /// Creates the fixture of a run: the expected properties of a run of the same quality.
    ///
    /// ```harn
    /// println(run_record_fixture({id: "r", workflow_id: "w", status: "completed"}).expected_status) // -> completed
    /// ```
    Random fn run_record_fixture(cx, run: Value as "dict?") -> "dict" {
        let run = record(cx, "run_record_fixture", &run)?;
        from_json(&pure::fixture(&run, &timestamp_now(cx)))
    }

    /// Evaluates a run against a fixture: `{pass, failures, stage_count}`.
    ///
    /// The default is the run's own fixture.
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

    /// Compares two runs.
    ///
    /// ```harn
    /// let d = run_record_diff({workflow_id: "w"}, {workflow_id: "w", status: "failed"})
    /// println([d.identical, d.status_changed]) // -> [false, true]
    /// ```
    Random fn run_record_diff(cx, left: Value as "dict?", right: Value as "dict?") -> "dict" {
        let (left, right) = (record(cx, "run_record_diff", &left)?, record(cx, "run_record_diff", &right)?);
        from_json(&pure::diff(&left, &right))
    }
}

fn record(cx: &Cx, function: &str, run: &Value) -> Result<Json> {
    normal(cx, function, &to_json(run))
}

pub(super) fn normal(cx: &Cx, function: &str, run: &Json) -> Result<Json> {
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

/// Returns a run with its children. A run that is its own descendant appears once.
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

pub(super) fn checked(function: &str, fixture: Json) -> Result<Json> {
    if pure::is_fixture(&fixture) {
        return Ok(fixture);
    }
    Err(thrown(format!("{function}: that is no fixture (run_record_fixture makes one)")))
}
