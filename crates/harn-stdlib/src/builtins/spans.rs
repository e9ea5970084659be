//! Spans that a program opens itself, for its log.

use harn_system::SystemExt;
use harn_value::{Dict, Value};
use harn_vm::builtin::Text;
use harn_vm::{Error, builtins};

use crate::args::printed;
use crate::state::State;

builtins! {
    /// Spans.
    pub(crate) static SPANS: "spans";

    /// Opens a span: `{trace_id, span_id, name, start_ms}`.
    ///
    /// A span inside another keeps its trace id; log lines written meanwhile carry both.
    ///
    /// ```harn
    /// let outer = trace_start("a")
    /// let inner = trace_start("b")
    /// println([inner.trace_id == outer.trace_id, inner.span_id == outer.span_id, len(outer.span_id)]) // -> [true, false, 8]
    /// ```
    Random fn trace_start(cx, name: Text) -> "dict" {
        let state = cx.state::<State>();
        let id = || format!("{:08x}", cx.system().random_u64() as u32);
        let trace_id = state.open_span().map_or_else(id, |(trace_id, _)| trace_id);
        let span_id = id();
        state.open_spans.borrow_mut().push((trace_id.clone(), span_id.clone()));
        let mut span = Dict::new();
        span.insert("trace_id", trace_id);
        span.insert("span_id", span_id);
        span.insert("name", name.0);
        span.insert("start_ms", cx.system().monotonic().as_millis() as i64);
        span
    }

    /// Closes a span and writes the log line `span_end`.
    ///
    /// ```harn
    /// log_set_level("error")
    /// trace_end(trace_start("a"))
    /// println(trace_id()) // -> nil
    /// println(try { trace_end(1) }) // -> Result.Err(trace_end: argument must be a span dict from trace_start)
    /// ```
    Output fn trace_end(cx, span: Value) -> "nil" {
        let parts = span.as_dict().and_then(|d| Some((d.get_str("span_id")?, d.get_str("trace_id")?, d)));
        let Some((span_id, trace_id, dict)) = parts else {
            return Err(Error::thrown("trace_end: argument must be a span dict from trace_start"));
        };
        let start = dict.get_str("start_ms").and_then(Value::as_int).unwrap_or(0);
        let id = printed(span_id);
        cx.state::<State>().open_spans.borrow_mut().retain(|(_, open)| open.as_str() != id.as_str());
        let mut fields = Dict::new();
        fields.insert("duration_ms", cx.system().monotonic().as_millis() as i64 - start);
        fields.insert("name", dict.get_str("name").cloned().unwrap_or_default());
        fields.insert("span_id", span_id.clone());
        fields.insert("trace_id", trace_id.clone());
        super::output::log_line(cx, 1, "span_end", &fields.into())?;
    }

    /// Gives the trace id of the innermost open span, nil when there is none.
    ///
    /// ```harn
    /// let span = trace_start("a")
    /// println(trace_id() == span.trace_id) // -> true
    /// ```
    State fn trace_id(cx) -> "string | nil" {
        cx.state::<State>().open_span().map(|(trace_id, _)| trace_id)
    }
}
