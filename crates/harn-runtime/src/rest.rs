//! What a loop that rests needs of the world: somebody who keeps its snapshots, waits, files to look at.

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

/// The largest snapshot that is read: 256 MiB.
const MAX_SNAPSHOT: u64 = 256 << 20;

/// The largest history beside a snapshot that is read: 4 GiB.
const MAX_HISTORY: u64 = 4 << 30;

/// Who a daemon's loop belongs to.
pub(crate) trait Keeper {
    /// Keeps a snapshot of the loop, where `state` is the word for how it stands. `done` tells that the turn in front of it was
    /// completed.
    fn keep(&self, cx: &Cx, agent: &AgentLoop, state: &str, done: bool) -> Result<()>;
    /// The loop goes on from a snapshot.
    fn goes_on_from(&self, read: &Resumed);
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
    /// The loop is about to wait, and has nothing to answer.
    ///
    /// # Errors
    /// The end of the program, where it is to begin anew from a snapshot.
    fn waits_now(&self, _cx: &Cx, _agent: &AgentLoop) -> Result<()> {
        Ok(())
    }
}

/// The file of a loop's snapshots, with what is beside it.
pub(crate) struct SnapshotFile {
    path: PathBuf,
    /// What the one who started the loop may use.
    system: Rc<dyn System>,
    /// What is in the file beside it, and how much of that file.
    marks: Cell<Marks>,
    bytes: Cell<u64>,
}

impl SnapshotFile {
    /// The file at a path.
    pub(crate) fn new(system: Rc<dyn System>, path: PathBuf) -> SnapshotFile {
        SnapshotFile { path, system, marks: Cell::default(), bytes: Cell::default() }
    }

    /// The loop goes on from a snapshot: when it is that of this file, what is beside it stays.
    pub(crate) fn goes_on_from(&self, read: &Resumed) {
        if read.path == self.path {
            self.marks.set(read.marks);
            self.bytes.set(read.bytes);
        }
    }

    /// Writes a snapshot in one step. `amend` adds to it.
    ///
    /// # Errors
    /// A text that names the file.
    pub(crate) fn save(
        &self,
        cx: &Cx,
        agent: &AgentLoop,
        state: &str,
        amend: impl FnOnce(&mut Json),
    ) -> std::result::Result<Saved, String> {
        let mut marks = self.marks.get();
        let mut snapshot = agent.daemon_snapshot(state, &timestamp_now(cx), &|| new_id(cx.vm()), &marks);
        amend(&mut snapshot);
        let mut bytes = self.bytes.get();
        let moved = history::move_out(&mut snapshot);
        if let Some(line) = &moved {
            bytes = self.append(line)?;
            marks.add(line);
        }
        if bytes > 0 {
            let file = history_of(&self.path);
            let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            snapshot["earlier"] = Json::lossy(&Earlier { file, bytes });
        }
        write(&*self.system, &self.path, &snapshot)?;
        // Only now does it count: until then the old snapshot says how much of the other file belongs to it.
        self.marks.set(marks);
        self.bytes.set(bytes);
        Ok(Saved { snapshot, moved, bytes })
    }

    /// Adds a line to the file beside the snapshot, and returns how long that is then.
    fn append(&self, line: &Json) -> std::result::Result<u64, String> {
        let path = history_of(&self.path);
        let wrong = |e: std::io::Error| format!("cannot write {}: {e}", path.display());
        let (system, known) = (&self.system, self.bytes.get());
        let line = line.to_string() + "\n";
        let there = system.facts(&path).map_or(0, |facts| facts.size);
        if known == 0 || there != known {
            // What a process left there that died before its snapshot said so.
            let mut whole = match known {
                0 => Vec::new(),
                _ => system.read(&path, MAX_HISTORY).map_err(wrong)?,
            };
            if (whole.len() as u64) < known {
                return Err(format!("cannot write {}: its beginning is missing", path.display()));
            }
            whole.truncate(usize::try_from(known).unwrap_or(usize::MAX));
            whole.extend_from_slice(line.as_bytes());
            system.write_with_folder(&path, |system| system.replace(&path, &whole)).map_err(wrong)?;
        } else {
            system.append(&path, line.as_bytes()).map_err(wrong)?;
        }
        Ok(known + line.len() as u64)
    }
}

/// The file beside a snapshot.
pub(crate) fn history_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".history");
    path.with_file_name(name)
}

/// The lines in the first bytes of the file beside a snapshot, which are its own.
///
/// # Errors
/// A text that names the file.
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

/// What was saved.
pub(crate) struct Saved {
    /// What is in the file.
    pub(crate) snapshot: Json,
    /// What has moved to the file beside it.
    pub(crate) moved: Option<Json>,
    /// How long that file is.
    pub(crate) bytes: u64,
}

/// A snapshot that a loop goes on from, whole.
pub(crate) struct Resumed {
    path: PathBuf,
    /// What it says.
    pub(crate) snapshot: Json,
    marks: Marks,
    bytes: u64,
}

impl Resumed {
    /// Reads a snapshot, and what is beside it.
    ///
    /// # Errors
    /// A text that names the file that cannot be read.
    pub(crate) fn read(system: &dyn System, path: PathBuf) -> std::result::Result<Resumed, String> {
        let wrong = |why: String| format!("cannot read {}: {why}", path.display());
        let text = system.read_text(&path, MAX_SNAPSHOT).map_err(|e| wrong(e.to_string()))?;
        let snapshot = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        Resumed::complete(system, path, snapshot)
    }

    /// Puts what is beside a snapshot back into it.
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
            return Ok(Resumed { path, snapshot, marks: Marks::default(), bytes: 0 });
        };
        let beside = path.with_file_name(&earlier.file);
        let lines = lines_of(system, &beside, earlier.bytes)?;
        let mut marks = Marks::default();
        lines.iter().for_each(|line| marks.add(line));
        history::put_back(&mut snapshot, lines).map_err(|why| wrong(&beside, why))?;
        Ok(Resumed { path, snapshot, marks, bytes: earlier.bytes })
    }
}

/// The keeper of a loop that nobody has a handle of: a file, when it names one.
pub(crate) struct FileKeeper {
    file: Option<SnapshotFile>,
    turns: Option<Turnover>,
}

/// When a loop has its program begin anew.
struct Turnover {
    /// The file of its snapshots, as the program named it.
    named: String,
    /// Behind so many waits.
    after: u64,
    /// The waits so far. What counts must be the same when a journal is followed.
    waits: Cell<u64>,
}

impl FileKeeper {
    /// The keeper of the file that the running task names.
    ///
    /// # Errors
    /// The program is to begin anew where it cannot.
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

/// The snapshot that a loop goes on from, and whether it rested when its program began anew.
///
/// # Errors
/// It cannot be read.
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
        // What it has seen of its files since it came to rest.
        self.keep(cx, agent, "idle", true)?;
        Err(anew::hand_over(cx, anew::with_daemon(cx, &turns.named)?))
    }
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
    system
        .write_with_folder(path, |system| system.replace(path, text.as_bytes()))
        .map_err(|e| format!("cannot write {}: {e}", path.display()))
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
