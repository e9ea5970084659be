//! Spans of a run: recorded ones, or derived from the times of the run, its stages and its calls.

use harn_value::{Data, json};

use crate::fields::{items, moment};
use crate::records::Opened;

/// ID of the span of the run, if spans are derived.
const RUN: i64 = 1;

/// Returns the spans, ordered by start.
pub(crate) fn spans(opened: &Opened) -> Vec<Data> {
    let recorded = items(&opened.run, "trace_spans");
    if recorded.is_empty() { derived(opened) } else { recorded.to_vec() }
}

fn derived(opened: &Opened) -> Vec<Data> {
    let run = &opened.run;
    let calls = opened.log.timed();
    let first = calls.iter().map(|(at, _, _)| *at).min();
    let Some(start) = moment(&run["started_at"]).or(first) else { return Vec::new() };
    let last = calls.iter().map(|(at, took, _)| at + took).max();
    let end = moment(&run["finished_at"]).or(last).unwrap_or(start);
    let mut next = RUN;
    let mut span = |parent: Option<i64>, kind: &str, name: &Data, from: i64, to: i64, metadata: Data| {
        let id = next;
        next += 1;
        json!({
            "span_id": id, "parent_id": parent, "kind": kind, "name": name, "start_ms": (from - start).max(0),
            "duration_ms": (to - from).max(0), "metadata": metadata,
        })
    };
    let name = opened.row.workflow_name.as_str().into();
    let mut out = vec![span(None, "run", &name, start, end, json!({"status": run["status"]}))];
    let mut stages = Vec::new();
    for stage in items(run, "stages") {
        let Some(from) = moment(&stage["started_at"]) else { continue };
        let to = moment(&stage["finished_at"]).unwrap_or(end);
        let metadata = json!({"kind": stage["kind"], "status": stage["status"], "outcome": stage["outcome"]});
        let made = span(Some(RUN), "stage", &stage["node_id"], from, to, metadata);
        stages.push((from, to, made["span_id"].as_i64().unwrap_or(RUN)));
        out.push(made);
    }
    for (at, took, request) in calls {
        // The last stage that had started by then, because stages may be adjacent.
        let stage = stages.iter().rev().find(|(from, to, _)| (*from..=*to).contains(&at));
        let parent = stage.map_or(RUN, |(_, _, id)| *id);
        let metadata = json!({
            "provider": request["provider"], "call_id": request["call_id"], "iteration": request["iteration"],
        });
        out.push(span(Some(parent), "llm_call", &request["model"], at, at + took, metadata));
    }
    out
}
