//! Programs that are killed while they change persistent state: the store, checkpoints, mailboxes of workflows,
//! sessions. Acknowledged changes are preserved; a change in progress is applied completely or not at all.
//!
//! `HARN_KILLS` sets the number of kills; `make kill` performs 200.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::common::{Chance, begin, folder, harn_in, kills, life, run_and_kill, text, until_longer, whole};

/// Number of keys that each program uses.
const KEYS: u64 = 8;

/// Sets keys in turn, and removes the key instead at every fifth step.
const CHANGES: &str = r#"
let who = argv[0]
var n = to_int(argv[1])
while true {
  let key = "${who}${n % 8}"
  if n % 5 == 4 { DELETE(key) } else { SET(key, {n: n, list: [n, "x"]}) }
  append_file("told-${who}", "${n}\n")
  n = n + 1
}
"#;

/// Returns the value of the key after a step: a number, or `None`.
fn left(n: u64) -> Option<u64> {
    (n % 5 != 4).then_some(n)
}

/// Two programs change one file concurrently, and are killed one after the other.
fn changes_survive(set: &str, delete: &str, file: &str) {
    let program = CHANGES.replace("SET", set).replace("DELETE", delete);
    let dir = folder(&[("harn.toml", ""), ("main.harn", &program)]);
    let path = dir.path();
    let mut chance = Chance(5);
    // The expected value of each key.
    let mut kept: BTreeMap<String, Option<u64>> = BTreeMap::new();
    let (mut told, mut begun) = (BTreeMap::from([("a", 0), ("b", 0)]), [0, 0]);
    for round in 0..kills().div_ceil(2) {
        let first = round * 1_000_000;
        let logs = ["a", "b"].map(|who| path.join(format!("told-{who}")));
        let before = logs.clone().map(|log| text(&log).len());
        let children = ["a", "b"].map(|who| begin(path, "main.harn", &[who, &first.to_string()]));
        if round % 2 == 0 {
            logs.iter().zip(before).for_each(|(log, before)| until_longer(log, before));
        }
        for mut child in children {
            std::thread::sleep(life(&mut chance, 10, 70));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let values = if path.join(file).exists() { whole(&path.join(file)) } else { Value::Null };
        for (at, who) in ["a", "b"].into_iter().enumerate() {
            let log = text(&path.join(format!("told-{who}")));
            let mut next = first;
            for line in log.lines().skip(told[who]) {
                next = line.parse().unwrap();
                kept.insert(format!("{who}{}", next % KEYS), left(next));
                next += 1;
            }
            begun[at] += u64::from(next > first);
            told.insert(who, log.lines().count());
            for key in 0..KEYS {
                let name = format!("{who}{key}");
                let found = values[&name]["n"].as_u64();
                assert_eq!(
                    found.map(|n| values[&name]["list"] == serde_json::json!([n, "x"])),
                    found.map(|_| true)
                );
                let must = kept.entry(name).or_default();
                // The step in progress may have been applied.
                assert!(
                    found == *must || next % KEYS == key && found == left(next),
                    "round {round}: {who}{key} is {found:?}, not {must:?}"
                );
                *must = found;
            }
        }
    }
    assert!(begun.iter().all(|rounds| *rounds > 0), "no program lived long enough");
    println!("{told:?} changes acknowledged");
}

#[test]
fn values_of_the_store_survive() {
    changes_survive("store_set", "store_delete", ".harn/store.json");
}

#[test]
fn checkpoints_survive() {
    changes_survive("checkpoint", "checkpoint_delete", ".harn/checkpoints/main.json");
}

const STAGES: &str = r#"
import "std/checkpoint"
fn note(text) { append_file("log", "${text}\n") }
for i in 1 to 40 {
  let value = if i % 2 == 0 {
    checkpoint_stage("s${i}", { -> note("ran ${i}"); {square: i * i} })
  } else {
    checkpoint_stage_retry("s${i}", 2, { -> note("ran ${i}"); {square: i * i} })
  }
  assert_eq(value, {square: i * i})
  note("done ${i}")
}
note("clear")
checkpoint_clear()
"#;

#[test]
fn a_stage_that_is_done_is_not_run_again() {
    let dir = folder(&[("harn.toml", ""), ("main.harn", STAGES)]);
    let mut chance = Chance(3);
    for _ in 0..kills() {
        run_and_kill(dir.path(), "main.harn", "", life(&mut chance, 5, 60));
    }
    let ended = harn_in(dir.path(), &["run", "main.harn"]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let log = text(&dir.path().join("log"));
    let mut done = BTreeSet::new();
    for line in log.lines() {
        match line.split_once(' ') {
            Some(("ran", stage)) => assert!(!done.contains(stage), "stage {stage} ran again:\n{log}"),
            Some((_, stage)) => drop(done.insert(stage)),
            None => done.clear(),
        }
    }
    println!("{} stages ran", log.matches("ran").count());
}

const SENDS: &str = r#"
var n = to_int(argv[0])
while true {
  workflow.signal("w", "event", {n: n})
  append_file("sent", "${n}\n")
  workflow.publish_query("w", "progress", n)
  append_file("published", "${n}\n")
  n = n + 1
}
"#;

const RECEIVES: &str = r#"
while true {
  let message = workflow.receive("w")
  if message == nil { sleep(1) } else { append_file("got", "${message.seq} ${message.payload.n}\n") }
}
"#;

#[test]
fn messages_in_a_mailbox_survive() {
    let dir = folder(&[("harn.toml", ""), ("sends.harn", SENDS), ("receives.harn", RECEIVES)]);
    let path = dir.path();
    let state = path.join(".harn/workflows/w/state.json");
    let mut chance = Chance(9);
    let lines = |name: &str| -> Vec<Vec<u64>> {
        let numbers = |line: &str| line.split(' ').map(|n| n.parse().unwrap()).collect();
        text(&path.join(name)).lines().map(numbers).collect()
    };
    let mut rounds = 0;
    while rounds * 2 < kills() {
        let mut sends = begin(path, "sends.harn", &[&(rounds * 1_000_000).to_string()]);
        let before = text(&path.join("got")).len();
        let mut receives = begin(path, "receives.harn", &[]);
        if rounds % 2 == 0 {
            until_longer(&path.join("got"), before);
        }
        rounds += 1;
        for child in [&mut sends, &mut receives] {
            std::thread::sleep(life(&mut chance, 10, 60));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        if state.exists() {
            let progress = whole(&state)["queries"]["progress"].as_u64();
            let published = lines("published").last().map(|line| line[0]);
            assert!(progress >= published, "{progress:?} is kept, {published:?} was published");
        }
    }
    let got = lines("got");
    assert!(
        got.windows(2).all(|two| two[0][0] < two[1][0] && two[0][1] < two[1][1]),
        "in order, and once: {got:?}"
    );
    let got: BTreeSet<u64> = got.iter().map(|line| line[1]).collect();
    let waiting = whole(&state)["mailbox"].as_array().unwrap().clone();
    let waiting: BTreeSet<u64> =
        waiting.iter().map(|message| message["payload"]["n"].as_u64().unwrap()).collect();
    assert!(got.is_disjoint(&waiting), "a message was received and is still there");
    let sent: BTreeSet<u64> = lines("sent").iter().map(|line| line[0]).collect();
    let missing = sent.iter().filter(|n| !got.contains(n) && !waiting.contains(n)).count() as u64;
    // A program that was killed between taking a message and reporting it has consumed the message.
    assert!(missing <= rounds, "{missing} of {} messages are nowhere", sent.len());
    assert!(!got.is_empty(), "no program lived long enough");
    println!(
        "{} messages sent, {} received, {} wait, {missing} taken by who was killed",
        sent.len(),
        got.len(),
        waiting.len()
    );
}

const ASKS: &str = r#"
var n = to_int(argv[0])
while true {
  append_file("asked", "${n}\n")
  let answer = try { workflow.update("w", "double", {n: n}, {timeout_ms: 2000}) }
  if is_ok(answer) { append_file("answers", "${n} ${unwrap(answer)}\n") }
  n = n + 1
}
"#;

const ANSWERS: &str = r#"
while true {
  let message = workflow.receive("w")
  if message == nil { sleep(1) } else { workflow.respond_update("w", message.request_id, message.payload.n * 2) }
}
"#;

#[test]
fn answers_of_a_mailbox_belong_to_their_questions() {
    let dir = folder(&[("harn.toml", ""), ("asks.harn", ASKS), ("answers.harn", ANSWERS)]);
    let path = dir.path();
    let mut chance = Chance(13);
    for round in 0..kills().div_ceil(2) {
        let before = text(&path.join("answers")).len();
        let children =
            [begin(path, "asks.harn", &[&(round * 1_000_000).to_string()]), begin(path, "answers.harn", &[])];
        if round % 2 == 0 {
            until_longer(&path.join("answers"), before);
        }
        for mut child in children {
            std::thread::sleep(life(&mut chance, 20, 60));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        whole(&path.join(".harn/workflows/w/state.json"));
    }
    let answers = text(&path.join("answers"));
    assert!(!answers.is_empty(), "no program lived long enough");
    for line in answers.lines() {
        let (n, answer) = line.split_once(' ').unwrap();
        assert_eq!(n.parse::<u64>().unwrap() * 2, answer.parse::<u64>().unwrap());
    }
    println!("{} answers", answers.lines().count());
}

const TALKS: &str = r#"
tool look(n: int) -> string {
  description "Look"
  "seen ${n}"
}
let s = agent_session_open("s", {persist: true})
var n = to_int(argv[0])
while true {
  llm_mock({tool_calls: [{name: "look", arguments: {n: n}}]})
  llm_mock({text: "answer ${n}"})
  agent_loop("question ${n}", nil, {provider: "mock", tools: look, tool_format: "native", session_id: s, compaction: false})
  append_file("told", "${n}\n")
  n = n + 1
}
"#;

const READS: &str = r#"
let s = agent_session_open("s", {persist: true})
println(json_stringify(agent_session_snapshot(s).messages))
agent_loop("last", nil, {provider: "mock", session_id: s, compaction: false})
println(json_stringify(agent_session_snapshot(s).messages))
"#;

/// The messages of each completed loop are stored completely and in order; a killed loop has complete turns.
fn told_as_a_whole(messages: &[Value], told: &str) {
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    for (at, message) in messages.iter().enumerate() {
        match roles[at] {
            "assistant" if message["tool_calls"].is_array() => {
                assert_eq!(roles[at + 1], "tool", "a torn turn at {at}")
            }
            "tool" => assert!(messages[at - 1]["tool_calls"].is_array(), "a result without its call at {at}"),
            _ => {}
        }
    }
    let mut rest = messages.iter().map(|message| message["content"].as_str().unwrap_or_default());
    for n in told.lines() {
        for said in [format!("question {n}"), format!("seen {n}"), format!("answer {n}")] {
            assert!(rest.any(|text| text == said), "'{said}' is not there");
        }
    }
}

#[test]
fn sessions_hold_the_loops_that_ended() {
    let mut chance = Chance(17);
    let mut left = kills();
    while left > 0 {
        let dir = folder(&[("harn.toml", ""), ("talks.harn", TALKS), ("reads.harn", READS)]);
        let path: &Path = dir.path();
        let row = left.min(20);
        left -= row;
        for round in 0..row {
            let before = text(&path.join("told")).len();
            let mut talks = begin(path, "talks.harn", &[&(round * 1_000_000).to_string()]);
            if round % 2 == 0 {
                until_longer(&path.join("told"), before);
            }
            std::thread::sleep(life(&mut chance, 15, 100));
            talks.kill().unwrap();
            talks.wait().unwrap();
        }
        let read = harn_in(path, &["run", "reads.harn"]);
        assert_eq!(read.code, 0, "{}", read.err);
        let told = text(&path.join("told"));
        assert!(!told.is_empty(), "no program lived long enough");
        for line in read.out.lines() {
            let messages: Vec<Value> = serde_json::from_str(line).unwrap();
            told_as_a_whole(&messages, &told);
        }
        println!("{} loops acknowledged", told.lines().count());
    }
}
