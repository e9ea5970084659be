//! What every implementation must do with queues of runs. The cases are listed in `conformance.rs`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use harn_store::{
    ClaimRuns, Claims, Error, NewRun, NewStatus, QueueLimits, Rate, Run, RunFilter, RunQueue, RunStatus,
    Scheduling, SqliteStore, Store, Submission, Submitted, Write,
};

use crate::runs::new_run;
use crate::support::{Dice, claim_one, one, wait};

type Shared = Arc<dyn Store>;

fn queue(name: &str, limits: QueueLimits) -> RunQueue {
    RunQueue { name: name.to_owned(), limits }
}

fn run(id: &str, queue: &str) -> NewRun {
    let scheduling = Scheduling { queue: queue.to_owned(), ..Scheduling::default() };
    NewRun { scheduling, ..new_run(id, NewStatus::Queued { due_ms: 10 }) }
}

fn scheduled(id: &str, priority: i32, key: Option<&str>, group: Option<&str>) -> NewRun {
    let (key, group) = (key.map(str::to_owned), group.map(str::to_owned));
    let scheduling = Scheduling { queue: "q".to_owned(), priority, key, group };
    NewRun { scheduling, ..run(id, "q") }
}

async fn submit(store: &dyn Store, queues: Vec<RunQueue>, runs: Vec<NewRun>) -> Vec<Submitted> {
    let sources = vec![("main.harn".to_owned(), b"1".to_vec())];
    store.submit_runs(Submission { queues, runs, sources, at_ms: 5 }).await.expect("the submission")
}

fn request(owner: &str, now_ms: i64, limit: usize) -> ClaimRuns {
    ClaimRuns {
        owner: owner.to_owned(),
        now_ms,
        until_ms: now_ms + 1000,
        limit,
        queues: Vec::new(),
        after: None,
        can_follow: |_| true,
    }
}

async fn claim(store: &dyn Store, now_ms: i64, limit: usize) -> Vec<String> {
    ids(&store.claim_runs(request("w", now_ms, limit)).await.expect("the claims"))
}

fn ids(claims: &Claims) -> Vec<String> {
    claims.runs.iter().map(|(run, _)| run.id.clone()).collect()
}

/// Ends a run that was claimed, or gives it back with another status.
async fn leave(store: &dyn Store, id: &str, status: NewStatus) {
    let fence = store.lease(&Run::scope(id)).await.unwrap().expect("its lease").fence();
    let (run, note) = (id.to_owned(), String::new());
    let status = Write::RunStatus { run, status, note, at_ms: 50 };
    store.write(&fence, vec![status, Write::Release]).await.unwrap();
}

const DONE: NewStatus = NewStatus::Completed { exit_code: 0 };

pub(crate) async fn runs_are_submitted_together(store: Shared) {
    let made = submit(&*store, vec![], (0..3).map(|n| run(&format!("r{n}"), "q")).collect()).await;
    assert_eq!(made, [Submitted::Created, Submitted::Created, Submitted::Created]);
    let found = store.run("r1").await.unwrap().unwrap();
    assert_eq!((found.status, found.due_ms, found.number), (RunStatus::Queued, Some(10), 2));
    assert_eq!((found.scheduling, found.lease), (run("r1", "q").scheduling, None));
    assert_eq!(store.sources("r2").await.unwrap()[0].bytes, b"1");
    // One that exists stops all of them.
    let again =
        Submission { queues: vec![], runs: vec![run("new", "q"), run("r1", "q")], sources: vec![], at_ms: 5 };
    assert_eq!(store.submit_runs(again).await, Err(Error::Exists { what: "run 'r1'".into() }));
    assert_eq!(store.run("new").await, Ok(None));
    let (taken, lease) = claim_one(&*store, "w", 10, 20).await.unwrap().unwrap();
    assert_eq!((taken.id.as_str(), taken.status, taken.starts), ("r0", RunStatus::Running, 1));
    assert_eq!(store.run("r0").await.unwrap().unwrap(), taken, "the claim returns the run as it is stored");
    one(&*store, &lease.fence(), Write::RunDelete { run: "r0".into() }).await.unwrap();
    assert_eq!(store.sources("r1").await.unwrap()[0].bytes, b"1");
    assert_eq!(store.verify().await, Ok(Vec::new()));
    for wrong in [run("x", ""), NewRun { status: NewStatus::Running, ..run("x", "q") }] {
        let wrong = Submission { queues: vec![], runs: vec![wrong], sources: vec![], at_ms: 5 };
        assert!(matches!(store.submit_runs(wrong).await, Err(Error::Invalid { .. })));
    }
    let none = queue("q", QueueLimits { concurrency: Some(0), ..QueueLimits::default() });
    assert!(matches!(store.set_run_queues(vec![none]).await, Err(Error::Invalid { .. })));
}

pub(crate) async fn a_key_belongs_to_one_run_that_has_not_ended(store: Shared) {
    let with_key = |id| scheduled(id, 0, Some("k"), None);
    let other =
        NewRun { scheduling: Scheduling { key: Some("k".into()), ..Scheduling::default() }, ..run("o", "") };
    let made = submit(&*store, vec![], vec![with_key("a"), with_key("b"), other]).await;
    let duplicate = || Submitted::Duplicate { run: "a".into() };
    assert_eq!(made, [Submitted::Created, duplicate(), Submitted::Created], "a key is one of its queue");
    assert_eq!(submit(&*store, vec![], vec![with_key("c")]).await, [duplicate()]);
    assert_eq!(claim(&*store, 10, 9).await, ["o", "a"]);
    assert_eq!(submit(&*store, vec![], vec![with_key("c")]).await, [duplicate()], "it is running");
    leave(&*store, "a", DONE).await;
    assert_eq!(submit(&*store, vec![], vec![with_key("c")]).await, [Submitted::Created]);
    // The key has another run now.
    let fence = store.acquire(&Run::scope("a"), "w", 60, 70).await.unwrap().fence();
    let reopen = Write::RunReopen { run: "a".into(), due_ms: 9, at_ms: 60 };
    let in_use = Error::KeyInUse { queue: "q".into(), key: "k".into(), run: "c".into() };
    assert_eq!(one(&*store, &fence, reopen.clone()).await, Err(in_use.clone()));
    let fresh =
        vec![Write::RunDelete { run: "a".into() }, Write::RunCreate { run: with_key("a"), at_ms: 60 }];
    assert_eq!(store.write(&fence, fresh).await, Err(in_use));
    claim(&*store, 10, 1).await;
    leave(&*store, "c", NewStatus::Failed { exit_code: 1 }).await;
    one(&*store, &fence, reopen).await.unwrap();
    assert_eq!(submit(&*store, vec![], vec![with_key("d")]).await, [duplicate()]);
}

pub(crate) async fn queues_are_served_in_turn_and_by_priority(store: Shared) {
    let runs =
        [("a1", "a", 0), ("a2", "a", 5), ("a3", "a", 0), ("b1", "b", -1), ("b2", "b", -1), ("c1", "c", 9)];
    let runs = runs.map(|(id, queue, priority)| {
        let scheduling = Scheduling { priority, ..run(id, queue).scheduling };
        NewRun { scheduling, ..run(id, queue) }
    });
    submit(&*store, vec![], runs.to_vec()).await;
    let states = store.run_queues(10).await.unwrap();
    let seen: Vec<_> = states.iter().map(|s| (&*s.queue.name, s.queued, s.ready, s.oldest_due_ms)).collect();
    assert_eq!(
        seen,
        [("a", 3, 3, Some(10)), ("b", 2, 2, Some(10)), ("c", 1, 1, Some(10)), ("default", 0, 0, None)]
    );
    let from_c = ClaimRuns { after: Some("b".into()), ..request("w", 10, 2) };
    assert_eq!(ids(&store.claim_runs(from_c).await.unwrap()), ["c1", "a2"]);
    let only_b = ClaimRuns { queues: vec!["b".into(), "none".into()], ..request("w", 10, 1) };
    assert_eq!(ids(&store.claim_runs(only_b).await.unwrap()), ["b1"]);
    assert_eq!(claim(&*store, 10, 9).await, ["a1", "b2", "a3"]);
    let state = &store.run_queues(10).await.unwrap()[0];
    assert_eq!((state.queued, state.ready, state.running), (0, 0, 3));
    // What was interrupted comes first, whatever its priority.
    submit(
        &*store,
        vec![],
        vec![NewRun { scheduling: Scheduling { priority: 99, ..run("", "b").scheduling }, ..run("b3", "b") }],
    )
    .await;
    let only_b = ClaimRuns { queues: vec!["b".into()], ..request("v", 5000, 1) };
    assert_eq!(ids(&store.claim_runs(only_b).await.unwrap()), ["b1"]);
}

pub(crate) async fn a_queue_limits_what_executes_at_once(store: Shared) {
    let limits = QueueLimits { concurrency: Some(3), group_concurrency: Some(2), ..QueueLimits::default() };
    let runs = (0..4).map(|n| scheduled(&format!("x{n}"), 0, None, Some("x")));
    let runs = runs.chain((0..2).map(|n| scheduled(&format!("y{n}"), 0, None, Some("y")))).collect();
    submit(&*store, vec![queue("q", limits)], runs).await;
    assert_eq!(store.run_queues(10).await.unwrap()[1].queue, queue("q", limits));
    let claims = store.claim_runs(request("w", 10, 9)).await.unwrap();
    assert_eq!((ids(&claims), claims.is_limited), (vec!["x0".into(), "x1".into(), "y0".into()], true));
    leave(&*store, "x0", NewStatus::Suspended { due_ms: Some(20), answers: 0 }).await;
    assert_eq!(claim(&*store, 15, 9).await, ["x2"], "a suspended run does not execute");
    leave(&*store, "y0", DONE).await;
    assert_eq!(claim(&*store, 25, 9).await, ["y1"], "the group is full");
    leave(&*store, "x1", DONE).await;
    assert_eq!(claim(&*store, 25, 9).await, ["x3"], "it has been due for longer than x0");
    // Interrupted runs do not execute, and are limited when they are taken again.
    assert_eq!(claim(&*store, 5000, 9).await, ["x2", "x3", "y1"]);
    store.set_run_queues(vec![queue("q", QueueLimits::default())]).await.unwrap();
    let claims = store.claim_runs(request("w", 5000, 9)).await.unwrap();
    assert_eq!((ids(&claims), claims.is_limited), (vec!["x0".into()], false));
}

pub(crate) async fn a_queue_limits_the_rate_of_starts(store: Shared) {
    let rate = |count, period_ms| Some(Rate { count, period_ms });
    let limits = QueueLimits { rate: rate(3, 1000), group_rate: rate(2, 2000), ..QueueLimits::default() };
    let runs = (0..9).map(|n| scheduled(&format!("r{n}"), 0, None, Some("g").filter(|_| n < 6)));
    submit(&*store, vec![queue("q", limits)], runs.collect()).await;
    let claim = async |now_ms| {
        let claim = ClaimRuns { until_ms: 1_000_000, ..request("w", now_ms, 9) };
        let claims = store.claim_runs(claim).await.unwrap();
        (ids(&claims).join(" "), claims.is_limited)
    };
    assert_eq!(claim(100).await, ("r0 r1 r6".into(), true));
    leave(&*store, "r0", NewStatus::Suspended { due_ms: Some(200), answers: 0 }).await;
    assert_eq!(claim(1099).await, ("r0".into(), true), "a run that continues is not a start");
    assert_eq!(claim(1100).await, ("r7 r8".into(), true), "two starts of the group are within its period");
    assert_eq!(claim(2099).await, (String::new(), true));
    assert_eq!(claim(2100).await, ("r2 r3".into(), true));
    assert_eq!(claim(4099).await, (String::new(), true));
    assert_eq!(claim(4100).await, ("r4 r5".into(), false));
}

/// Limits, and what executes now.
#[derive(Default)]
struct Seen {
    executed: BTreeMap<String, u32>,
    most: BTreeMap<String, u32>,
    order: Vec<(String, i32)>,
}

impl Seen {
    fn begin(&mut self, run: &Run) {
        let Scheduling { queue, group, priority, .. } = &run.scheduling;
        self.order.push((run.id.clone(), *priority));
        for name in [Some(queue), group.as_ref()].into_iter().flatten() {
            let count = self.executed.entry(name.clone()).or_default();
            *count += 1;
            let most = self.most.entry(name.clone()).or_default();
            *most = (*most).max(*count);
        }
    }

    fn end(&mut self, run: &Run) {
        for name in [Some(&run.scheduling.queue), run.scheduling.group.as_ref()].into_iter().flatten() {
            *self.executed.get_mut(name).expect("it has begun") -= 1;
        }
    }
}

/// Workers with connections of their own take random runs: each run once, and never more than the limits allow.
fn limits_hold_over_workers(open: impl Fn() -> Shared) {
    let limits = QueueLimits { concurrency: Some(4), group_concurrency: Some(2), ..QueueLimits::default() };
    let mut dice = Dice(7);
    let runs: Vec<NewRun> = (0..120)
        .map(|n| {
            let group = ["g0", "g1", "g2"][dice.roll(3) as usize];
            let mut run = scheduled(&format!("r{n}"), dice.roll(3) as i32, None, Some(group));
            if dice.roll(4) == 0 {
                run.scheduling = Scheduling { queue: "free".into(), group: None, ..run.scheduling };
            }
            run
        })
        .collect();
    wait(async { submit(&*open(), vec![queue("q", limits)], runs).await });
    let seen = Mutex::new(Seen::default());
    std::thread::scope(|threads| {
        for worker in 0..4 {
            let (store, seen) = (open(), &seen);
            threads.spawn(move || {
                let mut dice = Dice(worker);
                let mut own: Vec<(Run, harn_store::Lease)> = Vec::new();
                let mut after = None;
                wait(async {
                    loop {
                        let request = ClaimRuns {
                            after: after.clone(),
                            until_ms: 1_000_000,
                            ..request(&format!("w{worker}"), 10, 1 + dice.roll(3) as usize)
                        };
                        let claims = store.claim_runs(request).await.unwrap();
                        for (run, lease) in claims.runs {
                            seen.lock().unwrap().begin(&run);
                            after = Some(run.scheduling.queue.clone());
                            own.push((run, lease));
                        }
                        if own.is_empty() && !claims.is_limited {
                            break;
                        }
                        while dice.roll(3) != 0 && !own.is_empty() {
                            let (run, lease) = own.swap_remove(dice.roll(own.len() as u64) as usize);
                            seen.lock().unwrap().end(&run);
                            let (id, note) = (run.id.clone(), String::new());
                            let status = Write::RunStatus { run: id, status: DONE, note, at_ms: 11 };
                            store.write(&lease.fence(), vec![status, Write::Release]).await.unwrap();
                        }
                    }
                });
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    let mut ids: Vec<&String> = seen.order.iter().map(|(id, _)| id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!((seen.order.len(), ids.len()), (120, 120), "each of them once");
    assert!(seen.most["q"] <= 4 && seen.most["free"] >= 1, "{:?}", seen.most);
    assert!(["g0", "g1", "g2"].iter().all(|group| seen.most[*group] <= 2), "{:?}", seen.most);
    let ended = RunFilter { status: Some(RunStatus::Completed), ..RunFilter::default() };
    assert_eq!(wait(async { open().runs(ended, 999).await }).unwrap().len(), 120);
}

#[test]
fn limits_hold_over_workers_on_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    limits_hold_over_workers(|| Arc::new(SqliteStore::new(&path)));
}

#[cfg(feature = "postgres")]
#[test]
fn limits_hold_over_workers_on_a_server() {
    let Some(url) = crate::server::database() else { return };
    limits_hold_over_workers(|| Arc::new(harn_store::PostgresStore::new(&url).unwrap()));
}
