//! The event log on disk, backed by the store; enabled by environment variables.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_front::Through;
use harn_stdlib::event_log::{EventLog, Keeper, Kept};
use harn_store::{
    Durability, Error as StoreError, Fence, NewEvent, SqliteOptions, SqliteStore, Store, StoreExt, wait,
};
use harn_system::System;
use harn_vm::Vm;

use crate::llm_embedder::new_id;

/// The variables that configure where events are stored.
const BACKEND: &str = "HARN_EVENT_LOG_BACKEND";
const FILE: &str = "HARN_EVENT_LOG_SQLITE_PATH";
const FOLDER: &str = "HARN_EVENT_LOG_DIR";
const DEPTH: &str = "HARN_EVENT_LOG_QUEUE_DEPTH";

/// The duration of a process's lease. Each process has its own, so no other process waits for it.
const LEASE_MS: i64 = 365 * 24 * 60 * 60 * 1000;

/// Configures the event log of a program from the environment. `folder` is the directory of the program.
///
/// # Errors
/// Describes invalid variables, and their allowed values.
pub fn configure_event_log(vm: &Rc<Vm>, folder: &Path) -> Result<(), String> {
    let system = vm.system().clone();
    let set = |name: &str| system.env(name).filter(|value| !value.is_empty());
    let log = EventLog::of(vm);
    if let Some(depth) = set(DEPTH) {
        let number = depth.parse().ok().filter(|number| *number > 0);
        let wrong = || format!("{DEPTH} must be a whole number from 1 on, not '{depth}'");
        log.limit_delay(number.ok_or_else(wrong)?);
    }
    if set(FOLDER).is_some() {
        return Err(format!("{FOLDER} is not supported; use {BACKEND}=sqlite and {FILE}"));
    }
    if set(FILE).is_some() && matches!(set(BACKEND).as_deref(), None | Some("memory")) {
        return Err(format!("{FILE} has no effect without {BACKEND}=sqlite"));
    }
    match set(BACKEND).as_deref() {
        Some("sqlite") => {
            let path = database(&*system, folder, set(FILE));
            log.keep_in(Rc::new(OnDisk::new(vm, path)));
            Ok(())
        }
        Some("file") => Err(format!(
            "{BACKEND}=file is not supported; 'sqlite' keeps events in a file, .harn/events.sqlite or {FILE}"
        )),
        None | Some("memory") => Ok(()),
        Some(other) => Err(format!("{BACKEND} must be 'memory' or 'sqlite', not '{other}'")),
    }
}

/// Rejects an event log outside of the journal for a durable run.
///
/// # Errors
/// The environment configures such an event log.
pub fn refuse_event_log(system: &dyn System) -> Result<(), String> {
    let wanted = system.env(BACKEND).filter(|value| !value.is_empty() && value != "memory");
    wanted.map_or(Ok(()), |value| {
        Err(format!(
            "{BACKEND}={value} cannot be used with a durable run: its events come again from its journal; unset it, or set it to 'memory'" // prose-ok: error
        ))
    })
}

/// Returns the path of the event database. Paths in the environment are relative to the root of the project.
fn database(system: &dyn System, folder: &Path, given: Option<String>) -> PathBuf {
    let here = harn_template::absolute_folder(folder, system).unwrap_or_else(|| folder.to_owned());
    let root = harn_front::project_root(&here, &Through(system)).unwrap_or(here);
    let state = system.env("HARN_STATE_DIR").filter(|value| !value.is_empty());
    let state = root.join(state.unwrap_or_else(|| ".harn".to_owned()));
    let file = given.map_or_else(|| state.join("events.sqlite"), |given| root.join(given));
    if file.starts_with(&root) {
        system.confine(&file, &root);
    }
    file
}

/// A file of events that any number of processes may append to.
struct OnDisk {
    system: Rc<dyn System>,
    path: PathBuf,
    store: SqliteStore,
    owner: String,
    fence: std::cell::OnceCell<Fence>,
}

impl OnDisk {
    fn new(vm: &Vm, path: PathBuf) -> OnDisk {
        let system = vm.system().clone();
        let owner = format!("{}/{}", system.pid(), new_id(vm));
        // Waiting for the disk on each event would delay the program.
        let options = SqliteOptions { durability: Durability::Crash, ..SqliteOptions::default() };
        let store = SqliteStore::with(&path, options);
        OnDisk { system, path, store, owner, fence: std::cell::OnceCell::new() }
    }

    fn failed(&self, error: &StoreError) -> String {
        format!("{}: {error}", self.path.display())
    }

    /// Returns the right to append events; creates the directory.
    fn fence(&self) -> Result<&Fence, String> {
        if let Some(fence) = self.fence.get() {
            return Ok(fence);
        }
        let folder = self.folder();
        self.system.make_dirs(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (scope, now) = (format!("events/{}", self.owner), self.system.now_ms());
        let lease = wait(self.store.acquire(&scope, &self.owner, now, now.saturating_add(LEASE_MS)));
        let fence = lease.map_err(|error| self.failed(&error))?.fence();
        Ok(self.fence.get_or_init(|| fence))
    }

    /// Returns whether the file exists. Reading does not create it.
    fn is_there(&self) -> bool {
        self.fence.get().is_some() || self.system.facts(&self.path).is_ok()
    }
}

impl Keeper for OnDisk {
    fn folder(&self) -> PathBuf {
        self.path.parent().map(Path::to_owned).unwrap_or_default()
    }

    fn append(&self, topic: &str, event: Kept) -> Result<i64, String> {
        let fence = self.fence()?;
        let Kept { kind, payload, headers, at_ms, .. } = event;
        let event = NewEvent { kind, payload: payload.into_bytes(), headers, at_ms };
        let id = wait(self.store.log_append(fence, topic, event)).map_err(|error| self.failed(&error))?;
        Ok(i64::try_from(id).unwrap_or(i64::MAX))
    }

    fn latest(&self, topic: &str) -> Result<Option<i64>, String> {
        if !self.is_there() {
            return Ok(None);
        }
        let topic = wait(self.store.log_topic(topic)).map_err(|error| self.failed(&error))?;
        Ok(topic.filter(|topic| topic.last > 0).map(|topic| i64::try_from(topic.last).unwrap_or(i64::MAX)))
    }

    fn read(&self, topic: &str, after: i64, limit: usize) -> Result<Vec<Kept>, String> {
        if !self.is_there() {
            return Ok(Vec::new());
        }
        let after = u64::try_from(after).unwrap_or_default();
        let events = wait(self.store.log_read(topic, after, limit)).map_err(|error| self.failed(&error))?;
        let kept = events.into_iter().map(|found| Kept {
            id: i64::try_from(found.id).unwrap_or(i64::MAX),
            kind: found.event.kind,
            payload: String::from_utf8_lossy(&found.event.payload).into_owned(),
            headers: found.event.headers,
            at_ms: found.event.at_ms,
        });
        Ok(kept.collect())
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        if let Some(fence) = self.fence.get() {
            // If the lease remains, it does not block any other process.
            let _ = wait(self.store.release(fence));
        }
    }
}
