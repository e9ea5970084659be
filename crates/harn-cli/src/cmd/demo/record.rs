//! The run record of a demo, for `harn portal` and other tools.

use std::path::{Path, PathBuf};

use harn_system::{Real, System, SystemExt};
use harn_value::{Data as Value, json};
use jiff::Timestamp;

use super::scenarios::Scenario;
use super::stage::Streams;

/// The directory of a record. It is created before the run because model calls are logged into it during the run.
pub(super) struct Folder {
    path: PathBuf,
    started: Timestamp,
}

impl Folder {
    /// Creates the directory of a new run below `.harn-runs` (`HARN_RUN_DIR`).
    ///
    /// # Errors
    /// A message for the user.
    pub(super) fn make(scenario: &Scenario) -> Result<Folder, String> {
        let system = Real::new();
        let started = now(&system);
        let base = crate::cmd::runs::records(&system);
        let name = format!("demo-{}-{}", scenario.id, started.as_second());
        system.make_dirs(&base).map_err(|e| cannot(&base, &e))?;
        let path = new_folder(&system, &base, &name).map_err(|e| cannot(&base.join(&name), &e))?;
        Ok(Folder { path, started })
    }

    /// Returns the absolute directory of the call log, where tools that read the record expect it.
    pub(super) fn calls(&self) -> PathBuf {
        Real::new().work_dir().join(&self.path).join("run-llm")
    }

    /// Writes the record of a run that ended with exit code `code`. Returns the directory as it is shown to the user.
    ///
    /// # Errors
    /// A message for the user.
    pub(super) fn write(&self, scenario: &Scenario, code: u8, streams: &Streams) -> Result<String, String> {
        let system = Real::new();
        let path = self.path.join("run.json");
        let text = format!("{:#}\n", self.document(scenario, code, streams, now(&system)));
        system.replace(&path, text.as_bytes()).map_err(|e| cannot(&path, &e))?;
        Ok(self.path.display().to_string())
    }

    fn document(&self, scenario: &Scenario, code: u8, streams: &Streams, finished: Timestamp) -> Value {
        let Scenario { id, title, description, .. } = scenario;
        json!({
            "_type": "run_record",
            "id": self.path.file_name().unwrap_or_default().to_string_lossy(),
            "workflow_id": format!("harn-demo:{id}"),
            "workflow_name": title,
            "task": id,
            "status": if code == 0 { "complete" } else { "failed" },
            "started_at": self.started.to_string(),
            "finished_at": finished.to_string(),
            "metadata": {"demo": {
                "scenario": id, "title": title, "description": description, "exit_code": code,
                "stdout": streams.out(), "stderr": streams.err(),
                "recorded_at_unix_seconds": finished.as_second(),
            }},
        })
    }
}

fn cannot(path: &Path, e: &std::io::Error) -> String {
    format!("cannot write the run record {}: {e}", path.display())
}

/// Returns the current time.
fn now(system: &Real) -> Timestamp {
    Timestamp::from_millisecond(system.now_ms()).unwrap_or_default()
}

/// Creates a new directory. Runs within the same second get different names.
fn new_folder(system: &Real, base: &Path, name: &str) -> std::io::Result<PathBuf> {
    let mut count = 1;
    loop {
        let folder = base.join(if count == 1 { name.to_owned() } else { format!("{name}-{count}") });
        match system.make_dir(&folder) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && count < 1000 => count += 1,
            made => return made.map(|()| folder),
        }
    }
}
