//! Approvals of the role runtime by another process.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{command, folder, harn_in};

const PROGRAM: &str = r#"
let pay = define_tool("pay", {input_schema: {}, approval: "always"}, { args, ctx -> "paid" })
let s = define_specialist("s", {model: {id: "mock", provider: "mock"}, prompt: "P", tools: [pay]})
let stores = {kv: {kind: "sqlite", path: "mem.db"}}
let rt = create_runtime(define_runtime({tenant: define_tenant("a", "v"), agents: [s], storage_factories: stores}), {interpreter: "scripted"})
if argv[0] == "run" {
  for e in rt.run_specialist("s", "{\"tool\": \"pay\"}", {thread_id: "t"}) {
    if e.type == "approval-required" { write_file("id.txt", e.data.id) }
    if e.type == "tool-invocation" && e.state == "result" { println(e.result) }
  }
} else {
  println(try { rt.respond_to_approval(read_file("id.txt"), argv[1]) } catch (e) { e })
}
"#;

/// Returns the id of the request that the run waits for.
fn asked(path: &Path) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match std::fs::read_to_string(path.join("id.txt")) {
            Ok(id) if !id.is_empty() => return id,
            _ if Instant::now() > end => panic!("nothing was asked"),
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

#[test]
fn an_approval_of_another_process_wakes_the_waiting_run() {
    for (outcome, result) in [("approve", "paid\n"), ("reject", "Approval rejected")] {
        let dir = folder(&[("main.harn", PROGRAM)]);
        let path = dir.path();
        let mut run = command(&["run", "main.harn", "--", "run"]);
        let run = run.current_dir(path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = run.spawn().unwrap();
        let id = asked(path);
        let answer = harn_in(path, &["run", "main.harn", "--", "answer", outcome]);
        assert_eq!((answer.code, answer.out.as_str()), (0, "nil\n"), "{}", answer.shown());
        let output = run.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && out.contains(result), "{output:?}");
        let late = harn_in(path, &["run", "main.harn", "--", "answer", "approve"]);
        assert_eq!(late.out, format!("approval already resolved: {id}\n"), "{}", late.shown());
    }
}
