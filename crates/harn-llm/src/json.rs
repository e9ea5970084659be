//! Helpers for JSON-like data.

pub use harn_schema::shape::display;
use harn_value::{Data as Value, data::Map};

/// An object under construction, in insertion order.
pub type Object = Map<String, Value>;

/// Returns the string at `key`, if there is one.
pub fn str_at<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// Returns the list at `key`, empty when missing or of another type.
pub fn list_at<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the value at `key` unless it is missing or null.
pub fn present<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|v| !v.is_null())
}

/// Returns whether Harn treats the value as true: nil, false, zero, and empty strings and collections are false.
pub fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(b) => *b,
        Value::Number(n) => n.as_f64() != Some(0.0),
        Value::String(s) => !s.is_empty(),
        Value::Array(a) => !a.is_empty(),
        Value::Object(o) => !o.is_empty(),
        Value::Opaque(_) => true,
    }
}

/// Truncates `text` to at most `max` bytes, at a character boundary.
pub fn clip(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Returns the value with the keys of every object sorted, for hashes and comparisons.
pub fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            Value::Object(keys.into_iter().map(|k| (k.clone(), canonical(&map[k]))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
}

/// Returns the lower-case hexadecimal SHA-256 of the canonical JSON of `value`.
pub fn hash(value: &Value) -> String {
    sha256(canonical(value).to_string().as_bytes())
}

/// Returns the lower-case hexadecimal SHA-256 of bytes.
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    hex(&Sha256::digest(bytes))
}

/// Returns bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    out
}

/// Parses JSON that occupies one line of a file. Error messages contain only the column; the caller adds the line.
pub(crate) fn parse_line(line: &str) -> Result<Value, String> {
    // Removes a byte order mark, which editors on Windows put at the beginning of a file.
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    serde_json::from_str(line).map_err(|error| {
        let text = error.to_string();
        let what = text.split(" at line ").next().unwrap_or(&text);
        format!("{what} at column {}", error.column())
    })
}
