//! HTTP/1.1 on one connection (RFC 9112): a request goes out, the head of its reply and the pieces of its body come in.
//!
//! A connection that waits holds no buffer: what comes is read into room that all connections of a thread share, and only
//! what came is kept.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Most bytes of a reply's head, and of what stands behind a chunked body.
const MAX_HEAD: usize = 256 << 10;
/// Most headers of a reply.
const MAX_HEADERS: usize = 200;
/// Longest line that says how long a chunk is.
const MAX_CHUNK_LINE: usize = 4 << 10;
/// Pieces that are handed to the system in one call.
const SLICES: usize = 16;

thread_local! {
    static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; 64 << 10]);
}

/// What bytes travel over: a socket, or TLS over one.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {
    /// The socket below.
    fn socket(&self) -> &TcpStream;
}

impl Io for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Io for tokio_rustls::client::TlsStream<Box<dyn Io>> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0.socket()
    }
}

/// Why there is no reply.
#[derive(Debug)]
pub(super) enum Failure {
    /// The other side hung up, or the system says what happened.
    Broken(String),
    /// What came is no HTTP.
    Invalid(String),
}

impl Failure {
    fn closed() -> Failure {
        Failure::Broken("the connection was closed before the reply was complete".to_owned())
    }

    fn invalid(what: &str) -> Failure {
        Failure::Invalid(format!("the reply is no valid HTTP: {what}"))
    }

    pub(super) fn text(self) -> String {
        match self {
            Failure::Broken(text) | Failure::Invalid(text) => text,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Failure::closed(),
            _ => Failure::Broken(format!("connection error: {error}")),
        }
    }
}

/// The head of a reply, and how its body ends.
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) framing: Framing,
    /// Whether the connection may serve another request.
    keep: bool,
}

/// How a body ends (RFC 9112, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// After so many bytes.
    Length(u64),
    /// With an empty chunk.
    Chunked(Chunk),
    /// With the connection.
    Close,
}

/// Where a chunked body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunk {
    /// Before the line that says how long the next chunk is.
    Size,
    /// In a chunk, of which so many bytes are to come.
    Data(u64),
    /// Before the end of line behind a chunk.
    End,
    /// In the lines behind the last chunk, of which so many bytes were read.
    Trailer(usize),
}

/// A connection with at most one request under way.
pub(super) struct Connection {
    io: Box<dyn Io>,
    /// What was read and not yet used.
    input: BytesMut,
    /// What is still to be written.
    output: VecDeque<Bytes>,
    /// Whether all that was written has left the buffers below.
    flushed: bool,
    /// Whether a byte of the request has been written.
    pub(super) wrote: bool,
    /// Whether a byte of the reply has been read.
    pub(super) heard: bool,
    /// Why writing ended. The other side may have answered before.
    unwritten: Option<io::Error>,
    framing: Framing,
    keep: bool,
}

impl Connection {
    pub(super) fn new(io: Box<dyn Io>) -> Connection {
        Connection {
            io,
            input: BytesMut::new(),
            output: VecDeque::new(),
            flushed: true,
            wrote: false,
            heard: false,
            unwritten: None,
            framing: Framing::Length(0),
            keep: true,
        }
    }

    /// Gives back what bytes travel over, for TLS behind a tunnel.
    pub(super) fn into_io(self) -> Box<dyn Io> {
        self.io
    }

    /// Whether the connection may serve another request once this exchange is over.
    pub(super) fn may_serve(&self) -> bool {
        self.keep
    }

    /// Whether the connection may serve another request: the last exchange is over on both sides.
    pub(super) fn is_free(&self) -> bool {
        self.keep
            && self.framing == Framing::Length(0)
            && self.input.is_empty()
            && self.output.is_empty()
            && self.flushed
            && self.unwritten.is_none()
    }

    /// Whether the other side has neither hung up nor said anything that nobody asked for.
    pub(super) fn is_silent(&self) -> bool {
        #[cfg(unix)]
        {
            use rustix::net::{RecvFlags, recv};
            let mut byte = [0u8; 1];
            let seen = recv(self.io.socket(), &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
            matches!(seen, Err(rustix::io::Errno::AGAIN))
        }
        #[cfg(not(unix))]
        {
            self.io.socket().peer_addr().is_ok()
        }
    }

    /// Begins an exchange.
    pub(super) fn begin(&mut self, head: Bytes, body: &[Bytes]) {
        self.output = VecDeque::with_capacity(1 + body.len());
        self.output.push_back(head);
        self.output.extend(body.iter().filter(|piece| !piece.is_empty()).cloned());
        (self.flushed, self.wrote, self.heard) = (false, false, false);
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut count = 0;
            for (slice, piece) in slices.iter_mut().zip(&self.output) {
                *slice = IoSlice::new(piece);
                count += 1;
            }
            let mut written = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.wrote = true;
            while let Some(first) = self.output.front_mut() {
                if written < first.len() {
                    first.advance(written);
                    break;
                }
                written -= first.len();
                self.output.pop_front();
            }
        }
        self.output = VecDeque::new();
        if !self.flushed {
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads what has come, and goes on with writing: the other side may answer before it has read all.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        if !self.flushed
            && self.unwritten.is_none()
            && let Poll::Ready(Err(error)) = self.poll_write(cx)
        {
            self.unwritten = Some(error);
            self.output = VecDeque::new();
        }
        ROOM.with_borrow_mut(|room| {
            let mut room = ReadBuf::new(room);
            let read = ready!(Pin::new(&mut self.io).poll_read(cx, &mut room));
            let came = room.filled();
            // Who writes to a connection that is closed wants to know why it was closed, if the other side said so.
            match (read, self.unwritten.take()) {
                (Ok(()), None) => {}
                (Ok(()), error) if !came.is_empty() => self.unwritten = error,
                (Ok(()) | Err(_), Some(error)) => return Poll::Ready(Err(error.into())),
                (Err(error), None) => return Poll::Ready(Err(error.into())),
            }
            self.heard |= !came.is_empty();
            self.input.extend_from_slice(came);
            Poll::Ready(Ok(came.len()))
        })
    }

    async fn fill(&mut self) -> Result<usize, Failure> {
        poll_fn(|cx| self.poll_fill(cx)).await
    }

    /// Waits for the head of the reply to a request of this method; what only announces one is passed over.
    pub(super) async fn head(&mut self, method: &str) -> Result<Head, Failure> {
        let mut searched = 0;
        loop {
            let Some(end) = end_of_head(&self.input, searched) else {
                if self.input.len() > MAX_HEAD {
                    return Err(Failure::invalid("its head is too long"));
                }
                searched = self.input.len().saturating_sub(2);
                if self.fill().await? == 0 {
                    return Err(Failure::closed());
                }
                continue;
            };
            if end > MAX_HEAD {
                return Err(Failure::invalid("its head is too long"));
            }
            let head = parse(&self.input[..end], method)?;
            self.advance(end);
            searched = 0;
            if matches!(head.status, 100 | 102..200) {
                continue;
            }
            (self.framing, self.keep) = (head.framing, head.keep);
            return Ok(head);
        }
    }

    /// The next piece of the body; `None` at its end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match self.framing {
                Framing::Length(0) => return Ok(None),
                Framing::Length(left) => {
                    let piece = self.up_to(left).await?;
                    self.framing = Framing::Length(left - piece.len() as u64);
                    return Ok(Some(piece));
                }
                Framing::Close => {
                    if self.input.is_empty() && self.fill().await? == 0 {
                        self.framing = Framing::Length(0);
                        self.keep = false;
                        return Ok(None);
                    }
                    return Ok(Some(self.take(usize::MAX)));
                }
                Framing::Chunked(Chunk::Data(left)) => {
                    let piece = self.up_to(left).await?;
                    self.framing = Framing::Chunked(match left - piece.len() as u64 {
                        0 => Chunk::End,
                        left => Chunk::Data(left),
                    });
                    return Ok(Some(piece));
                }
                Framing::Chunked(chunk) => self.between_chunks(chunk).await?,
            }
        }
    }

    /// Reads the line that the chunked body is at.
    async fn between_chunks(&mut self, chunk: Chunk) -> Result<(), Failure> {
        let line = self.line().await?;
        let text = line.trim_ascii_end();
        self.framing = match chunk {
            Chunk::Size => match chunk_size(text) {
                Some(0) => Framing::Chunked(Chunk::Trailer(0)),
                Some(size) => Framing::Chunked(Chunk::Data(size)),
                None => return Err(Failure::invalid("a chunk does not say how long it is")),
            },
            Chunk::Trailer(_) if text.is_empty() => Framing::Length(0),
            Chunk::Trailer(read) if read + line.len() <= MAX_HEAD => {
                Framing::Chunked(Chunk::Trailer(read + line.len()))
            }
            Chunk::Trailer(_) => return Err(Failure::invalid("what follows its body is too long")),
            Chunk::End | Chunk::Data(_) if text.is_empty() => Framing::Chunked(Chunk::Size),
            Chunk::End | Chunk::Data(_) => return Err(Failure::invalid("a chunk is longer than it says")),
        };
        Ok(())
    }

    async fn line(&mut self) -> Result<Bytes, Failure> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.input[searched..].iter().position(|byte| *byte == b'\n') {
                return Ok(self.take(searched + at + 1));
            }
            searched = self.input.len();
            if searched > MAX_CHUNK_LINE {
                return Err(Failure::invalid("a line between chunks is too long"));
            }
            if self.fill().await? == 0 {
                return Err(Failure::closed());
            }
        }
    }

    /// Some of the next bytes, of which so many belong to the body.
    async fn up_to(&mut self, left: u64) -> Result<Bytes, Failure> {
        if self.input.is_empty() && self.fill().await? == 0 {
            return Err(Failure::closed());
        }
        Ok(self.take(usize::try_from(left).unwrap_or(usize::MAX)))
    }

    fn take(&mut self, most: usize) -> Bytes {
        let piece = self.input.split_to(most.min(self.input.len())).freeze();
        self.let_go();
        piece
    }

    fn advance(&mut self, count: usize) {
        self.input.advance(count);
        self.let_go();
    }

    /// A buffer that is empty does not keep its room.
    fn let_go(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
    }
}

/// Where the empty line behind a head ends, when it is there; the bytes before `from` were looked at.
fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == b'\n') {
        at += found + 1;
        match &bytes[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
    None
}

fn parse(bytes: &[u8], method: &str) -> Result<Head, Failure> {
    let mut room = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut reply = httparse::Response::new(&mut room);
    match reply.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(Failure::invalid("its head is cut off")),
        Err(reason) => return Err(Failure::invalid(&reason.to_string())),
    }
    let status = reply.code.unwrap_or_default();
    if !(100..=999).contains(&status) {
        return Err(Failure::invalid("its status is no status"));
    }
    let recent = reply.version == Some(1);
    let headers: Vec<(String, String)> = reply
        .headers
        .iter()
        .map(|header| (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned()))
        .collect();
    let listed = |name: &str, word: &str| {
        let values = headers.iter().filter(|(own, _)| own == name);
        values.flat_map(|(_, value)| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    let mut keep = !listed("connection", "close") && (recent || listed("connection", "keep-alive"));
    let coding = headers.iter().rfind(|(name, _)| name == "transfer-encoding").map(|(_, value)| value);
    let bodiless = method == "HEAD" || matches!(status, 100..200 | 204 | 304);
    let framing = match (bodiless, coding) {
        // What follows a change of protocol is no HTTP.
        (true, _) => {
            keep &= status != 101;
            Framing::Length(0)
        }
        (false, Some(coding)) => {
            let last = coding.rsplit(',').next().unwrap_or_default().trim();
            // A length beside it is a sign that somebody on the way reads the reply differently.
            keep &= recent && !headers.iter().any(|(name, _)| name == "content-length");
            if last.eq_ignore_ascii_case("chunked") { Framing::Chunked(Chunk::Size) } else { Framing::Close }
        }
        (false, None) => length(&headers)?.map_or(Framing::Close, Framing::Length),
    };
    keep &= framing != Framing::Close;
    Ok(Head { status, headers, framing, keep })
}

/// The length that the headers give; several must be the same.
fn length(headers: &[(String, String)]) -> Result<Option<u64>, Failure> {
    let mut length = None;
    for (_, value) in headers.iter().filter(|(name, _)| name == "content-length") {
        for part in value.split(',').map(str::trim) {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            let own = part.parse::<u64>().ok().filter(|_| digits);
            if own.is_none() || (length.is_some() && length != own) {
                return Err(Failure::invalid("its content-length is no length"));
            }
            length = own;
        }
    }
    Ok(length)
}

/// How long a chunk is: hexadecimal digits, before what a `;` begins.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.is_empty())?;
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(head: &str, method: &str) -> Result<(Framing, bool), String> {
        let head = parse(head.as_bytes(), method).map_err(Failure::text)?;
        Ok((head.framing, head.keep))
    }

    #[test]
    fn a_body_ends_as_its_head_says() {
        let chunked = Framing::Chunked(Chunk::Size);
        let end = Framing::Length(0);
        for (head, method, expected) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", "GET", (Framing::Length(5), true)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", "GET", (Framing::Length(5), true)),
            ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", "HEAD", (end, true)),
            ("HTTP/1.1 204 No Content\r\n\r\n", "GET", (end, true)),
            ("HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n", "GET", (end, true)),
            ("HTTP/1.1 101 Switching\r\n\r\n", "GET", (end, false)),
            ("HTTP/1.1 200\r\n\r\n", "GET", (Framing::Close, false)),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "GET", (chunked, true)),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, Chunked\r\n\r\n", "GET", (chunked, true)),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n", "GET", (Framing::Close, false)),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n",
                "GET",
                (chunked, false),
            ),
            (
                "HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 3\r\n\r\n",
                "GET",
                (Framing::Length(3), false),
            ),
            ("HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\n", "GET", (Framing::Length(3), false)),
            (
                "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 3\r\n\r\n",
                "GET",
                (Framing::Length(3), true),
            ),
        ] {
            assert_eq!(framing(head, method), Ok(expected), "{head}");
        }
    }

    #[test]
    fn heads_that_are_none_are_refused() {
        for head in [
            "HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: \r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        ] {
            let error = framing(head, "GET").expect_err(head);
            assert!(error.starts_with("the reply is no valid HTTP: "), "{error}");
        }
    }

    #[test]
    fn chunks_say_how_long_they_are() {
        assert_eq!(chunk_size(b"1a"), Some(26));
        assert_eq!(chunk_size(b"0 ; name=value"), Some(0));
        for line in ["", "-1", "+1", "g", "0x1", "1 1", "10000000000000000"] {
            assert_eq!(chunk_size(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn the_end_of_a_head_is_found_wherever_pieces_are_torn() {
        for head in ["HTTP/1.1 200 OK\r\na: b\r\n\r\n", "HTTP/1.1 200 OK\na: b\n\n"] {
            for from in 0..head.len() - 2 {
                assert_eq!(end_of_head(head.as_bytes(), from.saturating_sub(2)), Some(head.len()));
                assert_eq!(end_of_head(&head.as_bytes()[..from], 0), None);
            }
        }
    }
}
