//! Opens the spans that the runtime records of a program which asks for them with `enable_tracing`: of its imports, pipelines and
//! functions, its tasks, model calls and tools, each with the one around it and its time.
//!
//! A program that does not name `enable_tracing` pays nothing: only where it is named do functions begin with the
//! instruction that opens their span. It lies in a register of its own and closes when that goes, however the call ends.

use std::rc::Rc;

use harn_value::{Str, Value};

use crate::builtin::Text;
use crate::builtins;
use crate::cx::Cx;
use crate::spans::{FinishedSpan, OpenSpan, SpanKind};
use crate::task::Task;
use crate::vm::Vm;

impl Vm {
    /// Opens a span inside of what `task` does, if spans are recorded.
    pub(crate) fn span_in(
        &self,
        task: &Task,
        kind: SpanKind,
        name: impl FnOnce() -> Str,
    ) -> Option<OpenSpan> {
        self.spans.are_recorded().then(|| self.spans.open_in(&task.spans, kind, name()))
    }
}

impl Cx {
    /// Opens a span inside of what the running task does, if spans are recorded.
    pub fn span(&self, kind: SpanKind, name: impl FnOnce() -> Str) -> Option<OpenSpan> {
        self.vm().span_in(self.task(), kind, name)
    }

    /// Opens a span of something that goes on beside the running task, if spans are recorded: what the task does meanwhile is
    /// not inside of it.
    pub fn span_beside(&self, kind: SpanKind, name: impl FnOnce() -> Str) -> Option<OpenSpan> {
        let spans = &self.vm().spans;
        spans.are_recorded().then(|| spans.open_beside(&self.task().spans, kind, name()))
    }

    /// Opens a span of all that a task does, until it ends, if spans are recorded.
    pub fn span_of_task(&self, task: &Rc<Task>, kind: SpanKind, name: impl FnOnce() -> Str) {
        task.spans.set_own(self.vm().span_in(task, kind, name));
    }

    /// What a task does that this one has begun is inside of the innermost span here.
    pub(crate) fn goes_on_in(&self, task: &Task) {
        if let Some(around) = self.vm().spans.around(&self.task().spans) {
            task.spans.enter(around);
        }
    }

    /// Begins to record spans, with none, or stops it. Those that are in progress then are not recorded.
    pub fn record_spans(&self, on: bool) {
        self.vm().spans.record(on);
    }

    /// The spans that have finished since recording began, in that order, and how many earlier ones were not kept.
    pub fn finished_spans(&self) -> (Vec<FinishedSpan>, u64) {
        self.vm().spans.finished()
    }
}

builtins! {
    /// What functions of a program begin with that asks for its spans.
    pub(crate) static SPANS: "spans";

    /// Opens the span of the function that begins.
    State fn open_span = "__span"(cx, name: Text) -> "any" {
        let span = cx.span(SpanKind::FnCall, || name.0);
        span.map_or(Value::NIL, Value::foreign)
    }
}
