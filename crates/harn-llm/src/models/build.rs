//! Converts the model list of LiteLLM to a table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::{Map, Value};

use super::table::HEAD;
use super::vendors::{is_regional, listed};

/// Feature names by their keys in the list.
const FEATURES: &[(&str, &str)] = &[
    ("supports_adaptive_thinking", "adaptive_thinking"),
    ("supports_assistant_prefill", "prefill"),
    ("supports_audio_input", "audio"),
    ("supports_forced_tool_use", "forced_tools"),
    ("supports_function_calling", "tools"),
    ("supports_legacy_thinking", "thinking_budget"),
    ("supports_native_structured_output", "native_schema"),
    ("supports_pdf_input", "pdf"),
    ("supports_prompt_caching", "cache"),
    ("supports_reasoning", "reasoning"),
    ("supports_response_schema", "schema"),
    ("supports_sampling_params", "sampling"),
    ("supports_tool_search", "tool_search"),
    ("supports_vision", "vision"),
    ("thinking_always_on", "thinking_always"),
];

const EFFORTS: &[&str] = &["none", "minimal", "xhigh", "max"];

/// Builds a table from the JSON of the list, dated `date`.
///
/// # Errors
/// The source is not a LiteLLM model list.
pub fn table_of_litellm(text: &str, date: &str, origin: &str) -> Result<String, String> {
    let list: Map<String, Value> =
        serde_json::from_str(text).map_err(|e| format!("not a model list of LiteLLM: {e}"))?;
    let mut rows = BTreeMap::new();
    let mut sources = BTreeSet::new();
    for (key, value) in &list {
        let Some((name, value)) = named(key, value) else { continue };
        sources.extend(source(value));
        // A model may be listed with and without a provider prefix; the entry without one is better maintained.
        rows.entry(name).or_insert(value);
    }
    if rows.is_empty() {
        return Err("not a model list of LiteLLM: no known provider has a model in it".to_owned());
    }
    let sources: Vec<&str> = sources.into_iter().collect();
    let mut out = format!("{HEAD}\tdate={date}\torigin={origin}\n");
    // Writing to a string cannot fail.
    for (n, url) in sources.iter().enumerate() {
        let _ = writeln!(out, "@{n}\t{url}");
    }
    for (name, value) in rows {
        let at = source(value).and_then(|url| sources.binary_search(&url).ok());
        out.push_str(&name);
        fields(value, &mut out);
        if let Some(at) = at {
            let _ = write!(out, "\tsource=@{at}");
        }
        out.push('\n');
    }
    Ok(out)
}

fn source(value: &Map<String, Value>) -> Option<&str> {
    let text = value.get("source")?.as_str()?.trim();
    (text.starts_with("http") && !text.contains(char::is_whitespace)).then_some(text)
}

/// Returns the name of a row, if the model belongs in the table.
fn named<'v>(key: &str, value: &'v Value) -> Option<(String, &'v Map<String, Value>)> {
    let value = value.as_object()?;
    let (name, provider) = listed(value.get("litellm_provider")?.as_str()?)?;
    if !matches!(value.get("mode")?.as_str()?, "chat" | "responses" | "completion") {
        return None;
    }
    if !value.contains_key("input_cost_per_token") && !value.contains_key("max_input_tokens") {
        return None;
    }
    let model =
        [name, provider].iter().find_map(|part| key.strip_prefix(part)?.strip_prefix('/')).unwrap_or(key);
    // Skips the prices of single regions and commitments at a cloud: `azure/eu/...`, `bedrock/us-east-1/...`.
    let regional = is_regional(name) && model.contains('/');
    let plain = |c: char| c.is_ascii_graphic() && c != '=';
    (!regional && model.chars().all(plain)).then(|| (format!("{provider}/{model}").to_lowercase(), value))
}

fn fields(value: &Map<String, Value>, out: &mut String) {
    let usd = |key: &str| value.get(key).and_then(Value::as_f64).map(per_million);
    let mut add = |key: &str, text: Option<String>| {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            let _ = write!(out, "\t{key}={text}");
        }
    };
    add("in", usd("input_cost_per_token"));
    add("out", usd("output_cost_per_token"));
    add("read", usd("cache_read_input_token_cost"));
    add("write", usd("cache_creation_input_token_cost"));
    add("hour", usd("cache_creation_input_token_cost_above_1hr"));
    add("above", above(value));
    let count =
        |key: &str| value.get(key).and_then(Value::as_f64).filter(|n| *n >= 1.0).map(|n| format!("{n:.0}"));
    add("context", count("max_input_tokens"));
    add("max", count("max_output_tokens"));
    let flag = |key: &str, name: &str| match value.get(key)?.as_bool()? {
        true => Some(name.to_owned()),
        false => Some(format!("!{name}")),
    };
    let mut can: Vec<String> = FEATURES.iter().filter_map(|(key, name)| flag(key, name)).collect();
    if value.get("mode").and_then(Value::as_str) == Some("responses") {
        can.push("responses_only".to_owned());
    }
    add("can", Some(can.join(",")));
    let efforts = EFFORTS.iter().filter_map(|name| flag(&format!("supports_{name}_reasoning_effort"), name));
    add("efforts", Some(efforts.collect::<Vec<_>>().join(",")));
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let day = text("deprecation_date").filter(|day| super::Days::parse(day).is_some());
    add("retires", day);
    let successor = text("successor_model").map(|name| match name.split_once('/') {
        Some((head, tail)) if listed(head).is_some() => tail.to_owned(),
        _ => name,
    });
    add("successor", successor);
}

/// Returns the prices of long prompts.
fn above(value: &Map<String, Value>) -> Option<String> {
    let (tokens, suffix) = [(128_000, "128k"), (200_000, "200k"), (256_000, "256k"), (272_000, "272k")]
        .into_iter()
        .find(|(_, k)| value.contains_key(&format!("input_cost_per_token_above_{k}_tokens")))?;
    let price = |key: &str| {
        value
            .get(&format!("{key}_above_{suffix}_tokens"))
            .and_then(Value::as_f64)
            .map(per_million)
            .unwrap_or_default()
    };
    let keys = [
        "input_cost_per_token",
        "output_cost_per_token",
        "cache_read_input_token_cost",
        "cache_creation_input_token_cost",
    ];
    Some(format!("{tokens}:{}", keys.map(price).join(",")))
}

/// Converts a price per token to a price per million tokens, without floating-point noise.
fn per_million(usd: f64) -> String {
    let text = format!("{:.6}", usd * 1e6);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{Catalog, Table};

    const LIST: &str = r#"{
        "sample_spec": {"mode": "one of: chat", "litellm_provider": "x"},
        "gpt-x": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 1.25e-06,
            "output_cost_per_token": 1e-05, "input_cost_per_token_above_272k_tokens": 2.5e-06,
            "output_cost_per_token_above_272k_tokens": 1.5e-05, "max_input_tokens": 272000, "max_output_tokens": 128000,
            "supports_function_calling": true, "supports_sampling_params": false, "supports_none_reasoning_effort": true,
            "supports_minimal_reasoning_effort": false,
            "deprecation_date": "2026-12-11", "successor_model": "gpt-y", "source": "https://example.com/prices"},
        "gemini/gemini-x": {"litellm_provider": "gemini", "mode": "chat", "max_input_tokens": 1048576, "successor_model": "gemini/gemini-y"},
        "bedrock/us-east-1/m": {"litellm_provider": "bedrock", "mode": "chat", "input_cost_per_token": 1},
        "dall-e": {"litellm_provider": "openai", "mode": "image_generation", "input_cost_per_token": 1}
    }"#;

    #[test]
    fn the_list_becomes_a_table() {
        let text = table_of_litellm(LIST, "2099-01-02", "litellm 1.2.3").unwrap();
        assert_eq!(
            text,
            "#harn-models-1\tdate=2099-01-02\torigin=litellm 1.2.3\n@0\thttps://example.com/prices\n\
             gemini/gemini-x\tcontext=1048576\tsuccessor=gemini-y\n\
             openai/gpt-x\tin=1.25\tout=10\tabove=272000:2.5,15,,\tcontext=272000\tmax=128000\tcan=tools,!sampling\
             \tefforts=none,!minimal\tretires=2026-12-11\tsuccessor=gpt-y\tsource=@0\n"
        );
        let catalog = Catalog::new(Some(Table::parse(text).unwrap()));
        let entry = catalog.find("openai", "gpt-x").unwrap();
        assert_eq!(entry.source.as_deref(), Some("https://example.com/prices"));
        assert_eq!(
            (entry.can("tools"), entry.can("sampling"), entry.can("pdf")),
            (Some(true), Some(false), None)
        );
        assert_eq!((entry.takes_effort("minimal"), entry.takes_effort("max")), (Some(false), None));
        assert!(entry.is_retired_on("2026-12-11") && !entry.is_retired_on("2026-12-10"));
        let pricing = entry.pricing.unwrap();
        assert_eq!((pricing.above.unwrap().tokens, pricing.above.unwrap().input), (272_000, Some(2.5)));
        assert!(catalog.find("bedrock", "m").is_none());
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["[]", "{}", "x"] {
            assert!(
                table_of_litellm(text, "2099-01-02", "x")
                    .unwrap_err()
                    .starts_with("not a model list of LiteLLM")
            );
        }
    }
}
