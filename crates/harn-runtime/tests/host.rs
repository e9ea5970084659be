//! A host that answers loops and sends messages to them while they run.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use harn_runtime::{HostInbox, host_inbox};
use harn_stdlib::{Answer, HostBridge, attach_host};
use harn_value::{Data as Json, Value, json};
use harn_vm::Error;

use crate::common::{Run, run_in};

type Reply = Result<Json, String>;
type Told = Rc<RefCell<Vec<(String, Json)>>>;

/// A host that is implemented by closures.
struct Host<A, N> {
    /// Answers a request; `None` if it is unknown.
    answer: A,
    /// Receives a notification.
    hear: N,
    inbox: Rc<HostInbox>,
    told: Told,
}

fn value(reply: Option<Reply>) -> Option<harn_vm::Result<Value>> {
    reply.map(|reply| reply.map(|found| json::from_data(&found)).map_err(Error::thrown))
}

impl<A, N> HostBridge for Host<A, N>
where
    A: Fn(&HostInbox, &str, Json) -> Option<Reply>,
    N: Fn(&HostInbox, &str, &Json),
{
    fn call<'a>(&'a self, capability: &'a str, operation: &'a str, params: Value) -> Answer<'a> {
        let params = json::to_data(&params).unwrap();
        let answer = (self.answer)(&self.inbox, &format!("{capability}/{operation}"), params);
        Box::pin(async move { value(answer) })
    }

    fn notify(&self, method: &str, params: Value) {
        let params = json::to_data(&params).unwrap();
        (self.hear)(&self.inbox, method, &params);
        self.told.borrow_mut().push((method.to_owned(), params));
    }

    fn call_tool<'a>(&'a self, name: &'a str, arguments: Value) -> Answer<'a> {
        let arguments = json::to_data(&arguments).unwrap();
        let answer = (self.answer)(&self.inbox, &format!("tool:{name}"), arguments);
        Box::pin(async move { value(answer) })
    }
}

/// Runs a program with a host; returns its output and the messages to the host.
fn hosted(
    text: &str,
    answer: impl Fn(&HostInbox, &str, Json) -> Option<Reply> + 'static,
    hear: impl Fn(&HostInbox, &str, &Json) + 'static,
) -> (Run, Vec<(String, Json)>) {
    let told = Told::default();
    let kept = told.clone();
    let env = [("HARN_LLM_CALLS_DISABLED", "1")];
    let run = run_in("test.harn", text, Path::new("/"), &env, None, |vm| {
        let inbox = host_inbox(vm);
        attach_host(vm, Rc::new(Host { answer, hear, inbox, told }));
    });
    assert_eq!(run.error, None, "{}{}", run.output, run.errors);
    let told = kept.borrow().clone();
    (run, told)
}

fn silent(_: &HostInbox, _: &str, _: Json) -> Option<Reply> {
    None
}

fn deaf(_: &HostInbox, _: &str, _: &Json) {}

#[test]
fn f154_people_speak_to_a_loop_in_three_ways() {
    let text = r###"
        let tools = tool_define(tool_registry(), "look", "d", {handler: nil})
        llm_mock({tool_calls: [{name: "look", arguments: {}}]})
        llm_mock({text: "working"})
        llm_mock({text: "##DONE##"})
        let r = agent_loop("go", nil, {provider: "mock", tools: tools, persistent: true})
        let said = r.transcript.messages.filter({ m -> m.role == "user" }).map({ m -> m.content })
        println(said.map({ t -> t.starts_with("<runtime_feedback") ? "feedback" : t }))
        println(r.deferred_user_messages)
        println("${r.status} ${r.iterations}")
        for e in transcript_events_by_kind(r.transcript, "host_input") {
          println("${e.visibility} ${e.metadata.delivery} ${e.text}")
        }
    "###;
    let (run, _) = hosted(
        text,
        |inbox, method, _| {
            assert_eq!(method, "tool:look");
            for (content, mode) in [("later", "wait_for_completion"), ("now", "interrupt_immediate")] {
                inbox.tell("session/input", &json!({"content": content, "mode": mode})).unwrap();
            }
            inbox.tell("user_message", &json!({"content": [{"type": "text", "text": "soon"}]})).unwrap();
            Some(Ok(json!("seen")))
        },
        deaf,
    );
    assert_eq!(
        run.output,
        "[go, feedback, soon, now, feedback, feedback]\n[later]\ndone 3\npublic finish_step soon\npublic interrupt_immediate now\n"
    );
}

#[test]
fn a_message_instead_of_a_nudge() {
    let text = r###"
        llm_mock({text: "thinking"})
        llm_mock({text: "##DONE##"})
        let r = agent_loop("go", nil, {provider: "mock", persistent: true, max_nudges: 0, session_id: "s"})
        println("${r.status} ${r.transcript.messages.map({ m -> m.content })}")
    "###;
    let hear = |inbox: &HostInbox, method: &str, params: &Json| {
        if method == "session/update"
            && params["type"] == "agent_message_chunk"
            && params["text"] == "thinking"
        {
            // For another loop, so it remains queued.
            inbox.tell("session/input", &json!({"content": "other", "session_id": "t"})).unwrap();
            inbox.tell("session/input", &json!({"content": "go on", "session_id": "s"})).unwrap();
        }
    };
    let (run, _) = hosted(text, silent, hear);
    assert_eq!(run.output, "done [go, thinking, go on, ##DONE##]\n");
}

#[test]
fn f162_a_host_wakes_a_daemon() {
    let text = r###"
        for n in 1 to 3 { llm_mock({text: "turn ${n}"}) }
        let r = agent_loop("go", nil, {provider: "mock", daemon: true, max_iterations: 3})
        println("${r.status} ${r.iterations}")
        println(transcript_events_by_kind(r.transcript, "daemon_wake").map({ e -> e.metadata.reason }))
        println(r.transcript.messages.map({ m -> m.content }))
    "###;
    let hear = |inbox: &HostInbox, method: &str, params: &Json| {
        if method == "agent/idle" {
            match params["iteration"].as_i64() {
                Some(1) => inbox.tell("agent/resume", &json!({})).unwrap(),
                // While the loop is idle, the delivery mode is irrelevant.
                _ => inbox
                    .tell("agent/user_message", &json!({"content": "hello", "mode": "wait_for_completion"}))
                    .unwrap(),
            }
        }
    };
    let (run, told) = hosted(text, silent, hear);
    assert_eq!(run.output, "budget_exhausted 3\n[resume, message]\n[go, turn 1, turn 2, hello, turn 3]\n");
    let idle: Vec<&Json> = told.iter().filter(|(m, _)| m == "agent/idle").map(|(_, p)| p).collect();
    assert_eq!(idle[0], &json!({"iteration": 1, "backoff_ms": 100}));
}

#[test]
fn a_daemon_hears_at_rest_what_was_to_wait() {
    let text = r###"
        let tools = tool_define(tool_registry(), "look", "d", {handler: nil})
        llm_mock({tool_calls: [{name: "look", arguments: {}}]})
        llm_mock({text: "first"})
        llm_mock({text: "second"})
        let r = agent_loop("go", nil, {provider: "mock", tools: tools, daemon: true, max_iterations: 3, idle_watchdog_attempts: 0})
        println("${r.status} ${r.iterations} ${r.deferred_user_messages}")
        println(r.transcript.messages.last(2).map({ m -> m.content }))
    "###;
    let (run, _) = hosted(
        text,
        |inbox, _, _| {
            inbox
                .tell("session/input", &json!({"content": "and then", "mode": "wait_for_completion"}))
                .unwrap();
            Some(Ok(json!("seen")))
        },
        deaf,
    );
    assert_eq!(run.output, "watchdog 3 []\n[and then, second]\n");
}

#[test]
fn f195_tools_of_the_host() {
    let text = r###"
        var tools = tool_registry()
        for name in ["text", "data", "nothing", "refused", "broken", "unknown"] {
          tools = tool_define(tools, name, "d", {parameters: {x: "int"}, handler: nil})
          llm_mock({tool_calls: [{name: name, arguments: {x: 1}}]})
        }
        llm_mock({text: "end"})
        let r = agent_loop("go", nil, {provider: "mock", tools: tools, tool_retries: 3, tool_backoff_ms: 1})
        println(r.tools.successful)
        println(r.tools.rejected)
        for e in transcript_events_by_kind(r.transcript, "tool_execution") { println(e.text) }
    "###;
    let (run, told) = hosted(
        text,
        |_, method, arguments| {
            assert_eq!(arguments, json!({"x": 1}));
            match method {
                "tool:text" => Some(Ok(json!("plain"))),
                "tool:data" => Some(Ok(json!({"result": {"a": [1]}}))),
                "tool:nothing" => Some(Ok(Json::Null)),
                "tool:refused" => Some(Ok(json!({"error": "permission_denied", "reason": "not you."}))),
                "tool:broken" => Some(Err("the window is closed".to_owned())),
                _ => None,
            }
        },
        deaf,
    );
    let denied = |tool: &str, reason: &str| {
        let denial = json!({"error": "permission_denied", "reason": format!("{reason} Do not retry this tool."), "tool": tool});
        serde_json::to_string_pretty(&denial).unwrap()
    };
    let expected = [
        "[text, data, nothing]".to_owned(),
        "[refused, broken, unknown]".to_owned(),
        "plain".to_owned(),
        "{\n  \"a\": [\n    1\n  ]\n}".to_owned(),
        "(no output)".to_owned(),
        denied("refused", "not you."),
        denied("broken", "the host failed: Thrown: the window is closed."),
        denied(
            "unknown",
            "Tool 'unknown' is not available in the current environment. Use only the tools listed in the tool-calling contract.",
        ),
    ];
    assert_eq!(run.output, expected.join("\n") + "\n");
    let kinds = told.iter().filter(|(_, p)| p["type"] == "tool_call_update" && p["status"] == "in_progress");
    assert!(kinds.clone().count() == 6 && kinds.clone().all(|(_, p)| p["executor"]["kind"] == "host_bridge"));
}

#[test]
fn a_host_is_told_everything_that_subscribers_are() {
    let text = r###"
        llm_mock({text: "Hello."})
        agent_loop("go", nil, {provider: "mock", session_id: "s"})
    "###;
    let (_, told) = hosted(text, silent, deaf);
    let updates: Vec<&str> = told.iter().filter_map(|(_, params)| params["type"].as_str()).collect();
    assert_eq!(updates, ["turn_start", "agent_message_chunk"]);
    assert!(told.iter().all(|(method, params)| method == "session/update" && params["session_id"] == "s"));
}

#[test]
fn a_host_reminds_the_model() {
    let text = r###"
        let tools = tool_define(tool_registry(), "look", "Looks", {parameters: {}, handler: { a -> host_call("test.look", {}) }})
        llm_mock({tool_calls: [{name: "look", arguments: {}}]})
        llm_mock({text: "one"})
        let r = agent_loop("go", "Work.", {provider: "mock", tools: tools, session_id: "s"})
        println(llm_mock_calls().map({ c -> c.system.contains("Mind the gap.") }))
        println(llm_mock_calls().any({ c -> json_stringify(c).contains("For the record.") }))
        let events = r.transcript.events.filter({ e -> e.kind == "system_reminder" })
        println(events.map({ e -> [e.visibility, e.reminder.body, e.reminder.source, e.reminder.tags] }))
    "###;
    let (run, _) = hosted(
        text,
        |inbox, method, _| {
            if method == "host/call" || method.contains("look") {
                let reminder = json!({"body": "Mind the gap.", "tags": ["gap"], "ttl_turns": 5, "mode": "interrupt_immediate"});
                inbox.tell("session/remind", &reminder).unwrap();
                let audit = json!({"body": "For the record.", "mode": "audit_only", "session_id": "s"});
                inbox.tell("session/remind", &audit).unwrap();
                inbox.tell("session/remind", &json!({"body": "Not here.", "session_id": "t"})).unwrap();
            }
            Some(Ok(json!("seen")))
        },
        deaf,
    );
    assert_eq!(
        run.output,
        "[false, true]\nfalse\n[[public, Mind the gap., bridge, [gap]], [internal, For the record., bridge, []]]\n"
    );
}

#[test]
fn wrong_notifications_are_errors() {
    let inbox = HostInbox::default();
    let error = |method: &str, params: Json| inbox.tell(method, &params).unwrap_err();
    assert_eq!(error("agent/sing", json!({})), "unknown notification `agent/sing`");
    assert_eq!(
        error("session/input", json!({"content": " "})),
        "session/input: `content` must be a text that is not empty"
    );
    assert_eq!(
        error("session/input", json!({"content": "x", "mode": "soon"})),
        "session/input: `mode` must be interrupt_immediate, finish_step or wait_for_completion, got \"soon\""
    );
    for (params, expected) in [
        (json!([]), "session/remind: payload must be an object (HARN-RMD-002)"),
        (json!({"body": " "}), "session/remind: body must be a non-blank string (HARN-RMD-002)"),
        (json!({"body": "b", "x": 1}), "session/remind: unknown option 'x' (HARN-RMD-002)"),
        (json!({"body": "b", "session_id": 1}), "session/remind: `session_id` must be a string, got 1"),
    ] {
        assert_eq!(error("session/remind", params), expected);
    }
    inbox.tell("session/input", &json!({"content": {"type": "text", "text": "kept"}})).unwrap();
    assert_eq!(inbox.take_rest(), ["kept"]);
}

#[test]
fn what_is_wrong_with_skills_of_a_host_is_told_once() {
    let text = r###"
        fn go() {
          llm_mock({text: "end"})
          println(agent_loop("Deploy it", nil, {provider: "mock", skills: skills}).status)
        }
        go()
        go()
        println(is_err(try { load_skill("notes") }))
    "###;
    let answers = Cell::new(0);
    let answer = move |_: &HostInbox, method: &str, params: Json| {
        answers.set(answers.get() + 1);
        match (method, answers.get()) {
            ("skills/list", 1 | 2) => Some(Err("no connection".to_owned())),
            ("skills/list", _) => Some(Ok(json!([
                {"id": "n", "name": "notes", "description": "Notes"}, {"id": "x"}, 5,
            ]))),
            ("skills/fetch", _) if params["id"] == "n" => Some(Ok(json!({"body": 5}))),
            other => panic!("{other:?}"),
        }
    };
    let (run, _) = hosted(text, answer, deaf);
    assert_eq!(run.output, "done\ndone\ntrue\n");
    assert_eq!(
        run.errors,
        "[harn] warning: skills/list: the host failed: no connection; the skills of the host are not there\n\
         [harn] warning: skills/list: skill 1 (`x`): `description` must be a text that is not empty; it is not there\n\
         [harn] warning: skills/list: skill 2: it must be a dict, got int; it is not there\n\
         [harn] warning: skills/fetch: skill `notes`: the answer must be a dict whose `body` is a text, got int\n"
    );
}

#[test]
fn a_host_says_that_its_skills_have_changed() {
    let text = r####"
        let tools = tool_define(tool_registry(), "look", "d", {handler: nil})
        llm_mock({tool_calls: [{name: "look", arguments: {}}]})
        llm_mock({tool_calls: [{name: "look", arguments: {}}]})
        llm_mock({text: "end"})
        let r = agent_loop("Deploy it", nil, {provider: "mock", tools: tools, skills: skills, tool_format: "native"})
        for call in llm_mock_calls() {
          println(call.system.lines().filter({ l -> l.starts_with("- `") || l.starts_with("### ") || l.starts_with("TEXT") }))
        }
        for e in r.transcript.events.filter({ e -> e.kind == "skill_activated" || e.kind == "skill_deactivated" }) {
          println("${e.kind} ${e.metadata.name}")
        }
    "####;
    let looks = Cell::new(0);
    let answer = move |inbox: &HostInbox, method: &str, params: Json| {
        let skill = |id: &str, description: &str| json!({"id": id, "description": description});
        let listed = match looks.get() {
            0 => json!([skill("deploy", "Deploy a release"), skill("notes", "Notes")]),
            1 => json!([skill("deploy", "Deploy with care"), skill("tea", "Tea")]),
            _ => json!([skill("tea", "Tea")]),
        };
        Some(Ok(match method {
            "tool:look" => {
                looks.set(looks.get() + 1);
                inbox.tell("skills/update", &json!({})).unwrap();
                json!("seen")
            }
            "skills/list" => listed,
            "skills/fetch" => json!({"body": format!("TEXT of {} {}", params["id"], looks.get())}),
            other => panic!("{other}"),
        }))
    };
    let (run, _) = hosted(text, answer, deaf);
    assert!(!run.errors.contains("skills/"), "{}", run.errors);
    assert_eq!(
        run.output,
        "[### deploy, TEXT of \"deploy\" 0, - `notes`: Notes]\n\
         [### deploy, TEXT of \"deploy\" 1, - `tea`: Tea]\n\
         [- `tea`: Tea]\n\
         skill_activated deploy\nskill_deactivated deploy\n"
    );
}
