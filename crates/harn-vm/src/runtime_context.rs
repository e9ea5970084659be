//! Information about the running task for programs, and the values that programs set for it.

use harn_value::{Dict, Str, Value};

use crate::builtins;
use crate::cx::Cx;
use crate::task::Task;

/// Keys of `runtime_context` that other crates fill in. Always present; nil if unknown.
const TOLD: [&str; 19] = [
    "agent_name",
    "agent_session_id",
    "binding_key",
    "capacity_class",
    "parent_agent_session_id",
    "provider",
    "root_agent_session_id",
    "run_id",
    "runner",
    "scheduler_key",
    "scope_id",
    "span_id",
    "stage_id",
    "tenant_id",
    "trace_id",
    "trigger_event_id",
    "trigger_id",
    "worker_id",
    "workflow_id",
];

fn context(cx: &Cx) -> Dict {
    let mut facts = cx.task_facts();
    let task = cx.task();
    let cancelled = task.is_cancelled() || cx.vm().is_interrupted();
    let mut debug = Dict::new();
    debug.insert("supervisors", Value::list(Vec::new()));
    for tell in &cx.vm().debug_facts {
        tell(cx, &mut debug);
    }
    debug.insert("held_synchronization", Value::list(crate::sync::held_locks(cx)));
    debug.insert("active_task_ids", Value::list(active_children(cx)));
    debug.insert("cancelled", cancelled);
    // The calling task is not waiting.
    debug.insert("waiting_reason", Value::NIL);
    let mut context = Dict::new();
    for key in TOLD {
        context.insert(key, facts.remove(key).unwrap_or_default());
    }
    context.insert("cancelled", cancelled);
    context.insert("context_values", values(cx));
    context.insert("debug", debug);
    context.insert("parent_task_id", task.parent_task_id());
    context.insert("root_task_id", task.root_of().task_id());
    context.insert("task_group_id", task.task_group_id());
    context.insert("task_id", task.task_id());
    context.insert("task_name", task.task_name());
    context
}

/// Returns the IDs of the unfinished tasks that the running one has started.
fn active_children(cx: &Cx) -> Vec<Value> {
    let mut ids = Vec::new();
    add_active(cx.task(), &mut ids);
    ids
}

fn add_active(task: &Task, ids: &mut Vec<Value>) {
    for child in task.children.borrow().values().filter(|child| !child.is_finished()) {
        if child.is_supervisor() {
            add_active(child, ids);
        } else {
            ids.push(child.task_id().into());
        }
    }
}

fn values(cx: &Cx) -> Value {
    let values = cx.task().values();
    if values.is_nil() { Dict::new().into() } else { values }
}

/// Modifies the values of the running task.
fn change(cx: &Cx, work: impl FnOnce(&mut Dict) -> Option<Value>) -> Value {
    let mut values = values(cx);
    // Now `values` is the only reference to the dict, unless another task shares it, and it is changed in place.
    cx.task().set_values(Value::NIL);
    let before = values.as_dict_mut().and_then(|dict| work(dict.make_mut()));
    let empty = values.as_dict().is_none_or(|dict| dict.is_empty());
    cx.task().set_values(if empty { Value::NIL } else { values });
    before.unwrap_or_default()
}

builtins! {
    /// Builtins for the running task.
    pub(crate) static RUNTIME_CONTEXT: "concurrency";

    /// Returns the context of the running task: its id, its surrounding operations, and its values.
    ///
    /// The surrounding operations are the parallel operation or supervisor, loop, worker and run that the task belongs
    /// to. All keys are always present; unknown values are nil. Ids describe the origin of a task and are the same in
    /// every run of a program: `task_root:spawn:2` is the second task that the root task spawned,
    /// `task_root:parallel_each:1:0` the first child of its first parallel operation. `debug` helps to find out why
    /// tasks wait: `active_task_ids` are the unfinished tasks that this task started.
    ///
    /// ```harn
    /// println(runtime_context().task_id) // -> task_root
    /// println(await(spawn { runtime_context().task_id })) // -> task_root:spawn:1
    /// ```
    State fn runtime_context(cx) -> "dict" {
        context(cx)
    }

    /// Returns the context of the running task; an alias of `runtime_context`.
    ///
    /// ```harn
    /// println(parallel 2 { task_current().task_name }) // -> [parallel, parallel]
    /// ```
    State fn task_current(cx) -> "dict" {
        context(cx)
    }

    /// Returns all context values of the current task.
    ///
    /// A task starts with the values of its parent; later changes of either task do not affect the other.
    ///
    /// ```harn
    /// runtime_context_set("customer", "acme")
    /// println(await(spawn { runtime_context_values() })) // -> {customer: acme}
    /// ```
    State fn runtime_context_values(cx) -> "dict" {
        values(cx)
    }

    /// Returns a context value of the current task, or `default`.
    ///
    /// ```harn
    /// println(runtime_context_get("customer", "nobody")) // -> nobody
    /// ```
    State fn runtime_context_get(cx, key: Str, default: Value as "any?") -> "any" {
        let values = cx.task().values();
        values.as_dict().and_then(|values| values.get(&key).cloned()).unwrap_or(default)
    }

    /// Sets a context value for the current task and its later children, and returns the previous value.
    ///
    /// ```harn
    /// runtime_context_set("step", 1)
    /// println(runtime_context_set("step", 2)) // -> 1
    /// ```
    State fn runtime_context_set(cx, key: Str, value: Value) -> "any" {
        change(cx, |values| values.insert(key, value))
    }

    /// Removes a context value of the current task and returns it.
    ///
    /// ```harn
    /// runtime_context_set("step", 1)
    /// println([runtime_context_clear("step"), runtime_context_clear("step")]) // -> [1, nil]
    /// ```
    State fn runtime_context_clear(cx, key: Str) -> "any" {
        change(cx, |values| values.remove(&key))
    }
}
