//! Agents that other agents call: as tools, and as targets of handoffs.

use harn_llm::options::nearest;
use harn_llm::options::shape::shown;
use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// Marks the entry of a tool that runs an agent, or transfers the conversation to one.
pub(crate) const OF_AGENT: &str = "_agent";

/// The names of the tools of such an agent: loop rules that name tools also apply to them.
pub(crate) const TOOLS_OF_AGENT: &str = "_tools";

/// Options that a handoff's agent cannot have, because it takes over a conversation that has already started.
const OF_BEGINNINGS: [&str; 6] =
    ["daemon", "messages", "persist_path", "resume_path", "session_id", "transcript"];

const KEYS: [&str; 5] = ["agent", "description", "history", "name", "tools"];

/// Annotations of tools without direct effects: the effects of an agent are checked where they occur.
fn annotations(kind: &str) -> Json {
    json!({"kind": kind, "side_effect_level": "none"})
}

/// Returns whether a dict was made by `agent`.
pub fn is_agent(value: &Json) -> bool {
    value["_type"] == "agent" && value["name"].is_string()
}

/// Returns the entry of the tool that runs an agent: its argument is a task, its result the agent's answer.
pub fn tool_entry(agent: &Json) -> Json {
    let name = agent["name"].as_str().unwrap_or_default();
    let kind = if only_reads(agent) { "read" } else { "other" };
    json!({
        "name": identifier(name), "description": agent["description"].as_str().unwrap_or_default(),
        "parameters": {"task": "string"}, "annotations": annotations(kind), "executor": "harn", OF_AGENT: name,
        TOOLS_OF_AGENT: names_of(agent),
    })
}

/// Converts an agent's name to a tool name that every tool format and provider accepts.
fn identifier(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().map(|c| if fits(c) { c } else { '_' }).take(64).collect()
}

/// Returns the tool entries of a list, a registry, or registries in a list.
fn tools_in(tools: &Json) -> Vec<&Json> {
    let list = tools.as_array().or_else(|| tools["tools"].as_array());
    let entries = |entry| match !is_agent(entry) && entry["tools"].is_array() {
        true => tools_in(entry),
        false => vec![entry],
    };
    list.into_iter().flatten().flat_map(entries).collect()
}

/// Returns whether every tool of an agent only reads; calls of such an agent can run concurrently.
fn only_reads(agent: &Json) -> bool {
    let more = ["handoffs", "mcp_servers", "skills"].iter().any(|key| !agent[*key].is_null());
    let reads = |tool: &Json| match is_agent(tool) {
        true => only_reads(tool),
        false => matches!(tool["annotations"]["kind"].as_str(), Some("read" | "search" | "think" | "fetch")),
    };
    !more && tools_in(&agent["tools"]).into_iter().all(reads)
}

/// Returns the names of an agent's tools and of the agents that it can call.
fn names_of(agent: &Json) -> Vec<String> {
    let handoffs = agent["handoffs"].as_array().into_iter().flatten();
    let agents = handoffs.map(|handoff| if is_agent(handoff) { handoff } else { &handoff["agent"] });
    let mut names = Vec::new();
    for entry in tools_in(&agent["tools"]) {
        if is_agent(entry) {
            names.push(identifier(entry["name"].as_str().unwrap_or_default()));
            names.extend(names_of(entry));
        } else if let Some(name) = entry["name"].as_str().or_else(|| entry["function"]["name"].as_str()) {
            names.push(name.to_owned());
        }
    }
    names.extend(agents.flat_map(names_of));
    names
}

/// The part of the conversation that the agent of a handoff sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// The whole conversation.
    Full,
    /// The messages of the user and the agents, without tool calls and their results.
    Messages,
    /// The task with which the loop started.
    Task,
    /// The return value of a closure.
    Callback,
}

/// An agent to which the model can transfer the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Handoff {
    /// Name of the agent.
    pub agent: String,
    /// Name of the tool that transfers the conversation.
    pub tool: String,
    /// When to transfer the conversation, as described by the program.
    pub description: Option<String>,
    /// The part of the conversation that the agent sees.
    pub history: History,
    /// Names of the tools that the agent may use; `None` means all that it defines.
    pub tools: Option<Vec<String>>,
    /// Names of the agent's own tools.
    #[serde(default)]
    own: Vec<String>,
}

impl Handoff {
    /// Reads the option `handoffs`.
    ///
    /// # Errors
    /// An entry is not an agent, an agent name, or a dict around one of them; the agent has an option that handoffs do
    /// not support; or two handoffs have the same name.
    pub fn from_option(given: &Json) -> Result<Vec<Handoff>, ConfigError> {
        let wrong = |what: String| ConfigError(format!("agent_loop: handoffs{what}"));
        let Json::Array(list) = given else {
            return Err(wrong(format!(" must be a list of agents, got {}", shown(given))));
        };
        let mut out: Vec<Handoff> = Vec::with_capacity(list.len());
        for (at, given) in list.iter().enumerate() {
            let read = Handoff::read(given).map_err(|what| wrong(format!("[{at}]{what}")))?;
            if out.iter().any(|known| known.tool == read.tool) {
                return Err(wrong(format!("[{at}]: there is already a handoff '{}'; set `name`", read.tool)));
            }
            out.push(read);
        }
        Ok(out)
    }

    fn read(given: &Json) -> Result<Handoff, String> {
        let none = Map::new();
        let settings = match given {
            Json::Object(map) if !is_agent(given) => map,
            _ => &none,
        };
        if let Some(key) = settings.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let near = nearest(key, KEYS.into_iter());
            let hint = near.map_or_else(
                || format!("; there are {}", KEYS.join(", ")),
                |near| format!("; did you mean `{near}`?"),
            );
            return Err(format!(" has no field `{key}`{hint}"));
        }
        let agent = if settings.is_empty() { given } else { settings.get("agent").unwrap_or(&Json::Null) };
        let name = match agent {
            Json::String(name) if !name.trim().is_empty() => name.as_str(),
            agent if is_agent(agent) => agent["name"].as_str().unwrap_or_default(),
            other => {
                let text = "must be an agent, the name of one, or a dict {agent: ...}, got"; // prose-ok: diagnostic
                return Err(format!(" {text} {}", shown(other)));
            }
        };
        if let Some(key) = OF_BEGINNINGS.iter().find(|key| !agent[**key].is_null()) {
            let why = "it takes over the conversation of the loop"; // prose-ok: diagnostic
            return Err(format!(": the agent '{name}' cannot have `{key}`: {why}"));
        }
        let text = |key: &str| match settings.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) if !text.trim().is_empty() => Ok(Some(text.clone())),
            Some(other) => Err(format!(".{key} must be a string that is not blank, got {}", shown(other))),
        };
        let history = match settings.get("history") {
            None | Some(Json::Null) => History::Full,
            Some(value) if value.as_opaque().is_some() => History::Callback,
            Some(value) => match value.as_str() {
                Some("full") => History::Full,
                Some("messages") => History::Messages,
                Some("task") => History::Task,
                _ => {
                    let got = shown(value);
                    return Err(format!(
                        ".history must be one of full, messages, task, or a closure, got {got}" // prose-ok: diagnostic
                    ));
                }
            },
        };
        let tools =
            match settings.get("tools") {
                None | Some(Json::Null) => None,
                Some(list) => {
                    let names =
                        list.as_array().map(|list| list.iter().map(|name| name.as_str().map(str::to_owned)));
                    let names: Option<Vec<String>> = names.and_then(Iterator::collect);
                    Some(names.ok_or_else(|| {
                        format!(".tools must be a list of names of tools, got {}", shown(list))
                    })?)
                }
            };
        let tool = match text("name")? {
            Some(tool) if identifier(&tool.replace('-', "_")) == tool.replace('-', "_") => tool,
            Some(tool) => return Err(format!(".name '{tool}' is not a valid name of a tool")),
            None => identifier(&format!("transfer_to_{name}")),
        };
        let own = agent["description"].as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
        Ok(Handoff {
            agent: name.to_owned(),
            tool,
            description: text("description")?.or(own),
            history,
            tools,
            own: names_of(agent),
        })
    }

    /// Returns the tool's entry.
    pub fn entry(&self, description: &str) -> Json {
        let message = json!({"type": "string", "required": false});
        json!({
            "name": self.tool, "description": description, "parameters": {"message": message},
            "annotations": annotations("other"), "executor": "harn", OF_AGENT: self.agent,
            TOOLS_OF_AGENT: self.own,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: Json) -> Result<Vec<Handoff>, String> {
        Handoff::from_option(&given).map_err(|error| error.0)
    }

    #[test]
    fn handoffs_are_agents_names_or_dicts() {
        let agent = json!({"_type": "agent", "name": "Front desk", "description": "Greets"});
        let read = read(json!([
            agent, "billing",
            {"agent": agent, "name": "back", "description": "Go back", "history": "task", "tools": ["a"]},
        ]));
        let read = read.unwrap();
        assert_eq!(read[0].tool, "transfer_to_Front_desk");
        assert_eq!(read[0].description.as_deref(), Some("Greets"));
        assert_eq!((read[1].agent.as_str(), read[1].history), ("billing", History::Full));
        assert_eq!((read[2].tool.as_str(), read[2].history), ("back", History::Task));
        assert_eq!(read[2].description.as_deref(), Some("Go back"));
        assert_eq!(read[2].tools.as_deref(), Some(&["a".to_owned()][..]));
    }

    #[test]
    fn wrong_handoffs_are_named() {
        let agent = json!({"_type": "agent", "name": "a", "session_id": "s"});
        let cases = [
            (json!(3), "agent_loop: handoffs must be a list of agents, got int `3`"),
            (
                json!(["a", "a"]),
                "agent_loop: handoffs[1]: there is already a handoff 'transfer_to_a'; set `name`",
            ),
            (
                json!([{"agent": "a", "histroy": "task"}]),
                "agent_loop: handoffs[0] has no field `histroy`; did you mean `history`?",
            ),
            (
                json!([{"agent": "a", "history": "none"}]),
                "agent_loop: handoffs[0].history must be one of full, messages, task, or a closure, got string `none`",
            ),
            (
                json!([{"agent": "a", "tools": [1]}]),
                "agent_loop: handoffs[0].tools must be a list of names of tools, got list `[1]`",
            ),
            (
                json!([{"agent": "a", "name": "a b"}]),
                "agent_loop: handoffs[0].name 'a b' is not a valid name of a tool",
            ),
            (
                json!([{}]),
                "agent_loop: handoffs[0] must be an agent, the name of one, or a dict {agent: ...}, got dict `{}`",
            ),
            (
                json!([agent]),
                "agent_loop: handoffs[0]: the agent 'a' cannot have `session_id`: it takes over the conversation of the loop",
            ),
        ];
        for (given, text) in cases {
            assert_eq!(read(given).unwrap_err(), text);
        }
    }

    #[test]
    fn agents_whose_tools_only_read_can_run_at_the_same_time() {
        let kind = |agent: Json| tool_entry(&agent)["annotations"]["kind"].printed();
        let reader = json!({"name": "read", "annotations": {"kind": "search"}});
        let plain = json!({"_type": "agent", "name": "a"});
        assert_eq!(kind(plain.clone()), "read");
        assert_eq!(kind(json!({"_type": "agent", "name": "a", "tools": [reader, plain]})), "read");
        assert_eq!(kind(json!({"_type": "agent", "name": "a", "tools": [{"name": "write"}]})), "other");
        let registry = json!({"_type": "tool_registry", "tools": [{"name": "write"}]});
        assert_eq!(kind(json!({"_type": "agent", "name": "a", "tools": [registry]})), "other");
        assert_eq!(kind(json!({"_type": "agent", "name": "a", "skills": {}})), "other");
    }
}
