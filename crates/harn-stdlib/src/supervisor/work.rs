//! The behavior of a supervisor: starts its children, waits for their ends, restarts and stops them.

use std::rc::Rc;
use std::time::Duration;

use harn_system::SystemExt;
use harn_value::Value;
use harn_vm::task::CANCELLED;
use harn_vm::{Cx, Error, ErrorKind, NativeFunction, Result, Supervised, among_tasks};

use rustc_hash::FxHashSet;

use super::plan::Plan;
use super::policy::{Mode, Strategy};
use super::state::{ChildStatus, Due, Status, Supervisor, Supervisors};
use super::view::{dict, int};

/// Time limit for the cleanup of an aborted child.
const GRACE: Duration = Duration::from_millis(250);

/// Represents a call from outside among the numbers of starts.
const CALL: usize = 0;

/// The next event for which the supervisor waits.
enum Next {
    /// The end of a child, or the time of the next restart.
    Until(Duration),
    /// The end of a child.
    Ends,
    /// Nothing: no child runs or waits.
    Never,
}

impl Supervisor {
    /// Starts a supervisor and its children.
    ///
    /// # Errors
    /// `spec` is invalid, or the memory limit is exceeded.
    pub(crate) fn start(cx: &Cx, spec: &Value) -> Result<Rc<Supervisor>> {
        let plan = Plan::read(spec)?;
        harn_value::memory::check(0)?;
        let tasks: Vec<Value> = plan.children.iter().map(|child| child.task.clone()).collect();
        let supervisor = cx.state::<Supervisors>().add(plan)?;
        let own = supervisor.clone();
        // The tasks are passed as arguments, so that restarts use the variables that the tasks capture now.
        let work = NativeFunction::value("supervisor", move |cx, tasks| {
            let own = own.clone();
            async move {
                let result = own.work(&cx, &tasks).await;
                if let Err(error) = &result {
                    let what = format!("supervisor '{}' has ended, and its children with it", own.id);
                    cx.tell_failure(&what, "`--max-memory` sets the limit", error);
                }
                result
            }
        });
        let task = cx.spawn_supervisor(supervisor.id.clone(), &work, tasks.clone());
        let _ = supervisor.task.set(task);
        supervisor.note(cx, "supervisor_started", None, None);
        for (at, task) in tasks.iter().enumerate() {
            supervisor.start_child(cx, at, task, "child_started");
        }
        Ok(supervisor)
    }

    fn start_child(&self, cx: &Cx, at: usize, task: &Value, kind: &'static str) {
        let Some(own) = self.task.get() else { return };
        let number = self.next_start();
        let (who, told) = {
            let state = self.state.borrow();
            let child = &state.children[at];
            let told = dict([
                ("attempt", int(child.restarts + 1)),
                ("child_kind", Value::from(&child.kind)),
                ("child_name", Value::from(&child.name)),
                ("restart_count", int(child.restarts)),
                ("supervisor_id", Value::from(&self.id)),
            ]);
            let (name, kind) = (child.name.clone(), child.kind.clone());
            (Supervised { supervisor: self.id.clone(), name, kind }, told)
        };
        let task = cx.spawn_supervised(own, who, task, vec![told], (&self.ends, number));
        {
            let mut state = self.state.borrow_mut();
            state.metrics.started += 1;
            state.runs(at, number, task);
        }
        self.note(cx, kind, Some(at), None);
    }

    /// Supervises the children until no child runs or waits, or until it is stopped.
    async fn work(&self, cx: &Cx, tasks: &[Value]) -> Result<Value> {
        let _left = Left(self);
        loop {
            if self.state.borrow().stop_at.is_some() {
                self.stop(cx).await;
                break;
            }
            self.start_due(cx, tasks)?;
            let put_off = self.state.borrow_mut().put_off.pop_front();
            let number = match (put_off, self.next(cx)) {
                (Some(number), _) => Some(number),
                (None, Next::Until(wait)) => cx.vm().system().within(wait, self.ends.next()).await,
                (None, Next::Ends) => Some(among_tasks(self.ends.next()).await),
                (None, Next::Never) => {
                    self.state.borrow_mut().status = Status::Completed;
                    self.note(cx, "supervisor_completed", None, None);
                    break;
                }
            };
            if let Some(at) = number.and_then(|number| self.child_of(number)) {
                self.ended(cx, at).await;
            }
            if self.state.borrow().status == Status::Escalated {
                break;
            }
        }
        Ok(Value::NIL)
    }

    /// Returns the child of a start, unless the start has ended.
    fn child_of(&self, number: usize) -> Option<usize> {
        self.state.borrow().running.get(&number).copied()
    }

    fn next(&self, cx: &Cx) -> Next {
        let state = self.state.borrow();
        match state.waiting.first() {
            Some((at, _)) => Next::Until(at.saturating_sub(cx.vm().system().monotonic())),
            None if state.running.is_empty() => Next::Never,
            None => Next::Ends,
        }
    }

    /// Restarts the children that are due.
    fn start_due(&self, cx: &Cx, tasks: &[Value]) -> Result<()> {
        let first = || self.state.borrow().waiting.first().copied();
        if first().is_none() {
            return Ok(());
        }
        let now = cx.vm().system().monotonic();
        while let Some((_, at)) = first().filter(|(due, _)| *due <= now) {
            harn_value::memory::check(0)?;
            self.start_child(cx, at, &tasks[at], "child_restart_started");
        }
        Ok(())
    }

    /// Handles the end of a child.
    async fn ended(&self, cx: &Cx, at: usize) {
        match self.take_end(cx, at) {
            // The owner of the child or the program ends.
            None => self.child_stopped(cx, at),
            Some(Ok(_)) => {
                self.child_stopped(cx, at);
                self.start_again_after_success(cx, at);
            }
            Some(Err(error)) => {
                let text = cx.settled_text(&error);
                self.child_failed(cx, at, &text);
                if let Some(what) = self.after_failure(cx, at, &text).await {
                    self.tell(cx, at, what, &error);
                }
            }
        }
    }

    /// Warns the user of a failure without a restart.
    fn tell(&self, cx: &Cx, at: usize, what: &str, error: &Error) {
        let name = self.state.borrow().children[at].name.clone();
        let what = format!("child '{name}' of supervisor '{}' {what}", self.id);
        cx.tell_failure(&what, "`restart` and `strategy` say what follows a failure", error);
    }

    /// Returns the result of a start that has ended, and records its output as an event.
    fn take_end(&self, cx: &Cx, at: usize) -> Option<Result<Value>> {
        let task = self.state.borrow_mut().take_task(at)?;
        let (output, result) = cx.end_of(&task);
        if !output.is_empty() {
            self.note(cx, "child_output", Some(at), Some(&output));
        }
        result
    }

    fn child_stopped(&self, cx: &Cx, at: usize) {
        {
            let mut state = self.state.borrow_mut();
            state.metrics.stopped += 1;
            state.set(at, ChildStatus::Stopped, None, None);
        }
        self.note(cx, "child_stopped", Some(at), None);
    }

    fn child_failed(&self, cx: &Cx, at: usize, text: &str) {
        {
            let mut state = self.state.borrow_mut();
            state.metrics.failed += 1;
            state.set(at, ChildStatus::Failed, None, None);
            state.children[at].last_error = Some(text.to_owned());
        }
        self.note(cx, "child_failed", Some(at), Some(text));
    }

    fn start_again_after_success(&self, cx: &Cx, at: usize) {
        let (policy, restarts) = {
            let child = &self.state.borrow().children[at];
            (child.policy.clone(), child.restarts)
        };
        if policy.mode != Mode::Always {
            return;
        }
        if policy.max_restarts.is_some_and(|most| restarts >= most) {
            self.suppress(cx, at);
        } else {
            self.schedule(cx, at, policy.delay(at, restarts), "restart_backoff");
        }
    }

    /// Handles a failure; returns a description if the child is not restarted.
    async fn after_failure(&self, cx: &Cx, at: usize, text: &str) -> Option<&'static str> {
        if self.strategy == Strategy::EscalateToParent {
            self.escalate(cx, at, text).await;
            return Some("has failed and everything is stopped");
        }
        let now = cx.vm().system().monotonic();
        let (delay, too_often) = {
            let child = &mut self.state.borrow_mut().children[at];
            let policy = &child.policy;
            if policy.mode == Mode::Never {
                return Some("has failed and is not started again");
            }
            child.failures.push_back(now);
            let since = now.checked_sub(Duration::from_millis(policy.window)).filter(|_| policy.window > 0);
            while child.failures.front().is_some_and(|at| since.is_some_and(|since| *at < since)) {
                child.failures.pop_front();
            }
            let most = policy.max_restarts.and_then(|most| usize::try_from(most).ok());
            if most.is_none() {
                // Without a limit, failures are not counted.
                child.failures.clear();
            }
            (policy.delay(at, child.restarts), most.is_some_and(|most| child.failures.len() > most))
        };
        if too_often {
            return self
                .suppress(cx, at)
                .then_some("has failed and is not started again, because it has failed too often");
        }
        self.schedule(cx, at, delay, "restart_backoff");
        let along: Vec<usize> = {
            let state = self.state.borrow();
            let others = 0..state.children.len();
            others.filter(|other| self.strategy.takes_along(at, *other)).collect()
        };
        self.end_children(cx, &along, self.shutdown).await;
        for other in along {
            self.take_along(cx, other, delay);
        }
        None
    }

    /// Schedules the restart of a child because another one has failed.
    fn take_along(&self, cx: &Cx, at: usize, delay: u64) {
        let (status, mode) = {
            let child = &self.state.borrow().children[at];
            (child.status, child.policy.mode)
        };
        match status {
            ChildStatus::Suppressed | ChildStatus::CircuitOpen | ChildStatus::Failed => {}
            _ if mode == Mode::Never => {}
            _ => self.schedule(cx, at, delay, "propagation_restart"),
        }
    }

    /// Schedules the restart of a child after some milliseconds.
    fn schedule(&self, cx: &Cx, at: usize, delay: u64, reason: &'static str) {
        let due = due(cx, delay);
        {
            let mut state = self.state.borrow_mut();
            // A child that already waits is restarted only once.
            if state.children[at].status != ChildStatus::Waiting {
                state.children[at].restarts += 1;
                state.metrics.restarted += 1;
            }
            state.set(at, ChildStatus::Waiting, Some(reason), Some(due));
        }
        self.note(cx, "child_restarted", Some(at), Some(&format!("scheduled after {delay}ms")));
    }

    /// Handles a child that has ended too often; returns whether it is not retried later.
    fn suppress(&self, cx: &Cx, at: usize) -> bool {
        let open = self.state.borrow().children[at].policy.circuit_open;
        let due = open.map(|wait| due(cx, wait));
        let reason = if open.is_some() { "circuit_open" } else { "restart_cap_exceeded" };
        {
            let mut state = self.state.borrow_mut();
            state.metrics.suppressed += 1;
            let status = if open.is_some() { ChildStatus::CircuitOpen } else { ChildStatus::Suppressed };
            state.set(at, status, Some(reason), due);
            if due.is_some() {
                state.children[at].restarts = 0;
                state.children[at].failures.clear();
            }
        }
        self.note(cx, "child_suppressed", Some(at), Some(reason));
        open.is_none()
    }

    async fn escalate(&self, cx: &Cx, at: usize, text: &str) {
        self.state.borrow_mut().metrics.escalated += 1;
        self.note(cx, "child_escalated", Some(at), Some(text));
        self.end_all(cx, self.shutdown).await;
        self.state.borrow_mut().status = Status::Escalated;
    }

    /// Stops the children for `supervisor_stop`.
    async fn stop(&self, cx: &Cx) {
        self.state.borrow_mut().status = Status::Draining;
        self.note(cx, "supervisor_stopping", None, None);
        let forced = self.end_all(cx, Duration::MAX).await;
        self.stopped(cx, forced);
    }

    fn stopped(&self, cx: &Cx, forced: bool) {
        self.state.borrow_mut().status = Status::Stopped;
        self.note(cx, "supervisor_stopped", None, Some(if forced { "forced" } else { "drained" }));
    }

    /// Ends all children, including waiting ones. Returns whether any had to be aborted.
    async fn end_all(&self, cx: &Cx, limit: Duration) -> bool {
        let all: Vec<usize> = {
            let mut state = self.state.borrow_mut();
            while let Some((_, at)) = state.waiting.first().copied() {
                state.set(at, ChildStatus::Stopped, Some("shutdown"), None);
            }
            (0..state.children.len()).collect()
        };
        self.end_children(cx, &all, limit).await
    }

    /// Cancels children, and aborts the remaining ones after the time limit. Returns whether any had to be aborted.
    async fn end_children(&self, cx: &Cx, which: &[usize], limit: Duration) -> bool {
        let task_of =
            |at: usize| self.state.borrow().children[at].running.as_ref().map(|(_, task)| task.clone());
        let mut left: FxHashSet<usize> = FxHashSet::default();
        for at in which {
            let Some(task) = task_of(*at) else { continue };
            self.state.borrow_mut().set(*at, ChildStatus::Draining, Some("shutdown"), None);
            left.insert(*at);
            task.cancel();
        }
        // Some children may have ended earlier, while others were awaited.
        let put_off = std::mem::take(&mut self.state.borrow_mut().put_off);
        for number in put_off {
            self.was_told(cx, &mut left, number);
        }
        let system = cx.vm().system();
        let until = system.monotonic().saturating_add(limit);
        while !left.is_empty() {
            // The caller of `supervisor_stop` may set a shorter time limit.
            let until = self.state.borrow().stop_at.map_or(until, |stop_at| until.min(stop_at));
            let wait = until.saturating_sub(system.monotonic());
            if wait.is_zero() {
                break;
            }
            if let Some(number) = system.within(wait, self.ends.next()).await {
                self.was_told(cx, &mut left, number);
            }
        }
        let forced = !left.is_empty();
        // In order: the first aborted child cleans up first.
        for task in which.iter().filter(|at| left.contains(at)).filter_map(|at| task_of(*at)) {
            task.abort();
        }
        while !left.is_empty() {
            if let Some(number) = system.within(GRACE, self.ends.next()).await {
                self.was_told(cx, &mut left, number);
                continue;
            }
            // The remaining children are in calls that cannot be interrupted; their ends will be ignored.
            for at in which.iter().filter(|at| left.contains(at)) {
                self.state.borrow_mut().take_task(*at);
                self.child_stopped(cx, *at);
            }
            break;
        }
        forced
    }

    /// Handles the end of a start while children are being stopped.
    fn was_told(&self, cx: &Cx, left: &mut FxHashSet<usize>, number: usize) {
        let Some(at) = self.child_of(number) else { return };
        if !left.remove(&at) {
            self.state.borrow_mut().put_off.push_back(number);
            return;
        }
        // The error of a cancelled task is not a failure.
        if let Some(Err(error)) = self.take_end(cx, at)
            && !is_cancellation(&error)
        {
            self.child_failed(cx, at, &cx.settled_text(&error));
            self.tell(cx, at, "has failed while it was stopped", &error);
        }
        self.child_stopped(cx, at);
    }

    /// Stops a supervisor: `supervisor_stop`.
    ///
    /// # Errors
    /// The calling task is cancelled.
    pub(crate) async fn halt(&self, cx: &Cx, limit: Option<Duration>) -> Result<()> {
        let stop_at = cx.vm().system().monotonic().saturating_add(limit.unwrap_or(self.shutdown));
        let task = self.task.get().filter(|task| !task.is_finished());
        if let Some(task) = task {
            {
                let mut state = self.state.borrow_mut();
                state.stop_at = Some(state.stop_at.map_or(stop_at, |earlier| earlier.min(stop_at)));
            }
            self.ends.add(CALL);
            among_tasks(task.ended()).await;
        }
        if self.state.borrow().status != Status::Stopped {
            // It had already ended.
            self.note(cx, "supervisor_stopping", None, None);
            self.stopped(cx, false);
        }
        Ok(())
    }
}

fn is_cancellation(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Thrown(value) if value.as_str().is_some_and(|text| **text == *CANCELLED))
}

fn due(cx: &Cx, delay: u64) -> Due {
    let at = cx.vm().system().monotonic().saturating_add(Duration::from_millis(delay));
    let at_ms = crate::state::now_ms(cx).saturating_add(i64::try_from(delay).unwrap_or(i64::MAX));
    Due { at, at_ms }
}

/// Marks the remaining children as stopped when the task of the supervisor ends for any reason.
struct Left<'a>(&'a Supervisor);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.borrow_mut();
        if matches!(state.status, Status::Running | Status::Draining) {
            state.status = Status::Stopped;
        }
        for at in 0..state.children.len() {
            if state.take_task(at).is_some() || state.children[at].due.is_some() {
                state.set(at, ChildStatus::Stopped, Some("shutdown"), None);
            }
        }
    }
}
