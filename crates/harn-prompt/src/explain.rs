//! `prompt_explain`: the static system prompt of a set of options, with the provenance of every fragment.

use harn_value::{Data as Value, data::Map};

use crate::compare::{Difference, compare};
use crate::layered::cache_key;
use crate::options::{CallParts, OptionError, assemble, tools};
use crate::reduce::Assembly;
use crate::stability::stability_report;
use crate::value::{flag, names, object};

/// An assembled prompt, and optionally the same prompt without some tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The prompt of the given options.
    pub assembly: Assembly,
    /// The prompt of the same options with the tools of `without` removed.
    pub without: Option<Without>,
}

/// The prompt without some tools, for comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Without {
    /// The tools that were removed.
    pub tools: Vec<String>,
    /// The prompt without them.
    pub assembly: Assembly,
}

impl Explanation {
    /// Compares the two prompts; `None` when the options have no `without`.
    #[must_use]
    pub fn difference(&self) -> Option<Difference<'_>> {
        self.without.as_ref().map(|without| compare(&self.assembly, &without.assembly))
    }
}

/// Assembles the static prompt of `options`. Calls no model and changes nothing. Fragments of a live call (reminders,
/// tool contracts, displaced messages) are not included.
///
/// # Errors
/// The options are not a dict, a prompt part has a wrong shape, or `without` is not a list of names of the given tools.
pub fn explain(options: &Value) -> Result<Explanation, OptionError> {
    let Some(dict) = options.as_object() else {
        return Err(OptionError::NotADict {
            function: "prompt_explain",
            got: options.type_name().to_owned(),
        });
    };
    let assembly = assemble(dict, None, &CallParts::default(), None)?;
    let without = match dict.get("without") {
        None | Some(Value::Null) => None,
        Some(value @ (Value::Array(_) | Value::String(_))) => {
            let tools = names(value);
            let known: Vec<&str> = tools::given(dict).iter().filter_map(tools::entry_name).collect();
            if let Some(missing) = tools.iter().find(|name| !known.contains(&name.as_str())) {
                let known = known.iter().map(|name| (*name).to_owned()).collect();
                return Err(OptionError::WithoutUnknown { name: missing.clone(), known });
            }
            let reduced = without_tools(dict, &tools);
            Some(Without { assembly: assemble(&reduced, None, &CallParts::default(), None)?, tools })
        }
        Some(other) => return Err(OptionError::Without { got: other.type_name().to_owned() }),
    };
    Ok(Explanation { assembly, without })
}

/// Returns the options without the named tools in `tools`, which may be a list or a registry.
fn without_tools(options: &Map<String, Value>, removed: &[String]) -> Map<String, Value> {
    let mut options = options.clone();
    let list = match options.get_mut("tools") {
        Some(Value::Array(list)) => Some(list),
        Some(Value::Object(registry)) => registry.get_mut("tools").and_then(Value::as_array_mut),
        _ => None,
    };
    if let Some(list) = list {
        list.retain(|entry| !tools::entry_name(entry).is_some_and(|name| removed.iter().any(|r| r == name)));
    }
    options
}

/// Returns the result dict of the builtin `prompt_explain`.
///
/// It is `{system, fragments, included, excluded}`. With the option `without: [tool, ...]`, it also contains `without`
/// (`{tools, system, fragments, included, excluded}`) and `difference`. With `detail: true`, each fragment also has its
/// byte range (`start`, `end`, nil when excluded), and the result has `stability`.
///
/// # Errors
/// Those of [`explain`].
pub fn prompt_explain(options: &Value) -> Result<Value, OptionError> {
    let explanation = explain(options)?;
    let detail = options.as_object().is_some_and(|dict| flag(dict, "detail"));
    let mut result = assembly_json(&explanation.assembly, detail);
    if detail {
        result.insert("stability".into(), stability_report(&explanation.assembly).to_json());
    }
    if let (Some(without), Some(difference)) = (&explanation.without, explanation.difference()) {
        let mut other = Map::new();
        other.insert("tools".into(), without.tools.clone().into());
        other.extend(assembly_json(&without.assembly, detail));
        result.insert("without".into(), other.into());
        result.insert("difference".into(), difference.to_json());
    }
    Ok(result.into())
}

/// Returns the content of the transcript event `system_prompt`: `{content, hash, sha256, bytes}`, both hashes in the
/// form `sha256:<hex>`. Returns `None` when the hash equals `last`, so that an unchanged prompt is recorded once.
#[must_use]
pub fn system_prompt_record(content: &str, last: Option<&str>) -> Option<Value> {
    let hash = format!("sha256:{}", cache_key(content));
    let record = [
        ("content", content.into()),
        ("hash", hash.clone().into()),
        ("sha256", hash.clone().into()),
        ("bytes", content.len().into()),
    ];
    (last != Some(hash.as_str())).then(|| object(record))
}

/// Returns `{system, fragments, included, excluded}`; with `detail`, each fragment also has its byte range.
#[must_use]
pub fn assembly_json(assembly: &Assembly, detail: bool) -> Map<String, Value> {
    let entry = |p: &crate::reduce::Provenance| {
        let mut entry = p.to_json();
        if let (true, Value::Object(map)) = (detail, &mut entry) {
            map.insert("start".into(), p.range.as_ref().map(|r| r.start).into());
            map.insert("end".into(), p.range.as_ref().map(|r| r.end).into());
        }
        entry
    };
    let fragments: Vec<Value> = assembly.provenance.iter().map(entry).collect();
    let result = object([
        ("system", assembly.text.clone().into()),
        ("fragments", fragments.into()),
        ("included", assembly.included().into()),
        ("excluded", assembly.excluded().into()),
    ]);
    match result {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    #[test]
    fn the_worked_example_to_the_byte() {
        let result = prompt_explain(&json!({
            "system": "You help.",
            "tools": [{"name": "todo", "guidance": "Tick items."}, {"name": "read"}],
        }))
        .unwrap();
        let expected = json!({
            "system": "You help.\n\nTick items.",
            "fragments": [
                {"id": "primary", "source": "primary", "bucket": "before", "included": true,
                 "reason": "unconditional", "bytes": 9},
                {"id": "tool:todo.guidance", "source": "tool:todo", "bucket": "before", "included": true,
                 "reason": "tool(s) present: todo", "bytes": 11},
            ],
            "included": 2,
            "excluded": 0,
        });
        assert_eq!(result.to_string(), expected.to_string(), "also the order of keys");
    }

    #[test]
    fn removing_and_forbidding_a_tool_are_told_apart() {
        let tools = json!([{"name": "todo", "guidance": "Tick."}, {"name": "read"}]);
        let result = prompt_explain(&json!({"tools": tools, "without": ["todo"]})).unwrap();
        assert_eq!(result["without"]["fragments"], json!([]));
        assert_eq!(result["without"]["system"], json!(null));
        assert_eq!(result["without"]["tools"], json!(["todo"]));
        assert_eq!(result["difference"]["removed"], json!(["tool:todo.guidance"]));

        let forbidden = prompt_explain(&json!({"tools": tools, "policy": {"tools": ["read"]}})).unwrap();
        assert_eq!(forbidden["fragments"][0]["reason"], "requires tool `todo` (not available)");
        assert_eq!(forbidden["excluded"], 1);
    }

    #[test]
    fn without_also_takes_tools_out_of_a_registry_and_closes_gates() {
        let result = prompt_explain(&json!({
            "tools": {"_type": "tool_registry", "tools": [{"name": "todo", "guidance": "Tick."}]},
            "_system_fragments": [{"id": "n", "body": "N", "requires_tools": ["todo"]}],
            "without": "todo",
        }))
        .unwrap();
        assert_eq!(result["system"], "N\n\nTick.");
        assert_eq!(result["without"]["fragments"][0]["reason"], "requires tool `todo` (not available)");
        assert_eq!(result["without"]["included"], 0);
    }

    #[test]
    fn detail_adds_ranges_and_stability() {
        let result = prompt_explain(
            &json!({"system": "ab", "system_suffix": "c", "detail": true, "tool_search": true,
            "tools": [{"name": "t", "guidance": "g", "defer_loading": true}]}),
        )
        .unwrap();
        let ranges: Vec<_> =
            result["fragments"].as_array().unwrap().iter().map(|f| (&f["start"], &f["end"])).collect();
        assert_eq!(ranges, [(&json!(4), &json!(5)), (&json!(0), &json!(2)), (&json!(null), &json!(null))]);
        assert_eq!(result["stability"]["stable_prefix_bytes"], 5);
    }

    #[test]
    fn live_rows_and_reminders_are_left_out() {
        let result = prompt_explain(&json!({"system": "s", "session_id": "x", "output_schema": {"type": "object"},
            "transcript": {"_type": "transcript", "summary": "old"}, "messages": [{"role": "system", "content": "m"}]}))
        .unwrap();
        assert_eq!(result["system"], "s");
        assert_eq!(result["included"], 1);
    }

    #[test]
    fn a_prompt_is_recorded_when_it_changed() {
        let record = system_prompt_record("You help.", None).unwrap();
        assert_eq!(record["bytes"], 9);
        assert_eq!(record["hash"], record["sha256"]);
        let hash = record["hash"].as_str().unwrap();
        assert!(hash.starts_with("sha256:") && hash.len() == 7 + 64);
        assert_eq!(system_prompt_record("You help.", Some(hash)), None);
        assert!(system_prompt_record("You help!", Some(hash)).is_some());
    }

    #[test]
    fn errors_name_the_function() {
        let error = |value: Value| prompt_explain(&value).unwrap_err().to_string();
        assert_eq!(error(json!([])), "prompt_explain: options must be a dict, got list");
        assert_eq!(error(json!(null)), "prompt_explain: options must be a dict, got nil");
        assert_eq!(
            error(json!({"without": 3})),
            "prompt_explain: without must be a list of tool names, got int"
        );
        let tools = json!([{"name": "todo"}, {"name": "read", "defer_loading": true}]);
        assert_eq!(
            error(json!({"tools": tools, "without": ["read", "nope"]})),
            "prompt_explain: without names `nope`, which is none of the tools: todo, read"
        );
        assert_eq!(
            error(json!({"without": "nope"})),
            "prompt_explain: without names `nope`, but the options have no tools"
        );
        assert_eq!(
            error(json!({"system_prefix": 1})),
            "system_prefix: expected a string, dict, list, nil, or false; got int"
        );
    }
}
