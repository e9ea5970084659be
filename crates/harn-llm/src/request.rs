//! A call that is ready to be sent: its route and all options are resolved.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use harn_system::Egress;
use harn_value::Data as Value;

use crate::capabilities::Capabilities;
use crate::conversation::Conversation;
use crate::dialect::Dialect;
use crate::json::Object;
use crate::options::{Sampling, Thinking};
use crate::secret::{Secret, is_secret_header, redact_url};
use crate::tools::{NativeTools, ToolChoice};
use crate::wire::style::WireStyle;

/// The destination of a request and its authorisation.
#[derive(Clone)]
pub struct Route {
    /// The provider.
    pub provider: String,
    /// The model id.
    pub model: String,
    /// Whether the model is the provider's default.
    pub model_is_default: bool,
    /// The capabilities of the route.
    pub caps: Capabilities,
    /// The wire format.
    pub style: WireStyle,
    /// The dialect of the server.
    pub dialect: Dialect,
    /// Base URL without a trailing slash.
    pub base_url: String,
    /// The egress rules for its connections, when the program supplied the URL.
    pub egress: Option<Arc<Egress>>,
    /// The cloud region from the configuration.
    pub region: Option<String>,
    /// Path of chat requests.
    pub endpoint: String,
    /// Path of text completions, when the provider has one.
    pub completion_endpoint: Option<String>,
    /// Authorisation header (name and value) when a key is used.
    pub auth: Option<(String, Secret)>,
    /// The key itself, which is redacted wherever a reply echoes it.
    pub key: Option<Secret>,
    /// Headers added to every request; they may contain credentials.
    pub extra_headers: Vec<(String, Secret)>,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("style", &self.style)
            .field("base_url", &redact_url(&self.base_url))
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Route {
    /// Returns the headers added to every request that do not contain credentials.
    pub(crate) fn plain_headers(&self) -> Vec<(String, String)> {
        let plain = self.extra_headers.iter().filter(|(name, _)| !is_secret_header(name));
        plain.map(|(name, value)| (name.clone(), value.reveal().to_string())).collect()
    }

    /// Returns the headers with credentials: that of the key, and those of the configuration with a secret name.
    pub(crate) fn secret_headers(&self) -> Vec<(String, Secret)> {
        let more = self.extra_headers.iter().filter(|(name, _)| is_secret_header(name));
        self.auth.iter().chain(more).cloned().collect()
    }

    /// Returns everything that must be redacted: the headers with credentials, and the key.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = Secret> + '_ {
        self.secret_headers().into_iter().map(|(_, secret)| secret).chain(self.key.clone())
    }

    /// Redacts the secrets of the route in a string. Redact before you truncate: a truncated key would not be found.
    pub(crate) fn hide(&self, text: &str) -> String {
        self.secrets().fold(text.to_string(), |text, secret| secret.redact(&text))
    }

    /// Returns the bytes of the longest secret. Before truncating, the caller reads that many bytes beyond the limit.
    pub(crate) fn longest_secret(&self) -> usize {
        self.secrets().map(|secret| secret.reveal().len()).max().unwrap_or(0)
    }

    /// Joins base URL and path with exactly one slash. When the base already ends with the path's first segment (`…/v1`
    /// and `/v1/…`), the segment is not repeated. The query of the base comes after the path.
    pub fn url(&self, path: &str) -> String {
        if let Some((base, _)) = self.base_url.split_once('#') {
            return Route { base_url: base.to_string(), ..self.clone() }.url(path);
        }
        if let Some((base, query)) = self.base_url.split_once('?') {
            let base = Route { base_url: base.to_string(), ..self.clone() };
            let mark = if path.contains('?') { '&' } else { '?' };
            return format!("{}{mark}{query}", base.url(path));
        }
        let base = self.base_url.trim_end_matches('/');
        let path = path.trim_start_matches('/');
        let path = match path.strip_prefix("v1/") {
            Some(rest) if base.ends_with("/v1") => rest,
            _ => path,
        };
        format!("{base}/{path}")
    }
}

/// The mechanism by which a route is asked for JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputChannel {
    /// None, or only instructions in the system prompt.
    None,
    /// `response_format` and its variants.
    Native,
    /// The model's native reply format if it has one, else a forced tool named `json_response`.
    Tool,
    /// Ollama's `format`.
    Format,
}

/// The structured output that a route is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputPlan {
    /// The mechanism.
    pub channel: OutputChannel,
    /// JSON Schema of the reply; `None` means any object.
    pub schema: Option<Value>,
    /// Whether the provider enforces the schema strictly.
    pub strict: bool,
    /// Description of the tool that represents the reply.
    pub tool_description: String,
    /// Whether the model can be forced to call that tool.
    pub forces_tool: bool,
}

impl OutputPlan {
    /// Returns a plan without structured output.
    pub fn none() -> OutputPlan {
        OutputPlan {
            channel: OutputChannel::None,
            schema: None,
            strict: false,
            tool_description: String::new(),
            forces_tool: true,
        }
    }
}

/// A request in neutral form; `wire` converts it to each provider's format.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its route.
    pub route: Route,
    /// The system prompt.
    pub system: Option<String>,
    /// Whether the system messages of the list are already part of `system`.
    pub system_hoisted: bool,
    /// The conversation.
    pub messages: Conversation,
    /// Native tools, as recorded (including meta-tools).
    pub tools: NativeTools,
    /// Which tool may or must be called.
    pub tool_choice: Option<ToolChoice>,
    /// Token limit of the reply; with zero or less the provider decides.
    pub max_tokens: i64,
    /// Sampling options.
    pub sampling: Sampling,
    /// Thinking options.
    pub thinking: Thinking,
    /// Whether interleaved thinking is requested.
    pub interleaved_thinking: bool,
    /// Beta features of the call.
    pub beta_features: Vec<String>,
    /// Whether prompt caching is requested.
    pub cache: bool,
    /// Text that the reply must continue.
    pub prefill: Option<String>,
    /// Structured output.
    pub output: OutputPlan,
    /// Whether the reply is streamed.
    pub stream: bool,
    /// Timeout of the whole request.
    pub timeout: Duration,
    /// Maximum time between two chunks of a stream, if limited.
    pub idle_timeout: Option<Duration>,
    /// Maximum bytes of a reply body or stream line.
    pub max_response_bytes: usize,
    /// Keys that are merged into the body last.
    pub overrides: Object,
    /// Settings specific to Ollama.
    pub ollama: OllamaSettings,
}

/// Ollama's context size and keep-alive, from overrides and environment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OllamaSettings {
    /// `num_ctx`.
    pub num_ctx: i64,
    /// `keep_alive`.
    pub keep_alive: Value,
    /// Whether the caller or the environment set any of them.
    pub customised: bool,
    /// Time without data after which a notice about loading the model is shown.
    pub unload_grace: Option<Duration>,
}

/// Default of [`Request::max_response_bytes`].
pub(crate) const MAX_RESPONSE_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use harn_value::json;

    #[test]
    fn parameters_of_an_address_stay_behind_the_path() {
        let route = crate::sample::request("openai", "gpt-4o", json!({})).route;
        for (base, url) in [
            ("http://h/v1", "http://h/v1/chat"),
            ("http://h/v1/", "http://h/v1/chat"),
            ("http://h", "http://h/v1/chat"),
            ("http://h/v1?a=1", "http://h/v1/chat?a=1"),
            ("http://h/v1/?a=1&b=/x", "http://h/v1/chat?a=1&b=/x"),
            ("http://h/v1#top", "http://h/v1/chat"),
        ] {
            let route = super::Route { base_url: base.to_owned(), ..route.clone() };
            assert_eq!(route.url("/v1/chat"), url, "{base}");
        }
        let route = super::Route { base_url: "http://h?a=1".to_owned(), ..route };
        assert_eq!(route.url("/v1/chat?b=2"), "http://h/v1/chat?b=2&a=1");
    }
}
