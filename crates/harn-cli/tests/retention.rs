//! The retention of runs, the runs in a list, and the number of attempts of a project's runs.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::background::{start, stop, submit_as, until};
use crate::common::{Ran, command, finish, folder, harn_in, shown_of};

fn drain(folder: &Path) {
    let ran = harn_in(folder, &["worker", "--drain"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
}

/// Returns the IDs in a list.
fn ids(folder: &Path, args: &[&str]) -> Vec<String> {
    let ran = harn_in(folder, &[&["runs", "list", "--json"], args].concat());
    let data: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.shown()));
    let runs = data["data"]["runs"].as_array().unwrap().iter();
    runs.map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

fn manifest(folder: &Path, text: &str) {
    std::fs::write(folder.join("harn.toml"), text).unwrap();
}

#[test]
fn runs_are_removed_after_the_time_of_the_manifest() {
    let dir = folder(&[("main.harn", "println(1)\n"), ("bad.harn", "throw \"no\"\n")]);
    let path = dir.path();
    submit_as(path, "r", &["main.harn"]);
    submit_as(path, "bad", &["bad.harn"]);
    drain(path);
    submit_as(path, "later", &["main.harn"]);
    let ran = harn_in(path, &["runs", "prune"]);
    assert!(ran.code == 1 && ran.err.contains("set `keep` in `[runs]` of harn.toml"), "{}", ran.shown());
    manifest(path, "[runs]\nkeep = \"30d\"\n");
    assert_eq!(harn_in(path, &["runs", "prune"]).out, "0 runs removed\n");
    // Options take precedence over the manifest.
    let ran = harn_in(path, &["runs", "prune", "--older-than", "0s", "--dry-run"]);
    assert_eq!(ran.out, "2 runs would be removed\n");
    manifest(path, "[runs]\nkeep = \"0s\"\n");
    assert_eq!(harn_in(path, &["runs", "prune", "--status", "failed"]).out, "1 runs removed\n");
    assert_eq!(ids(path, &[]), ["later", "r"]);
    // A worker removes them, too, and keeps runs that have not ended.
    let worker = start(path, &["worker"]);
    until("no run is left", || ids(path, &[]) == [""; 0]);
    stop(worker);
}

#[test]
fn a_wrong_table_of_runs_stops_the_commands_that_read_it() {
    for (text, why) in [
        ("[runs]\nkeep = 30\n", "[runs] keep must be a time such as"),
        ("[runs]\nkep = \"30d\"\n", "unknown key `kep` in [runs]"),
        ("[runs]\nretries = \"5\"\n", "[runs] retries must be a number from 0 to 1000"),
        ("runs = 1\n", "`runs` must be a table"),
    ] {
        let dir = folder(&[("main.harn", "println(1)\n"), ("harn.toml", text)]);
        for args in [&["runs", "prune"][..], &["worker", "--drain"], &["submit", "main.harn"]] {
            let ran = harn_in(dir.path(), args);
            assert!(ran.code == 1 && ran.err.contains(why), "{args:?}: {}", ran.shown());
        }
        let checked = harn_in(dir.path(), &["check", "main.harn"]);
        assert!(checked.code == 1 && checked.err.contains(why), "{}", checked.shown());
    }
}

#[test]
fn runs_are_found_by_what_is_known_of_them() {
    let dir = folder(&[("main.harn", "println(1)\n"), ("bad.harn", "throw \"no money\"\n")]);
    let path = dir.path();
    for (id, file) in [("a", "main.harn"), ("b", "bad.harn")] {
        submit_as(path, id, &[file]);
    }
    drain(path);
    submit_as(path, "c", &["main.harn"]);
    for (filter, expected) in [
        ("program=main.harn", &["c", "a"][..]),
        ("status=failed", &["b"]),
        ("note=no money", &["b"]),
        ("note=money,program=main.harn", &[]),
        ("owner=nobody", &[]),
        ("older-than=1h", &[]),
        ("newer-than=1h,id=c", &["c"]),
    ] {
        assert_eq!(ids(path, &["--filter", filter]), expected, "{filter}");
    }
    let refused = harn_in(path, &["runs", "list", "--filter", "ower=x"]);
    assert!(refused.code == 2 && refused.err.contains("category, owner, note,"), "{}", refused.shown());
    // The process that executes a run.
    std::fs::write(path.join("wait.harn"), "while !file_exists(\"go\") { sleep(20ms) }\n").unwrap();
    submit_as(path, "w", &["wait.harn"]);
    let mut worker = start(path, &["worker", "--drain"]);
    let owner = format!("owner={}@", worker.id());
    until("the worker has the run", || ids(path, &["--filter", &owner]) == ["w"]);
    std::fs::write(path.join("go"), "").unwrap();
    assert!(worker.wait().unwrap().success());
}

/// Runs the binary as a user without write permission for the directory. Returns `None` if that is not possible.
#[cfg(unix)]
fn as_reader(folder: &Path, args: &[&str]) -> Option<Ran> {
    use std::os::unix::fs::MetadataExt;

    let plain = command(args);
    let own = std::fs::metadata("/proc/self").ok()?;
    let mut command = if own.uid() == 0 {
        let mut command = std::process::Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(plain.get_program())
            .args(args);
        command
    } else {
        plain
    };
    command.current_dir(folder).env("NO_COLOR", "1").env("HOME", "/nonexistent");
    Some(finish(command, b""))
}

#[cfg(target_os = "linux")]
#[test]
fn a_store_that_cannot_be_written_can_be_read() {
    use std::os::unix::fs::PermissionsExt;

    let dir = folder(&[("main.harn", "println(1)\n")]);
    let path = dir.path();
    submit_as(path, "r", &["main.harn"]);
    drain(path);
    let state = path.join(".harn");
    let protect = |mode: u32, files: u32| {
        for entry in std::fs::read_dir(&state).unwrap().map(Result::unwrap) {
            std::fs::set_permissions(entry.path(), std::fs::Permissions::from_mode(files)).unwrap();
        }
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    protect(0o555, 0o444);
    if as_reader(path, &["version"]).is_none_or(|ran| ran.code != 0) {
        // Other users cannot read the binary.
        return;
    }
    for args in [
        &["runs", "list"][..],
        &["runs", "list", "--size"],
        &["runs", "list", "--filter", "program=main.harn"],
        &["runs", "show", "r"],
        &["runs", "events", "r"],
        &["replay", "r"],
        &["worker", "list"],
    ] {
        let ran = as_reader(path, args).unwrap();
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.shown());
        assert!(ran.out != "No runs.\n", "{args:?}: {}", ran.shown());
    }
    for args in [&["runs", "rm", "r"][..], &["worker", "--drain"], &["submit", "main.harn"]] {
        let ran = as_reader(path, args).unwrap();
        assert!(ran.code == 1 && ran.err.contains("read-only"), "{args:?}: {}", ran.shown());
    }
    let doctor = as_reader(path, &["doctor", "--no-network"]).unwrap();
    assert!(doctor.out.contains("1 completed"), "{}", doctor.shown());
    protect(0o755, 0o644);
}

#[test]
fn the_manifest_says_how_often_runs_are_tried() {
    let dir = folder(&[
        ("harn.toml", "[runs]\nretries = 2\nbackoff = \"fixed\"\nretry_delay = \"10ms\"\n"),
        ("bad.harn", "throw \"no\"\n"),
    ]);
    let path = dir.path();
    submit_as(path, "project", &["bad.harn"]);
    let own = harn_in(path, &["submit", "--run-id", "own", "--retries", "0", "bad.harn"]);
    assert_eq!(own.code, 0, "{}", own.shown());
    let begun = Instant::now();
    while shown_of(path, "project")["status"] != "failed" {
        assert!(begun.elapsed() < Duration::from_secs(120));
        drain(path);
    }
    assert_eq!(
        (&shown_of(path, "project")["tries"], &shown_of(path, "own")["tries"]),
        (&3.into(), &1.into())
    );
    let policy = &shown_of(path, "project")["info"]["retry"];
    assert_eq!((&policy["backoff"], &policy["delay_ms"]), (&"fixed".into(), &10.into()));
    // Runs that have used all their attempts.
    assert_eq!(ids(path, &["--dead"]), ["project"]);
    let listed = harn_in(path, &["runs", "list", "--dead"]).out;
    assert!(listed.contains("TRIES") && listed.contains("project"), "{listed}");
    let note = shown_of(path, "project")["note"].as_str().unwrap().to_owned();
    assert!(note.ends_with("no (after 3 tries)"), "{note}");
}
