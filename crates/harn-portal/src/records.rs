//! Detects the files that are records of runs, and builds the row of each in a list.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use harn_runtime::RunRecord;
use harn_system::{Facts, Real, System, SystemExt};
use harn_value::{Data, json};
use serde::Deserialize;

use crate::calls::{CallLog, Spent};
use crate::fields::{items, moment, text_of};

/// Maximum size of a record: 256 MiB.
const MAX_RECORD: u64 = 256 << 20;

/// The maximum depth of directories in the search for records.
const MAX_DEPTH: usize = 16;

/// The row of a run in a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    /// The path of the record relative to the directory, with `/`.
    pub(crate) path: String,
    pub(crate) id: String,
    pub(crate) workflow_name: String,
    pub(crate) status: String,
    pub(crate) last_stage: Option<String>,
    pub(crate) failure: Option<String>,
    pub(crate) started_at: Option<String>,
    pub(crate) finished_at: Option<String>,
    pub(crate) duration_ms: Option<i64>,
    pub(crate) stage_count: usize,
    pub(crate) child_run_count: usize,
    pub(crate) skills: BTreeSet<String>,
    /// Usage of the calls, by provider and model.
    pub(crate) spent: BTreeMap<(Option<String>, String), Spent>,
    pub(crate) updated_at_ms: i64,
}

/// Whether a run is in progress, succeeded or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Active,
    Completed,
    Failed,
}

impl Row {
    /// Returns the total usage of the calls.
    pub(crate) fn total(&self) -> Spent {
        self.spent.values().fold(Spent::default(), |sum, one| sum.and(one))
    }

    /// Returns the distinct names of the models.
    pub(crate) fn models(&self) -> BTreeSet<&str> {
        self.spent.keys().map(|(_, model)| model.as_str()).collect()
    }

    pub(crate) fn standing(&self) -> Standing {
        match self.status.as_str() {
            "completed" | "complete" | "done" | "success" | "succeeded" => Standing::Completed,
            "running" | "paused" | "pending" | "queued" | "waiting" => Standing::Active,
            _ => Standing::Failed,
        }
    }

    pub(crate) fn to_json(&self) -> Data {
        let total = self.total();
        json!({
            "path": self.path, "id": self.id, "workflow_name": self.workflow_name, "status": self.status,
            "last_stage_node_id": self.last_stage, "failure_summary": self.failure, "started_at": self.started_at,
            "finished_at": self.finished_at, "duration_ms": self.duration_ms, "stage_count": self.stage_count,
            "child_run_count": self.child_run_count, "call_count": total.calls, "input_tokens": total.input_tokens,
            "output_tokens": total.output_tokens, "cost_usd": total.cost_usd, "models": self.models(),
            "updated_at_ms": self.updated_at_ms, "skills": self.skills,
        })
    }
}

/// The common fields of records.
#[derive(Deserialize)]
struct Head {
    _type: String,
    id: String,
    workflow_id: String,
}

impl Head {
    fn is_of_a_record(&self) -> bool {
        self._type == "run_record" && !self.id.is_empty() && !self.workflow_id.is_empty()
    }
}

/// Why a record is not available.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The path is not a valid path of a record, with the reason as a message.
    BadPath(&'static str),
    /// No record has this path.
    Missing(String),
    /// It cannot be read, with the reason as a message.
    Broken(String),
}

/// Metadata of a file, and of its call log, at the time when its row was built.
type Stamp = (Facts, Option<Facts>);

/// The row of a file at that time; `None` for a file that is not a record.
type Seen = (Stamp, Option<Arc<Row>>);

/// The records in a directory.
#[derive(Debug)]
pub(crate) struct Records {
    dir: PathBuf,
    /// Cached rows.
    rows: Mutex<HashMap<PathBuf, Seen>>,
}

/// An open record.
pub(crate) struct Opened {
    pub(crate) file: PathBuf,
    pub(crate) run: Data,
    pub(crate) row: Row,
    pub(crate) log: CallLog,
}

impl Records {
    pub(crate) fn of(dir: PathBuf) -> Records {
        Records { dir, rows: Mutex::default() }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the rows of all records, newest first.
    pub(crate) fn rows(&self) -> Vec<Arc<Row>> {
        let system = Real::new();
        let mut files = Vec::new();
        if let Ok(root) = system.canonical(&self.dir) {
            collect(&system, &root, &self.dir, MAX_DEPTH, &mut files);
        }
        let known = std::mem::take(&mut *self.rows.lock().unwrap_or_else(PoisonError::into_inner));
        let mut fresh = HashMap::with_capacity(files.len());
        let mut rows = Vec::new();
        for file in files {
            let Ok(facts) = system.facts(&file) else { continue };
            let stamp = (facts, system.facts(&log_path(&file)).ok());
            let row = match known.get(&file) {
                Some((then, row)) if *then == stamp => row.clone(),
                _ => self.row(&system, &file, &facts).map(Arc::new),
            };
            rows.extend(row.clone());
            fresh.insert(file, (stamp, row));
        }
        *self.rows.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        rows.sort_by(|a, b| b.started_at.cmp(&a.started_at).then_with(|| a.path.cmp(&b.path)));
        rows
    }

    fn row(&self, system: &Real, file: &Path, facts: &Facts) -> Option<Row> {
        // Directories also contain other JSON; checking the head avoids reading it completely.
        let bytes = system.read(file, MAX_RECORD).ok()?;
        match serde_json::from_slice::<Head>(&bytes) {
            Ok(head) if head.is_of_a_record() => {}
            // A record may be nested deeper than the limit of the fast parser.
            Err(error) if error.to_string().contains("recursion limit") => {}
            _ => return None,
        }
        drop(bytes);
        let record = RunRecord::read(system, &file.display().to_string()).ok()?;
        let log = self.log(system, file);
        Some(row(&self.relative(file), facts, &record.run, &log))
    }

    /// Reads the call log of a record, unless a link leads out of the directory, as in an untrusted archive.
    fn log(&self, system: &Real, file: &Path) -> CallLog {
        let path = log_path(file);
        let root = system.canonical(&self.dir);
        match (system.canonical(&path), root) {
            (Ok(whole), Ok(root)) if !whole.starts_with(&root) => CallLog::unread(format!(
                "The call log is not read: {} leads out of the folder of the records.",
                path.display()
            )),
            _ => CallLog::read(system, &path),
        }
    }

    fn relative(&self, file: &Path) -> String {
        let path = file.strip_prefix(&self.dir).unwrap_or(file);
        let parts = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
        parts.collect::<Vec<_>>().join("/")
    }

    /// Resolves the path of a request to the file of a record.
    ///
    /// # Errors
    /// See [`Refused`].
    pub(crate) fn file(&self, path: &str) -> Result<PathBuf, Refused> {
        const OUTSIDE: &str = "run path must stay inside the configured run directory";
        if path.trim().is_empty() {
            return Err(Refused::BadPath("run path is required"));
        }
        let relative = Path::new(path);
        for part in relative.components() {
            match part {
                Component::Normal(_) | Component::CurDir => (),
                Component::ParentDir => return Err(Refused::BadPath(OUTSIDE)),
                Component::Prefix(_) | Component::RootDir => {
                    return Err(Refused::BadPath(
                        "run path must be relative to the configured run directory",
                    ));
                }
            }
        }
        let system = Real::new();
        let missing = || Refused::Missing(path.to_owned());
        let file = self.dir.join(relative);
        let whole = system.canonical(&file).map_err(|_| missing())?;
        if !whole.starts_with(system.canonical(&self.dir).map_err(|_| missing())?) {
            return Err(Refused::BadPath(OUTSIDE));
        }
        if !system.is_file(&file) || file.extension().is_none_or(|word| word != "json") {
            return Err(missing());
        }
        Ok(file)
    }

    /// Reads a record with its call log.
    ///
    /// # Errors
    /// See [`Refused`].
    pub(crate) fn open(&self, path: &str) -> Result<Opened, Refused> {
        let file = self.file(path)?;
        let system = Real::new();
        let facts = system.facts(&file).map_err(|e| Refused::Broken(format!("cannot read {path}: {e}")))?;
        let record = RunRecord::read(&system, &file.display().to_string()).map_err(Refused::Broken)?;
        let log = self.log(&system, &file);
        let row = row(&self.relative(&file), &facts, &record.run, &log);
        Ok(Opened { file, run: record.run, row, log })
    }

    /// Reads a record's file.
    ///
    /// # Errors
    /// See [`Refused`].
    pub(crate) fn raw(&self, path: &str) -> Result<Vec<u8>, Refused> {
        let file = self.file(path)?;
        Real::new()
            .read(&file, MAX_RECORD)
            .map_err(|error| Refused::Broken(format!("cannot read {path}: {error}")))
    }
}

/// Collects the files that may be records. Skips hidden directories, and directories that lead out of the root.
fn collect(system: &Real, root: &Path, dir: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    for name in system.names(dir).unwrap_or_default() {
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        let path = dir.join(&name);
        let Ok(facts) = system.facts(&path) else { continue };
        let inside = || system.canonical(&path).is_ok_and(|whole| whole.starts_with(root));
        if facts.is_dir() && depth > 0 && inside() {
            collect(system, root, &path, depth - 1, files);
        } else if facts.is_file() && path.extension().is_some_and(|word| word == "json") && inside() {
            files.push(path);
        }
    }
}

/// Returns the path of the call log of a record: `<stem>-llm/llm_transcript.jsonl` next to it.
pub(crate) fn log_path(file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!("{stem}-llm")).join("llm_transcript.jsonl")
}

fn row(path: &str, facts: &Facts, run: &Data, log: &CallLog) -> Row {
    let stages = items(run, "stages");
    let failed =
        stages.iter().rev().find(|stage| stage["status"] == "failed" || stage["outcome"] == "failed");
    let why = |of: &Data| {
        text_of(of, "error").or_else(|| of.get("error").and_then(|error| text_of(error, "message")))
    };
    let in_stage = |stage: &Data| {
        let node = text_of(stage, "node_id").unwrap_or_default();
        let what = why(&stage["metadata"]).or_else(|| why(stage)).or_else(|| text_of(stage, "outcome"));
        format!("{node}: {}", what.unwrap_or_else(|| "failed".to_owned()))
    };
    let started = moment(&run["started_at"]);
    let finished = moment(&run["finished_at"]);
    let mut row = Row {
        path: path.to_owned(),
        id: text_of(run, "id").unwrap_or_default(),
        workflow_name: text_of(run, "workflow_name")
            .or_else(|| text_of(run, "workflow_id"))
            .unwrap_or_default(),
        status: text_of(run, "status").unwrap_or_else(|| "unknown".to_owned()),
        last_stage: stages.last().and_then(|stage| text_of(stage, "node_id")),
        failure: None,
        started_at: text_of(run, "started_at"),
        finished_at: text_of(run, "finished_at"),
        duration_ms: started.zip(finished).map(|(from, to)| (to - from).max(0)),
        stage_count: stages.len(),
        child_run_count: items(run, "child_runs").len(),
        skills: skills(run),
        spent: spent(run, log),
        updated_at_ms: whole_ms(facts.modified),
    };
    if row.standing() == Standing::Failed {
        row.failure = why(run).or_else(|| failed.map(in_stage));
    }
    row
}

#[expect(clippy::cast_possible_truncation, reason = "a time of a file in seconds, far from the ends of i64")]
fn whole_ms(seconds: f64) -> i64 {
    (seconds * 1000.0) as i64
}

/// Returns the skills that were active at any time.
fn skills(run: &Data) -> BTreeSet<String> {
    let stages = items(run, "stages").iter().map(|stage| &stage["transcript"]);
    let events = stages.chain([&run["transcript"]]).flat_map(|transcript| items(transcript, "events"));
    events
        .filter(|event| event["kind"] == "skill_activated")
        .filter_map(|event| text_of(&event["metadata"], "name"))
        .collect()
}

/// Returns the usage of the calls: from the call log, which has the provider of each reply; else from the record.
fn spent(run: &Data, log: &CallLog) -> BTreeMap<(Option<String>, String), Spent> {
    let logged = log.spent();
    if !logged.is_empty() {
        return logged;
    }
    let mut out: BTreeMap<(Option<String>, String), Spent> = BTreeMap::new();
    let mut add = |usage: &Data| {
        let used = Spent::of_usage(usage);
        if used.calls == 0 && used.input_tokens == 0 && used.output_tokens == 0 {
            return;
        }
        let model = items(usage, "models").first().and_then(Data::as_str).unwrap_or("unknown");
        let sum = out.entry((None, model.to_owned())).or_default();
        *sum = sum.and(&used);
    };
    let stages = items(run, "stages");
    if stages.iter().any(|stage| !stage["usage"].is_null()) {
        stages.iter().for_each(|stage| add(&stage["usage"]));
    } else {
        add(&run["usage"]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_records_inside_the_folder_only() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("runs");
        std::fs::create_dir_all(dir.join("a")).unwrap();
        std::fs::write(dir.join("a/run.json"), "{}").unwrap();
        std::fs::write(dir.join("a/notes.txt"), "x").unwrap();
        std::fs::write(folder.path().join("secret.json"), "{}").unwrap();
        let records = Records::of(dir.clone());
        let bad = |path: &str| records.file(path).unwrap_err();
        assert_eq!(records.file("a/run.json").unwrap(), dir.join("a/run.json"));
        assert_eq!(bad(" "), Refused::BadPath("run path is required"));
        let outside = Refused::BadPath("run path must stay inside the configured run directory");
        assert_eq!(bad("../secret.json"), outside);
        assert_eq!(bad("a/../../secret.json"), outside);
        assert_eq!(
            bad("/etc/passwd"),
            Refused::BadPath("run path must be relative to the configured run directory")
        );
        for missing in ["a", "a/notes.txt", "b.json"] {
            assert_eq!(bad(missing), Refused::Missing(missing.to_owned()));
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(folder.path(), dir.join("out")).unwrap();
            assert_eq!(bad("out/secret.json"), outside);
            assert_eq!(records.rows().len(), 0);
        }
    }

    #[test]
    fn the_call_log_lies_beside_the_record() {
        assert_eq!(log_path(Path::new("x/run.json")), Path::new("x/run-llm/llm_transcript.jsonl"));
    }
}
