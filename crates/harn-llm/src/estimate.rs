//! Token estimates, for use where no token counts are available.

use harn_value::Data as Value;

/// Types of blocks with binary content: providers charge by size or page, not by base64 length.
const MEDIA: [&str; 2] = ["image", "document"];

/// Upper bound of the estimate for a media block: an image of about 1.15 megapixels on Anthropic's models.
const MEDIA_TOKENS: i64 = 1_600;

/// Estimates the tokens of a string.
pub(crate) fn estimate_tokens(text: &str) -> i64 {
    i64::try_from(text.len().div_ceil(4)).unwrap_or(i64::MAX)
}

/// Estimates the tokens of a JSON value: its strings and keys, plus one for each other scalar.
pub(crate) fn estimate_json(value: &Value) -> i64 {
    match value {
        Value::String(text) => estimate_tokens(text),
        Value::Array(items) => items.iter().map(estimate_json).sum(),
        Value::Object(map) => {
            let is_media = map.get("type").and_then(Value::as_str).is_some_and(|t| MEDIA.contains(&t));
            let member = |(key, v): (&String, &Value)| {
                let tokens = estimate_json(v);
                let is_content = is_media && matches!(key.as_str(), "base64" | "data" | "source");
                estimate_tokens(key) + if is_content { tokens.min(MEDIA_TOKENS) } else { tokens }
            };
            map.iter().map(member).sum()
        }
        _ => 1,
    }
}
