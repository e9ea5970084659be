//! Durable runs on failing disks and with clocks that jump: the run is correct, or there is a clear error and a correct
//! run afterwards.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::common::{Chance, Ran, command, finish, folder, harn_in};

/// A library that wraps the C library. From the n-th call on, writes fail or the disk is full; from the n-th read on,
/// the wall clock is shifted.
const FAULTS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long given(const char *name) { char *text = getenv(name); return text ? atol(text) : -1; }
static int syncs, writes, looks;
static int broken(void) { long n = given("FAIL_SYNC_AFTER"); return n >= 0 && __sync_add_and_fetch(&syncs, 1) > n; }
static int full(void) { long n = given("FULL_AFTER"); return n >= 0 && __sync_add_and_fetch(&writes, 1) > n; }
int fsync(int fd) { if (broken()) { errno = EIO; return -1; } return syscall(SYS_fsync, fd); }
int fdatasync(int fd) { if (broken()) { errno = EIO; return -1; } return syscall(SYS_fdatasync, fd); }
ssize_t pwrite(int fd, const void *from, size_t size, off_t at) {
  if (full()) { errno = ENOSPC; return -1; }
  return syscall(SYS_pwrite64, fd, from, size, at);
}
ssize_t pwrite64(int fd, const void *from, size_t size, off64_t at) { return pwrite(fd, from, size, at); }
int clock_gettime(clockid_t clock, struct timespec *time) {
  int result = syscall(SYS_clock_gettime, clock, time);
  if (clock == CLOCK_REALTIME) {
    long after = given("JUMP_AFTER");
    if (after >= 0 && __sync_add_and_fetch(&looks, 1) > after) time->tv_sec += given("JUMP_BY") - 1000000;
  }
  return result;
}
"#;

/// Returns the library, which is built once.
fn faults() -> &'static Path {
    static BUILT: OnceLock<(PathBuf, tempfile::TempDir)> = OnceLock::new();
    let (library, _) = BUILT.get_or_init(|| {
        let dir = folder(&[("faults.c", FAULTS)]);
        let library = dir.path().join("faults.so");
        let source = dir.path().join("faults.c");
        // The compiler that built the database is available.
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
        assert!(built.is_ok_and(|status| status.success()), "a C compiler is needed, as for the build");
        (library, dir)
    });
    library
}

fn with_faults(folder: &Path, args: &[&str], faulty: &[(&str, i64)]) -> Ran {
    let mut harn = command(args);
    harn.current_dir(folder).env("LD_PRELOAD", faults());
    for (name, value) in faulty {
        harn.env(name, value.to_string());
    }
    finish(harn, b"")
}

const APPENDS: &str = r#"
for n in 1 to 8 {
  append_file("log.txt", "${n}\n")
  let tasks = parallel each [1, 2] { k -> append_file("log${k}.txt", "${n}\n"); random_int(1, 9) > 0 }
  assert(tasks == [true, true])
}
println(read_file("log.txt").split("\n").len())
"#;

/// Checks that every effect of the program occurred exactly once.
fn assert_appended(path: &Path, case: &str) {
    for file in ["log.txt", "log1.txt", "log2.txt"] {
        let text = std::fs::read_to_string(path.join(file)).unwrap_or_default();
        let expected: String = (1..=8).map(|n| format!("{n}\n")).collect();
        assert_eq!(text, expected, "{case}: {file}");
    }
}

/// Runs the program on a failing disk, then on a working one.
fn on_a_bad_disk(fault: &str, after: i64, cause: &[&str]) -> bool {
    let dir = folder(&[("main.harn", APPENDS)]);
    let path = dir.path();
    let case = format!("{fault}={after}");
    let begin: &[&str] = &["run", "--durable", "--run-id", "r", "main.harn"];
    let bad = with_faults(path, begin, &[(fault, after)]);
    if bad.code == 0 {
        assert_appended(path, &case);
        return false;
    }
    assert!(cause.iter().any(|cause| bad.err.contains(cause)), "{case}: {}", bad.shown());
    assert!(!bad.err.contains("panicked"), "{case}: {}", bad.shown());
    let exists = harn_in(path, &["runs", "show", "r"]).code == 0;
    let well = harn_in(path, if exists { &["resume", "r"] } else { begin });
    // The work was complete before the disk failed, and only the end could not be recorded.
    let out = if well.err.contains("has ended") { bad.out } else { bad.out + &well.out };
    assert!(well.code == 0 || well.err.contains("has ended"), "{case}: {}", well.shown());
    assert!(out == "9\n" || out == "9\n9\n", "{case}: {out}");
    assert_appended(path, &case);
    assert_eq!(harn_in(path, &["replay", "r"]).out, "9\n", "{case}");
    true
}

#[test]
fn a_disk_that_takes_nothing_stops_the_run_and_a_good_one_goes_on() {
    let failed =
        [1, 4, 9, 13, 22].map(|after| on_a_bad_disk("FAIL_SYNC_AFTER", after, &["disk I/O error", "failed"]));
    assert!(failed.iter().filter(|failed| **failed).count() >= 3, "{failed:?}");
}

#[test]
fn a_full_disk_stops_the_run_and_room_goes_on() {
    let failed = [3, 20, 45, 80, 120]
        .map(|after| on_a_bad_disk("FULL_AFTER", after, &["is full", "no room", "disk I/O error"]));
    assert!(failed.iter().filter(|failed| **failed).count() >= 3, "{failed:?}");
}

#[test]
fn a_damaged_last_page_is_an_error_or_a_correct_run() {
    let program = "for n in 1 to 40 { append_file(\"log.txt\", \"${n}\\n\"); random_int(1, 9) }\nprintln(read_file(\"log.txt\").split(\"\\n\").len())\nprintln(ask_user(\"Go on?\"))\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    assert_eq!(harn_in(path, &["run", "--durable", "--run-id", "r", "main.harn"]).code, 75);
    let shown = harn_in(path, &["runs", "show", "r", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
    let request = shown["data"]["pending"][0]["request_id"].as_str().unwrap().to_owned();
    assert_eq!(harn_in(path, &["answer", "r", &request, "yes"]).code, 0);
    let state = path.join(".harn/state.db");
    let whole = std::fs::read(&state).unwrap();
    let (mut chance, mut wrong) = (Chance(5), 0);
    let pages = whole.len() / 4096;
    // The last page, then some others: some bytes of each are changed, and finally the page is lost.
    for case in 0..12 {
        let page = if case < 6 { pages - 1 } else { 1 + chance.below(pages as u64 - 1) as usize };
        let mut bytes = whole.clone();
        for _ in 0..=case * 8 {
            let at = page * 4096 + chance.below(4096) as usize;
            bytes[at] ^= 1 + chance.below(255) as u8;
        }
        if case == 5 {
            bytes.truncate(page * 4096);
        }
        for beside in ["state.db-wal", "state.db-shm"] {
            let _ = std::fs::remove_file(path.join(".harn").join(beside));
        }
        std::fs::write(&state, bytes).unwrap();
        let log = std::fs::read_to_string(path.join("log.txt")).unwrap();
        let ran = harn_in(path, &["resume", "r"]);
        assert!(!ran.err.contains("panicked"), "{case}: {}", ran.shown());
        assert_eq!(
            std::fs::read_to_string(path.join("log.txt")).unwrap(),
            log,
            "{case}: nothing is done again"
        );
        if ran.code == 0 {
            assert_eq!(ran.out, "yes\n", "{case}: {}", ran.shown());
        } else {
            wrong += 1;
            assert_eq!(ran.out, "", "{case}: {}", ran.shown());
            assert!(
                ran.err.contains("state.db")
                    || ran.err.contains("damaged")
                    || ran.err.contains("cannot be read"),
                "{case}: {}",
                ran.shown()
            );
        }
    }
    assert!(wrong >= 3, "{wrong} of 12 damaged files were noticed");
}

#[test]
fn a_clock_that_jumps_changes_no_result() {
    let program = r#"
let began = monotonic_ms()
var seen = []
for n in 1 to 6 {
  let got = parallel each [30, 10, 20] { ms -> sleep(ms); ms }
  seen = seen + [deadline 20s { append_file("log.txt", "${n}\n"); got.len() }]
  timestamp()
}
let took = monotonic_ms() - began
assert(took >= 150, "it took ${took} ms")
println(seen)
"#;
    const DAY: i64 = 86_400;
    for (after, by) in [(0, 400 * DAY), (40, DAY), (40, -DAY), (80, 30), (60, -400 * DAY)] {
        let dir = folder(&[("main.harn", program)]);
        let path = dir.path();
        let args = ["run", "--durable", "--run-id", "r", "main.harn"];
        let jump = [("JUMP_AFTER", after), ("JUMP_BY", by + 1_000_000)];
        let ran = with_faults(path, &args, &jump);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (0, "[3, 3, 3, 3, 3, 3]\n"),
            "{after} {by}: {}",
            ran.shown()
        );
        assert_eq!(
            std::fs::read_to_string(path.join("log.txt")).unwrap(),
            "1\n2\n3\n4\n5\n6\n",
            "{after} {by}"
        );
        let again = harn_in(path, &["replay", "r"]);
        assert_eq!(
            (again.code, again.out.as_str()),
            (0, "[3, 3, 3, 3, 3, 3]\n"),
            "{after} {by}: {}",
            again.shown()
        );
    }
    // Between processes the clock goes back by a year, or leaps forward: the wait ends.
    for by in [-365 * DAY, 365 * DAY] {
        let dir = folder(&[("main.harn", "println(1)\nsleep(1500)\nprintln(2)\n")]);
        let path = dir.path();
        let first =
            harn_in(path, &["run", "--durable", "--run-id", "r", "--suspend-after", "100ms", "main.harn"]);
        assert_eq!((first.code, first.out.as_str()), (75, "1\n"), "{}", first.shown());
        let jump = [("JUMP_AFTER", 0), ("JUMP_BY", by + 1_000_000)];
        let (mut out, mut code, mut rounds) = (String::new(), 75, 0);
        while code == 75 && rounds < 40 {
            let ran = with_faults(path, &["resume", "r"], &jump);
            assert!(ran.code == 75 || ran.code == 0, "{by}: {}", ran.shown());
            (out, code, rounds) = (out + &ran.out, ran.code, rounds + 1);
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert_eq!((code, out.as_str()), (0, "2\n"), "{by}: {rounds} rounds");
    }
}
