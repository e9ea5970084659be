//! The `thinking` and `reasoning_effort` options.

use harn_schema::options::Options;
use harn_value::{Data as Value, json};

use crate::error::OptionError;
use crate::json::display;
use crate::options::shape::{only_known, shown};

/// How hard the model shall reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Not at all.
    None,
    /// As little as possible.
    Minimal,
    /// Little.
    Low,
    /// Moderately.
    Medium,
    /// Much.
    High,
    /// More.
    XHigh,
    /// As much as possible.
    Max,
}

impl Effort {
    /// Returns the word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Effort::None => "none",
            Effort::Minimal => "minimal",
            Effort::XHigh => "xhigh",
            Effort::Max => "max",
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
        }
    }

    fn from_word(word: &str) -> Option<Effort> {
        let all = [
            Effort::None,
            Effort::Minimal,
            Effort::Low,
            Effort::Medium,
            Effort::High,
            Effort::XHigh,
            Effort::Max,
        ];
        all.into_iter().find(|e| e.as_str() == word)
    }
}

/// Whether and how the model reasons before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thinking {
    /// Not asked for.
    #[default]
    Disabled,
    /// On, with an optional budget in tokens.
    Enabled {
        /// At most this many reasoning tokens.
        budget_tokens: Option<i64>,
    },
    /// The model decides how much.
    Adaptive,
    /// A level of effort.
    Effort(Effort),
}

impl Thinking {
    /// Returns whether reasoning is asked for at all.
    pub fn is_on(self) -> bool {
        self != Thinking::Disabled
    }

    /// Returns the dict recorded in mock calls and logs.
    pub fn to_json(self) -> Value {
        match self {
            Thinking::Disabled => json!({"mode": "disabled"}),
            Thinking::Enabled { budget_tokens } => json!({"mode": "enabled", "budget_tokens": budget_tokens}),
            Thinking::Adaptive => json!({"mode": "adaptive"}),
            Thinking::Effort(level) => json!({"mode": "effort", "level": level.as_str()}),
        }
    }
}

/// The options about reasoning.
#[derive(Options)]
#[options(data)]
pub(super) struct ThinkingOptions {
    /// Reasoning: `true` or `"enabled"`, `{budget_tokens: 4000}`, `"adaptive"`, or an effort as in `reasoning_effort`.
    #[option(ty = "bool | string | dict", dependent, foreign = ["thinking_budget"])]
    thinking: Option<Value>,
    /// `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`, as far as the model supports it.
    #[option(ty = "string | bool", foreign = ["reasoning"])]
    reasoning_effort: Option<Value>,
}

/// Reads both options.
pub(super) fn parse(given: ThinkingOptions) -> Result<Thinking, OptionError> {
    let thinking = parse_thinking(given.thinking.as_ref().unwrap_or(&Value::Null))?;
    let effort = match given.reasoning_effort {
        None | Some(Value::Bool(false)) => return Ok(thinking),
        Some(value) => level("reasoning_effort", &value)?,
    };
    if thinking.is_on() {
        return Err(OptionError::new(
            "reasoning_effort cannot be combined with a non-disabled thinking option",
        ));
    }
    Ok(Thinking::Effort(effort))
}

fn level(field: &str, value: &Value) -> Result<Effort, OptionError> {
    value.as_str().and_then(Effort::from_word).ok_or_else(|| {
        OptionError::new(format!(
            "{field}: expected \"none\" | \"minimal\" | \"low\" | \"medium\" | \"high\" | \"xhigh\" | \"max\", got \"{}\"",
            display(value)
        ))
    })
}

fn parse_thinking(value: &Value) -> Result<Thinking, OptionError> {
    let wrong = || {
        OptionError::new(format!(
            // prose-ok: diagnostic
            "thinking: expected bool, dict, or one of \"enabled\" | \"adaptive\" | \"low\" | \"medium\" | \"high\", got \"{}\"",
            display(value)
        ))
    };
    let enabled = Thinking::Enabled { budget_tokens: None };
    Ok(match value {
        Value::Null | Value::Bool(false) => Thinking::Disabled,
        Value::Bool(true) => enabled,
        Value::String(word) => match word.to_lowercase().as_str() {
            "disabled" | "off" | "none" | "false" => Thinking::Disabled,
            "enabled" | "on" | "true" => enabled,
            "adaptive" => Thinking::Adaptive,
            other => Thinking::Effort(Effort::from_word(other).ok_or_else(wrong)?),
        },
        Value::Object(map) => {
            only_known("thinking", map, &["enabled", "mode", "level", "budget_tokens"])?;
            let on = map.get("enabled").filter(|on| !on.is_null() && !on.is_boolean());
            if let Some(on) = on {
                return Err(OptionError::new(format!(
                    "thinking.enabled: expected a bool, got {}",
                    shown(on)
                )));
            }
            if map.get("enabled") == Some(&Value::Bool(false)) {
                return Ok(Thinking::Disabled);
            }
            let budget_tokens = match map.get("budget_tokens") {
                None | Some(Value::Null) => None,
                Some(v) => match v.as_i64() {
                    Some(n) if n >= 0 => Some(n),
                    _ => return Err(OptionError::new("thinking.budget_tokens: expected a non-negative int")),
                },
            };
            match map.get("mode") {
                None | Some(Value::Null) => Thinking::Enabled { budget_tokens },
                Some(mode) => match mode.as_str() {
                    Some("disabled") => Thinking::Disabled,
                    Some("enabled") => Thinking::Enabled { budget_tokens },
                    Some("adaptive") => Thinking::Adaptive,
                    Some("effort") => match map.get("level") {
                        None | Some(Value::Null) => {
                            return Err(OptionError::new(
                                "thinking.level is required when thinking.mode is \"effort\"",
                            ));
                        }
                        Some(v) => Thinking::Effort(level("thinking.level", v)?),
                    },
                    _ => {
                        return Err(OptionError::new(format!(
                            "thinking.mode: expected \"disabled\" | \"enabled\" | \"adaptive\" | \"effort\", got \"{}\"",
                            display(mode)
                        )));
                    }
                },
            }
        }
        _ => return Err(wrong()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_schema::options::DataOptions;

    fn read(o: Value) -> Result<Value, String> {
        let given = ThinkingOptions::read(o.as_object().unwrap())?;
        parse(given).map(Thinking::to_json).map_err(|e| e.0)
    }

    #[test]
    fn every_form_is_understood() {
        let enabled = json!({"mode": "enabled", "budget_tokens": null});
        assert_eq!(read(json!({"thinking": true})), Ok(enabled.clone()));
        assert_eq!(read(json!({"thinking": {}})), Ok(enabled));
        assert_eq!(
            read(json!({"thinking": {"budget_tokens": 5}})),
            Ok(json!({"mode": "enabled", "budget_tokens": 5}))
        );
        assert_eq!(read(json!({"thinking": "off"})), Ok(json!({"mode": "disabled"})));
        assert_eq!(read(json!({"reasoning_effort": "low"})), Ok(json!({"mode": "effort", "level": "low"})));
    }

    #[test]
    fn wrong_forms_are_named() {
        assert_eq!(
            read(json!({"thinking": 3})).unwrap_err(),
            "thinking: expected bool, dict, or one of \"enabled\" | \"adaptive\" | \"low\" | \"medium\" | \"high\", got \"3\""
        );
        assert_eq!(
            read(json!({"thinking": {"mode": "effort"}})).unwrap_err(),
            "thinking.level is required when thinking.mode is \"effort\""
        );
        assert_eq!(
            read(json!({"thinking": true, "reasoning_effort": "low"})).unwrap_err(),
            "reasoning_effort cannot be combined with a non-disabled thinking option"
        );
        assert_eq!(
            read(json!({"reasoning_effort": "huge"})).unwrap_err(),
            "reasoning_effort: expected \"none\" | \"minimal\" | \"low\" | \"medium\" | \"high\" | \"xhigh\" | \"max\", got \"huge\""
        );
        assert_eq!(
            read(json!({"thinking": {"type": "disabled"}})).unwrap_err(),
            "thinking has no field `type`; it has enabled, mode, level, budget_tokens"
        );
        assert_eq!(
            read(json!({"thinking": {"enabled": "no"}})).unwrap_err(),
            "thinking.enabled: expected a bool, got string `no`"
        );
        assert_eq!(
            read(json!({"thinking": {"budget_tokens": -1}})).unwrap_err(),
            "thinking.budget_tokens: expected a non-negative int"
        );
    }
}
