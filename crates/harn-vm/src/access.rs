//! Access control for the running code: the system that its task sees, and the gate that checks every builtin call
//! while a limit is set.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_system::{Ceiling, Level, Permitted, Refusal, System};
use harn_value::Value;
use rustc_hash::FxHashSet;

use crate::builtin::{Builtin, Effect};
use crate::cx::Cx;
use crate::error::{Error, Result};
use crate::task::Task;

/// The builtins that a program may call, by name. Operators, methods and `spawn` are not builtins and are always
/// allowed.
#[derive(Debug, Clone)]
pub enum Names {
    /// Only these names and those in `ALWAYS`.
    Only(FxHashSet<String>),
    /// All names except these.
    AllBut(FxHashSet<String>),
}

/// Builtins that an allowlist always permits: output, inspection of values, and facts about the task.
pub(crate) const ALWAYS: [&str; 18] = [
    "println",
    "print",
    "log",
    "type_of",
    "to_string",
    "to_int",
    "to_float",
    "len",
    "assert",
    "assert_eq",
    "assert_ne",
    "json_parse",
    "json_stringify",
    "runtime_context",
    "task_current",
    "runtime_context_values",
    "runtime_context_get",
    "runtime_context_set",
];

/// Builtins that internal modules of the runtime use for outside access, with the public builtin that stands for each.
/// Programs can write the internal names as well, so each is allowed exactly where its public form is.
const INNER: [(&str, &str); 6] = [
    ("__llm_caller", "default_llm_caller"),
    ("__llm_caller_step", "default_llm_caller"),
    ("__role_model", "create_runtime"),
    ("__agent_guard", "agent_loop"),
    ("__agent_tool", "agent_loop"),
    ("__workflow_work", "workflow_execute"),
];

impl Names {
    fn allow(&self, name: &str) -> bool {
        let name = INNER.iter().find(|(inner, _)| *inner == name).map_or(name, |(_, public)| public);
        // Other internal builtins, called by the compiler and the runtime, have no effect outside the program.
        name.starts_with("__")
            || match self {
                Names::Only(names) => {
                    ALWAYS.contains(&name) || name == "runtime_context_clear" || names.contains(name)
                }
                Names::AllBut(names) => !names.contains(name),
            }
    }
}

/// The limits of a task: a system that enforces them, and the policies it was built from, outermost first.
pub(crate) struct Access {
    system: Rc<dyn System>,
    ceilings: Vec<Rc<Ceiling>>,
    /// Data attached by the code that set the innermost policy.
    data: Option<Rc<dyn Any>>,
}

impl Access {
    /// Adds a policy over `outer`, or over `ground` if there is no outer limit. Relative roots are resolved against the
    /// working directory.
    fn new(
        ground: &Rc<dyn System>,
        outer: Option<Rc<Access>>,
        mut ceiling: Ceiling,
        data: Option<Rc<dyn Any>>,
    ) -> Access {
        let inner = outer.as_ref().map_or_else(|| ground.clone(), |outer| outer.system.clone());
        // The working directory is the task's; a layer may have changed it.
        ceiling.roots = ceiling.roots.map(|roots| harn_system::absolute_roots(&*inner, &roots));
        let ceiling = Rc::new(ceiling);
        let mut ceilings = outer.map(|outer| outer.ceilings.clone()).unwrap_or_default();
        ceilings.push(ceiling.clone());
        Access { system: Rc::new(Permitted::new(inner, ground.clone(), ceiling)), ceilings, data }
    }

    /// Returns this access restricted by all policies of `other` too.
    fn below(self: &Rc<Access>, ground: &Rc<dyn System>, other: &Access) -> Rc<Access> {
        let mut both = self.clone();
        for ceiling in &other.ceilings {
            if !both.ceilings.iter().any(|known| Rc::ptr_eq(known, ceiling)) {
                let data = both.data.clone();
                both = Rc::new(Access::new(ground, Some(both), Ceiling::clone(ceiling), data));
            }
        }
        both
    }
}

/// Whether any limit is set, and which names it permits.
#[derive(Default)]
pub(crate) struct Gate {
    /// False in a program without limits; such a program pays only this check per call.
    pub(crate) active: Cell<bool>,
    names: RefCell<Option<Names>>,
    /// The builtin that was permitted last, for error messages.
    passing: Cell<&'static str>,
    token: Cell<u64>,
    /// The limits of the whole program.
    program: RefCell<Option<Rc<Access>>>,
}

impl Gate {
    pub(crate) fn limit_names(&self, names: Names) {
        *self.names.borrow_mut() = Some(names);
        self.active.set(true);
    }

    pub(crate) fn limit_program(&self, system: &Rc<dyn System>, ceiling: Ceiling) {
        let access = Access::new(system, None, ceiling, None);
        *self.program.borrow_mut() = Some(Rc::new(access));
        self.active.set(true);
    }

    /// Applies the program's limits to its root task.
    pub(crate) fn enter(&self, root: &Task) {
        if let Some(access) = &*self.program.borrow() {
            root.push_access(u64::MAX, access.clone());
        }
    }
}

/// Applies a policy to the running task and to tasks that it starts, until dropped. Tasks started meanwhile stay under
/// the policy until they end.
pub struct Limit {
    task: Rc<Task>,
    token: u64,
}

impl Limit {
    /// Applies a policy to the running task. An existing policy stays in effect: the result allows only what both
    /// allow. Relative roots are resolved against the working directory. Code under the policy can read `data` with
    /// [`Cx::limit_data`].
    pub fn to(cx: &Cx, ceiling: Ceiling, data: Option<Rc<dyn Any>>) -> Limit {
        let vm = cx.vm();
        let access = Access::new(vm.system(), cx.task().access(), ceiling, data);
        Limit::push(cx, access)
    }

    /// Puts a layer over the running task's system: another working directory or environment. The task's policies stay
    /// below the layer, so the layer cannot bypass them.
    pub fn layer(cx: &Cx, make: impl FnOnce(Rc<dyn System>) -> Rc<dyn System>) -> Limit {
        let outer = cx.task().access();
        let inner = outer.as_ref().map_or_else(|| cx.vm().system().clone(), |outer| outer.system.clone());
        let (ceilings, data) = match outer {
            Some(outer) => (outer.ceilings.clone(), outer.data.clone()),
            None => (Vec::new(), None),
        };
        Limit::push(cx, Access { system: make(inner), ceilings, data })
    }

    /// Applies the limits of work that was started elsewhere to the running task, below the limits that the task has
    /// already.
    pub(crate) fn carried(cx: &Cx, access: &Rc<Access>) -> Limit {
        let both = match cx.task().access() {
            Some(here) => access.below(cx.vm().system(), &here),
            None => access.clone(),
        };
        Limit::push(cx, both)
    }

    fn push(cx: &Cx, access: impl Into<Rc<Access>>) -> Limit {
        let gate = cx.vm().gate();
        let token = gate.token.get();
        gate.token.set(token + 1);
        gate.active.set(true);
        cx.task().push_access(token, access.into());
        Limit { task: cx.task().clone(), token }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.task.pop_access(self.token);
    }
}

impl Cx {
    /// Returns the system as the running task may use it. The runtime uses [`Vm::system`](crate::Vm::system) for its
    /// own access.
    pub fn system(&self) -> Rc<dyn System> {
        self.access().map_or_else(|| self.vm().system().clone(), |access| access.system.clone())
    }

    /// Returns the limits of the running task, if any.
    pub(crate) fn access(&self) -> Option<Rc<Access>> {
        if self.vm().gate().active.get() { self.task().access() } else { None }
    }

    /// Returns whether a program may call the builtin of this name, or have the runtime perform the same operation.
    pub fn allows_name(&self, name: &str) -> bool {
        self.vm().gate().names.borrow().as_ref().is_none_or(|names| names.allow(name))
    }

    /// Returns whether the running task may store values in this file of the runtime.
    pub fn may_keep(&self, file: &Path) -> bool {
        self.system().check_write(file).is_ok()
    }

    /// Returns the data of the innermost limit if it is a `T`.
    pub fn limit_data<T: Any>(&self) -> Option<Rc<T>> {
        self.task().access()?.data.clone()?.downcast().ok()
    }

    /// Returns the directories that files must be in. `None` means no limit; an empty list allows no file.
    pub fn roots(&self) -> Option<Vec<PathBuf>> {
        let access = self.task().access()?;
        let limits = access.ceilings.iter().filter_map(|ceiling| ceiling.roots.clone());
        limits.reduce(|outer, inner| inner.iter().flat_map(|root| narrowed(root, &outer)).collect())
    }

    /// Converts a rejection by a policy into a builtin's error; returns `None` for other I/O errors.
    pub fn refusal(&self, error: &io::Error) -> Option<Error> {
        Refusal::of(error).map(|refusal| self.refused(refusal))
    }

    /// Returns the error of a builtin for an operation that a policy rejected.
    pub fn refused(&self, refusal: &Refusal) -> Error {
        let name = self.vm().gate().passing.get();
        Error::category(
            "tool_rejected",
            match refusal {
                Refusal::Ceiling(_) => format!("builtin '{name}' {refusal}"),
                Refusal::Outside { .. } | Refusal::Link { .. } => {
                    format!("sandbox violation: builtin '{name}' {refusal}")
                }
                Refusal::WorkDir { .. } => format!("sandbox violation: {refusal}"),
            },
        )
    }

    /// Permits or rejects a builtin call. Called only while a limit is set.
    #[cold]
    pub(crate) fn permit(&self, builtin: &'static Builtin, args: &[Value]) -> Result<()> {
        let (vm, name) = (self.vm(), builtin.name());
        // Methods have separate entries in the tables.
        if !vm.builtin(name).is_some_and(|known| std::ptr::eq(known, builtin)) {
            return Ok(());
        }
        let gate = vm.gate();
        if gate.names.borrow().as_ref().is_some_and(|names| !names.allow(name)) {
            return Err(Error::category("tool_rejected", format!("Tool '{name}' is not permitted.")));
        }
        gate.passing.set(name);
        let Some(access) = self.task().access() else { return Ok(()) };
        let sandbox = gate.program.borrow().as_ref().and_then(|access| access.ceilings.first().cloned());
        for ceiling in &access.ceilings {
            if matches!(builtin.effect, Effect::Llm | Effect::Loop) && !ceiling.allows_network() {
                // A nested agent loop may make model calls, because it has a separate policy below this one. It is
                // rejected if this policy covers the whole program, or if its options contain an address, which is
                // network access like any other.
                let over_all = sandbox.as_ref().is_some_and(|sandbox| Rc::ptr_eq(sandbox, ceiling));
                if over_all
                    || builtin.effect != Effect::Loop
                    || args.iter().any(|value| names_an_address(value, 64, &mut 100_000))
                {
                    return Err(self.refused(&Refusal::Ceiling("LLM/network")));
                }
            }
            if builtin.effect == Effect::Net && !ceiling.allows_network() {
                return Err(self.refused(&Refusal::Ceiling("network")));
            }
            // The runtime's files are not the program's, but values that the program stores there change them.
            if builtin.effect == Effect::Keep && !may_write(ceiling) {
                return Err(self.refused(&Refusal::Ceiling("workspace write")));
            }
            if name == "host_call"
                && let Some((capability, operation)) =
                    args.first().and_then(Value::as_str).and_then(|s| s.split_once('.'))
                && (!ceiling.allows(capability, operation)
                    || capability == "process" && ceiling.level < Level::ProcessExec)
            {
                let text = format!("host_call {capability}.{operation} exceeds capability ceiling");
                return Err(Error::category("tool_rejected", text));
            }
        }
        Ok(())
    }
}

/// Returns whether a policy permits writing files.
fn may_write(ceiling: &Ceiling) -> bool {
    ceiling.level >= Level::WorkspaceWrite && ceiling.allows("workspace", "write_text")
}

/// Options of a loop that cannot name a model server. They hold untrusted content.
const UNASKED: [&str; 7] =
    ["tools", "messages", "transcript", "history", "artifacts", "parameters", "metadata"];

/// Returns whether the options of a loop, or values nested in them, name the server to ask. Returns true for values
/// that are too large or too deeply nested to be options.
fn names_an_address(value: &Value, depth: usize, left: &mut usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return true };
    if *left == 0 {
        return true;
    }
    *left -= 1;
    if let Some(list) = value.as_list() {
        return list.iter().any(|item| names_an_address(item, depth, left));
    }
    let Some(dict) = value.to_dict() else { return false };
    dict.iter().any(|(key, item)| match key.as_str() {
        "base_url" => !item.is_nil(),
        key => !UNASKED.contains(&key) && names_an_address(item, depth, left),
    })
}

/// Returns the part of `root` that is inside `outer`.
fn narrowed(root: &Path, outer: &[PathBuf]) -> Vec<PathBuf> {
    if outer.iter().any(|o| root.starts_with(o)) {
        return vec![root.to_owned()];
    }
    outer.iter().filter(|o| o.starts_with(root)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inner_limit_never_widens_an_outer_one() {
        let outer = [PathBuf::from("/a"), PathBuf::from("/b/c")];
        assert_eq!(narrowed(Path::new("/a/x"), &outer), [PathBuf::from("/a/x")]);
        assert_eq!(narrowed(Path::new("/b"), &outer), [PathBuf::from("/b/c")]);
        assert_eq!(narrowed(Path::new("/"), &outer), outer);
        assert_eq!(narrowed(Path::new("/ab"), &outer), [] as [PathBuf; 0]);
    }

    #[test]
    fn names_that_are_always_allowed() {
        let only = Names::Only(FxHashSet::from_iter(["env".to_owned()]));
        for name in ["env", "println", "runtime_context_clear", "__spawn"] {
            assert!(only.allow(name), "{name}");
        }
        assert!(!only.allow("read_file"));
        for (inner, public) in INNER {
            assert!(!only.allow(inner), "{inner}");
            assert!(Names::Only(FxHashSet::from_iter([public.to_owned()])).allow(inner), "{inner}");
        }
        let but = Names::AllBut(FxHashSet::from_iter(["env".to_owned()]));
        assert!(!but.allow("env") && but.allow("read_file"));
    }
}
