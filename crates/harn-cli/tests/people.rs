//! Runs that wait for humans: suspended, answered by another process, and resumed.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::common::{Ran, command, durable, folder, harn_in, repository, shown};

/// Returns the id of the run's only open request.
fn asked(folder: &Path) -> String {
    let shown = shown(folder);
    assert_eq!(shown["pending"].as_array().map(Vec::len), Some(1), "{shown}");
    shown["pending"][0]["request_id"].as_str().unwrap().to_owned()
}

fn answer(folder: &Path, request: &str, args: &[&str]) -> Ran {
    harn_in(folder, &[&["answer", "r", request], args].concat())
}

#[test]
fn a_question_ends_the_process_and_an_answer_goes_on() {
    let program = "append_file(\"log.txt\", \"a\")\nprintln(\"before\")\nlet n = ask_user(\"How many?\", {default: 1})\nprintln(n + 1)\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    let first = durable(path, &["main.harn"]);
    assert_eq!((first.code, first.out.as_str()), (75, "before\n"), "{}", first.shown());
    let data = shown(path);
    assert_eq!((&data["status"], &data["owner"]), (&"suspended".into(), &Value::Null));
    let request = asked(path);
    assert_eq!(data["pending"][0]["kind"], "question");
    assert_eq!(data["pending"][0]["prompt"], "How many?");
    let how = format!("harn answer r {request} VALUE");
    assert!(first.err.contains(&how) && first.err.contains("`harn resume r`"), "{}", first.err);
    // Nothing is due, and without an answer it waits again.
    assert_eq!(harn_in(path, &["resume", "--all"]).code, 0);
    let again = harn_in(path, &["resume", "r"]);
    assert_eq!((again.code, again.out.as_str()), (75, ""), "{}", again.shown());
    assert_eq!(asked(path), request);
    let given = answer(path, &request, &["7", "--by", "eve"]);
    assert_eq!(given.code, 0, "{}", given.shown());
    assert!(given.out.contains("the answer of eve is recorded; `harn resume r`"), "{}", given.out);
    let twice = answer(path, &request, &["8", "--by", "bob"]);
    assert!(
        twice.code == 1 && twice.err.contains("takes no answer any more: answered by eve"),
        "{}",
        twice.err
    );
    let resumed = harn_in(path, &["resume", "--all"]);
    assert_eq!((resumed.code, resumed.out.as_str()), (0, "8\n"), "{}", resumed.shown());
    assert_eq!(std::fs::read_to_string(path.join("log.txt")).unwrap(), "a");
    assert_eq!(harn_in(path, &["replay", "r"]).out, "before\n8\n");
    let answered = &shown(path)["answered"][0]["answers"][0];
    assert_eq!((&answered["by"], &answered["value"]["answer"]), (&"eve".into(), &7.into()));
    assert!(answered["signature"].as_str().unwrap().starts_with("sha256:"), "{answered}");
    let late = answer(path, &request, &["9", "--by", "ann"]);
    assert!(late.code == 1 && late.err.contains("has ended (completed)"), "{}", late.err);
}

/// A lock in a directory that the run has removed does not prevent it from resuming.
#[test]
fn a_run_goes_on_behind_a_daemon_whose_folder_it_has_removed() {
    let program = r#"
mkdir("state")
let d = daemon_spawn({task: "Watch.", provider: "mock", persist_path: "state"})
daemon_stop(d)
delete_file("state")
println(ask_user("Go on?"))
"#;
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    let first = durable(path, &["main.harn"]);
    assert_eq!(first.code, 75, "{}", first.shown());
    assert_eq!(answer(path, &asked(path), &["yes"]).code, 0);
    let resumed = harn_in(path, &["resume", "r"]);
    assert_eq!((resumed.code, resumed.out.as_str()), (0, "yes\n"), "{}", resumed.shown());
    assert!(!path.join("state").exists());
}

#[test]
fn approvals_are_for_those_who_are_named() {
    let program =
        "println(request_approval(\"deploy\", {reviewers: [\"ada\", \"bob\"], quorum: 2}).reviewers)\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    let first = durable(path, &["main.harn"]);
    assert_eq!(first.code, 75, "{}", first.shown());
    let request = asked(path);
    assert!(first.err.contains(&format!("harn answer r {request} --reject")), "{}", first.err);
    let other = answer(path, &request, &["--approve", "--by", "eve"]);
    assert!(other.code == 1 && other.err.contains("pass --by with one of: ada, bob"), "{}", other.err);
    let text = answer(path, &request, &["yes", "--by", "ada"]);
    assert!(text.code == 1 && text.err.contains("pass --approve, --reject"), "{}", text.err);
    let one = answer(path, &request, &["--approve", "--by", "ada"]);
    assert!(one.code == 0 && one.out.contains("1 more must answer"), "{}", one.shown());
    let same = answer(path, &request, &["--approve", "--by", "ada"]);
    assert!(same.code == 1 && same.err.contains("ada has answered"), "{}", same.err);
    assert_eq!(harn_in(path, &["resume", "r"]).code, 75);
    assert_eq!(answer(path, &request, &["{\"approved\": true}", "--by", "bob"]).code, 0);
    let end = harn_in(path, &["resume", "r"]);
    assert_eq!((end.code, end.out.as_str()), (0, "[ada, bob]\n"), "{}", end.shown());
    for (id, request, why) in [("r", "none", "has ended"), ("x", "none", "unknown run 'x'")] {
        let ran = harn_in(path, &["answer", id, request, "1"]);
        assert!(
            ran.code == 1 && (ran.err.contains(why) || ran.err.contains("waits for no answer")),
            "{}",
            ran.err
        );
    }
    assert_eq!(answer(path, "q", &["1", "--approve"]).code, 2);
    assert_eq!(answer(path, "q", &[]).code, 2);
}

#[test]
fn a_question_takes_no_yes_and_a_wrong_name_is_told() {
    let dir = folder(&[("main.harn", "println(ask_user(\"Who?\"))\n")]);
    let path = dir.path();
    assert_eq!(durable(path, &["main.harn"]).code, 75);
    let wrong = answer(path, &asked(path), &["--approve"]);
    assert!(wrong.code == 1 && wrong.err.contains("this is a question"), "{}", wrong.err);
    let unknown = answer(path, "hitl_nothing", &["1"]);
    assert!(unknown.code == 1 && unknown.err.contains("question: Who?"), "{}", unknown.err);
    let json = answer(path, &asked(path), &["me", "--json"]);
    let data: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&data["data"]["missing"], &data["data"]["status"]), (&0.into(), &"suspended".into()));
}

#[test]
fn the_time_of_a_request_goes_on_without_a_process() {
    let program = "println(ask_user(\"Soon?\", {timeout: 400, default: \"nobody\"}))\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    assert_eq!(durable(path, &["main.harn"]).code, 75);
    let request = asked(path);
    std::thread::sleep(Duration::from_millis(500));
    let late = answer(path, &request, &["me"]);
    assert!(late.code == 1 && late.err.contains("could be answered until"), "{}", late.err);
    let end = harn_in(path, &["resume", "--all"]);
    assert_eq!((end.code, end.out.as_str()), (0, "nobody\n"), "{}", end.shown());
}

/// Starts a run that keeps its process while it waits.
fn waiting(path: &Path) -> std::process::Child {
    let args = ["run", "--durable", "--run-id", "r", "--suspend-after", "never", "main.harn"];
    let mut child = command(&args)
        .current_dir(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let asks = (0..2_000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        harn_in(path, &["runs", "list", "--json"]).out.contains("\"request_id\"")
    });
    if !asks {
        child.kill().unwrap();
        child.wait().unwrap();
        panic!("the run asks nothing");
    }
    child
}

#[test]
fn an_answer_wakes_a_process_that_waits() {
    let dir = folder(&[("main.harn", "println(ask_user(\"Who?\"))\n")]);
    let path = dir.path();
    let child = waiting(path);
    let given = answer(path, &asked(path), &["me"]);
    assert!(given.out.contains("the process that executes it continues"), "{}", given.shown());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stdout.as_slice()), (Some(0), &b"me\n"[..]));
}

#[test]
fn a_killed_process_that_waited_asks_the_same_again() {
    let dir = folder(&[("main.harn", "println(ask_user(\"Who?\"))\nprintln(\"end\")\n")]);
    let path = dir.path();
    let mut child = waiting(path);
    let request = asked(path);
    child.kill().unwrap();
    child.wait().unwrap();
    // Answered while no process executes it, and before its suspension was recorded.
    assert_eq!(answer(path, &request, &["me"]).code, 0);
    let resumed = harn_in(path, &["resume", "r"]);
    assert_eq!((resumed.code, resumed.out.as_str()), (0, "me\nend\n"), "{}", resumed.shown());
    assert_eq!(shown(path)["pending"].as_array().map(Vec::len), Some(0));
}

#[test]
fn an_answer_to_something_else_does_not_count() {
    let dir =
        folder(&[("main.harn", "try { println(request_approval(\"deploy\")) } catch e { println(e) }\n")]);
    let path = dir.path();
    assert_eq!(durable(path, &["main.harn"]).code, 75);
    let request = asked(path);
    // An attacker writes an answer that was given to another action.
    let store = harn_store::SqliteStore::new(path.join(".harn/state.db"));
    let forged = harn_store::Answer {
        value: b"{\"approved\":true}".to_vec(),
        by: "eve".to_owned(),
        at_ms: 1,
        signature: "sha256:00".to_owned(),
    };
    harn_journal::wait(harn_store::Store::answer(&store, "r", &request, forged)).unwrap();
    drop(store);
    let end = harn_in(path, &["resume", "r"]);
    assert_eq!(end.code, 0, "{}", end.shown());
    assert!(end.out.contains("was given to something else than what is asked now"), "{}", end.shown());
}

#[test]
fn long_sleeps_end_the_process_and_tools_are_told() {
    let dir = folder(&[("main.harn", "sleep(10m)\n"), ("ask.harn", "ask_user(\"Who?\")\n")]);
    let path = dir.path();
    let ran = durable(path, &["main.harn"]);
    assert_eq!(ran.code, 75, "{}", ran.shown());
    assert!(
        ran.err.contains("run r waits until") && ran.err.contains("`harn resume r` continues it"),
        "{}",
        ran.err
    );
    let json = harn_in(path, &["run", "--durable", "--run-id", "j", "--json", "ask.harn"]);
    let last: Value = serde_json::from_str(json.out.lines().last().unwrap()).unwrap();
    assert_eq!(json.code, 75);
    assert!(last.to_string().contains("\"Who?\"") && last.to_string().contains("suspended"), "{last}");
}

#[test]
fn the_project_makes_runs_durable() {
    let dir =
        folder(&[("harn.toml", "[run]\ndurable = true\n"), ("main.harn", "println(ask_user(\"Who?\"))\n")]);
    let path = dir.path();
    let ran = harn_in(path, &["run", "--run-id", "r", "main.harn"]);
    assert_eq!(ran.code, 75, "{}", ran.shown());
    assert_eq!(answer(path, &asked(path), &["me"]).code, 0);
    assert_eq!(harn_in(path, &["resume", "r"]).out, "me\n");
    std::fs::write(path.join("harn.toml"), "").unwrap();
    for args in [["run", "--run-id", "r", "main.harn"], ["run", "--suspend-after", "1s", "main.harn"]] {
        let refused = harn_in(path, &args);
        assert!(refused.code == 2 && refused.err.contains("requires --durable"), "{}", refused.shown());
    }
    std::fs::write(path.join("harn.toml"), "[run]\ndurable = \"yes\"\n").unwrap();
    let checked = harn_in(path, &["check", "main.harn"]);
    assert!(checked.err.contains("durable") || checked.out.contains("durable"), "{}", checked.shown());
}

/// Kills a run while it executes a program. Returns the request about the effect in doubt.
fn in_doubt(path: &Path) -> String {
    let mut child = command(&["run", "--durable", "--run-id", "r", "main.harn"])
        .current_dir(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !path.join("begun").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::write(path.join("go"), "").unwrap();
    let resumed = harn_in(path, &["resume", "r"]);
    assert_eq!(resumed.code, 75, "{}", resumed.shown());
    assert!(resumed.err.contains("it is unknown whether it happened"), "{}", resumed.err);
    asked(path)
}

const DOUBT: &str = r#"
try {
  println(shell("echo x >> ran; touch begun; while [ ! -e go ]; do sleep 0.01; done; echo done", {on_uncertain: "ask"}).stdout.trim())
} catch e { println("${error_category(e)}") }
"#;

#[test]
fn a_person_decides_what_is_done_again() {
    for (decision, out, times) in [("--approve", "done\n", 2), ("--reject", "in_doubt\n", 1)] {
        let dir = folder(&[("main.harn", DOUBT)]);
        let path = dir.path();
        let request = in_doubt(path);
        assert!(request.starts_with("doubt_"), "{request}");
        assert_eq!(shown(path)["pending"][0]["kind"], "in_doubt");
        assert_eq!(answer(path, &request, &[decision]).code, 0);
        let end = harn_in(path, &["resume", "r"]);
        assert_eq!((end.code, end.out.as_str()), (0, out), "{}", end.shown());
        let ran = std::fs::read_to_string(path.join("ran")).unwrap();
        assert_eq!(ran.lines().count(), times, "{decision}");
        assert_eq!(harn_in(path, &["replay", "r"]).out, out);
    }
}

/// The example agent that files an expense report is killed at several times, answered and resumed.
#[test]
fn the_expense_report_is_filed_once() {
    let source = repository().join("examples/expenses");
    for life in [20, 60, 100, 150, 250] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        for name in ["report.harn", "replies.jsonl", "receipts_june.csv"] {
            std::fs::copy(source.join(name), path.join(name)).unwrap();
        }
        let begin = ["run", "--durable", "--run-id", "r", "--llm-mock", "replies.jsonl", "report.harn"];
        let mut child = command(&begin)
            .current_dir(path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(life));
        child.kill().unwrap();
        child.wait().unwrap();
        let kept = harn_in(path, &["runs", "show", "r"]).code == 0;
        if !kept {
            assert_eq!(harn_in(path, &begin).code, 75);
        } else if shown(path)["status"] != "suspended" {
            let resumed = harn_in(path, &["resume", "r"]);
            assert_eq!(resumed.code, 75, "killed after {life} ms: {}", resumed.shown());
        }
        let other = answer(path, &asked(path), &["--approve", "--by", "ada"]);
        assert!(other.err.contains("pass --by with one of: finance"), "{}", other.err);
        assert_eq!(answer(path, &asked(path), &["--approve", "--by", "finance"]).code, 0);
        let end = harn_in(path, &["resume", "r"]);
        assert_eq!(end.code, 0, "{}", end.shown());
        assert!(end.out.ends_with("The report for June is filed: 143.60 EUR.\n"), "{}", end.out);
        let filed = std::fs::read_to_string(path.join("filed.txt")).unwrap();
        assert!(filed.starts_with("june Ada 14360 sha256:") && filed.lines().count() == 1, "{filed}");
        assert_eq!(harn_in(path, &["replay", "r"]).out, end.out);
    }
}

/// Another process wrote to the file while the run was killed during an append.
#[test]
fn a_file_in_doubt_has_the_category_of_doubt() {
    let program = "try { append_file(\"log.txt\", \"mine\") } catch e { println(error_category(e)) }\n";
    let dir = folder(&[("main.harn", program), ("log.txt", "")]);
    let path = dir.path();
    // The journal of a run that has started the append: an export truncated at that entry.
    assert_eq!(durable(path, &["main.harn"]).code, 0);
    let events = harn_in(path, &["runs", "events", "r", "--json"]);
    let events: Value = serde_json::from_str(&events.out).unwrap();
    let begun =
        events["data"]["events"].as_array().unwrap().iter().find(|event| event["kind"] == "begin").unwrap();
    let at = begun["seq"].as_u64().unwrap() + 1;
    std::fs::write(path.join("log.txt"), "theirs").unwrap();
    let fork = harn_in(path, &["fork", "r", "--at", &at.to_string(), "--run-id", "f"]);
    assert_eq!((fork.code, fork.out.as_str()), (0, "in_doubt\n"), "{}", fork.shown());
}

const TOOLS: &str = r#"
let body = { n -> shell("echo x >> ran${n}; touch begun${n}; while [ ! -e go ]; do sleep 0.01; done; echo done").stdout.trim() }
var tools = tool_registry()
tools = tool_define(tools, "pay", "Pays.", {parameters: {n: {type: "int"}}, idempotent: true, KIND handler: { args -> body(args.n) }})
tools = tool_define(tools, "other", "Pays.", {parameters: {n: {type: "int"}}, KIND handler: { args -> body(args.n) }})
llm_mock({tool_calls: [CALLS]})
llm_mock({text: "end"})
let r = agent_loop("Pay.", nil, {provider: "mock", tools: tools})
println("${r.visible_text} ${r.tools.successful}")
"#;

/// Kills a loop while its tools run programs, and resumes it. Returns its output, and the number of executions of each
/// program.
fn killed_in_tools(kind: &str, calls: &str, begun: &[u32]) -> (String, Vec<usize>) {
    let dir = folder(&[("main.harn", &TOOLS.replace("KIND", kind).replace("CALLS", calls))]);
    let path = dir.path();
    let mut child = command(&["run", "--durable", "--run-id", "r", "main.harn"])
        .current_dir(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !begun.iter().all(|n| path.join(format!("begun{n}")).exists()) {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::write(path.join("go"), "").unwrap();
    let resumed = harn_in(path, &["resume", "r"]);
    assert_eq!(resumed.code, 0, "{}", resumed.shown());
    let ran = |n: &u32| std::fs::read_to_string(path.join(format!("ran{n}"))).unwrap().lines().count();
    (resumed.out, begun.iter().map(ran).collect())
}

#[test]
fn a_tool_says_what_becomes_of_what_its_handler_does() {
    let (pay, other) = ("{name: \"pay\", arguments: {n: 1}}", "{name: \"other\", arguments: {n: 2}}");
    assert_eq!(killed_in_tools("", pay, &[1]), ("end [pay]\n".to_owned(), vec![2]));
    assert_eq!(killed_in_tools("", other, &[2]), ("end []\n".to_owned(), vec![1]));
    // In parallel, each with its own annotations.
    let both = format!("{pay}, {other}");
    let reading = "annotations: {kind: \"read\", side_effect_level: \"read_only\"},";
    assert_eq!(killed_in_tools(reading, &both, &[1, 2]), ("end [pay]\n".to_owned(), vec![2, 1]));
}
