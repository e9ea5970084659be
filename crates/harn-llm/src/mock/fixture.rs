//! Mock fixture files: one JSON object per line.

use harn_value::{Data as Value, json};

use super::{Asked, Mock, cut_after_blanks};
use crate::error::LlmError;
use crate::json::{Object, parse_line};
use crate::response::{Block, Response};

/// Parses a fixture file.
///
/// # Errors
/// `invalid JSON in <file> line <n>: …`, `invalid --llm-mock fixture in <file> line <n>: …`.
pub fn parse_fixtures(file: &str, text: &str) -> Result<Vec<Mock>, String> {
    let mut out = Vec::new();
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = n + 1;
        let value = parse_line(line).map_err(|e| format!("invalid JSON in {file} line {at}: {e}"))?;
        let mock = check(&value).and_then(|()| Mock::from_json(&value)).map_err(|e| {
            // The dict parser prefixes its errors with `llm_mock`, the builtin that usually passes the dict.
            let e = e.strip_prefix("llm_mock: ").unwrap_or(&e);
            format!("invalid --llm-mock fixture in {file} line {at}: {e}")
        })?;
        out.push(mock);
    }
    Ok(out)
}

/// Rejects fields of a wrong type. A dict in a program may be lenient about them, a generated file may not.
fn check(line: &Value) -> Result<(), String> {
    let Some(fields) = line.as_object() else { return Err("fixture line must be a JSON object".into()) };
    for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        match key.as_str() {
            "match" | "text" | "thinking" | "thinking_summary" | "stop_reason" | "model" | "provider"
                if !value.is_string() =>
            {
                return Err(format!("`{key}` must be a string"));
            }
            "input_tokens"
            | "output_tokens"
            | "cache_read_tokens"
            | "cache_write_tokens"
            | "reasoning_tokens"
            | "cache_creation_input_tokens"
                if !value.is_i64() =>
            {
                return Err(format!("`{key}` must be an integer"));
            }
            "consume_match" if !value.is_boolean() => return Err("`consume_match` must be a bool".into()),
            "call" if !value.is_i64() => return Err("`call` must be an integer".into()),
            "refused" if !value.is_string() => return Err("`refused` must be a string".into()),
            "asked" if Asked::from_json(value).is_none() => {
                return Err("`asked` must be a list of two strings".into());
            }
            "blocks" | "chunks" if !value.is_array() => return Err(format!("`{key}` must be an array")),
            "tool_calls" => check_calls(value)?,
            "error" => check_error(value)?,
            _ => {}
        }
    }
    Ok(())
}

fn check_calls(calls: &Value) -> Result<(), String> {
    let Some(calls) = calls.as_array() else { return Err("tool_calls must be an array".into()) };
    match calls.iter().position(|call| !call["name"].is_string()) {
        Some(n) => Err(format!("tool_calls[{n}] is missing string field `name`")),
        None => Ok(()),
    }
}

fn check_error(error: &Value) -> Result<(), String> {
    match error.get("retry_after_ms") {
        Some(ms) if !ms.is_null() && !ms.is_u64() => {
            Err("error.retry_after_ms must be a non-negative integer".into())
        }
        _ => Ok(()),
    }
}

/// Formats the outcome of a call as a fixture line, from which replay answers the same call. `call` is the call's
/// number in the order in which calls began; `pieces` are the chunks in which the program read the reply.
pub(crate) fn recorded_line(
    call: i64,
    asked: &Asked,
    result: Result<&Response, &LlmError>,
    pieces: &[String],
) -> String {
    let mut out = fixture(result);
    // The chunks of a model's reply are arbitrary, so they are not recorded. Those of a mocked reply are, unless replay
    // would produce the same chunks.
    let said =
        result.ok().filter(|reply| reply.mocked && !pieces.is_empty() && pieces.concat() == reply.text);
    if said.is_some_and(|reply| cut_after_blanks(&reply.text) != pieces) {
        out.insert("chunks".into(), pieces.iter().map(String::as_str).collect());
    }
    out.insert("call".into(), call.into());
    out.insert("asked".into(), asked.to_json());
    Value::Object(out).to_string()
}

/// Formats the line of a call that was rejected for a reason that replay cannot reproduce.
pub(crate) fn refused_line(call: i64, reason: &str) -> String {
    json!({"refused": reason, "call": call}).to_string()
}

/// Formats a result as a fixture line (without the line feed).
pub(crate) fn fixture_line(result: Result<&Response, &LlmError>) -> String {
    Value::Object(fixture(result)).to_string()
}

fn fixture(result: Result<&Response, &LlmError>) -> Object {
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
            if !r.text.is_empty() {
                out.insert("text".into(), r.text.as_str().into());
            }
            if !r.tool_calls.is_empty() {
                let call =
                    |c: &crate::message::ToolCall| json!({"id": c.id, "name": c.name, "args": c.arguments});
                out.insert("tool_calls".into(), r.tool_calls.iter().map(call).collect());
            }
            let counts = [
                ("input_tokens", r.usage.input),
                ("output_tokens", r.usage.output),
                ("cache_read_tokens", r.usage.cache_read),
                ("cache_write_tokens", r.usage.cache_write),
                ("reasoning_tokens", r.usage.reasoning),
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
            if !r.blocks.is_empty() {
                out.insert("blocks".into(), r.blocks.iter().map(Block::to_json).collect());
            }
        }
    }
    out
}
