//! The runtime spec: all parts of a role runtime, validated together.

use std::collections::{BTreeMap, BTreeSet};

use harn_value::{Data as Value, data::Map};

use super::fields::Fields;
use super::{
    AgentSpec, Approval, HarnessError, Overrides, Patch, PlanSpec, Policies, ReferenceSpec, Role, Subject,
    ToolSpec, ToolkitDescriptions, ToolkitSpec, define_plan, define_reference, define_tool,
};
use harn_prompt::layered::augment_prompt_tools;
use harn_prompt::value::object;

/// The tenant of a runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// The tenant's id.
    pub resource_id: String,
    /// Version of its configuration.
    pub version: String,
}

impl Tenant {
    /// Returns the fields of the struct.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([("resource_id", self.resource_id.clone().into()), ("version", self.version.clone().into())])
    }
}

/// Builds a tenant from `{resource_id, version}`.
///
/// # Errors
/// A field is missing or empty.
pub fn define_tenant(config: &Value) -> Result<Tenant, HarnessError> {
    let fields = Fields::of("define_tenant", config, &["resource_id", "version"])?;
    Ok(Tenant { resource_id: fields.name("resource_id")?, version: fields.name("version")? })
}

/// Store descriptors; `None` is the default store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StorageFactories {
    /// Store for references and values.
    pub kv: Option<Map<String, Value>>,
    /// Store for plans.
    pub plans: Option<Map<String, Value>>,
    /// Store for histories.
    pub memory: Option<Map<String, Value>>,
}

impl StorageFactories {
    pub(super) const KEYS: [&str; 3] = ["kv", "plans", "memory"];

    pub(super) fn parse(function: &str, value: &Value) -> Result<Self, HarnessError> {
        let fields = Fields::of(function, value, &Self::KEYS)?;
        Ok(Self {
            kv: fields.dict("kv")?.cloned(),
            plans: fields.dict("plans")?.cloned(),
            memory: fields.dict("memory")?.cloned(),
        })
    }

    /// Returns `{kv, plans, memory}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([
            ("kv", self.kv.clone().into()),
            ("plans", self.plans.clone().into()),
            ("memory", self.memory.clone().into()),
        ])
    }
}

/// All parts of a role runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeSpec {
    /// The tenant of the runtime.
    pub tenant: Tenant,
    /// The agents.
    pub agents: Vec<AgentSpec>,
    /// Kinds of references.
    pub references: Vec<ReferenceSpec>,
    /// Kinds of plans, including those of the agents.
    pub plans: Vec<PlanSpec>,
    /// Toolkits, including those of the agents.
    pub toolkits: Vec<ToolkitSpec>,
    /// The default approval rules.
    pub approval_policies: Policies,
    /// Overrides of the default rules: those of agents and their tools, with the given overrides applied on top.
    pub approval_overrides: Overrides,
    /// Store descriptors.
    pub storage_factories: StorageFactories,
    /// Provider names with settings that override the provider's table.
    pub providers: BTreeMap<String, Map<String, Value>>,
    /// Tools with handlers, including those of the agents.
    pub tool_bindings: Vec<ToolSpec>,
}

/// The data that the runtime registers for an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The agent's name.
    pub name: String,
    /// The model's id.
    pub model: String,
    /// The finished system prompt, copied from the spec.
    pub system_prompt: String,
    /// The agent's role.
    pub role: Role,
    /// Whether it retains its history.
    pub stateful: bool,
}

const FUNCTION: &str = "define_runtime";

const KEYS: [&str; 11] = [
    "tenant",
    "agents",
    "references",
    "plans",
    "toolkits",
    "approval_policies",
    "approval_overrides",
    "storage_factories",
    "providers",
    "tool_bindings",
    "prompt_role_tools",
];

/// Builds a runtime spec: collects the parts of the agents, merges the rows of bound tools into their prompts, and
/// validates the whole.
///
/// # Errors
/// A field has a wrong type or the parts contradict each other.
pub fn define_runtime(
    config: &Value,
    descriptions: &ToolkitDescriptions,
) -> Result<RuntimeSpec, HarnessError> {
    let fields = Fields::of(FUNCTION, config, &KEYS)?;
    let tenant = fields.get("tenant").ok_or_else(|| fields.wrong("tenant", "a tenant"))?;
    let each = |key| fields.list(key).map(|items| items.iter());
    let mut spec = RuntimeSpec {
        tenant: define_tenant(tenant)?,
        agents: each("agents")?.map(AgentSpec::from_json).collect::<Result<_, _>>()?,
        references: each("references")?.map(define_reference).collect::<Result<_, _>>()?,
        plans: each("plans")?.map(define_plan).collect::<Result<_, _>>()?,
        toolkits: each("toolkits")?.map(|t| ToolkitSpec::from_json(FUNCTION, t)).collect::<Result<_, _>>()?,
        approval_policies: Policies::default(),
        approval_overrides: Overrides::default(),
        storage_factories: match fields.get("storage_factories") {
            Some(value) => StorageFactories::parse(FUNCTION, value)?,
            None => StorageFactories::default(),
        },
        providers: provider_settings(&fields)?,
        tool_bindings: fields.tools("tool_bindings")?.iter().map(define_tool).collect::<Result<_, _>>()?,
    };
    let policies = fields.get("approval_policies").map(|value| Patch::parse(FUNCTION, value)).transpose()?;
    let overrides =
        fields.get("approval_overrides").map(|value| Overrides::parse(FUNCTION, value)).transpose()?;
    spec.settle_approvals(policies, overrides);
    spec.validate()?;
    spec.collect_from_agents();
    let role_tools = fields.bool("prompt_role_tools")?.unwrap_or(false);
    spec.merge_prompt_rows(descriptions, role_tools);
    Ok(spec)
}

fn provider_settings(fields: &Fields<'_>) -> Result<BTreeMap<String, Map<String, Value>>, HarnessError> {
    let mut providers = BTreeMap::new();
    for (name, settings) in fields.dict("providers")?.into_iter().flatten() {
        let settings = settings.as_object().ok_or_else(|| fields.wrong("providers", "a dict of dicts"))?;
        providers.insert(name.clone(), settings.clone());
    }
    Ok(providers)
}

impl RuntimeSpec {
    /// Returns the agent that receives queries.
    #[must_use]
    pub fn coordinator(&self) -> Option<&AgentSpec> {
        self.agents.iter().find(|agent| agent.role == Role::Coordinator)
    }

    /// Returns the registrations in order. Prompts are copied, never rebuilt.
    #[must_use]
    pub fn registrations(&self) -> Vec<Registration> {
        let registration = |agent: &AgentSpec| Registration {
            name: agent.name.clone(),
            model: agent.model.id.clone(),
            system_prompt: agent.system_prompt.clone(),
            role: agent.role,
            stateful: agent.stateful,
        };
        self.agents.iter().map(registration).collect()
    }

    /// Sets the default rules and the overrides.
    ///
    /// Without policies, the coordinator's own approval becomes the default and no longer overrides it for that agent.
    fn settle_approvals(&mut self, policies: Option<Patch>, overrides: Option<Overrides>) {
        let from_coordinator = policies.is_none();
        let patch = match policies {
            Some(patch) => patch,
            None => self.coordinator().map(|agent| agent.approval_policies.clone()).unwrap_or_default(),
        };
        self.approval_policies = Policies::default().with(&patch);
        self.approval_overrides = self.collected_overrides(from_coordinator);
        self.approval_overrides.overlay(overrides.unwrap_or_default());
    }

    /// Returns the rule for a call of `agent`.
    #[must_use]
    pub(crate) fn approval_rule<'a>(&'a self, agent: &str, subject: Subject<'a>) -> &'a Approval {
        self.approval_overrides.rule(&self.approval_policies, agent, subject)
    }

    fn collected_overrides(&self, coordinator_is_floor: bool) -> Overrides {
        let mut overrides = Overrides::default();
        for agent in &self.agents {
            let is_floor = coordinator_is_floor && agent.role == Role::Coordinator;
            if !agent.approval_policies.is_empty() && !is_floor {
                overrides.agents.insert(agent.name.clone(), agent.approval_policies.clone());
            }
            let own = |tool: &ToolSpec| Some((tool.name.clone(), tool.own_approval()?.clone()));
            let mut rules: BTreeMap<String, Approval> = agent.tools.iter().filter_map(own).collect();
            rules.extend(agent.tool_approval_policies.clone());
            if !rules.is_empty() {
                overrides.tools.insert(agent.name.clone(), rules);
            }
        }
        overrides
    }

    /// Validates that the parts are consistent.
    ///
    /// # Errors
    /// The first inconsistency.
    pub(super) fn validate(&self) -> Result<(), HarnessError> {
        let refuse = |text: String| Err(HarnessError::Runtime(text));
        let mut names = BTreeSet::new();
        for agent in &self.agents {
            if !names.insert(agent.name.as_str()) {
                return refuse(format!("duplicate agent name '{}'", agent.name));
            }
        }
        let coordinators = self.agents.iter().filter(|agent| agent.role == Role::Coordinator);
        if coordinators.clone().count() > 1 {
            return refuse("multiple coordinator agents are not supported".to_owned());
        }
        if coordinators.clone().any(|agent| agent.routes.is_empty()) {
            return refuse("coordinator agents require at least one route".to_owned());
        }
        for agent in &self.agents {
            let mut seen = BTreeSet::new();
            for route in &agent.routes {
                let name = &agent.name;
                if route == name {
                    return refuse(format!("agent '{name}' cannot route to itself"));
                }
                if !seen.insert(route) {
                    return refuse(format!("agent '{name}' declares duplicate route '{route}'"));
                }
                if !names.contains(route.as_str()) {
                    return refuse(format!("agent '{name}' declares unknown route target '{route}'"));
                }
            }
        }
        let overridden = self.approval_overrides.agents.keys().chain(self.approval_overrides.tools.keys());
        let unknown: BTreeSet<&str> =
            overridden.map(String::as_str).filter(|name| !names.contains(name)).collect();
        if !unknown.is_empty() {
            let list = unknown.into_iter().collect::<Vec<_>>().join(", ");
            return refuse(format!("approval_overrides references unknown agent(s): [{list}]"));
        }
        if let Some(name) = repeated(self.plans.iter().map(|plan| plan.name.as_str())) {
            return refuse(format!("duplicate plan spec name: {name}"));
        }
        match repeated(self.references.iter().map(|reference| reference.name.as_str())) {
            Some(name) => refuse(format!("duplicate reference spec name: {name}")),
            None => Ok(()),
        }
    }

    /// Appends the parts of the agents that the runtime does not list yet.
    fn collect_from_agents(&mut self) {
        for agent in &self.agents {
            if let Some(plan) =
                agent.plan.as_ref().filter(|plan| self.plans.iter().all(|p| p.name != plan.name))
            {
                self.plans.push(plan.clone());
            }
            for id in &agent.toolkits {
                if self.toolkits.iter().all(|toolkit| toolkit.id != *id) {
                    self.toolkits.push(ToolkitSpec { id: id.clone(), config: None, tools: Vec::new() });
                }
            }
            for tool in &agent.tools {
                if self.tool_bindings.iter().all(|bound| bound.binding() != tool.binding()) {
                    self.tool_bindings.push(tool.clone());
                }
            }
        }
    }

    /// Merges the rows of bound tools into each agent's prompt. Without bound tools, the prompt is unchanged byte for
    /// byte.
    pub fn merge_prompt_rows(&mut self, descriptions: &ToolkitDescriptions, role_tools: bool) {
        for agent in &mut self.agents {
            let mut rows = Vec::new();
            if role_tools {
                rows.extend(agent.role.default_tools().iter().map(|tool| descriptions.row(tool)));
            }
            for id in &agent.toolkits {
                let toolkit = self.toolkits.iter().find(|toolkit| toolkit.id == *id);
                rows.extend(toolkit.into_iter().flat_map(|toolkit| toolkit.rows(agent.role, descriptions)));
            }
            // The agent's own tool takes precedence over a row of a toolkit or role with the same name.
            rows.retain(|row| agent.tools.iter().all(|tool| tool.row().name != row.name));
            rows.extend(agent.tools.iter().map(ToolSpec::row));
            if !rows.is_empty() {
                let prompt = augment_prompt_tools(&agent.system_prompt, rows);
                agent.system_prompt = prompt.text;
                agent.prompt_cache_key = Some(prompt.cache_key);
            }
        }
    }
}

fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

impl Registration {
    /// Returns `{name, model, system_prompt, role, stateful}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([
            ("name", self.name.clone().into()),
            ("model", self.model.clone().into()),
            ("system_prompt", self.system_prompt.clone().into()),
            ("role", self.role.as_str().into()),
            ("stateful", self.stateful.into()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn agents() -> Value {
        json!([
            {"role": "coordinator", "name": "c", "model": "m", "prompt": "You lead.", "routes": ["p"], "approval": {"tools": "always"}},
            {"role": "planner", "name": "p", "model": "m", "prompt": "You plan.", "plan": {"name": "P", "schema": {}},
             "toolkits": ["plans"], "tools": [{"name": "find", "input_schema": {}, "description": "Finds.", "approval": "never"},
             {"name": "look", "input_schema": {}}]},
        ])
    }

    fn config() -> Value {
        json!({"tenant": {"resource_id": "acme", "version": "v1"}, "agents": agents()})
    }

    fn define(config: &Value) -> Result<RuntimeSpec, String> {
        define_runtime(config, &ToolkitDescriptions::default()).map_err(|e| e.to_string())
    }

    fn with(key: &str, value: Value) -> Result<RuntimeSpec, String> {
        let mut config = config();
        config[key] = value;
        define(&config)
    }

    /// Builds the standard config with `change` applied to the list of agents.
    fn with_agents(change: impl FnOnce(&mut Vec<Value>)) -> Result<RuntimeSpec, String> {
        let mut list = agents();
        change(list.as_array_mut().unwrap());
        with("agents", list)
    }

    #[test]
    fn what_agents_bring_is_collected() {
        let spec = define(&config()).unwrap();
        assert_eq!(spec.plans[0].name, "P");
        assert_eq!(spec.toolkits[0].id, "plans");
        let bound: Vec<_> = spec.tool_bindings.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(bound, ["find", "look"]);
        let listed = with("plans", json!([{"name": "P", "schema": {"type": "object"}}])).unwrap();
        assert_eq!(listed.plans.len(), 1);
        assert_eq!(listed.plans[0].schema, json!({"type": "object"}));
    }

    #[test]
    fn rows_of_bound_tools_are_merged_and_the_key_is_recomputed() {
        let spec = define(&config()).unwrap();
        let planner = &spec.agents[1];
        assert_eq!(
            planner.system_prompt,
            "You plan.\n\n# Tools\n| Tool | Description | Approval |\n| --- | --- | --- |\n| find | Finds. | never |\n\
             | getPlan |  | runtime |\n| look |  | never |\n| storePlan |  | runtime |"
        );
        assert_eq!(planner.prompt_cache_key, Some(harn_prompt::layered::cache_key(&planner.system_prompt)));
        assert_eq!(spec.agents[0].system_prompt, "You lead.", "nothing bound, nothing changed");
        assert_eq!(spec.agents[0].prompt_cache_key, None);
    }

    #[test]
    fn a_narrowed_toolkit_brings_fewer_rows_and_role_tools_are_asked_for() {
        let narrowed = with("toolkits", json!([{"id": "plans", "config": {"tools": ["getPlan"]}}])).unwrap();
        assert!(!narrowed.agents[1].system_prompt.contains("storePlan"));
        let all = with("prompt_role_tools", json!(true)).unwrap();
        assert!(all.agents[0].system_prompt.contains("| call_agent |  | runtime |"));
    }

    #[test]
    fn approvals_settle_into_floor_and_overrides() {
        let spec = define(&config()).unwrap();
        assert_eq!(
            spec.approval_policies.to_json(),
            json!({"plans": {"kind": "always"}, "tools": {"kind": "always"}})
        );
        assert_eq!(
            spec.approval_overrides.to_json(),
            json!({"agents": {}, "tools": {"p": {"find": {"kind": "never"}}}}),
            "the coordinator's approval is the floor; a tool without an approval overrides nothing"
        );
        let rule = |name| spec.approval_rule("p", Subject::Tool { name, own: None }).kind();
        assert_eq!((rule("find"), rule("look")), ("never", "always"));

        let given = with("approval_policies", json!({"plans": "never"})).unwrap();
        assert_eq!(
            given.approval_policies.to_json(),
            json!({"plans": {"kind": "never"}, "tools": {"kind": "never"}})
        );
        assert_eq!(given.approval_overrides.agents["c"].to_json(), json!({"tools": {"kind": "always"}}));

        let overrides = json!({"agents": {"p": {"plans": "never"}}, "tools": {"p": {"look": "always"}}});
        let overlaid = with("approval_overrides", overrides).unwrap();
        let always = json!({"kind": "always"});
        assert_eq!(
            overlaid.approval_overrides.to_json(),
            json!({
                "agents": {"p": {"plans": {"kind": "never"}}},
                "tools": {"p": {"find": {"kind": "never"}, "look": always}},
            }),
            "overrides change exactly the rules that they name"
        );
        assert_eq!(with("approval_overrides", json!({})).unwrap(), spec);
    }

    #[test]
    fn tool_approvals_win_over_the_tools_own() {
        let spec = with_agents(|agents| agents[1]["tool_approvals"] = json!({"find": "always"})).unwrap();
        assert_eq!(spec.approval_overrides.tools["p"]["find"], Approval::Always);
    }

    #[test]
    fn registrations_copy_the_prompt() {
        let spec = define(&config()).unwrap();
        let registration = spec.registrations().remove(1);
        assert_eq!(registration.system_prompt, spec.agents[1].system_prompt);
        let keys: Vec<_> = registration.to_json().as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["name", "model", "system_prompt", "role", "stateful"]);
    }

    #[test]
    fn misfits_are_named() {
        let refused = |change: &dyn Fn(&mut Vec<Value>)| with_agents(change).unwrap_err();
        let routes = |list: Value| refused(&move |agents| agents[0]["routes"] = list.clone());
        assert_eq!(refused(&|a| a[1]["name"] = json!("c")), "define_runtime: duplicate agent name 'c'");
        let second =
            json!({"role": "coordinator", "name": "d", "model": "m", "prompt": "x", "routes": ["p"]});
        assert_eq!(
            refused(&move |a| a.push(second.clone())),
            "define_runtime: multiple coordinator agents are not supported"
        );
        assert_eq!(routes(json!(["c"])), "define_runtime: agent 'c' cannot route to itself");
        assert_eq!(routes(json!(["p", "p"])), "define_runtime: agent 'c' declares duplicate route 'p'");
        assert_eq!(routes(json!(["x"])), "define_runtime: agent 'c' declares unknown route target 'x'");
        assert_eq!(
            with("approval_overrides", json!({"agents": {"z": {}}, "tools": {"b": {}, "z": {}}}))
                .unwrap_err(),
            "define_runtime: approval_overrides references unknown agent(s): [b, z]"
        );
        let plan = json!({"name": "Q", "schema": {}});
        assert_eq!(
            with("plans", json!([plan, plan])).unwrap_err(),
            "define_runtime: duplicate plan spec name: Q"
        );
        assert_eq!(
            with("references", json!([plan, plan])).unwrap_err(),
            "define_runtime: duplicate reference spec name: Q"
        );
        assert_eq!(with("colour", json!(1)).unwrap_err(), "define_runtime: unknown key 'colour'");
        assert_eq!(with("tenant", json!(null)).unwrap_err(), "define_runtime: tenant must be a tenant");
        assert_eq!(
            with("tenant", json!({"resource_id": "", "version": "v"})).unwrap_err(),
            "define_tenant: resource_id must be a non-empty string"
        );
        assert_eq!(
            with("providers", json!({"x": 1})).unwrap_err(),
            "define_runtime: providers must be a dict of dicts"
        );
    }
}
