//! Mocks in files: one JSON object per line.

use serde_json::{Value, json};

use super::Mock;
use crate::error::LlmError;
use crate::json::Object;
use crate::response::{Block, Response};

/// Reads a fixture file.
///
/// # Errors
/// `invalid --llm-mock fixture in <file> line <n>: …`.
pub fn parse_fixtures(file: &str, text: &str) -> Result<Vec<Mock>, String> {
    let mut out = Vec::new();
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let mock = serde_json::from_str::<Value>(line)
            .map_err(|e| e.to_string())
            .and_then(|value| Mock::from_json(&value))
            .map_err(|e| format!("invalid --llm-mock fixture in {file} line {}: {e}", n + 1))?;
        out.push(mock);
    }
    Ok(out)
}

/// Writes a result as a fixture line (without the line end).
pub fn fixture_line(result: Result<&Response, &LlmError>) -> String {
    let mut out = Object::new();
    match result {
        Err(error) => {
            let mut dict = json!({"category": error.category.as_str(), "message": error.message});
            if let Some(ms) = error.retry_after_ms {
                dict["retry_after_ms"] = ms.into();
            }
            out.insert("error".into(), dict);
        }
        Ok(r) => {
            out.insert("text".into(), r.text.as_str().into());
            if !r.tool_calls.is_empty() {
                out.insert("tool_calls".into(), r.tool_calls.iter().map(|c| c.to_json()).collect());
            }
            let counts = [
                ("input_tokens", r.usage.input),
                ("output_tokens", r.usage.output),
                ("cache_read_tokens", r.usage.cache_read),
                ("cache_write_tokens", r.usage.cache_write),
            ];
            for (key, count) in counts {
                if let Some(n) = count {
                    out.insert(key.into(), n.into());
                }
            }
            let texts = [
                ("thinking", r.thinking.as_deref()),
                ("thinking_summary", r.thinking_summary.as_deref()),
                ("stop_reason", r.stop_reason.as_deref()),
                ("model", Some(r.model.as_str())),
                ("provider", Some(r.provider.as_str())),
            ];
            for (key, text) in texts {
                if let Some(text) = text {
                    out.insert(key.into(), text.into());
                }
            }
            out.insert("blocks".into(), r.blocks.iter().map(Block::to_json).collect());
        }
    }
    Value::Object(out).to_string()
}
