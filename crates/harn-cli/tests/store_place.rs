//! The store that a project uses: `[store] url`, `HARN_STORE_URL`, or a file.

use crate::common::{Ran, command, finish, folder, harn_in};

/// Runs the binary in a directory with environment variables.
fn with(folder: &std::path::Path, set: &[(&str, &str)], args: &[&str]) -> Ran {
    let mut command = command(args);
    command.current_dir(folder).envs(set.iter().copied());
    finish(command, b"")
}

const WITH_PASSWORD: &str = "postgres://ann:secret@127.0.0.1:1/runs";

#[test]
fn a_store_that_cannot_be_used_is_never_replaced_by_another_one() {
    for (manifest, why) in [
        ("[store]\nurl = 5\n", "[store] url must be an address"),
        ("[store]\nurl = \"\"\n", "[store] url must be an address"),
        ("[store]\nurll = \"postgres://ann:secret@db/x\"\n", "[store] has no key 'urll'"),
        ("store = \"postgres://ann:secret@db/x\"\n", "[store] must be a table"),
        ("[store\nurl = 1", "harn.toml"),
        (
            "[store]\nurl = \"mysql://ann:secret@db/x\"\n",
            "expected postgres://USER@HOST/DATABASE, got mysql://ann@db/x",
        ),
    ] {
        let dir = folder(&[("harn.toml", manifest), ("main.harn", "println(1)\n")]);
        for args in [
            &["runs", "list"][..],
            &["submit", "main.harn"],
            &["worker", "--drain"],
            &["run", "--durable", "main.harn"],
            &["resume", "r"],
        ] {
            let ran = harn_in(dir.path(), args);
            assert!(ran.code == 1 && ran.err.contains(why), "{manifest} {args:?}: {}", ran.shown());
            assert!(!ran.err.contains("secret") && !ran.out.contains("secret"), "{}", ran.shown());
        }
        assert!(!dir.path().join(".harn").exists(), "no other store is made");
    }
    // Environment variables take precedence over the manifest: the file that one names is used.
    let dir = folder(&[("harn.toml", "[store]\nurl = \"postgres://ann@db.invalid/x\"\n")]);
    let ran = with(dir.path(), &[("HARN_STATE_FILE", "own.db")], &["runs", "list"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "No runs.\n"), "{}", ran.shown());
}

#[test]
fn a_database_that_is_not_there_is_an_error_without_its_password() {
    let dir = folder(&[("main.harn", "println(1)\n")]);
    let why = if cfg!(feature = "postgres") {
        "no server can be reached at 127.0.0.1:1"
    } else {
        "this harn was built without PostgreSQL"
    };
    for args in [
        &["runs", "list"][..],
        &["runs", "show", "r", "--json"],
        &["submit", "main.harn"],
        &["worker", "--drain"],
        &["run", "--durable", "main.harn"],
        &["answer", "r", "q", "x"],
        &["doctor"],
        &["run", "-e", "println(agent_session_open(\"s\", {persist: true}))"],
    ] {
        let ran = with(dir.path(), &[("HARN_STORE_URL", WITH_PASSWORD)], args);
        let text = format!("{}{}", ran.out, ran.err);
        assert!(ran.code != 0 && text.contains(why), "{args:?}: {}", ran.shown());
        assert!(
            text.contains("postgres://ann@127.0.0.1:1/runs") && !text.contains("secret"),
            "{}",
            ran.shown()
        );
    }
    assert!(!dir.path().join(".harn").exists(), "no other store is made");
}

#[cfg(feature = "postgres")]
#[test]
fn all_that_outlives_a_process_is_in_the_database() {
    use serde_json::Value;

    let Some(url) = crate::server::database() else { return };
    let manifest = format!("[store]\nurl = \"{url}\"\n");
    let program =
        "let name = ask_user(\"Who?\")\nwrite_file(\"out.txt\", name)\nprintln(\"hello ${name}\")\n";
    let dir = folder(&[("harn.toml", &manifest), ("main.harn", program)]);
    let path = dir.path();
    let ran = harn_in(path, &["run", "--durable", "--run-id", "r", "--suspend-after", "100ms", "main.harn"]);
    assert_eq!(ran.code, 75, "{}", ran.shown());
    let show = |id: &str| -> Value {
        let ran = harn_in(path, &["runs", "show", id, "--json"]);
        serde_json::from_str::<Value>(&ran.out).unwrap_or_else(|_| panic!("{}", ran.shown()))["data"].clone()
    };
    let run = show("r");
    assert_eq!(run["status"], "suspended");
    let request = run["pending"][0]["request_id"].as_str().unwrap().to_owned();
    assert_eq!(harn_in(path, &["answer", "r", &request, "Ann"]).code, 0);
    let ran = harn_in(path, &["resume", "r"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "hello Ann\n"), "{}", ran.shown());
    assert_eq!(harn_in(path, &["replay", "r"]).out, "hello Ann\n");
    let listed = harn_in(path, &["runs", "list"]);
    assert!(listed.out.contains("completed"), "{}", listed.shown());
    // Export to a file and import.
    assert_eq!(harn_in(path, &["runs", "export", "r", "--output", "r.jsonl"]).code, 0);
    let ran = harn_in(path, &["runs", "import", "r.jsonl", "--run-id", "copy"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert_eq!(harn_in(path, &["runs", "diff", "r", "copy"]).code, 0);
    assert_eq!(harn_in(path, &["runs", "rm", "r", "copy"]).code, 0);
    assert_eq!(harn_in(path, &["runs", "list"]).out, "No runs.\n");
    let gone = harn_in(path, &["runs", "show", "r"]);
    assert!(gone.code == 1 && gone.err.contains("unknown run 'r' in postgres://harn@"), "{}", gone.shown());
    // A session of one process is available in the next.
    let say = |text: &str| {
        let open = "let s = agent_session_open(\"s\", {persist: true})\n";
        let code = format!("{open}{text}println(len(agent_session_snapshot(s).messages))");
        let ran = harn_in(path, &["run", "-e", &code]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        ran.out
    };
    assert_eq!(say("agent_session_inject(s, {role: \"user\", content: \"hi\"})\n"), "1\n");
    assert_eq!(say(""), "1\n");
    let doctor = harn_in(path, &["doctor"]);
    assert!(doctor.out.contains("postgres://harn@"), "{}", doctor.shown());
    assert!(!path.join(".harn/state.db").exists());
}
