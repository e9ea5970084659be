//! Runs cases and tests on worker threads, each in its own VM, and stops those that exceed the time limit.

#![expect(
    clippy::disallowed_methods,
    reason = "one clock for the threads that run cases and the one that watches them"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use harn_vm::Interrupt;

use super::captured::{How, Replies, findings_of, run_captured};
use super::case::Case;
use super::expect::{Expectation, Outcome};
use crate::limits::default_memory;

/// Maximum time between an interrupt and the end of a case.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// The result of a case.
#[derive(Clone, Debug)]
pub(crate) struct Result {
    /// Name of the case.
    pub(crate) name: String,
    /// Duration of the case.
    pub(crate) time: Duration,
    /// The failure message.
    pub(crate) failure: Option<String>,
}

/// A running job: its index, its deadline, and how to interrupt it.
struct Running {
    index: usize,
    until: Instant,
    interrupt: Interrupt,
    stopped: bool,
}

/// The job of a thread. It is shared with the watching thread until that abandons the job's thread.
type Slot = Arc<Mutex<Option<Running>>>;

/// The result of a job.
pub(crate) struct Ended<R> {
    /// Duration of the job.
    pub(crate) time: Duration,
    /// Whether it was stopped because of the time limit.
    pub(crate) timed_out: bool,
    /// The return value, or the message of a panic.
    pub(crate) result: std::result::Result<R, String>,
}

/// The jobs, and the settings of their threads.
struct Work<J, F> {
    all: Vec<J>,
    each: F,
    next: AtomicUsize,
    limit: Duration,
    /// Memory limit of each job.
    memory: usize,
}

impl<J, F> Work<J, F> {
    /// Runs jobs until none is left or this thread was abandoned.
    fn run<R>(&self, slot: &Slot, ended: &Sender<(usize, Ended<R>)>)
    where
        F: Fn(&J, &dyn Fn(&Interrupt)) -> R,
    {
        harn_value::memory::set_limit(self.memory);
        while Arc::strong_count(slot) > 1 {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.all.get(index) else { break };
            let end = run_one(index, slot, self.limit, |ready| (self.each)(job, ready));
            if ended.send((index, end)).is_err() {
                break;
            }
        }
    }
}

/// Runs `jobs` jobs in parallel and interrupts those that take longer than `limit`. `each` runs a job and passes on its
/// interrupt handle. The results are in the order of the jobs. The threads of jobs that do not stop are abandoned, and
/// these jobs have a result, too.
pub(crate) fn run_each<J: Send + Sync + 'static, R: Send + 'static>(
    all: Vec<J>,
    jobs: usize,
    limit: Duration,
    each: impl Fn(&J, &dyn Fn(&Interrupt)) -> R + Send + Sync + 'static,
) -> Vec<Ended<R>> {
    run_or_leave(all, jobs, limit, STOP_LIMIT, each)
}

fn run_or_leave<J: Send + Sync + 'static, R: Send + 'static>(
    all: Vec<J>,
    jobs: usize,
    limit: Duration,
    stop_limit: Duration,
    each: impl Fn(&J, &dyn Fn(&Interrupt)) -> R + Send + Sync + 'static,
) -> Vec<Ended<R>> {
    let jobs = jobs.clamp(1, all.len().max(1));
    let mut results: Vec<Option<Ended<R>>> = all.iter().map(|_| None).collect();
    let mut missing = results.len();
    // Together, the jobs may use the memory of one program.
    let memory = default_memory().unwrap_or(harn_value::memory::DEFAULT_LIMIT) / jobs;
    let work = Arc::new(Work { all, each, next: AtomicUsize::new(0), limit, memory });
    let (sender, ended) = mpsc::channel();
    let start = || {
        let slot = Slot::default();
        let (work, mine, sender) = (work.clone(), slot.clone(), sender.clone());
        std::thread::spawn(move || work.run(&mine, &sender));
        slot
    };
    let mut slots: Vec<Slot> = (0..jobs).map(|_| start()).collect();
    while missing > 0 {
        if let Ok((index, end)) = ended.recv_timeout(Duration::from_millis(20))
            && results[index].is_none()
        {
            results[index] = Some(end);
            missing -= 1;
        }
        let now = Instant::now();
        for slot in &mut slots {
            let left = {
                let mut running = slot.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(job) = running.as_mut() else { continue };
                if now > job.until && !job.stopped {
                    job.stopped = true;
                    job.interrupt.interrupt();
                }
                if now <= job.until + stop_limit {
                    continue;
                }
                job.index
            };
            // The thread cannot be ended, so a new one replaces it.
            *slot = start();
            if results[left].is_none() {
                let result = Err("it does not stop".to_owned());
                results[left] = Some(Ended { time: limit + stop_limit, timed_out: true, result });
                missing -= 1;
            }
        }
    }
    results.into_iter().flatten().collect()
}

fn run_one<R>(
    index: usize,
    slot: &Slot,
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

/// Runs all cases. The results are in the order of the cases.
pub(crate) fn run(
    cases: &[Case],
    jobs: usize,
    limit: Duration,
    how: How,
    replies: &Replies,
    skills: &[PathBuf],
) -> Vec<Result> {
    let (replies, skills) = (replies.clone(), skills.to_vec());
    let ended = run_each(cases.to_vec(), jobs, limit, move |case, ready| match case.expectation {
        Expectation::Findings(_) => findings_of(&case.path),
        _ => run_captured(&case.path, case.mock.as_deref(), how, &replies, &skills, ready),
    });
    cases.iter().zip(ended).map(|(case, ended)| judge(case, ended, limit)).collect()
}

fn judge(case: &Case, ended: Ended<std::result::Result<Outcome, String>>, limit: Duration) -> Result {
    let failure = match ended.result {
        Err(text) if ended.timed_out => {
            Some(format!("{}: timed out after {}ms, and {text}", case.name, limit.as_millis()))
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_does_not_stop_is_left_behind_and_the_others_are_reported() {
        // Long enough for a panic that prints a backtrace.
        let short = Duration::from_secs(2);
        let ended = run_or_leave(vec!["deaf", "quick", "deaf", "panics"], 1, short, short, |job, ready| {
            ready(&Interrupt::default());
            match *job {
                // This thread ends with the process.
                "deaf" => loop {
                    std::thread::park();
                },
                "panics" => panic!("oh"),
                _ => *job,
            }
        });
        let shown: Vec<_> = ended.into_iter().map(|ended| (ended.timed_out, ended.result)).collect();
        let deaf = (true, Err("it does not stop".to_owned()));
        let panicked = (false, Err("the interpreter panicked: oh".to_owned()));
        assert_eq!(shown, [deaf.clone(), (false, Ok("quick")), deaf, panicked]);
    }
}
