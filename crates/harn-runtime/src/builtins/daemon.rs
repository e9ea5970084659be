//! Daemons with a handle.

use std::rc::Rc;

use harn_value::Value;
use harn_vm::builtin::Maybe;
use harn_vm::{Cx, Result, builtins};

use crate::convert::{data, entry, thrown};
use crate::daemon::{self, Daemon, Daemons};

builtins! {
    /// Daemons: loops that are idle until an event arrives, and outlive their process.
    pub(crate) static DAEMONS: "daemons";

    /// Starts a daemon: a loop that is idle after its turn and wakes for each event of `daemon_trigger`.
    ///
    /// `config` has `task`, `persist_path` (a directory), and optionally `name`, `system`, `event_queue_capacity` and
    /// the options of `agent_loop`. Returns when the daemon is idle for the first time, or after half a second.
    ///
    /// ```harn
    /// let d = daemon_spawn({task: "Watch.", provider: "mock", persist_path: "${temp_dir()}/watcher"})
    /// println("${d.status} ${d.daemon_state}") // -> running idle
    /// daemon_stop(d)
    /// ```
    Loop async fn daemon_spawn(cx, config: Maybe as "!loop_options") -> "dict" {
        daemon::spawn(&cx, &config.0.unwrap_or_default()).await?.handle()
    }

    /// Sends an event to a daemon: a string unchanged, any other value as JSON.
    ///
    /// Events wait in a queue on disk. Each is delivered to exactly one completed turn, even if the process crashes.
    ///
    /// ```harn
    /// let d = daemon_spawn({task: "Watch.", provider: "mock", persist_path: "${temp_dir()}/watcher"})
    /// println(daemon_trigger(d, {file: "a.rs"}).inflight_event.payload) // -> {file: a.rs}
    /// daemon_stop(d)
    /// ```
    Fs fn daemon_trigger(cx, daemon: Maybe as "!dict | string", event: Maybe as "any?") -> "dict" {
        let Some(handle) = daemon.0.filter(|handle| !handle.is_nil()) else {
            return Err(thrown("daemon_trigger: missing daemon handle"));
        };
        let Some(payload) = event.0.filter(|payload| !payload.is_nil()) else {
            return Err(thrown("daemon_trigger: missing event payload"));
        };
        let daemon = known(cx, &handle)?;
        let payload = data("daemon_trigger: event", &payload)?;
        if payload.as_str().is_some_and(|text| text.trim().is_empty()) {
            return Err(thrown("daemon_trigger: event must not be empty"));
        }
        daemon.trigger(cx, payload)?;
        daemon.handle()
    }

    /// Returns the latest snapshot of a daemon, with the current state of its queue.
    ///
    /// ```harn
    /// let d = daemon_spawn({task: "Watch.", provider: "mock", persist_path: "${temp_dir()}/watcher"})
    /// println(daemon_snapshot(d).pending_event_count) // -> 0
    /// daemon_stop(d)
    /// ```
    State fn daemon_snapshot(cx, daemon: Maybe as "!dict | string") -> "dict" {
        known(cx, &daemon.0.unwrap_or_default())?.snapshot()?
    }

    /// Stops a daemon when it is idle, or after half a second.
    ///
    /// An event whose turn was not completed returns to the head of the queue.
    ///
    /// ```harn
    /// let d = daemon_spawn({task: "Watch.", provider: "mock", persist_path: "${temp_dir()}/watcher"})
    /// println(daemon_stop(d).status) // -> stopped
    /// ```
    Fs async fn daemon_stop(cx, daemon: Maybe as "!dict | string") -> "dict" {
        let daemon = known(&cx, &daemon.0.unwrap_or_default())?;
        daemon.stop(&cx).await?;
        daemon.handle()
    }

    /// Resumes the daemon of a directory, with its conversation, queue and options.
    ///
    /// ```harn
    /// let d = daemon_spawn({task: "Watch.", provider: "mock", persist_path: "${temp_dir()}/watcher"})
    /// daemon_stop(d)
    /// println(daemon_resume("${temp_dir()}/watcher").id == d.id) // -> true
    /// ```
    Loop async fn daemon_resume(cx, path: Maybe as "!string") -> "dict" {
        let path = path.0.unwrap_or_default();
        let Some(path) = path.as_str().map(|path| path.to_string()).filter(|path| !path.trim().is_empty()) else {
            return Err(thrown("daemon_resume: `path` must be a non-empty string"));
        };
        daemon::resume(&cx, &path).await?.handle()
    }

    /// Runs the task of a daemon.
    State async fn daemon_job = "__daemon_job"(cx, id: Value, options: Value) -> "nil" {
        daemon::job(&cx, &id.to_string(), &options).await;
    }
}

/// Returns the daemon of a handle or id.
fn known(cx: &Cx, given: &Value) -> Result<Rc<Daemon>> {
    let id = if given.to_dict().is_some() {
        let id = entry(given, "id");
        id.as_str()
            .map(|id| id.to_string())
            .ok_or_else(|| thrown("daemon handle dict is missing an id field"))?
    } else {
        given
            .as_str()
            .map(|id| id.to_string())
            .ok_or_else(|| thrown("expected daemon handle or daemon id"))?
    };
    cx.state::<Daemons>().known(&id).ok_or_else(|| thrown(format!("unknown daemon '{id}'")))
}
