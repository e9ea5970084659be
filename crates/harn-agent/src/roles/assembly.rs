//! Combines a runtime spec with the host's bindings: the tools of each agent, in order, with their implementation and
//! approval rule. All inconsistencies are reported here, before anything runs.

use std::collections::{BTreeMap, BTreeSet};

use harn_llm::options::nearest;
use harn_value::Data as Value;

use super::catalog::input_schema;
use crate::harness::toolkit::built_in_tools;
use crate::harness::{
    AgentSpec, Approval, ModelSpec, Role, RuntimeSpec, Subject, ToolSpec, ToolkitDescriptions, ToolkitSpec,
};

/// Why a runtime cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// A tool has no handler.
    #[error("tool binding '{binding}' for agent '{agent}' has no handler")]
    NoHandler {
        /// The binding id.
        binding: String,
        /// The agent.
        agent: String,
    },
    /// A dynamic rule has no predicate.
    #[error("dynamic approval predicate '{0}' is not registered")]
    NoPredicate(String),
    /// An approval rule names a tool that its agent does not have.
    #[error("approval rule for unknown tool '{tool}' of agent '{agent}'; {fix}")]
    UnknownTool {
        /// The name in the rule.
        tool: String,
        /// The agent.
        agent: String,
        /// The most similar tool, or all of them.
        fix: String,
    },
    /// The toolkit does not exist.
    #[error("unknown toolkit id: {0}")]
    UnknownToolkit(String),
    /// The config of a toolkit names a tool that the toolkit does not have.
    #[error("toolkit '{0}' has no tool named '{1}'")]
    NoSuchTool(String, String),
    /// The config of a toolkit names a tool that is not available to the role of an agent.
    #[error("tool '{tool}' from toolkit '{toolkit}' is not available for {role} agents")]
    NotForRole {
        /// The tool.
        tool: String,
        /// The toolkit.
        toolkit: String,
        /// The agent's role.
        role: &'static str,
    },
    /// The config of a toolkit is malformed.
    #[error("toolkit '{0}' config is malformed: {1}")]
    ToolkitConfig(String, String),
    /// Two tools of an agent have the same name.
    #[error("duplicate tool '{tool}' for agent '{agent}'")]
    DuplicateTool {
        /// The name.
        tool: String,
        /// The agent.
        agent: String,
    },
    /// A catalog tool has no closure.
    #[error("toolkit 'catalog' tool '{0}' has no closure in data_environment")]
    NoClosure(String),
    /// Providers are declared, but not this one.
    #[error(
        "agent '{agent}' references provider '{provider}' for model '{model}', but no such provider is declared in RuntimeSpec.providers"
    )]
    Provider {
        /// The agent.
        agent: String,
        /// Its provider.
        provider: String,
        /// Its model.
        model: String,
    },
    /// The schema of a plan or reference is invalid.
    #[error("schema compilation failed for spec '{0}': {1}")]
    Schema(String, String),
}

/// What executes a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// The handler of this binding.
    Host(String),
    /// The closure with the tool's name in `data_environment`.
    Catalog,
    /// The runtime itself.
    Runtime,
}

/// A tool of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundTool {
    /// The name for the model.
    pub name: String,
    /// Its description.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// What executes it.
    pub backing: Backing,
    /// When approval is required.
    pub rule: Approval,
}

/// An agent with its tools.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundAgent {
    /// Its spec.
    pub spec: AgentSpec,
    /// Its provider.
    pub provider: String,
    /// Its tools, with unique names.
    pub tools: Vec<BoundTool>,
    /// When approval is required to execute a plan.
    pub plan_rule: Approval,
}

/// The host's bindings.
pub struct Facts<'a> {
    /// Bindings with a handler.
    pub handlers: &'a BTreeSet<String>,
    /// Ids of the predicates.
    pub predicates: &'a BTreeSet<String>,
    /// Tools of the catalog with a closure.
    pub catalog: &'a BTreeSet<String>,
    /// Tools that were passed in addition to the spec.
    pub tools: &'a [ToolSpec],
    /// Returns the provider of a model.
    pub provider_of: &'a dyn Fn(&ModelSpec) -> String,
}

/// Combines agents and tools.
///
/// # Errors
/// The first inconsistency.
pub fn assemble(
    spec: &RuntimeSpec,
    facts: &Facts<'_>,
    descriptions: &ToolkitDescriptions,
) -> Result<Vec<BoundAgent>, CreateError> {
    check_schemas(spec)?;
    spec.toolkits.iter().try_for_each(check_toolkit)?;
    let for_all = tools_for_all(spec, facts);
    let mut agents = Vec::with_capacity(spec.agents.len());
    for agent in &spec.agents {
        let provider = (facts.provider_of)(&agent.model);
        if !spec.providers.is_empty() && !spec.providers.contains_key(&provider) {
            return Err(CreateError::Provider {
                agent: agent.name.clone(),
                provider,
                model: agent.model.id.clone(),
            });
        }
        let tools = tools_of(spec, agent, &for_all, facts, descriptions)?;
        check_rules(spec, agent, &tools)?;
        let plan_rule = registered(spec.approval_rule(&agent.name, Subject::Plan), facts)?;
        agents.push(BoundAgent { spec: agent.clone(), provider, tools, plan_rule });
    }
    registered(&spec.approval_policies.plans, facts)?;
    registered(&spec.approval_policies.tools, facts)?;
    let patches = spec.approval_overrides.agents.values().flat_map(|patch| [&patch.plans, &patch.tools]);
    let rules = spec.approval_overrides.tools.values().flat_map(|rules| rules.values());
    for rule in patches.flatten().chain(rules) {
        registered(rule, facts)?;
    }
    Ok(agents)
}

/// Rejects an approval rule for a tool that the agent does not have, because it would protect nothing.
fn check_rules(spec: &RuntimeSpec, agent: &AgentSpec, tools: &[BoundTool]) -> Result<(), CreateError> {
    let mut rules = spec.approval_overrides.tools.get(&agent.name).into_iter().flat_map(BTreeMap::keys);
    let Some(unknown) = rules.find(|rule| tools.iter().all(|tool| tool.name != **rule)) else {
        return Ok(());
    };
    let names = || tools.iter().map(|tool| tool.name.as_str());
    let fix = match nearest(unknown, names()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("it has [{}]", names().collect::<Vec<_>>().join(", ")),
    };
    Err(CreateError::UnknownTool { tool: unknown.clone(), agent: agent.name.clone(), fix })
}

fn registered(rule: &Approval, facts: &Facts<'_>) -> Result<Approval, CreateError> {
    match rule {
        Approval::Dynamic(id) if !facts.predicates.contains(id) => Err(CreateError::NoPredicate(id.clone())),
        rule => Ok(rule.clone()),
    }
}

/// Compiles the schemas early, so that an invalid schema is not reported as an invalid plan later.
fn check_schemas(spec: &RuntimeSpec) -> Result<(), CreateError> {
    let plans = spec.plans.iter().map(|plan| (&plan.name, &plan.schema));
    let references = spec.references.iter().map(|reference| (&reference.name, &reference.schema));
    for (name, schema) in plans.chain(references) {
        if let Some(why) = harn_schema::compile_error(schema) {
            return Err(CreateError::Schema(name.clone(), why));
        }
    }
    Ok(())
}

/// Checks that a toolkit exists and has the tools that its config names.
fn check_toolkit(toolkit: &ToolkitSpec) -> Result<(), CreateError> {
    let malformed = |why: &str| CreateError::ToolkitConfig(toolkit.id.clone(), why.to_owned());
    let own = !toolkit.tools.is_empty();
    if !own && all_tools(&toolkit.id).is_none() {
        return Err(CreateError::UnknownToolkit(toolkit.id.clone()));
    }
    let Some(config) = &toolkit.config else { return Ok(()) };
    if let Some(key) = config.keys().find(|key| *key != "tools") {
        return Err(malformed(&format!("unknown key '{key}'")));
    }
    let names = match config.get("tools") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(names)) => names,
        Some(_) => return Err(malformed("tools must be a list of tool names")),
    };
    for name in names {
        let name = name.as_str().ok_or_else(|| malformed("tools must be a list of tool names"))?;
        let known = if own {
            toolkit.tools.iter().any(|tool| tool.name == name)
        } else {
            all_tools(&toolkit.id).is_some_and(|tools| tools.contains(&name))
        };
        if !known {
            return Err(CreateError::NoSuchTool(toolkit.id.clone(), name.to_owned()));
        }
    }
    Ok(())
}

/// Returns the tools of a built-in toolkit for any role.
fn all_tools(id: &str) -> Option<Vec<&'static str>> {
    let mut tools = built_in_tools(id, Role::Planner)?;
    for tool in built_in_tools(id, Role::Executor)? {
        if !tools.contains(&tool) {
            tools.push(tool);
        }
    }
    Some(tools)
}

/// Returns the tools that belong to no agent and no toolkit, and so to all agents.
fn tools_for_all<'a>(spec: &'a RuntimeSpec, facts: &Facts<'a>) -> Vec<&'a ToolSpec> {
    let of_agents = spec.agents.iter().flat_map(|agent| &agent.tools);
    let of_toolkits = spec.toolkits.iter().flat_map(|toolkit| &toolkit.tools);
    let claimed: BTreeSet<&str> = of_agents.chain(of_toolkits).map(ToolSpec::binding).collect();
    let all = spec.tool_bindings.iter().chain(facts.tools);
    all.filter(|tool| !claimed.contains(tool.binding())).collect()
}

fn tools_of(
    spec: &RuntimeSpec,
    agent: &AgentSpec,
    for_all: &[&ToolSpec],
    facts: &Facts<'_>,
    descriptions: &ToolkitDescriptions,
) -> Result<Vec<BoundTool>, CreateError> {
    let mut list = List { spec, agent, facts, tools: Vec::new() };
    for name in agent.role.default_tools() {
        list.add_built_in(name, Backing::Runtime, descriptions)?;
    }
    for id in &agent.toolkits {
        let plain;
        let toolkit = match spec.toolkits.iter().find(|toolkit| toolkit.id == *id) {
            Some(toolkit) => toolkit,
            None => {
                plain = ToolkitSpec { id: id.clone(), config: None, tools: Vec::new() };
                check_toolkit(&plain)?;
                &plain
            }
        };
        let selected = toolkit.selected();
        if !toolkit.tools.is_empty() {
            let wanted =
                |tool: &&ToolSpec| selected.as_ref().is_none_or(|names| names.contains(&tool.name.as_str()));
            for tool in toolkit.tools.iter().filter(wanted) {
                list.add_host(tool)?;
            }
            continue;
        }
        let offered = built_in_tools(id, agent.role).unwrap_or_default();
        if let Some(tool) = selected.iter().flatten().find(|name| !offered.contains(name)) {
            return Err(CreateError::NotForRole {
                tool: (*tool).to_owned(),
                toolkit: id.clone(),
                role: agent.role.as_str(),
            });
        }
        for name in offered.iter().filter(|name| selected.as_ref().is_none_or(|names| names.contains(name))) {
            if list.has(name) {
                continue;
            }
            let backing = if id == "catalog" { Backing::Catalog } else { Backing::Runtime };
            if backing == Backing::Catalog && !facts.catalog.contains(*name) {
                return Err(CreateError::NoClosure((*name).to_owned()));
            }
            list.add_built_in(name, backing, descriptions)?;
        }
    }
    for tool in &agent.tools {
        list.add_host(tool)?;
    }
    for tool in for_all {
        if !list.has(&tool.name) {
            list.add_host(tool)?;
        }
    }
    Ok(list.tools)
}

/// Collects the tools of an agent.
struct List<'a> {
    spec: &'a RuntimeSpec,
    agent: &'a AgentSpec,
    facts: &'a Facts<'a>,
    tools: Vec<BoundTool>,
}

impl List<'_> {
    fn has(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    fn rule(&self, name: &str, own: Option<&Approval>) -> Result<Approval, CreateError> {
        registered(self.spec.approval_rule(&self.agent.name, Subject::Tool { name, own }), self.facts)
    }

    fn add_built_in(
        &mut self,
        name: &str,
        backing: Backing,
        descriptions: &ToolkitDescriptions,
    ) -> Result<(), CreateError> {
        // Approval is required for the plan itself, not for the call that executes it.
        let rule = self.rule(name, (name == "executePlan").then_some(&Approval::Never))?;
        self.tools.push(BoundTool {
            name: name.to_owned(),
            description: descriptions.of(name).to_owned(),
            input_schema: input_schema(name),
            backing,
            rule,
        });
        Ok(())
    }

    fn add_host(&mut self, tool: &ToolSpec) -> Result<(), CreateError> {
        let agent = &self.agent.name;
        if self.has(&tool.name) {
            return Err(CreateError::DuplicateTool { tool: tool.name.clone(), agent: agent.clone() });
        }
        let binding = tool.binding().to_owned();
        if !self.facts.handlers.contains(&binding) {
            return Err(CreateError::NoHandler { binding, agent: agent.clone() });
        }
        let rule = self.rule(&tool.name, tool.own_approval())?;
        self.tools.push(BoundTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
            backing: Backing::Host(binding),
            rule,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;
    use crate::harness::{define_runtime, define_tool};

    fn spec(config: Value) -> RuntimeSpec {
        let mut config = config;
        config["tenant"] = json!({"resource_id": "acme", "version": "v1"});
        define_runtime(&config, &ToolkitDescriptions::default()).unwrap()
    }

    fn names(words: &[&str]) -> BTreeSet<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn put_together(config: Value) -> Result<Vec<BoundAgent>, String> {
        let extra = define_tool(&json!({"name": "extra", "input_schema": {}})).unwrap();
        let facts = Facts {
            handlers: &names(&["t", "u", "extra"]),
            predicates: &names(&["asks"]),
            catalog: &names(&["execute_query"]),
            tools: &[extra],
            provider_of: &|model| model.provider.clone().unwrap_or_else(|| "mock".to_owned()),
        };
        assemble(&spec(config), &facts, &ToolkitDescriptions::default()).map_err(|e| e.to_string())
    }

    fn specialist(with: Value) -> Value {
        let mut agent = json!({"role": "specialist", "name": "s", "model": "m", "prompt": "x"});
        agent.as_object_mut().unwrap().extend(with.as_object().cloned().unwrap());
        json!({"agents": [agent]})
    }

    fn tool(name: &str) -> Value {
        json!({"name": name, "input_schema": {}})
    }

    fn tool_names(agent: &BoundAgent) -> Vec<&str> {
        agent.tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn tools_come_in_order_each_once() {
        let config = json!({"agents": [{"role": "executor", "name": "e", "model": "m", "prompt": "x",
            "plan": {"name": "P", "schema": {"type": "object"}}, "toolkits": ["plans", "references"], "tools": [tool("t")]}]});
        let agents = put_together(config).unwrap();
        assert_eq!(
            tool_names(&agents[0]),
            ["getPlan", "executePlan", "resolveRef", "glimpseRef", "t", "extra"]
        );
        assert_eq!(agents[0].tools[4].backing, Backing::Host("t".into()));
        assert_eq!(agents[0].plan_rule, Approval::Always);
    }

    #[test]
    fn what_does_not_fit_is_found() {
        let error = |config: Value| put_together(config).unwrap_err();
        assert_eq!(
            error(specialist(json!({"tools": [tool("nobody")]}))),
            "tool binding 'nobody' for agent 's' has no handler"
        );
        assert_eq!(error(specialist(json!({"toolkits": ["none"]}))), "unknown toolkit id: none");
        assert_eq!(
            error(specialist(json!({"tools": [tool("t"), tool("t")]}))),
            "duplicate tool 't' for agent 's'"
        );
        assert_eq!(
            error(specialist(json!({"toolkits": ["catalog"]}))),
            "toolkit 'catalog' tool 'search_catalog' has no closure in data_environment"
        );
        let narrowed = |config: Value| {
            let mut spec = specialist(json!({"toolkits": ["plans"]}));
            spec["toolkits"] = json!([{"id": "plans", "config": config}]);
            error(spec)
        };
        assert_eq!(narrowed(json!({"tools": ["x"]})), "toolkit 'plans' has no tool named 'x'");
        assert_eq!(
            narrowed(json!({"tools": ["storePlan"]})),
            "tool 'storePlan' from toolkit 'plans' is not available for specialist agents"
        );
        assert_eq!(narrowed(json!({"x": 1})), "toolkit 'plans' config is malformed: unknown key 'x'");
        assert_eq!(
            narrowed(json!({"tools": "getPlan"})),
            "toolkit 'plans' config is malformed: tools must be a list of tool names"
        );
        let mut dynamic = specialist(json!({}));
        dynamic["approval_policies"] = json!({"tools": {"kind": "dynamic", "value": "nobody"}});
        assert_eq!(error(dynamic), "dynamic approval predicate 'nobody' is not registered");
        let mut providers = specialist(json!({"model": {"id": "m", "provider": "other"}}));
        providers["providers"] = json!({"mock": {}});
        assert_eq!(
            error(providers),
            "agent 's' references provider 'other' for model 'm', but no such provider is declared in RuntimeSpec.providers"
        );
        let mut schema = specialist(json!({}));
        schema["plans"] =
            json!([{"name": "P", "schema": {"type": "object", "properties": {"a": {"pattern": "("}}}}]);
        assert!(error(schema).starts_with("schema compilation failed for spec 'P': "));
    }

    #[test]
    fn the_most_specific_rule_is_in_force() {
        let mut config = specialist(json!({
            "tools": [{"name": "t", "input_schema": {}, "approval": "never"}, tool("u")], "tool_approvals": {"u": {"kind": "dynamic", "value": "asks"}}}));
        config["approval_policies"] = json!({"tools": "always"});
        let agents = put_together(config).unwrap();
        let rules: Vec<_> = agents[0].tools.iter().map(|tool| tool.rule.kind()).collect();
        assert_eq!(rules, ["never", "dynamic", "always"]);
    }
}
