//! The state that this crate stores per running program: mocks of the clock and of standard input, the log level,
//! captured diagnostics. It is accessed through [`harn_vm::Cx::state`].

use std::cell::{Cell, RefCell};

use harn_value::Dict;
use harn_vm::Cx;

/// The mock clocks: wall clock in milliseconds since the epoch, and monotonic clock from 0.
#[derive(Clone, Copy)]
pub(crate) struct MockTime {
    pub(crate) wall_ms: i64,
    pub(crate) monotonic_ms: i64,
}

/// A string that replaces standard input, and the current position.
pub(crate) struct MockInput {
    pub(crate) text: String,
    pub(crate) at: usize,
}

/// See the module documentation.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) mock_time: Cell<Option<MockTime>>,
    /// Index into the levels debug, info, warn, error.
    pub(crate) log_level: Cell<usize>,
    /// The mock of standard input.
    pub(crate) mock_input: RefCell<Option<MockInput>>,
    /// Diagnostics while they are captured.
    pub(crate) captured_errors: RefCell<Option<String>>,
    /// Mock results of the terminal checks: stdin, stdout, stderr.
    pub(crate) mock_tty: Cell<[Option<bool>; 3]>,
    pub(crate) color_mode: Cell<ColorMode>,
    /// Trace and span ids of the open spans, innermost last.
    pub(crate) open_spans: RefCell<Vec<(String, String)>>,
}

impl State {
    /// Returns the trace and span id of the innermost open span.
    pub(crate) fn open_span(&self) -> Option<(String, String)> {
        self.open_spans.borrow().last().cloned()
    }
}

/// Adds the ids of the innermost open span to `facts`.
pub fn task_facts(cx: &Cx, facts: &mut Dict) {
    if let Some((trace_id, span_id)) = cx.state::<State>().open_span() {
        facts.insert("trace_id", trace_id);
        facts.insert("span_id", span_id);
    }
}

/// When color codes are written.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ColorMode {
    #[default]
    Auto,
    Always,
    Never,
}

/// Returns the wall clock in milliseconds since the epoch, mocked or real.
pub(crate) fn now_ms(cx: &Cx) -> i64 {
    cx.state::<State>().mock_time.get().map_or_else(|| cx.system().now_ms(), |mock| mock.wall_ms)
}

/// Returns the monotonic clock in milliseconds, mocked or real.
pub(crate) fn monotonic_ms(cx: &Cx) -> i64 {
    cx.state::<State>()
        .mock_time
        .get()
        .map_or_else(|| cx.system().monotonic().as_millis() as i64, |mock| mock.monotonic_ms)
}
