//! `harn portal`: the server as a command. Its responses are tested in harn-portal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{command, folder, harn_in};

/// A running portal, which ends with the test.
struct Portal {
    child: Child,
    address: String,
    token: String,
    told: Vec<String>,
}

impl Drop for Portal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(dir: &Path, args: &[&str]) -> Portal {
    let args: Vec<&str> = ["portal", "--port", "0", "--open", "false"].iter().chain(args).copied().collect();
    let mut child =
        command(&args).current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told: Vec<String> = lines.take(2).map(Result::unwrap).collect();
    let page = told[0].rsplit("http://").next().unwrap();
    let (address, token) = page.split_once("/?token=").unwrap_or((page, ""));
    let (address, token) = (address.to_owned(), token.to_owned());
    Portal { child, address, token, told }
}

impl Portal {
    fn ask(&self, method: &str, path: &str, body: &str) -> (String, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(text.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), serde_json::from_str(body).unwrap_or(Value::Null))
    }
}

#[test]
fn runs_are_shown_until_ctrl_c() {
    let dir = folder(&[]);
    assert_eq!(harn_in(dir.path(), &["demo", "variant-resolution"]).code, 0);
    let mut portal = start(dir.path(), &[]);
    assert!(portal.told[0].starts_with("Harn portal listening on http://127.0.0.1:"), "{:?}", portal.told);
    assert_eq!(portal.told[1], "Watching run records in .harn-runs");
    let (_, list) = portal.ask("GET", "/api/runs", "");
    assert_eq!(list["stats"]["total_runs"], 1);
    let path = list["runs"][0]["path"].as_str().unwrap();
    let (_, run) = portal.ask("GET", &format!("/api/run?path={path}"), "");
    assert_eq!(run["template_renders"][1]["marks"], json!(["other branches than an earlier render"]));
    assert_eq!(run["transcript_steps"].as_array().unwrap().len(), 2);
    let (_, models) = portal.ask("GET", "/api/llm/options", "");
    let mock = models["providers"].as_array().unwrap().iter().find(|p| p["name"] == "mock").unwrap();
    assert_eq!((&mock["ready"], &mock["note"]), (&true.into(), &Value::Null));
    #[cfg(target_os = "linux")]
    {
        let pid = rustix::process::Pid::from_child(&portal.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        assert_eq!(portal.child.wait().unwrap().code(), Some(0));
    }
    let _ = portal.child.kill();
}

#[test]
fn each_start_prints_a_token_of_its_own_and_asks_for_it() {
    let dir = folder(&[]);
    let (mut first, second) = (start(dir.path(), &[]), start(dir.path(), &[]));
    assert!(first.token.len() >= 32 && first.token != second.token, "{:?}", first.told);
    assert_eq!(first.ask("GET", "/api/runs", "").0, "HTTP/1.1 200 OK");
    first.token.clone_from(&second.token);
    assert_eq!(first.ask("GET", "/api/runs", "").0, "HTTP/1.1 401 Unauthorized");
    let open = start(dir.path(), &["--no-token"]);
    assert!(open.token.is_empty() && !open.told[0].contains("token"), "{:?}", open.told);
    assert_eq!(open.ask("GET", "/api/runs", "").0, "HTTP/1.1 200 OK");
    let ran =
        harn_in(dir.path(), &["portal", "--port", "0", "--open", "false", "--host", "0.0.0.0", "--no-token"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert_eq!(ran.err, "error: --no-token needs a loopback address such as 127.0.0.1, not 0.0.0.0\n");
}

#[test]
fn a_source_is_launched_with_its_call_log() {
    let dir = folder(&[]);
    let portal = start(dir.path(), &["--dir", "kept"]);
    let source =
        "pipeline default(task) {\n  println(\"got ${task}\")\n  println(llm_call(\"hi\").visible_text)\n}\n";
    let wanted = json!({"kind": "source", "source": source, "task": "t1", "provider": "mock"});
    let (status, job) = portal.ask("POST", "/api/launch", &wanted.to_string());
    assert_eq!(status, "HTTP/1.1 202 Accepted", "{job}");
    let mut job = job;
    for _ in 0..1000 {
        job = portal.ask("GET", "/api/launch/jobs", "").1["jobs"][0].clone();
        if job["run_path"].is_string() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((&job["status"], &job["exit_code"]), (&"completed".into(), &0.into()), "{job}");
    assert!(job["output"].as_str().unwrap().starts_with("got t1\n"), "{job}");
    let (_, run) = portal.ask("GET", &format!("/api/run?path={}", job["run_path"].as_str().unwrap()), "");
    assert_eq!(run["transcript_steps"][0]["provider"], "mock", "{run}");
    assert!(dir.path().join("kept/playground").is_dir());
}

#[test]
fn an_address_that_cannot_be_had_is_told() {
    let dir = folder(&[]);
    let ran = harn_in(dir.path(), &["portal", "--host", "no such host", "--open", "false"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.starts_with("error: failed to bind portal listener on no such host:4721: "),
        "{}",
        ran.err
    );
    assert_eq!(harn_in(dir.path(), &["portal", "--port", "70000"]).code, 2);
}
