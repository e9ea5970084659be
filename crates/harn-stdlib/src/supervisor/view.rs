//! The representation of supervisors for programs.

use harn_value::{Dict, Value};

use super::state::{Child, Event, Metrics, Supervisor};

impl Supervisor {
    /// Returns the result of `supervisor_start`.
    pub(crate) fn handle(&self) -> Value {
        dict([
            ("_type", "supervisor".into()),
            ("id", Value::from(&self.id)),
            ("name", Value::from(&self.name)),
        ])
    }

    /// Returns the state.
    pub(crate) fn view(&self) -> Value {
        let state = self.state.borrow();
        dict([
            ("_type", "supervisor_state".into()),
            ("children", Value::list(state.children.iter().map(Child::view).collect())),
            ("id", Value::from(&self.id)),
            ("metrics", state.metrics.view()),
            ("name", Value::from(&self.name)),
            ("status", state.status.name().into()),
            ("strategy", self.strategy.name().into()),
        ])
    }

    /// Returns the metrics.
    pub(crate) fn metrics(&self) -> Value {
        self.state.borrow().metrics.view()
    }

    /// Returns the events.
    pub(crate) fn events(&self) -> Value {
        let state = self.state.borrow();
        Value::list(state.events.iter().map(|event| self.event(event)).collect())
    }

    pub(super) fn event(&self, event: &Event) -> Value {
        dict([
            ("at_ms", event.at_ms.into()),
            ("child", event.child.clone().into()),
            ("kind", event.kind.into()),
            ("message", event.message.clone().into()),
            ("seq", event.seq.into()),
            ("supervisor_id", Value::from(&self.id)),
        ])
    }
}

impl Child {
    fn view(&self) -> Value {
        dict([
            ("active_lease", self.lease.clone()),
            ("current_wait_reason", self.reason.into()),
            ("kind", Value::from(&self.kind)),
            ("last_error", self.last_error.clone().into()),
            ("name", Value::from(&self.name)),
            ("next_restart_time", self.due.map(|due| due.at_ms).into()),
            ("restart_count", int(self.restarts)),
            ("status", self.status.name().into()),
        ])
    }
}

impl Metrics {
    fn view(&self) -> Value {
        dict([
            ("escalated", int(self.escalated)),
            ("failed", int(self.failed)),
            ("restarted", int(self.restarted)),
            ("started", int(self.started)),
            ("stopped", int(self.stopped)),
            ("suppressed", int(self.suppressed)),
        ])
    }
}

pub(super) fn int(n: u64) -> Value {
    Value::int(i64::try_from(n).unwrap_or(i64::MAX))
}

pub(super) fn dict<const N: usize>(entries: [(&str, Value); N]) -> Value {
    entries.into_iter().collect::<Dict>().into()
}
