//! Tool registries.

use std::cell::RefCell;
use std::collections::BTreeMap;

use harn_agent::registry;
use harn_agent::surface::Severity;
use harn_agent::synthesis;
use harn_llm::media::is_media;
use harn_prompt::Prose;
use harn_prompt::untrusted::{quote, quote_name};
use harn_value::{Data as Json, data::Map};
use harn_value::{Dict, Value};
use harn_vm::builtin::{Rest, Text};
use harn_vm::closure::{Closure, Partial, is_callable};
use harn_vm::{Cx, Error, Result, builtins};

use crate::convert::{OrThrow, entry, from_json, text, thrown, to_json, to_plain_json};
use crate::driver::declared_parameters;
use crate::llm_embedder::prompts_of;
use crate::session::Sessions;
use crate::tool_config::check_config;

/// The parameters of a tool that is called like a function.
struct Signature<'a> {
    tool: &'a str,
    /// Names and schemas, in declaration order.
    declared: Vec<(String, Value)>,
    /// Whether a rest parameter follows them.
    rest: bool,
}

impl Signature<'_> {
    fn is_required(&self, at: usize) -> bool {
        !self.declared.get(at).is_some_and(|(_, schema)| {
            schema.field("default").is_some()
                || schema.field("required").and_then(Value::as_bool) == Some(false)
        })
    }

    fn knows(&self, name: &str) -> bool {
        self.declared.iter().any(|(declared, _)| declared == name)
    }

    /// Returns whether the first argument may be a dict.
    fn takes_dict(&self) -> bool {
        let Some((_, schema)) = self.declared.first() else { return self.rest };
        match schema.field("type").unwrap_or(schema).as_str() {
            Some(word) => matches!(word.as_str(), "any" | "object" | "dict"),
            None => true,
        }
    }

    /// Returns the only argument if it is a dict of named arguments.
    fn by_name(&self, given: &[Value]) -> Result<Option<harn_value::Ref<Dict>>> {
        let [one] = given else { return Ok(None) };
        let Some(dict) = one.to_dict() else { return Ok(None) };
        let unknown = dict.keys().find(|key| !self.knows(key.as_str()));
        match unknown {
            None if !dict.is_empty() => Ok(Some(dict)),
            None => Ok((!self.takes_dict()).then_some(dict)),
            Some(_) if self.takes_dict() => Ok(None),
            Some(key) => {
                let names = || self.declared.iter().map(|(name, _)| name.as_str());
                let hint = match harn_syntax::suggest::nearest(key.as_str(), names()) {
                    Some(near) => format!(" (did you mean `{near}`?)"),
                    None if self.declared.is_empty() => "; it has none".to_owned(),
                    None => format!("; it has {}", names().collect::<Vec<_>>().join(", ")),
                };
                Err(Error::type_error(format!("{}: unknown parameter `{key}`{hint}", self.tool)))
            }
        }
    }

    /// Checks the number of positional arguments.
    fn check_count(&self, got: usize) -> Result<()> {
        let most = self.declared.len();
        if got > most && !self.rest {
            return Err(Error::runtime(harn_syntax::signature::too_many(self.tool, most, got)));
        }
        let least = (0..most).rposition(|at| self.is_required(at)).map_or(0, |at| at + 1);
        if got < least {
            return Err(Error::runtime(harn_syntax::signature::too_few(self.tool, least, got)));
        }
        Ok(())
    }

    /// Checks that every parameter without a default has a value.
    fn check_names(&self, dict: &Dict) -> Result<()> {
        let missing = self
            .declared
            .iter()
            .enumerate()
            .find(|(at, (name, _))| self.is_required(*at) && !dict.contains(name));
        match missing {
            Some((_, (name, _))) => {
                Err(Error::runtime(format!("{}: missing required parameter `{name}`", self.tool)))
            }
            None => Ok(()),
        }
    }
}

/// Returns the arguments of a tool's handler for a call of the tool like a function.
fn call_arguments(tool: &str, parameters: &Value, handler: &Value, given: &[Value]) -> Result<Vec<Value>> {
    let declared: Vec<(String, Value)> = match parameters.to_dict() {
        Some(dict) => dict.written().map(|(key, value)| (key.to_string(), value.clone())).collect(),
        None => Vec::new(),
    };
    let rest = Closure::of(handler).is_some_and(|closure| closure.proto.rest);
    let signature = Signature { tool, declared, rest };
    let schema = to_json(parameters);
    let names = declared_parameters(handler, tool, schema.as_object());
    // A handler with a single dict parameter may use entries that its tool does not declare.
    if names.is_none() && given.len() == 1 && given[0].to_dict().is_some() {
        return Ok(given.to_vec());
    }
    let by_name = signature.by_name(given)?;
    match &by_name {
        Some(dict) => signature.check_names(dict)?,
        None => signature.check_count(given.len())?,
    }
    let declared = &signature.declared;
    let Some(names) = names else {
        let pairs = declared.iter().zip(given).map(|((name, _), value)| (name.as_str(), value.clone()));
        return Ok(vec![pairs.collect::<Dict>().into()]);
    };
    let Some(dict) = by_name else { return Ok(given.to_vec()) };
    let value = |name: &String| {
        let default = || declared.iter().find(|(n, _)| n == name).map(|(_, schema)| entry(schema, "default"));
        dict.get_str(name).cloned().or_else(default).unwrap_or_default()
    };
    let last = names.iter().rposition(|name| dict.contains(name)).map_or(0, |at| at + 1);
    Ok(names[..last].iter().map(value).collect())
}

/// The specifications of synthesized tools, by id.
#[derive(Default)]
struct Synthesized(RefCell<BTreeMap<String, Map<String, Json>>>);

builtins! {
    /// Tools.
    pub(crate) static TOOLS: "tools";

    /// Creates an empty tool registry.
    ///
    /// ```harn
    /// println(tool_registry()) // -> {_type: tool_registry, tools: []}
    /// ```
    Pure fn tool_registry(cx) -> "dict" {
        registry::empty()
    }

    /// Returns a registry with an additional tool; a tool of the same name is replaced.
    ///
    /// The config has `parameters` (name to type or schema), `handler` (called with one dict of arguments) or another
    /// `executor`, and optionally `returns`, `guidance`, `annotations`, `defer_loading`, `namespace` and `compact`.
    /// `idempotent: true` or `on_uncertain` (`"fail"`, `"retry"` or `"ask"`) defines how a durable run treats
    /// interrupted requests and programs of the handler, unless they set it themselves.
    ///
    /// ```harn
    /// let tools = tool_define(tool_registry(), "add", "Add two numbers", {
    ///   parameters: {a: "int", b: "int"},
    ///   handler: { args -> args.a + args.b },
    /// })
    /// println(tool_describe(tools).lines()[1]) // -> - add(a: int, b: int): Add two numbers
    /// ```
    Pure fn tool_define(cx, args: Rest) -> "dict" {
        if let [_, name, description, _] = &args.0[..] {
            match name.as_str() {
                None => {
                    let got = name.type_name();
                    return Err(Error::type_error(format!("tool_define: name must be string, got {got}")));
                }
                Some(name) if name.as_str().trim().is_empty() || name.as_str().chars().any(char::is_control) => {
                    return Err(thrown("tool_define: name must be one line that is not blank"));
                }
                Some(_) => {}
            }
            if !description.is_nil() && description.as_str().is_none() {
                let got = description.type_name();
                return Err(Error::type_error(format!("tool_define: description must be string, got {got}")));
            }
        }
        if let Some(config) = args.0.get(3).and_then(Value::as_dict) {
            check_config(config)?;
        }
        registry::define(&args.0).or_throw()?
    }

    /// Calls the only tool of a registry; implements calls of `tool` declarations.
    ///
    /// The arguments are those of the declaration in order, or one dict of them by name.
    Pure async fn call_tool = "__call_tool"(cx, tools: Value as "any?", args: Rest) -> "any" {
        let entries = registry::entries("call", &tools).or_throw()?;
        let [tool] = &entries[..] else {
            let text = format!("a registry of {} tools cannot be called; find one with tool_find", entries.len());
            return Err(Error::type_error(text));
        };
        let name = text(&entry(tool, "name")).unwrap_or_default();
        let handler = entry(tool, "handler");
        if !is_callable(&handler) {
            return Err(Error::type_error(format!("tool `{name}` has no handler to call")));
        }
        let arguments = call_arguments(&name, &entry(tool, "parameters"), &handler, &args.0)?;
        cx.call(&handler, arguments).await?
    }

    /// Creates a tool from its description, without code.
    ///
    /// The tool is a function that checks its arguments. It then returns a dry run, or forwards the call to a tool of
    /// the host.
    ///
    /// Config: `description` (required), `name`, `parameters`, `returns`, `capabilities`, `side_effect_level` (inferred
    /// from the capabilities), `executor` (`dry_run` or `host_bridge` with `host_tool`). Equal configs return the same
    /// tool.
    ///
    /// ```harn
    /// let find = tool_synthesize({description: "Find a flight", parameters: {to: "string"}, capabilities: ["http.get"]})
    /// let r = find({to: "Oslo"})
    /// println("${r.status} ${r.name} ${r.args} ${r.side_effect_level}") // -> dry_run find_a_flight {to: Oslo} network
    /// ```
    State fn tool_synthesize(cx, config: Value as "!dict") -> "closure" {
        let spec = synthesis::specification(&to_json(&config)).or_throw()?;
        let id = text(&entry(&from_json(&Json::Object(spec.clone())), "id")).unwrap_or_default();
        let known = cx.state::<Synthesized>();
        known.0.borrow_mut().entry(id.clone()).or_insert(spec);
        let Some(call) = cx.vm().builtin("__synthesized_tool") else { return Err(thrown("tool_synthesize: no executor")) };
        Partial::value(call, vec![Value::str(&id)])
    }

    /// Runs the call of a synthesized tool.
    State async fn call_synthesized = "__synthesized_tool"(cx, id: Text, args: Value as "any?") -> "any" {
        let spec = cx.state::<Synthesized>().0.borrow().get(&*id).cloned();
        let Some(spec) = spec else {
            return Err(thrown(format!("{}: this tool was cleared; synthesize it again", &*id)));
        };
        let name = spec["name"].as_str().unwrap_or_default();
        let given = match to_json(&args) {
            Json::Null => Map::new(),
            Json::Object(map) if args.to_dict().is_some() => map,
            _ => return Err(thrown(format!("{name}: expected one dict of arguments, got {}", args.type_name()))),
        };
        if let Some(missing) = synthesis::missing(&spec, &given) {
            return Err(thrown(format!("{name}: missing required argument \"{missing}\"")));
        }
        match spec.get("host_tool").and_then(Json::as_str) {
            None => from_json(&synthesis::dry_run(&spec, Json::Object(given))),
            Some(tool) => {
                let Some(host) = cx.vm().builtin("host_tool_call") else { return Err(thrown(format!("{name}: no host"))) };
                cx.call(&host.value(), [Value::str(tool), args]).await?
            }
        }
    }

    /// Lists the specifications of the synthesized tools, by id.
    ///
    /// ```harn
    /// tool_synthesize({description: "Find a flight"})
    /// println(tool_synthesis_cache().map({ spec -> spec.name })) // -> [find_a_flight]
    /// ```
    State fn tool_synthesis_cache(cx) -> "list<dict>" {
        let known = cx.state::<Synthesized>();
        let specs: Vec<Json> = known.0.borrow().values().cloned().map(Json::Object).collect();
        from_json(&Json::Array(specs))
    }

    /// Removes the synthesized tools; later calls of them fail.
    ///
    /// ```harn
    /// tool_synthesize({description: "Find a flight"})
    /// tool_synthesis_clear()
    /// println(tool_synthesis_cache()) // -> []
    /// ```
    State fn tool_synthesis_clear(cx) -> "nil" {
        cx.state::<Synthesized>().0.borrow_mut().clear();
    }

    /// Validates tools before a model sees them: `{valid, diagnostics: [{code, severity, message, tool?, field?}]}`.
    ///
    /// Only errors make a surface invalid.
    ///
    /// `surface` is a registry, a list of tools, or a dict of `tools`, `native_tools`, `policy`, `approval_policy`,
    /// `system`, `prompt`, `prompts` and `tool_search`; the default is the active registry.
    ///
    /// ```harn
    /// let tools = tool_define(tool_registry(), "look", "Look", {parameters: {path: "string"}, handler: { args -> "seen" }})
    /// println(tool_surface_validate(tools).diagnostics[0].message) // -> active tool 'look' has no ToolAnnotations
    /// ```
    State fn tool_surface_validate(cx, surface: Value as "dict | list?", options: Value as "dict?") -> "dict" {
        let mut parts = match to_json(&surface) {
            Json::Null => {
                let tools = cx.state::<Sessions>().tools(cx).map(|tools| to_json(&tools)).unwrap_or_default();
                Map::from_iter([("tools".to_owned(), tools)])
            }
            Json::Array(tools) => Map::from_iter([("tools".to_owned(), tools.into())]),
            Json::Object(map) if registry::is_registry(&surface) => {
                Map::from_iter([("tools".to_owned(), Json::Object(map))])
            }
            Json::Object(map) => map,
            _ => return Err(Error::type_error(format!(
                "tool_surface_validate: surface must be a tool registry, a list of tools or a dict, got {}",
                surface.type_name()
            ))),
        };
        // The options may add properties to the surface.
        if let Json::Object(more) = to_json(&options) {
            parts.extend(more);
        }
        let parts = Json::Object(parts);
        if let Some(problem) = harn_agent::surface::unknown(&parts) {
            return Err(thrown(problem));
        }
        let found = parts.as_object().map(harn_agent::surface::validate).unwrap_or_default();
        let valid = found.iter().all(|finding| finding.severity != Severity::Error);
        from_json(&harn_value::json!({"valid": valid, "diagnostics": Json::lossy(&found)}))
    }

    /// Returns the number of tools.
    ///
    /// ```harn
    /// println(tool_count(tool_registry())) // -> 0
    /// ```
    Pure fn tool_count(cx, tools: Value as "any?") -> "int" {
        registry::entries("tool_count", &tools).or_throw()?.len()
    }

    /// Returns the entries without their handlers.
    ///
    /// ```harn
    /// let tools = tool_define(tool_registry(), "t", "d", {handler: { args -> 1 }})
    /// println(tool_list(tools)) // -> [{description: d, executor: harn, name: t, parameters: {}}]
    /// ```
    Pure fn tool_list(cx, tools: Value as "any?") -> "list<dict>" {
        registry::entries("tool_list", &tools).or_throw()?.iter().map(registry::public_entry).collect::<Vec<Value>>()
    }

    /// Returns an entry with its handler, or nil if no tool has that name.
    ///
    /// ```harn
    /// let tools = tool_define(tool_registry(), "t", "d", {handler: { args -> args.n + 1 }})
    /// println(tool_find(tools, "t").handler({n: 1})) // -> 2
    /// ```
    Pure fn tool_find(cx, tools: Value, name: Text) -> "dict | nil" {
        registry::find("tool_find", &tools, &name).or_throw()?
    }

    /// Returns a registry with only the named tools.
    ///
    /// ```harn
    /// let tools = tool_define(tool_registry(), "t", "d", {handler: nil})
    /// println(tool_count(tool_select(tools, ["t", "unknown"]))) // -> 1
    /// ```
    Pure fn tool_select(cx, args: Rest) -> "dict" {
        let [tools, names, ..] = &args.0[..] else {
            return Err(thrown("tool_select: requires registry and names list"));
        };
        registry::select(tools, names).or_throw()?
    }

    /// Returns a registry without a tool.
    ///
    /// ```harn
    /// let tools = tool_define(tool_registry(), "t", "d", {handler: nil})
    /// println(tool_count(tool_remove(tools, "t"))) // -> 0
    /// ```
    Pure fn tool_remove(cx, args: Rest) -> "dict" {
        let [tools, name, ..] = &args.0[..] else {
            return Err(thrown("tool_remove: requires registry and name"));
        };
        registry::remove(tools, &name.to_string()).or_throw()?
    }

    /// Returns a plain-text listing of the tools, sorted by name.
    ///
    /// ```harn
    /// println(tool_describe(tool_registry()).lines()) // -> [Available tools:, (none)]
    /// ```
    Pure fn tool_describe(cx, tools: Value as "any?") -> "string" {
        registry::describe(&tools).or_throw()
    }

    /// Returns a Markdown description of the tools, for models that receive no other description of
    /// them.
    ///
    /// ```harn
    /// println(tool_prompt(tool_registry())) // -> No tools are available.
    /// ```
    Pure fn tool_prompt(cx, tools: Value as "any?") -> "string" {
        if tools.to_dict().is_none() {
            return Err(thrown("tool_prompt: requires a tool registry"));
        }
        let listed = registry::listing("tool_prompt", &tools).or_throw()?;
        let rows: Vec<Json> = listed
            .into_iter()
            .map(|tool| {
                harn_value::json!({"name": tool.name, "description": tool.description,
                                   "parameters": tool.parameters, "returns": tool.returns})
            })
            .collect();
        let mut bindings = Map::new();
        bindings.insert("tools".into(), rows.into());
        let text = prompts_of(cx).render("std/agent/prompts/tool_prompt.harn.prompt", &bindings).or_throw()?;
        text.trim_end().to_owned()
    }

    /// Returns the tools as JSON Schema; `components` resolves `$ref`s.
    ///
    /// ```harn
    /// let tools = tool_define(tool_registry(), "t", "d", {parameters: {n: "int"}, handler: nil})
    /// println(tool_schema(tools).tools[0].inputSchema.properties) // -> {n: {type: integer}}
    /// ```
    Pure fn tool_schema(cx, tools: Value as "any?", components: Value as "any?") -> "dict" {
        let components = (!components.is_nil()).then_some(&components);
        registry::schema(&tools, components).or_throw()?
    }

    /// Parses the JSON calls between `<tool_call>` tags of a string.
    ///
    /// ```harn
    /// println(tool_parse_call("<tool_call>{\"name\": \"t\"}</tool_call>")) // -> [{name: t}]
    /// ```
    Pure fn tool_parse_call(cx, text: Text) -> "list" {
        registry::parse_calls(&text)
    }

    /// Wraps a tool result in its tag.
    ///
    /// ```harn
    /// println(tool_format_result("t", "ok")) // -> <tool_result>{"name": "t", "result": "ok"}</tool_result>
    /// ```
    Pure fn tool_format_result(cx, args: Rest) -> "string" {
        let [name, result, ..] = &args.0[..] else {
            return Err(thrown("tool_format_result: requires name and result"));
        };
        // Escapes the result, so that it cannot close the surrounding tag.
        registry::format_result(&quote_name(&name.to_string()), &quote(&result.to_string()))
    }

    /// Makes a registry the current one for `tool_ref` and `tool_def` and returns it; nil unbinds.
    ///
    /// With a second argument, returns a copy of a tool spec (`define_tool`) with that handler.
    ///
    /// ```harn
    /// tool_bind(tool_define(tool_registry(), "read", "d", {handler: nil}))
    /// println(tool_ref("read")) // -> read
    /// println(tool_bind(define_tool("t", {input_schema: {}}), { args, ctx -> 7 }).handler({}, nil)) // -> 7
    /// ```
    State fn tool_bind(cx, tools: Value as "any?", handler: Value as "any?") -> "any" {
        if !handler.is_nil() {
            if !is_callable(&handler) {
                return Err(thrown("tool_bind: handler must be a closure"));
            }
            return super::harness::bind_handler(&tools, &handler);
        }
        if !tools.is_nil() && !registry::is_registry(&tools) {
            return Err(thrown("tool_bind: argument must be a tool registry (created with tool_registry())"));
        }
        cx.state::<Sessions>().bind(cx, (!tools.is_nil()).then(|| tools.clone()));
        tools
    }

    /// Returns a tool's name after checking that the current registry has it.
    ///
    /// ```harn
    /// tool_bind(tool_registry())
    /// println(try { tool_ref("read") }) // -> Result.Err(tool_ref: unknown tool "read". Registered tools: (none registered))
    /// ```
    State fn tool_ref(cx, name: Value as "!string") -> "string" {
        bound(cx, "tool_ref", &name)?;
        name.to_string()
    }

    /// Returns the entry of a tool of the current registry, without its handler.
    ///
    /// ```harn
    /// tool_bind(tool_define(tool_registry(), "read", "Read a file", {handler: nil}))
    /// println(tool_def("read").description) // -> Read a file
    /// ```
    State fn tool_def(cx, name: Value as "!string") -> "dict" {
        registry::public_entry(&bound(cx, "tool_def", &name)?)
    }

    /// Shortens a string to its head, its tail and the diagnostic lines between them.
    ///
    /// ```harn
    /// println(microcompact("short", 200)) // -> short
    /// ```
    Pure fn microcompact(cx, text: Text, max_chars: i64 = 20000) -> "string" {
        harn_agent::microcompact::microcompact(&text, usize::try_from(max_chars).unwrap_or(0))
    }
}

/// Returns the entry with the given name in the current registry.
fn bound(cx: &Cx, function: &str, name: &Value) -> Result<Value> {
    let Some(name) = name.as_str() else {
        return Err(thrown(format!("{function}: name must be a string literal")));
    };
    let current = cx.state::<Sessions>().tools(cx);
    let Some(tools) = current.as_ref() else {
        return Err(thrown(format!(
            // prose-ok: diagnostic
            "{function}: no tool registry bound to this scope. Call tool_bind(registry) first, or invoke inside an agent_loop."
        )));
    };
    match registry::find(function, tools, name).or_throw()? {
        Some(entry) => Ok(entry),
        None => {
            let entries = registry::entries(function, tools).or_throw()?;
            let mut names: Vec<String> = entries.iter().filter_map(registry::name_of).collect();
            names.sort();
            let names = if names.is_empty() { "(none registered)".to_owned() } else { names.join(", ") };
            Err(Error::thrown(format!("{function}: unknown tool \"{name}\". Registered tools: {names}")))
        }
    }
}

/// Converts a tool result to the form that the model receives: strings are unchanged, other values are printed. Omits
/// the conversation from the envelope of a sub-agent, so that it does not become part of the caller's conversation.
pub(crate) fn result_text(value: &Value) -> String {
    if let Some(text) = value.as_str() {
        return text.to_string();
    }
    if let Some(dict) = value.to_dict()
        && ["ok", "summary", "tokens_used", "budget_exceeded", "session_id", "transcript"]
            .iter()
            .all(|key| dict.contains(key))
    {
        let mut shown = (*dict).clone();
        shown.remove("transcript");
        return to_plain_json(&shown.into()).to_string();
    }
    match to_plain_json(value) {
        Json::Null => value.to_string(),
        Json::String(text) => text,
        json => json.to_string(),
    }
}

/// Returns the result of a handler in the form that the model receives: a string is unchanged, any other value becomes
/// JSON; blocks of images and documents are returned separately.
pub(crate) fn model_result(value: &Value) -> (String, Vec<Json>) {
    if value.as_str().is_none() {
        let json = to_json(value);
        let blocks = match &json {
            Json::Array(blocks) => blocks.as_slice(),
            one => std::slice::from_ref(one),
        };
        let is_block = |block: &Json| block.is_string() || block["type"].is_string();
        if blocks.iter().any(is_media) && blocks.iter().all(is_block) {
            let (media, rest): (Vec<Json>, Vec<Json>) = blocks.iter().cloned().partition(is_media);
            return (harn_llm::message::result_text(&Json::Array(rest)), media);
        }
    }
    (result_text(value), Vec::new())
}
