//! Durable runs: killed and resumed, replayed, compared, forked. `HARN_KILLS` sets the number of kills; `make kill`
//! performs 200.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Chance, Ran, command, durable, durable_as, finish, folder, harn_in, kills, life, text};

/// Starts a command and kills it after `life`. Returns its output, and the exit code if it ended before.
fn kill_after(folder: &Path, address: &str, args: &[&str], life: Duration) -> (String, Option<i32>) {
    let mut child = command(args)
        .env("LOCAL_LLM_BASE_URL", address)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = out.read_to_string(&mut text);
        text
    });
    std::thread::sleep(life);
    let ended = child.try_wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    (reader.join().unwrap(), ended.and_then(|status| status.code()))
}

const EFFECTS: &str = r#"
import "./helper"
println(greeting())
append_file("log.txt", "a")
let r = exec("sh", "-c", "printf x >> ran.txt; cat ran.txt")
println(r.stdout)
println(random_int(1, 1000000))
println(timestamp())
let both = parallel each [3, 1, 2] { n -> sleep(n * 5); append_file("log.txt", "${n}"); println("task ${n}"); n * n }
println(both)
println(read_file("log.txt"))
"#;

#[test]
fn a_replay_prints_the_same_and_does_nothing() {
    let helper = "pub fn greeting() { \"hello\" }\n";
    let dir = folder(&[("main.harn", EFFECTS), ("helper.harn", helper)]);
    let path = dir.path();
    let first = durable_as(path, "one", &["main.harn"]);
    assert_eq!(first.code, 0, "{}", first.shown());
    assert!(first.err.contains("run one started"), "{}", first.err);
    let log = text(&path.join("log.txt"));
    // Even the sources are not needed.
    std::fs::write(path.join("helper.harn"), "this is no program").unwrap();
    std::fs::remove_file(path.join("main.harn")).unwrap();
    let again = harn_in(path, &["replay", "one"]);
    assert_eq!((again.code, &again.out), (0, &first.out), "{}", again.shown());
    assert_eq!((text(&path.join("log.txt")), text(&path.join("ran.txt")).as_str()), (log, "x"));
    let json = harn_in(path, &["replay", "one", "--json"]);
    assert!(json.out.lines().last().unwrap_or_default().contains("\"exit_code\":0"), "{}", json.shown());
    let part = harn_in(path, &["replay", "one", "--until", "20"]);
    assert!(first.out.starts_with(&part.out) && part.out.len() < first.out.len(), "{}", part.shown());
    assert!(part.err.contains("stopped before entry 20"), "{}", part.err);
    let ended = harn_in(path, &["resume", "one"]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("has ended (completed)"), "{}", ended.err);
    let taken = durable_as(path, "one", &["-e", "1"]);
    assert!(taken.code == 1 && taken.err.contains("run 'one' already exists"), "{}", taken.shown());
    let none = harn_in(path, &["resume", "two"]);
    assert!(none.code == 1 && none.err.starts_with("error: unknown run 'two' in "), "{}", none.shown());
    for args in [&["replay", "two"][..], &["fork", "two", "--at", "1"], &["resume", "one"]] {
        let wrong = harn_in(path, args);
        assert!(wrong.code == 1 && wrong.err.starts_with("error: "), "{}", wrong.shown());
    }
}

#[test]
fn changed_sources_are_compared_and_forked() {
    let was = "println(\"one\")\nlet a = read_file(\"a.txt\")\nappend_file(\"log.txt\", a)\nprintln(\"end ${a}\")\n";
    let dir = folder(&[("main.harn", was), ("a.txt", "A"), ("b.txt", "B")]);
    let path = dir.path();
    assert_eq!(durable(path, &["main.harn"]).code, 0);
    let same = harn_in(path, &["replay", "r", "--check"]);
    assert_eq!(same.code, 0, "{}", same.shown());
    assert!(same.out.contains("no difference"), "{}", same.out);
    std::fs::write(path.join("main.harn"), was.replace("one", "uno")).unwrap();
    let printed = harn_in(path, &["replay", "r", "--check"]);
    assert_eq!(printed.code, 1, "{}", printed.shown());
    assert!(
        printed.err.contains("the output differs from the recorded run")
            && printed.err.contains("- one\n+ uno\n  end A"),
        "{}",
        printed.err
    );
    std::fs::write(path.join("main.harn"), format!("\n{}", was.replace("a.txt", "b.txt"))).unwrap();
    let other = harn_in(path, &["replay", "r", "--check"]);
    assert_eq!((other.code, other.out.as_str()), (1, ""), "{}", other.shown());
    assert!(other.err.contains("a.txt at main.harn:2"), "{}", other.err);
    assert!(other.err.contains("b.txt at main.harn:3"), "{}", other.err);
    assert!(other.err.contains("a.txt\n+ ") && other.err.ends_with("b.txt\n"), "the diff: {}", other.err);
    let at = other.err.split("--at ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
    let fork = harn_in(path, &["fork", "r", "--at", &at, "--changed", "--run-id", "f"]);
    assert_eq!((fork.code, fork.out.as_str()), (0, "one\nend B\n"), "{}", fork.shown());
    assert_eq!(text(&path.join("log.txt")), "AB");
    let again = harn_in(path, &["replay", "f"]);
    assert_eq!(again.out, "one\nend B\n", "{}", again.shown());
    let shown = harn_in(path, &["runs", "show", "f"]);
    assert!(shown.out.contains(&format!("fork of   r, at entry {at}\n")), "{}", shown.out);
    let beyond = harn_in(path, &["fork", "r", "--at", "100000"]);
    assert!(beyond.code == 1 && beyond.err.contains("cannot be forked"), "{}", beyond.shown());
}

#[test]
fn an_interrupted_run_goes_on() {
    let program = "append_file(\"log.txt\", \"a\")\nprintln(\"before\")\nwrite_file(\"noted\", \"\")\nwrite_file(\"ready\", \"\")\nsleep(60000)\nprintln(\"after\")\n";
    let dir = folder(&[("main.harn", &program.replace("60000", "700"))]);
    let path = dir.path();
    let mut child = command(&["run", "--durable", "--run-id", "r", "main.harn"])
        .current_dir(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !path.join("ready").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    let printed = child.wait_with_output().unwrap().stdout;
    let resumed = harn_in(path, &["resume", "--all"]);
    let all = String::from_utf8_lossy(&printed).into_owned() + &resumed.out;
    assert_eq!((resumed.code, all.as_str()), (0, "before\nafter\n"), "{}", resumed.shown());
    assert_eq!(text(&path.join("log.txt")), "a");
}

#[test]
fn a_timer_keeps_running_while_its_run_is_stopped() {
    let program = "write_file(\"ready\", \"\")\nlet start = monotonic_ms()\nsleep(3s)\nprintln(monotonic_ms() - start >= 4000)\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    let mut child = command(&["run", "--durable", "--run-id", "r", "main.harn"])
        .current_dir(path)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The start of the timer is stored when the program waits.
    let is_stored = || {
        let events = harn_in(path, &["runs", "events", "r"]).out;
        path.join("ready").exists() && events.lines().last().is_some_and(|line| line.contains(" clock "))
    };
    while child.try_wait().unwrap().is_none() && !is_stored() {}
    child.kill().unwrap();
    child.wait().unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let resumed = harn_in(path, &["resume", "r"]);
    assert_eq!((resumed.code, resumed.out.as_str()), (0, "true\n"), "{}", resumed.shown());
}

/// A process that resumes a run of a killed process owns the run under its own name, so it is not mistaken for the dead
/// process.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_was_taken_over_is_not_taken_from_the_living() {
    let program = "append_file(\"log.txt\", \"a\")\nwhile !file_exists(\"go\") { sleep(10) }\nappend_file(\"log.txt\", \"b\")\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    let start = |args: &[&str]| {
        let mut command = command(args);
        command.current_dir(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let owner = || harn_in(path, &["runs", "show", "r", "--json"]).out;
    let mut first = start(&["run", "--durable", "--run-id", "r", "main.harn"]);
    while !path.join("log.txt").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let mut second = start(&["resume", "r"]);
    while !owner().contains(&format!("\"{}@", second.id())) {
        assert!(second.try_wait().unwrap().is_none(), "{}", owner());
        std::thread::sleep(Duration::from_millis(5));
    }
    let third = harn_in(path, &["resume", "r"]);
    assert!(third.code == 1 && third.err.contains("is executed by"), "{}", third.shown());
    std::fs::write(path.join("go"), "").unwrap();
    assert!(second.wait().unwrap().success());
    assert_eq!(text(&path.join("log.txt")), "ab");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_a_run_so_that_it_can_go_on() {
    let program = "try {\n  write_file(\"ready\", \"\")\n  sleep(900)\n  println(\"slept\")\n} finally { append_file(\"log.txt\", \"finally\") }\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    let child = command(&["run", "--durable", "--run-id", "r", "main.harn"])
        .current_dir(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !path.join("ready").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!((ended.status.code(), ended.stdout.len()), (Some(130), 0), "{err}");
    assert!(err.contains("run r was interrupted; `harn resume r` continues it"), "{err}");
    assert_eq!(text(&path.join("log.txt")), "", "its cleanup runs when it ends");
    let resumed = harn_in(path, &["resume", "r"]);
    assert_eq!((resumed.code, resumed.out.as_str()), (0, "slept\n"), "{}", resumed.shown());
    assert_eq!(text(&path.join("log.txt")), "finally");
}

#[test]
fn a_run_goes_on_in_its_folder() {
    let dir = folder(&[("main.harn", "ask_user(\"Go on?\")\n"), ("other/x", "")]);
    let path = dir.path().canonicalize().unwrap();
    assert_eq!(durable(&path, &["main.harn"]).code, 75);
    let mut elsewhere = command(&["resume", "r"]);
    elsewhere.current_dir(path.join("other")).env("HARN_STATE_FILE", path.join(".harn/state.db"));
    let refused = finish(elsewhere, b"");
    assert_eq!(refused.code, 1, "{}", refused.shown());
    assert!(
        refused.err.contains(&format!("run 'r' was started in {}: go there first", path.display())),
        "{}",
        refused.err
    );
    assert_eq!(harn_in(&path, &["resume", "r"]).code, 75, "it stays as it was");
}

#[test]
fn keys_are_taken_from_the_environment_again() {
    let program = "println(env(\"MY_API_KEY\").len())\nwrite_file(\"ready\", \"\")\nprintln(env(\"MY_API_KEY\").len())\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    let mut run = command(&["run", "--durable", "--run-id", "r", "main.harn"]);
    run.current_dir(path).env("MY_API_KEY", "key-very-secret-0123456789");
    assert_eq!(finish(run, b"").out, "26\n26\n");
    for entry in std::fs::read_dir(path.join(".harn")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("very-secret"));
    }
    let mut again = command(&["replay", "r"]);
    again.current_dir(path).env("MY_API_KEY", "key-very-secret-0123456789");
    assert_eq!(finish(again, b"").out, "26\n26\n");
}

#[test]
fn keys_stay_out_of_what_is_done_with_them() {
    let program = "let key = env(\"MY_API_KEY\")\nprintln(exec(\"echo\", \"Bearer ${key}\").stdout.len() > 9)\nmkdir(\"d_${key}\")\n\
                   write_file(\"d_${key}/f\", key)\nprintln(list_dir(\".\").filter({ name -> name.starts_with(\"d_\") }).len())\n\
                   println(read_file(\"d_${key}/f\") == key)\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    let mut run = command(&["run", "--durable", "--run-id", "r", "main.harn"]);
    run.current_dir(path).env("MY_API_KEY", "key-very-secret-0123456789");
    let ran = finish(run, b"");
    assert_eq!(ran.out, "true\n1\ntrue\n", "{}", ran.shown());
    for entry in std::fs::read_dir(path.join(".harn")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("very-secret"));
    }
    // With a renewed key, and without a key, the replay is the same.
    for key in [Some("another-key-9876543210"), None] {
        let mut again = command(&["replay", "r"]);
        again.current_dir(path).env_remove("MY_API_KEY").envs(key.map(|key| ("MY_API_KEY", key)));
        let again = finish(again, b"");
        assert_eq!(again.out, "true\n1\ntrue\n", "{key:?}: {}", again.shown());
    }
    let shown = harn_in(path, &["runs", "show", "r"]);
    assert!(shown.out.contains("$MY_API_KEY") || !shown.out.contains("Bearer"), "{}", shown.shown());
}

#[test]
fn a_run_that_only_waits_holds_no_process() {
    let program =
        "println(\"before\")\nlet n = parallel each [1500, 1600] { ms -> sleep(ms); ms }\nprintln(n)\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    let first = durable(path, &["--suspend-after", "1s", "main.harn"]);
    assert_eq!((first.code, first.out.as_str()), (75, "before\n"), "{}", first.shown());
    assert!(
        first.err.contains("run r waits until") && first.err.contains("`harn resume r`"),
        "{}",
        first.err
    );
    // While the remaining time exceeds the limit, the run is suspended again; then the process waits.
    let mut out = String::new();
    let mut code = 75;
    while code == 75 {
        std::thread::sleep(Duration::from_millis(300));
        let resumed = harn_in(path, &["resume", "r"]);
        out += &resumed.out;
        code = resumed.code;
    }
    assert_eq!((code, out.as_str()), (0, "[1500, 1600]\n"));
    assert_eq!(harn_in(path, &["replay", "r"]).out, "before\n[1500, 1600]\n");
    let wrong = durable_as(path, "s", &["--suspend-after", "soon", "main.harn"]);
    assert!(wrong.code == 2 && wrong.err.contains("such as 500ms"), "{}", wrong.shown());
}

// ---- agents ----

/// Number of requests by their number of messages.
type Requests = Arc<Mutex<BTreeMap<usize, u32>>>;

/// Starts a model that calls `note` with the numbers 1 to `turns`, two at a time, and then replies with the number of
/// results.
fn model(turns: usize) -> (String, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests: Requests = Arc::default();
    let counted = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counted = counted.clone();
            std::thread::spawn(move || drop(answer(stream, turns, &counted)));
        }
    });
    (address, requests)
}

fn answer(mut stream: TcpStream, turns: usize, counted: &Requests) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if let Some(n) = line.to_lowercase().strip_prefix("content-length:") {
            length = n.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body: serde_json::Value = serde_json::from_slice(&body)?;
    let messages = body["messages"].as_array().map_or(0, Vec::len);
    let results = body["messages"].as_array().into_iter().flatten().filter(|m| m["role"] == "tool").count();
    *counted.lock().unwrap().entry(messages).or_default() += 1;
    std::thread::sleep(Duration::from_millis(3));
    let call = |n: usize| {
        let arguments = format!("{{\"n\": {n}}}");
        serde_json::json!({"id": format!("call_{n}"), "type": "function",
            "function": {"name": "note", "arguments": arguments}})
    };
    let message = if results < turns * 2 {
        serde_json::json!({"role": "assistant", "content": null, "tool_calls": [call(results + 1), call(results + 2)]})
    } else {
        serde_json::json!({"role": "assistant", "content": format!("seen {results}")})
    };
    let reason = if results < turns * 2 { "tool_calls" } else { "stop" };
    let reply = serde_json::json!({"choices": [{"message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 3}})
    .to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        reply.len()
    );
    stream.write_all((head + &reply).as_bytes())
}

const AGENT: &str = r#"
var tools = tool_registry()
tools = tool_define(tools, "note", "Notes a number.", {
  parameters: {n: {type: "int"}},
  handler: { args -> sleep(args.n % 3); append_file("notes.txt", "${args.n}\n"); "noted ${args.n}" },
})
let result = agent_loop("Count.", nil, {provider: "local", model: "gpt-4o", stream: false, tools: tools, tool_format: "native", max_iterations: 40, llm_retries: 0})
println(result.visible_text)
"#;

const TURNS: usize = 6;

/// The run was killed after its last output: nothing is left to do.
fn assert_ended(told: &Ran) {
    assert!(told.err.contains("has ended (completed)"), "{}", told.shown());
}

#[test]
fn an_agent_killed_at_any_moment_asks_nothing_twice_and_does_nothing_twice() {
    let mut chance = Chance(11);
    let mut left = kills();
    let mut rounds = 0;
    while left > 0 {
        rounds += 1;
        let (address, requests) = model(TURNS);
        let dir = folder(&[("main.harn", AGENT)]);
        let path = dir.path();
        let begin: &[&str] = &["run", "--durable", "--run-id", "r", "main.harn"];
        let (mut out, mut ended) = (String::new(), None);
        let mut killed = 0;
        let mut exists = false;
        while ended.is_none() && left > 0 {
            let args: &[&str] = if exists { &["resume", "r"] } else { begin };
            let (printed, code) = kill_after(path, &address, args, life(&mut chance, 10, 150));
            out += &printed;
            ended = code;
            if code == Some(1) {
                assert_ended(&harn_in(path, &["resume", "r"]));
                ended = Some(0);
            }
            exists = exists || harn_in(path, &["replay", "r", "--until", "0"]).code == 0;
            killed += u32::from(code.is_none());
            left -= u64::from(code.is_none()).min(left);
            assert!(ended.is_none_or(|code| code == 0), "{code:?} {out}");
        }
        if ended.is_none() {
            let args: &[&str] = if exists { &["resume", "r"] } else { begin };
            let mut last = command(args);
            last.current_dir(path).env("LOCAL_LLM_BASE_URL", &address);
            let last = finish(last, b"");
            if last.code != 0 {
                assert_ended(&last);
            }
            out += &last.out;
        }
        // The last output may be repeated: the process was killed after printing it and before recording that.
        let word = format!("seen {}\n", TURNS * 2);
        assert!(out == word || killed > 0 && out == word.repeat(2), "killed {killed} times: {out}");
        let mut notes: Vec<usize> =
            text(&path.join("notes.txt")).lines().map(|n| n.parse().unwrap()).collect();
        notes.sort_unstable();
        assert_eq!(notes, (1..=TURNS * 2).collect::<Vec<_>>(), "killed {killed} times: each note once");
        let requests = requests.lock().unwrap();
        let twice: u32 = requests.values().map(|times| times - 1).sum();
        assert_eq!(requests.len(), TURNS + 1);
        assert!(twice <= killed, "{twice} requests came again after {killed} kills: {requests:?}");
        println!("killed {killed} times: {twice} of {} requests were under way", requests.len());
    }
    assert!(rounds > 0);
}

const PRINTS: &str = r#"
for i in 1 to 120 {
  println("${i} ${read_file("now.txt")} ${timestamp()}")
  if i % 8 == 0 { sleep(2) }
  if i % 30 == 0 { append_file("log.txt", "x") }
}
"#;

/// A file changes continuously, and a program prints it. The output before a kill must be part of the final output.
#[test]
fn what_was_printed_stays_true_after_a_kill() {
    let mut chance = Chance(29);
    let mut again = 0;
    for _ in 0..kills().div_ceil(8) {
        let dir = folder(&[("main.harn", PRINTS), ("now.txt", "0")]);
        let path = dir.path();
        let over = std::sync::atomic::AtomicBool::new(false);
        let pieces = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut n = 0_u64;
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    n += 1;
                    std::fs::write(path.join("new.txt"), n.to_string()).unwrap();
                    std::fs::rename(path.join("new.txt"), path.join("now.txt")).unwrap();
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
            let mut args: &[&str] = &["run", "--durable", "--run-id", "r", "main.harn"];
            let mut pieces = Vec::new();
            for _ in 0..8 {
                let (piece, code) = kill_after(path, "", args, life(&mut chance, 20, 60));
                pieces.push(piece);
                if harn_in(path, &["replay", "r", "--until", "0"]).code == 0 {
                    args = &["resume", "r"];
                }
                if code.is_some() {
                    break;
                }
            }
            pieces.push(harn_in(path, args).out);
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            pieces
        });
        let whole = harn_in(path, &["replay", "r"]);
        assert_eq!((whole.code, whole.out.lines().count()), (0, 120), "{}", whole.shown());
        let truth: Vec<&str> = whole.out.lines().collect();
        let mut next = 1;
        for piece in &pieces {
            for line in piece.split_inclusive('\n') {
                let number = line.split(' ').next().and_then(|n| n.parse::<usize>().ok());
                // A line may be truncated if the process was killed while it wrote.
                let Some(number) = number.filter(|_| line.ends_with('\n')) else {
                    assert!(!line.ends_with('\n'), "{line:?}");
                    continue;
                };
                assert_eq!(line.trim_end(), truth[number - 1], "line {number} is another one after a kill");
                assert!(number <= next, "line {next} was not printed before line {number}");
                again += u32::from(number < next);
                next = next.max(number + 1);
            }
        }
        assert_eq!(next, 121, "{pieces:?}");
    }
    println!("{again} lines were printed again");
}
