//! Implements `create_runtime`: reads the spec and the dependencies, and checks that they are complete before anything
//! runs.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use harn_agent::harness::{
    ModelSpec, RuntimeSpec, ToolSpec, define_tool, runtime_spec_of_record, runtime_spec_parse,
};
use harn_agent::roles::{Facts, assemble};
use harn_llm::config::{Layer, PROVIDER_KEYS};
use harn_syntax::suggest::nearest;
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Value};
use harn_vm::closure::is_callable;
use harn_vm::{Cx, Result};

use crate::builtins::{PREDICATE, descriptions, plain};
use crate::convert::{OrThrow, entry, partial, text, thrown, to_json};
use crate::llm_embedder::{runtime as llm_of, runtime_with};
use crate::llm_tables;
use crate::roles::closures::callable_names;
use crate::roles::runtime::{Held, Interpreter, RoleRuntime};
use crate::roles::shelf::Shelf;
use crate::roles::tools::{RESERVED, own_handler};

fn wrong(what: &str, expected: &str, got: &Value) -> harn_vm::Error {
    thrown(format!("create_runtime: {what} must be {expected}, got {}", got.type_name()))
}

/// Creates a runtime and returns its handle.
///
/// # Errors
/// The spec or a dependency is invalid.
pub(crate) fn create(cx: &Cx, given: &Value, deps: &Value) -> Result<Value> {
    check_deps(deps)?;
    let mut spec = read_spec(given)?;
    let words = descriptions(cx)?;
    spec.merge_prompt_rows(&words, false);
    let bindings = entry(deps, "tool_bindings");
    let extra = tools_of("deps.tool_bindings", &bindings)?;
    let mut closures = collect(given, &bindings);
    let (interpreter, own) = interpreter(deps)?;
    for (group, key) in [("services", "services"), ("catalog", "data_environment"), ("stores", "stores")] {
        closures.insert(group, entry(deps, key));
    }
    closures.insert("hooks", entry(deps, "event_hooks"));
    closures.insert("dispatcher", entry(deps, "action_dispatcher"));
    closures.insert("interpreter", own.clone());
    let mut predicates = entry(&closures.clone().into(), "predicates").to_dict().map(|d| (*d).clone());
    let more = entry(deps, "approval_predicates").to_dict();
    for (id, predicate) in more.iter().flat_map(|dict| dict.iter()) {
        predicates.get_or_insert_default().insert(id.clone(), predicate.clone());
    }
    closures.insert("predicates", predicates.unwrap_or_default());
    let closures = Value::from(closures);
    let names = |group: &str| callable_names(&entry(&closures, group)).into_iter().collect::<BTreeSet<_>>();
    let (handlers, predicates, catalog) = (names("handlers"), names("predicates"), names("catalog"));
    let llm = llm_of(cx);
    // The provider of a model is only determined if it is needed; a call with an unknown model reports it.
    let by_provider = own.to_dict().is_some() || !spec.providers.is_empty();
    let provider_of = |model: &ModelSpec| {
        let inferred = || {
            if !by_provider {
                return String::new();
            }
            let route = llm.render_context(&json!({"model": model.id})).unwrap_or_default();
            route["provider"].as_str().unwrap_or_default().to_owned()
        };
        model.provider.clone().unwrap_or_else(inferred)
    };
    let facts = Facts {
        handlers: &handlers,
        predicates: &predicates,
        catalog: &catalog,
        tools: &extra,
        provider_of: &provider_of,
    };
    let agents = assemble(&spec, &facts, &words).or_throw()?;
    if own.to_dict().is_some()
        && let Some(agent) = agents.iter().find(|agent| !is_callable(&entry(&own, &agent.provider)))
    {
        let (name, provider) = (&agent.spec.name, &agent.provider);
        return Err(thrown(format!(
            "create_runtime: interpreter has no closure for provider '{provider}' of agent '{name}'"
        )));
    }
    let hosts: Vec<String> =
        entry(deps, "stores").to_dict().iter().flat_map(|d| d.keys()).map(ToString::to_string).collect();
    let stores = &spec.storage_factories;
    let (kv, plans, memory) = (
        Shelf::open(cx, "kv", stores.kv.as_ref(), &hosts)?,
        Shelf::open(cx, "plans", stores.plans.as_ref(), &hosts)?,
        Shelf::open(cx, "memory", stores.memory.as_ref(), &hosts)?,
    );
    let (llm, set_up) = overlay(cx, &spec)?;
    let runtime = Rc::new(RoleRuntime {
        spec,
        agents,
        interpreter,
        kv,
        plans,
        memory,
        approvals: RefCell::default(),
        answered: Default::default(),
        traces: RefCell::default(),
        llm,
        set_up,
    });
    handle(cx, runtime, closures)
}

/// Creates the handle: a dict of functions.
fn handle(cx: &Cx, runtime: Rc<RoleRuntime>, closures: Value) -> Result<Value> {
    let mut handle = Dict::new();
    handle.insert("resource_id", runtime.tenant());
    let held = Value::foreign(Held(runtime));
    for name in [
        "query",
        "run_specialist",
        "respond_to_approval",
        "create_reference",
        "resolve_reference",
        "reference_glimpse",
        "program_for",
        "registrations",
        "list_traces",
        "get_trace",
    ] {
        let builtin = format!("__role_{name}");
        handle.insert(name, partial(cx, &builtin, vec![held.clone(), closures.clone()])?);
    }
    Ok(handle.into())
}

fn check_deps(deps: &Value) -> Result<()> {
    if deps.is_nil() {
        return Ok(());
    }
    let dict = deps.to_dict().ok_or_else(|| wrong("deps", "a dict", deps))?;
    if let Some(problem) = crate::option_check::unknown_dep(dict.keys().map(|key| key.as_str())) {
        return Err(thrown(problem));
    }
    let all_callable = |value: &Value| {
        value.to_dict().is_some_and(|dict| dict.iter().all(|(_, closure)| is_callable(closure)))
    };
    for key in ["approval_predicates", "data_environment"] {
        let value = entry(deps, key);
        if !value.is_nil() && !all_callable(&value) {
            return Err(wrong(key, "a dict of closures", &value));
        }
    }
    let catalog =
        harn_agent::harness::toolkit::built_in_tools("catalog", harn_agent::harness::Role::Specialist);
    let catalog = catalog.unwrap_or_default();
    let environment = entry(deps, "data_environment").to_dict();
    if let Some((name, _)) =
        environment.iter().flat_map(|d| d.iter()).find(|(name, _)| !catalog.contains(&name.as_str()))
    {
        return Err(thrown(format!(
            "create_runtime: data_environment: the catalog has no tool '{name}'; it has {}",
            catalog.join(", ")
        )));
    }
    let hooks = entry(deps, "event_hooks");
    let are_hooks = hooks.as_list().is_some_and(|hooks| hooks.iter().all(is_callable));
    if !hooks.is_nil() && !are_hooks {
        return Err(wrong("event_hooks", "a list of closures", &hooks));
    }
    let dispatcher = entry(deps, "action_dispatcher");
    if !dispatcher.is_nil() && !is_callable(&dispatcher) {
        return Err(wrong("action_dispatcher", "a closure", &dispatcher));
    }
    let services = entry(deps, "services");
    if !services.is_nil() {
        let dict = services.to_dict().ok_or_else(|| wrong("services", "a dict", &services))?;
        if let Some(name) = dict.keys().find(|key| RESERVED.contains(&key.as_str())) {
            return Err(thrown(format!("services key '{name}' is reserved by the runtime tool context"))); // prose-ok: contract text
        }
    }
    let stores = entry(deps, "stores");
    if !stores.is_nil() {
        let dict = stores.to_dict().ok_or_else(|| wrong("stores", "a dict", &stores))?;
        for (kind, store) in dict.iter() {
            if ["memory", "sqlite"].contains(&kind.as_str()) {
                return Err(thrown(format!("create_runtime: stores: '{kind}' is built in")));
            }
            if !["get", "put"].iter().all(|part| is_callable(&entry(store, part))) {
                return Err(wrong(
                    &format!("stores.{kind}"),
                    "a dict with the closures `get` and `put`",
                    store,
                ));
            }
        }
    }
    Ok(())
}

/// Returns the interpreter of turns, and its closures.
fn interpreter(deps: &Value) -> Result<(Interpreter, Value)> {
    let given = entry(deps, "interpreter");
    let testing = entry(deps, "testing");
    let word = given.as_str().map(|word| word.to_string());
    if !testing.is_nil() {
        if !given.is_nil() && word.as_deref() != Some("live") {
            return Err(thrown(
                "create_runtime accepts either testing or a non-default interpreter, not both", // prose-ok: contract text
            ));
        }
        let dict = testing.to_dict().ok_or_else(|| wrong("testing", "a dict", &testing))?;
        let strange: Vec<&str> =
            dict.keys().map(|key| key.as_str()).filter(|key| *key != "mock_response").collect();
        if !strange.is_empty() {
            return Err(thrown(format!("unsupported testing config keys: [{}]", strange.join(", "))));
        }
        let response = entry(&testing, "mock_response");
        let response = response.as_str().ok_or_else(|| thrown("testing config requires 'mock_response'"))?;
        return Ok((Interpreter::Fixed(response.to_string()), Value::NIL));
    }
    let by_provider = given
        .to_dict()
        .is_some_and(|dict| !dict.is_empty() && dict.iter().all(|(_, closure)| is_callable(closure)));
    match word.as_deref() {
        None if given.is_nil() => Ok((Interpreter::Live, Value::NIL)),
        None if is_callable(&given) || by_provider => Ok((Interpreter::Own, given)),
        Some("live") => Ok((Interpreter::Live, Value::NIL)),
        Some("scripted") => Ok((Interpreter::Scripted, Value::NIL)),
        Some("noop") => Ok((Interpreter::Noop, Value::NIL)),
        Some(other) => Err(thrown(format!(
            "create_runtime: interpreter must be \"live\", \"scripted\", \"noop\", a closure or a dict of closures, got \"{other}\"" // prose-ok: diagnostic
        ))),
        None => Err(wrong(
            "interpreter",
            "\"live\", \"scripted\", \"noop\", a closure or a dict of closures",
            &given,
        )),
    }
}

/// Reads a runtime spec with its tools, or its wire form.
fn read_spec(given: &Value) -> Result<RuntimeSpec> {
    let finished = given.as_struct().is_some_and(|instance| instance.ty.name.as_str() == "RuntimeSpec");
    if !finished {
        if given.as_str().is_none() && given.to_dict().is_none() {
            return Err(wrong("spec", "a RuntimeSpec, or its wire form as a dict or JSON text", given));
        }
        return runtime_spec_parse(&plain(given)).or_throw();
    }
    let mut spec = runtime_spec_of_record(&plain(given)).or_throw()?;
    let agents = entry(given, "agents");
    for (agent, value) in spec.agents.iter_mut().zip(list(&agents)) {
        agent.tools = tools_of("tools", &entry(&value, "tools"))?;
    }
    let toolkits = entry(given, "toolkits");
    for (toolkit, value) in spec.toolkits.iter_mut().zip(list(&toolkits)) {
        toolkit.tools = tools_of("tools", &entry(&value, "tools"))?;
    }
    spec.tool_bindings = tools_of("tool_bindings", &entry(given, "tool_bindings"))?;
    Ok(spec)
}

fn list(value: &Value) -> Vec<Value> {
    value.as_list().map(|list| list.to_vec()).unwrap_or_default()
}

fn tools_of(what: &str, tools: &Value) -> Result<Vec<ToolSpec>> {
    if !tools.is_nil() && tools.as_list().is_none() {
        return Err(wrong(what, "a list of tool specs", tools));
    }
    list(tools).iter().map(|tool| define_tool(&plain(tool)).or_throw()).collect()
}

/// Collects the closures of specs: handlers by binding, predicates by id, glimpses by kind.
fn collect(spec: &Value, bindings: &Value) -> Dict {
    let (mut handlers, mut predicates, mut glimpses) = (Dict::new(), Dict::new(), Dict::new());
    let mut take = |tool: &Value, agent: Option<&str>| {
        let binding = text(&entry(tool, "binding_id")).or_else(|| text(&entry(tool, "name")));
        let Some(binding) = binding else { return };
        let handler = entry(tool, "handler");
        if is_callable(&handler) {
            if let Some(agent) = agent {
                handlers.insert(own_handler(agent, &binding).as_str(), handler.clone());
            }
            if handlers.get_str(&binding).is_none() {
                handlers.insert(binding.as_str(), handler);
            }
        }
        let approval = entry(tool, "approval");
        let predicate = entry(tool, PREDICATE);
        let predicate = if is_callable(&predicate) { predicate } else { approval.clone() };
        let id = text(&entry(&approval, "value")).unwrap_or_else(|| format!("{binding}_approval"));
        if is_callable(&predicate) && predicates.get_str(&id).is_none() {
            predicates.insert(id.as_str(), predicate);
        }
    };
    for agent in list(&entry(spec, "agents")) {
        let name = text(&entry(&agent, "name"));
        list(&entry(&agent, "tools")).iter().for_each(|tool| take(tool, name.as_deref()));
    }
    for toolkit in list(&entry(spec, "toolkits")) {
        list(&entry(&toolkit, "tools")).iter().for_each(|tool| take(tool, None));
    }
    list(&entry(spec, "tool_bindings")).iter().chain(&list(bindings)).for_each(|tool| take(tool, None));
    for reference in list(&entry(spec, "references")) {
        let glimpse = entry(&reference, "glimpse");
        if let Some(name) = text(&entry(&reference, "name")).filter(|_| is_callable(&glimpse)) {
            glimpses.insert(name.as_str(), glimpse);
        }
    }
    let mut closures = Dict::new();
    closures.insert("handlers", handlers);
    closures.insert("predicates", predicates);
    closures.insert("glimpses", glimpses);
    closures
}

/// Returns model calls with the provider settings of the spec; `None` if the spec has no such settings.
fn overlay(cx: &Cx, spec: &RuntimeSpec) -> Result<(Option<Rc<harn_llm::LlmRuntime>>, BTreeSet<String>)> {
    let mut tables = toml::Table::new();
    for (name, settings) in spec.providers.iter().filter(|(_, settings)| !settings.is_empty()) {
        let settings = table_keys(name, settings)?;
        let table = toml::Value::try_from(&settings)
            .map_err(|why| thrown(format!("create_runtime: providers.{name}: {why}")))?;
        tables.insert(name.clone(), table);
    }
    let names: BTreeSet<String> = tables.keys().cloned().collect();
    if names.is_empty() {
        return Ok((None, names));
    }
    let mut document = toml::Table::new();
    document.insert("providers".to_owned(), tables.into());
    let toml = toml::to_string(&document).or_throw()?;
    let problems = match llm_tables::read(&toml, None) {
        Ok((_, problems)) => problems,
        Err(problem) => vec![problem],
    };
    if let Some(problem) = problems.first() {
        return Err(thrown(format!("create_runtime: providers: {}", problem.message)));
    }
    let layer = Layer { origin: "RuntimeSpec.providers".to_owned(), toml };
    Ok((Some(runtime_with(cx, vec![layer])), names))
}

/// Converts the settings of a provider to the names in its table. Rejects unused keys: if one is meant to name a secret
/// or an address, the call would use a different one.
fn table_keys(provider: &str, settings: &Map<String, Json>) -> Result<Map<String, Json>> {
    const KEY_ENV: &str = "api_key_env";
    let mut out = Map::new();
    for (key, value) in settings.iter().filter(|(_, value)| !value.is_null()) {
        if key != KEY_ENV && !PROVIDER_KEYS.contains(&key.as_str()) {
            let known = || [KEY_ENV].into_iter().chain(PROVIDER_KEYS);
            let fix = match nearest(key, known()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", known().collect::<Vec<_>>().join(", ")),
            };
            return Err(thrown(format!("create_runtime: providers.{provider}: unknown key '{key}'; {fix}")));
        }
        let name = if key == KEY_ENV { "auth_env" } else { key };
        if out.insert(name.to_owned(), value.clone()).is_some() {
            let both = format!("`{KEY_ENV}` and `{name}` are the same setting; keep one");
            return Err(thrown(format!("create_runtime: providers.{provider}: {both}")));
        }
    }
    Ok(out)
}

/// Implements `registrations`.
pub(crate) fn registrations(runtime: &RoleRuntime) -> Json {
    runtime.spec.registrations().iter().map(harn_agent::harness::Registration::to_json).collect()
}

/// Returns an option that must be a string.
///
/// # Errors
/// The value is of another type.
pub(crate) fn text_option(function: &str, options: &Value, key: &str) -> Result<Option<String>> {
    let value = entry(options, key);
    if value.is_nil() {
        return Ok(None);
    }
    match to_json(&value) {
        Json::String(text) if !text.trim().is_empty() => Ok(Some(text)),
        _ => Err(thrown(format!("{function}: {key} must be a non-empty string"))),
    }
}
