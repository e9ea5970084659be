//! Renders registries as text and as schemas.

use harn_value::Data as Json;
use harn_value::{Dict, Value, json};

use super::{Result, fail, name_of, text_of};

/// Returns the plain listing of `tool_describe`.
///
/// # Errors
/// The argument is not a registry.
pub fn describe(registry: &Value) -> Result<String> {
    if registry.as_dict().is_none() {
        return fail("tool_describe: requires a tool registry");
    }
    let lines: Vec<String> = listing("tool_describe", registry)?
        .iter()
        .map(|tool| {
            let mut line = format!("- {}({}): {}", tool.name, tool.parameters, tool.description);
            if let Some(returns) = &tool.returns {
                line.push_str(&format!("\n  returns {returns}"));
            }
            line
        })
        .collect();
    let body = if lines.is_empty() { "(none)".to_owned() } else { lines.join("\n") };
    Ok(format!("Available tools:\n{body}"))
}

/// A tool in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// `name: type` pairs, sorted and joined by commas.
    pub parameters: String,
    /// The result schema in the same form.
    pub returns: Option<String>,
}

/// Returns the tools of a registry for listings, sorted by name.
///
/// # Errors
/// The argument is not a registry.
pub fn listing(function: &str, registry: &Value) -> Result<Vec<Listed>> {
    let mut tools: Vec<Listed> = super::entries(function, registry)?
        .iter()
        .map(|entry| Listed {
            name: name_of(entry).unwrap_or_default(),
            description: text_of(entry, "description").unwrap_or_default(),
            parameters: part(entry, "parameters").map(|p| pairs(&p)).unwrap_or_default(),
            returns: part(entry, "outputSchema").map(|schema| pairs(&schema)),
        })
        .collect();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(tools)
}

fn part(entry: &Value, key: &str) -> Option<Value> {
    entry.as_dict()?.get_str(key).filter(|v| !v.is_nil()).cloned()
}

/// Formats a dict as `key: value` pairs, a reference as `$ref(NAME)`, and any other value in printed form.
fn pairs(schema: &Value) -> String {
    let Some(dict) = schema.as_dict() else { return schema.to_string() };
    if let Some(target) = dict.get_str("$ref") {
        return format!("$ref({target})");
    }
    let pairs: Vec<String> = dict.iter().map(|(key, value)| format!("{}: {value}", key.as_str())).collect();
    pairs.join(", ")
}

/// Returns the schema document of `tool_schema`.
///
/// # Errors
/// The argument is not a registry.
pub fn schema(registry: &Value, components: Option<&Value>) -> Result<Value> {
    if let Some(wrong) = components.filter(|components| components.as_dict().is_none()) {
        return super::fail(format!("tool_schema: components must be a dict, got {}", wrong.type_name()));
    }
    let tools: Vec<Value> = super::entries("tool_schema", registry)?
        .iter()
        .map(|entry| {
            let mut out = Dict::new();
            out.insert("name", name_of(entry).unwrap_or_default());
            out.insert("description", text_of(entry, "description").unwrap_or_default());
            out.insert("inputSchema", input_schema(part(entry, "parameters").as_ref(), components));
            if let Some(returns) = part(entry, "outputSchema") {
                out.insert("outputSchema", property(&returns, components));
            }
            Value::from(out)
        })
        .collect();
    let mut out = Dict::new();
    out.insert("schema_version", "harn-tools/1.0");
    out.insert("tools", tools);
    if let Some(components) = components {
        let mut schemas = Dict::new();
        schemas.insert("schemas", components.clone());
        out.insert("components", schemas);
    }
    Ok(out.into())
}

fn input_schema(parameters: Option<&Value>, components: Option<&Value>) -> Value {
    let mut out = Dict::new();
    out.insert("type", "object");
    let mut properties = Dict::new();
    let mut required: Vec<Value> = Vec::new();
    for (name, declared) in parameters.and_then(|p| p.as_dict()).iter().flat_map(|d| d.iter()) {
        let mut schema = property(declared, components);
        let flag = declared.as_dict().and_then(|d| d.get_str("required").and_then(Value::as_bool));
        let has_default = declared.as_dict().is_some_and(|d| d.get_str("default").is_some());
        // The flag belongs to the parameter; in JSON Schema, `required` is a list of an object's keys.
        if flag.is_some()
            && let Some(dict) = schema.as_dict_mut()
        {
            harn_value::Ref::make_mut(dict).remove("required");
        }
        properties.insert(name.clone(), schema);
        if flag != Some(false) && !has_default {
            required.push(name.into());
        }
    }
    out.insert("properties", properties);
    if !required.is_empty() {
        out.insert("required", required);
    }
    // References of a recursive type are resolved at the root.
    let out = Value::from(out);
    match json::to_data(&out) {
        Ok(data) => {
            let whole = harn_schema::hoisted(data.clone());
            if whole == data { out } else { json::from_data(&whole) }
        }
        Err(_) => out,
    }
}

fn property(declared: &Value, components: Option<&Value>) -> Value {
    let typed = |word: &str| {
        let mut dict = Dict::new();
        dict.insert("type", word);
        Value::from(dict)
    };
    if let Some(word) = declared.as_str() {
        return typed(harn_schema::words::json_or_text(word.as_str()));
    }
    let Some(dict) = declared.as_dict() else { return typed("string") };
    let Some(target) = dict.get_str("$ref").map(Value::to_string) else { return declared.clone() };
    let known = components.and_then(|c| c.as_dict()).and_then(|c| c.get_str(&target));
    known.cloned().unwrap_or_else(|| {
        let mut reference = Dict::new();
        reference.insert("$ref", format!("#/components/schemas/{target}"));
        reference.into()
    })
}

/// Returns the JSON values between `<tool_call>` tags; skips bodies that are not valid JSON.
pub fn parse_calls(text: &str) -> Vec<Value> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("<tool_call>") {
        let Some((body, tail)) = after.split_once("</tool_call>") else { break };
        out.extend(json::parse(body.trim()).ok());
        rest = tail;
    }
    out
}

/// Formats a result in the tag that corresponds to the calls of `tool_parse_call`.
pub fn format_result(name: &str, result: &str) -> String {
    let (name, result) = (Json::from(name), Json::from(result));
    format!("<tool_result>{{\"name\": {name}, \"result\": {result}}}</tool_result>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{define, empty};

    fn registry() -> Value {
        let tool = |r, name: &str, config: &str| {
            define(&[r, name.into(), format!("does {name}").into(), json::parse(config).unwrap()]).unwrap()
        };
        let r =
            tool(empty(), "b", r#"{"handler": null, "parameters": {"y": {"type": "string"}, "x": "int"}}"#);
        tool(r, "a", r#"{"handler": null, "returns": {"$ref": "Out"}, "parameters": {"q": {"$ref": "Q"}}}"#)
    }

    #[test]
    fn tools_are_described_by_name() {
        assert_eq!(describe(&empty()).unwrap(), "Available tools:\n(none)");
        assert_eq!(
            describe(&registry()).unwrap(),
            "Available tools:\n- a(q: $ref(Q)): does a\n  returns $ref(Out)\n- b(x: int, y: {type: string}): does b"
                .replace("q: $ref(Q)", "q: {$ref: Q}")
        );
        assert_eq!(describe(&Value::int(3)).unwrap_err().0, "tool_describe: requires a tool registry");
    }

    #[test]
    fn schemas_resolve_references() {
        let components = json::parse(r#"{"Q": {"type": "number"}}"#).unwrap();
        let text = json::stringify(&schema(&registry(), Some(&components)).unwrap());
        assert!(text.contains(r##""outputSchema":{"$ref":"#/components/schemas/Out"}"##), "{text}");
        assert!(text.contains(r#""properties":{"q":{"type":"number"}},"required":["q"]"#), "{text}");
        assert!(text.contains(r#""x":{"type":"integer"},"y":{"type":"string"}"#), "{text}");
    }

    #[test]
    fn calls_are_found_between_tags() {
        let found = parse_calls(
            "a <tool_call>{\"name\": \"x\"}</tool_call> <tool_call>no</tool_call> <tool_call>[1]",
        );
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].to_string(), "{name: x}");
        assert_eq!(
            format_result("n", "a\"b"),
            r#"<tool_result>{"name": "n", "result": "a\"b"}</tool_result>"#
        );
    }
}
