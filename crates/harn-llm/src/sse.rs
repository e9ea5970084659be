//! Splits a byte stream into messages: server-sent events, newline-delimited JSON and Amazon's event streams.
//!
//! Chunks may be split anywhere, including inside a character or a line ending. Memory is bounded by the maximum line
//! length.

use std::borrow::Cow;

pub use crate::event_stream::FrameError;
use crate::event_stream::Frames;

/// How the messages of a stream are separated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events: the `data:` lines of a block, joined.
    Sse,
    /// One message per line; a `data:` prefix is tolerated.
    Lines,
    /// Amazon's binary messages, converted to JSON with the event name as the key.
    EventStream,
}

/// Events longer than this must be separated correctly: checking whether a line starts a new event would take quadratic
/// time.
const MAX_UNSEPARATED: usize = 16 << 10;

/// The maximum length of an event id that is stored.
const MAX_ID: usize = 1024;

/// Splits chunks into messages.
#[derive(Debug)]
pub struct Framer {
    framing: Framing,
    limit: usize,
    frames: Frames,
    line: Vec<u8>,
    data: String,
    has_data: bool,
    /// The last byte was a carriage return, so a following line feed belongs to the same line ending.
    after_cr: bool,
    /// No line has ended yet, so there may be a byte order mark.
    at_start: bool,
    last_event_id: Option<String>,
    retry_ms: Option<u64>,
}

impl Framer {
    /// Creates a framer for lines and events of at most `limit` bytes.
    pub fn new(framing: Framing, limit: usize) -> Self {
        Framer {
            framing,
            limit,
            frames: Frames::new(limit),
            line: Vec::new(),
            data: String::new(),
            has_data: false,
            after_cr: false,
            at_start: true,
            last_event_id: None,
            retry_ms: None,
        }
    }

    /// Returns the last event id of the stream, for `Last-Event-ID`.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }

    /// Returns the reconnection delay that the stream requested, in milliseconds.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Returns the framing.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Processes a chunk and passes every message that it completes to `take`.
    ///
    /// # Errors
    /// A line or message is longer than the limit, or a binary message is corrupt.
    pub fn feed(&mut self, chunk: &[u8], take: &mut dyn FnMut(&str)) -> Result<(), FrameError> {
        if self.framing == Framing::EventStream {
            return self.frames.feed(chunk, &mut |frame| take(&frame.to_json()));
        }
        let mut rest = chunk;
        while !rest.is_empty() {
            if self.after_cr {
                self.after_cr = false;
                if rest[0] == b'\n' {
                    rest = &rest[1..];
                    continue;
                }
            }
            let end = match self.framing {
                Framing::Sse => memchr::memchr2(b'\n', b'\r', rest),
                Framing::Lines | Framing::EventStream => memchr::memchr(b'\n', rest),
            };
            let Some(at) = end else {
                self.line.extend_from_slice(rest);
                break;
            };
            self.after_cr = rest[at] == b'\r';
            // Only a line that spans chunks is copied.
            if self.line.is_empty() {
                self.end_line(&rest[..at], take);
            } else {
                self.line.extend_from_slice(&rest[..at]);
                self.end_cut_line(take);
            }
            rest = &rest[at + 1..];
            if self.data.len() > self.limit {
                return Err(FrameError::TooLong);
            }
        }
        if self.line.len() > self.limit { Err(FrameError::TooLong) } else { Ok(()) }
    }

    /// Ends the stream. Remaining data is treated as complete, because servers often omit the last line ending.
    pub fn finish(&mut self, take: &mut dyn FnMut(&str)) {
        if !self.line.is_empty() {
            self.end_cut_line(take);
        }
        self.end_event(take);
    }

    fn end_cut_line(&mut self, take: &mut dyn FnMut(&str)) {
        let mut line = std::mem::take(&mut self.line);
        self.end_line(&line, take);
        line.clear();
        self.line = line;
    }

    fn end_line(&mut self, line: &[u8], take: &mut dyn FnMut(&str)) {
        // Validation is several times faster than lossy conversion, which is rarely needed.
        let line = str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed);
        let mut line = line.as_ref();
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        match self.framing {
            Framing::Lines | Framing::EventStream => {
                let text = line.trim();
                let text = text.strip_prefix("data:").map_or(text, str::trim);
                if !text.is_empty() {
                    take(text);
                }
            }
            Framing::Sse => {
                if line.is_empty() {
                    self.end_event(take);
                } else if let Some(value) = line.strip_prefix("data:") {
                    let value = value.strip_prefix(' ').unwrap_or(value);
                    // Some servers omit the blank line between events, so a value that is complete JSON ends before the
                    // next `data:` line.
                    if self.has_data
                        && self.data.len() <= MAX_UNSEPARATED
                        && serde_json::from_str::<serde::de::IgnoredAny>(&self.data).is_ok()
                    {
                        self.end_event(take);
                    }
                    if self.has_data {
                        self.data.push('\n');
                    }
                    self.data.push_str(value);
                    self.has_data = true;
                } else if let Some(id) = line.strip_prefix("id:") {
                    // Restricted to characters that are valid in a header.
                    let id = id.strip_prefix(' ').unwrap_or(id);
                    if id.len() <= MAX_ID && id.bytes().all(|byte| byte.is_ascii_graphic()) {
                        self.last_event_id = Some(id.to_owned()).filter(|id| !id.is_empty());
                    }
                } else if let Some(retry) = line.strip_prefix("retry:") {
                    self.retry_ms = retry.trim().parse().ok().or(self.retry_ms);
                }
                // `event:` lines and comments are ignored because the data contains the same information.
            }
        }
    }

    fn end_event(&mut self, take: &mut dyn FnMut(&str)) {
        if std::mem::take(&mut self.has_data) {
            take(&self.data);
            self.data.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_and_pauses_are_remembered() {
        let mut framer = Framer::new(Framing::Sse, 1 << 20);
        let mut out = Vec::new();
        let text = b"id: a1\nretry: 250\ndata:\n\nid: a b\nretry: x\ndata: {}\n\n";
        framer.feed(text, &mut |m| out.push(m.to_owned())).unwrap();
        assert_eq!((framer.last_event_id(), framer.retry_ms()), (Some("a1"), Some(250)));
        framer.feed(b"id:\n\n", &mut |_| {}).unwrap();
        assert_eq!(framer.last_event_id(), None);
    }

    fn run(framing: Framing, chunks: &[&[u8]]) -> Vec<String> {
        let mut framer = Framer::new(framing, 1 << 20);
        let mut out = Vec::new();
        for chunk in chunks {
            framer.feed(chunk, &mut |text| out.push(text.to_string())).unwrap();
        }
        framer.finish(&mut |text| out.push(text.to_string()));
        out
    }

    #[test]
    fn events_with_comments_crlf_and_no_final_blank_line() {
        let text =
            ": hello\r\nevent: x\r\ndata: {\"a\":1}\r\n\r\ndata:{\"b\":\r\ndata: 2}\r\n\r\n:\n\ndata: [DONE]";
        assert_eq!(run(Framing::Sse, &[text.as_bytes()]), ["{\"a\":1}", "{\"b\":\n2}", "[DONE]"]);
    }

    #[test]
    fn every_cut_gives_the_same_messages() {
        let text = "\u{feff}data: {\"t\":\"é😀\"}\r\n\r\ndata: x\n\ndata: y\r\rdata: z";
        let whole = run(Framing::Sse, &[text.as_bytes()]);
        assert_eq!(whole.len(), 4);
        for cut in 0..=text.len() {
            let (a, b) = text.as_bytes().split_at(cut);
            assert_eq!(run(Framing::Sse, &[a, b]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(run(Framing::Sse, &bytes), whole);
    }

    #[test]
    fn lines_tolerate_a_data_prefix() {
        assert_eq!(run(Framing::Lines, &[b"{\"a\":1}\r\n\ndata: [DONE]\n"]), ["{\"a\":1}", "[DONE]"]);
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let mut framer = Framer::new(Framing::Sse, 10);
        assert_eq!(framer.feed(b"data: 0123456789", &mut |_| {}), Err(FrameError::TooLong));
    }

    proptest! {
        #[test]
        fn cuts_never_matter(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let cut = cut.min(bytes.len());
            let whole = run(Framing::Sse, &[&bytes]);
            prop_assert_eq!(run(Framing::Sse, &[&bytes[..cut], &bytes[cut..]]), whole);
        }
    }
}
