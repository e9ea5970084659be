//! Shapes of options that limit, protect or change what is run: a wrong one is refused with its name, never passed over.

use harn_value::Data as Value;

use crate::error::OptionError;
use crate::json::{Object, display};
use harn_schema::nearest;

/// What a value must look like. Nil fits everywhere: the option is then absent.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Anything; checked elsewhere.
    Any,
    /// True or false.
    Bool,
    /// Only false: it switches off what has no switch of its own.
    False,
    /// An int of at least this; `i64::MIN` takes all.
    Int(i64),
    /// An int or a float from here to there, both included; infinity is no end.
    Number(f64, f64),
    /// A string; a blank one counts as absent.
    Str,
    /// A string that is not blank.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of strings that are not blank, or one of them.
    Names,
    /// A closure.
    Closure,
    /// A list of these.
    List(&'static Shape),
    /// A dict with these fields and no others.
    Dict(&'static [(&'static str, Shape)]),
    /// A dict from any name to these.
    Map(&'static Shape),
    /// One of these.
    Either(&'static [Shape]),
    /// A message of a conversation.
    Message,
}

use Shape::{
    Any, Bool, Closure, Dict, Either, False, Int, List, Map, Message, Names, Number, Str, Text, Word,
};

/// Who speaks in a message.
pub(crate) const ROLES: &[&str] =
    &["user", "assistant", "system", "developer", "tool", "tool_result", "function"];

/// Levels of side effects, in ascending order.
pub const SIDE_EFFECT_LEVELS: &[&str] = &["none", "read_only", "workspace_write", "process_exec", "network"];

/// The option `policy`.
pub const POLICY: Shape = Dict(&[
    ("tools", Names),
    ("capabilities", Map(&Names)),
    ("side_effect_level", Word(SIDE_EFFECT_LEVELS)),
    ("workspace_roots", Names),
    ("recursion_limit", Int(0)),
    ("tool_arg_constraints", List(&Dict(&[("tool", Text), ("arg_key", Text), ("arg_patterns", Names)]))),
    ("tool_annotations", Map(&Map(&Any))),
    ("command_policy", Any),
]);

/// The option `turn_policy`.
pub const TURN_POLICY: Shape =
    Dict(&[("require_action_or_yield", Bool), ("allow_done_sentinel", Bool), ("max_prose_chars", Int(1))]);

/// A value that has not the shape it must have; the display form names the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} {problem}")]
pub struct ShapeError {
    /// The option with the fields and indices behind it.
    pub place: String,
    /// What is wrong.
    pub problem: String,
}

/// A value in an error: its type, and what it says when that is short.
pub fn shown(value: &Value) -> String {
    let (kind, text) = (value.type_name(), display(value));
    if value.is_null() || text.chars().count() > 40 { kind.to_owned() } else { format!("{kind} `{text}`") }
}

impl Shape {
    /// Returns what it takes, in words.
    pub fn words(&self) -> String {
        match self {
            Any => "any value".to_owned(),
            Bool => "a bool".to_owned(),
            False => "false".to_owned(),
            Int(i64::MIN) => "an int".to_owned(),
            Int(least) => format!("an int of at least {least}"),
            Number(least, most) if most.is_finite() => format!("a number from {least} to {most}"),
            Number(least, _) if least.is_finite() => format!("a number of at least {least}"),
            Number(..) => "a number".to_owned(),
            Str => "a string".to_owned(),
            Text => "a string that is not blank".to_owned(),
            Word(words) => format!("one of {}", words.join(", ")),
            Names => "a list of strings".to_owned(),
            Closure => "a closure".to_owned(),
            List(Str) => "a list of strings".to_owned(),
            List(Message) => "a list of messages".to_owned(),
            List(_) => "a list".to_owned(),
            Message => "a message: a dict like {role: \"user\", content: \"...\"}".to_owned(),
            Dict(_) | Map(_) => "a dict".to_owned(),
            Either(shapes) => shapes.iter().map(Shape::words).collect::<Vec<_>>().join(" or "),
        }
    }

    /// Checks the value of the option or field `place`.
    ///
    /// # Errors
    /// The value, or something inside it, has another shape.
    pub fn check(&self, place: &str, value: &Value) -> Result<(), ShapeError> {
        let wrong = || {
            let problem = format!("must be {}, got {}", self.words(), shown(value));
            Err(ShapeError { place: place.to_string(), problem })
        };
        if value.is_null() {
            return Ok(());
        }
        let name = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
        match self {
            Any => Ok(()),
            Bool if value.is_boolean() => Ok(()),
            Bool => wrong(),
            False if value.as_bool() == Some(false) => Ok(()),
            False => wrong(),
            Number(least, most) if value.as_f64().is_some_and(|n| (*least..=*most).contains(&n)) => Ok(()),
            Number(..) => wrong(),
            Message => message(place, value).unwrap_or_else(wrong),
            Int(least) if value.as_i64().is_some_and(|n| n >= *least) => Ok(()),
            Int(_) => wrong(),
            Str if value.is_string() => Ok(()),
            Str => wrong(),
            Text if name(value) => Ok(()),
            Text => wrong(),
            Word(words) if value.as_str().is_some_and(|word| words.contains(&word)) => Ok(()),
            Word(_) => wrong(),
            Names if name(value) => Ok(()),
            Names => match value.as_array().map(|list| list.iter().position(|item| !name(item))) {
                None => wrong(),
                Some(None) => Ok(()),
                Some(Some(at)) => {
                    let item = value.get(at).unwrap_or(&Value::Null);
                    let problem = format!("must be a string that is not blank, got {}", shown(item));
                    Err(ShapeError { place: format!("{place}[{at}]"), problem })
                }
            },
            Either(shapes) if shapes.iter().any(|shape| shape.check(place, value).is_ok()) => Ok(()),
            Either(_) => wrong(),
            Closure if value.as_opaque().is_some() => Ok(()),
            Closure => wrong(),
            List(inner) => match value.as_array() {
                None => wrong(),
                Some(list) => list
                    .iter()
                    .enumerate()
                    .try_for_each(|(at, item)| inner.check(&format!("{place}[{at}]"), item)),
            },
            Map(inner) => match value.as_object() {
                None => wrong(),
                Some(map) => {
                    map.iter().try_for_each(|(key, item)| inner.check(&format!("{place}.{key}"), item))
                }
            },
            Dict(fields) => match value.as_object() {
                None => wrong(),
                Some(map) => {
                    map.iter().try_for_each(|(key, item)| match fields.iter().find(|(name, _)| name == key) {
                        Some((_, shape)) => shape.check(&format!("{place}.{key}"), item),
                        None => Err(unknown_field(place, key, fields.iter().map(|(name, _)| *name))),
                    })
                }
            },
        }
    }
}

/// Checks a message; nothing for what is no message at all. What else it carries is kept and not looked at.
fn message(place: &str, value: &Value) -> Option<Result<(), ShapeError>> {
    let fields = value
        .as_object()
        .filter(|fields| ["role", "content", "tool_calls"].iter().any(|name| fields.get(*name).is_some()))?;
    let role = fields.get("role").map_or(Ok(()), |role| Word(ROLES).check(&format!("{place}.role"), role));
    Some(role.and_then(|()| match fields.get("content") {
        Some(content) => {
            let place = format!("{place}.content");
            let fits = Either(&[Str, Map(&Any), List(&Any)]).check(&place, content);
            fits.and_then(|()| blocks(&place, content))
        }
        // An empty message is one that says so; a slip of the name would empty it, too.
        None => match fields.keys().find(|key| nearest(key, ["content"].into_iter()).is_some()) {
            Some(key) => {
                let problem = format!("has no field `{key}`; did you mean `content`?");
                Err(ShapeError { place: place.to_string(), problem })
            }
            None => Ok(()),
        },
    }))
}

/// The types of blocks that there are; a provider may have others.
const BLOCKS: &[&str] = &[
    "text",
    "output_text",
    "input_text",
    "image",
    "image_url",
    "input_image",
    "tool_use",
    "tool_call",
    "tool_result",
    "reasoning",
    "thinking",
    "redacted_thinking",
    "reasoning_summary",
    "tool_search_query",
    "tool_search_result",
    "file",
    "document",
    "audio",
    "input_audio",
    "video",
];

/// Checks the blocks of a message: a slip in the name of a type or of the text would send an empty one.
fn blocks(place: &str, content: &Value) -> Result<(), ShapeError> {
    let one = |place: &str, block: &Value| {
        let Some(kind) = block.get("type").and_then(Value::as_str) else { return Ok(()) };
        let near = nearest(kind, BLOCKS.iter().copied()).filter(|near| *near != kind);
        if let Some(near) = near.filter(|_| !BLOCKS.contains(&kind)) {
            let problem = format!("must be a type of block, got string `{kind}`; did you mean `{near}`?");
            return Err(ShapeError { place: format!("{place}.type"), problem });
        }
        let is_text = matches!(kind, "text" | "output_text") && block.get("text").is_none();
        let slip = block
            .as_object()
            .into_iter()
            .flatten()
            .find(|(key, _)| nearest(key, ["text"].into_iter()).is_some());
        match slip.filter(|_| is_text) {
            Some((key, _)) => {
                let problem = format!("has no field `{key}`; did you mean `text`?");
                Err(ShapeError { place: place.to_string(), problem })
            }
            None => Ok(()),
        }
    };
    match content {
        Value::Array(list) => {
            list.iter().enumerate().try_for_each(|(at, block)| one(&format!("{place}[{at}]"), block))
        }
        block => one(place, block),
    }
}

/// Refuses a field of `map` that is none of `fields`: under a wrong name it would have no effect, and nobody would notice.
pub(crate) fn only_known(place: &str, map: &Object, fields: &[&'static str]) -> Result<(), OptionError> {
    match map.keys().find(|key| !fields.contains(&key.as_str())) {
        Some(key) => {
            let wrong = unknown_field(place, key, fields.iter().copied());
            Err(OptionError::new(wrong.to_string()))
        }
        None => Ok(()),
    }
}

fn unknown_field<'n>(place: &str, key: &str, fields: impl Iterator<Item = &'n str> + Clone) -> ShapeError {
    let names = || fields.clone();
    let hint = match nearest(key, names()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("it has {}", names().collect::<Vec<_>>().join(", ")),
    };
    ShapeError { place: place.to_string(), problem: format!("has no field `{key}`; {hint}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn policy(value: Value) -> String {
        POLICY.check("policy", &value).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_malformed_policy_names_the_place() {
        assert_eq!(policy(json!("x")), "policy must be a dict, got string `x`");
        assert_eq!(policy(json!({"toolz": []})), "policy has no field `toolz`; did you mean `tools`?");
        assert_eq!(
            policy(json!({"side_effect_level": "moon"})),
            "policy.side_effect_level must be one of none, read_only, workspace_write, process_exec, network, got string `moon`"
        );
        assert_eq!(
            policy(json!({"tools": ["a", 3]})),
            "policy.tools[1] must be a string that is not blank, got int `3`"
        );
        assert_eq!(
            policy(json!({"capabilities": {"net": 3}})),
            "policy.capabilities.net must be a list of strings, got int `3`"
        );
        assert_eq!(
            policy(json!({"tool_arg_constraints": [{"tool": "t", "pattern": ["a"]}]})),
            "policy.tool_arg_constraints[0] has no field `pattern`; it has tool, arg_key, arg_patterns"
        );
        assert_eq!(
            policy(json!({"recursion_limit": -1})),
            "policy.recursion_limit must be an int of at least 0, got int `-1`"
        );
    }

    #[test]
    fn what_fits_passes() {
        let full = json!({"tools": [], "capabilities": {"net": ["get"]}, "side_effect_level": "network",
            "workspace_roots": "src", "tool_annotations": {"t": {"kind": "read"}}, "recursion_limit": null});
        assert_eq!(policy(full), "");
        assert_eq!(policy(Value::Null), "");
        let closure = Value::opaque("closure", "<fn(x)>");
        assert!(Closure.check("f", &closure).is_ok());
        assert_eq!(
            POLICY.check("policy", &closure).unwrap_err().to_string(),
            "policy must be a dict, got closure `<fn(x)>`"
        );
        assert_eq!(
            TURN_POLICY.check("turn_policy", &json!({"max_prose_chars": 0})).unwrap_err().to_string(),
            "turn_policy.max_prose_chars must be an int of at least 1, got int `0`"
        );
    }
}
