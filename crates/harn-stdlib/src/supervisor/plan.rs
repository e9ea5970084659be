//! The specification of `supervisor_start`.

use std::collections::HashSet;
use std::fmt::Display;
use std::time::Duration;

use harn_value::{Dict, Ref, Str, Value};
use harn_vm::builtin::check_options;
use harn_vm::closure::acts_as_function;
use harn_vm::{Error, Result};
use jiff::SignedDuration;

use super::policy::{Mode, Policy, Strategy};

/// A supervisor to start.
pub(super) struct Plan {
    pub(super) id: Option<Str>,
    pub(super) name: Option<Str>,
    pub(super) strategy: Strategy,
    /// Time limit for the cleanup of children.
    pub(super) shutdown: Duration,
    pub(super) children: Vec<ChildPlan>,
}

/// A child of a supervisor.
pub(super) struct ChildPlan {
    pub(super) name: Str,
    pub(super) kind: Str,
    pub(super) task: Value,
    pub(super) policy: Policy,
    pub(super) lease: Value,
}

fn wrong(text: impl Display) -> Error {
    Error::runtime(format!("supervisor_start: {text}"))
}

impl Plan {
    /// Parses the argument of `supervisor_start`.
    ///
    /// # Errors
    /// A part is missing or invalid.
    pub(super) fn read(spec: &Value) -> Result<Plan> {
        let Some(spec) = spec.to_dict() else { return Err(wrong("expected a dict")) };
        let children = match given(&spec, &["children"])? {
            Some(children) => children.as_list().ok_or_else(|| wrong("children must be a list"))?,
            None => return Err(wrong("children must be a list")),
        };
        if children.is_empty() {
            return Err(wrong("children must include at least one child"));
        }
        let strategy = match given(&spec, &["strategy"])?.and_then(Value::as_str) {
            Some(word) => {
                Strategy::named(word).ok_or_else(|| wrong(format_args!("unknown strategy '{word}'")))?
            }
            None => Strategy::OneForOne,
        };
        let policy = policy(given(&spec, &["restart"])?)?;
        let children: Vec<ChildPlan> = children
            .iter()
            .enumerate()
            .map(|(at, child)| self::child(at, child, &policy))
            .collect::<Result<_>>()?;
        let mut names = HashSet::new();
        if let Some(child) = children.iter().find(|child| !names.insert(&*child.name)) {
            return Err(wrong(format_args!("two children have the name '{}'", child.name)));
        }
        Ok(Plan {
            id: word(&spec, &["id"])?,
            name: word(&spec, &["name"])?,
            strategy,
            shutdown: Duration::from_millis(time(&spec, &["shutdown_ms", "drain_ms"])?.unwrap_or(5000)),
            children,
        })
    }
}

fn child(at: usize, spec: &Value, policy: &Policy) -> Result<ChildPlan> {
    let Some(spec) = spec.to_dict() else {
        return Err(wrong(format_args!("child {at} must be a dict, got {}", spec.type_name())));
    };
    let name = word(&spec, &["name"])?.unwrap_or_else(|| Str::new(&format!("child_{at}")));
    let task = given(&spec, &["task", "handler"])?.filter(|task| acts_as_function(task));
    let Some(task) = task.cloned() else {
        return Err(wrong(format_args!("child '{name}' requires a task closure")));
    };
    let own = given(&spec, &["restart"])?;
    Ok(ChildPlan {
        name,
        kind: word(&spec, &["kind"])?.unwrap_or_else(|| Str::new("task")),
        task,
        policy: if own.is_some() { self::policy(own)? } else { policy.clone() },
        lease: word(&spec, &["active_lease", "lease"])?.into(),
    })
}

fn policy(given_policy: Option<&Value>) -> Result<Policy> {
    let mut policy = Policy::default();
    let Some(value) = given_policy else { return Ok(policy) };
    if let Some(word) = value.as_str() {
        policy.mode = mode(word)?;
        return Ok(policy);
    }
    let Some(dict) = value.to_dict() else {
        let got = value.type_name();
        return Err(wrong(format_args!("restart policy must be a string or dict, got {got}")));
    };
    check_options("supervisor_start", "supervisor_restart", value)?;
    if let Some(word) = given(&dict, &["mode", "policy"])?.and_then(Value::as_str) {
        policy.mode = mode(word)?;
    }
    if let Some(most) = given(&dict, &["max_restarts", "max"])?.and_then(Value::as_int) {
        let most = u64::try_from(most).map_err(|_| wrong("max_restarts must not be negative"))?;
        policy.max_restarts = Some(most);
    }
    if let Some(factor) = given(&dict, &["factor", "backoff_factor"])?.and_then(Value::as_number) {
        if !(factor.is_finite() && factor >= 1.0) {
            return Err(wrong("factor must be a number of at least 1"));
        }
        policy.factor = factor;
    }
    let time = |names: &[&str], default| Ok::<_, Error>(time(&dict, names)?.unwrap_or(default));
    policy.window = time(&["window_ms", "window"], policy.window)?;
    policy.backoff = time(&["backoff_ms", "backoff", "initial_backoff_ms"], policy.backoff)?;
    policy.max_backoff = time(&["max_backoff_ms", "max_backoff"], policy.max_backoff)?;
    policy.jitter = time(&["jitter_ms", "jitter"], policy.jitter)?;
    policy.circuit_open = self::time(&dict, &["circuit_open_ms", "circuit_open"])?;
    Ok(policy)
}

fn mode(word: &str) -> Result<Mode> {
    Mode::named(word).ok_or_else(|| wrong(format_args!("unknown restart mode '{word}'")))
}

/// Returns the value of an option with several names. A nil option is treated as missing.
fn given<'a>(options: &'a Ref<Dict>, names: &[&str]) -> Result<Option<&'a Value>> {
    let value = |name: &&str| options.get_str(name).filter(|value| !value.is_nil());
    let mut found = names.iter().filter(|name| value(name).is_some());
    let Some(first) = found.next() else { return Ok(None) };
    match found.next() {
        None => Ok(value(first)),
        Some(second) => Err(wrong(format_args!("`{first}` and `{second}` are one option, give one of them"))),
    }
}

/// Returns a string option, which must contain more than whitespace.
fn word(options: &Ref<Dict>, names: &[&str]) -> Result<Option<Str>> {
    let Some(value) = given(options, names)? else { return Ok(None) };
    match value.as_str() {
        Some(word) if !word.trim().is_empty() => Ok(Some(word.clone())),
        _ => Err(wrong(format_args!("{} must be a string with something in it", names[0]))),
    }
}

/// Returns the milliseconds of a duration, a number, or a string such as `"1s"`.
fn time(options: &Ref<Dict>, names: &[&str]) -> Result<Option<u64>> {
    let Some(value) = given(options, names)? else { return Ok(None) };
    let ms = match value.as_str() {
        Some(text) => {
            text.trim().parse::<SignedDuration>().ok().and_then(|d| i64::try_from(d.as_millis()).ok())
        }
        None => value.as_duration().or_else(|| value.as_int()),
    };
    ms.and_then(|ms| u64::try_from(ms).ok()).map(Some).ok_or_else(|| {
        wrong(format_args!(
            "{} must be a duration, such as 1s or \"10ms\", or milliseconds, got {value}",
            names[0]
        ))
    })
}
