//! Matches patterns against argument values. A model may pass any value, regardless of the parameter's type: a list of
//! strings must be checked as carefully as a single string.

use harn_value::{Data as Json, glob};

use super::path::{self, Paths};

/// Returns whether the patterns allow every part of a value. All entries of a list must be allowed. A missing value is
/// treated as an empty string; a dict, nil and an empty list are never allowed. `paths` is set for values that are
/// paths.
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

/// Returns whether any pattern forbids a part of a value: its printed form, or a nested value at any depth.
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

/// Returns whether a value contains a string.
pub(super) fn holds_text(value: &Json) -> bool {
    match value {
        Json::String(_) => true,
        Json::Array(items) => items.iter().any(holds_text),
        Json::Object(map) => map.values().any(holds_text),
        _ => false,
    }
}
