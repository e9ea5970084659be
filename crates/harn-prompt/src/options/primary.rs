//! The primary block: `_system_fragments` (row 7a), or `system` and the context profile (rows 7b and 8).

use harn_value::{Data as Value, data::Map};

use super::OptionError;
use crate::fragment::{Bucket, Fragment};
use crate::value::{present, text};

/// Appends the entries of `_system_fragments`. Returns false when the option is not a list, so that rows 7b and 8
/// apply.
pub(crate) fn decomposed(
    options: &Map<String, Value>,
    list: &mut Vec<Fragment>,
) -> Result<bool, OptionError> {
    let Some(entries) = options.get("_system_fragments").and_then(Value::as_array) else {
        return Ok(false);
    };
    for (index, entry) in entries.iter().enumerate() {
        let Some(dict) = entry.as_object() else { continue };
        let place = format!("_system_fragments[{index}]");
        super::only_known(
            &place,
            dict,
            &["id", "source", "bucket", "body", "requires_tools", "requires_caps"],
        )?;
        let Some(body) = present(dict, "body") else { continue };
        let id = text(dict, "id").map_or_else(|| format!("primary[{index}]"), str::to_owned);
        let bucket = bucket(index, dict.get("bucket"))?;
        let source = text(dict, "source").unwrap_or("primary");
        list.push(gated(id, source, body.printed(), dict, &place)?.in_bucket(bucket));
    }
    Ok(true)
}

fn bucket(index: usize, value: Option<&Value>) -> Result<Bucket, OptionError> {
    let word = match value {
        None | Some(Value::Null) => return Ok(Bucket::Before),
        Some(value) => value.printed(),
    };
    match word.trim().to_lowercase().as_str() {
        "" | "before" => Ok(Bucket::Before),
        "after" => Ok(Bucket::After),
        _ => Err(OptionError::Bucket { index, got: word }),
    }
}

/// Returns the fragment of the system prompt, if there is one.
pub(super) fn system(options: &Map<String, Value>, argument: Option<&Value>) -> Option<Fragment> {
    let given = |value: Option<&Value>| system_text(value?);
    let body = given(argument).or_else(|| given(options.get("system")))?;
    Some(Fragment::new("primary", "primary", body))
}

/// Returns the content of a `system` value: `None` for nil, false and whitespace, else its `Value::printed` form.
pub(crate) fn system_text(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Bool(false) => None,
        other => Some(other.printed()).filter(|body| !body.trim().is_empty()),
    }
}

/// The ids of profile fragments that do not have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProfileIds {
    /// `profile[<index>]`, when the profile is an option of a direct call.
    Indexed,
    /// `profile`, when a loop forwards the fragments.
    Plain,
}

/// Returns the context profile of the options: `context_profile`, else `project_context_profile`.
#[must_use]
pub fn context_profile(options: &Map<String, Value>) -> Option<&Map<String, Value>> {
    ["context_profile", "project_context_profile"]
        .iter()
        .find_map(|key| present(options, key))
        .and_then(Value::as_object)
}

/// Returns the fragments of the context profile.
///
/// # Errors
/// A condition is not a list of names.
pub(crate) fn profile_fragments(
    options: &Map<String, Value>,
    ids: ProfileIds,
) -> Result<Vec<Fragment>, OptionError> {
    let entries = context_profile(options).and_then(|p| p.get("prompt_fragments")).and_then(Value::as_array);
    let mut list = Vec::new();
    for (index, entry) in entries.into_iter().flatten().enumerate() {
        let Some(dict) = entry.as_object() else { continue };
        let place = format!("context_profile.prompt_fragments[{index}]");
        let known = &["id", "source", "title", "body", "content", "requires_tools", "requires_caps"];
        super::only_known(&place, dict, known)?;
        let Some(body) = present(dict, "body").or_else(|| present(dict, "content")) else { continue };
        let default = || match ids {
            ProfileIds::Indexed => format!("profile[{index}]"),
            ProfileIds::Plain => "profile".to_owned(),
        };
        let id = text(dict, "id").map_or_else(default, str::to_owned);
        list.push(gated(id, text(dict, "source").unwrap_or("profile"), body.printed(), dict, &place)?);
    }
    Ok(list)
}

fn gated(
    id: String,
    source: &str,
    body: String,
    dict: &Map<String, Value>,
    place: &str,
) -> Result<Fragment, OptionError> {
    let gate = |key: &str| {
        let wrong = |got: &Value| OptionError::Gate { field: format!("{place}.{key}"), got: shown(got) };
        match present(dict, key) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| {
                    let name = item.as_str().filter(|name| !name.trim().is_empty());
                    name.map(str::to_owned).ok_or_else(|| wrong(item))
                })
                .collect(),
            Some(other) => Err(wrong(other)),
        }
    };
    Ok(Fragment {
        requires_tools: gate("requires_tools")?,
        requires_caps: gate("requires_caps")?,
        ..Fragment::new(id, source, body)
    })
}

/// Describes an invalid value for an error: its type, and its content if that is short.
fn shown(value: &Value) -> String {
    let (kind, text) = (value.type_name(), value.printed());
    if text.chars().count() > 40 { kind.to_owned() } else { format!("{kind} `{text}`") }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;
    use crate::options::{CallParts, assemble};
    use crate::reduce::Assembly;

    fn run(options: &Value, system: Option<&Value>) -> Result<Assembly, String> {
        let options = options.as_object().unwrap();
        assemble(options, system, &CallParts::default(), None).map_err(|e| e.to_string())
    }

    fn ids(assembly: &Assembly) -> Vec<&str> {
        assembly.provenance.iter().map(|p| p.id.as_str()).collect()
    }

    #[test]
    fn a_list_owns_the_primary_block_even_when_empty() {
        let options = json!({"system": "option", "_system_fragments": [],
            "context_profile": {"prompt_fragments": [{"body": "p"}]}});
        let assembly = run(&options, Some(&json!("argument"))).unwrap();
        assert_eq!(assembly.text, None);
        assert_eq!(assembly.provenance, []);
        let other = run(&json!({"system": "option", "_system_fragments": "no list"}), None).unwrap();
        assert_eq!(other.as_str(), "option");
    }

    #[test]
    fn entries_have_defaults_and_what_is_no_entry_is_skipped() {
        let options = json!({"_system_fragments": [
            "text", {"id": "x"}, {"body": "a"}, {"id": "primary:system", "source": "me", "body": "b", "bucket": ""},
            {"body": "c", "bucket": " AFTER "}, {"body": 5}, {"body": " "},
        ]});
        let assembly = run(&options, None).unwrap();
        assert_eq!(
            ids(&assembly),
            ["primary[2]", "primary:system", "primary[4]", "primary[5]", "primary[6]"]
        );
        assert_eq!(assembly.as_str(), "a\n\nb\n\n5\n\nc");
        assert_eq!(assembly.provenance[1].source, "me");
        assert_eq!(assembly.provenance[0].source, "primary");
        assert_eq!(assembly.provenance[4].reason.to_string(), "empty body");
    }

    #[test]
    fn a_bad_bucket_is_named() {
        let bad =
            |bucket: Value| run(&json!({"_system_fragments": [{}, {"body": "b", "bucket": bucket}]}), None);
        assert_eq!(
            bad(json!("Middle")).unwrap_err(),
            "_system_fragments[1].bucket must be \"before\" or \"after\"; got \"Middle\""
        );
        assert_eq!(
            bad(json!(3)).unwrap_err(),
            "_system_fragments[1].bucket must be \"before\" or \"after\"; got \"3\""
        );
        assert!(bad(json!(null)).is_ok());
    }

    #[test]
    fn entries_are_gated_by_themselves() {
        let options = json!({"tools": [{"name": "a"}], "caps": ["x"], "_system_fragments": [
            {"id": "1", "body": "1", "requires_tools": ["a"]},
            {"id": "2", "body": "2", "requires_tools": ["a", "b"]},
            {"id": "3", "body": "3", "requires_caps": ["x"]},
            {"id": "4", "body": "4", "requires_caps": ["y"], "requires_tools": null},
        ]});
        assert_eq!(run(&options, None).unwrap().as_str(), "1\n\n3");
    }

    #[test]
    fn gates_are_lists_of_names() {
        let error = |entry: Value| run(&json!({"_system_fragments": [{}, entry]}), None).unwrap_err();
        let gate = |value: Value| error(json!({"body": "b", "requires_tools": value}));
        let field = "_system_fragments[1].requires_tools must be a list of names; got";
        assert_eq!(gate(json!("a")), format!("{field} string `a`"));
        assert_eq!(gate(json!({"a": true})), format!("{field} dict `{{a: true}}`"));
        assert_eq!(gate(json!(["a", 1])), format!("{field} int `1`"));
        assert_eq!(gate(json!([" "])), format!("{field} string ` `"));
        let profile =
            json!({"context_profile": {"prompt_fragments": [{"body": "b", "requires_caps": true}]}});
        assert_eq!(
            run(&profile, None).unwrap_err(),
            "context_profile.prompt_fragments[0].requires_caps must be a list of names; got bool `true`"
        );
    }

    #[test]
    fn the_argument_wins_unless_blank() {
        let system =
            |argument: Value, option: Value| run(&json!({"system": option}), Some(&argument)).unwrap().text;
        assert_eq!(system(json!("a"), json!("o")).as_deref(), Some("a"));
        assert_eq!(system(json!(" "), json!("o")).as_deref(), Some("o"));
        assert_eq!(system(json!(null), json!("o")).as_deref(), Some("o"));
        assert_eq!(system(json!(false), json!(7)).as_deref(), Some("7"));
        assert_eq!(system(json!(null), json!(false)), None);
        assert_eq!(system(json!(null), json!("\n")), None);
    }

    #[test]
    fn profile_fragments_follow_the_system_text() {
        let options = json!({"system": "base", "project_context_profile": {
            "caps": ["language.rust"],
            "prompt_fragments": [
                {"id": "profile:rust", "source": "profile:rust", "body": "Rust.", "requires_caps": ["language.rust"]},
                {"content": "Plain."},
                {"id": "profile:go", "body": "Go.", "requires_caps": ["language.go"]},
            ],
        }});
        let assembly = run(&options, None).unwrap();
        assert_eq!(assembly.as_str(), "base\n\nRust.\n\nPlain.");
        assert_eq!(ids(&assembly), ["primary", "profile:rust", "profile[1]", "profile:go"]);
        let reasons: Vec<_> = assembly.provenance.iter().map(|p| p.reason.to_string()).collect();
        assert_eq!(reasons[1], "capabilit(ies) present: language.rust");
        assert_eq!(reasons[3], "requires capability `language.go` (not set)");
        assert_eq!(assembly.provenance[2].source, "profile");
    }

    #[test]
    fn context_profile_wins_over_its_long_name() {
        let profile = |name: &str| json!({"prompt_fragments": [{"body": name}]});
        let both = json!({"context_profile": profile("short"), "project_context_profile": profile("long")});
        assert_eq!(run(&both, None).unwrap().as_str(), "short");
        let long = json!({"context_profile": null, "project_context_profile": profile("long")});
        assert_eq!(run(&long, None).unwrap().as_str(), "long");
    }
}
