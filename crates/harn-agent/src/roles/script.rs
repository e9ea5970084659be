//! The meaning of a prompt for the interpreter `scripted`.

use harn_value::{Data as Value, data::Map};

/// A scripted turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Script {
    /// Tool calls with arguments, in order.
    Calls(Vec<(String, Value)>),
    /// Text that is returned unchanged.
    Echo(String),
}

impl Script {
    /// Parses a prompt: JSON `{tool, args}` or `{script: [{tool, args}, …]}` are calls, anything else is echoed.
    #[must_use]
    pub fn read(prompt: &str) -> Script {
        let echo = || Script::Echo(prompt.to_owned());
        let Ok(json) = serde_json::from_str::<Value>(prompt) else { return echo() };
        let calls = match json.get("script") {
            Some(Value::Array(list)) => list.iter().map(call).collect::<Option<Vec<_>>>(),
            Some(_) => None,
            None => call(&json).map(|call| vec![call]),
        };
        calls.map_or_else(echo, Script::Calls)
    }
}

fn call(json: &Value) -> Option<(String, Value)> {
    let map = json.as_object()?;
    let name = map.get("tool")?.as_str()?;
    let args = map.get("args").filter(|args| !args.is_null()).cloned();
    Some((name.to_owned(), args.unwrap_or_else(|| Map::new().into())))
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    #[test]
    fn prompts_are_calls_or_echoed() {
        let one = ("t".to_owned(), json!({"a": 1}));
        assert_eq!(Script::read(r#"{"tool": "t", "args": {"a": 1}}"#), Script::Calls(vec![one.clone()]));
        let two = ("u".to_owned(), json!({}));
        let script = r#"{"script": [{"tool": "t", "args": {"a": 1}}, {"tool": "u"}]}"#;
        assert_eq!(Script::read(script), Script::Calls(vec![one, two]));
        for text in ["hello", "5", r#"{"tool": 5}"#, r#"{"script": "x"}"#, r#"{"script": [1]}"#, ""] {
            assert_eq!(Script::read(text), Script::Echo(text.to_owned()));
        }
    }
}
