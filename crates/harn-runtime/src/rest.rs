//! Idle periods of a daemon's loop: storing snapshots, waiting for messages, and watching files.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use harn_agent::daemon::DaemonConfig;
use harn_agent::daemon::history::{self, Earlier, Marks};
use harn_agent::{AgentLoop, Look, LoopConfig, Rest};
use harn_stdlib::timestamp_now;
use harn_system::{Refusal, System, SystemExt};
use harn_value::{Data as Json, json};
use harn_vm::{Cx, Result};
use tokio::sync::Notify;

use crate::anew;
use crate::convert::{from_json, thrown};
use crate::host::Listener;
use crate::llm_embedder::new_id;

/// Maximum size of a snapshot that is read: 256 MiB.
const MAX_SNAPSHOT: u64 = 256 << 20;

/// Maximum size of the history file of a snapshot: 4 GiB.
const MAX_HISTORY: u64 = 4 << 30;

/// The owner of a daemon's loop, which stores its snapshots and queues messages.
pub(crate) trait Keeper {
    /// Stores a snapshot of the loop in the given state. `done` if the preceding turn was completed.
    fn keep(&self, cx: &Cx, agent: &AgentLoop, state: &str, done: bool) -> Result<()>;
    /// Called when the loop resumes from a snapshot.
    fn goes_on_from(&self, read: &Resumed);
    /// Returns whether messages can arrive.
    fn is_open(&self) -> bool;
    /// Returns whether a message is pending.
    fn waits(&self) -> bool;
    /// Takes the next message.
    fn take(&self) -> Option<String>;
    /// Returns the notification of new messages.
    fn bell(&self) -> Option<&Notify>;
    /// Called when a turn begins.
    fn begins(&self);
    /// Called before the loop waits with no message to process.
    ///
    /// # Errors
    /// Ends the program if it should restart from a snapshot.
    fn waits_now(&self, _cx: &Cx, _agent: &AgentLoop) -> Result<()> {
        Ok(())
    }
}

/// The file of a loop's snapshots, and its history file.
pub(crate) struct SnapshotFile {
    path: PathBuf,
    /// The system layer with the rights of the loop's caller.
    system: Rc<dyn System>,
    /// The parts of the snapshot that are in the history file, and the used size of that file.
    marks: Cell<Marks>,
    bytes: Cell<u64>,
    /// Which of its two names that file has. A shorter history is written to the other one, so that the last snapshot keeps its own
    /// until the next one is stored.
    is_second: Cell<bool>,
    /// How often the loop had removed older history.
    trims: Cell<u64>,
}

impl SnapshotFile {
    /// Creates the file at a path.
    pub(crate) fn new(system: Rc<dyn System>, path: PathBuf) -> SnapshotFile {
        SnapshotFile {
            path,
            system,
            marks: Cell::default(),
            bytes: Cell::default(),
            is_second: Cell::default(),
            trims: Cell::default(),
        }
    }

    /// Called when the loop resumes from a snapshot: if the snapshot is from this file, its history file remains in
    /// use.
    pub(crate) fn goes_on_from(&self, read: &Resumed) {
        if read.path == self.path {
            self.marks.set(read.marks);
            self.bytes.set(read.bytes);
            self.is_second.set(read.is_second);
        }
    }

    /// Writes a snapshot atomically. `amend` adds entries to it.
    ///
    /// # Errors
    /// A message that names the file.
    pub(crate) fn save(
        &self,
        cx: &Cx,
        agent: &AgentLoop,
        state: &str,
        amend: impl FnOnce(&mut Json),
    ) -> std::result::Result<Saved, String> {
        let trims = agent.history_trims();
        let restarted = trims != self.trims.get();
        let before = (self.marks.get(), self.bytes.get(), self.is_second.get());
        let (mut marks, mut bytes, is_second) =
            if restarted { (Marks::default(), 0, !before.2) } else { before };
        let beside = history_of(&self.path, is_second);
        let mut snapshot = agent.daemon_snapshot(state, &timestamp_now(cx), &|| new_id(cx.vm()), &marks);
        amend(&mut snapshot);
        let moved = history::move_out(&mut snapshot);
        if let Some(line) = &moved {
            bytes = self.append(&beside, line, bytes)?;
            marks.add(line);
        }
        if bytes > 0 {
            let file = beside.file_name().unwrap_or_default().to_string_lossy().into_owned();
            snapshot["earlier"] = Json::lossy(&Earlier { file, bytes });
        }
        write(&*self.system, &self.path, &snapshot)?;
        // Updated only now: until the snapshot is replaced, the old one determines how much of the history file is
        // valid.
        self.marks.set(marks);
        self.bytes.set(bytes);
        self.is_second.set(is_second);
        self.trims.set(trims);
        if restarted && before.1 > 0 {
            // If that fails, the file is of no use, and does no harm.
            let _ = self.system.remove(&history_of(&self.path, before.2));
        }
        Ok(Saved { snapshot, moved, bytes, restarted })
    }

    /// Adds a line to the file beside the snapshot, of which `known` bytes are its own, and returns how long that is then.
    fn append(&self, path: &Path, line: &Json, known: u64) -> std::result::Result<u64, String> {
        let wrong = |e: std::io::Error| format!("cannot write {}: {e}", path.display());
        let system = &self.system;
        let line = line.to_string() + "\n";
        let there = system.facts(path).map_or(0, |facts| facts.size);
        if known == 0 || there != known {
            // Remains of a process that died before it wrote the snapshot.
            let mut whole = match known {
                0 => Vec::new(),
                _ => system.read(path, MAX_HISTORY).map_err(wrong)?,
            };
            if (whole.len() as u64) < known {
                return Err(format!("cannot write {}: its beginning is missing", path.display()));
            }
            whole.truncate(usize::try_from(known).unwrap_or(usize::MAX));
            whole.extend_from_slice(line.as_bytes());
            system.write_with_folder(path, |system| system.replace(path, &whole)).map_err(wrong)?;
        } else {
            system.append(path, line.as_bytes()).map_err(wrong)?;
        }
        Ok(known + line.len() as u64)
    }
}

/// The file beside a snapshot, under the first or the second of its names.
pub(crate) fn history_of(path: &Path, is_second: bool) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(if is_second { ".history-2" } else { ".history" });
    path.with_file_name(name)
}

/// Returns the lines in the valid part of a history file, its first `bytes` bytes.
///
/// # Errors
/// A message that names the file.
pub(crate) fn lines_of(
    system: &dyn System,
    beside: &Path,
    bytes: u64,
) -> std::result::Result<Vec<Json>, String> {
    let wrong = |why: String| format!("cannot read {}: {why}", beside.display());
    let read = system.read(beside, MAX_HISTORY).map_err(|e| wrong(e.to_string()))?;
    let Some(own) = usize::try_from(bytes).ok().and_then(|len| read.get(..len)) else {
        return Err(wrong(format!("it has {} bytes, and the snapshot beside it needs {bytes}", read.len())));
    };
    let lines = own.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).map_err(|e| wrong(e.to_string()))).collect()
}

/// The result of writing a snapshot.
pub(crate) struct Saved {
    /// The content of the file.
    pub(crate) snapshot: Json,
    /// The line that was appended to the history file.
    pub(crate) moved: Option<Json>,
    /// The size of the history file in bytes.
    pub(crate) bytes: u64,
    /// Whether the file has another name than before, and begins with this line.
    pub(crate) restarted: bool,
}

/// A complete snapshot from which a loop resumes.
pub(crate) struct Resumed {
    path: PathBuf,
    /// Its content.
    pub(crate) snapshot: Json,
    marks: Marks,
    bytes: u64,
    is_second: bool,
}

impl Resumed {
    /// Reads a snapshot and its history file.
    ///
    /// # Errors
    /// A message that names the unreadable file.
    pub(crate) fn read(system: &dyn System, path: PathBuf) -> std::result::Result<Resumed, String> {
        let wrong = |why: String| format!("cannot read {}: {why}", path.display());
        let text = system.read_text(&path, MAX_SNAPSHOT).map_err(|e| wrong(e.to_string()))?;
        let snapshot = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        Resumed::complete(system, path, snapshot)
    }

    /// Merges the content of the history file into a snapshot.
    ///
    /// # Errors
    /// As [`Resumed::read`].
    pub(crate) fn complete(
        system: &dyn System,
        path: PathBuf,
        mut snapshot: Json,
    ) -> std::result::Result<Resumed, String> {
        let wrong = |path: &Path, why: String| format!("cannot read {}: {why}", path.display());
        let Some(earlier) = Earlier::of(&snapshot).map_err(|why| wrong(&path, why))? else {
            return Ok(Resumed { path, snapshot, marks: Marks::default(), bytes: 0, is_second: false });
        };
        let beside = path.with_file_name(&earlier.file);
        let lines = lines_of(system, &beside, earlier.bytes)?;
        let mut marks = Marks::default();
        lines.iter().for_each(|line| marks.add(line));
        history::put_back(&mut snapshot, lines).map_err(|why| wrong(&beside, why))?;
        let is_second = beside == history_of(&path, true);
        Ok(Resumed { path, snapshot, marks, bytes: earlier.bytes, is_second })
    }
}

/// The keeper of a loop without a handle: it uses a file, if the loop names one.
pub(crate) struct FileKeeper {
    file: Option<SnapshotFile>,
    turns: Option<Turnover>,
}

/// When a loop restarts its program.
struct Turnover {
    /// The file of its snapshots, as the program named it.
    named: String,
    /// The number of waits after which it restarts.
    after: u64,
    /// The waits so far. A number of waits is the same when a journal is replayed.
    waits: Cell<u64>,
}

impl FileKeeper {
    /// Creates the keeper for the file that the options name.
    ///
    /// # Errors
    /// The program should restart, but cannot.
    pub(crate) fn new(cx: &Cx, daemon: &DaemonConfig) -> Result<FileKeeper> {
        let system = cx.system();
        let file = daemon.snapshot_path().map(|path| system.work_dir().join(path));
        let turns = match (daemon.anew_after, &daemon.persist_path) {
            (Some(after), Some(named)) => {
                anew::allowed(cx, "agent_loop: continue_as_new_after")?;
                if cx.task().parent().is_some() {
                    return Err(thrown(
                        "agent_loop: continue_as_new_after: only a loop in the main task can restart the program; this loop runs in a spawned task", // prose-ok: diagnostic
                    ));
                }
                anew::with_daemon(cx, named)?;
                Some(Turnover { named: named.clone(), after, waits: Cell::default() })
            }
            _ => None,
        };
        Ok(FileKeeper { file: file.map(|file| SnapshotFile::new(system, file)), turns })
    }
}

/// Returns the snapshot from which a loop resumes, and whether it was idle when its program restarted.
///
/// # Errors
/// The snapshot cannot be read.
pub(crate) fn resumed(cx: &Cx, config: &LoopConfig) -> Result<Option<(Resumed, bool)>> {
    let Some(daemon) = &config.daemon else { return Ok(None) };
    let rested = daemon.persist_path.as_deref().filter(|path| anew::rested_in(cx, path));
    let (path, option, rests) = match (rested, daemon.resume_path.as_deref()) {
        (Some(path), _) => (path, "persist_path", true),
        (None, Some(path)) => (path, "resume_path", false),
        (None, None) => return Ok(None),
    };
    let system = cx.system();
    let read = Resumed::read(&*system, system.work_dir().join(path));
    read.map(|read| Some((read, rests))).map_err(|why| thrown(format!("agent_loop: {option}: {why}")))
}

impl Keeper for FileKeeper {
    fn keep(&self, cx: &Cx, agent: &AgentLoop, state: &str, _done: bool) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let saved = file.save(cx, agent, state, |_| {});
        saved.map(drop).map_err(|why| thrown(format!("agent_loop: persist_path: {why}")))
    }

    fn goes_on_from(&self, read: &Resumed) {
        if let Some(file) = &self.file {
            file.goes_on_from(read);
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

    fn waits_now(&self, cx: &Cx, agent: &AgentLoop) -> Result<()> {
        let Some(turns) = &self.turns else { return Ok(()) };
        turns.waits.set(turns.waits.get() + 1);
        if turns.waits.get() <= turns.after {
            return Ok(());
        }
        // Stores the state of the watched files since the loop became idle.
        self.keep(cx, agent, "idle", true)?;
        Err(anew::hand_over(cx, anew::with_daemon(cx, &turns.named)?))
    }
}

/// Replaces a file by formatted JSON, and creates its directory.
///
/// # Errors
/// A message that names the file.
pub(crate) fn write(
    system: &dyn System,
    path: &std::path::Path,
    value: &Json,
) -> std::result::Result<(), String> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
    system
        .write_with_folder(path, |system| system.replace(path, text.as_bytes()))
        .map_err(|e| format!("cannot write {}: {e}", path.display()))
}

/// Returns the modification times of watched files.
///
/// # Errors
/// The running task is not permitted to read a file.
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

/// Performs one idle period: stores the snapshot, waits, and checks for changes.
///
/// # Errors
/// The snapshot cannot be written, or the wait is interrupted.
pub(crate) async fn rest(
    cx: &Cx,
    keeper: &dyn Keeper,
    listener: &Listener,
    agent: &AgentLoop,
    rest: &Rest,
) -> Result<Look> {
    if rest.first {
        keeper.keep(cx, agent, "idle", true)?;
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
    if !keeper.waits() && !listener.has_news() {
        keeper.waits_now(cx, agent)?;
    }
    let started = cx.system().monotonic();
    let mut sleep = std::pin::pin!(cx.sleep(Duration::from_millis(rest.wait_ms)));
    loop {
        let mut host = std::pin::pin!(listener.bell().notified());
        // Notifications after this point are not missed.
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
        // The notification may be for a message that was already taken.
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
