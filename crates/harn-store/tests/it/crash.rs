//! A process is killed at some moment while it writes: what was answered is there, and nothing is half done.

use std::io::{BufRead, BufReader, Write as _};

use harn_store::{EntryKind, Expect, NewStatus, Place, Store, Write};

use crate::runs::{append, entry, lease, new_run};
use crate::support::{Dice, child, event, message, told, wait};

const ROUNDS: u64 = 25;

/// A payload of which some are too large for the journal itself.
fn large(n: u64) -> Vec<u8> {
    vec![n as u8; (n % 7 * 6_000) as usize]
}

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
        append(
            "r",
            vec![
                entry(2 * n, EntryKind::Begin, n.to_le_bytes().to_vec()),
                entry(2 * n + 1, EntryKind::Outcome, large(n)),
            ],
        ),
        Write::QueuePush { queue: "q".into(), message: message(&format!("{n:06}"), 0, 1) },
        Write::BlobPut { bytes: n.to_le_bytes().to_vec() },
        put("b"),
    ]
}

#[test]
#[ignore = "the process that `a_killed_process_leaves_what_was_answered` kills"]
fn writer() {
    let Some((store, owner)) = told() else { return };
    wait(async {
        // The one before is dead: its lease has run out.
        let fence = lease(&*store, "r", &owner.to_string(), owner as i64 * 10_000).await;
        let head = store.run("r").await.unwrap();
        if head.is_none() {
            let create = Write::RunCreate { run: new_run("r", NewStatus::Running), at_ms: 0 };
            store.write(&fence, vec![create]).await.unwrap();
        }
        let mut n = head.map_or(0, |head| head.length / 2);
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
    kill(&Place::File(folder.path().join("harn.sqlite")));
}

#[cfg(feature = "postgres")]
#[test]
fn a_killed_process_leaves_in_a_database_what_was_answered() {
    let Some(url) = crate::server::database() else { return };
    kill(&Place::Url(url));
}

fn kill(place: &Place) {
    let mut dice = Dice(7);
    let mut length = 0;
    for round in 1..=ROUNDS {
        let mut writer = child("crash::writer", place, round);
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
        length = wait(check(&*place.open().unwrap(), answered, round));
    }
}

fn number(line: String) -> Option<u64> {
    line.strip_prefix("answered ")?.parse().ok()
}

/// Compares everything with the length of the journal, which is the number of steps.
async fn check(store: &dyn Store, answered: u64, round: u64) -> u64 {
    assert_eq!(store.verify().await, Ok(vec![]));
    let run = store.run("r").await.unwrap().unwrap();
    let steps = run.length / 2;
    assert!(steps > answered, "step {answered} was answered, {steps} are there");
    assert_eq!((run.length, run.effects), (2 * steps, steps));
    let journal = store.journal("r", 0, usize::MAX).await.unwrap();
    assert_eq!(journal.len() as u64, run.length);
    for (n, step) in (0..).zip(journal.chunks(2)) {
        assert_eq!(step[0], entry(2 * n, EntryKind::Begin, n.to_le_bytes().to_vec()));
        assert_eq!(step[1], entry(2 * n + 1, EntryKind::Outcome, large(n)));
    }
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
