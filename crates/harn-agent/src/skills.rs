//! Skill registries: dicts `{_type: "skill_registry", skills: [entry, …]}`, with the same pure functions
//! as tool registries.

use harn_llm::options::nearest;
use harn_prompt::turn::CatalogEntry;
use harn_prompt::untrusted::quote_name;
use harn_value::{Data as Json, data::Map};
use harn_value::{Dict, List, Ref, Value};

use crate::registry::{Result, fail, is_tagged, tagged, text_of, with_items};
use crate::tool::letters;

const TYPE: &str = "skill_registry";

/// The key of a registry to which a loop adds the skills of its host.
pub const HOST_TOO: &str = "host";

const TEXT_FIELDS: [&str; 7] =
    ["short", "description", "when_to_use", "prompt", "invocation", "model", "effort"];
const LIST_FIELDS: [&str; 4] = ["paths", "allowed_tools", "mcp", "requires_mcp"];

/// Returns a registry without the host's skills.
fn closed(registry: Value) -> Value {
    let Some(dict) = registry.as_dict().filter(|dict| dict.contains(HOST_TOO)) else { return registry };
    let mut dict = (**dict).clone();
    dict.remove(HOST_TOO);
    dict.into()
}

/// Creates an empty registry.
pub fn empty() -> Value {
    tagged(TYPE, "skills", Vec::new())
}

/// Returns whether a value is a skill registry.
pub fn is_registry(value: &Value) -> bool {
    is_tagged(value, TYPE)
}

/// Returns the entries of a registry.
///
/// # Errors
/// `<function>: argument must be a skill registry (created with skill_registry())`
pub fn entries(function: &str, registry: &Value) -> Result<Ref<List>> {
    if !is_registry(registry) {
        return fail(format!(
            "{function}: argument must be a skill registry (created with skill_registry())"
        ));
    }
    let list = registry.as_dict().and_then(|d| d.get_str("skills")).and_then(Value::as_list);
    Ok(list.cloned().unwrap_or_else(|| Ref::new(List::new())))
}

/// Returns the id of an entry: `namespace/name` or `name`.
pub fn id_of(skill: &Value) -> String {
    catalog_entry(skill).id
}

/// Returns the entries of the option `skills`: those of a registry, or those of a list.
pub fn listed(value: &Value) -> Vec<Value> {
    let list = value.as_list().cloned();
    let list = list.or_else(|| value.as_dict()?.get_str("skills")?.as_list().cloned());
    list.map(|list| list.to_vec()).unwrap_or_default()
}

/// Adds a skill; a skill with the same name is replaced in place. `args`: registry, name, config.
///
/// # Errors
/// `skill_define: …`
pub fn define(args: &[Value]) -> Result<Value> {
    let [registry, name, config, ..] = args else {
        return fail("skill_define: requires registry, name, and config dict");
    };
    if !is_registry(registry) {
        return fail("skill_define: first argument must be a skill registry");
    }
    let name = match name.as_str() {
        Some(name) if name.chars().any(char::is_control) => {
            return fail("skill_define: skill name must be one line");
        }
        Some(name) if !name.trim().is_empty() => name.to_string(),
        _ => return fail("skill_define: skill name must be a non-empty string"),
    };
    let config = match config.to_dict() {
        Some(config) => config,
        None if config.is_nil() => Ref::new(Dict::new()),
        None => return fail("skill_define: third argument must be a config dict"),
    };
    check("skill_define", &as_data(&config)).or_else(fail)?;
    let mut entry = (*config).clone();
    entry.insert("name", name.as_str());
    if config.get_str("description").is_none_or(Value::is_nil) {
        entry.insert("description", config.get_str("short").cloned().unwrap_or_else(|| "".into()));
    }
    let mut skills = entries("skill_define", registry)?.to_vec();
    let known = skills.iter().position(|s| text_of(s, "name").as_deref() == Some(name.as_str()));
    match known {
        Some(at) => skills[at] = entry.into(),
        None => skills.push(entry.into()),
    }
    Ok(with_items(registry, "skills", skills))
}

/// Fields of other types, or fields that are only displayed.
const OTHER_FIELDS: [&str; 15] = [
    "name",
    "namespace",
    "body",
    "disable-model-invocation",
    "disable_model_invocation",
    "user-invocable",
    "user_invocable",
    "on_activate",
    "on_deactivate",
    "require_signature",
    "trusted_signers",
    "skill_dir",
    "source",
    "provenance",
    "metadata",
];

/// Converts the config of a skill to data; closures become opaque values.
fn as_data(config: &Dict) -> Map<String, Json> {
    let plain = |value: &Value| match value.type_name() {
        kind @ ("closure" | "builtin" | "function") => Json::opaque(kind, ""),
        kind => harn_value::json::to_data(value).unwrap_or_else(|_| Json::opaque(kind, "")),
    };
    let read = |value: &Value| match value.as_list() {
        Some(list) => list.iter().map(plain).collect(),
        None => plain(value),
    };
    config.iter().map(|(key, value)| (key.to_string(), read(value))).collect()
}

/// Validates the fields of a skill, because malformed limits would be ignored. `place` names the skill.
///
/// # Errors
/// A message that begins with `place` and names the invalid field.
pub(crate) fn check(place: &str, entry: &Map<String, Json>) -> std::result::Result<(), String> {
    let given = |key: &str| entry.get(key).filter(|value| !value.is_null());
    let wrong = |key: &str, what: &str| Err(format!("{place}: '{key}' must {what}"));
    for key in TEXT_FIELDS {
        if given(key).is_some_and(|v| !v.is_string()) {
            return wrong(key, "be a string");
        }
    }
    let is_name = |v: &Json| v.as_str().is_some_and(|name| !name.trim().is_empty());
    for key in LIST_FIELDS {
        let Some(value) = given(key) else { continue };
        let Some(list) = value.as_array() else { return wrong(key, "be a list") };
        // A server may be a dict that defines how to start it.
        if !list.iter().all(|v| is_name(v) || key.ends_with("mcp") && v.is_object()) {
            return wrong(key, "hold strings that are not blank");
        }
    }
    for key in ["disable-model-invocation", "disable_model_invocation", "user-invocable"] {
        if given(key).is_some_and(|v| !v.is_boolean()) {
            return wrong(key, "be a bool");
        }
    }
    for key in ["on_activate", "on_deactivate"] {
        if given(key).is_some_and(|v| !v.is_closure()) {
            return wrong(key, "be a closure");
        }
    }
    for tool in given("allowed_tools").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str)
    {
        match tool.split_once(':') {
            Some(("namespace", "")) => {
                return Err(format!(
                    "{place}: 'allowed_tools' entry 'namespace:' missing a tag after the colon"
                ));
            }
            None | Some(("namespace", _)) => {}
            Some(_) => {
                return Err(format!(
                    "{place}: 'allowed_tools' entry '{tool}' contains ':' — only the `namespace:<tag>` prefix is recognized"
                ));
            }
        }
    }
    slip(place, entry)
}

/// Rejects a key that is similar to a known one: if it were ignored, `allowed_tool` would limit nothing. Other keys
/// belong to the program.
fn slip(place: &str, entry: &Map<String, Json>) -> std::result::Result<(), String> {
    let known = || TEXT_FIELDS.into_iter().chain(LIST_FIELDS).chain(OTHER_FIELDS);
    for key in entry.keys().filter(|key| !known().any(|name| name == key.as_str())) {
        let same = known().find(|name| letters(name) == letters(key));
        let near = || nearest(key, known()).filter(|near| near.len() > 5);
        if let Some(near) = same.or_else(near) {
            return Err(format!("{place}: a skill has no key '{key}', did you mean '{near}'?"));
        }
    }
    Ok(())
}

/// Finds an entry by name.
///
/// # Errors
/// The first argument is not a registry.
pub fn find(registry: &Value, name: &str) -> Result<Option<Value>> {
    let skills = entries("skill_find", registry)?;
    Ok(skills.iter().find(|s| text_of(s, "name").as_deref() == Some(name)).cloned())
}

/// Retains the skills with these names, in registry order.
///
/// # Errors
/// The arguments have other types.
pub fn select(registry: &Value, names: &Value) -> Result<Value> {
    let skills = entries("skill_select", registry)?;
    let Some(names) = names.as_list() else {
        return fail("skill_select: second argument must be a list of skill names");
    };
    let names: Vec<String> = names.iter().map(Value::to_string).collect();
    let kept = skills.iter().filter(|s| text_of(s, "name").is_some_and(|n| names.contains(&n))).cloned();
    Ok(closed(with_items(registry, "skills", kept.collect())))
}

/// Removes the skill with this name.
///
/// # Errors
/// The first argument is not a registry.
pub fn remove(registry: &Value, name: &str) -> Result<Value> {
    let skills = entries("skill_remove", registry)?;
    let kept = skills.iter().filter(|s| text_of(s, "name").as_deref() != Some(name)).cloned();
    Ok(closed(with_items(registry, "skills", kept.collect())))
}

/// Returns the entries without their closures, as determined by `is_closure`.
///
/// # Errors
/// The argument is not a registry.
pub fn list(registry: &Value, is_closure: impl Fn(&Value) -> bool) -> Result<Vec<Value>> {
    let skills = entries("skill_list", registry)?;
    let plain = |skill: &Value| {
        let dict = skill.as_dict().map(|d| (**d).clone()).unwrap_or_default();
        let kept = dict.iter().filter(|(_, v)| !is_closure(v)).map(|(k, v)| (k.clone(), v.clone()));
        Value::from(kept.collect::<Dict>())
    };
    Ok(skills.iter().map(plain).collect())
}

/// Returns the plain listing of `skill_describe`.
///
/// # Errors
/// The argument is not a registry.
pub fn describe(registry: &Value) -> Result<String> {
    let skills = entries("skill_describe", registry)?;
    let mut lines: Vec<(String, String)> = skills
        .iter()
        .map(|skill| {
            let field = |key| text_of(skill, key).map(|t| quote_name(t.trim())).filter(|t| !t.is_empty());
            let name = field("name").unwrap_or_default();
            let mut line = match field("description") {
                Some(description) => format!("- {name}: {description}"),
                None => format!("- {name}"),
            };
            if let Some(when) = field("when_to_use") {
                line.push_str(&format!("\n  when: {when}"));
            }
            (name, line)
        })
        .collect();
    lines.sort();
    let body: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    let body = if body.is_empty() { "(none)".to_owned() } else { body.join("\n") };
    Ok(format!("Available skills:\n{body}"))
}

/// Returns the catalog entries of a registry, sorted by id.
///
/// # Errors
/// The argument is not a registry.
pub fn catalog(function: &str, registry: &Value) -> Result<Vec<CatalogEntry>> {
    let skills = entries(function, registry)?;
    let mut out: Vec<CatalogEntry> = skills.iter().map(catalog_entry).collect();
    out.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(out)
}

fn catalog_entry(skill: &Value) -> CatalogEntry {
    let field = |key| text_of(skill, key).filter(|t| !t.trim().is_empty());
    let name = field("name").unwrap_or_default();
    CatalogEntry {
        id: field("namespace").map_or_else(|| name.clone(), |ns| format!("{ns}/{name}")),
        description: field("short").or_else(|| field("description")).unwrap_or_default(),
        when_to_use: field("when_to_use").unwrap_or_default(),
    }
}

/// Substitutes the placeholders of a skill's body: `$ARGUMENTS`, `$1` … `$9`, `${HARN_…}` and `$$`.
pub fn render(body: &str, args: &[String], variable: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        let taken = placeholder(tail, args, &variable, &mut out);
        if taken == 0 {
            out.push('$');
        }
        rest = &tail[taken..];
    }
    out.push_str(rest);
    out
}

/// Writes the value of a placeholder; returns its length after the `$`, or 0 if it is not a placeholder.
fn placeholder(
    tail: &str,
    args: &[String],
    variable: &impl Fn(&str) -> Option<String>,
    out: &mut String,
) -> usize {
    if tail.starts_with('$') {
        out.push('$');
        return 1;
    }
    if tail.starts_with("ARGUMENTS") {
        out.push_str(&args.join(" "));
        return "ARGUMENTS".len();
    }
    if let Some(digit) = tail.chars().next().and_then(|c| c.to_digit(10)).filter(|d| *d > 0) {
        return match args.get(digit as usize - 1) {
            Some(arg) => {
                out.push_str(arg);
                1
            }
            None => 0,
        };
    }
    let name = tail.strip_prefix('{').and_then(|t| t.split_once('}')).map(|(name, _)| name);
    match name.filter(|n| n.starts_with("HARN_")).and_then(|n| Some((n, variable(n)?))) {
        Some((name, value)) => {
            out.push_str(&value);
            name.len() + 2
        }
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json::parse;

    fn with(name: &str, config: &str) -> Result<Value> {
        define(&[empty(), name.into(), parse(config).unwrap()])
    }

    #[test]
    fn a_skill_of_a_known_name_is_replaced_in_place() {
        let mut registry = empty();
        for (name, text) in [("a", "1"), ("b", "2"), ("a", "3")] {
            let config = parse(&format!(r#"{{"short": "{text}"}}"#)).unwrap();
            registry = define(&[registry, name.into(), config]).unwrap();
        }
        assert_eq!(describe(&registry).unwrap(), "Available skills:\n- a: 3\n- b: 2");
        assert_eq!(find(&registry, "a").unwrap().unwrap().to_string(), "{description: 3, name: a, short: 3}");
    }

    #[test]
    fn wrong_fields_are_named() {
        let error = |config: &str| with("s", config).unwrap_err().0;
        assert_eq!(error(r#"{"invocation": [1]}"#), "skill_define: 'invocation' must be a string");
        assert_eq!(error(r#"{"paths": "x"}"#), "skill_define: 'paths' must be a list");
        assert!(error(r#"{"allowed_tools": ["namespace:"]}"#).ends_with("missing a tag after the colon"));
        assert!(error(r#"{"allowed_tools": ["x:y"]}"#).contains("entry 'x:y' contains ':'"));
        assert_eq!(with(" ", "{}").unwrap_err().0, "skill_define: skill name must be a non-empty string");
        assert_eq!(define(&[]).unwrap_err().0, "skill_define: requires registry, name, and config dict");
    }

    #[test]
    fn placeholders_of_a_body() {
        let env = |name: &str| (name == "HARN_SKILL_DIR").then(|| "/s".to_owned());
        let args = ["x".to_owned(), "y z".to_owned()];
        assert_eq!(
            render("$ARGUMENTS|$1|$3|$0|${HARN_SKILL_DIR}|${HARN_NO}|${HOME}|$$5|$", &args, env),
            "x y z|x|$3|$0|/s|${HARN_NO}|${HOME}|$5|$"
        );
    }
}
