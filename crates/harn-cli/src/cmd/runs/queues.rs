//! The queues of runs and their limits.

use std::time::Duration;

use harn_store::{QueueState, Rate};
use harn_system::{Real, System};
use harn_value::{Data as Value, json};

use super::{Outcome, Shown, opened, time, wait};
use crate::table;

pub(super) fn queues() -> Outcome<Shown> {
    let states = match opened()? {
        Some(store) => wait(store.run_queues(Real::new().now_ms()))?,
        None => Vec::new(),
    };
    let rows: Vec<Vec<String>> = states.iter().map(row).collect();
    let columns = ["QUEUE", "QUEUED", "READY", "RUNNING", "SUSPENDED", "CONCURRENCY", "RATE", "PER GROUP"];
    let text = if rows.is_empty() { "No queues.\n".to_owned() } else { table::draw(&columns, &rows) };
    let data: Vec<Value> = states.iter().map(described).collect();
    Ok(Shown::new(text, json!({"queues": data})))
}

/// Formats a rate as in the manifest.
fn rate(rate: Rate) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let fits = units.into_iter().find(|(ms, _)| rate.period_ms % ms == 0);
    let (ms, unit) = fits.unwrap_or((1, "ms"));
    format!("{}/{}{unit}", rate.count, rate.period_ms / ms)
}

fn row(state: &QueueState) -> Vec<String> {
    let limits = &state.queue.limits;
    let of_group = [limits.group_concurrency.map(|most| most.to_string()), limits.group_rate.map(rate)];
    let of_group: Vec<String> = of_group.into_iter().flatten().collect();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        state.queue.name.clone(),
        state.queued.to_string(),
        state.ready.to_string(),
        state.running.to_string(),
        state.suspended.to_string(),
        or_dash(limits.concurrency.map(|most| most.to_string())),
        or_dash(limits.rate.map(rate)),
        or_dash(Some(of_group.join(", ")).filter(|text| !text.is_empty())),
    ]
}

fn described(state: &QueueState) -> Value {
    let limits = &state.queue.limits;
    let rate = |found: Option<Rate>| {
        let seconds = |ms: i64| Duration::from_millis(ms.unsigned_abs()).as_secs_f64();
        found.map(|rate| json!({"count": rate.count, "seconds": seconds(rate.period_ms)}))
    };
    json!({
        "name": state.queue.name.as_str(), "queued": state.queued, "ready": state.ready, "running": state.running,
        "suspended": state.suspended, "oldest_due_at": state.oldest_due_ms.map(time),
        "limits": {
            "concurrency": limits.concurrency, "rate": rate(limits.rate),
            "group_concurrency": limits.group_concurrency, "group_rate": rate(limits.group_rate),
        },
    })
}
