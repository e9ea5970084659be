//! Interruptible searches in large strings.
//!
//! The time of a regular expression search grows with the length of text and pattern, and the search cannot be
//! interrupted: it takes seconds for some megabytes and an unfavourable pattern. Therefore large texts are searched
//! on a separate thread, while the program's thread checks deadlines, signals and the memory limit. If the
//! program's thread stops, the search thread exits after its current search.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use harn_value::steps;
use regex::{CaptureLocations, Captures, Regex};

use crate::Pattern;
use crate::lead::{Lead, Look, Slots};

/// Minimum text size in bytes for searching on a thread.
const LARGE: usize = 64 << 10;

/// Number of matches sent at once.
const BATCH: usize = 512;

/// Time between two checks.
const LOOK: Duration = Duration::from_millis(5);

/// Returns the ranges of all matches, like `Regex::find_iter`.
pub fn find<'t>(regex: &'t Regex, text: &'t str) -> Box<dyn Iterator<Item = Range<usize>> + 't> {
    let here = || {
        // Each match may have required a search to the end of the text.
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

/// Returns the groups of all matches, for callers that need each match as a `Captures` value.
pub fn captures<'t>(regex: &'t Regex, text: &'t str) -> Box<dyn Iterator<Item = Captures<'t>> + 't> {
    if text.len() < LARGE {
        return Box::new(regex.captures_iter(text).inspect(|_| steps::bytes(text.len())));
    }
    let groups = |found: Range<usize>| {
        // The search may read to the end of the text.
        steps::look();
        // A search that begins at the start of a match finds the same match.
        regex.captures_at(text, found.start)
    };
    Box::new(find(regex, text).filter_map(groups))
}

/// The ranges of the groups of all matches, with the matches of `Regex::captures_iter`. One buffer is reused for
/// all matches, so this is not an `Iterator`.
pub struct Groups<'t> {
    pattern: &'t Pattern,
    text: &'t str,
    places: Places,
    lead: Option<&'t Lead>,
    search: Search<'t>,
}

/// The ranges of the groups of a match.
enum Places {
    None,
    Slots(Slots),
    Locations(CaptureLocations),
}

/// The source of the matches.
enum Search<'t> {
    /// Searches from this offset. `last` is the end of the previous match: an empty match there is skipped.
    From { start: usize, last: Option<usize> },
    /// A large text is searched on another thread.
    Found(Box<dyn Iterator<Item = Range<usize>> + 't>),
}

impl<'t> Groups<'t> {
    /// Starts a search for the groups of all matches in `text`.
    pub fn new(pattern: &'t Pattern, text: &'t str) -> Groups<'t> {
        let (lead, search) = match text.len() < LARGE {
            true => (pattern.lead(), Search::From { start: 0, last: None }),
            false => (None, Search::Found(find(pattern, text))),
        };
        Groups { pattern, text, places: Places::None, lead, search }
    }

    /// Advances to the next match; returns whether there is one.
    pub fn advance(&mut self) -> bool {
        self.found().is_some()
    }

    /// Returns the range of a group of the current match, with group 0 for the whole match; `None` if it did not
    /// participate.
    pub fn get(&self, n: usize) -> Option<Range<usize>> {
        match &self.places {
            Places::Slots(slots) => Some(slots[2 * n]?.get()..slots[2 * n + 1]?.get()),
            Places::Locations(places) => places.get(n).map(|(start, end)| start..end),
            Places::None => None,
        }
    }

    fn found(&mut self) -> Option<()> {
        match &mut self.search {
            Search::Found(found) => {
                let found = found.next()?;
                // The search may read to the end of the text.
                steps::look();
                // A search that begins at the start of a match finds the same match.
                self.search_at(found.start)?;
            }
            Search::From { start, .. } => {
                let mut start = *start;
                loop {
                    // The search ends after an empty match at the end.
                    self.text.get(start..)?;
                    let found = self.next_at(start)?;
                    let Search::From { start: next, last } = &mut self.search else { return None };
                    if found.is_empty() && *last == Some(found.end) {
                        start += self.text[start..].chars().next().map_or(1, char::len_utf8);
                        continue;
                    }
                    (*next, *last) = (found.end, Some(found.end));
                    steps::bytes(self.text.len());
                    break;
                }
            }
        }
        Some(())
    }

    fn next_at(&mut self, start: usize) -> Option<Range<usize>> {
        let Some(lead) = self.lead else { return self.search_at(start) };
        if !matches!(self.places, Places::Slots(_)) {
            self.places = Places::Slots(lead.slots());
        }
        let Places::Slots(slots) = &mut self.places else { return None };
        match lead.look(self.text, start, slots) {
            Look::None => None,
            Look::Found => self.get(0),
            Look::From(start) => self.search_at(start),
        }
    }

    fn search_at(&mut self, start: usize) -> Option<Range<usize>> {
        if !matches!(self.places, Places::Locations(_)) {
            self.places = Places::Locations(self.pattern.capture_locations());
        }
        let Places::Locations(places) = &mut self.places else { return None };
        self.pattern.captures_read_at(places, self.text, start).map(|found| found.range())
    }
}

/// Returns the parts of `text` between the matches, like `Regex::split`.
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
        // The receiver was dropped.
        if sender.send(batch).is_err() || last {
            return;
        }
    }
}

/// Iterates over matches sent by a thread.
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
            "a",
            "a(b)?",
            "b([^a]*)a",
            "a=(\\d+)( b)?",
            "ä(b|ä)",
            "ab$",
            "a\\b",
        ];
        let pieces = [
            "",
            "a",
            "ä",
            "aaaä",
            "baab",
            "äbä\n",
            "a=1 b=",
            "abcabd ",
            "\u{1F600}a",
            "bbbabab",
            "a=a=12 b a=",
        ];
        for (pattern, piece) in patterns.iter().flat_map(|pattern| pieces.map(|piece| (pattern, piece))) {
            let [seldom, often] = [(); 2].map(|()| Pattern::new(Regex::new(pattern).unwrap()));
            often.often_used();
            for text in [piece.to_owned(), piece.repeat(3), piece.repeat(LARGE / piece.len().max(1) + 10)] {
                for used in [&seldom, &often] {
                    let mut found = Groups::new(used, &text);
                    for wanted in used.captures_iter(&text).take(10_000) {
                        assert!(found.advance());
                        let wanted: Vec<_> = wanted.iter().map(|g| g.map(|g| g.range())).collect();
                        let groups: Vec<_> = (0..wanted.len()).map(|n| found.get(n)).collect();
                        assert_eq!(groups, wanted, "{pattern} in {piece}, {} bytes", text.len());
                    }
                    if text.len() < 10_000 {
                        assert!(!found.advance(), "{pattern} in {piece}");
                        assert!(!found.advance(), "{pattern} in {piece}, once more");
                    }
                }
            }
        }
    }
}
