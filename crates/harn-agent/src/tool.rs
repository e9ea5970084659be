//! A tool as a loop needs it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::config::ConfigError;
use crate::registry::RUNTIME_TOOLS;

/// A tool of a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopTool {
    /// Its name.
    pub name: String,
    /// Its entry, closures as foreign values.
    pub entry: Json,
    /// Who runs it.
    pub backend: Backend,
    /// What it does to the world.
    pub annotations: Annotations,
    /// Arguments that must be there, sorted.
    pub required: Vec<String>,
    /// Whether it waits for a search.
    pub deferred: bool,
}

/// Who runs a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// Its handler.
    Handler,
    /// The runtime, for its own tools.
    Runtime,
    /// The host program.
    Host,
    /// An MCP server.
    Mcp,
    /// The model's server.
    Provider,
}

impl Backend {
    /// Returns the word of events.
    pub fn as_str(self) -> &'static str {
        match self {
            Backend::Handler | Backend::Runtime => "harn_builtin",
            Backend::Host => "host_bridge",
            Backend::Mcp => "mcp_server",
            Backend::Provider => "provider_native",
        }
    }
}

/// What a tool does to the world.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Annotations {
    /// `kind`, `other` by default.
    pub kind: String,
    /// `side_effect_level`, `none` by default.
    pub side_effect_level: String,
    /// Operations by capability.
    pub capabilities: Map<String, Json>,
    /// Arguments that are paths.
    pub path_params: Vec<String>,
    /// Other names of arguments.
    pub aliases: Vec<(String, String)>,
    /// Further arguments that must be there.
    pub required: Vec<String>,
}

impl Annotations {
    fn from_json(own: &Json, extra: Option<&Json>) -> Annotations {
        let field = |key: &str| extra.and_then(|e| e.get(key)).or_else(|| own.get(key));
        let text = |key: &str, default: &str| field(key).and_then(Json::as_str).unwrap_or(default).to_owned();
        let schema = field("arg_schema");
        let list = |key: &str| -> Vec<String> {
            let items = schema.and_then(|s| s.get(key)).and_then(Json::as_array);
            items.into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
        };
        let aliases = schema.and_then(|s| s.get("arg_aliases")).and_then(Json::as_object);
        Annotations {
            kind: text("kind", "other"),
            side_effect_level: text("side_effect_level", "none"),
            capabilities: field("capabilities").and_then(Json::as_object).cloned().unwrap_or_default(),
            path_params: list("path_params"),
            aliases: aliases
                .into_iter()
                .flatten()
                .filter_map(|(alias, name)| Some((alias.clone(), name.as_str()?.to_owned())))
                .collect(),
            required: list("required"),
        }
    }
}

impl LoopTool {
    /// Reads an entry of `tools`. `from_registry` says that it passed `tool_define`, which lets tools
    /// without a handler be dispatched by the host.
    ///
    /// # Errors
    /// The tool has no backend.
    pub fn from_entry(
        entry: &Json,
        from_registry: bool,
        extra: &Map<String, Json>,
    ) -> Result<LoopTool, ConfigError> {
        let defs = harn_llm::tools::parse_tools(&Json::Array(vec![entry.clone()]))
            .map_err(|e| ConfigError(e.to_string()))?;
        let Some(def) = defs.into_iter().next() else {
            return Err(ConfigError("tools must contain only tool definition dicts".to_owned()));
        };
        let annotations =
            Annotations::from_json(entry.get("annotations").unwrap_or(&Json::Null), extra.get(&def.name));
        let mut required: Vec<String> = def
            .parameters
            .get("required")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .map(str::to_owned)
            .collect();
        required.extend(annotations.required.iter().cloned());
        required.sort();
        required.dedup();
        Ok(LoopTool {
            backend: backend(entry, &def.name, from_registry)?,
            entry: entry.clone(),
            annotations,
            required,
            deferred: def.defer_loading,
            name: def.name,
        })
    }
}

impl LoopTool {
    /// Takes the tool out of those that wait for a search.
    pub fn load(&mut self) {
        self.deferred = false;
        if let Some(map) = self.entry.as_object_mut() {
            map.shift_remove("defer_loading");
        }
    }
}

fn backend(entry: &Json, name: &str, from_registry: bool) -> Result<Backend, ConfigError> {
    let has_handler = entry.get("handler").is_some_and(|h| harn_prompt::value::as_foreign(h).is_some());
    let is_runtime = RUNTIME_TOOLS.contains(&name);
    let executor = entry.get("executor").filter(|e| !e.is_null());
    match executor.map(|e| e.as_str().unwrap_or_default()) {
        Some("harn" | "harn_builtin") | None if has_handler => Ok(Backend::Handler),
        Some("harn" | "harn_builtin") | None if is_runtime => Ok(Backend::Runtime),
        Some(word @ ("harn" | "harn_builtin")) => Err(ConfigError(format!(
            "agent_loop: tool '{name}' declares executor \"{word}\" but has no callable handler"
        ))),
        Some("host_bridge") => Ok(Backend::Host),
        Some("mcp_server") => Ok(Backend::Mcp),
        Some("provider_native") => Ok(Backend::Provider),
        None if from_registry || entry.get("handler").is_some() => Ok(Backend::Host),
        None => Err(ConfigError(format!(
            "agent_loop: tool '{name}' has no executable backend — attach a handler, or declare an executor" // prose-ok: error text
        ))),
        Some(word) => Err(ConfigError(format!(
            // prose-ok: diagnostic
            "agent_loop: unknown executor \"{word}\" for tool '{name}'. Expected one of: \"harn\", \"host_bridge\", \"mcp_server\", \"provider_native\""
        ))),
    }
}
