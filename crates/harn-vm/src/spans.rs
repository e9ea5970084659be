//! Spans that the runtime records of a program which asks for them with `enable_tracing`: its imports, pipelines and
//! functions, its tasks, model calls and tools, each with the one around it and its time.
//!
//! A program that does not name `enable_tracing` pays nothing: only where it is named do functions begin with the
//! instruction that opens their span. It lies in a register of its own and closes when that goes, however the call ends.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

use harn_value::{Foreign, Str, Value};

use crate::builtin::Text;
use crate::builtins;
use crate::cx::Cx;
use crate::task::Task;
use crate::vm::Vm;

/// The builtin with which a program asks for its spans.
const ASKED_WITH: &str = "enable_tracing";

/// Finished spans that are kept; a program that runs for days must not grow by each call.
const KEPT: usize = 16_384;

/// What a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A pipeline.
    Pipeline,
    /// A call of a function with a name.
    FnCall,
    /// A call of a model, with all its retries.
    LlmCall,
    /// A call of a tool by a loop.
    ToolCall,
    /// The top level of an imported file.
    Import,
    /// A parallel operation, until the last of its tasks has ended.
    Parallel,
    /// A task that was spawned.
    Spawn,
}

impl SpanKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            SpanKind::Pipeline => "pipeline",
            SpanKind::FnCall => "fn_call",
            SpanKind::LlmCall => "llm_call",
            SpanKind::ToolCall => "tool_call",
            SpanKind::Import => "import",
            SpanKind::Parallel => "parallel",
            SpanKind::Spawn => "spawn",
        }
    }
}

/// A span that is over.
#[derive(Clone, Debug)]
pub struct FinishedSpan {
    /// Its number; one that was opened later has a greater one.
    pub id: u64,
    /// The number of the span around it.
    pub parent: Option<u64>,
    /// What it is of.
    pub kind: SpanKind,
    /// Name of the function, model, tool, file or form.
    pub name: Str,
    /// When it began, on the clock of `elapsed`.
    pub start: Duration,
    /// How long it lasted.
    pub duration: Duration,
    /// What else is known of it: names with texts or numbers.
    pub metadata: Vec<(&'static str, Value)>,
}

/// The spans of a program.
#[derive(Default)]
pub(crate) struct Spans {
    on: Cell<bool>,
    opened: Cell<u64>,
    /// The last number before recording began. What was opened up to it belongs to nothing that is recorded now.
    before: Cell<u64>,
    finished: RefCell<VecDeque<FinishedSpan>>,
    left_out: Cell<u64>,
}

/// The spans that a task is in.
#[derive(Default)]
pub(crate) struct TaskSpans {
    /// Numbers of those that are open, innermost last. The first may be one of the task that began this one.
    open: RefCell<Vec<u64>>,
    /// That of the task itself, until it ends.
    own: RefCell<Option<OpenSpan>>,
}

impl TaskSpans {
    /// The task is over.
    pub(crate) fn end(&self) {
        drop(self.own.take());
    }
}

/// A span in progress; dropping it ends it.
pub struct OpenSpan {
    vm: Weak<Vm>,
    /// The task whose innermost span it may be.
    task: Weak<Task>,
    id: u64,
    parent: Option<u64>,
    kind: SpanKind,
    name: Str,
    start: Duration,
    metadata: RefCell<Vec<(&'static str, Value)>>,
}

impl OpenSpan {
    /// Notes something. Numbers of one name add up; of texts the last one stays.
    pub fn note(&self, name: &'static str, value: Value) {
        let mut metadata = self.metadata.borrow_mut();
        let Some((_, known)) = metadata.iter_mut().find(|(known, _)| *known == name) else {
            metadata.push((name, value));
            return;
        };
        *known = match (known.as_int(), value.as_int()) {
            (Some(a), Some(b)) => Value::int(a.saturating_add(b)),
            _ => value,
        };
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        if let Some(task) = self.task.upgrade() {
            let mut open = task.spans.open.borrow_mut();
            if let Some(at) = open.iter().rposition(|id| *id == self.id) {
                open.remove(at);
            }
        }
        let Some(vm) = self.vm.upgrade() else { return };
        if !vm.spans.on.get() || self.id <= vm.spans.before.get() {
            return;
        }
        let span = FinishedSpan {
            id: self.id,
            parent: self.parent,
            kind: self.kind,
            name: self.name.clone(),
            start: self.start,
            duration: vm.system.monotonic().saturating_sub(self.start),
            metadata: self.metadata.take(),
        };
        let mut finished = vm.spans.finished.borrow_mut();
        if finished.len() == KEPT {
            finished.pop_front();
            vm.spans.left_out.set(vm.spans.left_out.get() + 1);
        }
        finished.push_back(span);
    }
}

impl Spans {
    /// The innermost span of a task, as far as it is recorded.
    fn around(&self, task: &Task) -> Option<u64> {
        task.spans.open.borrow().last().copied().filter(|id| *id > self.before.get())
    }
}

impl Vm {
    fn open_span(
        self: &Rc<Vm>,
        parent: Option<u64>,
        task: Weak<Task>,
        kind: SpanKind,
        name: Str,
    ) -> OpenSpan {
        let id = self.spans.opened.get() + 1;
        self.spans.opened.set(id);
        let start = self.system.monotonic();
        OpenSpan {
            vm: Rc::downgrade(self),
            task,
            id,
            parent,
            kind,
            name,
            start,
            metadata: RefCell::default(),
        }
    }

    /// Opens a span inside of what `task` does, if spans are recorded.
    pub(crate) fn span_in(
        self: &Rc<Vm>,
        task: &Rc<Task>,
        kind: SpanKind,
        name: impl FnOnce() -> Str,
    ) -> Option<OpenSpan> {
        if !self.spans.on.get() {
            return None;
        }
        let span = self.open_span(self.spans.around(task), Rc::downgrade(task), kind, name());
        task.spans.open.borrow_mut().push(span.id);
        Some(span)
    }

    /// Notes that the text of a program is about to be compiled: whether it asks for its spans is to be known before its
    /// first function.
    pub(crate) fn look_for_tracing(&self, text: &str) {
        if text.contains(ASKED_WITH) {
            self.traces.set(true);
        }
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
        spans.on.get().then(|| self.vm().open_span(spans.around(self.task()), Weak::new(), kind, name()))
    }

    /// What a task does is inside of a span.
    pub(crate) fn is_inside(&self, span: &OpenSpan, task: &Task) {
        task.spans.open.borrow_mut().push(span.id);
    }

    /// What a task does that this one has begun is inside of the innermost span here.
    pub(crate) fn goes_on_in(&self, task: &Task) {
        if let Some(around) = self.vm().spans.around(self.task()) {
            task.spans.open.borrow_mut().push(around);
        }
    }

    /// Opens a span of all that a task does, until it ends, if spans are recorded.
    pub fn span_of_task(&self, task: &Rc<Task>, kind: SpanKind, name: impl FnOnce() -> Str) {
        let span = self.vm().span_in(task, kind, name);
        drop(task.spans.own.replace(span));
    }

    /// Begins to record spans, with none, or stops it. Those that are in progress then are not recorded.
    pub fn record_spans(&self, on: bool) {
        let spans = &self.vm().spans;
        spans.on.set(on);
        if on {
            spans.before.set(spans.opened.get());
            spans.finished.borrow_mut().clear();
            spans.left_out.set(0);
        }
    }

    /// The spans that have finished since recording began, in that order, and how many earlier ones were not kept.
    pub fn finished_spans(&self) -> (Vec<FinishedSpan>, u64) {
        let spans = &self.vm().spans;
        (spans.finished.borrow().iter().cloned().collect(), spans.left_out.get())
    }
}

/// So that the span of a call can lie in a register of its function.
impl Foreign for OpenSpan {
    fn type_name(&self) -> &'static str {
        "span"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<span>");
    }

    fn equals(&self, _other: &dyn Foreign) -> bool {
        false
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
