//! The trace of a program: events of its model calls and loops, for `agent_trace` and `agent_trace_summary`.

use std::collections::{BTreeMap, VecDeque};

use harn_value::{Data as Json, json};

/// Maximum number of stored events, so that a program that runs agents for days does not grow with each turn.
const KEPT: usize = 4096;

/// An event as JSON text, which takes a fourth of the memory of the value.
type Line = Box<str>;

/// The last events, and the totals of all events.
#[derive(Default)]
pub(crate) struct Trace {
    events: VecDeque<Line>,
    /// The number of events by type.
    counts: BTreeMap<String, i64>,
    /// Sums of fields by `type.field`.
    sums: BTreeMap<String, i64>,
    status: Option<Json>,
    refused_fallbacks: i64,
    tools: Vec<Json>,
}

/// The summed fields, with the type of their events.
const SUMMED: [(&str, &str); 6] = [
    ("loop_complete", "iterations"),
    ("loop_complete", "total_duration_ms"),
    ("llm_call", "input_tokens"),
    ("llm_call", "output_tokens"),
    ("llm_call", "duration_ms"),
    ("tool_execution", "duration_ms"),
];

impl Trace {
    /// Adds an event, a dict with `type`.
    pub(crate) fn add(&mut self, event: Json) {
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        for (of, field) in SUMMED.iter().filter(|(of, _)| *of == kind) {
            *self.sums.entry(format!("{of}.{field}")).or_default() += event[*field].as_i64().unwrap_or(0);
        }
        match kind.as_str() {
            "loop_complete" => self.status = Some(event["status"].clone()),
            "native_tool_fallback" if event["accepted"] == false => self.refused_fallbacks += 1,
            "tool_execution" if !self.tools.contains(&event["tool_name"]) => {
                self.tools.push(event["tool_name"].clone());
            }
            _ => {}
        }
        *self.counts.entry(kind).or_default() += 1;
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.events.push_back(event.to_string().into());
    }

    /// Returns the last events, oldest first.
    pub(crate) fn events(&self) -> impl Iterator<Item = Json> {
        self.events.iter().filter_map(|line| serde_json::from_str(line).ok())
    }

    /// Returns the totals for `agent_trace_summary`, with the fields of a loop's `trace`. They include all events.
    pub(crate) fn summary(&self) -> Json {
        let count = |kind: &str| self.counts.get(kind).copied().unwrap_or(0);
        let total = |field: &str| self.sums.get(field).copied().unwrap_or(0);
        json!({
            "status": self.status.clone().unwrap_or_else(|| "unknown".into()),
            "iterations": total("loop_complete.iterations"),
            "total_duration_ms": total("loop_complete.total_duration_ms"),
            "llm_calls": count("llm_call"), "tool_executions": count("tool_execution"),
            "tool_rejections": count("tool_rejected"), "interventions": count("loop_intervention"),
            "compactions": count("context_compaction"),
            "native_text_tool_fallbacks": count("native_tool_fallback"),
            "native_text_tool_fallback_rejections": self.refused_fallbacks,
            "empty_completion_retries": count("empty_completion_retry"),
            "total_input_tokens": total("llm_call.input_tokens"),
            "total_output_tokens": total("llm_call.output_tokens"),
            "total_llm_duration_ms": total("llm_call.duration_ms"),
            "total_tool_duration_ms": total("tool_execution.duration_ms"), "tools_used": self.tools,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_events_go_and_their_sums_stay() {
        let mut trace = Trace::default();
        for n in 0..KEPT + 10 {
            trace.add(json!({"type": "llm_call", "input_tokens": 2, "call_id": n}));
        }
        assert_eq!(
            (trace.events().count(), trace.events().next().unwrap()["call_id"].as_i64()),
            (KEPT, Some(10))
        );
        let summary = trace.summary();
        let all = i64::try_from(KEPT + 10).unwrap();
        assert_eq!(
            (summary["llm_calls"].as_i64(), summary["total_input_tokens"].as_i64()),
            (Some(all), Some(2 * all))
        );
    }
}
