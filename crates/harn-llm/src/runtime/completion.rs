//! `llm_completion`: continuing a text, or filling a gap in it.

use harn_value::{Data as Value, json};

use super::layers::Completed;
use super::{Call, LlmRuntime, Prepared};
use crate::conversation::Conversation;
use crate::error::{CallError, LlmError};
use crate::event::Usage;
use crate::response::{Block, Response};
use crate::wire::WireStyle;

/// The internal option that holds the instruction of a completion over a chat route.
pub(super) const INSTRUCTION: &str = "_completion_instruction";

/// The arguments of a completion.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    /// Text in front of the gap.
    pub prefix: String,
    /// Text behind it; empty for a plain continuation.
    pub suffix: String,
    /// System text.
    pub system: Option<String>,
    /// The option dict.
    pub options: Value,
}

impl LlmRuntime {
    /// `llm_completion`: the result dict, without transcript and data.
    ///
    /// # Errors
    /// Wrong options, or the call failed.
    pub async fn llm_completion(&self, c: &Completion) -> Result<Value, CallError> {
        let mut response = self.complete(c).await?;
        response.read_tags(None);
        Ok(response.to_json())
    }

    async fn complete(&self, c: &Completion) -> Result<Response, CallError> {
        let mut messages = vec![json!({"role": "user", "content": c.prefix})];
        if !c.suffix.is_empty() {
            messages.push(json!({"role": "user", "content": c.suffix}));
        }
        let call = Call::new(messages.clone(), c.system.as_deref(), c.options.clone());
        let mut prepared = self.prepare(&call)?;
        let is_mock = self.is_mock(&prepared.request.route.provider) || self.rehearsing.get();
        let unscripted = is_mock && !self.mock_is_active();
        if unscripted {
            return Ok(self.mock_completion(c, &prepared).await?);
        }
        if self.mock_is_active() {
            return Ok(self.ask(&call, &prepared, &mut |_| {}).await?);
        }
        let route = &mut prepared.request.route;
        if let Some(endpoint) = route.completion_endpoint.clone() {
            (route.style, route.endpoint) = (WireStyle::of_completion(&endpoint), endpoint);
            prepared.request.messages = Conversation::from_json(&messages)?;
            prepared.request.stream = false;
            match self.ask(&call, &prepared, &mut |_| {}).await {
                Err(error) if error.status == Some(404) => {}
                other => return Ok(other?),
            }
        }
        let bindings = json!({"prefix": c.prefix, "suffix": c.suffix, "has_suffix": !c.suffix.is_empty()});
        let instruction = self.embedder.prose("llm/completion_system", &bindings);
        // The instruction is a part of the prompt like any other: assembly puts it together with the rest, and traces it.
        let mut options = c.options.clone();
        if !options.is_object() {
            options = json!({});
        }
        options[INSTRUCTION] = instruction.into();
        let mut prompt = format!("PREFIX:\n{}", c.prefix);
        if !c.suffix.is_empty() {
            prompt.push_str(&format!("\n\nSUFFIX:\n{}", c.suffix));
        }
        let call = Call::new(prompt, c.system.as_deref(), options);
        let prepared = self.prepare(&call)?;
        Ok(self.ask(&call, &prepared, &mut |_| {}).await?)
    }

    async fn mock_completion(&self, c: &Completion, prepared: &Prepared) -> Result<Response, LlmError> {
        let mut r = Response::new(crate::mock::PROVIDER, crate::mock::PROVIDER);
        r.mocked = true;
        r.text = format!("Mock completion after {} chars", c.prefix.chars().count());
        if !c.suffix.is_empty() {
            r.text.push_str(&format!(" before {} chars", c.suffix.chars().count()));
        }
        r.blocks.push(Block::OutputText(r.text.clone()));
        let input = i64::try_from(c.prefix.len() + c.suffix.len()).unwrap_or(i64::MAX);
        r.usage = Usage { input: Some(input), output: Some(16), ..Usage::default() };
        r.stop_reason = Some("stop".into());
        self.pass(prepared, Completed { runtime: self, response: r }).await
    }
}
