//! Queues of runs in memory.

use std::sync::Arc;

use super::runs::{add, find_mut, key_owner};
use super::state::State;
use crate::error::Result;
use crate::model::{Digest, Lease};
use crate::queue::{ClaimRuns, Claims, Submission, Submitted, Take, taken};
use crate::run::{NewStatus, Run, RunStatus};
use crate::scheduling::{DEFAULT_QUEUE, QueueState, Rate, RunQueue};

pub(super) fn set(state: &mut State, queues: Vec<RunQueue>) {
    let known = Arc::make_mut(&mut state.run_queues);
    known.extend(queues.into_iter().map(|queue| (queue.name, queue.limits)));
}

fn all(state: &State) -> Vec<RunQueue> {
    let mut queues = (*state.run_queues).clone();
    queues.entry(DEFAULT_QUEUE.to_owned()).or_default();
    queues.into_iter().map(|(name, limits)| RunQueue { name, limits }).collect()
}

pub(super) fn submit(state: &mut State, submission: Submission) -> Result<Vec<Submitted>> {
    let Submission { queues, runs, sources, at_ms } = submission;
    set(state, queues);
    for run in &runs {
        let queues = Arc::make_mut(&mut state.run_queues);
        queues.entry(run.scheduling.queue.clone()).or_default();
    }
    let sources = sources.into_iter().map(|(path, bytes)| (path, (Digest::of(&bytes), bytes.into())));
    let sources = Arc::new(sources.collect());
    let mut results = Vec::with_capacity(runs.len());
    for run in runs {
        if !state.runs.contains_key(&run.id)
            && let Some(run) = key_owner(state, &run.scheduling)
        {
            results.push(Submitted::Duplicate { run });
            continue;
        }
        add(state, run, None, at_ms)?.sources = Arc::clone(&sources);
        results.push(Submitted::Created);
    }
    Ok(results)
}

pub(super) fn states(state: &State, now_ms: i64) -> Vec<QueueState> {
    let heads: Vec<Run> = state.runs.values().map(|kept| kept.seen(state)).collect();
    let described = |queue: RunQueue| {
        let own: Vec<&Run> = heads.iter().filter(|run| run.scheduling.queue == queue.name).collect();
        let count = |status| own.iter().filter(|run| run.status_at(now_ms) == status).count() as u64;
        let waits = |run: &&&Run| matches!(run.status, RunStatus::Queued | RunStatus::Suspended);
        let due = own.iter().filter(waits).filter_map(|run| run.due_ms).filter(|due_ms| *due_ms <= now_ms);
        QueueState {
            queued: count(RunStatus::Queued),
            ready: due.clone().count() as u64,
            running: count(RunStatus::Running),
            suspended: count(RunStatus::Suspended),
            oldest_due_ms: due.min(),
            queue,
        }
    };
    all(state).into_iter().map(described).collect()
}

pub(super) fn claim(state: &mut State, claim: &ClaimRuns) -> Result<Claims> {
    claim.serve(all(state), |queue| take(state, queue, claim))
}

fn take(state: &mut State, queue: &RunQueue, claim: &ClaimRuns) -> Result<Take> {
    let now_ms = claim.now_ms;
    let heads: Vec<Run> = state.runs.values().map(|kept| kept.seen(state)).collect();
    let of_queue = || heads.iter().filter(|run| run.scheduling.queue == queue.name);
    let executed: Vec<&Run> = of_queue().filter(|run| run.status_at(now_ms) == RunStatus::Running).collect();
    let is_due = |run: &&Run| {
        let held = run.lease.as_ref().is_some_and(|lease| lease.until_ms > now_ms);
        let due = run.due_ms.is_some_and(|due_ms| due_ms <= now_ms);
        let waits = matches!(run.status, RunStatus::Queued | RunStatus::Suspended);
        !held && (run.status == RunStatus::Running || (waits && due)) && (claim.can_follow)(run)
    };
    let starts = |rate: Rate, group: Option<&String>| {
        let since = now_ms - rate.period_ms;
        let is_recent = |(name, own, at_ms): &&(String, Option<String>, i64)| {
            *name == queue.name && *at_ms > since && group.is_none_or(|group| own.as_ref() == Some(group))
        };
        state.starts.iter().filter(is_recent).count() as u64
    };
    let limits = &queue.limits;
    let is_full = limits.concurrency.is_some_and(|most| executed.len() as u64 >= u64::from(most));
    let may_start = limits.rate.is_none_or(|rate| starts(rate, None) < u64::from(rate.count));
    let is_allowed = |run: &&Run| {
        let group = run.scheduling.group.as_ref();
        let executed = || executed.iter().filter(|other| other.scheduling.group.as_ref() == group).count();
        let group_is_full = limits
            .group_concurrency
            .filter(|_| group.is_some())
            .is_some_and(|most| executed() as u64 >= u64::from(most));
        let group_may_start = limits
            .group_rate
            .filter(|_| group.is_some())
            .is_none_or(|rate| starts(rate, group) < u64::from(rate.count));
        !is_full && !group_is_full && (run.status != RunStatus::Queued || (may_start && group_may_start))
    };
    let order = |run: &&Run| {
        let waits = run.status != RunStatus::Running;
        (waits, if waits { -i64::from(run.scheduling.priority) } else { 0 }, run.due_ms, run.number)
    };
    let Some(run) = of_queue().filter(is_due).filter(is_allowed).min_by_key(order).cloned() else {
        return Ok(if of_queue().any(|run| is_due(&run)) { Take::Limited } else { Take::Nothing });
    };
    let lease: Lease =
        super::leases::acquire(state, &Run::scope(&run.id), &claim.owner, now_ms, claim.until_ms)?;
    if let Some(longest_ms) = limits.longest_ms().filter(|_| run.status == RunStatus::Queued) {
        let starts = Arc::make_mut(&mut state.starts);
        starts.retain(|(name, _, at_ms)| *name != queue.name || *at_ms > now_ms - longest_ms);
        starts.push((queue.name.clone(), run.scheduling.group.clone(), now_ms));
    }
    let kept = find_mut(state, &run.id)?;
    kept.set_status(NewStatus::Running, now_ms);
    kept.head.note.clear();
    Ok(Take::Run(Box::new((taken(run, &lease, now_ms), lease))))
}
