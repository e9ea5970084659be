//! Where a failed run is tried again: in front of the effect that it failed with, so that what succeeded is not repeated.

use std::io;

use harn_store::Write;
use harn_system::{Finished, HttpError, HttpErrorKind};

use crate::entry::{Entry, What};
use crate::wire::{Answer, Came};

/// Marks the beginning of an effect that may happen twice ([`What::Begin`]).
pub(crate) const REPEATABLE: u64 = 1;

/// Effects that say nothing about the outside, or the same at every try.
const IDLE: [&str; 10] =
    ["sleep", "env", "key", "cwd", "temp_dir", "pid", "is_terminal", "random", "write_out", "body"];

/// Changes that come to the same when they happen twice.
const HARMLESS: [&str; 4] = ["replace", "copy", "make_dirs", "make_dir"];

/// How an effect ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Well,
    /// It says that nothing came of it, or that it failed.
    Badly,
    /// It is not known what came of it.
    Unclear,
}

/// Returns the number of the entry at which a failed run is retried, and the writes that prepare it. `entries` are the last ones
/// of its journal.
#[must_use]
pub fn retry(run: &str, entries: &[Entry], at_ms: i64) -> (u64, Vec<Write>) {
    let length = retry_from(entries);
    let mut writes = vec![Write::JournalCut { run: run.to_owned(), length, at_ms }];
    let printed = entries.iter().rev().find_map(|entry| match entry.what {
        What::Printed { out, err } => Some((out, err)),
        _ => None,
    });
    if let Some(printed) = printed {
        let entries = vec![Entry::retry(length, printed, at_ms).to_store()];
        writes.push(Write::JournalAppend { run: run.to_owned(), entries, at_ms });
    }
    (length, writes)
}

/// Decides from which entry on a failed run repeats its effects: entries from there on are to be cut off. These are the last entries
/// of its journal.
///
/// The effect is the last one that failed or may be repeated. In front of it, everything stays; no effect that succeeded and must
/// not be repeated is cut off. If there is no such effect, the entries behind the last change stay out.
fn retry_from(entries: &[Entry]) -> u64 {
    let Some(first) = entries.first() else { return 0 };
    let program = entries.iter().position(|entry| entry.what == What::Program).map_or(0, |at| at + 1);
    let begun = beginnings(entries);
    let seq = |at: usize| first.seq + at as u64;
    for at in (program..entries.len()).rev() {
        let (name, outcome) = match &entries[at].what {
            What::Call { name, outcome, .. } | What::Finish { name, outcome, .. } => (&**name, &**outcome),
            _ => continue,
        };
        if IDLE.contains(&name) {
            continue;
        }
        let ended = ended(name, outcome);
        match begun[at] {
            // A person was asked.
            None if name == "person" => return seq(at + 1),
            None if ended != Ended::Well || matches!(name, "http" | "peer") => return seq(at),
            // It would read the same again.
            None => {}
            Some(begin) => {
                let is_repeatable =
                    matches!(entries[begin].what, What::Begin { before: Some(REPEATABLE), .. });
                let is_change = !matches!(name, "run" | "http" | "peer");
                match ended {
                    Ended::Well if is_change && HARMLESS.contains(&name) => {}
                    Ended::Well if is_change || !is_repeatable => return seq(at + 1),
                    // Nothing came of it: it is not in doubt.
                    Ended::Badly if entries[begin + 1..at].iter().all(|entry| !is_outcome(entry)) => {
                        return seq(begin);
                    }
                    // Its beginning stays, and so whoever resumes the run decides as about every effect in doubt.
                    _ => return seq(at),
                }
            }
        }
    }
    seq(program.min(entries.len()))
}

fn is_outcome(entry: &Entry) -> bool {
    matches!(&entry.what, What::Call { name, .. } | What::Finish { name, .. } if !IDLE.contains(&&**name))
        || matches!(entry.what, What::Begin { .. })
}

/// For each outcome the beginning of its effect.
fn beginnings(entries: &[Entry]) -> Vec<Option<usize>> {
    let mut open: Vec<(usize, &str, u64)> = Vec::new();
    let mut found = vec![None; entries.len()];
    for (at, entry) in entries.iter().enumerate() {
        match &entry.what {
            What::Begin { name, digest, .. } => open.push((at, name, *digest)),
            What::Call { name, digest, .. } | What::Finish { name, digest, .. } => {
                let own = open.iter().position(|(_, own, of)| own == name && of == digest);
                found[at] = own.map(|own| open.remove(own).0);
            }
            _ => {}
        }
    }
    found
}

fn ended(name: &str, outcome: &[u8]) -> Ended {
    match name {
        "http" => match <Result<Came, HttpError>>::decode(outcome) {
            Some(Ok(Came { head: (status, _), body })) => match body {
                Some(Err(_)) => Ended::Unclear,
                _ if status >= 400 => Ended::Badly,
                _ => Ended::Well,
            },
            Some(Err(error)) => match error.kind {
                HttpErrorKind::Invalid
                | HttpErrorKind::Connect
                | HttpErrorKind::Refused
                | HttpErrorKind::Egress => Ended::Badly,
                _ => Ended::Unclear,
            },
            None => Ended::Unclear,
        },
        "run" => match <io::Result<Finished>>::decode(outcome) {
            Some(Ok(ran)) if ran.code == Some(0) => Ended::Well,
            Some(Ok(_)) => Ended::Badly,
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ended::Badly,
            _ => Ended::Unclear,
        },
        "peer" => match <io::Result<Vec<u8>>>::decode(outcome) {
            Some(Ok(_)) => Ended::Well,
            _ => Ended::Unclear,
        },
        // The other results begin with 1 when they are errors.
        _ if outcome.first() == Some(&1) && is_result(name) => Ended::Badly,
        _ => Ended::Well,
    }
}

/// Whether the outcome of an effect is a result.
fn is_result(name: &str) -> bool {
    matches!(
        name,
        "read"
            | "facts"
            | "names"
            | "replace"
            | "append"
            | "make_dirs"
            | "make_dir"
            | "copy"
            | "rename"
            | "remove"
    )
}

/// The last effect of some entries: its number, its name, what it is about and where.
#[must_use]
pub fn last_effect(entries: &[Entry]) -> Option<&Entry> {
    let of_outside = |entry: &&Entry| entry.what.is_effect() && !IDLE.contains(&entry.what.name());
    entries.iter().rev().find(of_outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(all: Vec<What>) -> Vec<Entry> {
        let entry = |(seq, what)| Entry { seq, task: "0".into(), count: 0, place: "".into(), at_ms: 0, what };
        (0..).zip(all).map(entry).collect()
    }

    fn begin(name: &str, digest: u64, is_repeatable: bool) -> What {
        let before = is_repeatable.then_some(REPEATABLE);
        What::Begin { name: name.to_owned(), note: String::new(), digest, before }
    }

    fn finish(name: &str, digest: u64, outcome: Vec<u8>) -> What {
        let name = name.to_owned();
        What::Finish {
            name,
            note: String::new(),
            digest,
            op: 0,
            looks: 0,
            idle: true,
            clock: (0, 0),
            outcome,
        }
    }

    fn call(name: &str, outcome: Vec<u8>) -> What {
        What::Call { name: name.to_owned(), note: String::new(), digest: 9, outcome }
    }

    fn reply(status: u16) -> Vec<u8> {
        Ok::<_, HttpError>(Came { head: (status, Vec::new()), body: Some(Ok(Vec::new())) }).encode()
    }

    fn refused() -> Vec<u8> {
        Err::<Came, _>(HttpError::new(HttpErrorKind::Connect, "no")).encode()
    }

    fn ran(code: i32) -> Vec<u8> {
        let ran = Finished { code: Some(code), ..Finished::default() };
        Ok::<_, io::Error>(ran).encode()
    }

    #[test]
    fn a_run_is_tried_again_in_front_of_what_it_failed_with() {
        let from = |all| retry_from(&entries(all));
        let clock = || What::Clock { look: 1, clock: (0, 0) };
        assert_eq!(from(vec![]), 0);
        assert_eq!(from(vec![call("read", vec![0]), What::Program, clock()]), 2, "nothing happened");
        let get = || finish("http", 1, reply(200));
        assert_eq!(
            from(vec![What::Program, get(), clock(), call("env", vec![1])]),
            1,
            "a request is repeated"
        );
        let post = |is_repeatable| begin("http", 2, is_repeatable);
        assert_eq!(from(vec![What::Program, get(), post(false), finish("http", 2, reply(200)), clock()]), 4);
        assert_eq!(from(vec![What::Program, get(), post(true), finish("http", 2, reply(200))]), 3);
        assert_eq!(from(vec![What::Program, post(false), clock(), finish("http", 2, reply(503))]), 1);
        assert_eq!(from(vec![What::Program, post(false), finish("http", 2, refused())]), 1);
        let timeout = Err::<Came, _>(HttpError::new(HttpErrorKind::Timeout, "late")).encode();
        assert_eq!(from(vec![What::Program, post(false), finish("http", 2, timeout)]), 2, "it is in doubt");
        // Something else succeeded while it was under way.
        let other = [begin("run", 3, false), finish("run", 3, ran(0))];
        let all = [&[What::Program, post(false)][..], &other, &[finish("http", 2, refused())]].concat();
        assert_eq!(from(all), 4);
        assert_eq!(from([&[What::Program][..], &other].concat()), 3);
        assert_eq!(from(vec![What::Program, begin("run", 3, false), finish("run", 3, ran(1))]), 1);
        assert_eq!(from(vec![What::Program, get(), begin("append", 9, false), call("append", vec![0])]), 4);
        assert_eq!(from(vec![What::Program, get(), begin("replace", 9, false), call("replace", vec![0])]), 1);
        assert_eq!(
            from(vec![What::Program, get(), finish("person", 5, vec![0])]),
            3,
            "nobody is asked twice"
        );
    }
}
