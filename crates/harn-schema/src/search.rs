//! Searches in large texts that can be stopped.
//!
//! A search of a regular expression takes time by the length of text and pattern, and cannot be stopped: seconds for
//! some megabytes and an unlucky pattern. So large texts are searched on a thread of their own, while the program's thread
//! looks at deadlines, signals and the memory limit. When the work ends there, the thread ends with the search it is in.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use harn_value::steps;
use regex::{Captures, Regex};

/// Bytes of a text from which on a thread is worth its start.
const LARGE: usize = 64 << 10;

/// Matches that are handed over at once.
const BATCH: usize = 512;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// The places of all matches, as `Regex::find_iter` gives them.
pub fn find<'t>(regex: &'t Regex, text: &'t str) -> Box<dyn Iterator<Item = Range<usize>> + 't> {
    let here = || {
        // Each match may have taken a search through the rest of the text.
        Box::new(regex.find_iter(text).inspect(|_| steps::bytes(text.len())).map(|found| found.range()))
    };
    if text.len() < LARGE {
        return here();
    }
    steps::room(text.len());
    let (regex, copy): (Regex, Arc<str>) = (regex.clone(), text.into());
    let (sender, receiver) = sync_channel(4);
    let search = move || send_all(&regex, &copy, &sender);
    match std::thread::Builder::new().name("search".to_owned()).spawn(search) {
        Ok(_) => Box::new(Batches { receiver, batch: Vec::new().into_iter() }),
        Err(_) => here(),
    }
}

/// The groups of all matches. A search that begins where a match was found gives that match.
pub fn captures<'t>(regex: &'t Regex, text: &'t str) -> Box<dyn Iterator<Item = Captures<'t>> + 't> {
    if text.len() < LARGE {
        return Box::new(regex.captures_iter(text).inspect(|_| steps::bytes(text.len())));
    }
    let groups = |found: Range<usize>| {
        // It may read the rest of the text.
        steps::look();
        regex.captures_at(text, found.start)
    };
    Box::new(find(regex, text).filter_map(groups))
}

/// The pieces of a text between the matches, as `Regex::split` gives them.
pub fn split<'t>(regex: &'t Regex, text: &'t str) -> impl Iterator<Item = &'t str> {
    let mut end = Some(0);
    let mut found = find(regex, text);
    std::iter::from_fn(move || {
        let start = end?;
        match found.next() {
            Some(at) => {
                end = Some(at.end);
                Some(&text[start..at.start])
            }
            None => {
                end = None;
                Some(&text[start..])
            }
        }
    })
}

fn send_all(regex: &Regex, text: &str, sender: &SyncSender<Vec<Range<usize>>>) {
    let mut found = regex.find_iter(text).map(|found| found.range());
    loop {
        let batch: Vec<_> = found.by_ref().take(BATCH).collect();
        let last = batch.len() < BATCH;
        // Whoever no longer listens has stopped.
        if sender.send(batch).is_err() || last {
            return;
        }
    }
}

/// Matches that come from a thread.
struct Batches {
    receiver: Receiver<Vec<Range<usize>>>,
    batch: std::vec::IntoIter<Range<usize>>,
}

impl Iterator for Batches {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        loop {
            if let Some(found) = self.batch.next() {
                steps::step();
                return Some(found);
            }
            match self.receiver.recv_timeout(LOOK) {
                Ok(batch) => self.batch = batch.into_iter(),
                Err(RecvTimeoutError::Timeout) => steps::look(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_texts_give_what_small_ones_give() {
        for (pattern, piece) in
            [("a", "ab"), ("a*", "baaa"), ("", "äb"), ("b+|$", "abb\n"), ("x", "ab"), (".*", "ab\n")]
        {
            let regex = Regex::new(pattern).unwrap();
            let text = piece.repeat(LARGE / piece.len() + 1000);
            let wanted: Vec<_> = regex.find_iter(&text).map(|found| found.range()).collect();
            assert_eq!(find(&regex, &text).collect::<Vec<_>>(), wanted, "{pattern}");
            assert!(split(&regex, &text).eq(regex.split(&text)), "{pattern}");
            assert!(split(&regex, piece).eq(regex.split(piece)), "{pattern}");
        }
    }
}
