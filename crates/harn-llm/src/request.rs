//! A call that is ready to go out: the route is chosen, every option is settled.

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

/// Where a request goes and how it is authorised.
#[derive(Clone)]
pub struct Route {
    /// The provider.
    pub provider: String,
    /// The model id.
    pub model: String,
    /// Whether the model is only the provider's default.
    pub model_is_default: bool,
    /// What the route can do.
    pub caps: Capabilities,
    /// The wire format.
    pub style: WireStyle,
    /// Whose habits the server has.
    pub dialect: Dialect,
    /// Base address without a slash at the end.
    pub base_url: String,
    /// The rules for its connections, when the program chose the address.
    pub egress: Option<Arc<Egress>>,
    /// The region of a cloud that the configuration names.
    pub region: Option<String>,
    /// Path of chat requests.
    pub endpoint: String,
    /// Path of text completions, when the provider has one.
    pub completion_endpoint: Option<String>,
    /// Authorisation header (name and value) when a key is used.
    pub auth: Option<(String, Secret)>,
    /// The key itself, to be hidden wherever a reply repeats it.
    pub key: Option<Secret>,
    /// Headers added to every request; they may authorise, too.
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
    /// Returns the headers added to every request that do not authorise.
    pub(crate) fn plain_headers(&self) -> Vec<(String, String)> {
        let plain = self.extra_headers.iter().filter(|(name, _)| !is_secret_header(name));
        plain.map(|(name, value)| (name.clone(), value.reveal().to_string())).collect()
    }

    /// Returns the headers that authorise: the key's, and those of the configuration that are named so.
    pub(crate) fn secret_headers(&self) -> Vec<(String, Secret)> {
        let more = self.extra_headers.iter().filter(|(name, _)| is_secret_header(name));
        self.auth.iter().chain(more).cloned().collect()
    }

    /// Returns everything that must not be shown: the headers that authorise, and the key.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = Secret> + '_ {
        self.secret_headers().into_iter().map(|(_, secret)| secret).chain(self.key.clone())
    }

    /// Hides the secrets of the route in a text. Whoever cuts a text hides first: half a key is one, too.
    pub(crate) fn hide(&self, text: &str) -> String {
        self.secrets().fold(text.to_string(), |text, secret| secret.redact(&text))
    }

    /// Bytes of the longest secret: so many more have to be read before a cut.
    pub(crate) fn longest_secret(&self) -> usize {
        self.secrets().map(|secret| secret.reveal().len()).max().unwrap_or(0)
    }

    /// Joins base and path with exactly one slash; a base that already ends with the path's first
    /// segment (`…/v1` and `/v1/…`) does not get it twice. Parameters of the base stay behind the path.
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

/// How a route is asked for JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputChannel {
    /// Not at all, or by words in the system text.
    None,
    /// `response_format` and its relatives.
    Native,
    /// The format of the reply where the model has one, else a forced tool named `json_response`.
    Tool,
    /// Ollama's `format`.
    Format,
}

/// What JSON a route is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputPlan {
    /// By which means.
    pub channel: OutputChannel,
    /// JSON Schema of the reply; `None` means any object.
    pub schema: Option<Value>,
    /// Whether the provider shall enforce the schema strictly.
    pub strict: bool,
    /// Description of the tool that stands for the reply.
    pub tool_description: String,
    /// Whether the model can be made to call that tool.
    pub forces_tool: bool,
}

impl OutputPlan {
    /// Returns a plan that asks for nothing.
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

/// A request in neutral form; `wire` turns it into each provider's own.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where it goes.
    pub route: Route,
    /// System text.
    pub system: Option<String>,
    /// Whether system messages of the list are part of `system` already.
    pub system_hoisted: bool,
    /// The conversation.
    pub messages: Conversation,
    /// Native tools as recorded (meta-tools included).
    pub tools: NativeTools,
    /// Which tool may or must be called.
    pub tool_choice: Option<ToolChoice>,
    /// Limit of the reply; zero or less leaves it to the provider.
    pub max_tokens: i64,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Reasoning.
    pub thinking: Thinking,
    /// Interleaved thinking asked for.
    pub interleaved_thinking: bool,
    /// Beta features of the call.
    pub beta_features: Vec<String>,
    /// Prompt caching.
    pub cache: bool,
    /// Text that the reply must continue.
    pub prefill: Option<String>,
    /// JSON asked for.
    pub output: OutputPlan,
    /// Streaming transport.
    pub stream: bool,
    /// Whole request.
    pub timeout: Duration,
    /// Longest silence inside a stream, when limited.
    pub idle_timeout: Option<Duration>,
    /// Most bytes of a reply body or stream line.
    pub max_response_bytes: usize,
    /// Keys merged into the body last.
    pub overrides: Object,
    /// Settings that only Ollama has.
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
    /// Silence after which warming up is announced.
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
