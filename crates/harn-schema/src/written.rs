//! Typos in handwritten schemas. An unknown type or a misspelt keyword checks nothing or rejects every value;
//! without this check the model would be blamed for it.

use harn_value::{Data as Value, data::Map};

use crate::{near::nearest, words};

/// All keywords of a schema: the spellings of Harn, JSON Schema and OpenAPI. Keys with the prefix `x-` or `$` are
/// accepted too.
const KEYWORDS: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "additional_properties",
    "allOf",
    "all_of",
    "anyOf",
    "components",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "discriminator",
    "else",
    "enum",
    "example",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "id",
    "if",
    "items",
    "max",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "max_items",
    "max_length",
    "maximum",
    "min",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "min_items",
    "min_length",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "union",
    "uniqueItems",
    "writeOnly",
    "xml",
];

/// Types of values without a JSON equivalent; they are described as strings.
const OTHER_TYPES: &[&str] = &["any", "closure", "duration", "enum", "struct", "range", "pair", "function"];

/// Maximum depth of the search.
const DEPTH: usize = 64;

/// Returns a message about the first typo in a schema; `place` is the location of the schema. `None` if it finds
/// none.
#[must_use]
pub fn slip(schema: &Value, place: &str) -> Option<String> {
    slip_at(schema, place, 0)
}

/// Returns a message if `word` is not a type.
#[must_use]
pub(crate) fn slip_of_type(word: &str, place: &str) -> Option<String> {
    if words::find(word).is_some() || OTHER_TYPES.contains(&word) {
        return None;
    }
    let hint = match nearest(word, types()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("types are {}", types().collect::<Vec<_>>().join(", ")),
    };
    Some(format!("{place}: unknown type \"{word}\"; {hint}"))
}

/// Returns the type that a misspelt type name probably means.
#[must_use]
pub fn meant_type(word: &str) -> Option<&'static str> {
    if words::find(word).is_some() || OTHER_TYPES.contains(&word) { None } else { nearest(word, types()) }
}

fn is_known(key: &str) -> bool {
    KEYWORDS.contains(&key) || key.starts_with("x-") || key.starts_with('$')
}

/// Returns the keyword that an unknown key probably means. Schemas may have additional keys such as `note` or
/// `units`, so short keywords are only suggested for small differences.
#[must_use]
pub(crate) fn meant_keyword(key: &str) -> Option<&'static str> {
    if is_known(key) {
        return None;
    }
    // The comparisons below cost a step per keyword.
    harn_value::steps::steps(KEYWORDS.len());
    // `any_of` means `anyOf`, not `all_of`.
    let letters = |word| str::bytes(word).filter(|byte| *byte != b'_').map(|byte| byte.to_ascii_lowercase());
    if let Some(same) = KEYWORDS.iter().find(|keyword| letters(keyword).eq(letters(key))) {
        return Some(same);
    }
    let near = |keyword: &&'static str| match keyword.len() {
        0..4 => key.len() == keyword.len(),
        4..6 => strsim::damerau_levenshtein(key, keyword) == 1,
        _ => true,
    };
    nearest(key, KEYWORDS.iter().copied().filter(near))
}

fn types() -> impl Iterator<Item = &'static str> {
    let own = words::WORDS.iter().map(|word| word.harn);
    let json = words::WORDS.iter().map(|word| word.json).filter(|json| words::harn(json) != *json);
    let mut seen = Vec::new();
    own.chain(json).filter(move |word| {
        let new = !seen.contains(word);
        seen.push(*word);
        new
    })
}

fn slip_at(schema: &Value, place: &str, depth: usize) -> Option<String> {
    let map = match schema {
        Value::Object(map) => map,
        // True accepts everything, false nothing.
        Value::Bool(_) => return None,
        other => {
            let got = other
                .as_str()
                .map_or_else(|| other.type_name().to_owned(), |text| format!("string `{text}`"));
            return Some(format!("{place} must be a schema such as {{type: \"int\"}}, got {got}"));
        }
    };
    if depth > DEPTH {
        return None;
    }
    slip_of_key(map, place).or_else(|| {
        map.iter().find_map(|(key, value)| slip_of_value(key, value, &format!("{place}.{key}"), depth + 1))
    })
}

/// Returns a message about a key that is similar to a keyword, or about a dict without any keyword, which probably
/// lists fields instead of constraints.
fn slip_of_key(map: &Map<String, Value>, place: &str) -> Option<String> {
    let unknown = || map.keys().filter(|key| !is_known(key));
    let near = unknown().find_map(|key| Some((key, meant_keyword(key)?)));
    if let Some((key, near)) = near {
        return Some(format!("{place}: unknown keyword `{key}`; did you mean `{near}`?"));
    }
    let key = unknown().next().filter(|_| !map.keys().any(|key| is_known(key)))?;
    let field = format!("{{type: \"dict\", properties: {{{key}: {{type: \"string\"}}}}}}");
    Some(format!("{place}: unknown keyword `{key}`; a dict with such a field is {field}"))
}

fn slip_of_value(key: &str, value: &Value, place: &str, depth: usize) -> Option<String> {
    let schemas = |list: &[Value]| {
        list.iter().enumerate().find_map(|(at, schema)| slip_at(schema, &format!("{place}[{at}]"), depth))
    };
    let wrong = |expected: &str| Some(format!("{place} must be {expected}, got {}", value.type_name()));
    match (key, value) {
        (_, Value::Null) => None,
        ("type", Value::String(word)) => slip_of_type(word, place),
        ("type", Value::Array(list)) => {
            let words = list.iter().enumerate();
            words
                .filter_map(|(at, word)| word.as_str().map(|word| (at, word)))
                .find_map(|(at, word)| slip_of_type(word, &format!("{place}[{at}]")))
        }
        ("type", _) => wrong("a type or a list of types"),
        ("properties" | "patternProperties" | "definitions" | "$defs", Value::Object(parts)) => {
            parts.iter().find_map(|(name, part)| slip_at(part, &format!("{place}.{name}"), depth))
        }
        ("properties", _) => wrong("a dict of schemas"),
        ("required", Value::Array(names)) if names.iter().all(Value::is_string) => None,
        // A bool in a property: the older OpenAPI spelling.
        ("required", Value::Bool(_)) => None,
        ("required", _) => wrong("a list of names"),
        ("enum", Value::Array(_)) => None,
        ("enum", _) => wrong("a list of values"),
        ("union" | "oneOf" | "anyOf" | "all_of" | "allOf" | "prefixItems", Value::Array(list)) => {
            schemas(list)
        }
        ("union" | "oneOf" | "anyOf" | "all_of" | "allOf" | "prefixItems", _) => wrong("a list of schemas"),
        // A list of schemas is the former spelling of `prefixItems`.
        ("items", Value::Array(list)) => schemas(list),
        (
            "items"
            | "additional_properties"
            | "additionalProperties"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames",
            schema,
        ) => slip_at(schema, place, depth),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    #[test]
    fn slips_are_named_with_what_was_meant() {
        for (schema, told) in [
            (json!({"type": "objct"}), "schema.type: unknown type \"objct\"; did you mean \"object\"?"),
            (
                json!({"type": "dict", "properties": {"a": {"type": "intt"}}}),
                "schema.properties.a.type: unknown type \"intt\"; did you mean \"int\"?",
            ),
            (
                json!({"type": "dict", "requird": ["a"]}),
                "schema: unknown keyword `requird`; did you mean `required`?",
            ),
            (
                json!({"a": "int"}),
                "schema: unknown keyword `a`; a dict with such a field is {type: \"dict\", properties: {a: {type: \"string\"}}}",
            ),
            (
                json!({"type": "dict", "properties": {"a": "int"}}),
                "schema.properties.a must be a schema such as {type: \"int\"}, got string `int`",
            ),
            (json!({"type": "dict", "required": "a"}), "schema.required must be a list of names, got string"),
            (
                json!({"type": "list", "items": {"type": ["int", "nul"]}}),
                "schema.items.type[1]: unknown type \"nul\"; did you mean \"nil\"?",
            ),
            (
                json!({"type": "list", "items": 5}),
                "schema.items must be a schema such as {type: \"int\"}, got int",
            ),
            (
                json!({"anyOf": [{"type": "foo"}]}),
                "schema.anyOf[0].type: unknown type \"foo\"; types are string, int, ",
            ),
        ] {
            let found = slip(&schema, "schema").unwrap_or_default();
            assert!(found.starts_with(told), "{schema}: {found}");
        }
    }

    #[test]
    fn what_is_meant_passes() {
        for schema in [
            json!({"id": "https://example.org/a", "type": "object"}),
            json!({}),
            json!({"type": "dict", "properties": {"requird": {"type": "any"}, "x": true}, "required": ["x"]}),
            json!({"$schema": "s", "$defs": {"a": {"type": "integer"}}, "$ref": "#/$defs/a", "x-note": 1, "comment": "own"}),
            json!({"type": "int", "note": "n", "notes": "n", "unit": "s", "units": "s", "label": "l", "name": "n", "hint": "h"}),
            json!({"type": ["string", "null"], "enum": [1], "default": {"tpye": 1}, "const": {"a": 1}, "examples": [{"b": 2}]}),
            json!({"additionalProperties": false, "items": [{"type": "bytes"}], "not": {}, "nullable": true, "min": 1}),
        ] {
            assert_eq!(slip(&schema, "schema"), None, "{schema}");
        }
    }
}
