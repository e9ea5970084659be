//! All data of one run.

use std::collections::BTreeSet;

use harn_system::{Real, System};
use harn_value::{Data, json};

use crate::calls::{plain, pretty};
use crate::fields::{items, moment, text_of};
use crate::records::{Opened, Records};
use crate::timeline;

/// Returns the response about a run.
pub(crate) fn answer(records: &Records, opened: &Opened) -> Data {
    let run = &opened.run;
    let events = skill_events(run);
    let of_kind = |kinds: &[&str]| -> Vec<Data> {
        let wanted = events.iter().filter(|event| kinds.iter().any(|kind| event["kind"] == *kind));
        wanted.map(|event| (*event).clone()).collect()
    };
    let (story, story_note) = story(opened);
    let (renders, steps) = (opened.log.renders(), opened.log.steps());
    json!({
        "summary": opened.row.to_json(), "task": run["task"], "workflow_id": run["workflow_id"],
        "parent_run_id": run["parent_run_id"], "root_run_id": run["root_run_id"], "policy_summary": run["policy"],
        "execution": run["execution"], "metadata": run["metadata"], "replay_summary": replay(opened),
        "insights": insights(opened, &steps), "stages": stages(run), "spans": timeline::spans(opened),
        "activities": activities(run), "transitions": run["transitions"], "checkpoints": run["checkpoints"],
        "artifacts": run["artifacts"], "transcript_steps": steps, "template_renders": renders,
        "story": story, "child_runs": child_runs(records, run), "observability": run["observability"],
        "skill_timeline": skill_timeline(&events), "skill_match_events": of_kind(&["skill_matched"]),
        "tool_load_events": of_kind(&["tool_search_query", "tool_search_result"]), "active_skills": active(&events),
        "notes": {
            "transcript": opened.log.note, "story": story_note,
            "variants": variants_note(opened, renders.is_empty()),
        },
    })
}

fn variants_note(opened: &Opened, none: bool) -> Option<String> {
    let text = "No template was rendered while a model was being called.".to_owned();
    none.then(|| if opened.log.is_empty() { opened.log.note.clone().unwrap_or(text) } else { text })
}

fn stages(run: &Data) -> Vec<Data> {
    let stage = |stage: &Data| {
        let took = moment(&stage["started_at"]).zip(moment(&stage["finished_at"]));
        let error = text_of(stage, "error").or_else(|| text_of(&stage["metadata"], "error"));
        json!({
            "id": stage["id"], "node_id": stage["node_id"], "kind": stage["kind"], "status": stage["status"],
            "outcome": stage["outcome"], "branch": stage["branch"], "started_at": stage["started_at"],
            "finished_at": stage["finished_at"], "duration_ms": took.map(|(from, to)| (to - from).max(0)),
            "visible_text": stage["visible_text"], "private_reasoning": stage["private_reasoning"], "error": error,
            "usage": stage["usage"], "verification": stage["verification"], "attempts": stage["attempts"],
            "produced_artifact_ids": stage["produced_artifact_ids"],
            "consumed_artifact_ids": stage["consumed_artifact_ids"],
            "message_count": items(&stage["transcript"], "messages").len(),
        })
    };
    items(run, "stages").iter().map(stage).collect()
}

/// Returns the most important facts about a run.
fn insights(opened: &Opened, steps: &[Data]) -> Vec<Data> {
    let run = &opened.run;
    let mut out = Vec::new();
    let mut tell = |label: &str, value: String, detail: Option<String>| {
        out.push(json!({"label": label, "value": value, "detail": detail}));
    };
    let stages = stages(run);
    let slowest = stages.iter().max_by_key(|stage| stage["duration_ms"].as_i64());
    if let Some(stage) = slowest.filter(|stage| stages.len() > 1 && stage["duration_ms"].as_i64().is_some()) {
        let took = stage["duration_ms"].as_i64().unwrap_or_default();
        tell("Slowest stage", text_of(stage, "node_id").unwrap_or_default(), Some(format!("{took} ms")));
    }
    let failed: Vec<String> = stages
        .iter()
        .filter(|stage| stage["status"] == "failed")
        .filter_map(|stage| text_of(stage, "node_id"))
        .collect();
    if !failed.is_empty() {
        tell("Failed stages", failed.join(", "), None);
    }
    let recorded = items(run, "tool_recordings").iter().filter_map(|call| text_of(call, "tool_name"));
    let tools: BTreeSet<String> = recorded.chain(opened.log.tools()).collect();
    if !tools.is_empty() {
        tell("Tools called", tools.into_iter().collect::<Vec<_>>().join(", "), None);
    }
    let rejected = items(run, "tool_recordings").iter().filter(|call| call["is_rejected"] == true).count();
    if rejected > 0 {
        tell("Refused tool calls", rejected.to_string(), None);
    }
    let costly = steps.iter().max_by_key(|step| step["input_tokens"].as_u64());
    if let Some(step) = costly.filter(|step| steps.len() > 1 && step["input_tokens"].as_u64().is_some()) {
        let text = format!("call {}", step["call_index"]);
        tell("Largest request", text, Some(format!("{} input tokens", step["input_tokens"])));
    }
    let waits = items(run, "hitl_questions").len();
    if waits > 0 {
        tell("Questions to people", waits.to_string(), None);
    }
    out
}

/// Returns the activities of the runtime: tools, requests to humans, workers, compaction, daemons, verification.
fn activities(run: &Data) -> Vec<Data> {
    let mut out = Vec::new();
    let mut add = |kind: &str, title: String, detail: Option<String>, of: &Data| {
        let at = ["at", "timestamp", "created_at", "asked_at"].into_iter().find_map(|key| text_of(of, key));
        out.push(json!({
            "kind": kind, "title": title, "detail": detail, "status": of["status"], "at": at,
        }));
    };
    for call in items(run, "tool_recordings") {
        let refused = if call["is_rejected"] == true { "refused\n" } else { "" };
        let detail = format!("{}\n{refused}{}", pretty(&call["arguments"]), plain(&call["result"]));
        add("tool", text_of(call, "tool_name").unwrap_or_default(), Some(detail), call);
    }
    for question in items(run, "hitl_questions") {
        let title = text_of(question, "prompt").or_else(|| text_of(question, "question"));
        add("question", title.unwrap_or_else(|| "question".to_owned()), Some(pretty(question)), question);
    }
    for (kind, key) in [
        ("worker", "worker_lineage"),
        ("compaction", "compaction_events"),
        ("daemon", "daemon_events"),
        ("verification", "verification_outcomes"),
    ] {
        for event in items(&run["observability"], key) {
            let title =
                ["worker_name", "node_id", "kind", "name"].into_iter().find_map(|key| text_of(event, key));
            add(kind, title.unwrap_or_else(|| kind.to_owned()), Some(pretty(event)), event);
        }
    }
    out
}

/// Returns the conversation from the call log; without a log, from the transcripts of the stages.
fn story(opened: &Opened) -> (Vec<Data>, Option<String>) {
    let logged = opened.log.story();
    if !logged.is_empty() {
        return (logged, None);
    }
    let mut out = Vec::new();
    let stages = items(&opened.run, "stages").iter().map(|stage| (&stage["node_id"], &stage["transcript"]));
    for (node, transcript) in stages.chain([(&Data::Null, &opened.run["transcript"])]) {
        for message in items(transcript, "messages") {
            let role = text_of(message, "role").unwrap_or_default();
            let kind = match role.as_str() {
                "assistant" => "reply",
                "tool" => "tool_result",
                _ => "message",
            };
            let title = node.as_str().map_or_else(|| role.clone(), |node| format!("{role} in {node}"));
            out.push(json!({
                "role": role, "kind": kind, "title": title, "text": plain(&message["content"]), "iteration": Data::Null,
            }));
        }
    }
    let note = if out.is_empty() {
        opened.log.note.clone()
    } else {
        Some("From the transcripts of the stages: no call log lies beside this record.".to_owned())
    };
    (out, note)
}

fn replay(opened: &Opened) -> Data {
    let fixture = &opened.run["replay_fixture"];
    let file = shell_word(&opened.file.display().to_string());
    json!({
        "fixture_id": fixture["id"], "eval_kind": fixture["eval_kind"], "expected_status": fixture["expected_status"],
        "stage_assertions": items(fixture, "stage_assertions"),
        "commands": {"replay": format!("harn replay {file}"), "eval": format!("harn eval {file}")},
    })
}

/// Quotes an argument for a shell.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn child_runs(records: &Records, run: &Data) -> Vec<Data> {
    let child = |child: &Data| {
        let path = text_of(child, "run_path").or_else(|| text_of(child, "persisted_path"));
        let path = path.and_then(|path| {
            let system = Real::new();
            let whole = system.canonical(std::path::Path::new(&path)).ok()?;
            let inside = whole.strip_prefix(system.canonical(records.dir()).ok()?).ok()?.to_owned();
            records.file(&inside.display().to_string()).ok()?;
            Some(inside.display().to_string().replace('\\', "/"))
        });
        let name = ["worker_name", "name", "workflow_name"].into_iter().find_map(|key| text_of(child, key));
        let id =
            text_of(child, "run_id").or_else(|| text_of(child, "worker_id")).or_else(|| text_of(child, "id"));
        json!({"run_id": id, "name": name, "status": child["status"], "path": path, "task": child["task"]})
    };
    items(run, "child_runs").iter().map(child).collect()
}

/// Returns the transcript events about skills and tool searches.
fn skill_events(run: &Data) -> Vec<&Data> {
    let stages = items(run, "stages").iter().map(|stage| &stage["transcript"]);
    let events = stages.chain([&run["transcript"]]).flat_map(|transcript| items(transcript, "events"));
    let told = |event: &&Data| {
        event["kind"]
            .as_str()
            .is_some_and(|kind| kind.starts_with("skill_") || kind.starts_with("tool_search_"))
    };
    events.filter(told).collect()
}

fn skill_timeline(events: &[&Data]) -> Vec<Data> {
    let of_skill = events.iter().filter(|event| !event["metadata"]["name"].is_null());
    let row = |event: &&Data| {
        let fields = &event["metadata"];
        let detail = text_of(fields, "reason")
            .or_else(|| fields.get("allowed_tools").filter(|tools| tools.is_array()).map(pretty));
        json!({
            "skill": fields["name"], "event": event["kind"], "iteration": fields["iteration"], "detail": detail,
        })
    };
    of_skill.map(row).collect()
}

/// Returns the skills that were active when the run ended.
fn active(events: &[&Data]) -> BTreeSet<String> {
    let mut active = BTreeSet::new();
    for event in events {
        let Some(name) = text_of(&event["metadata"], "name") else { continue };
        match event["kind"].as_str() {
            Some("skill_activated") => active.insert(name),
            Some("skill_deactivated") => active.remove(&name),
            _ => false,
        };
    }
    active
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell() {
        assert_eq!(shell_word(".harn-runs/a/run.json"), ".harn-runs/a/run.json");
        assert_eq!(shell_word("my runs/it's.json"), r"'my runs/it'\''s.json'");
    }

    #[test]
    fn skills_come_and_go() {
        let event =
            |kind: &str, name: &str| json!({"kind": kind, "metadata": {"name": name, "iteration": 1}});
        let run = json!({"stages": [{"transcript": {"events": [
            event("skill_activated", "a"), event("skill_activated", "b"), event("skill_deactivated", "a"),
            {"kind": "message"},
        ]}}]});
        let events = skill_events(&run);
        assert_eq!(active(&events).into_iter().collect::<Vec<_>>(), ["b"]);
        assert_eq!(skill_timeline(&events).len(), 3);
    }
}
