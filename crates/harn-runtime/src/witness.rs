//! External observers of a run: model calls, tool calls and hooks as they happen (`harn run --json`).

use std::cell::RefCell;
use std::rc::Rc;

use harn_agent::AgentEvent;
use harn_value::{Data as Json, json};
use harn_vm::Vm;

type Listener = Rc<dyn Fn(&str, Json)>;

/// The observer of a run.
#[derive(Default)]
pub(crate) struct Witness(RefCell<Option<Listener>>);

/// Passes events of a program to `listener` as they happen: the type of an event and its fields: `transcript` with a
/// line of the call log, `tool_call`, `tool_result` and `hook`. Call it before the program begins.
///
/// It does not read the program's clock, because a run with a journal must be the same with and without an observer. So
/// `tool_call` has no `started_at`, and `timestamp` of a line may be null.
pub fn observe_run(vm: &Rc<Vm>, listener: impl Fn(&str, Json) + 'static) {
    *vm.extension::<Witness>().0.borrow_mut() = Some(Rc::new(listener));
}

impl Witness {
    /// Returns whether there is an observer.
    pub(crate) fn is_there(&self) -> bool {
        self.0.borrow().is_some()
    }

    fn hears(&self, kind: &str, fields: impl FnOnce() -> Json) {
        let listener = self.0.borrow().clone();
        if let Some(listener) = listener {
            listener(kind, fields());
        }
    }

    /// Reports a line of the call log.
    pub(crate) fn logged(&self, line: &Json) {
        self.hears("transcript", || json!({"kind": line["type"], "payload": line}));
    }

    /// Reports an event of a loop.
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

    /// Reports that a hook of this event is called: `PreToolUse` before its subject, `PostToolUse` after it.
    pub(crate) fn hooked(&self, event: &str, payload: &Json) {
        let phase = match event {
            _ if event.starts_with("Pre") => "before",
            _ if event.starts_with("Post") => "after",
            _ => "during",
        };
        self.hears("hook", || json!({"name": event, "phase": phase, "payload": payload}));
    }
}
