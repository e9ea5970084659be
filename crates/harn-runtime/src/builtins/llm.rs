//! Model calls.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use harn_llm::runtime::{Completion, LlmRuntime, StreamItem};
use harn_llm::{Call, CallError};
use harn_schema::options::Options;
use harn_value::{Data as Json, data::Map};
use harn_value::{Dict, Value};
use harn_vm::builtin::{OptionDict, Text, kind};
use harn_vm::channel::{Channel, Sender};
use harn_vm::signature::{self, Kinds};
use harn_vm::{Cx, Error, Result, builtins};

use super::stream::Partials;
use crate::convert::{entry, from_json, partial, text, thrown, to_json};
use crate::live;
use crate::llm_embedder::{CallOptions, calling, calling_aside, runtime};
use crate::template_state::OpenContext;

/// Options of `with_rate_limit`.
#[derive(Options)]
struct RateLimitOptions {
    /// Maximum number of retries.
    #[option(default = 5, ty = "int", with = retries)]
    max_retries: i64,
    /// Pause before the first retry; it doubles, up to 30s.
    #[option(default = Duration::from_secs(1), shown = "1s")]
    backoff_ms: Duration,
}

fn retries(value: &Value) -> std::result::Result<i64, String> {
    match value.as_int() {
        Some(count) if count >= 0 => Ok(count),
        _ => Err(format!("must be at least 0, got {value}")),
    }
}

builtins! {
    /// Model calls.
    pub(crate) static LLM: "llm";

    /// Calls a model once and returns its reply in the same shape for every provider.
    ///
    /// Throws an error dict with `category`, `kind`, `reason` and `message`. Invalid options are thrown
    /// as a string before a request is sent.
    ///
    /// ```harn
    /// llm_mock({text: "Paris."})
    /// println(llm_call("The capital of France?", nil, {provider: "mock"}).text) // -> Paris.
    /// ```
    Llm async fn llm_call(cx, prompt: Value as "any?", system: Value as "!text?", options: Value as "call_options?") -> "dict" {
        call_once(&cx, &prompt, &system, &options).await?
    }

    /// Calls a model and returns `{ok, response, error}` instead of throwing.
    ///
    /// ```harn
    /// llm_mock({error: {category: "rate_limit", message: "slow down"}})
    /// let r = llm_call_safe("Hi", nil, {provider: "mock"})
    /// println("${r.ok} ${r.error.category}") // -> false rate_limit
    /// ```
    Llm async fn llm_call_safe(cx, prompt: Value as "any?", system: Value as "!text?", options: Value as "call_options?") -> "dict" {
        let given = options;
        check_system("llm_call_safe", &system)?;
        let (runtime, options) = call_options(&cx, &given);
        let call = call(&prompt, &system, &options);
        let result = match live::listener("llm_call_safe", &given)? {
            Some(listener) => live::llm_call(&cx, runtime, call, &options.json, &listener).await?,
            None => calling(&cx, &options.json, runtime.llm_call(&call)).await,
        };
        from_json(&harn_llm::runtime::safe_json(result))
    }

    /// Calls a model for data of a schema, retries when the reply does not match, and returns the
    /// data.
    ///
    /// ```harn
    /// llm_mock({text: "{\"answer\": 42}"})
    /// let schema = {type: "object", properties: {answer: {type: "integer"}}, required: ["answer"]}
    /// println(llm_call_structured("The answer?", schema, {provider: "mock"}).answer) // -> 42
    /// ```
    Llm async fn llm_call_structured(cx, prompt: Value as "any?", schema: Value as "any?", options: Value as "call_options?") -> "any" {
        live::refuse("llm_call_structured", &options)?;
        let (runtime, options) = call_options(&cx, &options);
        let (prompt, schema) = (prompt_json(&prompt), given(&schema));
        let work = runtime.llm_call_structured(&prompt, schema.as_ref(), &options.json);
        match calling(&cx, &options.json, work).await {
            Ok(data) => from_json(&data),
            // Invalid options are an error of the program, not of the model.
            Err(CallError::Option(message)) if message.contains("`schema`") => return Err(Error::runtime(message)),
            Err(error) => return Err(failed(&error)),
        }
    }

    /// Calls a model like `llm_call_structured` and returns `{ok, data, error}` instead of
    /// throwing.
    ///
    /// ```harn
    /// llm_mock({text: "no json"})
    /// let r = llm_call_structured_safe("x", {type: "object"}, {provider: "mock", retries: 0})
    /// println("${r.ok} ${r.error.category}") // -> false schema_validation
    /// ```
    Llm async fn llm_call_structured_safe(cx, prompt: Value as "any?", schema: Value as "any?", options: Value as "call_options?") -> "dict" {
        live::refuse("llm_call_structured_safe", &options)?;
        let (runtime, options) = call_options(&cx, &options);
        let (prompt, schema) = (prompt_json(&prompt), given(&schema));
        let work = runtime.llm_call_structured_safe(&prompt, schema.as_ref(), &options.json);
        from_json(&calling(&cx, &options.json, work).await)
    }

    /// Calls a model like `llm_call_structured` and returns data, raw text, attempts and usage in
    /// one dict.
    ///
    /// ```harn
    /// llm_mock({text: "Here: {\"a\": 1}"})
    /// let r = llm_call_structured_result("x", {type: "object"}, {provider: "mock"})
    /// println("${r.ok} ${r.data} ${r.extracted_json} ${r.attempts}") // -> true {a: 1} true 1
    /// ```
    Llm async fn llm_call_structured_result(cx, prompt: Value as "any?", schema: Value as "any?", options: Value as "call_options?") -> "dict" {
        live::refuse("llm_call_structured_result", &options)?;
        let (runtime, options) = call_options(&cx, &options);
        let (prompt, schema) = (prompt_json(&prompt), given(&schema));
        let work = runtime.llm_call_structured_result(&prompt, schema.as_ref(), &options.json);
        from_json(&calling(&cx, &options.json, work).await)
    }

    /// Completes a prefix, or fills the gap between a prefix and a suffix.
    ///
    /// ```harn
    /// println(llm_completion("let total = ", ";", nil, {provider: "mock"}).text) // -> Mock completion after 12 chars before 1 chars
    /// ```
    Llm async fn llm_completion(cx, prefix: Text, suffix: Value as "text?", system: Value as "!text?", options: Value as "call_options?") -> "dict" {
        live::refuse("llm_completion", &options)?;
        check_system("llm_completion", &system)?;
        let (runtime, options) = call_options(&cx, &options);
        let completion = Completion {
            prefix: prefix.to_string(),
            suffix: text(&suffix).unwrap_or_default(),
            system: text(&system),
            options: options.json.clone(),
        };
        let result = calling(&cx, &options.json, runtime.llm_completion(&completion)).await;
        from_json(&result.map_err(|e| failed(&e))?)
    }

    /// Calls a model and returns a channel that delivers the reply in pieces.
    ///
    /// The channel closes after the reply. A failed call also closes it, and a loop over the channel throws the error
    /// dict. Dropping or closing the channel closes the connection. `result()` of the channel waits for the end and
    /// returns the dict of `llm_call`.
    ///
    /// ```harn
    /// llm_mock({text: "one two"})
    /// for chunk in llm_stream("Count", nil, {provider: "mock"}) { print("[${chunk}]") }
    /// println("") // -> [one ][two]
    /// ```
    Llm async fn llm_stream(cx, prompt: Value as "any?", system: Value as "!text?", options: Value as "call_options?") -> "channel<string>" {
        live::refuse("llm_stream", &options)?;
        let (runtime, options) = call_options(&cx, &options);
        check_system("llm_stream", &system)?;
        let call = call(&prompt, &system, &options);
        // Invalid options are reported to the caller, before the channel is returned.
        let prepared = calling(&cx, &options.json, async { runtime.prepare(&call) }).await;
        let prepared = prepared.map_err(|e| failed(&e))?;
        let partials = harn_llm::structured::PartialAnswer::new(&prepared.options.output);
        let channel = Channel::with_result("llm_stream", 64, Partials(RefCell::new(partials)));
        let sender = channel.sender();
        let (give, take) = tokio::sync::mpsc::unbounded_channel();
        let owner = cx.clone();
        harn_vm::spawn(async move {
            let mut deliver = move |item| {
                // The receiver lives as long as the stream, so no item is lost.
                let _ = give.send(item);
            };
            let produce = async move { runtime.stream_prepared(&call, prepared, &mut deliver).await };
            let produce = calling_aside(&owner, &options.json, produce);
            let streamed = async { tokio::join!(biased; produce, forward(take, &sender)) };
            // Dropping its future closes the connection when all receivers are dropped. The order of the branches is
            // fixed, because journal replay follows the order of polls.
            tokio::select! {
                biased;
                () = sender.closed() => {}
                _ = streamed => sender.close(),
            }
        });
        channel.into_value()
    }

    /// Returns a caller: a closure that takes `{prompt, system, options}` and returns the result of `llm_call`.
    ///
    /// `options.handlers` is a list of closures `(call, next) -> result` around the call, outermost first;
    /// the other options are the defaults of each call.
    ///
    /// ```harn
    /// let loud = { call, next -> next({...call, prompt: call.prompt.upper()}) }
    /// let caller = default_llm_caller({provider: "mock", handlers: [loud]})
    /// println(caller({prompt: "hi"}).text) // -> Mock response to 1-word prompt: HI
    /// ```
    Llm fn default_llm_caller(cx, options: Value as "call_options?") -> "closure" {
        let mut defaults = dict(&options);
        // A misspelled `handlers` would disable all handlers.
        let is_option = |key: &str| crate::option_sets::call_options().iter().any(|option| option.name == key);
        let slip = defaults.iter().map(|(key, _)| key.to_string()).find(|key| {
            key != "handlers" && !is_option(key) && harn_llm::options::nearest(key, ["handlers"].into_iter()).is_some()
        });
        if let Some(key) = slip {
            return Err(thrown(format!("default_llm_caller: unknown option `{key}` (did you mean `handlers`?)")));
        }
        let handlers = match defaults.remove("handlers") {
            None => Value::list(Vec::new()),
            Some(nil) if nil.is_nil() => Value::list(Vec::new()),
            Some(list) if list.as_list().is_some_and(|l| l.iter().all(harn_vm::closure::is_callable)) => list,
            Some(_) => return Err(thrown("default_llm_caller: handlers must be a list of closures")),
        };
        partial(cx, "__llm_caller", vec![handlers, defaults.into()])?
    }

    /// Runs a call through the handlers of a caller, starting with the first.
    Llm async fn llm_caller = "__llm_caller"(cx, handlers: Value as "any?", defaults: Value as "any?", call: Value as "any?") -> "dict" {
        check_call(&call)?;
        let call = with_defaults(&call, &defaults);
        let llm = crate::llm_embedder::binding(&cx, &to_json(&entry(&call, "options")));
        let _open = OpenContext::new(&cx, llm);
        let next = partial(&cx, "__llm_caller_step", vec![handlers, defaults, Value::int(0)])?;
        cx.call(&next, [call]).await?
    }

    /// Runs the handler at a depth of a caller's stack; after the last handler, `llm_call` runs.
    Llm async fn llm_caller_step = "__llm_caller_step"(cx, handlers: Value as "any?", defaults: Value as "any?", depth: i64, call: Value as "any?") -> "dict" {
        check_call(&call)?;
        let call = with_defaults(&call, &defaults);
        let at = usize::try_from(depth).unwrap_or(usize::MAX);
        let Some(handler) = handlers.as_list().and_then(|l| l.get(at)).cloned() else {
            let ask = partial(&cx, "llm_call", Vec::new())?;
            return cx.call(&ask, ["prompt", "system", "options"].map(|key| entry(&call, key))).await;
        };
        let next = partial(&cx, "__llm_caller_step", vec![handlers, defaults, Value::int(depth + 1)])?;
        cx.call(&handler, [call, next]).await?
    }

    /// Calls a closure under the rate limit of a provider and retries transient failures with a growing pause.
    ///
    /// The end of a `deadline` around the call and cancellation are not transient.
    ///
    /// ```harn
    /// println(with_rate_limit("mock", { -> 7 })) // -> 7
    /// ```
    Llm async fn with_rate_limit(cx, provider: Value as "!string", body: Value as "!closure", options: OptionDict<RateLimitOptions>) -> "any" {
        let provider = match provider.as_str() {
            Some(name) if !name.trim().is_empty() => name.to_string(),
            _ => return Err(Error::runtime("with_rate_limit: provider name is required")),
        };
        if !harn_vm::closure::is_callable(&body) {
            return Err(Error::runtime("with_rate_limit: second argument must be a closure"));
        }
        let RateLimitOptions { max_retries: mut left, backoff_ms } = options.read()?;
        let mut pause = backoff_ms.max(Duration::from_millis(1));
        let runtime = runtime(&cx);
        loop {
            runtime.acquire(&provider).await;
            let deadlines = cx.task().deadline_count();
            let error = match cx.call(&body, []).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            // An expired deadline around the call, or a cancellation, is not a failure of the closure.
            let is_its_own = !cx.task().interrupted_since(deadlines);
            let passes = is_its_own && error.is_catchable() && left > 0 && {
                let category = harn_llm::runtime::category_of(&to_json(&error.caught()));
                matches!(category.as_str(), "rate_limit" | "overloaded" | "transient_network" | "timeout")
            };
            if !passes {
                return Err(error);
            }
            left -= 1;
            cx.sleep(pause).await?;
            pause = (pause * 2).min(Duration::from_secs(30));
        }
        #[allow(unreachable_code, reason = "the loop returns; the macro wants a value")]
        Value::NIL
    }

    /// Checks a provider: its address, its key and, if a model is given, the model.
    ///
    /// Never throws.
    ///
    /// ```harn
    /// let r = llm_healthcheck("nobody")
    /// println("${r.valid} ${r.metadata.reason}") // -> false unknown_provider
    /// ```
    Net async fn llm_healthcheck(cx, provider: Value as "string | health_options?", options: Value as "string | health_options?") -> "dict" {
        let (name, settings) = match provider.to_dict() {
            Some(dict) => (dict.get_str("provider").map(Value::to_string), to_json(&dict.into())),
            None => (text(&provider), Json::Null),
        };
        let mut settings = settings.as_object().cloned().unwrap_or_default();
        match options.as_str() {
            Some(model) => {
                settings.insert("model".into(), model.as_str().into());
            }
            None => settings.extend(crate::convert::options(&options)),
        }
        let runtime = runtime(&cx);
        let name = name.unwrap_or_else(|| "anthropic".to_owned());
        from_json(&runtime.healthcheck(&name, &Json::Object(settings)).await)
    }
}

/// Returns the model runtime of the program and the options of a call; warns about unknown options.
fn call_options(cx: &Cx, given: &Value) -> (Rc<LlmRuntime>, CallOptions) {
    let (runtime, options) = (runtime(cx), CallOptions::new(cx, given));
    runtime.notice_slips(&options.json, &[], true);
    (runtime, options)
}

/// Implements `llm_call`.
pub(crate) async fn call_once(cx: &Cx, prompt: &Value, system: &Value, given: &Value) -> Result<Value> {
    let (runtime, mut options) = call_options(cx, given);
    check_system("llm_call", system)?;
    let listener = live::listener("llm_call", given)?;
    let session = super::session::begin(cx, &mut options.json).await?;
    let call = call(prompt, system, &options);
    let result = match listener {
        Some(listener) => live::llm_call(cx, runtime, call, &options.json, &listener).await?,
        None => calling(cx, &options.json, runtime.llm_call(&call)).await,
    };
    let result = result.map_err(|e| failed(&e))?;
    super::session::end(cx, session, &result).await?;
    Ok(from_json(&result))
}

/// Rejects a system prompt that is not a string. Options in its place would be shown to the model without taking
/// effect.
pub(crate) fn check_system(name: &str, system: &Value) -> Result<()> {
    if is_text(system) {
        return Ok(());
    }
    Err(thrown(signature::wrong_type(name, "system", "text", system.type_name())))
}

/// Returns whether a value is accepted where a string is expected.
pub(super) fn is_text(value: &Value) -> bool {
    value.is_nil() || Kinds::TEXT.meets(kind(value))
}

/// Creates a call from its three arguments.
pub(crate) fn call(prompt: &Value, system: &Value, options: &CallOptions) -> Call {
    Call {
        prompt: prompt_json(prompt),
        system: text(system),
        options: Rc::new(options.json.clone()),
        ..Call::default()
    }
}

/// Forwards the items of a stream until it ends or fails, or all receivers are dropped.
async fn forward(mut items: tokio::sync::mpsc::UnboundedReceiver<StreamItem>, sender: &Sender) {
    while let Some(item) = items.recv().await {
        match item {
            StreamItem::Chunk(text) => {
                if !sender.send(Value::str(&text)).await {
                    return;
                }
            }
            StreamItem::Result(result) => sender.settle(from_json(&result)),
            StreamItem::Failed(error) => return sender.fail(failed(&error)),
        }
    }
}

/// Returns a copy of a dict; an empty dict for any other value.
fn dict(value: &Value) -> Dict {
    value.to_dict().map(|dict| (*dict).clone()).unwrap_or_default()
}

/// Rejects a call without a prompt.
fn check_call(call: &Value) -> Result<()> {
    let Some(parts) = call.to_dict() else {
        let text = format!(
            "caller: the call must be a dict {{prompt, system?, options?}}, got {}",
            call.type_name()
        );
        return Err(thrown(text));
    };
    // Nothing reads other keys: a budget or a policy there would protect nothing.
    let known = ["prompt", "system", "options"];
    let unknown = parts.iter().map(|(key, _)| key.to_string());
    if let Some(key) = unknown.into_iter().find(|key| !known.contains(&key.as_str()) && !key.starts_with('_'))
    {
        let advice = match harn_llm::options::nearest(&key, known.into_iter()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if crate::call_options().iter().any(|field| field.name == key) => {
                format!("write `options: {{{key}: ...}}`")
            }
            None => format!("expected {}", known.join(", ")),
        };
        return Err(thrown(format!("caller: unknown key `{key}` in the call; {advice}")));
    }
    let options = entry(call, "options");
    let asks = [entry(call, "prompt"), entry(&options, "messages"), entry(&options, "transcript")];
    if asks.iter().all(Value::is_nil) {
        return Err(thrown("caller: the call has neither a `prompt` nor `options.messages`"));
    }
    Ok(())
}

/// Returns a call dict whose options are merged over the defaults of its caller.
fn with_defaults(call: &Value, defaults: &Value) -> Value {
    let mut options = dict(defaults);
    options.extend(dict(&entry(call, "options")).iter().map(|(key, value)| (key.clone(), value.clone())));
    let mut call = dict(call);
    call.insert("options", options);
    call.into()
}

/// Converts a prompt: a list of messages is passed through, any other value becomes its display form.
fn prompt_json(prompt: &Value) -> Json {
    if prompt.is_nil() || prompt.as_list().is_some() { to_json(prompt) } else { text(prompt).into() }
}

fn given(value: &Value) -> Option<Json> {
    (!value.is_nil()).then(|| to_json(value))
}

/// Returns the error that scripts catch after a failed call.
pub(crate) fn failed(error: &CallError) -> Error {
    Error::thrown(from_json(&error.to_thrown()))
}

/// Creates the call dict that caller closures receive.
pub(crate) fn call_dict(options: Map<String, Json>) -> Value {
    let mut dict = harn_value::Dict::new();
    dict.insert("prompt", "");
    dict.insert("system", Value::NIL);
    dict.insert("options", from_json(&Json::Object(options)));
    dict.into()
}
