//! JSON out of a reply: the reply itself, a fenced block, or the first balanced span.

use serde_json::Value;

use crate::response::{Block, Response};

/// JSON found in a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Extracted {
    /// The value.
    pub value: Value,
    /// Whether a whole candidate text was JSON, with nothing around it.
    pub whole: bool,
}

/// Characters looked at in search of balanced spans; keeps hostile text from costing quadratic time.
const MAX_WORK: usize = 16 << 20;

/// Finds the data of a reply: in its text, its blocks, the arguments of its calls, its tagged prose.
pub fn extract(response: &Response) -> Option<Extracted> {
    let text = response.text.trim().to_string();
    let blocks: String = response
        .blocks
        .iter()
        .filter_map(|b| match b {
            Block::OutputText(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let arguments = response.tool_calls.iter().map(|c| c.arguments.to_string());
    let candidates: Vec<String> = [text, blocks].into_iter().chain(arguments).collect();
    let prose =
        candidates.iter().map(|c| crate::tool_text::parse_reply(c, &[]).prose()).filter(|p| !p.is_empty());
    candidates.iter().cloned().chain(prose).find_map(|candidate| from_text(&candidate))
}

/// Finds JSON in one text.
pub fn from_text(text: &str) -> Option<Extracted> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    if let Ok(value) = serde_json::from_str(text) {
        return Some(Extracted { value, whole: true });
    }
    let found = |value| Extracted { value, whole: false };
    let fences = fences(text);
    let (json, other): (Vec<_>, Vec<_>) =
        fences.into_iter().partition(|(info, _)| info.eq_ignore_ascii_case("json"));
    let fenced = json.into_iter().chain(other).find_map(|(_, body)| serde_json::from_str(body.trim()).ok());
    fenced.or_else(|| first_span(text)).map(found)
}

/// Fenced code blocks: info word and body.
fn fences(text: &str) -> Vec<(&str, &str)> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find("```") {
        let inner = &rest[open + 3..];
        let Some(close) = inner.find("```") else { break };
        let block = &inner[..close];
        match block.split_once('\n') {
            Some((info, body)) => out.push((info.trim(), body)),
            None => out.push(("", block)),
        }
        rest = &inner[close + 3..];
    }
    out
}

fn first_span(text: &str) -> Option<Value> {
    let bytes = text.as_bytes();
    let mut work = 0;
    let mut at = 0;
    while at < bytes.len() && work < MAX_WORK {
        if !matches!(bytes[at], b'{' | b'[') {
            at += 1;
            continue;
        }
        match span_end(&bytes[at..]) {
            Some(len) => {
                if let Ok(value) = serde_json::from_str(&text[at..at + len]) {
                    return Some(value);
                }
                work += len;
                at += len;
            }
            None => {
                work += bytes.len() - at;
                at += 1;
            }
        }
    }
    None
}

/// Length of the balanced span at the beginning, brackets in strings ignored.
fn span_end(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(text: &str) -> Option<Value> {
        from_text(text).map(|e| e.value)
    }

    #[test]
    fn json_is_found_wherever_it_is() {
        assert_eq!(value(" {\"a\": 1} "), Some(json!({"a": 1})));
        assert_eq!(value("```\nnot\n```\n```json\n[1]\n```"), Some(json!([1])));
        assert_eq!(value("sure: [1, {\"x\": \"]\"}] ok {\"b\": 2}"), Some(json!([1, {"x": "]"}])));
        assert_eq!(value("an [aside] then {\"b\": 2}"), Some(json!({"b": 2})));
        assert_eq!(value("open { and {\"b\": 2}"), Some(json!({"b": 2})));
        assert_eq!(value("none"), None);
        assert!(from_text("{}").unwrap().whole && !from_text("x {}").unwrap().whole);
    }

    #[test]
    fn hostile_text_does_not_cost_quadratic_time() {
        assert_eq!(value(&"[".repeat(200_000)), None);
    }
}
