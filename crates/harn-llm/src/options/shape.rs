//! Shapes of options that limit, protect or change what is run: a wrong one is refused with its name, never passed over.

use harn_schema::nearest;
pub use harn_schema::shape::{Shape, ShapeError, shown};
use harn_schema::shape::{SpecialShape, unknown_field};
use harn_value::Data as Value;

use crate::error::OptionError;
use crate::json::Object;

/// Who speaks in a message.
pub(crate) const ROLES: &[&str] =
    &["user", "assistant", "system", "developer", "tool", "tool_result", "function"];

/// Levels of side effects, in ascending order.
pub const SIDE_EFFECT_LEVELS: &[&str] = &["none", "read_only", "workspace_write", "process_exec", "network"];

/// The option `policy`.
pub const POLICY: Shape = Shape::Dict(&[
    ("tools", Shape::Names),
    ("capabilities", Shape::Map(&Shape::Names)),
    ("side_effect_level", Shape::Word(SIDE_EFFECT_LEVELS)),
    ("workspace_roots", Shape::Names),
    ("recursion_limit", Shape::Int(0)),
    (
        "tool_arg_constraints",
        Shape::List(&Shape::Dict(&[
            ("tool", Shape::Text),
            ("arg_key", Shape::Text),
            ("arg_patterns", Shape::Names),
        ])),
    ),
    ("tool_annotations", Shape::Map(&Shape::Map(&Shape::Any))),
    ("command_policy", Shape::Any),
]);

/// The option `turn_policy`.
pub const TURN_POLICY: Shape = Shape::Dict(&[
    ("require_action_or_yield", Shape::Bool),
    ("allow_done_sentinel", Shape::Bool),
    ("max_prose_chars", Shape::Int(1)),
]);

/// Capabilities: names, or a dict of those that are there.
pub(super) const FLAGS: Shape = Shape::Either(&[Shape::Names, Shape::Map(&Shape::Any)]);

/// How often something is repeated; a negative number is none.
pub(super) const REPEATS: Shape = Shape::Int(i64::MIN);

/// On, off, or on with settings.
pub(super) const SWITCH: Shape = Shape::Either(&[Shape::Bool, Shape::Map(&Shape::Any)]);

/// A structural experiment.
pub(super) const EXPERIMENT: Shape =
    Shape::Either(&[Shape::False, Shape::Str, Shape::Map(&Shape::Any), Shape::Closure]);

/// A message of a conversation.
pub const MESSAGE: Shape = Shape::Special(&SpecialShape {
    one: "a message: a dict like {role: \"user\", content: \"...\"}",
    many: "messages",
    check: message,
});

/// Checks a message; nothing for what is no message at all. What else it carries is kept and not looked at.
fn message(place: &str, value: &Value) -> Option<Result<(), ShapeError>> {
    let fields = value
        .as_object()
        .filter(|fields| ["role", "content", "tool_calls"].iter().any(|name| fields.get(*name).is_some()))?;
    let role =
        fields.get("role").map_or(Ok(()), |role| Shape::Word(ROLES).check(&format!("{place}.role"), role));
    Some(role.and_then(|()| match fields.get("content") {
        Some(content) => {
            let place = format!("{place}.content");
            let fits = Shape::Either(&[Shape::Str, Shape::Map(&Shape::Any), Shape::List(&Shape::Any)])
                .check(&place, content);
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
        assert!(Shape::Closure.check("f", &closure).is_ok());
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
