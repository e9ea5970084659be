//! `harn runs` and `harn answer`: the runs in the project's store, including those that are executing.

mod answer;
mod change;
mod diff;
mod export;
mod import;
mod list;
mod queues;
mod record;
mod repair;

use std::sync::Arc;

use harn_store::{Error as StoreError, Fence, JournalEntry, Place, Run, Store, Write};
use harn_system::{Real, SystemExt};
use harn_value::{Data as Value, json};

use super::providers::{envelope, fail, print};
use crate::args::{AnswerArgs, RunsCommand};
use crate::program;
pub(super) use change::{ENDS, remove_old};
pub(crate) use record::{differences, is_record, line, records, replay};

/// Number of entries read in one query.
const PAGE: usize = 1_000;

/// The failure of a command: an error code for tools, and the message.
pub(super) struct Failure {
    code: &'static str,
    message: String,
}

pub(super) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }
}

/// The output of a command: text, JSON data, and the exit code.
pub(super) struct Shown {
    text: String,
    data: Value,
    code: u8,
}

impl Shown {
    pub(super) fn new(text: String, data: Value) -> Shown {
        Shown { text, data, code: 0 }
    }
}

/// Runs the command. Returns the exit code.
pub(crate) fn runs(command: RunsCommand) -> u8 {
    let (shown, as_json) = match command {
        RunsCommand::List(args) => match &args.dir {
            Some(dir) => {
                let dir = dir.clone().unwrap_or_else(|| records(&Real::new()));
                (record::list_of(&dir, &args), args.json)
            }
            None => (list::list(&args), args.json),
        },
        RunsCommand::Queues { json } => (queues::queues(), json),
        RunsCommand::Show { id, json } => (list::show(&id), json),
        RunsCommand::Events(args) => (list::events(&args), args.json),
        RunsCommand::Diff { first, second, json } => (diff::diff(&first, &second), json),
        RunsCommand::Rm { ids, json } => (remove(&ids), json),
        RunsCommand::Retry(args) => (change::change(change::Change::Retry, &args), args.json),
        RunsCommand::Requeue(args) => (change::change(change::Change::Requeue, &args), args.json),
        RunsCommand::Cancel(args) => (change::change(change::Change::Cancel, &args), args.json),
        RunsCommand::Pause(args) => (change::change(change::Change::Pause, &args), args.json),
        RunsCommand::Unpause(args) => (change::change(change::Change::Unpause, &args), args.json),
        RunsCommand::Prune { older_than, status, dry_run, json } => {
            (change::prune(older_than, &status, dry_run), json)
        }
        RunsCommand::Repair { id, json } => (repair::repair(&id), json),
        RunsCommand::Export { id, output } => (export::export(&id, output.as_deref()), false),
        RunsCommand::Inspect { file, compare, json } => (record::inspect(&file, compare.as_deref()), json),
        RunsCommand::View { file, json } => (record::view(&file), json),
        RunsCommand::Import { file, id, json } => (import::import(&file, id), json),
    };
    show(shown, as_json)
}

/// Answers a request of a run. Returns the exit code.
pub(crate) fn answer(args: &AnswerArgs) -> u8 {
    show(answer::answer(args), args.json)
}

pub(super) fn show(shown: Outcome<Shown>, as_json: bool) -> u8 {
    match shown {
        Ok(Shown { text, data, code }) => {
            print(&if as_json { envelope(&data) } else { text });
            code
        }
        Err(Failure { code, message }) => {
            fail(code, &harn_syntax::printable(&message), &Value::Null, as_json)
        }
    }
}

/// Returns the location of the project's store.
fn place() -> Outcome<Place> {
    program::store_place(&Real::new()).map_err(|text| Failure::new("store_failed", text))
}

/// Opens the project's store; `None` if it does not exist.
pub(super) fn opened() -> Outcome<Option<Arc<dyn Store>>> {
    let place = place()?;
    match &place {
        Place::File(path) if !Real::new().exists(path) => Ok(None),
        _ => answered(place.open()).map(Some),
    }
}

/// Opens the project's store. The run must exist.
fn store(id: &str) -> Outcome<Arc<dyn Store>> {
    opened()?.ok_or_else(|| missing(id))
}

fn missing(id: &str) -> Failure {
    Failure::new("run_not_found", super::durable::missing(id))
}

/// Waits for a result of the store.
pub(super) fn wait<T>(answer: impl Future<Output = Result<T, StoreError>>) -> Outcome<T> {
    answered(harn_journal::wait(answer))
}

fn answered<T>(answer: Result<T, StoreError>) -> Outcome<T> {
    answer.map_err(|error| match error {
        StoreError::Held { scope, owner, .. } => {
            let what = scope.replacen('/', " '", 1);
            let text =
                format!("{what}' is being worked on by {owner}: stop that process first, or wait for it");
            Failure::new("run_is_held", text)
        }
        error => Failure::new("store_failed", error.to_string()),
    })
}

/// Returns the head of a run. The run must exist.
fn head(store: &dyn Store, id: &str) -> Outcome<Run> {
    wait(store.run(id))?.ok_or_else(|| missing(id))
}

/// Passes the entries of a journal, starting at `from`, to `each` in batches.
fn each_entry(
    store: &dyn Store,
    run: &Run,
    from: u64,
    limit: u64,
    mut take: impl FnMut(JournalEntry) -> Outcome<()>,
) -> Outcome<()> {
    // Entries that are added in the meantime are left to the next call.
    let end = run.length.min(from.saturating_add(limit));
    let mut at = from;
    while at < end {
        let page = PAGE.min(usize::try_from(end - at).unwrap_or(PAGE));
        let entries = wait(store.journal(&run.id, at, page))?;
        at += entries.len() as u64;
        if entries.is_empty() {
            break;
        }
        entries.into_iter().try_for_each(&mut take)?;
    }
    Ok(())
}

/// Formats a time.
pub(super) fn time(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms).map_or_else(|_| at_ms.to_string(), |time| time.to_string())
}

/// Takes a short lease of a run.
fn lease(store: &dyn Store, id: &str) -> Outcome<Fence> {
    Ok(answered(harn_journal::take_lease(store, &Real::new(), id))?.fence())
}

/// Removes runs. Stops at the first error; runs removed before it stay removed.
fn remove(ids: &[String]) -> Outcome<Shown> {
    let mut text = String::new();
    for id in ids {
        let store = store(id)?;
        head(&*store, id)?;
        let fence = lease(&*store, id)?;
        wait(store.write(&fence, vec![Write::RunDelete { run: id.clone() }, Write::Release]))?;
        text.push_str(&format!("run {id} removed\n"));
    }
    if let Some(store) = opened()? {
        wait(store.compact())?;
    }
    Ok(Shown::new(text, json!({"removed": ids})))
}
