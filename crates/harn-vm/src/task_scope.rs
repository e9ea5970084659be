//! Values that hold for a task and for those it starts, while something lasts: the model that a call talks
//! to, the folders that a policy allows, the session of an agent loop.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use rustc_hash::FxBuildHasher;

use crate::cx::Cx;
use crate::task::Task;

type Table<K, V> = RefCell<HashMap<K, V, FxBuildHasher>>;

/// What is open, by the task that opened it, innermost last. Thousands of tasks may have something open at once, so
/// opening, closing and looking up take the same time however many do.
pub struct TaskScope<T> {
    open: Table<usize, Vec<Entry<T>>>,
    /// The task of each token.
    tasks: Table<u64, usize>,
    next: Cell<u64>,
}

struct Entry<T> {
    token: u64,
    // Weak, so that the address stays taken and no later task is mistaken for this one.
    _task: Weak<Task>,
    value: T,
}

impl<T> Default for TaskScope<T> {
    fn default() -> Self {
        TaskScope { open: RefCell::default(), tasks: RefCell::default(), next: Cell::default() }
    }
}

impl<T: Clone> TaskScope<T> {
    /// Opens a scope for the running task and its children; the token closes it.
    pub fn open(&self, cx: &Cx, value: T) -> u64 {
        self.open_in(cx.task(), value)
    }

    /// Opens a scope for another task and its children.
    pub fn open_in(&self, own: &Rc<Task>, value: T) -> u64 {
        let (token, task) = (self.next.get(), address(own));
        self.next.set(token + 1);
        let entry = Entry { token, _task: Rc::downgrade(own), value };
        self.open.borrow_mut().entry(task).or_default().push(entry);
        self.tasks.borrow_mut().insert(token, task);
        token
    }

    /// Closes a scope. Closing it twice does nothing.
    pub fn close(&self, token: u64) {
        let task = self.tasks.borrow_mut().remove(&token);
        if let Some(task) = task {
            self.remove(task, |entry| entry.token == token);
        }
    }

    /// Closes the innermost scope that the running task opened itself.
    pub fn close_innermost(&self, cx: &Cx) {
        if let Some(token) = self.remove(address(cx.task()), |_| true) {
            self.tasks.borrow_mut().remove(&token);
        }
    }

    /// Removes the innermost entry of a task that fits.
    fn remove(&self, task: usize, fits: impl Fn(&Entry<T>) -> bool) -> Option<u64> {
        let mut open = self.open.borrow_mut();
        let entries = open.get_mut(&task)?;
        let removed = entries.iter().rposition(fits).map(|at| entries.remove(at));
        if entries.is_empty() {
            open.remove(&task);
        }
        // What is removed may close scopes itself when it is dropped.
        drop(open);
        removed.map(|entry| entry.token)
    }

    /// The innermost value for the running task; that of the task which started it when it has none.
    pub fn current(&self, cx: &Cx) -> Option<T> {
        self.current_of(cx.task())
    }

    /// As [`TaskScope::current`], for another task.
    pub fn current_of(&self, task: &Rc<Task>) -> Option<T> {
        let open = self.open.borrow();
        if open.is_empty() {
            return None;
        }
        let mut task = Some(task.clone());
        while let Some(current) = task {
            if let Some(entry) = open.get(&address(&current)).and_then(|entries| entries.last()) {
                return Some(entry.value.clone());
            }
            task = current.parent();
        }
        None
    }
}

fn address(task: &Rc<Task>) -> usize {
    Rc::as_ptr(task) as usize
}
