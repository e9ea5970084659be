//! The client as the host of the program: calls of `host_call` go to it as `harnHostCall`, a request in the other direction.

use std::sync::Arc;

use harn_runtime::{Answer, HostBridge};
use harn_value::{Value, json};
use harn_vm::Error;

use super::shared::Shared;

/// What a client that does not know a call answers: then what is built in counts.
const UNSUPPORTED: &str = "notSupported";

/// A client that said `supportsHarnHostCall` when it greeted.
pub(super) struct Client {
    pub(super) shared: Arc<Shared>,
}

impl HostBridge for Client {
    fn call<'a>(&'a self, capability: &'a str, operation: &'a str, params: Value) -> Answer<'a> {
        Box::pin(async move {
            let params = match json::to_data(&params) {
                Ok(params) => params,
                Err(error) => return Some(Err(Error::thrown(format!("host_call: {error}")))),
            };
            let name = format!("{capability}.{operation}");
            let asked = self.shared.ask("harnHostCall", json!({"name": name, "params": params}));
            match asked.await {
                Ok(Ok(body)) => Some(Ok(json::from_data(&body["value"]))),
                Ok(Err(text)) if text == UNSUPPORTED => None,
                Ok(Err(text)) => Some(Err(Error::thrown(text))),
                Err(_) => Some(Err(Error::thrown("the debugger has gone"))),
            }
        })
    }

    fn call_tool<'a>(&'a self, _name: &'a str, _arguments: Value) -> Answer<'a> {
        Box::pin(async { None })
    }
}
