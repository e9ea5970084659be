//! The option `on_delta`: a closure that gets the text of a reply while it arrives.

use std::rc::Rc;

use harn_llm::{Call, CallError, LlmRuntime};
use harn_value::Data as Json;
use harn_value::Value;
use harn_vm::closure::is_callable;
use harn_vm::{Cx, Result};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::convert::{entry, thrown};
use crate::llm_embedder::{binding, calling_aside};
use crate::template_state::OpenContext;

/// The listener among the options of a call.
///
/// # Errors
/// It is no function.
pub(crate) fn listener(name: &str, options: &Value) -> Result<Option<Value>> {
    let listener = entry(options, "on_delta");
    if listener.is_nil() {
        return Ok(None);
    }
    if !is_callable(&listener) {
        return Err(thrown(format!("{name}: on_delta must be a closure, got {}", listener.type_name())));
    }
    Ok(Some(listener))
}

/// Refuses a listener where nothing would call it.
///
/// # Errors
/// There is one.
pub(crate) fn refuse(name: &str, options: &Value) -> Result<()> {
    match listener(name, options)? {
        None => Ok(()),
        Some(_) => {
            Err(thrown(format!("{name}: on_delta is an option of llm_call, llm_call_safe and agent_loop")))
        }
    }
}

/// `llm_call` with a listener.
///
/// # Errors
/// What the listener throws; the call is given up then.
pub(crate) async fn llm_call(
    cx: &Cx,
    runtime: Rc<LlmRuntime>,
    call: Call,
    options: &Json,
    listener: &Value,
) -> Result<std::result::Result<Json, CallError>> {
    let (give, take) = unbounded_channel();
    let called = runtime.clone();
    let work = async move {
        let mut deliver = move |text: String| drop(give.send(text));
        let finished = called.call_live(&call, &mut deliver).await?;
        Ok(called.result_json(&finished))
    };
    let tell = async |text: String| cx.call(listener, [Value::str(&text)]).await.map(drop);
    // The listener renders for the model of the call.
    let _open = OpenContext::new(cx, binding(cx, options));
    beside(&runtime, calling_aside(cx, options, work), take, tell).await
}

/// Runs a call to its end and hands its text on meanwhile, all of it before the end. The call pauses while `tell` runs.
///
/// # Errors
/// What `tell` fails with.
pub(crate) async fn beside<T, P>(
    runtime: &LlmRuntime,
    work: impl Future<Output = T>,
    mut pieces: UnboundedReceiver<P>,
    mut tell: impl AsyncFnMut(P) -> Result<()>,
) -> Result<T> {
    let mut work = std::pin::pin!(work);
    let out = loop {
        tokio::select! {
            biased;
            Some(piece) = pieces.recv() => {
                let _paused = runtime.ledger().pause();
                tell(piece).await?;
            }
            out = &mut work => break out,
        }
    };
    while let Ok(piece) = pieces.try_recv() {
        tell(piece).await?;
    }
    Ok(out)
}
