//! Evaluation of runs: suites, packs, metrics, and recurring human corrections.

use std::cell::RefCell;

use harn_agent::evals::{self, friction};
use harn_agent::workflow::fixture as pure;
use harn_stdlib::timestamp_now;
use harn_value::Value;
use harn_value::{Data as Json, json};
use harn_vm::{Cx, Error, Result, builtins};

use super::workflow::{checked, normal};
use crate::convert::{data, from_json, text, thrown, to_json};
use crate::evals::{Files, suite_manifest};
use crate::llm_embedder::new_id;
use crate::workflow;

builtins! {
    /// Evaluation.
    pub(crate) static EVALS: "evals";

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

    /// Records a metric of the run and returns it as `{name, value, metadata}`.
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

    /// Returns the metrics that the program has recorded, in order.
    ///
    /// ```harn
    /// eval_metric("recall", 1)
    /// println(eval_metrics().map({ m -> m.name })) // -> [recall]
    /// ```
    State fn eval_metrics(cx) -> "list<dict>" {
        from_json(&cx.state::<Metrics>().0.borrow().clone().into())
    }

    /// Parses the manifest of a suite: `{id, name, base_dir, cases: [{label, run_path, fixture_path,
    /// compare_to}]}`.
    ///
    /// ```harn
    /// println(eval_suite_manifest({id: "s", cases: [{run_path: "a.json"}]}).cases[0].label) // -> a.json
    /// ```
    Pure fn eval_suite_manifest(cx, manifest: Value as "suite_manifest?") -> "dict" {
        from_json(&suite_manifest(&to_json(&manifest)).map_err(said("eval_suite_manifest"))?)
    }

    /// Evaluates the runs of a manifest, with paths relative to its `base_dir`.
    ///
    /// ```harn
    /// run_record_save({id: "r", workflow_id: "w"}, "suite/run.json")
    /// println(eval_suite_run({id: "s", base_dir: "suite", cases: [{run_path: "run.json"}]}).passed) // -> 1
    /// ```
    Fs fn eval_suite_run(cx, manifest: Value as "suite_manifest?") -> "dict" {
        let manifest = suite_manifest(&to_json(&manifest)).map_err(said("eval_suite_run"))?;
        from_json(&with_files(cx, &manifest["base_dir"], |files| files.suite(&manifest)).map_err(said("eval_suite_run"))?)
    }

    /// Parses the manifest of a pack: cases, and the fixtures and rubrics that they name.
    ///
    /// An `eval_pack` declaration creates such a manifest. Missing fields get defaults; every fixture and rubric that
    /// a case names must exist.
    ///
    /// ```harn
    /// let pack = eval_pack_manifest({id: "smoke", fixtures: [{id: "run", path: "run.json"}], cases: [{run: "run"}]})
    /// println([pack.version, pack.cases[0].id, pack.cases[0].severity]) // -> [1, run, blocking]
    /// ```
    Pure fn eval_pack_manifest(cx, pack: Value as "eval_pack") -> "dict" {
        from_json(&evals::manifest(&to_json(&pack)).map_err(said("eval_pack_manifest"))?)
    }

    /// Evaluates the cases of a pack; only blocking cases make the pack fail.
    ///
    /// Paths are relative to the pack's `base_dir`.
    ///
    /// ```harn
    /// run_record_save({id: "r", workflow_id: "w", status: "failed"}, "run.json")
    /// let done = {id: "done", assertions: [{kind: "run-status", expected: "completed"}]}
    /// let report = eval_pack_run({id: "smoke", rubrics: [done], cases: [{run_path: "run.json", rubrics: ["done"]}]})
    /// println([report.pass, report.cases[0].failures]) // -> [false, [done: run status: expected completed, got failed]]
    /// ```
    Fs fn eval_pack_run(cx, pack: Value as "eval_pack") -> "dict" {
        let pack = evals::manifest(&to_json(&pack)).map_err(said("eval_pack_run"))?;
        from_json(&with_files(cx, &pack["base_dir"], |files| evals::evaluate(&pack, files)).map_err(said("eval_pack_run"))?)
    }

    /// Parses a friction event (something that was corrected or looked up) and redacts its secrets.
    ///
    /// ```harn
    /// let event = friction_event({kind: "lookup", redacted_summary: "asked with token=abc"})
    /// println(event.redacted_summary) // -> asked with token=[redacted]
    /// ```
    Pure fn friction_event(cx, event: Value as "friction_event") -> "dict" {
        from_json(&friction::event(&data("friction_event: event", &event)?).map_err(said("friction_event"))?)
    }

    /// Stores a friction event until the program ends: `{recorded, sink}`.
    ///
    /// `enabled: false` only validates the event and does not store it.
    ///
    /// ```harn
    /// println(friction_record({kind: "lookup", source: "support"})) // -> {recorded: true, sink: memory}
    /// ```
    State fn friction_record(cx, event: Value as "friction_event", options: Value as "{enabled?: bool}?") -> "dict" {
        let event = friction::event(&data("friction_record: event", &event)?).map_err(said("friction_record"))?;
        let recorded = to_json(&options)["enabled"].as_bool().unwrap_or(true);
        if recorded {
            cx.state::<Friction>().0.borrow_mut().push(event);
        }
        from_json(&json!({"recorded": recorded, "sink": "memory"}))
    }

    /// Returns the stored friction events, in order.
    ///
    /// ```harn
    /// friction_record({kind: "lookup", source: "support"})
    /// println(friction_events().map({ event -> event.source })) // -> [support]
    /// ```
    State fn friction_events(cx) -> "list<dict>" {
        from_json(&cx.state::<Friction>().0.borrow().clone().into())
    }

    /// Removes the stored friction events.
    ///
    /// ```harn
    /// friction_record({kind: "lookup"})
    /// friction_clear()
    /// println(friction_events()) // -> []
    /// ```
    State fn friction_clear(cx) -> "nil" {
        cx.state::<Friction>().0.borrow_mut().clear();
    }

    /// Suggests context packs for an agent, from friction events that occurred repeatedly.
    ///
    /// Events are grouped by kind, source and the first of the `recurrence_hints` (without hints, the tool or the
    /// summary). The first event of a group would have taken its time in any case, so the estimated savings are those
    /// of the other events.
    ///
    /// ```harn
    /// let event = {kind: "lookup", source: "support", recurrence_hints: ["order status"], estimated_time_ms: 40}
    /// let found = context_pack_suggestions([event, event, event], {min_occurrences: 2})
    /// println(found[0].title) // -> support order status context pack
    /// println(found[0].estimated_savings.estimated_time_saved_ms) // -> 80
    /// ```
    Pure fn context_pack_suggestions(cx, events: Value as "list<friction_event>", options: Value as "{min_occurrences?: int, owner?: string}?") -> "list<dict>" {
        let found = friction::suggestions(&to_json(&events), &to_json(&options)).map_err(said("context_pack_suggestions"))?;
        from_json(&found.into())
    }

    /// Creates the manifest of a context pack.
    ///
    /// ```harn
    /// let pack = context_pack_manifest({name: "Order Status"})
    /// println([pack.id, pack.refresh_policy.mode]) // -> [order_status, on_demand]
    /// ```
    Pure fn context_pack_manifest(cx, config: Value as "context_pack") -> "dict" {
        from_json(&friction::context_pack(&to_json(&config)).map_err(said("context_pack_manifest"))?)
    }

    /// Parses the manifest of a context pack from a JSON or TOML string.
    ///
    /// ```harn
    /// println(context_pack_manifest_parse("name = \"Order Status\"").id) // -> order_status
    /// ```
    Pure fn context_pack_manifest_parse(cx, source: Value as "string") -> "dict" {
        let source = text(&source).unwrap_or_default();
        let wrong = said("context_pack_manifest_parse");
        let read: Json = if source.trim_start().starts_with('{') {
            source.parse().map_err(|error| wrong(format!("that is not valid JSON: {error}")))?
        } else {
            crate::evals::toml_data(&source).map_err(&wrong)?
        };
        from_json(&friction::context_pack(&read).map_err(wrong)?)
    }

    /// Checks whether events lead to the expected suggestions: `{pass, failures, suggestion_count}`.
    ///
    /// Each expected suggestion is `{min_suggestions, recommended_artifact, title_contains, required_capability,
    /// required_output_slot}`; without an expectation, any suggestion passes.
    ///
    /// ```harn
    /// let event = {kind: "lookup", source: "support", metadata: {capability: "orders.read"}}
    /// let r = friction_eval_fixture({events: [event, event], expected_suggestions: [{required_capability: "orders.read"}]})
    /// println([r.pass, r.suggestion_count]) // -> [true, 1]
    /// ```
    Pure fn friction_eval_fixture(cx, fixture: Value as "friction_fixture") -> "dict" {
        from_json(&friction::evaluate(&to_json(&fixture)).map_err(said("friction_eval_fixture"))?)
    }
}

/// The metrics that a program recorded.
#[derive(Default)]
struct Metrics(RefCell<Vec<Json>>);

/// The corrections that a program recorded.
#[derive(Default)]
struct Friction(RefCell<Vec<Json>>);

/// Returns the metrics that a program recorded, for its host.
pub(crate) fn noted(cx: &harn_vm::Vm) -> Vec<Json> {
    cx.extension::<Metrics>().0.borrow().clone()
}

/// Returns a function that prefixes a message with the name of a builtin.
fn said(function: &'static str) -> impl Fn(String) -> Error {
    move |error| thrown(format!("{function}: {error}"))
}

fn with_files<T>(cx: &Cx, base: &Json, use_them: impl FnOnce(&Files<'_>) -> T) -> T {
    let (now, ids) = (|| timestamp_now(cx), || new_id(cx.vm()));
    let base = base.as_str().unwrap_or_default().into();
    use_them(&Files { system: &*cx.system(), base, now: &now, ids: &ids })
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
