//! The `tool_search` option: how deferred tools are found.

use harn_value::Data as Value;

use crate::error::OptionError;
use crate::json::display;
use crate::options::shape::only_known;

/// Which kind of query the model writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchVariant {
    /// Words.
    Bm25,
    /// A regular expression.
    Regex,
}

impl SearchVariant {
    /// Returns the word of the option.
    pub fn as_str(self) -> &'static str {
        match self {
            SearchVariant::Bm25 => "bm25",
            SearchVariant::Regex => "regex",
        }
    }
}

/// Who runs the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchMode {
    /// The provider if it can, else the client.
    Auto,
    /// The provider.
    Native,
    /// The client.
    Client,
}

/// How the client searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchStrategy {
    /// Ranked words.
    Bm25,
    /// A regular expression.
    Regex,
    /// The host ranks by meaning.
    Semantic,
    /// The host decides.
    Host,
}

impl SearchStrategy {
    /// Returns the word of the option.
    pub fn as_str(self) -> &'static str {
        match self {
            SearchStrategy::Bm25 => "bm25",
            SearchStrategy::Regex => "regex",
            SearchStrategy::Semantic => "semantic",
            SearchStrategy::Host => "host",
        }
    }
}

/// The parsed option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSearch {
    /// `variant`.
    pub variant: SearchVariant,
    /// `mode`.
    pub mode: SearchMode,
    /// `strategy`.
    pub strategy: SearchStrategy,
    /// `always_loaded`.
    pub always_loaded: Vec<String>,
    /// `budget_tokens`.
    pub budget_tokens: Option<i64>,
    /// `name` of the synthetic search tool.
    pub name: String,
    /// `include_stub_listing`.
    pub include_stub_listing: bool,
}

/// The synthetic search tool's name unless the option gives one.
pub(crate) const DEFAULT_SEARCH_TOOL: &str = "__harn_tool_search";

fn of_variant(variant: SearchVariant) -> ToolSearch {
    ToolSearch {
        variant,
        mode: SearchMode::Auto,
        strategy: match variant {
            SearchVariant::Bm25 => SearchStrategy::Bm25,
            SearchVariant::Regex => SearchStrategy::Regex,
        },
        always_loaded: Vec::new(),
        budget_tokens: None,
        name: DEFAULT_SEARCH_TOOL.to_string(),
        include_stub_listing: false,
    }
}

fn variant(word: &str) -> Result<SearchVariant, OptionError> {
    match word {
        "bm25" => Ok(SearchVariant::Bm25),
        "regex" => Ok(SearchVariant::Regex),
        other => Err(OptionError::new(format!(
            "tool_search.variant: expected \"bm25\" or \"regex\", got \"{other}\""
        ))),
    }
}

pub(super) fn parse(value: &Value) -> Result<Option<ToolSearch>, OptionError> {
    let dict = match value {
        Value::Null | Value::Bool(false) => return Ok(None),
        Value::Bool(true) => return Ok(Some(of_variant(SearchVariant::Bm25))),
        Value::String(word) => return Ok(Some(of_variant(variant(word)?))),
        Value::Object(dict) => dict,
        _ => {
            return Err(OptionError::new(
                // prose-ok: diagnostic
                "tool_search: expected bool, string (\"bm25\"/\"regex\"), or dict ({variant, mode, strategy, \
                 always_loaded, budget_tokens, name, include_stub_listing})",
            ));
        }
    };
    only_known(
        "tool_search",
        dict,
        &["variant", "mode", "strategy", "always_loaded", "budget_tokens", "name", "include_stub_listing"],
    )?;
    let wrong = |field: &str, what: &str| OptionError::new(format!("tool_search.{field}: expected {what}"));
    let get = |field: &str| dict.get(field).filter(|v| !v.is_null());
    let text = |field: &str| match get(field) {
        None => Ok(None),
        Some(Value::String(s)) => Ok(Some(s.as_str())),
        Some(_) => Err(wrong(field, "a string")),
    };
    let mut search = of_variant(text("variant")?.map_or(Ok(SearchVariant::Bm25), variant)?);
    search.mode = match text("mode")? {
        None | Some("auto") => SearchMode::Auto,
        Some("native") => SearchMode::Native,
        Some("client") => SearchMode::Client,
        Some(other) => {
            return Err(wrong("mode", &format!("\"auto\" | \"native\" | \"client\", got \"{other}\"")));
        }
    };
    search.strategy = match text("strategy")? {
        None => search.strategy,
        Some("bm25") => SearchStrategy::Bm25,
        Some("regex") => SearchStrategy::Regex,
        Some("semantic") => SearchStrategy::Semantic,
        Some("host") => SearchStrategy::Host,
        Some(other) => {
            return Err(wrong(
                "strategy",
                &format!("\"bm25\" | \"regex\" | \"semantic\" | \"host\", got \"{other}\""),
            ));
        }
    };
    match get("always_loaded") {
        None => {}
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
            search.always_loaded = names.iter().map(display).collect();
        }
        Some(_) => return Err(wrong("always_loaded", "a list of tool names")),
    }
    if let Some(value) = get("budget_tokens") {
        let tokens = value.as_i64().ok_or_else(|| wrong("budget_tokens", "an integer"))?;
        if tokens < 0 {
            return Err(wrong("budget_tokens", "a non-negative integer"));
        }
        search.budget_tokens = Some(tokens);
    }
    if let Some(name) = text("name")?.map(str::trim).filter(|n| !n.is_empty()) {
        search.name = name.to_string();
    }
    if let Some(value) = get("include_stub_listing") {
        search.include_stub_listing =
            value.as_bool().ok_or_else(|| wrong("include_stub_listing", "a bool"))?;
    }
    Ok(Some(search))
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn read(v: Value) -> Result<Option<ToolSearch>, String> {
        parse(&v).map_err(|e| e.0)
    }

    #[test]
    fn short_and_long_forms_agree() {
        assert_eq!(read(json!(true)), read(json!("bm25")));
        assert_eq!(read(json!("regex")), read(json!({"variant": "regex", "name": " "})));
        assert_eq!(read(json!(false)), Ok(None));
    }

    #[test]
    fn wrong_fields_are_named() {
        assert_eq!(
            read(json!("x")).unwrap_err(),
            "tool_search.variant: expected \"bm25\" or \"regex\", got \"x\""
        );
        assert_eq!(
            read(json!({"mode": "x"})).unwrap_err(),
            "tool_search.mode: expected \"auto\" | \"native\" | \"client\", got \"x\""
        );
        assert_eq!(
            read(json!({"always_loaded": "a"})).unwrap_err(),
            "tool_search.always_loaded: expected a list of tool names"
        );
        assert_eq!(
            read(json!({"alway_loaded": ["a"]})).unwrap_err(),
            "tool_search has no field `alway_loaded`; did you mean `always_loaded`?"
        );
        assert_eq!(
            read(json!({"budget_tokens": -1})).unwrap_err(),
            "tool_search.budget_tokens: expected a non-negative integer"
        );
        assert_eq!(read(json!({"name": 1})).unwrap_err(), "tool_search.name: expected a string");
        assert!(
            read(json!(3))
                .unwrap_err()
                .starts_with("tool_search: expected bool, string (\"bm25\"/\"regex\"), or")
        );
    }
}
