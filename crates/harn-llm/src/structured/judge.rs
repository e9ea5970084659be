//! Validates replies: whether a reply is an answer, and whether the answer matches the schema.
//!
//! Calls use it through [`super::Rounds`], agent loops when a reply calls no tools. A reply that calls tools is never
//! validated.

use harn_schema::as_json_schema;
use harn_value::{Data as Value, json};

use super::extract::{Extracted, extract};
use super::provider_schema::{is_object, unwrapped, without_optional_nulls};
use super::schema::{shape_lines, top_level_keys};
use crate::options::{Nudge, OutputFormat};

/// A final reply that may contain an answer.
#[derive(Debug, Clone, Default)]
pub struct Candidate<'r> {
    /// Strings that may contain the answer, the most likely one first. The first one is the visible text of the reply.
    pub texts: Vec<&'r str>,
    /// Why the reply ended.
    pub stop_reason: Option<&'r str>,
    /// Violations of the tagged protocol.
    pub violations: &'r [String],
}

/// The result of validating a reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judgement {
    /// The answer; with errors, the value that does not match the schema.
    pub data: Option<Value>,
    /// The validation errors.
    pub errors: Vec<String>,
    /// The new text of the reply, if its value was unwrapped or converted.
    pub text: Option<String>,
    /// Whether there was other text around the JSON.
    pub extracted: bool,
    /// Whether the JSON had to be repaired.
    pub repaired: bool,
}

/// The prompt asset that asks for a corrected answer.
pub const NUDGE_ASSET: &str = "llm/schema_nudge";

impl OutputFormat {
    /// Validates the final reply of a call or loop that [asks for data](OutputFormat::is_structured).
    pub fn judge(&self, reply: &Candidate<'_>) -> Judgement {
        let json_schema = self.check.as_ref().map(as_json_schema);
        // Lists and scalars are wrapped in an object; an optional key may be null.
        let wraps = json_schema.as_ref().is_some_and(|schema| !is_object(schema));
        let settled = |given: &Value| {
            let value = if wraps { unwrapped(given) } else { None }.unwrap_or(given);
            let (Some(own), Some(schema)) = (&self.check, &json_schema) else {
                return Some((value.clone(), false));
            };
            let fits = |value: &Value| harn_schema::errors(own, value).is_empty();
            if fits(value) {
                return Some((value.clone(), false));
            }
            let without = without_optional_nulls(schema, value);
            (without != *value && fits(&without)).then_some((without, true))
        };
        // A reply that was truncated at the token limit is not an answer, even if it could be completed.
        let cut_off = matches!(reply.stop_reason, Some("length" | "max_tokens"));
        let Some(mut found) = extract(&reply.texts, !cut_off, &|value| settled(value).is_some()) else {
            return Judgement { errors: missing(reply, cut_off), ..Judgement::default() };
        };
        let mut text = None;
        if let Some((value, changed)) = settled(&found.value) {
            text = (found.whole && value != found.value).then(|| value.to_string());
            found.value = value;
            found.repaired |= changed;
        }
        let Extracted { mut value, whole, repaired } = found;
        if let Some(schema) = &self.check {
            // JSON has a single number type: an integral number becomes an int if the schema requires one.
            harn_schema::with_ints(schema, &mut value);
        }
        let errors =
            self.check.as_ref().map(|schema| harn_schema::errors(schema, &value)).unwrap_or_default();
        Judgement { data: Some(value), errors, text, extracted: !whole, repaired }
    }

    /// Returns the message that asks for a corrected answer; `None` when the call disables it. `prose` renders
    /// [`NUDGE_ASSET`] with its bindings.
    ///
    /// # Errors
    /// Those of `prose`.
    pub fn correction<E>(
        &self,
        errors: &[String],
        prose: impl FnOnce(&Value) -> Result<String, E>,
    ) -> Result<Option<String>, E> {
        let joined = errors.join("; ");
        match &self.nudge {
            Nudge::Off => Ok(None),
            Nudge::Text(text) => Ok(Some(format!("{text}\n\nValidation errors: {joined}"))),
            Nudge::Automatic => prose(&self.nudge_bindings(&joined)).map(Some),
        }
    }

    fn nudge_bindings(&self, errors: &str) -> Value {
        let (required, allowed, shape) = match &self.check {
            Some(schema) => {
                let (required, allowed) = top_level_keys(schema);
                (required, allowed, shape_lines(schema))
            }
            None => Default::default(),
        };
        json!({"errors": errors, "required_keys": required.join(", "), "allowed_keys": allowed.join(", "),
               "shape": shape.join("\n")})
    }
}

/// Returns the errors of a reply without JSON.
fn missing(reply: &Candidate<'_>, cut_off: bool) -> Vec<String> {
    let mut out = vec!["response did not contain parseable JSON".to_string()];
    if !reply.violations.is_empty() {
        out.push(format!("protocol violations: {}", reply.violations.join("; ")));
    }
    if cut_off {
        out.push("response hit the token limit before producing complete JSON".to_string());
    }
    out
}

/// Returns the message of a call or loop whose answer is invalid after all retries. `retries` is `None` for a stream.
pub fn failure_message(errors: &[String], retries: Option<u32>) -> String {
    let hint = match retries {
        None => "a stream is not asked again; `llm_call` lets the model correct itself".to_string(), // prose-ok: diagnostic
        Some(0) => {
            "set `schema_retries`, or `retries` of `llm_call_structured`, to let the model correct itself"
                .to_string()
        }
        Some(retries) => format!("the budget of {retries} schema retries is exhausted"),
    };
    let found = match errors {
        [only] if only.starts_with(VALIDATOR) => format!("LLM output was rejected by {only}"),
        _ => format!("LLM output failed schema validation: {}", errors.join("; ")),
    };
    format!("{found} (hint: {hint})")
}

const VALIDATOR: &str = "output_validator: ";

/// Returns the error of an answer that `output_validator` rejects with a message.
pub fn validator_error(message: &str) -> String {
    format!("{VALIDATOR}{message}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::CallOptions;

    fn judge(schema: Value, text: &str) -> Judgement {
        let output = CallOptions::from_json(&json!({"schema": schema})).unwrap().output;
        output.judge(&Candidate { texts: vec![text], ..Candidate::default() })
    }

    #[test]
    fn the_answer_is_the_value_that_fits() {
        let schema = json!({"type": "dict", "required": ["a"], "properties": {"a": {"type": "int"}}});
        let found = judge(schema.clone(), "not {\"b\": 1} but {\"a\": 2}");
        assert_eq!((found.data, found.extracted, found.errors), (Some(json!({"a": 2})), true, vec![]));
        let wrong = judge(schema.clone(), "{\"b\": 1}");
        assert_eq!(wrong.errors, ["at root: missing required key 'a'"]);
        assert_eq!(wrong.data, Some(json!({"b": 1})));
        assert_eq!(judge(schema, "no").errors, ["response did not contain parseable JSON"]);
    }

    #[test]
    fn lists_come_out_of_their_object() {
        let found = judge(json!({"type": "list"}), "{\"result\": [1]}");
        assert_eq!((found.data, found.text.as_deref()), (Some(json!([1])), Some("[1]")));
    }
}
