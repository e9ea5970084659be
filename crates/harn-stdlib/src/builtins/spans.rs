//! Spans that a program opens itself, and those that the runtime records for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use harn_system::SystemExt;
use harn_value::{Dict, Value};
use harn_vm::builtin::Text;
use harn_vm::{Error, FinishedSpan, builtins};

use crate::args::printed;
use crate::state::State;

builtins! {
    /// Spans.
    pub(crate) static SPANS: "spans";

    /// Opens a span: `{trace_id, span_id, name, start_ms}`.
    ///
    /// A nested span has the trace id of its parent; log lines inside of a span contain both ids.
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

    /// Returns the trace id of the innermost open span, or nil if no span is open.
    ///
    /// ```harn
    /// let span = trace_start("a")
    /// println(trace_id() == span.trace_id) // -> true
    /// ```
    State fn trace_id(cx) -> "string | nil" {
        cx.state::<State>().open_span().map(|(trace_id, _)| trace_id)
    }

    /// Starts recording spans and removes the recorded ones, or stops recording.
    ///
    /// These are recorded when they finish: calls of named functions (not of generators), model calls, tool calls of a
    /// loop, parallel operations, spawned tasks, imported files and pipelines. Operations that were already in progress
    /// are not recorded. The last 16,384 spans are stored.
    ///
    /// Tracing has no cost in a program whose source does not contain `enable_tracing`. In other programs, a call in
    /// tail position needs a stack frame, so that deep recursion by tail calls reaches the call limit.
    ///
    /// ```harn
    /// fn double(n) { return n * 2 }
    /// enable_tracing()
    /// double(4)
    /// enable_tracing(false)
    /// double(5)
    /// println(trace_spans().map({ span -> span.name })) // -> [double]
    /// ```
    State fn enable_tracing(cx, on: Option<bool> as "bool?") -> "nil" {
        cx.record_spans(on.unwrap_or(true));
    }

    /// Returns the recorded spans, ordered by their start.
    ///
    /// Each span is `{span_id, parent_id, kind, name, start_ms, duration_ms, metadata?}`. `kind` is `pipeline`,
    /// `fn_call`, `llm_call`, `tool_call`, `import`, `parallel` or `spawn`. `parent_id` is the enclosing span (nil for
    /// a root span; it may still be in progress). `start_ms` is a time of the clock of `elapsed`. `metadata` contains
    /// further details, such as the tokens of a model call or the number of tasks of a parallel operation.
    ///
    /// ```harn
    /// fn inner() { return 1 }
    /// fn outer() { return inner() }
    /// enable_tracing()
    /// outer()
    /// let [first, second] = trace_spans()
    /// println([first.name, second.name, second.parent_id == first.span_id]) // -> [outer, inner, true]
    /// ```
    State fn trace_spans(cx) -> "list" {
        let (mut spans, _) = cx.finished_spans();
        spans.sort_by_key(|span| span.id);
        Value::list(spans.into_iter().map(span_dict).collect())
    }

    /// Renders the recorded spans as a tree with their times.
    ///
    /// The total time is from the first start to the last end. Spans below 40 levels are shown at level 40.
    ///
    /// ```harn
    /// println(trace_summary()) // -> No spans recorded.
    /// ```
    State fn trace_summary(cx) -> "string" {
        let (spans, left_out) = cx.finished_spans();
        summary(spans, left_out)
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn span_dict(span: FinishedSpan) -> Value {
    let mut dict = Dict::new();
    let number = |id: u64| i64::try_from(id).unwrap_or(i64::MAX);
    dict.insert("span_id", number(span.id));
    dict.insert("parent_id", span.parent.map(number));
    dict.insert("kind", span.kind.word());
    dict.insert("name", span.name);
    dict.insert("start_ms", millis(span.start));
    dict.insert("duration_ms", millis(span.duration));
    if !span.metadata.is_empty() {
        dict.insert("metadata", span.metadata.into_iter().collect::<Dict>());
    }
    dict.into()
}

/// Maximum indentation level: otherwise the lines of a deep recursion would grow without bound.
const LEVELS: usize = 40;

fn summary(mut spans: Vec<FinishedSpan>, left_out: u64) -> String {
    let start = spans.iter().map(|span| span.start).min();
    let end = spans.iter().map(|span| span.start + span.duration).max();
    let (Some(start), Some(end)) = (start, end) else { return "No spans recorded.".to_owned() };
    let mut out = format!("Trace: {} spans, {}ms total", spans.len(), millis(end.saturating_sub(start)));
    if left_out > 0 {
        let _ = write!(out, " ({left_out} earlier ones were not kept)");
    }
    out.push_str("\n\n");
    spans.sort_by_key(|span| span.id);
    let mut inside: BTreeMap<Option<u64>, Vec<usize>> = BTreeMap::new();
    let known: BTreeSet<u64> = spans.iter().map(|span| span.id).collect();
    for (at, span) in spans.iter().enumerate() {
        inside.entry(span.parent.filter(|parent| known.contains(parent))).or_default().push(at);
    }
    let roots = inside.remove(&None).unwrap_or_default();
    let mut waiting: Vec<(usize, usize)> = roots.into_iter().rev().map(|at| (at, 0)).collect();
    while let Some((at, level)) = waiting.pop() {
        let span = &spans[at];
        let indent = level.min(LEVELS) * 2;
        let _ = write!(out, "{:indent$}{} {} {}ms", "", span.kind.word(), span.name, millis(span.duration));
        if !span.metadata.is_empty() {
            let known: Vec<String> =
                span.metadata.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let _ = write!(out, " ({})", known.join(" "));
        }
        out.push('\n');
        let within = inside.remove(&Some(span.id)).unwrap_or_default();
        waiting.extend(within.into_iter().rev().map(|at| (at, level + 1)));
    }
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_vm::SpanKind;

    fn span(id: u64, parent: Option<u64>, start: u64, duration: u64) -> FinishedSpan {
        FinishedSpan {
            id,
            parent,
            kind: SpanKind::FnCall,
            name: format!("f{id}").as_str().into(),
            start: Duration::from_millis(start),
            duration: Duration::from_millis(duration),
            metadata: vec![("n", Value::int(7))],
        }
    }

    #[test]
    fn a_tree_of_spans_is_drawn() {
        // The second span is inside of the first, the third inside of an unfinished one.
        let spans = vec![span(3, Some(1), 12, 5), span(5, Some(4), 40, 10), span(1, None, 10, 20)];
        let expected = "Trace: 3 spans, 40ms total\n\nfn_call f1 20ms (n=7)\n  fn_call f3 5ms (n=7)\nfn_call f5 10ms (n=7)";
        assert_eq!(summary(spans, 0), expected);
    }

    #[test]
    fn deep_recursion_is_drawn_in_bounded_space() {
        let chain = |n: u64| summary((1..=n).map(|id| span(id, (id > 1).then(|| id - 1), 0, 1)).collect(), 9);
        assert!(chain(2).starts_with("Trace: 2 spans, 1ms total (9 earlier ones were not kept)"));
        let line = "fn_call f9999 1ms (n=7)\n".len() + 2 * LEVELS;
        assert!(chain(8000).len() < 8100 * line);
    }
}
