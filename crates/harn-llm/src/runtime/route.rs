//! Resolves the route of a call: provider and model, URL and key, and the provider's endpoint.

use std::time::Duration;

use harn_value::Data as Value;

use super::LlmRuntime;
use crate::capabilities::Capabilities;
use crate::config::{Dialect, env};
use crate::conversation::Conversation;
use crate::error::{CallError, OptionError};
use crate::options::CallOptions;
use crate::request::{OllamaSettings, Request, Route};
use crate::secret::Secret;
use crate::tool_vault::SearchPlan;
use crate::wire::WireStyle;

/// The prompt size up to which Ollama's compatible endpoint does not truncate. It truncates at the server's default
/// context size.
const OLLAMA_COMPATIBLE_TOKENS: i64 = 2000;

impl LlmRuntime {
    /// Selects provider and model. The second value is the decision of a `route_policy`, else null.
    pub(super) fn choose(&self, options: &CallOptions) -> Result<(crate::config::Choice, Value), CallError> {
        let config = self.config();
        let (choice, decision) = match crate::config::routing_decision(&config, options, self.embedder())? {
            Some(decided) => decided,
            None => match config.choose(options, self.embedder()) {
                Ok(choice) => (choice, Value::Null),
                // A scripted reply needs no model, but an invalid tier is still an error.
                Err(_)
                    if self.mock_is_active()
                        && options.provider.is_some()
                        && options.model.is_none()
                        && config.tier_is_known(options) =>
                {
                    let choice = crate::config::Choice {
                        provider: options.provider.clone().unwrap_or_default(),
                        model: crate::mock::PROVIDER.into(),
                        model_is_default: true,
                        warnings: Vec::new(),
                        retired: None,
                    };
                    (choice, Value::Null)
                }
                Err(e) => return Err(e.into()),
            },
        };
        for warning in &choice.warnings {
            self.warn_once(warning);
        }
        Ok((choice, decision))
    }

    /// Resolves URL, key and wire format of a route.
    pub(super) fn route(
        &self,
        choice: &crate::config::Choice,
        caps: Capabilities,
        options: &CallOptions,
        mocked: bool,
    ) -> Result<Route, CallError> {
        let config = self.config();
        let provider = choice.provider.as_str();
        let table = match config.provider(provider) {
            Some(table) => table.clone(),
            None if mocked || config.knows(provider) => crate::config::Provider::default(),
            None => {
                return Err(CallError::Option(format!("llm_call: {}", config.unknown_provider(provider))));
            }
        };
        let base = options
            .base_url
            .as_deref()
            .map(crate::config::clean_url)
            .unwrap_or_else(|| table.base_url(self.embedder()));
        let egress = self.egress(provider, options.base_url.is_some()).map_err(CallError::Option)?;
        let endpoint = table.chat_endpoint().to_string();
        let mut route = Route {
            provider: provider.to_string(),
            model: choice.model.clone(),
            model_is_default: choice.model_is_default,
            caps,
            style: table.wire(),
            dialect: table.dialect(),
            base_url: base.trim_end_matches('/').to_string(),
            egress,
            region: table.region.clone(),
            endpoint,
            completion_endpoint: table.completion_endpoint.clone(),
            auth: None,
            key: None,
            extra_headers: table
                .extra_headers
                .into_iter()
                .flatten()
                .map(|(name, value)| (name, Secret::new(value)))
                .collect(),
        };
        drop(config);
        if !mocked && (self.transport_is_replaying() || !self.calls_disabled()) {
            match self.authorise(&mut route, options.api_key.as_ref()) {
                Ok(()) => {}
                // A replay needs no key. If there is one, it is redacted in the same way as in the recording.
                Err(_) if self.transport_is_replaying() => {}
                // With fallback routes, the attempt fails instead of the call.
                Err(_) if options.api_key.is_none() && !self.fallbacks(options, &route).is_empty() => {}
                Err(missing) => return Err(self.record_refusal(missing).into()),
            }
        }
        self.adapt_cloud_route(&mut route, options.api_key.is_some());
        Ok(route)
    }

    /// Returns the routes to try after a failure: those of the chain, then the provider's own fallback.
    pub(super) fn fallbacks(&self, options: &CallOptions, failed: &Route) -> Vec<(String, String)> {
        let config = self.config();
        let own = config.provider(&failed.provider).and_then(|table| table.fallback.clone());
        let mut out = Vec::new();
        for entry in options.fallback_chain.iter().chain(&own) {
            let Some(route) = config.fallback_route(entry, &failed.model) else {
                // Entries in the call's options have already been checked, so this one is in a configuration file.
                let (name, wrong) = (&failed.provider, config.unknown_provider(entry));
                self.warn_once(&format!("[llm_config] providers.{name}.fallback: {wrong}"));
                continue;
            };
            let (provider, model) = &route;
            let is_open = || !self.calls_disabled() && config.is_available(provider, self.embedder());
            let needs_no_key = self.is_scripted(provider) || self.transport_is_replaying();
            if (provider, model) != (&failed.provider, &failed.model) && (needs_no_key || is_open()) {
                out.push(route);
            }
        }
        out
    }

    /// Sets the key of a route, where `given` takes precedence over the environment, and the header that contains it.
    ///
    /// # Errors
    /// The key is missing, or the URL cannot be completed.
    pub(super) fn authorise(&self, route: &mut Route, given: Option<&Secret>) -> Result<(), OptionError> {
        self.check_cloud_route(route)?;
        let config = self.config();
        if given.is_some() && route.dialect == Dialect::Bedrock {
            let signs = "api_key: provider `bedrock` has no keys, it signs with the credentials of AWS"; // prose-ok: diagnostic
            return Err(OptionError::new(signs));
        }
        let of_environment =
            || config.key(&route.provider, self.embedder()).map(|key| key.map(|key| key.secret));
        let Some(key) = given.cloned().map_or_else(of_environment, |given| Ok(Some(given)))? else {
            return Ok(());
        };
        let table = config.provider(&route.provider);
        let header = table.filter(|t| t.auth_style() == "header");
        route.auth = Some(match header {
            Some(table) => {
                let name = table.auth_header.as_deref().unwrap_or("x-api-key");
                (name.to_lowercase(), key.clone())
            }
            None => ("authorization".to_string(), Secret::new(format!("Bearer {}", key.reveal()))),
        });
        route.key = Some(key);
        Ok(())
    }

    /// Returns an error message if `HARN_LLM_CALLS_DISABLED` prohibits the request.
    pub(super) fn refused_network(&self, provider: &str) -> Option<String> {
        (self.calls_disabled() && !self.transport_is_replaying()).then(|| {
            format!(
                "LLM calls are disabled by HARN_LLM_CALLS_DISABLED; provider `{provider}` would make a real LLM request"
            )
        })
    }

    pub(super) fn transport_is_replaying(&self) -> bool {
        self.replaying.borrow().is_some()
    }

    pub(super) fn ollama_settings(&self, options: &CallOptions) -> OllamaSettings {
        let overrides = options.overrides("ollama");
        let get = |key: &str| overrides.and_then(|o| o.get(key));
        let inner = |key: &str| get("options").and_then(|o| o.get(key));
        let from_env = |names: &[&str]| names.iter().find_map(|n| env(self.embedder(), n));
        let positive = |v: &Value| {
            v.as_i64().or_else(|| v.as_str().and_then(|s| s.trim().parse().ok())).filter(|n: &i64| *n > 0)
        };
        let ctx_env = self.env_int(&["HARN_OLLAMA_NUM_CTX", "OLLAMA_CONTEXT_LENGTH", "OLLAMA_NUM_CTX"], 1);
        let alive_env = from_env(&["HARN_OLLAMA_KEEP_ALIVE", "OLLAMA_KEEP_ALIVE"]);
        let grace = self.env_int(&["HARN_OLLAMA_UNLOAD_GRACE_MS", "OLLAMA_UNLOAD_GRACE_MS"], 0);
        let num_ctx = get("num_ctx").or_else(|| inner("num_ctx")).and_then(positive).or(ctx_env);
        let grace = grace.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(10_000);
        OllamaSettings {
            num_ctx: num_ctx.unwrap_or(32768),
            keep_alive: crate::wire::ollama::keep_alive(
                get("keep_alive").cloned().or_else(|| alive_env.clone().map(Value::from)),
            ),
            customised: ["num_ctx", "keep_alive", "options"].iter().any(|k| get(k).is_some())
                || ctx_env.is_some()
                || alive_env.is_some(),
            unload_grace: (grace > 0).then(|| Duration::from_millis(grace)),
        }
    }

    /// Switches to the endpoint that the call needs, if a provider has several.
    pub(super) fn choose_endpoint(
        &self,
        route: &mut Route,
        options: &CallOptions,
        search: &SearchPlan,
        native: bool,
        messages: &Conversation,
        ollama: &OllamaSettings,
    ) {
        if route.dialect == Dialect::Openai
            && route.style == WireStyle::OpenAiChat
            && (options.api_mode == "responses"
                || search.native
                || self.wants_responses(route, native && !search.tools.is_empty(), options.thinking.is_on()))
        {
            route.style = WireStyle::OpenAiResponses;
            route.endpoint = "/responses".to_string();
        }
        if route.dialect != Dialect::Ollama {
            return;
        }
        let has_native_tools = native && !search.tools.is_empty();
        let raw_hint = route.caps.recommended_endpoint.as_deref() == Some("/api/generate-raw");
        // A prompt that is rendered here cannot switch thinking on or off; the server's chat endpoint can.
        let switches_thinking =
            options.thinking.is_on() || crate::json::present(&options.raw, "thinking").is_some();
        if raw_hint
            && !switches_thinking
            && !route.caps.text_tool_wire_format_supported
            && !has_native_tools
            && !messages.has_image()
        {
            route.style = WireStyle::OllamaRaw;
            route.endpoint = "/api/generate".to_string();
            return;
        }
        let needs_native =
            ollama.customised || switches_thinking || options.output.is_structured() || messages.has_image();
        if route.style == WireStyle::OpenAiChat && needs_native {
            go_native(route);
        }
    }

    /// Switches a finished request to Ollama's native endpoint when the compatible one would truncate the prompt or
    /// ignore an option.
    pub(super) fn widen_ollama(&self, request: &mut Request) {
        if request.route.dialect != Dialect::Ollama || request.route.style != WireStyle::OpenAiChat {
            return;
        }
        let tokens = crate::cost::estimate_call(request.system.as_deref(), &request.messages, &request.tools);
        if tokens > OLLAMA_COMPATIBLE_TOKENS || request.sampling.top_k.is_some() {
            go_native(&mut request.route);
        }
    }
}

fn go_native(route: &mut Route) {
    route.style = WireStyle::OllamaChat;
    route.endpoint = "/api/chat".to_string();
}
