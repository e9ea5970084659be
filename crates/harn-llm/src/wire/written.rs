//! The cached serialization of a conversation in a wire format.

use std::collections::HashMap;

use bytes::Bytes;

use super::out::Items;
use crate::error::CallError;

/// The size in bytes of a piece that is shared between requests; bytes after the last piece are copied into each
/// request.
const PIECE: usize = 8 << 10;

/// A digest of the wire format and the rules under which the messages were serialized.
pub(super) type Key = u64;

/// The serialization of the first messages of a conversation: items of a JSON list.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(super) key: Key,
    /// Pieces, each with the number of messages serialized up to its end.
    pub(super) full: Vec<(usize, Bytes)>,
    pub(super) tail: Vec<u8>,
    /// The number of messages serialized.
    pub(super) done: usize,
    /// Digests of call ids, each with the number of messages serialized when it was added.
    pub(super) ids: HashMap<u64, usize>,
}

impl Written {
    /// Returns whether nothing is serialized.
    pub(crate) fn is_empty(&self) -> bool {
        self.done == 0
    }

    /// Returns the part that is valid for the first `len` messages, whatever follows them. The end of a unit is known
    /// only from the message after it, so that message must be among them.
    pub(crate) fn up_to(&self, len: usize) -> Written {
        let (key, known) = (self.key, len.saturating_sub(1));
        if self.done <= known {
            let (full, tail, ids) = (self.full.clone(), self.tail.clone(), self.ids.clone());
            return Written { key, full, tail, done: self.done, ids };
        }
        let full: Vec<_> = self.full.iter().take_while(|(end, _)| *end <= known).cloned().collect();
        let done = full.last().map_or(0, |(end, _)| *end);
        let ids = self.ids.iter().filter(|(_, end)| **end <= done).map(|(id, end)| (*id, *end)).collect();
        Written { key, full, tail: Vec::new(), done, ids }
    }

    /// Appends the output of `write` for the messages up to `end`, with the ids of their calls.
    ///
    /// # Errors
    /// Those of `write`; nothing is appended then.
    pub(super) fn add(
        &mut self,
        end: usize,
        ids: Vec<u64>,
        write: impl FnOnce(&mut Items<'_>) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let begin = self.tail.len();
        let any = !(self.full.is_empty() && self.tail.is_empty());
        if let Err(error) = write(&mut Items::behind(&mut self.tail, any)) {
            self.tail.truncate(begin);
            return Err(error);
        }
        self.done = end;
        self.ids.extend(ids.into_iter().map(|id| (id, end)));
        if self.tail.len() >= PIECE {
            self.tail.shrink_to_fit();
            self.full.push((end, Bytes::from(std::mem::take(&mut self.tail))));
        }
        Ok(())
    }

    pub(super) fn pieces(&self) -> Vec<Bytes> {
        let mut out: Vec<Bytes> = self.full.iter().map(|(_, piece)| piece.clone()).collect();
        if !self.tail.is_empty() {
            out.push(Bytes::copy_from_slice(&self.tail));
        }
        out
    }
}
