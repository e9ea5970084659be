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
use regex::{CaptureLocations, Captures, Regex};

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

/// The groups of all matches, for those who need each of them as a value of the library.
pub fn captures<'t>(regex: &'t Regex, text: &'t str) -> Box<dyn Iterator<Item = Captures<'t>> + 't> {
    if text.len() < LARGE {
        return Box::new(regex.captures_iter(text).inspect(|_| steps::bytes(text.len())));
    }
    let groups = |found: Range<usize>| {
        // It may read the rest of the text.
        steps::look();
        // A search that begins where a match was found gives that match.
        regex.captures_at(text, found.start)
    };
    Box::new(find(regex, text).filter_map(groups))
}

/// The places of the groups of all matches, the matches as `Regex::captures_iter` gives them. One buffer holds the places of
/// one match after the other, so this is not an `Iterator`.
pub struct Groups<'t> {
    regex: &'t Regex,
    text: &'t str,
    places: CaptureLocations,
    search: Search<'t>,
}

/// Where the places of the matches come from.
enum Search<'t> {
    /// A search from here on. The end of the match before is kept: behind it there is no empty match.
    From { start: usize, last: Option<usize> },
    /// A large text is searched elsewhere.
    Found(Box<dyn Iterator<Item = Range<usize>> + 't>),
}

impl<'t> Groups<'t> {
    /// The groups of the matches in a text.
    pub fn new(regex: &'t Regex, text: &'t str) -> Groups<'t> {
        let search = match text.len() < LARGE {
            true => Search::From { start: 0, last: None },
            false => Search::Found(find(regex, text)),
        };
        Groups { regex, text, places: regex.capture_locations(), search }
    }

    /// The groups of the next match: at 0 the whole, then the groups of the pattern.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend its items")]
    pub fn next(&mut self) -> Option<&CaptureLocations> {
        match &mut self.search {
            Search::Found(found) => {
                let found = found.next()?;
                // It may read the rest of the text.
                steps::look();
                // A search that begins where a match was found gives that match.
                self.regex.captures_read_at(&mut self.places, self.text, found.start)?;
            }
            Search::From { start, last } => loop {
                // Behind an empty match at the end there is nothing to search.
                self.text.get(*start..)?;
                let found = self.regex.captures_read_at(&mut self.places, self.text, *start)?;
                if found.is_empty() && *last == Some(found.end()) {
                    *start += self.text[*start..].chars().next().map_or(1, char::len_utf8);
                    continue;
                }
                (*start, *last) = (found.end(), Some(found.end()));
                steps::bytes(self.text.len());
                break;
            },
        }
        Some(&self.places)
    }
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

    #[test]
    fn groups_are_those_of_the_library() {
        let patterns = [
            "",
            "a*",
            "(a)|b",
            "(a*)(ä)?",
            "(?<x>b)?$",
            "\\b",
            "(^)|(.)",
            "(?:a|ab)(c)?",
            "(\\w+)=(\\d+)?",
            "z",
        ];
        let pieces = ["", "a", "ä", "aaaä", "baab", "äbä\n", "a=1 b=", "abcabd ", "\u{1F600}a"];
        for (pattern, piece) in patterns.iter().flat_map(|pattern| pieces.map(|piece| (pattern, piece))) {
            let regex = Regex::new(pattern).unwrap();
            for text in [piece.to_owned(), piece.repeat(3), piece.repeat(LARGE / piece.len().max(1) + 10)] {
                let mut found = Groups::new(&regex, &text);
                for wanted in regex.captures_iter(&text).take(10_000) {
                    let found = found.next().unwrap();
                    let wanted: Vec<_> = wanted.iter().map(|g| g.map(|g| (g.start(), g.end()))).collect();
                    let groups: Vec<_> = (0..found.len()).map(|n| found.get(n)).collect();
                    assert_eq!(groups, wanted, "{pattern} in {piece}, {} bytes", text.len());
                }
                if text.len() < 10_000 {
                    assert!(found.next().is_none(), "{pattern} in {piece}");
                    assert!(found.next().is_none(), "{pattern} in {piece}, once more");
                }
            }
        }
    }
}
