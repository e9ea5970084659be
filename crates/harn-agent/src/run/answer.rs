//! The final answer of a loop: it is validated when a reply calls no tools, and corrected in a further turn if invalid;
//! else the loop fails.

use harn_llm::options::{OutputFormat, Validation};
use harn_llm::structured::judge::{failure_message, validator_error};
use harn_llm::structured::{Candidate, NUDGE_ASSET};
use harn_llm::{Category, LlmError};
use harn_prompt::Prose;
use harn_value::{Data as Json, data::Map};

use super::judged::Judged;
use super::reply::Reply;
use super::state::Phase;
use super::{AgentLoop, LoopError, Status};
use crate::event::AgentEvent;

impl AgentLoop {
    /// Validates a reply; `None` if the reply cannot be the answer, or the loop requires no structured answer.
    pub(super) fn judge(&self, reply: &Reply<'_>) -> Option<Judged> {
        let is_final = reply.calls.is_empty() && reply.errors.is_empty() && self.is_answered();
        let output = self.output_format().filter(|_| is_final)?;
        let whole = reply.result["text"].as_str().unwrap_or_default();
        let judgement = output.judge(&Candidate {
            texts: vec![&reply.visible, whole],
            stop_reason: self.state.stop_reason.as_deref(),
            ..Candidate::default()
        });
        Some(Judged { output, judgement })
    }

    fn output_format(&self) -> Option<OutputFormat> {
        let wanted = self.config.structured.then(|| OutputFormat::from_options(&self.config.options));
        wanted.and_then(Result::ok)
    }

    /// Ends the loop with a reply, unless its answer must be corrected. `finished` means that the model ended the loop.
    pub(super) fn conclude(
        &mut self,
        reply: &Reply<'_>,
        finished: bool,
        judged: Option<Judged>,
        prose: &dyn Prose,
    ) -> Result<(), LoopError> {
        self.state.turn.finished = finished;
        let Some(Judged { output, judgement }) = judged else {
            self.assistant(reply);
            return self.accept(None);
        };
        if judgement.errors.is_empty() {
            self.assistant(reply);
            return self.accept(judgement.data);
        }
        if self.state.corrections < output.schema_retries {
            let render = |bindings: &Json| {
                let asset = format!("std/{NUDGE_ASSET}.harn.prompt");
                prose.render(&asset, bindings.as_object().unwrap_or(&Map::new()))
            };
            let message = output.correction(&judgement.errors, render)?;
            // Without a message, the same conversation is sent again, as if the reply had not been received.
            if message.is_some() {
                self.assistant(reply);
            }
            return self.correct(judgement.errors, "schema_retry", message);
        }
        self.assistant(reply);
        self.give_up(&output, judgement.errors, judgement.data)
    }

    /// Accepts an answer that matches the schema and passes it to the validator, if any.
    fn accept(&mut self, data: Option<Json>) -> Result<(), LoopError> {
        self.state.data = data;
        if self.config.validates && self.is_answered() {
            self.state.phase = Phase::Validate;
            return Ok(());
        }
        self.settle()
    }

    /// Returns the argument of `output_validator`: the data, or the text of a loop without a schema.
    pub(super) fn answer_to_validate(&self) -> Json {
        self.state.data.clone().unwrap_or_else(|| self.state.turn.text.as_str().into())
    }

    /// Handles the result of `output_validator`.
    pub(super) fn output_validated(&mut self, wrong: Option<String>) -> Result<(), LoopError> {
        let output = OutputFormat::from_options(&self.config.options).ok();
        let (Some(wrong), Some(output)) = (wrong, output) else { return self.settle() };
        let data = self.state.data.take();
        if self.state.corrections < output.schema_retries {
            return self.correct(vec![validator_error(&wrong)], "output_validator", Some(wrong));
        }
        self.give_up(&output, vec![validator_error(&wrong)], data)
    }

    /// Requests a corrected answer. The rejected reply is not an iteration.
    fn correct(&mut self, errors: Vec<String>, kind: &str, message: Option<String>) -> Result<(), LoopError> {
        self.state.corrections += 1;
        self.state.iterations -= 1;
        self.events.push(AgentEvent::SchemaRetry {
            attempt: self.state.corrections,
            errors,
            nudge_used: message.is_some(),
            correction_prompt: message.clone().unwrap_or_default(),
        });
        if let Some(text) = message {
            self.feedback(kind, &text);
        }
        self.after_turn_without_tools()
    }

    /// Ends the loop without a valid answer, as `output_validation` specifies.
    fn give_up(
        &mut self,
        output: &OutputFormat,
        errors: Vec<String>,
        data: Option<Json>,
    ) -> Result<(), LoopError> {
        let message = failure_message(&errors, Some(output.schema_retries));
        match output.validation {
            Validation::Error => {
                self.state.data = None;
                self.state.failure = Some(message);
                self.warn_of_rest();
                self.end(Status::Failed);
                return Ok(());
            }
            Validation::Warn => {
                self.events.push(AgentEvent::Warning { text: format!("agent_loop: {message}") });
            }
            Validation::Off => {}
        }
        self.state.data = data;
        self.settle()
    }

    /// Ends the loop with the last reply; a daemon becomes idle.
    fn settle(&mut self) -> Result<(), LoopError> {
        let finished = self.state.turn.finished;
        if self.config.daemon.is_some() && !finished {
            self.after_turn_without_tools()?;
            if matches!(self.state.phase, Phase::Start) {
                self.go_idle();
            }
            return Ok(());
        }
        self.warn_of_rest();
        let done = finished || self.is_answered() || self.is_silent_end();
        self.end(if done { Status::Done } else { Status::Failed });
        Ok(())
    }

    /// Returns the error dict of a loop without a valid answer.
    pub(super) fn failure(&self) -> Option<Json> {
        let message = self.state.failure.as_deref()?;
        Some(LlmError::new(Category::SchemaValidation, message).to_json())
    }
}
