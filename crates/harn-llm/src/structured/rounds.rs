//! Schema rounds of a structured call: decides after each reply whether to retry, and with which message.
//!
//! A pure state machine: the caller makes the calls, [`Rounds::judge`] returns the next step.

use harn_value::{Data as Value, json};

use super::judge::{Candidate, NUDGE_ASSET, validator_error};
use crate::embedder::Embedder;
use crate::options::OutputFormat;
use crate::response::Response;

/// The next step after a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The reply is valid, or the call is not structured.
    Done,
    /// Retry, with at most one additional user message.
    Again {
        /// The message, if any.
        message: Option<String>,
        /// The errors of the reply.
        errors: Vec<String>,
    },
    /// No rounds are left.
    Failed {
        /// The errors of the last reply.
        errors: Vec<String>,
    },
}

/// The rounds of one call.
#[derive(Debug, Clone)]
pub struct Rounds {
    output: OutputFormat,
    used: u32,
    input_tokens: i64,
    output_tokens: i64,
    /// Whether the last reply contained JSON with other text around it.
    pub extracted: bool,
    /// Whether the last reply contained no JSON.
    pub missing_json: bool,
}

impl Rounds {
    /// Starts the rounds of a call with these output options.
    pub fn new(output: &OutputFormat) -> Rounds {
        Rounds {
            output: output.clone(),
            used: 0,
            input_tokens: 0,
            output_tokens: 0,
            extracted: false,
            missing_json: false,
        }
    }

    /// Returns the number of validated replies.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Returns the usage of all rounds plus the input and output tokens of `lost` attempts: `{llm_calls, input_tokens,
    /// output_tokens}`.
    pub(crate) fn spent_json(&self, lost: (i64, i64)) -> Value {
        let (input, output) =
            (self.input_tokens.saturating_add(lost.0), self.output_tokens.saturating_add(lost.1));
        json!({"llm_calls": self.used, "input_tokens": input, "output_tokens": output})
    }

    /// Validates a reply and stores its data in it. A reply that calls tools, or tries to, is not an answer and is not
    /// validated.
    pub fn judge(&mut self, response: &mut Response, embedder: &dyn Embedder) -> Verdict {
        self.used += 1;
        let usage = &response.usage;
        self.input_tokens = self.input_tokens.saturating_add(usage.input.unwrap_or(0));
        self.output_tokens = self.output_tokens.saturating_add(usage.output.unwrap_or(0));
        if !self.output.is_structured() || response.calls_tools() {
            return Verdict::Done;
        }
        if response.stop_reason.as_deref() == Some(crate::event::REFUSAL) {
            // The model would refuse again.
            let text = response.text.trim();
            return Verdict::Failed { errors: vec![format!("the model refused: {text}")] };
        }
        let (answer, blocks) = (response.answer.as_ref().map(Value::to_string), response.output_text());
        let judged = self.output.judge(&Candidate {
            texts: answer
                .iter()
                .map(String::as_str)
                .chain([response.text_or_reasoning().trim(), &blocks])
                .collect(),
            stop_reason: response.stop_reason.as_deref(),
            violations: &response.tagged.violations,
        });
        self.missing_json = judged.data.is_none();
        self.extracted = judged.extracted;
        response.repaired = judged.repaired;
        response.data = judged.data;
        if let Some(text) = judged.text {
            response.text = text;
        }
        self.next(judged.errors, embedder)
    }

    /// Returns the next step after the call's validator rejected an answer. The validator's message is always sent to
    /// the model.
    pub fn reject(&self, wrong: String) -> Verdict {
        let errors = vec![validator_error(&wrong)];
        if self.used > self.output.schema_retries {
            return Verdict::Failed { errors };
        }
        Verdict::Again { message: Some(wrong), errors }
    }

    /// Returns the next step after an answer with these errors.
    fn next(&self, errors: Vec<String>, embedder: &dyn Embedder) -> Verdict {
        if errors.is_empty() {
            return Verdict::Done;
        }
        if self.used > self.output.schema_retries {
            return Verdict::Failed { errors };
        }
        let prose =
            |bindings: &Value| Ok::<_, std::convert::Infallible>(embedder.prose(NUDGE_ASSET, bindings));
        let Ok(message) = self.output.correction(&errors, prose);
        Verdict::Again { message, errors }
    }
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
