//! Validates requests like an API: the schema of the body, the conversation as a whole, and parameters of single
//! models.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use harn_value::Data as Value;
use jsonschema::Validator;
use regex::Regex;
use serde::Deserialize;

use crate::exchange::Request;
use crate::history;

/// An API, recognized by the path of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    Anthropic,
    OpenAiChat,
    OpenAiResponses,
    Completion,
    Gemini,
    Bedrock,
    Ollama,
    OllamaGenerate,
}

impl Api {
    /// Returns the API of this request target; `None` if it is not a model call.
    pub fn of(target: &str) -> Option<Api> {
        let path = target.split('?').next().unwrap_or_default();
        let ends = |end: &str| path.ends_with(end);
        Some(match path {
            _ if ends("/messages") => Api::Anthropic,
            _ if ends("/chat/completions") => Api::OpenAiChat,
            _ if ends("/responses") => Api::OpenAiResponses,
            _ if ends("/completions") => Api::Completion,
            _ if ends(":generateContent") || ends(":streamGenerateContent") => Api::Gemini,
            _ if ends("/converse") || ends("/converse-stream") => Api::Bedrock,
            _ if ends("/api/chat") || path == "api/chat" => Api::Ollama,
            _ if ends("/api/generate") || path == "api/generate" => Api::OllamaGenerate,
            _ => return None,
        })
    }

    /// Returns its name in `rules.toml` and in records.
    pub fn name(self) -> &'static str {
        match self {
            Api::Anthropic => "anthropic",
            Api::OpenAiChat => "openai_chat",
            Api::OpenAiResponses => "openai_responses",
            Api::Completion => "openai_completion",
            Api::Gemini => "gemini",
            Api::Bedrock => "bedrock",
            Api::Ollama => "ollama_chat",
            Api::OllamaGenerate => "ollama_generate",
        }
    }

    fn schema(self) -> &'static str {
        match self {
            Api::Anthropic => include_str!("schemas/anthropic.json"),
            Api::OpenAiChat => include_str!("schemas/openai_chat.json"),
            Api::OpenAiResponses => include_str!("schemas/openai_responses.json"),
            Api::Completion => include_str!("schemas/openai_completion.json"),
            Api::Gemini => include_str!("schemas/gemini.json"),
            Api::Bedrock => include_str!("schemas/bedrock.json"),
            Api::Ollama => include_str!("schemas/ollama_chat.json"),
            Api::OllamaGenerate => include_str!("schemas/ollama_generate.json"),
        }
    }

    fn validator(self) -> &'static Validator {
        static ALL: LazyLock<HashMap<Api, Validator>> = LazyLock::new(|| {
            use Api::*;
            let all =
                [Anthropic, OpenAiChat, OpenAiResponses, Completion, Gemini, Bedrock, Ollama, OllamaGenerate];
            let compiled = all.map(|api| {
                let schema = serde_json::from_str(api.schema()).expect("a schema is JSON");
                (api, jsonschema::validator_for(&schema).expect("a schema is valid"))
            });
            compiled.into()
        });
        &ALL[&self]
    }
}

/// A broken rule.
#[derive(Debug, Clone)]
pub struct Violation {
    /// Its name in `rules.toml`; `shape` for a violation of the body's schema.
    pub rule: String,
    /// The error message of the server.
    pub says: String,
    /// The page that documents the rule.
    pub source: String,
    /// The part of the body that breaks the rule.
    pub at: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "strict server: {} ({}): {}", self.says, self.source, self.at)
    }
}

#[derive(Deserialize)]
struct Table {
    rule: HashMap<String, Rule>,
    /// The reference page of each API: the source of its schema and of rules without their own source.
    reference: HashMap<String, String>,
    model: Vec<Model>,
}

#[derive(Deserialize)]
struct Rule {
    says: String,
    /// The sources by API.
    #[serde(default)]
    source: HashMap<String, String>,
}

/// The restrictions of some models of an API.
#[derive(Deserialize)]
struct Model {
    api: String,
    /// A regular expression for the model names.
    models: String,
    /// Rejected members of the body, as JSON pointers.
    #[serde(default)]
    refuses: Vec<String>,
    /// Members with their accepted values.
    #[serde(default)]
    only: HashMap<String, Vec<serde_json::Value>>,
    /// Members with their accepted ranges of numbers.
    #[serde(default)]
    within: HashMap<String, Vec<(i64, i64)>>,
    /// A pointer and its values; `refuses` applies only if the member has one of them.
    when: Option<(String, Vec<serde_json::Value>)>,
    says: String,
    source: String,
    #[serde(flatten)]
    limits: Limits,
}

/// Rules about conversations that differ between models.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Limits {
    /// Maximum length of a call id in characters.
    pub(crate) ids: Option<usize>,
    /// Exact number of letters and digits of a call id.
    pub(crate) exact_ids: Option<usize>,
    #[serde(default)]
    pub(crate) ends_with_user: bool,
    /// Whether messages must not contain the extensions of other hosts.
    #[serde(default)]
    pub(crate) plain_messages: bool,
}

static TABLE: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(include_str!("rules.toml")).expect("rules.toml is valid"));
static MODELS: LazyLock<Vec<(Regex, &Model)>> = LazyLock::new(|| {
    let compiled = |model: &'static Model| (Regex::new(&model.models).expect("a valid pattern"), model);
    TABLE.model.iter().map(compiled).collect()
});

/// Returns the rows of the table that apply to a model of an API.
fn rows(api: Api, model: &str) -> impl Iterator<Item = &'static Model> {
    MODELS
        .iter()
        .filter(move |(pattern, row)| row.api == api.name() && pattern.is_match(model))
        .map(|(_, row)| *row)
}

/// Returns the first rule that a request to a model API breaks.
pub fn violation(request: &Request) -> Option<Violation> {
    let api = Api::of(request.target())?;
    shape(api, &request.body).or_else(|| of_conversation(api, request.target(), &request.body))
}

/// Returns the first rule that a body breaks, apart from its schema.
pub fn of_conversation(api: Api, target: &str, body: &Value) -> Option<Violation> {
    let model = model_of(api, target, body);
    let mut limits = Limits::default();
    for row in rows(api, &model) {
        limits.ids = row.limits.ids.or(limits.ids);
        limits.exact_ids = row.limits.exact_ids.or(limits.exact_ids);
        limits.ends_with_user |= row.limits.ends_with_user;
        limits.plain_messages |= row.limits.plain_messages;
    }
    let broken = history::check(api, body, &limits).err().map(|(rule, at)| {
        let found = TABLE.rule.get(rule).unwrap_or_else(|| panic!("rules.toml has no rule `{rule}`"));
        let source = found.source.get(api.name()).unwrap_or(&TABLE.reference[api.name()]);
        Violation { rule: rule.to_owned(), says: found.says.clone(), source: source.clone(), at }
    });
    broken.or_else(|| of_model(api, &model, body))
}

fn model_of(api: Api, target: &str, body: &Value) -> String {
    let named = body.get("model").and_then(Value::as_str).map(str::to_owned);
    let between = |before: &str, after: char| {
        let rest = target.split(before).nth(1).unwrap_or_default();
        rest.split(after).next().unwrap_or_default().replace("%3A", ":")
    };
    named.unwrap_or_else(|| match api {
        Api::Gemini => between("/models/", ':'),
        Api::Bedrock => between("/model/", '/'),
        _ => between("/deployments/", '/'),
    })
}

fn shape(api: Api, body: &Value) -> Option<Violation> {
    let json: serde_json::Value = body.clone().into();
    let error = api.validator().iter_errors(&json).next()?;
    Some(Violation {
        rule: "shape".to_owned(),
        says: format!("{}: {error}", error.instance_path()),
        source: TABLE.reference[api.name()].clone(),
        at: body.to_string(),
    })
}

fn of_model(api: Api, model: &str, body: &Value) -> Option<Violation> {
    let json: serde_json::Value = body.clone().into();
    for row in rows(api, model) {
        if let Some((pointer, values)) = &row.when
            && !json.pointer(pointer).is_some_and(|value| values.is_empty() || values.contains(value))
        {
            continue;
        }
        let refused = row.refuses.iter().find(|pointer| json.pointer(pointer).is_some());
        let other = row
            .only
            .iter()
            .find(|(pointer, values)| json.pointer(pointer).is_some_and(|value| !values.contains(value)));
        let is_outside = |value: &serde_json::Value, ranges: &[(i64, i64)]| {
            value.as_i64().is_none_or(|n| !ranges.iter().any(|(least, most)| (*least..=*most).contains(&n)))
        };
        let outside = row
            .within
            .iter()
            .find(|(pointer, ranges)| json.pointer(pointer).is_some_and(|value| is_outside(value, ranges)));
        let found = refused.or(other.map(|(pointer, _)| pointer)).or(outside.map(|(pointer, _)| pointer));
        if let Some(pointer) = found {
            return Some(Violation {
                rule: pointer.clone(),
                says: format!("{model}: {}", row.says),
                source: row.source.clone(),
                at: json.pointer(pointer).map(ToString::to_string).unwrap_or_default(),
            });
        }
    }
    None
}

/// Returns the names of all rules about conversations.
pub fn rule_names() -> impl Iterator<Item = &'static str> {
    TABLE.rule.keys().map(String::as_str)
}
