//! `harn runs` on a store that another process has open.

use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use harn_store::{
    EntryKind, Fence, JournalEntry, NewRun, NewStatus, NewWaitpoint, Run, SqliteStore, Store, Write,
};
use serde_json::Value;

use crate::common::{folder, harn_in};

/// Waits for the store, which runs on its own thread.
fn wait<T>(answer: impl Future<Output = T>) -> T {
    let mut answer = pin!(answer);
    loop {
        if let Poll::Ready(value) = answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        std::thread::yield_now();
    }
}

fn entry(seq: u64, name: &str, payload: &[u8]) -> JournalEntry {
    JournalEntry {
        seq,
        task: "0".into(),
        count: seq,
        kind: EntryKind::Outcome,
        name: name.into(),
        place: format!("main.harn:{}:1", seq + 1).into(),
        digest: vec![seq as u8, 200],
        at_ms: 1_700_000_000_000 + seq as i64,
        payload: payload.to_vec(),
    }
}

/// Creates a store with a run with effects, whose lease this process holds until far in the future.
fn kept(dir: &Path, id: &str, names: &[&str]) -> (SqliteStore, Fence) {
    let store = SqliteStore::new(dir.join(".harn/state.db"));
    let until_ms = 4_000_000_000_000;
    let fence = wait(store.acquire(&Run::scope(id), "me", 1_700_000_000_000, until_ms)).unwrap().fence();
    let run = NewRun {
        id: id.to_owned(),
        program: "main.harn".to_owned(),
        args: vec!["one".to_owned()],
        status: NewStatus::Running,
        scheduling: harn_store::Scheduling::default(),
        info: b"{\"task\":\"x\"}".to_vec(),
    };
    let entries = (0..).zip(names).map(|(n, name)| entry(n, name, &[n as u8; 20_000])).collect();
    let asked = NewWaitpoint {
        request_id: "q1".to_owned(),
        kind: "approval".to_owned(),
        prompt: "Pay 12 EUR?".to_owned(),
        info: Vec::new(),
        asked_ms: 1_700_000_001_000,
        due_ms: None,
        quorum: 1,
    };
    let writes = vec![
        Write::RunCreate { run, at_ms: 1_700_000_000_000 },
        Write::SourcePut {
            run: id.to_owned(),
            path: "main.harn".to_owned(),
            bytes: b"println(1)\n".to_vec(),
        },
        Write::JournalAppend { run: id.to_owned(), entries, at_ms: 1_700_000_000_000 },
        Write::WaitpointOpen { run: id.to_owned(), waitpoint: asked },
    ];
    wait(store.write(&fence, writes)).unwrap();
    (store, fence)
}

fn ended(store: &SqliteStore, fence: &Fence, id: &str) {
    let status = NewStatus::Completed { exit_code: 0 };
    let end = Write::RunStatus { run: id.to_owned(), status, note: String::new(), at_ms: 1_700_000_009_000 };
    wait(store.write(fence, vec![end, Write::Release])).unwrap();
}

fn json(dir: &Path, args: &[&str]) -> Value {
    let ran = harn_in(dir, args);
    let value: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.shown()));
    value
}

#[test]
fn nothing_is_made_where_nothing_was_kept() {
    let dir = folder(&[("harn.toml", "")]);
    assert_eq!(harn_in(dir.path(), &["runs", "list"]).out, "No runs.\n");
    let ran = harn_in(dir.path(), &["runs", "show", "none"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("unknown run 'none'") && ran.err.contains("harn runs list"), "{}", ran.err);
    assert!(!dir.path().join(".harn").exists());
}

#[test]
fn a_run_is_seen_while_it_is_worked_on() {
    let dir = folder(&[("harn.toml", "")]);
    let (store, fence) = kept(dir.path(), "r1", &["read_file", "http_get"]);
    let shown = &json(dir.path(), &["runs", "show", "r1", "--json"])["data"];
    assert_eq!(shown["id"], "r1");
    assert_eq!(shown["status"], "running");
    assert_eq!(shown["effects"], 2);
    assert_eq!(shown["started_at"], "2023-11-14T22:13:20Z");
    assert_eq!(shown["pending"][0]["request_id"], "q1");
    assert_eq!(shown["pending"][0]["kind"], "approval");
    assert_eq!(shown["pending"][0]["prompt"], "Pay 12 EUR?");
    assert_eq!(shown["owner"]["name"], "me");
    assert_eq!(shown["info"]["task"], "x");
    let page = harn_in(dir.path(), &["runs", "show", "r1"]).out;
    assert!(page.contains("status    running\n") && page.contains("q1 (approval): Pay 12 EUR?"), "{page}");
    let events = harn_in(dir.path(), &["runs", "events", "r1", "--from", "1"]).out;
    assert!(events.contains("outcome   http_get at main.harn:2:1 (task 0, effect 1)"), "{events}");
    assert_eq!(events.lines().count(), 1);
    let table = harn_in(dir.path(), &["runs", "list"]).out;
    assert!(table.contains("r1") && table.contains("1 answer"), "{table}");
    assert_eq!(
        json(dir.path(), &["runs", "list", "--status", "failed", "--json"])["data"]["runs"],
        serde_json::json!([])
    );
    let wrong = harn_in(dir.path(), &["runs", "list", "--status", "moon"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("expected one of queued, running, suspended"), "{}", wrong.err);
    for list in [&["runs", "list"][..], &["runs", "events", "r1"]] {
        let none = harn_in(dir.path(), &[list, &["--limit", "0"]].concat());
        assert!(none.code == 2 && none.err.contains("--limit"), "{}", none.shown());
        let all = harn_in(dir.path(), &[list, &["--limit", "18446744073709551615"]].concat());
        assert!(all.code == 0 && all.out.lines().count() == 2, "{}", all.shown());
    }
    // The process that executes the run is not disturbed.
    let refused = harn_in(dir.path(), &["runs", "rm", "r1"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("run 'r1' is being worked on by me"), "{}", refused.err);
    let more = Write::JournalAppend { run: "r1".to_owned(), entries: vec![entry(2, "now", b"")], at_ms: 1 };
    wait(store.write(&fence, vec![more])).unwrap();
    assert_eq!(json(dir.path(), &["runs", "events", "r1", "--json"])["data"]["events"][2]["name"], "now");
}

#[test]
fn a_run_moves_as_a_file() {
    let (here, there) = (folder(&[("harn.toml", "")]), folder(&[("harn.toml", "")]));
    let (store, fence) = kept(here.path(), "r1", &["read_file", "http_get"]);
    let answer = harn_store::Answer {
        value: b"true".to_vec(),
        by: "ann".to_owned(),
        at_ms: 1_700_000_002_000,
        signature: "sha256:00".to_owned(),
    };
    wait(store.answer("r1", "q1", answer)).unwrap();
    ended(&store, &fence, "r1");
    let file = there.path().join("r1.jsonl");
    let name = file.to_str().unwrap();
    assert_eq!(harn_in(here.path(), &["runs", "export", "r1", "--output", name]).code, 0);
    let ran = harn_in(there.path(), &["runs", "import", name, "--run-id", "copy"]);
    assert_eq!(ran.out, "run copy imported, with 2 entries\n", "{}", ran.shown());
    let copy = SqliteStore::new(there.path().join(".harn/state.db"));
    let (one, two) = (wait(store.run("r1")).unwrap().unwrap(), wait(copy.run("copy")).unwrap().unwrap());
    let facts = |run: &Run| {
        (
            run.status,
            run.exit_code,
            run.started_ms,
            run.ended_ms,
            run.created_ms,
            run.info.clone(),
            run.answers,
        )
    };
    assert_eq!(facts(&one), facts(&two));
    assert_eq!(wait(store.journal("r1", 0, 99)).unwrap(), wait(copy.journal("copy", 0, 99)).unwrap());
    assert_eq!(wait(store.sources("r1")).unwrap(), wait(copy.sources("copy")).unwrap());
    let asked = |found: Vec<harn_store::Waitpoint>| {
        found.into_iter().map(|w| (w.asked, w.answers)).collect::<Vec<_>>()
    };
    let original = asked(wait(store.waitpoints(Some("r1"), false)).unwrap());
    assert_eq!(original, asked(wait(copy.waitpoints(Some("copy"), false)).unwrap()));
    // An invalid run ID, an existing ID, and incomplete files.
    let refused = harn_in(there.path(), &["runs", "import", name, "--run-id", "a b"]);
    assert!(refused.code == 1 && refused.err.contains("invalid run ID 'a b'"), "{}", refused.err);
    let again = harn_in(there.path(), &["runs", "import", name, "--run-id", "copy"]);
    assert!(again.code == 1 && again.err.contains("--run-id"), "{}", again.err);
    let text = std::fs::read_to_string(&file).unwrap();
    for (damaged, why) in [
        (text.replace("http_get", "http_put"), "the file was changed"),
        (text.lines().next().unwrap().to_owned(), "the end of the file is missing"),
        (text[..5].to_owned(), "the end of the file is missing"),
        (String::new(), "the end of the file is missing"),
        ("{}".to_owned(), "not an exported run"),
    ] {
        std::fs::write(&file, damaged).unwrap();
        let ran = harn_in(there.path(), &["runs", "import", name]);
        assert!(ran.code == 1 && ran.err.contains(why), "{}", ran.err);
    }
    assert_eq!(
        json(there.path(), &["runs", "list", "--json"])["data"]["runs"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn a_run_that_has_not_ended_waits_where_it_is_taken_in() {
    let (here, there) = (folder(&[("harn.toml", "")]), folder(&[("harn.toml", "")]));
    let _held = kept(here.path(), "r1", &["read_file"]);
    let file = there.path().join("r1.jsonl");
    std::fs::write(&file, harn_in(here.path(), &["runs", "export", "r1"]).out).unwrap();
    assert_eq!(harn_in(there.path(), &["runs", "import", "r1.jsonl"]).code, 0);
    let shown = &json(there.path(), &["runs", "show", "r1", "--json"])["data"];
    assert_eq!((&shown["status"], &shown["due_at"]), (&"suspended".into(), &Value::Null));
    assert_eq!(shown["pending"][0]["request_id"], "q1");
}

#[test]
fn what_two_runs_did_is_compared() {
    let dir = folder(&[("harn.toml", "")]);
    let (store, fence) = kept(dir.path(), "a", &["x", "y", "z"]);
    ended(&store, &fence, "a");
    let (store, fence) = kept(dir.path(), "b", &["x", "y", "z"]);
    let entries = vec![JournalEntry { at_ms: 5, payload: b"other".to_vec(), ..entry(3, "w", b"") }];
    let (store_c, fence_c) = kept(dir.path(), "c", &["x", "other"]);
    let same = harn_in(dir.path(), &["runs", "diff", "a", "b"]);
    assert_eq!(
        (same.code, same.out.as_str()),
        (0, "runs a and b have done the same: 3 entries agree, 0 of them with other data\n")
    );
    wait(store.write(&fence, vec![Write::JournalAppend { run: "b".to_owned(), entries, at_ms: 1 }])).unwrap();
    let longer = harn_in(dir.path(), &["runs", "diff", "a", "b"]);
    assert!(
        longer.code == 1 && longer.out.contains("a: ends here\n  b: outcome   w at main.harn:4:1"),
        "{}",
        longer.out
    );
    let parted = harn_in(dir.path(), &["runs", "diff", "a", "c", "--json"]);
    assert_eq!(parted.code, 1);
    let data: Value = serde_json::from_str(&parted.out).unwrap();
    assert_eq!(data["data"]["difference"]["entry"], 1);
    let (store_d, fence_d) = kept(dir.path(), "d", &["x"]);
    let asks_more = JournalEntry { digest: vec![9], ..entry(1, "y", b"") };
    let append = Write::JournalAppend { run: "d".to_owned(), entries: vec![asks_more], at_ms: 1 };
    wait(store_d.write(&fence_d, vec![append])).unwrap();
    let other = harn_in(dir.path(), &["runs", "diff", "a", "d"]);
    assert!(other.code == 1 && other.out.contains("\n  the arguments are other ones\n"), "{}", other.out);
    assert!(!longer.out.contains("arguments"), "{}", longer.out);
    ended(&store_d, &fence_d, "d");
    assert_eq!(harn_in(dir.path(), &["runs", "rm", "d"]).code, 0);
    ended(&store_c, &fence_c, "c");
    let removed = harn_in(dir.path(), &["runs", "rm", "a", "c"]);
    assert_eq!(removed.out, "run a removed\nrun c removed\n", "{}", removed.err);
    assert_eq!(json(dir.path(), &["runs", "list", "--json"])["data"]["runs"][0]["id"], "b");
    assert_eq!(harn_in(dir.path(), &["runs", "show", "a"]).code, 1);
}

#[test]
fn a_durable_run_is_replayed_where_it_was_taken_in() {
    let program = "println(read_file(\"a.txt\"))\nprintln(len(uuid()))\n";
    let here = folder(&[("harn.toml", ""), ("main.harn", program), ("a.txt", "from here")]);
    let there = folder(&[("harn.toml", "")]);
    let ran = harn_in(here.path(), &["run", "--durable", "--run-id", "r1", "main.harn"]);
    assert_eq!(ran.out, "from here\n36\n", "{}", ran.shown());
    let shown = &json(here.path(), &["runs", "show", "r1", "--json"])["data"];
    assert_eq!((&shown["status"], &shown["exit_code"]), (&"completed".into(), &0.into()));
    assert!(shown["effects"].as_u64().unwrap() > 0);
    let events = harn_in(here.path(), &["runs", "events", "r1"]).out;
    assert_eq!(events.lines().count() as u64, shown["entries"].as_u64().unwrap(), "{events}");
    std::fs::write(there.path().join("r1.jsonl"), harn_in(here.path(), &["runs", "export", "r1"]).out)
        .unwrap();
    assert_eq!(harn_in(there.path(), &["runs", "import", "r1.jsonl"]).code, 0);
    let again = harn_in(there.path(), &["replay", "r1"]);
    assert_eq!(again.out, ran.out, "{}", again.shown());
}

const RECORD: &str = r#"{
    "_type": "run_record", "id": "run_1", "workflow_id": "w_1", "workflow_name": "review", "status": "completed",
    "task": "look\nat it", "started_at": "2026-11-25T10:00:00Z",
    "stages": [
        {"id": "s1", "node_id": "plan", "kind": "stage", "status": "completed", "outcome": "success", "branch": "success",
         "visible_text": "first\nsecond"},
        {"id": "s2", "node_id": "act", "kind": "verify", "status": "completed", "outcome": "success"}
    ],
    "transitions": [{"from_node_id": "plan", "to_node_id": "act", "branch": "success"}],
    "checkpoints": [], "artifacts": [{"kind": "note"}], "pending_nodes": ["last"], "hitl_questions": []
}"#;

/// Returns the record with a fixture that expects another status of a stage.
fn with_fixture(status: &str) -> String {
    let mut record: Value = serde_json::from_str(RECORD).unwrap();
    record["replay_fixture"] = serde_json::json!({
        "_type": "replay_fixture", "expected_status": "completed",
        "stage_assertions": [{"node_id": "plan", "expected_status": status}],
    });
    record.to_string()
}

#[test]
fn records_are_shown_listed_compared_and_replayed() {
    let (good, bad) = (with_fixture("completed"), with_fixture("failed"));
    let other = RECORD.replace("run_1", "run_2").replace("first", "1st").replace("10:00", "11:00");
    let dir = folder(&[
        ("runs/run.json", RECORD),
        ("runs/deep/good.json", &good),
        ("bad.json", &bad),
        ("other.json", &other),
        ("runs/data.json", "{}"),
        ("runs/broken.json", "{"),
    ]);
    let path = dir.path();
    let shown = harn_in(path, &["runs", "inspect", "runs/run.json"]);
    let wanted = "Run: run_1\nWorkflow: review (w_1)\nStatus: completed\nTask: look at it\nStages: 2\nArtifacts: 1\n\
        Transitions: 1\nCheckpoints: 0\nHITL questions: 0\nObservability: planner_rounds=0 research_facts=0 workers=0 \
        verifications=0 compactions=0 daemon_events=0\nPending nodes: last\nReplay fixture: derived\n\
        - plan [stage] status=completed outcome=success branch=success\n\
        - act [verify] status=completed outcome=success branch=null\n";
    assert_eq!((shown.code, shown.out.as_str()), (0, wanted), "{}", shown.shown());
    let good = harn_in(path, &["runs", "inspect", "runs/deep/good.json"]);
    assert!(good.out.contains("Replay fixture: embedded\n"), "{}", good.shown());
    let compared = harn_in(path, &["runs", "inspect", "runs/run.json", "--compare", "other.json"]);
    assert!(
        compared.out.ends_with("Compared with run_2: they differ\n- stage 0 plan changed: visible_text: first second -> 1st second\n"),
        "{}",
        compared.shown()
    );
    let same = harn_in(path, &["runs", "inspect", "bad.json", "--compare", "runs/deep/good.json", "--json"]);
    let same: Value = serde_json::from_str(&same.out).unwrap();
    assert_eq!(same["data"]["comparison"]["identical"], true);
    let view = harn_in(path, &["runs", "view", "--json", "runs/run.json"]);
    let view: Value = serde_json::from_str(&view.out).unwrap();
    assert_eq!(
        (&view["data"]["id"], &view["data"]["tool_recordings"]),
        (&"run_1".into(), &serde_json::json!([]))
    );
    let listed = harn_in(path, &["runs", "list", "--dir", "runs", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    let paths: Vec<&str> =
        listed["data"]["runs"].as_array().unwrap().iter().map(|run| run["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["runs/deep/good.json", "runs/run.json"]);
    assert!(harn_in(path, &["runs", "list", "--dir", "runs"]).out.contains("review"));
    std::fs::rename(path.join("runs"), path.join(".harn-runs")).unwrap();
    assert!(harn_in(path, &["runs", "list", "--dir"]).out.contains(".harn-runs/run.json"));
    let store = harn_in(path, &["runs", "list"]);
    assert_eq!(store.out, "No runs.\nRecords of workflows are in .harn-runs: `harn runs list --dir`\n");
    std::fs::rename(path.join(".harn-runs"), path.join("runs")).unwrap();
    let again = harn_in(path, &["replay", "runs/run.json"]);
    let wanted = "Replay: run_1\n[plan] status=completed outcome=success branch=success\n  first\n  second\n\
        [act] status=completed outcome=success branch=null\nDerived replay fixture: PASS\nTransitions: 1\n\
        - plan -> act (success)\n";
    assert_eq!((again.code, again.out.as_str()), (0, wanted), "{}", again.shown());
    let failing = harn_in(path, &["replay", "bad.json"]);
    assert_eq!(failing.code, 1, "{}", failing.shown());
    assert!(
        failing
            .out
            .contains("Embedded replay fixture: FAIL\n- stage plan status: expected failed, got completed\n"),
        "{}",
        failing.shown()
    );
    let json = harn_in(path, &["replay", "bad.json", "--json"]);
    let json_data: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((json.code, &json_data["data"]["evaluation"]["pass"]), (1, &false.into()));
}

#[test]
fn what_is_no_record_is_told() {
    let dir = folder(&[("data.json", "{}"), ("broken.json", "{"), ("run.json", RECORD)]);
    for (args, code, text) in [
        (&["runs", "inspect", "data.json"][..], 1, "error: data.json is not a run record"),
        (&["runs", "view", "broken.json"], 1, "error: broken.json is not valid JSON"),
        (&["runs", "inspect", "none.json"], 1, "error: cannot read the run record none.json"),
        (
            &["runs", "inspect", "run.json", "--compare", "data.json"],
            1,
            "error: data.json is not a run record",
        ),
        (&["runs", "list", "--dir", "none"], 1, "error: cannot read none"),
        (&["replay", "none/run.json"], 1, "error: cannot read the run record none/run.json"),
        (&["replay", "run.json", "--until", "3"], 2, "error: --until needs a run with a journal"),
        (&["replay", "run.json", "--check"], 2, "error: --check needs a run with a journal"),
        (&["runs", "list", "--status", "foo"], 2, "expected one of queued, running"),
        (&["runs", "list", "--dir", ".", "--status", "failed"], 2, "cannot be used with"),
    ] {
        let told = harn_in(dir.path(), args);
        assert!(told.code == code && told.err.contains(text), "{args:?}: {}", told.shown());
    }
}

#[test]
fn every_entry_has_its_time() {
    let dir = folder(&[("a.txt", "a")]);
    let path = dir.path();
    let program = "let a = read_file(\"a.txt\")\nlet b = env(\"HOME\")\n";
    assert_eq!(harn_in(path, &["run", "--durable", "--run-id", "r", "-e", program]).code, 0);
    let told: Value = serde_json::from_str(&harn_in(path, &["runs", "events", "r", "--json"]).out).unwrap();
    let events = told["data"]["events"].as_array().unwrap();
    assert!(events.len() > 3, "{told}");
    for event in events {
        let at = event["at"].as_str().unwrap();
        assert!(at > "2024", "{event}");
    }
}
