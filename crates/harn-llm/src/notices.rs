//! Warnings of unknown options, and the check of those of one provider.
//!
//! A name that nobody knows has no effect; where it is close to a known one, it looks like a slip, and people want to be told.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use harn_schema::nearest;
use harn_schema::options::{DataOptions, OptionField};

use crate::json::Object;
use crate::options::CallOptions;
use crate::options::shape::{self, Shape, ShapeError};

/// Checks what stands under the names of providers: more of the body of a request.
///
/// # Errors
/// The first that is no dict, or a number of Ollama's that is none.
pub fn check_overrides(options: &Object, is_provider: impl Fn(&str) -> bool) -> Result<(), ShapeError> {
    const NUM_CTX: Shape = Shape::Either(&[Shape::Int(1), Shape::Str]);
    options.iter().try_for_each(|(key, value)| {
        if value.is_null() || CALL_OPTIONS.contains(key.as_str()) || !is_provider(key) {
            return Ok(());
        }
        Shape::Map(&Shape::Any).check(key, value)?;
        if key != "ollama" {
            return Ok(());
        }
        for (place, within) in [("ollama", Some(value)), ("ollama.options", value.get("options"))] {
            let Some(size) = within.and_then(|within| within.get("num_ctx")) else { continue };
            let place = format!("{place}.num_ctx");
            NUM_CTX.check(&place, size)?;
            let is_number = |text: &str| text.trim().parse::<i64>().is_ok_and(|n| n > 0);
            if size.as_str().is_some_and(|text| !is_number(text)) {
                let problem = format!("must be an int of at least 1, got {}", shape::shown(size));
                return Err(ShapeError { place, problem });
            }
        }
        Ok(())
    })
}

static CALL_OPTIONS: LazyLock<BTreeSet<&str>> =
    LazyLock::new(|| CallOptions::FIELDS.iter().map(|field| field.name).collect());

/// An option that has no effect, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The option.
    pub option: String,
    /// Why it has none.
    pub text: String,
}

/// Names of other libraries for what is no option here.
const ELSEWHERE: [(&str, &str); 4] = [
    ("extra_body", "a key with the provider's name"),
    ("on_message", "agent_subscribe"),
    ("on_tool_call", "agent_subscribe"),
    ("parallel_tool_calls", "annotations of the tools"),
];

/// Returns a notice for each option that nothing knows. `more` are options that the caller knows besides those of a model
/// call; `is_provider` knows the keys that hold settings of one provider. A name that begins with `_` is the program's own.
/// Without `strangers`, only names that resemble a known one.
pub fn notices(
    options: &Object,
    more: &[OptionField],
    strangers: bool,
    is_provider: impl Fn(&str) -> bool,
) -> Vec<Notice> {
    let is_known = |key: &str| CALL_OPTIONS.contains(key) || more.iter().any(|field| field.name == key);
    let fields = || CallOptions::FIELDS.iter().chain(more);
    let meant = |key: &str| {
        let option = fields().find(|field| field.foreign.contains(&key)).map(|field| field.name);
        option.or_else(|| ELSEWHERE.iter().find(|(word, _)| *word == key).map(|(_, meant)| *meant))
    };
    let mut out = Vec::new();
    for key in options.keys() {
        let foreign = meant(key).filter(|_| strangers);
        if is_known(key) || key.starts_with('_') || foreign.is_none() && is_provider(key) {
            continue;
        }
        let text = match foreign.or_else(|| nearest(key, fields().map(|field| field.name))) {
            Some(meant) => format!("unknown option `{key}` has no effect (did you mean `{meant}`?)"),
            None if strangers => {
                format!("unknown option `{key}` has no effect (custom options begin with `_`)")
            }
            None => continue,
        };
        out.push(Notice { option: key.clone(), text });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_schema::options::check_options;
    use harn_value::{Data as Value, json};

    fn of(options: &Value) -> Vec<String> {
        let more = [OptionField::named("max_iterations")];
        let found = notices(options.as_object().unwrap(), &more, false, |key| key == "cashe");
        found.into_iter().map(|notice| notice.text).collect()
    }

    #[test]
    fn slips_are_told_with_the_way_out() {
        assert_eq!(
            of(&json!({"temprature": 0.2})),
            ["unknown option `temprature` has no effect (did you mean `temperature`?)"]
        );
        assert_eq!(
            of(&json!({"max_iteration": 2, "buget": {}})),
            [
                "unknown option `max_iteration` has no effect (did you mean `max_iterations`?)",
                "unknown option `buget` has no effect (did you mean `budget`?)"
            ]
        );
    }

    #[test]
    fn strangers_are_told_with_what_was_meant() {
        let options = json!({"max_turns": 3, "colour": "red", "_mine": 1, "model": "m", "modle": "x"});
        let more = OptionField { foreign: &["max_turns"], ..OptionField::named("max_iterations") };
        let found = notices(options.as_object().unwrap(), &[more], true, |_| false);
        assert_eq!(
            found.into_iter().map(|notice| notice.text).collect::<Vec<_>>(),
            [
                "unknown option `max_turns` has no effect (did you mean `max_iterations`?)",
                "unknown option `colour` has no effect (custom options begin with `_`)",
                "unknown option `modle` has no effect (did you mean `model`?)",
            ]
        );
        let foreign = CallOptions::FIELDS.iter().flat_map(|field| field.foreign);
        assert!(
            foreign.chain(ELSEWHERE.iter().map(|(word, _)| word)).all(|word| !CALL_OPTIONS.contains(word))
        );
    }

    #[test]
    fn what_is_meant_is_left_alone() {
        let fine = json!({"temperature": 1, "top_p": 0.5, "seed": null, "stop": [], "max_iterations": 3, "team": "blue",
            "_iteration": 1, "cashe": {}, "tool_format": "native", "provider": 5});
        assert!(of(&fine).is_empty());
    }

    #[test]
    fn a_wrong_value_is_named_with_what_fits() {
        let wrong = |options: Value| {
            let given = options.as_object().unwrap();
            let own = check_options(CallOptions::FIELDS, given);
            let found = own.and_then(|()| check_overrides(given, |key| key == "ollama"));
            found.err().map(|error| error.to_string()).unwrap_or_default()
        };
        for (options, told) in [
            (json!({"temperature": "hot"}), "temperature must be a number from 0 to 2, got string `hot`"),
            (json!({"temperature": -1}), "temperature must be a number from 0 to 2, got int `-1`"),
            (json!({"top_p": 2}), "top_p must be a number from 0 to 1, got int `2`"),
            (json!({"top_k": -1}), "top_k must be an int of at least 0, got int `-1`"),
            (json!({"top_k": 2.5}), "top_k must be an int of at least 0, got float `2.5`"),
            (
                json!({"presence_penalty": 2.1}),
                "presence_penalty must be a number from -2 to 2, got float `2.1`",
            ),
            (json!({"max_tokens": -5}), "max_tokens must be an int of at least 0, got int `-5`"),
            (json!({"max_tokens": "9"}), "max_tokens must be an int of at least 0, got string `9`"),
            (json!({"llm_retries": "3"}), "llm_retries must be an int, got string `3`"),
            (json!({"seed": 1.5}), "seed must be an int, got float `1.5`"),
            (json!({"stop": "END"}), "stop must be a list of strings, got string `END`"),
            (json!({"stop": ["a", 1]}), "stop[1] must be a string, got int `1`"),
            (
                json!({"fallback_chain": 3}),
                "fallback_chain must be a string or a list of strings, got int `3`",
            ),
            (json!({"prefill": ["{"]}), "prefill must be a string, got list `[\"{\"]`"),
            (json!({"repair": "yes"}), "repair must be a bool or a dict, got string `yes`"),
            (json!({"reminders": 1}), "reminders must be a bool or a dict, got int `1`"),
            (
                json!({"capabilities": true}),
                "capabilities must be a list of strings or a dict, got bool `true`",
            ),
            (json!({"messages": "hi"}), "messages must be a list of messages, got string `hi`"),
            (
                json!({"messages": [1]}),
                "messages[0] must be a message: a dict like {role: \"user\", content: \"...\"}, got int `1`",
            ),
            (
                json!({"messages": [{"content": "a"}, {}]}),
                "messages[1] must be a message: a dict like {role: \"user\", content: \"...\"}, got dict `{}`",
            ),
            (
                json!({"messages": [{"role": "boss", "content": "a"}]}),
                "messages[0].role must be one of user, assistant, system, developer, tool, tool_result, function, got string `boss`",
            ),
            (
                json!({"messages": [{"role": "user", "contents": "a"}]}),
                "messages[0] has no field `contents`; did you mean `content`?",
            ),
            (
                json!({"messages": [{"role": "user", "content": 5}]}),
                "messages[0].content must be a string or a dict or a list, got int `5`",
            ),
            (
                json!({"messages": [{"role": "user", "content": [{"type": "imge", "url": "x"}]}]}),
                "messages[0].content[0].type must be a type of block, got string `imge`; did you mean `image`?",
            ),
            (
                json!({"messages": [{"role": "user", "content": [{"type": "text", "txt": "x"}]}]}),
                "messages[0].content[0] has no field `txt`; did you mean `text`?",
            ),
            (json!({"ollama": 5}), "ollama must be a dict, got int `5`"),
            (
                json!({"ollama": {"num_ctx": 0}}),
                "ollama.num_ctx must be an int of at least 1 or a string, got int `0`",
            ),
            (
                json!({"ollama": {"num_ctx": "x"}}),
                "ollama.num_ctx must be an int of at least 1, got string `x`",
            ),
            (
                json!({"ollama": {"options": {"num_ctx": "8k"}}}),
                "ollama.options.num_ctx must be an int of at least 1, got string `8k`",
            ),
            (json!({"temperature": 2, "top_p": 0.0, "top_k": 0, "max_tokens": 0, "schema_retries": -2}), ""),
            (
                json!({"messages": [{"role": "user"}, {"content": "a", "origin": "form"}], "ollama": {"num_ctx": 5}}),
                "",
            ),
        ] {
            assert_eq!(wrong(options), told);
        }
    }
}
