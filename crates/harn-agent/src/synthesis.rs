//! Tools synthesized from a description: a validated specification whose id depends only on its content.

use harn_llm::json::truthy;
use harn_llm::options::shape::SIDE_EFFECT_LEVELS;
use harn_value::{Data as Json, data::Map, json};
use sha2::{Digest, Sha256};

/// The keys of a description.
const KEYS: [&str; 11] = [
    "description",
    "name",
    "parameters",
    "return_type",
    "returns",
    "capabilities",
    "side_effect_level",
    "executor",
    "host_tool",
    "mcp_tool",
    "mcp_server",
];

/// Maximum length of a name derived from a description.
const MAX_NAME: usize = 48;

/// Builds the specification of a tool: `{id, name, description, parameters, return_type, capabilities,
/// side_effect_level, executor, host_tool?}`. Equal specifications have equal ids; the order of capabilities does not
/// matter.
///
/// # Errors
/// A message that describes the problem.
pub fn specification(config: &Json) -> Result<Map<String, Json>, String> {
    let fail = |text: String| Err(format!("tool_synthesize: {text}"));
    let Some(config) = config.as_object() else {
        return fail("config must be a dict".to_owned());
    };
    for key in ["handler", "body"] {
        if config.contains_key(key) {
            return fail(format!("'{key}' is refused: a synthesized tool has no code of its own"));
        }
    }
    if let Some(key) = config.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return fail(format!("unknown key '{key}'; there are {}", KEYS.join(", ")));
    }
    let text = |key: &str| match config.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) if !text.trim().is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(format!("tool_synthesize: '{key}' must be a non-empty string")),
    };
    let Some(description) = text("description")? else {
        return fail("'description' is required".to_owned());
    };
    let parameters = match config.get("parameters") {
        None | Some(Json::Null) => json!({}),
        Some(parameters @ Json::Object(_)) => parameters.clone(),
        Some(_) => return fail("'parameters' must be a dict".to_owned()),
    };
    let mut capabilities: Vec<String> = match config.get("capabilities") {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(items)) if items.iter().all(Json::is_string) => {
            items.iter().map(Json::printed).collect()
        }
        Some(_) => return fail("'capabilities' must be a list of strings".to_owned()),
    };
    capabilities.sort();
    capabilities.dedup();
    let level = match text("side_effect_level")? {
        None => inferred_level(&capabilities),
        Some(level) => match SIDE_EFFECT_LEVELS.iter().copied().find(|known| *known == level) {
            Some(level) => level,
            None => {
                let known = SIDE_EFFECT_LEVELS.join(", ");
                return fail(format!("side_effect_level '{level}' is none of {known}"));
            }
        },
    };
    let executor = text("executor")?.unwrap_or_else(|| "dry_run".to_owned());
    let host_tool = text("host_tool")?;
    match (executor.as_str(), &host_tool) {
        ("dry_run", None) => {}
        ("host_bridge", Some(_)) => {}
        ("host_bridge", None) => return fail("executor host_bridge needs 'host_tool'".to_owned()),
        ("dry_run", Some(_)) => return fail("'host_tool' needs executor host_bridge".to_owned()),
        ("mcp_server", _) => {
            return fail("executor mcp_server is not available in this version".to_owned());
        }
        (other, _) => {
            return fail(format!("executor must be one of dry_run, host_bridge, mcp_server; got `{other}`"));
        }
    }
    let name = text("name")?.unwrap_or_else(|| name_of(&description));
    let return_type =
        config.get("return_type").or_else(|| config.get("returns")).cloned().unwrap_or_default();
    let mut spec = json!({
        "name": name, "description": description, "parameters": parameters, "return_type": return_type,
        "capabilities": capabilities, "side_effect_level": level, "executor": executor,
    });
    if let Some(tool) = host_tool {
        spec["host_tool"] = tool.into();
    }
    let digest = Sha256::digest(sorted(&spec).to_string().as_bytes());
    let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let mut out = Map::from_iter([("id".to_owned(), Json::from(format!("tool_synth_{hex}")))]);
    if let Json::Object(spec) = spec {
        out.extend(spec);
    }
    Ok(out)
}

/// Returns the first required argument that a call lacks.
pub fn missing(spec: &Map<String, Json>, arguments: &Map<String, Json>) -> Option<String> {
    let parameters = spec.get("parameters")?.as_object()?;
    let needed = |schema: &Json| {
        schema.get("default").is_none()
            && schema.get("required").is_none_or(truthy)
            && !schema.as_str().is_some_and(|word| word.ends_with('?'))
    };
    let (name, _) =
        parameters.iter().find(|(name, schema)| needed(schema) && !arguments.contains_key(*name))?;
    Some(name.clone())
}

/// Returns the result of a tool in a dry run.
pub fn dry_run(spec: &Map<String, Json>, arguments: Json) -> Json {
    json!({
        "_type": "synthesized_tool_result", "status": "dry_run", "tool_id": spec["id"], "name": spec["name"],
        "description": spec["description"], "args": arguments, "capabilities": spec["capabilities"],
        "side_effect_level": spec["side_effect_level"],
        "message": format!("{} was not run: it is a dry run", spec["name"].printed()), // prose-ok: diagnostic
    })
}

fn inferred_level(capabilities: &[String]) -> &'static str {
    let any = |starts: &[&str]| {
        capabilities.iter().any(|capability| starts.iter().any(|start| capability.starts_with(start)))
    };
    let writes = |capability: &String| {
        capability.starts_with("workspace")
            && ["write", "apply", "delete"].iter().any(|word| capability.contains(word))
    };
    if capabilities.is_empty() {
        "none"
    } else if any(&["http", "oauth", "network", "connector", "mcp"]) {
        "network"
    } else if any(&["process", "exec", "shell"]) {
        "process_exec"
    } else if capabilities.iter().any(writes) {
        "workspace_write"
    } else {
        "read_only"
    }
}

fn name_of(description: &str) -> String {
    let lower = description.to_lowercase();
    let mut name = String::new();
    for word in lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        if name.len() + word.len() >= MAX_NAME {
            break;
        }
        if !name.is_empty() {
            name.push('_');
        }
        name.push_str(word);
    }
    if name.is_empty() { "tool".to_owned() } else { name }
}

/// Returns a copy with sorted keys.
fn sorted(value: &Json) -> Json {
    match value {
        Json::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            keys.into_iter().map(|key| (key.clone(), sorted(&map[key]))).collect::<Map<_, _>>().into()
        }
        Json::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(config: Json) -> Map<String, Json> {
        specification(&config).unwrap()
    }

    #[test]
    fn equal_contents_have_equal_ids() {
        let one =
            spec(json!({"description": "Find a flight", "capabilities": ["http.get", "calendar.read"]}));
        let two =
            spec(json!({"capabilities": ["calendar.read", "http.get"], "description": "Find a flight"}));
        assert_eq!(one["id"], two["id"]);
        assert_eq!(one["id"].as_str().unwrap().len(), "tool_synth_".len() + 16);
        assert_ne!(one["id"], spec(json!({"description": "Find a train"}))["id"]);
        assert_eq!(one["name"], "find_a_flight");
    }

    #[test]
    fn levels_follow_capabilities() {
        for (capabilities, level) in [
            (json!([]), "none"),
            (json!(["http.get"]), "network"),
            (json!(["shell.run"]), "process_exec"),
            (json!(["workspace.write_text"]), "workspace_write"),
            (json!(["workspace.read_text"]), "read_only"),
        ] {
            assert_eq!(
                spec(json!({"description": "x", "capabilities": capabilities}))["side_effect_level"],
                level
            );
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (config, text) in [
            (json!(1), "config must be a dict"),
            (json!({}), "'description' is required"),
            (json!({"description": "x", "handler": 1}), "'handler' is refused"),
            (json!({"description": "x", "colour": 1}), "unknown key 'colour'"),
            (json!({"description": "x", "executor": "magic"}), "executor must be one of"),
            (json!({"description": "x", "executor": "host_bridge"}), "needs 'host_tool'"),
            (json!({"description": "x", "side_effect_level": "moon"}), "is none of none, read_only"),
        ] {
            assert!(specification(&config).unwrap_err().contains(text), "{text}");
        }
        let spec = spec(
            json!({"description": "x", "parameters": {"a": "string", "b": {"type": "int", "default": 1}}}),
        );
        assert_eq!(missing(&spec, &Map::new()).as_deref(), Some("a"));
        assert_eq!(missing(&spec, &Map::from_iter([("a".to_owned(), json!("x"))])), None);
    }
}
