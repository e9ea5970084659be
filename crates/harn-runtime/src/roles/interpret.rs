//! Interpreters of turns: a model, a script, the program, or none.

use std::rc::Rc;

use harn_agent::harness::ChatProgram;
use harn_agent::roles::event::{self, Usage, finish_reason};
use harn_agent::roles::script::Script;
use harn_agent::tool::OF_RUNTIME;
use harn_llm::{Call, LlmRuntime, RequestObserver};
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Foreign, Value};
use harn_vm::closure::is_callable;
use harn_vm::{Error, Result};
use tokio::sync::mpsc::unbounded_channel;

use crate::builtins::{failed, program_record};
use crate::convert::{entry, from_json, thrown, to_json, to_plain_json};
use crate::driver::{report_bug, run_loop};
use crate::live;
use crate::llm_embedder::{calling_aside, runtime as llm_of};
use crate::roles::closures::At;
use crate::roles::run::{Carried, Turn};
use crate::roles::runtime::Interpreter;

/// The hidden builtin that runs a tool of a turn.
const TOOL: &str = "__role_tool";

/// Runs a turn.
///
/// # Errors
/// The error that ends the turn.
pub(crate) async fn interpret(at: &At, turn: &Rc<Turn>, program: ChatProgram) -> Result<()> {
    match &turn.run.runtime.interpreter {
        Interpreter::Live => live(at, turn, &program).await,
        Interpreter::Scripted => {
            turn.emit(at, event::step_start()).await?;
            let prompt = program.conversation.prompt.as_str().unwrap_or_default().to_owned();
            scripted(at, turn, &Script::read(&prompt)).await
        }
        Interpreter::Noop => turn.emit(at, event::step_start()).await,
        Interpreter::Fixed(text) => {
            turn.emit(at, event::step_start()).await?;
            turn.emit(at, event::text(text)).await
        }
        Interpreter::Own => own(at, turn, &program).await,
    }
}

fn tool(at: &At, turn: &Rc<Turn>, name: Option<&str>) -> Result<Value> {
    let mut args = vec![Value::foreign(Carried(turn.clone())), at.closures.clone()];
    args.extend(name.map(Value::from));
    at.partial(TOOL, args)
}

async fn scripted(at: &At, turn: &Rc<Turn>, script: &Script) -> Result<()> {
    let calls = match script {
        Script::Echo(text) => return turn.emit(at, event::text(text)).await,
        Script::Calls(calls) => calls,
    };
    for (name, args) in calls {
        let id = format!("scripted-tool-{}", turn.run.next_call());
        let call = tool(at, turn, Some(name))?;
        match at.cx.call(&call, [from_json(args), Value::str(&id)]).await {
            Ok(result) => {
                let text = harn_value::json::stringify_data(&to_plain_json(&result));
                turn.emit(at, event::text(&text)).await?;
            }
            Err(error) if error.is_catchable() && !interrupted(at, turn) => report_bug(at.cx.vm(), &error),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn interrupted(at: &At, turn: &Turn) -> bool {
    turn.run.cancelled.get() || at.cx.task().is_cancelled()
}

/// Lets the program run the turn and forwards its events.
async fn own(at: &At, turn: &Rc<Turn>, program: &ChatProgram) -> Result<()> {
    let mut closure = entry(&at.closures, "interpreter");
    if !is_callable(&closure) {
        closure = entry(&closure, &turn.bound().provider);
    }
    let carried = Value::foreign(Carried(turn.clone()));
    let cancel = at.partial("__role_cancelled", vec![carried])?;
    let program = program_record(&program.to_json())?;
    let made = at.call(&closure, vec![program, cancel, tool(at, turn, None)?]).await?;
    let events = at
        .cx
        .iter(&made)
        .map_err(|_| thrown(format!("interpreter: expected a stream of events, got {}", made.type_name())))?;
    while let Some(event) = events.next(&at.cx).await? {
        let event = to_plain_json(&event);
        let Some(kind) = event["type"].as_str().map(str::to_owned) else {
            return Err(thrown("interpreter: an event must be a dict with a string `type`"));
        };
        match kind.as_str() {
            "finish" => {
                let mut usage = turn.usage.get();
                usage.add(Usage::read(&event["usage"]));
                turn.usage.set(usage);
                *turn.reason.borrow_mut() = event["finishReason"].as_str().unwrap_or("stop").to_owned();
                return Ok(());
            }
            "error" => {
                let message = event["error"]["message"].as_str().unwrap_or("the interpreter failed"); // prose-ok: diagnostic
                let thrown = match event["error"]["code"].as_str() {
                    Some(code) => json!({"category": code, "message": message}),
                    None => message.into(),
                };
                return Err(Error::thrown(from_json(&thrown)));
            }
            "tool-agent"
            | "data-tool-agent"
            | "approval-required"
            | "approval-decision"
            | "plan-status-change"
            | "data-cost-summary"
            | "data-latency-summary" => {
                return Err(thrown(format!("interpreter: events of type '{kind}' are the runtime's own")));
            }
            "text" | "reasoning" if !event["text"].is_string() => {
                return Err(thrown(format!(
                    "interpreter: an event of type '{kind}' must have a string `text`"
                )));
            }
            "text" | "reasoning" | "tool-invocation" if !turn.stepped.get() => {
                turn.emit(at, event::step_start()).await?;
                turn.emit(at, event).await?;
            }
            _ => turn.emit(at, event).await?,
        }
    }
    Ok(())
}

/// Marks the entry of a tool that checks its arguments itself.
struct Mark;

impl Foreign for Mark {
    fn type_name(&self) -> &'static str {
        OF_RUNTIME.1
    }

    fn print(&self, out: &mut String) {
        out.push_str("<tool of the runtime>");
    }

    fn equals(&self, _: &dyn Foreign) -> bool {
        true
    }
}

/// Lets a model run the turn, in an agent loop with the model calls and tools of this turn.
async fn live(at: &At, turn: &Rc<Turn>, program: &ChatProgram) -> Result<()> {
    let bound = turn.bound();
    let mut tools = Vec::with_capacity(bound.tools.len());
    for spec in &bound.tools {
        let mut entry = Dict::new();
        entry.insert("name", spec.name.as_str());
        entry.insert("description", spec.description.as_str());
        entry.insert("parameters", from_json(&spec.input_schema));
        entry.insert("handler", tool(at, turn, Some(&spec.name))?);
        // The tool checks arguments where it reports the call, and needs the call's id.
        entry.insert(OF_RUNTIME.0, Value::foreign(Mark));
        tools.push(Value::from(entry));
    }
    let mut options = Dict::new();
    let model = &bound.spec.model;
    options.insert("model", model.id.as_str());
    if let Some(provider) = &model.provider {
        options.insert("provider", provider.as_str());
    }
    if !tools.is_empty() {
        options.insert("tools", Value::list(tools));
    }
    let history: Json = program.conversation.history.iter().filter_map(sendable).collect();
    options.insert("messages", from_json(&history));
    if let Some(turns) = bound.spec.max_turns {
        options.insert("max_iterations", i64::try_from(turns).unwrap_or(i64::MAX));
    }
    let carried = Value::foreign(Carried(turn.clone()));
    options.insert("llm_caller", at.partial("__role_model", vec![carried, at.closures.clone()])?);
    options.insert("reminders", false);
    let prompt = from_json(&program.conversation.prompt);
    let system = Value::str(&program.system_prompt);
    let ended = run_loop(&at.cx, &prompt, &system, &options.into()).await?;
    *turn.answer.borrow_mut() = Some(ended.last_visible.clone());
    if ended.out_of_turns {
        *turn.reason.borrow_mut() = "tool-calls".to_owned();
    } else if ended.result["status"] == "budget_exhausted" {
        *turn.reason.borrow_mut() = "length".to_owned();
    }
    Ok(())
}

/// Returns a stored message in the form for models; `None` for an answer without text, which models reject.
fn sendable(message: &Json) -> Option<Json> {
    let content = &message["content"];
    let blank = content.as_str().is_some_and(|text| text.trim().is_empty());
    (!blank).then(|| json!({"role": message["role"], "content": content}))
}

/// Makes a model call of a live turn, as `llm_caller` of its loop. The system prompt is the program's prompt, followed
/// by the tool contract if calls are made in text; nothing else is added.
///
/// # Errors
/// The error of a failed call.
pub(crate) async fn model_call(at: &At, turn: &Rc<Turn>, given: &Value) -> Result<Value> {
    let mut options = match to_json(&entry(given, "options")) {
        Json::Object(options) => options,
        _ => Map::new(),
    };
    let native = options.get("tool_format").and_then(Json::as_str) == Some("native");
    let mut fragments =
        options.get("_system_fragments").and_then(Json::as_array).cloned().unwrap_or_default();
    let kept = |fragment: &Json| match fragment["id"].as_str() {
        Some("primary:system") => true,
        Some("primary:text_tool_contract") => !native,
        _ => false,
    };
    fragments.retain(kept);
    options.insert("_system_fragments".to_owned(), fragments.into());
    let llm = llm(at, turn);
    turn.emit(at, event::step_start()).await?;
    let observer = Some(trace_requests(turn, options.get("tool_format").cloned()));
    let call = Call { options: Rc::new(Json::Object(options)), observer, ..Call::default() };
    let (give, take) = unbounded_channel();
    let work = {
        let (call, llm) = (call.clone(), llm.clone());
        async move {
            let mut deliver = move |text: String| drop(give.send(text));
            llm.llm_turn(&call, Some(&mut deliver)).await
        }
    };
    let mut told = String::new();
    let tell = async |text: String| {
        told.push_str(&text);
        turn.emit(at, event::text(&text)).await
    };
    let called = live::beside(&llm, calling_aside(&at.cx, &call.options, work), take, tell).await?;
    let result = called.map_err(|error| failed(&error))?;
    let reasoning = ["private_reasoning", "thinking"].iter().find_map(|key| result[*key].as_str());
    if let Some(reasoning) = reasoning.filter(|text| !text.is_empty()) {
        turn.emit(at, event::reasoning(reasoning)).await?;
    }
    // Text that was streamed is not sent again.
    let visible = result["visible_text"].as_str().unwrap_or_default();
    if let Some(rest) = visible.strip_prefix(told.as_str()).filter(|rest| !rest.is_empty()) {
        turn.emit(at, event::text(rest)).await?;
    }
    let number = |key: &str| result[key].as_i64().unwrap_or(0);
    let mut usage = turn.usage.get();
    usage.add(Usage { prompt: number("input_tokens"), completion: number("output_tokens") });
    turn.usage.set(usage);
    let stop = result["stop_reason"].as_str().unwrap_or_default();
    *turn.reason.borrow_mut() = finish_reason(stop).to_owned();
    Ok(from_json(&result))
}

/// Adds each request of a model call to the trace of its run, with the system text that is sent.
fn trace_requests(turn: &Rc<Turn>, tool_format: Option<Json>) -> RequestObserver {
    let turn = turn.clone();
    RequestObserver::new(move |prepared| {
        let request = &prepared.request;
        turn.run.trace.add_program(json!({
            "stage": "model_call", "agent": turn.bound().spec.name, "provider": request.route.provider,
            "model": request.route.model, "tool_format": tool_format,
            "system": request.system.as_deref().unwrap_or_default(),
        }));
    })
}

fn llm(at: &At, turn: &Turn) -> Rc<LlmRuntime> {
    let runtime = &turn.run.runtime;
    match &runtime.llm {
        Some(llm) if runtime.set_up.contains(&turn.bound().provider) => llm.clone(),
        _ => llm_of(&at.cx),
    }
}
