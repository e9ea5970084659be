//! The methods of the channel that `llm_stream` returns.

use std::cell::RefCell;
use std::rc::Rc;

use harn_llm::structured::PartialAnswer;
use harn_value::Value;
use harn_value::json::from_data;
use harn_vm::channel::{Channel, StreamValue};
use harn_vm::iter::{NextFuture, Source};
use harn_vm::{Cx, Error, Result, among_tasks, builtins};

use crate::convert::{entry, to_json};

/// The answer of a stream as far as it was received; `None` for a call without a schema.
pub(super) struct Partials(pub(super) RefCell<Option<PartialAnswer>>);

/// Pieces of text as the values that they are the beginning of.
struct PartialValues {
    channel: Value,
    partials: Rc<Partials>,
}

impl Source for PartialValues {
    fn next<'a>(&'a mut self, _cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(among_tasks(async {
            let Some(channel) = self.channel.downcast::<Channel>() else { return Ok(None) };
            while let Some(piece) = channel.receive_or_fail().await? {
                let text = piece.as_str().map(|text| text.to_string()).unwrap_or_default();
                let value = self.partials.0.borrow_mut().as_mut().and_then(|answer| answer.push(&text));
                if let Some(value) = value {
                    return Ok(Some(from_data(&value)));
                }
            }
            // A channel that the program has closed has no result.
            let Ok(result) = channel.result().await else { return Ok(None) };
            let data = to_json(&entry(&result, "data"));
            let value = self.partials.0.borrow_mut().as_mut().and_then(|answer| answer.complete(&data));
            Ok(value.map(|value| from_data(&value)))
        }))
    }

    fn left(&mut self) {
        if let Some(channel) = self.channel.downcast::<Channel>() {
            channel.close();
        }
    }

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        visit(&self.channel);
    }
}

fn channel_of(this: &Value, method: &str) -> Result<Channel> {
    let channel = this.downcast::<Channel>().cloned();
    channel.ok_or_else(|| {
        Error::type_error(format!("channel.{method}: expected channel, got {}", this.type_name()))
    })
}

builtins! {
    /// Methods of the channel of `llm_stream`.
    pub(crate) static RESULT: "channel";

    /// Waits for the end of the reply of `llm_stream` and returns the dict that `llm_call` would have returned.
    ///
    /// Pieces that are not received yet stay in the channel. A call that fails throws its error here, too.
    ///
    /// ```harn
    /// llm_mock({text: "one two", output_tokens: 2})
    /// let stream = llm_stream("Count", nil, {provider: "mock"})
    /// println(stream.result().output_tokens) // -> 2
    /// ```
    State async fn result(cx, this: Value) -> "dict" {
        channel_of(&this, "result")?.result().await?
    }

    /// Returns a stream of the answer so far: dicts or lists that fit the schema of `llm_stream` as far as they have arrived.
    ///
    /// Keys that are still missing and limits that more text may satisfy are no errors. A string is as long as what has arrived of
    /// it; a string of an `enum` appears when it is complete. The last value is the whole
    /// answer. The call throws where it does not fit. Leaving the loop closes the connection.
    ///
    /// ```harn
    /// llm_mock({text: "[\"Bern\", \"Basel\"]"})
    /// let cities = llm_stream("Cities?", nil, {provider: "mock", schema: schema_of(list<string>)})
    /// println(cities.partials().iter().to_list()) // -> [[Bern], [Bern, Basel]]
    /// ```
    State fn partials(cx, this: Value) -> "stream" {
        let partials = channel_of(&this, "partials")?.data::<Partials>();
        let Some(partials) = partials.filter(|partials| partials.0.borrow().is_some()) else {
            let text = "channel.partials: only the channel of llm_stream with a schema has partial values; pass `schema`"; // prose-ok: diagnostic
            return Err(Error::runtime(text));
        };
        StreamValue::value(PartialValues { channel: this, partials })
    }
}
