//! Tests of the portal through HTTP requests over the loopback interface.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;

use std::path::{Path, PathBuf};
use std::time::Duration;

use client::{Reply, request};
use harn_portal::{Settings, Token};
use harn_value::{Data, json};

/// A directory with records, and a portal that serves it.
struct Served {
    folder: tempfile::TempDir,
    address: String,
    _stop: tokio::sync::oneshot::Sender<()>,
}

/// Serves a new directory. `host` is the listening address.
fn serve_on(host: &'static str, program: PathBuf) -> Served {
    serve_to(host, program, false)
}

/// Like [`serve_on`]; `remote_launch` allows launches by other machines.
fn serve_to(host: &'static str, program: PathBuf, remote_launch: bool) -> Served {
    serve_with(host, program, remote_launch, None)
}

/// Like [`serve_to`]; requests need the token.
fn serve_with(host: &'static str, program: PathBuf, remote_launch: bool, token: Option<Token>) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        dir: folder.path().join("runs"),
        workspace: folder.path().to_owned(),
        program,
        remote_launch,
        token,
        version: "0.0.0",
        models: json!({"providers": []}),
        words: json!({"keywords": ["let"], "builtins": ["println"]}),
    };
    let (told, address) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let portal = harn_portal::bind(settings, host, 0).await.unwrap();
            told.send(portal.address().to_string()).unwrap();
            tokio::select! {
                served = portal.serve() => served.unwrap(),
                _ = stopped => (),
            }
        });
    });
    Served { folder, address: address.recv().unwrap(), _stop: stop }
}

fn serve() -> Served {
    serve_on("127.0.0.1", PathBuf::from("/bin/sh"))
}

impl Served {
    fn get(&self, path: &str) -> Reply {
        request(&self.address, &format!("GET {path} HTTP/1.1\r\nHost: {}\r\n", self.address), "")
    }

    fn json(&self, path: &str) -> Data {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.json()
    }

    fn post(&self, path: &str, headers: &str, body: &str) -> Reply {
        let head = format!("POST {path} HTTP/1.1\r\nHost: {}\r\n{headers}", self.address);
        request(&self.address, &head, body)
    }

    fn post_json(&self, path: &str, body: &Data) -> Reply {
        self.post(path, "Content-Type: application/json\r\n", &body.to_string())
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn record(&self, path: &str, fields: Data) {
        let mut record = json!({
            "_type": "run_record", "id": path, "workflow_id": "w", "workflow_name": "Repair", "status": "completed",
            "started_at": "2026-01-02T03:04:05.000Z", "finished_at": "2026-01-02T03:04:06.500Z",
        });
        for (key, value) in fields.as_object().unwrap().iter() {
            record[key.as_str()] = value.clone();
        }
        self.write(&format!("runs/{path}"), &record.to_string());
    }
}

#[test]
fn requests_without_the_token_learn_and_change_nothing() {
    let token = Token::new("t0ken".to_owned(), "on1ce".to_owned());
    let served = serve_with("127.0.0.1", PathBuf::from("/bin/sh"), false, Some(token));
    let port = served.address.rsplit_once(':').unwrap().1;
    let get = |path: &str, headers: &str| {
        request(&served.address, &format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}", served.address), "")
    };
    let other = format!("Cookie: harn_portal_{port}=other; x=t0ken\r\n");
    for path in
        ["/", "/api/runs", "/api/run/raw?path=x", "/assets/portal.js", "/api/launch/targets", "/api/no"]
    {
        for headers in ["", "Authorization: Bearer t0ke\r\n", "Authorization: t0ken\r\n", &other] {
            let reply = get(path, headers);
            assert_eq!(reply.status, 401, "{path} {headers}: {}", reply.body);
            assert!(reply.body.contains("needs its token") && reply.header("set-cookie").is_empty());
        }
    }
    for path in ["/?token=", "/?token=t0kenx", "/?a=token=t0ken", "/?Token=t0ken", "/?token=t0ke%6e"] {
        assert_eq!(get(path, "").status, 401, "{path}");
    }
    let body = json!({"kind": "source", "source": "println(1)", "task": "t"});
    assert_eq!(served.post_json("/api/launch", &body).status, 401);
    assert_eq!(served.post_json("/api/launch/stop", &json!({"id": "x"})).status, 401);
    // The token in the address sets a cookie and is removed from the address.
    for (path, to) in [
        ("/?token=t0ken", "/"),
        ("/runs?a=1&token=t0ken&b=2", "/runs?a=1&b=2"),
        ("//evil.test/x?token=t0ken", "/evil.test/x"),
    ] {
        let reply = get(path, "");
        assert_eq!((reply.status, &*reply.header("location")), (303, to), "{path}");
        let cookie = reply.header("set-cookie");
        assert_eq!(cookie, format!("harn_portal_{port}=t0ken; Path=/; HttpOnly; SameSite=Strict"));
    }
    let cookie = format!("Cookie: a=b; harn_portal_{port}=t0ken\r\n");
    assert_eq!(get("/api/runs", &cookie).status, 200);
    assert_eq!(get("/api/runs", "Authorization: Bearer t0ken\r\n").status, 200);
    // A valid cookie does not authorize requests from another origin.
    let foreign = format!("{cookie}Origin: http://evil.test\r\nContent-Type: application/json\r\n");
    assert_eq!(served.post("/api/launch", &foreign, &body.to_string()).status, 403);
    // The token for the browser, which is visible in its arguments, is valid for one request.
    assert_eq!(get("/?token=on1ce", "").status, 303);
    assert_eq!(get("/?token=on1ce", "").status, 401);
}

#[test]
fn a_missing_folder_has_no_runs() {
    let served = serve();
    let found = served.json("/api/runs");
    assert_eq!((&found["filtered_count"], &found["stats"]["total_runs"]), (&0.into(), &0.into()));
    let meta = served.json("/api/meta");
    assert_eq!(meta["run_dir"], served.folder.path().join("runs").display().to_string().as_str());
    assert_eq!(meta["launch"], json!({"allowed": true, "reason": null}));
}

#[test]
fn records_are_found_and_what_is_none_is_passed_over() {
    let served = serve();
    served.record("a/run.json", json!({}));
    served.record(
        "b.json",
        json!({"status": "failed", "error": "no <money>", "started_at": "2026-02-02T03:04:05Z"}),
    );
    served.record(".hidden/run.json", json!({}));
    served.write("runs/other.json", "{\"_type\": \"note\"}");
    served.write("runs/broken.json", "{\"_type\": \"run_record\", ");
    served.write("runs/nameless.json", "{\"_type\": \"run_record\"}");
    let found = served.json("/api/runs");
    let paths: Vec<&str> =
        found["runs"].as_array().unwrap().iter().map(|run| run["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["b.json", "a/run.json"]);
    assert_eq!(found["runs"][0]["failure_summary"], "no <money>");
    assert_eq!(found["runs"][1]["duration_ms"], 1500);
    assert_eq!(found["facets"]["workflows"], json!(["Repair"]));
    // A changed record is read again.
    served.record("a/run.json", json!({"status": "running", "task": "longer than before"}));
    assert_eq!(served.json("/api/runs?status=active")["runs"][0]["path"], "a/run.json");
    assert_eq!(
        served.get("/api/runs?sort=up").json()["error"],
        "sort must be newest, oldest or duration, got 'up'"
    );
}

/// A call log with two renders and one call.
fn call_log() -> String {
    let render = |branch: &str| {
        json!({"type": "template.render", "timestamp": "1767323045.100", "span_id": null, "template_uri": "brief.harn.prompt",
            "template_revision_hash": "ab".repeat(32), "rendered_bytes": 12,
            "llm": {"provider": "p", "model": "m", "family": "f", "capabilities": {"native_tools": true}},
            "branches": [{"kind": "if", "template_uri": "brief.harn.prompt", "line": 3, "col": 1, "branch_id": branch}]})
    };
    let lines = [
        render("if"),
        render("else"),
        json!({"type": "system_prompt", "timestamp": "1767323045.100", "content": "be brief"}),
        json!({"type": "message", "timestamp": "1767323045.100", "role": "user", "content": "hi", "iteration": 0}),
        json!({"type": "provider_call_request", "timestamp": "1767323045.200", "call_id": "c", "provider": "p", "model": "m",
            "message_count": 1, "iteration": 0}),
        json!({"type": "provider_call_response", "timestamp": "1767323045.300", "call_id": "c", "provider": "p", "model": "m",
            "text": "</script><img src=x>", "tool_calls": [], "input_tokens": 7, "output_tokens": 3, "cost_usd": 0.25,
            "response_ms": 100}),
    ];
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn everything_about_a_run() {
    let served = serve();
    let stage = json!({"id": "s", "node_id": "plan", "kind": "stage", "status": "completed", "outcome": "success",
        "started_at": "2026-01-02T03:04:05.000Z", "finished_at": "2026-01-02T03:04:06.000Z"});
    served.record("a/run.json", json!({"stages": [stage], "task": "fix it"}));
    served.write("runs/a/run-llm/llm_transcript.jsonl", &call_log());
    let run = served.json("/api/run?path=a/run.json");
    assert_eq!(
        (&run["task"], &run["summary"]["call_count"], &run["summary"]["cost_usd"]),
        (&"fix it".into(), &1.into(), &0.25.into())
    );
    assert_eq!(run["stages"][0]["duration_ms"], 1000);
    let kinds: Vec<_> =
        run["spans"].as_array().unwrap().iter().map(|span| span["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["run", "stage", "llm_call"]);
    assert_eq!(
        (&run["spans"][2]["parent_id"], &run["spans"][2]["start_ms"]),
        (&run["spans"][1]["span_id"], &200.into())
    );
    let renders = run["template_renders"].as_array().unwrap();
    assert_eq!(renders.len(), 2);
    assert_eq!(renders[0]["marks"], json!([]));
    assert_eq!(renders[1]["marks"], json!(["other branches than an earlier render"]));
    assert_eq!(
        (&renders[0]["provider"], &renders[0]["capabilities"]["native_tools"]),
        (&"p".into(), &true.into())
    );
    let step = &run["transcript_steps"][0];
    assert_eq!(
        (&step["system_prompt"], &step["total_messages"], &step["call_index"]),
        (&"be brief".into(), &1.into(), &1.into())
    );
    // Replies of models are data: they are sent as JSON and are never part of a page.
    assert_eq!(step["response_text"], "</script><img src=x>");
    assert_eq!(
        run["replay_summary"]["commands"]["replay"].as_str().unwrap().split(' ').nth(1),
        Some("replay")
    );
    let costs = served.json("/api/costs");
    assert_eq!(
        costs["provider_breakdown"],
        json!([{"calls": 1, "input_tokens": 7, "output_tokens": 3, "cost_usd": 0.25, "provider": "p", "model": "m"}])
    );
    assert_eq!(costs["trend"][0]["day"], "2026-01-02");
}

#[test]
fn empty_panels_say_why() {
    let served = serve();
    served.record("run.json", json!({}));
    let notes = &served.json("/api/run?path=run.json")["notes"];
    for panel in ["transcript", "variants", "story"] {
        assert!(notes[panel].as_str().unwrap().starts_with("No call log lies beside this record"), "{notes}");
    }
    served.write(
        "runs/run-llm/llm_transcript.jsonl",
        "{\"type\": \"message\", \"role\": \"user\", \"content\": \"x\"}\n",
    );
    let notes = &served.json("/api/run?path=run.json")["notes"];
    assert_eq!(notes["variants"], "No template was rendered while a model was being called.");
}

#[test]
fn runs_are_compared_and_shown_raw() {
    let served = serve();
    served.record("a.json", json!({}));
    served.record("b.json", json!({"status": "failed"}));
    let found = served.json("/api/compare?left=a.json&right=b.json");
    assert_eq!((&found["identical"], &found["diff"]["status_changed"]), (&false.into(), &true.into()));
    assert_eq!(served.json("/api/compare?left=a.json&right=a.json")["identical"], true);
    assert_eq!(served.json("/api/run/raw?path=a.json")["_type"], "run_record");
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    let served = serve();
    served.write("secret.json", "{}");
    served.record("a.json", json!({}));
    for (path, status, text) in [
        ("", 400, "run path is required"),
        ("?path=", 400, "run path is required"),
        ("?path=/etc/passwd", 400, "run path must be relative to the configured run directory"),
        ("?path=..%2Fsecret.json", 400, "run path must stay inside the configured run directory"),
        ("?path=no.json", 404, "run record not found: no.json"),
    ] {
        for route in ["/api/run", "/api/run/raw"] {
            let reply = served.get(&format!("{route}{path}"));
            assert_eq!((reply.status, reply.json()["error"].as_str()), (status, Some(text)), "{route}{path}");
        }
    }
}

#[test]
#[cfg(unix)]
fn a_call_log_that_lies_elsewhere_is_not_read() {
    let served = serve();
    served.record("a.json", json!({}));
    served.write("elsewhere/llm_transcript.jsonl", "{\"type\":\"message\",\"content\":\"TOPSECRET\"}\n");
    let link = served.folder.path().join("runs/a-llm");
    std::os::unix::fs::symlink(served.folder.path().join("elsewhere"), link).unwrap();
    let reply = served.get("/api/run?path=a.json");
    assert!(!reply.body.contains("TOPSECRET"), "{}", reply.body);
    assert!(reply.body.contains("leads out of the folder of the records"), "{}", reply.body);
}

#[test]
fn pages_and_their_files() {
    let served = serve();
    for path in ["/", "/run/a/run.json", "/costs", "/launch"] {
        let page = served.get(path);
        assert_eq!(page.status, 200);
        assert!(page.body.contains("/assets/portal.js"), "{path}");
        assert!(
            page.header("content-security-policy").contains("default-src 'none'; script-src 'self'"),
            "{path}"
        );
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        let asks = ["src=\"http", "href=\"http", "src=\"//", "href=\"//"];
        assert!(!asks.iter().any(|other| page.body.contains(other)), "a page asks no other host");
    }
    assert!(served.get("/assets/portal.js").header("content-type").starts_with("text/javascript"));
    assert!(served.get("/assets/portal.css").header("content-type").starts_with("text/css"));
    for (path, status) in [("/assets/x.js", 404), ("/api/nothing", 404), ("/api", 404)] {
        assert_eq!(served.get(path).status, status, "{path}");
    }
    assert_eq!(served.post("/", "", "").status, 405);
    assert_eq!(served.post("/api/runs", "", "").status, 405);
}

#[test]
fn other_pages_reach_nothing() {
    let served = serve();
    let port = served.address.rsplit(':').next().unwrap().to_owned();
    let as_host = |host: &str| {
        request(&served.address, &format!("GET /api/runs HTTP/1.1\r\nHost: {host}\r\n"), "").status
    };
    assert_eq!(as_host(&format!("localhost:{port}")), 200);
    for host in
        ["evil.example".to_owned(), format!("evil.example:{port}"), "127.0.0.1".to_owned(), String::new()]
    {
        assert_eq!(as_host(&host), 403, "{host}");
    }
    let body = json!({"kind": "task", "task": "x"}).to_string();
    let kind = "Content-Type: application/json\r\n";
    for origin in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    ] {
        assert_eq!(served.post("/api/launch", &format!("{kind}{origin}"), &body).status, 403, "{origin}");
    }
    // A form of another page cannot send `application/json`.
    let form = served.post("/api/launch", "Content-Type: text/plain\r\n", &body);
    assert_eq!(
        (form.status, form.json()["error"].as_str()),
        (400, Some("the body must be application/json"))
    );
}

#[test]
fn a_portal_that_others_reach_launches_nothing() {
    let served = serve_on("0.0.0.0", PathBuf::from("/bin/sh"));
    let local = served.address.replace("0.0.0.0", "127.0.0.1");
    let get = |path: &str| request(&local, &format!("GET {path} HTTP/1.1\r\nHost: {local}\r\n"), "");
    let head = format!("POST /api/launch HTTP/1.1\r\nHost: {local}\r\nContent-Type: application/json\r\n");
    let reply = request(&local, &head, &json!({"kind": "task", "task": "x"}).to_string());
    assert_eq!(reply.status, 403);
    assert!(reply.json()["error"].as_str().unwrap().contains("--allow-remote-launch"), "{}", reply.body);
    assert_eq!((get("/api/launch/jobs").status, get("/api/launch/targets").status), (403, 403));
    assert_eq!(get("/api/meta").json()["launch"]["allowed"], false);
    assert_eq!(get("/api/runs").status, 200);
    // Remote launches can be enabled explicitly.
    let open = serve_to("0.0.0.0", PathBuf::from("/bin/sh"), true);
    let local = open.address.replace("0.0.0.0", "127.0.0.1");
    let jobs = request(&local, &format!("GET /api/launch/jobs HTTP/1.1\r\nHost: {local}\r\n"), "");
    assert_eq!((jobs.status, jobs.json()), (200, json!({"jobs": []})));
}

/// A replacement for `harn run FILE`: prints its input, and waits if the file contains `wait`.
#[cfg(unix)]
fn stand_in(folder: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("stand-in");
    let text = "#!/bin/sh\necho \"task $HARN_TASK key $SOME_KEY in $PWD\"\nif grep -q wait \"$2\"; then sleep 60; fi\n\
                if grep -q fail \"$2\"; then echo oops >&2; exit 3; fi\n";
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Waits until a job is no longer `running` and its record is written.
#[cfg(unix)]
fn ended(served: &Served, id: &str) -> Data {
    for _ in 0..500 {
        let jobs = served.json("/api/launch/jobs");
        let job = jobs["jobs"].as_array().unwrap().iter().find(|job| job["id"] == id).cloned().unwrap();
        if job["status"] != "running" && job["run_path"].is_string() {
            return job;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the job does not end");
}

#[cfg(unix)]
#[test]
fn programs_are_launched_recorded_and_stopped() {
    let tools = tempfile::tempdir().unwrap();
    let served = serve_on("127.0.0.1", stand_in(tools.path()));
    let start = |wanted: Data| {
        let reply = served.post_json("/api/launch", &wanted);
        assert_eq!(reply.status, 202, "{}", reply.body);
        reply.json()["id"].as_str().unwrap().to_owned()
    };
    let id = start(
        json!({"kind": "source", "source": "println(1)", "task": "do it", "env": {"SOME_KEY": "s3cret"}}),
    );
    let job = ended(&served, &id);
    assert_eq!((&job["status"], &job["exit_code"]), (&"completed".into(), &0.into()));
    assert!(job["output"].as_str().unwrap().starts_with("task do it key s3cret in "), "{job}");
    let folder = served.folder.path().join("runs/playground").join(&id);
    assert_eq!(std::fs::read_to_string(folder.join("workflow.harn")).unwrap(), "println(1)");
    assert_eq!(std::fs::read_to_string(folder.join("task.txt")).unwrap(), "do it");
    let launch = std::fs::read_to_string(folder.join("launch.json")).unwrap();
    assert!(
        launch.contains("SOME_KEY") && !launch.contains("s3cret"),
        "the values of variables are kept nowhere: {launch}"
    );
    let run = served.json(&format!("/api/run?path={}", job["run_path"].as_str().unwrap()));
    assert_eq!(
        (&run["summary"]["status"], &run["workflow_id"]),
        (&"complete".into(), &"harn-portal:source".into())
    );

    let failing = ended(&served, &start(json!({"kind": "source", "source": "fail"})));
    assert_eq!((&failing["status"], &failing["exit_code"]), (&"failed".into(), &3.into()));
    assert!(failing["output"].as_str().unwrap().ends_with("oops\n"), "{failing}");

    let waiting: Vec<String> = (0..4).map(|_| start(json!({"kind": "source", "source": "wait"}))).collect();
    let fifth = served.post_json("/api/launch", &json!({"kind": "source", "source": "wait"}));
    assert_eq!(fifth.status, 409, "{}", fifth.body);
    for id in &waiting {
        assert_eq!(served.post_json("/api/launch/stop", &json!({"id": id})).status, 200);
    }
    for id in &waiting {
        assert_eq!(ended(&served, id)["status"], "stopped");
    }
    assert_eq!(served.post_json("/api/launch/stop", &json!({"id": "x"})).status, 404);
    let bad = served.post_json("/api/launch", &json!({"kind": "file", "path": "/etc/passwd"}));
    assert_eq!(
        (bad.status, bad.json()["error"].as_str()),
        (400, Some("/etc/passwd lies outside of the workspace"))
    );
}

#[test]
fn a_taken_port_is_told() {
    let served = serve();
    let port: u16 = served.address.rsplit(':').next().unwrap().parse().unwrap();
    let settings = Settings {
        dir: PathBuf::from("x"),
        workspace: PathBuf::from("x"),
        program: PathBuf::from("x"),
        remote_launch: false,
        token: None,
        version: "0",
        models: Data::Null,
        words: Data::Null,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(harn_portal::bind(settings, "127.0.0.1", port)).err().unwrap();
    assert!(error.starts_with(&format!("failed to bind portal listener on 127.0.0.1:{port}: ")), "{error}");
}
