//! `route_policy` of a call: what it says.

use harn_value::Data as Value;

use crate::error::OptionError;
use crate::json::{display, str_at};
use crate::options::shape::only_known;

/// Who chooses the model.
#[derive(Debug, Clone)]
pub(crate) enum RoutePolicy {
    /// This one.
    Always(String),
    /// The cheapest of at least this quality.
    Cheapest(String),
    /// The fastest of at least this quality.
    Fastest(String),
}

/// Reads the option; `None` leaves the choice to the other options.
///
/// # Errors
/// It is wrong.
pub(super) fn parse(value: &Value) -> Result<Option<RoutePolicy>, OptionError> {
    let target_of = |text: &str| {
        let text = text.trim().trim_matches(['"', '\'']);
        if text.is_empty() {
            return Err(OptionError::new("route_policy: target must not be empty"));
        }
        Ok(text.to_string())
    };
    match value {
        Value::Null | Value::Bool(false) => Ok(None),
        Value::String(text) => parse_text(text),
        dict @ Value::Object(fields) => {
            only_known("route_policy", fields, &["mode", "target", "quality", "id"])?;
            let mode = dict.get("mode").map(display).unwrap_or_default();
            let target = ["target", "quality", "id"].iter().find_map(|k| str_at(dict, k)).unwrap_or_default();
            match mode.as_str() {
                "manual" => Ok(None),
                "always" => Ok(Some(RoutePolicy::Always(target_of(target)?))),
                "cheapest_over_quality" => Ok(Some(RoutePolicy::Cheapest(target_of(target)?))),
                "fastest_over_quality" => Ok(Some(RoutePolicy::Fastest(target_of(target)?))),
                other => Err(OptionError::new(format!("route_policy.mode: unsupported value \"{other}\""))),
            }
        }
        _ => Err(OptionError::new("route_policy: expected string or dict")),
    }
}

/// Reads the text form, e.g. `cheapest_over_quality(low)`.
fn parse_text(text: &str) -> Result<Option<RoutePolicy>, OptionError> {
    let text = text.trim();
    if text == "manual" {
        return Ok(None);
    }
    let parts = text.strip_suffix(')').and_then(|t| t.split_once('('));
    let known = parts.and_then(|(name, target)| {
        let make: fn(String) -> RoutePolicy = match name.trim() {
            "always" => RoutePolicy::Always,
            "cheapest_over_quality" => RoutePolicy::Cheapest,
            "fastest_over_quality" => RoutePolicy::Fastest,
            _ => return None,
        };
        Some((make, target.trim().trim_matches(['"', '\'']).to_string()))
    });
    match known {
        Some((_, target)) if target.is_empty() => {
            Err(OptionError::new("route_policy: target must not be empty"))
        }
        Some((make, target)) => Ok(Some(make(target))),
        None => Err(OptionError::new(format!(
            "route_policy: expected manual, always(id), cheapest_over_quality(t), or fastest_over_quality(t), got \"{text}\""
        ))),
    }
}

/// Returns whether a text has the form of a routing policy.
pub(crate) fn is_policy_text(text: &str) -> bool {
    text.contains('(') && matches!(parse_text(text), Ok(Some(_)))
}
