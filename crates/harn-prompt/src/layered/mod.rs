//! Layered prompts: renders named layers in a fixed order to a deterministic prompt with a content hash.

mod augment;
mod tools;

use std::fmt::Write as _;

use harn_value::{Data as Value, data::Map};
use sha2::{Digest, Sha256};

pub use augment::augment_prompt_tools;
pub(crate) use tools::tools_table;
pub use tools::{ToolRow, tool_rows};

use crate::value::object;
use harn_value::json::pretty_data;

/// The layers in order: key, heading, and type.
const LAYERS: [(&str, &str, Kind); 8] = [
    ("identity", "# Identity", Kind::Identity),
    ("communication", "# Communication", Kind::Lines),
    ("operational_rules", "# Operational Rules", Kind::Lines),
    ("tools", "# Tools", Kind::Tools),
    ("domain_knowledge", "# Domain Knowledge", Kind::Structured),
    ("safety", "# Safety", Kind::Lines),
    ("output_format", "# Output Format", Kind::Structured),
    ("examples", "# Examples", Kind::Structured),
];

#[derive(Clone, Copy)]
enum Kind {
    Identity,
    Lines,
    Tools,
    Structured,
}

/// A rendered prompt and its content hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayeredPrompt {
    /// The prompt.
    pub text: String,
    /// 64 lowercase hex digits, the SHA-256 of the prompt's UTF-8 bytes.
    pub cache_key: String,
}

impl LayeredPrompt {
    /// Wraps a rendered prompt.
    #[must_use]
    pub fn of(text: String) -> Self {
        Self { cache_key: cache_key(&text), text }
    }

    /// Parses the dict form `{text, cache_key}`; the key is computed again.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        let dict = value.as_object()?;
        let text = dict.get("text")?.as_str()?;
        dict.get("cache_key")?.as_str()?;
        Some(Self::of(text.to_owned()))
    }

    /// Returns `{text, cache_key}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([("text", self.text.clone().into()), ("cache_key", self.cache_key.clone().into())])
    }
}

/// Returns the SHA-256 of `text` as 64 lowercase hex digits.
#[must_use]
pub fn cache_key(text: &str) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// Layers that cannot be rendered. Programs catch the display form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayeredError {
    /// The argument is not a dict.
    #[error("layered_prompt: expected a dict of layers, got {0}")]
    NotADict(String),
    /// A key is not a known layer.
    #[error("layered_prompt: unknown key '{0}'")]
    UnknownKey(String),
    /// The identity is missing.
    #[error("layered_prompt: identity is required")]
    NoIdentity,
    /// The identity is not a string.
    #[error("layered_prompt: identity must be a string")]
    IdentityType,
    /// A layer of rules is neither a string nor a list of strings.
    #[error("layered_prompt: {0} must be a string or a list of strings")]
    LinesType(&'static str),
    /// The tools have a wrong shape.
    #[error("layered_prompt: tools must be a list of tool specs, dicts or names")]
    ToolsType,
    /// A tool's approval has a wrong shape.
    #[error("layered_prompt: tool approval must be a string or a dict with a string `kind`")]
    Approval,
    /// A structured layer contains a value that JSON cannot represent.
    #[error("layered_prompt: {key} contains an unsupported value of type {got}")]
    Unsupported {
        /// The layer's key.
        key: &'static str,
        /// The type found.
        got: String,
    },
    /// A structured layer contains a float that is not finite.
    #[error("layered_prompt: {0} contains a non-finite float")]
    NonFinite(&'static str),
}

/// Renders the layers of a dict in the fixed order, whatever the order of its keys. Skips empty layers.
///
/// # Errors
/// A key is unknown, the identity is missing, or a layer has a wrong type.
pub fn layered_prompt(layers: &Value) -> Result<LayeredPrompt, LayeredError> {
    let Some(layers) = layers.as_object() else {
        return Err(LayeredError::NotADict(layers.type_name().to_owned()));
    };
    if let Some(key) = layers.keys().find(|key| LAYERS.iter().all(|(known, ..)| known != key)) {
        return Err(LayeredError::UnknownKey(key.clone()));
    }
    let mut sections = Vec::new();
    for (key, heading, kind) in LAYERS {
        if let Some(body) = layer(layers, key, kind)? {
            sections.push(format!("{heading}\n{body}"));
        }
    }
    Ok(LayeredPrompt::of(sections.join("\n\n")))
}

/// Returns the body of one layer; `None` when it is empty.
fn layer(layers: &Map<String, Value>, key: &'static str, kind: Kind) -> Result<Option<String>, LayeredError> {
    let value = layers.get(key).unwrap_or(&Value::Null);
    if let Kind::Identity = kind {
        return match value {
            Value::Null => Err(LayeredError::NoIdentity),
            Value::String(text) if text.trim().is_empty() => Err(LayeredError::NoIdentity),
            Value::String(text) => Ok(Some(text.trim().to_owned())),
            _ => Err(LayeredError::IdentityType),
        };
    }
    let empty = match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if empty {
        // An empty dict is not a list of strings, but it has no content either.
        return Ok(None);
    }
    match kind {
        Kind::Identity => Ok(None),
        Kind::Lines => lines(key, value).map(Some),
        Kind::Tools => Ok(Some(tools_table(tool_rows(value)?)).filter(|table| !table.is_empty())),
        Kind::Structured => structured(key, value).map(Some),
    }
}

fn lines(key: &'static str, value: &Value) -> Result<String, LayeredError> {
    match value {
        Value::String(text) => Ok(text.trim().to_owned()),
        Value::Array(items) => {
            let bullet = |item: &Value| item.as_str().map(|text| format!("- {text}"));
            let bullets: Option<Vec<_>> = items.iter().map(bullet).collect();
            Ok(bullets.ok_or(LayeredError::LinesType(key))?.join("\n"))
        }
        _ => Err(LayeredError::LinesType(key)),
    }
}

fn structured(key: &'static str, value: &Value) -> Result<String, LayeredError> {
    if let Value::String(text) = value {
        return Ok(text.trim().to_owned());
    }
    check_json(key, value)?;
    Ok(format!("```json\n{}\n```", pretty_data(value)))
}

/// Rejects values without a JSON form; only opaque values have none.
fn check_json(key: &'static str, value: &Value) -> Result<(), LayeredError> {
    if let Some(foreign) = value.as_opaque() {
        return Err(match foreign.type_name {
            "float" => LayeredError::NonFinite(key),
            other => LayeredError::Unsupported { key, got: other.to_owned() },
        });
    }
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| check_json(key, item)),
        Value::Object(map) => map.values().try_for_each(|item| check_json(key, item)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn text(layers: Value) -> String {
        layered_prompt(&layers).unwrap().text
    }

    fn error(layers: Value) -> String {
        layered_prompt(&layers).unwrap_err().to_string()
    }

    #[test]
    fn the_contracts_example_to_the_byte() {
        let prompt = layered_prompt(&json!({
            "safety": "No refunds above the limit.",
            "identity": "You coordinate refunds.",
            "domain_knowledge": {"limits": {"auto": 50.0}, "currencies": ["EUR", "USD"]},
            "tools": ["send_mail", {"name": "lookup_order", "description": "Find an order by id.", "approval": "never"}],
            "operational_rules": ["Ask the planner first.", "Never guess an amount."],
            "communication": "Be brief.",
        }))
        .unwrap();
        assert_eq!(prompt.text.len(), 416);
        assert_eq!(prompt.cache_key, "c632bdb4352c01be7115c74776077eca161a43191e7ea43ae6d9277aaaabc346");
        assert_eq!(
            prompt.text,
            "# Identity\nYou coordinate refunds.\n\n# Communication\nBe brief.\n\n# Operational Rules\n\
             - Ask the planner first.\n- Never guess an amount.\n\n# Tools\n| Tool | Description | Approval |\n\
             | --- | --- | --- |\n| lookup_order | Find an order by id. | never |\n| send_mail |  |  |\n\n\
             # Domain Knowledge\n```json\n{\n  \"currencies\": [\n    \"EUR\",\n    \"USD\"\n  ],\n  \"limits\": {\n    \
             \"auto\": 50.0\n  }\n}\n```\n\n# Safety\nNo refunds above the limit."
        );
    }

    #[test]
    fn all_eight_layers_stand_in_order() {
        let layers = json!({"examples": "e", "output_format": "o", "safety": "s", "domain_knowledge": "d",
            "tools": ["t"], "operational_rules": "r", "communication": "c", "identity": "i"});
        let found = text(layers);
        let headings: Vec<_> = found.lines().filter(|l| l.starts_with("# ")).collect();
        assert_eq!(
            headings,
            [
                "# Identity",
                "# Communication",
                "# Operational Rules",
                "# Tools",
                "# Domain Knowledge",
                "# Safety",
                "# Output Format",
                "# Examples"
            ]
        );
    }

    #[test]
    fn empty_layers_are_left_out() {
        let layers = json!({"identity": " i ", "communication": null, "operational_rules": [], "safety": " \n",
            "tools": [], "domain_knowledge": {}, "output_format": [], "examples": ""});
        assert_eq!(text(layers), "# Identity\ni");
        assert_eq!(text(json!({"identity": "i", "tools": [" ", {"name": ""}]})), "# Identity\ni");
        assert_eq!(
            text(json!({"identity": "i", "tools": {"_type": "tool_registry", "tools": []}})),
            "# Identity\ni"
        );
    }

    #[test]
    fn structured_values_are_fenced_json_and_key_order_never_counts() {
        assert_eq!(
            text(json!({"identity": "i", "examples": [1, null]})),
            "# Identity\ni\n\n# Examples\n```json\n[\n  1,\n  null\n]\n```"
        );
        assert_eq!(
            text(json!({"identity": "i", "examples": false})),
            "# Identity\ni\n\n# Examples\n```json\nfalse\n```"
        );
        let one =
            layered_prompt(&json!({"identity": "i", "domain_knowledge": {"a": {"x": 1, "y": 2}, "b": 3}}));
        let two =
            layered_prompt(&json!({"domain_knowledge": {"b": 3, "a": {"y": 2, "x": 1}}, "identity": "i"}));
        assert_eq!(one, two);
    }

    #[test]
    fn strings_are_stripped_and_items_verbatim() {
        let layers = json!({"identity": "\n i\n", "communication": ["  two  ", "- x"], "safety": " a\n\nb "});
        assert_eq!(text(layers), "# Identity\ni\n\n# Communication\n-   two  \n- - x\n\n# Safety\na\n\nb");
    }

    #[test]
    fn errors_are_exact() {
        assert_eq!(error(json!({})), "layered_prompt: identity is required");
        assert_eq!(error(json!({"identity": null})), "layered_prompt: identity is required");
        assert_eq!(error(json!({"identity": " "})), "layered_prompt: identity is required");
        assert_eq!(error(json!({"identity": ["i"]})), "layered_prompt: identity must be a string");
        for key in ["communication", "operational_rules", "safety"] {
            for bad in [json!({"a": 1}), json!(["x", 1]), json!(3)] {
                let mut layers = Map::new();
                layers.insert("identity".into(), "i".into());
                layers.insert(key.into(), bad);
                assert_eq!(
                    error(layers.into()),
                    format!("layered_prompt: {key} must be a string or a list of strings")
                );
            }
        }
        assert_eq!(error(json!({"identity": "i", "tenant": "t"})), "layered_prompt: unknown key 'tenant'");
        assert_eq!(error(json!("i")), "layered_prompt: expected a dict of layers, got string");
        for key in ["domain_knowledge", "output_format", "examples"] {
            let with = |value: Value| {
                let mut layers = Map::new();
                layers.insert("identity".into(), "i".into());
                layers.insert(key.into(), json!({"deep": [value]}));
                error(layers.into())
            };
            assert_eq!(
                with(Value::opaque("set", "set(1)")),
                format!("layered_prompt: {key} contains an unsupported value of type set")
            );
            assert_eq!(
                with(Value::opaque("float", "NaN")),
                format!("layered_prompt: {key} contains a non-finite float")
            );
        }
    }
}
