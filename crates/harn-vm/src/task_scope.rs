//! Values that apply to a task and its children for a limited time: the model of a call, the directories that a policy
//! allows, the session of an agent loop.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxBuildHasher;

use crate::cx::Cx;
use crate::task::Task;

/// Open values of a task, innermost first. A task starts with its parent's list at that moment; later changes by the
/// parent do not affect it.
pub(crate) type Scopes = Option<Rc<Node>>;

/// An open value of one [`TaskScope`].
pub(crate) struct Node {
    scope: u64,
    token: u64,
    value: Shared,
    outer: Scopes,
}

/// The value of a scope, shared by all its tasks; `None` once it is closed for all of them.
type Shared = Rc<RefCell<Option<Rc<dyn Any>>>>;

/// Values of one kind. A closed value no longer applies to any task; with `LASTS` it still applies to tasks that were
/// started while it was open.
pub struct TaskScope<T, const LASTS: bool = false> {
    id: u64,
    next: Cell<u64>,
    /// The task that opened each token.
    open: RefCell<HashMap<u64, Weak<Task>, FxBuildHasher>>,
    values: PhantomData<T>,
}

impl<T, const LASTS: bool> Default for TaskScope<T, LASTS> {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        TaskScope { id, next: Cell::default(), open: RefCell::default(), values: PhantomData }
    }
}

impl<T: Clone + 'static, const LASTS: bool> TaskScope<T, LASTS> {
    /// Opens a scope for the running task and the tasks that it starts from now on; returns the token that closes it.
    pub fn open(&self, cx: &Cx, value: T) -> u64 {
        self.open_in(cx.task(), value)
    }

    /// Opens a scope for another task.
    pub fn open_in(&self, own: &Rc<Task>, value: T) -> u64 {
        let token = self.next.get();
        self.next.set(token + 1);
        let outer = own.scopes.take();
        let value: Rc<dyn Any> = Rc::new(value);
        let value = Rc::new(RefCell::new(Some(value)));
        own.scopes.replace(Some(Rc::new(Node { scope: self.id, token, value, outer })));
        self.open.borrow_mut().insert(token, Rc::downgrade(own));
        token
    }

    /// Closes a scope. Closing it again has no effect.
    pub fn close(&self, token: u64) {
        let task = self.open.borrow_mut().remove(&token);
        let Some(task) = task.and_then(|task| task.upgrade()) else { return };
        let scopes = task.scopes.borrow().clone();
        let Some((rest, value)) = without(&scopes, self.id, token) else { return };
        // Dropping a value may close scopes itself, so the list is replaced first.
        drop(task.scopes.replace(rest));
        if !LASTS {
            drop(value.take());
        }
    }

    /// Returns the innermost value that the running task opened itself, with its token.
    pub fn own(&self, cx: &Cx) -> Option<(u64, T)> {
        let own = |token: u64| {
            let open = self.open.borrow();
            open.get(&token).is_some_and(|task| std::ptr::eq(task.as_ptr(), Rc::as_ptr(cx.task())))
        };
        self.find(cx.task(), own)
    }

    /// Returns the innermost value for the running task.
    pub fn current(&self, cx: &Cx) -> Option<T> {
        self.current_of(cx.task())
    }

    /// Like [`TaskScope::current`], for another task.
    pub fn current_of(&self, task: &Rc<Task>) -> Option<T> {
        Some(self.find(task, |_| true)?.1)
    }

    /// Returns the innermost value of a task whose token satisfies `fits`.
    fn find(&self, task: &Rc<Task>, fits: impl Fn(u64) -> bool) -> Option<(u64, T)> {
        let scopes = task.scopes.borrow();
        let mut node = scopes.as_ref();
        while let Some(current) = node {
            if current.scope == self.id
                && fits(current.token)
                && let Some(value) =
                    current.value.borrow().as_ref().and_then(|value| value.downcast_ref::<T>())
            {
                return Some((current.token, value.clone()));
            }
            node = current.outer.as_ref();
        }
        None
    }
}

/// Returns the list without one value, and that value; `None` if it is not in the list.
fn without(scopes: &Scopes, scope: u64, token: u64) -> Option<(Scopes, Shared)> {
    let node = scopes.as_ref()?;
    if node.scope == scope && node.token == token {
        return Some((node.outer.clone(), node.value.clone()));
    }
    let (outer, value) = without(&node.outer, scope, token)?;
    let kept = Node { scope: node.scope, token: node.token, value: node.value.clone(), outer };
    Some((Some(Rc::new(kept)), value))
}
