//! What every implementation must do with runs. The cases are listed in `conformance.rs`.

use std::sync::Arc;

use harn_store::{
    Answer, Digest, EntryKind, Error, Fence, JournalEntry, NewRun, NewStatus, NewWaitpoint, Prune, Run,
    RunFilter, RunStatus, Scheduling, Store, Wish, Write, Written,
};

use crate::support::{claim_one, is_fenced, one};

type Shared = Arc<dyn Store>;

pub(crate) fn new_run(id: &str, status: NewStatus) -> NewRun {
    NewRun {
        id: id.to_owned(),
        program: "main.harn".to_owned(),
        args: vec!["a".to_owned(), "ä \"b\"".to_owned()],
        status,
        scheduling: Scheduling::default(),
        info: b"{}".to_vec(),
    }
}

pub(crate) fn entry(seq: u64, kind: EntryKind, payload: Vec<u8>) -> JournalEntry {
    JournalEntry {
        seq,
        task: "0/1".into(),
        count: seq / 2,
        kind,
        name: "http_get".into(),
        place: "main.harn:3:5".into(),
        digest: vec![1, 2, 3],
        at_ms: 100 + seq as i64,
        payload,
    }
}

/// The lease of a run, taken by `owner` until 1000.
pub(crate) async fn lease(store: &dyn Store, id: &str, owner: &str, now_ms: i64) -> Fence {
    store.acquire(&Run::scope(id), owner, now_ms, now_ms + 1000).await.expect("the lease").fence()
}

/// A run that is being worked on.
pub(crate) async fn running(store: &dyn Store, id: &str) -> Fence {
    let fence = lease(store, id, "a", 0).await;
    one(store, &fence, Write::RunCreate { run: new_run(id, NewStatus::Running), at_ms: 1 }).await.unwrap();
    fence
}

/// A run that waits for a worker.
pub(crate) async fn queued(store: &dyn Store, id: &str, due_ms: i64) {
    let fence = lease(store, id, "a", 0).await;
    let create = Write::RunCreate { run: new_run(id, NewStatus::Queued { due_ms }), at_ms: 1 };
    store.write(&fence, vec![create, Write::Release]).await.unwrap();
}

pub(crate) fn append(run: &str, entries: Vec<JournalEntry>) -> Write {
    Write::JournalAppend { run: run.to_owned(), entries, at_ms: 5 }
}

fn status(run: &str, status: NewStatus, at_ms: i64) -> Write {
    Write::RunStatus { run: run.to_owned(), status, note: "why".to_owned(), at_ms }
}

fn question(request_id: &str, quorum: u32) -> NewWaitpoint {
    NewWaitpoint {
        request_id: request_id.to_owned(),
        kind: "approval".to_owned(),
        prompt: "May I?".to_owned(),
        info: vec![7],
        asked_ms: 10,
        due_ms: Some(900),
        quorum,
    }
}

fn open(run: &str, request_id: &str, quorum: u32) -> Write {
    Write::WaitpointOpen { run: run.to_owned(), waitpoint: question(request_id, quorum) }
}

fn yes(by: &str, at_ms: i64) -> Answer {
    Answer { value: b"true".to_vec(), by: by.to_owned(), at_ms, signature: "sha256:00".to_owned() }
}

pub(crate) async fn a_run_tells_how_it_stands(store: Shared) {
    assert_eq!(store.run("r").await, Ok(None));
    let fence = running(&*store, "r").await;
    let run = store.run("r").await.unwrap().unwrap();
    assert_eq!((run.id.as_str(), run.number, run.program.as_str()), ("r", 1, "main.harn"));
    assert_eq!(run.args, ["a", "ä \"b\""]);
    assert_eq!((run.status, run.starts, run.created_ms, run.started_ms), (RunStatus::Running, 1, 1, Some(1)));
    assert_eq!((run.exit_code, run.due_ms, run.ended_ms, &run.parent), (None, None, None, &None));
    assert_eq!(run.lease.as_ref().map(|lease| &*lease.owner), Some("a"));
    assert_eq!((run.status_at(999), run.status_at(1000)), (RunStatus::Running, RunStatus::Abandoned));
    let again = Write::RunCreate { run: new_run("r", NewStatus::Running), at_ms: 2 };
    assert_eq!(one(&*store, &fence, again).await, Err(Error::Exists { what: "run 'r'".into() }));
    let info = Write::RunInfo { run: "r".into(), info: b"new".to_vec(), at_ms: 3 };
    let end = status("r", NewStatus::Failed { exit_code: 2 }, 9);
    store.write(&fence, vec![info, end, Write::Release]).await.unwrap();
    let run = store.run("r").await.unwrap().unwrap();
    assert_eq!((run.status, run.exit_code, run.ended_ms), (RunStatus::Failed, Some(2), Some(9)));
    assert_eq!((run.note.as_str(), run.info.as_slice(), run.updated_ms), ("why", &b"new"[..], 9));
    assert_eq!((run.lease.clone(), run.status_at(5000)), (None, RunStatus::Failed));
}

pub(crate) async fn a_run_that_has_ended_stays_so(store: Shared) {
    let fence = running(&*store, "r").await;
    one(&*store, &fence, open("r", "q", 1)).await.unwrap();
    one(&*store, &fence, status("r", NewStatus::Completed { exit_code: 0 }, 9)).await.unwrap();
    let answer = Write::WaitpointAnswer { run: "r".into(), request_id: "q".into(), answer: yes("me", 9) };
    for write in [
        status("r", NewStatus::Running, 10),
        append("r", vec![entry(0, EntryKind::Outcome, vec![])]),
        open("r", "p", 1),
        answer,
    ] {
        let refused = one(&*store, &fence, write.clone()).await;
        assert!(matches!(refused, Err(Error::Conflict { .. })), "{write:?}: {refused:?}");
    }
    assert_eq!(store.run("r").await.unwrap().unwrap().status, RunStatus::Completed);
    let begin = Write::RunCreate { run: new_run("s", NewStatus::Completed { exit_code: 0 }), at_ms: 0 };
    let other = lease(&*store, "s", "a", 0).await;
    assert!(matches!(one(&*store, &other, begin).await, Err(Error::Invalid { .. })));
}

pub(crate) async fn a_journal_is_read_as_it_was_written(store: Shared) {
    let fence = running(&*store, "r").await;
    assert_eq!(store.journal("r", 0, 9).await, Ok(vec![]));
    let large = vec![9; 100_000];
    let all: Vec<_> = (0..20)
        .map(|n| {
            let kind = EntryKind::ALL[n as usize % 4];
            entry(n, kind, if n % 3 == 0 { large.clone() } else { vec![n as u8; n as usize] })
        })
        .collect();
    let (first, second) = (all[..13].to_vec(), all[13..].to_vec());
    assert_eq!(one(&*store, &fence, append("r", first)).await, Ok(Written::Count(13)));
    assert_eq!(store.journal("r", 0, 99).await.unwrap(), all[..13], "readable while the run is written");
    assert_eq!(one(&*store, &fence, append("r", second.clone())).await, Ok(Written::Count(20)));
    assert_eq!(one(&*store, &fence, append("r", vec![])).await, Ok(Written::Count(20)));
    assert_eq!(store.journal("r", 0, 99).await.unwrap(), all);
    assert_eq!(store.journal("r", 11, 4).await.unwrap(), all[11..15]);
    assert_eq!(store.journal("r", 20, 4).await, Ok(vec![]));
    assert_eq!(store.journal("r", u64::MAX, 4).await, Ok(vec![]));
    // The same again, and one with a gap.
    assert!(matches!(one(&*store, &fence, append("r", second)).await, Err(Error::Conflict { .. })));
    let gap = vec![entry(20, EntryKind::Order, vec![]), entry(22, EntryKind::Order, vec![])];
    assert!(matches!(one(&*store, &fence, append("r", gap)).await, Err(Error::Conflict { .. })));
    let run = store.run("r").await.unwrap().unwrap();
    assert_eq!((run.length, run.effects, run.updated_ms), (20, 5, 5));
    let missing = Err(Error::Missing { what: "run 'none'".into() });
    assert_eq!(store.journal("none", 0, 9).await, missing);
    assert_eq!(store.verify().await, Ok(vec![]));
}

pub(crate) async fn a_journal_is_cut_and_continued(store: Shared) {
    let fence = running(&*store, "r").await;
    let large = vec![9; 100_000];
    let all: Vec<_> = (0..12).map(|n| entry(n, EntryKind::ALL[n as usize % 4], large.clone())).collect();
    one(&*store, &fence, append("r", all.clone())).await.unwrap();
    let cut = |length| Write::JournalCut { run: "r".into(), length, at_ms: 8 };
    assert!(one(&*store, &fence, cut(13)).await.is_err(), "there are no 13 entries");
    assert_eq!(one(&*store, &fence, cut(7)).await, Ok(Written::Count(5)));
    assert_eq!(store.journal("r", 0, 99).await.unwrap(), all[..7]);
    let run = store.run("r").await.unwrap().unwrap();
    assert_eq!((run.length, run.effects, run.updated_ms), (7, 2, 8));
    let other = vec![entry(7, EntryKind::Outcome, large.clone()), entry(8, EntryKind::Order, vec![1])];
    one(&*store, &fence, append("r", other.clone())).await.unwrap();
    assert_eq!(store.journal("r", 0, 99).await.unwrap(), [&all[..7], &other].concat());
    one(&*store, &fence, status("r", NewStatus::Failed { exit_code: 1 }, 9)).await.unwrap();
    assert_eq!(one(&*store, &fence, cut(0)).await, Ok(Written::Count(9)), "of a run that has ended, too");
    assert_eq!(store.journal("r", 0, 99).await, Ok(vec![]));
    assert_eq!(store.verify().await, Ok(vec![]));
}

pub(crate) async fn runs_do_not_mix(store: Shared) {
    let (r, s) = (running(&*store, "r").await, running(&*store, "s").await);
    for n in 0..5 {
        one(&*store, &r, append("r", vec![entry(n, EntryKind::Outcome, vec![1])])).await.unwrap();
        one(&*store, &s, append("s", vec![entry(n, EntryKind::Outcome, vec![2])])).await.unwrap();
    }
    assert!(store.journal("r", 0, 99).await.unwrap().iter().all(|entry| entry.payload == [1]));
    // The lease of one run is none of the other.
    let owned = Err(Error::Owned { what: "run 's'".into(), scope: "run/s".into() });
    for write in [
        append("s", vec![entry(5, EntryKind::Outcome, vec![])]),
        status("s", NewStatus::Running, 9),
        Write::RunInfo { run: "s".into(), info: vec![], at_ms: 9 },
        Write::SourcePut { run: "s".into(), path: "p".into(), bytes: vec![] },
        open("s", "q", 1),
        Write::WaitpointClose { run: "s".into(), request_id: "q".into(), at_ms: 9 },
        Write::WaitpointAnswer { run: "s".into(), request_id: "q".into(), answer: yes("me", 9) },
        Write::RunDelete { run: "s".into() },
        Write::RunCreate { run: new_run("s", NewStatus::Running), at_ms: 9 },
    ] {
        assert_eq!(one(&*store, &r, write.clone()).await, owned, "{write:?}");
    }
    assert_eq!(store.run("s").await.unwrap().unwrap().length, 5);
}

pub(crate) async fn an_owner_that_was_taken_for_dead_cannot_go_on(store: Shared) {
    let old = running(&*store, "r").await;
    one(&*store, &old, append("r", vec![entry(0, EntryKind::Begin, vec![])])).await.unwrap();
    let new = lease(&*store, "r", "b", 1000).await;
    for write in [
        append("r", vec![entry(1, EntryKind::Outcome, b"old".to_vec())]),
        status("r", NewStatus::Completed { exit_code: 0 }, 9),
        open("r", "q", 1),
        Write::SourcePut { run: "r".into(), path: "p".into(), bytes: vec![] },
        Write::RunDelete { run: "r".into() },
    ] {
        assert!(is_fenced(&one(&*store, &old, write.clone()).await), "{write:?}");
    }
    let entries = vec![entry(1, EntryKind::Outcome, b"new".to_vec())];
    one(&*store, &new, append("r", entries)).await.unwrap();
    assert_eq!(store.journal("r", 1, 9).await.unwrap()[0].payload, b"new");
    assert_eq!(store.sources("r").await, Ok(vec![]));
}

pub(crate) async fn a_run_keeps_its_sources(store: Shared) {
    let fence = running(&*store, "r").await;
    let put = |path: &str, bytes: &[u8]| Write::SourcePut {
        run: "r".to_owned(),
        path: path.to_owned(),
        bytes: bytes.to_vec(),
    };
    let digest = Digest::of(b"pipeline");
    assert_eq!(one(&*store, &fence, put("b.harn", b"pipeline")).await, Ok(Written::Digest(digest)));
    store.write(&fence, vec![put("a.harn", b"old"), put("a.harn", b"pipeline")]).await.unwrap();
    one(&*store, &fence, put("a.harn", b"pipeline")).await.unwrap();
    let sources = store.sources("r").await.unwrap();
    assert_eq!(sources.iter().map(|source| &*source.path).collect::<Vec<_>>(), ["a.harn", "b.harn"]);
    assert!(sources.iter().all(|source| source.bytes == b"pipeline" && source.digest == digest));
    assert!(matches!(store.sources("none").await, Err(Error::Missing { .. })));
    assert_eq!(store.verify().await, Ok(vec![]));
}

pub(crate) async fn a_fork_has_the_beginning_of_a_run(store: Shared) {
    let fence = running(&*store, "r").await;
    let all: Vec<_> = (0..6).map(|n| entry(n, EntryKind::Outcome, vec![n as u8 / 2; 50_000])).collect();
    let source = Write::SourcePut { run: "r".into(), path: "a.harn".into(), bytes: b"x".to_vec() };
    store.write(&fence, vec![append("r", all.clone()), source, open("r", "q", 1)]).await.unwrap();
    let other = lease(&*store, "f", "b", 0).await;
    let fork = |length: u64| Write::RunFork {
        from: "r".to_owned(),
        length,
        run: new_run("f", NewStatus::Running),
        at_ms: 7,
    };
    assert!(matches!(one(&*store, &other, fork(7)).await, Err(Error::Conflict { .. })));
    assert_eq!(one(&*store, &other, fork(4)).await, Ok(Written::Count(4)));
    assert!(matches!(one(&*store, &other, fork(4)).await, Err(Error::Exists { .. })));
    assert_eq!(store.journal("f", 0, 99).await.unwrap(), all[..4]);
    let run = store.run("f").await.unwrap().unwrap();
    assert_eq!(run.parent.map(|parent| (parent.run, parent.length)), Some(("r".to_owned(), 4)));
    assert_eq!((run.length, run.effects), (4, 4));
    assert_eq!(store.waitpoints(Some("f"), false).await, Ok(vec![]), "it asks again, if it comes there");
    assert_eq!(store.verify().await, Ok(vec![]));
    // The one goes on without the other.
    one(&*store, &other, append("f", vec![entry(4, EntryKind::Order, vec![])])).await.unwrap();
    assert_eq!(store.run("r").await.unwrap().unwrap().length, 6);
    assert_eq!(one(&*store, &fence, Write::RunDelete { run: "r".into() }).await, Ok(Written::Done(true)));
    assert_eq!(store.journal("f", 0, 4).await.unwrap(), all[..4]);
    assert_eq!(store.sources("f").await.unwrap()[0].bytes, b"x");
    assert_eq!(store.verify().await, Ok(vec![]));
}

pub(crate) async fn a_run_is_removed_with_all_that_belongs_to_it(store: Shared) {
    let fence = running(&*store, "r").await;
    let source = Write::SourcePut { run: "r".into(), path: "a.harn".into(), bytes: vec![1; 99] };
    let entries = vec![entry(0, EntryKind::Outcome, vec![3; 70_000])];
    store.write(&fence, vec![append("r", entries), source, open("r", "q", 1)]).await.unwrap();
    store.answer("r", "q", yes("me", 20)).await.unwrap();
    let delete = Write::RunDelete { run: "r".into() };
    assert_eq!(one(&*store, &fence, delete.clone()).await, Ok(Written::Done(true)));
    assert_eq!(one(&*store, &fence, delete).await, Ok(Written::Done(false)));
    assert_eq!(store.run("r").await, Ok(None));
    assert!(matches!(store.journal("r", 0, 9).await, Err(Error::Missing { .. })));
    assert_eq!(store.waitpoints(None, false).await, Ok(vec![]));
    let next = Write::RunCreate { run: new_run("r", NewStatus::Running), at_ms: 1 };
    one(&*store, &fence, next).await.unwrap();
    assert_eq!(store.journal("r", 0, 9).await, Ok(vec![]), "nothing is left for one of the same name");
    assert_eq!(store.sources("r").await, Ok(vec![]));
    assert_eq!(store.run("r").await.unwrap().unwrap().number, 2);
    assert_eq!(store.verify().await, Ok(vec![]));
}

pub(crate) async fn runs_are_listed_newest_first(store: Shared) {
    for n in 0..6 {
        running(&*store, &format!("r{n}")).await;
    }
    let f = lease(&*store, "r3", "a", 0).await;
    store.write(&f, vec![status("r3", NewStatus::Completed { exit_code: 0 }, 9)]).await.unwrap();
    let f = lease(&*store, "r5", "a", 500).await;
    queued(&*store, "later", 50).await;
    let ids = async |filter: RunFilter, limit: usize| -> Vec<String> {
        store.runs(filter, limit).await.unwrap().into_iter().map(|run| run.id).collect()
    };
    let filter = RunFilter { now_ms: 10, ..RunFilter::default() };
    assert_eq!(ids(filter, 3).await, ["later", "r5", "r4"]);
    let before = Some(store.run("r4").await.unwrap().unwrap().number);
    assert_eq!(ids(RunFilter { before, ..filter }, 3).await, ["r3", "r2", "r1"]);
    let with = |status: RunStatus, now_ms: i64| RunFilter { status: Some(status), now_ms, before: None };
    assert_eq!(ids(with(RunStatus::Completed, 10), 9).await, ["r3"]);
    assert_eq!(ids(with(RunStatus::Queued, 10), 9).await, ["later"]);
    assert_eq!(ids(with(RunStatus::Running, 10), 9).await, ["r5", "r4", "r2", "r1", "r0"]);
    assert_eq!(ids(with(RunStatus::Abandoned, 10), 9).await, [] as [&str; 0]);
    assert_eq!(ids(with(RunStatus::Running, 1200), 9).await, ["r5"]);
    assert_eq!(ids(with(RunStatus::Abandoned, 1200), 9).await, ["r4", "r2", "r1", "r0"]);
    store.write(&f, vec![Write::Release]).await.unwrap();
    assert_eq!(ids(with(RunStatus::Abandoned, 10), 9).await, ["r5"]);
}

pub(crate) async fn what_a_run_waits_for_is_answered_by_others(store: Shared) {
    let fence = running(&*store, "r").await;
    assert_eq!(one(&*store, &fence, open("r", "q1", 1)).await, Ok(Written::Done(true)));
    assert_eq!(one(&*store, &fence, open("r", "q2", 2)).await, Ok(Written::Done(true)));
    assert_eq!(one(&*store, &fence, open("r", "q1", 9)).await, Ok(Written::Done(false)), "asked before");
    let found = store.waitpoints(Some("r"), true).await.unwrap();
    for one in &found {
        assert_eq!(store.waitpoint("r", &one.asked.request_id).await.as_ref(), Ok(one));
    }
    for (run, request) in [("r", "none"), ("none", "none")] {
        let error = store.waitpoint(run, request).await.unwrap_err();
        assert!(matches!(error, Error::Missing { .. }), "{error:?}");
    }
    assert_eq!(
        found.iter().map(|found| found.asked.clone()).collect::<Vec<_>>(),
        [question("q1", 1), question("q2", 2)]
    );
    assert_eq!(store.waitpoints(None, true).await.unwrap(), found);

    let answered = store.answer("r", "q1", yes("ann", 20)).await.unwrap();
    assert_eq!(answered.answers, [yes("ann", 20)]);
    let error = store.answer("r", "q1", yes("bob", 21)).await.unwrap_err();
    assert!(error.to_string().contains("answered by ann"), "{error}");
    store.answer("r", "q2", yes("ann", 22)).await.unwrap();
    assert!(matches!(store.answer("r", "q2", yes("ann", 23)).await, Err(Error::Exists { .. })));
    let open_now = store.waitpoints(None, true).await.unwrap();
    assert_eq!(open_now.iter().map(|found| &*found.asked.request_id).collect::<Vec<_>>(), ["q2"]);
    let own = Write::WaitpointAnswer { run: "r".into(), request_id: "q2".into(), answer: yes("bob", 24) };
    assert_eq!(one(&*store, &fence, own.clone()).await, Ok(Written::Done(true)));
    assert!(matches!(one(&*store, &fence, own).await, Err(Error::Exists { .. })));
    let by: Vec<_> = store.waitpoints(Some("r"), false).await.unwrap()[1]
        .answers
        .iter()
        .map(|answer| answer.by.clone())
        .collect();
    assert_eq!(by, ["ann", "bob"]);
    assert_eq!(store.run("r").await.unwrap().unwrap().answers, 3);
    assert!(matches!(store.answer("r", "q3", yes("ann", 20)).await, Err(Error::Missing { .. })));
    assert!(matches!(store.answer("s", "q1", yes("ann", 20)).await, Err(Error::Missing { .. })));
    assert!(matches!(store.answer("r", "q1", yes("", 20)).await, Err(Error::Invalid { .. })));
    assert!(matches!(one(&*store, &fence, open("r", "q4", 0)).await, Err(Error::Invalid { .. })));
}

pub(crate) async fn a_closed_request_takes_no_answer(store: Shared) {
    let fence = running(&*store, "r").await;
    store.write(&fence, vec![open("r", "q1", 1), open("r", "q2", 1)]).await.unwrap();
    let close = Write::WaitpointClose { run: "r".into(), request_id: "q1".into(), at_ms: 30 };
    assert_eq!(one(&*store, &fence, close.clone()).await, Ok(Written::Done(true)));
    assert_eq!(one(&*store, &fence, close).await, Ok(Written::Done(false)));
    let error = store.answer("r", "q1", yes("ann", 31)).await.unwrap_err();
    assert!(error.to_string().contains("closed by the run"), "{error}");
    let none = Write::WaitpointClose { run: "r".into(), request_id: "q9".into(), at_ms: 30 };
    assert!(matches!(one(&*store, &fence, none).await, Err(Error::Missing { .. })));
    // The end of a run closes what is left.
    one(&*store, &fence, status("r", NewStatus::Completed { exit_code: 0 }, 40)).await.unwrap();
    assert!(store.answer("r", "q2", yes("ann", 41)).await.is_err());
    assert_eq!(store.waitpoints(Some("r"), true).await, Ok(vec![]));
    assert_eq!(store.waitpoints(Some("r"), false).await.unwrap().len(), 2);
}

pub(crate) async fn an_answer_is_not_missed_by_a_run_that_stops(store: Shared) {
    let fence = running(&*store, "r").await;
    one(&*store, &fence, open("r", "q1", 2)).await.unwrap();
    let stop = |answers| status("r", NewStatus::Suspended { due_ms: None, answers }, 50);
    store.answer("r", "q1", yes("ann", 40)).await.unwrap();
    // The owner has not seen it yet.
    assert!(matches!(one(&*store, &fence, stop(0)).await, Err(Error::Conflict { .. })));
    assert_eq!(store.run("r").await.unwrap().unwrap().status, RunStatus::Running);
    store.write(&fence, vec![stop(1), Write::Release]).await.unwrap();
    assert_eq!(claim_one(&*store, "w", 60, 160).await, Ok(None), "it waits");
    // The next one comes when nobody has the run.
    store.answer("r", "q1", yes("bob", 70)).await.unwrap();
    let run = store.run("r").await.unwrap().unwrap();
    assert_eq!((run.status, run.due_ms, run.note.as_str()), (RunStatus::Suspended, Some(70), "why"));
    let (run, lease) = claim_one(&*store, "w", 80, 180).await.unwrap().unwrap();
    assert_eq!((run.status, run.starts, run.due_ms, lease.epoch), (RunStatus::Running, 2, None, 3));
    assert_eq!(run.note, "", "it waits no longer");
    assert_eq!(run.lease, Some(lease));
}

pub(crate) async fn runs_are_claimed_when_they_are_due(store: Shared) {
    queued(&*store, "late", 300).await;
    queued(&*store, "first", 100).await;
    queued(&*store, "second", 100).await;
    let fence = running(&*store, "sleeper").await;
    let sleep = status("sleeper", NewStatus::Suspended { due_ms: Some(200), answers: 0 }, 50);
    store.write(&fence, vec![sleep, Write::Release]).await.unwrap();
    running(&*store, "worked on").await;
    let claim = async |now_ms: i64| {
        let claimed = claim_one(&*store, "w", now_ms, now_ms + 5000).await.unwrap();
        claimed.map(|(run, lease)| {
            assert_eq!(*lease.scope, Run::scope(&run.id));
            assert_eq!(run.status, RunStatus::Running);
            run.id
        })
    };
    assert_eq!(claim(99).await, None);
    assert_eq!(claim(250).await.as_deref(), Some("first"));
    assert_eq!(claim(250).await.as_deref(), Some("second"));
    assert_eq!(claim(250).await.as_deref(), Some("sleeper"));
    assert_eq!(claim(250).await, None);
    assert_eq!(claim(300).await.as_deref(), Some("late"));
    // An abandoned one is due at once.
    assert_eq!(claim(1000).await.as_deref(), Some("worked on"));
    assert_eq!(store.run("first").await.unwrap().unwrap().started_ms, Some(250));
    assert_eq!(claim(5249).await, None);
    assert_eq!(claim(5250).await.as_deref(), Some("first"), "nothing was heard of its owner");
    assert!(matches!(claim_one(&*store, "", 0, 1).await, Err(Error::Invalid { .. })));
}

pub(crate) async fn a_failed_try_is_kept_and_a_run_is_reopened(store: Shared) {
    let fence = running(&*store, "r").await;
    let failure = |n: u8| Write::RunFailure { run: "r".into(), failure: vec![n], at_ms: 5 };
    let run = || async { store.run("r").await.unwrap().unwrap() };
    one(&*store, &fence, append("r", (0..4).map(|n| entry(n, EntryKind::Outcome, vec![0])).collect()))
        .await
        .unwrap();
    let reopen = Write::RunReopen { run: "r".into(), due_ms: 9, at_ms: 8 };
    assert!(matches!(one(&*store, &fence, reopen.clone()).await, Err(Error::Conflict { .. })));
    one(&*store, &fence, failure(1)).await.unwrap();
    let queued = status("r", NewStatus::Queued { due_ms: 7 }, 6);
    let cut = Write::JournalCut { run: "r".into(), length: 2, at_ms: 6 };
    store.write(&fence, vec![failure(2), cut, queued]).await.unwrap();
    let found = run().await;
    assert_eq!((found.tries, found.failure, found.length, found.effects), (2, Some(vec![2]), 2, 2));
    one(&*store, &fence, status("r", NewStatus::Failed { exit_code: 3 }, 7)).await.unwrap();
    assert!(matches!(one(&*store, &fence, failure(3)).await, Err(Error::Conflict { .. })));
    one(&*store, &fence, reopen).await.unwrap();
    let found = run().await;
    assert_eq!(
        (found.status, found.due_ms, found.tries, found.exit_code),
        (RunStatus::Queued, Some(9), 0, None)
    );
    assert_eq!((found.ended_ms, found.failure), (None, Some(vec![2])));
    one(&*store, &fence, status("r", NewStatus::Completed { exit_code: 0 }, 9)).await.unwrap();
    assert_eq!(run().await.failure, None);
    assert!(store.run_bytes("r").await.unwrap() > 0);
    assert!(matches!(store.run_bytes("none").await, Err(Error::Missing { .. })));
}

pub(crate) async fn a_wish_is_granted_when_the_owner_stops(store: Shared) {
    for (wish, new, expected) in [
        (Wish::Pause, NewStatus::Queued { due_ms: 5 }, RunStatus::Paused),
        (Wish::Pause, NewStatus::Suspended { due_ms: None, answers: 0 }, RunStatus::Paused),
        (Wish::Cancel, NewStatus::Suspended { due_ms: None, answers: 0 }, RunStatus::Cancelled),
        (Wish::Cancel, NewStatus::Completed { exit_code: 0 }, RunStatus::Completed),
        (Wish::Pause, NewStatus::Running, RunStatus::Running),
    ] {
        let id = format!("{wish:?}{new:?}").to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "");
        let fence = running(&*store, &id).await;
        store.wish(&id, Some(wish), 3).await.unwrap();
        assert_eq!(store.run(&id).await.unwrap().unwrap().wish, Some(wish));
        one(&*store, &fence, status(&id, new, 4)).await.unwrap();
        let run = store.run(&id).await.unwrap().unwrap();
        assert_eq!((run.status, run.wish.is_some()), (expected, expected == RunStatus::Running));
        one(&*store, &fence, Write::Release).await.unwrap();
        if expected.is_end() {
            assert!(matches!(store.wish(&id, None, 5).await, Err(Error::Conflict { .. })));
        } else {
            store.wish(&id, None, 5).await.unwrap();
            assert_eq!(store.run(&id).await.unwrap().unwrap().wish, None);
        }
    }
    assert!(matches!(store.wish("none", None, 1).await, Err(Error::Missing { .. })));
    // No worker takes what is paused or cancelled.
    let (run, _) = claim_one(&*store, "b", 9999, 10_999).await.unwrap().expect("the running one");
    assert_eq!(run.status, RunStatus::Running);
    assert_eq!(claim_one(&*store, "b", 9999, 10_999).await.unwrap(), None);
}

pub(crate) async fn old_runs_are_removed_together(store: Shared) {
    let shared = vec![7; 40_000];
    for (n, end) in [Some(10), Some(20), None, Some(30)].into_iter().enumerate() {
        let id = format!("r{n}");
        let fence = running(&*store, &id).await;
        let source = Write::SourcePut { run: id.clone(), path: "main.harn".into(), bytes: shared.clone() };
        let entries =
            vec![entry(0, EntryKind::Outcome, shared.clone()), entry(1, EntryKind::Outcome, vec![n as u8])];
        let ask = Write::WaitpointOpen { run: id.clone(), waitpoint: question("q", 1) };
        store.write(&fence, vec![source, append(&id, entries), ask]).await.unwrap();
        if let Some(at_ms) = end {
            let ended = status(&id, NewStatus::Completed { exit_code: 0 }, at_ms);
            store.write(&fence, vec![ended, Write::Release]).await.unwrap();
        }
    }
    let prune = |before_ms, limit| store.prune(Prune { status: RunStatus::Completed, before_ms, limit });
    assert_eq!(store.prune(Prune { status: RunStatus::Failed, before_ms: 99, limit: 9 }).await, Ok(0));
    assert_eq!(prune(10, 9).await, Ok(0));
    assert_eq!(prune(99, 1).await, Ok(1), "the oldest first");
    assert_eq!(store.run("r0").await, Ok(None));
    assert_eq!(store.lease(&Run::scope("r0")).await, Ok(None));
    assert_eq!(prune(30, 9).await, Ok(1));
    assert_eq!(prune(99, 9).await, Ok(1));
    let left: Vec<String> =
        store.runs(RunFilter::default(), 9).await.unwrap().into_iter().map(|run| run.id).collect();
    assert_eq!(left, ["r2"]);
    assert_eq!(store.sources("r2").await.unwrap()[0].bytes, shared);
    assert_eq!(store.journal("r2", 0, 9).await.unwrap()[0].payload, shared);
    assert_eq!(store.verify().await, Ok(Vec::new()));
}

pub(crate) async fn many_workers_share_the_runs(store: Shared) {
    for n in 0..40 {
        queued(&*store, &format!("r{n}"), 0).await;
    }
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..5 {
        let store = store.clone();
        workers.spawn(async move {
            let owner = format!("w{worker}");
            let mut done = Vec::new();
            while let Some((run, lease)) = claim_one(&*store, &owner, 10, 1_000_000).await.unwrap() {
                let entries = vec![entry(0, EntryKind::Outcome, owner.clone().into_bytes())];
                let end = status(&run.id, NewStatus::Completed { exit_code: 0 }, 11);
                store
                    .write(&lease.fence(), vec![append(&run.id, entries), end, Write::Release])
                    .await
                    .unwrap();
                done.push(run.id);
            }
            done
        });
    }
    let mut done: Vec<String> = workers.join_all().await.concat();
    done.sort();
    done.dedup();
    assert_eq!(done.len(), 40, "each was done, and once");
    for run in store.runs(RunFilter::default(), 99).await.unwrap() {
        assert_eq!((run.status, run.starts, run.length), (RunStatus::Completed, 1, 1));
    }
}

#[test]
fn a_signature_is_of_one_answer_to_one_request() {
    let asked = NewWaitpoint {
        request_id: "q1".to_owned(),
        kind: "approval".to_owned(),
        prompt: "pay".to_owned(),
        info: b"{\"amount\":5}".to_vec(),
        asked_ms: 1,
        due_ms: None,
        quorum: 1,
    };
    let signature = asked.signature(b"true", "ann", 7);
    assert!(signature.starts_with("sha256:") && signature.len() == 71, "{signature}");
    assert_eq!(
        NewWaitpoint { asked_ms: 2, quorum: 2, ..asked.clone() }.signature(b"true", "ann", 7),
        signature
    );
    let others = [
        asked.signature(b"false", "ann", 7),
        asked.signature(b"true", "bob", 7),
        asked.signature(b"true", "ann", 8),
        NewWaitpoint { info: b"{\"amount\":500}".to_vec(), ..asked.clone() }.signature(b"true", "ann", 7),
        NewWaitpoint { prompt: "pay more".to_owned(), ..asked.clone() }.signature(b"true", "ann", 7),
        NewWaitpoint { request_id: "q2".to_owned(), ..asked.clone() }.signature(b"true", "ann", 7),
        NewWaitpoint { kind: "question".to_owned(), ..asked }.signature(b"true", "ann", 7),
    ];
    assert!(others.iter().all(|other| *other != signature), "{others:?}");
}

pub(crate) async fn runs_are_counted_by_status(store: Shared) {
    assert_eq!(store.stats(0).await.unwrap().runs, vec![]);
    queued(&*store, "early", 20).await;
    queued(&*store, "earlier", 10).await;
    queued(&*store, "later", 900).await;
    // Held until 1000 and until 1500.
    running(&*store, "r").await;
    let fence = lease(&*store, "s", "b", 500).await;
    let create = Write::RunCreate { run: new_run("s", NewStatus::Running), at_ms: 1 };
    one(&*store, &fence, create).await.unwrap();
    let done = running(&*store, "done").await;
    let ended = status("done", NewStatus::Completed { exit_code: 0 }, 5);
    store.write(&done, vec![ended, Write::Release]).await.unwrap();
    let stats = store.stats(100).await.unwrap();
    let by_status = [(RunStatus::Queued, 3), (RunStatus::Running, 2), (RunStatus::Completed, 1)];
    assert_eq!((stats.runs, stats.ready, stats.oldest_due_ms), (by_status.to_vec(), 2, Some(10)));
    let stats = store.stats(1200).await.unwrap();
    assert_eq!((stats.count(RunStatus::Running), stats.count(RunStatus::Abandoned)), (1, 1));
    assert_eq!((stats.ready, stats.count(RunStatus::Failed)), (4, 0));
}
