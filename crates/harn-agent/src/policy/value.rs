//! What patterns say about the value of an argument. A model may give any value, whatever the parameter's type: a list of
//! texts is as much to be looked at as one.

use harn_value::{Data as Json, glob};

use super::path::{self, Paths};

/// Whether every part of a value is allowed by a pattern. A list is allowed when all of its entries are; what is missing
/// counts as an empty text, and a dict, nil or empty list, which no handler should take for a text, as forbidden. `paths` is
/// given for values that are paths.
pub(super) fn is_allowed(value: Option<&Json>, patterns: &[String], paths: Option<&dyn Paths>) -> bool {
    let fits = |text: &str| {
        patterns.iter().any(|pattern| match paths {
            Some(paths) => path::within(paths, pattern, text),
            None => glob(pattern, text),
        })
    };
    match value {
        None => fits(""),
        Some(Json::Array(items)) => {
            !items.is_empty()
                && items.iter().all(|item| !item.is_array() && is_allowed(Some(item), patterns, paths))
        }
        Some(value @ (Json::String(_) | Json::Number(_) | Json::Bool(_))) => fits(&value.printed()),
        Some(_) => false,
    }
}

/// Whether any part of a value is forbidden by a pattern: the value as it is printed, or what it holds at any depth.
pub(super) fn is_forbidden(value: &Json, patterns: &[String], paths: Option<&dyn Paths>) -> bool {
    let inside = match value {
        Json::Array(items) => items.iter().any(|item| is_forbidden(item, patterns, paths)),
        Json::Object(map) => map.values().any(|item| is_forbidden(item, patterns, paths)),
        _ => false,
    };
    let text = value.printed();
    let fits = |pattern: &String| match paths {
        Some(paths) => path::touches(paths, pattern, &text),
        None => glob(pattern, &text),
    };
    inside || patterns.iter().any(fits)
}

/// Whether there is a text in a value.
pub(super) fn holds_text(value: &Json) -> bool {
    match value {
        Json::String(_) => true,
        Json::Array(items) => items.iter().any(holds_text),
        Json::Object(map) => map.values().any(holds_text),
        _ => false,
    }
}
