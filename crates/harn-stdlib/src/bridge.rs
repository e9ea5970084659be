//! The host of a program for `host_call`: an editor, a server or an agent client. The command line has no host; an
//! embedder of the virtual machine can attach one.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use harn_value::Value;
use harn_vm::{Cx, Result, Vm};

/// The result of an attached host; `None` if it does not support the operation.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Option<Result<Value>>> + 'a>>;

/// A host that a program can call.
pub trait HostBridge {
    /// Performs `<capability>.<operation>` with a dict of parameters.
    fn call<'a>(&'a self, capability: &'a str, operation: &'a str, params: Value) -> Answer<'a>;

    /// Sends a notification to the host, such as a progress note or a request to the user.
    fn notify(&self, _method: &str, _params: Value) {}

    /// Returns the descriptions of the host's tools.
    fn tools(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Calls one of the host's tools; `None` if no tool has that name.
    fn call_tool<'a>(&'a self, name: &'a str, arguments: Value) -> Answer<'a>;
}

/// The attached host of a virtual machine.
#[derive(Default)]
struct Attached(RefCell<Option<Rc<dyn HostBridge>>>);

/// Attaches a host to the programs of a virtual machine.
pub fn attach_host(vm: &Vm, bridge: Rc<dyn HostBridge>) {
    *vm.extension::<Attached>().0.borrow_mut() = Some(bridge);
}

/// Returns the attached host.
pub(crate) fn attached(cx: &Cx) -> Option<Rc<dyn HostBridge>> {
    cx.state::<Attached>().0.borrow().clone()
}
