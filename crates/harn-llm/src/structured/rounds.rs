//! Rounds of a structured call: judge a reply, decide whether to ask again and with which words.
//!
//! A pure state machine: the caller makes the calls, [`Rounds::judge`] says what comes next.

use harn_schema::as_json_schema;
use harn_value::{Data as Value, json};

use super::extract::{Extracted, extract};
use super::provider_schema::{is_object, unwrapped, without_optional_nulls};
use super::schema::{shape_lines, top_level_keys};
use crate::embedder::Embedder;
use crate::options::{Nudge, OutputFormat};
use crate::response::Response;

/// What comes after a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The reply fits, or nothing was asked of it.
    Done,
    /// Ask again, with at most one more user message.
    Again {
        /// The message, if any.
        message: Option<String>,
        /// What was wrong.
        errors: Vec<String>,
    },
    /// The rounds are used up.
    Failed {
        /// What is wrong.
        errors: Vec<String>,
    },
}

/// The rounds of one call.
#[derive(Debug, Clone)]
pub struct Rounds {
    structured: bool,
    schema: Option<Value>,
    nudge: Nudge,
    retries: u32,
    used: u32,
    input_tokens: i64,
    output_tokens: i64,
    /// Whether the last reply was JSON with something around it.
    pub extracted: bool,
    /// Whether the last reply held no JSON at all.
    pub missing_json: bool,
}

impl Rounds {
    /// Starts the rounds of a call with these output options.
    pub fn new(output: &OutputFormat) -> Rounds {
        Rounds {
            structured: output.is_structured(),
            schema: output.check.clone(),
            nudge: output.nudge.clone(),
            retries: output.schema_retries,
            used: 0,
            input_tokens: 0,
            output_tokens: 0,
            extracted: false,
            missing_json: false,
        }
    }

    /// Returns how many replies were judged.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Returns how many retries were allowed.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// What the rounds used together, with the input and output tokens of `lost` attempts: `{llm_calls, input_tokens, output_tokens}`.
    pub(crate) fn spent_json(&self, lost: (i64, i64)) -> Value {
        let (input, output) =
            (self.input_tokens.saturating_add(lost.0), self.output_tokens.saturating_add(lost.1));
        json!({"llm_calls": self.used, "input_tokens": input, "output_tokens": output})
    }

    /// Judges a reply and stores its data in it.
    pub fn judge(&mut self, response: &mut Response, embedder: &dyn Embedder) -> Verdict {
        self.used += 1;
        let usage = &response.usage;
        self.input_tokens = self.input_tokens.saturating_add(usage.input.unwrap_or(0));
        self.output_tokens = self.output_tokens.saturating_add(usage.output.unwrap_or(0));
        if !self.structured {
            return Verdict::Done;
        }
        if response.stop_reason.as_deref() == Some(crate::event::REFUSAL) {
            // The answer to a refusal would be another one.
            let text = response.text.trim();
            return Verdict::Failed { errors: vec![format!("the model refused: {text}")] };
        }
        let json_schema = self.schema.as_ref().map(as_json_schema);
        // Lists and scalars travel in an object; a key that may be missing may be written as null.
        let wraps = json_schema.as_ref().is_some_and(|schema| !is_object(schema));
        let settled = |given: &Value| {
            let value = if wraps { unwrapped(given) } else { None }.unwrap_or(given);
            let (Some(own), Some(schema)) = (&self.schema, &json_schema) else {
                return Some((value.clone(), false));
            };
            let fits = |value: &Value| embedder.validate_schema(own, value).is_empty();
            if fits(value) {
                return Some((value.clone(), false));
            }
            let without = without_optional_nulls(schema, value);
            (without != *value && fits(&without)).then_some((without, true))
        };
        let mut found = extract(response, &|value| settled(value).is_some());
        if let Some(found) = &mut found
            && let Some((value, changed)) = settled(&found.value)
        {
            if found.whole && value != found.value {
                response.text = value.to_string();
            }
            found.value = value;
            found.repaired |= changed;
        }
        self.missing_json = found.is_none();
        self.extracted = found.as_ref().is_some_and(|f| !f.whole);
        let errors = self.errors(found.as_ref(), response, embedder);
        response.repaired = found.as_ref().is_some_and(|f| f.repaired);
        response.data = found.map(|f| f.value);
        if errors.is_empty() {
            return Verdict::Done;
        }
        if self.used > self.retries {
            return Verdict::Failed { errors };
        }
        let joined = errors.join("; ");
        let message = match &self.nudge {
            Nudge::Off => None,
            Nudge::Text(text) => Some(format!("{text}\n\nValidation errors: {joined}")),
            Nudge::Automatic => Some(embedder.prose("llm/schema_nudge", &self.nudge_bindings(&joined))),
        };
        Verdict::Again { message, errors }
    }

    fn errors(&self, found: Option<&Extracted>, response: &Response, embedder: &dyn Embedder) -> Vec<String> {
        let Some(found) = found else {
            let mut out = vec!["response did not contain parseable JSON".to_string()];
            if !response.tagged.violations.is_empty() {
                out.push(format!("protocol violations: {}", response.tagged.violations.join("; ")));
            }
            if matches!(response.stop_reason.as_deref(), Some("length" | "max_tokens")) {
                out.push("response hit the token limit before producing complete JSON".to_string());
            }
            return out;
        };
        self.schema.as_ref().map(|schema| embedder.validate_schema(schema, &found.value)).unwrap_or_default()
    }

    fn nudge_bindings(&self, errors: &str) -> Value {
        let (required, allowed, shape) = match &self.schema {
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

/// Returns the message of a call whose rounds are used up.
pub(crate) fn failure_message(errors: &[String], retries: u32) -> String {
    let hint = if retries == 0 {
        "set `schema_retries`, or `retries` of `llm_call_structured`, to let the model correct itself"
            .to_string()
    } else {
        format!("the budget of {retries} schema retries is exhausted")
    };
    format!("LLM output failed schema validation: {} (hint: {hint})", errors.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedder::StdEmbedder;
    use crate::options::CallOptions;

    fn rounds(options: Value) -> Rounds {
        Rounds::new(&CallOptions::from_json(&options).unwrap().output)
    }

    fn reply(text: &str) -> Response {
        let mut r = Response::new("p", "m");
        r.text = text.into();
        r
    }

    #[test]
    fn rounds_end_with_success_or_exhaustion() {
        let embedder = StdEmbedder::default();
        let mut r = rounds(json!({"schema": {"type": "dict", "required": ["a"]}, "schema_retries": 1}));
        let Verdict::Again { message, errors } = r.judge(&mut reply("{}"), &embedder) else { panic!() };
        assert_eq!(errors, ["at root: missing required key 'a'"]);
        assert!(message.unwrap().contains("\"required_keys\":\"a\""));
        let mut cut = reply("nope");
        cut.stop_reason = Some("max_tokens".into());
        let Verdict::Failed { errors } = r.judge(&mut cut, &embedder) else { panic!() };
        assert_eq!(
            errors,
            [
                "response did not contain parseable JSON",
                "response hit the token limit before producing complete JSON"
            ]
        );
        assert!(r.missing_json && r.used() == 2);
    }

    #[test]
    fn nudges_can_be_replaced_or_silenced() {
        let embedder = StdEmbedder::default();
        let message = |nudge: Value| {
            let mut r = rounds(json!({"response_format": "json", "schema_retry_nudge": nudge}));
            match r.judge(&mut reply("x"), &embedder) {
                Verdict::Again { message, .. } => message,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(message(json!(false)), None);
        assert_eq!(
            message(json!("Try.")).unwrap(),
            "Try.\n\nValidation errors: response did not contain parseable JSON"
        );
    }

    #[test]
    fn unstructured_replies_pass() {
        let mut response = reply("x");
        assert_eq!(rounds(json!({})).judge(&mut response, &StdEmbedder::default()), Verdict::Done);
        assert_eq!(response.data, None);
    }
}
