//! The outcome of a node, its branch, and its artifacts.

use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Serialize};

use super::graph::Node;
use crate::artifact;

/// The current node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Current {
    pub(super) node: String,
    pub(super) stage_id: String,
    pub(super) started_at: String,
    pub(super) selected: Vec<Json>,
    /// The current attempt, from 1.
    pub(super) attempt: u64,
    pub(super) attempt_started: String,
    pub(super) attempts: Vec<Json>,
    /// Why the last attempt was not accepted.
    pub(super) repair: Option<String>,
    /// The items of a map.
    pub(super) items: Vec<Json>,
    /// The model's result, while a command verifies it.
    pub(super) report: Option<Report>,
}

/// The result of a piece of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The result of the loop, or of the call.
    pub result: Json,
    /// The user-visible text of its last turn.
    pub text: String,
    /// `{input_tokens, output_tokens, total_duration_ms, call_count, total_cost, models}`
    pub usage: Json,
    /// The handle of the worker that executed it; null without a worker.
    pub worker: Json,
}

impl Report {
    /// Reads the result of a loop or call. `cost` is the cost of its tokens for `model`.
    pub fn of(result: Json, text: &str, model: &str, cost: f64, duration_ms: i64) -> Report {
        let (counts, calls) = match result.get("llm") {
            Some(llm) => (llm, result["trace"]["llm_calls"].as_i64().unwrap_or(0)),
            None => (&result, 1),
        };
        let usage = json!({
            "input_tokens": counts["input_tokens"].as_i64().unwrap_or(0),
            "output_tokens": counts["output_tokens"].as_i64().unwrap_or(0),
            "total_duration_ms": duration_ms, "call_count": calls, "total_cost": cost,
            "models": if model.is_empty() { json!([]) } else { json!([model]) },
        });
        Report { text: text.to_owned(), result, usage, worker: Json::Null }
    }

    /// Returns the status of the loop; `None` for a call.
    pub fn status(&self) -> Option<&str> {
        self.result["status"].as_str()
    }

    /// Returns whether the work is complete.
    pub fn succeeded(&self) -> bool {
        self.status().is_none_or(|status| matches!(status, "done" | "completed"))
    }
}

/// The end of an attempt.
#[derive(Debug, Clone, Default)]
pub(super) struct Ended {
    pub(super) failed: bool,
    pub(super) status: String,
    pub(super) outcome: String,
    pub(super) branch: String,
    pub(super) text: String,
    verification: Json,
    report: Option<Report>,
    /// Fields of the artifacts other than the common ones.
    outputs: Vec<Map<String, Json>>,
    metadata: Map<String, Json>,
    usage: Json,
}

fn map(value: Json) -> Map<String, Json> {
    match value {
        Json::Object(map) => map,
        _ => Map::new(),
    }
}

/// Returns the verification of a node without checks.
fn unverified() -> Json {
    json!({"kind": "none", "ok": true, "checks": []})
}

impl Ended {
    fn new(outcome: &str, branch: &str) -> Ended {
        Ended {
            status: "completed".to_owned(),
            outcome: outcome.to_owned(),
            branch: branch.to_owned(),
            verification: unverified(),
            ..Ended::default()
        }
    }

    fn fails(mut self) -> Ended {
        self.failed = true;
        "failed".clone_into(&mut self.status);
        self
    }

    /// Returns the outcome of a stage.
    pub(super) fn worked(node: &Node, report: Report, is_loop: bool) -> Ended {
        let delegated = node.kind() == "subagent";
        let mut ended = if report.succeeded() {
            Ended::new(if delegated { "subagent_completed" } else { "success" }, "success")
        } else {
            Ended::new(report.status().unwrap_or("failed"), "failed").fails()
        };
        ended.text.clone_from(&report.text);
        ended.outputs.push(output_of(&report));
        if delegated {
            ended.delegated(&report);
        }
        ended.metadata.insert("mode".to_owned(), if is_loop { "agent" } else { "llm" }.into());
        ended.usage = report.usage.clone();
        ended.report = Some(report);
        ended
    }

    fn delegated(&mut self, report: &Report) {
        let worker = &report.worker;
        for output in &mut self.outputs {
            output.insert("metadata".to_owned(), json!({"delegated": true, "worker_id": worker["id"]}));
        }
        self.outputs.push(map(json!({
            "kind": "worker_result", "title": format!("worker {} result", worker["name"].printed()),
            "text": report.text,
            "data": {"request": worker["request"], "provenance": worker["provenance"], "status": worker["status"]},
            "metadata": {"delegated": true, "worker_id": worker["id"]},
        })));
        self.metadata.insert("worker".to_owned(), worker.clone());
        self.metadata.insert("worker_id".to_owned(), worker["id"].clone());
    }

    /// Returns the outcome of a verification node, or of a stage with verification.
    pub(super) fn verified(node: &Node, text: &str, status: Option<i64>, report: Option<Report>) -> Ended {
        let wanted = node.get("verify");
        let mut checks = Vec::new();
        let mut check = |kind: &str, ok: bool, expected: Json, actual: Json| {
            checks.push(json!({"kind": kind, "ok": ok, "expected": expected, "actual": actual}));
        };
        if let Some(report) = &report
            && !report.succeeded()
        {
            check("stage_status", false, "done".into(), report.status().into());
        }
        let texts: Vec<String> = ["assert_text", "expect_text"]
            .iter()
            .filter(|key| !wanted[**key].is_null())
            .map(|key| wanted[*key].printed())
            .collect();
        for expected in &texts {
            check("assert_text", text.contains(expected.as_str()), expected.as_str().into(), Json::Null);
        }
        // Without other expectations, a command must succeed.
        let default = (status.is_some() && texts.is_empty()).then_some(0);
        if let Some(expected) = wanted["expect_status"].as_i64().or(default) {
            check("expect_status", status.unwrap_or(0) == expected, expected.into(), status.into());
        }
        let ok = checks.iter().all(|check| check["ok"] == true);
        let is_stage = node.kind() != "verify";
        let mut ended = match (ok, is_stage) {
            (true, true) => Ended::new("success", "success"),
            (true, false) => Ended::new("verified", "passed"),
            (false, _) => Ended::new("verification_failed", "failed").fails(),
        };
        let kind = if checks.is_empty() { "none" } else { "composite" };
        ended.verification = json!({"kind": kind, "ok": ok, "checks": checks});
        if let Some(status) = status {
            ended.metadata.insert("exit_status".to_owned(), status.into());
            ended.metadata.insert("command_output".to_owned(), text.into());
        }
        if is_stage {
            ended.text = report.as_ref().map(|report| report.text.clone()).unwrap_or_default();
            ended.outputs.extend(report.as_ref().map(output_of));
        } else {
            text.clone_into(&mut ended.text);
            let data = json!({"ok": ok, "checks": ended.verification["checks"], "exit_status": status});
            ended.outputs.push(map(json!({"text": text, "data": data})));
        }
        ended.usage = report.as_ref().map(|report| report.usage.clone()).unwrap_or_default();
        ended.report = report;
        ended
    }

    /// Returns the outcome of a node that needs neither a model nor a command.
    pub(super) fn without_work(node: &Node, selected: &[Json], items: &[Json]) -> Ended {
        match node.kind() {
            "fork" => Ended::new("forked", "fork"),
            "join" => Ended::new("joined", "join"),
            "condition" => {
                let metadata = node.part("metadata");
                let holds = match (metadata["contains_text"].as_str(), metadata["artifact_kind"].as_str()) {
                    (Some(text), _) => selected.iter().any(|one| artifact::text_of(one).contains(text)),
                    (None, Some(kind)) => {
                        let kind = artifact::kind_named(kind);
                        selected.iter().any(|one| one["kind"] == kind)
                    }
                    (None, None) => !selected.is_empty(),
                };
                let word = if holds { "true" } else { "false" };
                Ended::new(&format!("condition_{word}"), word)
            }
            "reduce" => {
                let separator = node.part("reduce_policy")["separator"].as_str().unwrap_or("\n\n");
                let texts: Vec<String> = selected.iter().map(artifact::text_of).collect();
                let mut ended = Ended::new("reduced", "reduced");
                ended.text = texts.join(separator);
                ended.outputs.push(map(json!({"text": ended.text})));
                ended
            }
            "escalation" => {
                let policy = node.part("escalation_policy");
                let reason = policy["reason"].as_str().unwrap_or("manual review required");
                let mut ended = Ended::new("escalated", "escalated");
                reason.clone_into(&mut ended.text);
                let data = json!({"queue": policy["queue"], "level": policy["level"], "reason": reason});
                ended.outputs.push(map(json!({"text": reason, "data": data})));
                ended
            }
            _ => {
                let mut ended = Ended::new("mapped", "mapped");
                ended.outputs = items.iter().enumerate().map(|(at, item)| copied(at, item)).collect();
                ended.metadata.insert("item_count".to_owned(), items.len().into());
                ended
            }
        }
    }

    /// Returns the outcome of a map whose items a model processed.
    pub(super) fn mapped(node: &Node, items: &[Json], reports: Vec<Option<Result<Report, String>>>) -> Ended {
        let mut ended = Ended::new("mapped", "mapped");
        let (mut branches, mut texts) = (Vec::new(), Vec::new());
        let (mut good, mut bad) = (0, 0);
        for (at, (item, report)) in items.iter().zip(reports).enumerate() {
            let (outcome, error) = match &report {
                None => ("not_needed", Json::Null),
                Some(Err(error)) => ("failed", error.as_str().into()),
                Some(Ok(report)) if report.succeeded() => ("success", Json::Null),
                Some(Ok(report)) => (report.status().unwrap_or("failed"), Json::Null),
            };
            branches.push(json!({"index": at, "outcome": outcome, "error": error}));
            match report {
                None => {}
                Some(Ok(report)) => {
                    if report.succeeded() {
                        good += 1;
                        let mut output = output_of(&report);
                        output.insert("lineage".to_owned(), lineage(std::slice::from_ref(item)));
                        output
                            .insert("title".to_owned(), format!("stage {} item {}", node.id, at + 1).into());
                        output.insert("metadata".to_owned(), json!({"map_index": at}));
                        ended.outputs.push(output);
                        texts.push(report.text.clone());
                    } else {
                        bad += 1;
                    }
                    ended.usage = add_usage(&ended.usage, &report.usage);
                }
                Some(Err(_)) => bad += 1,
            }
        }
        ended.text = texts.join("\n\n");
        ended.metadata.insert("item_count".to_owned(), items.len().into());
        ended.metadata.insert("branches".to_owned(), branches.into());
        if good == 0 && bad > 0 {
            "failed".clone_into(&mut ended.outcome);
            "failed".clone_into(&mut ended.branch);
            return ended.fails();
        }
        if bad > 0 {
            "partial".clone_into(&mut ended.status);
        }
        ended
    }

    /// Returns the reason of the failure, for the next attempt.
    pub(super) fn why_failed(&self) -> String {
        if self.verification["kind"] == "none" {
            return format!("{}: {}", self.outcome, self.text);
        }
        let checks: Vec<String> = self.verification["checks"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|check| check["ok"] == false)
            .map(|check| {
                let actual = &check["actual"];
                let got =
                    if actual.is_null() { String::new() } else { format!(", got {}", actual.printed()) };
                format!("{}: expected {}{got}", check["kind"].printed(), check["expected"].printed())
            })
            .collect();
        let output = self.metadata.get("command_output").map(Json::printed).unwrap_or_default();
        format!("{}\n{}", checks.join("\n"), output.trim()).trim().to_owned()
    }

    /// Returns the record of an attempt.
    pub(super) fn attempt(&self, current: &Current, now: &str) -> Json {
        json!({
            "attempt": current.attempt, "status": self.status, "outcome": self.outcome, "branch": self.branch,
            "started_at": current.attempt_started, "finished_at": now, "verification": self.verification,
            "visible_text": self.text,
        })
    }

    /// Returns the fields of the node's artifacts.
    pub(super) fn artifacts(&self, node: &Node, current: &Current) -> Vec<Json> {
        let common = json!({
            "kind": node.output_kind(), "title": format!("stage {} output", node.id), "stage": node.id,
            "freshness": "fresh", "lineage": lineage(&current.selected),
        });
        self.outputs
            .iter()
            .map(|output| {
                let mut fields = map(common.clone());
                fields.extend(output.clone());
                Json::Object(fields)
            })
            .collect()
    }

    /// Returns the record of the stage.
    pub(super) fn stage(&self, node: &Node, current: &Current, made: &[Json], now: &str) -> Json {
        let result = self.report.as_ref().map(|report| &report.result);
        let mut transcript = result.map(|result| result["transcript"].clone()).unwrap_or_default();
        if node.get("output_visibility") == "public" {
            transcript = for_people(&transcript);
        }
        let mut metadata = self.metadata.clone();
        if let Some(result) = result {
            let mut slim = result.clone();
            if let Some(fields) = slim.as_object_mut() {
                fields.shift_remove("transcript");
            }
            metadata.insert("result".to_owned(), slim);
        }
        if let Some(own) = node.part("metadata").as_object().filter(|own| !own.is_empty()) {
            metadata.insert("node".to_owned(), Json::Object(own.clone()));
        }
        let ids = |list: &[Json]| -> Vec<Json> { list.iter().map(|one| one["id"].clone()).collect() };
        json!({
            "id": current.stage_id, "node_id": node.id, "kind": node.kind(), "status": self.status,
            "outcome": self.outcome, "branch": self.branch, "started_at": current.started_at, "finished_at": now,
            "visible_text": self.text, "private_reasoning": private(result, &transcript), "transcript": transcript,
            "verification": self.verification, "usage": self.usage, "artifacts": made,
            "consumed_artifact_ids": ids(&current.selected), "produced_artifact_ids": ids(made),
            "attempts": current.attempts, "metadata": metadata,
        })
    }
}

/// Returns text and data of a piece of work.
fn output_of(report: &Report) -> Map<String, Json> {
    let mut data = report.result.clone();
    if let Some(fields) = data.as_object_mut() {
        // The transcript is already in the stage of the record.
        fields.shift_remove("transcript");
    }
    map(json!({"text": report.text, "data": data}))
}

/// Converts an item of a plain map to an artifact.
fn copied(at: usize, item: &Json) -> Map<String, Json> {
    let mut out = map(json!({"title": format!("item {}", at + 1), "metadata": {"map_index": at}}));
    if item["_type"] == "artifact" {
        for key in ["title", "text", "data", "source"] {
            out.insert(key.to_owned(), item[key].clone());
        }
        out.insert("lineage".to_owned(), lineage(std::slice::from_ref(item)));
    } else {
        out.insert("text".to_owned(), item.printed().into());
        out.insert("data".to_owned(), item.clone());
    }
    out
}

fn lineage(selected: &[Json]) -> Json {
    selected.iter().map(|one| one["id"].clone()).filter(|id| !id.is_null()).collect()
}

/// Returns the model's private reasoning, for the record.
fn private(result: Option<&Json>, transcript: &Json) -> Json {
    if let Some(text) =
        result.and_then(|result| result["private_reasoning"].as_str()).filter(|t| !t.is_empty())
    {
        return text.into();
    }
    let events = transcript["events"].as_array().into_iter().flatten();
    let texts: Vec<&str> = events
        .filter(|event| event["kind"] == "private_reasoning")
        .filter_map(|event| event["text"].as_str())
        .collect();
    if texts.is_empty() { Json::Null } else { texts.join("\n\n").into() }
}

/// Returns a transcript without tool results and non-public events.
fn for_people(transcript: &Json) -> Json {
    let mut out = transcript.clone();
    let keep = |list: &mut Json, fits: &dyn Fn(&Json) -> bool| {
        if let Some(items) = list.as_array_mut() {
            items.retain(fits);
        }
    };
    if out.is_object() {
        keep(&mut out["messages"], &|message| {
            let role = message["role"].as_str().unwrap_or_default();
            let content = message["content"].as_array();
            let only_results = content.is_some_and(|blocks| {
                !blocks.is_empty() && blocks.iter().all(|b| b["type"] == "tool_result")
            });
            !matches!(role, "tool" | "tool_result") && !only_results
        });
        keep(&mut out["events"], &|event| event["visibility"] == "public");
    }
    out
}

/// Adds two usages.
pub(crate) fn add_usage(a: &Json, b: &Json) -> Json {
    if a.is_null() {
        return if b.is_null() { no_usage() } else { b.clone() };
    }
    let int = |key: &str| a[key].as_i64().unwrap_or(0).saturating_add(b[key].as_i64().unwrap_or(0));
    let mut models: Vec<Json> = a["models"].as_array().cloned().unwrap_or_default();
    for model in b["models"].as_array().into_iter().flatten() {
        if !models.contains(model) {
            models.push(model.clone());
        }
    }
    json!({
        "input_tokens": int("input_tokens"), "output_tokens": int("output_tokens"),
        "total_duration_ms": int("total_duration_ms"), "call_count": int("call_count"),
        "total_cost": a["total_cost"].as_f64().unwrap_or(0.0) + b["total_cost"].as_f64().unwrap_or(0.0),
        "models": models,
    })
}

/// Returns an empty usage.
pub(crate) fn no_usage() -> Json {
    json!({
        "input_tokens": 0, "output_tokens": 0, "total_duration_ms": 0, "call_count": 0, "total_cost": 0.0, "models": [],
    })
}
