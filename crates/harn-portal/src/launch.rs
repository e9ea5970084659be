//! Programs that the page has started: a file of the workspace, a typed source, or a task for a model.
//!
//! Each has a directory in `<dir>/playground/`, with the launched program (`launch.json`, and `workflow.harn` and
//! `task.txt` if they were typed), the call log of its models, and, when it has ended, a record of its run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use harn_system::real::process;
use harn_system::{Command, Real, System, SystemExt};
use harn_value::{Data, json};
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::Settings;

/// Maximum number of running programs.
const MAX_RUNNING: usize = 4;

/// Maximum number of stored jobs.
const MAX_JOBS: usize = 100;

/// Maximum output of a job; only its end is shown.
const MAX_SHOWN: usize = 1 << 20;

/// Maximum number of listed files of the workspace.
const MAX_TARGETS: usize = 2_000;

/// The program that passes a task to a model.
const TASK: &str = "\
// A task that was typed into the portal; the environment selects the model.
pipeline default(task) {
  println(llm_call(task).visible_text)
}
";

/// An HTTP status and an error message.
type Failed = (StatusCode, String);

fn bad(text: impl Into<String>) -> Failed {
    (StatusCode::BAD_REQUEST, text.into())
}

/// The jobs, the newest last.
#[derive(Default)]
pub(crate) struct Jobs {
    list: Mutex<Vec<Arc<Job>>>,
}

/// A program that runs or has run.
struct Job {
    id: String,
    kind: &'static str,
    title: String,
    command: Vec<String>,
    started: Timestamp,
    /// The directory of the job.
    folder: PathBuf,
    /// The path of its record, relative to the directory of records.
    record: String,
    now: Mutex<Now>,
    stop: Notify,
}

/// The state of a job.
struct Now {
    status: &'static str,
    finished: Option<Timestamp>,
    exit_code: Option<i32>,
    output: Vec<u8>,
    truncated: bool,
    /// Whether the record was written.
    recorded: bool,
}

impl Job {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn to_json(&self) -> Data {
        let now = self.now();
        json!({
            "id": self.id, "kind": self.kind, "status": now.status, "title": self.title, "command": self.command,
            "started_at": self.started.to_string(), "finished_at": now.finished.map(|time| time.to_string()),
            "exit_code": now.exit_code, "run_path": now.recorded.then_some(self.record.as_str()),
            "output": String::from_utf8_lossy(&now.output), "truncated": now.truncated,
        })
    }

    fn tell(&self, bytes: &[u8]) {
        let mut now = self.now();
        now.output.extend_from_slice(bytes);
        // Stores up to twice the limit, so that the buffer is not moved for each line.
        if now.output.len() > MAX_SHOWN * 2 {
            let surplus = now.output.len() - MAX_SHOWN;
            now.output.drain(..surplus);
            now.truncated = true;
        }
    }

    /// Runs the program to its end and writes the record.
    async fn run(self: Arc<Job>, command: Command) {
        let stopped = AtomicBool::new(false);
        let stop = async {
            self.stop.notified().await;
            stopped.store(true, Ordering::Relaxed);
        };
        let ran =
            process::run_told(command, None, std::future::pending(), stop, |_, bytes| self.tell(bytes)).await;
        let (status, exit_code) = match ran {
            Ok(_) if stopped.load(Ordering::Relaxed) => ("stopped", None),
            Ok(end) if end.code == Some(0) => ("completed", end.code),
            Ok(end) => ("failed", end.code),
            Err(error) => {
                self.tell(format!("\n[portal] {error}\n").as_bytes());
                ("failed", None)
            }
        };
        let finished = now();
        let document = {
            let mut now = self.now();
            (now.status, now.exit_code, now.finished) = (status, exit_code, Some(finished));
            let record_status = match status {
                "completed" => "complete",
                "stopped" => "cancelled",
                other => other,
            };
            json!({
                "_type": "run_record", "id": self.id, "workflow_id": format!("harn-portal:{}", self.kind),
                "workflow_name": self.title, "task": self.title, "status": record_status,
                "started_at": self.started.to_string(), "finished_at": finished.to_string(),
                "metadata": {"launch": {
                    "kind": self.kind, "command": self.command, "exit_code": exit_code,
                    "output": String::from_utf8_lossy(&now.output), "truncated": now.truncated,
                }},
            })
        };
        let text = format!("{document:#}\n");
        let folder = self.folder.clone();
        let write = move || Real::new().replace(&folder.join("run.json"), text.as_bytes());
        match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => self.now().recorded = true,
            Ok(Err(error)) => self.tell(format!("\n[portal] cannot write the record: {error}\n").as_bytes()),
            Err(_) => (),
        }
    }
}

impl Jobs {
    fn list(&self) -> MutexGuard<'_, Vec<Arc<Job>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all jobs, newest first.
    pub(crate) fn to_json(&self) -> Data {
        json!({"jobs": self.list().iter().rev().map(|job| job.to_json()).collect::<Vec<_>>()})
    }

    /// Ends the job with this id, if it exists.
    pub(crate) fn stop(&self, id: &str) -> Option<Data> {
        let job = self.list().iter().find(|job| job.id == id).cloned()?;
        job.stop.notify_one();
        Some(job.to_json())
    }

    /// Starts a program: `{kind, path?, source?, task?, provider?, model?, env?}`.
    ///
    /// # Errors
    /// An HTTP status and a message.
    pub(crate) fn start(&self, settings: &Settings, wanted: &Data) -> Result<Data, Failed> {
        let wanted = Wanted::read(settings, wanted)?;
        let mut list = self.list();
        let running = list.iter().filter(|job| job.now().status == "running").count();
        if running >= MAX_RUNNING {
            let text = format!("{running} programs run already: wait for one, or stop it");
            return Err((StatusCode::CONFLICT, text));
        }
        let job = Arc::new(job(settings, &wanted)?);
        tokio::spawn(job.clone().run(wanted.command(settings, &job)));
        list.push(job.clone());
        let ended = list.iter().position(|job| job.now().status != "running");
        if let Some(at) = ended.filter(|_| list.len() > MAX_JOBS) {
            list.remove(at);
        }
        Ok(job.to_json())
    }
}

/// A validated launch request.
struct Wanted {
    kind: &'static str,
    title: String,
    /// The path of the program, if it is a file of the workspace.
    file: Option<PathBuf>,
    source: Option<String>,
    task: Option<String>,
    env: BTreeMap<String, String>,
}

impl Wanted {
    fn read(settings: &Settings, wanted: &Data) -> Result<Wanted, Failed> {
        const KEYS: [&str; 7] = ["kind", "path", "source", "task", "provider", "model", "env"];
        for key in wanted.as_object().into_iter().flat_map(|fields| fields.keys()) {
            if !KEYS.contains(&key.as_str()) {
                return Err(bad(format!("a launch has no field '{key}'; it has {}", KEYS.join(", "))));
            }
        }
        let text = |key: &str| match wanted.get(key) {
            None | Some(Data::Null) => Ok(None),
            Some(Data::String(text)) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
            Some(other) => Err(bad(format!("{key} must be a string, not {}", other.type_name()))),
        };
        let mut env = environment(wanted.get("env").unwrap_or(&Data::Null))?;
        for (key, name) in [("provider", "HARN_LLM_PROVIDER"), ("model", "HARN_LLM_MODEL")] {
            if let Some(value) = text(key)? {
                env.insert(name.to_owned(), value);
            }
        }
        let task = text("task")?;
        let first_line =
            |text: &str| text.trim().lines().next().unwrap_or_default().chars().take(80).collect();
        match text("kind")?.as_deref() {
            Some("file") => {
                let path =
                    text("path")?.ok_or_else(|| bad("path is required: a .harn file of the workspace"))?;
                let file = Some(program(&settings.workspace, &path)?);
                Ok(Wanted { kind: "file", title: path, file, source: None, task, env })
            }
            Some("source") => {
                let source =
                    text("source")?.ok_or_else(|| bad("source is required: the text of a program"))?;
                Ok(Wanted {
                    kind: "source",
                    title: first_line(&source),
                    file: None,
                    source: Some(source),
                    task,
                    env,
                })
            }
            Some("task") => {
                let given = task.clone().ok_or_else(|| bad("task is required: what the model is asked"))?;
                let source = Some(TASK.to_owned());
                Ok(Wanted { kind: "task", title: first_line(&given), file: None, source, task, env })
            }
            other => {
                let text = other.unwrap_or_default();
                Err(bad(format!("kind must be file, source or task, got '{text}'")))
            }
        }
    }

    fn command(&self, settings: &Settings, job: &Job) -> Command {
        let mut command = Command::new(settings.program.display().to_string());
        command.arguments = job.command[1..].to_vec();
        command.dir = Some(settings.workspace.clone());
        let own = [
            ("HARN_LLM_TRANSCRIPT_DIR", job.folder.join("run-llm").display().to_string()),
            ("NO_COLOR", "1".to_owned()),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value));
        let task = self.task.clone().map(|task| ("HARN_TASK".to_owned(), task));
        let all = own.into_iter().chain(task).chain(self.env.clone());
        command.env = all.map(|(name, value)| (name, Some(value))).collect();
        command
    }
}

/// Returns environment variables for the program. They are passed to it and not stored.
fn environment(given: &Data) -> Result<BTreeMap<String, String>, Failed> {
    let fields = match given {
        Data::Null => return Ok(BTreeMap::new()),
        Data::Object(fields) => fields,
        other => return Err(bad(format!("env must be a dict of strings, not {}", other.type_name()))),
    };
    let mut out = BTreeMap::new();
    for (name, value) in fields.iter() {
        let is_upper = |c: char| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit();
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_upper) {
            return Err(bad(format!(
                "env: variable names must be upper case, such as OPENAI_API_KEY; got '{name}'"
            )));
        }
        let Some(value) = value.as_str().filter(|value| !value.contains('\0')) else {
            return Err(bad(format!("env: the value of {name} must be a string")));
        };
        out.insert(name.clone(), value.to_owned());
    }
    Ok(out)
}

/// Resolves a path in the workspace to a program.
fn program(workspace: &Path, path: &str) -> Result<PathBuf, Failed> {
    let system = Real::new();
    let missing = || (StatusCode::NOT_FOUND, format!("there is no program {path} in the workspace"));
    let file = system.canonical(&workspace.join(path)).map_err(|_| missing())?;
    let root = system.canonical(workspace).map_err(|_| missing())?;
    if !file.starts_with(&root) {
        return Err(bad(format!("{path} lies outside of the workspace")));
    }
    if file.extension().is_none_or(|word| word != "harn") || !system.is_file(&file) {
        return Err(missing());
    }
    Ok(file)
}

/// Creates the directory of a job with its initial files.
fn job(settings: &Settings, wanted: &Wanted) -> Result<Job, Failed> {
    let system = Real::new();
    let cannot = |e: std::io::Error| {
        (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot make the folder of the launch: {e}"))
    };
    let base = settings.dir.join("playground");
    system.make_dirs(&base).map_err(cannot)?;
    let started = now();
    let (id, folder) = new_folder(&system, &base, started).map_err(cannot)?;
    let file = match (&wanted.file, &wanted.source) {
        (Some(file), _) => file.clone(),
        (None, source) => {
            let file = folder.join("workflow.harn");
            system.replace(&file, source.as_deref().unwrap_or_default().as_bytes()).map_err(cannot)?;
            file
        }
    };
    if let Some(task) = &wanted.task {
        system.replace(&folder.join("task.txt"), task.as_bytes()).map_err(cannot)?;
    }
    let command: Vec<String> =
        vec![settings.program.display().to_string(), "run".to_owned(), file.display().to_string()];
    let launch = json!({
        "id": id, "kind": wanted.kind, "title": wanted.title, "command": command, "started_at": started.to_string(),
        "env_names": wanted.env.keys().collect::<Vec<_>>(),
    });
    system.replace(&folder.join("launch.json"), format!("{launch:#}\n").as_bytes()).map_err(cannot)?;
    let now = Now {
        status: "running",
        finished: None,
        exit_code: None,
        output: Vec::new(),
        truncated: false,
        recorded: false,
    };
    Ok(Job {
        record: format!("playground/{id}/run.json"),
        id,
        kind: wanted.kind,
        title: wanted.title.clone(),
        command,
        started,
        folder,
        now: Mutex::new(now),
        stop: Notify::new(),
    })
}

/// Creates a new directory; returns its name and path.
fn new_folder(system: &Real, base: &Path, at: Timestamp) -> std::io::Result<(String, PathBuf)> {
    let mut count = 0;
    loop {
        let id = format!("job-{}-{count}", at.as_millisecond());
        let folder = base.join(&id);
        match system.make_dir(&folder) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && count < 1000 => count += 1,
            made => return made.map(|()| (id, folder)),
        }
    }
}

fn now() -> Timestamp {
    Timestamp::from_millisecond(Real::new().now_ms()).unwrap_or_default()
}

/// Lists the programs of the workspace, without ignored files (`.gitignore`).
#[expect(
    clippy::disallowed_methods,
    reason = "a walk that only gives names; what is launched is looked at again"
)]
pub(crate) fn targets(workspace: &Path) -> Data {
    let walk = ignore::WalkBuilder::new(workspace).require_git(false).build().flatten();
    let mut paths: Vec<String> = walk
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .filter(|entry| entry.path().extension().is_some_and(|word| word == "harn"))
        .filter_map(|entry| {
            let parts = entry.path().strip_prefix(workspace).ok()?.components();
            let parts: Vec<String> =
                parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
            Some(parts.join("/"))
        })
        .take(MAX_TARGETS + 1)
        .collect();
    let truncated = paths.len() > MAX_TARGETS;
    paths.truncate(MAX_TARGETS);
    paths.sort();
    json!({
        "targets": paths.into_iter().map(|path| json!({"path": path})).collect::<Vec<_>>(), "truncated": truncated,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(workspace: &Path) -> Settings {
        Settings {
            dir: workspace.join("runs"),
            workspace: workspace.to_owned(),
            program: PathBuf::from("harn"),
            remote_launch: false,
            token: None,
            version: "0",
            models: Data::Null,
            words: Data::Null,
        }
    }

    #[test]
    fn what_is_launched_is_looked_at_first() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("w");
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(workspace.join("a.harn"), "").unwrap();
        std::fs::write(workspace.join("a.txt"), "").unwrap();
        std::fs::write(folder.path().join("b.harn"), "").unwrap();
        let error = |wanted: Data| Wanted::read(&settings(&workspace), &wanted).err().map(|(_, text)| text);
        assert_eq!(error(json!({"kind": "file", "path": "a.harn"})), None);
        for (wanted, text) in [
            (json!({}), "kind must be file, source or task, got ''"),
            (json!({"kind": "file"}), "path is required: a .harn file of the workspace"),
            (json!({"kind": "file", "path": "a.txt"}), "there is no program a.txt in the workspace"),
            (json!({"kind": "file", "path": "../b.harn"}), "../b.harn lies outside of the workspace"),
            (json!({"kind": "task", "task": " "}), "task is required: what the model is asked"),
            (json!({"kind": "source", "source": 1}), "source must be a string, not int"),
            (
                json!({"kind": "task", "task": "x", "modell": "m"}),
                "a launch has no field 'modell'; it has kind, path, source, task, provider, model, env",
            ),
            (
                json!({"kind": "task", "task": "x", "env": {"key": "v"}}),
                "env: variable names must be upper case, such as OPENAI_API_KEY; got 'key'",
            ),
            (
                json!({"kind": "task", "task": "x", "env": {"KEY": 1}}),
                "env: the value of KEY must be a string",
            ),
            (json!({"kind": "task", "task": "x", "env": []}), "env must be a dict of strings, not list"),
        ] {
            assert_eq!(error(wanted).as_deref(), Some(text));
        }
    }

    #[test]
    fn programs_of_the_workspace() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in
            [("b.harn", ""), ("x/a.harn", ""), ("build/c.harn", ""), ("d.txt", ""), (".gitignore", "build\n")]
        {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        assert_eq!(
            targets(folder.path()),
            json!({"targets": [{"path": "b.harn"}, {"path": "x/a.harn"}], "truncated": false})
        );
    }
}
