//! A parser for event streams, according to the HTML standard ("9.2.6 Interpreting an event stream").
//!
//! The parser of model calls (`harn-llm`) is separate: that crate depends on this one, its parser drops names, ids and
//! retry times, and it splits events that model servers join by mistake. This parser buffers at most the maximum size
//! of an event.

use std::collections::VecDeque;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: String,
    /// The last id of the stream.
    pub(crate) id: Option<String>,
    pub(crate) retry_ms: Option<i64>,
}

/// The error of an event that is larger than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Converts the chunks of a body, split at any byte, to events.
pub(crate) struct Reader {
    limit: usize,
    line: Vec<u8>,
    /// Whether the last byte was a carriage return: a following line feed belongs to the same line ending.
    after_cr: bool,
    /// Whether no line has ended yet, so that the line may start with a byte order mark.
    at_start: bool,
    name: String,
    data: String,
    has_data: bool,
    id: Option<String>,
    retry_ms: Option<i64>,
}

impl Reader {
    /// Creates a parser for events of at most `limit` bytes.
    pub(crate) fn new(limit: u64) -> Reader {
        Reader {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            name: String::new(),
            data: String::new(),
            has_data: false,
            id: None,
            retry_ms: None,
        }
    }

    /// Parses a chunk; completed events are appended to `out`.
    ///
    /// # Errors
    /// An event is too large. The events before it are in `out`.
    pub(crate) fn feed(&mut self, piece: &[u8], out: &mut VecDeque<Event>) -> Result<(), TooLarge> {
        let mut rest = piece;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr)
                && let Some(behind) = rest.strip_prefix(b"\n")
            {
                rest = behind;
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', rest);
            let part = &rest[..end.unwrap_or(rest.len())];
            // The limit applies to the value, without the field name and a space.
            if self.line.len() + part.len() > self.limit.saturating_add(64) {
                return Err(TooLarge);
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { return Ok(()) };
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            self.take_line(&String::from_utf8_lossy(&line), out)?;
        }
        Ok(())
    }

    fn take_line(&mut self, line: &str, out: &mut VecDeque<Event>) -> Result<(), TooLarge> {
        let is_first = std::mem::take(&mut self.at_start);
        let line = if is_first { line.strip_prefix('\u{feff}').unwrap_or(line) } else { line };
        if line.is_empty() {
            self.end_event(out);
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                if self.data.len() + value.len() > self.limit {
                    return Err(TooLarge);
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry_ms = value.parse().ok().or(self.retry_ms);
            }
            // Comments and unknown fields.
            _ => {}
        }
        Ok(())
    }

    fn end_event(&mut self, out: &mut VecDeque<Event>) {
        let name = std::mem::take(&mut self.name);
        let retry_ms = self.retry_ms.take();
        if !std::mem::take(&mut self.has_data) {
            // A retry time without data applies to the next event.
            self.retry_ms = retry_ms;
            return;
        }
        let name = if name.is_empty() { "message".to_owned() } else { name };
        out.push_back(Event { name, data: std::mem::take(&mut self.data), id: self.id.clone(), retry_ms });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]]) -> (Vec<Event>, Result<(), TooLarge>) {
        let mut reader = Reader::new(20);
        let mut out = VecDeque::new();
        let outcome = pieces.iter().try_for_each(|piece| reader.feed(piece, &mut out));
        (out.into(), outcome)
    }

    fn event(name: &str, data: &str, id: Option<&str>, retry_ms: Option<i64>) -> Event {
        Event { name: name.to_owned(), data: data.to_owned(), id: id.map(str::to_owned), retry_ms }
    }

    #[test]
    fn fields_are_read_as_the_standard_says() {
        let text = "\u{feff}: hello\r\nevent: a\rdata: 1\ndata:2\nid: x\nretry: 5\nretry: no\n\nretry:7\n\ndata\n\nevent: lost\n\ndata: cut";
        let expected = [event("a", "1\n2", Some("x"), Some(5)), event("message", "", Some("x"), Some(7))];
        assert_eq!(read(&[text.as_bytes()]), (expected.to_vec(), Ok(())));
    }

    #[test]
    fn large_events_end_the_stream() {
        let text = "data: 1\n\ndata: 0123456789\ndata: 0123456789\n\n";
        assert_eq!(read(&[text.as_bytes()]), (vec![event("message", "1", None, None)], Err(TooLarge)));
        assert_eq!(read(&[&[b'x'; 100]]).1, Err(TooLarge));
        assert_eq!(read(&[b"data: 01234567890123456789\n\n"]).0.len(), 1);
    }

    proptest! {
        #[test]
        fn cuts_never_matter(text in "(data|event|id|retry|:|: |a|\r|\n|\r\n|é){0,40}", cut in any::<proptest::sample::Index>()) {
            let bytes = text.as_bytes();
            let at = cut.index(bytes.len() + 1);
            let (whole, cut) = (read(&[bytes]), read(&[&bytes[..at], &bytes[at..]]));
            prop_assert_eq!(whole, cut);
        }

        #[test]
        fn random_bytes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&[&bytes]);
        }
    }
}
