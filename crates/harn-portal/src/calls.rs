//! The call log of a record: request and reply of each model call, and the templates that were rendered for it.
//!
//! The prompt of a call consists of, in the order of the file up to its `provider_call_request`: the last
//! `system_prompt`, and all `message` entries. Unknown entries are skipped.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use harn_system::{Real, System, SystemExt};
use harn_value::{Data, json};

use crate::fields::{items, text_of};

/// Maximum size of a call log: 512 MiB.
const MAX_LOG: u64 = 512 << 20;

/// Usage of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Spent {
    pub(crate) calls: u64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cost_usd: f64,
}

impl Spent {
    /// Returns the sum.
    pub(crate) fn and(&self, other: &Spent) -> Spent {
        Spent {
            calls: self.calls.saturating_add(other.calls),
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_usd: self.cost_usd + other.cost_usd,
        }
    }

    /// Reads the `usage` of a record or stage.
    pub(crate) fn of_usage(usage: &Data) -> Spent {
        Spent {
            calls: count(usage, "call_count"),
            input_tokens: count(usage, "input_tokens"),
            output_tokens: count(usage, "output_tokens"),
            cost_usd: usage.get("total_cost").and_then(Data::as_f64).unwrap_or_default(),
        }
    }
}

fn count(value: &Data, key: &str) -> u64 {
    value.get(key).and_then(Data::as_u64).unwrap_or_default()
}

/// The entries of a call log.
#[derive(Debug, Default)]
pub(crate) struct CallLog {
    entries: Vec<Data>,
    /// Why there are no entries, or which ones were skipped, as a message.
    pub(crate) note: Option<String>,
}

impl CallLog {
    /// Reads a log. A missing file has no entries.
    pub(crate) fn read(system: &Real, path: &Path) -> CallLog {
        if !system.exists(path) {
            let note = "No call log lies beside this record: set HARN_LLM_TRANSCRIPT_DIR to this folder when you run the program.";
            let dir = path.parent().unwrap_or(path).display();
            return CallLog::unread(format!("{note} ({dir})"));
        }
        match system.read(path, MAX_LOG) {
            Ok(bytes) => CallLog::parse(&String::from_utf8_lossy(&bytes)),
            Err(e) => CallLog::unread(format!("The call log cannot be read: {e}.")),
        }
    }

    /// Creates a log without entries; `why` is the reason, as a message.
    pub(crate) fn unread(why: String) -> CallLog {
        CallLog { note: Some(why), ..CallLog::default() }
    }

    fn parse(text: &str) -> CallLog {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let mut broken = 0;
        let entries: Vec<Data> = lines
            .filter_map(|line| {
                let entry = line.parse::<Data>().ok().filter(Data::is_object);
                broken += usize::from(entry.is_none());
                entry
            })
            .collect();
        let note = match (broken, entries.is_empty()) {
            (0, false) => None,
            (0, true) => Some("The call log is empty: no model was called.".to_owned()),
            (n, _) => Some(format!("{n} lines of the call log are no JSON and were passed over.")),
        };
        CallLog { entries, note }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn of_type<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Data> {
        self.entries.iter().filter(move |entry| entry["type"] == kind)
    }

    /// Returns the usage of the calls by the provider and model that the program requested.
    pub(crate) fn spent(&self) -> BTreeMap<(Option<String>, String), Spent> {
        let asked: HashMap<&str, &Data> = self
            .of_type("provider_call_request")
            .filter_map(|request| Some((request["call_id"].as_str()?, request)))
            .collect();
        let mut out: BTreeMap<(Option<String>, String), Spent> = BTreeMap::new();
        for reply in self.of_type("provider_call_response") {
            let request = reply["call_id"].as_str().and_then(|id| asked.get(id)).copied().unwrap_or(reply);
            let model = text_of(request, "model").unwrap_or_else(|| "unknown".to_owned());
            let sum = out.entry((text_of(request, "provider"), model)).or_default();
            *sum = sum.and(&Spent {
                calls: 1,
                input_tokens: count(reply, "input_tokens"),
                output_tokens: count(reply, "output_tokens"),
                cost_usd: reply.get("cost_usd").and_then(Data::as_f64).unwrap_or_default(),
            });
        }
        out
    }

    /// Returns one entry per call: request and reply.
    pub(crate) fn steps(&self) -> Vec<Data> {
        let ends: HashMap<&str, &Data> = self
            .entries
            .iter()
            .filter(|entry| {
                entry["type"] == "provider_call_response" || entry["type"] == "provider_call_error"
            })
            .filter_map(|entry| Some((entry["call_id"].as_str()?, entry)))
            .collect();
        let mut out = Vec::new();
        let mut system_prompt = &Data::Null;
        let mut added: Vec<&Data> = Vec::new();
        for entry in &self.entries {
            match entry["type"].as_str().unwrap_or_default() {
                "system_prompt" => system_prompt = &entry["content"],
                "message" => added.push(entry),
                "provider_call_request" => {
                    let end = entry["call_id"].as_str().and_then(|id| ends.get(id)).copied();
                    out.push(step(out.len() + 1, entry, end, system_prompt, &added));
                    added.clear();
                }
                _ => (),
            }
        }
        out
    }

    /// Returns one entry per render, in the order of the file; `marks` show where the result of a template differs
    /// from its last one.
    pub(crate) fn renders(&self) -> Vec<Data> {
        let mut before: HashMap<&str, Vec<(&Data, Vec<Data>)>> = HashMap::new();
        let mut out = Vec::new();
        for entry in self.of_type("template.render") {
            let uri = entry["template_uri"].as_str().unwrap_or_default();
            let taken: Vec<Data> = items(entry, "branches")
                .iter()
                .map(|branch| json!([branch["line"], branch["col"], branch["branch_id"]]))
                .collect();
            let earlier = before.entry(uri).or_default();
            let mut marks = Vec::new();
            if earlier.iter().any(|(hash, _)| **hash != entry["template_revision_hash"]) {
                marks.push("other source than an earlier render");
            }
            if earlier.iter().any(|(_, other)| *other != taken) {
                marks.push("other branches than an earlier render");
            }
            let seen = earlier
                .iter()
                .any(|(hash, other)| **hash == entry["template_revision_hash"] && *other == taken);
            if !seen && !uri.is_empty() {
                earlier.push((&entry["template_revision_hash"], taken));
            }
            let llm = &entry["llm"];
            out.push(json!({
                "template_uri": uri, "template_revision_hash": entry["template_revision_hash"],
                "rendered_bytes": entry["rendered_bytes"], "provider": llm["provider"], "model": llm["model"],
                "family": llm["family"], "capabilities": llm["capabilities"], "branches": entry["branches"],
                "span_id": entry["span_id"], "timestamp": entry["timestamp"], "marks": marks,
            }));
        }
        out
    }

    /// Returns the conversation for display: messages of other roles, and the replies of the models.
    pub(crate) fn story(&self) -> Vec<Data> {
        let mut out = Vec::new();
        for entry in &self.entries {
            let part = |kind: &str, role: &str, title: String, text: String| {
                json!({
                    "role": role, "kind": kind, "title": title, "text": text, "iteration": entry["iteration"],
                })
            };
            match entry["type"].as_str().unwrap_or_default() {
                // Replies of the model are added where they arrived.
                "message" if entry["role"] != "assistant" => {
                    let role = text_of(entry, "role").unwrap_or_default();
                    let is_result = role == "tool";
                    let title = text_of(entry, "name").unwrap_or_else(|| role.clone());
                    let kind = if is_result { "tool_result" } else { "message" };
                    out.push(part(kind, &role, title, plain(&entry["content"])));
                }
                "provider_call_response" => {
                    let who = text_of(entry, "model").unwrap_or_else(|| "model".to_owned());
                    if let Some(thinking) = text_of(entry, "thinking") {
                        out.push(part("thinking", "assistant", who.clone(), thinking));
                    }
                    if let Some(text) = text_of(entry, "text") {
                        out.push(part("reply", "assistant", who, text));
                    }
                    for call in items(entry, "tool_calls") {
                        let name = text_of(call, "name").unwrap_or_default();
                        out.push(part("tool_call", "assistant", name, pretty(&call["arguments"])));
                    }
                }
                "provider_call_error" => {
                    let text = text_of(entry, "message").unwrap_or_default();
                    let title = text_of(entry, "category").unwrap_or_else(|| "error".to_owned());
                    out.push(part("message", "error", title, text));
                }
                _ => (),
            }
        }
        out
    }

    /// Returns the calls as spans: start in milliseconds since 1970, duration, and request.
    pub(crate) fn timed(&self) -> Vec<(i64, i64, &Data)> {
        let ended: HashMap<&str, i64> = self
            .of_type("provider_call_response")
            .filter_map(|reply| Some((reply["call_id"].as_str()?, reply["response_ms"].as_i64()?)))
            .collect();
        self.of_type("provider_call_request")
            .filter_map(|request| {
                let took = request["call_id"].as_str().and_then(|id| ended.get(id)).copied();
                Some((at(request)?, took.unwrap_or_default(), request))
            })
            .collect()
    }

    /// Returns the names of the tools that models have called.
    pub(crate) fn tools(&self) -> BTreeSet<String> {
        let calls = self.of_type("provider_call_response").flat_map(|reply| items(reply, "tool_calls"));
        calls.filter_map(|call| text_of(call, "name")).collect()
    }
}

/// Returns the time of an entry in milliseconds since 1970.
fn at(entry: &Data) -> Option<i64> {
    let (seconds, rest) = entry["timestamp"].as_str()?.split_once('.')?;
    let millis = rest.get(..3)?.parse::<i64>().ok()?;
    seconds.parse::<i64>().ok()?.checked_mul(1000)?.checked_add(millis)
}

/// Returns the content of a message: a string, or its blocks as JSON.
pub(crate) fn plain(content: &Data) -> String {
    match content {
        Data::String(text) => text.clone(),
        Data::Null => String::new(),
        Data::Array(blocks) if blocks.iter().all(|block| block["text"].is_string()) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        other => pretty(other),
    }
}

/// Formats JSON on several lines.
pub(crate) fn pretty(value: &Data) -> String {
    format!("{value:#}")
}

fn step(index: usize, request: &Data, end: Option<&Data>, system_prompt: &Data, added: &[&Data]) -> Data {
    let none = Data::Null;
    let end = end.unwrap_or(&none);
    let total = request["message_count"].as_u64().unwrap_or(added.len() as u64);
    let text = text_of(end, "text").unwrap_or_default();
    let calls = items(end, "tool_calls");
    let error = (end["type"] == "provider_call_error")
        .then(|| text_of(end, "message").unwrap_or_else(|| "the call failed".to_owned()));
    let summary = match (&error, text.trim().lines().next(), calls.first()) {
        (Some(error), _, _) => error.clone(),
        (None, Some(line), _) => line.to_owned(),
        (None, None, Some(_)) => {
            let names = calls.iter().filter_map(|call| text_of(call, "name")).collect::<Vec<_>>();
            format!("calls {}", names.join(", "))
        }
        _ if end.is_null() => "no answer is in the log".to_owned(),
        _ => "an empty answer".to_owned(),
    };
    let context: Vec<Data> = added
        .iter()
        .map(|message| json!({"role": message["role"], "content": plain(&message["content"])}))
        .collect();
    let thinking = text_of(end, "thinking").or_else(|| text_of(end, "thinking_summary"));
    json!({
        "call_id": request["call_id"], "span_id": request["span_id"], "iteration": request["iteration"],
        "call_index": index, "model": request["model"], "provider": request["provider"],
        "kept_messages": total.saturating_sub(added.len() as u64), "added_messages": added.len(),
        "total_messages": total, "input_tokens": end["input_tokens"], "output_tokens": end["output_tokens"],
        "cost_usd": end["cost_usd"], "response_ms": end["response_ms"], "system_prompt": system_prompt,
        "added_context": context, "response_text": text, "thinking": thinking, "tool_calls": end["tool_calls"],
        "error": error, "summary": summary,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[Data]) -> CallLog {
        CallLog::parse(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
    }

    fn call(id: &str, messages: u64, text: &str) -> [Data; 2] {
        [
            json!({"type": "provider_call_request", "timestamp": "10.500", "call_id": id, "provider": "p", "model": "m",
                "message_count": messages}),
            json!({"type": "provider_call_response", "call_id": id, "text": text, "input_tokens": 3, "output_tokens": 2,
                "cost_usd": 0.5, "response_ms": 40, "tool_calls": []}),
        ]
    }

    #[test]
    fn a_step_has_what_came_since_the_one_before() {
        let [ask, reply] = call("a", 1, "one");
        let [ask2, reply2] = call("b", 3, "two");
        let message = |role: &str, text: &str| json!({"type": "message", "role": role, "content": text});
        let log = log(&[
            json!({"type": "system_prompt", "content": "be brief"}),
            message("user", "hi"),
            ask,
            reply,
            message("assistant", "one"),
            message("user", "more"),
            ask2,
            reply2,
        ]);
        let steps = log.steps();
        let counts = |step: &Data| {
            ["kept_messages", "added_messages", "total_messages"].map(|key| step[key].as_u64().unwrap())
        };
        assert_eq!(steps.iter().map(counts).collect::<Vec<_>>(), [[0, 1, 1], [1, 2, 3]]);
        assert_eq!(steps[1]["added_context"][1], json!({"role": "user", "content": "more"}));
        assert_eq!((&steps[1]["system_prompt"], &steps[1]["summary"]), (&"be brief".into(), &"two".into()));
        assert_eq!(log.spent().values().next().unwrap().cost_usd, 1.0);
        assert_eq!(log.timed()[0].0, 10_500);
        let story: Vec<_> =
            log.story().iter().map(|part| part["text"].as_str().unwrap().to_owned()).collect();
        assert_eq!(story, ["hi", "one", "more", "two"]);
    }

    #[test]
    fn renders_that_came_out_another_way_are_marked() {
        let render = |hash: &str, branch: &str| {
            json!({"type": "template.render", "template_uri": "t", "template_revision_hash": hash,
                "branches": [{"kind": "if", "line": 1, "col": 1, "branch_id": branch}]})
        };
        let log = log(&[render("h", "if"), render("h", "if"), render("h", "else"), render("g", "if")]);
        let marks: Vec<usize> = log.renders().iter().map(|r| items(r, "marks").len()).collect();
        assert_eq!(marks, [0, 0, 1, 2]);
    }

    #[test]
    fn broken_lines_and_strange_entries_are_passed_over() {
        let log = CallLog::parse("{\"type\": \"daemon_event\"}\n{oops\n[1]\n\n{}\n");
        assert_eq!(log.entries.len(), 2);
        assert!(log.note.as_ref().unwrap().starts_with("2 lines"), "{:?}", log.note);
        assert!(log.steps().is_empty() && log.renders().is_empty() && log.story().is_empty());
    }
}
