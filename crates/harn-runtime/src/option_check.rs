//! Options of model calls and loops in the text of a program, looked at by the checks of the calls themselves.

use harn_agent::config::{Format, LoopConfig, OPTIONS};
use harn_llm::options::notices;
use harn_syntax::signature::{GivenOption, LOOP_OPTIONS, Literal, OptionProblem};
use harn_value::{Dict, Value};
use serde_json::{Map, Value as Json};

/// Options whose meaning depends on others: they are looked at only where all are known.
const DEPENDENT: &[&str] = &[
    "audio",
    "compact_callback",
    "compact_strategy",
    "compaction",
    "daemon",
    "deliverables",
    "hard_limit_strategy",
    "mask_callback",
    "messages",
    "output_format",
    "output_schema",
    "pdf",
    "persist_path",
    "prefill",
    "progress_tool",
    "resume_path",
    "skill_match",
    "skills",
    "structural_experiment",
    "task_ledger",
    "thinking",
    "tool_choice",
    "tool_search",
    "tools",
    "transcript",
    "vision",
    "wake_interval_ms",
    "watch_paths",
    "consolidate_on_idle",
    "idle_watchdog_attempts",
    "working_files",
];

/// Returns what is wrong with the options of a call of `builtin` whose parameter has the type `set`. `complete` says that
/// nothing is given besides `given`, and that all values are known.
pub fn wrong_options(builtin: &str, set: &str, given: &[GivenOption], complete: bool) -> Vec<OptionProblem> {
    let of_loop = set == LOOP_OPTIONS;
    let names: Map<String, Json> = given
        .iter()
        .map(|option| {
            (
                option.name.clone(),
                option.value.as_ref().and_then(|value| json(&option.name, value)).unwrap_or(Json::Null),
            )
        })
        .collect();
    // A key that holds the settings of a provider of the project is near to no option.
    let slips = notices(&names, if of_loop { OPTIONS } else { &[] }, |_| false);
    let mut found: Vec<OptionProblem> = slips
        .into_iter()
        .map(|slip| OptionProblem { name: slip.option, text: slip.text, fails: false })
        .collect();
    let check = |options: Map<String, Json>| refusal(builtin, of_loop, options);
    let known =
        given.iter().filter_map(|option| Some((&option.name, json(&option.name, option.value.as_ref()?)?)));
    let all: Map<String, Json> = known.map(|(name, value)| (name.clone(), value)).collect();
    let alone = all.iter().filter(|(name, _)| !DEPENDENT.contains(&name.as_str()));
    let before = found.len();
    found.extend(alone.filter_map(|(name, value)| {
        let options = Map::from_iter([(name.clone(), value.clone())]);
        Some(OptionProblem { name: name.clone(), text: check(options)?, fails: true })
    }));
    if complete && found.len() == before && all.len() == given.len() {
        let named = |text: &str| {
            let words = |c: char| !c.is_alphanumeric() && c != '_';
            given.iter().map(|option| &option.name).find(|name| text.split(words).any(|word| word == *name))
        };
        found.extend(check(all).map(|text| OptionProblem {
            name: named(&text).cloned().unwrap_or_default(),
            text,
            fails: true,
        }));
    }
    found
}

/// The error of a call with these options, if it is one.
fn refusal(builtin: &str, of_loop: bool, options: Map<String, Json>) -> Option<String> {
    let call = Json::Object(options.clone());
    if of_loop && let Err(error) = LoopConfig::new("", None, options, Format::Text) {
        return Some(error.to_string().replace("agent_loop: ", &format!("{builtin}: ")));
    }
    harn_llm::CallOptions::from_json(&call).err().map(|error| error.to_string())
}

/// The value as the call reads it; nothing for one that has a closure inside.
fn json(name: &str, literal: &Literal) -> Option<Json> {
    if *literal == Literal::Closure {
        return Some(harn_prompt::value::foreign("closure", "<fn>"));
    }
    let mut options = Dict::new();
    options.insert(name, value(literal)?);
    crate::convert::options(&Value::dict(options)).remove(name)
}

fn value(literal: &Literal) -> Option<Value> {
    Some(match literal {
        Literal::Nil => Value::NIL,
        Literal::Bool(value) => Value::bool(*value),
        Literal::Int(value) => Value::int(*value),
        Literal::Float(value) => Value::float(*value),
        Literal::Duration(value) => Value::duration(*value),
        Literal::Str(text) => Value::str(text),
        Literal::List(items) => Value::list(items.iter().map(value).collect::<Option<Vec<_>>>()?),
        Literal::Dict(entries) => {
            let mut dict = Dict::new();
            for (key, item) in entries {
                dict.insert(key.as_str(), value(item)?);
            }
            Value::dict(dict)
        }
        Literal::Closure => return None,
    })
}
