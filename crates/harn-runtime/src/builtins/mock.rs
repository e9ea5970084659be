//! The mock provider: scripted replies without a network.

use harn_value::Value;
use harn_vm::{Error, builtins};

use crate::convert::{entry, from_json, to_json};
use crate::llm_embedder::runtime;

builtins! {
    /// Mock replies of models.
    pub(crate) static MOCK: "mock";

    /// Queues a reply of the mock model; while replies are queued, no call reaches the network.
    ///
    /// Replies without `match` are used in order. A reply with `match`, a glob over the messages, is used for each call that
    /// matches, or once with `consume_match`.
    ///
    /// ```harn
    /// llm_mock({text: "I do not know.", match: "*unknown*"})
    /// println(llm_call("Something unknown", nil, {provider: "mock"}).text) // -> I do not know.
    /// ```
    State fn llm_mock(cx, answer: Value as "string | mock_answer | list?") -> "nil" {
        let mut given = to_json(&answer);
        // The wait may be a duration.
        if let Some(wait) = entry(&entry(&answer, "error"), "retry_after_ms").as_duration() {
            given["error"]["retry_after_ms"] = wait.into();
        }
        runtime(cx).mock_push(&given).map_err(Error::runtime)?;
    }

    /// Returns the calls that the mock received: `{messages, system, tools, thinking}` per call.
    ///
    /// ```harn
    /// llm_call("Hi", "Be brief.", {provider: "mock"})
    /// println(llm_mock_calls()[0].system) // -> Be brief.
    /// ```
    State fn llm_mock_calls(cx) -> "list<dict>" {
        runtime(cx).mock_calls().iter().map(from_json).collect::<Vec<Value>>()
    }

    /// Removes queued replies and recorded calls.
    ///
    /// ```harn
    /// llm_mock({text: "x"})
    /// llm_mock_clear()
    /// println(llm_call("Hi", nil, {provider: "mock"}).text) // -> Mock response to 1-word prompt: Hi
    /// ```
    State fn llm_mock_clear(cx) -> "nil" {
        runtime(cx).mock_clear();
    }

    /// Saves the queued replies and recorded calls of the mock, and starts with none.
    ///
    /// ```harn
    /// llm_mock({text: "outer"})
    /// llm_mock_push_scope()
    /// println(llm_call("Hi", nil, {provider: "mock"}).text) // -> Mock response to 1-word prompt: Hi
    /// llm_mock_pop_scope()
    /// println(llm_call("Hi", nil, {provider: "mock"}).text) // -> outer
    /// ```
    State fn llm_mock_push_scope(cx) -> "nil" {
        runtime(cx).mock_push_scope();
    }

    /// Restores the replies and calls that the last `llm_mock_push_scope` saved.
    ///
    /// ```harn
    /// println(try { llm_mock_pop_scope() }) // -> Result.Err(llm_mock_pop_scope: no scope to pop)
    /// ```
    State fn llm_mock_pop_scope(cx) -> "nil" {
        runtime(cx).mock_pop_scope().map_err(Error::thrown)?;
    }
}
