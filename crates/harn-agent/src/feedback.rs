//! Messages that the runtime writes to the model, in their envelope.

use serde_json::{Value as Json, json};

/// Makes the user message `<runtime_feedback kind="K">…</runtime_feedback>`.
pub fn message(kind: &str, text: &str) -> Json {
    json!({"role": "user", "content": envelope(kind, text)})
}

/// Wraps a text in the envelope of its kind.
pub fn envelope(kind: &str, text: &str) -> String {
    format!("<runtime_feedback kind=\"{}\">\n{}\n</runtime_feedback>", escape(kind), text.trim())
}

/// Returns the text of a feedback message of this kind.
pub fn text_of<'a>(content: &'a str, kind: &str) -> Option<&'a str> {
    let open = format!("<runtime_feedback kind=\"{}\">\n", escape(kind));
    content.strip_prefix(open.as_str())?.strip_suffix("\n</runtime_feedback>")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Puts the results of a text-format turn into one message.
pub fn tool_results(results: &[(String, String)]) -> Json {
    let parts: Vec<String> = results
        .iter()
        .map(|(name, text)| format!("[result of {name}]\n{text}\n[end of {name} result]"))
        .collect();
    message("tool_results", &parts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_round_trip() {
        let text = envelope("a\"b", "  hello\n");
        assert_eq!(text, "<runtime_feedback kind=\"a&quot;b\">\nhello\n</runtime_feedback>");
        assert_eq!(text_of(&text, "a\"b"), Some("hello"));
        assert_eq!(text_of(&text, "other"), None);
    }

    #[test]
    fn results_are_named_at_both_ends() {
        let message = tool_results(&[("read".into(), "x".into()), ("ls".into(), "y".into())]);
        assert_eq!(
            message["content"],
            "<runtime_feedback kind=\"tool_results\">\n[result of read]\nx\n[end of read result]\n\n[result of ls]\ny\n[end of ls result]\n</runtime_feedback>"
        );
    }
}
