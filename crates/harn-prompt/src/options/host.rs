//! Converts the six host options (rows 1–6), which may be strings, lists, nested lists and dicts, to fragments.

use harn_value::{Data as Value, data::Map};

use super::OptionError;
use crate::fragment::{Bucket, Fragment};
use crate::value::present;

/// The host options in declaration order, each with its bucket.
pub(crate) const HOST_OPTIONS: [(&str, Bucket); 6] = [
    ("system_preamble", Bucket::Before),
    ("system_prefix", Bucket::Before),
    ("system_context", Bucket::Before),
    ("system_prompt_parts", Bucket::Before),
    ("system_appendix", Bucket::After),
    ("system_suffix", Bucket::After),
];

/// The fields of a part.
const FIELDS: &[&str] =
    &["content", "text", "prompt", "parts", "label", "title", "name", "position", "enabled"];

/// Returns whether any host option is set (rows 1–6).
#[must_use]
pub fn any(options: &Map<String, Value>) -> bool {
    HOST_OPTIONS
        .iter()
        .any(|(name, _)| !matches!(options.get(*name), None | Some(Value::Null | Value::Bool(false))))
}

/// Checks the host options.
///
/// # Errors
/// An option is not a valid prompt part.
pub fn check(options: &Map<String, Value>) -> Result<(), OptionError> {
    declare(options, &mut Vec::new())
}

/// Appends the fragments of all host options.
pub(super) fn declare(options: &Map<String, Value>, list: &mut Vec<Fragment>) -> Result<(), OptionError> {
    for (name, bucket) in HOST_OPTIONS {
        if let Some(value) = options.get(name) {
            expand(name, bucket, value, list)?;
        }
    }
    Ok(())
}

/// Appends the fragments of one value. `path` is the option's name, followed by the indices of the value.
fn expand(path: &str, bucket: Bucket, value: &Value, list: &mut Vec<Fragment>) -> Result<(), OptionError> {
    match value {
        Value::Null | Value::Bool(false) => Ok(()),
        Value::String(body) => {
            list.push(part(path, bucket, body.clone()));
            Ok(())
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(i, item)| expand(&format!("{path}[{i}]"), bucket, item, list)),
        _ => match value.as_object() {
            Some(dict) => expand_dict(path, bucket, dict, list),
            None => Err(OptionError::HostType { option: path.to_owned(), got: value.type_name().to_owned() }),
        },
    }
}

fn expand_dict(
    path: &str,
    bucket: Bucket,
    dict: &Map<String, Value>,
    list: &mut Vec<Fragment>,
) -> Result<(), OptionError> {
    super::only_known(path, dict, FIELDS)?;
    if matches!(dict.get("enabled"), Some(Value::Null | Value::Bool(false))) {
        return Ok(());
    }
    let bucket = position(path, bucket, dict.get("position"))?;
    let title = ["label", "title", "name"].iter().find_map(|key| present(dict, key)).map(Value::printed);
    let title = title.as_deref().map(str::trim).filter(|title| !title.is_empty());
    if let Some(parts) = dict.get("parts").filter(|p| !p.is_null()) {
        let from = list.len();
        expand(path, bucket, parts, list)?;
        // The parts remain separate fragments; the first one with a body gets the heading.
        let first = list[from..].iter_mut().find(|fragment| !fragment.body.trim().is_empty());
        if let (Some(title), Some(first)) = (title, first) {
            first.body = headed(title, first.body.trim());
        }
        return Ok(());
    }
    let keys = ["content", "text", "prompt"];
    let content = match keys.iter().find_map(|key| present(dict, key)) {
        Some(content) => content.printed(),
        // A key with nil is a part without content; a dict without any of the keys is an error.
        None if keys.iter().chain(["parts"].iter()).any(|key| dict.contains_key(*key)) => String::new(),
        None => return Err(OptionError::NoText { option: path.to_owned() }),
    };
    let content = content.trim();
    let body = match title {
        Some(title) if !content.is_empty() => headed(title, content),
        _ => content.to_owned(),
    };
    list.push(part(path, bucket, body));
    Ok(())
}

/// Adds a heading to the content.
fn headed(title: &str, content: &str) -> String {
    format!("## {title}\n{content}")
}

fn position(path: &str, inherited: Bucket, value: Option<&Value>) -> Result<Bucket, OptionError> {
    match value {
        None | Some(Value::Null) => Ok(inherited),
        Some(Value::String(word)) => match word.as_str() {
            "before" | "prepend" | "prefix" | "start" => Ok(Bucket::Before),
            "after" | "append" | "suffix" | "end" => Ok(Bucket::After),
            _ => Err(OptionError::Position { option: path.to_owned(), got: word.clone() }),
        },
        Some(other) => {
            Err(OptionError::PositionType { option: path.to_owned(), got: other.type_name().to_owned() })
        }
    }
}

fn part(path: &str, bucket: Bucket, body: String) -> Fragment {
    let name = format!("host:{path}");
    Fragment::new(name.clone(), name, body).in_bucket(bucket)
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn parts(value: Value) -> Result<Vec<(String, String, &'static str)>, String> {
        let mut list = Vec::new();
        expand("o", Bucket::Before, &value, &mut list).map_err(|e| e.to_string())?;
        Ok(list.into_iter().map(|f| (f.id, f.body, f.bucket.as_str())).collect())
    }

    fn one(value: Value) -> (String, String, &'static str) {
        parts(value).unwrap().remove(0)
    }

    #[test]
    fn nil_and_false_are_nothing() {
        assert_eq!(parts(json!(null)).unwrap(), []);
        assert_eq!(parts(json!(false)).unwrap(), []);
        assert_eq!(parts(json!([null, false])).unwrap(), []);
    }

    #[test]
    fn lists_nest_and_ids_carry_indices() {
        let found = parts(json!(["a", ["b", null, "c"], {"content": "d"}])).unwrap();
        let ids: Vec<_> = found.iter().map(|(id, body, _)| (id.as_str(), body.as_str())).collect();
        assert_eq!(
            ids,
            [("host:o[0]", "a"), ("host:o[1][0]", "b"), ("host:o[1][2]", "c"), ("host:o[2]", "d")]
        );
    }

    #[test]
    fn dict_text_comes_from_the_first_present_key() {
        assert_eq!(one(json!({"prompt": "p", "text": "t", "content": "c"})).1, "c");
        assert_eq!(one(json!({"prompt": "p", "text": "t"})).1, "t");
        assert_eq!(one(json!({"prompt": "p", "content": null})).1, "p");
        assert_eq!(one(json!({"content": 5})).1, "5");
        assert_eq!(one(json!({"content": [1, "a"]})).1, "[1, a]");
        assert_eq!(one(json!({"content": null})).1, "");
        assert_eq!(
            parts(json!([{"title": "T"}])).unwrap_err(),
            "o[0]: system prompt part must include `content`, `text`, `prompt`, or `parts`"
        );
    }

    #[test]
    fn titles_make_a_heading() {
        assert_eq!(one(json!({"title": "Rules", "content": " be brief\n"})).1, "## Rules\nbe brief");
        assert_eq!(one(json!({"name": "n", "title": "t", "label": "l", "content": "c"})).1, "## l\nc");
        assert_eq!(one(json!({"name": "n", "title": "t", "content": "c"})).1, "## t\nc");
        assert_eq!(one(json!({"title": "  ", "content": "c"})).1, "c");
        assert_eq!(one(json!({"title": "T", "content": " "})).1, "", "a heading alone is no content");
    }

    #[test]
    fn a_title_stands_above_parts() {
        let bodies =
            |value: Value| parts(value).unwrap().into_iter().map(|(_, body, _)| body).collect::<Vec<_>>();
        assert_eq!(bodies(json!({"title": "T", "parts": [" ", "a", "b"]})), [" ", "## T\na", "b"]);
        assert_eq!(
            bodies(json!({"title": "T", "parts": [{"title": "U", "content": "u"}]})),
            ["## T\n## U\nu"]
        );
        assert_eq!(one(json!({"name": "T", "parts": "p "})).1, "## T\np");
        assert_eq!(
            bodies(json!({"title": "T", "parts": [{"content": null}]})),
            [""],
            "a heading alone is no content"
        );
        assert_eq!(bodies(json!(["x", {"title": "T", "parts": []}])), ["x"]);
    }

    #[test]
    fn enabled_false_or_nil_drops_the_part() {
        assert_eq!(parts(json!({"content": "c", "enabled": false})).unwrap(), []);
        assert_eq!(parts(json!({"content": "c", "enabled": null})).unwrap(), []);
        assert_eq!(parts(json!({"enabled": false})).unwrap(), [], "dropped before its text is asked for");
        assert_eq!(parts(json!({"content": "c", "enabled": 0})).unwrap().len(), 1);
    }

    #[test]
    fn position_has_synonyms_and_is_inherited() {
        for word in ["before", "prepend", "prefix", "start"] {
            assert_eq!(one(json!({"content": "c", "position": word})).2, "before");
        }
        for word in ["after", "append", "suffix", "end"] {
            assert_eq!(one(json!({"content": "c", "position": word})).2, "after");
        }
        let found =
            parts(json!({"position": "after", "parts": ["a", {"content": "b", "position": "before"}, [
            {"content": "c", "position": null}]]}))
            .unwrap();
        let buckets: Vec<_> = found.iter().map(|(id, _, bucket)| (id.as_str(), *bucket)).collect();
        assert_eq!(buckets, [("host:o[0]", "after"), ("host:o[1]", "before"), ("host:o[2][0]", "after")]);
    }

    #[test]
    fn parts_win_over_text() {
        assert_eq!(one(json!({"content": "c", "parts": "p"})).1, "p");
        assert_eq!(parts(json!({"content": "c", "parts": []})).unwrap(), []);
        assert_eq!(one(json!({"content": "c", "parts": null})).1, "c");
    }

    #[test]
    fn errors_name_the_option_with_indices() {
        assert_eq!(
            parts(json!(["a", [true]])).unwrap_err(),
            "o[1][0]: expected a string, dict, list, nil, or false; got bool"
        );
        assert_eq!(
            parts(json!(1.5)).unwrap_err(),
            "o: expected a string, dict, list, nil, or false; got float"
        );
        assert_eq!(
            parts(Value::opaque("closure", "<fn()>")).unwrap_err(),
            "o: expected a string, dict, list, nil, or false; got closure"
        );
        assert_eq!(
            parts(json!({"content": "c", "position": "middle"})).unwrap_err(),
            "o.position: expected \"before\" or \"after\", got \"middle\""
        );
        assert_eq!(
            parts(json!([{"content": "c", "position": 1}])).unwrap_err(),
            "o[0].position: expected a string, got int"
        );
    }

    #[test]
    fn any_sees_what_is_set() {
        assert!(!any(json!({"system_prefix": null, "system_suffix": false, "system": "x"})
            .as_object()
            .unwrap()));
        assert!(any(json!({"system_suffix": "x"}).as_object().unwrap()));
    }
}
