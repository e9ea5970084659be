//! A flag that is set once.

use std::cell::Cell;

use tokio::sync::Notify;

/// A flag that is set once and then wakes its waiters.
#[derive(Default)]
pub(super) struct Flag {
    is_set: Cell<bool>,
    waiters: Notify,
}

impl Flag {
    pub(super) fn set(&self) {
        self.is_set.set(true);
        self.waiters.notify_waiters();
    }

    pub(super) fn is_set(&self) -> bool {
        self.is_set.get()
    }

    pub(super) async fn wait(&self) {
        let notified = self.waiters.notified();
        if !self.is_set() {
            notified.await;
        }
    }
}
