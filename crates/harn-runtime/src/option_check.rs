//! Checks options of model calls, loops and workflows in the source of a program, using the checks of the calls
//! themselves; and lists the additional options of builtins.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use harn_agent::config::{Format, LoopConfig};
use harn_agent::harness::{self, Role, ToolkitDescriptions};
use harn_agent::lifecycle::Request;
use harn_agent::registry;
use harn_agent::surface::{Finding, Severity};
use harn_agent::workflow::{MODEL_KEYS, RunOptions};
use harn_llm::config::Config;
use harn_llm::notices::{check_overrides, notices};
use harn_llm::options::check_options;
use harn_prompt::reminder::{Origin, Reminder, Source};
use harn_syntax::signature::{
    self, GivenOption, LOOP_OPTIONS, Literal, OptionEffect, OptionProblem, STAGE_OPTIONS, WORKFLOW_OPTIONS,
};
use harn_syntax::suggest::{distance, nearest};
use harn_value::{Data as Json, data::Map};
use harn_value::{Dict, Value};
use harn_vm::builtin::option_sets;
use harn_vm::{Cx, Error, Result};

use crate::command_policy::CommandPolicy;
use crate::convert::{entry, thrown, to_json};
use crate::llm_embedder::CallOptions;
use crate::option_sets::{call_options, loop_options};
use crate::reminders::Reminders;
use crate::tool_config::check_config;
use crate::tool_options::{doubts, surface_of};

/// Options of `sub_agent_run` that are not options of a loop.
const SUB_AGENT: [&str; 8] =
    ["name", "allowed_tools", "returns", "background", "carry", "execution", "audit", "system"];

/// Additional options of `transcript_compact`, besides those of a model call.
const COMPACT: [&str; 6] =
    ["strategy", "compact_strategy", "keep_last", "target_tokens", "summary", "summarize_prompt"];

/// Additional options of `transcript_auto_compact`, besides those of a model call.
const AUTO_COMPACT: [&str; 10] = [
    "keep_last",
    "compact_strategy",
    "compact_callback",
    "mask_callback",
    "compress_callback",
    "token_threshold",
    "tool_output_max_chars",
    "hard_limit_tokens",
    "hard_limit_strategy",
    "summarize_prompt",
];

/// Additional keys of an agent, besides the options of its loops.
const AGENT: [&str; 4] = ["name", "role", "description", "system"];

/// Keys of the daemon itself; all others are options of its loop.
pub(crate) const DAEMON: [&str; 10] = [
    "task",
    "prompt",
    "persist_path",
    "state_dir",
    "name",
    "system",
    "event_queue_capacity",
    "queue_capacity",
    "options",
    "daemon",
];

const DEPS: [&str; 9] = [
    "tool_bindings",
    "services",
    "approval_predicates",
    "action_dispatcher",
    "event_hooks",
    "interpreter",
    "testing",
    "data_environment",
    "stores",
];

/// Builtins that add options to those of a model call. Their other options are checked like those of a call.
const EXTENDED_CALLS: [&str; 2] = ["default_llm_caller", "prompt_explain"];

/// Returns the options that a builtin has in addition to those of model calls or loops.
pub fn own(builtin: &str) -> Vec<&'static str> {
    match builtin {
        "agent" => AGENT.to_vec(),
        "default_llm_caller" => vec!["handlers"],
        "prompt_explain" => vec!["without", "detail"],
        "daemon_spawn" => DAEMON.to_vec(),
        "sub_agent_run" => SUB_AGENT.into_iter().chain(Request::keys()).collect(),
        "transcript_compact" => COMPACT.to_vec(),
        "transcript_auto_compact" => AUTO_COMPACT.to_vec(),
        _ => Vec::new(),
    }
}

/// Returns the first name that is unknown to a builtin with additional options, and the error message. Loops accept
/// unknown names, because they may pass them on, so for them only names that resemble additional options are reported.
fn unknown<'k>(
    builtin: &str,
    names: impl IntoIterator<Item = &'k str>,
    is_provider: impl Fn(&str) -> bool,
) -> Option<(String, String)> {
    let own = own(builtin);
    // A daemon only warns of a typo, as its loop does.
    if own.is_empty() || builtin == "daemon_spawn" || EXTENDED_CALLS.contains(&builtin) {
        return None;
    }
    // Agents may have further entries, so only names that are very close to an option are treated as typos.
    let of_agent = builtin == "agent";
    let of_loop = of_agent || builtin == "sub_agent_run";
    let calls = || call_options().iter().map(|field| field.name);
    let loops = || loop_options().iter().map(|field| field.name);
    let knows = |name: &str| {
        own.contains(&name)
            || calls().any(|known| known == name)
            || of_loop && loops().any(|known| known == name)
            || name.starts_with('_')
            || is_provider(name)
    };
    let name = names.into_iter().find(|name| {
        !knows(name)
            && match builtin {
                "agent" => all_but(name),
                "sub_agent_run" => nearest(name, own.iter().copied()).is_some(),
                _ => true,
            }
    })?;
    let near = nearest(name, own.iter().copied().chain(calls()).chain(loops().filter(|_| of_agent)));
    let text = match near {
        Some(_) => signature::unknown_option(builtin, name, near.into_iter()),
        None => format!(
            "{}, and the options of a model call",
            signature::unknown_option(builtin, name, own.into_iter())
        ),
    };
    Some((name.to_owned(), text))
}

/// Returns whether a name differs from that of an option by one or two letters.
fn all_but(name: &str) -> bool {
    let options = loop_options().iter().chain(call_options()).map(|field| field.name);
    let letters = name.chars().count();
    nearest(name, options)
        .is_some_and(|near| letters >= 5 && distance(name, near) <= 1 + usize::from(letters >= 8))
}

/// Rejects unknown options.
///
/// # Errors
/// Describes the first of them, with the most similar name.
pub(crate) fn refuse_unknown(cx: &Cx, builtin: &str, options: &Value) -> Result<()> {
    let Some(dict) = options.to_dict() else { return Ok(()) };
    let config = crate::llm_embedder::runtime(cx);
    let is_provider = |name: &str| config.config().provider(name).is_some();
    match unknown(builtin, dict.keys().map(|key| key.as_str()), is_provider) {
        Some((_, text)) => Err(Error::runtime(text)),
        None => Ok(()),
    }
}

/// Builtins that show the prompt of a call without making it, so that their tools need no handlers.
const SHOW_PROMPTS: [&str; 3] =
    ["agent_build_turn_system", "agent_build_turn_system_fragments", "prompt_explain"];

/// Whether the meaning of an option depends on others: it is looked at only where all are known.
fn is_dependent(name: &str) -> bool {
    let mut fields = loop_options().iter().chain(call_options());
    fields.any(|field| field.name == name && field.is_dependent)
}

/// Reports a limit of a model call that seems to be in milliseconds, although a plain number is in seconds. Multiples
/// of a quarter of an hour below 10,000 seconds are accepted.
fn in_milliseconds(option: &GivenOption) -> Option<OptionProblem> {
    let name = option.name.as_str();
    let number = match option.value {
        Some(Literal::Int(n)) if matches!(name, "timeout" | "idle_timeout") => n,
        _ => return None,
    };
    let is_round = number % 900 == 0 && number < 10_000;
    let text =
        || format!("{name}: {number} is in seconds; write `{number}ms` for milliseconds, or `{number}s`");
    let found = number >= 1000 && !is_round;
    found.then(|| OptionProblem { name: name.to_owned(), text: text(), effect: OptionEffect::Used })
}

/// The providers that every project has.
static PROVIDERS: LazyLock<BTreeSet<String>> =
    LazyLock::new(|| Config::builtin().provider_names().into_iter().collect());

/// Returns the error for an option of a loop whose value is invalid independently of other options.
fn misfit(builtin: &str, options: &Map<String, Json>) -> Option<String> {
    let wrong = check_options(loop_options(), options).err()?;
    Some(format!("{builtin}: {wrong}"))
}

/// Returns the problems in the options of a call of `builtin` whose parameter has the type `set`. `complete` means that
/// there are no options besides `given`, and that all values are known.
pub fn wrong_options(
    builtin: &str,
    parameter: &str,
    set: &str,
    given: &[GivenOption],
    complete: bool,
) -> Vec<OptionProblem> {
    if set == WORKFLOW_OPTIONS {
        return wrong_run(builtin, given, complete);
    }
    if builtin == "tool_define" {
        return wrong_tool(parameter, given, complete);
    }
    if !signature::is_option_set(set) {
        return wrong_dict(builtin, parameter, given, complete);
    }
    let of_loop = set == LOOP_OPTIONS || set == STAGE_OPTIONS;
    let own = own(builtin);
    let inner = if builtin == "daemon_spawn" { flat(given) } else { None };
    let given = inner.as_deref().unwrap_or(given);
    let unknown = unknown(builtin, given.iter().map(|option| option.name.as_str()), |_| false);
    if let Some((name, text)) = unknown {
        return vec![OptionProblem { name, text, effect: OptionEffect::Fails }];
    }
    let (owned, given): (Vec<GivenOption>, Vec<GivenOption>) =
        given.iter().cloned().partition(|option| own.contains(&option.name.as_str()));
    let given = &given[..];
    // An option that the builtin reads itself may have the same name and type as an option of its loop.
    let of_both = owned.iter().filter(|_| of_loop).filter_map(|option| {
        let value = json(&option.name, option.value.as_ref()?)?;
        let text = misfit(builtin, &Map::from_iter([(option.name.clone(), value)]))?;
        Some(OptionProblem { name: option.name.clone(), text, effect: OptionEffect::Fails })
    });
    let complete = complete && own.is_empty() && set != STAGE_OPTIONS && !SHOW_PROMPTS.contains(&builtin);
    let names: Map<String, Json> = given
        .iter()
        .map(|option| {
            (
                option.name.clone(),
                option.value.as_ref().and_then(|value| json(&option.name, value)).unwrap_or(Json::Null),
            )
        })
        .collect();
    // The settings of a provider are a dict under its name. The configuration of the project may add providers, so such
    // a key is not reported as a typo.
    let settings_of_provider =
        |key: &str| given.iter().any(|o| o.name == key && matches!(o.value, Some(Literal::Dict(_)) | None));
    let is_call = own.is_empty() || EXTENDED_CALLS.contains(&builtin);
    let strangers = set != STAGE_OPTIONS && is_call && !names.contains_key("llm_caller");
    let slips = notices(&names, if of_loop { loop_options() } else { &[] }, strangers, settings_of_provider);
    let mut found: Vec<OptionProblem> = slips
        .into_iter()
        .map(|slip| OptionProblem { name: slip.option, text: slip.text, effect: OptionEffect::Ignored })
        .chain(of_both)
        .chain(given.iter().filter_map(in_milliseconds))
        .collect();
    let check = |options: Map<String, Json>| refusal(builtin, of_loop, options);
    let known =
        given.iter().filter_map(|option| Some((&option.name, json(&option.name, option.value.as_ref()?)?)));
    let all: Map<String, Json> = known.map(|(name, value)| (name.clone(), value)).collect();
    let before = found.len();
    found.extend(all.iter().filter_map(|(name, value)| {
        let options = Map::from_iter([(name.clone(), value.clone())]);
        let of_call = || check_options(call_options(), &options).err().map(|wrong| wrong.to_string());
        let text = if is_dependent(name) {
            misfit(builtin, &options).or_else(|| Some(as_told(builtin, of_loop, &of_call()?)))
        } else {
            check(options)
        };
        Some(OptionProblem { name: name.clone(), text: text?, effect: OptionEffect::Fails })
    }));
    if complete && found.len() == before && all.len() == given.len() {
        let named = |text: &str| {
            let words = |c: char| !c.is_alphanumeric() && c != '_';
            given.iter().map(|option| &option.name).find(|name| text.split(words).any(|word| word == *name))
        };
        found.extend(check(all).map(|text| OptionProblem {
            name: named(&text).cloned().unwrap_or_default(),
            text,
            effect: OptionEffect::Fails,
        }));
    }
    // An option that fails is not also reported as ineffective.
    let failing: Vec<String> = found
        .iter()
        .filter(|problem| problem.effect == OptionEffect::Fails)
        .map(|p| p.name.clone())
        .collect();
    found.retain(|problem| problem.effect == OptionEffect::Fails || !failing.contains(&problem.name));
    found
}

/// Merges the entries of a daemon's `options` with its other options, as the daemon reads them.
fn flat(given: &[GivenOption]) -> Option<Vec<GivenOption>> {
    let within = given.iter().find(|option| option.name == "options")?;
    let Some(Literal::Dict(entries)) = &within.value else { return None };
    let named = |name: &str| given.iter().any(|option| option.name == name);
    let inner = entries.iter().filter(|(name, _)| !named(name));
    let inner = inner.map(|(name, value)| GivenOption { name: name.clone(), value: Some(value.clone()) });
    Some(given.iter().cloned().chain(inner).collect())
}

/// Returns whether an option of a run overrides the `model_policy` of its nodes, and is independent of other options.
fn is_of_stages(name: &str) -> bool {
    MODEL_KEYS.contains(&name) && !is_dependent(name)
}

/// Options that require each other.
const REPLAY: [&str; 3] = ["replay_mode", "replay_path", "replay_run"];

/// Adds the options that an option in [`REPLAY`] requires: the given ones, or placeholders if there may be more options
/// than the source shows.
fn add_partners(options: &mut Map<String, Json>, given: &[GivenOption], complete: bool) {
    let fits = |name: &str| if name == "replay_mode" { "deterministic" } else { "run.json" };
    let has = |name: &str| given.iter().any(|option| option.name == name);
    let from = if has("replay_run") && !has("replay_path") { "replay_run" } else { "replay_path" };
    for name in ["replay_mode", from].into_iter().filter(|name| !complete || has(name)) {
        // The content of the record is checked separately.
        let name = if name == "replay_run" { "replay_path" } else { name };
        if !options.contains_key(name) {
            options.insert(name.to_owned(), fits(name).into());
        }
    }
}

/// Returns the problems in the options of a workflow run. Options with unknown values are treated as absent.
fn wrong_run(builtin: &str, given: &[GivenOption], complete: bool) -> Vec<OptionProblem> {
    let wrong = |option: &GivenOption| {
        let value = option.value.as_ref().filter(|value| !has_closure(value));
        let value = value.and_then(|value| json(&option.name, value)).unwrap_or(Json::Null);
        let mut options = Map::from_iter([(option.name.clone(), value)]);
        if REPLAY.contains(&option.name.as_str()) {
            add_partners(&mut options, given, complete);
        }
        let text = match RunOptions::of(&Json::Object(options.clone())) {
            Err(text) => format!("{builtin}: {text}"),
            Ok(_) if is_of_stages(&option.name) => refusal(builtin, true, options)?,
            Ok(_) => return None,
        };
        Some(OptionProblem { name: option.name.clone(), text, effect: OptionEffect::Fails })
    };
    given.iter().filter_map(wrong).collect()
}

/// Returns the problems in a dict that a builtin reads itself, as far as the source shows it: an unknown name, and, if
/// the whole dict is known, an invalid value.
fn wrong_dict(builtin: &str, parameter: &str, given: &[GivenOption], complete: bool) -> Vec<OptionProblem> {
    let read = |entries: &[&GivenOption]| {
        let mut dict = Map::new();
        for option in entries {
            let value = option.value.as_ref().and_then(|value| json(&option.name, value));
            dict.insert(option.name.clone(), value.unwrap_or(Json::Null));
        }
        // `define_tool("find", {...})` is `define_tool({name: "find", ...})`.
        if parameter == "args" && !dict.contains_key("name") {
            dict.insert("name".to_owned(), "name".into());
        }
        problem(builtin, parameter, &Json::Object(dict))
    };
    let is_about = |text: &str, name: &str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
    };
    let unknown = |option: &GivenOption| {
        let text = read(&[&GivenOption { name: option.name.clone(), value: None }])?;
        let says =
            ["unknown ", "has no '"].iter().any(|says| text.contains(says)) && is_about(&text, &option.name);
        says.then(|| OptionProblem { name: option.name.clone(), text, effect: OptionEffect::Fails })
    };
    let found: Vec<OptionProblem> = given.iter().filter_map(unknown).collect();
    if !found.is_empty()
        || !complete
        || given.iter().any(|option| option.value.as_ref().is_some_and(has_closure))
    {
        return found;
    }
    let all: Vec<&GivenOption> = given.iter().collect();
    let Some(text) = read(&all) else { return Vec::new() };
    let named = given.iter().find(|option| is_about(&text, &option.name));
    vec![OptionProblem {
        name: named.map(|option| option.name.clone()).unwrap_or_default(),
        text,
        effect: OptionEffect::Fails,
    }]
}

/// Returns the problems in the config of the tool `name`: first of each key, then, if everything is known, of the whole
/// config.
fn wrong_tool(name: &str, given: &[GivenOption], complete: bool) -> Vec<OptionProblem> {
    let told = |name: &str, text: String| {
        let start = text.find("tool_define").unwrap_or_default();
        OptionProblem { name: name.to_owned(), text: text[start..].to_owned(), effect: OptionEffect::Fails }
    };
    let mut config = Dict::new();
    let mut found = Vec::new();
    for option in given {
        let known = option.value.as_ref().and_then(value);
        let mut one = Dict::new();
        one.insert(option.name.as_str(), known.clone().unwrap_or_default());
        found.extend(check_config(&one).err().map(|error| told(&option.name, error.uncaught_text())));
        // For the whole config, it only matters whether there is a handler.
        config.insert(option.name.as_str(), known.unwrap_or(Value::TRUE));
    }
    if found.is_empty() && complete {
        let whole = [registry::empty(), name.into(), Value::NIL, Value::dict(config)];
        found.extend(registry::define(&whole).err().map(|error| told("", error.to_string())));
    }
    found
}

/// Returns the error for an unknown name in the second argument of `create_runtime`.
pub(crate) fn unknown_dep<'k>(mut names: impl Iterator<Item = &'k str>) -> Option<String> {
    let key = names.find(|key| !DEPS.contains(key))?;
    Some(format!("create_runtime: unknown key '{key}'; there are {}", DEPS.join(", ")))
}

/// The options of `agent_session_compact`.
const SESSION_OPTIONS: [&str; 9] = [
    "keep_last",
    "token_threshold",
    "tool_output_max_chars",
    "compact_strategy",
    "hard_limit_tokens",
    "hard_limit_strategy",
    "custom_compactor",
    "mask_callback",
    "compress_callback",
];

/// Returns the error for an unknown name in the options of `agent_session_compact`.
pub(crate) fn unknown_of_compaction<'k>(mut names: impl Iterator<Item = &'k str>) -> Option<String> {
    let key = names.find(|key| !SESSION_OPTIONS.contains(key))?;
    let known = SESSION_OPTIONS.join(", ");
    Some(format!("agent_session_compact: unknown option key '{key}' (expected one of: {known})"))
}

/// Returns the error of the function that reads a dict; `None` for builtins without such a function, or that accept any
/// names.
fn problem(builtin: &str, parameter: &str, given: &Json) -> Option<String> {
    fn told<T, E: ToString>(read: std::result::Result<T, E>) -> Option<String> {
        read.err().map(|error| error.to_string())
    }
    let remind = |origin| Reminder::parse(builtin, origin, given, "", Source::InPipeline);
    match (builtin, parameter) {
        ("layered_prompt", _) => told(harn_prompt::layered_prompt(given)),
        ("define_tool", _) => told(harness::define_tool(given)),
        ("define_tenant", "resource_id") => told(harness::define_tenant(given)),
        ("define_plan", _) => told(harness::define_plan(given)),
        ("define_reference", _) => {
            let mut given = given.clone();
            // The builtin itself converts the duration.
            if given["ttl_ms"].as_opaque().is_some_and(|opaque| opaque.type_name == "duration") {
                given["ttl_ms"] = 1.into();
            }
            told(harness::define_reference(&given))
        }
        ("define_toolkit", _) => told(harness::define_toolkit(given)),
        ("define_runtime", _) => told(harness::define_runtime(given, &ToolkitDescriptions::default())),
        ("create_runtime", "deps") => unknown_dep(given.as_object()?.keys().map(String::as_str)),
        ("handoff", _) => harn_agent::handoff::unknown(given)
            .or_else(|| told(harn_agent::handoff::handoff(given, "", &String::new))),
        ("tool_synthesize", _) => told(harn_agent::synthesis::specification(given)),
        ("tool_surface_validate", "options") => harn_agent::surface::unknown(given),
        ("project_context_profile", _) => told(harn_agent::profile::check_options(given)),
        ("agent_session_compact", _) => unknown_of_compaction(given.as_object()?.keys().map(String::as_str)),
        ("agent_session_remind" | "transcripts.inject_reminder", "options") => told(remind(Origin::Options)),
        ("agent_session_clear_reminders" | "transcripts.clear_reminders", "selector") => {
            told(harn_prompt::reminder::transcript::clear(builtin, &Json::Null, given))
        }
        ("register_reminder_provider", _) => {
            crate::reminders::unknown_entry(given.as_object()?.keys().map(String::as_str))
        }
        _ => {
            let role = Role::ALL.into_iter().find(|role| role.constructor() == builtin)?;
            told(harness::define_agent(role, given))
        }
    }
}

fn has_closure(literal: &Literal) -> bool {
    match literal {
        Literal::Closure => true,
        Literal::List(items) => items.iter().any(has_closure),
        Literal::Dict(entries) => entries.iter().any(|(_, value)| has_closure(value)),
        _ => false,
    }
}

/// Returns the error of a model call with these options.
pub(crate) fn wrong_call(options: &Json) -> Option<String> {
    let of_prompt = |given| harn_prompt::options::host::check(given).err().map(|error| error.to_string());
    let of_call = harn_llm::CallOptions::from_json(options).err().map(|error| error.to_string());
    of_call.or_else(|| options.as_object().and_then(of_prompt))
}

/// Returns the error of a call with these options. If the called builtin is not the loop, the message names the
/// builtin.
fn refusal(builtin: &str, of_loop: bool, options: Map<String, Json>) -> Option<String> {
    let call = Json::Object(options.clone());
    let given = options.clone();
    let of_provider = || check_overrides(&given, |key| PROVIDERS.contains(key)).err().map(|e| e.to_string());
    let of_call = || wrong_call(&call).or_else(of_provider);
    if !of_loop {
        return of_call();
    }
    let wrong = LoopConfig::new("", None, options, Format::Text).err().map(|error| error.to_string());
    Some(as_told(builtin, of_loop, &wrong.or_else(of_call)?))
}

/// Names the called builtin in an error.
fn as_told(builtin: &str, of_loop: bool, text: &str) -> String {
    if of_loop && builtin != "agent_loop" { whose(builtin, text) } else { text.to_owned() }
}

/// Replaces the prefix of an error of a loop or call by the name of the builtin.
fn whose(builtin: &str, text: &str) -> String {
    let bare = ["agent_loop: ", "llm_call: "].iter().find_map(|prefix| text.strip_prefix(prefix));
    format!("{builtin}: {}", bare.unwrap_or(text))
}

/// Rejects invalid options of a loop that begins later, in another task, or in a stage, so that the caller receives the
/// same error as from `agent_loop`. `builtin` is the name in errors; dependent options of `stage_options` are checked
/// when the stage runs.
///
/// # Errors
/// Describes the invalid option.
pub(crate) fn refuse_wrong(cx: &Cx, builtin: &str, set: &str, given: &Value) -> Result<()> {
    let mut read = CallOptions::new(cx, given);
    let Json::Object(mut options) = read.json.take() else { return Ok(()) };
    if let Some(text) = misfit(builtin, &options) {
        return Err(thrown(text));
    }
    if set == STAGE_OPTIONS {
        // Skills are independent of other options, and a single call would not check them.
        let skills =
            options.get("skills").map(|skills| Map::from_iter([("skills".to_owned(), skills.clone())]));
        if let Some(text) = skills.and_then(|skills| refusal(builtin, true, skills)) {
            return Err(thrown(text));
        }
        options.retain(|name, _| !is_dependent(name));
    }
    crate::mcp::in_seconds(given, &mut options);
    let surface = surface_of("", None, &options);
    let reminders = options.get("reminders").cloned().unwrap_or_default();
    let told = |text: &str| thrown(whose(builtin, text));
    if let Some(text) = refusal(builtin, true, options) {
        return Err(thrown(text));
    }
    cx.state::<Reminders>().select(&reminders).map_err(|error| told(&error.to_string()))?;
    let commands = [entry(&entry(given, "policy"), "command_policy"), entry(given, "command_policy")];
    for policy in commands.iter().filter(|policy| !policy.is_nil()) {
        CommandPolicy::read(&format!("{builtin}: command_policy"), policy)?;
    }
    crate::live::listener(builtin, given)?;
    doubts(&entry(given, "tools"))?;
    let is_error = |finding: &Finding| finding.severity == Severity::Error;
    let mut found =
        harn_agent::surface::validate(&surface).into_iter().chain(harn_agent::surface::slips(&surface));
    match found.find(is_error) {
        Some(Finding { code, message, .. }) => Err(told(&format!("tool surface: {code}: {message}"))),
        None => Ok(()),
    }
}

/// Rejects invalid options of loops and runs that are nested in a value of a type.
///
/// # Errors
/// Describes the first invalid option.
pub(crate) fn refuse_inside(cx: &Cx, builtin: &str, ty: &'static str, given: &Value) -> Result<()> {
    let mut result = Ok(());
    option_sets(ty, given, &mut |path, set, value| {
        if result.is_ok() && !value.is_nil() {
            let whose = if path.is_empty() { builtin.to_owned() } else { format!("{builtin}: {path}") };
            result = match set {
                LOOP_OPTIONS | STAGE_OPTIONS => refuse_wrong(cx, &whose, set, value),
                WORKFLOW_OPTIONS => refuse_of_run(cx, &whose, value),
                _ => Ok(()),
            };
        }
    });
    result
}

/// Rejects invalid options of a workflow run, including those that override options of its nodes.
///
/// # Errors
/// Describes the first invalid option.
pub(crate) fn refuse_of_run(cx: &Cx, builtin: &str, given: &Value) -> Result<()> {
    RunOptions::of(&to_json(given)).map_err(|text| thrown(format!("{builtin}: {text}")))?;
    let over = MODEL_KEYS.into_iter().map(|key| (key, entry(given, key)));
    let over: Dict = over.filter(|(_, value)| !value.is_nil()).collect();
    refuse_wrong(cx, builtin, STAGE_OPTIONS, &over.into())
}

/// Converts a literal to the value that the call reads; `None` if it contains a closure.
pub(crate) fn json(name: &str, literal: &Literal) -> Option<Json> {
    if *literal == Literal::Closure {
        return Some(Json::opaque("closure", "<fn>"));
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

#[cfg(test)]
mod tests {
    use harn_syntax::signature::CALL_OPTIONS;

    use super::*;

    #[test]
    fn options_that_ask_for_each_other_are_looked_at_together() {
        let told = |names: &[&str], complete: bool| {
            let value = |name: &str| match name {
                "replay_mode" => Some(Literal::Str("deterministic".into())),
                "replay_path" => Some(Literal::Str("run.json".into())),
                _ => None,
            };
            let given: Vec<GivenOption> = names
                .iter()
                .map(|name| GivenOption { name: (*name).to_owned(), value: value(name) })
                .collect();
            let found = wrong_options("workflow_execute", "options", WORKFLOW_OPTIONS, &given, complete);
            found.into_iter().map(|problem| problem.text).collect::<Vec<_>>()
        };
        for complete in [true, false] {
            assert_eq!(told(&["replay_mode", "replay_path"], complete), [""; 0]);
            assert_eq!(told(&["replay_run", "replay_mode"], complete), [""; 0]);
        }
        // If there may be more options than the source shows, one of them alone is valid.
        for name in ["replay_mode", "replay_path", "replay_run"] {
            assert_eq!(told(&[name], false), [""; 0], "{name}");
        }
        let alone = "workflow_execute: replay_mode requires replay_run or replay_path";
        assert_eq!(told(&["replay_mode"], true), [alone]);
        let alone = "workflow_execute: replay_run and replay_path require replay_mode: \"deterministic\"";
        assert_eq!(told(&["replay_path"], true), [alone]);
    }

    /// If nothing rejects a wrong value of an option, the option would be ignored silently.
    #[test]
    fn every_option_of_a_call_refuses_what_it_does_not_take() {
        let list = |item| Literal::List(vec![item]);
        let samples = [
            Literal::Bool(true),
            Literal::Int(-7),
            Literal::Float(0.5),
            Literal::Str("no such thing".into()),
            list(Literal::Int(1)),
            Literal::Dict(vec![("no_such_thing".into(), Literal::Int(1))]),
            Literal::Closure,
        ];
        let mut refused = 0;
        for field in call_options() {
            let name = field.name;
            let of_call =
                if name == "reminders" { ("agent_loop", LOOP_OPTIONS) } else { ("llm_call", CALL_OPTIONS) };
            let told = samples.iter().flat_map(|value| {
                let given = [GivenOption { name: name.to_owned(), value: Some(value.clone()) }];
                wrong_options(of_call.0, "options", of_call.1, &given, true)
            });
            let told: Vec<String> = told
                .filter(|problem| problem.effect == OptionEffect::Fails)
                .map(|problem| problem.text)
                .collect();
            refused += told.len();
            let displayed = field.ty == "text";
            assert_eq!(told.is_empty(), displayed, "{name}: {told:#?}");
            for text in told {
                assert!(text.contains(name), "{name}: {text}");
            }
        }
        assert!(refused > 250, "only {refused} wrong values are refused");
    }

    /// A plain number is in seconds; one that looks like milliseconds is reported.
    #[test]
    fn limits_in_milliseconds_are_doubted() {
        let told = |set: &str, name: &str, value: Literal| {
            let given = [GivenOption { name: name.to_owned(), value: Some(value) }];
            let found = wrong_options("llm_call", "options", set, &given, true);
            found.into_iter().map(|problem| (problem.text, problem.effect)).collect::<Vec<_>>()
        };
        for (name, number) in [("timeout", 5000), ("idle_timeout", 1500), ("timeout", 60_000)] {
            for set in [CALL_OPTIONS, LOOP_OPTIONS] {
                let text = format!(
                    "{name}: {number} is in seconds; write `{number}ms` for milliseconds, or `{number}s`"
                );
                assert_eq!(told(set, name, Literal::Int(number)), [(text, OptionEffect::Used)]);
            }
        }
        for value in [
            Literal::Int(120),
            Literal::Int(999),
            Literal::Int(1800),
            Literal::Int(3600),
            Literal::Duration(5000),
        ] {
            assert_eq!(told(CALL_OPTIONS, "timeout", value.clone()), [], "{value:?}");
        }
        assert_eq!(told(CALL_OPTIONS, "max_tokens", Literal::Int(5000)), []);
    }

    #[test]
    fn names_that_nothing_knows_are_refused() {
        let told = |builtin: &str, name: &str| {
            unknown(builtin, [name], |name| name == "anthropic").map(|found| found.1)
        };
        assert_eq!(
            told("transcript_compact", "keep_lst").unwrap(),
            "transcript_compact: unknown option `keep_lst`, did you mean `keep_last`?"
        );
        assert_eq!(
            told("transcript_compact", "temprature").unwrap(),
            "transcript_compact: unknown option `temprature`, did you mean `temperature`?"
        );
        let all = told("transcript_auto_compact", "colour").unwrap();
        assert!(
            all.contains("it takes keep_last, ") && all.ends_with(", and the options of a model call"),
            "{all}"
        );
        assert_eq!(
            told("sub_agent_run", "allowed_tool").unwrap(),
            "sub_agent_run: unknown option `allowed_tool`, did you mean `allowed_tools`?"
        );
        for (builtin, name) in [
            ("transcript_compact", "anthropic"),
            ("transcript_compact", "temperature"),
            ("sub_agent_run", "max_iterations"),
            ("sub_agent_run", "of_a_host"),
            ("agent_loop", "colour"),
        ] {
            assert_eq!(told(builtin, name), None, "{builtin} {name}");
        }
    }
}
