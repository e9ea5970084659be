//! Values that hold for a task and for those it starts, while something lasts: the model that a call talks
//! to, the folders that a policy allows.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use crate::cx::Cx;
use crate::task::Task;

/// What is open, innermost last, with the task that opened each.
pub struct TaskScope<T> {
    open: RefCell<Vec<Entry<T>>>,
    next: Cell<u64>,
}

struct Entry<T> {
    token: u64,
    // Weak, so that the address stays taken and no later task is mistaken for this one.
    task: Weak<Task>,
    value: T,
}

impl<T> Default for TaskScope<T> {
    fn default() -> Self {
        TaskScope { open: RefCell::default(), next: Cell::default() }
    }
}

impl<T: Clone> TaskScope<T> {
    /// Opens a scope for the running task and its children; the token closes it.
    pub fn open(&self, cx: &Cx, value: T) -> u64 {
        let token = self.next.get();
        self.next.set(token + 1);
        self.open.borrow_mut().push(Entry { token, task: Rc::downgrade(cx.task()), value });
        token
    }

    /// Closes a scope. Closing it twice does nothing.
    pub fn close(&self, token: u64) {
        self.open.borrow_mut().retain(|entry| entry.token != token);
    }

    /// Closes the innermost scope that the running task opened itself.
    pub fn close_innermost(&self, cx: &Cx) {
        let mut open = self.open.borrow_mut();
        if let Some(at) = open.iter().rposition(|entry| is(&entry.task, cx.task())) {
            open.remove(at);
        }
    }

    /// The innermost value for the running task; that of the task which started it when it has none.
    pub fn current(&self, cx: &Cx) -> Option<T> {
        let open = self.open.borrow();
        if open.is_empty() {
            return None;
        }
        let mut task = Some(cx.task().clone());
        while let Some(current) = task {
            if let Some(entry) = open.iter().rev().find(|entry| is(&entry.task, &current)) {
                return Some(entry.value.clone());
            }
            task = current.parent();
        }
        None
    }
}

fn is(entry: &Weak<Task>, task: &Rc<Task>) -> bool {
    std::ptr::eq(entry.as_ptr(), Rc::as_ptr(task))
}
