//! Sessions that outlive the process: each is a session in the project's store, with one entry per message.
//!
//! Only one process at a time writes a session. It holds a lease, which every write renews; a process whose lease
//! expired cannot write. Messages of a loop or builtin are stored before the program continues.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use harn_front::Through;
use harn_store::{Place, Store};
use harn_system::{Beside, System, SystemExt, Waiting};
use harn_value::{Data as Json, json};
use harn_vm::{Cx, Error, Result, Vm};

use crate::convert::thrown;
use crate::session::{History, Session, Sessions};
use crate::stored::{Content, EVENTS, Keeper, Stored};

/// An open store, and its file if it has one.
type Opening = (Arc<dyn Store>, Option<PathBuf>);

/// The store of a program with its file, opened when a session first needs it.
#[derive(Default)]
struct Opened {
    store: RefCell<Option<Opening>>,
    /// `[sessions] persist` of the manifest: whether all named sessions are stored.
    always: Cell<bool>,
    /// The prefix of session names in the store.
    part_of: RefCell<Option<String>>,
    /// The keepers of open sessions, by name in the store.
    keepers: RefCell<HashMap<String, Weak<Keeper>>>,
}

/// Stores all named sessions under the prefix `whole`, so that other processes can continue them. The prefix separates
/// them from the sessions of other programs.
pub fn keep_sessions_of(vm: &Rc<Vm>, whole: &str) {
    let opened = vm.extension::<Opened>();
    opened.always.set(true);
    *opened.part_of.borrow_mut() = Some(whole.to_owned());
}

/// Returns the name of a session in the store.
fn key(cx: &Cx, id: &str) -> String {
    match &*cx.state::<Opened>().part_of.borrow() {
        Some(whole) => format!("{whole}/{id}"),
        None => id.to_owned(),
    }
}

/// Reads `[sessions]` of the project that contains `folder`.
///
/// # Errors
/// Describes an invalid setting.
pub fn configure_sessions(vm: &Rc<Vm>, folder: &Path) -> std::result::Result<(), String> {
    if let Some(persist) = persists(&**vm.system(), folder)? {
        vm.extension::<Opened>().always.set(persist);
    }
    Ok(())
}

/// Returns the `persist` setting of the manifest, if it is set.
pub(crate) fn persists(system: &dyn System, folder: &Path) -> std::result::Result<Option<bool>, String> {
    let Some(folder) = harn_template::absolute_folder(folder, system) else { return Ok(None) };
    let Some(root) = harn_front::project_root(&folder, &Through(system)) else { return Ok(None) };
    let Ok(text) = system.read_text(&root.join("harn.toml"), harn_front::MAX_BYTES) else { return Ok(None) };
    // A syntax error in the manifest is reported when the program runs.
    let Ok(manifest) = text.parse::<toml::Table>() else { return Ok(None) };
    let Some(table) = manifest.get("sessions") else { return Ok(None) };
    let table = table.as_table().ok_or("[sessions] must be a table")?;
    if let Some(key) = table.keys().find(|key| *key != "persist") {
        return Err(format!("[sessions] has no key '{key}'; there is persist"));
    }
    let persist = match table.get("persist") {
        None => false,
        Some(value) => value.as_bool().ok_or("[sessions] persist must be true or false")?,
    };
    Ok(Some(persist))
}

/// Returns whether named sessions are stored automatically.
pub(crate) fn always(cx: &Cx) -> bool {
    cx.state::<Opened>().always.get()
}

/// Runs work outside of the program, and returns its result.
async fn beside<F>(cx: &Cx, note: String, work: F) -> Result<Vec<u8>>
where
    F: for<'a> FnOnce(&'a dyn System) -> Waiting<'a, io::Result<Vec<u8>>> + 'static,
{
    let done = cx.system().beside(Beside::new("session", note, work)).await;
    done.map_err(|error| thrown(error.to_string()))
}

/// Opens the session with an id, loading it from the store if it exists there. From then on it is stored.
///
/// # Errors
/// Another process uses it, or the store cannot be used.
pub(crate) async fn open(cx: &Cx, id: &str) -> Result<Rc<Session>> {
    let session = cx.state::<Sessions>().named(id);
    if session.stored.borrow().is_some() {
        return Ok(session);
    }
    if id.contains(EVENTS) {
        return Err(thrown(format!(
            "session '{}': the name of a stored session must not contain U+001F",
            id.escape_debug()
        )));
    }
    let keeper = keeper(cx, id)?;
    let own = keeper.clone();
    let found =
        beside(cx, format!("open {id}"), move |system| Box::pin(async move { own.open(system).await }));
    let found = Content::from_bytes(&found.await?);
    let content = found.ok_or_else(|| thrown(format!("session '{id}': what is stored cannot be read")))?; // prose-ok: diagnostic
    if session.stored.borrow().is_some() {
        // Another task has opened it meanwhile.
        return Ok(session);
    }
    let is_new = session.history.borrow().messages.is_empty();
    if !is_new && !content.messages.is_empty() {
        return Err(thrown(format!(
            "session '{id}' has messages of this program and stored ones; open it before it is used" // prose-ok: diagnostic
        )));
    }
    if is_new {
        {
            let mut history = session.history.borrow_mut();
            (history.messages, history.events) = (content.messages.clone(), content.events.clone());
        }
        take(&session, &content.info);
    }
    *session.stored.borrow_mut() = Some(Stored { keeper, content, failed: false });
    flush(cx, &session).await?;
    Ok(session)
}

/// Returns the keeper of a session, shared by all tasks of the program.
fn keeper(cx: &Cx, id: &str) -> Result<Rc<Keeper>> {
    let (opened, key) = (cx.state::<Opened>(), key(cx, id));
    if let Some(keeper) = opened.keepers.borrow().get(&key).and_then(Weak::upgrade) {
        return Ok(keeper);
    }
    let keeper = Rc::new(Keeper::new(store(cx)?, id, key.clone()));
    let mut keepers = opened.keepers.borrow_mut();
    keepers.retain(|_, keeper| keeper.strong_count() > 0);
    keepers.insert(key, Rc::downgrade(&keeper));
    Ok(keeper)
}

/// Returns the store of the project, opened at its first use. Each use checks the permissions of the calling code.
fn store(cx: &Cx) -> Result<Arc<dyn Store>> {
    let opened = cx.state::<Opened>();
    let system = cx.system();
    if let Some((store, file)) = &*opened.store.borrow() {
        if let Some(file) = file {
            system.check_write(file).map_err(|error| unstored(cx, file, &error))?;
        }
        return Ok(store.clone());
    }
    let file = || harn_stdlib::state_place(cx, "HARN_STATE_FILE", "state.db");
    // The database is configured by the user, so the program's environment must not select it.
    let place = crate::store_place(&**cx.vm().system(), file).map_err(thrown)?;
    let mut own = None;
    if let Place::File(path) = &place
        && let Some(folder) = path.parent()
    {
        // The store opens the file itself, so permissions are checked here.
        let allowed = system.check_write(path).and_then(|()| system.make_dirs(folder));
        allowed.map_err(|error| unstored(cx, folder, &error))?;
        own = Some(path.clone());
    }
    let store = place.open().map_err(|error| thrown(error.to_string()))?;
    *opened.store.borrow_mut() = Some((store.clone(), own));
    Ok(store)
}

/// Returns the error for a location where sessions cannot be stored.
fn unstored(cx: &Cx, place: &Path, error: &io::Error) -> Error {
    let text = format!("sessions cannot be stored in {}: {error}", place.display());
    cx.refusal(error).unwrap_or_else(|| thrown(text))
}

/// Returns the metadata of a session for the store.
fn info(session: &Session, history: &History) -> Json {
    json!({
        "summary": history.summary, "parent": history.parent, "children": history.children, "branched_at": history.branched_at, "skills": session.carried_skills(),
    })
}

/// Restores the metadata of a session.
fn take(session: &Session, info: &Json) {
    let texts = |value: &Json| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
    };
    let mut history = session.history.borrow_mut();
    history.summary = info["summary"].as_str().map(str::to_owned);
    history.parent = info["parent"].as_str().map(str::to_owned);
    history.children = texts(&info["children"]);
    history.branched_at = info["branched_at"].as_u64().and_then(|n| usize::try_from(n).ok());
    if info["skills"].is_array() {
        session.carry_skills(&texts(&info["skills"]));
    }
}

/// Stores the current state of a session, if it is a stored one.
///
/// Concurrent tasks of a program are written in call order.
///
/// # Errors
/// Another process has taken it over, or the store cannot be written.
pub(crate) async fn flush(cx: &Cx, session: &Session) -> Result<()> {
    let (keeper, before, now) = {
        let mut stored = session.stored.borrow_mut();
        let Some(stored) = &mut *stored else { return Ok(()) };
        let history = session.history.borrow();
        let (messages, events) = (history.messages.clone(), history.events.clone());
        let now = Content { messages, events, info: info(session, &history) };
        if stored.content.is(&now) && !stored.failed {
            return Ok(());
        }
        let before = std::mem::replace(&mut stored.content, now.clone());
        // Marked as failed until the write is confirmed, because a cancelled caller does not see the result.
        stored.failed = true;
        (stored.keeper.clone(), before, now)
    };
    let own = now.clone();
    let kept = beside(cx, format!("keep {}", session.id), move |system| {
        Box::pin(async move { keeper.keep(system, &before, own).await })
    });
    kept.await?;
    if let Some(stored) = &mut *session.stored.borrow_mut()
        && stored.content.is(&now)
    {
        stored.failed = false;
    }
    Ok(())
}
