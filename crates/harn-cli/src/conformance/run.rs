//! Runs cases and tests on worker threads, each in a machine of its own, and stops those that take too long.

#![expect(
    clippy::disallowed_methods,
    reason = "one clock for the threads that run cases and the one that watches them"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use harn_vm::Interrupt;

use super::captured::{How, Replies, run_captured};
use super::case::Case;
use super::expect::Outcome;

/// Longest time between the request to stop and the end of a case.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// How a case went.
#[derive(Clone, Debug)]
pub(crate) struct Result {
    /// The case's name.
    pub(crate) name: String,
    /// How long it took.
    pub(crate) time: Duration,
    /// What to show when it failed.
    pub(crate) failure: Option<String>,
}

/// A case that is running: which, until when, and how to stop it.
struct Running {
    index: usize,
    until: Instant,
    interrupt: Interrupt,
    stopped: bool,
}

type Slots = Vec<Mutex<Option<Running>>>;

/// How a run of one job ended.
pub(crate) struct Ended<R> {
    /// How long it took.
    pub(crate) time: Duration,
    /// It was stopped because its time was over.
    pub(crate) timed_out: bool,
    /// What it gave, or the text of a panic.
    pub(crate) result: std::result::Result<R, String>,
}

/// Runs jobs on threads, `jobs` at a time, and stops those that take longer than `limit`. `each` runs one and hands over
/// the means to stop it. The results are in the order of the jobs.
pub(crate) fn run_each<J: Sync, R: Send>(
    all: &[J],
    jobs: usize,
    limit: Duration,
    name: impl Fn(&J) -> &str + Sync,
    each: impl Fn(&J, &dyn Fn(&Interrupt)) -> R + Sync,
) -> Vec<Ended<R>> {
    let jobs = jobs.clamp(1, all.len().max(1));
    let next = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    let slots: Slots = (0..jobs).map(|_| Mutex::new(None)).collect();
    let results: Mutex<Vec<Option<Ended<R>>>> = Mutex::new(all.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(&slots, |index| all.get(index).map_or("", &name), &done));
        let workers: Vec<_> = slots
            .iter()
            .map(|slot| {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(job) = all.get(index) else { break };
                        let ended = run_one(index, slot, limit, |ready| each(job, ready));
                        results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(ended);
                    }
                })
            })
            .collect();
        for worker in workers {
            let _ = worker.join();
        }
        done.store(true, Ordering::Relaxed);
        watch.thread().unpark();
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().flatten().collect()
}

fn run_one<R>(
    index: usize,
    slot: &Mutex<Option<Running>>,
    limit: Duration,
    job: impl FnOnce(&dyn Fn(&Interrupt)) -> R,
) -> Ended<R> {
    let begin = Instant::now();
    let running = |interrupt: &Interrupt| {
        let entry = Running { index, until: begin + limit, interrupt: interrupt.clone(), stopped: false };
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(entry);
    };
    let result = catch_unwind(AssertUnwindSafe(|| job(&running)));
    let entry = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ended {
        time: begin.elapsed(),
        timed_out: entry.is_some_and(|entry| entry.stopped),
        result: result.map_err(|panic| format!("the interpreter panicked: {}", panic_text(&*panic))),
    }
}

/// Runs all cases; the results are in the order of the cases.
pub(crate) fn run(
    cases: &[Case],
    jobs: usize,
    limit: Duration,
    how: How,
    replies: &Replies,
    skills: &[PathBuf],
) -> Vec<Result> {
    let ended = run_each(
        cases,
        jobs,
        limit,
        |case| &case.name,
        |case, ready| run_captured(&case.path, case.mock.as_deref(), how, replies, skills, ready),
    );
    cases.iter().zip(ended).map(|(case, ended)| judge(case, ended, limit)).collect()
}

fn judge(case: &Case, ended: Ended<std::result::Result<Outcome, String>>, limit: Duration) -> Result {
    let failure = match ended.result {
        _ if ended.timed_out => Some(format!("{}: timed out after {}ms", case.name, limit.as_millis())),
        Ok(Ok(outcome)) => case.expectation.mismatch(&case.name, &outcome),
        Ok(Err(text)) | Err(text) => Some(format!("{}: {text}", case.name)),
    };
    Result { name: case.name.clone(), time: ended.time, failure }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text")
}

/// Stops cases whose time is over, until all are done.
fn watch<'a>(slots: &Slots, name: impl Fn(usize) -> &'a str, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_millis(20));
        let now = Instant::now();
        for slot in slots {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(running) = slot.as_mut() else { continue };
            if now > running.until && !running.stopped {
                running.stopped = true;
                running.interrupt.interrupt();
            }
            if now > running.until + STOP_LIMIT {
                // Its thread cannot be ended, so the results of the others cannot be waited for.
                eprintln!("error: {} does not stop; giving up", name(running.index));
                std::process::exit(1);
            }
        }
    }
}
