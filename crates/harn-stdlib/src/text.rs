//! Text functions shared by the builtins and the methods of strings. Positions are in Unicode scalar values.

use harn_value::{Str, Value, steps};
use harn_vm::iter::{NextFuture, Source};
use harn_vm::{Cx, Result};

use crate::args::{room_for, room_for_bytes};

/// Splits text at a separator; an empty separator yields the characters with `""` at both ends.
pub(crate) fn split(text: &str, separator: &str) -> Result<Vec<Value>> {
    if let [byte] = separator.as_bytes() {
        let count = memchr::memchr_iter(*byte, text.as_bytes()).count() + 1;
        room_for(count)?;
        let mut pieces = Vec::with_capacity(count);
        let mut from = 0;
        // The separator is ASCII, so it cannot be part of another character.
        for at in memchr::memchr_iter(*byte, text.as_bytes()) {
            pieces.push(Value::str(&text[from..at]));
            from = at + 1;
        }
        pieces.push(Value::str(&text[from..]));
        return Ok(pieces);
    }
    room_for(if separator.is_empty() { text.len() } else { 0 })?;
    Ok(text.split(separator).map(Value::str).collect())
}

/// Replaces all occurrences; an empty `old` matches between all characters and at both ends.
pub(crate) fn replace(text: &str, old: &str, new: &str) -> Result<String> {
    let places = match old.len() {
        0 => text.len() + 1,
        n => text.len() / n,
    };
    // The exact size is only computed if the upper bound is large.
    if places.saturating_mul(new.len()) > 1 << 20 {
        room_for_bytes(text.len() + text.matches(old).count().saturating_mul(new.len()))?;
    }
    if old.is_empty() || new.len() > old.len() {
        // Counts steps for the bytes, so that a growing result can be interrupted.
        let mut out = String::with_capacity(text.len());
        let mut end = 0;
        for (at, part) in text.match_indices(old) {
            steps::bytes(at - end + new.len());
            steps::step();
            out.push_str(&text[end..at]);
            out.push_str(new);
            end = at + part.len();
        }
        out.push_str(&text[end..]);
        return Ok(out);
    }
    Ok(text.replace(old, new))
}

/// Joins the printed forms of values.
pub(crate) fn join<'a>(items: impl Iterator<Item = &'a Value>, separator: &str) -> Result<String> {
    let mut out = String::new();
    for (i, item) in items.enumerate() {
        if i > 0 {
            steps::bytes(separator.len());
            steps::reserve(&mut out, separator.len());
            out.push_str(separator);
        }
        match item.as_str() {
            Some(text) => {
                steps::bytes(text.len());
                steps::step();
                steps::reserve(&mut out, text.len());
                out.push_str(text);
            }
            None => harn_value::print(item, &mut out),
        }
        if i % 1024 == 1023 {
            room_for_bytes(out.len())?;
        }
    }
    Ok(out)
}

/// Returns the characters in `start..end`, with both clamped to its length.
pub(crate) fn between(text: &Str, start: i64, end: i64) -> Str {
    let clamp = |n: i64| usize::try_from(n.max(0)).unwrap_or(usize::MAX);
    let (start, end) = (clamp(start), clamp(end));
    if start == 0 && end >= text.len() {
        return text.clone();
    }
    Str::new(text.char_range(start, end))
}

/// Repeats text `count` times.
pub(crate) fn repeat(text: &str, count: i64) -> Result<String> {
    let count = usize::try_from(count).unwrap_or(0);
    room_for_bytes(text.len().saturating_mul(count))?;
    Ok(text.repeat(count))
}

/// The side that [`pad`] fills.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
    Both,
}

/// Pads `text`, which has `length` units, with `fill` to `width` units.
pub(crate) fn pad(text: &str, length: usize, width: i64, fill: &str, side: Side) -> Result<String> {
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(length);
    room_for_bytes(text.len() + fill.len().saturating_mul(missing))?;
    let left = match side {
        Side::Left => missing,
        Side::Right => 0,
        Side::Both => missing / 2,
    };
    Ok(format!("{}{text}{}", fill.repeat(left), fill.repeat(missing - left)))
}

/// Converts a byte offset to a position in characters.
pub(crate) fn char_position(text: &Str, byte: usize) -> i64 {
    if text.is_ascii() { byte as i64 } else { text[..byte].chars().count() as i64 }
}

/// The lines of a string, split as by `lines()`.
pub(crate) struct Lines {
    text: String,
    /// Start of the next line.
    at: usize,
}

impl Lines {
    pub(crate) fn new(text: String) -> Lines {
        Lines { text, at: 0 }
    }

    fn line(&mut self) -> Option<Value> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let line = match rest.find('\n') {
            Some(end) => {
                self.at += end + 1;
                rest[..end].strip_suffix('\r').unwrap_or(&rest[..end])
            }
            None => {
                self.at = self.text.len();
                rest
            }
        };
        Some(Value::str(line))
    }
}

impl Source for Lines {
    fn try_next(&mut self) -> Result<Option<Option<Value>>> {
        Ok(Some(self.line()))
    }

    fn next<'a>(&'a mut self, _cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move { Ok(self.line()) })
    }
}
