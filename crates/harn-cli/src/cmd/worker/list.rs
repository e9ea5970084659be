//! `harn worker list`: the workers of the store.

use harn_system::{Real, System};
use harn_value::{Data as Value, json};

use super::registry::{WorkerInfo, workers};
use crate::cmd::runs::{Outcome, Shown, opened, show, time, wait};
use crate::table;

/// Lists the workers. Returns the exit code.
pub(crate) fn list(as_json: bool) -> u8 {
    show(listed(), as_json)
}

fn listed() -> Outcome<Shown> {
    let now_ms = Real::new().now_ms();
    let found = match opened()? {
        Some(store) => wait(workers(&*store, now_ms))?,
        None => Vec::new(),
    };
    let data: Vec<Value> = found.iter().map(|worker| worker.data(time)).collect();
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    let columns = ["WORKER", "STATUS", "PID", "VERSION", "HEARTBEAT", "ENDED", "WORKS ON"];
    let text = if rows.is_empty() { "No workers.\n".to_owned() } else { table::draw(&columns, &rows) };
    Ok(Shown::new(text, json!({"workers": data})))
}

fn row(worker: &WorkerInfo) -> Vec<String> {
    let record = &worker.record;
    let runs: Vec<String> = record["runs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|run| run["id"].as_str().map(str::to_owned))
        .collect();
    let slots = record["concurrency"].as_u64().unwrap_or(0);
    let work = match (worker.is_alive(), runs.is_empty()) {
        (_, false) => format!("{} of {slots}: {}", runs.len(), runs.join(", ")),
        (true, true) => format!("0 of {slots}"),
        (false, true) => "-".to_owned(),
    };
    vec![
        worker.name.clone(),
        worker.status.clone(),
        record["pid"].as_u64().map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        record["version"].as_str().unwrap_or("-").to_owned(),
        format!("{} ago", age(worker.age_ms)),
        record["ended"].as_u64().unwrap_or(0).to_string(),
        work,
    ]
}

/// Formats a duration in its largest unit.
pub(crate) fn age(ms: i64) -> String {
    match ms / 1000 {
        seconds @ ..120 => format!("{seconds}s"),
        seconds @ ..7_200 => format!("{}m", seconds / 60),
        seconds @ ..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}
