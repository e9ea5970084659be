//! Agents of the role runtime: coordinator, planner, executor, specialist.

use std::collections::BTreeMap;

use harn_value::{Data as Value, data::Map};

use super::approval::tool_rules;
use super::fields::Fields;
use super::{Approval, HarnessError, Patch, PlanSpec, ToolSpec, define_plan, define_tool};
use harn_prompt::layered::LayeredPrompt;
use harn_prompt::value::{object, present};

/// The role of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Entry point: talks to the user and delegates work to its routes.
    Coordinator,
    /// Writes typed plans.
    Planner,
    /// Executes approved plans.
    Executor,
    /// A focused helper.
    Specialist,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Coordinator, Self::Planner, Self::Executor, Self::Specialist];

    /// Returns the role's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Planner => "planner",
            Self::Executor => "executor",
            Self::Specialist => "specialist",
        }
    }

    /// Finds a role by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }

    /// Returns the constructor's name.
    #[must_use]
    pub fn constructor(self) -> &'static str {
        match self {
            Self::Coordinator => "define_coordinator",
            Self::Planner => "define_planner",
            Self::Executor => "define_executor",
            Self::Specialist => "define_specialist",
        }
    }

    /// Returns whether agents of this role retain their history by default.
    #[must_use]
    pub fn stateful(self) -> bool {
        matches!(self, Self::Coordinator | Self::Planner)
    }

    /// Returns the tools that every agent of this role has.
    #[must_use]
    pub(crate) fn default_tools(self) -> &'static [&'static str] {
        match self {
            Self::Coordinator => &["call_agent"],
            Self::Planner => &["storePlan", "getPlan"],
            Self::Executor => &["getPlan", "executePlan", "resolveRef", "glimpseRef"],
            Self::Specialist => &[],
        }
    }
}

/// The model of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSpec {
    /// Model id or alias; aliases are resolved at call time.
    pub id: String,
    /// Provider name; `None` means inferred from the id.
    pub provider: Option<String>,
}

impl ModelSpec {
    /// Returns `{id, provider}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([("id", self.id.clone().into()), ("provider", self.provider.clone().into())])
    }

    pub(super) fn parse(function: &str, value: Option<&Value>) -> Result<Self, HarnessError> {
        let wrong = || HarnessError::Field {
            function: function.to_owned(),
            field: "model".to_owned(),
            expected: "a model id or a dict {id, provider?}",
        };
        let name = |value: &Value| value.as_str().filter(|id| !id.trim().is_empty()).map(str::to_owned);
        match value {
            Some(Value::String(_)) => {
                Ok(Self { id: value.and_then(name).ok_or_else(wrong)?, provider: None })
            }
            Some(other) => {
                let dict = other.as_object().ok_or_else(wrong)?;
                if let Some(key) = dict.keys().find(|key| !["id", "provider"].contains(&key.as_str())) {
                    return Err(HarnessError::UnknownKey { function: function.to_owned(), key: key.clone() });
                }
                let id = dict.get("id").and_then(name).ok_or_else(wrong)?;
                let provider = present(dict, "provider").map(|p| name(p).ok_or_else(wrong)).transpose()?;
                Ok(Self { id, provider })
            }
            None => Err(wrong()),
        }
    }
}

/// An agent, as defined by its constructor.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSpec {
    /// Unique in the runtime.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Whether it retains its history.
    pub stateful: bool,
    /// Its model.
    pub model: ModelSpec,
    /// The finished system prompt.
    pub system_prompt: String,
    /// Names of the agents that it may call.
    pub routes: Vec<String>,
    /// Ids of its toolkits.
    pub toolkits: Vec<String>,
    /// Maximum number of turns; `None` means the loop's default.
    pub max_turns: Option<u64>,
    /// The kind of plan that it writes or executes.
    pub plan: Option<PlanSpec>,
    /// The agent's own tools.
    pub tools: Vec<ToolSpec>,
    /// Its approval rules for plans and tools.
    pub approval_policies: Patch,
    /// Its approval rules for individual tools.
    pub tool_approval_policies: BTreeMap<String, Approval>,
    /// Fingerprint of a layered prompt; `None` for a plain one.
    pub prompt_cache_key: Option<String>,
}

const KEYS: [&str; 15] = [
    "name",
    "model",
    "prompt",
    "routes",
    "plan",
    "tools",
    "toolkits",
    "stateful",
    "max_turns",
    "approval",
    "tool_approvals",
    // The fields of a finished spec, so that it is accepted in place of a constructor's dict.
    "system_prompt",
    "approval_policies",
    "tool_approval_policies",
    "prompt_cache_key",
];

/// Builds an agent of `role` from the dict of its constructor.
///
/// # Errors
/// A key is unknown or a field has a wrong type.
pub fn define_agent(role: Role, config: &Value) -> Result<AgentSpec, HarnessError> {
    let function = role.constructor();
    let fields = Fields::of(function, config, &KEYS)?;
    let name = fields.name("name")?;
    let model = ModelSpec::parse(function, fields.get("model"))?;
    let (system_prompt, prompt_cache_key) = prompt(&fields)?;
    let routes = fields.strings("routes")?;
    if role == Role::Coordinator && routes.is_empty() {
        return Err(HarnessError::NoRoute);
    }
    let plan = fields.get("plan").map(define_plan).transpose()?;
    if plan.is_none() && matches!(role, Role::Planner | Role::Executor) {
        return Err(fields.wrong("plan", "a plan spec"));
    }
    let mut toolkits: Vec<String> = Vec::new();
    for id in fields.strings("toolkits")? {
        if !toolkits.contains(&id) {
            toolkits.push(id);
        }
    }
    let either = |a, b| fields.get(a).or_else(|| fields.get(b));
    let rules = either("tool_approvals", "tool_approval_policies").map(|value| {
        tool_rules(function, value.as_object().ok_or_else(|| fields.wrong("tool_approvals", "a dict"))?)
    });
    Ok(AgentSpec {
        tools: fields.tools("tools")?.iter().map(define_tool).collect::<Result<_, _>>()?,
        stateful: fields.bool("stateful")?.unwrap_or(role.stateful()),
        max_turns: fields.positive("max_turns")?,
        approval_policies: either("approval", "approval_policies")
            .map(|value| Patch::parse(function, value))
            .transpose()?
            .unwrap_or_default(),
        tool_approval_policies: rules.transpose()?.unwrap_or_default(),
        name,
        role,
        model,
        system_prompt,
        routes,
        toolkits,
        plan,
        prompt_cache_key,
    })
}

fn prompt(fields: &Fields<'_>) -> Result<(String, Option<String>), HarnessError> {
    match fields.get("prompt").or_else(|| fields.get("system_prompt")) {
        Some(Value::String(text)) => Ok((text.clone(), fields.string("prompt_cache_key")?)),
        Some(other) => {
            let layered = LayeredPrompt::from_json(other).ok_or(HarnessError::Prompt)?;
            Ok((layered.text, Some(layered.cache_key)))
        }
        None => Err(HarnessError::Prompt),
    }
}

impl AgentSpec {
    /// Reads a finished spec, or a constructor's dict that contains its `role`.
    ///
    /// # Errors
    /// The role is unknown, and the errors of [`define_agent`].
    pub fn from_json(value: &Value) -> Result<Self, HarnessError> {
        let wrong = |field: &str, expected| HarnessError::Field {
            function: "define_runtime".to_owned(),
            field: field.to_owned(),
            expected,
        };
        let mut dict = value.as_object().ok_or_else(|| wrong("agents", "a list of agent specs"))?.clone();
        let role = dict.shift_remove("role").and_then(|role| Role::named(role.as_str()?));
        let role = role.ok_or_else(|| wrong("role", "coordinator, planner, executor or specialist"))?;
        define_agent(role, &Value::Object(dict))
    }

    /// Returns the fields of the struct `AgentSpec`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let rules = self.tool_approval_policies.iter().map(|(tool, rule)| (tool.clone(), rule.to_json()));
        object([
            ("name", self.name.clone().into()),
            ("role", self.role.as_str().into()),
            ("stateful", self.stateful.into()),
            ("model", self.model.to_json()),
            ("system_prompt", self.system_prompt.clone().into()),
            ("routes", self.routes.clone().into()),
            ("toolkits", self.toolkits.clone().into()),
            ("max_turns", self.max_turns.into()),
            ("plan", self.plan.as_ref().map(PlanSpec::to_json).into()),
            ("tools", self.tools.iter().map(ToolSpec::to_json).collect::<Vec<_>>().into()),
            ("approval_policies", self.approval_policies.to_json()),
            ("tool_approval_policies", rules.collect::<Map<_, _>>().into()),
            ("prompt_cache_key", self.prompt_cache_key.clone().into()),
        ])
    }

    /// Returns the wire form: the fields that the runtime needs, in camelCase; `maxTurns` only if set.
    #[must_use]
    pub(crate) fn to_wire(&self) -> Value {
        let mut wire = object([
            ("name", self.name.clone().into()),
            ("role", self.role.as_str().into()),
            ("stateful", self.stateful.into()),
            ("model", self.model.to_json()),
            ("systemPrompt", self.system_prompt.clone().into()),
            ("routes", self.routes.clone().into()),
            ("toolkits", self.toolkits.clone().into()),
        ]);
        if let (Some(turns), Value::Object(map)) = (self.max_turns, &mut wire) {
            map.insert("maxTurns".to_owned(), turns.into());
        }
        wire
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn agent(role: Role, config: Value) -> AgentSpec {
        define_agent(role, &config).unwrap()
    }

    fn error(role: Role, config: Value) -> String {
        define_agent(role, &config).unwrap_err().to_string()
    }

    fn planner() -> Value {
        json!({"name": "p", "model": "m", "prompt": "You plan.", "plan": {"name": "P", "schema": {}}})
    }

    #[test]
    fn defaults_follow_the_role() {
        for role in Role::ALL {
            let config = json!({"name": "a", "model": "m", "prompt": "x", "routes": ["b"],
                "plan": {"name": "P", "schema": {}}});
            let spec = agent(role, config);
            assert_eq!(spec.stateful, matches!(role, Role::Coordinator | Role::Planner));
            assert_eq!(Role::named(role.as_str()), Some(role));
            assert_eq!(spec.prompt_cache_key, None);
            assert_eq!(spec.system_prompt, "x");
        }
        assert_eq!(Role::Executor.default_tools(), ["getPlan", "executePlan", "resolveRef", "glimpseRef"]);
    }

    #[test]
    fn a_layered_prompt_brings_its_key() {
        let prompt = harn_prompt::layered_prompt(&json!({"identity": "You plan."})).unwrap();
        let mut config = planner();
        config["prompt"] = prompt.to_json();
        let spec = agent(Role::Planner, config);
        assert_eq!(spec.system_prompt, "# Identity\nYou plan.");
        assert_eq!(spec.prompt_cache_key, Some(prompt.cache_key));
    }

    #[test]
    fn the_wire_form_has_only_what_travels() {
        let mut config = planner();
        config["tools"] = json!([{"name": "t", "input_schema": {}}]);
        assert_eq!(
            agent(Role::Planner, config.clone()).to_wire().to_string(),
            "{\"name\":\"p\",\"role\":\"planner\",\"stateful\":true,\"model\":{\"id\":\"m\",\"provider\":null},\
             \"systemPrompt\":\"You plan.\",\"routes\":[],\"toolkits\":[]}"
        );
        config["max_turns"] = json!(3);
        assert_eq!(agent(Role::Planner, config).to_wire()["maxTurns"], 3);
    }

    #[test]
    fn a_spec_reads_back_from_its_fields() {
        let config = json!({"name": "c", "model": {"id": "m", "provider": "p"}, "prompt": "x", "routes": ["a", "b"],
            "toolkits": ["agents", "agents"], "stateful": false, "max_turns": 2, "tools": [{"name": "t", "input_schema": {}, "approval": "always"}],
            "approval": {"plans": "never"}, "tool_approvals": {"t": "never"}});
        let spec = agent(Role::Coordinator, config);
        assert_eq!(spec.toolkits, ["agents"]);
        assert_eq!(AgentSpec::from_json(&spec.to_json()).unwrap(), spec);
        let keys: Vec<_> = spec.to_json().as_object().unwrap().keys().cloned().collect();
        assert_eq!(
            keys,
            [
                "name",
                "role",
                "stateful",
                "model",
                "system_prompt",
                "routes",
                "toolkits",
                "max_turns",
                "plan",
                "tools",
                "approval_policies",
                "tool_approval_policies",
                "prompt_cache_key"
            ]
        );
    }

    #[test]
    fn errors_are_exact() {
        let without = |key: &str| {
            let mut config = planner();
            config.as_object_mut().unwrap().shift_remove(key);
            error(Role::Planner, config)
        };
        let with = |key: &str, value: Value| {
            let mut config = planner();
            config[key] = value;
            error(Role::Planner, config)
        };
        assert_eq!(without("prompt"), "prompt must be a string or LayeredPrompt");
        assert_eq!(with("prompt", json!(5)), "prompt must be a string or LayeredPrompt");
        assert_eq!(with("prompt", json!({"text": "x"})), "prompt must be a string or LayeredPrompt");
        assert_eq!(without("name"), "define_planner: name must be a non-empty string");
        assert_eq!(without("model"), "define_planner: model must be a model id or a dict {id, provider?}");
        assert_eq!(with("model", json!({"id": "m", "x": 1})), "define_planner: unknown key 'x'");
        assert_eq!(without("plan"), "define_planner: plan must be a plan spec");
        assert_eq!(with("max_turns", json!(0)), "define_planner: max_turns must be an int of at least 1");
        assert_eq!(
            with("tool_approvals", json!({" ": "never"})),
            "tool_approvals keys must be non-empty tool names"
        );
        assert_eq!(
            with("approval", json!({"plans": "x"})),
            "define_planner: approval must be 'never', 'always', or a dynamic policy"
        );
        assert_eq!(with("colour", json!(1)), "define_planner: unknown key 'colour'");
        assert_eq!(
            error(Role::Coordinator, json!({"name": "c", "model": "m", "prompt": "x"})),
            "define_coordinator requires at least one route"
        );
        assert_eq!(
            AgentSpec::from_json(&json!({"role": "boss"})).unwrap_err().to_string(),
            "define_runtime: role must be coordinator, planner, executor or specialist"
        );
    }
}
