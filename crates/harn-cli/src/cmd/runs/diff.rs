//! Differences between two runs.

use harn_store::JournalEntry;
use harn_value::json;

use super::list::told;
use super::{Outcome, Shown, each_entry, head, store};

/// Compares the effects of two runs. Times and outcomes may differ.
pub(super) fn diff(first: &str, second: &str) -> Outcome<Shown> {
    let store = store(first)?;
    let (one, two) = (head(&*store, first)?, head(&*store, second)?);
    let mut others = Vec::new();
    each_entry(&*store, &two, 0, u64::MAX, |entry| {
        others.push(entry);
        Ok(())
    })?;
    let (mut same, mut outcomes, mut parts) = (0u64, 0u64, None);
    let mut others = others.into_iter();
    each_entry(&*store, &one, 0, u64::MAX, |entry| {
        if parts.is_some() {
            return Ok(());
        }
        match others.next() {
            Some(other) if alike(&entry, &other) => {
                same += 1;
                outcomes += u64::from(entry.payload != other.payload);
            }
            other => parts = Some((Some(entry), other)),
        }
        Ok(())
    })?;
    let parts = parts.or_else(|| others.next().map(|other| (None, Some(other))));
    let counted = format!("{same} entries agree, {outcomes} of them with other data");
    let Some((was, now)) = parts else {
        let text = format!("runs {first} and {second} have done the same: {counted}\n");
        return Ok(Shown::new(
            text,
            json!({"same": true, "agree": same, "other_data": outcomes, "difference": null}),
        ));
    };
    let line = |entry: &Option<JournalEntry>| entry.as_ref().map_or("ends here".to_owned(), told);
    let (was, now) = (line(&was), line(&now));
    // The lines do not show the arguments.
    let arguments = if was == now { "\n  the arguments are other ones" } else { "" };
    let text = format!(
        "runs {first} and {second} differ at entry {same}:\n  {first}: {was}\n  {second}: {now}{arguments}\n{counted}\n"
    );
    let arguments = was == now;
    let difference = json!({"entry": same, "first": was, "second": now, "other_arguments": arguments});
    let data = json!({"same": false, "agree": same, "other_data": outcomes, "difference": difference});
    Ok(Shown { code: 1, ..Shown::new(text, data) })
}

/// Whether two entries record the same effect with the same arguments.
fn alike(one: &JournalEntry, two: &JournalEntry) -> bool {
    let key = |entry: &JournalEntry| (entry.kind, entry.count);
    key(one) == key(two)
        && one.task == two.task
        && one.name == two.name
        && one.place == two.place
        && one.digest == two.digest
}
