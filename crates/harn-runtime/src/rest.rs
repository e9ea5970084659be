//! What a loop that rests needs of the world: somebody who keeps its snapshots, waits, files to look at.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use harn_agent::{AgentLoop, Look, LoopConfig, Rest};
use harn_stdlib::timestamp_now;
use harn_system::{Refusal, System, SystemExt};
use harn_vm::{Cx, Result};
use serde_json::{Value as Json, json};
use tokio::sync::Notify;

use crate::convert::{from_json, thrown};
use crate::host::Listener;
use crate::llm_embedder::new_id;

/// The largest snapshot that is read: 256 MiB.
const MAX_SNAPSHOT: u64 = 256 << 20;

/// Who a daemon's loop belongs to.
pub(crate) trait Keeper {
    /// Keeps a snapshot. `done` tells that the turn in front of it was completed.
    fn keep(&self, cx: &Cx, snapshot: Json, done: bool) -> Result<()>;
    /// Whether messages can come.
    fn is_open(&self) -> bool;
    /// Whether one waits.
    fn waits(&self) -> bool;
    /// Takes the next one.
    fn take(&self) -> Option<String>;
    /// Rings when one has come.
    fn bell(&self) -> Option<&Notify>;
    /// A turn begins.
    fn begins(&self);
}

/// The keeper of a loop that nobody has a handle of: a file.
pub(crate) struct FileKeeper {
    /// Where snapshots go.
    pub(crate) path: Option<PathBuf>,
    /// What the one who started the loop may use.
    pub(crate) system: Rc<dyn System>,
}

impl FileKeeper {
    /// The keeper of a file that the running task names.
    pub(crate) fn new(cx: &Cx, path: Option<&str>) -> FileKeeper {
        let system = cx.system();
        FileKeeper { path: path.map(|path| system.work_dir().join(path)), system }
    }
}

/// The snapshot that a loop goes on from.
///
/// # Errors
/// It cannot be read.
pub(crate) fn resumed(cx: &Cx, config: &LoopConfig) -> Result<Option<Json>> {
    let Some(path) = config.daemon.as_ref().and_then(|daemon| daemon.resume_path.as_deref()) else {
        return Ok(None);
    };
    let system = cx.system();
    let read = system.read_text(&system.work_dir().join(path), MAX_SNAPSHOT).map_err(|e| e.to_string());
    let read = read.and_then(|text| serde_json::from_str(&text).map_err(|e| e.to_string()));
    read.map(Some).map_err(|why| thrown(format!("agent_loop: resume_path: cannot read {path}: {why}")))
}

impl Keeper for FileKeeper {
    fn keep(&self, _cx: &Cx, snapshot: Json, _done: bool) -> Result<()> {
        match &self.path {
            Some(path) => write(&*self.system, path, &snapshot)
                .map_err(|why| thrown(format!("agent_loop: persist_path: {why}"))),
            None => Ok(()),
        }
    }

    fn is_open(&self) -> bool {
        false
    }

    fn waits(&self) -> bool {
        false
    }

    fn take(&self) -> Option<String> {
        None
    }

    fn bell(&self) -> Option<&Notify> {
        None
    }

    fn begins(&self) {}
}

/// Replaces a file by pretty JSON, making its folder.
///
/// # Errors
/// A text that names the file.
pub(crate) fn write(
    system: &dyn System,
    path: &std::path::Path,
    value: &Json,
) -> std::result::Result<(), String> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), |folder| system.make_dirs(folder));
    made.and_then(|()| system.replace(path, text.as_bytes()))
        .map_err(|e| format!("cannot write {}: {e}", path.display()))
}

/// The snapshot of a loop.
pub(crate) fn snapshot(cx: &Cx, agent: &AgentLoop, state: &str) -> Json {
    agent.daemon_snapshot(state, &timestamp_now(cx), &|| new_id(cx.vm()))
}

/// When watched files were changed last.
///
/// # Errors
/// A file that the running task may not look at.
pub(crate) fn observe(cx: &Cx, paths: &[String]) -> Result<BTreeMap<String, f64>> {
    let system = cx.system();
    let mut seen = BTreeMap::new();
    for path in paths {
        match system.facts(&system.work_dir().join(path)) {
            Ok(facts) => drop(seen.insert(path.clone(), facts.modified)),
            Err(error) => {
                if let Some(refusal) = Refusal::of(&error) {
                    return Err(thrown(format!("agent_loop: watch_paths: {refusal}")));
                }
            }
        }
    }
    Ok(seen)
}

/// Rests once: keeps the snapshot, waits, looks.
///
/// # Errors
/// A snapshot that cannot be written, and what interrupts the wait.
pub(crate) async fn rest(
    cx: &Cx,
    keeper: &dyn Keeper,
    listener: &Listener,
    agent: &AgentLoop,
    rest: &Rest,
) -> Result<Look> {
    if rest.first {
        keeper.keep(cx, snapshot(cx, agent, "idle"), true)?;
    }
    if rest.heard {
        return Ok(Look { can_wake: true, ..Look::default() });
    }
    let told = json!({"iteration": rest.iteration, "backoff_ms": rest.wait_ms});
    harn_stdlib::notify_host(cx, "agent/idle", &from_json(&told));
    let by_itself = rest.timer || !rest.watch.is_empty() || harn_stdlib::has_host(cx);
    let can_wake = keeper.is_open() || by_itself && (!rest.spent || rest.watched);
    if !can_wake {
        return Ok(Look::default());
    }
    let started = cx.system().monotonic();
    let mut sleep = std::pin::pin!(cx.sleep(Duration::from_millis(rest.wait_ms)));
    loop {
        let mut host = std::pin::pin!(listener.bell().notified());
        // From here on no ring is missed.
        host.as_mut().enable();
        if keeper.waits() || listener.has_news() {
            break;
        }
        let own = async {
            match keeper.bell() {
                Some(bell) => bell.notified().await,
                None => std::future::pending().await,
            }
        };
        // A bell may have rung for a message that was taken already.
        tokio::select! {
            biased;
            () = own => {}
            () = host => {}
            slept = &mut sleep => {
                slept?;
                break;
            }
        }
    }
    let waited = cx.system().monotonic().saturating_sub(started);
    let message_waits = keeper.waits();
    Ok(Look {
        can_wake,
        message: if rest.spent { None } else { keeper.take() },
        message_waits,
        resume: !rest.spent && listener.take_resume(),
        changed_at: observe(cx, &rest.watch)?,
        waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
    })
}
