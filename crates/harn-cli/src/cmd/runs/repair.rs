//! Truncation of a damaged journal.

use harn_journal::Entry;
use harn_store::{EntryKind, Error as StoreError, JournalEntry, NewStatus, Place, Run, Store, Write};
use harn_system::{Real, System, SystemExt};
use harn_value::json;

use super::{Outcome, PAGE, Shown, answered, head, lease, missing, place, wait};

/// Maximum number of listed effects.
const LISTED: usize = 20;

pub(super) fn repair(id: &str) -> Outcome<Shown> {
    let place = place()?;
    if matches!(&place, Place::File(path) if !Real::new().exists(path)) {
        return Err(missing(id));
    }
    let store = answered(place.open_damaged())?;
    let run = head(&*store, id)?;
    let fence = lease(&*store, id)?;
    let (length, damage) = whole(&*store, &run);
    let Some(damage) = damage else {
        wait(store.write(&fence, vec![Write::Release]))?;
        let text = format!("run {id} is not damaged: {length} entries\n");
        return Ok(Shown::new(text, json!({"id": id, "entries": length, "cut": 0})));
    };
    let lost = begun(&*store, &run, length);
    let at_ms = Real::new().now_ms();
    let mut writes = vec![Write::JournalCut { run: id.to_owned(), length, at_ms }];
    if !run.status.is_end() {
        let status = NewStatus::Suspended { due_ms: None, answers: run.answers };
        let note = format!("its journal was damaged and ends at entry {length} now");
        writes.push(Write::RunStatus { run: id.to_owned(), status, note, at_ms });
    }
    writes.push(Write::Release);
    wait(store.write(&fence, writes))?;
    let cut = run.length.saturating_sub(length);
    let mut text = format!("run {id}: {damage}\ncut before entry {length}; {cut} entries are removed\n");
    if !lost.is_empty() {
        text += "effects that were removed, and happen again when the run is resumed:\n";
        for effect in lost.iter().take(LISTED) {
            text += &format!("  {effect}\n");
        }
        if let Some(more) = lost.len().checked_sub(LISTED).filter(|more| *more > 0) {
            text += &format!("  and {more} more\n");
        }
    }
    let text = harn_syntax::printable(&text).into_owned();
    Ok(Shown::new(text, json!({"id": id, "entries": length, "cut": cut, "damage": damage, "effects": lost})))
}

/// Returns the number of entries before the first damaged one, and the error.
fn whole(store: &dyn Store, run: &Run) -> (u64, Option<String>) {
    let mut at = 0;
    let mut size = PAGE;
    loop {
        match harn_journal::wait(store.journal(&run.id, at, size)) {
            Ok(entries) if entries.is_empty() => return (at, None),
            Ok(entries) => {
                for entry in &entries {
                    if Entry::from_store(entry).is_none() {
                        return (at, Some(format!("entry {at} cannot be read")));
                    }
                    at += 1;
                }
            }
            // The entries before the damage are read one by one.
            Err(_) if size > 1 => size = 1,
            Err(StoreError::Corrupt { detail, .. }) => return (at, Some(detail)),
            Err(error) => return (at, Some(error.to_string())),
        }
    }
}

/// Returns the readable effects that started at entry `from` or later.
fn begun(store: &dyn Store, run: &Run, from: u64) -> Vec<String> {
    let read = |seq| harn_journal::wait(store.journal(&run.id, seq, 1)).ok()?.pop();
    let entries = (from..run.length).filter_map(read);
    let begins = entries.filter(|entry: &JournalEntry| entry.kind == EntryKind::Begin);
    begins
        .filter_map(|entry| {
            let found = Entry::from_store(&entry)?;
            Some(format!("{} {} at {}", entry.name, found.what.note(), entry.place))
        })
        .collect()
}
