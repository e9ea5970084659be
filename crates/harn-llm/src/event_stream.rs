//! The binary framing of Amazon's event streams: a prelude of two lengths and a checksum, headers, a payload, and a
//! checksum of the whole message. Numbers are big-endian. Source: AWS, "Event stream encoding".

use crc32fast::hash;
use harn_value::Data as Value;

/// The size of the prelude in bytes: two lengths and their checksum.
const PRELUDE: usize = 12;

/// The size in bytes of the checksum of the whole message.
const CHECKSUM: usize = 4;

/// The maximum size in bytes of the headers of a message, by the specification.
const MAX_HEADERS: usize = 128 << 10;

/// The type of a string header.
const TEXT: usize = 7;

/// An error in an event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A message exceeds the size limit.
    #[error("a message of the stream is too long")]
    TooLong,
    /// The bytes are not a valid message.
    #[error("a message of the stream is invalid: {0}")]
    Corrupt(&'static str),
}

/// Splits bytes into messages.
#[derive(Debug)]
pub(crate) struct Frames {
    limit: usize,
    bytes: Vec<u8>,
}

/// A message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// `:message-type`: `event`, `exception` or `error`.
    pub(crate) kind: &'a str,
    /// `:event-type`, `:exception-type` or `:error-code`.
    pub(crate) name: &'a str,
    /// `:error-message`.
    pub(crate) message: &'a str,
    pub(crate) payload: &'a [u8],
}

impl Frames {
    /// Creates a reader of messages of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Frames {
        Frames { limit, bytes: Vec::new() }
    }

    /// Processes a chunk and passes every message that it completes to `take`.
    ///
    /// # Errors
    /// A message is too long, or a checksum does not match.
    pub(crate) fn feed(&mut self, chunk: &[u8], take: &mut dyn FnMut(&Frame<'_>)) -> Result<(), FrameError> {
        if self.bytes.is_empty() {
            // Only a message that spans chunks is copied.
            let rest = read_all(chunk, self.limit, take)?;
            self.bytes.extend_from_slice(rest);
            return Ok(());
        }
        self.bytes.extend_from_slice(chunk);
        let rest = read_all(&self.bytes, self.limit, take)?.len();
        self.bytes.drain(..self.bytes.len() - rest);
        Ok(())
    }
}

/// Returns the stream with its payloads replaced by those that `change` produces, or `None` when `change` leaves them
/// unchanged. Of an incomplete message at the end, only the prelude is retained.
///
/// # Errors
/// The bytes are not an event stream.
pub(crate) fn with_payloads(
    bytes: &[u8],
    change: impl FnOnce(&mut [Value]),
) -> Result<Option<Vec<u8>>, FrameError> {
    let (mut headers, mut payloads) = (Vec::new(), Vec::new());
    let rest = split_all(bytes, usize::MAX, &mut |block, payload| {
        let text = || Value::from(String::from_utf8_lossy(payload));
        headers.push(block);
        payloads.push(serde_json::from_slice(payload).unwrap_or_else(|_| text()));
        Ok(())
    })?;
    let before = payloads.clone();
    change(&mut payloads);
    if payloads == before && rest.is_empty() {
        return Ok(None);
    }
    let mut out = Vec::with_capacity(bytes.len());
    for (block, payload) in headers.into_iter().zip(&payloads) {
        let text = payload.as_str().map_or_else(|| payload.to_string(), str::to_owned);
        write(block, text.as_bytes(), &mut out);
    }
    out.extend_from_slice(&rest[..rest.len().min(PRELUDE)]);
    Ok(Some(out))
}

/// Appends a message with the given block of headers.
fn write(headers: &[u8], payload: &[u8], out: &mut Vec<u8>) {
    let length = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_be_bytes();
    let from = out.len();
    out.extend_from_slice(&length(PRELUDE + headers.len() + payload.len() + CHECKSUM));
    out.extend_from_slice(&length(headers.len()));
    out.extend_from_slice(&hash(&out[from..]).to_be_bytes());
    out.extend_from_slice(headers);
    out.extend_from_slice(payload);
    out.extend_from_slice(&hash(&out[from..]).to_be_bytes());
}

/// Reads all complete messages; returns the remaining bytes.
fn read_all<'b>(
    bytes: &'b [u8],
    limit: usize,
    take: &mut dyn FnMut(&Frame<'_>),
) -> Result<&'b [u8], FrameError> {
    split_all(bytes, limit, &mut |headers, payload| {
        take(&frame(headers, payload)?);
        Ok(())
    })
}

/// Splits all complete messages into headers and payload; returns the remaining bytes.
fn split_all<'b>(
    bytes: &'b [u8],
    limit: usize,
    take: &mut dyn FnMut(&'b [u8], &'b [u8]) -> Result<(), FrameError>,
) -> Result<&'b [u8], FrameError> {
    let mut rest = bytes;
    while let Some((prelude, _)) = rest.split_first_chunk::<PRELUDE>() {
        let total = number(&prelude[..4]);
        let headers = number(&prelude[4..8]);
        if hash(&prelude[..8]) as usize != number(&prelude[8..]) {
            return Err(FrameError::Corrupt("the checksum of a prelude is wrong"));
        }
        if total < PRELUDE + headers + CHECKSUM || headers > MAX_HEADERS {
            return Err(FrameError::Corrupt("the lengths of a message do not fit"));
        }
        if total > limit {
            return Err(FrameError::TooLong);
        }
        let Some((message, next)) = rest.split_at_checked(total) else { break };
        let (body, checksum) = message.split_at(total - CHECKSUM);
        if hash(body) as usize != number(checksum) {
            return Err(FrameError::Corrupt("the checksum of a message is wrong"));
        }
        let (headers, payload) = body[PRELUDE..].split_at(headers);
        take(headers, payload)?;
        rest = next;
    }
    Ok(rest)
}

/// Parses a big-endian number of at most four bytes.
fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |n, byte| n << 8 | usize::from(*byte))
}

/// Takes `count` bytes from the front.
fn front<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], FrameError> {
    let cut = FrameError::Corrupt("the headers of a message are cut");
    let (taken, behind) = rest.split_at_checked(count).ok_or(cut)?;
    *rest = behind;
    Ok(taken)
}

/// Parses the headers that identify the type of a message.
fn frame<'a>(headers: &'a [u8], payload: &'a [u8]) -> Result<Frame<'a>, FrameError> {
    let mut frame = Frame { payload, ..Frame::default() };
    let mut rest = headers;
    while !rest.is_empty() {
        let length = number(front(&mut rest, 1)?);
        let name = front(&mut rest, length)?;
        let kind = number(front(&mut rest, 1)?);
        let length = match kind {
            // Booleans.
            0 | 1 => 0,
            2 => 1,
            3 => 2,
            4 => 4,
            // Timestamps, in milliseconds.
            5 | 8 => 8,
            // Byte arrays and strings.
            6 | TEXT => number(front(&mut rest, 2)?),
            // UUIDs.
            9 => 16,
            _ => return Err(FrameError::Corrupt("a header has an unknown type")),
        };
        let value = front(&mut rest, length)?;
        if kind == TEXT {
            let text = str::from_utf8(value).map_err(|_| FrameError::Corrupt("a header is not UTF-8"))?;
            match name {
                b":message-type" => frame.kind = text,
                b":event-type" | b":exception-type" | b":error-code" => frame.name = text,
                b":error-message" => frame.message = text,
                _ => {}
            }
        }
    }
    Ok(frame)
}

impl Frame<'_> {
    /// Returns the message as JSON: `{NAME: PAYLOAD}`, or `{"exception": {NAME: PAYLOAD}}` for errors.
    pub(crate) fn to_json(&self) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let payload = match String::from_utf8_lossy(self.payload).trim() {
            "" if self.message.is_empty() => "{}".to_owned(),
            "" => format!("{{\"message\":{}}}", quoted(self.message)),
            payload => payload.to_owned(),
        };
        let event = format!("{{{}:{payload}}}", quoted(self.name));
        if self.kind == "event" { event } else { format!("{{\"exception\":{event}}}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes_of(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn encoded(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in headers {
            block.push(u8::try_from(name.len()).unwrap());
            block.extend_from_slice(name.as_bytes());
            block.push(7);
            block.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
            block.extend_from_slice(value.as_bytes());
        }
        let mut out = Vec::new();
        write(&block, payload, &mut out);
        out
    }

    fn read(chunks: &[&[u8]]) -> Result<Vec<(String, String, Vec<u8>)>, FrameError> {
        let mut frames = Frames::new(1 << 20);
        let mut out = Vec::new();
        for chunk in chunks {
            let mut take =
                |f: &Frame<'_>| out.push((f.kind.to_owned(), f.name.to_owned(), f.payload.to_vec()));
            frames.feed(chunk, &mut take)?;
        }
        Ok(out)
    }

    /// The test vectors of AWS: <https://github.com/awslabs/aws-c-event-stream>.
    #[test]
    fn published_messages() {
        for (hex, payload) in [
            ("000000100000000005c248eb7d98c8ff", ""),
            ("0000001d00000000fd528c5a7b27666f6f273a27626172277dc3653936", "{'foo':'bar'}"),
            (
                "0000003d0000002007fd83960c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e\
                 7b27666f6f273a27626172277d8d9c08b1",
                "{'foo':'bar'}",
            ),
        ] {
            let found = read(&[&bytes_of(hex)]).unwrap();
            assert_eq!(found, [(String::new(), String::new(), payload.as_bytes().to_vec())], "{hex}");
        }
    }

    #[test]
    fn messages_are_read_as_json() {
        let json = |headers: &[(&str, &str)], payload: &[u8]| {
            let mut text = String::new();
            Frames::new(1 << 20).feed(&encoded(headers, payload), &mut |f| text = f.to_json()).unwrap();
            text
        };
        let event = [(":message-type", "event"), (":event-type", "messageStart")];
        assert_eq!(json(&event, b"{\"role\":\"assistant\"}"), "{\"messageStart\":{\"role\":\"assistant\"}}");
        let exception = [(":message-type", "exception"), (":exception-type", "throttlingException")];
        assert_eq!(
            json(&exception, b"{\"message\":\"slow\"}"),
            "{\"exception\":{\"throttlingException\":{\"message\":\"slow\"}}}"
        );
        let error = [(":message-type", "error"), (":error-code", "E"), (":error-message", "a \"b\"")];
        assert_eq!(json(&error, b""), "{\"exception\":{\"E\":{\"message\":\"a \\\"b\\\"\"}}}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let message = encoded(&[(":message-type", "event")], b"{}");
        for at in 0..message.len() {
            let mut wrong = message.clone();
            wrong[at] ^= 1;
            assert!(matches!(read(&[&wrong]), Err(FrameError::Corrupt(_))), "byte {at}");
        }
        let mut frames = Frames::new(message.len() - 1);
        assert_eq!(frames.feed(&message, &mut |_| {}), Err(FrameError::TooLong));
    }

    proptest! {
        #[test]
        fn cuts_never_matter(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..5),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let headers = [(":message-type", "event"), (":event-type", "contentBlockDelta")];
            let bytes = payloads.iter().map(|payload| encoded(&headers, payload)).collect::<Vec<_>>().concat();
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            places.extend([0, bytes.len()]);
            places.sort_unstable();
            let chunks: Vec<&[u8]> = places.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
            let found: Vec<Vec<u8>> = read(&chunks).unwrap().into_iter().map(|(_, _, payload)| payload).collect();
            prop_assert_eq!(found, payloads);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&[&bytes]);
        }
    }
}
