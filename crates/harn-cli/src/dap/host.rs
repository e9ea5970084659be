//! The client as the host of the program: `host_call` sends it the reverse request `harnHostCall`.

use std::sync::Arc;

use harn_runtime::{Answer, HostBridge};
use harn_value::{Value, json};
use harn_vm::Error;

use super::shared::Shared;

/// The client's error for an unsupported call. The built-in implementation is used then.
const UNSUPPORTED: &str = "notSupported";

/// A client that declared `supportsHarnHostCall` in its `initialize` request.
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
