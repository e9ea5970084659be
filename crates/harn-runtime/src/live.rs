//! The option `on_delta`: a closure that receives text of a reply while it arrives.

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

/// Returns the listener in the options of a call.
///
/// # Errors
/// The value is not a function.
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

/// Rejects a listener for functions that would not call it.
///
/// # Errors
/// The options contain a listener.
pub(crate) fn refuse(name: &str, options: &Value) -> Result<()> {
    match listener(name, options)? {
        None => Ok(()),
        Some(_) => {
            Err(thrown(format!("{name}: on_delta is an option of llm_call, llm_call_safe and agent_loop")))
        }
    }
}

/// Implements `llm_call` with a listener.
///
/// # Errors
/// The listener throws; the call is aborted.
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

/// Runs a call and passes text to `tell` as it arrives; all text is passed before this function returns. The call
/// pauses while `tell` runs.
///
/// # Errors
/// An error of `tell`.
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
