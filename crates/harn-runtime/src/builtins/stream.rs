//! The method of the channel that `llm_stream` returns.

use harn_value::Value;
use harn_vm::channel::Channel;
use harn_vm::{Error, builtins};

builtins! {
    /// What a channel gives besides its items.
    pub(crate) static RESULT: "channel";

    /// Waits for the end of the reply of `llm_stream` and gives the dict that `llm_call` would have given.
    ///
    /// Pieces that nobody has received yet stay in the channel. A call that fails throws its error here, too.
    ///
    /// ```harn
    /// llm_mock({text: "one two", output_tokens: 2})
    /// let stream = llm_stream("Count", nil, {provider: "mock"})
    /// println(stream.result().output_tokens) // -> 2
    /// ```
    State async fn result(cx, this: Value) -> "dict" {
        let Some(channel) = this.downcast::<Channel>().cloned() else {
            return Err(Error::type_error(format!("channel.result: expected channel, got {}", this.type_name())));
        };
        channel.result().await?
    }
}
