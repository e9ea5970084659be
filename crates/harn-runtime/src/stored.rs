//! The content of a session in the store, and the lease to write it.
//!
//! All access to the store is work outside of the program ([`harn_system::Beside`]): a resumed durable run receives
//! recorded results again, and only performs writes that were not completed.

use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use harn_llm::Conversation;
use harn_store::{Error as StoreError, Fence, Session as StoredSession, Store, Write};
use harn_system::{System, SystemExt};
use harn_value::{Data as Json, json};
use tokio::sync::Mutex;

use crate::event_pack::{packed, unpacked};

/// How long a process that died blocks a session, in milliseconds.
const LEASE_MS: i64 = 15_000;

/// Interval of retries while another process holds a session.
const POLL: Duration = Duration::from_millis(100);

/// Number of entries that are read at once.
const PAGE: usize = 1_000;

/// The suffix of the name under which the events of a session are stored. Names of stored sessions do not contain its
/// first character.
pub(crate) const EVENTS: &str = "\u{1f}events";

/// The status of a stored list of events, which distinguishes it from sessions.
pub(crate) const EVENTS_STATUS: &str = "events";

/// The stored part of a session.
pub(crate) struct Stored {
    pub(crate) keeper: Rc<Keeper>,
    /// The content that the program last passed on for storage.
    pub(crate) content: Content,
    /// Whether storing it failed: it is then stored again, even if unchanged.
    pub(crate) failed: bool,
}

/// The content of a session. Messages and events are shared, so a copy costs one pointer each.
#[derive(Clone, Default)]
pub(crate) struct Content {
    pub(crate) messages: Conversation,
    /// Transcript events other than those of messages.
    pub(crate) events: Vec<Rc<Json>>,
    /// Metadata of constant size.
    pub(crate) info: Json,
}

impl Content {
    /// Returns whether the contents are equal.
    pub(crate) fn is(&self, other: &Content) -> bool {
        self.messages.len() == other.messages.len()
            && self.messages.is_prefix_of(&other.messages)
            && self.events.len() == other.events.len()
            && self.common_events(other) == self.events.len()
            && self.info == other.info
    }

    /// Returns the number of events in the common prefix.
    fn common_events(&self, other: &Content) -> usize {
        let pairs = self.events.iter().zip(&other.events);
        pairs.take_while(|(own, other)| Rc::ptr_eq(own, other) || own == other).count()
    }

    /// Serializes the content for the journal: a resumed run reads it instead of the store.
    fn to_bytes(&self) -> Vec<u8> {
        let messages: Vec<Json> = self.messages.iter().map(|message| message.to_json()).collect();
        let events: Vec<&Json> = self.events.iter().map(|event| &**event).collect();
        json!({"messages": messages, "events": events, "info": self.info}).to_string().into_bytes()
    }

    /// Parses the output of [`Content::to_bytes`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Content> {
        let mut whole: Json = serde_json::from_slice(bytes).ok()?;
        let mut messages = Conversation::new();
        for message in whole["messages"].as_array()?.iter().cloned() {
            messages.push_json(message).ok()?;
        }
        let mut info = whole["info"].take();
        let events = events_of(whole["events"].take()).or_else(|| take_events(&mut info)).unwrap_or_default();
        Some(Content { messages, events, info })
    }
}

/// Returns the events in a list.
fn events_of(list: Json) -> Option<Vec<Rc<Json>>> {
    let Json::Array(events) = list else { return None };
    Some(events.into_iter().map(Rc::new).collect())
}

/// Takes the events from the metadata of a session that was stored before events had separate entries.
fn take_events(info: &mut Json) -> Option<Vec<Rc<Json>>> {
    events_of(info.as_object_mut()?.remove("events")?)
}

/// Reads and writes a session in the store. Dropping it releases the lease.
pub(crate) struct Keeper {
    store: Arc<dyn Store>,
    id: String,
    /// Its name in the store.
    key: String,
    held: Mutex<Option<Held>>,
}

/// A session whose lease this process holds.
struct Held {
    fence: Fence,
    /// The content in the store.
    content: Content,
    /// The number of events that are stored as entries; `None` before the first one.
    events: Option<usize>,
    /// Whether a write failed, so that the content must be read again.
    in_doubt: bool,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(held) = self.held.get_mut() {
            // Calling `write` starts it; the result is not needed.
            drop(self.store.write(&held.fence, vec![Write::Release]));
        }
    }
}

impl Keeper {
    pub(crate) fn new(store: Arc<dyn Store>, id: &str, key: String) -> Keeper {
        Keeper { store, id: id.to_owned(), key, held: Mutex::new(None) }
    }

    /// Acquires the session and returns its content in the store.
    ///
    /// # Errors
    /// Another process holds it, or the store cannot be used.
    pub(crate) async fn open(&self, system: &dyn System) -> io::Result<Vec<u8>> {
        let mut held = self.held.lock().await;
        if held.is_none() {
            *held = Some(self.hold(system).await?);
        }
        Ok(held.as_ref().map(|held| held.content.to_bytes()).unwrap_or_default())
    }

    /// Writes the current content; `before` is the content that was last passed on.
    ///
    /// # Errors
    /// Another process holds or has changed it, or the store cannot be written.
    pub(crate) async fn keep(
        &self,
        system: &dyn System,
        before: &Content,
        now: Content,
    ) -> io::Result<Vec<u8>> {
        let mut place = self.held.lock().await;
        if place.is_none() {
            // The run was resumed: the previous process had the session.
            let held = self.hold(system).await?;
            if !held.content.is(before) && !held.content.is(&now) {
                return Err(self.wrong("it was changed by another program while this run was interrupted")); // prose-ok: diagnostic
            }
            *place = Some(held);
        }
        let Some(held) = &mut *place else { return Ok(Vec::new()) };
        if held.in_doubt {
            let read = self.read().await?.ok_or_else(|| self.wrong("it was removed from the store"))?; // prose-ok: diagnostic
            (held.content, held.events) = read;
            held.in_doubt = false;
        }
        let writes = writes(&self.key, held, &now, system.now_ms());
        if !writes.is_empty() {
            held.in_doubt = true;
            self.store.write(&held.fence, writes).await.map_err(|error| self.failed(&error))?;
            held.events = held.events.or((!now.events.is_empty()).then_some(0)).map(|_| now.events.len());
            (held.content, held.in_doubt) = (now, false);
        }
        Ok(Vec::new())
    }

    /// Acquires the session for this process, and creates it if it does not exist.
    async fn hold(&self, system: &dyn System) -> io::Result<Held> {
        let fence = self.acquire(system).await?;
        // From here on, the lease is released on errors.
        let mut held = Held { fence, content: Content::default(), events: None, in_doubt: false };
        match self.fill(system, &mut held).await {
            Ok(()) => Ok(held),
            Err(error) => {
                drop(self.store.write(&held.fence, vec![Write::Release]));
                Err(error)
            }
        }
    }

    async fn fill(&self, system: &dyn System, held: &mut Held) -> io::Result<()> {
        if let Some(read) = self.read().await? {
            (held.content, held.events) = read;
            return Ok(());
        }
        let create = Write::SessionCreate {
            id: self.key.clone(),
            status: "active".to_owned(),
            info: b"null".to_vec(),
            at_ms: system.now_ms(),
        };
        self.store.write(&held.fence, vec![create]).await.map_err(|error| self.failed(&error))?;
        Ok(())
    }

    /// Returns the content in the store, and the number of events that are stored as entries; `None` if the session
    /// does not exist.
    pub(crate) async fn read(&self) -> io::Result<Option<(Content, Option<usize>)>> {
        let found = self.store.session(&self.key).await.map_err(|error| self.failed(&error))?;
        let Some(StoredSession { info, length, .. }) = found else { return Ok(None) };
        let broken = |what: &str| self.wrong(&format!("its stored {what} cannot be read"));
        let mut messages = Conversation::new();
        for entry in self.entries(&self.key, length).await? {
            let message = serde_json::from_slice(&entry).map_err(|_| broken("messages"))?;
            messages.push_json(message).map_err(|_| broken("messages"))?;
        }
        let mut info = serde_json::from_slice(&info).map_err(|_| broken("head"))?;
        let key = events_key(&self.key);
        let found = self.store.session(&key).await.map_err(|error| self.failed(&error))?;
        let (events, stored) = match found {
            Some(head) => {
                let entries = self.entries(&key, head.length).await?;
                let events = entries
                    .iter()
                    .map(|entry| serde_json::from_slice(entry).map(|event| Rc::new(unpacked(event))));
                let events: Vec<_> = events.collect::<Result<_, _>>().map_err(|_| broken("events"))?;
                let count = events.len();
                (events, Some(count))
            }
            None => (take_events(&mut info).unwrap_or_default(), None),
        };
        Ok(Some((Content { messages, events, info }, stored)))
    }

    /// Returns all entries of a session in the store.
    async fn entries(&self, key: &str, length: u64) -> io::Result<Vec<Vec<u8>>> {
        let mut entries = Vec::new();
        while (entries.len() as u64) < length {
            let page = self.store.session_entries(key, entries.len() as u64, PAGE).await;
            let page = page.map_err(|error| self.failed(&error))?;
            if page.is_empty() {
                break;
            }
            entries.extend(page);
        }
        Ok(entries)
    }

    /// Acquires the lease. The lease of a dead process expires, or is taken over under its name.
    pub(crate) async fn acquire(&self, system: &dyn System) -> io::Result<Fence> {
        let (scope, host) = (format!("session/{}", self.key), host(system));
        let mut owner = format!("{}@{host}/{:016x}", system.pid(), system.random_u64());
        let mut told = false;
        let begun = system.monotonic();
        loop {
            let now = system.now_ms();
            match self.store.acquire(&scope, &owner, now, now + LEASE_MS).await {
                Ok(lease) => return Ok(lease.fence()),
                Err(StoreError::Held { owner: other, .. }) if is_dead(system, &other, &host) => owner = other,
                Err(error @ StoreError::Held { .. }) => {
                    let waited = system.monotonic().saturating_sub(begun);
                    if waited > Duration::from_millis(LEASE_MS.unsigned_abs() + 1_000) {
                        return Err(self.failed(&error));
                    }
                    if !std::mem::replace(&mut told, true) {
                        let text = format!("session '{}' is in use by another process; waiting", self.id);
                        system.write_err(&harn_syntax::notice(&text));
                    }
                    system.sleep(POLL).await;
                }
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    fn wrong(&self, why: &str) -> io::Error {
        io::Error::other(format!("session '{}': {why}", self.id))
    }

    fn failed(&self, error: &StoreError) -> io::Error {
        match error {
            StoreError::Fenced { .. } => {
                self.wrong("another process has taken it over; what was said last is not stored") // prose-ok: diagnostic
            }
            StoreError::Held { .. } => {
                io::Error::other(format!("session '{}' is in use by another process", self.id))
            }
            other => self.wrong(&other.to_string()),
        }
    }
}

/// Returns the name under which the events of a session are stored: one entry per event, so that a turn only appends
/// new ones.
pub(crate) fn events_key(key: &str) -> String {
    format!("{key}{EVENTS}")
}

/// Returns the writes that change the stored session to the current content.
fn writes(key: &str, held: &Held, now: &Content, at_ms: i64) -> Vec<Write> {
    let had = &held.content;
    // Usually one list extends the other, so nothing needs to be compared.
    let same = if had.messages.is_prefix_of(&now.messages) {
        had.messages.len()
    } else {
        had.messages.iter().zip(now.messages.iter()).take_while(|(old, new)| old == new).count()
    };
    let mut writes = Vec::new();
    let added = now.messages.iter().skip(same).map(|message| message.to_json().to_string().into_bytes());
    change(&mut writes, key, had.messages.len(), same, added.collect(), at_ms);
    let stored = held.events.unwrap_or(0);
    let same = had.common_events(now).min(stored);
    let added: Vec<Vec<u8>> =
        now.events[same..].iter().map(|event| packed(event).to_string().into_bytes()).collect();
    let events = events_key(key);
    if held.events.is_none() && !added.is_empty() {
        let (id, status) = (events.clone(), EVENTS_STATUS.to_owned());
        writes.push(Write::SessionCreate { id, status, info: b"null".to_vec(), at_ms });
    }
    change(&mut writes, &events, stored, same, added, at_ms);
    if now.info != had.info {
        let info = Some(now.info.to_string().into_bytes());
        writes.push(Write::SessionUpdate { id: key.to_owned(), status: None, info, at_ms });
    }
    if !writes.is_empty() {
        writes.push(Write::Renew { until_ms: at_ms + LEASE_MS });
    }
    writes
}

/// Retains the first `same` of `had` entries and appends `added`.
fn change(writes: &mut Vec<Write>, key: &str, had: usize, same: usize, added: Vec<Vec<u8>>, at_ms: i64) {
    let id = || key.to_owned();
    if same < had {
        writes.push(Write::SessionTruncate { id: id(), length: same as u64, at_ms });
    }
    if !added.is_empty() {
        writes.push(Write::SessionAppend { id: id(), first: same as u64, entries: added, at_ms });
    }
}

/// Returns the name of this machine; empty if it cannot be read.
fn host(system: &dyn System) -> String {
    let name = system.read_text(Path::new("/proc/sys/kernel/hostname"), 4096).unwrap_or_default();
    name.trim().to_owned()
}

/// Returns whether the owner of a lease was a process of this machine that no longer exists. Its lease can be taken
/// over under its name: if the process still runs, its next write is rejected.
fn is_dead(system: &dyn System, owner: &str, host: &str) -> bool {
    let Some((pid, rest)) = owner.split_once('@') else { return false };
    let here = !host.is_empty() && rest.split_once('/').is_some_and(|(name, _)| name == host);
    let pid: Option<u32> = pid.parse().ok();
    let Some(pid) = pid.filter(|_| here && system.is_dir(Path::new("/proc"))) else { return false };
    match system.read_text(Path::new(&format!("/proc/{pid}/stat")), 4096) {
        // The state follows the name in parentheses; Z and X are terminated processes that were not reaped yet.
        Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])),
        Err(_) => !system.is_dir(Path::new(&format!("/proc/{pid}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use harn_store::{MemoryStore, Store, Write, wait};
    use harn_system::Real;

    use super::*;

    fn events(store: &dyn Store) -> Option<u64> {
        wait(store.session(&events_key("s"))).unwrap().map(|head| head.length)
    }

    fn info(store: &dyn Store) -> String {
        String::from_utf8(wait(store.session("s")).unwrap().unwrap().info).unwrap()
    }

    async fn kept(keeper: &Keeper, before: &Content, change: impl FnOnce(&mut Content)) -> Content {
        let mut now = before.clone();
        change(&mut now);
        keeper.keep(&Real::new(), before, now.clone()).await.unwrap();
        now
    }

    /// Older versions stored the events of a session in its metadata.
    #[tokio::test(flavor = "current_thread")]
    async fn events_of_an_older_session_move_out_of_its_head_and_are_appended_from_then_on() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let lease = store.acquire("session/s", "test", 0, 1).await.unwrap();
        let head = json!({"summary": "old", "events": [{"n": 1}, {"n": 2}]}).to_string().into_bytes();
        let create = Write::SessionCreate { id: "s".into(), status: "active".into(), info: head, at_ms: 0 };
        store.write(&lease.fence(), vec![create, Write::Release]).await.unwrap();

        let keeper = Keeper::new(store.clone(), "s", "s".to_owned());
        let content = Content::from_bytes(&keeper.open(&Real::new()).await.unwrap()).unwrap();
        assert_eq!(content.events, [Rc::new(json!({"n": 1})), Rc::new(json!({"n": 2}))]);
        assert_eq!(content.info, json!({"summary": "old"}));
        let content = kept(&keeper, &content, |now| now.events.push(Rc::new(json!({"n": 3})))).await;
        assert_eq!(events(&*store), Some(3));
        let content = kept(&keeper, &content, |now| now.info["summary"] = "new".into()).await;
        assert_eq!(info(&*store), "{\"summary\":\"new\"}");
        let content = kept(&keeper, &content, |now| now.events.clear()).await;
        assert_eq!(events(&*store), Some(0));
        let content = kept(&keeper, &content, |now| now.events.push(Rc::new(json!({"n": 4})))).await;

        drop(keeper);
        let again = Keeper::new(store.clone(), "s", "s".to_owned());
        let read = Content::from_bytes(&again.open(&Real::new()).await.unwrap()).unwrap();
        assert!(read.is(&content) && read.events.len() == 1);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_session_without_events_has_no_list_of_them() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let keeper = Keeper::new(store.clone(), "s", "s".to_owned());
        let content = Content::from_bytes(&keeper.open(&Real::new()).await.unwrap()).unwrap();
        let message = json!({"role": "user", "content": "Hi"});
        kept(&keeper, &content, |now| now.messages.push_json(message).unwrap()).await;
        assert_eq!(events(&*store), None);
        assert_eq!(wait(store.session("s")).unwrap().unwrap().length, 1);
    }
}
