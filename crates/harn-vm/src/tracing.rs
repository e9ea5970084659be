//! Opens the tracing spans of a program that requests them with `enable_tracing`: of imports, pipelines and functions,
//! tasks, model calls and tools, each with its parent and times.
//!
//! A program that does not mention `enable_tracing` has no overhead: otherwise, functions start with an instruction
//! that opens their span. The span is stored in a register and is closed when the register is released, however the
//! call ends.

use std::rc::Rc;

use harn_value::{Str, Value};

use crate::builtin::Text;
use crate::builtins;
use crate::cx::Cx;
use crate::spans::{FinishedSpan, OpenSpan, SpanKind};
use crate::task::Task;
use crate::vm::Vm;

impl Vm {
    /// Opens a span inside the current span of `task`, if spans are recorded.
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
    /// Opens a span inside the current span of the running task, if spans are recorded.
    pub fn span(&self, kind: SpanKind, name: impl FnOnce() -> Str) -> Option<OpenSpan> {
        self.vm().span_in(self.task(), kind, name)
    }

    /// Opens a span of an operation concurrent with the running task, if spans are recorded: later spans of the task
    /// are not inside it.
    pub fn span_beside(&self, kind: SpanKind, name: impl FnOnce() -> Str) -> Option<OpenSpan> {
        let spans = &self.vm().spans;
        spans.are_recorded().then(|| spans.open_beside(&self.task().spans, kind, name()))
    }

    /// Opens a span that covers a task until it ends, if spans are recorded.
    pub fn span_of_task(&self, task: &Rc<Task>, kind: SpanKind, name: impl FnOnce() -> Str) {
        task.spans.set_own(self.vm().span_in(task, kind, name));
    }

    /// Makes the innermost span of this task the parent of the spans of `task`, which it has started.
    pub(crate) fn goes_on_in(&self, task: &Task) {
        if let Some(around) = self.vm().spans.around(&self.task().spans) {
            task.spans.enter(around);
        }
    }

    /// Starts a new, empty recording of spans, or stops it. Spans in progress at that time are not recorded.
    pub fn record_spans(&self, on: bool) {
        self.vm().spans.record(on);
    }

    /// Returns the spans that have finished since recording started, in that order, and the number of dropped older
    /// ones.
    pub fn finished_spans(&self) -> (Vec<FinishedSpan>, u64) {
        self.vm().spans.finished()
    }
}

builtins! {
    /// Spans of function calls.
    pub(crate) static SPANS: "spans";

    /// Opens the span of a function call.
    State fn open_span = "__span"(cx, name: Text) -> "any" {
        let span = cx.span(SpanKind::FnCall, || name.0);
        span.map_or(Value::NIL, Value::foreign)
    }
}
