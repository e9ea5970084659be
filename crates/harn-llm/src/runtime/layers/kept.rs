//! Stores model replies by a digest of the request, or replays stored ones.

use std::rc::Rc;

use harn_value::json;

use super::{Provider, Watch};
use crate::error::{Category, Kind, LlmError};
use crate::event::StreamEvent;
use crate::mock::{fixture_line, parse_fixtures, prompt_text};
use crate::response::Response;
use crate::runtime::{KeptReplies, LlmRuntime, Prepared};

/// The maximum number of characters of a prompt in a message.
const SHOWN: usize = 200;

/// Digits of a key: enough to distinguish the requests of a project, and short enough for a file name.
const DIGITS: usize = 16;

/// Stores model replies, or replays them.
pub(super) struct Kept<'r, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) inner: P,
}

impl<P: Provider> Provider for Kept<'_, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let kept = self.runtime.kept.borrow().clone();
        match kept.as_deref() {
            None => self.inner.answer(prepared, watch).await,
            Some(KeptReplies::Write(write)) => {
                let reply = self.inner.answer(prepared, watch).await?;
                let line = prepared.request.route.hide(&fixture_line(Ok(&reply)));
                write(&key(prepared), &line).map_err(|text| terminal("unwritable_recording", text))?;
                Ok(reply)
            }
            Some(KeptReplies::Read(read)) => recorded(prepared, &**read, watch),
        }
    }
}

/// Returns the key of a stored reply: a digest of model, messages and system prompt.
fn key(prepared: &Prepared) -> String {
    let request = &prepared.request;
    let asked = json!({
        "model": request.route.model, "messages": request.messages.to_json(), "system": request.system.as_deref(),
    });
    crate::json::hash(&asked)[..DIGITS].to_owned()
}

fn recorded(
    prepared: &Prepared,
    read: &dyn Fn(&str) -> Result<Option<String>, String>,
    watch: &mut Watch<'_>,
) -> Result<Response, LlmError> {
    let key = key(prepared);
    let prompt = prompt_text(&prepared.request.messages);
    let missing = || {
        let head: String = prompt.chars().take(SHOWN).collect();
        let model = &prepared.request.route.model;
        format!(
            "no recorded reply {key} of model {model} for the prompt \"{head}\"; record it with `--record`"
        )
    };
    let text = read(&key).map_err(|text| terminal("unreadable_recording", text))?;
    let text = text.ok_or_else(|| terminal("not_recorded", missing()))?;
    let mocks = parse_fixtures(&key, &text).map_err(|text| terminal("unreadable_recording", text))?;
    let mock = mocks.first().ok_or_else(|| terminal("not_recorded", missing()))?;
    let answer = mock.answer(prompt.len())?;
    let mut response = answer.response;
    // The program must not see a difference to the model's reply.
    response.mocked = false;
    if !response.text.is_empty() {
        watch(&StreamEvent::Whole)?;
        watch(&StreamEvent::Text(response.text.clone()))?;
    }
    Ok(response)
}

fn terminal(reason: &'static str, text: String) -> LlmError {
    let mut error = LlmError::new(Category::Generic, text);
    (error.kind, error.reason) = (Kind::Terminal, reason);
    error
}

impl LlmRuntime {
    /// Stores model replies by a digest of the request, or replays them. Scripts and mocks take precedence.
    pub fn keep_replies(&self, kept: KeptReplies) {
        *self.kept.borrow_mut() = Some(Rc::new(kept));
    }
}
