//! Converts messages to a chat program: the pure value that an interpreter receives.

use harn_value::Data as Value;

use super::{HarnessError, Tenant};
use harn_prompt::value::object;

/// Messages, split into the parts of a provider call.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// All messages, in order.
    pub messages: Vec<Value>,
    /// Content of the last user message; `"Hello"` if it is only whitespace.
    pub prompt: Value,
    /// Text of the first system message.
    pub system: Option<String>,
    /// All messages in order, except system messages and the last user message.
    pub history: Vec<Value>,
}

impl Conversation {
    /// Returns the fields of the struct `Conversation`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([
            ("messages", self.messages.clone().into()),
            ("prompt", self.prompt.clone()),
            ("system", self.system.clone().into()),
            ("history", self.history.clone().into()),
        ])
    }
}

fn role(message: &Value) -> &str {
    message.as_object().and_then(|m| m.get("role")?.as_str()).unwrap_or("user")
}

fn content(message: &Value) -> Value {
    message.as_object().and_then(|m| m.get("content")).cloned().unwrap_or_else(|| "".into())
}

/// Splits messages into prompt, system prompt and history. Skips items that are not dicts.
///
/// # Errors
/// The list contains no user message.
pub fn parse_conversation(messages: &[Value]) -> Result<Conversation, HarnessError> {
    let messages: Vec<Value> = messages.iter().filter(|m| m.as_object().is_some()).cloned().collect();
    let last = messages.iter().rposition(|m| role(m) == "user").ok_or(HarnessError::NoUserMessage)?;
    let prompt = content(&messages[last]);
    let blank = match &prompt {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(blocks) => blocks.is_empty(),
        _ => false,
    };
    let system = messages.iter().find(|m| role(m) == "system").map(|m| system_text(&content(m)));
    let kept = |(i, m): &(usize, &Value)| *i != last && role(m) != "system";
    let history = messages.iter().enumerate().filter(kept).map(|(_, m)| m.clone()).collect();
    Ok(Conversation { prompt: if blank { "Hello".into() } else { prompt }, system, history, messages })
}

/// Returns the text of a message's content: a string, or the text blocks of a list joined by newlines.
fn system_text(content: &Value) -> String {
    match content {
        Value::Null => String::new(),
        Value::Array(blocks) => {
            let text =
                |block: &Value| block.as_object().and_then(|b| b.get("text")?.as_str()).map(str::to_owned);
            blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n")
        }
        other => other.printed(),
    }
}

/// The program that an interpreter executes as a stream of events. Building it has no effects.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatProgram {
    /// The conversation.
    pub conversation: Conversation,
    /// The system prompt, copied and never rebuilt; may be empty.
    pub system_prompt: String,
    /// The model's id.
    pub model: String,
    /// The tenant on whose behalf the call is made.
    pub tenant: Tenant,
}

/// Builds the program of a conversation; its system prompt is the conversation's.
#[must_use]
pub fn chat_program(conversation: Conversation, model: impl Into<String>, tenant: Tenant) -> ChatProgram {
    let system_prompt = conversation.system.clone().unwrap_or_default();
    ChatProgram { conversation, system_prompt, model: model.into(), tenant }
}

impl ChatProgram {
    /// Returns the fields of the struct `ChatProgram`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([
            ("conversation", self.conversation.to_json()),
            ("system_prompt", self.system_prompt.clone().into()),
            ("model", self.model.clone().into()),
            ("tenant", self.tenant.to_json()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn parse(messages: Value) -> Conversation {
        parse_conversation(messages.as_array().unwrap()).unwrap()
    }

    #[test]
    fn the_last_user_message_is_the_prompt() {
        let conversation = parse(json!([
            {"role": "system", "content": "S"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"}, {"role": "system", "content": "T"}, {"role": "assistant", "content": "d"},
        ]));
        assert_eq!(conversation.prompt, "c");
        assert_eq!(conversation.system.as_deref(), Some("S"));
        let history: Vec<_> = conversation.history.iter().map(|m| m["content"].as_str().unwrap()).collect();
        assert_eq!(history, ["a", "b", "d"]);
        assert_eq!(conversation.messages.len(), 6);
    }

    #[test]
    fn blank_prompts_say_hello_and_no_user_is_an_error() {
        assert_eq!(parse(json!([{"role": "user", "content": " "}])).prompt, "Hello");
        assert_eq!(parse(json!([{"role": "user"}])).prompt, "Hello");
        assert_eq!(parse(json!([{"content": [{"type": "text", "text": "x"}]}])).prompt[0]["text"], "x");
        assert_eq!(
            parse_conversation(&[json!({"role": "system", "content": "S"}), json!("user")])
                .unwrap_err()
                .to_string(),
            "Conversation must contain at least one user message"
        );
    }

    #[test]
    fn the_system_text_is_copied_into_the_program() {
        let tenant = Tenant { resource_id: "acme".into(), version: "v1".into() };
        let conversation = parse(
            json!([{"role": "system", "content": [{"type": "text", "text": "S"}]}, {"role": "user", "content": "a"}]),
        );
        let program = chat_program(conversation, "m", tenant.clone());
        assert_eq!(program.system_prompt, "S");
        assert_eq!(program.to_json()["tenant"], json!({"resource_id": "acme", "version": "v1"}));
        let bare = chat_program(parse(json!([{"role": "user", "content": "a"}])), "m", tenant);
        assert_eq!(bare.system_prompt, "");
        assert_eq!(bare.to_json()["conversation"]["system"], json!(null));
    }
}
