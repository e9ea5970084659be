//! `llm_completion`: continues a prefix, or fills the gap between a prefix and a suffix.

use harn_value::{Data as Value, json};

use super::layers::Completed;
use super::{Call, LlmRuntime, Prepared};
use crate::conversation::Conversation;
use crate::error::{CallError, LlmError};
use crate::event::Usage;
use crate::response::{Block, Offered, Response};
use crate::wire::WireStyle;

/// The arguments of a completion.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    /// Text before the gap.
    pub prefix: String,
    /// Text after the gap; empty for a plain continuation.
    pub suffix: String,
    /// The system prompt.
    pub system: Option<String>,
    /// The option dict.
    pub options: Value,
}

impl LlmRuntime {
    /// `llm_completion`: returns the result dict, without transcript and data.
    ///
    /// # Errors
    /// The options are invalid, or the call failed.
    pub async fn llm_completion(&self, c: &Completion) -> Result<Value, CallError> {
        let mut response = self.complete(c).await?;
        response.read_tags(&Offered::default());
        Ok(response.to_json())
    }

    async fn complete(&self, c: &Completion) -> Result<Response, CallError> {
        let mut messages = vec![json!({"role": "user", "content": c.prefix})];
        if !c.suffix.is_empty() {
            messages.push(json!({"role": "user", "content": c.suffix}));
        }
        let call = Call::new(messages.clone(), c.system.as_deref(), c.options.clone());
        let prepared = self.prepare(&call)?;
        let matched = Conversation::from_json(&messages)?;
        if self.is_mock(&prepared.request.route.provider) {
            return Ok(self.answer_completion(c, &call, &prepared).await?);
        }
        // The request is built as it would be sent, even if a script answers: scripts match against the prefix, and
        // watchers see the prompt.
        if let Some(mut prepared) = self.at_endpoint(prepared, &matched) {
            prepared.matched = Some(matched.clone());
            match self.answer_completion(c, &call, &prepared).await {
                Err(error) if error.status == Some(404) && !self.mock_is_active() => {}
                other => return Ok(other?),
            }
        }
        let call = self.over_chat(c);
        let mut prepared = self.prepare(&call)?;
        prepared.matched = Some(matched);
        Ok(self.answer_completion(c, &call, &prepared).await?)
    }

    /// Returns the request for the text completion endpoint, if the provider has one.
    fn at_endpoint(&self, mut prepared: Prepared, text: &Conversation) -> Option<Prepared> {
        let request = &mut prepared.request;
        let endpoint = request.route.completion_endpoint.clone()?;
        (request.route.style, request.route.endpoint) = (WireStyle::of_completion(&endpoint), endpoint);
        request.messages = text.clone();
        request.stream = false;
        if request.route.style == WireStyle::Completion && request.system.take().is_some() {
            self.warn_once(&format!(
                "llm_completion: the completion endpoint of provider \"{}\" takes no system text, ignoring it", // prose-ok: diagnostic
                request.route.provider
            ));
        }
        Some(prepared)
    }

    /// Returns the call for a chat route. Its instruction is a fragment of the system prompt like any other, so it is
    /// included in assembly and tracing.
    fn over_chat(&self, c: &Completion) -> Call {
        let bindings = json!({"prefix": c.prefix, "suffix": c.suffix, "has_suffix": !c.suffix.is_empty()});
        let instruction = self.embedder.prose("llm/completion_system", &bindings);
        let mut prompt = format!("PREFIX:\n{}", c.prefix);
        if !c.suffix.is_empty() {
            prompt.push_str(&format!("\n\nSUFFIX:\n{}", c.suffix));
        }
        Call { instruction: Some(instruction), ..Call::new(prompt, c.system.as_deref(), c.options.clone()) }
    }

    /// Requests a completion; without a script the mock generates one.
    async fn answer_completion(
        &self,
        c: &Completion,
        call: &Call,
        prepared: &Prepared,
    ) -> Result<Response, LlmError> {
        let mocked = self.is_mock(&prepared.request.route.provider) || self.rehearsing.get();
        if mocked && !self.mock_is_active() {
            return self.mock_completion(c, prepared).await;
        }
        self.ask(call, prepared, &mut |_| {}).await
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
