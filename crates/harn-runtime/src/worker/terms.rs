//! Limits that apply while work runs.

use std::rc::Rc;

use harn_agent::lifecycle::Execution;
use harn_agent::policy::Policy;
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Value};
use harn_vm::{Cx, Limit, Result};

use crate::command_policy::{CommandPolicies, CommandPolicy, InForce};
use crate::convert::{entry, thrown, to_json};
use crate::policy::{Depth, at_depth, layers, narrow, over};
use crate::worker::place;

/// The limits of work, while its process lives.
#[derive(Default)]
pub(crate) struct Limits {
    /// The policies in effect where it was started, each with its options, outermost first.
    pub(crate) inherited: Vec<(Policy, Value)>,
    /// The policies that it was started with.
    pub(crate) own: Vec<(Policy, Value)>,
    /// Command policies, outermost first.
    pub(crate) commands: Vec<Rc<CommandPolicy>>,
}

impl Limits {
    /// Returns the limits of the running task.
    pub(crate) fn inherited(cx: &Cx) -> Limits {
        Limits { inherited: layers(cx), own: Vec::new(), commands: CommandPolicies::of(cx).chain(cx) }
    }

    /// Returns the limits of the running task, plus those in a config: `policy`, `tools` (short for `policy.tools`),
    /// `permissions`, `approval_policy`, `command_policy`, and those of `carry`. `function` is the name in errors.
    ///
    /// # Errors
    /// A part is malformed, or requests more than the running task is permitted to do.
    pub(crate) fn of(cx: &Cx, function: &str, config: &Value) -> Result<Limits> {
        let mut limits = Limits::inherited(cx);
        let own = Limits::asked(function, config)?;
        let carry = entry(config, "carry");
        let mut asked = own.own;
        let mut options = vec![json!({"policy": to_json(&entry(&carry, "policy"))})];
        for from in [config, &carry] {
            let tools = to_json(&entry(from, "tools"));
            let is_name = |name: &Json| name.as_str().is_some_and(|name| !name.trim().is_empty());
            match &tools {
                Json::Null => {}
                Json::Array(names) if names.iter().all(is_name) => {
                    options.push(json!({"policy": {"tools": tools}}));
                }
                _ => return Err(thrown(format!("{function}: tools must be a list of names"))),
            }
        }
        for options in options {
            asked.push((policy_of(function, &options)?, Value::NIL));
        }
        let ceiling = over(cx);
        for (policy, options) in asked {
            if policy == Policy::default() {
                continue;
            }
            if let Some(ceiling) = &ceiling {
                policy.fits_under(ceiling).map_err(|text| thrown(format!("{function}: {text}")))?;
            }
            limits.own.push((policy, options));
        }
        limits.commands.extend(own.commands);
        let within = entry(&entry(&carry, "policy"), "command_policy");
        if !within.is_nil() {
            limits.commands.push(Rc::new(command_policy(function, &within)?));
        }
        Ok(limits)
    }

    /// Returns only the limits in a config: `policy`, `approval_policy`, `permissions` and `command_policy`. `function`
    /// is the name in errors.
    ///
    /// # Errors
    /// A part is malformed.
    pub(crate) fn asked(function: &str, config: &Value) -> Result<Limits> {
        let keys = ["policy", "approval_policy", "permissions"];
        let given = keys.iter().map(|key| (*key, entry(config, key))).filter(|(_, value)| !value.is_nil());
        let policy = policy_of(function, &to_json(&given.collect::<Dict>().into()))?;
        let mut limits = Limits::default();
        if policy != Policy::default() {
            limits.own.push((policy, config.clone()));
        }
        for policy in [entry(&entry(config, "policy"), "command_policy"), entry(config, "command_policy")] {
            if !policy.is_nil() {
                limits.commands.push(Rc::new(command_policy(function, &policy)?));
            }
        }
        Ok(limits)
    }

    /// Adds more limits within these.
    pub(crate) fn below(mut self, more: Limits) -> Limits {
        self.own.extend(more.own);
        self.commands.extend(more.commands);
        self
    }

    /// Returns the limits of a snapshot. It does not contain closures, so a call that requires the decision of a
    /// closure is an error.
    pub(crate) fn saved(cx: &Cx, inherited: &[Policy], own: &[Policy]) -> Limits {
        let bare = |policies: &[Policy]| policies.iter().map(|policy| (policy.clone(), Value::NIL)).collect();
        let mut limits = Limits { inherited: bare(inherited), own: bare(own), commands: Vec::new() };
        limits.commands = CommandPolicies::of(cx).chain(cx);
        limits
    }
}

fn policy_of(function: &str, options: &Json) -> Result<Policy> {
    Policy::from_options(options.as_object().unwrap_or(&Map::new())).map_err(|text| {
        let text = text.strip_prefix("agent_loop: ").unwrap_or(&text);
        thrown(format!("{function}: policy parse error: {text}"))
    })
}

fn command_policy(function: &str, policy: &Value) -> Result<CommandPolicy> {
    CommandPolicy::read(&format!("{function}: command_policy"), policy)
}

/// Applies limits to the running task until it is dropped.
pub(crate) struct Terms {
    _depth: Option<Depth>,
    _commands: Option<InForce>,
    // Dropped in this order; each is independent.
    _limits: Vec<Limit>,
}

impl Terms {
    /// Applies limits and an execution context to the running task: first the inherited limits, then the context, then
    /// the limits with which the work was started. Each step can only restrict. `callers` are the command policies of
    /// the current caller.
    pub(crate) fn open(
        cx: &Cx,
        limits: &Limits,
        execution: &Execution,
        depth: Option<(u64, u64)>,
        callers: &[Rc<CommandPolicy>],
    ) -> Terms {
        // A task that was started under them already has them.
        let there = layers(cx);
        let missing =
            limits.inherited.iter().filter(|(policy, _)| !there.iter().any(|(known, _)| known == policy));
        let over = |(policy, options): &(Policy, Value)| narrow(cx, policy.clone(), options.clone());
        let mut put: Vec<Limit> = missing.map(over).collect();
        if !execution.is_default() {
            put.push(Limit::layer(cx, |system| place::layer(system, execution)));
        }
        put.extend(limits.own.iter().map(over));
        let mut commands = callers.to_vec();
        commands.extend(
            limits.commands.iter().filter(|own| !callers.iter().any(|c| Rc::ptr_eq(c, own))).cloned(),
        );
        let commands = CommandPolicies::of(cx).carry(cx, &commands);
        Terms { _depth: depth.map(|depth| at_depth(cx, depth)), _commands: commands, _limits: put }
    }
}
