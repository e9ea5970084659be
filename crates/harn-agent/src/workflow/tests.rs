//! Runs without I/O: random graphs whose work succeeds or fails at random. After every step the run is saved and loaded
//! again, so each test also verifies that the run can be interrupted there.

use std::cell::Cell;
use std::collections::BTreeSet;

use harn_prompt::ProseError;
use harn_value::{Data as Json, data::Map, json};
use proptest::prelude::*;

use super::*;

fn prose(_name: &str, bindings: &Map<String, Json>) -> Result<String, ProseError> {
    Ok(Json::Object(bindings.clone()).to_string())
}

/// Drives a run; `work` returns the result of a piece of work.
struct Driver {
    run: Execution,
    prompts: Vec<String>,
    pauses: Vec<u64>,
    most_at_once: usize,
}

fn graph(input: &Json) -> Graph {
    Graph::normalise(input, &|| "g".to_owned()).unwrap()
}

fn with_world<T>(body: impl FnOnce(&World<'_>) -> T) -> T {
    let count = Cell::new(0);
    let ids = || {
        count.set(count.get() + 1);
        count.get().to_string()
    };
    body(&World { now: &|| "2026-01-01T00:00:00.000Z".to_owned(), ids: &ids, prose: &prose })
}

fn report(text: &str, status: Option<&str>) -> Report {
    let result = match status {
        Some(status) => {
            json!({"status": status, "llm": {"input_tokens": 3, "output_tokens": 2}, "trace": {"llm_calls": 1}})
        }
        None => json!({"text": text, "input_tokens": 3, "output_tokens": 2}),
    };
    Report::of(result, text, "m", 0.5, 7)
}

fn drive(
    input: &Json,
    artifacts: &Json,
    options: &Json,
    mut work: impl FnMut(&Work) -> Result<Report, String>,
    mut command: impl FnMut(&Command) -> i64,
) -> Result<Driver, String> {
    with_world(|world| {
        let options = RunOptions::of(options)?;
        let run = Execution::new(graph(input), "the task", artifacts, options, world)?;
        let mut driver = Driver { run, prompts: Vec::new(), pauses: Vec::new(), most_at_once: 0 };
        let mut kept: Option<(Json, Mark)> = None;
        for _ in 0..100_000 {
            let saved = serde_json::to_string(&driver.run).unwrap();
            driver.run = serde_json::from_str(&saved).unwrap();
            let answer = match driver.run.next_step(world)? {
                Step::Finished => return Ok(driver),
                Step::Persist => {
                    // Applying the changes to any earlier record yields the current one.
                    let now = driver.run.packed_record();
                    let mut whole = now.clone();
                    unpack(&mut whole);
                    assert_eq!(whole, driver.run.record());
                    pack(&mut whole);
                    assert_eq!(whole, now);
                    if let Some((before, mark)) = kept.take().filter(|_| !driver.run.is_closing()) {
                        let mut grown = before;
                        assert!(apply(&mut grown, &driver.run.changes(mark)));
                        assert_eq!(grown, now);
                    }
                    kept = Some((now, driver.run.mark()));
                    Answer::Done
                }
                Step::Pause(ms) => {
                    driver.pauses.push(ms);
                    Answer::Done
                }
                Step::Command(asked) => Answer::Ran {
                    stdout: "out".to_owned(),
                    stderr: "err".to_owned(),
                    status: command(&asked),
                },
                Step::Run { works, at_once, enough, .. } => {
                    driver.most_at_once = driver.most_at_once.max(at_once);
                    driver.prompts.extend(works.iter().map(|work| work.prompt.clone()));
                    let mut good = 0;
                    let mut reports = Vec::new();
                    for one in &works {
                        if good >= enough {
                            reports.push(None);
                            continue;
                        }
                        let report = work(one);
                        good += usize::from(report.as_ref().is_ok_and(Report::succeeded));
                        reports.push(Some(report));
                    }
                    Answer::Worked(reports)
                }
            };
            driver.run.answer(answer, world)?;
        }
        Err("the run does not end".to_owned())
    })
}

fn ok(_: &Work) -> Result<Report, String> {
    Ok(report("done so", None))
}

fn outcomes(driver: &Driver) -> Vec<String> {
    let run = driver.run.record();
    let of = |stage: &Json| {
        format!("{}:{}", stage["node_id"].as_str().unwrap(), stage["outcome"].as_str().unwrap())
    };
    run["stages"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn a_repair_is_verified_again() {
    let input = json!({"act": {"mode": "llm"}, "verify": {"command": "check", "expect_status": 0}, "repair": {"mode": "llm"}});
    let tries = Cell::new(0);
    let fails_once = |_: &Command| {
        tries.set(tries.get() + 1);
        i64::from(tries.get() == 1)
    };
    let driver = drive(&input, &json!([]), &json!({}), ok, fails_once).unwrap();
    assert_eq!(
        outcomes(&driver),
        ["act:success", "verify:verification_failed", "repair:success", "verify:verified"]
    );
    let run = driver.run.record();
    assert_eq!(run["status"], "completed");
    assert_eq!(run["usage"]["call_count"], 2);
    assert!(driver.prompts[0].contains("command: check"));
    let transitions: Vec<String> = run["transitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| {
            format!(
                "{}-{}-{}",
                t["from_node_id"].as_str().unwrap(),
                t["branch"].as_str().unwrap(),
                t["to_node_id"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(transitions, ["act-success-verify", "verify-failed-repair", "repair-success-verify"]);
}

#[test]
fn tries_wait_longer_each_time() {
    let input = json!({"nodes": {"a": {"mode": "agent", "retry_policy": {"max_attempts": 4, "backoff_ms": 10, "backoff_multiplier": 2, "repair": true}}}});
    let left = Cell::new(3);
    let work = |_: &Work| {
        left.set(left.get() - 1);
        Ok(report("hm", Some(if left.get() >= 0 { "stuck" } else { "done" })))
    };
    let driver = drive(&input, &json!([]), &json!({}), work, |_| 0).unwrap();
    assert_eq!(driver.pauses, [10, 20, 40]);
    let run = driver.run.record();
    let attempts = run["stages"][0]["attempts"].as_array().unwrap();
    let words: Vec<&str> = attempts.iter().map(|one| one["outcome"].as_str().unwrap()).collect();
    assert_eq!(words, ["stuck", "stuck", "stuck", "success"]);
    assert!(driver.prompts[1].contains("stuck: hm"));
}

#[test]
fn a_map_takes_what_is_enough() {
    let map = |join: Json| json!({"nodes": {"m": {"kind": "map", "mode": "llm", "join_policy": join, "map_policy": {"items": ["a", "b", "c"], "max_concurrent": 2}}}});
    let fails_first = |work: &Work| {
        if work.prompt.contains("Map item 1 of 3") { Err("no".to_owned()) } else { Ok(report("yes", None)) }
    };
    let driver = drive(&map(json!({})), &json!([]), &json!({}), fails_first, |_| 0).unwrap();
    let run = driver.run.record();
    assert_eq!(
        (&run["stages"][0]["status"], run["artifacts"].as_array().unwrap().len()),
        (&json!("partial"), 2)
    );
    assert_eq!(driver.most_at_once, 2);
    let driver =
        drive(&map(json!({"strategy": "first"})), &json!([]), &json!({}), fails_first, |_| 0).unwrap();
    assert_eq!(driver.run.record()["stages"][0]["metadata"]["branches"][2]["outcome"], "not_needed");
    let driver = drive(&map(json!({})), &json!([]), &json!({}), |_| Err("no".to_owned()), |_| 0).unwrap();
    assert_eq!(outcomes(&driver), ["m:failed"]);
}

#[test]
fn a_run_goes_on_where_it_stood() {
    let input = json!({"id": "w", "nodes": {"a": {"mode": "llm"}, "b": {"mode": "llm"}, "c": {"mode": "llm"}},
        "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]});
    let first = drive(&input, &json!([]), &json!({"max_steps": 1}), ok, |_| 0).unwrap();
    let record = first.run.record();
    assert_eq!((&record["status"], &record["pending_nodes"]), (&json!("paused"), &json!(["b"])));
    let second = drive(&input, &json!([]), &json!({"resume_run": record}), ok, |_| 0).unwrap();
    assert_eq!(outcomes(&second), ["a:success", "b:success", "c:success"]);
    let run = second.run.record();
    assert_eq!((&run["id"], run["artifacts"].as_array().unwrap().len()), (&record["id"], 3));
    // A completed run does not repeat its work.
    let third = drive(&input, &json!([]), &json!({"resume_run": run}), ok, |_| 0).unwrap();
    assert_eq!(outcomes(&third).len(), 3);
    // A replay does no work.
    let replay = json!({"replay_mode": "deterministic", "replay_run": run});
    let played = drive(&input, &json!([]), &replay, |_| Err("must not be asked".to_owned()), |_| 0).unwrap();
    assert_eq!(outcomes(&played), outcomes(&second));
}

/// A random graph: nodes of all kinds with edges forwards and, rarely, backwards.
fn random_graph() -> impl Strategy<Value = Json> {
    let kind = prop::sample::select(graph::KINDS.to_vec());
    let node = (kind, 0_u64..3, any::<bool>(), 1_u64..4);
    let edge = (
        0_usize..8,
        0_usize..8,
        prop::option::of(prop::sample::select(vec![
            "success", "failed", "passed", "true", "false", "mapped",
        ])),
    );
    (prop::collection::vec(node, 1..8), prop::collection::vec(edge, 0..16)).prop_map(|(kinds, edges)| {
        let count = kinds.len();
        let mut nodes = Map::new();
        let mut all: Vec<Json> = edges
            .into_iter()
            .map(|(from, to, branch)| json!({"from": format!("n{}", from % count), "to": format!("n{}", to % count), "branch": branch}))
            .collect();
        for (at, (kind, items, model, tries)) in kinds.into_iter().enumerate() {
            let mut node = json!({"kind": kind, "retry_policy": {"max_attempts": tries}});
            if model && kind != "condition" {
                node["mode"] = "llm".into();
            }
            match kind {
                "map" => node["map_policy"] = json!({"items": vec!["x"; usize::try_from(items).unwrap() + 1]}),
                // If it read its own kind, its input would grow with each round.
                "reduce" => node["input_contract"] = json!({"input_kinds": ["artifact"], "max_inputs": 1000}),
                "verify" if !model => node["verify"] = json!({"command": "c"}),
                "condition" => {
                    for branch in ["true", "false"] {
                        all.push(json!({"from": format!("n{at}"), "to": format!("n{}", (at + 1) % count), "branch": branch}));
                    }
                }
                "fork" => {
                    for step in 1..3 {
                        all.push(json!({"from": format!("n{at}"), "to": format!("n{}", (at + step) % count)}));
                    }
                }
                _ => {}
            }
            nodes.insert(format!("n{at}"), node);
        }
        json!({"id": "random", "nodes": nodes, "edges": all})
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn runs_end_and_their_records_fit_together(input in random_graph(), luck in prop::collection::vec(any::<bool>(), 1..20), steps in prop::option::of(0_u64..24)) {
        let at = Cell::new(0);
        let lucky = || {
            at.set(at.get() + 1);
            luck[at.get() % luck.len()]
        };
        let options = steps.map_or_else(|| json!({}), |steps| json!({"max_steps": steps}));
        let work = |_: &Work| Ok(report("text", Some(if lucky() { "done" } else { "stuck" })));
        let driver = drive(&input, &json!([]), &options, work, |_| i64::from(!lucky())).unwrap();
        let run = driver.run.record();
        let graph = graph(&input);
        let routes = super::routes::Routes::new(graph.clone());
        let stages = run["stages"].as_array().unwrap();
        let limit = steps.unwrap_or(4 * graph.nodes.len() as u64);
        prop_assert!(stages.len() as u64 <= limit);
        let pending = run["pending_nodes"].as_array().unwrap();
        prop_assert_eq!(run["status"] == "completed", pending.is_empty());
        let ids: BTreeSet<&str> = stages.iter().map(|stage| stage["id"].as_str().unwrap()).collect();
        prop_assert_eq!(ids.len(), stages.len());
        let unique: BTreeSet<String> = pending.iter().map(Json::to_string).collect();
        prop_assert_eq!(unique.len(), pending.len());
        for transition in run["transitions"].as_array().unwrap() {
            prop_assert!(ids.contains(transition["from_stage_id"].as_str().unwrap()));
            prop_assert!(graph.node(transition["to_node_id"].as_str().unwrap()).is_some());
        }
        let mut done: BTreeSet<&str> = BTreeSet::new();
        for stage in stages {
            let node = graph.node(stage["node_id"].as_str().unwrap()).unwrap();
            let most = node.part("retry_policy")["max_attempts"].as_u64().unwrap();
            prop_assert!(stage["attempts"].as_array().unwrap().len() as u64 <= most);
            if node.kind() == "join" {
                prop_assert!(routes.incoming(&node.id).iter().all(|id| done.contains(id)), "{} ran too early", node.id);
            }
            done.insert(&node.id);
        }
        // A paused run can be resumed until it has ended.
        if run["status"] == "paused" {
            let again = drive(&input, &json!([]), &json!({"resume_run": run, "max_steps": 20}), ok, |_| 0).unwrap();
            prop_assert!(again.run.is_over());
        }
    }
}

#[test]
fn a_record_grows_as_its_stages_do() {
    let bytes_of_a_stage = |count: usize| {
        let name = |n: usize| format!("a_step_of_the_way_{n:04}");
        let nodes: Map<String, Json> = (0..count).map(|n| (name(n), json!({"kind": "join"}))).collect();
        let edges: Vec<Json> = (1..count).map(|n| json!({"from": name(n - 1), "to": name(n)})).collect();
        let graph = json!({"id": "g", "entry": name(0), "nodes": nodes, "edges": edges});
        with_world(|world| {
            let graph = Graph::normalise(&graph, &String::new).unwrap();
            let mut run = Execution::new(graph, "x", &Json::Null, RunOptions::default(), world).unwrap();
            while run.next_step(world).unwrap() != Step::Finished {
                run.answer(Answer::Done, world).unwrap();
            }
            assert_eq!(run.record()["stages"].as_array().map(Vec::len), Some(count));
            run.packed_record().to_string().len() / count
        })
    };
    let (few, many) = (bytes_of_a_stage(50), bytes_of_a_stage(800));
    assert!(many <= few + few / 20, "{few} bytes a stage, then {many}");
}

#[test]
fn a_record_is_the_sum_of_its_changes() {
    let mut record = json!({
        "id": "r", "status": "running", "stages": [], "transitions": [], "checkpoints": [1], "completed_nodes": [],
        "child_runs": [], "artifacts": [],
    });
    let changes = |checkpoints: usize, stages: usize| {
        json!({
            "id": "r", "fields": {"status": "running", "usage": checkpoints},
            "had": {"stages": stages, "transitions": 0, "checkpoints": checkpoints, "completed_nodes": 0, "child_runs": 0, "artifacts": 0},
            "more": {"stages": [stages], "checkpoints": [checkpoints]},
        })
    };
    // Repeated changes have no effect; a gap, another run and malformed values are rejected.
    assert!(crate::workflow::apply(&mut record, &changes(1, 0)));
    assert!(crate::workflow::apply(&mut record, &changes(1, 0)));
    assert!(crate::workflow::apply(&mut record, &changes(2, 1)));
    assert!(!crate::workflow::apply(&mut record, &changes(7, 2)));
    let mut other = changes(3, 2);
    other["id"] = "s".into();
    assert!(!crate::workflow::apply(&mut record, &other));
    assert!(!crate::workflow::apply(&mut record, &json!(3)));
    assert_eq!((&record["stages"], &record["usage"]), (&json!([0, 1]), &json!(2)));
}
