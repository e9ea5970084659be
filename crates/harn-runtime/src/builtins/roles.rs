//! The runtime of agents with roles, and the hidden builtins that implement the functions of its handle.

use harn_value::Data as Json;
use harn_value::Value;
use harn_vm::builtin::Text;
use harn_vm::{Cx, Result, builtins};

use crate::builtins::program_record;
use crate::convert::{from_json, thrown};
use crate::llm_embedder::new_id;
use crate::roles::closures::At;
use crate::roles::create::{self, text_option};
use crate::roles::interpret::model_call;
use crate::roles::invoke::program;
use crate::roles::run::{Carried, Run, Turn};
use crate::roles::runtime::Held;
use crate::roles::tools::options_of;
use crate::roles::{ask, references, start, tools};

builtins! {
    /// Runtime of role agents.
    pub(crate) static ROLES: "roles";

    /// Creates a runtime from a spec of role agents.
    ///
    /// Its coordinator, planner, executor and specialists answer queries, call each other, keep their memory and
    /// request approvals.
    ///
    /// `spec` is the result of `define_runtime` or its serialized form. `deps` may have `tool_bindings`, `services`,
    /// `approval_predicates`, `action_dispatcher`, `event_hooks`, `interpreter` (`"live"`, `"scripted"`, `"noop"`,
    /// closures), `testing`, `data_environment` and `stores`. The handle has `query`, `run_specialist`,
    /// `respond_to_approval`, `create_reference`, `resolve_reference`, `reference_glimpse`, `program_for`,
    /// `registrations`, `list_traces`, `get_trace` and `resource_id`.
    ///
    /// ```harn
    /// let scout = define_specialist("scout", {model: "m", prompt: "Look."})
    /// let spec = define_runtime({tenant: define_tenant("acme", "v1"), agents: [scout]})
    /// let rt = create_runtime(spec, {interpreter: "scripted"})
    /// for event in rt.run_specialist("scout", "hello") {
    ///   if event.type == "text" { println(event.text) } // -> hello
    /// }
    /// ```
    Llm fn create_runtime(cx, spec: Value as "any?", deps: Value as "any?") -> "dict" {
        create::create(cx, &spec, &deps)?
    }

    /// `query` of a handle.
    State async fn role_query = "__role_query"(cx, runtime: Value, closures: Value as "any?", prompt: Value as "any?", options: Value as "any?") -> "stream" {
        options_of("query", &options, &["thread_id"])?;
        let prompt = prompt_of("query", &prompt)?;
        let thread = text_option("query", &options, "thread_id")?;
        let thread = thread.ok_or_else(|| thrown("query: thread_id must be a non-empty string"))?;
        start::start(&at(&cx, &closures), &Held::of(&runtime)?, None, &prompt, &thread)?
    }

    /// `run_specialist` of a handle.
    State async fn role_run_specialist = "__role_run_specialist"(cx, runtime: Value, closures: Value as "any?", name: Value as "any?", prompt: Value as "any?", options: Value as "any?") -> "stream" {
        options_of("run_specialist", &options, &["thread_id"])?;
        let prompt = prompt_of("run_specialist", &prompt)?;
        let Some(name) = name.as_str() else {
            return Err(thrown(format!("run_specialist: name must be a string, got {}", name.type_name())));
        };
        let thread = text_option("run_specialist", &options, "thread_id")?.unwrap_or_else(|| new_id(cx.vm()));
        start::start(&at(&cx, &closures), &Held::of(&runtime)?, Some(name.as_str()), &prompt, &thread)?
    }

    /// The task of a run.
    State async fn role_run = "__role_run"(cx, run: Value, closures: Value as "any?", agent: Value as "any?", problem: Value as "any?", prompt: Text, thread: Text) -> "nil" {
        let run = Carried::<Run>::of(&run)?;
        let agent = agent.as_int().and_then(|n| usize::try_from(n).ok());
        start::job(&at(&cx, &closures), &run, agent, &problem.to_string(), &prompt, &thread).await;
        Value::NIL
    }

    /// A model call of a turn.
    Llm async fn role_model = "__role_model"(cx, turn: Value, closures: Value as "any?", call: Value as "any?") -> "dict" {
        model_call(&at(&cx, &closures), &Carried::<Turn>::of(&turn)?, &call).await?
    }

    /// A tool call in a turn.
    State async fn role_tool = "__role_tool"(cx, turn: Value, closures: Value as "any?", name: Text, args: Value as "any?", id: Value as "any?") -> "any" {
        let id = id.as_str().map(|id| id.to_string());
        tools::call(&at(&cx, &closures), &Carried::<Turn>::of(&turn)?, &name, &args, id).await?
    }

    /// Whether the run of a turn is cancelled.
    State fn role_cancelled = "__role_cancelled"(cx, turn: Value) -> "bool" {
        Carried::<Turn>::of(&turn)?.run.cancelled.get() || cx.task().is_cancelled()
    }

    /// `progress` of a handler's context.
    State async fn role_progress = "__role_progress"(cx, turn: Value, closures: Value as "any?", tool: Text, id: Text, label: Value as "any?", options: Value as "any?") -> "nil" {
        let label = text_of("ctx.progress", "label", &label)?;
        let turn = Carried::<Turn>::of(&turn)?;
        tools::progress(&at(&cx, &closures), &turn, &tool, &id, &label, &options).await?;
        Value::NIL
    }

    /// `emit` of a handler's context.
    State async fn role_emit = "__role_emit"(cx, turn: Value, closures: Value as "any?", tool: Text, id: Text, kind: Value as "any?", data: Value as "any?") -> "nil" {
        let kind = text_of("ctx.emit", "type", &kind)?;
        tools::emit(&at(&cx, &closures), &Carried::<Turn>::of(&turn)?, &kind, &data).await?;
        Value::NIL
    }

    /// `respond_to_approval` of a handle.
    State async fn role_respond_to_approval = "__role_respond_to_approval"(cx, runtime: Value, closures: Value as "any?", id: Value as "any?", outcome: Value as "any?", options: Value as "any?") -> "nil" {
        let id = text_of("respond_to_approval", "id", &id)?;
        let outcome = text_of("respond_to_approval", "outcome", &outcome)?;
        options_of("respond_to_approval", &options, &["feedback", "partial"])?;
        ask::respond(&at(&cx, &closures), &*Held::of(&runtime)?, &id, &outcome, &options).await?;
        Value::NIL
    }

    /// `create_reference` of a handle.
    State async fn role_create_reference = "__role_create_reference"(cx, runtime: Value, closures: Value as "any?", reference: Value as "any?", value: Value as "any?", options: Value as "any?") -> "dict" {
        references::create(&at(&cx, &closures), &*Held::of(&runtime)?, &reference, &value, &options).await?
    }

    /// `resolve_reference` of a handle.
    State async fn role_resolve_reference = "__role_resolve_reference"(cx, runtime: Value, closures: Value as "any?", reference: Value as "any?") -> "any" {
        let (kind, id) = references::named("resolve_reference", &reference)?;
        let found = references::find(&at(&cx, &closures), &*Held::of(&runtime)?, &kind, &id).await?;
        from_json(&found.value)
    }

    /// `reference_glimpse` of a handle.
    State async fn role_reference_glimpse = "__role_reference_glimpse"(cx, runtime: Value, closures: Value as "any?", reference: Value as "any?") -> "any" {
        let (kind, id) = references::named("reference_glimpse", &reference)?;
        let found = references::find(&at(&cx, &closures), &*Held::of(&runtime)?, &kind, &id).await?;
        from_json(&found.glimpse)
    }

    /// `program_for` of a handle.
    State async fn role_program_for = "__role_program_for"(cx, runtime: Value, closures: Value as "any?", agent: Value as "any?", prompt: Value as "any?", options: Value as "any?") -> "ChatProgram" {
        let agent = text_of("program_for", "agent", &agent)?;
        options_of("program_for", &options, &["thread_id"])?;
        let runtime = Held::of(&runtime)?;
        let Some((number, _)) = runtime.agent(&agent) else {
            return Err(thrown(format!("program_for: agent '{agent}' not found")));
        };
        let prompt = prompt_of("program_for", &prompt)?;
        let thread = text_option("program_for", &options, "thread_id")?;
        let program = program(&at(&cx, &closures), &runtime, number, &prompt, thread.as_deref()).await?;
        program_record(&program.to_json())?
    }

    /// `registrations` of a handle.
    State fn role_registrations = "__role_registrations"(cx, runtime: Value, closures: Value as "any?") -> "list" {
        from_json(&create::registrations(&*Held::of(&runtime)?))
    }

    /// `list_traces` of a handle.
    State fn role_list_traces = "__role_list_traces"(cx, runtime: Value, closures: Value as "any?", options: Value as "any?") -> "list" {
        options_of("list_traces", &options, &["thread_id"])?;
        let thread = text_option("list_traces", &options, "thread_id")?;
        let runtime = Held::of(&runtime)?;
        let traces = runtime.traces.borrow();
        let wanted = traces.iter().filter(|trace| thread.as_ref().is_none_or(|thread| trace.thread == *thread));
        let all: Json = wanted.map(|trace| trace.summary()).collect();
        from_json(&all)
    }

    /// `get_trace` of a handle.
    State fn role_get_trace = "__role_get_trace"(cx, runtime: Value, closures: Value as "any?", id: Value as "any?") -> "dict" {
        let id = text_of("get_trace", "id", &id)?;
        let runtime = Held::of(&runtime)?;
        let traces = runtime.traces.borrow();
        let Some(trace) = traces.iter().find(|trace| trace.id == id) else {
            return Err(thrown(format!("trace not found: {id}")));
        };
        from_json(&trace.to_json())
    }
}

fn at(cx: &Cx, closures: &Value) -> At {
    At { cx: cx.clone(), closures: closures.clone() }
}

fn prompt_of(function: &str, prompt: &Value) -> Result<String> {
    text_of(function, "prompt", prompt)
}

/// Reads a string argument. It is checked here so that the error names the function that the program calls instead of
/// the hidden builtin.
///
/// # Errors
/// The value is not a string.
pub(super) fn text_of(function: &str, what: &str, value: &Value) -> Result<String> {
    match value.as_str() {
        Some(text) => Ok(text.to_string()),
        None => Err(thrown(format!("{function}: {what} must be a string, got {}", value.type_name()))),
    }
}
