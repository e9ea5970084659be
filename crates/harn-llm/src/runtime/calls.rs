//! `llm_call` and its structured variants: schema rounds, and results as dicts.

use std::cell::Cell;
use std::rc::Rc;

use harn_value::{Data as Value, json};

use super::delivered::Delivered;
use super::layers::Sink;
use super::live::{AnswerTool, Live, LiveCalls, LiveText};
use super::{Call, LlmRuntime, Prepared};
use crate::conversation::Conversation;
use crate::error::{CallError, Category, LlmError};
use crate::event::{REFUSAL, StreamEvent};
use crate::experiment::Experiment;
use crate::json::{Object, present, str_at};
use crate::message::{Message, Role};
use crate::options::{CallOptions, DataOptions, Validation, check_options};
use crate::response::Response;
use crate::structured::judge::failure_message;
use crate::structured::rounds::{Rounds, Verdict};
use crate::transcript::{CallRecord, assistant_message, of_call, search_events};

/// A call that ended with a reply.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The last reply.
    pub response: Response,
    /// The request, with the original messages.
    pub prepared: Box<Prepared>,
    /// The schema rounds of the call.
    pub rounds: Rounds,
    /// Validation errors of the reply, if validation only warns or the caller handles them.
    pub errors: Vec<String>,
}

impl Finished {
    /// Returns the error of a structured call without data: the model called tools, which structured calls do not
    /// execute.
    fn unanswered(&self) -> Option<String> {
        let response = &self.response;
        response.calls_tools().then(|| {
            let names: Vec<&str> = response.tool_calls.iter().map(|call| call.name.as_str()).collect();
            let called = if names.is_empty() { "a tool".to_owned() } else { names.join(", ") };
            format!("the model called {called} instead of answering; run tools with agent_loop and its option `schema`") // prose-ok: diagnostic
        })
    }
}

impl LlmRuntime {
    /// Makes a call and returns the typed reply. `sink` receives the stream events as they arrive.
    ///
    /// # Errors
    /// The options are invalid, or the call failed.
    pub async fn call(&self, call: &Call, sink: &mut Sink<'_>) -> Result<Finished, CallError> {
        let mut prepared = Box::new(self.prepare(call)?);
        self.apply_experiment(&mut prepared).await?;
        let finished = self.run_rounds(call, prepared, sink).await?;
        self.validated(finished)
    }

    /// Like [`LlmRuntime::call`], and passes the user-facing text to `deliver` in chunks, as it arrives. The chunks
    /// concatenate to the reply's `visible_text`. Delivered text cannot be retracted, so failures after the first chunk
    /// are not retried.
    ///
    /// # Errors
    /// As for [`LlmRuntime::call`].
    pub async fn call_live(
        &self,
        call: &Call,
        deliver: &mut dyn FnMut(String),
    ) -> Result<Finished, CallError> {
        let mut pieces = |live| match live {
            Live::Text(text) => deliver(text),
            Live::Void | Live::Answer(_) | Live::CallOpens { .. } | Live::CallGoesOn { .. } => {}
        };
        self.call_telling(call, false, &mut pieces).await
    }

    /// Makes a call and streams its visible text. With `takes_back`, the listener can be notified that earlier text is
    /// void.
    async fn call_telling(
        &self,
        call: &Call,
        takes_back: bool,
        deliver: &mut dyn FnMut(Live),
    ) -> Result<Finished, CallError> {
        let mut prepared = Box::new(self.prepare(call)?);
        let shown = Rc::new(Cell::new(false));
        prepared.shown = Some(shown.clone()).filter(|_| !takes_back);
        prepared.live = true;
        self.apply_experiment(&mut prepared).await?;
        // A reply that violates the schema is requested again, so the text of structured calls is not user-facing until then.
        let output = &prepared.options.output;
        let is_structured = output.is_structured();
        let listens = !is_structured && output.validator.is_none();
        let sentinel = str_at(&prepared.options.raw, "done_sentinel").map(str::to_owned);
        let tools = prepared.offered.names.clone();
        let mut live = LiveText::of(&tools, sentinel.as_deref());
        // The text of an answer with a schema, as far as it cannot become reasoning or a tool call.
        let (mut answer, mut answer_tool) = (LiveText::of(&tools, None), AnswerTool::default());
        let mut calls = LiveCalls::default();
        let mut delivered = Delivered::default();
        let finished = self
            .run_rounds(call, prepared, &mut |event| match event {
                StreamEvent::Restart => {
                    live = LiveText::of(&tools, sentinel.as_deref());
                    let opened = std::mem::take(&mut calls).is_open();
                    (answer, answer_tool) = (LiveText::of(&tools, None), AnswerTool::default());
                    if is_structured {
                        deliver(Live::Void);
                    } else if !takes_back {
                        delivered.restart();
                    } else if shown.replace(false) || opened {
                        deliver(Live::Void);
                    }
                }
                StreamEvent::Text(text) if listens => {
                    if let Some(piece) = live.feed(text) {
                        shown.set(true);
                        let piece = if takes_back { Some(piece) } else { delivered.fresh(piece) };
                        piece.into_iter().for_each(|piece| deliver(Live::Text(piece)));
                    }
                }
                event if listens => calls.feed(event, deliver),
                StreamEvent::Text(text) if is_structured => {
                    answer.feed(text).into_iter().for_each(|text| deliver(Live::Answer(text)));
                }
                event if is_structured => {
                    let arguments = answer_tool.arguments(event);
                    arguments.into_iter().for_each(|text| deliver(Live::Answer(text.to_owned())));
                }
                _ => {}
            })
            .await?;
        if let Some(rest) = live.finish(&finished.response.tagged.visible) {
            let rest = if takes_back { Some(rest) } else { delivered.fresh(rest) };
            rest.into_iter().for_each(|rest| deliver(Live::Text(rest)));
        }
        self.validated(finished)
    }

    /// Applies the validation mode of the call to a reply with errors.
    pub(super) fn validated(&self, finished: Finished) -> Result<Finished, CallError> {
        let output = &finished.prepared.options.output;
        if finished.errors.is_empty() || output.validation == Validation::Off {
            return Ok(finished);
        }
        let message = failure_message(&finished.errors, finished.prepared.retries());
        if output.validation == Validation::Warn {
            self.embedder.warn(&message);
            return Ok(finished);
        }
        let route = &finished.prepared.request.route;
        if finished.response.stop_reason.as_deref() == Some(REFUSAL) {
            let mut error = LlmError::new(Category::Generic, finished.errors.join("; "));
            (error.kind, error.reason) = (crate::error::Kind::Terminal, REFUSAL);
            return Err(error.at(&route.provider, &route.model).into());
        }
        Err(LlmError::new(Category::SchemaValidation, message).at(&route.provider, &route.model).into())
    }

    /// Applies the structural experiment of the call or of the environment.
    pub(super) async fn apply_experiment(&self, prepared: &mut Prepared) -> Result<(), CallError> {
        let from_env = crate::config::env(self.embedder(), "HARN_STRUCTURAL_EXPERIMENT").map(Value::from);
        let option = prepared.options.structural_experiment.clone().or(from_env);
        let Some(mut experiment) = Experiment::parse(&option.unwrap_or(Value::Null))? else { return Ok(()) };
        let request = &mut prepared.request;
        let Some(transform) = experiment.transform.clone() else {
            let mut messages = request.messages.to_json();
            let metadata = experiment.apply(&mut messages, &mut request.system, self.embedder());
            request.messages = Conversation::from_json(&messages)?;
            prepared.experiment = experiment.to_json(&metadata);
            return Ok(());
        };
        let input = json!({
            "messages": request.messages.to_json(), "system": request.system, "label": experiment.label,
            "iteration": prepared.options.raw.get("_iteration").cloned().unwrap_or(0.into()),
            "name": experiment.name, "args": experiment.args,
        });
        let answer = self.embedder.experiment(&transform, input).await?;
        let mut metadata = json!({});
        match &answer {
            Value::Array(messages) => request.messages = Conversation::from_json(messages)?,
            Value::Object(dict) => {
                if let Some(Value::Array(messages)) = dict.get("messages") {
                    request.messages = Conversation::from_json(messages)?;
                }
                if let Some(system) = dict.get("system") {
                    request.system = Some(system).filter(|s| !s.is_null()).map(crate::json::display);
                }
                experiment.label = str_at(&answer, "label").unwrap_or(&experiment.label).to_string();
                experiment.name = str_at(&answer, "name").unwrap_or(&experiment.name).to_string();
                if let Some(details) = present(&answer, "metadata") {
                    metadata["details"] = details.clone();
                }
            }
            _ => {}
        }
        prepared.experiment = experiment.to_json(&metadata);
        Ok(())
    }

    /// Runs the validator of a call on its answer: the data, or the visible text of an unstructured call. Returns the
    /// objection, if any.
    pub(super) async fn rejection(
        &self,
        prepared: &Prepared,
        response: &Response,
    ) -> Result<Option<String>, CallError> {
        let output = &prepared.options.output;
        let Some(validator) = output.validator.as_ref().filter(|_| !response.calls_tools()) else {
            return Ok(None);
        };
        let text = || response.tagged.visible.as_str().into();
        let answer = response.data.clone().unwrap_or_else(text);
        self.embedder.validate_output(validator, &answer).await
    }

    async fn run_rounds(
        &self,
        call: &Call,
        mut prepared: Box<Prepared>,
        sink: &mut Sink<'_>,
    ) -> Result<Finished, CallError> {
        let mut rounds = Rounds::new(&prepared.options.output);
        let original = prepared.request.messages.len();
        loop {
            let mut response = self.ask(call, &prepared, sink).await?;
            response.read_tags(&prepared.offered);
            let mut verdict = rounds.judge(&mut response, self.embedder());
            if verdict == Verdict::Done
                && let Some(wrong) = self.rejection(&prepared, &response).await?
            {
                verdict = rounds.reject(wrong);
            }
            // Every round starts from the original messages, without the feedback of earlier rounds.
            prepared.request.messages.truncate(original);
            match verdict {
                Verdict::Done => {
                    return Ok(Finished { response, prepared, rounds, errors: Vec::new() });
                }
                Verdict::Failed { errors } => {
                    return Ok(Finished { response, prepared, rounds, errors });
                }
                Verdict::Again { message, errors } => {
                    self.embedder.trace(json!({
                        "type": "schema_retry", "attempt": rounds.used(), "errors": errors,
                        "nudge_used": message.is_some(), "correction_prompt": message.as_deref().unwrap_or(""),
                    }));
                    if let Some(text) = message {
                        prepared.request.messages.push(Rc::new(Message::text_of(Role::User, text)));
                    }
                }
            }
        }
    }

    /// Returns the result dict of a finished call, including its transcript.
    pub fn result_json(&self, finished: &Finished) -> Value {
        let mut out = finished.response.to_json();
        let ids = || self.embedder.new_id();
        out["transcript"] = of_call(
            CallRecord {
                base: finished.prepared.options.transcript.as_ref(),
                request: &finished.prepared.request,
                messages: finished.prepared.kept_messages(),
                response: &finished.response,
                experiment: finished.prepared.experiment.clone(),
            },
            &ids,
        );
        out
    }

    /// `llm_call`: returns the result dict.
    ///
    /// # Errors
    /// The options are invalid, or the call failed; [`CallError::to_thrown`] returns the value that programs catch.
    pub async fn llm_call(&self, call: &Call) -> Result<Value, CallError> {
        self.llm_call_streaming(call, &mut |_| {}).await
    }

    /// Makes a call of an agent loop. The transcript in the result dict contains only the model's message and the
    /// searches that the provider ran, as the loop has all other messages. `deliver` receives the user-facing text as
    /// it arrives.
    ///
    /// # Errors
    /// As for [`LlmRuntime::llm_call`].
    pub async fn llm_turn(
        &self,
        call: &Call,
        deliver: Option<&mut dyn FnMut(String)>,
    ) -> Result<Value, CallError> {
        let finished = match deliver {
            Some(deliver) => self.call_live(call, deliver).await?,
            None => self.call(call, &mut |_| {}).await?,
        };
        Ok(self.turn_json(&finished))
    }

    /// Like [`LlmRuntime::llm_turn`], for listeners that also receive tool calls. With `takes_back`, they can be
    /// notified that earlier text is void.
    ///
    /// # Errors
    /// As for [`LlmRuntime::llm_call`].
    pub async fn llm_turn_telling(
        &self,
        call: &Call,
        takes_back: bool,
        deliver: &mut dyn FnMut(Live),
    ) -> Result<Value, CallError> {
        let finished = self.call_telling(call, takes_back, deliver).await?;
        Ok(self.turn_json(&finished))
    }

    fn turn_json(&self, finished: &Finished) -> Value {
        let mut out = finished.response.to_json();
        let request = &finished.prepared.request;
        out["structural_experiment"] = finished.prepared.experiment.clone();
        out["empty_completion_retries"] = finished.prepared.empty.get().into();
        out["rounds"] = finished.rounds.spent_json(finished.prepared.lost.get());
        out["transcript"] = json!({
            "messages": [assistant_message(request.route.style, &finished.response)],
            "events": search_events(request, &finished.response, &|| self.embedder.new_id()),
        });
        out
    }

    /// Like `llm_call`, and passes the stream events to `sink`.
    ///
    /// # Errors
    /// As for [`LlmRuntime::llm_call`].
    pub async fn llm_call_streaming(
        &self,
        call: &Call,
        sink: &mut dyn FnMut(&StreamEvent),
    ) -> Result<Value, CallError> {
        let finished = self.call(call, sink).await?;
        Ok(self.result_json(&finished))
    }

    /// `llm_call_safe`: returns `{ok, response, error}`.
    pub async fn llm_call_safe(&self, call: &Call) -> Value {
        safe_json(self.llm_call(call).await)
    }

    /// `llm_call_structured`: returns the validated data.
    ///
    /// # Errors
    /// As for [`LlmRuntime::llm_call`], and when the reply does not match the schema.
    pub async fn llm_call_structured(
        &self,
        prompt: &Value,
        schema: Option<&Value>,
        options: &Value,
    ) -> Result<Value, CallError> {
        let call = structured_call("llm_call_structured", prompt, schema, options)?;
        let finished = self.call(&call, &mut |_| {}).await?;
        if let Some(message) = finished.unanswered() {
            let route = &finished.prepared.request.route;
            let error = LlmError::new(Category::SchemaValidation, message);
            return Err(error.at(&route.provider, &route.model).into());
        }
        Ok(finished.response.data.unwrap_or(Value::Null))
    }

    /// `llm_call_structured_safe`: returns `{ok, data, error}`.
    pub async fn llm_call_structured_safe(
        &self,
        prompt: &Value,
        schema: Option<&Value>,
        options: &Value,
    ) -> Value {
        match self.llm_call_structured(prompt, schema, options).await {
            Ok(data) => json!({"ok": true, "data": data, "error": null}),
            Err(error) => json!({"ok": false, "data": null, "error": error.to_safe_json()}),
        }
    }

    /// `llm_call_structured_result`: returns the diagnostic envelope.
    pub async fn llm_call_structured_result(
        &self,
        prompt: &Value,
        schema: Option<&Value>,
        options: &Value,
    ) -> Value {
        let mut options = options.clone();
        let given = options.as_object().map_or(Ok(()), |given| check_options(CallOptions::FIELDS, given));
        if let Err(error) = given {
            return failed_envelope(&CallError::Option(error.to_string()), "", "");
        }
        let repair = match options.as_object_mut().and_then(|o| o.shift_remove("repair")) {
            Some(Value::Bool(true)) => Some(Object::new()),
            Some(Value::Object(o)) if o.get("enabled") != Some(&Value::Bool(false)) => Some(o),
            _ => None,
        };
        // The options of the repair call are checked before the first call is paid for.
        let overrides = repair.as_ref().map_or(Ok(()), |given| check_options(CallOptions::FIELDS, given));
        if let Err(error) = overrides {
            return failed_envelope(&CallError::Option(format!("repair: {error}")), "", "");
        }
        let call = match structured_call("llm_call_structured_result", prompt, schema, &options) {
            Ok(call) => call,
            Err(error) => return failed_envelope(&error, "", ""),
        };
        let mut prepared = match self.prepare(&call) {
            Ok(prepared) => Box::new(prepared),
            Err(error) => return failed_envelope(&error, "", ""),
        };
        if let Err(error) = self.apply_experiment(&mut prepared).await {
            return failed_envelope(&error, "", "");
        }
        let (provider, model) =
            (prepared.request.route.provider.clone(), prepared.request.route.model.clone());
        let finished = match self.run_rounds(&call, prepared, &mut |_| {}).await {
            Ok(finished) => finished,
            Err(error) => return failed_envelope(&error, &provider, &model),
        };
        if let Some(message) = finished.unanswered() {
            let mut out = reply_envelope(&finished, "missing_json");
            out["error"] = message.into();
            out["tool_calls"] = finished.response.tool_calls_json().into();
            return out;
        }
        if finished.errors.is_empty() {
            return success_envelope(&finished, false);
        }
        match repair {
            Some(overrides) => self.repair(&finished, schema, &call, overrides).await,
            None => {
                let category =
                    if finished.rounds.missing_json { "missing_json" } else { "schema_validation" };
                reply_envelope(&finished, category)
            }
        }
    }

    /// Makes a second call with the invalid reply and its errors.
    async fn repair(&self, bad: &Finished, schema: Option<&Value>, call: &Call, overrides: Object) -> Value {
        let bindings = json!({"errors": bad.errors.join("; "), "text": bad.response.text_or_reasoning()});
        let prompt = self.embedder.prose("llm/repair", &bindings);
        let mut merged = call.options.as_object().cloned().unwrap_or_default();
        for key in ["system", "messages", "transcript", "repair"] {
            merged.shift_remove(key);
        }
        if call.format_is_derived {
            merged.shift_remove("output_format");
        }
        merged.insert("schema_retries".into(), 0.into());
        for (key, value) in overrides.into_iter().filter(|(key, _)| key != "enabled" && key != "repair") {
            match value.as_str() {
                Some(text) if key == "model" && crate::options::route_policy::is_policy_text(text) => {
                    merged.shift_remove("model");
                    merged.shift_remove("provider");
                    merged.insert("route_policy".into(), text.into());
                }
                _ => {
                    merged.insert(key, value);
                }
            }
        }
        let call =
            structured_call("llm_call_structured_result", &prompt.into(), schema, &Value::Object(merged));
        let repaired = match call.and_then(|call| self.prepare(&call).map(|p| (call, p))) {
            Ok((call, prepared)) => self.run_rounds(&call, Box::new(prepared), &mut |_| {}).await.ok(),
            Err(_) => None,
        };
        match repaired {
            Some(good) if good.errors.is_empty() && good.unanswered().is_none() => {
                success_envelope(&good, true)
            }
            _ => reply_envelope(bad, "repair_failed"),
        }
    }
}

/// Converts the result of a call to the dict of `llm_call_safe`.
pub fn safe_json(result: Result<Value, CallError>) -> Value {
    match result {
        Ok(response) => json!({"ok": true, "response": response, "error": null}),
        Err(error) => json!({"ok": false, "response": null, "error": error.to_safe_json()}),
    }
}

/// Adds the options that the structured variants imply.
fn structured_call(
    name: &str,
    prompt: &Value,
    schema: Option<&Value>,
    options: &Value,
) -> Result<Call, CallError> {
    let schema = match schema {
        None | Some(Value::Null) => {
            return Err(CallError::Option(format!(
                "{name}: missing required `schema` argument (expected (prompt, schema, options?))"
            )));
        }
        Some(schema @ Value::Object(_)) => match harn_schema::slip(schema, "schema") {
            None => schema,
            Some(slip) => return Err(CallError::Option(format!("{name}: {slip}"))),
        },
        Some(other) => {
            return Err(CallError::Option(format!(
                "{name}: `schema` must be a dict (JSON Schema), got {}",
                other.type_name()
            )));
        }
    };
    let mut o = options.as_object().cloned().unwrap_or_default();
    check_options(CallOptions::FIELDS, &o).map_err(|error| CallError::Option(error.to_string()))?;
    let retries = o.shift_remove("retries");
    let format_is_derived = !o.contains_key("output_format");
    if format_is_derived {
        o.insert("output_format".into(), json!({"kind": "json_schema", "schema": schema, "strict": true}));
    }
    let defaults = [
        ("output_schema", schema.clone()),
        ("json_schema", schema.clone()),
        ("response_format", "json".into()),
        ("output_validation", "error".into()),
        ("schema_retries", retries.filter(|n| !n.is_null()).unwrap_or(3.into())),
    ];
    for (key, value) in defaults {
        o.entry(key).or_insert(value);
    }
    let options = Value::Object(o);
    let system = present(&options, "system").map(crate::json::display);
    Ok(Call {
        prompt: prompt.clone(),
        system,
        options: Rc::new(options),
        format_is_derived,
        ..Call::default()
    })
}

fn success_envelope(finished: &Finished, repaired: bool) -> Value {
    let r = &finished.response;
    json!({
        "ok": true, "data": r.data, "raw_text": r.text, "error": "", "error_category": null,
        "attempts": finished.rounds.used(), "repaired": repaired || r.repaired, "extracted_json": finished.rounds.extracted,
        "usage": r.usage_json(), "model": r.model, "provider": r.provider,
    })
}

fn reply_envelope(finished: &Finished, category: &str) -> Value {
    let r = &finished.response;
    json!({
        "ok": false, "data": null, "raw_text": r.text, "error": finished.errors.join("; "),
        "error_category": category, "attempts": finished.rounds.used(), "repaired": false,
        "extracted_json": finished.rounds.extracted, "usage": r.usage_json(), "model": r.model, "provider": r.provider,
    })
}

fn failed_envelope(error: &CallError, provider: &str, model: &str) -> Value {
    let zero = Response::new(provider, model);
    json!({
        "ok": false, "data": null, "raw_text": "", "error": error.message(),
        "error_category": error.category().as_str(), "attempts": 0, "repaired": false, "extracted_json": false,
        "usage": zero.usage_json(), "model": model, "provider": provider,
    })
}

/// Returns the category of an error dict or message, like `error_category`.
pub fn category_of(error: &Value) -> Category {
    match error {
        Value::String(message) => crate::error::classify_message(message),
        dict => str_at(dict, "category")
            .and_then(Category::from_word)
            .unwrap_or_else(|| crate::error::classify_message(str_at(dict, "message").unwrap_or_default())),
    }
}
