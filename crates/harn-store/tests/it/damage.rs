//! Disks that fail under a run: a clear error or what was answered, never a wrong journal.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use harn_store::{EntryKind, Error, JournalEntry, SqliteStore, Store, Write};

use crate::runs::{append, entry, lease, running};
use crate::support::{Dice, told, wait};

fn payload(n: u64) -> Vec<u8> {
    format!("the {n}th payload ").into_bytes().repeat(n as usize % 20)
}

fn written(count: u64) -> Vec<JournalEntry> {
    (0..count).map(|n| entry(n, EntryKind::ALL[n as usize % 4], payload(n))).collect()
}

#[test]
fn a_changed_byte_is_never_followed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("harn.sqlite");
    let all = written(300);
    wait(async {
        let store = SqliteStore::new(&file);
        let fence = running(&store, "r").await;
        let source = Write::SourcePut { run: "r".into(), path: "a.harn".into(), bytes: payload(19) };
        store.write(&fence, vec![append("r", all.clone()), source]).await.unwrap();
        store.compact().await.unwrap();
    });
    let whole = std::fs::read(&file).unwrap();
    let last = whole.len() - 4096;
    let mut dice = Dice(11);
    let mut found = 0;
    for round in 0..120 {
        let mut bytes = whole.clone();
        // Half of them in the last page, the others anywhere behind the header.
        let at = if round % 2 == 0 {
            last + dice.roll(4096) as usize
        } else {
            100 + dice.roll(last as u64) as usize
        };
        bytes[at] ^= 1 << dice.roll(8);
        let copy = folder.path().join(format!("{round}.sqlite"));
        std::fs::write(&copy, bytes).unwrap();
        let store = SqliteStore::new(&copy);
        wait(async {
            match store.journal("r", 0, usize::MAX).await {
                Ok(journal) => assert!(journal == all, "byte {at} has changed the journal"),
                Err(Error::Corrupt { path, .. }) => {
                    assert_eq!(path, copy);
                    found += 1;
                }
                Err(Error::Missing { .. } | Error::Foreign { .. } | Error::Newer { .. }) => found += 1,
                Err(other) => panic!("byte {at}: {other:?}"),
            }
            if let Ok(sources) = store.sources("r").await {
                assert!(sources.iter().all(|source| source.bytes == payload(19)), "byte {at}");
            }
        });
        drop(store);
        std::fs::remove_file(copy).unwrap();
    }
    assert!(
        found > 20,
        "most bytes of the last page belong to the journal; {found} of 120 changes were seen"
    );
}

/// The files of a store that is still open, as they are when its process is killed.
fn files_of(open: &Path, into: &Path) {
    for end in ["", "-wal", "-shm", "-mark"] {
        let name = |folder: &Path| folder.join(format!("harn.sqlite{end}"));
        std::fs::copy(name(open), name(into)).unwrap_or_else(|error| panic!("{end}: {error}"));
    }
}

#[test]
fn a_changed_bit_of_the_log_drops_no_acknowledged_write() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(folder.path().join("harn.sqlite"));
    let all = written(60);
    wait(async {
        let fence = running(&store, "r").await;
        for entry in &all {
            store.write(&fence, vec![append("r", vec![entry.clone()])]).await.unwrap();
        }
    });
    let (mut dice, mut found) = (Dice(23), 0);
    for round in 0..100 {
        let copy = tempfile::tempdir().unwrap();
        files_of(folder.path(), copy.path());
        let log = copy.path().join("harn.sqlite-wal");
        let mut bytes = std::fs::read(&log).unwrap();
        // The first round changes nothing.
        if round > 0 {
            let at = dice.roll(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << dice.roll(8);
        }
        std::fs::write(&log, bytes).unwrap();
        let place = harn_store::Place::File(copy.path().join("harn.sqlite"));
        let read = |store: std::sync::Arc<dyn Store>| wait(async { store.journal("r", 0, usize::MAX).await });
        match read(place.open().unwrap()) {
            Ok(journal) => assert!(journal == all, "round {round}"),
            Err(Error::Corrupt { detail, .. }) => {
                found += 1;
                assert!(round > 0 && detail.contains("its log"), "round {round}: {detail}");
                // What is left can be read when that is asked for, and from then on.
                let left = read(place.open_damaged().unwrap());
                assert!(left.is_err() || all.starts_with(&left.unwrap()), "round {round}");
                assert!(
                    !matches!(read(place.open().unwrap()), Ok(journal) if journal == all),
                    "round {round}"
                );
            }
            Err(other) => panic!("round {round}: {other:?}"),
        }
    }
    assert!(found > 50, "{found} of 99 changes were seen");
}

#[test]
fn an_entry_cannot_be_replaced_by_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("harn.sqlite");
    let all = written(20);
    wait(async {
        let store = SqliteStore::new(&file);
        for run in ["r", "s"] {
            let fence = running(&store, run).await;
            let mut entries = all.clone();
            if run == "s" {
                entries[9].payload = b"another one".to_vec();
            }
            // Not all at once: the chain goes on from one write to the next.
            let rest = entries.split_off(10);
            store.write(&fence, vec![append(run, entries)]).await.unwrap();
            store.write(&fence, vec![append(run, rest)]).await.unwrap();
        }
        assert_eq!(store.journal("r", 5, 3).await.unwrap(), all[5..8]);
    });
    // Entry 9 of one run takes the place of that of the other, with its own checksum.
    let db = rusqlite::Connection::open(&file).unwrap();
    db.execute_batch(
        "UPDATE journal SET (payload, digest_of_payload, checksum) =
             (SELECT payload, digest_of_payload, checksum FROM journal WHERE key = (2 << 32) + 9)
         WHERE key = (1 << 32) + 9",
    )
    .unwrap();
    drop(db);
    let found = wait(async { SqliteStore::new(&file).journal("r", 0, 100).await });
    assert!(
        matches!(&found, Err(Error::Corrupt { detail, .. }) if detail.contains("entry 10 of run 'r' was changed")),
        "{found:?}"
    );
}

#[test]
fn a_lost_end_of_the_file_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("harn.sqlite");
    wait(async {
        let store = SqliteStore::new(&file);
        let fence = running(&store, "r").await;
        store.write(&fence, vec![append("r", written(300))]).await.unwrap();
        store.compact().await.unwrap();
    });
    let whole = std::fs::read(&file).unwrap();
    for pages in 1..=5 {
        std::fs::write(&file, &whole[..whole.len() - pages * 4096]).unwrap();
        let store = SqliteStore::new(&file);
        let error = wait(store.journal("r", 0, usize::MAX)).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{pages} pages: {error:?}");
    }
}

/// Appends until something fails; says what was answered, and the error.
#[test]
#[ignore = "the process whose disk the tests below let fail"]
fn writer() {
    let Some((store, _)) = told() else { return };
    wait(async {
        let mut out = std::io::stdout();
        let fence = running(&*store, "r").await;
        for n in 0.. {
            let failed = store
                .write(&fence, vec![append("r", vec![entry(n, EntryKind::Outcome, vec![n as u8; 900])])])
                .await;
            match failed {
                Ok(_) => writeln!(out, "answered {n}").unwrap(),
                Err(error) => {
                    assert!(error.is_storage(), "{error:?}");
                    writeln!(out, "error {error}").unwrap();
                    // What was there can still be read.
                    assert_eq!(store.journal("r", 0, usize::MAX).await.unwrap().len() as u64, n);
                    return;
                }
            }
        }
    });
}

/// Runs the writer; gives its error after it has looked at what is left.
fn fails(command: &mut Command, file: &Path) -> String {
    let mut child = command
        .env("HARN_STORE_TEST_PLACE", file)
        .env("HARN_STORE_TEST_NUMBER", "0")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut answered, mut error) = (None, None);
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        if let Some(n) = line.strip_prefix("answered ") {
            answered = Some(n.parse::<u64>().unwrap());
        } else if let Some(text) = line.strip_prefix("error ") {
            error = Some(text.to_owned());
        }
    }
    assert!(child.wait().unwrap().success());
    let answered = answered.expect("it has written before it failed");
    wait(async {
        let store = SqliteStore::new(file);
        assert_eq!(store.verify().await, Ok(vec![]));
        let journal = store.journal("r", 0, usize::MAX).await.unwrap();
        assert!(journal.len() as u64 > answered, "{answered} were answered, {} are there", journal.len());
        for (n, found) in (0..).zip(journal) {
            assert_eq!(found, entry(n, EntryKind::Outcome, vec![n as u8; 900]));
        }
        // Somebody else goes on.
        let length = store.run("r").await.unwrap().unwrap().length;
        let heir = lease(&store, "r", "heir", 5000).await;
        store.write(&heir, vec![append("r", vec![entry(length, EntryKind::Order, vec![])])]).await.unwrap();
    });
    error.expect("an error")
}

#[cfg(unix)]
#[test]
fn a_file_that_cannot_grow_gives_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("harn.sqlite");
    // A limit of the system on the size of files, in blocks of 512 bytes; the signal that comes with it is ignored.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 800; exec \"$0\" \"$@\""]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "damage::writer", "--ignored", "--nocapture", "--test-threads=1"]);
    let error = fails(&mut command, &file);
    assert!(error.contains(&file.display().to_string()), "{error}");
}

/// Stands before the C library: from the n-th call on, nothing reaches the disk.
#[cfg(target_os = "linux")]
const FAILING: &str = r#"
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static int calls;
static int fails(void) { return ++calls > atoi(getenv("FAIL_AFTER")); }
int fsync(int fd) { if (fails()) { errno = EIO; return -1; } return syscall(SYS_fsync, fd); }
int fdatasync(int fd) { if (fails()) { errno = EIO; return -1; } return syscall(SYS_fdatasync, fd); }
"#;

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_does_not_take_the_bytes_gives_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("failing.c"), folder.path().join("failing.so"));
    std::fs::write(&source, FAILING).unwrap();
    // The compiler that has built the database is there.
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.is_ok_and(|status| status.success()), "a C compiler is needed, as for the build");
    for after in [25, 38, 60] {
        let file = folder.path().join(format!("{after}.sqlite"));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "damage::writer", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env("LD_PRELOAD", &library).env("FAIL_AFTER", after.to_string());
        let error = fails(&mut command, &file);
        assert!(error.contains(&file.display().to_string()) && error.contains("failed"), "{error}");
    }
}
