use harn_value::{Data as Json, json};

use super::{Reader, evaluate, friction, manifest};
use crate::workflow::fixture::normalise;

/// A reader of runs that are embedded in the pack; it cannot read files.
struct Inline;

impl Reader for Inline {
    fn run(&self, path: &str) -> Result<Json, String> {
        Err(format!("cannot read {path}"))
    }

    fn inline_run(&self, run: &Json) -> Result<Json, String> {
        normalise(run, "", &String::new)
    }

    fn json(&self, path: &str) -> Result<Json, String> {
        Err(format!("cannot read {path}"))
    }

    fn millis(&self, moment: &str) -> Option<i64> {
        moment.parse().ok()
    }
}

fn refused(pack: Json) -> String {
    manifest(&pack).unwrap_err()
}

fn one_case(case: Json, rest: Json) -> Json {
    let run = json!({
        "id": "r", "workflow_id": "w", "status": "completed", "started_at": "1000", "finished_at": "3500",
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_cost": 0.5},
        "stages": [{"node_id": "a", "status": "failed", "visible_text": "no"}, {"node_id": "a", "status": "completed", "visible_text": "hello"}],
        "hitl_questions": [{"prompt": "Which file?"}],
    });
    let mut pack = json!({"id": "p", "fixtures": [{"id": "run", "inline": run}], "cases": [{"run": "run"}]});
    for (from, into) in [(&case, true), (&rest, false)] {
        for (key, value) in from.as_object().unwrap().iter() {
            let place = if into { &mut pack["cases"][0] } else { &mut pack };
            place[key.as_str()] = value.clone();
        }
    }
    evaluate(&manifest(&pack).unwrap(), &Inline).unwrap()
}

fn failures(case: Json, rest: Json) -> Json {
    one_case(case, rest)["cases"][0]["failures"].clone()
}

#[test]
fn what_a_pack_refers_to_has_to_be_there() {
    let run = json!({"id": "r", "inline": {}});
    for (pack, text) in [
        (json!(3), "pack must be a dict, got int"),
        (json!({}), "id is required: a text that names the pack"),
        (json!({"id": "p", "version": 2}), "version must be 1, got 2"),
        (json!({"id": "p", "case": []}), "the pack has no field `case`"),
        (
            json!({"id": "p", "cases": [{}]}),
            "cases[0] needs run (the id of a fixture), run_path or friction_events",
        ),
        (
            json!({"id": "p", "cases": [{"run": "x"}]}),
            "cases[0].run: there is no fixture 'x'; the pack has none",
        ),
        (
            json!({"id": "p", "fixtures": [run], "cases": [{"run": "x"}]}),
            "cases[0].run: there is no fixture 'x'; there are r",
        ),
        (
            json!({"id": "p", "fixtures": [run], "cases": [{"run": "r", "fixture": "r"}]}),
            "cases[0].fixture: fixture 'r' is of kind run-record",
        ),
        (
            json!({"id": "p", "fixtures": [run], "cases": [{"run": "r", "run_path": "r.json"}]}),
            "cases[0] has both run and run_path",
        ),
        (json!({"id": "p", "fixtures": [run, run]}), "fixtures[1].id: there are two with the id 'r'"),
        (json!({"id": "p", "fixtures": [{"id": "x"}]}), "fixtures[0] needs either path or inline"),
        (
            json!({"id": "p", "fixtures": [{"id": "x", "path": "x", "kind": "jsonl-trace"}]}),
            "fixtures[0].kind: 'jsonl-trace' is reserved",
        ),
        (
            json!({"id": "p", "fixtures": [{"id": "x", "path": "x", "kind": "trace"}]}),
            "fixtures[0].kind must be one of run-record",
        ),
        (
            json!({"id": "p", "fixtures": [run], "cases": [{"run": "r", "rubrics": ["q"]}]}),
            "cases[0].rubrics[0]: there is no rubric 'q'",
        ),
        (
            json!({"id": "p", "fixtures": [run], "cases": [{"run": "r", "severity": "high"}]}),
            "cases[0].severity must be one of blocking, warning, informational, got 'high'",
        ),
        (
            json!({"id": "p", "fixtures": [run], "cases": [{"run": "r", "thresholds": {"max-time": 1}}]}),
            "cases[0].thresholds has no field `max-time`",
        ),
        (
            json!({"id": "p", "fixtures": [run], "cases": [{"run": "r", "thresholds": {"max-tokens": -1}}]}),
            "cases[0].thresholds.max-tokens must be a number from 0 on",
        ),
        (json!({"id": "p", "base-dir": "x"}), "the pack has no field `base-dir`"),
        (
            json!({"id": "p", "fixtures": [run], "cases": [{"run": "r", "compare-to": "x"}]}),
            "cases[0] has no field `compare-to`",
        ),
        (json!({"id": "p", "rubrics": [{"id": "q"}]}), "rubrics[0].assertions is required"),
        (
            json!({"id": "p", "rubrics": [{"id": "q", "kind": "llm"}]}),
            "rubrics[0].kind must be one of deterministic, got 'llm'",
        ),
        (
            json!({"id": "p", "rubrics": [{"id": "q", "assertions": [{"kind": "run-status"}]}]}),
            "rubrics[0].assertions[0].expected is required",
        ),
        (
            json!({"id": "p", "rubrics": [{"id": "q", "assertions": [{"kind": "run-status", "expected": "x", "stage": "a"}]}]}),
            "rubrics[0].assertions[0] has no field `stage`",
        ),
        (
            json!({"id": "p", "rubrics": [{"id": "q", "assertions": [{"kind": "colour", "expected": "x"}]}]}),
            "rubrics[0].assertions[0].kind must be one of run-status",
        ),
    ] {
        let error = refused(pack);
        assert!(error.starts_with(text), "{error}\n{text}");
    }
}

#[test]
fn rubrics_limits_and_baselines_are_told_one_by_one() {
    assert_eq!(failures(json!({}), json!({})), json!([]));
    let asserted = |assertions: Json| {
        failures(json!({"rubrics": ["q"]}), json!({"rubrics": [{"id": "q", "assertions": assertions}]}))
    };
    let holds = json!([
        {"kind": "run-status", "expected": "completed"}, {"kind": "stage-status", "stage": "a", "expected": "completed"},
        {"kind": "visible-text-contains", "contains": "hell"}, {"kind": "visible-text-contains", "contains": "no", "stage": "a"},
        {"kind": "hitl-question-contains", "contains": "file"},
    ]);
    assert_eq!(asserted(holds), json!([]));
    let breaks = json!([
        {"kind": "run-status", "expected": "failed"}, {"kind": "stage-status", "stage": "a", "expected": "failed"},
        {"kind": "stage-status", "stage": "b", "expected": "failed"}, {"kind": "visible-text-contains", "contains": "bye"},
        {"kind": "visible-text-contains", "contains": "no", "stage": "b"}, {"kind": "hitl-question-contains", "contains": "why"},
    ]);
    let told = [
        "q: run status: expected failed, got completed",
        "q: stage a status: expected failed, got completed",
        "q: stage b: missing",
        "q: visible text does not contain 'bye'",
        "q: stage b: visible text does not contain 'no'",
        "q: no question contains 'why'",
    ];
    assert_eq!(asserted(breaks), json!(told));
    let within = json!({"max-latency-ms": 2500, "max-cost-usd": 0.5, "max_tokens": 15});
    assert_eq!(failures(json!({"thresholds": within}), json!({})), json!([]));
    let beyond = json!({"max-latency-ms": 2499, "max-cost-usd": 0.4, "max_tokens": 14});
    let told = [
        "latency (ms): at most 2499, got 2500",
        "cost (USD): at most 0.4, got 0.5",
        "tokens: at most 14, got 15",
    ];
    assert_eq!(failures(json!({"thresholds": beyond}), json!({})), json!(told));
    let other = json!({"id": "other", "workflow_id": "w", "status": "failed"});
    let told = json!(["differs from its baseline other"]);
    assert_eq!(failures(json!({}), json!({"baseline": other})), told);
    // A baseline in the case takes precedence over one in the pack.
    assert_eq!(failures(json!({"compare_to": "run"}), json!({"baseline": other})), json!([]));
    assert_eq!(failures(json!({}), json!({"defaults": {"compare_to": other}})), told);
}

#[test]
fn only_blocking_failures_fail_a_pack() {
    for (severity, pass, list) in [
        ("blocking", false, "failures"),
        ("warning", true, "warnings"),
        ("informational", true, "informational"),
    ] {
        let report = one_case(json!({"severity": severity, "thresholds": {"max_tokens": 1}}), json!({}));
        assert_eq!(report["pass"], pass, "{severity}");
        assert_eq!(report[&*format!("{severity}_failed")], 1);
        assert_eq!(report["cases"][0]["pass"], false);
        for other in ["failures", "warnings", "informational"] {
            assert_eq!(
                report["cases"][0][other].as_array().unwrap().len(),
                usize::from(other == list),
                "{severity} {other}"
            );
        }
    }
}

#[test]
fn events_are_kept_without_secrets() {
    let given = json!({
        "kind": "correction", "redacted_summary": "called with token=abc123, password: \"x y\" and Authorization: Bearer s3cr3t; secret_ref=vault",
        "metadata": {"api_key": "k", "secret_ref": "vault/key", "query": "a&access_token=zzz&b"},
    });
    let event = friction::event(&given).unwrap();
    let text = event["redacted_summary"].as_str().unwrap();
    for secret in ["abc123", "s3cr3t", "\"x"] {
        assert!(!text.contains(secret), "{text}");
    }
    assert!(text.contains("token=[redacted]") && text.contains("secret_ref=vault"), "{text}");
    let kept =
        json!({"api_key": "[redacted]", "secret_ref": "vault/key", "query": "a&access_token=[redacted]&b"});
    assert_eq!(event["metadata"], kept);
}

#[test]
fn what_happens_again_leads_to_a_suggestion() {
    let event = |source: &str, ms: i64| {
        json!({
            "kind": "lookup", "source": source, "recurrence_hints": ["order status"], "estimated_time_ms": ms,
            "metadata": {"capability": "orders.read", "output_slot": "status"},
        })
    };
    let events =
        json!([event("support", 100), event("sales", 7), event("support", 30), event("support", 20)]);
    let found = friction::suggestions(&events, &json!({"owner": "ops"})).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["title"], "support order status context pack");
    assert_eq!(found[0]["estimated_savings"]["estimated_time_saved_ms"], 50);
    let manifest = &found[0]["candidate_manifest"];
    assert_eq!(manifest["id"], "support_order_status_context_pack");
    assert_eq!(manifest["owner"], "ops");
    assert_eq!(
        (&manifest["capabilities"], &manifest["output_slots"]),
        (&json!(["orders.read"]), &json!(["status"]))
    );
    assert_eq!(manifest["refresh_policy"], json!({"mode": "on_demand"}));
    assert_eq!(friction::suggestions(&events, &json!({"min_occurrences": 1})).unwrap().len(), 2);
    assert_eq!(friction::suggestions(&events, &json!({"min_occurrences": 4})).unwrap().len(), 0);
    let fixture = |wanted: Json| {
        friction::evaluate(&json!({"events": events, "expected_suggestions": [wanted]})).unwrap()
    };
    let met = json!({"title_contains": "order", "required_capability": "orders.read", "required_output_slot": "status", "recommended_artifact": "context_pack"});
    assert_eq!(fixture(met)["pass"], true);
    let missed = fixture(json!({"required_capability": "orders.write"}));
    assert_eq!(missed["failures"], json!(["expected_suggestions[0]: at least 1 suggestions, got 0"]));
    assert_eq!(fixture(json!({"min_suggestions": 2}))["pass"], false);
}
