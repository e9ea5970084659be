//! Changes of the status of runs: retry, requeue, cancel, pause, unpause, prune.

use std::path::Path;
use std::time::Duration;

use harn_check::Settings;
use harn_store::{
    Error as StoreError, Fence, NewStatus, Prune, Run, RunFilter, RunStatus, Store, Wish, Write,
};
use harn_system::{Real, System};
use harn_value::{Data as Value, json};

use super::{Failure, Outcome, PAGE, Shown, head, lease, opened, store, wait};
use crate::args::{Filter, RunsChangeArgs};
use crate::cmd::durable::{given, last_entries, replaced};

/// A change of a run's status.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Retry,
    Requeue,
    Cancel,
    Pause,
    Unpause,
}

/// Number of attempts to take the lease of a run whose owner changes.
const TRIES: u32 = 10;

pub(super) fn change(change: Change, args: &RunsChangeArgs) -> Outcome<Shown> {
    let (mut text, mut data) = (String::new(), Vec::new());
    let mut add = |id: &str, result: &str| {
        text += &format!("run {id} {result}\n");
        data.push(json!({"id": id, "result": result}));
    };
    match &args.filter {
        None => {
            for id in &args.ids {
                let store = store(id)?;
                add(id, &one(&*store, &head(&*store, id)?, change)?);
            }
        }
        Some(filter) => {
            let found = match opened()? {
                Some(store) => {
                    matching(&*store, filter)?.into_iter().map(|run| (store.clone(), run)).collect()
                }
                None => Vec::new(),
            };
            for (store, run) in found {
                match one(&*store, &run, change) {
                    Ok(result) => add(&run.id, &result),
                    // The run has another status, or another process changed it first.
                    Err(Failure { code: "wrong_status" | "run_not_found" | "run_is_held", .. }) => {}
                    Err(failure) => return Err(failure),
                }
            }
        }
    }
    if text.is_empty() {
        text.push_str("No runs.\n");
    }
    Ok(Shown::new(text, json!({"runs": data})))
}

/// Returns the runs that match a filter, oldest first.
pub(super) fn matching(store: &dyn Store, filter: &Filter) -> Outcome<Vec<Run>> {
    let now_ms = Real::new().now_ms();
    let mut page = RunFilter { status: filter.status, now_ms, before: None };
    let mut found = Vec::new();
    loop {
        let runs = wait(store.runs(page, PAGE))?;
        let Some(last) = runs.last() else { break };
        page.before = Some(last.number);
        found.extend(runs.into_iter().filter(|run| fits(run, filter, now_ms)));
    }
    found.reverse();
    Ok(found)
}

/// Whether a filter matches a run. The age is the time since its last change.
pub(super) fn fits(run: &Run, filter: &Filter, now_ms: i64) -> bool {
    let age = now_ms.saturating_sub(run.updated_ms);
    let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let category = || failure(run)["category"].as_str().map(str::to_owned);
    filter.status.is_none_or(|status| run.status_at(now_ms) == status)
        && filter.program.as_ref().is_none_or(|program| run.program == *program)
        && filter.id.as_ref().is_none_or(|id| run.id.starts_with(&**id))
        && filter.category.as_ref().is_none_or(|wanted| category().as_ref() == Some(wanted))
        && filter.owner.as_ref().is_none_or(|owner| {
            run.lease.as_ref().is_some_and(|lease| lease.until_ms > now_ms && lease.owner.contains(&**owner))
        })
        && filter.queue.as_ref().is_none_or(|queue| run.scheduling.queue == *queue)
        && (filter.key.is_none() || filter.key == run.scheduling.key)
        && (filter.group.is_none() || filter.group == run.scheduling.group)
        && filter.note.as_ref().is_none_or(|note| run.note.contains(&**note))
        && filter.older_than.is_none_or(|time| age > ms(time))
        && filter.newer_than.is_none_or(|time| age < ms(time))
}

/// Returns the failure of the last attempt of a run, or null.
pub(super) fn failure(run: &Run) -> Value {
    run.failure.as_deref().and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default()
}

fn one(store: &dyn Store, run: &Run, change: Change) -> Outcome<String> {
    match change {
        Change::Retry => retry(store, run),
        Change::Requeue => requeue(store, run),
        Change::Cancel => cancel(store, run),
        Change::Pause => pause(store, run),
        Change::Unpause => unpause(store, run),
    }
}

fn wrong_status(run: &Run, fix: &str) -> Failure {
    let word = run.status_at(Real::new().now_ms()).word();
    Failure::new("wrong_status", format!("run '{}' is {word}; {fix}", run.id))
}

/// Takes the lease of a run and returns its state under the lease.
fn held(store: &dyn Store, run: &Run) -> Outcome<(Fence, Run)> {
    let fence = lease(store, &run.id)?;
    match head(store, &run.id) {
        Ok(run) => Ok((fence, run)),
        Err(failure) => {
            wait(store.write(&fence, vec![Write::Release]))?;
            Err(failure)
        }
    }
}

/// Writes and releases the lease.
fn write(store: &dyn Store, fence: &Fence, mut writes: Vec<Write>) -> Outcome<()> {
    writes.push(Write::Release);
    let written = wait(store.write(fence, writes)).map(drop);
    if written.is_err() {
        // If this fails, too, the lease expires.
        let _ = wait(store.write(fence, vec![Write::Release]));
    }
    written
}

fn status(run: &Run, status: NewStatus, note: &str) -> Write {
    Write::RunStatus { run: run.id.clone(), status, note: note.to_owned(), at_ms: Real::new().now_ms() }
}

fn retry(store: &dyn Store, run: &Run) -> Outcome<String> {
    match run.status {
        RunStatus::Failed | RunStatus::Cancelled | RunStatus::Suspended => {}
        RunStatus::Completed => {
            return Err(wrong_status(run, "`harn runs requeue` runs it again from its start"));
        }
        _ => return Err(wrong_status(run, "only a failed, cancelled or suspended run is retried")),
    }
    let (fence, run) = held(store, run)?;
    let at_ms = Real::new().now_ms();
    if run.status == RunStatus::Suspended {
        write(store, &fence, vec![status(&run, NewStatus::Queued { due_ms: at_ms }, "")])?;
        return Ok("queued".to_owned());
    }
    let entries = last_entries(store, &run).map_err(|trouble| Failure::new("store_failed", trouble.text));
    let mut writes = vec![Write::RunReopen { run: run.id.clone(), due_ms: at_ms, at_ms }];
    let mut from = run.length;
    if run.status == RunStatus::Failed {
        let (length, prepared) = harn_journal::retry(&run.id, &entries?, at_ms);
        from = length;
        writes.extend(prepared);
    }
    write(store, &fence, writes)?;
    Ok(format!("queued; it continues at entry {from}"))
}

fn requeue(store: &dyn Store, run: &Run) -> Outcome<String> {
    if !run.status.is_end() {
        return Err(wrong_status(run, "only a run that has ended is queued again; cancel it first"));
    }
    let (fence, run) = held(store, run)?;
    let at_ms = Real::new().now_ms();
    let writes = given(&run).and_then(|(_, mut info)| {
        if let Some(map) = info.as_object_mut() {
            // The repetition of a scheduled run continues independently.
            for key in ["every", "schedule", "next_due_ms", "generation", "state"] {
                map.remove(key);
            }
        }
        Ok(replaced(store, run.clone(), &info, NewStatus::Queued { due_ms: at_ms }, at_ms)?.0)
    });
    match writes {
        Ok(writes) => write(store, &fence, writes)?,
        Err(text) => {
            write(store, &fence, Vec::new())?;
            return Err(Failure::new("store_failed", text));
        }
    }
    Ok("queued from its start".to_owned())
}

/// Changes a run that no process is executing, or sends a request to the process that executes it.
fn now_or_wish(
    store: &dyn Store,
    run: &Run,
    wish: Option<Wish>,
    write_now: impl Fn(&Fence, &Run) -> Outcome<String>,
    asked: &str,
) -> Outcome<String> {
    for _ in 0..TRIES {
        match held(store, run) {
            Ok((fence, run)) => return write_now(&fence, &run),
            Err(Failure { code: "run_is_held", .. }) => {}
            Err(failure) => return Err(failure),
        }
        match harn_journal::wait(store.wish(&run.id, wish, Real::new().now_ms())) {
            Ok(()) => {}
            Err(StoreError::Conflict { .. }) => {
                return Err(wrong_status(&head(store, &run.id)?, "it has ended"));
            }
            error => return wait(std::future::ready(error)).map(|()| String::new()),
        }
        let now = head(store, &run.id)?;
        if now.lease.is_some() {
            return Ok(asked.to_owned());
        }
        // The process has just released the run.
    }
    Err(Failure::new("run_is_held", format!("run '{}' keeps changing its owner; try again", run.id)))
}

fn cancel(store: &dyn Store, run: &Run) -> Outcome<String> {
    if run.status.is_end() {
        return Err(wrong_status(run, "it has ended"));
    }
    let now = |fence: &Fence, run: &Run| {
        if run.status.is_end() {
            write(store, fence, Vec::new())?;
            return Err(wrong_status(run, "it has ended"));
        }
        write(store, fence, vec![status(run, NewStatus::Cancelled, "")])?;
        Ok("cancelled".to_owned())
    };
    now_or_wish(store, run, Some(Wish::Cancel), now, "will be cancelled by the process that executes it")
}

fn pause(store: &dyn Store, run: &Run) -> Outcome<String> {
    if run.status.is_end() || run.status == RunStatus::Paused {
        return Err(wrong_status(run, "only a run that has not ended is paused"));
    }
    let now = |fence: &Fence, run: &Run| {
        if run.status.is_end() {
            write(store, fence, Vec::new())?;
            return Err(wrong_status(run, "it has ended"));
        }
        write(store, fence, vec![status(run, NewStatus::Paused { due_ms: run.due_ms }, "")])?;
        Ok("paused".to_owned())
    };
    now_or_wish(store, run, Some(Wish::Pause), now, "will be paused by the process that executes it")
}

fn unpause(store: &dyn Store, run: &Run) -> Outcome<String> {
    if run.status != RunStatus::Paused && run.wish != Some(Wish::Pause) {
        return Err(wrong_status(run, "it is not paused"));
    }
    let now = |fence: &Fence, run: &Run| {
        if run.status != RunStatus::Paused {
            write(store, fence, Vec::new())?;
            return Err(wrong_status(run, "it is not paused"));
        }
        let due_ms = run.due_ms.unwrap_or_else(|| Real::new().now_ms());
        write(store, fence, vec![status(run, NewStatus::Queued { due_ms }, "")])?;
        Ok("queued".to_owned())
    };
    now_or_wish(store, run, None, now, "continues")
}

/// Number of runs removed in one transaction.
const BATCH: usize = 1_000;

/// Removes runs that ended before a time.
pub(super) fn prune(older_than: Option<Duration>, statuses: &[RunStatus], dry_run: bool) -> Outcome<Shown> {
    let keep = match older_than {
        Some(time) => Some(time),
        None => {
            let runs = Settings::of_runs(&Real::new(), Path::new(""));
            runs.map_err(|why| Failure::new("wrong_manifest", why))?.0.keep
        }
    };
    let older_than = keep.ok_or_else(|| {
        let text =
            "name the age of the runs with --older-than, such as 30d, or set `keep` in `[runs]` of harn.toml";
        Failure::new("age_missing", text)
    })?;
    let statuses = if statuses.is_empty() { &ENDS } else { statuses };
    let age = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
    let before_ms = Real::new().now_ms().saturating_sub(age);
    let Some(store) = opened()? else {
        return Ok(Shown::new("0 runs removed\n".to_owned(), json!({"removed": 0})));
    };
    if dry_run {
        let is_old = |run: &&Run| run.ended_ms.is_some_and(|ended_ms| ended_ms < before_ms);
        let mut count = 0;
        for status in statuses {
            let filter = Filter { status: Some(*status), ..Filter::default() };
            count += matching(&*store, &filter)?.iter().filter(is_old).count();
        }
        return Ok(Shown::new(format!("{count} runs would be removed\n"), json!({"would_remove": count})));
    }
    let count = wait(remove_old(&*store, statuses, before_ms))?;
    wait(store.compact())?;
    Ok(Shown::new(format!("{count} runs removed\n"), json!({"removed": count})))
}

/// The statuses of ended runs.
pub(in crate::cmd) const ENDS: [RunStatus; 3] =
    [RunStatus::Completed, RunStatus::Failed, RunStatus::Cancelled];

/// Removes runs with these statuses that ended before a time. Returns their number.
pub(in crate::cmd) async fn remove_old(
    store: &dyn Store,
    statuses: &[RunStatus],
    before_ms: i64,
) -> Result<u64, StoreError> {
    let mut count = 0;
    for status in statuses {
        loop {
            let removed = store.prune(Prune { status: *status, before_ms, limit: BATCH }).await?;
            count += removed;
            if removed < BATCH as u64 {
                break;
            }
        }
    }
    Ok(count)
}
