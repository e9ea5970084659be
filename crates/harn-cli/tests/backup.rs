//! Copies of a store, and system limits that affect a store.

use std::path::Path;

use crate::common::{command, durable, finish, folder, harn_in, shown_of};

/// Creates a directory with the run `r`.
fn with_run(program: &str) -> tempfile::TempDir {
    let dir = folder(&[("main.harn", program)]);
    let ran = durable(dir.path(), &["main.harn"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    dir
}

/// Runs the binary with another store.
fn on(folder: &Path, store: &str, args: &[&str]) -> crate::common::Ran {
    let mut command = command(args);
    command.current_dir(folder).env("HARN_STATE_FILE", store);
    finish(command, b"")
}

#[test]
fn a_store_in_use_is_backed_up() {
    let program = "for i in 1 to 400 { write_file(\"out.txt\", \"${i}\") }\nprintln(\"done\")\n";
    let dir = with_run("println(\"first\")\n");
    let path = dir.path();
    std::fs::write(path.join("long.harn"), program).unwrap();
    let mut run = command(&["run", "--durable", "--run-id", "long", "long.harn"]);
    let mut run = run.current_dir(path).stdin(std::process::Stdio::null()).spawn().unwrap();
    for n in 0.. {
        let copy = format!("copy-{n}.db");
        let ran = harn_in(path, &["store", "backup", &copy]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        assert!(ran.out.contains(&format!("is backed up to {copy} (")), "{}", ran.shown());
        let ended = run.try_wait().unwrap();
        // A copy consists of one file and is a store.
        assert!(!path.join(format!("{copy}-wal")).exists());
        let replayed = on(path, &copy, &["replay", "r"]);
        assert_eq!(replayed.out, "first\n", "{}", replayed.shown());
        if ended.is_some_and(|status| status.success()) {
            break;
        }
    }
    let ran = harn_in(path, &["store", "backup", "last.db"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert_eq!(on(path, "last.db", &["replay", "long"]).out, "done\n");
    let again = harn_in(path, &["store", "backup", "last.db"]);
    assert!(again.code == 1 && again.err.contains("last.db exists; name a new file"), "{}", again.shown());
    let nowhere = harn_in(path, &["store", "backup", "no/such/copy.db"]);
    assert_eq!(nowhere.code, 1, "{}", nowhere.shown());
    let parts = std::fs::read_dir(path).unwrap().filter(|entry| {
        entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().contains(".part-"))
    });
    assert_eq!(parts.count(), 0);
    let empty = folder(&[]);
    let none = harn_in(empty.path(), &["store", "backup", "x.db"]);
    assert!(none.code == 1 && none.err.contains("no store found at"), "{}", none.shown());
}

#[test]
fn a_database_is_backed_up_by_its_own_means() {
    let dir = folder(&[("harn.toml", "[store]\nurl = \"postgres://ann:secret@db.invalid/runs\"\n")]);
    let ran = harn_in(dir.path(), &["store", "backup", "x.db"]);
    assert!(ran.code == 1 && ran.err.contains("pg_dump --schema=harn"), "{}", ran.shown());
    assert!(!ran.err.contains("secret"), "{}", ran.shown());
}

#[test]
fn a_copy_without_its_log_is_refused() {
    let dir = with_run("println(1)\n");
    let path = dir.path();
    std::fs::copy(path.join(".harn/state.db"), path.join("alone.db")).unwrap();
    for args in [
        &["runs", "list"][..],
        &["runs", "show", "r"],
        &["worker", "--drain"],
        &["run", "--durable", "main.harn"],
        &["store", "backup", "x.db"],
    ] {
        let ran = on(path, "alone.db", args);
        assert!(
            ran.code == 1 && ran.err.contains("it was copied without its log"),
            "{args:?}: {}",
            ran.shown()
        );
    }
    let doctor = on(path, "alone.db", &["doctor", "--no-network"]);
    assert!(doctor.code == 1 && doctor.out.contains("copied without its log"), "{}", doctor.shown());
    // A copy of all files is complete.
    for end in ["", "-wal", "-mark"] {
        let file = path.join(format!(".harn/state.db{end}"));
        if file.exists() {
            std::fs::copy(file, path.join(format!("whole.db{end}"))).unwrap();
        }
    }
    let whole = on(path, "whole.db", &["runs", "list"]);
    assert!(whole.code == 0 && whole.out.contains("completed"), "{}", whole.shown());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_may_not_grow_is_an_error() {
    let dir = with_run("println(1)\n");
    let path = dir.path();
    let program = "let r = try { write_file(\"big.txt\", \"x\".repeat(4000000)) }\nprintln(is_err(r))\n\
                   let s = exec(\"sh\", \"-c\", \"head -c 4000000 /dev/zero > c.txt\", {idempotent: true})\n\
                   println(s.success)\n";
    std::fs::write(path.join("big.harn"), program).unwrap();
    let binary = command(&[]).get_program().to_owned();
    let limited = |args: &[&str]| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -f 800; exec \"$0\" \"$@\""]).arg(&binary).args(args);
        command.current_dir(path).env("NO_COLOR", "1");
        finish(command, b"")
    };
    let ran = limited(&["run", "big.harn"]);
    // The signal ends the child process of the program, as in a shell.
    assert_eq!((ran.code, ran.out.as_str()), (0, "true\nfalse\n"), "{}", ran.shown());
    // The store reports the error, and earlier data is preserved.
    std::fs::write(
        path.join("much.harn"),
        "for i in 1 to 40 { println(json_parse(read_file(\"data.json\"))[0]) }\n",
    )
    .unwrap();
    let noise: Vec<u32> = (0..40_000_u32).map(|n| n.wrapping_mul(2_654_435_761)).collect();
    std::fs::write(path.join("data.json"), format!("{noise:?}")).unwrap();
    let ran = limited(&["run", "--durable", "--run-id", "much", "much.harn"]);
    assert!(ran.code == 75 && ran.err.contains("the store is not available"), "{}", ran.shown());
    assert_eq!(shown_of(path, "r")["status"], "completed");
    let resumed = harn_in(path, &["resume", "much"]);
    assert_eq!(resumed.code, 0, "{}", resumed.shown());
    assert_eq!(shown_of(path, "much")["status"], "completed");
}

/// Runs a script in its own mount namespace. Returns `None` where that is not allowed.
#[cfg(target_os = "linux")]
fn isolated(folder: &Path, script: &str) -> Option<crate::common::Ran> {
    let unshare = |script: &str| {
        let mut command = std::process::Command::new("unshare");
        command.args(["-m", "sh", "-c", script]).arg(command_path()).current_dir(folder).env("NO_COLOR", "1");
        command.stdin(std::process::Stdio::null());
        command
    };
    let is_allowed = unshare("umount -l /proc").output().is_ok_and(|ran| ran.status.success());
    is_allowed.then(|| finish(unshare(script), b""))
}

#[cfg(target_os = "linux")]
fn command_path() -> std::ffi::OsString {
    command(&[]).get_program().to_owned()
}

#[cfg(target_os = "linux")]
#[test]
fn a_worker_needs_no_proc() {
    let dir = folder(&[("main.harn", "println(exec(\"sh\", \"-c\", \"echo hi\").stdout.trim())\n")]);
    let script = "umount -l /proc && \"$0\" submit --run-id r main.harn && \"$0\" worker --drain && \"$0\" doctor --no-network";
    let Some(ran) = isolated(dir.path(), script) else { return };
    assert!(ran.code == 0 && ran.out.contains("\nhi\n"), "{}", ran.shown());
    assert_eq!(shown_of(dir.path(), "r")["status"], "completed");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    let dir = folder(&[("main.harn", "println(1)\n"), ("disk/keep", "")]);
    let script = "mount -t tmpfs -o size=2M t disk && cp main.harn disk && cd disk &&
        \"$0\" run --durable --run-id r main.harn && { head -c 4000000 /dev/zero > fill; true; } &&
        ! \"$0\" submit --run-id s main.harn && ! \"$0\" store backup b.db && ! ls b.db* &&
        rm fill && \"$0\" runs list && \"$0\" submit --run-id s main.harn && \"$0\" worker --drain";
    let Some(ran) = isolated(dir.path(), script) else { return };
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(
        ran.out.contains("r    completed") && ran.err.contains("no room for the store"),
        "{}",
        ran.shown()
    );
}
