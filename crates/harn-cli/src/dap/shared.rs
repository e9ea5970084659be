//! The state shared by the thread that reads requests and the one that runs the program.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use harn_value::Data as Json;
use harn_vm::Interrupt;
use tokio::sync::oneshot;

use super::breakpoints::Breakpoints;
use super::wire::{Request, Wire};

/// How far the program runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Mode {
    /// To the next breakpoint.
    #[default]
    Free,
    /// To the next statement.
    Pause,
    /// To the first statement.
    Entry,
    /// A step of a task that started at this depth and line.
    Step { step: Step, task: String, depth: usize, line: usize },
}

/// The kinds of step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Over,
    In,
    Out,
}

/// Which thrown errors stop the program.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Filters {
    pub(super) all: bool,
    pub(super) uncaught: bool,
}

/// The client's response to a reverse request: the body or an error message.
type Answer = Result<Json, String>;

#[derive(Default)]
pub(super) struct State {
    pub(super) breakpoints: Breakpoints,
    pub(super) filters: Filters,
    pub(super) mode: Mode,
    /// Requests received while the program is stopped.
    pub(super) queue: VecDeque<Request>,
    pub(super) stopped: bool,
    /// The client has disconnected or terminates the program.
    pub(super) ending: bool,
    /// The program no longer stops.
    pub(super) detached: bool,
    pub(super) interrupt: Option<Interrupt>,
    /// Whether the client handles host calls.
    pub(super) hosts: bool,
    /// The tasks seen so far. The number of a task is its index plus one.
    pub(super) tasks: Vec<String>,
}

impl State {
    /// Returns the number of a task.
    pub(super) fn thread(&mut self, task: &str) -> usize {
        let known = self.tasks.iter().position(|known| known == task);
        known.unwrap_or_else(|| {
            self.tasks.push(task.to_owned());
            self.tasks.len() - 1
        }) + 1
    }
}

/// The state of a session, shared by both threads.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) wire: Wire,
    state: Mutex<State>,
    wake: Condvar,
    asked: Mutex<Asked>,
}

/// Pending reverse requests, by number.
#[derive(Default)]
struct Asked {
    waiting: BTreeMap<i64, oneshot::Sender<Answer>>,
    /// The client no longer responds.
    over: bool,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the program's thread.
    pub(super) fn wake(&self) {
        self.wake.notify_all();
    }

    /// Waits for the next request while the program is stopped. Returns `None` if the program should end.
    pub(super) fn next(&self) -> Option<Request> {
        let mut state = self.state();
        loop {
            if state.ending || state.detached {
                return None;
            }
            if let Some(request) = state.queue.pop_front() {
                return Some(request);
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the program.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.ending = true;
        if let Some(interrupt) = &state.interrupt {
            interrupt.interrupt();
        }
        drop(state);
        *self.asked() = Asked { waiting: BTreeMap::new(), over: true };
        self.wake();
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a reverse request to the client. The result is an error if the client disconnects.
    pub(super) fn ask(&self, command: &str, arguments: Json) -> oneshot::Receiver<Answer> {
        let (give, take) = oneshot::channel();
        self.wire.ask(command, arguments, |number| {
            let mut asked = self.asked();
            if !asked.over {
                asked.waiting.insert(number, give);
            }
        });
        take
    }

    /// Resolves a reverse request. Its caller may be gone because its deadline expired.
    pub(super) fn answered(&self, number: i64, answer: Answer) {
        let waiting = self.asked().waiting.remove(&number);
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer);
        }
    }

    /// Sends output of the program.
    pub(super) fn output(&self, category: &str, text: &str, data: Json) {
        let mut body = harn_value::json!({"category": category, "output": text});
        if !data.is_null() {
            body["data"] = data;
        }
        self.wire.event("output", body);
    }
}
