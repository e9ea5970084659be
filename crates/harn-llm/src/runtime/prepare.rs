//! Converts arguments to a [`Request`]: capability checks, tools, output channel, system prompt. `route.rs` resolves
//! the route.

use std::rc::Rc;
use std::time::Duration;

use harn_value::{Data as Value, json};

use super::{Call, LlmRuntime, Prepared};
use crate::config::{Choice, Dialect, env};
use crate::conversation::Conversation;
use crate::embedder::Fragment;
use crate::error::{CallError, OptionError};
use crate::json::{Object, str_at};
use crate::message::{Message, Role};
use crate::notices::{check_overrides, notices};
use crate::options::{
    CallOptions, OptionField, OutputKind, TOOL_FORMAT, Thinking, ToolFormat, request_messages,
};
use crate::request::{MAX_RESPONSE_BYTES, OllamaSettings, OutputChannel, OutputPlan, Request, Route};
use crate::response::Offered;
use crate::structured::provider_schema::{strict_form, with_object_root};
use crate::tool_vault::{SearchPlan, Situation, plan};
use crate::tools::{NativeTools, ToolChoice, ToolSet, ToolShape, parse_tools};
use crate::wire::anthropic::{JSON_TOOL, answers_in_format};
use crate::wire::{WireStyle, most_output};

impl LlmRuntime {
    /// Prepares a call.
    ///
    /// # Errors
    /// The options are invalid, the route lacks a feature, or the key is missing.
    pub fn prepare(&self, call: &Call) -> Result<Prepared, CallError> {
        self.prepare_options(call, options_of(call)?)
    }

    /// Prepares a call for a fallback route.
    pub(super) fn prepare_for(
        &self,
        call: &Call,
        failed: &Route,
        provider: &str,
        model: &str,
    ) -> Result<Prepared, CallError> {
        let mut options = options_of(call)?;
        options.provider = Some(provider.to_string());
        // Prevents an id that starts with another provider's name from being split.
        let is_prefixed = self.config().split_prefix(model).is_some();
        options.model = Some(if is_prefixed { format!("{provider}:{model}") } else { model.to_string() });
        options.stream = Some(false);
        // The given URL and key belong to the provider that failed.
        options.base_url = options.base_url.filter(|_| provider == failed.provider);
        options.api_key = options.api_key.filter(|_| provider == failed.provider);
        options.route_policy = None;
        self.prepare_options(call, options)
    }

    /// Resolves the route of a call without checking its options against it, for templates that depend on the model:
    /// `{provider, model, family, capabilities}`.
    ///
    /// # Errors
    /// The options are invalid, or no model can be chosen.
    pub fn render_context(&self, options: &Value) -> Result<Value, CallError> {
        let options = CallOptions::from_json(options)?;
        let (choice, _) = self.choose(&options)?;
        let caps = self.capabilities_json(&choice.provider, &choice.model);
        let family = self.config().family(&choice.provider, &choice.model);
        Ok(
            json!({"provider": choice.provider, "model": choice.model, "family": family, "capabilities": caps}),
        )
    }

    /// Returns the maximum number of reply tokens that a call with these options requests at a route, as used by
    /// budgets; `None` when the provider decides. Nothing is sent, and no key is needed.
    ///
    /// # Errors
    /// The route does not exist.
    pub fn most_output(&self, choice: &Choice, options: &CallOptions) -> Result<Option<i64>, CallError> {
        // Tools do not affect the limit.
        let mut options = options.clone();
        (options.tools, options.tool_search) = (ToolSet::default(), None);
        let caps = self.capabilities().lookup(&choice.provider, &choice.model);
        let mut route = self.route(choice, caps, &options, true)?;
        let (search, messages) = (self.plan_tools(&route, &options)?, Conversation::new());
        let ollama = self.ollama_settings(&options);
        self.choose_endpoint(&mut route, &options, &search, false, &messages, &ollama);
        let output = OutputPlan::none();
        let request = self.build(route, &options, &search, false, output, None, false, messages, ollama);
        Ok(most_output(&request))
    }

    fn prepare_options(&self, call: &Call, options: CallOptions) -> Result<Prepared, CallError> {
        if let Some(given) = options.raw.as_object() {
            check_overrides(given, |key| self.config().provider(key).is_some())
                .map_err(|e| OptionError::new(e.to_string()))?;
        }
        self.config().check_fallbacks(&options.fallback_chain)?;
        let (choice, routing) = self.choose(&options)?;
        let scripted = self.mock_is_active();
        // A rehearsal builds requests as for their real models, whatever answers them.
        let mocked =
            self.config().dialect(&choice.provider) == Dialect::Mock || (scripted && !self.rehearsing.get());
        let caps = self.media_capabilities(&choice.provider, &choice.model);
        // Invalid images are option errors, even if the call is answered by a mock, which ignores images.
        let mut messages = match &call.messages {
            Some(messages) => messages.clone(),
            None => Conversation::from_json(&request_messages(&options, &call.prompt)?)?,
        };
        if let Some(reason) = self.mock.borrow_mut().refused() {
            return Err(CallError::Option(reason));
        }
        let mut route = self.route(&choice, caps, &options, mocked)?;
        // Rejects an invalid experiment before anything is sent, like every other option.
        crate::experiment::Experiment::parse(options.structural_experiment.as_ref().unwrap_or(&Value::Null))?;
        let search = self.plan_tools(&route, &options)?;
        let native = self.tools_are_native(&route, &options, &search, mocked);
        if !scripted {
            let gates = self.check_gates(&route, &options, &messages, native);
            gates.map_err(|closed| self.record_refusal(closed))?;
            if !route.caps.vision_supported && messages.has_image() {
                let (model, provider) = (&route.model, &route.provider);
                // prose-ok: diagnostic
                self.warn_once(&format!("images of earlier messages are left out: `{model}` (provider `{provider}`) does not accept them"));
            }
        }
        // The notice about a retired model does not apply to scripted replies.
        choice
            .retired
            .iter()
            .filter(|_| !mocked && !self.rehearsing.get())
            .for_each(|notice| self.warn_once(notice));
        search.warning.iter().for_each(|warning| self.warn_once(warning));
        self.notice_slips(&options.raw, &[], false);
        let ollama = self.ollama_settings(&options);
        self.choose_endpoint(&mut route, &options, &search, native, &messages, &ollama);
        self.notice_idle_options(&options, &route);
        let tools = match (options.tools.is_empty(), native) {
            (true, _) => Calls::None,
            (false, true) => Calls::Native,
            (false, false) => Calls::Text,
        };
        let Answer { output, instruction, tool } = self.plan_output(&route, &options, tools, mocked);
        let names = search.search_tool.iter().chain(&search.visible).map(|t| t.name.clone());
        let offered = Offered { names: names.collect(), as_text: !native && !options.tools.is_empty() };
        let mut fragments = self.own_fragments(call, &options, &search, offered.as_text);
        let is_instructed = instruction.is_some();
        if let Some(body) = instruction {
            fragments.push(Fragment {
                id: "call:output_instruction".into(),
                source: "call",
                after: true,
                body,
            });
        }
        let mut unreminded = None;
        let last_user = messages.last_user().unwrap_or(messages.len());
        let last = || messages.to_json_from(last_user);
        if let Some(reminded) = self.embedder.remind(&options.raw, &last, &route) {
            fragments.extend(reminded.fragments);
            let own = messages.clone();
            messages.truncate(last_user);
            for message in reminded.messages {
                messages.push_json(message)?;
            }
            unreminded = Some((own, messages.len()));
        }
        let hoists = !route.style.has_system_role() && route.dialect != Dialect::Mock;
        if hoists && messages.has_instructions() {
            let system = |m: &Message| matches!(m.role, Role::System | Role::Developer);
            for (index, m) in messages.iter().enumerate().filter(|(_, m)| system(m)) {
                fragments.push(Fragment {
                    id: format!("message:{index}"),
                    source: "message",
                    after: true,
                    body: m.text("\n\n"),
                });
            }
        }
        let system = self.embedder.assemble_system(&options.raw, &fragments).map_err(CallError::Option)?;
        let mut request =
            self.build(route, &options, &search, native, output, system.text, hoists, messages, ollama);
        self.widen_ollama(&mut request);
        if !scripted {
            self.adjust_options(&mut request)?;
        }
        let answer = match (&tool, request.output.channel) {
            (Some(_), _) => Some("tool"),
            (None, OutputChannel::Tool) if !answers_in_format(&request) => Some("tool"),
            (None, OutputChannel::None) => is_instructed.then_some("prompt"),
            (None, _) => Some("format"),
        };
        if let Some(own) = tool {
            let tools = request.tools.iter().chain(own.iter()).cloned().collect();
            request.tools = NativeTools::new(tools);
        }
        let idle = options.idle_timeout.or_else(|| self.env_time("HARN_LLM_IDLE_TIMEOUT"));
        Ok(Prepared {
            request,
            offered,
            search,
            experiment: Value::Null,
            routing,
            idle_timeout: idle.unwrap_or(Duration::from_secs(30)),
            matched: None,
            answer,
            unreminded,
            observer: call.observer.clone(),
            shown: None,
            live: false,
            lost: Rc::default(),
            empty: Rc::default(),
            provenance: system.provenance,
            options,
        })
    }

    /// Warns about unknown options, as [`notices`] reports them. With `strangers`, options that resemble no known one
    /// are reported too, unless the call has its own `llm_caller`, which may use them.
    pub fn notice_slips(&self, options: &Value, more: &[OptionField], strangers: bool) {
        let Some(options) = options.as_object() else { return };
        let is_provider = |key: &str| self.config().provider(key).is_some();
        let strangers = strangers && !options.contains_key("llm_caller");
        let found = notices(options, more, strangers, is_provider);
        found.iter().for_each(|notice| self.warn_once(&notice.text));
    }

    /// Warns about valid options that have no effect in this call. They are not errors, because programs pass the same
    /// option dict to calls of several kinds.
    fn notice_idle_options(&self, options: &CallOptions, route: &Route) {
        let mut idle = Vec::new();
        for (name, whose, way_out) in [
            ("retries", "`llm_call_structured` and its variants", "; use `schema_retries`"),
            ("repair", "`llm_call_structured_result`", ""),
        ] {
            if options.raw.get(name).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false))) {
                idle.push(format!("option `{name}` has no effect here: it belongs to {whose}{way_out}"));
            }
        }
        if options.tool_choice == Some(ToolChoice::Required) && options.tools.is_empty() {
            idle.push("option `tool_choice` has no effect: the call has no tools".to_owned());
        }
        let (is_mock, provider) = (route.dialect == Dialect::Mock, &route.provider);
        if options.api_mode == "responses" && route.style != WireStyle::OpenAiResponses && !is_mock {
            idle.push(format!("\"api_mode\" is not supported by provider \"{provider}\", ignoring"));
        }
        idle.iter().for_each(|text| self.warn_once(text));
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one call site; the parts were each settled by a step of their own"
    )]
    fn build(
        &self,
        route: Route,
        o: &CallOptions,
        search: &SearchPlan,
        native: bool,
        output: OutputPlan,
        system: Option<String>,
        hoists: bool,
        messages: Conversation,
        ollama: OllamaSettings,
    ) -> Request {
        let catalogued = self.config().model(&route.model).and_then(|m| m.stream_timeout);
        let timeout = o
            .timeout
            .or_else(|| self.env_time("HARN_LLM_TIMEOUT"))
            .or_else(|| catalogued.and_then(|n| u64::try_from(n).ok()).map(Duration::from_secs))
            .unwrap_or(Duration::from_secs(120));
        Request {
            overrides: o.overrides(&route.provider).cloned().unwrap_or_else(Object::new),
            system,
            system_hoisted: hoists,
            messages,
            tools: if native { search.tools.clone() } else { NativeTools::default() },
            tool_choice: o.tool_choice.clone().filter(|_| native),
            max_tokens: o.max_tokens.unwrap_or_else(|| self.default_max_tokens(&route)),
            sampling: o.sampling.clone().or(self.config().model_defaults(&route.model)),
            thinking: o.thinking,
            interleaved_thinking: o.interleaved_thinking,
            beta_features: o.beta_features.clone(),
            cache: o.cache,
            prefill: o.prefill.clone(),
            output,
            stream: o.stream.unwrap_or_else(|| self.streams()),
            timeout,
            idle_timeout: None,
            max_response_bytes: o.max_response_bytes.unwrap_or(MAX_RESPONSE_BYTES),
            ollama,
            route,
        }
    }

    fn plan_tools(&self, route: &Route, options: &CallOptions) -> Result<SearchPlan, CallError> {
        let shape = if route.dialect == Dialect::Mock { ToolShape::OpenAi } else { route.style.tool_shape() };
        let forced = options
            .overrides(&route.provider)
            .is_some_and(|o| o.get("force_native_tool_search") == Some(&Value::Bool(true)));
        let description = match &options.tool_search {
            Some(search) => {
                let bindings = json!({"strategy": search.strategy.as_str(), "name": search.name});
                self.embedder.prose("llm/tool_search_description", &bindings)
            }
            None => String::new(),
        };
        let situation = Situation {
            provider: &route.provider,
            dialect: route.dialect,
            model: &route.model,
            model_is_default: route.model_is_default,
            caps: &route.caps,
            shape,
            forced,
            text_calls: self.tool_format(options) == ToolFormat::Text,
            description: &description,
        };
        Ok(plan(&options.tools, options.tool_search.as_ref(), situation)?)
    }

    /// Returns the tool format that the options, or else the environment, select.
    fn tool_format(&self, options: &CallOptions) -> ToolFormat {
        match options.tool_format {
            ToolFormat::Auto => env(self.embedder(), TOOL_FORMAT)
                .and_then(|word| ToolFormat::of_environment(&word).ok())
                .unwrap_or(ToolFormat::Auto),
            given => given,
        }
    }

    fn tools_are_native(&self, route: &Route, o: &CallOptions, search: &SearchPlan, mocked: bool) -> bool {
        match self.tool_format(o) {
            ToolFormat::Native => true,
            ToolFormat::Text => false,
            ToolFormat::Auto => route.caps.native_tools || mocked || search.native,
        }
    }

    /// Rejects options that the route does not support.
    fn check_gates(
        &self,
        route: &Route,
        o: &CallOptions,
        messages: &Conversation,
        native: bool,
    ) -> Result<(), OptionError> {
        if o.tool_format == ToolFormat::Auto
            && let Some(word) = env(self.embedder(), TOOL_FORMAT)
        {
            ToolFormat::of_environment(&word)?;
        }
        let caps = &route.caps;
        let thinks = match o.thinking {
            Thinking::Disabled => true,
            // Each thinking mode can be converted to the others: see `adjust_options`.
            _ => !caps.thinking_modes.is_empty(),
        };
        let vision = o.vision == Some(true) || shows_image(messages);
        let no_channel =
            o.output.explicit && caps.structured_output.is_none() && route.dialect != Dialect::Mock;
        let gates = [
            ("reasoning_effort", o.reasoning_effort_given && !thinks && !caps.reasoning_effort_supported),
            ("thinking", !o.reasoning_effort_given && !thinks),
            ("interleaved_thinking", o.interleaved_thinking && !caps.interleaved_thinking_supported),
            ("output_format", no_channel),
            ("vision", vision && !caps.vision_supported),
            ("audio", o.audio && !caps.audio),
            ("pdf", o.pdf && !caps.pdf),
            ("cache", o.cache && !caps.prompt_caching && self.refuses_cache(route)),
            ("tool_choice", o.tool_choice.is_some() && !native && !caps.native_tools),
        ];
        match gates.iter().find(|(_, closed)| *closed) {
            None => Ok(()),
            Some((name, _)) => {
                let (model, provider) = (&route.model, &route.provider);
                let lines = match *name {
                    "reasoning_effort" => "thinking_modes = [\"effort\"]\nreasoning_effort_supported = true",
                    "thinking" => "thinking_modes = [\"enabled\"]",
                    "interleaved_thinking" => "interleaved_thinking_supported = true",
                    "output_format" => "structured_output = \"native\"",
                    "vision" => "vision_supported = true",
                    "audio" => "audio = true",
                    "pdf" => "pdf = true",
                    "cache" => "prompt_caching = true",
                    _ => "native_tools = true",
                };
                Err(OptionError::new(format!(
                    // prose-ok: diagnostic
                    "option `{name}` is not supported by `{model}` (provider `{provider}`). If the model supports it, add to harn.toml:\n\
                     [[capabilities.provider.{provider}]]\nmodel_match = \"{model}\"\n{lines}"
                )))
            }
        }
    }

    /// Decides how the route is asked for JSON: by its reply format, if the provider accepts that together with the
    /// call's tools; else by an answer tool; else by an instruction.
    fn plan_output(&self, route: &Route, options: &CallOptions, calls: Calls, mocked: bool) -> Answer {
        let format = &options.output;
        if format.kind == OutputKind::Text {
            return Answer { output: OutputPlan::none(), instruction: None, tool: None };
        }
        let mut schema = format.schema.as_ref().map(harn_schema::as_json_schema);
        let channel = match (route.style, route.caps.structured_output.as_deref()) {
            // A reply that must be JSON cannot call a tool in tags.
            _ if calls == Calls::Text && !mocked => OutputChannel::None,
            (WireStyle::OllamaChat, _) => OutputChannel::Format,
            (style, Some(_)) if style.has_reply_tool() => OutputChannel::Tool,
            (_, Some("native" | "tool_use" | "json_object")) => OutputChannel::Native,
            (_, Some("format_kw")) => OutputChannel::Format,
            _ => OutputChannel::None,
        };
        let channel = match calls {
            Calls::Native if !mocked && !takes_format_with_tools(route) => match options.tool_choice {
                Some(ToolChoice::None) => OutputChannel::None,
                _ => OutputChannel::Tool,
            },
            _ => channel,
        };
        // These channels accept only objects at the root.
        if matches!(channel, OutputChannel::Native | OutputChannel::Tool) && route.style != WireStyle::Gemini
        {
            schema = schema.as_ref().map(with_object_root);
        }
        // The API does not accept a schema, or the call has none: JSON mode is used, and the prompt describes the
        // shape. Servers reject JSON mode when the messages do not mention JSON.
        let by_schema = route.caps.structured_output.as_deref() != Some("json_object") && schema.is_some();
        let json_mode =
            channel == OutputChannel::Native && route.style == WireStyle::OpenAiChat && !by_schema;
        let form = schema.as_ref().filter(|_| format.strict && !json_mode).and_then(strict_form);
        let strict = !json_mode && (format.caller_strict || form.is_some());
        if channel == OutputChannel::Native && route.style != WireStyle::Gemini {
            schema = form.or(schema);
        }
        // Serialized to a string so that the keys are in the order of the program.
        let schema_text = schema.as_ref().and_then(|schema| serde_json::to_string_pretty(schema).ok());
        let bindings = json!({"schema": schema, "schema_text": schema_text});
        let instruction = ((channel == OutputChannel::None || json_mode) && !mocked)
            .then(|| self.embedder.prose("agent/prompts/output_instruction", &bindings));
        let tool_description = if channel == OutputChannel::Tool {
            self.embedder.prose("llm/json_response_tool", &bindings)
        } else {
            String::new()
        };
        // These formats define the tool themselves.
        if channel == OutputChannel::Tool && !route.style.has_reply_tool() {
            let parameters =
                schema.unwrap_or_else(|| json!({"type": "object", "additionalProperties": true}));
            let tool =
                json!([{"name": JSON_TOOL, "description": tool_description, "parameters": parameters}]);
            let tool = parse_tools(&tool).map(|own| ToolSet::new(own).native(route.style.tool_shape())).ok();
            return Answer { output: OutputPlan::none(), instruction, tool };
        }
        if json_mode && !mocked {
            schema = None;
        }
        let forces_tool = self.entry_of(route).and_then(|entry| entry.can("forced_tools")) != Some(false);
        let output = OutputPlan { channel, schema, strict, tool_description, forces_tool };
        Answer { output, instruction, tool: None }
    }

    /// Returns the fragments that a call itself contributes, in reduction order.
    fn own_fragments(
        &self,
        call: &Call,
        o: &CallOptions,
        search: &SearchPlan,
        text_tools: bool,
    ) -> Vec<Fragment> {
        let mut out = Vec::new();
        let before = |id: &str, source, body: String| Fragment { id: id.into(), source, after: false, body };
        let summary =
            o.transcript.as_ref().and_then(|t| str_at(t, "summary")).filter(|s| !s.trim().is_empty());
        if let (Some(summary), Some(transcript)) = (summary, &o.transcript) {
            let texts = crate::mock::match_text(crate::json::list_at(transcript, "messages"));
            if !texts.contains(summary) {
                out.push(before(
                    "transcript:summary",
                    "transcript",
                    format!("Conversation summary:\n{summary}"),
                ));
            }
        }
        let own_block = o.raw.get("_system_fragments").is_some_and(Value::is_array);
        if !own_block {
            let system = call.system.as_deref().filter(|s| !s.trim().is_empty()).or(o.system.as_deref());
            if let Some(system) = system {
                out.push(before("primary", "primary", system.to_string()));
            }
            if text_tools {
                let mut bindings =
                    crate::tool_text::declarations(search.search_tool.iter().chain(&search.visible));
                bindings["mode"] = "text".into();
                bindings["tool_examples"] = o.raw.get("tool_examples").cloned().unwrap_or(Value::Null);
                bindings["require_action"] = (o.tool_choice == Some(ToolChoice::Required)).into();
                let mut body = self.embedder.prose("agent/prompts/tool_contract_text", &bindings);
                if let Some(bindings) = stub_bindings(o, search) {
                    body.push_str("\n\n");
                    body.push_str(
                        &self.embedder.prose("agent/prompts/tool_contract_deferred_tools", &bindings),
                    );
                }
                out.push(before("primary:text_tool_contract", "primary", body));
            }
        }
        if let Some(body) = &call.instruction {
            let id = "call:completion_instruction".into();
            out.push(Fragment { id, source: "call", after: true, body: body.clone() });
        }
        out
    }
}

/// How a call's tools are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// The call has no tools.
    None,
    /// With the provider's native tool calls.
    Native,
    /// In tags within visible text.
    Text,
}

/// How the model is asked for a JSON answer.
struct Answer {
    output: OutputPlan,
    /// The instruction at the end of the system prompt.
    instruction: Option<String>,
    /// The tool that receives the answer.
    tool: Option<NativeTools>,
}

/// Returns whether a route accepts a reply format together with tools. Others reject the combination (Groq, Gemini), or
/// constrain the reply so that it cannot call tools (Ollama). Sources: vercel/ai#10023, google-gemini/cookbook#393,
/// ollama/ollama#8095.
fn takes_format_with_tools(route: &Route) -> bool {
    matches!(route.dialect, Dialect::Openai | Dialect::Azure) || route.style == WireStyle::Anthropic
}

/// Returns the options of a call, including the tools and format settings that the call itself contains.
fn options_of(call: &Call) -> Result<CallOptions, OptionError> {
    let mut options = CallOptions::from_shared(&call.options)?;
    if let Some(tools) = &call.tools {
        options.tools = tools.clone();
    }
    if call.format_is_derived {
        options.output.explicit = false;
        options.output.caller_strict = false;
    }
    Ok(options)
}

/// Returns names and first sentences of deferred tools, if the option requests the listing.
fn stub_bindings(o: &CallOptions, search: &SearchPlan) -> Option<Value> {
    let option = o.tool_search.as_ref().filter(|s| s.include_stub_listing)?;
    search.search_tool.as_ref()?;
    let stub = |t: &crate::tools::ToolDef| json!({"name": t.name, "description": crate::tool_text::first_sentence(&t.description)});
    let stubs: Vec<Value> = search.deferred.iter().map(stub).collect();
    Some(json!({"search_tool": option.name, "tools": stubs}))
}
/// Returns whether the user's newest message contains an image. For a model without image support, images of earlier
/// messages and of tool results are left out, so that a conversation can continue on it.
fn shows_image(messages: &Conversation) -> bool {
    let Some(at) = messages.last_user() else { return messages.has_image() };
    let is_result = |at: usize| messages.get(at).is_some_and(|before| before.holds_result());
    messages.get(at).is_some_and(|message| message.shows_image()) && !(at > 0 && is_result(at - 1))
}
