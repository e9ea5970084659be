//! Tools in a loop.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;
use std::ops::Deref;
use std::rc::{Rc, Weak};

use harn_llm::ToolSet;
use harn_llm::options::nearest;
use harn_llm::options::shape::{SIDE_EFFECT_LEVELS, Shape};
use harn_llm::tools::parse_tools;
use harn_prompt::turn::ToolListing;
use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::agents::OF_AGENT;
use crate::error::ConfigError;
use crate::registry::RUNTIME_TOOLS;

/// The tools of a loop. Loops with equal tools can share them and their derived data. A clone copies a pointer.
#[derive(Clone, Default)]
pub struct LoopTools(Rc<Parts>);

#[derive(Default)]
struct Parts {
    list: Vec<LoopTool>,
    /// The offered tools if none is hidden.
    offered: OnceCell<Rc<Offered>>,
}

/// The tools that are offered to a model in a turn.
#[derive(Debug)]
pub struct Offered {
    /// Their definitions.
    pub set: ToolSet,
    /// Their entries without schemas and handlers, for prompt assembly.
    pub names: Vec<Json>,
    /// Their declarations as text, created on demand.
    listing: OnceCell<ToolListing>,
}

impl Offered {
    /// Reads tool entries.
    pub fn new(entries: &[Json]) -> Offered {
        // Each entry was already parsed.
        let set = ToolSet::new(
            entries
                .iter()
                .filter_map(|e| parse_tools(&Json::Array(vec![e.clone()])).ok())
                .flatten()
                .collect(),
        );
        Offered { set, names: entries.iter().map(name_only).collect(), listing: OnceCell::new() }
    }

    /// Returns the declarations of the tools, without the list of deferred ones.
    pub fn listing(&self) -> &ToolListing {
        self.listing.get_or_init(|| {
            let declared = harn_llm::tool_text::declarations(self.set.iter());
            let text = |key: &str| declared.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
            ToolListing {
                shared_types: text("shared_types"),
                expanded: text("expanded_schemas"),
                compact: text("compact_schemas"),
                deferred: Vec::new(),
            }
        })
    }
}

fn name_only(entry: &Json) -> Json {
    let kept = ["name", "guidance", "system_guidance", "defer_loading", "namespace"];
    let mut out: Map<String, Json> =
        kept.iter().filter_map(|key| Some(((*key).to_owned(), entry.get(*key)?.clone()))).collect();
    if let Some(name) = entry.get("function").and_then(|f| f.get("name")) {
        out.insert("function".to_owned(), json!({"name": name}));
    }
    Json::Object(out)
}

impl LoopTools {
    /// Creates the tools from a list.
    pub fn new(list: Vec<LoopTool>) -> LoopTools {
        LoopTools(Rc::new(Parts { list, offered: OnceCell::new() }))
    }

    /// Returns the offered tools if none is hidden.
    pub fn offered(&self) -> &Rc<Offered> {
        self.0.offered.get_or_init(|| {
            let entries: Vec<Json> = self.0.list.iter().map(|tool| tool.entry.clone()).collect();
            Rc::new(Offered::new(&entries))
        })
    }

    /// Replaces the tools with equal ones in `known`, or adds them to it: loops with equal tools then share them. Tools
    /// that no loop uses any more are removed from `known`.
    pub fn share(&mut self, known: &mut Vec<WeakTools>) {
        known.retain(|tools| tools.0.strong_count() > 0);
        let same = known.iter().filter_map(|tools| tools.0.upgrade()).find(|tools| tools.list == self.0.list);
        match same {
            Some(parts) => self.0 = parts,
            None => known.push(WeakTools(Rc::downgrade(&self.0))),
        }
    }
}

/// A weak reference to the tools of a loop.
pub struct WeakTools(Weak<Parts>);

impl Deref for LoopTools {
    type Target = [LoopTool];

    fn deref(&self) -> &[LoopTool] {
        &self.0.list
    }
}

impl PartialEq for LoopTools {
    fn eq(&self, other: &LoopTools) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || self.0.list == other.0.list
    }
}

impl fmt::Debug for LoopTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.list.fmt(f)
    }
}

/// Serialized as a list.
impl Serialize for LoopTools {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.list.serialize(to)
    }
}

impl<'de> Deserialize<'de> for LoopTools {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<LoopTools, D::Error> {
        Vec::deserialize(from).map(LoopTools::new)
    }
}

/// A tool in a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopTool {
    /// Its name.
    pub name: String,
    /// Its entry; closures are opaque values.
    pub entry: Json,
    /// What executes it.
    pub backend: Backend,
    /// Its effects.
    pub annotations: Annotations,
    /// Required arguments, sorted.
    pub required: Vec<String>,
    /// Whether it is hidden until a search finds it.
    pub deferred: bool,
    /// Whether the handler checks the arguments itself and receives the id of the call.
    #[serde(default)]
    pub is_of_runtime: bool,
}

/// What executes a tool.
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
    /// The loop itself: the conversation is transferred to another agent.
    Handoff,
}

impl Backend {
    /// Returns the name in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Backend::Handler | Backend::Runtime | Backend::Handoff => "harn_builtin",
            Backend::Host => "host_bridge",
            Backend::Mcp => "mcp_server",
            Backend::Provider => "provider_native",
        }
    }
}

/// The effects and parameters of a tool.
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
    /// Aliases of arguments.
    pub aliases: Vec<(String, String)>,
    /// Additional required arguments.
    pub required: Vec<String>,
}

/// The types of a tool's annotations. Hosts may define additional ones.
const ANNOTATIONS: &[(&str, Shape)] = &[
    (
        "kind",
        Shape::Word(&["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"]),
    ),
    ("side_effect_level", Shape::Word(SIDE_EFFECT_LEVELS)),
    ("arg_schema", ARG_SCHEMA),
    ("capabilities", Shape::Map(&Shape::List(&Shape::Text))),
    ("emits_artifacts", Shape::Bool),
    ("inline_result", Shape::Bool),
    ("result_readers", Shape::List(&Shape::Text)),
];

const ARG_SCHEMA: Shape = Shape::Dict(&[
    ("path_params", Shape::List(&Shape::Text)),
    ("arg_aliases", Shape::Map(&Shape::Text)),
    ("required", Shape::List(&Shape::Text)),
]);

/// Validates the annotations of a tool, because limits would ignore malformed ones.
///
/// # Errors
/// A message that begins with `place` and names the invalid part.
pub fn check_annotations(place: &str, annotations: &Json) -> Result<(), String> {
    let given = match annotations {
        Json::Null => return Ok(()),
        Json::Object(given) => given,
        other => return Err(format!("{place} must be a dict, got {}", other.type_name())),
    };
    for (key, value) in given {
        match ANNOTATIONS.iter().find(|(name, _)| name == key) {
            Some((_, shape)) => shape.check(&format!("{place}.{key}"), value).map_err(|e| e.to_string())?,
            None => {
                let names = || ANNOTATIONS.iter().map(|(name, _)| *name);
                // `sideEffectLevel` would be ignored and limit nothing.
                let near =
                    names().find(|name| letters(name) == letters(key)).or_else(|| nearest(key, names()));
                if let Some(near) = near {
                    return Err(format!("{place} has no key `{key}`, did you mean `{near}`?"));
                }
            }
        }
    }
    Ok(())
}

/// Returns a name without separators and case, for comparisons.
pub(crate) fn letters(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

impl Annotations {
    /// Returns the mutation class that is shown to the approver of a call.
    pub(crate) fn mutation_class(&self) -> &'static str {
        match self.kind.as_str() {
            "read" | "search" | "think" | "fetch" => "read_only",
            "edit" => "workspace_write",
            "delete" | "move" => "destructive",
            "execute" => "ambient_side_effect",
            _ => "other",
        }
    }

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

/// Marks the entry of a tool whose handler checks its arguments itself and receives the id of the call: a key, and the
/// type of its value. Programs cannot create values of that type.
pub const OF_RUNTIME: (&str, &str) = ("of_runtime", "tool_of_runtime");

impl LoopTool {
    /// Reads an entry of `tools`. `from_registry` means that `tool_define` validated it; the host may then dispatch
    /// tools without a handler.
    ///
    /// # Errors
    /// The tool has no backend.
    pub(crate) fn from_entry(
        entry: &Json,
        from_registry: bool,
        extra: &Map<String, Json>,
    ) -> Result<LoopTool, ConfigError> {
        let defs = parse_tools(&Json::Array(vec![entry.clone()])).map_err(|e| ConfigError(e.to_string()))?;
        let Some(def) = defs.into_iter().next() else {
            return Err(ConfigError("tools must contain only tool definition dicts".to_owned()));
        };
        let given = entry.get("annotations").unwrap_or(&Json::Null);
        check_annotations(&format!("agent_loop: tool '{}': annotations", def.name), given)
            .map_err(ConfigError)?;
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
        let (key, mark) = OF_RUNTIME;
        let is_of_runtime = entry[key].as_opaque().is_some_and(|opaque| opaque.type_name == mark);
        if is_of_runtime {
            required.clear();
        }
        Ok(LoopTool {
            backend: backend(entry, &def.name, from_registry)?,
            entry: entry.clone(),
            annotations,
            required,
            deferred: def.defer_loading,
            is_of_runtime,
            name: def.name,
        })
    }
}

/// Arguments that models tend to write as strings although they are numbers.
const INT_KEYS: [&str; 9] =
    ["range_start", "range_end", "offset", "limit", "timeout", "line", "start_line", "end_line", "count"];

/// Returns the schema of an object with these properties. References resolve to the definitions of the whole schema.
pub(crate) fn schema_of_properties(schema: &Json, properties: &Json) -> Json {
    let mut out = json!({"type": "object", "properties": properties});
    for key in ["$defs", "definitions", "components"] {
        if let Some(referred) = schema.get(key) {
            out[key] = referred.clone();
        }
    }
    out
}

/// Returns whether a property accepts nil.
fn takes_nil(schema: &Json, name: &str) -> bool {
    let Some(property) = schema["properties"].get(name) else { return true };
    let one = schema_of_properties(schema, &json!({name: property}));
    harn_schema::errors(&one, &json!({name: null})).is_empty()
}

/// Returns the declared arguments of a tool's entry by name; `None` if it declares none.
pub(crate) fn declared_arguments(entry: &Json) -> Option<&Map<String, Json>> {
    let schema = ["parameters", "input_schema", "inputSchema"]
        .iter()
        .find_map(|key| entry.get(*key).or_else(|| entry["function"].get(*key)))?
        .as_object()?;
    Some(match schema.get("properties").and_then(Json::as_object) {
        Some(properties) if schema.get("type").is_some_and(|t| t == "object") => properties,
        _ => schema,
    })
}

impl LoopTool {
    /// Returns the JSON Schema of its arguments.
    pub(crate) fn schema(&self) -> Option<Json> {
        let defs = parse_tools(&Json::Array(vec![self.entry.clone()])).ok()?;
        defs.into_iter().next().map(|def| def.parameters)
    }

    /// Converts the arguments of a call to the form that the tool receives: with declared names, and with declared
    /// defaults for missing arguments of handlers. Nil is treated as missing if the declared type does not accept it.
    pub(crate) fn prepare(&self, arguments: &mut Json) {
        self.rename(arguments);
        let Some(given) = arguments.as_object_mut() else { return };
        let mut schema = None;
        for (name, declared) in self.declared() {
            let Some(default) = declared.get("default") else { continue };
            match given.get(name) {
                Some(Json::Null) => {
                    let schema = schema.get_or_insert_with(|| self.schema());
                    if schema.as_ref().is_some_and(|schema| takes_nil(schema, name)) {
                        continue;
                    }
                    given.shift_remove(name);
                }
                Some(_) => continue,
                None => {}
            }
            // A server adds its declared defaults itself.
            if matches!(self.backend, Backend::Handler | Backend::Runtime) && !default.is_null() {
                given.insert(name.clone(), default.clone());
            }
        }
    }

    /// Renames aliases and converts numbers in strings to numbers.
    pub(crate) fn rename(&self, arguments: &mut Json) {
        let Some(map) = arguments.as_object_mut() else { return };
        for (alias, name) in &self.annotations.aliases {
            if !map.contains_key(name)
                && let Some(value) = map.shift_remove(alias)
            {
                map.insert(name.clone(), value);
            }
        }
        for key in INT_KEYS {
            if let Some(n) = map.get(key).and_then(Json::as_str).and_then(|s| s.trim().parse::<i64>().ok()) {
                map.insert(key.to_owned(), n.into());
            }
        }
    }

    /// Returns the arguments of a call with the declared defaults for missing ones.
    pub(crate) fn with_defaults<'a>(&self, arguments: &'a Json) -> Cow<'a, Json> {
        let mut complete = Cow::Borrowed(arguments);
        let Some(given) = arguments.as_object() else { return complete };
        for (name, declared) in self.declared().filter(|(name, _)| !given.contains_key(*name)) {
            if let Some(default) = declared.get("default") {
                complete.to_mut()[name.as_str()] = default.clone();
            }
        }
        complete
    }

    /// Returns its declared arguments by name.
    pub(crate) fn declared(&self) -> impl Iterator<Item = (&String, &Json)> {
        declared_arguments(&self.entry).into_iter().flatten()
    }

    /// Returns whether a call may have an argument with this name: it is declared, or the tool does not declare its
    /// arguments.
    pub(crate) fn may_have(&self, argument: &str) -> bool {
        let open = self.entry["parameters"].get("additionalProperties").is_some_and(|more| *more != false);
        open || declared_arguments(&self.entry).is_none_or(|declared| declared.contains_key(argument))
    }

    /// Loads a deferred tool.
    pub fn load(&mut self) {
        self.deferred = false;
        if let Some(map) = self.entry.as_object_mut() {
            map.shift_remove("defer_loading");
        }
    }
}

fn backend(entry: &Json, name: &str, from_registry: bool) -> Result<Backend, ConfigError> {
    if let Some(agent) = entry[OF_AGENT].as_str() {
        if harn_llm::json::str_at(entry, "description").is_none_or(|text| text.trim().is_empty()) {
            return Err(ConfigError(format!(
                "agent_loop: tools: the agent '{agent}' needs a `description`, by which the model chooses it" // prose-ok: diagnostic
            )));
        }
        return Ok(Backend::Handler);
    }
    let has_handler = entry.get("handler").is_some_and(|h| h.as_opaque().is_some());
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
            "agent_loop: tool '{name}' has no executable backend — add `handler: {{ args -> ... }}`, or declare an `executor`" // prose-ok: error text
        ))),
        Some(word) => Err(ConfigError(format!(
            // prose-ok: diagnostic
            "agent_loop: unknown executor \"{word}\" for tool '{name}'. Expected one of: \"harn\", \"host_bridge\", \"mcp_server\", \"provider_native\""
        ))),
    }
}
