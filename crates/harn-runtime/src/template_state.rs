//! State of templates in a program: parsed templates, prompts rendered, and which model will read what is
//! being rendered.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use harn_template::TemplateCache;
use harn_value::Value;
use harn_vm::Cx;
use harn_vm::task::Task;

/// See the module.
#[derive(Default)]
pub(crate) struct TemplateState {
    pub(crate) cache: TemplateCache,
    next_prompt: Cell<u64>,
    marks: RefCell<BTreeMap<String, i64>>,
    /// Open render contexts, innermost last, with the task that opened each.
    contexts: RefCell<Vec<(usize, Value)>>,
    warned: RefCell<BTreeSet<String>>,
}

fn address(task: &Rc<Task>) -> usize {
    Rc::as_ptr(task).addr()
}

impl TemplateState {
    /// The id of the next prompt: `prompt-<n>`.
    pub(crate) fn prompt_id(&self) -> String {
        self.next_prompt.set(self.next_prompt.get() + 1);
        format!("prompt-{}", self.next_prompt.get())
    }

    /// Counts how often a prompt was handed to a model.
    pub(crate) fn mark(&self, id: &str) -> i64 {
        let mut marks = self.marks.borrow_mut();
        let count = marks.entry(id.to_owned()).or_default();
        *count += 1;
        *count
    }

    /// Whether a warning about this template is new.
    pub(crate) fn warns(&self, uri: &str) -> bool {
        self.warned.borrow_mut().insert(uri.to_owned())
    }

    /// Opens a render context for the running task and its children.
    pub(crate) fn push(&self, cx: &Cx, llm: Value) {
        self.contexts.borrow_mut().push((address(cx.task()), llm));
    }

    /// Closes the innermost context of the running task.
    pub(crate) fn pop(&self, cx: &Cx) {
        let mut contexts = self.contexts.borrow_mut();
        if let Some(at) = contexts.iter().rposition(|(task, _)| *task == address(cx.task())) {
            contexts.remove(at);
        }
    }

    /// The value of `llm` for the running task, nil outside of any context.
    pub(crate) fn llm(&self, cx: &Cx) -> Value {
        let contexts = self.contexts.borrow();
        let mut task = Some(cx.task().clone());
        while let Some(current) = task {
            if let Some((_, llm)) = contexts.iter().rev().find(|(owner, _)| *owner == address(&current)) {
                return llm.clone();
            }
            task = current.parent();
        }
        Value::NIL
    }
}

/// Keeps a render context open; dropping it closes it, also when the call is cancelled.
pub(crate) struct OpenContext {
    cx: Cx,
}

impl OpenContext {
    /// Opens a context.
    pub(crate) fn new(cx: &Cx, llm: Value) -> OpenContext {
        cx.state::<TemplateState>().push(cx, llm);
        OpenContext { cx: cx.clone() }
    }
}

impl Drop for OpenContext {
    fn drop(&mut self) {
        self.cx.state::<TemplateState>().pop(&self.cx);
    }
}
