//! Compares the approval rules of random runtimes with a reference model: an override changes exactly the rules that it
//! names.

use std::collections::BTreeSet;

use harn_agent::harness::{ToolkitDescriptions, define_runtime};
use harn_agent::roles::{Facts, assemble};
use harn_value::{Data as Value, data::Map, json};
use proptest::prelude::*;

const AGENTS: [&str; 2] = ["a", "b"];
/// The tools of every agent: two own ones, one of a toolkit, one of the runtime.
const TOOLS: [&str; 4] = ["t", "u", "kit", "all"];

/// Generates an absent rule, or one of the three rules.
fn rule() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(null),
        json!("never"),
        json!("always"),
        json!({"kind": "dynamic", "value": "asks"}),
    ])
}

/// Generates a dict of rules for `names`, without absent rules.
fn rules(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop::collection::vec(rule(), names.len()).prop_map(move |rules| {
        let set = names.iter().zip(rules).filter(|(_, rule)| !rule.is_null());
        set.map(|(name, rule)| ((*name).to_owned(), rule)).collect::<Map<_, _>>().into()
    })
}

fn patch() -> impl Strategy<Value = Value> {
    rules(&["plans", "tools"])
}

/// Generates one value for each of some agents.
fn by_agent(values: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::vec(prop::option::of(values), AGENTS.len()).prop_map(|values| {
        let set = AGENTS.iter().zip(values).filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
        set.collect::<Map<_, _>>().into()
    })
}

fn tool(name: &str, approval: &Value) -> Value {
    json!({"name": name, "input_schema": {}, "approval": approval})
}

fn config() -> impl Strategy<Value = Value> {
    let agent = (patch(), rules(&TOOLS), rules(&TOOLS), any::<bool>());
    let agents = prop::collection::vec(agent, AGENTS.len());
    (agents, prop::option::of(patch()), rules(&["kit", "all"])).prop_map(|(agents, policies, shared)| {
        let agents = AGENTS.iter().zip(agents).map(|(name, (approval, own, tool_approvals, coordinates))| {
            let coordinates = *name == "a" && coordinates;
            json!({
                "name": name, "role": if coordinates { "coordinator" } else { "specialist" },
                "model": "m", "prompt": "x", "routes": if coordinates { json!(["b"]) } else { json!([]) },
                "approval": approval, "tool_approvals": tool_approvals,
                "tools": [tool("t", &own["t"]), tool("u", &own["u"])], "toolkits": ["kit"],
            })
        });
        json!({
            "tenant": {"resource_id": "acme", "version": "v1"},
            "agents": agents.collect::<Vec<_>>(), "approval_policies": policies,
            "toolkits": [{"id": "kit", "tools": [tool("kit", &shared["kit"])]}],
            "tool_bindings": [tool("all", &shared["all"])],
        })
    })
}

/// Returns the effective rule as documented: the most specific one that is set, else the default.
fn reference(config: &Value, overrides: &Value, agent: usize, tool: &str) -> Value {
    let name = AGENTS[agent];
    let spec = &config["agents"][agent];
    let coordinator = config["approval_policies"].is_null() && config["agents"][0]["role"] == "coordinator";
    let floor = if coordinator { &config["agents"][0]["approval"] } else { &config["approval_policies"] };
    let own = [
        &spec["tools"][0],
        &spec["tools"][1],
        &config["toolkits"][0]["tools"][0],
        &config["tool_bindings"][0],
    ];
    let own = own.into_iter().find(|own| own["name"] == tool).unwrap();
    let order = [
        &overrides["tools"][name][tool],
        &spec["tool_approvals"][tool],
        &own["approval"],
        &overrides["agents"][name]["tools"],
        &spec["approval"]["tools"],
        &floor["tools"],
    ];
    order.into_iter().find(|rule| !rule.is_null()).cloned().unwrap_or_else(|| json!("never"))
}

/// Returns the rules of all tools as `assemble` binds them.
fn bound(config: &Value, overrides: Option<&Value>) -> Vec<Vec<Value>> {
    let mut config = config.clone();
    config["approval_overrides"] = overrides.cloned().unwrap_or_default();
    let descriptions = ToolkitDescriptions::default();
    let spec = define_runtime(&config, &descriptions).unwrap();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let facts = Facts {
        handlers: &names(&TOOLS),
        predicates: &names(&["asks"]),
        catalog: &BTreeSet::new(),
        tools: &[],
        provider_of: &|_| "mock".to_owned(),
    };
    let agents = assemble(&spec, &facts, &descriptions).unwrap();
    let rules = agents.iter().map(|agent| {
        let rule =
            |name: &&str| match agent.tools.iter().find(|tool| tool.name == *name).unwrap().rule.to_json() {
                rule if rule["kind"] == "dynamic" => rule,
                rule => rule["kind"].clone(),
            };
        TOOLS.iter().map(rule).collect()
    });
    rules.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn an_override_changes_exactly_what_it_names(
        config in config(),
        of_agents in by_agent(patch()),
        of_tools in by_agent(rules(&TOOLS)),
    ) {
        let overrides = json!({"agents": of_agents, "tools": of_tools});
        let (before, after) = (bound(&config, None), bound(&config, Some(&overrides)));
        for (agent, name) in AGENTS.iter().enumerate() {
            for (index, tool) in TOOLS.iter().enumerate() {
                prop_assert_eq!(&after[agent][index], &reference(&config, &overrides, agent, tool));
                prop_assert_eq!(&before[agent][index], &reference(&config, &json!({}), agent, tool));
                if overrides["tools"][*name][*tool].is_null() && overrides["agents"][*name]["tools"].is_null() {
                    prop_assert_eq!(&after[agent][index], &before[agent][index], "{} of {} changed", tool, name);
                }
            }
        }
        prop_assert_eq!(bound(&config, Some(&json!({}))), before);
    }
}
