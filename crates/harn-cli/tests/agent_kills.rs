//! An agent with parallel tools, sub-agents, an approval and a handoff, killed at random times and resumed until it
//! ends.
//!
//! `HARN_KILLS` sets the number of kills; `make kill-agents` performs 1,000.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use harn_strict_servers::{Request, answer};
use serde_json::{Value, json};

use crate::common::{Chance, Ran, command, folder, harn_in, kills, life};

const PROGRAM: &str = r#"
let effects = env("EFFECTS")
var tools = tool_registry()
fn with_tool(name, handler, more = {}) {
  tools = tool_define(tools, name, "Does it.", {parameters: {n: {type: "int"}}, handler: handler, ...more})
}
with_tool("note", { args -> append_file("notes.txt", "${args.n}\n"); "noted ${args.n}" }, {annotations: {kind: "read", side_effect_level: "none"}})
with_tool("run", { args -> exec("sh", "-c", "echo ${args.n} >> ran.txt").status })
with_tool("post", { args -> http_post("${effects}/effect", {n: args.n}, {idempotent: true}).status })
with_tool("charge", { args -> http_post("${effects}/charge", {n: args.n}, {}).status })
with_tool("pay", { args ->
  let yes = request_approval("pay ${args.n}", {args: args})
  append_file("paid.txt", "${args.n}\n")
  "paid, says ${yes.reviewers}"
})
let model = {provider: "local", model: "gpt-4o", stream: false, tool_format: "native", max_iterations: 40, llm_retries: 0}
let inner = tools
with_tool("delegate", { args -> sub_agent_run("Sub ${args.n}", {...model, tools: inner}).summary })
let closer = agent("closer", {...model, tools: tools})
println(agent_loop("Work.", nil, {...model, tools: tools, handoffs: [closer]}).visible_text)
"#;

/// The tool calls of the model in each turn: of the program, and of a sub-agent.
const TURNS: [&[(&str, u32)]; 4] = [
    &[("note", 1), ("run", 1), ("post", 1), ("note", 2), ("charge", 1)],
    &[("delegate", 1), ("delegate", 2), ("note", 3)],
    &[("pay", 1), ("note", 4), ("transfer_to_closer", 1), ("post", 2), ("charge", 2)],
    &[("run", 2), ("note", 5), ("post", 3), ("run", 3)],
];
const SUB_TURNS: [&[(&str, u32)]; 1] = [&[("note", 0), ("post", 0)]];

/// The requests that the outside world received.
#[derive(Default)]
struct Seen {
    /// The requested turns of each conversation, in the order of the requests.
    asked: BTreeMap<String, Vec<usize>>,
    /// The idempotency keys of the requests for each effect.
    keys: BTreeMap<u64, BTreeSet<String>>,
    /// Number of requests for each charge, which must not be repeated.
    charged: BTreeMap<u64, u32>,
    /// Programs and charges whose result was reported to the model as in doubt.
    doubted: BTreeSet<String>,
}

type World = Arc<Mutex<Seen>>;

/// Starts a model and a service on one port. Requests are read one after the other, so that their order is recorded.
fn world() -> (String, World) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let seen = World::default();
    let own = seen.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // A client that was killed during its request.
            let Ok(request) = read(&stream) else { continue };
            let Some(body) = reply(&request, &own) else { continue };
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length:";
            let reply =
                answer("agent_kills", &request, format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes());
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(3));
                let _ = stream.write_all(&reply);
            });
        }
    });
    (address, seen)
}

fn read(stream: &TcpStream) -> std::io::Result<Request> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    Request::read(BufReader::new(stream))
}

fn reply(request: &Request, world: &World) -> Option<String> {
    let (path, sent) = (request.target(), Value::from(request.body.clone()));
    let key = request.header("idempotency-key").unwrap_or_default().to_owned();
    let mut seen = world.lock().unwrap();
    if path.ends_with("/effect") {
        seen.keys.entry(sent["n"].as_u64()?).or_default().insert(key);
        return Some("{}".to_owned());
    }
    if path.ends_with("/charge") {
        *seen.charged.entry(sent["n"].as_u64()?).or_default() += 1;
        return Some("{}".to_owned());
    }
    let messages = sent["messages"].as_array()?;
    let task = messages.iter().find(|message| message["role"] == "user")?["content"].as_str()?.to_owned();
    let results: Vec<&Value> = messages.iter().filter(|message| message["role"] == "tool").collect();
    for result in &results {
        let doubts = ["it is unknown how far", "it is unknown whether it arrived"];
        if result["content"].as_str().is_some_and(|text| doubts.iter().any(|doubt| text.contains(doubt))) {
            seen.doubted.insert(result["tool_call_id"].as_str()?.to_owned());
        }
    }
    let sub: Option<u32> = task.strip_prefix("Sub ").and_then(|n| n.trim().parse().ok());
    let turns: &[&[(&str, u32)]] = if sub.is_some() { &SUB_TURNS } else { &TURNS };
    let mut before = 0;
    let turn = turns.iter().take_while(|calls| {
        before += calls.len();
        before <= results.len()
    });
    let turn = turn.count();
    seen.asked.entry(task).or_default().push(turn);
    let Some(calls) = turns.get(turn) else {
        let text = format!("all {} done", results.len());
        return Some(message(json!({"role": "assistant", "content": text}), "stop"));
    };
    let calls = calls.iter().map(|(name, n)| {
        let n = sub.map_or(*n, |sub| 100 * sub + n);
        let arguments = match *name {
            "transfer_to_closer" => "{}".to_owned(),
            _ => format!("{{\"n\": {n}}}"),
        };
        json!({"id": format!("{name}_{n}"), "type": "function",
            "function": {"name": name, "arguments": arguments}})
    });
    let calls: Vec<Value> = calls.collect();
    Some(message(json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls"))
}

fn message(message: Value, reason: &str) -> String {
    json!({"choices": [{"message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 3}})
    .to_string()
}

/// A run under test.
struct Run<'a> {
    path: &'a Path,
    address: &'a str,
    out: String,
    killed: u64,
}

impl Run<'_> {
    /// Starts or resumes the run, and kills it after `life`. Returns the exit code and the output if it ended before.
    fn live(&mut self, life: Option<Duration>) -> Option<(i32, String)> {
        let exists = harn_in(self.path, &["runs", "show", "r"]).code == 0;
        let args: &[&str] =
            if exists { &["resume", "r"] } else { &["run", "--durable", "--run-id", "r", "main.harn"] };
        let mut child = command(args)
            .env("LOCAL_LLM_BASE_URL", self.address)
            .env("EFFECTS", self.address)
            .current_dir(self.path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let texts = [
            Box::new(child.stdout.take().unwrap()) as Box<dyn Read + Send>,
            Box::new(child.stderr.take().unwrap()),
        ];
        let [out, err] = texts.map(|mut pipe| {
            std::thread::spawn(move || {
                let mut text = String::new();
                let _ = pipe.read_to_string(&mut text);
                text
            })
        });
        if let Some(life) = life {
            std::thread::sleep(life);
            if child.try_wait().unwrap().is_none() {
                child.kill().unwrap();
            }
        }
        let status = child.wait().unwrap();
        self.out += &out.join().unwrap();
        let err = err.join().unwrap();
        self.killed += u64::from(status.code().is_none());
        status.code().map(|code| (code, err))
    }

    /// Approves all requests of the run.
    fn approve(&self) {
        let shown = harn_in(self.path, &["runs", "show", "r", "--json"]);
        let shown: Value = serde_json::from_str(&shown.out).unwrap();
        for request in shown["data"]["pending"].as_array().unwrap() {
            let id = request["request_id"].as_str().unwrap();
            let given: Ran = harn_in(self.path, &["answer", "r", id, "--approve", "--by", "ada"]);
            assert!(given.code == 0 || given.err.contains("answered"), "{}", given.shown());
        }
    }

    /// Resumes and kills the run, at most `limit` times, until it has ended.
    fn live_to_the_end(&mut self, chance: &mut Chance, limit: u64) {
        for _ in 0..2000 {
            let life = (self.killed < limit).then(|| life(chance, 5, 200));
            match self.live(life) {
                None => {}
                Some((0, _)) => return,
                Some((75, _)) => self.approve(),
                Some((1, err)) if err.contains("has ended (completed)") => return,
                Some((code, err)) => panic!("exit code {code} after {} kills: {err}", self.killed),
            }
        }
        panic!("the run does not end");
    }
}

fn lines(path: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut lines: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
    lines.sort_unstable();
    lines
}

/// Runs the agent with at most `limit` kills, and checks all its effects. Returns the number of kills.
fn one(chance: &mut Chance, limit: u64) -> u64 {
    let (address, world) = world();
    let dir = folder(&[("main.harn", PROGRAM)]);
    let path = dir.path();
    let mut run = Run { path, address: &address, out: String::new(), killed: 0 };
    run.live_to_the_end(chance, limit);
    let (killed, out) = (run.killed, run.out);
    let calls: usize = TURNS.iter().map(|calls| calls.len()).sum();
    let word = format!("all {calls} done\n");
    // The last output may be repeated: the process was killed after printing it and before recording that.
    assert!(out == word || killed > 0 && out == word.repeat(2), "killed {killed} times: {out}");
    assert_eq!(harn_in(path, &["replay", "r"]).out, word, "killed {killed} times");
    assert_eq!(
        lines(&path.join("notes.txt")),
        [1, 2, 3, 4, 5, 100, 200],
        "killed {killed} times: each note once"
    );
    assert_eq!(lines(&path.join("paid.txt")), [1], "killed {killed} times: paid once");
    let seen = world.lock().unwrap();
    let ran = lines(&path.join("ran.txt"));
    for n in 1..=3 {
        let times = ran.iter().filter(|ran| **ran == n).count();
        let in_doubt = seen.doubted.contains(&format!("run_{n}"));
        assert!(times == 1 || times == 0 && in_doubt, "program {n} ran {times} times, in doubt: {in_doubt}");
    }
    for n in 1..=2 {
        let times = seen.charged.get(&n).copied().unwrap_or(0);
        let in_doubt = seen.doubted.contains(&format!("charge_{n}"));
        assert!(
            times == 1 || times == 0 && in_doubt,
            "charge {n} arrived {times} times, in doubt: {in_doubt}"
        );
    }
    if killed == 0 {
        assert!(seen.doubted.is_empty(), "{:?}", seen.doubted);
    }
    let posts: Vec<u64> = seen.keys.keys().copied().collect();
    assert_eq!(posts, [1, 2, 3, 100, 200], "killed {killed} times");
    for (n, keys) in &seen.keys {
        assert!(keys.len() == 1 && !keys.contains(""), "effect {n} was asked for under {keys:?}");
    }
    let asked = |turns: usize| (0..=turns).collect::<Vec<_>>();
    for (task, turns) in &seen.asked {
        // Only requests in progress are repeated: after a request for a turn there is none for an earlier turn.
        assert!(turns.is_sorted(), "{task} asked for turns {turns:?}, killed {killed} times");
        let different: BTreeSet<usize> = turns.iter().copied().collect();
        let count = if task == "Work." { TURNS.len() } else { SUB_TURNS.len() };
        assert_eq!(different.into_iter().collect::<Vec<_>>(), asked(count), "{task}");
        let again = turns.len() - count - 1;
        assert!(again as u64 <= killed, "{task} asked {again} times again after {killed} kills");
    }
    assert_eq!(seen.asked.len(), 3, "{:?}", seen.asked.keys());
    killed
}

#[test]
fn an_agent_with_everything_is_killed_and_does_nothing_twice() {
    let mut chance = Chance(std::env::var("HARN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(23));
    one(&mut chance, 0);
    let (mut left, mut runs, mut idle) = (kills(), 0, 0);
    while left > 0 {
        let killed = one(&mut chance, left.min(12));
        left -= killed;
        runs += 1;
        idle = if killed == 0 { idle + 1 } else { 0 };
        assert!(idle < 10, "nothing is killed");
    }
    println!("{} kills in {runs} runs", kills());
}
