//! What somebody outside hears of a run while it goes on: its model calls, calls of tools and hooks (`harn run --json`).

use std::cell::RefCell;
use std::rc::Rc;

use harn_agent::AgentEvent;
use harn_value::{Data as Json, json};
use harn_vm::Vm;

type Listener = Rc<dyn Fn(&str, Json)>;

/// Who hears of it.
#[derive(Default)]
pub(crate) struct Witness(RefCell<Option<Listener>>);

/// Hands what happens in a program to `listener`, as it happens: the type of an event and its fields (chapter 09, 2.9):
/// `transcript` with a line of the call log, `tool_call`, `tool_result` and `hook`. To be called before the program begins.
///
/// The clock of the program is not looked at for it: a run with a journal has to be the same whether somebody listens or
/// not. So `tool_call` comes without `started_at`, and `timestamp` of a line may be null.
pub fn observe_run(vm: &Rc<Vm>, listener: impl Fn(&str, Json) + 'static) {
    *vm.extension::<Witness>().0.borrow_mut() = Some(Rc::new(listener));
}

impl Witness {
    /// Whether somebody listens.
    pub(crate) fn is_there(&self) -> bool {
        self.0.borrow().is_some()
    }

    fn hears(&self, kind: &str, fields: impl FnOnce() -> Json) {
        let listener = self.0.borrow().clone();
        if let Some(listener) = listener {
            listener(kind, fields());
        }
    }

    /// A line of the call log was written.
    pub(crate) fn logged(&self, line: &Json) {
        self.hears("transcript", || json!({"kind": line["type"], "payload": line}));
    }

    /// Something happened in a loop.
    pub(crate) fn happened(&self, event: &AgentEvent) {
        match event {
            AgentEvent::ToolCall(call) => self.hears(
                "tool_call",
                || json!({"call_id": call.tool_call_id, "name": call.tool_name, "args": call.raw_input}),
            ),
            AgentEvent::ToolCallUpdate(call) if call.status == "completed" || call.status == "failed" => {
                self.hears("tool_result", || {
                    let result = call.raw_output.clone().or_else(|| call.error.clone().map(Json::from));
                    json!({"call_id": call.tool_call_id, "ok": call.status == "completed", "result": result})
                });
            }
            _ => {}
        }
    }

    /// A hook of this event is asked or told: `PreToolUse` comes before what it is about, `PostToolUse` after it.
    pub(crate) fn hooked(&self, event: &str, payload: &Json) {
        let phase = match event {
            _ if event.starts_with("Pre") => "before",
            _ if event.starts_with("Post") => "after",
            _ => "during",
        };
        self.hears("hook", || json!({"name": event, "phase": phase, "payload": payload}));
    }
}
