//! Tool calls: reports the call, checks it, asks for approval, runs it, and reports the result.

use std::rc::Rc;

use harn_agent::roles::{Backing, BoundTool, Outcome, catalog, event};
use harn_value::{Data as Json, json};
use harn_value::{Dict, Value};
use harn_vm::{Error, Result};

use crate::convert::{entry, from_json, thrown, to_json, to_plain_json, told};
use crate::roles::ask::{Question, ask, must_ask};
use crate::roles::closures::At;
use crate::roles::invoke::invoke;
use crate::roles::run::{Carried, Turn};
use crate::roles::runtime::Held;
use crate::roles::{plans, references};

/// Maximum depth of agents that call each other.
const DEEPEST: u32 = 16;

/// Runs a call of the agent of a turn and returns its result.
///
/// # Errors
/// The error result of the call, or an error that ends the run.
pub(crate) async fn call(
    at: &At,
    turn: &Rc<Turn>,
    name: &str,
    args: &Value,
    id: Option<String>,
) -> Result<Value> {
    let id = id.unwrap_or_else(|| format!("tool-{}", turn.run.next_call()));
    let args = match to_json(args) {
        Json::Null => json!({}),
        args => args,
    };
    turn.emit(at, event::tool_invocation(&id, name, &args, None)).await?;
    let deadlines = at.cx.task().deadline_count();
    let outcome = perform(at, turn, name, &args, &id).await;
    let over = turn.run.cancelled.get() || at.cx.task().interrupted_since(deadlines);
    let shown = match &outcome {
        Ok(value) => to_plain_json(value),
        Err(error) if !error.is_catchable() || over => return outcome,
        Err(error) => failure(error),
    };
    turn.emit(at, event::tool_invocation(&id, name, &args, Some(&shown))).await?;
    turn.interactions
        .borrow_mut()
        .push(json!({"callId": id, "toolName": name, "arguments": args, "result": shown}));
    outcome
}

/// Returns the displayed result of an error.
fn failure(error: &Error) -> Json {
    let caught = to_plain_json(&error.caught());
    if caught["error"] == "approval_rejected" { caught } else { json!({"error": told(error)}) }
}

async fn perform(at: &At, turn: &Rc<Turn>, name: &str, args: &Json, id: &str) -> Result<Value> {
    let bound = turn.bound();
    let Some(tool) = bound.tools.iter().find(|tool| tool.name == name) else {
        let names: Vec<&str> = bound.tools.iter().map(|tool| tool.name.as_str()).collect();
        let agent = &bound.spec.name;
        return Err(thrown(format!("agent '{agent}' has no tool '{name}'; it has [{}]", names.join(", "))));
    };
    if name == "call_agent" {
        check_sub_agent(turn, args)?;
    } else {
        let errors = harn_schema::errors(&tool.input_schema, args);
        if !errors.is_empty() {
            return Err(thrown(format!("Invalid input: {}", errors.join("; "))));
        }
    }
    let context = context(at, turn, name, id)?;
    approve(at, turn, tool, args, id, &context).await?;
    let runtime = &turn.run.runtime;
    match (&tool.backing, name) {
        (Backing::Host(binding), _) => {
            let agent = &bound.spec.name;
            let own = at.closure("handlers", &own_handler(agent, binding));
            let handler = if own.is_nil() { at.closure("handlers", binding) } else { own };
            at.call(&handler, vec![from_json(args), context.into()]).await
        }
        (Backing::Catalog, _) => {
            let sql = args["sql"].as_str().unwrap_or_default();
            if name == "execute_query" && !catalog::is_single_query(sql) {
                return Err(thrown(catalog::ONLY_QUERIES));
            }
            at.call(&at.closure("catalog", name), vec![from_json(args), context.into()]).await
        }
        (Backing::Runtime, "call_agent") => Box::pin(call_agent(at, turn, args, id)).await,
        (Backing::Runtime, "resolveRef" | "glimpseRef") => references::tool(at, runtime, name, args).await,
        (Backing::Runtime, _) => plans::tool(at, turn, name, args, id, &context).await,
    }
}

/// Asks for approval if the rule of the tool requires it.
async fn approve(
    at: &At,
    turn: &Rc<Turn>,
    tool: &BoundTool,
    args: &Json,
    id: &str,
    context: &Dict,
) -> Result<()> {
    let mut about = context.clone();
    about.insert("target", tool.name.as_str());
    about.insert("kind", "tool");
    if !must_ask(at, &tool.rule, from_json(args), about.into()).await? {
        return Ok(());
    }
    let question = Question {
        kind: "tool",
        target: &tool.name,
        payload: args.clone(),
        call: id,
        glimpse: None,
        then: None,
    };
    let decision = ask(at, turn, question).await?;
    if decision.outcome == Outcome::Approve {
        return Ok(());
    }
    let refusal = json!({"error": "approval_rejected", "rejected": true, "tool": tool.name,
                         "reason": decision.reason()});
    Err(Error::thrown(from_json(&refusal)))
}

/// Returns the context that handlers receive in addition to the arguments.
fn context(at: &At, turn: &Rc<Turn>, tool: &str, id: &str) -> Result<Dict> {
    let services = entry(&at.closures, "services");
    let mut context = services.to_dict().map(|dict| (*dict).clone()).unwrap_or_default();
    context.insert("services", services);
    context.insert("tool_use_id", id);
    context.insert("thread_id", turn.thread.as_str());
    context.insert("agent", turn.bound().spec.name.as_str());
    let held = Value::foreign(Held(turn.run.runtime.clone()));
    let mut functions = Dict::new();
    for (name, builtin) in [
        ("create", "__role_create_reference"),
        ("resolve", "__role_resolve_reference"),
        ("glimpse", "__role_reference_glimpse"),
    ] {
        functions.insert(name, at.partial(builtin, vec![held.clone(), at.closures.clone()])?);
    }
    context.insert("references", functions);
    let carried = Value::foreign(Carried(turn.clone()));
    for (name, builtin) in [("progress", "__role_progress"), ("emit", "__role_emit")] {
        let args = vec![carried.clone(), at.closures.clone(), tool.into(), id.into()];
        context.insert(name, at.partial(builtin, args)?);
    }
    Ok(context)
}

/// Returns the name under which the handler of an agent's private tool is stored.
pub(crate) fn own_handler(agent: &str, binding: &str) -> String {
    format!("{agent}\0{binding}")
}

/// The names of a handler's context that services cannot use.
pub(crate) const RESERVED: [&str; 7] =
    ["tool_use_id", "services", "references", "thread_id", "agent", "progress", "emit"];

fn check_sub_agent(turn: &Turn, args: &Json) -> Result<()> {
    let text = |key: &str| args[key].as_str().filter(|text| !text.trim().is_empty());
    let Some(name) = text("agent") else { return Err(thrown("Missing 'agent' name string")) };
    if text("prompt").is_none() {
        return Err(thrown("Missing 'prompt' string"));
    }
    let routes = &turn.bound().spec.routes;
    if !routes.iter().any(|route| route == name) {
        let routes = routes.join(", ");
        return Err(thrown(format!("Agent '{name}' is not in this caller's allowed routes: [{routes}]"))); // prose-ok: contract text
    }
    Ok(())
}

/// Lets another agent answer in a separate thread.
async fn call_agent(at: &At, turn: &Rc<Turn>, args: &Json, id: &str) -> Result<Value> {
    let part = |key: &str| args[key].as_str().unwrap_or_default();
    let (name, prompt) = (part("agent"), part("prompt"));
    let run = &turn.run;
    let Some((number, bound)) = run.runtime.agent(name) else {
        return Err(thrown(format!("Sub-agent failed: agent '{name}' not found")));
    };
    if turn.depth >= DEEPEST {
        return Err(thrown(format!("Sub-agent failed: agents call each other more than {DEEPEST} deep")));
    }
    let thread = format!("{}-{name}", turn.thread);
    let sub = Rc::new(Turn::new(run.clone(), number, thread, turn.depth + 1));
    run.emit(at, event::tool_agent(name, id, "call")).await?;
    let deadlines = at.cx.task().deadline_count();
    let done = invoke(at, &sub, prompt).await;
    if done.is_err() && (run.cancelled.get() || at.cx.task().interrupted_since(deadlines)) {
        return Err(thrown("Sub-agent invocation cancelled"));
    }
    let usage = sub.usage.get().to_json();
    let data = json!({"agentName": name, "model": bound.spec.model.id, "usage": usage});
    run.emit(at, event::tool_agent(name, id, "result")).await?;
    run.emit(at, event::with_data("data-tool-agent", data)).await?;
    match done {
        Ok(()) => {
            Ok(from_json(&json!({"agent": name, "response": sub.response(), "model": bound.spec.model.id})))
        }
        Err(error) if error.is_catchable() => Err(thrown(format!("Sub-agent failed: {}", told(&error)))),
        Err(error) => Err(error),
    }
}

/// Implements `ctx.progress(label, {phase_index?, total_phases?, milestone?})` of a handler.
///
/// # Errors
/// Invalid options; an error of sending events.
pub(crate) async fn progress(
    at: &At,
    turn: &Rc<Turn>,
    tool: &str,
    id: &str,
    label: &str,
    options: &Value,
) -> Result<()> {
    let options = options_of("ctx.progress", options, &["phase_index", "total_phases", "milestone"])?;
    let number = |key: &str, default: u64| match options.get(key) {
        None | Some(Json::Null) => Ok(default),
        Some(value) => {
            value.as_u64().ok_or_else(|| thrown(format!("ctx.progress: {key} must be an int from 0")))
        }
    };
    let (index, total) = (number("phase_index", 0)?, number("total_phases", 1)?);
    let name = if turn.depth > 0 { format!("{}/{tool}", turn.bound().spec.name) } else { tool.to_owned() };
    let mut event = json!({"type": "tool-progress", "toolName": name, "label": label, "phaseIndex": index,
                           "totalPhases": total, "toolCallId": id});
    if let Some(milestone) = options.get("milestone").filter(|m| !m.is_null()) {
        event["milestone"] = milestone.clone();
    }
    turn.emit(at, event).await
}

/// Implements `ctx.emit(type, data)` of a handler: `file-registered`, or a custom event.
///
/// # Errors
/// An error of sending events.
pub(crate) async fn emit(at: &At, turn: &Rc<Turn>, kind: &str, data: &Value) -> Result<()> {
    let data = to_plain_json(data);
    let event = match kind {
        "data-file-registered" => event::with_data(kind, data),
        _ => json!({"type": "custom", "event_type": kind, "data": data}),
    };
    turn.emit(at, event).await
}

/// Reads a dict of options with only known keys.
///
/// # Errors
/// The value is not a dict, or has an unknown key.
pub(crate) fn options_of(
    function: &str,
    options: &Value,
    known: &[&str],
) -> Result<harn_value::data::Map<String, Json>> {
    if options.is_nil() {
        return Ok(Default::default());
    }
    let Some(dict) = options.to_dict() else {
        return Err(thrown(format!("{function}: options must be a dict, got {}", options.type_name())));
    };
    if let Some(key) = dict.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(thrown(format!("{function}: unknown option '{key}'; there are {}", known.join(", "))));
    }
    match to_json(options) {
        Json::Object(map) => Ok(map),
        _ => Ok(Default::default()),
    }
}
