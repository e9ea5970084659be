//! Supervisors: tasks that are restarted when they fail.

use harn_value::Value;
use harn_vm::{Error, builtins};

use crate::args::Millis;
use crate::supervisor::{Supervisor, Supervisors};

builtins! {
    /// Supervisors.
    pub(crate) static SUPERVISORS: "supervisors";

    /// Starts tasks and restarts them when they fail: `{_type: "supervisor", id, name}`.
    ///
    /// Each child has a `task`, which receives `{attempt, child_kind, child_name, restart_count, supervisor_id}`. It
    /// may have a `name`, a `kind`, an `active_lease` (a string of the caller that is shown with the child) and a
    /// separate `restart` policy.
    ///
    /// The policy is a mode (`"on_failure"`, `"always"`, `"never"`) or `{mode, max_restarts, window_ms, backoff_ms,
    /// max_backoff_ms, factor, jitter_ms, circuit_open_ms}`. After more than `max_restarts` failures within `window_ms`
    /// (60000; 0 is unlimited), the child is not restarted, or is restarted once more after `circuit_open_ms`.
    /// `strategy` defines the effect of a failure on the other children: `"one_for_one"` has none, `"one_for_all"`
    /// restarts all children, `"rest_for_one"` restarts the later ones, and `"escalate_to_parent"` stops all children.
    ///
    /// At each start, children receive copies of the current variables. Their output is an event `child_output`. A
    /// failed child that is not restarted is reported on standard error. All children end with the task that started
    /// them.
    ///
    /// ```harn
    /// fn work(child) {
    ///   if child.attempt < 3 { throw "not yet" }
    ///   println("done")
    /// }
    /// let jobs = supervisor_start({name: "jobs", children: [{name: "worker", task: work}]})
    /// while supervisor_state(jobs).status == "running" { sleep(1ms) }
    /// println(supervisor_metrics(jobs)) // -> {escalated: 0, failed: 2, restarted: 2, started: 3, stopped: 1, suppressed: 0}
    /// ```
    State fn supervisor_start(cx, spec: Value as "!supervisor_spec") -> "dict" {
        Supervisor::start(cx, &spec)?.handle()
    }

    /// Returns the state of a supervisor and its children.
    ///
    /// The status of the supervisor is `running`, `completed` (no child will run again), `draining`, `stopped` or
    /// `escalated`. The status of a child is `running`, `waiting`, `draining`, `circuit_open`, `stopped`, `failed` or
    /// `suppressed`. `last_error` and `restart_count` are kept across restarts; `next_restart_time` is in milliseconds
    /// since 1970.
    ///
    /// ```harn
    /// let jobs = supervisor_start({children: [{name: "one", task: { -> sleep(1h) }}]})
    /// println(supervisor_state(jobs).children[0].status) // -> running
    /// ```
    State fn supervisor_state(cx, supervisor: Value as "string | {id?: string, ...}") -> "dict" {
        cx.state::<Supervisors>().find("supervisor_state", &supervisor)?.view()
    }

    /// Returns event counts: `{escalated, failed, restarted, started, stopped, suppressed}`.
    ///
    /// ```harn
    /// let jobs = supervisor_start({children: [{task: { -> sleep(1h) }}, {task: { -> sleep(1h) }}]})
    /// println(supervisor_metrics(jobs).started) // -> 2
    /// ```
    State fn supervisor_metrics(cx, supervisor: Value as "string | {id?: string, ...}") -> "dict" {
        cx.state::<Supervisors>().find("supervisor_metrics", &supervisor)?.metrics()
    }

    /// Lists the events: `{seq, at_ms, supervisor_id, child, kind, message}`, oldest first.
    ///
    /// The last 4096 events are stored. They are also published to the topic `supervisor.lifecycle` of the event log.
    ///
    /// ```harn
    /// let jobs = supervisor_start({children: [{task: { -> println("hi") }}]})
    /// while supervisor_state(jobs).status == "running" { sleep(1ms) }
    /// println(supervisor_events(jobs).map({ event -> event.kind })) // -> [supervisor_started, child_started, child_output, child_stopped, supervisor_completed]
    /// ```
    State fn supervisor_events(cx, supervisor: Value as "string | {id?: string, ...}") -> "list" {
        cx.state::<Supervisors>().find("supervisor_events", &supervisor)?.events()
    }

    /// Cancels the children, aborts those that still run after `timeout`, and returns the state.
    ///
    /// The default timeout is `shutdown_ms` of the supervisor (5000).
    ///
    /// ```harn
    /// let jobs = supervisor_start({children: [{task: { -> sleep(1h) }}]})
    /// println(supervisor_stop(jobs).status) // -> stopped
    /// ```
    State async fn supervisor_stop(cx, supervisor: Value as "string | {id?: string, ...}", timeout: Millis) -> "dict" {
        let supervisor = cx.state::<Supervisors>().find("supervisor_stop", &supervisor)?;
        let limit = timeout.0.map(|ms| std::time::Duration::from_millis(ms.unsigned_abs()));
        supervisor.halt(&cx, limit).await?;
        Ok::<Value, Error>(supervisor.view())?
    }
}
