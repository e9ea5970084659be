//! The connection of model calls to the program: its environment, clock, prompts, and prompt assembly.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use harn_llm::embedder::{LocalFuture, Reminded};
use harn_llm::options::{OptionField, VALIDATOR};
use harn_llm::wire::WireStyle;
use harn_llm::{CallError, Fragment, LlmRuntime, Route, SystemText};
use harn_prompt::reminder::{SlotCaps, pending, place};
use harn_prompt::{CallParts, Prose};
use harn_system::{Egress, System, SystemExt};
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Str, Value};
use harn_vm::{Cx, OpenSpan, SpanKind, Vm};

use crate::assets::EmbeddedPrompts;
use crate::convert::{from_json, to_json};
use crate::reminders::Reminders;
use crate::template_state::{LlmBinding, OpenContext, TemplateState, log_render};
use crate::trace::Trace;

/// The model calls of one program.
#[derive(Default)]
pub(crate) struct LlmState {
    runtime: OnceCell<Rc<LlmRuntime>>,
    /// The call that is being polled.
    running: RefCell<Option<Running>>,
    /// Closures of options (structural experiments, output validators), by the number that represents them in JSON.
    closures: RefCell<BTreeMap<u64, Value>>,
    next_closure: Cell<u64>,
    /// Trace events so far, for `agent_trace`.
    pub(crate) trace: RefCell<Trace>,
    /// Embedded prompts, parsed once.
    pub(crate) prompts: EmbeddedPrompts,
    /// The template value of the last loop's route, because consecutive loops usually use the same model.
    route: RefCell<Option<(Json, Value)>>,
}

/// Returns the model runtime of a program, for the command line, which configures replay and recording.
pub fn llm_runtime(vm: &Rc<Vm>) -> Rc<LlmRuntime> {
    llm_runtime_at(vm, &vm.system().work_dir())
}

/// A call while it is polled: its caller, and the model that reads its prompts.
#[derive(Clone)]
struct Running {
    cx: Cx,
    llm: LlmBinding,
    /// Whether closures can be called in the task, or need a separate one.
    in_place: bool,
    /// Its span, if the program records spans.
    span: Option<Rc<OpenSpan>>,
}

impl Running {
    fn new(cx: &Cx, llm: LlmBinding, in_place: bool) -> Running {
        let name = || {
            let llm = llm.value();
            Str::new(
                llm.as_dict().and_then(|llm| llm.get_str("model")).and_then(Value::as_str).map_or("", |m| m),
            )
        };
        let span =
            if in_place { cx.span(SpanKind::LlmCall, name) } else { cx.span_beside(SpanKind::LlmCall, name) };
        Running { cx: cx.clone(), llm, in_place, span: span.map(Rc::new) }
    }
}

/// Runs a call in the task of `cx`: its render context is open until it ends, and closures among its options run in the
/// task.
///
/// The future of the call is large and lives long. It is boxed immediately, because every future that takes another
/// future by value would reserve space for it.
pub(crate) fn calling<'a, T: 'a>(
    cx: &Cx,
    options: &Json,
    work: impl Future<Output = T> + 'a,
) -> impl Future<Output = T> + 'a {
    let (llm, work) = (binding(cx, options), Box::pin(work));
    let cx = cx.clone();
    async move {
        let _open = OpenContext::new(&cx, llm.clone());
        within(Running::new(&cx, llm, true), work).await
    }
}

/// Like [`calling`], for work outside of the task, which does not change the task's render context.
pub(crate) fn calling_aside<'a, T: 'a>(
    cx: &Cx,
    options: &Json,
    work: impl Future<Output = T> + 'a,
) -> impl Future<Output = T> + 'a {
    within(Running::new(cx, binding(cx, options), false), Box::pin(work))
}

/// Renders embedded prompts for the model of a loop.
pub(crate) fn prompts_for<'a>(cx: &'a Cx, state: &'a LlmState, llm: &'a LlmBinding) -> impl Prose + 'a {
    move |name: &str, bindings: &Map<String, Json>| state.render(&runtime(cx), name, bindings, &llm.value())
}

/// Renders embedded prompts for the model of the running task, if it has one.
pub(crate) fn prompts_of(cx: &Cx) -> impl Prose + '_ {
    let (state, llm) = (cx.state::<LlmState>(), cx.state::<TemplateState>().llm(cx));
    move |name: &str, bindings: &Map<String, Json>| state.render(&runtime(cx), name, bindings, &llm)
}

/// Returns the model that a call with these options goes to, for templates.
pub(crate) fn binding(cx: &Cx, options: &Json) -> LlmBinding {
    // Only options that determine the route: messages may be long, and most calls render nothing.
    let keys = ["provider", "model", "model_tier", "route_policy"];
    let chosen: Map<String, Json> =
        keys.iter().filter_map(|key| Some(((*key).to_owned(), options.get(key)?.clone()))).collect();
    let (runtime, options) = (runtime(cx), Json::Object(chosen));
    LlmBinding::new(move || runtime.render_context(&options).map_or(Value::NIL, |llm| from_json(&llm)))
}

/// Sets the call for the embedder while `work` is being polled.
async fn within<T>(running: Running, mut work: Pin<Box<impl Future<Output = T>>>) -> T {
    let state = running.cx.state::<LlmState>();
    poll_fn(|context| {
        let outer = state.running.replace(Some(running.clone()));
        let polled = work.as_mut().poll(context);
        state.running.replace(outer);
        polled
    })
    .await
}

/// Options in which closures are replaced by numbers; dropping it releases the closures.
pub(crate) struct CallOptions {
    /// The options.
    pub(crate) json: Json,
    closures: Vec<(Rc<LlmState>, u64)>,
}

impl CallOptions {
    /// Reads an option dict.
    pub(crate) fn new(cx: &Cx, given: &Value) -> CallOptions {
        let mut out =
            CallOptions { json: Json::Object(crate::convert::options(given)), closures: Vec::new() };
        let experiment = crate::convert::entry(given, "structural_experiment");
        if let Some(number) = out.register(cx, &experiment) {
            out.json["structural_experiment"] = json!({"transform": number});
        } else if let Some(number) = out.register(cx, &crate::convert::entry(&experiment, "transform")) {
            out.json["structural_experiment"]["transform"] = number.into();
        }
        if let Some(number) = out.register(cx, &crate::convert::entry(given, "output_validator")) {
            out.json["output_validator"] = json!({VALIDATOR: number});
        }
        out
    }

    /// Registers a closure; `None` for any other value.
    fn register(&mut self, cx: &Cx, closure: &Value) -> Option<u64> {
        harn_vm::closure::is_callable(closure).then(|| {
            let state = cx.state::<LlmState>();
            let number = state.next_closure.get() + 1;
            state.next_closure.set(number);
            state.closures.borrow_mut().insert(number, closure.clone());
            self.closures.push((state, number));
            number
        })
    }
}

impl Drop for CallOptions {
    fn drop(&mut self) {
        for (state, number) in &self.closures {
            state.closures.borrow_mut().remove(number);
        }
    }
}

/// Reads the result of an `output_validator`: the problem, or `None`.
///
/// # Errors
/// The result is neither nil nor a message.
pub(crate) fn validation(answer: &Value) -> Result<Option<String>, String> {
    objection("output_validator", answer)
}

/// Reads the result of a closure that may object: the reason, or `None`.
///
/// # Errors
/// The result is neither nil nor a message.
pub(crate) fn objection(option: &str, answer: &Value) -> Result<Option<String>, String> {
    match answer.as_str() {
        None if answer.is_nil() => Ok(None),
        Some(message) if !message.trim().is_empty() => Ok(Some(message.to_string())),
        _ => Err(format!(
            // prose-ok: diagnostic
            "Type error: {option} must return nil or what is wrong as a string, got {}",
            harn_value::short(answer, 60)
        )),
    }
}

impl LlmState {
    /// Returns the totals of the model calls so far.
    pub(crate) fn totals(&self) -> harn_llm::cost::Totals {
        self.runtime.get().map(|runtime| runtime.ledger().totals()).unwrap_or_default()
    }

    /// Returns the value that describes a route in templates. Loops with the same route share it.
    pub(crate) fn route_value(&self, route: Json) -> Value {
        if let Some((_, value)) = self.route.borrow().as_ref().filter(|(known, _)| *known == route) {
            return value.clone();
        }
        let value = from_json(&route);
        *self.route.borrow_mut() = Some((route, value.clone()));
        value
    }

    /// Renders an embedded prompt for a model, and writes it to the call log.
    fn render(
        &self,
        runtime: &LlmRuntime,
        name: &str,
        bindings: &Map<String, Json>,
        llm: &Value,
    ) -> Result<String, harn_prompt::ProseError> {
        let log = |template: &harn_template::Template, rendered: &harn_template::Rendered| {
            log_render(runtime, template, rendered, llm);
        };
        let logs = !llm.is_nil() && runtime.is_logging();
        self.prompts.render_for(name, bindings, llm, logs.then_some(&log))
    }
}

/// Returns the model runtime of the running program.
pub(crate) fn runtime(cx: &Cx) -> Rc<LlmRuntime> {
    match cx.state::<LlmState>().runtime.get() {
        Some(runtime) => runtime.clone(),
        None => llm_runtime_at(cx.vm(), &cx.caller_dir()),
    }
}

/// Warns of keys that are probably typos of loop options, or of the options that are specific to a builtin (`own`).
pub(crate) fn notice_keys(cx: &Cx, given: &Value, own: &[&'static str]) {
    let Some(dict) = given.to_dict() else { return };
    let keys = dict.written().map(|(key, _)| (key.to_string(), Json::Null)).collect();
    let own = own.iter().map(|key| OptionField::named(key));
    let known: Vec<_> = crate::option_sets::loop_options().iter().copied().chain(own).collect();
    runtime(cx).notice_slips(&Json::Object(keys), &known, false);
}

/// Returns the model runtime of a program. If it does not exist yet, creates it with the configuration of the project
/// that contains `dir`.
pub fn llm_runtime_at(vm: &Rc<Vm>, dir: &Path) -> Rc<LlmRuntime> {
    let state = vm.extension::<LlmState>();
    let make = || {
        let runtime =
            LlmRuntime::new(Rc::new(ProgramEmbedder { vm: Rc::downgrade(vm), system: vm.system().clone() }));
        crate::llm_layers::configure(&runtime, vm, dir, Vec::new());
        Rc::new(runtime)
    };
    state.runtime.get_or_init(make).clone()
}

/// Creates a separate model runtime for a part of the program, with configuration layers on top of the project's.
pub(crate) fn runtime_with(cx: &Cx, layers: Vec<harn_llm::config::Layer>) -> Rc<LlmRuntime> {
    let vm = cx.vm();
    let embedder = ProgramEmbedder { vm: Rc::downgrade(vm), system: vm.system().clone() };
    let runtime = LlmRuntime::new(Rc::new(embedder));
    crate::llm_layers::configure(&runtime, vm, &cx.caller_dir(), layers);
    Rc::new(runtime)
}

struct ProgramEmbedder {
    vm: Weak<Vm>,
    system: Rc<dyn System>,
}

impl ProgramEmbedder {
    /// Calls the closure that a number in the options represents; `None` if it is not registered.
    async fn ask_closure(&self, number: &Json, input: Json) -> Result<Option<Value>, CallError> {
        let Some(state) = self.state() else { return Ok(None) };
        let running = state.running.borrow().clone();
        let closure = number.as_u64().and_then(|n| state.closures.borrow().get(&n).cloned());
        let (Some(running), Some(closure)) = (running, closure) else { return Ok(None) };
        let input = from_json(&input);
        let answer = if running.in_place {
            running.cx.call(&closure, [input]).await
        } else {
            let task = running.cx.spawn(&closure, vec![input]);
            running.cx.join(&task).await
        };
        answer.map(Some).map_err(|e| CallError::Option(e.caught().to_string()))
    }

    fn state(&self) -> Option<Rc<LlmState>> {
        self.vm.upgrade().map(|vm| vm.extension::<LlmState>())
    }
}

impl harn_llm::Embedder for ProgramEmbedder {
    fn system(&self) -> Rc<dyn System> {
        self.system.clone()
    }

    fn egress(&self) -> Result<Option<Arc<Egress>>, String> {
        let Some(vm) = self.vm.upgrade() else { return Ok(None) };
        harn_stdlib::egress_rules(&vm).map_err(|error| error.uncaught_text())
    }

    fn new_id(&self) -> String {
        self.vm.upgrade().map(|vm| new_id(&vm)).unwrap_or_default()
    }

    fn warn(&self, message: &str) {
        if let Some(vm) = self.vm.upgrade() {
            vm.system().write_err(&harn_syntax::notice(&format!("warning: llm: {message}")));
        }
    }

    fn prose(&self, name: &str, bindings: &Json) -> String {
        let Some(state) = self.state() else { return String::new() };
        let empty = Map::new();
        let bindings = bindings.as_object().unwrap_or(&empty);
        let path = format!("std/{name}.harn.prompt");
        let running = state.running.borrow().clone();
        let text = match (running, state.runtime.get()) {
            (Some(running), Some(runtime)) => state.render(runtime, &path, bindings, &running.llm.value()),
            _ => state.prompts.render(&path, bindings),
        };
        match text {
            Ok(text) => text,
            Err(error) => {
                self.warn(&error.to_string());
                String::new()
            }
        }
    }

    fn assemble_system(&self, options: &Json, fragments: &[Fragment]) -> Result<SystemText, String> {
        let empty = Map::new();
        let options = options.as_object().unwrap_or(&empty);
        let (system, live) = parts(fragments);
        let assembly = harn_prompt::assemble(options, system.as_ref(), &live, None)
            .map_err(|error| error.to_string())?;
        Ok(SystemText { text: assembly.text.clone(), provenance: Some(Rc::new(assembly)) })
    }

    fn remind(&self, options: &Json, last: &dyn Fn() -> Vec<Json>, route: &Route) -> Option<Reminded> {
        let mut pending = options.get("transcript").map(pending).unwrap_or_default();
        if let (Some(session), Some(vm)) =
            (options.get("session_id").and_then(Json::as_str), self.vm.upgrade())
        {
            // A loop has already added the reminders of its session to the transcript.
            let known: Vec<String> = pending.iter().map(|reminder| reminder.id.clone()).collect();
            let waiting = vm.extension::<Reminders>().pending(session);
            pending.extend(waiting.into_iter().filter(|reminder| !known.contains(&reminder.id)));
        }
        if pending.is_empty() {
            return None;
        }
        let caps = SlotCaps {
            prefers_role_developer: route.caps.prefers_role_developer,
            anthropic_wire: route.style == WireStyle::Anthropic,
            prompt_caching: route.caps.prompt_caching,
            prefers_xml_scaffolding: route.caps.prefers_xml_scaffolding,
        };
        let placed = place(&pending, &last(), caps);
        let fragment =
            |f: harn_prompt::Fragment| Fragment { id: f.id, source: "reminder", after: false, body: f.body };
        Some(Reminded {
            messages: placed.messages,
            fragments: placed.fragments.into_iter().map(fragment).collect(),
        })
    }

    fn experiment<'a>(
        &'a self,
        transform: &'a Json,
        input: Json,
    ) -> LocalFuture<'a, Result<Json, CallError>> {
        Box::pin(async move {
            let answer = self.ask_closure(transform, input).await?;
            Ok(answer.map_or(Json::Null, |value| to_json(&value)))
        })
    }

    fn validate_output<'a>(
        &'a self,
        validator: &'a Json,
        data: &'a Json,
    ) -> LocalFuture<'a, Result<Option<String>, CallError>> {
        Box::pin(async move {
            let number = validator.get(VALIDATOR).unwrap_or(&Json::Null);
            let Some(answer) = self.ask_closure(number, data.clone()).await? else { return Ok(None) };
            validation(&answer).map_err(CallError::Option)
        })
    }

    fn progress(&self, message: &str) {
        if let Some(vm) = self.vm.upgrade() {
            vm.system().write_err(&harn_syntax::notice(message));
        }
    }

    fn trace(&self, event: Json) {
        if let Some(state) = self.state() {
            let running = state.running.borrow();
            if let Some(span) = running.as_ref().and_then(|running| running.span.as_ref())
                && event["type"] == "llm_call"
            {
                for key in ["input_tokens", "output_tokens"] {
                    span.note(key, from_json(&event[key]));
                }
            }
            drop(running);
            state.trace.borrow_mut().add(event);
        }
    }
}

/// Sorts the fragments of a call into the rows of prompt assembly: the system prompt and the live parts.
fn parts(fragments: &[Fragment]) -> (Option<Json>, CallParts) {
    let mut live = CallParts::default();
    let mut system = None;
    for fragment in fragments {
        let body = fragment.body.clone();
        match fragment.id.as_str() {
            "primary" => system = Some(Json::String(body)),
            "primary:text_tool_contract" => live.text_tool_contract = Some(body),
            "call:completion_instruction" => live.completion_instruction = Some(body),
            "call:output_instruction" => live.output_instruction = Some(body),
            "transcript:summary" => {
                // Assembly writes the heading itself.
                let summary = body.strip_prefix("Conversation summary:\n").map(str::to_owned);
                live.transcript_summary = Some(summary.unwrap_or(body));
            }
            id if fragment.source == "reminder" => {
                live.reminders.push(harn_prompt::Fragment::new(id, "reminder", body));
            }
            id => {
                let index = id.strip_prefix("message:").and_then(|n| n.parse().ok()).unwrap_or(0);
                live.messages.push((index, body));
            }
        }
    }
    (system, live)
}

/// Creates an identifier (UUIDv7) from the program's clock and random source.
pub(crate) fn new_id(vm: &Vm) -> String {
    let system = vm.system();
    let mut random = [0; 10];
    system.random(&mut random);
    let millis = u64::try_from(system.now_ms()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().to_string()
}
