//! Programs that use `continue_as_new`: their journal and their effects.

use std::process::Stdio;

use serde_json::Value;

use crate::common::{Chance, command, durable, finish, folder, harn_in, kills, life, recorded, shown, text};

/// Generations that each append their number and then continue as new.
const PARTS: &str = r#"
import "./helper"
let n = continued_state()?.n ?? 1
append_file("log.txt", "${n},")
for i in 1 to 20 { file_exists("none") }
println("${named()} ${n}")
if n < to_int(argv[0]) { continue_as_new("parts", {state: {n: n + 1}}) }
"#;

const HELPER: (&str, &str) = ("helper.harn", "pub fn named() { \"part\" }\n");

fn numbers(upto: u64, before: &str, after: &str) -> String {
    (1..=upto).map(|n| format!("{before}{n}{after}")).collect()
}

#[test]
fn the_journal_begins_again_and_the_program_stays_the_same() {
    let dir = folder(&[("main.harn", PARTS), HELPER]);
    let path = dir.path();
    // An imported file changes during the run: the run keeps the modules that it was started with.
    let program =
        PARTS.replace("println(", "write_file(\"helper.harn\", \"pub fn named() { 1 }\")\nprintln(");
    std::fs::write(path.join("main.harn"), program).unwrap();
    let ran = durable(path, &["main.harn", "--", "25"]);
    assert_eq!((ran.code, ran.out), (0, numbers(25, "part ", "\n")), "{}", ran.err);
    assert_eq!(text(&path.join("log.txt")), numbers(25, "", ","));
    let run = shown(path);
    assert_eq!((&run["status"], &run["generation"]), (&"completed".into(), &25.into()));
    // 25 generations with more than 20 effects each.
    let entries = run["entries"].as_u64().unwrap();
    assert!((20..150).contains(&entries), "{entries} entries");
    let again = harn_in(path, &["replay", "r"]);
    assert_eq!((again.code, again.out.as_str()), (0, "part 25\n"), "{}", again.shown());
    assert_eq!(text(&path.join("log.txt")), numbers(25, "", ","));
    let debugged = finish(
        {
            let mut command = command(&["replay", "r", "--debug"]);
            command.current_dir(path);
            command
        },
        b"n\n:quit\n",
    );
    assert!(debugged.out.contains("\n25\n") || debugged.out.contains("> 25\n"), "{}", debugged.shown());
}

#[test]
fn without_a_journal_it_begins_anew_as_well() {
    let dir = folder(&[("main.harn", PARTS), HELPER]);
    let ran = harn_in(dir.path(), &["run", "main.harn", "--", "4"]);
    assert_eq!((ran.code, ran.out), (0, numbers(4, "part ", "\n")), "{}", ran.err);
    let nil = folder(&[(
        "main.harn",
        "println(workflow.status(\"w\").generation)\nif workflow.status(\"w\").generation < 3 { continue_as_new(\"w\", {state: nil}) }\n",
    )]);
    let ran = harn_in(nil.path(), &["run", "main.harn"]);
    assert_eq!(ran.out, "1\n2\n3\n", "nil is handed over, too: {}", ran.err);
    let daemon = r#"agent_loop("x", nil, {provider: "mock", daemon: true, persist_path: "d.json", continue_as_new_after: 1})"#;
    for call in ["continue_as_new(\"x\", {state: 1})", daemon] {
        let test = format!("@test\npipeline test_anew(task) {{ {call} }}\n");
        let elsewhere = folder(&[("a.harn", &test)]);
        let refused = harn_in(elsewhere.path(), &["test", "a.harn"]);
        assert!(
            refused.code == 1 && refused.shown().contains("a program can restart only"),
            "{}",
            refused.shown()
        );
    }
}

#[test]
fn killed_at_any_moment_each_part_happens_once() {
    let (mut chance, mut all) = (Chance(11), 0);
    while all < kills() {
        let dir = folder(&[("main.harn", PARTS), HELPER]);
        let path = dir.path();
        let parts = 40;
        let mut args = vec!["run", "--durable", "--run-id", "r", "main.harn", "--", "40"];
        let mut killed = 0;
        loop {
            let mut child = command(&args)
                .current_dir(path)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(life(&mut chance, 20, 120));
            child.kill().unwrap();
            child.wait().unwrap();
            killed += 1;
            all += 1;
            // Killed before the run was in the store, so it starts again.
            if harn_in(path, &["runs", "show", "r"]).code == 0 {
                args = vec!["resume", "r"];
                if shown(path)["status"] == "completed" {
                    break;
                }
            }
            assert!(killed < 300, "it comes to no end: {}", text(&path.join("log.txt")));
        }
        assert_eq!(text(&path.join("log.txt")), numbers(parts, "", ","), "killed {killed} times");
        assert_eq!(shown(path)["generation"], parts);
    }
}

#[test]
fn a_part_waits_for_a_person_and_a_worker_goes_on() {
    let program = r#"
let n = continued_state()?.n ?? 1
let said = ask_user("Part ${n}?")
println("${n}: ${said}")
if n < 3 { continue_as_new("asks", {state: {n: n + 1}}) }
"#;
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    assert_eq!(harn_in(path, &["submit", "--run-id", "r", "main.harn"]).code, 0);
    let mut out = String::new();
    for n in 1..=3 {
        let ran = harn_in(path, &["worker", "--drain"]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        out += &ran.out;
        let run = shown(path);
        assert_eq!((&run["status"], &run["generation"]), (&"suspended".into(), &n.into()), "{run}");
        let asked = run["pending"].as_array().unwrap();
        assert_eq!((asked.len(), &asked[0]["prompt"]), (1, &format!("Part {n}?").into()), "{run}");
        let request = asked[0]["request_id"].as_str().unwrap().to_owned();
        assert_eq!(harn_in(path, &["answer", "r", &request, "yes"]).code, 0);
    }
    out += &harn_in(path, &["worker", "--drain"]).out;
    assert_eq!((out.as_str(), &shown(path)["status"]), ("1: yes\n2: yes\n3: yes\n", &"completed".into()));
}

#[test]
fn keys_in_what_is_handed_over_stay_outside() {
    let program = r#"
let was = continued_state()
if was == nil { continue_as_new("keys", {state: {key: env("MY_API_KEY"), text: "<${env("MY_API_KEY")}>"}}) }
println("${was.key.len()} ${was.text}")
ask_user("Go on?")
"#;
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    let with_key = |args: &[&str]| {
        let mut run = command(args);
        run.current_dir(path).env("MY_API_KEY", "key-very-secret-0123456789");
        finish(run, b"")
    };
    let ran = with_key(&["run", "--durable", "--run-id", "r", "main.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (75, "26 <key-very-secret-0123456789>\n"), "{}", ran.err);
    for entry in std::fs::read_dir(path.join(".harn")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&bytes).contains("very-secret"));
    }
    assert_eq!(with_key(&["replay", "r"]).out, "26 <key-very-secret-0123456789>\n");
    let without = harn_in(path, &["resume", "r"]);
    assert_eq!(without.code, 75, "{}", without.shown());
    assert!(without.err.contains("the environment variable MY_API_KEY is not set"), "{}", without.err);
}

/// A loop that wakes up repeatedly, and continues as new after a number of waits.
const LOOP: &str = r#"
append_file("begun.txt", "${continued_state()?.daemon} ")
agent_loop("Watch.", nil, {
  provider: "mock", daemon: true, persist_path: "state/d.json", wake_interval_ms: 1, continue_as_new_after: 10, max_iterations: 1000000,
})
"#;

#[test]
fn a_daemon_that_lives_on_has_a_journal_that_stays_small() {
    let dir = folder(&[("main.harn", LOOP)]);
    let path = dir.path();
    let mut args = vec!["run", "--durable", "--run-id", "r", "main.harn"];
    let mut chance = Chance(5);
    let (mut begun, mut longest) = (0, 0);
    // The program never ends: it is killed at random times until it has started this many generations.
    while begun < 12 {
        let mut child = command(&args)
            .current_dir(path)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(life(&mut chance, 100, 600));
        child.kill().unwrap();
        child.wait().unwrap();
        if harn_in(path, &["runs", "show", "r"]).code == 0 {
            args = vec!["resume", "r"];
            let run = shown(path);
            begun = run["generation"].as_u64().unwrap_or(1);
            longest = longest.max(run["entries"].as_u64().unwrap());
        }
    }
    // The journal of a generation contains its ten waits, with a turn between two of them.
    assert!((50..1_500).contains(&longest), "{longest} entries");
    let begun_with = text(&path.join("begun.txt"));
    // The last generation may have been killed before this point.
    let times = begun_with.split_whitespace().count() as u64;
    assert!(times == begun || times + 1 == begun, "{begun}: {begun_with}");
    assert_eq!(begun_with, format!("nil {}", "state/d.json ".repeat(times as usize - 1)));
    let file = path.join("state/d.json");
    let snapshot: Value = serde_json::from_str(&text(&file)).unwrap();
    let messages = recorded(&file, &snapshot);
    let turns = messages.iter().filter(|message| message["role"] == "assistant").count();
    // Ten turns per generation; none is lost or repeated.
    assert_eq!(snapshot["total_iterations"], turns, "{begun} times");
    assert!(turns as u64 >= 10 * (times - 1), "{turns} turns in {begun} times");
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert!(roles.chunks(2).all(|pair| pair == ["user", "assistant"]), "{roles:?}");
}

/// A daemon that passes its state directory to the next generation. Each generation sends it three events.
const DAEMON: &str = r#"
let was = continued_state()
let n = was?.n ?? 1
let d = was == nil
  ? daemon_spawn({name: "d", task: "Watch.", provider: "mock", persist_path: "d", session_id: "d"})
  : daemon_resume(was.path)
for i in 1 to 3 { daemon_trigger(d, "event ${n}.${i}") }
while daemon_snapshot(d).queued_event_count > 0 { sleep(2) }
let told = daemon_snapshot(d).recorded_messages.map({ m -> m.content }).filter({ c -> to_string(c).starts_with("event ") })
daemon_stop(d)
if n < 4 { continue_as_new("d", {state: {n: n + 1, path: d.persist_path}}) }
println(told.join(" "))
"#;

#[test]
fn a_daemon_goes_on_from_its_snapshot_with_a_new_journal() {
    let dir = folder(&[("main.harn", DAEMON)]);
    let path = dir.path();
    let mut args = vec!["run", "--durable", "--run-id", "r", "main.harn"];
    let mut chance = Chance(3);
    let mut printed = String::new();
    loop {
        let mut child = command(&args)
            .current_dir(path)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(life(&mut chance, 100, 400));
        child.kill().unwrap();
        printed += &String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        if harn_in(path, &["runs", "show", "r"]).code == 0 {
            args = vec!["resume", "r"];
            if shown(path)["status"] == "completed" {
                break;
            }
        }
    }
    let wanted: Vec<String> = (1..=4).flat_map(|n| (1..=3).map(move |i| format!("event {n}.{i}"))).collect();
    let wanted = wanted.join(" ");
    // The last output is repeated if the process was killed before it was recorded.
    assert!(!printed.is_empty() && printed.lines().all(|line| line == wanted), "{printed}");
    assert_eq!(shown(path)["generation"], 4);
}
