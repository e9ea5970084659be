//! The host that a program runs in, as `host_call` sees it: an editor, a server, an agent client. The
//! command line has none; whoever embeds the machine may attach one.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use harn_value::Value;
use harn_vm::{Cx, Result, Vm};

/// What an attached host answers; `None` when it does not know the operation.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Option<Result<Value>>> + 'a>>;

/// A host that a program can call.
pub trait HostBridge {
    /// Performs `<capability>.<operation>` with a dict of parameters.
    fn call<'a>(&'a self, capability: &'a str, operation: &'a str, params: Value) -> Answer<'a>;

    /// Tells the host something that has no answer: a progress note, a request to a person.
    fn notify(&self, _method: &str, _params: Value) {}

    /// Descriptions of the host's tools.
    fn tools(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Calls one of the host's tools; `None` if no tool has that name.
    fn call_tool<'a>(&'a self, name: &'a str, arguments: Value) -> Answer<'a>;
}

/// Where the attached host is kept.
#[derive(Default)]
struct Attached(RefCell<Option<Rc<dyn HostBridge>>>);

/// Attaches a host to the programs of a machine.
pub fn attach_host(vm: &Vm, bridge: Rc<dyn HostBridge>) {
    *vm.extension::<Attached>().0.borrow_mut() = Some(bridge);
}

/// The attached host.
pub(crate) fn attached(cx: &Cx) -> Option<Rc<dyn HostBridge>> {
    cx.state::<Attached>().0.borrow().clone()
}
