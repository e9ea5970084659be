//! Isolation of child tasks: they get copies of the variables that they would otherwise share with their
//! parent.

use std::cell::UnsafeCell;
use std::rc::Rc;

use harn_value::{Dict, EnumValue, Pair, Ref, Set, StructValue, Value, View, steps, with_stack};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::closure::{Closure, Partial, Variable};
use crate::task::Globals;

/// Copies each variable once, so that closures over one variable share the copy.
#[derive(Default)]
pub(crate) struct Isolation {
    cells: FxHashMap<usize, Value>,
    /// Shared objects without captured variables, by address: each is traversed once.
    plain: FxHashSet<usize>,
    visits: u32,
}

/// Number of objects that a traversal visits before it starts to record shared ones.
const SMALL: u32 = 512;

impl Isolation {
    /// Copies the entry file's variables for a child.
    pub(crate) fn globals(&mut self, globals: &Globals) -> Globals {
        // SAFETY: single-threaded; nothing runs while the variables are copied.
        let values = unsafe { &*globals.get() };
        Rc::new(UnsafeCell::new(values.iter().map(|v| self.value(v)).collect()))
    }

    /// Returns the value as a child sees it.
    pub(crate) fn value(&mut self, value: &Value) -> Value {
        self.changed(value).unwrap_or_else(|| value.clone())
    }

    /// Returns `None` if the value contains no captured variables and can be shared unchanged.
    fn changed(&mut self, value: &Value) -> Option<Value> {
        if !value.is_heap() {
            return None;
        }
        if let Some(cell) = Variable::of(value) {
            let address = (&raw const *cell).addr();
            if let Some(copy) = self.cells.get(&address) {
                return Some(copy.clone());
            }
            // Registered before its content is copied, because a closure may capture the variable that holds
            // it.
            let copy = Variable::value(Value::ABSENT);
            self.cells.insert(address, copy.clone());
            let content = self.value(&cell.get());
            if let Some(variable) = Variable::of(&copy) {
                variable.set(content);
            }
            return Some(copy);
        }
        if let Some(closure) = Closure::of(value) {
            let upvalues = self.all(|| closure.upvalues.iter())?;
            return Some(Closure::value(closure.proto.clone(), upvalues.into()));
        }
        if let Some(partial) = value.downcast::<Partial>() {
            return self.all(|| partial.args.iter()).map(|args| Partial::value(partial.builtin, args));
        }
        self.visits = self.visits.saturating_add(1);
        let shared = self.visits > SMALL && !value.is_unique();
        if shared && self.plain.contains(&value.address()) {
            return None;
        }
        let changed = self.changed_parts(value);
        if shared && changed.is_none() {
            self.plain.insert(value.address());
        }
        changed
    }

    fn changed_parts(&mut self, value: &Value) -> Option<Value> {
        match value.view() {
            View::List(items) => self.all(|| items.iter()).map(Value::list),
            View::Dict(d) => {
                let values = self.all(|| d.values())?;
                let copy: Dict = d.keys().cloned().zip(values).collect();
                Some(copy.into())
            }
            View::Set(items) => self.all(|| items.iter()).map(|v| Set::from_iter(v).into()),
            View::Pair(p) => {
                let mut parts = self.all(|| [&p.first, &p.second].into_iter())?.into_iter();
                let (first, second) = (parts.next()?, parts.next()?);
                Some(Pair { first, second }.into())
            }
            View::Enum(e) => {
                let fields = self.all(|| e.fields.iter())?;
                Some(EnumValue { ty: e.ty.clone(), variant: e.variant, fields: fields.into() }.into())
            }
            View::Struct(s) => {
                let slots = self.all(|| s.slots.iter())?;
                Some(
                    StructValue { ty: Ref::clone(&s.ty), slots: slots.into(), extra: s.extra.clone() }.into(),
                )
            }
            _ => None,
        }
    }

    fn all<'a, I: Iterator<Item = &'a Value>>(&mut self, values: impl Fn() -> I) -> Option<Vec<Value>> {
        let mut changes = Vec::new();
        for (i, value) in steps::each(values()).enumerate() {
            if value.is_heap()
                && let Some(copy) = with_stack(|| self.changed(value))
            {
                changes.push((i, copy));
            }
        }
        if changes.is_empty() {
            return None;
        }
        let mut all: Vec<Value> = values().cloned().collect();
        for (i, copy) in changes {
            all[i] = copy;
        }
        Some(all)
    }
}

/// Copies variables to a child that were declared after it started (a REPL continues while its tasks run):
/// functions that refer to them may reach the child through channels.
pub(crate) fn extend(own: &Globals, shared: &Globals) {
    if Rc::ptr_eq(own, shared) {
        return;
    }
    // SAFETY: single-threaded; nothing runs while the variables are copied.
    let (own, shared) = unsafe { (&mut *own.get(), &*shared.get()) };
    let mut isolation = Isolation::default();
    let later = shared.iter().skip(own.len()).map(|v| isolation.value(v));
    own.extend(later.collect::<Vec<_>>());
}
