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

use crate::Pattern;
use crate::lead::{Lead, Look, Slots};

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
    pattern: &'t Pattern,
    text: &'t str,
    places: Places,
    lead: Option<&'t Lead>,
    search: Search<'t>,
}

/// Where the groups of a match lie.
enum Places {
    None,
    Slots(Slots),
    Locations(CaptureLocations),
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
    pub fn new(pattern: &'t Pattern, text: &'t str) -> Groups<'t> {
        let (lead, search) = match text.len() < LARGE {
            true => (pattern.lead(), Search::From { start: 0, last: None }),
            false => (None, Search::Found(find(pattern, text))),
        };
        Groups { pattern, text, places: Places::None, lead, search }
    }

    /// Goes to the next match, if there is one.
    pub fn advance(&mut self) -> bool {
        self.found().is_some()
    }

    /// Where a group of the match lies, at 0 the whole; none when it took no part.
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
                // It may read the rest of the text.
                steps::look();
                // A search that begins where a match was found gives that match.
                self.search_at(found.start)?;
            }
            Search::From { start, .. } => {
                let mut start = *start;
                loop {
                    // Behind an empty match at the end there is nothing to search.
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
