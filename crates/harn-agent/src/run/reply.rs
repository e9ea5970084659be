//! Parses replies of the model: text, calls, and whether the model has finished.

use harn_llm::tool_text::{Block, has_opening_tag, parse_reply};
use harn_prompt::Prose;
use harn_prompt::prose::agent_asset;
use harn_prompt::untrusted::{quote, quote_name};
use harn_value::{Data as Json, data::Map, json};

use super::judged::Judged;
use super::state::{Call, Note, Phase, Turn};
use super::{AgentLoop, Delivery, LoopError, Status};
use crate::config::{Fallback, Format};
use crate::event::AgentEvent;

/// Maximum length of assistant text in the history.
const MAX_HISTORY_CHARS: usize = 131_072;

/// A parsed reply.
pub(super) struct Reply<'a> {
    pub(super) result: &'a Json,
    text: &'a str,
    pub(super) visible: String,
    pub(super) calls: Vec<Call>,
    pub(super) errors: Vec<String>,
    pub(super) violations: Vec<String>,
    /// Whether the calls were written as text in native mode.
    fallback: bool,
}

impl AgentLoop {
    /// Handles the result dict of a model call.
    pub(super) fn reply(
        &mut self,
        result: &Json,
        duration_ms: i64,
        prose: &dyn Prose,
    ) -> Result<(), LoopError> {
        self.state.iterations += 1;
        self.state.stop_reason = result["stop_reason"].as_str().map(str::to_owned);
        let reply = self.read(result);
        self.account(&reply, duration_ms);
        let finished = self.says_finished(&reply);
        if !self.state.text.is_empty() && !reply.text.is_empty() {
            self.state.text.push_str("\n\n");
        }
        self.state.text.push_str(reply.text);
        if !reply.visible.is_empty() {
            self.state.visible.push(reply.visible.clone());
            self.events.push(AgentEvent::AgentMessageChunk { text: reply.visible.clone() });
        }
        self.state.turn = Turn { leading: true, text: reply.visible.clone(), ..Turn::default() };
        self.state.in_turn = true;
        if reply.fallback && !self.accept_fallback(&reply, prose)? {
            return Ok(());
        }
        let judged = self.judge(&reply);
        // An answer that matches a schema is final, because its format may not allow the sentinel.
        let finished =
            finished || (self.config.persistent && judged.as_ref().is_some_and(Judged::fits_schema));
        let finished = match self.refusal(finished) {
            Some((kind, asset, bindings)) if finished => {
                self.state.ledger_refusals += u32::from(kind == "ledger_not_satisfied");
                self.assistant(&reply);
                // A rejected sentinel requires another turn, like a nudge, so it is counted as one.
                if reply.calls.is_empty() && self.count_nudge(&reply) {
                    return Ok(());
                }
                let text = prose.render(&agent_asset(asset), &bindings)?;
                self.feedback(kind, &text);
                if reply.calls.is_empty() {
                    return self.after_turn_without_tools();
                }
                false
            }
            _ => finished,
        };
        if reply.calls.is_empty() {
            return self.text_only(&reply, finished, judged, prose);
        }
        self.begin_tool_turn(reply, finished, prose)
    }

    fn read<'a>(&self, result: &'a Json) -> Reply<'a> {
        let text = if is_reasoning_alone(result) { "" } else { result["text"].as_str().unwrap_or_default() };
        let strings = |key: &str| -> Vec<String> {
            let list = result[key].as_array();
            list.into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
        };
        let mut calls: Vec<Call> =
            result["tool_calls"].as_array().into_iter().flatten().map(read_call).collect();
        let mut visible = result["visible_text"].as_str().unwrap_or(text).to_owned();
        let (mut errors, mut violations, mut fallback) = (Vec::new(), Vec::new(), false);
        match self.config.format {
            Format::Text => {
                errors = strings("tool_parse_errors");
                // A reply with native calls does not use the text protocol.
                if calls.iter().all(|call| call.id.starts_with("tc_")) {
                    violations = strings("protocol_violations");
                }
            }
            Format::Native => {
                // Calls that were parsed from text have the ids of the text grammar.
                calls.retain(|call| !call.id.starts_with("tc_"));
                if calls.is_empty() && !self.config.tools.is_empty() {
                    let tagged = has_opening_tag(text);
                    let parsed = parse_reply(text, &self.tool_names());
                    calls = parsed.calls().iter().map(|c| read_call(&c.to_json())).collect();
                    fallback = !calls.is_empty();
                    if fallback {
                        visible = parsed.visible(text);
                    }
                    if fallback && tagged {
                        errors = parsed.errors;
                    }
                }
            }
        }
        let sentinel = self.config.sentinel.as_str();
        let lines: Vec<&str> = visible.lines().filter(|line| line.trim() != sentinel).collect();
        Reply {
            result,
            text,
            visible: lines.join("\n").trim().to_owned(),
            calls,
            errors,
            violations,
            fallback,
        }
    }

    /// Returns the names that may be called in text.
    pub(super) fn tool_names(&self) -> Vec<String> {
        let found = |name: &str| self.state.promoted.iter().any(|p| p == name);
        let tools = self.config.tools.iter().filter(|t| (!t.deferred || found(&t.name)) && self.in_scope(t));
        let tools = tools.map(|t| t.name.clone());
        self.config.search.iter().map(|s| s.name.clone()).chain(tools).collect()
    }

    /// Adds up tokens and records the reply in the transcript.
    fn account(&mut self, reply: &Reply<'_>, duration_ms: i64) {
        let result = reply.result;
        let int = |key: &str| result[key].as_i64().unwrap_or(0);
        // Replies that did not match the schema are not iterations, but they were billed.
        let spent = |key: &str| result["rounds"][key].as_i64().unwrap_or_else(|| int(key));
        let (input_tokens, output_tokens) = (spent("input_tokens"), spent("output_tokens"));
        let llm_calls = result["rounds"]["llm_calls"].as_u64().and_then(|n| u32::try_from(n).ok());
        let counts = &mut self.state.counts;
        counts.llm_calls += llm_calls.unwrap_or(1);
        counts.input_tokens = counts.input_tokens.saturating_add(input_tokens);
        counts.output_tokens = counts.output_tokens.saturating_add(output_tokens);
        counts.llm_ms += duration_ms;
        let empty = result["empty_completion_retries"].as_u64().and_then(|n| u32::try_from(n).ok());
        counts.empty_retries += empty.unwrap_or_default();
        // The assistant's message is about to be appended.
        let tokens = int("input_tokens") + int("output_tokens");
        self.state.counted = Some((tokens, self.seen().len() + 1));
        let calls: Vec<Json> = reply
            .calls
            .iter()
            .map(|c| json!({"id": c.id, "name": c.name, "arguments": c.arguments}))
            .collect();
        let mut metadata = json!({
            "model": result["model"], "input_tokens": input_tokens, "output_tokens": output_tokens,
            "tool_calls": calls, "tool_calling_mode": self.config.format.as_str(), "structural_experiment": result["structural_experiment"],
        });
        if let Some(summary) = result["thinking_summary"].as_str() {
            metadata["thinking_summary"] = summary.into();
        }
        self.searches_of_the_provider(result);
        self.state.notes.push(Note::internal("provider_payload", "assistant", "", metadata));
        for key in ["private_reasoning", "thinking_summary"] {
            if let Some(text) = result[key].as_str().filter(|t| !t.is_empty()) {
                self.state.notes.push(Note::private(key, text));
                if key == "private_reasoning" {
                    self.events.push(AgentEvent::AgentThoughtChunk { text: text.to_owned() });
                }
            }
        }
    }

    /// Records the provider's searches of deferred tools; their events are in the transcript of the call.
    fn searches_of_the_provider(&mut self, result: &Json) {
        let of_call = |event: &&Json| {
            let id = event["metadata"]["id"].as_str().or_else(|| event["metadata"]["tool_use_id"].as_str());
            let mut blocks = result["blocks"].as_array().into_iter().flatten();
            blocks.any(|block| id.is_some() && block["id"].as_str().or(block["tool_use_id"].as_str()) == id)
        };
        let events = result["transcript"]["events"].as_array().into_iter().flatten();
        for event in events.filter(of_call) {
            let metadata = event["metadata"].clone();
            let (role, live) = match event["kind"].as_str() {
                Some(kind @ "tool_search_query") => {
                    let mut fields = metadata.clone();
                    if let Some(id) = fields.as_object_mut().and_then(|map| map.shift_remove("id")) {
                        fields["tool_use_id"] = id;
                    }
                    ((kind, "assistant"), AgentEvent::ToolSearchQuery(fields))
                }
                Some(kind @ "tool_search_result") => {
                    ((kind, "tool"), AgentEvent::ToolSearchResult(metadata.clone()))
                }
                _ => continue,
            };
            self.state.notes.push(Note::internal(role.0, role.1, "", metadata));
            self.events.push(live);
        }
    }

    /// Returns whether the reply ends a persistent loop.
    fn says_finished(&self, reply: &Reply<'_>) -> bool {
        if !self.config.persistent {
            return false;
        }
        let policy = &self.config.turn_policy;
        let responds = policy.allow_sentinel && reply.text.contains("<user_response>");
        responds || reply.text.contains(&self.config.sentinel) || self.leaves_phase(reply.text)
    }

    /// Returns whether the last `next_phase:` line names another phase.
    fn leaves_phase(&self, text: &str) -> bool {
        let Some(phase) = &self.config.break_unless_phase else { return false };
        let last = text.lines().rev().find_map(|line| line.trim().strip_prefix("next_phase:"));
        last.is_some_and(|next| next.trim() != phase)
    }

    /// Returns why the sentinel is not accepted yet: kind, asset and bindings of the feedback.
    fn refusal(&self, finished: bool) -> Option<(&'static str, &'static str, Map<String, Json>)> {
        if !finished {
            return None;
        }
        let verified = self.state.verified.as_ref();
        if self.config.exit_when_verified && !verified.is_some_and(|(ok, _)| *ok) {
            let last = verified.map(|(_, text)| quote(text));
            let bindings =
                bindings([("done_sentinel", json!(self.config.sentinel)), ("last_result", json!(last))]);
            return Some(("verification_gate", "verification_gate_feedback", bindings));
        }
        if let Some(bindings) = self.ledger_refusal() {
            return Some(("ledger_not_satisfied", "ledger_not_satisfied_feedback", bindings));
        }
        let acted = !self.state.tools_used.is_empty();
        if self.config.turn_policy.require_action && !self.config.tools.is_empty() && !acted {
            return Some((
                "sentinel_without_action",
                "action_required_feedback",
                self.action_bindings(false),
            ));
        }
        None
    }

    /// Returns the bindings of the feedback to a reply without action; `dropped` means that the reply is not in the
    /// history.
    fn action_bindings(&self, dropped: bool) -> Map<String, Json> {
        bindings([
            ("dropped", json!(dropped)),
            ("tool_names", json!(self.tool_names())),
            ("max_prose_chars", json!(self.config.turn_policy.max_prose_chars)),
        ])
    }

    /// Decides about calls written as text in native mode; returns false if the turn is over.
    fn accept_fallback(&mut self, reply: &Reply<'_>, prose: &dyn Prose) -> Result<bool, LoopError> {
        let policy = self.config.fallback;
        self.state.counts.fallbacks += 1;
        let index = self.state.counts.fallbacks;
        let accepted = match policy {
            Fallback::Allow => true,
            Fallback::AllowOnce => index == 1,
            Fallback::Reject => false,
        };
        self.events.push(AgentEvent::NativeToolFallback {
            accepted,
            policy: policy.as_str().to_owned(),
            fallback_index: index,
            tool_call_count: reply.calls.len(),
        });
        let mut metadata = json!({
            "accepted": accepted, "policy": policy.as_str(), "fallback_index": index,
            "tool_call_count": reply.calls.len(), "tool_parse_error_count": reply.errors.len(),
        });
        self.state.notes.push(Note::internal("native_tool_fallback", "assistant", "", metadata.clone()));
        if accepted {
            return Ok(true);
        }
        self.state.counts.fallback_rejections += 1;
        self.assistant(reply);
        metadata["policy"] = policy.as_str().into();
        let bindings = metadata.as_object().cloned().unwrap_or_default();
        let text = prose.render(&agent_asset("native_tool_contract_feedback"), &bindings)?;
        self.feedback("native_tool_contract", &text);
        self.state.nudges = 0;
        self.after_turn_without_tools()?;
        Ok(false)
    }

    fn text_only(
        &mut self,
        reply: &Reply<'_>,
        finished: bool,
        judged: Option<Judged>,
        prose: &dyn Prose,
    ) -> Result<(), LoopError> {
        if finished {
            return self.conclude(reply, true, judged, prose);
        }
        if !reply.errors.is_empty() {
            self.assistant(reply);
            let text = self.parse_guidance(&reply.errors, prose)?;
            self.feedback("parse_error", &text);
            self.state.nudges = 0;
            return self.after_turn_without_tools();
        }
        let policy = self.config.turn_policy.clone();
        let native = self.config.format == Format::Native && !self.config.tools.is_empty();
        if native && policy.require_action && self.state.tools_used.is_empty() {
            let text = prose.render(&agent_asset("action_required_feedback"), &self.action_bindings(true))?;
            if self.count_nudge(reply) {
                return Ok(());
            }
            self.feedback("action_required", &text);
            return self.after_turn_without_tools();
        }
        if !self.config.persistent {
            return self.conclude(reply, false, judged, prose);
        }
        self.assistant(reply);
        if self.pass_on(|delivery| delivery == Delivery::FinishStep) {
            self.state.nudges = 0;
            return self.after_turn_without_tools();
        }
        if self.count_nudge(reply) {
            return Ok(());
        }
        self.violations(reply.violations.clone(), false, prose)?;
        let text = self.nudge_text(prose)?;
        self.feedback("nudge", &text);
        self.after_turn_without_tools()
    }

    /// Counts a turn without action; returns true if the limit is exceeded.
    fn count_nudge(&mut self, reply: &Reply<'_>) -> bool {
        self.state.nudges += 1;
        if self.state.nudges <= self.config.max_nudges {
            return false;
        }
        self.events.push(AgentEvent::LoopStuck {
            max_nudges: self.config.max_nudges,
            last_iteration: self.state.iterations - 1,
            tail_excerpt: reply.text.chars().take(240).collect(),
        });
        self.end(Status::Stuck);
        true
    }

    fn nudge_text(&self, prose: &dyn Prose) -> Result<String, LoopError> {
        let policy = &self.config.turn_policy;
        let sentinel = policy.allow_sentinel.then_some(self.config.sentinel.as_str());
        if policy.require_action {
            let left = self.config.max_nudges - self.state.nudges;
            let bindings = bindings([
                ("done_sentinel", json!(sentinel)),
                ("max_prose_chars", json!(policy.max_prose_chars)),
                ("nudges_left", json!(left)),
            ]);
            return Ok(prose.render(&agent_asset("action_turn_nudge"), &bindings)?);
        }
        match &self.config.nudge {
            Some(text) => Ok(text.clone()),
            None => Ok(prose
                .render(&agent_asset("default_nudge"), &bindings([("done_sentinel", json!(sentinel))]))?),
        }
    }

    fn begin_tool_turn(
        &mut self,
        reply: Reply<'_>,
        finished: bool,
        prose: &dyn Prose,
    ) -> Result<(), LoopError> {
        // After a rejected sentinel, the message is already there.
        if self.state.turn.assistant.is_null() && !self.state.turn.stop {
            self.assistant(&reply);
        }
        self.state.nudges = 0;
        let turn = &mut self.state.turn;
        turn.finished = finished;
        turn.names = reply.calls.iter().map(|c| c.name.clone()).collect();
        turn.calls = reply.calls.into();
        turn.parse_errors = reply.errors;
        turn.violations = reply.violations;
        if !self.state.turn.parse_errors.is_empty() {
            let text = self.parse_guidance(&self.state.turn.parse_errors, prose)?;
            self.feedback("parse_guidance", &text);
        }
        self.state.phase = Phase::Dispatch;
        Ok(())
    }

    /// Renders the feedback about calls that could not be parsed.
    pub(super) fn parse_guidance(&self, errors: &[String], prose: &dyn Prose) -> Result<String, LoopError> {
        let bindings = bindings([("errors", json!(errors)), ("cut_off", json!(self.is_cut_off()))]);
        Ok(prose.render(&agent_asset("parse_guidance"), &bindings)?)
    }

    /// Returns whether the last reply was truncated at its token limit.
    pub(super) fn is_cut_off(&self) -> bool {
        matches!(self.state.stop_reason.as_deref(), Some("max_tokens" | "length"))
    }

    /// Returns whether the last reply is an answer of the model, possibly a truncated one.
    pub(super) fn is_answered(&self) -> bool {
        let none = ["content_filter", "refusal", "pause_turn", "context_overflow", "malformed_call", "empty"];
        !self.state.stop_reason.as_deref().is_some_and(|reason| none.contains(&reason))
    }

    /// Returns whether the last reply is empty because the model has nothing to add to its tool results. Anthropic
    /// documents such replies. They are not accepted in a loop that requires a structured or validated answer.
    pub(super) fn is_silent_end(&self) -> bool {
        let asks = self.config.structured || self.config.validates;
        self.state.stop_reason.as_deref() == Some("empty") && !self.state.successful.is_empty() && !asks
    }

    /// Warns the user that the last reply, with which the loop ends, is incomplete.
    pub(super) fn warn_of_rest(&mut self) {
        let what = match self.state.stop_reason.as_deref() {
            _ if self.is_cut_off() => "was cut off at the limit of tokens for one reply",
            Some("content_filter") => "was held back by the provider's filter",
            Some("refusal") => "is a refusal of the model",
            Some("pause_turn") => "was paused by the provider and is not finished",
            Some("context_overflow") => "was cut off at the end of the model's context window",
            Some("malformed_call") => "held a call that the provider could not read",
            Some("empty") => "was empty",
            _ => return,
        };
        let reason = self.state.stop_reason.as_deref().unwrap_or_default();
        let text = format!("agent_loop: the last reply {what} (stop_reason {reason})"); // prose-ok: diagnostic
        self.events.push(AgentEvent::Warning { text });
    }

    /// Sends the model feedback about violations of the text protocol.
    pub(super) fn violations(
        &mut self,
        list: Vec<String>,
        executed: bool,
        prose: &dyn Prose,
    ) -> Result<(), LoopError> {
        if list.is_empty() || self.config.format == Format::Native || self.config.tools.is_empty() {
            return Ok(());
        }
        let bindings = bindings([
            ("violations", json!(list)),
            ("executed", json!(executed)),
            ("done_sentinel", json!(self.config.sentinel)),
        ]);
        let text = prose.render(&agent_asset("protocol_violation_feedback"), &bindings)?;
        self.feedback("protocol_violation", &text);
        Ok(())
    }

    /// Appends the assistant's message in its history form.
    pub(super) fn assistant(&mut self, reply: &Reply<'_>) {
        let native_calls = self.config.format == Format::Native && !reply.calls.is_empty() && !reply.fallback;
        let message = if native_calls {
            self.cut_native(native_message(reply))
        } else {
            json!({"role": "assistant", "content": self.history_text(reply)})
        };
        if native_calls {
            self.state.turn.assistant = message.clone();
        }
        self.tell_model(message);
    }

    fn history_text(&self, reply: &Reply<'_>) -> String {
        if !reply.errors.is_empty() && self.config.format == Format::Text {
            return format!("[a reply with {} tool calls that could not be read]", reply.errors.len());
        }
        // Native calls are not in any block.
        let in_text = reply.calls.iter().all(|call| call.id.starts_with("tc_"));
        let canonical = reply.result["canonical_text"].as_str().filter(|_| in_text);
        let prose = self.cut(&reply.visible);
        let text = match (reply.calls.is_empty(), prose) {
            (true, prose) => match canonical {
                Some(canonical) => self.blocks(reply, canonical, prose.is_some()),
                None => prose.and_then(|_| self.cut(reply.text)).unwrap_or_else(|| reply.text.to_owned()),
            },
            (false, Some(prose)) => tagged(&prose, &reply.calls),
            (false, None) => match canonical {
                Some(canonical) => self.blocks(reply, canonical, false),
                None => tagged(&reply.visible, &reply.calls),
            },
        };
        match text.char_indices().nth(MAX_HISTORY_CHARS) {
            Some((end, _)) => text[..end].to_owned(),
            None => text,
        }
    }
}

impl AgentLoop {
    /// Truncates prose to the limit of the turn policy, with a note; `None` if it is short enough.
    fn cut(&self, prose: &str) -> Option<String> {
        let limit = self.config.turn_policy.max_prose_chars?;
        let (end, _) = prose.char_indices().nth(limit)?;
        Some(format!("{}\n[prose cut to {limit} characters]", &prose[..end]))
    }

    /// Returns the blocks of a reply and the text around them. `cut` truncates only their prose, because truncating the
    /// whole would break the tags and lose the done marker. Blocks that were parsed elsewhere are unchanged.
    fn blocks(&self, reply: &Reply<'_>, canonical: &str, cut: bool) -> String {
        let tagged = parse_reply(reply.text, &self.tool_names());
        if tagged.canonical_text().as_deref() != Some(canonical) {
            return canonical.to_owned();
        }
        let mut tagged = tagged.with_loose_text();
        for block in tagged.blocks.iter_mut().filter(|_| cut) {
            if let Block::Prose(text) | Block::Response(text) = block
                && let Some(short) = self.cut(text)
            {
                *text = short;
            }
        }
        tagged.canonical_text().unwrap_or_default()
    }

    /// Truncates the prose next to native calls, which is a string or a list of blocks.
    fn cut_native(&self, mut message: Json) -> Json {
        if let Some(short) = message["content"].as_str().and_then(|text| self.cut(text)) {
            message["content"] = short.into();
        }
        for block in message["content"].as_array_mut().into_iter().flatten() {
            if let Some(short) = block["text"].as_str().and_then(|text| self.cut(text)) {
                block["text"] = short.into();
            }
        }
        message
    }
}

/// Returns whether the text of a result is only its private reasoning.
fn is_reasoning_alone(result: &Json) -> bool {
    let spoken = |block: &Json| block["type"] == "output_text" || block["type"] == "text";
    result["text"].is_string()
        && result["text"] == result["thinking"]
        && !result["blocks"].as_array().into_iter().flatten().any(spoken)
}

fn read_call(call: &Json) -> Call {
    let arguments = match &call["arguments"] {
        Json::Null => json!({}),
        other => other.clone(),
    };
    let text = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
    Call::new(text("id"), text("name"), arguments)
}

/// Formats prose and calls with the tags of text format.
fn tagged(prose: &str, calls: &[Call]) -> String {
    let mut parts = Vec::new();
    if !prose.is_empty() {
        parts.push(format!("<assistant_prose>\n{prose}\n</assistant_prose>"));
    }
    for call in calls {
        let arguments = serde_json::to_string_pretty(&call.arguments).unwrap_or_default();
        parts.push(format!("<tool_call>\n{}({arguments})\n</tool_call>", quote_name(&call.name)));
    }
    parts.join("\n\n")
}

/// Returns the assistant's message with native calls: as recorded in the call's transcript, else in OpenAI's format.
fn native_message(reply: &Reply<'_>) -> Json {
    let recorded = reply.result["transcript"]["messages"].as_array().and_then(|m| m.last());
    if let Some(message) = recorded.filter(|m| m["role"] == "assistant") {
        return message.clone();
    }
    let calls: Vec<Json> = reply
        .calls
        .iter()
        .map(|c| {
            json!({"id": c.id, "type": "function",
                   "function": {"name": c.name, "arguments": c.arguments.to_string()}})
        })
        .collect();
    json!({"role": "assistant", "content": reply.text, "tool_calls": calls})
}

/// Creates bindings of a template.
pub(super) fn bindings<const N: usize>(entries: [(&str, Json); N]) -> Map<String, Json> {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
