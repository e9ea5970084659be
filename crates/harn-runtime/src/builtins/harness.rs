//! Layered prompts and the specs of role agents, as instances of built-in structs.
//!
//! The pure crate checks and lowers the specs. It cannot hold handlers and approval predicates, so this module adds
//! them to the tool specs again.

use harn_agent::harness::{
    self as pure, AgentSpec, HarnessError, PlanSpec, ReferenceSpec, Role, RuntimeSpec, ToolSpec,
    ToolkitDescriptions, ToolkitSpec, named_config,
};
use harn_value::{Data as Json, json};
use harn_value::{Dict, Ref, StructType, StructValue, Value};
use harn_vm::builtin::{Rest, Text};
use harn_vm::closure::is_callable;
use harn_vm::{Cx, Error, Result, builtins};

use super::roles::text_of;
use crate::convert::{OrThrow, entry, from_json, text, to_json};
use crate::llm_embedder::prompts_of;

builtins! {
    /// Layered prompts and role agents.
    pub(crate) static HARNESS: "harness";

    /// Renders a prompt from named layers in a fixed order, with a hash of its content.
    ///
    /// ```harn
    /// let p = layered_prompt({identity: "You coordinate refunds.", safety: "Stay below the limit."})
    /// println(p.text.lines()[0]) // -> # Identity
    /// println(p.cache_key.count()) // -> 64
    /// ```
    Pure fn layered_prompt(cx, layers: Value as "!dict") -> "LayeredPrompt" {
        record("LayeredPrompt", &harn_prompt::layered_prompt(&shown(&layers)).or_throw()?.to_json())
    }

    /// Adds rows to the tools table of a prompt: a string, or the result of `layered_prompt`.
    ///
    /// ```harn
    /// let p = augment_prompt_tools("You help.", [{name: "find", description: "Find."}])
    /// println(p.text.contains("| find | Find. |  |")) // -> true
    /// ```
    Pure fn augment_prompt_tools(cx, prompt: Value as "any?", tools: Value as "any?") -> "LayeredPrompt" {
        let own = |text: String| text.replacen("layered_prompt:", "augment_prompt_tools:", 1);
        let rows = harn_prompt::layered::tool_rows(&shown(&tools)).map_err(|error| own(error.to_string())).or_throw()?;
        let text = match prompt.as_struct() {
            Some(instance) if &*instance.ty.name == "LayeredPrompt" => entry(&prompt, "text"),
            _ => prompt.clone(),
        };
        if text.is_nil() || !super::llm::is_text(&text) {
            let got = prompt.type_name();
            return Err(Error::type_error(format!(
                "augment_prompt_tools: prompt must be a string or a LayeredPrompt, got {got}"
            )));
        }
        let text = text.to_string();
        record("LayeredPrompt", &harn_prompt::augment_prompt_tools(&text, rows).to_json())
    }

    /// Describes a tool for agents and prompts: name, input schema, approval, and an optional handler.
    ///
    /// A closure as last argument is the handler; it is called with the arguments and a context. The result is valid
    /// in any list of tools.
    ///
    /// ```harn
    /// let t = define_tool("find", {input_schema: {query: "string"}, approval: "always"}, { args, ctx -> args.query })
    /// println("${t.approval.kind} ${t.input_schema.required} ${t.handler({query: "x"}, nil)}") // -> always [query] x
    /// ```
    Pure fn define_tool(cx, args: Rest) -> "ToolSpec" {
        let (config, handler) = match args.0.split_last() {
            Some((last, rest)) if !rest.is_empty() && is_callable(last) => (rest, last.clone()),
            _ => (&args.0[..], Value::NIL),
        };
        let given = config.last().cloned().unwrap_or_default();
        let handler = if handler.is_nil() { entry(&given, "handler") } else { handler };
        let spec = pure::define_tool(&named("define_tool", config)?).or_throw()?;
        tool_record(&spec, &Closures { handler, predicate: entry(&given, "approval") })
    }

    /// Describes the agent that talks to the user and delegates work to other agents.
    ///
    /// ```harn
    /// println(define_coordinator("boss", {model: "m", prompt: "Lead.", routes: ["scout"]}).stateful) // -> true
    /// ```
    Pure fn define_coordinator(cx, args: Rest) -> "AgentSpec" {
        agent(Role::Coordinator, &args.0)?
    }

    /// Describes an agent that writes plans.
    ///
    /// ```harn
    /// let plan = define_plan("Move", {schema: {actions: "list"}})
    /// println(define_planner("p", {model: "m", prompt: "Plan.", plan: plan}).plan.name) // -> Move
    /// ```
    Pure fn define_planner(cx, args: Rest) -> "AgentSpec" {
        agent(Role::Planner, &args.0)?
    }

    /// Describes an agent that executes approved plans.
    ///
    /// ```harn
    /// let plan = define_plan("Move", {schema: {actions: "list"}})
    /// println(define_executor("e", {model: "m", prompt: "Do.", plan: plan}).stateful) // -> false
    /// ```
    Pure fn define_executor(cx, args: Rest) -> "AgentSpec" {
        agent(Role::Executor, &args.0)?
    }

    /// Describes a focused agent that other agents call.
    ///
    /// ```harn
    /// println(define_specialist("s", {model: {id: "m", provider: "mock"}, prompt: "Look."}).model.provider) // -> mock
    /// ```
    Pure fn define_specialist(cx, args: Rest) -> "AgentSpec" {
        agent(Role::Specialist, &args.0)?
    }

    /// Returns the owner of a runtime and the version of its configuration.
    ///
    /// ```harn
    /// println(define_tenant("acme", "v1")) // -> Tenant {resource_id: acme, version: v1}
    /// ```
    Pure fn define_tenant(cx, resource_id: Value as "!string | dict", version: Value as "any?") -> "Tenant" {
        let config = match resource_id.to_dict() {
            Some(_) if version.is_nil() => to_json(&resource_id),
            _ => json!({"resource_id": to_json(&resource_id), "version": to_json(&version)}),
        };
        record("Tenant", &pure::define_tenant(&config).or_throw()?.to_json())
    }

    /// Describes a kind of plan: the schema of its body and the display of its states.
    ///
    /// ```harn
    /// println(define_plan("Move", {schema: {actions: "list"}, display_aliases: {draft: "Proposal"}}).display_aliases) // -> [{alias: Proposal, status: draft}]
    /// ```
    Pure fn define_plan(cx, args: Rest) -> "PlanSpec" {
        plan_record(&pure::define_plan(&named("define_plan", &args.0)?).or_throw()?)
    }

    /// Describes a kind of stored value that tools pass by reference.
    ///
    /// ```harn
    /// println(define_reference("Set", {schema: {ids: ["string"]}, ttl_ms: 100}).ttl_ms) // -> 100
    /// ```
    Pure fn define_reference(cx, args: Rest) -> "ReferenceSpec" {
        let given = args.0.last().cloned().unwrap_or_default();
        let mut config = named("define_reference", &args.0)?;
        if let Some(time) = entry(&given, "ttl_ms").as_duration() {
            config["ttl_ms"] = time.into();
        }
        let spec = pure::define_reference(&config).or_throw()?;
        with_closures(reference_record(&spec), &[("glimpse", entry(&given, "glimpse"))])
    }

    /// Describes a custom toolkit, usable like the built-in ones.
    ///
    /// ```harn
    /// let find = define_tool("find", {input_schema: {query: "string"}})
    /// println(define_toolkit("shop", {tools: [find]}).tools.map({ t -> t.name })) // -> [find]
    /// ```
    Pure fn define_toolkit(cx, args: Rest) -> "ToolkitSpec" {
        let given = args.0.last().cloned().unwrap_or_default();
        let spec = pure::define_toolkit(&named("define_toolkit", &args.0)?).or_throw()?;
        toolkit_record(&spec, &entry(&given, "tools"))
    }

    /// Builds a schema that accepts one of several object schemas, distinguished by a constant
    /// field.
    ///
    /// ```harn
    /// let one = { kind -> {type: "object", properties: {kind: {const: kind}}} }
    /// println(tagged_union([one("a"), one("b")]).oneOf.count()) // -> 2
    /// ```
    Pure fn tagged_union(cx, schemas: Value as "!list", discriminator: Text = "kind") -> "dict" {
        let schemas = to_json(&schemas);
        from_json(&pure::tagged_union(schemas.as_array().map_or(&[], Vec::as_slice), &discriminator).or_throw()?)
    }

    /// Collects agents, plans, references, toolkits and policies into one spec, and checks their
    /// consistency.
    ///
    /// ```harn
    /// let scout = define_specialist("scout", {model: "m", prompt: "Look."})
    /// let spec = define_runtime({tenant: define_tenant("acme", "v1"), agents: [scout]})
    /// println("${spec.tenant.resource_id} ${spec.agents[0].name}") // -> acme scout
    /// ```
    Pure fn define_runtime(cx, config: Value as "!dict?") -> "RuntimeSpec" {
        let spec = pure::define_runtime(&plain(&config), &descriptions(cx)?).or_throw()?;
        runtime_record(&spec, &config)
    }

    /// Splits messages into prompt, system text and history.
    Pure fn parse_conversation = "__parse_conversation"(cx, messages: Value as "any?") -> "Conversation" {
        let messages = to_json(&messages);
        let messages = messages.as_array().map_or(&[][..], Vec::as_slice);
        record("Conversation", &pure::parse_conversation(messages).or_throw()?.to_json())
    }

    /// Builds the program that an interpreter receives.
    Pure fn chat_program = "__chat_program"(cx, conversation: Value as "any?", model: Value as "any?", tenant: Value as "any?") -> "ChatProgram" {
        let model = text_of("chat_program", "model", &model)?;
        let parsed = pure::parse_conversation(
            to_json(&entry(&conversation, "messages")).as_array().map_or(&[], Vec::as_slice),
        );
        let tenant = pure::define_tenant(&to_json(&tenant)).or_throw()?;
        program_record(&pure::chat_program(parsed.or_throw()?, model, tenant).to_json())
    }

    /// Returns the program with another system prompt.
    Pure fn chat_program_with_system = "__chat_program_with_system"(cx, program: Value as "any?", text: Value as "any?") -> "ChatProgram" {
        let mut program = to_json(&program);
        program["system_prompt"] = text_of("chat_program_with_system", "text", &text)?.into();
        program_record(&program)
    }

    /// Serializes a runtime spec.
    Pure fn runtime_spec_json = "__runtime_spec_json"(cx, spec: Value as "any?") -> "string" {
        let finished = spec.as_struct().is_some_and(|instance| instance.ty.name.as_str() == "RuntimeSpec");
        let spec = if finished {
            pure::runtime_spec_of_record(&plain(&spec)).or_throw()?
        } else {
            pure::define_runtime(&plain(&spec), &descriptions(cx)?).or_throw()?
        };
        pure::runtime_spec_json(&spec)
    }

    /// Parses a serialized runtime spec.
    Pure fn runtime_spec_parse = "__runtime_spec_parse"(cx, wire: Value as "any?") -> "RuntimeSpec" {
        runtime_record(&pure::runtime_spec_parse(&to_json(&wire)).or_throw()?, &Value::NIL)
    }
}

/// Returns a copy of a tool spec with a handler: `tool_bind` with two arguments.
pub(crate) fn bind_handler(spec: &Value, handler: &Value) -> Result<Value> {
    let checked = pure::define_tool(&plain(spec)).or_throw()?;
    tool_record(&checked, &Closures { handler: handler.clone(), predicate: entry(spec, PREDICATE) })
}

/// The field that contains the predicate of a dynamic approval.
pub(crate) const PREDICATE: &str = "approval_predicate";

/// The closures of a tool spec.
#[derive(Clone, Default)]
struct Closures {
    handler: Value,
    predicate: Value,
}

impl Closures {
    /// Returns the closures of a finished spec, or of the dict of a constructor.
    fn of(tool: &Value) -> Closures {
        let predicate = entry(tool, PREDICATE);
        let predicate = if predicate.is_nil() { entry(tool, "approval") } else { predicate };
        Closures { handler: entry(tool, "handler"), predicate }
    }
}

/// Creates an instance of a built-in struct with the fields of a JSON object.
fn record(name: &str, fields: &Json) -> Result<Value> {
    let fields = fields.as_object().cloned().unwrap_or_default();
    record_of(name, fields.iter().map(|(key, value)| (key.as_str(), from_json(value))).collect())
}

fn record_of(name: &str, fields: Vec<(&str, Value)>) -> Result<Value> {
    let names = fields.iter().map(|(key, _)| (*key).into()).collect();
    let ty = Ref::new(StructType::frozen(name.into(), names));
    let slots = fields.into_iter().map(|(_, value)| value).collect();
    Ok(StructValue { ty, slots, extra: None }.into())
}

/// Returns the record with additional fields for callable closures.
fn with_closures(value: Result<Value>, closures: &[(&str, Value)]) -> Result<Value> {
    let value = value?;
    let Some(instance) = value.as_struct() else { return Ok(value) };
    let name = instance.ty.name.clone();
    let mut all: Vec<(&str, Value)> =
        instance.ty.fields.iter().map(|key| key.as_str()).zip(instance.slots.iter().cloned()).collect();
    all.extend(closures.iter().filter(|(_, v)| is_callable(v)).map(|(key, v)| (*key, v.clone())));
    record_of(&name, all)
}

/// Creates a `ToolSpec` record. A default approval is displayed but does not override anything; it is marked by its
/// position as the first field, which programs cannot observe.
fn tool_record(spec: &ToolSpec, closures: &Closures) -> Result<Value> {
    let closures = [("handler", closures.handler.clone()), (PREDICATE, closures.predicate.clone())];
    let mut fields = spec.to_json();
    if let (false, Json::Object(map)) = (spec.approval_given, &mut fields)
        && let Some(approval) = map.shift_remove("approval")
    {
        map.shift_insert(0, "approval".to_owned(), approval);
    }
    with_closures(record("ToolSpec", &fields), &closures)
}

/// Returns whether a value is a tool spec with a default approval.
fn has_no_approval(value: &Value) -> bool {
    value.as_struct().is_some_and(|tool| {
        tool.ty.name.as_str() == "ToolSpec"
            && tool.ty.fields.first().is_some_and(|f| f.as_str() == "approval")
    })
}

/// Returns tool specs with the closures of `originals`, which have the same order.
fn tool_records(specs: &[ToolSpec], originals: &Value) -> Result<Value> {
    let originals = originals.as_list().map(|list| list.to_vec()).unwrap_or_default();
    let find = |(at, spec): (usize, &ToolSpec)| {
        let same = |tool: &&Value| text(&entry(tool, "name")).as_deref() == Some(&spec.name);
        let original = originals.get(at).filter(same).or_else(|| originals.iter().find(same));
        tool_record(spec, &original.map(Closures::of).unwrap_or_default())
    };
    Ok(Value::list(specs.iter().enumerate().map(find).collect::<Result<_>>()?))
}

fn plan_record(spec: &PlanSpec) -> Result<Value> {
    record("PlanSpec", &spec.to_json())
}

fn reference_record(spec: &ReferenceSpec) -> Result<Value> {
    record("ReferenceSpec", &spec.to_json())
}

fn toolkit_record(spec: &ToolkitSpec, tools: &Value) -> Result<Value> {
    let config = spec.config.clone().map_or(Json::Null, Json::Object);
    record_of(
        "ToolkitSpec",
        vec![
            ("id", spec.id.as_str().into()),
            ("config", from_json(&config)),
            ("tools", tool_records(&spec.tools, tools)?),
        ],
    )
}

fn agent(role: Role, arguments: &[Value]) -> Result<Value> {
    let given = arguments.last().cloned().unwrap_or_default();
    let spec = pure::define_agent(role, &named(role.constructor(), arguments)?).or_throw()?;
    agent_record(&spec, &entry(&given, "tools"))
}

fn agent_record(spec: &AgentSpec, tools: &Value) -> Result<Value> {
    let fields = spec.to_json();
    let field = |(key, value): (&'_ String, &Json)| -> Result<(String, Value)> {
        let value = match key.as_str() {
            "tools" => tool_records(&spec.tools, tools)?,
            "plan" => spec.plan.as_ref().map_or(Ok(Value::NIL), plan_record)?,
            _ => from_json(value),
        };
        Ok((key.clone(), value))
    };
    let fields: Vec<(String, Value)> =
        fields.as_object().into_iter().flatten().map(field).collect::<Result<_>>()?;
    record_of("AgentSpec", fields.iter().map(|(key, value)| (key.as_str(), value.clone())).collect())
}

fn runtime_record(spec: &RuntimeSpec, config: &Value) -> Result<Value> {
    let agents = entry(config, "agents");
    let agent_at = |at: usize| agents.as_list().and_then(|list| list.get(at)).cloned().unwrap_or_default();
    let all = |values: Vec<Result<Value>>| values.into_iter().collect::<Result<Vec<_>>>().map(Value::list);
    let mut bindings: Vec<Value> =
        entry(config, "tool_bindings").as_list().map(|list| list.to_vec()).unwrap_or_default();
    for agent in agents.as_list().into_iter().flat_map(|list| list.iter()) {
        bindings.extend(entry(agent, "tools").as_list().into_iter().flat_map(|list| list.to_vec()));
    }
    let references = entry(config, "references");
    let toolkits = entry(config, "toolkits");
    let toolkit_tools =
        |at: usize| toolkits.as_list().and_then(|list| list.get(at)).map(|t| entry(t, "tools"));
    let providers: Dict = spec
        .providers
        .iter()
        .map(|(name, settings)| (name.as_str(), from_json(&Json::Object(settings.clone()))))
        .collect();
    record_of(
        "RuntimeSpec",
        vec![
            ("tenant", record("Tenant", &spec.tenant.to_json())?),
            (
                "agents",
                all(spec
                    .agents
                    .iter()
                    .enumerate()
                    .map(|(at, a)| agent_record(a, &entry(&agent_at(at), "tools")))
                    .collect())?,
            ),
            (
                "references",
                all(spec
                    .references
                    .iter()
                    .enumerate()
                    .map(|(at, reference)| {
                        let given = references.as_list().and_then(|list| list.get(at)).cloned();
                        let glimpse = entry(&given.unwrap_or_default(), "glimpse");
                        with_closures(reference_record(reference), &[("glimpse", glimpse)])
                    })
                    .collect())?,
            ),
            ("plans", all(spec.plans.iter().map(plan_record).collect())?),
            (
                "toolkits",
                all(spec
                    .toolkits
                    .iter()
                    .enumerate()
                    .map(|(at, t)| toolkit_record(t, &toolkit_tools(at).unwrap_or_default()))
                    .collect())?,
            ),
            ("approval_policies", from_json(&spec.approval_policies.to_json())),
            ("approval_overrides", from_json(&spec.approval_overrides.to_json())),
            ("storage_factories", from_json(&spec.storage_factories.to_json())),
            ("providers", providers.into()),
            ("tool_bindings", tool_records(&spec.tool_bindings, &Value::list(bindings))?),
        ],
    )
}

/// Returns the program of an interpreter as a value.
pub(crate) fn program_record(program: &Json) -> Result<Value> {
    let part = |key: &str| program.get(key).cloned().unwrap_or_default();
    record_of(
        "ChatProgram",
        vec![
            ("conversation", record("Conversation", &part("conversation"))?),
            ("system_prompt", from_json(&part("system_prompt"))),
            ("model", from_json(&part("model"))),
            ("tenant", record("Tenant", &part("tenant"))?),
        ],
    )
}

/// Reads the dict of a constructor that was called as `f(name, {…})` or `f({name: …, …})`.
fn named(function: &str, arguments: &[Value]) -> Result<Json> {
    let arguments: Vec<Json> = arguments.iter().map(plain).collect();
    named_config(function, &arguments).or_throw()
}

/// Renders the descriptions of the runtime's tools.
pub(crate) fn descriptions(cx: &Cx) -> Result<ToolkitDescriptions> {
    let rendered: std::result::Result<_, HarnessError> = ToolkitDescriptions::render(&prompts_of(cx));
    rendered.or_throw()
}

/// Converts a value to JSON with tool specs in the form that the constructors accept: without predicates and default
/// approvals.
pub(crate) fn plain(value: &Value) -> Json {
    let mut json = to_json(value);
    tidy(&mut json, value, false);
    json
}

/// Like [`plain`], but with all approvals, because prompts show them.
fn shown(value: &Value) -> Json {
    let mut json = to_json(value);
    tidy(&mut json, value, true);
    json
}

fn tidy(json: &mut Json, value: &Value, shown: bool) {
    match json {
        Json::Array(items) => {
            let values = value.as_list();
            for (at, item) in items.iter_mut().enumerate() {
                tidy(item, values.and_then(|list| list.get(at)).unwrap_or(&Value::NIL), shown);
            }
        }
        Json::Object(map) => {
            map.shift_remove(PREDICATE);
            if !shown && has_no_approval(value) {
                map.shift_remove("approval");
            }
            for (key, item) in map.iter_mut() {
                tidy(item, value.field(key).unwrap_or(&Value::NIL), shown);
            }
        }
        _ => {}
    }
}
