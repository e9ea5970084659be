//! Tool definitions: parses the `tools` option and serializes the schemas of a request.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use bytes::Bytes;
use harn_value::{Data as Value, json};

use crate::error::OptionError;
use crate::json::{Object, list_at, present, str_at};
use crate::wire::names::wire_name;
pub use crate::wire::style::ToolShape;
use crate::wire::style::WireStyle;

/// The keys of a definition that may contain the schema of its arguments. The last two are those of providers and MCP
/// servers.
pub const SCHEMA_KEYS: [&str; 3] = ["parameters", "input_schema", "inputSchema"];

/// A tool, as a request needs it; the caller owns the handler.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDef {
    /// The name that the model calls.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// JSON Schema of the argument object.
    pub parameters: Value,
    /// JSON Schema of the result, when declared.
    pub output_schema: Option<Value>,
    /// Whether the schema is withheld until a search finds the tool.
    pub defer_loading: bool,
    /// Group of deferred tools, for providers that support groups.
    pub namespace: Option<String>,
    /// Whether the tool contract in text shows the tool in one line.
    pub compact: bool,
    /// The MCP server that provides the tool.
    pub mcp_server: Option<String>,
}

/// Parses the `tools` option: a registry dict, or a list of tool dicts.
///
/// # Errors
/// The value has another shape.
pub fn parse_tools(value: &Value) -> Result<Vec<ToolDef>, OptionError> {
    let list = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) => list.as_slice(),
        Value::Object(_)
            if str_at(value, "_type") == Some("tool_registry") || value.get("tools").is_some() =>
        {
            list_at(value, "tools")
        }
        _ => {
            return Err(OptionError::new("tools must be a tool_registry or a list of tool definition dicts"));
        }
    };
    list.iter().map(parse_tool).collect()
}

fn parse_tool(tool: &Value) -> Result<ToolDef, OptionError> {
    if tool.is_string() {
        return Err(OptionError::new("tools must be declared as tool definition dicts or a tool_registry"));
    }
    match tool.type_name() {
        "closure" => {
            return Err(OptionError::new(
                "tools: a function can be a tool if it has a name and no rest parameter and is no generator; declare it with `fn` or `tool`", // prose-ok: diagnostic
            ));
        }
        "builtin" => {
            return Err(OptionError::new(
                "tools: a builtin is not a tool; call it in a function and pass the function", // prose-ok: diagnostic
            ));
        }
        _ => {}
    }
    // A dict in OpenAI's wire shape is a definition too.
    let inner = tool.get("function").filter(|f| f.is_object()).unwrap_or(tool);
    let name = str_at(inner, "name")
        .filter(|_| tool.is_object())
        .ok_or_else(|| OptionError::new("tools must contain only tool definition dicts"))?;
    let given = SCHEMA_KEYS.iter().find_map(|key| Some((key, present(inner, key)?)));
    if let Some((key, schema)) = given.filter(|(_, schema)| !schema.is_object()) {
        // Treated as a missing schema, it would define a tool without arguments.
        let kind = schema.type_name();
        return Err(OptionError::new(format!("tools: {key} of `{name}` must be a dict, got {kind}")));
    }
    let parameters = given.map_or(&Value::Null, |(_, schema)| schema);
    check_keys(name, inner)?;
    check_parameters(name, parameters)?;
    Ok(ToolDef {
        name: name.to_string(),
        description: str_at(inner, "description").unwrap_or_default().to_string(),
        parameters: object_schema(parameters),
        output_schema: present(tool, "outputSchema").or_else(|| present(tool, "returns")).cloned(),
        defer_loading: tool.get("defer_loading") == Some(&Value::Bool(true)),
        namespace: str_at(tool, "namespace").map(str::to_string),
        compact: tool.get("compact") == Some(&Value::Bool(true)),
        mcp_server: str_at(tool, "_mcp_server").or_else(|| str_at(tool, "mcp_server")).map(str::to_string),
    })
}

/// Names of tool fields in other libraries, and their names in Harn.
const FOREIGN_FIELDS: [(&str, &str); 16] = [
    ("args", "parameters"),
    ("args_schema", "parameters"),
    ("arguments", "parameters"),
    ("callback", "handler"),
    ("desc", "description"),
    ("doc", "description"),
    ("execute", "handler"),
    ("fn", "handler"),
    ("func", "handler"),
    ("input", "parameters"),
    ("inputs", "parameters"),
    ("params", "parameters"),
    ("properties", "parameters"),
    ("required", "parameters"),
    ("run", "handler"),
    ("schema", "parameters"),
];

/// Fields that require an approval in other libraries. They must not be ignored, because the tool would run without
/// approval.
const APPROVAL_FIELDS: [&str; 10] = [
    "approval_mode",
    "confirm",
    "human_input",
    "interrupt",
    "needsApproval",
    "needs_approval",
    "require_approval",
    "require_confirmation",
    "requires_approval",
    "requires_confirmation",
];

/// Rejects a field that is likely a misnamed one, because the tool would silently differ.
fn check_keys(tool: &str, dict: &Value) -> Result<(), OptionError> {
    let keys = dict.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    for key in keys {
        if APPROVAL_FIELDS.contains(&key) {
            return Err(OptionError::new(format!(
                "tools: a tool has no field `{key}` (`{tool}`); list the tool in `approval_policy: {{require_approval: [...]}}` \
                 of the loop" // prose-ok: diagnostic
            )));
        }
        let foreign = FOREIGN_FIELDS.iter().find(|(word, _)| *word == key).map(|(_, meant)| *meant);
        let meant = foreign.filter(|meant| present(dict, meant).is_none()).or_else(|| {
            let known = TOOL_FIELDS.contains(&key) || key.starts_with('_');
            if known { None } else { harn_schema::nearest(key, TOOL_FIELDS.iter().copied()) }
        });
        if let Some(meant) = meant {
            return Err(OptionError::new(format!(
                "tools: unknown field `{key}` of `{tool}`; did you mean `{meant}`?"
            )));
        }
    }
    Ok(())
}

/// The fields of a tool that Harn supports.
const TOOL_FIELDS: [&str; 23] = [
    "annotations",
    "compact",
    "defer_loading",
    "description",
    "executor",
    "function",
    "guidance",
    "handler",
    "host_capability",
    "idempotent",
    "inputSchema",
    "input_schema",
    "mcp_server",
    "name",
    "namespace",
    "on_uncertain",
    "outputSchema",
    "output_schema",
    "parameters",
    "prompt_guidance",
    "returns",
    "strict",
    "type",
];

/// Returns whether `parameters` is the schema of the whole argument object, as MCP servers define it.
fn is_complete(parameters: &Value) -> bool {
    str_at(parameters, "type").is_some_and(|word| harn_schema::words::json_or_text(word) == "object")
        && parameters.get("properties").is_none_or(Value::is_object)
}

/// Rejects typos in the types of single parameters, because an unknown type would become a string.
fn check_parameters(tool: &str, parameters: &Value) -> Result<(), OptionError> {
    if is_complete(parameters) {
        let properties = parameters.get("properties").and_then(Value::as_object);
        let slip = properties.into_iter().flatten().find_map(|(name, schema)| {
            harn_schema::slip(schema, &format!("tools: parameter `{name}` of `{tool}`"))
        });
        return slip.map_or(Ok(()), |slip| Err(OptionError::new(slip)));
    }
    for (name, schema) in parameters.as_object().into_iter().flatten() {
        let place = format!("tools: parameter `{name}` of `{tool}`");
        let slip = match schema {
            // Any other string is a description of a string parameter.
            Value::String(word) => harn_schema::meant_type(word)
                .map(|near| format!("{place}: unknown type \"{word}\"; did you mean \"{near}\"?")),
            schema => harn_schema::slip(schema, &place),
        };
        if let Some(slip) = slip {
            return Err(OptionError::new(slip));
        }
    }
    Ok(())
}

/// Converts the `parameters` of a tool dict to the JSON Schema of its argument object.
fn object_schema(parameters: &Value) -> Value {
    let Some(map) = parameters.as_object() else {
        return json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    };
    if is_complete(parameters) {
        let is_json = str_at(parameters, "type") == Some("object");
        return if is_json { parameters.clone() } else { harn_schema::as_json_schema(parameters) };
    }
    let mut properties = Object::new();
    let mut required = Vec::new();
    for (name, schema) in map {
        let optional = schema.get("required") == Some(&Value::Bool(false)) || schema.get("default").is_some();
        if !optional {
            required.push(Value::String(name.clone()));
        }
        properties.insert(name.clone(), property_schema(schema));
    }
    harn_schema::hoisted(
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false}),
    )
}

fn property_schema(schema: &Value) -> Value {
    match schema {
        Value::String(word) => json!({"type": harn_schema::words::json_or_text(word)}),
        Value::Object(map) => {
            let mut out = map.clone();
            // A boolean `required` applies to the parameter, a list to the keys of an object.
            if out.get("required").is_some_and(Value::is_boolean) {
                out.shift_remove("required");
            }
            harn_schema::as_json_schema(&Value::Object(out))
        }
        _ => json!({"type": "string"}),
    }
}

/// Tools that many calls share: the definitions and their serializations exist only once. A clone is a pointer.
#[derive(Clone, Default)]
pub struct ToolSet(Rc<SetParts>);

#[derive(Default)]
struct SetParts {
    defs: Vec<ToolDef>,
    /// The native shapes created so far.
    native: RefCell<Vec<(ToolShape, NativeTools)>>,
}

impl ToolSet {
    /// Creates a set of definitions.
    pub fn new(defs: Vec<ToolDef>) -> ToolSet {
        ToolSet(Rc::new(SetParts { defs, native: RefCell::default() }))
    }

    /// Parses the option `tools`; see [`parse_tools`].
    ///
    /// # Errors
    /// The value is neither a registry nor a list of tool dicts.
    pub fn from_json(value: &Value) -> Result<ToolSet, OptionError> {
        parse_tools(value).map(ToolSet::new)
    }

    /// Returns the tools in a native shape, which is created once.
    pub fn native(&self, shape: ToolShape) -> NativeTools {
        let mut made = self.0.native.borrow_mut();
        if let Some((_, tools)) = made.iter().find(|(own, _)| *own == shape) {
            return tools.clone();
        }
        let tools = NativeTools::new(self.iter().map(|tool| tool.to_native(shape)).collect());
        made.push((shape, tools.clone()));
        tools
    }
}

impl Deref for ToolSet {
    type Target = [ToolDef];

    fn deref(&self) -> &[ToolDef] {
        &self.0.defs
    }
}

impl PartialEq for ToolSet {
    fn eq(&self, other: &ToolSet) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || self.0.defs == other.0.defs
    }
}

impl std::fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.defs.fmt(f)
    }
}

impl<'a> IntoIterator for &'a ToolSet {
    type Item = &'a ToolDef;
    type IntoIter = std::slice::Iter<'a, ToolDef>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Tools in a native shape, as recorded (including meta-tools). A clone is a pointer.
#[derive(Clone, Default)]
pub struct NativeTools(Rc<NativeParts>);

#[derive(Default)]
struct NativeParts {
    list: Vec<Value>,
    tokens: OnceCell<i64>,
    /// The serialized items of the list, and the wire format for which they were serialized last.
    written: RefCell<Option<(WireStyle, Bytes)>>,
}

impl NativeTools {
    /// Creates a list of tool dicts.
    pub fn new(list: Vec<Value>) -> NativeTools {
        NativeTools(Rc::new(NativeParts { list, ..NativeParts::default() }))
    }

    /// Returns the estimated tokens of all tools.
    pub fn tokens(&self) -> i64 {
        let count = |tool: &Value| crate::estimate::estimate_tokens(&tool.to_string());
        *self.0.tokens.get_or_init(|| self.iter().map(count).sum())
    }

    /// Returns the tools as serialized items of a JSON list, each converted by `write`. They are serialized once per
    /// wire format.
    pub(crate) fn written(&self, style: WireStyle, write: &dyn Fn(&Value) -> Value) -> Vec<Bytes> {
        let mut kept = self.0.written.borrow_mut();
        if let Some((_, bytes)) = kept.as_ref().filter(|(own, _)| *own == style) {
            return vec![bytes.clone()];
        }
        let texts: Vec<String> = self.iter().map(|tool| write(tool).to_string()).collect();
        let bytes = Bytes::from(texts.join(","));
        *kept = Some((style, bytes.clone()));
        vec![bytes]
    }
}

impl Deref for NativeTools {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.0.list
    }
}

impl PartialEq for NativeTools {
    fn eq(&self, other: &NativeTools) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || self.0.list == other.0.list
    }
}

impl std::fmt::Debug for NativeTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.list.fmt(f)
    }
}

impl ToolDef {
    /// Returns the native tool dict as recorded, with `x-harn-output-schema` and `namespace`.
    pub fn to_native(&self, shape: ToolShape) -> Value {
        let mut out = Object::new();
        let output_schema = self.output_schema.clone();
        match shape {
            ToolShape::Anthropic => {
                out.insert("name".into(), self.name.as_str().into());
                out.insert("description".into(), self.description.as_str().into());
                out.insert("input_schema".into(), self.parameters.clone());
                if let Some(schema) = output_schema {
                    out.insert("x-harn-output-schema".into(), schema);
                }
            }
            ToolShape::OpenAi => {
                let mut function = Object::new();
                function.insert("name".into(), self.name.as_str().into());
                function.insert("description".into(), self.description.as_str().into());
                function.insert("parameters".into(), self.parameters.clone());
                if let Some(schema) = output_schema {
                    function.insert("x-harn-output-schema".into(), schema);
                }
                out.insert("type".into(), "function".into());
                out.insert("function".into(), Value::Object(function));
            }
        }
        if self.defer_loading {
            out.insert("defer_loading".into(), true.into());
        }
        if let Some(namespace) = &self.namespace {
            out.insert("namespace".into(), namespace.as_str().into());
        }
        Value::Object(out)
    }
}

/// Removes the keys of a recorded native tool that the provider would reject.
pub(crate) fn strip_for_wire(tool: &Value, shape: ToolShape) -> Value {
    let mut out = tool.clone();
    if let Some(map) = out.as_object_mut() {
        let named = if map.contains_key("function") { map.get_mut("function") } else { None };
        let named = match named {
            Some(function) => function.as_object_mut(),
            None => Some(&mut *map),
        };
        if let Some(Value::String(name)) = named.and_then(|named| named.get_mut("name"))
            && let Cow::Owned(mapped) = wire_name(name)
        {
            *name = mapped;
        }
        map.shift_remove("x-harn-output-schema");
        // Namespaces group deferred tools; elsewhere the provider rejects the key.
        if shape == ToolShape::Anthropic || map.get("defer_loading") != Some(&Value::Bool(true)) {
            map.shift_remove("namespace");
        }
        if let Some(function) = map.get_mut("function").and_then(Value::as_object_mut) {
            function.shift_remove("x-harn-output-schema");
        }
    }
    out
}

/// The `tool_choice` option, and its form in each wire format.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// No calls.
    None,
    /// At least one call.
    Required,
    /// A call of this tool.
    Tool(String),
    /// A dict in the provider's shape.
    Raw(Value),
}

impl ToolChoice {
    /// Reads the option of a call; [`ToolChoice::check`] compares it with the tools.
    ///
    /// # Errors
    /// The value is no choice.
    pub fn parse(value: &Value) -> Result<Option<ToolChoice>, OptionError> {
        let choice = match value {
            Value::String(word) => match word.as_str() {
                "auto" => Some(ToolChoice::Auto),
                "none" => Some(ToolChoice::None),
                "required" | "any" => Some(ToolChoice::Required),
                _ => None,
            },
            Value::Object(map) if map.contains_key("type") => Some(ToolChoice::Raw(value.clone())),
            _ => str_at(value, "name").map(|name| ToolChoice::Tool(name.to_string())),
        };
        if choice.is_some() {
            return Ok(choice);
        }
        Err(OptionError::new(format!(
            // prose-ok: diagnostic
            "tool_choice: expected \"auto\", \"none\", \"required\" or a dict with the `name` of a tool, got {}",
            crate::options::shape::shown(value)
        )))
    }

    /// Checks that the call has the tool that is chosen.
    ///
    /// # Errors
    /// It has other tools.
    pub fn check(&self, tools: &[ToolDef]) -> Result<(), OptionError> {
        match self {
            ToolChoice::Tool(name) if !tools.iter().any(|tool| tool.name == *name) => {
                let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
                Err(OptionError::new(format!(
                    "tool_choice: the call has no tool `{name}`; its tools are [{}]",
                    names.join(", ")
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns the form of the Anthropic Messages API.
    pub(crate) fn to_anthropic(&self) -> Value {
        match self {
            ToolChoice::Auto => json!({"type": "auto"}),
            ToolChoice::None => json!({"type": "none"}),
            ToolChoice::Required => json!({"type": "any"}),
            ToolChoice::Tool(name) => json!({"type": "tool", "name": wire_name(name)}),
            ToolChoice::Raw(value) => value.clone(),
        }
    }

    /// Returns the form of OpenAI Chat Completions and Ollama.
    pub(crate) fn to_openai(&self) -> Value {
        match self {
            ToolChoice::Auto => "auto".into(),
            ToolChoice::None => "none".into(),
            ToolChoice::Required => "required".into(),
            ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": wire_name(name)}}),
            ToolChoice::Raw(value) => value.clone(),
        }
    }

    /// Returns the form of OpenAI Responses.
    pub(crate) fn to_responses(&self) -> Value {
        match self {
            ToolChoice::Tool(name) => json!({"type": "function", "name": wire_name(name)}),
            other => other.to_openai(),
        }
    }

    /// Returns the option as the caller wrote it, for logs.
    pub fn to_json(&self) -> Value {
        match self {
            ToolChoice::Auto => "auto".into(),
            ToolChoice::None => "none".into(),
            ToolChoice::Required => "required".into(),
            ToolChoice::Tool(name) => json!({"name": name}),
            ToolChoice::Raw(value) => value.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_an_object_schema() {
        let tools = parse_tools(&json!([{"name": "t", "description": "d", "parameters": {
            "path": "string", "n": {"type": "int", "default": 3}, "deep": {"type": "list", "items": {"type": "int"}},
            "maybe": {"type": "string", "required": false}}}]))
        .unwrap();
        assert_eq!(
            tools[0].parameters,
            json!({"type": "object", "properties": {
                "path": {"type": "string"},
                "n": {"type": "integer", "default": 3},
                "deep": {"type": "array", "items": {"type": "integer"}},
                "maybe": {"type": "string"}},
              "required": ["path", "deep"], "additionalProperties": false})
        );
        let written: Vec<&String> = tools[0].parameters["properties"].as_object().unwrap().keys().collect();
        assert_eq!(written, ["path", "n", "deep", "maybe"]);
    }

    #[test]
    fn wrong_tools_are_named() {
        let error = |v: Value| parse_tools(&v).unwrap_err().0;
        assert_eq!(error(json!(3)), "tools must be a tool_registry or a list of tool definition dicts");
        assert_eq!(error(json!(["x"])), "tools must be declared as tool definition dicts or a tool_registry");
        assert_eq!(error(json!([3])), "tools must contain only tool definition dicts");
    }

    #[test]
    fn output_schemas_are_recorded_but_not_sent() {
        let tool = &parse_tools(&json!([{"name": "t", "returns": {"type": "string"}, "namespace": "ops"}]))
            .unwrap()[0];
        let native = tool.to_native(ToolShape::OpenAi);
        assert_eq!(native["function"]["x-harn-output-schema"], json!({"type": "string"}));
        assert!(strip_for_wire(&native, ToolShape::OpenAi)["function"].get("x-harn-output-schema").is_none());
        let sent = strip_for_wire(&tool.to_native(ToolShape::Anthropic), ToolShape::Anthropic);
        assert_eq!(
            sent.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["name", "description", "input_schema"]
        );
    }
}
