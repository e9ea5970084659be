//! What the trace events of a program add up to.

use serde_json::{Value as Json, json};

/// Returns the sums of `agent_trace_summary`, in the fields of a loop's `trace`.
pub(crate) fn summary(events: &[Json]) -> Json {
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let total = |kind: &'static str, field: &str| of(kind).filter_map(|e| e[field].as_i64()).sum::<i64>();
    let status = of("loop_complete").next_back().map_or("unknown".into(), |event| event["status"].clone());
    let mut tools: Vec<&Json> = Vec::new();
    for tool in of("tool_execution").map(|event| &event["tool_name"]) {
        if !tools.contains(&tool) {
            tools.push(tool);
        }
    }
    json!({
        "status": status, "iterations": total("loop_complete", "iterations"),
        "total_duration_ms": total("loop_complete", "total_duration_ms"),
        "llm_calls": of("llm_call").count(), "tool_executions": of("tool_execution").count(),
        "tool_rejections": of("tool_rejected").count(), "interventions": of("loop_intervention").count(),
        "compactions": of("context_compaction").count(),
        "native_text_tool_fallbacks": of("native_tool_fallback").count(),
        "native_text_tool_fallback_rejections":
            of("native_tool_fallback").filter(|event| event["accepted"] == false).count(),
        "empty_completion_retries": of("empty_completion_retry").count(),
        "total_input_tokens": total("llm_call", "input_tokens"),
        "total_output_tokens": total("llm_call", "output_tokens"),
        "total_llm_duration_ms": total("llm_call", "duration_ms"),
        "total_tool_duration_ms": total("tool_execution", "duration_ms"), "tools_used": tools,
    })
}
