//! Runs cases on worker threads, each case in a machine of its own, and stops those that take too long.

#![expect(
    clippy::disallowed_methods,
    reason = "one clock for the threads that run cases and the one that watches them"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use harn_vm::Interrupt;

use super::case::Case;
use crate::program;

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

/// Runs all cases; the results are in the order of the cases.
pub(crate) fn run(cases: &[Case], jobs: usize, limit: Duration, memory: bool) -> Vec<Result> {
    let jobs = jobs.clamp(1, cases.len().max(1));
    let next = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    let slots: Slots = (0..jobs).map(|_| Mutex::new(None)).collect();
    let results = Mutex::new(vec![None; cases.len()]);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(&slots, cases, &done));
        let workers: Vec<_> = slots
            .iter()
            .map(|slot| {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(case) = cases.get(index) else { break };
                        let result = run_case(case, index, slot, limit, memory);
                        results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
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

fn run_case(
    case: &Case,
    index: usize,
    slot: &Mutex<Option<Running>>,
    limit: Duration,
    memory: bool,
) -> Result {
    let begin = Instant::now();
    let running = |interrupt: &Interrupt| {
        let entry = Running { index, until: begin + limit, interrupt: interrupt.clone(), stopped: false };
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(entry);
    };
    let mock = case.mock.as_deref();
    let outcome = catch_unwind(AssertUnwindSafe(|| program::run_captured(&case.path, mock, memory, running)));
    let entry = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    let time = begin.elapsed();
    let failure = match outcome {
        _ if entry.is_some_and(|e| e.stopped) => {
            Some(format!("{}: timed out after {}ms", case.name, limit.as_millis()))
        }
        Ok(Ok(outcome)) => case.expectation.mismatch(&case.name, &outcome),
        Ok(Err(text)) => Some(format!("{}: {text}", case.name)),
        Err(panic) => Some(format!("{}: the interpreter panicked: {}", case.name, panic_text(&*panic))),
    };
    Result { name: case.name.clone(), time, failure }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text")
}

/// Stops cases whose time is over, until all are done.
fn watch(slots: &Slots, cases: &[Case], done: &AtomicBool) {
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
                eprintln!("error: {} does not stop; giving up", cases[running.index].name);
                std::process::exit(1);
            }
        }
    }
}
