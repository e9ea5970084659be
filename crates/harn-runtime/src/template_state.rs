//! State of templates in a program: parsed templates, rendered prompts, and the model that the current rendering is
//! for.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use harn_llm::LlmRuntime;
use harn_template::{Rendered, Template, TemplateCache};
use harn_value::Value;
use harn_value::json;
use harn_vm::Cx;
use harn_vm::task_scope::TaskScope;

use crate::convert::to_json;

/// The template state of a program.
#[derive(Default)]
pub(crate) struct TemplateState {
    pub(crate) cache: TemplateCache,
    next_prompt: Cell<u64>,
    marks: RefCell<BTreeMap<String, i64>>,
    /// Open render contexts.
    contexts: TaskScope<LlmBinding, true>,
    warned: RefCell<BTreeSet<String>>,
}

/// The value of `llm` in a render context, computed when a template first uses it.
#[derive(Clone)]
pub(crate) struct LlmBinding(Rc<Lazy>);

struct Lazy {
    value: OnceCell<Value>,
    find: Box<dyn Fn() -> Value>,
}

impl LlmBinding {
    /// Creates a binding whose value `find` computes on first use.
    pub(crate) fn new(find: impl Fn() -> Value + 'static) -> LlmBinding {
        LlmBinding(Rc::new(Lazy { value: OnceCell::new(), find: Box::new(find) }))
    }

    /// Returns the dict; nil if no route was found.
    pub(crate) fn value(&self) -> Value {
        self.0.value.get_or_init(|| (self.0.find)()).clone()
    }
}

/// Writes the `template.render` line of a render inside a context.
pub(crate) fn log_render(runtime: &LlmRuntime, template: &Template, rendered: &Rendered, llm: &Value) {
    let branches: Vec<harn_value::Data> = rendered
        .branches
        .iter()
        .map(|branch| {
            let mut out = json!({
                "kind": branch.kind, "template_uri": &*branch.template_uri, "line": branch.line,
                "col": branch.col, "branch_id": branch.branch_id,
            });
            if let Some(label) = &branch.branch_label {
                out["branch_label"] = label.as_str().into();
            }
            out
        })
        .collect();
    runtime.log_line(
        "template.render",
        json!({
            "template_uri": template.uri(), "template_revision_hash": template.revision_hash(),
            "llm": to_json(llm), "branches": branches, "rendered_bytes": rendered.text.len(),
        }),
    );
}

impl TemplateState {
    /// Returns the id of the next prompt: `prompt-<n>`.
    pub(crate) fn prompt_id(&self) -> String {
        self.next_prompt.set(self.next_prompt.get() + 1);
        format!("prompt-{}", self.next_prompt.get())
    }

    /// Counts how often a prompt was sent to a model.
    pub(crate) fn mark(&self, id: &str) -> i64 {
        let mut marks = self.marks.borrow_mut();
        let count = marks.entry(id.to_owned()).or_default();
        *count += 1;
        *count
    }

    /// Returns whether a template has not caused this warning before.
    pub(crate) fn warns(&self, uri: &str) -> bool {
        self.warned.borrow_mut().insert(uri.to_owned())
    }

    /// Opens a render context for the running task and the tasks that it starts until [`TemplateState::pop`].
    pub(crate) fn push(&self, cx: &Cx, llm: LlmBinding) {
        self.contexts.open(cx, llm);
    }

    /// Closes the innermost context of the running task.
    pub(crate) fn pop(&self, cx: &Cx) {
        if let Some((token, _)) = self.contexts.own(cx) {
            self.contexts.close(token);
        }
    }

    /// Returns the value of `llm` for the running task; nil outside of a context.
    pub(crate) fn llm(&self, cx: &Cx) -> Value {
        self.contexts.current(cx).map_or(Value::NIL, |binding| binding.value())
    }
}

/// Opens a render context until it is dropped, also by cancellation of the call.
pub(crate) struct OpenContext {
    state: Rc<TemplateState>,
    token: u64,
}

impl OpenContext {
    /// Opens a context.
    pub(crate) fn new(cx: &Cx, llm: LlmBinding) -> OpenContext {
        let state = cx.state::<TemplateState>();
        let token = state.contexts.open(cx, llm);
        OpenContext { state, token }
    }
}

impl Drop for OpenContext {
    fn drop(&mut self) {
        self.state.contexts.close(self.token);
    }
}
