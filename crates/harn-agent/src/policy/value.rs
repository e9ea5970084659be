//! What patterns say about the value of an argument. A model may give any value, whatever the parameter's type: a list of
//! texts is as much to be looked at as one.

use harn_value::{Data as Json, glob};

use super::path;

/// Whether every part of a value is allowed by a pattern. A list is allowed when all of its entries are; what is missing
/// counts as an empty text, and a dict, nil or empty list, which no handler should take for a text, as forbidden.
pub(super) fn is_allowed(value: Option<&Json>, patterns: &[String], is_path: bool) -> bool {
    let fits = if is_path { path::within } else { glob };
    let fits = |text: &str| patterns.iter().any(|pattern| fits(pattern, text));
    match value {
        None => fits(""),
        Some(Json::Array(items)) => {
            !items.is_empty()
                && items.iter().all(|item| !item.is_array() && is_allowed(Some(item), patterns, is_path))
        }
        Some(value @ (Json::String(_) | Json::Number(_) | Json::Bool(_))) => fits(&value.printed()),
        Some(_) => false,
    }
}

/// Whether any part of a value is forbidden by a pattern: the value as it is printed, or what it holds at any depth.
pub(super) fn is_forbidden(value: &Json, patterns: &[String], is_path: bool) -> bool {
    let fits = if is_path { path::touches } else { glob };
    let inside = match value {
        Json::Array(items) => items.iter().any(|item| is_forbidden(item, patterns, is_path)),
        Json::Object(map) => map.values().any(|item| is_forbidden(item, patterns, is_path)),
        _ => false,
    };
    inside || patterns.iter().any(|pattern| fits(pattern, &value.printed()))
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
