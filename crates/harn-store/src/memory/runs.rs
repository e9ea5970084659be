//! Runs in memory.

use std::sync::Arc;

use super::state::{KeptRun, State};
use crate::error::{Error, Result};
use crate::model::{Digest, Fence};
use crate::run::{
    Answer, EntryKind, JournalEntry, NewRun, NewStatus, Parent, Prune, Run, RunFilter, RunStatus, Source,
    StatusRow, StoreStats, Waitpoint, Wish,
};
use crate::scheduling::Scheduling;
use crate::write::{self, Write, Written};

fn missing(id: &str) -> Error {
    Error::missing(write::run_label(id))
}

pub(super) fn find<'a>(state: &'a State, id: &str) -> Result<&'a KeptRun> {
    state.runs.get(id).ok_or_else(|| missing(id))
}

pub(super) fn find_mut<'a>(state: &'a mut State, id: &str) -> Result<&'a mut KeptRun> {
    Arc::make_mut(&mut state.runs).get_mut(id).ok_or_else(|| missing(id))
}

pub(super) fn create(state: &mut State, fence: &Fence, new: NewRun, at_ms: i64) -> Result<Written> {
    insert(state, fence, new, None, at_ms)?;
    Ok(Written::Done(true))
}

fn insert<'a>(
    state: &'a mut State,
    fence: &Fence,
    new: NewRun,
    parent: Option<Parent>,
    at_ms: i64,
) -> Result<&'a mut KeptRun> {
    write::of_run(fence, &new.id)?;
    add(state, new, parent, at_ms)
}

/// Makes a run that no process has.
pub(super) fn add(
    state: &mut State,
    new: NewRun,
    parent: Option<Parent>,
    at_ms: i64,
) -> Result<&mut KeptRun> {
    if state.runs.contains_key(&new.id) {
        return Err(Error::Exists { what: write::run_label(&new.id) });
    }
    key_is_free(state, &new.scheduling)?;
    state.made += 1;
    let head = Run {
        id: new.id.clone(),
        number: state.made,
        program: new.program,
        args: new.args,
        status: RunStatus::Queued,
        due_ms: None,
        scheduling: new.scheduling,
        exit_code: None,
        note: String::new(),
        failure: None,
        tries: 0,
        wish: None,
        info: new.info,
        parent,
        length: 0,
        effects: 0,
        answers: 0,
        starts: 0,
        created_ms: at_ms,
        started_ms: None,
        updated_ms: at_ms,
        ended_ms: None,
        lease: None,
    };
    let mut kept =
        KeptRun { head, journal: Arc::default(), sources: Arc::default(), waitpoints: Arc::default() };
    kept.set_status(new.status, at_ms);
    Ok(Arc::make_mut(&mut state.runs).entry(new.id).or_insert(kept))
}

/// The run that has not ended and has a key.
pub(super) fn key_owner(state: &State, scheduling: &Scheduling) -> Option<String> {
    let Scheduling { queue, key: Some(_), .. } = scheduling else { return None };
    let mut heads = state.runs.values().map(|kept| &kept.head).filter(|head| !head.status.is_end());
    let owner = heads.find(|head| head.scheduling.queue == *queue && head.scheduling.key == scheduling.key);
    owner.map(|head| head.id.clone())
}

/// Rejects a key that a run has which has not ended.
fn key_is_free(state: &State, scheduling: &Scheduling) -> Result<()> {
    match (key_owner(state, scheduling), &scheduling.key) {
        (Some(run), Some(key)) => {
            Err(Error::KeyInUse { queue: scheduling.queue.clone(), key: key.clone(), run })
        }
        _ => Ok(()),
    }
}

pub(super) fn fork(
    state: &mut State,
    fence: &Fence,
    from: &str,
    length: u64,
    new: NewRun,
    at_ms: i64,
) -> Result<Written> {
    let source = find(state, from)?.clone();
    write::long_enough(from, length, source.head.length)?;
    let parent = Parent { run: from.to_owned(), length };
    let kept = insert(state, fence, new, Some(parent), at_ms)?;
    let taken = usize::try_from(length).unwrap_or(usize::MAX);
    kept.journal = Arc::new(source.journal[..taken].to_vec());
    kept.sources = source.sources;
    kept.head.length = length;
    kept.head.effects = outcomes(&kept.journal);
    Ok(Written::Count(length))
}

fn outcomes(entries: &[JournalEntry]) -> u64 {
    entries.iter().filter(|entry| entry.kind == EntryKind::Outcome).count() as u64
}

pub(super) fn delete(state: &mut State, fence: &Fence, id: &str) -> Result<Written> {
    write::of_run(fence, id)?;
    Ok(Written::Done(Arc::make_mut(&mut state.runs).remove(id).is_some()))
}

pub(super) fn change(state: &mut State, fence: &Fence, id: &str, write: Write) -> Result<Written> {
    write::of_run(fence, id)?;
    if let Write::RunReopen { .. } = write {
        let head = &find(state, id)?.head;
        write::has_ended(id, head.status)?;
        key_is_free(state, &head.scheduling)?;
    }
    let kept = find_mut(state, id)?;
    let written = match write {
        Write::RunStatus { status, note, at_ms, .. } => {
            write::goes_on(id, kept.head.status)?;
            write::all_seen(id, status, kept.head.answers)?;
            kept.set_status(status, at_ms);
            kept.head.note = note;
            Written::Done(true)
        }
        Write::RunFailure { failure, at_ms, .. } => {
            write::goes_on(id, kept.head.status)?;
            (kept.head.failure, kept.head.updated_ms) = (Some(failure), at_ms);
            kept.head.tries += 1;
            Written::Done(true)
        }
        Write::RunReopen { due_ms, at_ms, .. } => {
            kept.set_status(NewStatus::Queued { due_ms }, at_ms);
            kept.head.tries = 0;
            kept.head.note.clear();
            Written::Done(true)
        }
        Write::RunInfo { info, at_ms, .. } => {
            kept.head.info = info;
            kept.head.updated_ms = at_ms;
            Written::Done(true)
        }
        Write::SourcePut { path, bytes, .. } => {
            let digest = Digest::of(&bytes);
            Arc::make_mut(&mut kept.sources).insert(path, (digest, bytes.into()));
            Written::Digest(digest)
        }
        Write::JournalAppend { entries, at_ms, .. } => {
            write::goes_on(id, kept.head.status)?;
            write::in_order(id, &entries, kept.head.length)?;
            kept.head.length += entries.len() as u64;
            kept.head.effects += outcomes(&entries);
            kept.head.updated_ms = at_ms;
            Arc::make_mut(&mut kept.journal).extend(entries);
            Written::Count(kept.head.length)
        }
        Write::JournalCut { length, at_ms, .. } => {
            write::long_enough(id, length, kept.head.length)?;
            let journal = Arc::make_mut(&mut kept.journal);
            journal.truncate(usize::try_from(length).unwrap_or(usize::MAX));
            let cut = kept.head.length - length;
            (kept.head.length, kept.head.effects, kept.head.updated_ms) = (length, outcomes(journal), at_ms);
            Written::Count(cut)
        }
        Write::WaitpointOpen { waitpoint, .. } => {
            write::goes_on(id, kept.head.status)?;
            if kept.waitpoints.iter().any(|(_, known)| known.asked.request_id == waitpoint.request_id) {
                return Ok(Written::Done(false));
            }
            let new =
                Waitpoint { run: id.to_owned(), asked: waitpoint, answers: Vec::new(), closed_ms: None };
            state.asked += 1;
            let number = state.asked;
            Arc::make_mut(&mut find_mut(state, id)?.waitpoints).push((number, new));
            Written::Done(true)
        }
        Write::WaitpointClose { request_id, at_ms, .. } => {
            let waitpoint = waitpoint(kept, &request_id)?;
            let open = waitpoint.closed_ms.is_none();
            waitpoint.closed_ms = waitpoint.closed_ms.or(Some(at_ms));
            Written::Done(open)
        }
        _ => unreachable!("only changes of runs are handed over"),
    };
    Ok(written)
}

pub(super) fn wish(state: &mut State, id: &str, wish: Option<Wish>, at_ms: i64) -> Result<()> {
    let head = &mut find_mut(state, id)?.head;
    write::goes_on(id, head.status)?;
    (head.wish, head.updated_ms) = (wish, at_ms);
    Ok(())
}

pub(super) fn prune(state: &mut State, prune: &Prune) -> u64 {
    let ended = state.runs.values().map(|kept| &kept.head).filter(|head| {
        head.status == prune.status && head.ended_ms.is_some_and(|ended_ms| ended_ms < prune.before_ms)
    });
    let mut found: Vec<(Option<i64>, String)> = ended.map(|head| (head.ended_ms, head.id.clone())).collect();
    found.sort();
    found.truncate(prune.limit);
    for (_, id) in &found {
        Arc::make_mut(&mut state.runs).remove(id);
        Arc::make_mut(&mut state.leases).remove(&Run::scope(id));
    }
    found.len() as u64
}

pub(super) fn bytes(state: &State, id: &str) -> Result<u64> {
    let kept = find(state, id)?;
    let journal: usize = kept.journal.iter().map(|entry| entry.payload.len()).sum();
    let sources: usize = kept.sources.values().map(|(_, bytes)| bytes.len()).sum();
    Ok((journal + sources + kept.head.info.len()) as u64)
}

pub(super) fn stats(state: &State, now_ms: i64) -> StoreStats {
    let heads: Vec<Run> = state.runs.values().map(|kept| kept.seen(state)).collect();
    let rows = RunStatus::ALL.into_iter().filter_map(|status| {
        let own: Vec<&Run> = heads.iter().filter(|run| run.status == status).collect();
        let due = || own.iter().filter_map(|run| run.due_ms).filter(|due_ms| *due_ms <= now_ms);
        let (count, oldest_due_ms) = (own.len() as u64, due().min());
        (count > 0).then(|| StatusRow { status, count, due: due().count() as u64, oldest_due_ms })
    });
    let held = heads.iter().filter(|run| run.status_at(now_ms) == RunStatus::Running).count() as u64;
    StoreStats::of_rows(0, 0, rows.collect(), held)
}

fn waitpoint<'a>(kept: &'a mut KeptRun, request_id: &str) -> Result<&'a mut Waitpoint> {
    let run = kept.head.id.clone();
    Arc::make_mut(&mut kept.waitpoints)
        .iter_mut()
        .map(|(_, waitpoint)| waitpoint)
        .find(|known| known.asked.request_id == request_id)
        .ok_or_else(|| Error::missing(write::request_label(&run, request_id)))
}

pub(super) fn all(state: &State, filter: RunFilter, limit: usize) -> Vec<Run> {
    let mut found: Vec<Run> = state
        .runs
        .values()
        .filter(|kept| filter.before.is_none_or(|before| kept.head.number < before))
        .map(|kept| kept.seen(state))
        .filter(|run| filter.status.is_none_or(|status| run.status_at(filter.now_ms) == status))
        .collect();
    found.sort_by_key(|run| std::cmp::Reverse(run.number));
    found.truncate(limit);
    found
}

pub(super) fn journal(state: &State, id: &str, from: u64, limit: usize) -> Result<Vec<JournalEntry>> {
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    Ok(find(state, id)?.journal.iter().skip(from).take(limit).cloned().collect())
}

pub(super) fn sources(state: &State, id: &str) -> Result<Vec<Source>> {
    let sources = find(state, id)?.sources.iter();
    let read = sources.map(|(path, (digest, bytes))| Source {
        path: path.clone(),
        digest: *digest,
        bytes: bytes.to_vec(),
    });
    Ok(read.collect())
}

pub(super) fn one_waitpoint(state: &State, id: &str, request_id: &str) -> Result<Waitpoint> {
    let mut all = find(state, id)?.waitpoints.iter().map(|(_, waitpoint)| waitpoint);
    let found = all.find(|waitpoint| waitpoint.asked.request_id == request_id);
    found.cloned().ok_or_else(|| Error::missing(write::request_label(id, request_id)))
}

pub(super) fn waitpoints(state: &State, run: Option<&str>, open: bool) -> Result<Vec<Waitpoint>> {
    let kept: Vec<&KeptRun> = match run {
        Some(id) => vec![find(state, id)?],
        None => state.runs.values().collect(),
    };
    let mut found: Vec<&(u64, Waitpoint)> = kept
        .into_iter()
        .filter(|kept| !open || !kept.head.status.is_end())
        .flat_map(|kept| kept.waitpoints.iter())
        .collect();
    found.sort_by_key(|(number, _)| *number);
    let found = found.into_iter().map(|(_, waitpoint)| waitpoint);
    Ok(found.filter(|waitpoint| !open || waitpoint.is_open()).cloned().collect())
}

pub(super) fn answer(state: &mut State, id: &str, request_id: &str, answer: Answer) -> Result<Waitpoint> {
    let kept = find_mut(state, id)?;
    let status = kept.head.status;
    let waitpoint = waitpoint(kept, request_id)?;
    write::answerable(waitpoint, &answer.by)?;
    write::goes_on(id, status)?;
    let at_ms = answer.at_ms;
    waitpoint.answers.push(answer);
    let answered = waitpoint.clone();
    let head = &mut kept.head;
    head.answers += 1;
    head.updated_ms = at_ms;
    if status == RunStatus::Suspended {
        head.due_ms = Some(head.due_ms.map_or(at_ms, |due_ms| due_ms.min(at_ms)));
    }
    Ok(answered)
}
