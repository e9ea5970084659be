//! Sessions that outlive the process: each is one of the project's store, one entry per message.
//!
//! One process writes a session at a time. It holds a lease, which every write prolongs; who was taken for dead cannot write
//! over its successor. What a loop or builtin has said is stored before the program goes on.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use harn_front::Through;
use harn_llm::Conversation;
use harn_store::{Error as StoreError, Fence, Place, Session as StoredSession, Store, Write};
use harn_system::SystemExt;
use harn_value::{Data as Json, json};
use harn_vm::{Cx, Error, Result, Vm};

use crate::convert::thrown;
use crate::llm_embedder::new_id;
use crate::session::{History, Session, Sessions};
use crate::stored::Stored;

/// How long a process that died holds a session back, in milliseconds.
const LEASE_MS: i64 = 15_000;

/// How often a session that is held by another process is asked for.
const POLL: Duration = Duration::from_millis(100);

/// Messages that are read at once.
const PAGE: usize = 1_000;

/// The store of a program, opened when a session first needs it.
#[derive(Default)]
struct Opened {
    store: RefCell<Option<Arc<dyn Store>>>,
    /// `[sessions] persist` of the manifest: all sessions with a name are stored.
    always: Cell<bool>,
    /// What the sessions are a part of: it stands in front of their names in the store.
    part_of: RefCell<Option<String>>,
}

/// Stores all sessions with a name as parts of `whole`, which other processes may go on with. Sessions of other programs do not
/// meet them, whatever their names are.
pub fn keep_sessions_of(vm: &Rc<Vm>, whole: &str) {
    let opened = vm.extension::<Opened>();
    opened.always.set(true);
    *opened.part_of.borrow_mut() = Some(whole.to_owned());
}

/// The name of a session in the store.
fn key(cx: &Cx, id: &str) -> String {
    match &*cx.state::<Opened>().part_of.borrow() {
        Some(whole) => format!("{whole}/{id}"),
        None => id.to_owned(),
    }
}

/// Reads `[sessions]` of the project that `folder` belongs to.
///
/// # Errors
/// What is wrong in it.
pub fn configure_sessions(vm: &Rc<Vm>, folder: &Path) -> std::result::Result<(), String> {
    let system = vm.system().clone();
    let Some(folder) = harn_template::absolute_folder(folder, &*system) else { return Ok(()) };
    let Some(root) = harn_front::project_root(&folder, &Through(&*system)) else { return Ok(()) };
    let Ok(text) = system.read_text(&root.join("harn.toml"), harn_front::MAX_BYTES) else { return Ok(()) };
    // A manifest that does not parse is reported by whoever runs the program.
    let Ok(manifest) = text.parse::<toml::Table>() else { return Ok(()) };
    let Some(table) = manifest.get("sessions") else { return Ok(()) };
    let table = table.as_table().ok_or("[sessions] must be a table")?;
    if let Some(key) = table.keys().find(|key| *key != "persist") {
        return Err(format!("[sessions] has no key '{key}'; there is persist"));
    }
    let persist = match table.get("persist") {
        None => false,
        Some(value) => value.as_bool().ok_or("[sessions] persist must be true or false")?,
    };
    vm.extension::<Opened>().always.set(persist);
    Ok(())
}

/// Whether sessions with a name are stored without being asked for.
pub(crate) fn always(cx: &Cx) -> bool {
    cx.state::<Opened>().always.get()
}

fn failed(id: &str, error: &StoreError) -> Error {
    match error {
        StoreError::Fenced { .. } => thrown(format!(
            "session '{id}': another process has taken it over; what was said last is not stored" // prose-ok: diagnostic
        )),
        StoreError::Held { .. } => thrown(format!("session '{id}' is in use by another process")),
        other => thrown(format!("session '{id}': {other}")),
    }
}

/// The session of a name, from the store if it is there, and kept there from now on.
///
/// # Errors
/// Another process has it, or the store cannot be used.
pub(crate) async fn open(cx: &Cx, id: &str) -> Result<Rc<Session>> {
    let session = cx.state::<Sessions>().named(id);
    if session.stored.borrow().is_some() {
        return Ok(session);
    }
    let store = store(cx)?;
    let key = key(cx, id);
    let fence = acquire(cx, &*store, id, &key).await?;
    let wrong = |error: StoreError| failed(id, &error);
    // From here on the lease goes back when something fails.
    let mut stored =
        Stored { store, fence, key, messages: Conversation::new(), info: Json::Null, in_doubt: false };
    let key = stored.key.clone();
    match stored.store.session(&key).await.map_err(wrong)? {
        None => {
            let create = Write::SessionCreate {
                id: key,
                status: "active".to_owned(),
                info: b"null".to_vec(),
                at_ms: cx.system().now_ms(),
            };
            stored.store.write(&stored.fence, vec![create]).await.map_err(wrong)?;
        }
        Some(record) => {
            (stored.messages, stored.info) = read(&*stored.store, id, &key, &record).await?;
            if !session.history.borrow().messages.is_empty() && !stored.messages.is_empty() {
                return Err(thrown(format!(
                    "session '{id}' has messages of this program and stored ones; open it before it is used" // prose-ok: diagnostic
                )));
            }
            if session.history.borrow().messages.is_empty() {
                session.history.borrow_mut().messages = stored.messages.clone();
                take(&session, &stored.info);
            }
        }
    }
    *session.stored.borrow_mut() = Some(stored);
    flush(cx, &session).await?;
    Ok(session)
}

/// What the store has of a session: its messages and its head.
async fn read(
    store: &dyn Store,
    id: &str,
    key: &str,
    record: &StoredSession,
) -> Result<(Conversation, Json)> {
    let broken = |what: &str| thrown(format!("session '{id}': its stored {what} cannot be read"));
    let info = serde_json::from_slice(&record.info).map_err(|_| broken("head"))?;
    let mut messages = Conversation::new();
    let mut at = 0;
    while at < record.length {
        let page = store.session_entries(key, at, PAGE).await;
        let page = page.map_err(|error| failed(id, &error))?;
        if page.is_empty() {
            break;
        }
        at += page.len() as u64;
        for entry in page {
            let message = serde_json::from_slice(&entry).map_err(|_| broken("messages"))?;
            messages.push_json(message).map_err(|_| broken("messages"))?;
        }
    }
    Ok((messages, info))
}

/// The store of the project, made at its first use.
fn store(cx: &Cx) -> Result<Arc<dyn Store>> {
    let opened = cx.state::<Opened>();
    if let Some(store) = &*opened.store.borrow() {
        return Ok(store.clone());
    }
    let file = || harn_stdlib::state_place(cx, "HARN_STATE_FILE", "state.db");
    let place = crate::store_place(&*cx.system(), file).map_err(thrown)?;
    if let Place::File(path) = &place
        && let Some(folder) = path.parent()
    {
        // Through the door: who may not write files keeps no sessions either.
        cx.system().make_dirs(folder).map_err(|error| {
            let text = format!("sessions cannot be stored in {}: {error}", folder.display());
            cx.refusal(&error).unwrap_or_else(|| thrown(text))
        })?;
    }
    let store = place.open().map_err(|error| thrown(error.to_string()))?;
    *opened.store.borrow_mut() = Some(store.clone());
    Ok(store)
}

/// Takes the lease of a session; one that a dead process left runs out.
async fn acquire(cx: &Cx, store: &dyn Store, id: &str, key: &str) -> Result<Fence> {
    let (scope, host) = (format!("session/{key}"), host(cx.vm()));
    let mut owner = format!("{}@{host}/{}", cx.vm().system().pid(), new_id(cx.vm()));
    let mut told = false;
    let begun = cx.system().monotonic();
    loop {
        let now = cx.system().now_ms();
        match store.acquire(&scope, &owner, now, now + LEASE_MS).await {
            Ok(lease) => return Ok(lease.fence()),
            Err(StoreError::Held { owner: other, .. }) if is_dead(cx.vm(), &other, &host) => owner = other,
            Err(error @ StoreError::Held { .. }) => {
                let waited = cx.system().monotonic().saturating_sub(begun);
                if waited > Duration::from_millis(LEASE_MS.unsigned_abs() + 1_000) {
                    return Err(failed(id, &error));
                }
                if !std::mem::replace(&mut told, true) {
                    let text = format!("[harn] session '{id}' is in use by another process; waiting\n");
                    cx.system().write_err(&text);
                }
                cx.sleep(POLL).await?;
            }
            Err(error) => return Err(failed(id, &error)),
        }
    }
}

/// The name of this machine; empty when it has none that can be read.
fn host(vm: &Vm) -> String {
    let name = vm.system().read_text(Path::new("/proc/sys/kernel/hostname"), 4096).unwrap_or_default();
    name.trim().to_owned()
}

/// Whether the owner of a lease was a process of this machine that is gone. Its lease can be taken in its name: should the
/// process be there after all, its next write is refused.
fn is_dead(vm: &Vm, owner: &str, host: &str) -> bool {
    let Some((pid, rest)) = owner.split_once('@') else { return false };
    let here = !host.is_empty() && rest.split_once('/').is_some_and(|(name, _)| name == host);
    let pid: Option<u32> = pid.parse().ok();
    let system = vm.system();
    let Some(pid) = pid.filter(|_| here && system.is_dir(Path::new("/proc"))) else { return false };
    match system.read_text(Path::new(&format!("/proc/{pid}/stat")), 4096) {
        // The state stands behind the name in parentheses; Z and X are processes that ended and were not fetched yet.
        Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])),
        Err(_) => !system.is_dir(Path::new(&format!("/proc/{pid}"))),
    }
}

/// What the head of a stored session says.
fn info(session: &Session, history: &History) -> Json {
    json!({
        "summary": history.summary, "events": history.events, "parent": history.parent,
        "children": history.children, "branched_at": history.branched_at, "skills": session.carried_skills(),
    })
}

/// Puts what a stored head says into a session.
fn take(session: &Session, info: &Json) {
    let texts = |value: &Json| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
    };
    let mut history = session.history.borrow_mut();
    history.summary = info["summary"].as_str().map(str::to_owned);
    history.events = info["events"].as_array().cloned().unwrap_or_default();
    history.parent = info["parent"].as_str().map(str::to_owned);
    history.children = texts(&info["children"]);
    history.branched_at = info["branched_at"].as_u64().and_then(|n| usize::try_from(n).ok());
    if info["skills"].is_array() {
        session.carry_skills(&texts(&info["skills"]));
    }
}

/// Stores what a session has now, if it is one that is stored.
///
/// Tasks of one program may do so at the same time: the store makes writes in the order in which they were begun, so what
/// a write will have made of it is known from then on, also when nobody waits for its end any more.
///
/// # Errors
/// Another process has taken it over, or the store cannot be written.
pub(crate) async fn flush(cx: &Cx, session: &Session) -> Result<()> {
    look_again(session).await?;
    let write = {
        let mut stored = session.stored.borrow_mut();
        let Some(stored) = &mut *stored else { return Ok(()) };
        let history = session.history.borrow();
        let (messages, info) = (history.messages.clone(), info(session, &history));
        // As a rule one list went on from the other: then nothing has to be compared.
        let same = if stored.messages.is_prefix_of(&messages) {
            stored.messages.len()
        } else {
            stored.messages.iter().zip(messages.iter()).take_while(|(old, new)| old == new).count()
        };
        let (at_ms, id) = (cx.system().now_ms(), stored.key.clone());
        let mut writes = Vec::new();
        if same < stored.messages.len() {
            writes.push(Write::SessionTruncate { id: id.clone(), length: same as u64, at_ms });
        }
        if same < messages.len() {
            let entries =
                messages.iter().skip(same).map(|message| message.to_json().to_string().into_bytes());
            let entries = entries.collect();
            writes.push(Write::SessionAppend { id: id.clone(), first: same as u64, entries, at_ms });
        }
        if info != stored.info {
            let info = Some(info.to_string().into_bytes());
            writes.push(Write::SessionUpdate { id, status: None, info, at_ms });
        }
        if writes.is_empty() {
            return Ok(());
        }
        writes.push(Write::Renew { until_ms: at_ms + LEASE_MS });
        (stored.messages, stored.info) = (messages, info);
        let store = stored.store.clone();
        let fence = stored.fence.clone();
        async move { store.write(&fence, writes).await }
    };
    let written = write.await;
    written.map(drop).map_err(|error| {
        if let Some(stored) = &mut *session.stored.borrow_mut() {
            stored.in_doubt = true;
        }
        failed(&session.id, &error)
    })
}

/// Reads what the store has, when a write has failed.
async fn look_again(session: &Session) -> Result<()> {
    let (store, key) = match &*session.stored.borrow() {
        Some(stored) if stored.in_doubt => (stored.store.clone(), stored.key.clone()),
        _ => return Ok(()),
    };
    let id = &session.id;
    let record = store.session(&key).await.map_err(|error| failed(id, &error))?;
    let record = record.ok_or_else(|| thrown(format!("session '{id}': it was removed from the store")))?;
    let (messages, info) = read(&*store, id, &key, &record).await?;
    if let Some(stored) = &mut *session.stored.borrow_mut() {
        (stored.messages, stored.info, stored.in_doubt) = (messages, info, false);
    }
    Ok(())
}
