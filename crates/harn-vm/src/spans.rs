//! Tracing spans, recorded when a program requests them. `tracing.rs` opens them.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

use harn_system::System;
use harn_value::{Foreign, Str, Value};

/// The builtin with which a program requests spans.
pub(crate) const ASKED_WITH: &str = "enable_tracing";

/// Maximum number of finished spans to store, so that the memory of a long-running program is bounded.
const KEPT: usize = 16_384;

/// Kind of operation that a span covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A pipeline.
    Pipeline,
    /// A call of a named function.
    FnCall,
    /// A call of a model, including retries.
    LlmCall,
    /// A tool call of a loop.
    ToolCall,
    /// The top level of an imported file.
    Import,
    /// A parallel operation, until the last of its tasks has ended.
    Parallel,
    /// A spawned task.
    Spawn,
}

impl SpanKind {
    /// Returns its name.
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

/// A finished span.
#[derive(Clone, Debug)]
pub struct FinishedSpan {
    /// Its number; numbers increase in the order of opening.
    pub id: u64,
    /// Number of the enclosing span.
    pub parent: Option<u64>,
    /// Kind of operation.
    pub kind: SpanKind,
    /// Name of the function, model, tool, file or form.
    pub name: Str,
    /// Start time, on the clock of `elapsed`.
    pub start: Duration,
    /// Duration.
    pub duration: Duration,
    /// Attributes: names with strings or numbers.
    pub metadata: Vec<(&'static str, Value)>,
}

/// The spans of a program.
pub(crate) struct Spans {
    system: Rc<dyn System>,
    on: Cell<bool>,
    opened: Cell<u64>,
    /// The last number before recording started. Spans up to it are not part of the recording.
    before: Cell<u64>,
    finished: RefCell<VecDeque<FinishedSpan>>,
    left_out: Cell<u64>,
}

/// Numbers of the spans that are open in a task, innermost last. The first may belong to the task that started it.
type Open = RefCell<Vec<u64>>;

/// The open spans of a task.
#[derive(Default)]
pub(crate) struct TaskSpans {
    open: OnceCell<Rc<Open>>,
    /// The span of the task itself, until it ends. Boxed, because most tasks have none and there may be many
    /// tasks.
    own: RefCell<Option<Box<OpenSpan>>>,
}

impl TaskSpans {
    fn open(&self) -> &Rc<Open> {
        self.open.get_or_init(Rc::default)
    }

    /// Makes a span the parent of later spans of the task.
    pub(crate) fn enter(&self, id: u64) {
        self.open().borrow_mut().push(id);
    }

    /// Sets the span that covers the task until it ends.
    pub(crate) fn set_own(&self, span: Option<OpenSpan>) {
        drop(self.own.replace(span.map(Box::new)));
    }

    /// Ends the task's own span.
    pub(crate) fn end(&self) {
        self.set_own(None);
    }
}

/// A span in progress; dropping it ends it.
pub struct OpenSpan {
    spans: Rc<Spans>,
    /// The open spans of the task that it belongs to, if any.
    open: Weak<Open>,
    id: u64,
    parent: Option<u64>,
    kind: SpanKind,
    name: Str,
    start: Duration,
    metadata: RefCell<Vec<(&'static str, Value)>>,
}

impl OpenSpan {
    /// Returns its number.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Adds an attribute. Numbers with the same name are added up; for strings the last one is stored.
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
        if let Some(open) = self.open.upgrade() {
            let mut open = open.borrow_mut();
            if let Some(at) = open.iter().rposition(|id| *id == self.id) {
                open.remove(at);
            }
        }
        if !self.spans.on.get() || self.id <= self.spans.before.get() {
            return;
        }
        self.spans.keep(FinishedSpan {
            id: self.id,
            parent: self.parent,
            kind: self.kind,
            name: self.name.clone(),
            start: self.start,
            duration: self.spans.system.monotonic().saturating_sub(self.start),
            metadata: self.metadata.take(),
        });
    }
}

impl Spans {
    pub(crate) fn new(system: Rc<dyn System>) -> Rc<Spans> {
        Rc::new(Spans {
            system,
            on: Cell::default(),
            opened: Cell::default(),
            before: Cell::default(),
            finished: RefCell::default(),
            left_out: Cell::default(),
        })
    }

    /// Returns whether spans are recorded.
    pub(crate) fn are_recorded(&self) -> bool {
        self.on.get()
    }

    /// Starts a new, empty recording, or stops it.
    pub(crate) fn record(&self, on: bool) {
        self.on.set(on);
        if on {
            self.before.set(self.opened.get());
            self.finished.borrow_mut().clear();
            self.left_out.set(0);
        }
    }

    fn keep(&self, span: FinishedSpan) {
        let mut finished = self.finished.borrow_mut();
        if finished.len() == KEPT {
            finished.pop_front();
            self.left_out.set(self.left_out.get() + 1);
        }
        finished.push_back(span);
    }

    /// Returns the spans that have finished since recording started, in that order, and the number of dropped
    /// older ones.
    pub(crate) fn finished(&self) -> (Vec<FinishedSpan>, u64) {
        (self.finished.borrow().iter().cloned().collect(), self.left_out.get())
    }

    /// Returns the innermost span of a task, if it is recorded.
    pub(crate) fn around(&self, task: &TaskSpans) -> Option<u64> {
        let open = task.open.get()?.borrow();
        open.last().copied().filter(|id| *id > self.before.get())
    }

    /// Opens a span inside the current span of a task.
    pub(crate) fn open_in(self: &Rc<Spans>, task: &TaskSpans, kind: SpanKind, name: Str) -> OpenSpan {
        let mut span = self.open_beside(task, kind, name);
        span.open = Rc::downgrade(task.open());
        task.enter(span.id);
        span
    }

    /// Opens a span of an operation that runs concurrently with a task.
    pub(crate) fn open_beside(self: &Rc<Spans>, task: &TaskSpans, kind: SpanKind, name: Str) -> OpenSpan {
        let id = self.opened.get() + 1;
        self.opened.set(id);
        let (parent, start) = (self.around(task), self.system.monotonic());
        let (spans, open, metadata) = (self.clone(), Weak::new(), RefCell::default());
        OpenSpan { spans, open, id, parent, kind, name, start, metadata }
    }
}

/// Allows the span of a call to be stored in a register of its function.
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
