//! Transcript builtins that call a model: `transcript_summarize` and `transcript_compact`.

use harn_value::{Data as Value, json};

use super::{Call, LlmRuntime};
use crate::error::{CallError, OptionError};
use crate::json::{Object, list_at, present};
use crate::options::{CallOptions, DataOptions, Shape, nearest};
use crate::transcript::{
    CompactOptions, Compacted, Strategy, compact, compact_plan, compact_text, conversation_lines,
    is_transcript, with_messages,
};

/// Rejects an invalid `keep_last`, and typos of its name, because the wrong messages would be lost.
fn check_summary_options(options: &Value) -> Result<(), OptionError> {
    let wrong = |text: String| OptionError::new(format!("transcript_summarize: {text}"));
    let given = options.get("keep_last").unwrap_or(&Value::Null);
    Shape::Int(0).check("keep_last", given).map_err(|e| wrong(e.to_string()))?;
    let own = ["keep_last"];
    let is_known =
        |key: &str| own.contains(&key) || CallOptions::FIELDS.iter().any(|field| field.name == key);
    for key in options.as_object().into_iter().flat_map(|options| options.keys()).filter(|key| !is_known(key))
    {
        if let Some(name) = nearest(key, own.into_iter()) {
            return Err(wrong(format!("unknown option `{key}` (did you mean `{name}`?)")));
        }
    }
    Ok(())
}

impl LlmRuntime {
    /// `transcript_summarize`: one call writes the summary; the last messages are retained.
    ///
    /// # Errors
    /// The value is not a transcript, or the call failed.
    pub async fn transcript_summarize(
        &self,
        transcript: &Value,
        options: &Value,
    ) -> Result<Value, CallError> {
        if !is_transcript(transcript) {
            return Err(CallError::Option("transcript_summarize: argument must be a transcript".into()));
        }
        check_summary_options(options)?;
        let messages = list_at(transcript, "messages");
        let keep = options.get("keep_last").and_then(Value::as_i64).unwrap_or(6);
        let keep = usize::try_from(keep).unwrap_or(0).min(messages.len());
        let archived = messages.len() - keep;
        let lines = conversation_lines(messages);
        let prompt = match present(options, "prompt") {
            Some(instruction) => format!("{}\n\n{lines}", crate::json::display(instruction)),
            None => self.embedder.prose(
                "llm/transcript_summarize",
                &json!({"formatted_messages": lines, "archived_count": archived}),
            ),
        };
        let reply = self.ask_plainly(prompt, options).await?;
        let ids = || self.embedder.new_id();
        let mut out = with_messages(transcript, messages[archived..].to_vec(), &ids);
        out["summary"] = reply.into();
        out["archived_messages"] = archived.into();
        Ok(out)
    }

    /// `transcript_compact`: replaces older messages with a summary. The metadata of the result is also the metadata of
    /// the live event `transcript_compacted`.
    ///
    /// `prompt_of` renders a `summarize_prompt` template with `{formatted_messages, archived_count}`.
    ///
    /// # Errors
    /// The options are invalid, or the call for the summary failed.
    pub async fn transcript_compact(
        &self,
        transcript: &Value,
        options: &Value,
        prompt_of: &dyn Fn(&str, &Value) -> Result<String, String>,
    ) -> Result<Compacted, CallError> {
        let parsed = CompactOptions::from_json(options).map_err(CallError::Option)?;
        let archived = compact_plan(transcript, &parsed).map_err(CallError::Option)?;
        let removed = &list_at(transcript, "messages")[..archived.unwrap_or(0)];
        let written = match (parsed.strategy, archived) {
            (Strategy::Llm, Some(count)) => {
                debug_assert_eq!(removed.len(), count);
                let template = parsed.summarize_prompt.as_deref();
                let prompt = self.summary_prompt(removed, template, prompt_of)?;
                Some(self.ask_plainly(prompt, options).await?)
            }
            _ => None,
        };
        let text = compact_text(removed, parsed.strategy, written.as_deref());
        Ok(compact(transcript, &parsed, archived, &text, &|| self.embedder.new_id()))
    }

    /// Returns the prompt that asks a model for a summary of messages. `prompt_of` renders `template`.
    ///
    /// # Errors
    /// The template cannot be rendered.
    pub fn summary_prompt(
        &self,
        messages: &[Value],
        template: Option<&str>,
        prompt_of: &dyn Fn(&str, &Value) -> Result<String, String>,
    ) -> Result<String, CallError> {
        let bindings =
            json!({"formatted_messages": conversation_lines(messages), "archived_count": messages.len()});
        match template {
            Some(template) => prompt_of(template, &bindings).map_err(CallError::Option),
            None => Ok(self.embedder.prose("llm/transcript_summarize", &bindings)),
        }
    }

    /// Makes a separate call with the call options among `options`, and returns the visible text.
    ///
    /// # Errors
    /// As for [`LlmRuntime::llm_call`].
    pub async fn ask_plainly(&self, prompt: String, options: &Value) -> Result<String, CallError> {
        let mut own: Object = options.as_object().cloned().unwrap_or_default();
        for key in ["prompt", "messages", "transcript", "keep_last", "summary", "strategy", "system", "tools"]
        {
            own.shift_remove(key);
        }
        let finished = self.call(&Call::new(prompt, None, Value::Object(own)), &mut |_| {}).await?;
        Ok(finished.response.prose().trim().to_string())
    }
}
