//! State of a running program that this crate keeps: mocks of the clock and of standard input, the log
//! level, captured diagnostics. One per program, through [`harn_vm::Cx::state`].

use std::cell::{Cell, RefCell};

use harn_value::Dict;
use harn_vm::Cx;

/// The mocked clocks: wall clock in milliseconds since the epoch, and the monotonic one from 0.
#[derive(Clone, Copy)]
pub(crate) struct MockTime {
    pub(crate) wall_ms: i64,
    pub(crate) monotonic_ms: i64,
}

/// A text that stands in for standard input, and how far it was read.
pub(crate) struct MockInput {
    pub(crate) text: String,
    pub(crate) at: usize,
}

/// See the module.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) mock_time: Cell<Option<MockTime>>,
    /// Index into the levels debug, info, warn, error.
    pub(crate) log_level: Cell<usize>,
    /// What is left of the text that replaces standard input.
    pub(crate) mock_input: RefCell<Option<MockInput>>,
    /// Diagnostics while they are captured.
    pub(crate) captured_errors: RefCell<Option<String>>,
    /// Mocked answers of the terminal checks: stdin, stdout, stderr.
    pub(crate) mock_tty: Cell<[Option<bool>; 3]>,
    pub(crate) color_mode: Cell<ColorMode>,
    /// Trace and span ids of the open spans, innermost last.
    pub(crate) open_spans: RefCell<Vec<(String, String)>>,
}

impl State {
    /// Trace and span id of the innermost open span.
    pub(crate) fn open_span(&self) -> Option<(String, String)> {
        self.open_spans.borrow().last().cloned()
    }
}

/// Tells the spans that are open.
pub fn task_facts(cx: &Cx, facts: &mut Dict) {
    if let Some((trace_id, span_id)) = cx.state::<State>().open_span() {
        facts.insert("trace_id", trace_id);
        facts.insert("span_id", span_id);
    }
}

/// When colour codes are written.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ColorMode {
    #[default]
    Auto,
    Always,
    Never,
}

/// Wall clock in milliseconds since the epoch, mocked or real.
pub(crate) fn now_ms(cx: &Cx) -> i64 {
    cx.state::<State>().mock_time.get().map_or_else(|| cx.system().now_ms(), |mock| mock.wall_ms)
}

/// Monotonic clock in milliseconds, mocked or real.
pub(crate) fn monotonic_ms(cx: &Cx) -> i64 {
    cx.state::<State>()
        .mock_time
        .get()
        .map_or_else(|| cx.system().monotonic().as_millis() as i64, |mock| mock.monotonic_ms)
}
