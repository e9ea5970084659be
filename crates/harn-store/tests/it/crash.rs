//! A process is killed at some moment while it writes: what was answered is there, and nothing is half done.

use std::io::{BufRead, BufReader, Write as _};
use std::sync::Arc;

use harn_store::{Expect, RecordKind, SqliteStore, Store, Write};

use crate::support::{Dice, child, event, message, told, wait};

const ROUNDS: u64 = 25;

/// The n-th group of writes: everything in it stands for one step.
fn step(n: u64) -> Vec<Write> {
    let put = |half: &str| Write::KvPut {
        space: "s".into(),
        key: format!("{n:06}/{half}"),
        value: vec![half.as_bytes()[0]; (n % 50 * 200) as usize],
        expect: Expect::Absent,
    };
    vec![
        put("a"),
        Write::LogAppend { topic: "t".into(), events: vec![event("e"), event("f")] },
        Write::RecordAppend {
            kind: RecordKind::Run,
            id: "r".into(),
            first: n,
            entries: vec![n.to_le_bytes().to_vec()],
            at_ms: 0,
        },
        Write::QueuePush { queue: "q".into(), message: message(&format!("{n:06}"), 0, 1) },
        Write::BlobPut { bytes: n.to_le_bytes().to_vec() },
        put("b"),
    ]
}

#[test]
#[ignore = "the process that `a_killed_process_leaves_what_was_answered` kills"]
fn writer() {
    let Some((file, owner)) = told() else { return };
    let store = Arc::new(SqliteStore::new(file));
    wait(async {
        let fence = store.acquire("run/r", &owner.to_string(), owner as i64, 0).await.unwrap().fence();
        let head = store.record(RecordKind::Run, "r").await.unwrap();
        if head.is_none() {
            let (kind, id, status) = (RecordKind::Run, "r".into(), "running".into());
            let create = Write::RecordCreate { kind, id, status, info: vec![], at_ms: 0 };
            store.write(&fence, vec![create]).await.unwrap();
        }
        let mut n = head.map_or(0, |head| head.length);
        let mut out = std::io::stdout();
        loop {
            // Several at once, so that they share a transaction.
            let all: Vec<_> = (n..n + 3).map(|n| store.write(&fence, step(n))).collect();
            for one in all {
                one.await.unwrap();
                writeln!(out, "answered {n}").unwrap();
                n += 1;
            }
        }
    });
}

#[test]
fn a_killed_process_leaves_what_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("harn.sqlite");
    let mut dice = Dice(7);
    let mut length = 0;
    for round in 1..=ROUNDS {
        let mut writer = child("crash::writer", &file, round);
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut answered = None;
        for _ in 0..=dice.roll(30) {
            answered = lines.by_ref().map_while(Result::ok).find_map(number).or(answered);
        }
        for spin in 0..dice.roll(300_000) {
            std::hint::black_box(spin);
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        answered = lines.map_while(Result::ok).filter_map(number).last().or(answered);
        let answered = answered.expect("the writer has written");
        assert!(answered >= length, "the writer goes on behind what was there");
        length = wait(check(&SqliteStore::new(&file), answered, round));
    }
}

fn number(line: String) -> Option<u64> {
    line.strip_prefix("answered ")?.parse().ok()
}

/// Compares everything with the length of the journal, which is the number of steps.
async fn check(store: &dyn Store, answered: u64, round: u64) -> u64 {
    assert_eq!(store.verify().await, Ok(vec![]));
    let steps = store.record(RecordKind::Run, "r").await.unwrap().unwrap().length;
    assert!(steps > answered, "step {answered} was answered, {steps} are there");
    let entries = store.entries(RecordKind::Run, "r", 0, usize::MAX).await.unwrap();
    assert!(entries.iter().enumerate().all(|(n, entry)| *entry == (n as u64).to_le_bytes()));
    let keys = store.kv_list("s", "", None, usize::MAX).await.unwrap();
    let expected = (0..steps).flat_map(|n| [format!("{n:06}/a"), format!("{n:06}/b")]);
    assert!(keys.iter().map(|(key, _)| key.clone()).eq(expected), "both halves of every step, and no others");
    assert!(keys.iter().all(|(key, entry)| entry.value.iter().all(|byte| key.ends_with(*byte as char))));
    assert_eq!(store.log_topic("t").await.unwrap().unwrap().last, 2 * steps);
    assert_eq!(store.queue_stats("q", 0).await.unwrap().ready, steps);
    assert_eq!(store.blobs(None, usize::MAX).await.unwrap().len() as u64, steps);
    assert_eq!(store.lease("run/r").await.unwrap().unwrap().epoch, round);
    steps
}
