//! Tools as TypeScript-like declarations, for prompts that describe tools in text.

use std::collections::BTreeMap;

use harn_value::{Data as Value, json};

use crate::json::{display, list_at, str_at};
use crate::tools::ToolDef;

/// Returns the bindings of the tool contract, as strings: `expanded_schemas` (a declaration and a comment per tool,
/// sorted by name), `compact_schemas` (a bullet per compact tool), `shared_types` (a line per type that schemas refer
/// to).
pub fn declarations<'a>(tools: impl Iterator<Item = &'a ToolDef>) -> Value {
    let mut shared: BTreeMap<String, String> = BTreeMap::new();
    let mut sorted: Vec<&ToolDef> = tools.collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let (mut expanded, mut compact) = (Vec::new(), Vec::new());
    for tool in sorted {
        collect_refs(&tool.parameters, &tool.parameters, &mut shared);
        if tool.compact {
            let summary = first_sentence(&tool.description);
            let dash = if summary.is_empty() { "" } else { " — " };
            compact.push(format!("- `{}`{dash}{summary}", signature(tool)));
        } else {
            let types = type_text(&tool.parameters);
            let mut text = format!("declare function {}(args: {types}): string;", tool.name);
            if !tool.description.trim().is_empty() {
                text.push_str(&format!("\n/** {} */", tool.description.trim().replace("*/", "* /")));
            }
            expanded.push(text);
        }
    }
    let shared: Vec<String> =
        shared.into_iter().map(|(name, text)| format!("type {name} = {text};")).collect();
    json!({"expanded_schemas": expanded.join("\n\n"), "compact_schemas": compact.join("\n"),
           "shared_types": shared.join("\n")})
}

/// Returns the part up to the first full stop, question mark, exclamation mark or line end.
pub fn first_sentence(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let end = line.char_indices().find(|(at, c)| {
        matches!(c, '.' | '!' | '?')
            && line[at + c.len_utf8()..].chars().next().is_none_or(char::is_whitespace)
    });
    end.map_or(line, |(at, c)| &line[..at + c.len_utf8()]).to_string()
}

fn signature(tool: &ToolDef) -> String {
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    let Some(properties) = properties.filter(|p| !p.is_empty()) else { return format!("{}()", tool.name) };
    let keys: Vec<String> = ordered(&tool.parameters, properties)
        .into_iter()
        .map(|(name, schema, required)| {
            let mark = if required { "" } else { "?" };
            format!("{}{mark}: {}", key_text(name), type_text(schema))
        })
        .collect();
    format!("{}({{ {} }})", tool.name, keys.join(", "))
}

/// Returns the properties, required ones first.
fn ordered<'a>(schema: &Value, properties: &'a crate::json::Object) -> Vec<(&'a str, &'a Value, bool)> {
    let required: Vec<&str> = list_at(schema, "required").iter().filter_map(Value::as_str).collect();
    let all = || properties.iter().map(|(k, v)| (k.as_str(), v, required.contains(&k.as_str())));
    all().filter(|p| p.2).chain(all().filter(|p| !p.2)).collect()
}

/// Returns the name of a property, quoted unless it is an identifier.
fn key_text(name: &str) -> std::borrow::Cow<'_, str> {
    let is_word =
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-' || c == '$');
    if is_word { name.into() } else { literal(&name.into()).into() }
}

fn literal(value: &Value) -> String {
    value.to_string()
}

fn union(parts: Vec<String>) -> String {
    let mut seen: Vec<String> = Vec::new();
    for part in parts {
        if !seen.contains(&part) {
            seen.push(part);
        }
    }
    seen.join(" | ")
}

/// Returns the TypeScript type of a schema.
pub fn type_text(schema: &Value) -> String {
    let plain = plain_type(schema);
    if schema.get("nullable") == Some(&Value::Bool(true)) { format!("{plain} | null") } else { plain }
}

fn plain_type(schema: &Value) -> String {
    if let Some(reference) = str_at(schema, "$ref") {
        return reference.rsplit('/').next().unwrap_or("unknown").to_string();
    }
    if let Some(value) = schema.get("const") {
        return literal(value);
    }
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        return union(options.iter().map(literal).collect());
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(options) = schema.get(key).and_then(Value::as_array) {
            return union(options.iter().map(type_text).collect());
        }
    }
    if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
        return parts.iter().map(type_text).collect::<Vec<_>>().join(" & ");
    }
    match schema.get("type") {
        Some(Value::Array(types)) => {
            let each = |t: &Value| {
                let mut one = schema.clone();
                one["type"] = t.clone();
                plain_type(&one)
            };
            union(types.iter().map(each).collect())
        }
        Some(Value::String(word)) => match word.as_str() {
            "string" => "string".into(),
            "integer" | "number" | "int" | "float" => "number".into(),
            "boolean" | "bool" => "boolean".into(),
            "null" | "nil" => "null".into(),
            "any" => "any".into(),
            "array" | "list" => match schema.get("items") {
                Some(items) => {
                    let inner = type_text(items);
                    if inner.contains(" | ") || inner.contains(" & ") {
                        format!("({inner})[]")
                    } else {
                        format!("{inner}[]")
                    }
                }
                None => "any[]".into(),
            },
            "object" | "dict" => object_type(schema),
            _ => "unknown".into(),
        },
        _ if schema.get("properties").is_some() => object_type(schema),
        _ if schema.as_object().is_some_and(|m| m.is_empty()) => "any".into(),
        _ => "unknown".into(),
    }
}

fn object_type(schema: &Value) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return "object".into();
    };
    if properties.is_empty() {
        return "{}".into();
    }
    let fields: Vec<String> = ordered(schema, properties)
        .into_iter()
        .map(|(name, field, required)| {
            let mark = if required { "" } else { "?" };
            let mut notes = vec![if required { "required" } else { "optional" }.to_string()];
            notes.extend(str_at(field, "description").map(|d| d.replace("*/", "* /").replace('\n', " ")));
            notes.extend(limits(field));
            let shown = |value: &Value| display(value).replace("*/", "* /").replace('\n', " ");
            notes.extend(field.get("default").map(|d| format!("default {}", shown(d))));
            let example = field.get("example").or_else(|| list_at(field, "examples").first());
            notes.extend(example.map(|e| format!("example {}", shown(e))));
            format!("{}{mark}: {} /* {} */", key_text(name), type_text(field), notes.join(" — "))
        })
        .collect();
    format!("{{ {} }}", fields.join("; "))
}

/// Returns the limits of a field that its type does not show.
fn limits(field: &Value) -> Vec<String> {
    let bounds = |least: &str, most: &str, of: &str| {
        let (least, most) = (field.get(least).map(display), field.get(most).map(display));
        match (least, most) {
            (None, None) => None,
            (Some(least), Some(most)) => Some(format!("{least} to {most}{of}")),
            (Some(least), None) => Some(format!("at least {least}{of}")),
            (None, Some(most)) => Some(format!("at most {most}{of}")),
        }
    };
    let pattern =
        str_at(field, "pattern").map(|p| format!("matches {}", p.replace("*/", "* /").replace('\n', " ")));
    [
        bounds("minimum", "maximum", ""),
        bounds("minLength", "maxLength", " characters"),
        bounds("minItems", "maxItems", " items"),
        pattern,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Collects every `$ref` below `schema` with its target in `root`.
fn collect_refs(root: &Value, schema: &Value, out: &mut BTreeMap<String, String>) {
    match schema {
        Value::Object(map) => {
            if let Some(reference) = str_at(schema, "$ref") {
                let name = reference.rsplit('/').next().unwrap_or("unknown").to_string();
                if let Some(target) = reference.strip_prefix('#').and_then(|p| root.pointer(p))
                    && !out.contains_key(&name)
                {
                    out.insert(name, type_text(target));
                    collect_refs(root, target, out);
                }
            }
            map.values().for_each(|v| collect_refs(root, v, out));
        }
        Value::Array(items) => items.iter().for_each(|v| collect_refs(root, v, out)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::parse_tools;

    #[test]
    fn schemas_read_as_types() {
        assert_eq!(type_text(&json!({"type": "array", "items": {"enum": ["a", 1]}})), "(\"a\" | 1)[]");
        assert_eq!(type_text(&json!({"type": ["string", "null"]})), "string | null");
        assert_eq!(type_text(&json!({"type": "string", "nullable": true})), "string | null");
        assert_eq!(type_text(&json!({"allOf": [{"$ref": "#/$defs/A"}, {"type": "object"}]})), "A & object");
        assert_eq!(
            type_text(&json!({"type": "object", "required": ["b"], "properties": {
                "a": {"type": "integer", "default": 3}, "b": {"type": "string", "description": "d", "example": "x"}}})),
            "{ b: string /* required — d — example x */; a?: number /* optional — default 3 */ }"
        );
    }

    #[test]
    fn declarations_are_sorted_and_share_types() {
        let tools = parse_tools(&json!([
            {"name": "z", "description": "Last. More.", "compact": true},
            {"name": "b", "description": "Second"},
            {"name": "a", "parameters": {"type": "object", "properties": {"p": {"$ref": "#/$defs/P"}},
                "$defs": {"P": {"type": "integer"}}}}]))
        .unwrap();
        assert_eq!(
            declarations(tools.iter()),
            json!({
                "expanded_schemas": "declare function a(args: { p?: P /* optional */ }): string;\n\n\
                    declare function b(args: {}): string;\n/** Second */",
                "compact_schemas": "- `z()` — Last.", "shared_types": "type P = number;"})
        );
    }
}
