//! References: values that are passed by the hash of their content.

use harn_prompt::value::object;
use harn_value::Data as Value;
use harn_value::json::stringify_data;

use crate::harness::ReferenceSpec;

/// Returns the id of a value: the SHA-256 of its sorted compact JSON, so that equal values share it.
#[must_use]
pub fn content_id(value: &Value) -> String {
    harn_prompt::layered::cache_key(&stringify_data(value))
}

/// An error of a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// No spec has this name.
    #[error("unknown reference kind: {0}")]
    UnknownKind(String),
    /// The value does not match the schema.
    #[error("schema validation failed for kind '{0}': [{1}]")]
    Schema(String, String),
    /// The value does not exist or has expired.
    #[error("reference not found: kind={0} id={1}")]
    NotFound(String, String),
}

/// Checks a value against the schema of its kind.
///
/// # Errors
/// It does not match.
pub fn check(spec: &ReferenceSpec, value: &Value) -> Result<(), ReferenceError> {
    let errors = harn_schema::errors(&spec.schema, value);
    if errors.is_empty() {
        return Ok(());
    }
    Err(ReferenceError::Schema(spec.name.clone(), errors.join(", ")))
}

/// A stored value.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The value.
    pub value: Value,
    /// A short view of it.
    pub glimpse: Value,
    /// Expiry time in milliseconds since 1970; `None` means never.
    pub expires_ms: Option<i64>,
}

impl Stored {
    /// Creates a stored value whose lifetime starts at `now_ms`.
    #[must_use]
    pub fn new(spec: &ReferenceSpec, value: Value, glimpse: Value, now_ms: i64) -> Stored {
        let lifetime = spec.ttl_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
        Stored { value, glimpse, expires_ms: lifetime.map(|ms| now_ms.saturating_add(ms)) }
    }

    /// Returns the stored form.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([
            ("value", self.value.clone()),
            ("glimpse", self.glimpse.clone()),
            ("expiresMs", self.expires_ms.into()),
        ])
    }

    /// Reads the stored form; `None` if it has expired.
    #[must_use]
    pub fn read(stored: &Value, now_ms: i64) -> Option<Stored> {
        let expires_ms = stored["expiresMs"].as_i64();
        if expires_ms.is_some_and(|at| at <= now_ms) {
            return None;
        }
        let part = |key: &str| stored.get(key).cloned();
        Some(Stored { value: part("value")?, glimpse: part("glimpse")?, expires_ms })
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;
    use crate::harness::define_reference;

    #[test]
    fn equal_values_share_an_id() {
        assert_eq!(content_id(&json!({"a": 1, "b": [2]})), content_id(&json!({"b": [2], "a": 1})));
        assert_ne!(content_id(&json!(1)), content_id(&json!("1")));
        assert_eq!(content_id(&json!({})).len(), 64);
    }

    #[test]
    fn values_expire() {
        let spec =
            define_reference(&json!({"name": "S", "schema": {"ids": ["string"]}, "ttl_ms": 100})).unwrap();
        let stored = Stored::new(&spec, json!({"ids": []}), json!({}), 1_000);
        let json = stored.to_json();
        assert_eq!(Stored::read(&json, 1_099), Some(stored));
        assert_eq!(Stored::read(&json, 1_100), None);
        assert!(check(&spec, &json!({"ids": ["a"]})).is_ok());
        let error = check(&spec, &json!({})).unwrap_err().to_string();
        assert!(error.starts_with("schema validation failed for kind 'S': [at root"), "{error}");
    }
}
