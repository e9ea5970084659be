//! The run record of a demo, for `harn portal` and other readers of records.

use std::path::{Path, PathBuf};

use harn_system::{Real, System};
use harn_value::{Data as Value, json};
use jiff::Timestamp;

use super::scenarios::Scenario;
use super::stage::Streams;

/// A run that has ended.
pub(super) struct Run<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) code: u8,
    pub(super) started: Timestamp,
    pub(super) streams: &'a Streams,
}

/// Writes the record into a folder of its own below `.harn-runs` (`HARN_RUN_DIR`); gives the folder.
///
/// # Errors
/// A sentence.
pub(super) fn write(run: &Run<'_>) -> Result<String, String> {
    let system = Real::new();
    let finished = now(&system);
    let base = system.env("HARN_RUN_DIR").filter(|dir| !dir.is_empty());
    let base = base.map_or_else(|| PathBuf::from(".harn-runs"), PathBuf::from);
    let name = format!("demo-{}-{}", run.scenario.id, finished.as_second());
    let cannot =
        |path: &Path, e: std::io::Error| format!("cannot write the run record {}: {e}", path.display());
    system.make_dirs(&base).map_err(|e| cannot(&base, e))?;
    let folder = new_folder(&system, &base, &name).map_err(|e| cannot(&base.join(&name), e))?;
    let path = folder.join("run.json");
    let id = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = format!("{:#}\n", document(run, &id, finished));
    system.replace(&path, text.as_bytes()).map_err(|e| cannot(&path, e))?;
    Ok(folder.display().to_string())
}

/// The time now.
pub(super) fn now(system: &Real) -> Timestamp {
    Timestamp::from_millisecond(system.now_ms()).unwrap_or_default()
}

/// Makes a folder that was not there: runs within one second keep their records apart.
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

fn document(run: &Run<'_>, id: &str, finished: Timestamp) -> Value {
    let Scenario { id: scenario, title, description, .. } = run.scenario;
    json!({
        "_type": "run_record",
        "id": id,
        "workflow_id": format!("harn-demo:{scenario}"),
        "workflow_name": title,
        "task": scenario,
        "status": if run.code == 0 { "complete" } else { "failed" },
        "started_at": run.started.to_string(),
        "finished_at": finished.to_string(),
        "metadata": {"demo": {
            "scenario": scenario, "title": title, "description": description, "exit_code": run.code,
            "stdout": run.streams.out(), "stderr": run.streams.err(),
            "recorded_at_unix_seconds": finished.as_second(),
        }},
    })
}
