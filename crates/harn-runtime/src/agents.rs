//! Agents as values: their options, and the options that they inherit from the loop that calls them.

use std::collections::BTreeMap;

use harn_value::{Dict, Value};
use harn_vm::Result;
use harn_vm::closure::is_callable;

use crate::convert::{entry, text, thrown, with_functions};

/// The builtin that runs an agent as a tool: its first argument is the agent.
pub(crate) const AGENT_TOOL: &str = "__agent_tool";

/// The builtin that runs an agent as a guardrail on an input or answer: its first argument is the agent.
pub(crate) const AGENT_GUARD: &str = "__agent_guard";

/// Options that choose the model of a call.
const MODEL: [&str; 5] = ["provider", "model", "model_tier", "route_policy", "llm_caller"];

/// Options that determine how that model is reached; they are inherited together with [`MODEL`].
const ROUTE: [&str; 5] = ["fallback_chain", "base_url", "api_key", "api_mode", "tool_format"];

/// Options that determine the form of an answer.
const FORM: [&str; 5] = ["schema", "output_schema", "json_schema", "output_format", "response_format"];

/// Options about the answer of a loop. They apply to the agent that produces the answer, unless that agent sets them
/// itself.
const ANSWER: [&str; 6] = [
    "on_delta",
    "output_validation",
    "output_validator",
    "require_successful_tools",
    "schema_retries",
    "schema_retry_nudge",
];

/// Options whose limits apply to the whole conversation.
const BUDGET: [&str; 5] =
    ["budget", "max_cost_usd", "max_input_tokens", "max_output_tokens", "total_budget_usd"];

/// Returns whether a value was created by `agent`.
pub(crate) fn is_agent(value: &Value) -> bool {
    entry(value, "_type").as_str().is_some_and(|word| word.as_str() == "agent")
}

/// Returns the name of an agent.
pub(crate) fn name_of(agent: &Value) -> String {
    text(&entry(agent, "name")).unwrap_or_default()
}

/// Returns whether a key of an agent is an option of its loop. This includes all options of a model call, so that no
/// limit of an agent is lost.
fn is_option(key: &str) -> bool {
    let mut options = crate::option_sets::loop_options().iter().chain(crate::option_sets::call_options());
    key != "system" && options.any(|option| option.name == key)
}

/// Returns the options of an agent's loops.
pub(crate) fn options_of(agent: &Value) -> Dict {
    let mut options = Dict::new();
    for (key, value) in agent.to_dict().iter().flat_map(|dict| dict.written()) {
        if !value.is_nil() && is_option(key) {
            options.insert(key.as_str(), value.clone());
        }
    }
    options
}

/// Returns the agent with the model options of the calling loop, unless it sets its own.
pub(crate) fn with_model(agent: &Value, of: &Value) -> Value {
    let mut out = dict(agent);
    take_model(&mut out, of);
    out.into()
}

fn take_model(options: &mut Dict, of: &Value) {
    if !MODEL.iter().all(|key| is_absent(options, key)) {
        return;
    }
    take(options, of, MODEL.iter().chain(&ROUTE));
    // The settings of a provider are a dict under its name.
    for (key, value) in of.to_dict().iter().flat_map(|dict| dict.written()) {
        if value.as_dict().is_some() && !is_option(key) && !key.starts_with('_') && is_absent(options, key) {
            options.insert(key.as_str(), value.clone());
        }
    }
}

/// Copies the given options from `of` where they are absent.
fn take<'k>(options: &mut Dict, of: &Value, keys: impl IntoIterator<Item = &'k &'static str>) {
    for key in keys {
        let value = entry(of, key);
        if is_absent(options, key) && !value.is_nil() {
            options.insert(*key, value);
        }
    }
}

fn is_absent(options: &Dict, key: &str) -> bool {
    options.get_str(key).is_none_or(Value::is_nil)
}

fn dict(value: &Value) -> Dict {
    value.to_dict().map(|dict| (*dict).clone()).unwrap_or_default()
}

/// The agents that a loop and its handoffs name.
pub(crate) struct Roster {
    /// The name of the agent with which the loop starts.
    first: String,
    system: Value,
    options: Value,
    others: BTreeMap<String, Value>,
}

/// An agent of a roster, as it continues a conversation.
pub(crate) struct Member {
    /// Its system prompt.
    pub(crate) system: Value,
    /// The options of its loop.
    pub(crate) options: Dict,
}

impl Roster {
    /// Reads the handoffs of a loop, and of the agents in them.
    ///
    /// # Errors
    /// Two agents have the same name, or a handoff names an unknown agent or tool.
    pub(crate) fn read(first: &str, system: &Value, options: &Value) -> Result<Roster> {
        let mut out = Roster {
            first: first.to_owned(),
            system: system.clone(),
            options: options.clone(),
            others: BTreeMap::new(),
        };
        out.collect(options)?;
        let owners = std::iter::once((first, options)).chain(out.others.iter().map(|(n, o)| (n.as_str(), o)));
        for (owner, options) in owners {
            for (at, handoff) in handoffs(options).iter().enumerate() {
                let agent = target(handoff);
                let name = text(&agent).filter(|_| agent.as_str().is_some());
                if let Some(name) = name.filter(|name| *name != first && !out.others.contains_key(name)) {
                    let mut known: Vec<&str> = out.others.keys().map(String::as_str).collect();
                    known.insert(0, first);
                    let known = known.join(", ");
                    return Err(thrown(format!(
                        "agent_loop: handoffs[{at}] of '{owner}': unknown agent '{name}'; there are {known}"
                    )));
                }
            }
        }
        Ok(out)
    }

    fn collect(&mut self, options: &Value) -> Result<()> {
        for handoff in handoffs(options) {
            let agent = target(&handoff);
            if !is_agent(&agent) {
                continue;
            }
            let name = name_of(&agent);
            let same = self.others.get(&name).map(|known| is_same(known, &agent));
            if name == self.first || same == Some(false) {
                return Err(thrown(format!("agent_loop: handoffs: two agents are named '{name}'")));
            }
            if same.is_none() {
                self.others.insert(name, agent.clone());
                self.collect(&agent)?;
            }
        }
        Ok(())
    }

    /// Returns the agent called `name`, restricted to the given tools. `in_force` contains the options of the agents
    /// whose policies already apply.
    ///
    /// # Errors
    /// The agent lacks one of the tools.
    pub(crate) fn member(&self, name: &str, tools: Option<&[String]>, in_force: &[Value]) -> Result<Member> {
        let (system, mut options) = match self.others.get(name) {
            Some(agent) => (entry(agent, "system"), self.inherited(agent)),
            None => (self.system.clone(), dict(&self.options)),
        };
        options.insert("name", name);
        for key in ["messages", "transcript", "session_id"] {
            options.remove(key);
        }
        if let Some(names) = tools {
            let given = with_functions(&options.get_str("tools").cloned().unwrap_or_default());
            let has = crate::convert::to_json(&given);
            if let Some(text) =
                harn_agent::surface::misses("agent_loop: handoffs: tools", names, &has).first()
            {
                return Err(thrown(text));
            }
            options.insert("tools", only(&given, names));
        }
        for key in ["policy", "approval_policy", "permissions", "command_policy"] {
            let own = options.get_str(key).cloned().unwrap_or_default();
            if own.is_nil() || !in_force.iter().any(|options| is_same(&entry(options, key), &own)) {
                continue;
            }
            // Applying the same rules twice would ask a human twice.
            options.remove(key);
            let annotations = entry(&own, "tool_annotations");
            if key == "policy" && !annotations.is_nil() {
                let mut kept = Dict::new();
                kept.insert("tool_annotations", annotations);
                options.insert("policy", kept);
            }
        }
        Ok(Member { system, options })
    }

    /// Returns the options of an agent that continues the conversation of the loop.
    fn inherited(&self, agent: &Value) -> Dict {
        let (mut options, of) = (options_of(agent), &self.options);
        take_model(&mut options, of);
        if FORM.iter().all(|key| is_absent(&options, key)) {
            take(&mut options, of, &FORM);
        }
        take(&mut options, of, ANSWER.iter().chain(&BUDGET));
        let both = [entry(of, "output_guardrails"), entry(agent, "output_guardrails")];
        let both: Vec<Value> =
            both.iter().filter_map(Value::as_list).flat_map(|list| list.iter().cloned()).collect();
        options.insert("output_guardrails", Value::list(both));
        options
    }
}

/// Returns whether two values are identical or equal. A closure is not equal to any value, including itself.
fn is_same(one: &Value, other: &Value) -> bool {
    one.same(other) || one == other
}

fn handoffs(options: &Value) -> Vec<Value> {
    entry(options, "handoffs").as_list().map(|list| list.iter().cloned().collect()).unwrap_or_default()
}

/// Returns the agent of a handoff, or its name.
fn target(handoff: &Value) -> Value {
    if is_agent(handoff) || handoff.as_str().is_some() { handoff.clone() } else { entry(handoff, "agent") }
}

/// Returns the closure that selects the messages which the agent of a handoff sees, if the handoff has one.
pub(crate) fn history_closure(options: &Value, at: usize) -> Option<Value> {
    handoffs(options).get(at).map(|handoff| entry(handoff, "history")).filter(is_callable)
}

/// Returns a registry or list of tools, restricted to the given names.
pub(crate) fn only(tools: &Value, names: &[String]) -> Value {
    let kept = |list: &Value| {
        let each = list.as_list().into_iter().flat_map(|list| list.iter());
        Value::list(
            each.filter_map(|tool| {
                if harn_agent::registry::is_registry(tool) {
                    return Some(only(tool, names));
                }
                let name = entry(tool, "name");
                let name = name.as_str()?;
                names.iter().any(|known| known == name.as_str()).then(|| tool.clone())
            })
            .collect(),
        )
    };
    if harn_agent::registry::is_registry(tools) {
        let mut registry = dict(tools);
        registry.insert("tools", kept(&entry(tools, "tools")));
        return registry.into();
    }
    if tools.as_list().is_some() { kept(tools) } else { tools.clone() }
}
