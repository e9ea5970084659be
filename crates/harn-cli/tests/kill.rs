//! Programs that are killed at random times: acknowledged data is preserved, and no partial data is visible.
//!
//! `HARN_KILLS` sets the number of kills; `make kill` performs 200.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{Chance, folder, harn_in, kills, life, recorded, run_and_kill, text, whole};

/// Number of consecutive kills in one directory: the history of a daemon grows, and is written after each turn.
const IN_A_ROW: u64 = 20;

const OPEN: &str = r#"
fn open() {
  if file_exists("state/daemon.meta.json") { return daemon_resume("state") }
  daemon_spawn({task: "Watch.", provider: "mock", persist_path: "state", max_iterations: 1000000, compaction: false})
}
"#;

const TRIGGERS: &str = r#"
let d = open()
var n = to_int(argv[0])
while true {
  let told = try { daemon_trigger(d, "event-${n}") }
  if is_ok(told) { append_file("acknowledged", "event-${n}\n") }
  n = n + 1
  sleep(n % 4)
}
"#;

const DRAIN: &str = r#"
let d = open()
var left = 400
while daemon_snapshot(d).queued_event_count > 0 && left > 0 {
  sleep(25)
  left = left - 1
}
println(daemon_stop(d).queued_event_count)
"#;

#[test]
fn events_of_a_daemon_are_delivered_once_whatever_kills_it() {
    let mut chance = Chance(7);
    let mut left = kills();
    while left > 0 {
        let (triggers, drain) = (format!("{OPEN}{TRIGGERS}"), format!("{OPEN}{DRAIN}"));
        let dir = folder(&[("triggers.harn", &triggers), ("drain.harn", &drain)]);
        let path = dir.path();
        for round in 0..left.min(IN_A_ROW) {
            let life = life(&mut chance, 20, 180);
            run_and_kill(path, "triggers.harn", &(round * 1_000_000).to_string(), life);
            for file in ["state/daemon.json", "state/daemon.meta.json"] {
                if path.join(file).exists() {
                    whole(&path.join(file));
                }
            }
        }
        left -= left.min(IN_A_ROW);
        let drained = harn_in(path, &["run", "drain.harn"]);
        assert_eq!((drained.code, drained.out.as_str()), (0, "0\n"), "{}", drained.err);
        let snapshot = whole(&path.join("state/daemon.json"));
        let mut told: BTreeMap<&str, u32> = BTreeMap::new();
        let messages = recorded(&path.join("state/daemon.json"), &snapshot);
        for (at, message) in messages.iter().enumerate() {
            let text = message["content"].as_str().unwrap_or_default();
            if message["role"] == "user" && text.starts_with("event-") {
                *told.entry(text).or_default() += 1;
                assert_eq!(messages[at + 1]["role"], "assistant", "the turn of {text} was completed");
            }
        }
        let acknowledged = std::fs::read_to_string(path.join("acknowledged")).unwrap_or_default();
        assert!(acknowledged.lines().count() > 0, "no program lived long enough");
        for event in acknowledged.lines() {
            assert_eq!(
                told.get(event),
                Some(&1),
                "{event} of {} acknowledged ones",
                acknowledged.lines().count()
            );
        }
        assert!(told.values().all(|times| *times == 1), "{told:?}");
        println!("{} events acknowledged, {} delivered", acknowledged.lines().count(), told.len());
    }
}

const WORKERS: &str = r#"
let node = {mode: "llm", model_policy: {provider: "mock"}}
fn told(word, w) { append_file("told", "${word} ${w.id}\n") }
while true {
  let w = spawn_agent({task: "one", node: node, carry: {retriggerable: true}})
  told("spawned", w)
  sleep(1)
  if is_ok(try { worker_trigger(w, {n: 2}) }) { told("triggered", w) }
  sleep(1)
  close_agent(w)
  told("closed", w)
}
"#;

const RESUME: &str = r#"
var seen = 0
for name in list_dir(argv[0]) {
  let path = "${argv[0]}/${name}"
  if !path.ends_with(".json") { continue }
  let was = json_parse(read_file(path)).status
  let w = resume_agent(path)
  if was == "running" {
    sleep(20)
    let now = json_parse(read_file(path))
    assert(now.status == "awaiting", "${name}: ${now.status} ${now.latest_error}")
  } else {
    assert(w.status == was, "${name}: ${w.status} instead of ${was}")
  }
  close_agent(w)
  seen = seen + 1
}
println(seen)
"#;

#[test]
fn snapshots_of_workers_hold_what_was_acknowledged() {
    let mut chance = Chance(11);
    let dir = folder(&[("workers.harn", WORKERS), ("resume.harn", RESUME)]);
    let path = dir.path();
    for _ in 0..kills() {
        run_and_kill(path, "workers.harn", "", life(&mut chance, 20, 120));
    }
    let snapshots = path.join(".harn/workers");
    let mut count = 0;
    for entry in std::fs::read_dir(&snapshots).unwrap() {
        let file = entry.unwrap().path();
        // A temporary file of an interrupted replacement is not a snapshot.
        if file.extension().is_some_and(|extension| extension == "json") {
            assert_eq!(whole(&file)["_type"], "worker_snapshot", "{}", file.display());
            count += 1;
        }
    }
    assert!(count > 0, "no program lived long enough");
    let told = text(&path.join("told"));
    for line in told.lines() {
        let (word, id) = line.split_once(' ').unwrap();
        let snapshot = whole(&snapshots.join(format!("{id}.json")));
        let kept = match word {
            "spawned" => snapshot["history"][0] == "one",
            "triggered" => snapshot["history"][1] == r#"{"n":2}"#,
            _ => snapshot["status"] == "cancelled",
        };
        assert!(kept, "{line}, and the snapshot says {snapshot:#}");
    }
    println!("{count} snapshots, {} changes acknowledged", told.lines().count());
    let resumed = harn_in(path, &["run", "resume.harn", "--", ".harn/workers"]);
    assert_eq!((resumed.code, resumed.out.trim()), (0, count.to_string().as_str()), "{}", resumed.err);
}

/// Makes a directory a git repository.
fn commit_all(repo: &Path) {
    for arguments in [
        &["init", "--quiet", "--initial-branch=main"][..],
        &["add", "."],
        &["-c", "user.name=Test", "-c", "user.email=test@example.com", "commit", "--quiet", "-m", "First"],
    ] {
        let git = std::process::Command::new("git").args(arguments).current_dir(repo).status();
        assert!(git.expect("git is there").success());
    }
}

/// Work that fails, is closed, times out, is cancelled or loses a race removes its temporary worktree. Worktrees of
/// other work, and those of work that continues later, stay.
#[test]
fn a_tree_is_removed_however_its_work_ends() {
    let program = r###"
tool hang() -> string {
  description "Hang"
  write_file("made.txt", "half")
  sleep(60000)
  "late"
}
let node = {tools: [hang], model_policy: {provider: "mock"}}
fn place(name) { return {worktree: {repo: ".", path: "../${name}", branch: "b-${name}", cleanup: "remove"}} }
fn hangs() { llm_mock({tool_calls: [{name: "hang", arguments: {}}]}) }
fn until_made(name) { for i in 1 to 2000 { if file_exists("../${name}/made.txt") { return true }; sleep(5) }; return false }
fn gone(name) { for i in 1 to 400 { if !file_exists("../${name}") { return true }; sleep(5) }; return false }

llm_mock({error: {category: "auth", message: "no"}})
let failed = spawn_agent({task: "x", wait: true, execution: place("failed"), node: node})
println([failed.status, gone("failed")])

hangs()
let closed = spawn_agent({task: "x", execution: place("closed"), node: node})
println([until_made("closed"), close_agent(closed).status, gone("closed")])
println([close_agent(spawn_agent({task: "x", execution: place("at_once"), node: node})).status, gone("at_once")])

hangs()
try { deadline 3s { sub_agent_run("x", {provider: "mock", tools: [hang], execution: place("late")}) } } catch e { println(e) }
println(gone("late"))

hangs()
let task = spawn { sub_agent_run("x", {provider: "mock", tools: [hang], execution: place("stopped")}) }
println(until_made("stopped"))
cancel(task)
println(gone("stopped"))

hangs()
let graph = workflow_graph({id: "g", nodes: {a: node}, edges: [], entry: "a"})
let run = spawn { workflow_execute("Go", graph, [], {execution: place("flow")}) }
println(until_made("flow"))
cancel(run)
println(gone("flow"))

mkdir("../mine")
write_file("../mine/precious.txt", "mine")
println(is_err(try { sub_agent_run("x", {provider: "mock", execution: place("mine")}) }))
println(read_file("../mine/precious.txt"))

println(shell("git worktree list").stdout.trim().split("\n").count())
hangs()
let left = spawn_agent({task: "x", execution: place("left"), node: node})
println(until_made("left"))
write_file("../left.txt", left.snapshot_path)
"###;
    let resumed = r###"
llm_mock({text: "##DONE##"})
tool hang() -> string { description "Hang"; "late" }
tool_bind(hang)
println(file_exists("../left/made.txt"))
println(wait_agent(resume_agent(read_file("../left.txt"))).status)
println(file_exists("../left"))
"###;
    let dir = folder(&[("repo/main.harn", program), ("repo/on.harn", resumed), ("repo/a.txt", "one\n")]);
    let repo = dir.path().join("repo");
    commit_all(&repo);
    let ran = harn_in(&repo, &["run", "main.harn"]);
    let expected = "[failed, true]\n[true, cancelled, true]\n[cancelled, true]\nDeadline exceeded\ntrue\ntrue\ntrue\ntrue\ntrue\ntrue\nmine\n1\ntrue\n";
    assert_eq!((ran.code, ran.out.as_str()), (0, expected), "{}", ran.err);
    let ran = harn_in(&repo, &["run", "on.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "true\ncompleted\nfalse\n"), "{}", ran.err);
}

#[test]
fn a_worker_works_in_a_tree_of_its_own() {
    let program = r###"
tool save() -> string {
  description "Save"
  write_file("made.txt", "by the worker")
  cwd()
}
let node = {tools: [save], model_policy: {provider: "mock"}}
for cleanup in ["preserve", "remove"] {
  llm_mock({tool_calls: [{name: "save", arguments: {}}]})
  llm_mock({text: "##DONE##"})
  let tree = {repo: ".", path: "../${cleanup}", branch: "work-${cleanup}", cleanup: cleanup}
  let w = spawn_agent({task: "x", wait: true, execution: {worktree: tree}, node: node})
  println([w.status, w.error, file_exists("made.txt"), file_exists("../${cleanup}/made.txt")])
}
let again = spawn_agent({task: "x", wait: true, execution: {worktree: {repo: ".", path: "../again", branch: "work-remove"}}, node: node})
println(again.status)
try { spawn_agent({task: "x", execution: {worktree: {repo: "/"}}, node: node}) } catch e { println(e.starts_with("spawn_agent: execution.worktree: git ")) }
"###;
    let dir = folder(&[("repo/main.harn", program), ("repo/a.txt", "one\n")]);
    let repo = dir.path().join("repo");
    commit_all(&repo);
    let ran = harn_in(&repo, &["run", "main.harn"]);
    let expected = "[completed, nil, false, true]\n[completed, nil, false, false]\ncompleted\ntrue\n";
    assert_eq!((ran.code, ran.out.as_str()), (0, expected), "{}", ran.err);
    let branches = std::process::Command::new("git").args(["branch", "--list"]).current_dir(&repo).output();
    let branches = String::from_utf8(branches.unwrap().stdout).unwrap();
    assert!(branches.contains("work-preserve") && branches.contains("work-remove"), "{branches}");
}

const STAGES: &str = r#"
var nodes = {}
var edges = []
for i in 1 to 150 {
  nodes["s${i}"] = {mode: "llm", model_policy: {provider: "mock"}, context_policy: {max_artifacts: 1, prefer_recent: true}}
  if i > 1 { edges = edges.push({from: "s${i - 1}", to: "s${i}"}) }
}
let graph = workflow_graph({id: "g", nodes: nodes, edges: edges, entry: "s1"})
let place = if file_exists("run.json") { {resume_path: "run.json"} } else { {persist_path: "run.json"} }
let r = workflow_execute("Go", graph, [], place)
println("${r.status} ${r.run.stages.map({ s -> s.node_id }).join(" ")}")
"#;

#[test]
fn a_workflow_goes_on_from_its_record_whatever_kills_it() {
    let mut chance = Chance(11);
    for _ in 0..kills().div_ceil(IN_A_ROW) {
        let dir = folder(&[("stages.harn", STAGES)]);
        for _ in 0..IN_A_ROW {
            run_and_kill(dir.path(), "stages.harn", "", life(&mut chance, 10, 150));
            if dir.path().join("run.json").exists() {
                whole(&dir.path().join("run.json"));
            }
        }
        // No stage is lost or repeated, and the file with later changes is removed.
        let ran = harn_in(dir.path(), &["run", "stages.harn"]);
        let all: Vec<String> = (1..=150).map(|number| format!("s{number}")).collect();
        assert_eq!(ran.out, format!("completed {}\n", all.join(" ")), "{}", ran.shown());
        assert!(!dir.path().join("run.json.later").exists());
    }
}
