//! Providers, aliases, models and rules, merged from layers of TOML.
//!
//! The lowest layer is `data/providers.toml`; above it come the user's file, installed packages and the project. The
//! caller reads the files and passes their contents ([`Layer`]), so that this module does not depend on file locations.

mod catalog;
mod infer;
mod named;
mod policy;
mod route;
mod tier;

pub use crate::dialect::Dialect;
pub(crate) use policy::decide as routing_decision;
pub use route::{Choice, Key};
pub(crate) use tier::tier_rank;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::LazyLock;

use harn_value::glob;
use serde::Deserialize;

use crate::embedder::Embedder;
use crate::json::Object;
use crate::models::Catalog;
use crate::options::{DataOptions, Sampling, ShapeError, check_options};
use crate::wire::style::WireStyle;

/// One layer of configuration: its origin and its TOML source.
#[derive(Debug, Clone)]
pub struct Layer {
    /// A path or a package name, for messages.
    pub origin: String,
    /// TOML in the schema of `providers.toml`.
    pub toml: String,
}

/// The configuration of a provider: address, authentication, endpoints, prices.
#[derive(Debug, Clone, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Provider {
    /// Base URL of all requests.
    pub base_url: Option<String>,
    /// Environment variable that overrides the base URL.
    pub base_url_env: Option<String>,
    /// Cloud region; takes precedence over the region of the environment. Only cloud providers use it.
    pub region: Option<String>,
    /// `bearer`, `header`, `none`, or a style that the wire format defines.
    pub auth_style: Option<String>,
    /// Header of the `header` style.
    pub auth_header: Option<String>,
    /// Environment variables that may hold the key.
    pub auth_env: Option<OneOrMany>,
    /// Headers added to every request.
    pub extra_headers: Option<BTreeMap<String, String>>,
    /// Path of chat requests.
    pub chat_endpoint: Option<String>,
    /// The wire format of the chat endpoint; see [`Provider::wire`].
    pub wire: Option<WireStyle>,
    /// The dialect of the server: its deviations from the wire format.
    pub dialect: Option<Dialect>,
    /// Path of text completion requests.
    pub completion_endpoint: Option<String>,
    /// How to check the provider's health.
    pub healthcheck: Option<Healthcheck>,
    /// Feature names of the provider.
    pub features: Option<Vec<String>>,
    /// Provider to try when this one fails.
    pub fallback: Option<String>,
    /// Requests per minute.
    pub rpm: Option<i64>,
    /// Whether calls are free of charge.
    pub free: Option<bool>,
    /// USD per thousand prompt tokens.
    pub cost_per_1k_in: Option<f64>,
    /// USD per thousand reply tokens.
    pub cost_per_1k_out: Option<f64>,
    /// Median response time in milliseconds.
    pub latency_p50_ms: Option<i64>,
    /// Display name for users.
    pub display_name: Option<String>,
    /// Short name that may replace the provider name as the prefix of a model id.
    pub short_name: Option<String>,
    /// The model family, for model ids that do not identify one.
    pub family: Option<String>,
    /// Icon for hosts.
    pub icon: Option<String>,
    /// Model used when the call names no model.
    pub default_model: Option<String>,
    /// Environment variables that may name the default model.
    pub default_model_env: Option<Vec<String>>,
}

/// A string or a list of strings.
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One string.
    One(String),
    /// A list, first choice first.
    Many(Vec<String>),
}

/// How to check a provider's health.
#[derive(Debug, Clone, Deserialize, PartialEq)]
pub struct Healthcheck {
    /// HTTP method.
    #[serde(default = "get")]
    pub method: String,
    /// Path below the base.
    pub path: Option<String>,
    /// Full URL; replaces the path.
    pub url: Option<String>,
    /// JSON source of the request body.
    pub body: Option<String>,
}

fn get() -> String {
    "GET".to_string()
}

/// A short name of a model at a provider.
#[derive(Debug, Clone, Deserialize, PartialEq)]
pub struct Alias {
    /// The model id.
    pub id: String,
    /// The provider.
    pub provider: String,
    /// Preferred tool format.
    pub tool_format: Option<String>,
}

/// A catalogued model.
#[derive(Debug, Clone, Deserialize, PartialEq)]
pub struct Model {
    /// Display name for users.
    #[serde(default)]
    pub name: String,
    /// The provider.
    #[serde(default)]
    pub provider: String,
    /// Context window in tokens.
    #[serde(default)]
    pub context_window: i64,
    /// Timeout of a stream in seconds.
    pub stream_timeout: Option<i64>,
    /// Names of capabilities.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// Prices.
    pub pricing: Option<Pricing>,
}

/// Prices in USD per million tokens.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq)]
pub struct Pricing {
    /// Prompt tokens.
    pub input_per_mtok: f64,
    /// Reply tokens.
    pub output_per_mtok: f64,
    /// Prompt tokens read from the cache.
    pub cache_read_per_mtok: Option<f64>,
    /// Prompt tokens written to the cache.
    pub cache_write_per_mtok: Option<f64>,
    /// Prompt tokens written to the cache with a lifetime of one hour.
    pub cache_write_hour_per_mtok: Option<f64>,
    /// Prices of long prompts.
    pub above: Option<Above>,
}

/// Prices of calls whose prompt exceeds a number of tokens. An unset price falls back to the normal one.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq)]
pub struct Above {
    /// The limit in tokens.
    pub tokens: i64,
    /// Prompt tokens.
    pub input: Option<f64>,
    /// Reply tokens.
    pub output: Option<f64>,
    /// Prompt tokens read from the cache.
    pub read: Option<f64>,
    /// Prompt tokens written to the cache.
    pub write: Option<f64>,
}

impl Pricing {
    /// The prices of a provider whose calls are free.
    pub(crate) const FREE: Pricing = Pricing {
        input_per_mtok: 0.0,
        output_per_mtok: 0.0,
        cache_read_per_mtok: None,
        cache_write_per_mtok: None,
        cache_write_hour_per_mtok: None,
        above: None,
    };

    /// Returns the dict of the catalogue.
    pub fn to_json(self) -> harn_value::Data {
        harn_value::json!({
            "input_per_mtok": self.input_per_mtok, "output_per_mtok": self.output_per_mtok,
            "cache_read_per_mtok": self.cache_read_per_mtok, "cache_write_per_mtok": self.cache_write_per_mtok,
        })
    }
}

/// A condition on a model id, and the provider, tier or family that it implies.
#[derive(Debug, Clone, Deserialize, PartialEq)]
pub struct Rule {
    /// A glob.
    pub pattern: Option<String>,
    /// A substring of the id.
    pub contains: Option<String>,
    /// The whole id.
    pub exact: Option<String>,
    /// A glob over one of the parts between `/`, `:` and `.`.
    pub part: Option<String>,
    /// The number of slashes in the id.
    pub slashes: Option<usize>,
    /// The resulting provider (inference rules).
    pub provider: Option<String>,
    /// The resulting tier (tier rules).
    pub tier: Option<String>,
    /// The resulting family (family rules).
    pub family: Option<String>,
}

impl Rule {
    fn matches(&self, id: &str) -> bool {
        self.exact.as_deref() == Some(id)
            || self.pattern.as_deref().is_some_and(|p| glob(p, id))
            || self.contains.as_deref().is_some_and(|c| id.contains(c))
            || self.part.as_deref().is_some_and(|p| id.split(['/', ':', '.']).any(|part| glob(p, part)))
            || self.slashes.is_some_and(|count| id.matches('/').count() == count)
    }
}

/// Default options of calls to matching models: the keys in [`ModelDefaults::KEYS`]. Options of the call override them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(try_from = "toml::Table")]
pub struct ModelDefaults(Sampling);

impl ModelDefaults {
    /// The allowed options: all of [`Sampling`] except `stop` and `seed`.
    pub const KEYS: [&str; 5] = ["temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty"];
    /// `stop` and `seed` only make sense for a single call.
    const OF_THE_CALL: [&str; 2] = ["stop", "seed"];
}

impl TryFrom<toml::Table> for ModelDefaults {
    type Error = ShapeError;

    /// Parses the options like those of a call. Ignores other keys; [`slips`] reports them.
    fn try_from(table: toml::Table) -> Result<ModelDefaults, ShapeError> {
        let known = |name: &str| ModelDefaults::KEYS.contains(&name);
        let options: Object = table
            .iter()
            .filter(|(name, _)| known(name))
            .map(|(name, value)| {
                let problem =
                    |error: serde_json::Error| ShapeError { place: name.clone(), problem: error.to_string() };
                Ok((name.clone(), harn_value::Data::of(value).map_err(problem)?))
            })
            .collect::<Result<_, ShapeError>>()?;
        check_options(Sampling::FIELDS, &options)?;
        let read = Sampling::read(&options);
        read.map(ModelDefaults).map_err(|problem| ShapeError { place: String::new(), problem })
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct File {
    default_provider: Option<String>,
    providers: BTreeMap<String, Provider>,
    aliases: BTreeMap<String, Alias>,
    models: BTreeMap<String, Model>,
    qc_defaults: BTreeMap<String, String>,
    inference_rules: Vec<Rule>,
    family_rules: Vec<Rule>,
    tier_rules: Vec<Rule>,
    tier_order: Vec<String>,
    tier_defaults: BTreeMap<String, String>,
    model_defaults: BTreeMap<String, ModelDefaults>,
}

static BUILTIN: LazyLock<File> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/providers.toml")).expect("the shipped table is valid TOML")
});

/// The merged configuration.
#[derive(Debug, Clone)]
pub struct Config {
    file: File,
    catalog: Rc<Catalog>,
    /// The origin of the topmost layer, for messages.
    loaded_from: Option<String>,
    registered: std::collections::BTreeSet<String>,
}

/// The top-level keys of a layer.
const KEYS: [&str; 11] = [
    "default_provider",
    "providers",
    "aliases",
    "models",
    "qc_defaults",
    "inference_rules",
    "family_rules",
    "tier_rules",
    "tier_order",
    "tier_defaults",
    "model_defaults",
];

/// The allowed keys of a provider's table.
pub const PROVIDER_KEYS: [&str; 27] = [
    "free",
    "base_url",
    "base_url_env",
    "region",
    "auth_style",
    "auth_header",
    "auth_env",
    "extra_headers",
    "wire",
    "chat_endpoint",
    "dialect",
    "completion_endpoint",
    "healthcheck",
    "features",
    "fallback",
    "rpm",
    "cost_per_1k_in",
    "cost_per_1k_out",
    "latency_p50_ms",
    "display_name",
    "short_name",
    "family",
    "icon",
    "default_model",
    "default_model_env",
    "retry_count",
    "retry_delay_ms",
];

/// Returns a message for each key of a layer that has no effect.
pub fn slips(text: &str) -> Vec<String> {
    let Ok(table) = toml::from_str::<toml::Table>(text) else { return Vec::new() };
    let is_table = |key: &str| table.get(key).is_some_and(toml::Value::is_table);
    let told = |place: &str, key: &str, known: &[&str]| {
        let fix = match (place, key) {
            _ if place.starts_with("model_defaults.") && ModelDefaults::OF_THE_CALL.contains(&key) => {
                "it is an option of the call alone".to_owned()
            }
            ("", "provider") if is_table(key) => "did you mean `providers`?".to_owned(),
            ("", "provider") => "the default provider is `default_provider`".to_owned(),
            ("", "model") => "a default model is `default_model` of its provider".to_owned(),
            _ => match crate::options::nearest(key, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", known.join(", ")),
            },
        };
        format!("`{place}{key}` has no effect: {fix}")
    };
    let top = table.keys().filter(|key| !KEYS.contains(&key.as_str())).map(|key| told("", key, &KEYS));
    let parts: [(&str, &[&str]); 2] =
        [("providers", &PROVIDER_KEYS), ("model_defaults", &ModelDefaults::KEYS)];
    let inside = parts.into_iter().flat_map(|(part, known)| {
        let entries = table.get(part).and_then(toml::Value::as_table).into_iter().flatten();
        entries.flat_map(move |(name, table)| {
            let keys = table.as_table().into_iter().flat_map(toml::Table::keys);
            let unknown = keys.filter(|key| !known.contains(&key.as_str()));
            let place = format!("{part}.{name}.");
            unknown.map(move |key| told(&place, key, known))
        })
    });
    top.chain(inside).collect()
}

impl Config {
    /// Returns the default provider of the built-in configuration.
    pub fn builtin_provider() -> &'static str {
        BUILTIN.default_provider.as_deref().unwrap_or_default()
    }

    /// Returns the configuration without any layer above the built-in one.
    pub fn builtin() -> Config {
        let file =
            toml::from_str(include_str!("../data/providers.toml")).expect("the shipped table is valid TOML");
        Config { file, catalog: Rc::default(), loaded_from: None, registered: Default::default() }
    }

    /// Merges layers over the built-in one; later ones win. A layer that cannot be parsed is reported through the
    /// embedder and skipped.
    pub fn load(layers: &[Layer], embedder: &dyn Embedder) -> Config {
        Config::load_telling(layers, &|text| embedder.warn(text))
    }

    /// Like [`Config::load`], but without warnings.
    pub fn load_quietly(layers: &[Layer]) -> Config {
        Config::load_telling(layers, &|_| ())
    }

    fn load_telling(layers: &[Layer], warn: &dyn Fn(&str)) -> Config {
        let mut config = Config::builtin();
        for layer in layers {
            match toml::from_str::<File>(&layer.toml) {
                Ok(file) => {
                    for text in slips(&layer.toml) {
                        warn(&format!("[llm_config] {}: {text}", layer.origin));
                    }
                    let said = toml::from_str::<toml::Table>(&layer.toml).unwrap_or_default();
                    config.merge(file, &said, &layer.origin);
                }
                Err(e) => warn(&format!("[llm_config] TOML parse error in {}: {e}", layer.origin)),
            }
        }
        config
    }

    /// Merges a layer over the current configuration. `said` is the layer's TOML table; keys that it does not contain
    /// are unchanged.
    fn merge(&mut self, over: File, said: &toml::Table, origin: &str) {
        let base = &mut self.file;
        if over.default_provider.is_some() {
            base.default_provider = over.default_provider;
        }
        for (name, provider) in over.providers {
            let merged = match base.providers.get(&name) {
                Some(before) => provider.inherit(before),
                None => provider,
            };
            base.providers.insert(name, merged);
        }
        base.aliases.extend(over.aliases);
        for (id, model) in over.models {
            let keys = said.get("models").and_then(|models| models.get(&id)).and_then(toml::Value::as_table);
            let merged = match (base.models.get(&id), keys) {
                (Some(before), Some(keys)) => model.inherit(before, keys),
                _ => model,
            };
            base.models.insert(id, merged);
        }
        base.qc_defaults.extend(over.qc_defaults);
        base.inference_rules.splice(0..0, over.inference_rules);
        base.family_rules.splice(0..0, over.family_rules);
        base.tier_rules.splice(0..0, over.tier_rules);
        if !over.tier_order.is_empty() {
            base.tier_order = over.tier_order;
        }
        if let Some(tier) = over.tier_defaults.get("default").filter(|t| *t != "mid") {
            base.tier_defaults.insert("default".into(), tier.clone());
        }
        base.model_defaults.extend(over.model_defaults);
        self.loaded_from = Some(origin.to_string());
    }

    /// Registers a provider name as known.
    pub fn register(&mut self, name: &str) {
        self.registered.insert(name.to_string());
    }

    /// Returns a provider's table.
    pub fn provider(&self, name: &str) -> Option<&Provider> {
        self.file.providers.get(name)
    }

    /// Returns the environment variables that may hold a provider's key.
    pub fn key_variables(&self) -> std::collections::BTreeSet<&str> {
        self.file.providers.values().flat_map(Provider::auth_envs).collect()
    }

    /// Returns the dialect of a provider's server.
    pub fn dialect(&self, provider: &str) -> Dialect {
        self.provider(provider).map(Provider::dialect).unwrap_or_default()
    }

    /// Returns whether a provider of this name is configured or registered.
    pub fn knows(&self, name: &str) -> bool {
        self.file.providers.contains_key(name) || self.registered.contains(name)
    }

    /// Returns the built-in provider whose base URL comes from `variable`, if that variable is set.
    fn addressed_by(variable: &str, embedder: &dyn Embedder) -> Option<String> {
        env(embedder, variable)?;
        let whose = |provider: &Provider| provider.base_url_env.as_deref() == Some(variable);
        BUILTIN.providers.iter().find(|(_, provider)| whose(provider)).map(|(name, _)| name.clone())
    }

    /// Returns an alias.
    pub fn alias(&self, name: &str) -> Option<&Alias> {
        self.file.aliases.get(name)
    }

    /// Returns a catalogued model.
    pub fn model(&self, id: &str) -> Option<&Model> {
        self.file.models.get(id)
    }

    /// Returns the models that the configuration describes, as (provider, id).
    pub fn model_ids(&self) -> impl Iterator<Item = (&str, &str)> {
        self.file.models.iter().map(|(id, model)| (model.provider.as_str(), id.as_str()))
    }

    /// Returns whether the shipped configuration uses a model as a default or as the target of an alias.
    pub fn is_shipped_default(&self, model: &str) -> bool {
        let default = |provider: &Provider| provider.default_model.as_deref() == Some(model);
        BUILTIN.providers.values().any(default) || BUILTIN.aliases.values().any(|alias| alias.id == model)
    }

    /// Returns the catalogue of models.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Replaces the model catalogue.
    pub(crate) fn set_catalog(&mut self, catalog: Rc<Catalog>) {
        self.catalog = catalog;
    }

    /// Returns the origin of the topmost layer.
    pub fn origin(&self) -> &str {
        self.loaded_from.as_deref().unwrap_or("<built-in defaults>")
    }

    /// Returns the default options of a model: the sampling keys of every matching `model_defaults` entry. Later
    /// patterns (in sorted order) win.
    pub fn model_defaults(&self, id: &str) -> Sampling {
        let matching = self.file.model_defaults.iter().filter(|(pattern, _)| glob(pattern, id));
        matching.fold(Sampling::default(), |all, (_, defaults)| defaults.0.clone().or(all))
    }
}

impl Model {
    /// Fills from `base` the keys that the TOML table `said` does not contain.
    fn inherit(self, base: &Model, said: &toml::Table) -> Model {
        let b = base.clone();
        let says = |key: &str| said.contains_key(key);
        Model {
            name: if says("name") { self.name } else { b.name },
            provider: if says("provider") { self.provider } else { b.provider },
            context_window: if says("context_window") { self.context_window } else { b.context_window },
            stream_timeout: self.stream_timeout.or(b.stream_timeout),
            capabilities: if says("capabilities") { self.capabilities } else { b.capabilities },
            pricing: self.pricing.or(b.pricing),
        }
    }
}

impl Provider {
    /// Fills every unset field from `base`.
    fn inherit(self, base: &Provider) -> Provider {
        let b = base.clone();
        Provider {
            base_url: self.base_url.or(b.base_url),
            base_url_env: self.base_url_env.or(b.base_url_env),
            region: self.region.or(b.region),
            auth_style: self.auth_style.or(b.auth_style),
            auth_header: self.auth_header.or(b.auth_header),
            auth_env: self.auth_env.or(b.auth_env),
            extra_headers: self.extra_headers.or(b.extra_headers),
            // Another endpoint may use another wire format.
            wire: self.wire.or(b.wire.filter(|_| self.chat_endpoint.is_none())),
            chat_endpoint: self.chat_endpoint.or(b.chat_endpoint),
            dialect: self.dialect.or(b.dialect),
            completion_endpoint: self.completion_endpoint.or(b.completion_endpoint),
            healthcheck: self.healthcheck.or(b.healthcheck),
            features: self.features.or(b.features),
            fallback: self.fallback.or(b.fallback),
            rpm: self.rpm.or(b.rpm),
            free: self.free.or(b.free),
            cost_per_1k_in: self.cost_per_1k_in.or(b.cost_per_1k_in),
            cost_per_1k_out: self.cost_per_1k_out.or(b.cost_per_1k_out),
            latency_p50_ms: self.latency_p50_ms.or(b.latency_p50_ms),
            display_name: self.display_name.or(b.display_name),
            short_name: self.short_name.or(b.short_name),
            family: self.family.or(b.family),
            icon: self.icon.or(b.icon),
            default_model: self.default_model.or(b.default_model),
            default_model_env: self.default_model_env.or(b.default_model_env),
        }
    }

    /// Returns the dialect of the server.
    pub fn dialect(&self) -> Dialect {
        self.dialect.unwrap_or_default()
    }

    /// Returns the wire format of chat requests: the configured `wire`, else the format that the path of the endpoint
    /// implies.
    pub fn wire(&self) -> WireStyle {
        let words = [
            ("/messages", WireStyle::Anthropic),
            ("/responses", WireStyle::OpenAiResponses),
            ("/api/chat", WireStyle::OllamaChat),
            (":generateContent", WireStyle::Gemini),
            ("/converse", WireStyle::Bedrock),
        ];
        let meant =
            || words.iter().find(|(word, _)| self.chat_endpoint().contains(word)).map(|(_, wire)| *wire);
        self.wire.or_else(meant).unwrap_or(WireStyle::OpenAiChat)
    }

    /// Returns the authentication style.
    pub fn auth_style(&self) -> &str {
        self.auth_style.as_deref().unwrap_or("bearer")
    }

    /// Returns the environment variables that may hold the key, first choice first.
    pub fn auth_envs(&self) -> Vec<&str> {
        match &self.auth_env {
            None => Vec::new(),
            Some(OneOrMany::One(name)) => vec![name],
            Some(OneOrMany::Many(names)) => names.iter().map(String::as_str).collect(),
        }
    }

    /// Returns whether a call can be authorised: no key is needed, or one is set.
    pub(crate) fn is_available(&self, embedder: &dyn Embedder) -> bool {
        let envs = self.auth_envs();
        self.auth_style() == "none"
            || envs.is_empty()
            || envs.iter().any(|name| env(embedder, name).is_some())
    }

    /// Returns the base URL, from the environment or else the configuration, without a trailing slash.
    pub fn base_url(&self, embedder: &dyn Embedder) -> String {
        let from_env =
            self.base_url_env.as_deref().and_then(|name| env(embedder, name)).map(|value| clean_url(&value));
        // Anthropic's SDKs expect the URL without the version.
        let from_env = from_env.map(|url| match self.dialect() == Dialect::Anthropic {
            true if !url.trim_end_matches('/').ends_with("/v1") => {
                format!("{}/v1", url.trim_end_matches('/'))
            }
            _ => url,
        });
        let url = from_env.filter(|u| !u.is_empty()).or_else(|| self.base_url.clone()).unwrap_or_default();
        url.trim_end_matches('/').to_string()
    }

    /// Returns the path of chat requests.
    pub fn chat_endpoint(&self) -> &str {
        self.chat_endpoint.as_deref().unwrap_or("/chat/completions")
    }
}

/// Removes whitespace, quotes and the path of the chat endpoint from a URL, and adds `http://` when it has no scheme.
pub(crate) fn clean_url(value: &str) -> String {
    let value = value.trim().trim_matches(|c| c == '"' || c == '\'').trim();
    let value = value.strip_suffix("/chat/completions").unwrap_or(value);
    if value.is_empty() || value.contains("://") { value.to_string() } else { format!("http://{value}") }
}

/// Returns the trimmed value of an environment variable; `None` when it is unset or only whitespace.
pub fn env(embedder: &dyn Embedder, name: &str) -> Option<String> {
    embedder.env(name).map(|v| v.trim().to_string()).filter(|v| !v.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedder::StdEmbedder;

    fn load(toml: &str) -> Config {
        Config::load(
            &[Layer { origin: "test.toml".into(), toml: toml.into() }],
            &StdEmbedder::with_env([("", "")]),
        )
    }

    #[test]
    fn a_layer_keeps_what_the_one_below_says() {
        let user = "[providers.openai]\nbase_url = \"http://corp/v1\"\nauth_env = \"CORP_KEY\"\n[providers.up]\nbase_url = \"http://up/v1\"\n\
                    [models.um]\nprovider = \"up\"\npricing = {input_per_mtok = 3.0, output_per_mtok = 4.0}\n";
        let project =
            "[providers.openai]\nrpm = 7\n[providers.up]\nrpm = 8\n[models.um]\ncontext_window = 222\n";
        let layers = [user, project].map(|toml| Layer { origin: "t".into(), toml: toml.into() });
        let config = Config::load_quietly(&layers);
        let openai = config.provider("openai").unwrap();
        assert_eq!((openai.base_url.as_deref(), openai.rpm), (Some("http://corp/v1"), Some(7)));
        assert!(config.key_variables().contains("CORP_KEY"));
        assert_eq!(config.provider("up").unwrap().base_url.as_deref(), Some("http://up/v1"));
        let model = config.model("um").unwrap();
        assert_eq!((model.provider.as_str(), model.context_window), ("up", 222));
        assert_eq!(model.pricing.map(|pricing| pricing.input_per_mtok), Some(3.0));
    }

    #[test]
    fn what_nothing_reads_is_told() {
        assert_eq!(
            slips(
                "provider = \"mock\"\nmodel = \"m\"\nalias = 1\n[providers.mine]\nbase_url = \"x\"\nrmp = 3\n"
            ),
            [
                "`alias` has no effect: did you mean `aliases`?",
                "`model` has no effect: a default model is `default_model` of its provider",
                "`provider` has no effect: the default provider is `default_provider`",
                "`providers.mine.rmp` has no effect: did you mean `rpm`?",
            ]
        );
        assert_eq!(slips(include_str!("../data/providers.toml")), Vec::<String>::new());
        assert_eq!(
            slips("[model_defaults.\"gpt*\"]\ntemprature = 3\nmax_tokens = 5\nseed = 4\nstop = [\"x\"]\n"),
            [
                "`model_defaults.gpt*.max_tokens` has no effect: there are temperature, top_p, top_k, frequency_penalty, presence_penalty",
                "`model_defaults.gpt*.seed` has no effect: it is an option of the call alone",
                "`model_defaults.gpt*.stop` has no effect: it is an option of the call alone",
                "`model_defaults.gpt*.temprature` has no effect: did you mean `temperature`?",
            ]
        );
    }

    #[test]
    fn the_builtin_table_holds_every_provider() {
        let config = Config::builtin();
        for name in [
            "anthropic",
            "openai",
            "openrouter",
            "huggingface",
            "ollama",
            "local",
            "mock",
            "gemini",
            "bedrock",
        ] {
            assert!(config.provider(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_table_for_a_builtin_name_inherits_what_it_does_not_set() {
        let config = load(
            "[providers.openai]\nbase_url = \"http://proxy/v1\"\n[providers.mine]\nbase_url = \"http://m\"",
        );
        let openai = config.provider("openai").unwrap();
        assert_eq!(openai.base_url.as_deref(), Some("http://proxy/v1"));
        assert_eq!(openai.auth_envs(), ["OPENAI_API_KEY"]);
        assert_eq!(config.provider("mine").unwrap().chat_endpoint(), "/chat/completions");
        assert_eq!(config.origin(), "test.toml");
    }

    #[test]
    fn rules_of_a_layer_go_in_front() {
        let config = load(
            "tier_order = [\"mlx\"]\n[[tier_rules]]\npattern = \"claude-*\"\ntier = \"small\"\n[[family_rules]]\npart = \"glm-*\"\nfamily = \"glm\"\n[providers.mine]\nfamily = \"own\"\nshort_name = \"m\"",
        );
        assert_eq!(config.tier_of("claude-x"), "small");
        assert_eq!(config.family("openai", "z-ai/glm-5"), "glm");
        assert_eq!(config.family("mine", "x"), "own");
        assert_eq!(config.split_prefix("m:x"), Some(("mine", "x")));
        assert_eq!(config.file.tier_order, ["mlx"]);
    }

    #[test]
    fn addresses_of_the_environment_replace_the_shipped_ones() {
        let config = Config::builtin();
        let of = |provider: &str, name: &str, value: &str| {
            config.provider(provider).unwrap().base_url(&StdEmbedder::with_env([(name, value)]))
        };
        assert_eq!(of("openai", "OPENAI_BASE_URL", "http://h/v1/"), "http://h/v1");
        assert_eq!(of("openrouter", "OPENROUTER_BASE_URL", "http://h/api/v1"), "http://h/api/v1");
        for value in ["http://h", "http://h/", "http://h/v1"] {
            assert_eq!(of("anthropic", "ANTHROPIC_BASE_URL", value), "http://h/v1");
        }
        let no_variable = |name: &String| config.provider(name).unwrap().base_url_env.is_none();
        let without: Vec<String> = config.provider_names().into_iter().filter(no_variable).collect();
        assert_eq!(without, ["mock"], "every provider has a variable for its address");
    }

    #[test]
    fn base_urls_are_cleaned() {
        let embedder = StdEmbedder::with_env([("OLLAMA_HOST", " \"127.0.0.1:11434/\" ")]);
        assert_eq!(
            Config::builtin().provider("ollama").unwrap().base_url(&embedder),
            "http://127.0.0.1:11434"
        );
        let embedder = StdEmbedder::with_env([("OLLAMA_HOST", "  ")]);
        assert_eq!(
            Config::builtin().provider("ollama").unwrap().base_url(&embedder),
            "http://localhost:11434"
        );
    }

    #[test]
    fn model_defaults_apply_in_sorted_order() {
        let config = load(
            "[model_defaults.\"gpt-*\"]\ntemperature = 0.1\ntop_p = 0.5\nseed = 3\n[model_defaults.\"gpt-4*\"]\ntemperature = 0.2",
        );
        let defaults = config.model_defaults("gpt-4o");
        assert_eq!(defaults, Sampling { temperature: Some(0.2), top_p: Some(0.5), ..Sampling::default() });
    }
}
