//! Streams the model's reply while it arrives: text and the tool calls that it writes.

use std::collections::BTreeMap;
use std::time::Duration;

use harn_agent::{AgentEvent, AgentLoop, ToolProgress};
use harn_llm::options::OutputFormat;
use harn_llm::runtime::Live;
use harn_llm::structured::{Candidate, PartialAnswer};
use harn_llm::{Call, CallError};
use harn_value::{Data as Json, Value};
use harn_vm::Result;

use super::Driver;
use crate::live;
use crate::llm_embedder::{calling, calling_aside};

/// Minimum time between two updates about the arguments of a call.
const PACE: Duration = Duration::from_millis(50);

/// Calls that the model is writing, by id.
#[derive(Default)]
pub(super) struct Incoming(BTreeMap<String, Written>);

/// A partially received call.
struct Written {
    progress: ToolProgress,
    arguments: String,
    /// When it was last reported.
    told: Duration,
}

impl Incoming {
    /// Appends to the arguments of a call; returns an update if one is due.
    fn goes_on(&mut self, id: &str, arguments: &str, now: Duration) -> Option<AgentEvent> {
        let call = self.0.get_mut(id)?;
        call.arguments.push_str(arguments);
        if now.saturating_sub(call.told) < PACE {
            return None;
        }
        call.told = now;
        let raw_input = harn_llm::message::parse_partial_arguments(&call.arguments);
        let raw_input_partial = raw_input.is_none().then(|| call.arguments.clone());
        Some(AgentEvent::ToolCallUpdate(ToolProgress {
            raw_input,
            raw_input_partial,
            ..call.progress.clone()
        }))
    }

    /// Returns the event for subscribers: the start of a call that they already know becomes an update.
    pub(super) fn taken_up(&mut self, event: AgentEvent) -> AgentEvent {
        match event {
            AgentEvent::ToolCall(call) if self.0.remove(&call.tool_call_id).is_some() => {
                AgentEvent::ToolCallUpdate(call)
            }
            other => other,
        }
    }
}

impl Driver {
    /// Calls the model, and forwards text and calls while they arrive, if there are listeners.
    pub(super) async fn ask(
        &self,
        agent: &AgentLoop,
        call: &Call,
    ) -> Result<std::result::Result<Json, CallError>> {
        self.told.take();
        let heard = !self.session.subscribers().is_empty() || harn_stdlib::has_host(&self.cx);
        if self.on_delta.is_none() && !heard {
            return Ok(calling(&self.cx, &call.options, self.llm.llm_turn(call, None)).await);
        }
        let output = call.options.as_object().and_then(|options| OutputFormat::from_options(options).ok());
        self.partial.replace(output.as_ref().and_then(PartialAnswer::new));
        let (give, take) = tokio::sync::mpsc::unbounded_channel();
        // A closure cannot retract text that it received, but events can.
        let takes_back = self.on_delta.is_none();
        let work = async move {
            let mut deliver = move |live: Live| drop(give.send(live));
            self.llm.llm_turn_telling(call, takes_back, &mut deliver).await
        };
        let tell = async |live: Live| {
            match live {
                Live::Text(text) => {
                    self.hear(text).await?;
                }
                Live::Answer(text) => {
                    let value = self.partial.borrow_mut().as_mut().and_then(|answer| answer.push(&text));
                    self.tell_partial(value).await;
                }
                Live::CallOpens { id, name } => self.call_opens(agent, id, &name).await,
                Live::CallGoesOn { id, arguments } => {
                    let now = self.cx.system().monotonic();
                    let update = self.incoming.borrow_mut().goes_on(&id, &arguments, now);
                    if let Some(update) = update {
                        self.tell_subscribers(&update).await;
                    }
                }
                Live::Void => {
                    let had_values = self.partial.borrow_mut().as_mut().is_some_and(PartialAnswer::restart);
                    if !self.told.take().is_empty() || had_values {
                        self.tell_subscribers(&AgentEvent::AgentMessageReset).await;
                    }
                    self.give_up_calls("the reply broke off and is asked for again").await;
                }
            }
            Ok(())
        };
        let reply = live::beside(&self.llm, calling_aside(&self.cx, &call.options, work), take, tell).await;
        if let (Ok(Ok(reply)), Some(output)) = (&reply, &output) {
            self.complete_partial(output, reply).await;
        }
        reply
    }

    async fn hear(&self, text: String) -> Result<()> {
        if let Some(listener) = &self.on_delta {
            self.cx.call(listener, [Value::str(&text)]).await?;
        }
        self.told.borrow_mut().push_str(&text);
        self.tell_subscribers(&AgentEvent::AgentMessageChunk { text }).await;
        Ok(())
    }

    /// Emits the answer of a reply that fits, if its last part was not emitted yet. A reply that calls tools is no answer.
    async fn complete_partial(&self, output: &OutputFormat, reply: &Json) {
        let calls_tools = reply["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
        let text = reply["visible_text"].as_str().or_else(|| reply["text"].as_str()).unwrap_or_default();
        if calls_tools || !output.is_structured() || text.is_empty() {
            return;
        }
        let judged = output.judge(&Candidate { texts: vec![text], ..Candidate::default() });
        if let Some(data) = judged.data.filter(|_| judged.errors.is_empty()) {
            let value = self.partial.borrow_mut().as_mut().and_then(|answer| answer.complete(&data));
            self.tell_partial(value).await;
        }
    }

    /// Emits the answer as far as it has arrived.
    async fn tell_partial(&self, value: Option<Json>) {
        if let Some(value) = value {
            self.tell_subscribers(&AgentEvent::AnswerPartial { value }).await;
        }
    }

    async fn call_opens(&self, agent: &AgentLoop, id: String, name: &str) {
        let Some(progress) = agent.begun(&id, name) else { return };
        let told = self.cx.system().monotonic();
        let event = AgentEvent::ToolCall(progress.clone());
        self.incoming.borrow_mut().0.insert(id, Written { progress, arguments: String::new(), told });
        self.tell_subscribers(&event).await;
    }

    /// Reports that calls which were begun and will not run have failed.
    pub(super) async fn give_up_calls(&self, why: &str) {
        let calls = std::mem::take(&mut self.incoming.borrow_mut().0);
        for call in calls.into_values() {
            let failed =
                ToolProgress { status: "failed".to_owned(), error: Some(why.to_owned()), ..call.progress };
            self.tell_subscribers(&AgentEvent::ToolCallUpdate(failed)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    #[test]
    fn arguments_are_told_at_a_pace() {
        let mut incoming = Incoming::default();
        let progress = ToolProgress::new("a", "read", "pending");
        incoming.0.insert("a".into(), Written { progress, arguments: String::new(), told: Duration::ZERO });
        let mut at = |ms: u64, text: &str| {
            let event = incoming.goes_on("a", text, Duration::from_millis(ms))?;
            let event = event.to_json("s");
            Some((event["raw_input"].clone(), event["raw_input_partial"].clone()))
        };
        assert_eq!(at(49, "{\"p\""), None);
        assert_eq!(at(50, ":"), Some((Json::Null, json!("{\"p\":"))));
        assert_eq!(at(99, " \"a.r"), None);
        assert_eq!(at(120, "s"), Some((json!({"p": "a.rs"}), Json::Null)));
        let call = ToolProgress::new("a", "read", "pending");
        let told = incoming.taken_up(AgentEvent::ToolCall(call.clone()));
        assert_eq!(told, AgentEvent::ToolCallUpdate(call.clone()));
        let other = incoming.taken_up(AgentEvent::ToolCall(call.clone()));
        assert_eq!(other, AgentEvent::ToolCall(call));
    }
}
