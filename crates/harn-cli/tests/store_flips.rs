//! One bit in the store of a killed run is flipped: the resumed run is correct or ends with an error, and no effect is
//! repeated.
//!
//! `HARN_FLIPS` is the number of trials; `make flips` performs 10,000. `HARN_FLIP_SEED` is the first seed.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{Chance, command, folder, harn_in, text};

/// Each effect must not be repeated. The run is killed while it waits for `go`.
const PROGRAM: &str = r#"
var last = 0
for n in 1 to 6 {
  last = exec("sh", "-c", "echo ${n} >> log.txt; echo ${n}").stdout.trim()
}
write_file("waits", "x")
while !file_exists("go") { sleep(20ms) }
for n in 7 to 8 {
  last = exec("sh", "-c", "echo ${n} >> log.txt; echo ${n}").stdout.trim()
}
println("end ${last}")
"#;

fn flips() -> u64 {
    std::env::var("HARN_FLIPS").ok().and_then(|n| n.parse().ok()).unwrap_or(60)
}

/// Returns the files of the store and their contents.
fn files(store: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let found = std::fs::read_dir(store).expect("the store is there").flatten().map(|file| file.path());
    let mut files: Vec<_> = found
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), std::fs::read(&path).expect("a file")))
        .collect();
    files.sort();
    files
}

/// The store of a killed run in its own directory.
struct Killed {
    dir: tempfile::TempDir,
    /// The files of the store after the kill, and after a checkpoint of the write-ahead log.
    stores: [Vec<(PathBuf, Vec<u8>)>; 2],
    /// The effects before the kill.
    log: String,
}

fn killed_run() -> Killed {
    let dir = folder(&[("main.harn", PROGRAM)]);
    let path = dir.path();
    let mut child = command(&["run", "--durable", "--run-id", "r", "main.harn"])
        .current_dir(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("harn starts");
    let begun = Instant::now();
    while text(&path.join("waits")).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the run does not wait");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(200));
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
    std::fs::write(path.join("go"), "x").unwrap();
    let store = path.join(".harn");
    let kept = files(&store);
    assert_eq!(harn_in(path, &["runs", "show", "r"]).code, 0);
    let copied = files(&store);
    assert!(!copied.iter().any(|(file, _)| file.ends_with("state.db-wal")), "the log is still there");
    assert!(kept.iter().any(|(file, bytes)| file.ends_with("state.db-wal") && !bytes.is_empty()), "no log");
    let log = text(&path.join("log.txt"));
    Killed { dir, stores: [kept, copied], log }
}

/// Flips one bit per trial and resumes the run. Returns how many ended with an error and how many correctly.
fn flip(killed: &Killed, seed: u64, trials: u64) -> (u32, u32) {
    let path = killed.dir.path();
    let (mut chance, mut errors, mut runs) = (Chance(seed), 0, 0);
    for trial in 0..trials {
        for (file, _) in files(&path.join(".harn")) {
            std::fs::remove_file(file).unwrap();
        }
        let store = &killed.stores[usize::from(trial % 2 == 1)];
        let all: u64 = store.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let (mut at, bit) = (chance.below(all), chance.below(8));
        for (file, bytes) in store {
            let mut bytes = bytes.clone();
            if let Some(byte) = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at)) {
                *byte ^= 1 << bit;
            }
            at = at.wrapping_sub(bytes.len() as u64);
            std::fs::write(file, bytes).unwrap();
        }
        std::fs::write(path.join("log.txt"), &killed.log).unwrap();
        let ran = harn_in(path, &["resume", "r"]);
        let case = format!("trial {trial} of seed {seed:#x}: {}", ran.shown());
        let now = text(&path.join("log.txt"));
        assert!(!ran.err.contains("panicked"), "{case}");
        if ran.code == 0 {
            runs += 1;
            assert_eq!((ran.out.as_str(), now.as_str()), ("end 8\n", "1\n2\n3\n4\n5\n6\n7\n8\n"), "{case}");
        } else {
            errors += 1;
            assert!(!ran.err.is_empty(), "{case}");
            let is_prefix = "1\n2\n3\n4\n5\n6\n7\n8\n".starts_with(&*now) && now.starts_with(&*killed.log);
            assert!(is_prefix, "{case}\n{now}");
        }
    }
    (errors, runs)
}

/// A trial mostly waits for the threads of its process, so several run in parallel.
const PARALLEL: u64 = 6;

#[test]
fn a_flipped_bit_is_an_error_or_a_correct_run_and_repeats_nothing() {
    let first = std::env::var("HARN_FLIP_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(0x51ED_u64);
    println!("seeds {first:#x} to {:#x}", first + PARALLEL - 1);
    let trials = flips().div_ceil(PARALLEL);
    let (errors, runs) = std::thread::scope(|scope| {
        let start = |seed| scope.spawn(move || flip(&killed_run(), seed, trials));
        let threads: Vec<_> = (first..first + PARALLEL).map(start).collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("every trial passes"));
        ended.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    });
    println!("{errors} errors, {runs} correct runs");
    assert!(errors > 0 && runs > 0, "{errors} errors, {runs} correct runs");
}

#[test]
fn a_damaged_journal_is_cut_by_repair() {
    let program = "for n in 1 to 5 { append_file(\"log.txt\", \"${n}\\n\") }\nprintln(ask_user(\"Go on?\"))\nprintln(read_file(\"log.txt\").split(\"\\n\").len())\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    assert_eq!(harn_in(path, &["run", "--durable", "--run-id", "r", "main.harn"]).code, 75);
    let whole = harn_in(path, &["runs", "repair", "r"]);
    assert!(whole.code == 0 && whole.out.contains("is not damaged"), "{}", whole.shown());
    // The payload of the journal entry of the fourth append is changed.
    let state = path.join(".harn/state.db");
    let bytes = std::fs::read(&state).unwrap();
    let place = b"main.harn:1";
    let places: Vec<usize> =
        (0..bytes.len() - place.len()).filter(|at| &bytes[*at..at + place.len()] == place).collect();
    let at = places[places.len() * 3 / 4];
    let mut damaged = bytes.clone();
    damaged[at + place.len() - 1] ^= 1;
    std::fs::write(&state, damaged).unwrap();
    let refused = harn_in(path, &["resume", "r"]);
    assert_eq!(refused.code, 1, "{}", refused.shown());
    assert!(
        refused.err.contains("was changed") && refused.err.contains("harn runs repair"),
        "{}",
        refused.shown()
    );
    assert_eq!(text(&path.join("log.txt")), "1\n2\n3\n4\n5\n", "nothing happened");
    let repaired = harn_in(path, &["runs", "repair", "r"]);
    assert_eq!(repaired.code, 0, "{}", repaired.shown());
    assert!(
        repaired.out.contains("was changed") && repaired.out.contains("cut before entry"),
        "{}",
        repaired.out
    );
    assert!(repaired.out.contains("append "), "the effects that happen again are listed: {}", repaired.out);
    let again = harn_in(path, &["resume", "r"]);
    assert_eq!(again.code, 75, "{}", again.shown());
    assert!(text(&path.join("log.txt")).starts_with("1\n2\n3\n4\n5\n"), "what was there stays");
    assert_eq!(harn_in(path, &["replay", "r"]).code, 0);
    assert_eq!(harn_in(path, &["runs", "repair", "none"]).code, 1);
}

#[test]
fn facts_that_were_changed_in_the_store_are_an_error() {
    let program = "println(argv)\nprintln(ask_user(\"Go on?\"))\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    let args = ["run", "--durable", "--run-id", "r", "main.harn", "--", "argument"];
    assert_eq!(harn_in(path, &args).code, 75);
    let state = path.join(".harn/state.db");
    let mut bytes = std::fs::read(&state).unwrap();
    let word = b"\"args\":[\"argument";
    let places: Vec<usize> =
        (0..bytes.len() - word.len()).filter(|at| &bytes[*at..at + word.len()] == word).collect();
    assert!(!places.is_empty(), "the options are there");
    for at in places {
        bytes[at + word.len() - 1] ^= 1;
    }
    std::fs::write(&state, bytes).unwrap();
    let refused = harn_in(path, &["resume", "r"]);
    assert!(refused.code == 1 && refused.err.contains("was changed in the store"), "{}", refused.shown());
}
