use harn_value::{Data as Json, json};

use super::*;

fn plan(carry: Json) -> Plan {
    Plan {
        id: "w1".to_owned(),
        name: "worker".to_owned(),
        mode: Mode::Stage,
        task: "One".to_owned(),
        request: Request::new("One", Some("Be brief."), &json!({"action_items": "check"})),
        lineage: Lineage::default(),
        carry: Carry::from_option(&carry).unwrap(),
        execution: Execution::default(),
        audit: Json::Null,
        config: json!({"node": {"mode": "llm", "api_key": "secret"}}),
        transcript: Json::Null,
        artifacts: Vec::new(),
        inherited: Vec::new(),
        own: Vec::new(),
    }
}

fn record(carry: Json) -> Record {
    Record::new(plan(carry), "t0")
}

fn outcome(text: &str) -> Outcome {
    Outcome {
        result: json!({"text": text}),
        transcript: json!({"messages": [text]}),
        artifacts: vec![json!({"text": text})],
        run: Some(("r1".to_owned(), Some("runs/r1.json".to_owned()))),
    }
}

#[test]
fn work_ends_and_goes_on_with_what_it_had() {
    let mut record = record(Json::Null);
    assert_eq!(record.send_input("Two", "t1"), Err("send_input: worker w1 is still running".to_owned()));
    assert_eq!(record.finish(outcome("a"), "t1"), Update::Completed);
    assert_eq!((record.life, record.finished_at.as_deref()), (Life::Completed, Some("t1")));
    assert_eq!(record.send_input(" ", "t2"), Err("send_input: task text must not be empty".to_owned()));
    assert_eq!(record.send_input("Two", "t2"), Ok(Update::Progressed));
    let inputs = record.inputs();
    assert_eq!((inputs.task.as_str(), inputs.artifacts.len()), ("Two", 1));
    assert_eq!(inputs.transcript, json!({"messages": ["a"]}));
    assert_eq!(inputs.run_path.as_deref(), Some("runs/r1.json"));
    let handle = record.handle();
    assert_eq!(
        (&handle["status"], &handle["result"], &handle["history"]),
        (&json!("running"), &Json::Null, &json!(["One", "Two"]))
    );
    assert_eq!(handle["request"]["task"], "One");
    assert_eq!(handle["request"]["payload"], json!({"action_items": ["check"]}));
}

#[test]
fn what_is_not_to_be_carried_is_left() {
    let mut record =
        record(json!({"transcript_mode": "reset", "artifact_mode": "none", "resume_workflow": false}));
    record.finish(outcome("a"), "t1");
    record.send_input("Two", "t2").unwrap();
    let inputs = record.inputs();
    assert_eq!((inputs.transcript, inputs.artifacts, inputs.run_path), (Json::Null, Vec::new(), None));
}

#[test]
fn what_fails_keeps_what_it_had_before() {
    let mut record = record(Json::Null);
    record.finish(outcome("a"), "t1");
    record.send_input("Two", "t2").unwrap();
    assert_eq!(record.fail("boom", "t3"), Update::Failed);
    assert_eq!(record.error.as_deref(), Some("boom"));
    assert_eq!(record.transcript, json!({"messages": ["a"]}));
    assert_eq!(record.cancel("t4"), None, "what has ended cannot be stopped");
}

#[test]
fn only_what_waits_can_be_triggered() {
    let mut once = record(Json::Null);
    once.finish(outcome("a"), "t1");
    let refused = |record: &mut Record, payload: Json| record.trigger(&payload, "t2").unwrap_err();
    assert_eq!(refused(&mut once, json!("x")), "worker_trigger: worker w1 is not retriggerable");
    let mut again = record(json!({"retriggerable": true}));
    assert_eq!(refused(&mut again, json!("x")), "worker_trigger: worker w1 is still running");
    assert_eq!(again.finish(outcome("a"), "t1"), Update::WaitingForInput);
    assert_eq!(again.awaiting_started_at.as_deref(), Some("t1"));
    for empty in [json!(null), json!(""), json!(" \n")] {
        assert_eq!(refused(&mut again, empty), "worker_trigger: payload must not be empty");
    }
    assert_eq!(again.trigger(&json!({"n": 1}), "t2"), Ok(Update::Progressed));
    assert_eq!((again.task(), &again.latest_payload), ("{\"n\":1}", &json!({"n": 1})));
    again.fail("boom", "t3");
    assert_eq!(refused(&mut again, json!("x")), "worker_trigger: worker w1 is not awaiting (status=failed)");
    again.send_input("Three", "t4").unwrap();
    again.finish(outcome("b"), "t5");
    assert_eq!(again.cancel("t6"), Some(Update::Cancelled));
    assert_eq!((again.life, again.awaiting_started_at.as_deref()), (Life::Cancelled, None));
}

#[test]
fn a_snapshot_is_the_whole_record() {
    let mut record = record(json!({"transcript_mode": "fork", "retriggerable": true}));
    record.finish(outcome("a"), "t1");
    record.trigger(&json!("go"), "t2").unwrap();
    record.finish(outcome("b"), "t3");
    let snapshot = record.snapshot();
    assert_eq!((&snapshot["_type"], &snapshot["status"]), (&json!("worker_snapshot"), &json!("awaiting")));
    for key in ["config", "transcript", "artifacts", "latest_payload", "latest_error", "carry_policy"] {
        assert!(snapshot.get(key).is_some(), "{key}");
    }
    assert!(!snapshot.to_string().contains("secret"), "keys stay out of files");
    let text = serde_json::to_string_pretty(&snapshot).unwrap();
    let read = Record::from_snapshot(serde_json::from_str(&text).unwrap()).unwrap();
    assert_eq!(read, record);
}

#[test]
fn work_whose_process_died_starts_its_task_again() {
    let mut first = record(Json::Null);
    first.finish(outcome("a"), "t1");
    first.send_input("Two", "t2").unwrap();
    let mut read = Record::from_snapshot(first.snapshot()).unwrap();
    assert_eq!(read.life, Life::Interrupted);
    assert_eq!(read.resume("t9"), Some(Update::Progressed));
    assert_eq!((read.life, read.inputs()), (Life::Running, first.inputs()));
    read.finish(outcome("b"), "t10");
    assert_eq!(read.resume("t11"), None, "what has ended keeps its status");
    for wrong in [json!({}), json!({"_type": "worker_snapshot"}), json!(3)] {
        assert!(Record::from_snapshot(wrong).is_err());
    }
}

#[test]
fn closures_are_missed_by_their_place() {
    let closure = Json::opaque("closure", "<closure>");
    let mut plan = plan(Json::Null);
    plan.config = json!({"node": {"tools": {"tools": [{"name": "t", "handler": closure}]}}});
    let record = Record::new(plan, "t0");
    assert_eq!(record.closures, ["node.tools.tools.0.handler"]);
    assert_eq!(record.config["node"]["tools"]["tools"][0]["handler"], Json::Null);
}

#[test]
fn wrong_options_are_named() {
    let carry = |option: Json| Carry::from_option(&option).unwrap_err();
    assert_eq!(carry(json!(3)), "carry must be a dict");
    assert!(carry(json!({"transcript_mode": "x"})).starts_with("unknown carry.transcript_mode 'x' ("));
    assert!(carry(json!({"artifact_mode": "x"})).starts_with("unknown carry.artifact_mode 'x' ("));
    assert!(carry(json!({"retrigerable": true})).starts_with("carry has no key 'retrigerable'"));
    assert_eq!(carry(json!({"persist_state": "no"})), "carry.persist_state must be a bool");
    let execution = |option: Json| Execution::from_option(&option, "w1").unwrap_err();
    assert_eq!(execution(json!({"cwd": 3})), "execution.cwd must be a string that is not empty");
    assert_eq!(execution(json!({"env": {"A": 1}})), "execution.env.A must be a string");
    assert_eq!(execution(json!({"worktree": {}})), "execution.worktree.repo is required");
    assert_eq!(
        execution(json!({"worktree": {"repo": ".", "branch": "--x"}})),
        "execution.worktree: '--x' is no name of a branch or commit"
    );
    assert!(
        execution(json!({"worktree": {"repo": ".", "cleanup": "x"}})).contains("expected preserve or remove")
    );
    let tree = Execution::from_option(&json!({"worktree": {"repo": "."}}), "w1").unwrap().worktree.unwrap();
    assert_eq!(
        (tree.branch.as_str(), tree.base_ref.as_str(), tree.cleanup),
        ("harn-w1", "HEAD", Cleanup::Preserve)
    );
}

mod envelopes {
    use super::*;

    fn ended(status: &str, said: &str, events: Json) -> Json {
        json!({"status": status, "trace": {"status": status}, "transcript": {
            "messages": [{"role": "assistant", "content": said}], "events": events,
        }})
    }

    fn of(outcome: &Json, last: &str, wants_data: bool) -> Json {
        Envelope::of(outcome, last, false, "s", wants_data).to_json()
    }

    #[test]
    fn text_and_tokens() {
        let events = json!([
            {"kind": "provider_payload", "metadata": {"input_tokens": 5, "output_tokens": 2}},
            {"kind": "provider_payload", "metadata": {"input_tokens": 7}},
        ]);
        let envelope = of(&ended("done", "Hello.", events), "Hello.", false);
        assert_eq!(
            (&envelope["ok"], &envelope["summary"], &envelope["tokens_used"]),
            (&json!(true), &json!("Hello."), &json!(14))
        );
        assert_eq!((&envelope["data"], &envelope["error"]), (&Json::Null, &Json::Null));
    }

    #[test]
    fn data_and_usage_are_those_of_the_loop() {
        let mut outcome = ended("done", "{\"a\": 1}", json!([]));
        outcome["data"] = json!({"a": 1});
        outcome["tools_used"] = json!(["look"]);
        outcome["llm"] = json!({"input_tokens": 3, "output_tokens": 2});
        outcome["trace"]["llm_calls"] = 2.into();
        let envelope = of(&outcome, "Here: {\"a\": 1}", true);
        assert_eq!((&envelope["data"], &envelope["summary"]), (&json!({"a": 1}), &json!("{\"a\":1}")));
        assert_eq!(envelope["tools_used"], json!(["look"]));
        assert_eq!(envelope["usage"], json!({"input_tokens": 3, "output_tokens": 2, "llm_calls": 2}));
        let none = of(&ended("done", "Sorry.", json!([])), "Sorry.", true);
        assert_eq!(none["error"]["message"], "sub_agent_run: the last reply did not contain valid JSON");
        let mut wrong = ended("failed", "{}", json!([]));
        wrong["error"] = json!({"category": "schema_validation", "message": "no 'a'"});
        let wrong = of(&wrong, "{}", true);
        assert_eq!(
            wrong["error"],
            json!({"category": "schema_validation", "message": "sub_agent_run: no 'a'"})
        );
    }

    #[test]
    fn a_denied_call_is_a_failure_with_its_tool() {
        let text = "{\"error\": \"permission_denied\", \"reason\": \"no\", \"tool\": \"rm\"}";
        let events = json!([{"kind": "tool_execution", "text": text,
            "metadata": {"tool_name": "rm", "error_category": "permission_denied"}}]);
        let envelope = of(&ended("done", "Sorry.", events), "Sorry.", true);
        assert_eq!(
            envelope["error"],
            json!({"category": "permission_denied", "message": "no", "tool": "rm"})
        );
    }

    #[test]
    fn budgets_and_other_ends() {
        let spent = of(&ended("budget_exhausted", "x", json!([])), "x", false);
        assert_eq!(
            (&spent["budget_exceeded"], &spent["error"]["category"]),
            (&json!(true), &json!("budget_exceeded"))
        );
        let outcome = ended("budget_exhausted", "x", json!([]));
        let turns = Envelope::of(&outcome, "x", true, "s", false).to_json();
        assert_eq!(
            (&turns["budget_exceeded"], &turns["error"]["category"]),
            (&json!(false), &json!("runtime"))
        );
        let stuck = of(&ended("stuck", "x", json!([])), "x", false);
        assert_eq!(stuck["error"]["message"], "sub_agent_run: the loop ended stuck");
    }
}
