//! Builtins of named locks, and the lock of `mutex` blocks, which is one of them.

use std::rc::Rc;

use harn_value::{Str, Value};

use super::lock::{Kind, Lock, Locks, Permit};
use super::wait::TimeLimit;
use crate::builtin::{OptionDict, Text};
use crate::builtins;
use crate::cx::Cx;
use crate::error::{Error, Result};

/// The key of the lock of `mutex` blocks.
const DEFAULT: &str = "__default__";

/// Maximum number of concurrent readers.
const READERS: i64 = 1024;

fn open(cx: &Cx, kind: Kind, key: &str, capacity: i64, permits: i64) -> Result<Rc<Lock>> {
    cx.state::<Locks>().open(cx, kind, key, capacity, permits)
}

/// Takes permits of a lock, which is created on first use, and returns them as a value; nil on timeout.
async fn acquire(
    cx: &Cx,
    (kind, key): (Kind, &str),
    capacity: i64,
    permits: i64,
    timeout: &OptionDict<TimeLimit>,
) -> Result<Value> {
    let lock = open(cx, kind, key, capacity, permits)?;
    let permit = lock.acquire(cx, permits, timeout.read()?.limit()).await?;
    Ok(permit.map_or(Value::NIL, Value::foreign))
}

fn positive(builtin: &str, numbers: &[i64]) -> Result<()> {
    if numbers.iter().any(|number| *number < 1) {
        return Err(Error::runtime(format!("{builtin}: value must be positive")));
    }
    Ok(())
}

/// Returns whether this is the name of a builtin that returns permits.
pub(crate) fn gives_permits(name: &str) -> bool {
    name.starts_with("sync_") && name.ends_with("_acquire")
}

/// Takes the lock of a `mutex` block.
///
/// # Errors
/// The task already holds it and would wait for itself. The cancellation error.
pub(crate) async fn enter_block(cx: &Cx) -> Result<Value> {
    let lock = open(cx, Kind::Mutex, DEFAULT, 1, 1)?;
    if lock.is_held_by(cx.task()) {
        return Err(Error::runtime(format!("mutex '{DEFAULT}' is already held by this task")));
    }
    Ok(lock.acquire(cx, 1, None).await?.map_or(Value::NIL, Value::foreign))
}

/// Releases the lock of a `mutex` block.
pub(crate) fn leave_block(permit: &Value) {
    if let Some(permit) = permit.downcast::<Permit>() {
        permit.release();
    }
}

builtins! {
    /// Named locks.
    pub(crate) static LOCKS: "locks";

    /// Acquires the mutex with this key, which one task at a time can hold.
    ///
    /// Returns a permit, or nil if `timeout` expires first (0 tries once). The lock is released by `sync_release`, or
    /// when the last reference to the permit is dropped. Waiting tasks acquire it in the order of their requests.
    /// `mutex { }` uses the mutex `__default__`.
    ///
    /// ```harn
    /// let permit = sync_mutex_acquire("db")
    /// println(permit) // -> <sync_permit:mutex:db>
    /// println(sync_mutex_acquire("db", 5ms)) // -> nil
    /// sync_release(permit)
    /// println(type_of(sync_mutex_acquire("db", 0))) // -> sync_permit
    /// ```
    State async fn sync_mutex_acquire(cx, key: Text = "__default__", timeout: OptionDict<TimeLimit>) -> "sync_permit | nil" {
        acquire(&cx, (Kind::Mutex, &key), 1, 1, &timeout).await
    }

    /// Acquires the lock with this key for reading or for writing.
    ///
    /// Up to 1024 tasks can read concurrently; a writer excludes all others. Returns a permit, or nil if `timeout`
    /// expires first. Later readers do not overtake a waiting writer.
    ///
    /// ```harn
    /// let one = sync_rwlock_acquire("index")
    /// let two = sync_rwlock_acquire("index", "read")
    /// println(sync_rwlock_acquire("index", "write", 0)) // -> nil
    /// ```
    State async fn sync_rwlock_acquire(cx, key: Text = "default", mode: Text = "read", timeout: OptionDict<TimeLimit>) -> "sync_permit | nil" {
        let permits = match &*mode {
            "read" => 1,
            "write" => READERS,
            _ => return Err(Error::runtime("sync_rwlock_acquire: mode must be read or write")),
        };
        acquire(&cx, (Kind::RwLock, &key), READERS, permits, &timeout).await
    }

    /// Acquires `permits` of the `capacity` of the semaphore with this key.
    ///
    /// The first call sets the capacity. Returns a permit, or nil if `timeout` expires first.
    ///
    /// ```harn
    /// let most = sync_semaphore_acquire("slots", 3, 2)
    /// println(sync_semaphore_acquire("slots", 3, 2, 0)) // -> nil
    /// println(sync_semaphore_acquire("slots", 3, 1, 0)) // -> <sync_permit:semaphore:slots>
    /// ```
    State async fn sync_semaphore_acquire(cx, key: Text = "default", capacity: i64 = 1, permits: i64 = 1, timeout: OptionDict<TimeLimit>) -> "sync_permit | nil" {
        positive("sync_semaphore_acquire", &[capacity, permits])?;
        acquire(&cx, (Kind::Semaphore, &key), capacity, permits, &timeout).await
    }

    /// Acquires one of the `limit` slots of the gate with this key.
    ///
    /// The first call sets the limit. Returns a permit, or nil if `timeout` expires first.
    ///
    /// ```harn
    /// let inside = sync_gate_acquire("api", 1)
    /// println(sync_gate_acquire("api", 1, {timeout_ms: 5})) // -> nil
    /// ```
    State async fn sync_gate_acquire(cx, key: Text = "default", limit: i64 = 1, timeout: OptionDict<TimeLimit>) -> "sync_permit | nil" {
        positive("sync_gate_acquire", &[limit])?;
        acquire(&cx, (Kind::Gate, &key), limit, 1, &timeout).await
    }

    /// Releases a permit; returns false if it was already released.
    ///
    /// ```harn
    /// let permit = sync_mutex_acquire("db")
    /// println([sync_release(permit), sync_release(permit)]) // -> [true, false]
    /// ```
    State fn sync_release(cx, permit: Value as "!sync_permit") -> "bool" {
        let Some(permit) = permit.downcast::<Permit>() else {
            return Err(Error::runtime("sync_release: first argument must be a sync permit"));
        };
        permit.release()
    }

    /// Returns the usage metrics of one lock, of all locks of a kind, or of all locks.
    ///
    /// Returns a dict for a kind (`mutex`, `rwlock`, `semaphore`, `gate`) and a key, or nil if that lock was never
    /// used; otherwise, returns a list. `current_held` counts permits: a writer holds all 1024 permits of an rwlock.
    /// Times are in milliseconds.
    ///
    /// ```harn
    /// let permit = sync_gate_acquire("api", 2)
    /// let gate = sync_metrics("gate", "api")
    /// println("${gate.current_held} of ${gate.capacity}") // -> 1 of 2
    /// ```
    State fn sync_metrics(cx, kind: Option<Str> as "string?", key: Option<Text> as "text?") -> "dict | list | nil" {
        let locks = cx.state::<Locks>();
        let kinds = || Kind::ALL.into_iter().filter(|own| kind.as_ref().is_none_or(|kind| kind == own.word()));
        if let (Some(_), Some(key)) = (&kind, &key) {
            let lock = kinds().find_map(|kind| locks.get(kind, key));
            return Ok(lock.map(|lock| lock.metrics()).into());
        }
        let found: Vec<Value> = match &key {
            Some(key) => kinds().filter_map(|kind| locks.get(kind, key)).map(|lock| lock.metrics().into()).collect(),
            None => kinds().flat_map(|kind| locks.all(kind)).map(|lock| lock.metrics().into()).collect(),
        };
        Value::list(found)
    }
}
