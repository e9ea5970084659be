//! Processes that execute the runs of a worker, one after the other.
//!
//! A process receives one line per run on its standard input ([`crate::cmd::jobs`]). After each run it writes a marker
//! to standard output and standard error. The marker shows that all output of the run has been read and that the
//! process is ready for the next run. A run that ends its process affects no other run.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use harn_system::Command;
use harn_system::real::process::{self, Source};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::flag::Flag;
use crate::cmd::jobs::{Job, Mark};
use crate::logs::{Lines, Stream};

/// Whether a process executes several runs. On other systems it cannot reserve standard input for the jobs.
const IS_WARM: bool = cfg!(unix);

/// Maximum number of runs per process. It limits the effect of leaked resources.
const RUNS: u32 = if IS_WARM { 500 } else { 1 };

/// How long a process stays idle before it is ended.
const IDLE: Duration = Duration::from_secs(30);

/// A process that executes runs.
pub(super) struct Runner {
    dir: Option<PathBuf>,
    runs: UnboundedSender<Vec<u8>>,
    state: Rc<State>,
    count: Cell<u32>,
    /// When it became idle.
    idle_from: Cell<Duration>,
}

/// The result of a run's process.
pub(super) struct Outcome {
    pub(super) code: Option<i32>,
    pub(super) how: String,
}

struct State {
    run: RefCell<String>,
    out: RefCell<Output>,
    err: RefCell<Output>,
    /// Set when the process has ended.
    ended: RefCell<Option<Outcome>>,
    changed: Notify,
}

/// Prints output of a run.
pub(super) type Show = dyn Fn(&str, Stream, String);

impl Runner {
    /// Starts a process. It receives SIGTERM when `ask` is set, and is killed when `stop` is set.
    pub(super) fn start(
        mut command: Command,
        first: &Job,
        [ask, stop]: [Rc<Flag>; 2],
        mark: Mark,
        show: Rc<Show>,
    ) -> Rc<Runner> {
        command.arguments = match IS_WARM {
            true => vec!["resume".to_owned(), "--jobs".to_owned(), mark.token().to_owned()],
            false => {
                let lease = format!("{}:{}", first.epoch, first.lease_ms);
                vec!["resume".to_owned(), first.id.clone(), "--lease".to_owned(), lease]
            }
        };
        let output = || RefCell::new(Output::new(&mark));
        let state = Rc::new(State {
            run: RefCell::default(),
            out: output(),
            err: output(),
            ended: RefCell::default(),
            changed: Notify::new(),
        });
        let (runs, feed) = unbounded_channel();
        let dir = command.dir.clone();
        let own = Rc::clone(&state);
        harn_vm::spawn(async move {
            let start_dir = command.dir.clone();
            let told = |source, piece: &[u8]| own.take(source, piece, &*show);
            let ran = process::run_told(command, Some(feed), ask.wait(), stop.wait(), told).await;
            for (stream, output) in [(Stream::Out, &own.out), (Stream::Err, &own.err)] {
                show(&own.run.borrow(), stream, output.borrow_mut().rest());
            }
            let ended = match ran {
                Ok(ran) => {
                    let how = match (ran.code, ran.signal) {
                        (Some(code), _) => format!("exit code {code}"),
                        (None, signal) => format!("signal {}", signal.unwrap_or_default()),
                    };
                    Outcome { code: ran.code, how }
                }
                Err(error) => {
                    let dir = start_dir.map_or_else(String::new, |dir| format!(" in {}", dir.display()));
                    Outcome { code: None, how: format!("its process cannot be started{dir}: {error}") }
                }
            };
            own.ended.replace(Some(ended));
            own.changed.notify_waiters();
        });
        Rc::new(Runner { dir, runs, state, count: Cell::default(), idle_from: Cell::default() })
    }

    /// Executes a run.
    pub(super) async fn execute(&self, job: &Job) -> Outcome {
        let state = &self.state;
        job.id.clone_into(&mut state.run.borrow_mut());
        self.count.set(self.count.get() + 1);
        // The process may have ended.
        let _ = self.runs.send(job.line().into_bytes());
        loop {
            let changed = state.changed.notified();
            let marks = (state.out.borrow().end, state.err.borrow().end);
            if let (Some(_), Some(code)) = marks {
                (state.out.borrow_mut().end, state.err.borrow_mut().end) = (None, None);
                return Outcome { code: Some(code), how: format!("exit code {code}") };
            }
            if let Some(Outcome { code, how }) = &*state.ended.borrow() {
                return Outcome { code: *code, how: how.clone() };
            }
            changed.await;
        }
    }

    fn may_continue(&self) -> bool {
        self.count.get() < RUNS && self.state.ended.borrow().is_none()
    }
}

impl State {
    /// Handles output of the process.
    fn take(&self, source: Source, piece: &[u8], show: &Show) {
        let (stream, output) = match source {
            Source::Out => (Stream::Out, &self.out),
            Source::Err => (Stream::Err, &self.err),
        };
        let text = output.borrow_mut().add(piece);
        show(&self.run.borrow(), stream, text);
        if output.borrow().end.is_some() {
            self.changed.notify_waiters();
        }
    }
}

/// The idle processes of a worker.
#[derive(Default)]
pub(super) struct Runners(RefCell<Vec<Rc<Runner>>>);

impl Runners {
    /// Returns an idle process of the directory. Otherwise, ends a process of another directory if there are more than
    /// `limit`.
    pub(super) fn take(&self, dir: Option<&PathBuf>, limit: usize) -> Option<Rc<Runner>> {
        let mut idle = self.0.borrow_mut();
        idle.retain(|runner| runner.may_continue());
        if let Some(at) = idle.iter().rposition(|runner| runner.dir.as_ref() == dir) {
            return Some(idle.remove(at));
        }
        if idle.len() > limit {
            idle.remove(0);
        }
        None
    }

    /// Returns a process to the pool after its run.
    pub(super) fn put(&self, runner: Rc<Runner>, now: Duration) {
        if runner.may_continue() {
            runner.idle_from.set(now);
            self.0.borrow_mut().push(runner);
        }
    }

    /// Ends processes that have been idle for too long, by closing their standard input.
    pub(super) fn retire(&self, now: Duration) {
        self.0.borrow_mut().retain(|runner| now.saturating_sub(runner.idle_from.get()) < IDLE);
    }

    /// Ends all idle processes.
    pub(super) fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

/// One output stream of a process.
struct Output {
    mark: Vec<u8>,
    /// Bytes that may be the start of a marker.
    held: Vec<u8>,
    lines: Lines,
    /// The exit code in the marker.
    end: Option<i32>,
}

impl Output {
    fn new(mark: &Mark) -> Output {
        Output { mark: mark.prefix(), held: Vec::new(), lines: Lines::default(), end: None }
    }

    /// Adds received bytes. Returns the lines to print.
    fn add(&mut self, piece: &[u8]) -> String {
        self.held.extend_from_slice(piece);
        let (mut shown, mut from) = (String::new(), 0);
        while let Some(at) = self.held[from..].iter().position(|byte| *byte == self.mark[0]) {
            let at = from + at;
            let rest = &self.held[at..];
            if !rest.starts_with(&self.mark) {
                if self.mark.starts_with(rest) {
                    return shown + &self.flush(at);
                }
                from = at + 1;
                continue;
            }
            let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
                return shown + &self.flush(at);
            };
            let code =
                std::str::from_utf8(&rest[self.mark.len()..length]).ok().and_then(|code| code.parse().ok());
            shown += &self.flush(at);
            shown += &self.lines.rest();
            self.held.drain(..=length);
            self.end = code.or(Some(1));
            from = 0;
        }
        let length = self.held.len();
        shown + &self.flush(length)
    }

    /// Removes and returns the lines before a position.
    fn flush(&mut self, at: usize) -> String {
        let rest = self.held.split_off(at);
        let before = std::mem::replace(&mut self.held, rest);
        self.lines.add(&before)
    }

    fn rest(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        self.lines.add(&held) + &self.lines.rest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_ends_the_output_of_a_run_wherever_it_is_cut() {
        let mark = Mark::new("0123abcd".to_owned());
        let text = format!("a\nb\u{1e}c{}{}next", mark.line(75), "");
        for cut in 0..text.len() {
            let mut output = Output::new(&mark);
            let (first, last) = text.as_bytes().split_at(cut);
            let mut shown = output.add(first);
            shown += &output.add(last);
            assert_eq!((shown.as_str(), output.end), ("a\nb\u{1e}c", Some(75)), "cut at {cut}");
            assert_eq!(output.rest(), "next");
        }
        let mut output = Output::new(&mark);
        assert_eq!(output.add(b"\x1e0123 1\nx\n"), "\u{1e}0123 1\nx\n");
        assert_eq!(output.end, None);
    }
}
