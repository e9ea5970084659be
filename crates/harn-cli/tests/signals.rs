//! SIGINT, SIGTERM, SIGHUP and SIGQUIT end a program cleanly.

#![cfg(unix)]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Starts a program that writes the file `started` and then executes `rest`.
fn start(folder: &Path, rest: &str) -> Child {
    let text = format!("write_file(\"started\", \"\")\n{rest}\n");
    std::fs::write(folder.join("main.harn"), text).unwrap();
    let harn = crate::common::command(&["run", "main.harn"]);
    // A test run under `nohup`, or in the background of a script, inherits ignored signals.
    let mut command = if cfg!(target_os = "linux") {
        let mut env = Command::new("env");
        env.arg("--default-signal=HUP,INT,QUIT,TERM").arg(harn.get_program()).args(harn.get_args());
        env
    } else {
        harn
    };
    let mut child = command
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for _ in 0..2000 {
        if folder.join("started").exists() {
            return child;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("the program did not start");
}

fn stop(mut child: Child, signal: &str) -> Output {
    let pid = child.id().to_string();
    // Its input stays open until the program ends.
    let input = child.stdin.take();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    drop(input);
    output
}

fn check(rest: &str, signal: &str, printed: &str) {
    let code = match signal {
        "-TERM" => 143,
        "-HUP" => 129,
        "-QUIT" => 131,
        _ => 130,
    };
    let folder = tempfile::tempdir().unwrap();
    let output = stop(start(folder.path(), rest), signal);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{err}");
    assert_eq!(err, "[harn] signal received, flushing state...\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), printed);
}

#[test]
fn a_busy_loop_is_stopped() {
    check("print(\"printed before\")\nwhile true { }", "-INT", "printed before");
}

/// Each round is slow, so that 8,192 rounds take minutes. A debug build on a busy machine needs more than the second
/// that the threat model promises.
#[test]
fn loops_of_large_operations_are_stopped() {
    let text = "let t = \"ab\".repeat(25000000)\n";
    let list = "let l = (1 to 2000000).to_list()\n";
    let loops = [
        format!("{text}while true {{ let u = t + t }}"),
        format!("{text}while true {{ let u = t.split(\"c\").len() }}"),
        format!("{text}while true {{ let u = bytes_from_string(t) }}"),
        format!("{list}while true {{ let u = (l + l).reverse() }}"),
        "var s = \"a\"\nwhile true {\n  s = s + s\n  if s.len() > 100000000 { s = \"a\" }\n}".to_owned(),
    ];
    for text in loops {
        let folder = tempfile::tempdir().unwrap();
        let child = start(folder.path(), &text);
        std::thread::sleep(Duration::from_millis(300));
        let begun = Instant::now();
        assert_eq!(stop(child, "-INT").status.code(), Some(130), "{text}");
        assert!(begun.elapsed() < Duration::from_secs(8), "{text}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_waiting_program_is_stopped() {
    check("sleep(1h)", "-TERM", "");
}

#[test]
fn a_lost_terminal_and_quit_stop_a_program_with_its_cleanup() {
    for signal in ["-HUP", "-QUIT"] {
        check("try {\n  sleep(1h)\n} finally {\n  println(\"finally\")\n}", signal, "finally\n");
    }
}

#[test]
fn each_signal_ends_what_the_program_has_started() {
    for signal in ["-INT", "-TERM", "-HUP", "-QUIT"] {
        let folder = tempfile::tempdir().unwrap();
        let rest = "exec(\"sh\", \"-c\", \"sleep 1000 & echo $! > child.tmp; echo $$ >> child.tmp; mv child.tmp child; wait\")";
        let child = start(folder.path(), rest);
        let pids = (0..2000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            std::fs::read_to_string(folder.path().join("child")).ok()
        });
        let pids = pids.expect("the program starts another one");
        stop(child, signal);
        for pid in pids.split_whitespace() {
            // A child process that was not waited for remains as a zombie.
            let runs = || {
                let state = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap().stdout;
                !state.trim_ascii().is_empty() && !state.trim_ascii_start().starts_with(b"Z")
            };
            let gone = (0..400).any(|_| {
                std::thread::sleep(Duration::from_millis(5));
                !runs()
            });
            assert!(gone, "{signal}: process {pid} goes on");
        }
    }
}

/// As with `nohup`.
#[test]
fn a_program_that_was_started_without_sighup_outlives_its_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let text = "write_file(\"started\", \"\")\nread_line()\nprintln(\"done\")\n";
    std::fs::write(folder.path().join("main.harn"), text).unwrap();
    let harn = crate::common::command(&["run", "main.harn"]);
    let mut child = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$0\" run main.harn"])
        .arg(harn.get_program())
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    while !folder.path().join("started").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-HUP", &child.id().to_string()]).status().unwrap().success());
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"done\n"[..]));
}

#[test]
fn pending_blocks_run() {
    check("try {\n  sleep(1h)\n} finally {\n  println(\"finally\")\n}", "-INT", "finally\n");
}

#[test]
fn a_wait_for_input_is_stopped() {
    for wait in ["read_line()", "read_stdin()", "prompt_user(\"\")", "parallel 2 { read_line() }"] {
        check(&format!("try {{\n  {wait}\n}} finally {{\n  println(\"finally\")\n}}"), "-INT", "finally\n");
    }
}

#[test]
fn all_tasks_are_cancelled() {
    check("parallel 3 { i ->\n  sleep(1h)\n  println(\"never\")\n}", "-INT", "");
}

#[test]
fn whoever_waits_for_a_stopped_task_gets_no_value() {
    for wait in ["await(h)", "[h].map(await)", "parallel settle [h] { h -> await(h) }"] {
        let program =
            format!("let h = spawn {{ while true {{ }} }}\nlet v = {wait}\nprintln(\"value ${{v}}\")");
        check(&program, "-INT", "");
    }
    check("println(parallel_race([1, 2], { x -> while true { } }))", "-TERM", "");
}

#[test]
fn native_walks_are_stopped() {
    let shared = "var d = [\"x\"]\nfor i in 1 to 70 { d = [d, d] }\n";
    check(&format!("{shared}println(len(\"${{d}}\"))"), "-INT", "");
    check("regex_match(\".*?z|a\", \"a\".repeat(1000000))", "-TERM", "");
    let template = "{{ for a in xs }}{{ for b in xs }}{{ for c in xs }}{{ end }}{{ end }}{{ end }}";
    check(
        &format!("println(try {{ render_string(\"{template}\", {{xs: (1 to 5000).to_list()}}) }})"),
        "-INT",
        "",
    );
}

#[test]
fn cleanup_knows_that_the_program_is_to_stop() {
    check("try {\n  while true { }\n} finally {\n  println(is_cancelled())\n}", "-INT", "true\n");
}

#[test]
fn a_native_loop_is_stopped() {
    check("(1 to 1000000000000).map({ x -> x + 1 }).sum()", "-INT", "");
}

/// Cleanup may take up to 750 ms; a second signal skips it.
#[test]
fn a_second_signal_ends_a_program_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let rest = "try {\n  sleep(1h)\n} finally {\n  write_file(\"cleanup\", \"begun\")\n  while true { }\n}";
    let mut child = start(folder.path(), rest);
    let pid = child.id().to_string();
    let interrupt = || assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    interrupt();
    let begin = Instant::now();
    while !folder.path().join("cleanup").exists() {
        assert!(begin.elapsed() < Duration::from_secs(20), "no cleanup");
        std::thread::sleep(Duration::from_millis(1));
    }
    let first = begin.elapsed();
    interrupt();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    // Without the second signal it would have continued for the rest of 750 ms.
    let second = begin.elapsed() - first;
    assert!(
        first > Duration::from_millis(400) || second < Duration::from_millis(300),
        "{first:?} {second:?}"
    );
}

#[test]
fn cleanup_without_end_is_cut_off() {
    let begin = Instant::now();
    let folder = tempfile::tempdir().unwrap();
    let child = start(folder.path(), "try {\n  sleep(1h)\n} finally {\n  while true { }\n}");
    let output = stop(child, "-TERM");
    assert_eq!(output.status.code(), Some(143));
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}
