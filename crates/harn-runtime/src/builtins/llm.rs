//! Model calls.

use harn_llm::runtime::{Completion, StreamItem};
use harn_llm::{Call, CallError};
use harn_value::Value;
use harn_vm::builtin::Text;
use harn_vm::channel::Channel;
use harn_vm::{Error, builtins};
use serde_json::{Map, Value as Json};

use crate::convert::{entry, from_json, options, text, to_json};
use crate::llm_host::runtime;

/// How often a silent stream looks whether anybody still listens.
const LISTENER_CHECK: std::time::Duration = std::time::Duration::from_millis(50);

builtins! {
    /// Model calls.
    pub(crate) static LLM: "llm";

    /// Calls a model once and returns its reply in the same shape for every provider.
    ///
    /// Throws an error dict with `category`, `kind`, `reason` and `message`; wrong options are thrown as
    /// text before anything is sent.
    ///
    /// ```harn
    /// llm_mock({text: "Paris."})
    /// println(llm_call("The capital of France?", nil, {provider: "mock"}).text) // -> Paris.
    /// ```
    Llm async fn llm_call(cx, prompt: Value, system: Value, options: Value) -> "dict" {
        let runtime = runtime(&cx);
        let result = runtime.llm_call(&call(&prompt, &system, &options)).await;
        from_json(&result.map_err(|e| failed(&e))?)
    }

    /// Calls a model and returns `{ok, response, error}` instead of throwing.
    ///
    /// ```harn
    /// llm_mock({error: {category: "rate_limit", message: "slow down"}})
    /// let r = llm_call_safe("Hi", nil, {provider: "mock"})
    /// println("${r.ok} ${r.error.category}") // -> false rate_limit
    /// ```
    Llm async fn llm_call_safe(cx, prompt: Value, system: Value, options: Value) -> "dict" {
        let runtime = runtime(&cx);
        from_json(&runtime.llm_call_safe(&call(&prompt, &system, &options)).await)
    }

    /// Calls a model for data of a schema, asking again when the reply does not match, and returns it.
    ///
    /// ```harn
    /// llm_mock({text: "{\"answer\": 42}"})
    /// let schema = {type: "object", properties: {answer: {type: "integer"}}, required: ["answer"]}
    /// println(llm_call_structured("The answer?", schema, {provider: "mock"}).answer) // -> 42
    /// ```
    Llm async fn llm_call_structured(cx, prompt: Value, schema: Value, options: Value) -> "any" {
        let runtime = runtime(&cx);
        let (schema, options) = (given(&schema), Json::Object(crate::convert::options(&options)));
        let result = runtime.llm_call_structured(&prompt_json(&prompt), schema.as_ref(), &options).await;
        match result {
            Ok(data) => from_json(&data),
            // What is wrong with the call itself is an error of the program, not of the model.
            Err(CallError::Option(message)) if message.contains("`schema`") => return Err(Error::runtime(message)),
            Err(error) => return Err(failed(&error)),
        }
    }

    /// As `llm_call_structured`, returning `{ok, data, error}` instead of throwing.
    ///
    /// ```harn
    /// llm_mock({text: "no json"})
    /// let r = llm_call_structured_safe("x", {type: "object"}, {provider: "mock", retries: 0})
    /// println("${r.ok} ${r.error.category}") // -> false schema_validation
    /// ```
    Llm async fn llm_call_structured_safe(cx, prompt: Value, schema: Value, options: Value) -> "dict" {
        let runtime = runtime(&cx);
        let (schema, options) = (given(&schema), Json::Object(crate::convert::options(&options)));
        from_json(&runtime.llm_call_structured_safe(&prompt_json(&prompt), schema.as_ref(), &options).await)
    }

    /// As `llm_call_structured`, returning data, raw text, attempts and usage in one envelope.
    ///
    /// ```harn
    /// llm_mock({text: "Here: {\"a\": 1}"})
    /// let r = llm_call_structured_result("x", {type: "object"}, {provider: "mock"})
    /// println("${r.ok} ${r.data} ${r.extracted_json} ${r.attempts}") // -> true {a: 1} true 1
    /// ```
    Llm async fn llm_call_structured_result(cx, prompt: Value, schema: Value, options: Value) -> "dict" {
        let runtime = runtime(&cx);
        let (schema, options) = (given(&schema), Json::Object(crate::convert::options(&options)));
        from_json(&runtime.llm_call_structured_result(&prompt_json(&prompt), schema.as_ref(), &options).await)
    }

    /// Continues a text, or fills the gap between two.
    ///
    /// ```harn
    /// println(llm_completion("let total = ", ";", nil, {provider: "mock"}).text) // -> Mock completion after 12 chars before 1 chars
    /// ```
    Llm async fn llm_completion(cx, prefix: Text, suffix: Value, system: Value, options: Value) -> "dict" {
        let completion = Completion {
            prefix: prefix.to_string(),
            suffix: text(&suffix).unwrap_or_default(),
            system: text(&system),
            options: Json::Object(crate::convert::options(&options)),
        };
        let runtime = runtime(&cx);
        let result = runtime.llm_completion(&completion).await;
        from_json(&result.map_err(|e| failed(&e))?)
    }

    /// Calls a model and returns a channel that delivers the reply piece by piece.
    ///
    /// A call that fails before its first word throws; the channel closes with the reply. Dropping or
    /// closing it closes the connection.
    ///
    /// ```harn
    /// llm_mock({text: "one two"})
    /// for chunk in llm_stream("Count", nil, {provider: "mock"}) { print("[${chunk}]") }
    /// println("") // -> [one ][two]
    /// ```
    Llm async fn llm_stream(cx, prompt: Value, system: Value, options: Value) -> "channel<string>" {
        let runtime = runtime(&cx);
        let call = call(&prompt, &system, &options);
        // Wrong options are the caller's business, so they are found before the channel is handed out.
        runtime.prepare(&call).map_err(|e| failed(&e))?;
        let channel = Channel::new("llm_stream", 64);
        let sender = channel.sender();
        let (give, mut take) = tokio::sync::mpsc::unbounded_channel();
        let mut deliver = move |item| {
            // The receiver lives as long as the stream: nobody misses an item.
            let _ = give.send(item);
        };
        let vm = cx.vm().clone();
        let (first_give, first_take) = tokio::sync::oneshot::channel();
        tokio::task::spawn_local(async move {
            let forward = async {
                let mut first = Some(first_give);
                let mut begin = |failure: Option<CallError>| match first.take() {
                    Some(first) => first.send(failure).err().flatten(),
                    None => failure,
                };
                while let Some(item) = take.recv().await {
                    match item {
                        StreamItem::Chunk(text) => {
                            begin(None);
                            if !sender.send(Value::str(&text)).await {
                                return;
                            }
                        }
                        StreamItem::Failed(error) => {
                            if let Some(error) = begin(Some(error)) {
                                let text = error.message();
                                vm.host().write_err(&format!("[harn] warning: llm: stream broke off: {text}\n"));
                            }
                            return;
                        }
                    }
                }
            };
            let produce = async move {
                let ended = runtime.llm_stream(&call, &mut deliver).await;
                drop(deliver);
                ended
            };
            // The connection is closed by dropping its future as soon as nobody listens.
            tokio::pin!(forward, produce);
            let mut produced = false;
            while sender.is_open() {
                tokio::select! {
                    () = &mut forward => break,
                    _ = &mut produce, if !produced => produced = true,
                    // Nobody says when the last receiver goes away, so it is looked for now and then.
                    () = tokio::time::sleep(LISTENER_CHECK) => {}
                }
            }
            sender.close();
        });
        // A call that fails before its first word fails here, as an error that can be caught.
        if let Ok(Some(error)) = first_take.await {
            return Err(failed(&error));
        }
        channel.into_value()
    }

    /// Calls a closure under the rate limit of a provider, and again with a growing pause when it fails
    /// for a reason that passes.
    ///
    /// ```harn
    /// println(with_rate_limit("mock", { -> 7 })) // -> 7
    /// ```
    Llm async fn with_rate_limit(cx, provider: Value, body: Value, options: Value) -> "any" {
        let provider = match provider.as_str() {
            Some(name) if !name.trim().is_empty() => name.to_string(),
            _ => return Err(Error::runtime("with_rate_limit: provider name is required")),
        };
        if !harn_vm::closure::is_callable(&body) {
            return Err(Error::runtime("with_rate_limit: second argument must be a closure"));
        }
        let number = |key: &str, default: i64| entry(&options, key).as_int().unwrap_or(default);
        let mut left = number("max_retries", 5);
        let mut pause = number("backoff_ms", 1000).max(1);
        let runtime = runtime(&cx);
        loop {
            runtime.acquire(&provider).await;
            let error = match cx.call(&body, []).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let passes = error.is_catchable() && left > 0 && {
                let category = harn_llm::runtime::category_of(&to_json(&error.caught()));
                matches!(category.as_str(), "rate_limit" | "overloaded" | "transient_network" | "timeout")
            };
            if !passes {
                return Err(error);
            }
            left -= 1;
            cx.sleep(std::time::Duration::from_millis(u64::try_from(pause).unwrap_or(1))).await?;
            pause = (pause * 2).min(30_000);
        }
        #[allow(unreachable_code, reason = "the loop returns; the macro wants a value")]
        Value::NIL
    }

    /// Checks a provider: its address, its key and, when given, a model. Never throws.
    ///
    /// ```harn
    /// let r = llm_healthcheck("nobody")
    /// println("${r.valid} ${r.metadata.reason}") // -> false unknown_provider
    /// ```
    Net async fn llm_healthcheck(cx, provider: Value, options: Value) -> "dict" {
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

/// The call that three arguments describe.
pub(crate) fn call(prompt: &Value, system: &Value, given: &Value) -> Call {
    Call { prompt: prompt_json(prompt), system: text(system), options: Json::Object(options(given)) }
}

/// A prompt: text, a list of messages, or anything else in its display form.
fn prompt_json(prompt: &Value) -> Json {
    if prompt.is_nil() || prompt.as_list().is_some() { to_json(prompt) } else { prompt.to_string().into() }
}

fn given(value: &Value) -> Option<Json> {
    (!value.is_nil()).then(|| to_json(value))
}

/// What a script catches of a failed call.
pub(crate) fn failed(error: &CallError) -> Error {
    Error::thrown(from_json(&error.to_thrown()))
}

/// The dict of a call, for caller closures.
pub(crate) fn call_dict(options: Map<String, Json>) -> Value {
    let mut dict = harn_value::Dict::new();
    dict.insert("prompt", "");
    dict.insert("system", Value::NIL);
    dict.insert("options", from_json(&Json::Object(options)));
    dict.into()
}
