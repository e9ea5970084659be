//! What the running code may do outside of itself: the system that its task sees, and the gate that
//! every call of a builtin passes while there is a limit.

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

/// The builtins that a program may call, by name. What is no builtin (operators, methods, `spawn`) is never forbidden.
#[derive(Debug, Clone)]
pub enum Names {
    /// Only these, and those of `ALWAYS`.
    Only(FxHashSet<String>),
    /// All but these.
    AllBut(FxHashSet<String>),
}

/// What stays allowed when only some builtins are: output, looking at values, and facts of the task.
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

/// Builtins of the runtime's own modules that reach outside, and the ones that programs are to call in their place. A program
/// can write those names, too, so each is allowed where its public form is.
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
        // What the compiler and the runtime call for themselves stays within the program.
        name.starts_with("__")
            || match self {
                Names::Only(names) => {
                    ALWAYS.contains(&name) || name == "runtime_context_clear" || names.contains(name)
                }
                Names::AllBut(names) => !names.contains(name),
            }
    }
}

/// What limits a task: a system that refuses, and the ceilings that it was made of, outermost first.
pub(crate) struct Access {
    system: Rc<dyn System>,
    ceilings: Vec<Rc<Ceiling>>,
    /// What the one who set the innermost ceiling wants to find again.
    data: Option<Rc<dyn Any>>,
}

impl Access {
    /// A ceiling over `ground`, or over what limits that already. Relative roots lie below the working directory.
    fn new(
        ground: &Rc<dyn System>,
        outer: Option<Rc<Access>>,
        mut ceiling: Ceiling,
        data: Option<Rc<dyn Any>>,
    ) -> Access {
        let inner = outer.as_ref().map_or_else(|| ground.clone(), |outer| outer.system.clone());
        // The working directory is that of the task, which a layer may have moved.
        ceiling.roots = ceiling.roots.map(|roots| harn_system::absolute_roots(&*inner, &roots));
        let ceiling = Rc::new(ceiling);
        let mut ceilings = outer.map(|outer| outer.ceilings.clone()).unwrap_or_default();
        ceilings.push(ceiling.clone());
        Access { system: Rc::new(Permitted::new(inner, ground.clone(), ceiling)), ceilings, data }
    }

    /// What this allows, below all ceilings of `other`, too.
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

/// Whether anything is limited, and by what names.
#[derive(Default)]
pub(crate) struct Gate {
    /// False for a program without limits, which pays this one look for each call.
    pub(crate) active: Cell<bool>,
    names: RefCell<Option<Names>>,
    /// The builtin that was let through last, for messages.
    passing: Cell<&'static str>,
    token: Cell<u64>,
    /// What is over the whole program.
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

    /// Puts what is over the whole program over its root task.
    pub(crate) fn enter(&self, root: &Task) {
        if let Some(access) = &*self.program.borrow() {
            root.push_access(u64::MAX, access.clone());
        }
    }
}

/// Keeps a ceiling over the running task, and over the tasks that it starts, until it is dropped. Tasks that
/// were started under it keep it to their end.
pub struct Limit {
    task: Rc<Task>,
    token: u64,
}

impl Limit {
    /// Puts a ceiling over the running task. One that is over it already stays: what is left is what both allow.
    /// Relative roots lie below the working directory. Code below it finds `data` with [`Cx::limit_data`].
    pub fn to(cx: &Cx, ceiling: Ceiling, data: Option<Rc<dyn Any>>) -> Limit {
        let vm = cx.vm();
        let access = Access::new(vm.system(), cx.task().access(), ceiling, data);
        Limit::push(cx, access)
    }

    /// Puts a layer over what the running task may use: another working directory, another environment. Ceilings that are
    /// over the task stay below it, so the layer cannot get around them.
    pub fn layer(cx: &Cx, make: impl FnOnce(Rc<dyn System>) -> Rc<dyn System>) -> Limit {
        let outer = cx.task().access();
        let inner = outer.as_ref().map_or_else(|| cx.vm().system().clone(), |outer| outer.system.clone());
        let (ceilings, data) = match outer {
            Some(outer) => (outer.ceilings.clone(), outer.data.clone()),
            None => (Vec::new(), None),
        };
        Limit::push(cx, Access { system: make(inner), ceilings, data })
    }

    /// Puts what limits something that was begun elsewhere over the running task, below what is over that already.
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
    /// The outside world as the running task may use it. What the runtime does for itself goes to
    /// [`Vm::system`](crate::Vm::system).
    pub fn system(&self) -> Rc<dyn System> {
        self.access().map_or_else(|| self.vm().system().clone(), |access| access.system.clone())
    }

    /// What limits the running task, if anything does.
    pub(crate) fn access(&self) -> Option<Rc<Access>> {
        if self.vm().gate().active.get() { self.task().access() } else { None }
    }

    /// Whether a program may call the builtin of this name, or have the runtime do the same for it.
    pub fn allows_name(&self, name: &str) -> bool {
        self.vm().gate().names.borrow().as_ref().is_none_or(|names| names.allow(name))
    }

    /// Whether the running task may leave values in this file of the runtime.
    pub fn may_keep(&self, file: &Path) -> bool {
        self.system().check_write(file).is_ok()
    }

    /// The data of the innermost limit, when it is a `T`.
    pub fn limit_data<T: Any>(&self) -> Option<Rc<T>> {
        self.task().access()?.data.clone()?.downcast().ok()
    }

    /// The folders that files must lie in; `None` without a limit, an empty list allows none.
    pub fn roots(&self) -> Option<Vec<PathBuf>> {
        let access = self.task().access()?;
        let limits = access.ceilings.iter().filter_map(|ceiling| ceiling.roots.clone());
        limits.reduce(|outer, inner| inner.iter().flat_map(|root| narrowed(root, &outer)).collect())
    }

    /// The error of a builtin for what a ceiling refused; `None` when an error of the system was another one.
    pub fn refusal(&self, error: &io::Error) -> Option<Error> {
        Refusal::of(error).map(|refusal| self.refused(refusal))
    }

    /// The error of a builtin for what a ceiling refused.
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

    /// Lets a call of a builtin pass, or refuses it. Asked only while something is limited.
    #[cold]
    pub(crate) fn permit(&self, builtin: &'static Builtin, args: &[Value]) -> Result<()> {
        let (vm, name) = (self.vm(), builtin.name());
        // Methods have entries of their own.
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
                // A loop within has a policy of its own, below this one; its model calls are what it is. Over the whole program
                // there is no loop whose calls they could be, and an address of its own is the network like any other.
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
            // The runtime's own files are not the program's, but what the program keeps there changes them.
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

/// Whether a ceiling lets files be written.
fn may_write(ceiling: &Ceiling) -> bool {
    ceiling.level >= Level::WorkspaceWrite && ceiling.allows("workspace", "write_text")
}

/// Parts of a loop's options that say nothing of where models are asked. What others wrote stands there.
const UNASKED: [&str; 7] =
    ["tools", "messages", "transcript", "history", "artifacts", "parameters", "metadata"];

/// Whether the options of a loop, or what they hold, say where models are to be asked. What is nested deeper or is larger than
/// options are counts as if it did.
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

/// The part of `root` that lies in `outer`.
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
