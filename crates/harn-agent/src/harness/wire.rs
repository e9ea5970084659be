//! Converts the runtime spec to and from camelCase JSON. Tools and closures are not included.

use std::collections::BTreeMap;

use harn_value::{Data as Value, data::Map};

use super::runtime::StorageFactories;
use super::{
    AgentSpec, HarnessError, ModelSpec, Overrides, Patch, PlanSpec, Policies, ReferenceSpec, Role,
    RuntimeSpec, Tenant, ToolkitSpec,
};
use harn_prompt::value::{object, present};
use harn_value::json::stringify_data;

/// Serializes the wire form: one JSON object on one line with sorted keys.
#[must_use]
pub fn runtime_spec_json(spec: &RuntimeSpec) -> String {
    stringify_data(&runtime_spec_wire(spec))
}

/// Returns the wire form as a value.
#[must_use]
pub(crate) fn runtime_spec_wire(spec: &RuntimeSpec) -> Value {
    let tenant = object([
        ("resourceId", spec.tenant.resource_id.clone().into()),
        ("version", spec.tenant.version.clone().into()),
    ]);
    let settings = |map: &Map<String, Value>| -> Value {
        map.iter().map(|(key, value)| (camel_case(key), value.clone())).collect::<Map<_, _>>().into()
    };
    let providers: Map<_, _> =
        spec.providers.iter().map(|(name, map)| (name.clone(), settings(map))).collect();
    let mut wire = object([
        ("tenant", tenant),
        ("agents", spec.agents.iter().map(AgentSpec::to_wire).collect::<Vec<_>>().into()),
        ("references", spec.references.iter().map(ReferenceSpec::to_wire).collect::<Vec<_>>().into()),
        ("plans", spec.plans.iter().map(PlanSpec::to_wire).collect::<Vec<_>>().into()),
        ("toolkits", spec.toolkits.iter().map(ToolkitSpec::to_json).collect::<Vec<_>>().into()),
        ("approvalPolicies", spec.approval_policies.to_json()),
        ("storageFactories", spec.storage_factories.to_json()),
        ("providers", providers.into()),
    ]);
    if let (false, Value::Object(map)) = (spec.approval_overrides.is_empty(), &mut wire) {
        map.insert("approvalOverrides".to_owned(), spec.approval_overrides.to_json());
    }
    wire
}

/// Reads the fields of the struct `RuntimeSpec`, as created by [`runtime_spec_parse`] or `define_runtime`. Validated
/// parts are not defined again, and parts that are not in the wire form may be missing.
///
/// # Errors
/// Same as [`runtime_spec_parse`].
pub fn runtime_spec_of_record(record: &Value) -> Result<RuntimeSpec, HarnessError> {
    const AGENT: [&str; 8] =
        ["name", "role", "stateful", "model", "system_prompt", "routes", "toolkits", "max_turns"];
    let fields = |value: &Value, keys: &[&str]| -> Value {
        let map = value.as_object();
        let field = |key: &&str| Some((camel_case(key), present(map?, key)?.clone()));
        keys.iter().filter_map(field).collect::<Map<_, _>>().into()
    };
    let root =
        record.as_object().ok_or_else(|| HarnessError::Wire("the spec must be a RuntimeSpec".to_owned()))?;
    let each = |key: &str, keys: &[&str]| -> Value {
        let list = root.get(key).and_then(Value::as_array);
        list.into_iter().flatten().map(|item| fields(item, keys)).collect()
    };
    let mut wire =
        fields(record, &["approval_policies", "approval_overrides", "storage_factories", "providers"]);
    wire["tenant"] = root.get("tenant").map(|t| fields(t, &["resource_id", "version"])).into();
    wire["agents"] = each("agents", &AGENT);
    wire["references"] = each("references", &["name", "schema", "ttl_ms"]);
    wire["plans"] = each("plans", &["name", "schema", "display_aliases"]);
    wire["toolkits"] = each("toolkits", &["id", "config"]);
    runtime_spec_parse(&wire)
}

/// Parses the wire form, given as a value or as a JSON string.
///
/// # Errors
/// The JSON is invalid, a field is unknown, missing or of a wrong type, or the parts contradict each other.
pub fn runtime_spec_parse(wire: &Value) -> Result<RuntimeSpec, HarnessError> {
    let parsed;
    let wire = match wire {
        Value::String(text) => {
            parsed =
                serde_json::from_str(text).map_err(|e| HarnessError::Wire(format!("invalid JSON: {e}")))?;
            &parsed
        }
        other => other,
    };
    let root = Node::of("spec", wire)?;
    root.only(&[
        "tenant",
        "agents",
        "references",
        "plans",
        "toolkits",
        "approvalPolicies",
        "approvalOverrides",
        "storageFactories",
        "providers",
    ])?;
    let floor = match root.get("approvalPolicies") {
        Some(value) => Patch::parse("runtime spec", value).map_err(as_wire_error)?,
        None => Patch::default(),
    };
    let spec = RuntimeSpec {
        tenant: tenant(&root.node("tenant")?)?,
        agents: root.each("agents", agent)?,
        references: root.each("references", reference)?,
        plans: root.each("plans", plan)?,
        toolkits: root.each("toolkits", toolkit)?,
        approval_policies: Policies::default().with(&floor),
        approval_overrides: match root.get("approvalOverrides") {
            Some(value) => Overrides::parse("runtime spec", value).map_err(as_wire_error)?,
            None => Overrides::default(),
        },
        storage_factories: match root.get("storageFactories") {
            Some(value) => StorageFactories::parse("runtime spec", value).map_err(as_wire_error)?,
            None => StorageFactories::default(),
        },
        providers: providers(&root)?,
        tool_bindings: Vec::new(),
    };
    spec.validate()?;
    Ok(spec)
}

/// Converts an unknown key of a shared part to an unknown field.
fn as_wire_error(error: HarnessError) -> HarnessError {
    match error {
        HarnessError::UnknownKey { key, .. } => HarnessError::Wire(format!("unknown field '{key}'")),
        other => other,
    }
}

/// An object of the wire form, with its name for errors.
struct Node<'a> {
    name: &'a str,
    map: &'a Map<String, Value>,
}

impl<'a> Node<'a> {
    fn of(name: &'a str, value: &'a Value) -> Result<Self, HarnessError> {
        let map = value
            .as_object()
            .ok_or_else(|| HarnessError::Wire(format!("field '{name}' must be an object")))?;
        Ok(Self { name, map })
    }

    fn only(&self, keys: &[&str]) -> Result<(), HarnessError> {
        match self.map.keys().find(|key| !keys.contains(&key.as_str())) {
            Some(key) => Err(HarnessError::Wire(format!("unknown field '{key}'"))),
            None => Ok(()),
        }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        present(self.map, key)
    }

    fn wrong(&self, key: &str, expected: &str) -> HarnessError {
        HarnessError::Wire(format!("field '{key}' of '{}' must be {expected}", self.name))
    }

    fn node(&self, key: &'a str) -> Result<Node<'a>, HarnessError> {
        let value = self.get(key).ok_or_else(|| HarnessError::Wire(format!("missing field '{key}'")))?;
        Node::of(key, value)
    }

    fn text(&self, key: &str) -> Result<String, HarnessError> {
        match self.get(key) {
            None => Err(HarnessError::Wire(format!("missing field '{key}'"))),
            Some(value) => value.as_str().map(str::to_owned).ok_or_else(|| self.wrong(key, "a string")),
        }
    }

    fn number(&self, key: &str) -> Result<Option<u64>, HarnessError> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| self.wrong(key, "a whole number")),
        }
    }

    fn list(&self, key: &str) -> Result<&'a [Value], HarnessError> {
        match self.get(key) {
            None => Ok(&[]),
            Some(value) => value.as_array().map(Vec::as_slice).ok_or_else(|| self.wrong(key, "a list")),
        }
    }

    fn each<T>(
        &self,
        key: &'a str,
        read: impl Fn(&Node<'a>) -> Result<T, HarnessError>,
    ) -> Result<Vec<T>, HarnessError> {
        self.list(key)?.iter().map(|item| read(&Node::of(key, item)?)).collect()
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, HarnessError> {
        let texts = self.list(key)?.iter().map(|item| item.as_str().map(str::to_owned));
        texts.collect::<Option<_>>().ok_or_else(|| self.wrong(key, "a list of strings"))
    }
}

fn tenant(node: &Node<'_>) -> Result<Tenant, HarnessError> {
    node.only(&["resourceId", "version"])?;
    Ok(Tenant { resource_id: node.text("resourceId")?, version: node.text("version")? })
}

fn agent(node: &Node<'_>) -> Result<AgentSpec, HarnessError> {
    node.only(&["name", "role", "stateful", "model", "systemPrompt", "routes", "toolkits", "maxTurns"])?;
    let role = Role::named(&node.text("role")?)
        .ok_or_else(|| node.wrong("role", "coordinator, planner, executor or specialist"))?;
    let model = node.get("model").ok_or_else(|| HarnessError::Wire("missing field 'model'".to_owned()))?;
    Ok(AgentSpec {
        name: node.text("name")?,
        role,
        stateful: match node.get("stateful") {
            None => role.stateful(),
            Some(value) => value.as_bool().ok_or_else(|| node.wrong("stateful", "a bool"))?,
        },
        model: ModelSpec::parse("runtime spec", Some(model)).map_err(as_wire_error)?,
        system_prompt: node.text("systemPrompt")?,
        routes: node.texts("routes")?,
        toolkits: node.texts("toolkits")?,
        max_turns: node.number("maxTurns")?,
        plan: None,
        tools: Vec::new(),
        approval_policies: Patch::default(),
        tool_approval_policies: BTreeMap::new(),
        prompt_cache_key: None,
    })
}

fn reference(node: &Node<'_>) -> Result<ReferenceSpec, HarnessError> {
    node.only(&["name", "schema", "ttlMs"])?;
    Ok(ReferenceSpec { name: node.text("name")?, schema: schema(node)?, ttl_ms: node.number("ttlMs")? })
}

fn plan(node: &Node<'_>) -> Result<PlanSpec, HarnessError> {
    node.only(&["name", "schema", "displayAliases"])?;
    let alias = |node: &Node<'_>| {
        node.only(&["status", "alias"])?;
        Ok((node.text("status")?, node.text("alias")?))
    };
    Ok(PlanSpec {
        name: node.text("name")?,
        schema: schema(node)?,
        display_aliases: node.each("displayAliases", alias)?,
    })
}

/// A schema was already lowered before serialization and is not changed.
fn schema(node: &Node<'_>) -> Result<Value, HarnessError> {
    Ok(Value::Object(node.node("schema")?.map.clone()))
}

fn toolkit(node: &Node<'_>) -> Result<ToolkitSpec, HarnessError> {
    node.only(&["id", "config"])?;
    let config = match node.get("config") {
        None => None,
        Some(value) => Some(value.as_object().cloned().ok_or_else(|| node.wrong("config", "an object"))?),
    };
    Ok(ToolkitSpec { id: node.text("id")?, config, tools: Vec::new() })
}

fn providers(root: &Node<'_>) -> Result<BTreeMap<String, Map<String, Value>>, HarnessError> {
    let Some(value) = root.get("providers") else { return Ok(BTreeMap::new()) };
    let map = value.as_object().ok_or_else(|| root.wrong("providers", "an object"))?;
    let mut providers = BTreeMap::new();
    for (name, settings) in map.sorted() {
        let settings = settings.as_object().ok_or_else(|| root.wrong("providers", "an object of objects"))?;
        let settings = settings.iter().map(|(key, value)| (snake_case(key), value.clone())).collect();
        providers.insert(name.clone(), settings);
    }
    Ok(providers)
}

fn camel_case(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    let mut chars = key.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(next) if c == '_' && !out.is_empty() && next.is_ascii_lowercase() => {
                out.push(next.to_ascii_uppercase());
                chars.next();
            }
            _ => out.push(c),
        }
    }
    out
}

fn snake_case(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;
    use crate::harness::{ToolkitDescriptions, define_runtime};

    /// The documentation's example, with the agent `e` that its overrides name.
    fn example() -> Value {
        json!({
            "tenant": {"resourceId": "acme", "version": "v1"},
            "agents": [
                {"name": "p", "role": "planner", "stateful": true, "model": {"id": "m", "provider": null},
                 "systemPrompt": "# Identity\nYou plan.", "routes": [], "toolkits": []},
                {"name": "e", "role": "executor", "stateful": false, "model": {"id": "m", "provider": "x"},
                 "systemPrompt": "Go.", "routes": ["p"], "toolkits": ["catalog"], "maxTurns": 4}],
            "references": [{"name": "ProductSet", "schema": {}, "ttlMs": 100}],
            "plans": [{"name": "ScenarioPlan", "schema": {}, "displayAliases": [{"status": "draft", "alias": "Proposal"}]}],
            "toolkits": [{"id": "catalog", "config": {"tools": ["execute_query"]}}],
            "approvalPolicies": {"plans": {"kind": "always"}, "tools": {"kind": "never"}},
            "approvalOverrides": {"agents": {"e": {"plans": {"kind": "never"}}}, "tools": {"e": {"post": {"kind": "always"}}}},
            "storageFactories": {"kv": null, "plans": null, "memory": {"kind": "sqlite", "path": "m.db"}},
            "providers": {"x": {"apiKeyEnv": "KEY", "baseUrl": "http://localhost"}},
        })
    }

    #[test]
    fn the_wire_form_goes_both_ways() {
        let spec = runtime_spec_parse(&example()).unwrap();
        assert_eq!(runtime_spec_wire(&spec), example());
        let text = runtime_spec_json(&spec);
        assert_eq!(text, stringify_data(&example()));
        assert!(text.starts_with("{\"agents\":[{\"model\":{\"id\":\"m\",\"provider\":null},\"name\":\"p\""));
        assert_eq!(runtime_spec_parse(&Value::String(text)).unwrap(), spec);
        assert_eq!(spec.providers["x"]["api_key_env"], "KEY");
    }

    #[test]
    fn missing_fields_get_their_defaults() {
        let spec = runtime_spec_parse(&json!({"tenant": {"resourceId": "a", "version": "v"}, "agents": [
            {"name": "p", "role": "planner", "model": {"id": "m"}, "systemPrompt": "x"},
            {"name": "s", "role": "specialist", "model": {"id": "m"}, "systemPrompt": "x"}]}))
        .unwrap();
        assert!(spec.agents[0].stateful && !spec.agents[1].stateful);
        assert_eq!(spec.approval_policies, Policies::default());
        let wire = runtime_spec_wire(&spec);
        assert!(wire.get("approvalOverrides").is_none());
        assert_eq!(wire["storageFactories"], json!({"kv": null, "plans": null, "memory": null}));
        assert_eq!(wire["providers"], json!({}));
    }

    #[test]
    fn a_defined_runtime_travels_without_cache_keys_and_tools() {
        let config = json!({"tenant": {"resource_id": "acme", "version": "v1"}, "agents": [
            {"role": "specialist", "name": "s", "model": "m", "prompt": "x", "tools": [{"name": "t", "input_schema": {}}]}]});
        let spec = define_runtime(&config, &ToolkitDescriptions::default()).unwrap();
        let text = runtime_spec_json(&spec);
        assert!(
            !text.contains("acheKey") && !text.contains("inputSchema") && text.contains("| t |"),
            "{text}"
        );
        let back = runtime_spec_parse(&Value::String(text.clone())).unwrap();
        assert_eq!(runtime_spec_json(&back), text);
    }

    #[test]
    fn bad_wire_forms_are_named() {
        let error = |change: &dyn Fn(&mut Value)| {
            let mut wire = example();
            change(&mut wire);
            runtime_spec_parse(&wire).unwrap_err().to_string()
        };
        assert_eq!(error(&|w| w["colour"] = json!(1)), "runtime spec: unknown field 'colour'");
        assert_eq!(
            error(&|w| w["agents"][0]["promptCacheKey"] = json!("k")),
            "runtime spec: unknown field 'promptCacheKey'"
        );
        assert_eq!(error(&|w| w["agents"][0]["model"]["x"] = json!(1)), "runtime spec: unknown field 'x'");
        assert_eq!(error(&|w| w["storageFactories"]["x"] = json!(1)), "runtime spec: unknown field 'x'");
        assert_eq!(error(&|w| w["approvalPolicies"]["x"] = json!(1)), "runtime spec: unknown field 'x'");
        assert_eq!(error(&|w| w["tenant"] = json!(null)), "runtime spec: missing field 'tenant'");
        assert_eq!(
            error(&|w| w["agents"] = json!({})),
            "runtime spec: field 'agents' of 'spec' must be a list"
        );
        assert_eq!(
            error(&|w| w["agents"][0]["name"] = json!(1)),
            "runtime spec: field 'name' of 'agents' must be a string"
        );
        assert_eq!(
            error(&|w| w["agents"][0]["role"] = json!("boss")),
            "runtime spec: field 'role' of 'agents' must be coordinator, planner, executor or specialist"
        );
        assert_eq!(
            error(&|w| w["plans"][0]["schema"] = json!(1)),
            "runtime spec: field 'schema' must be an object"
        );
        assert_eq!(
            error(&|w| w["agents"][1]["routes"] = json!(["z"])),
            "define_runtime: agent 'e' declares unknown route target 'z'"
        );
        assert!(
            runtime_spec_parse(&json!("{"))
                .unwrap_err()
                .to_string()
                .starts_with("runtime spec: invalid JSON: ")
        );
        assert_eq!(
            runtime_spec_parse(&json!(1)).unwrap_err().to_string(),
            "runtime spec: field 'spec' must be an object"
        );
    }

    #[test]
    fn keys_change_case_and_back() {
        for (snake, camel) in [("api_key_env", "apiKeyEnv"), ("region", "region"), ("base_url", "baseUrl")] {
            assert_eq!(camel_case(snake), camel);
            assert_eq!(snake_case(camel), snake);
        }
    }
}
