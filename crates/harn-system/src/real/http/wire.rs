//! One connection: sends a request, receives the head of its reply and the chunks of its body. `hyper` implements
//! HTTP/1.1.
//!
//! A `hyper` connection serves one exchange: an idle connection is a bare socket, which needs no buffer and can be
//! checked for whether the server has closed it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::error::Error as _;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, TRANSFER_ENCODING};
use http::{Request, Version};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Maximum size of a reply's head in bytes, and of one read.
const MAX_HEAD: usize = 64 << 10;
/// Maximum number of headers of a reply.
const MAX_HEADERS: usize = 200;

const CLOSED: &str = "the connection was closed before the reply was complete";

/// The transport: a socket, or TLS over one.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {
    /// Returns the underlying socket.
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

/// The reason why an exchange failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) text: String,
    /// Whether a byte of the request has been written.
    pub(super) wrote: bool,
    /// Whether a byte has been read.
    pub(super) heard: bool,
}

/// The head of a reply with the length of its body.
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    /// The length of the body, if known.
    pub(super) length: Option<u64>,
}

/// The body of a request: chunks that are sent without copying.
pub(super) struct Sent {
    pieces: VecDeque<Bytes>,
    left: u64,
}

impl Sent {
    pub(super) fn new(pieces: &[Bytes]) -> Box<Sent> {
        let pieces: VecDeque<Bytes> = pieces.iter().filter(|piece| !piece.is_empty()).cloned().collect();
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Box::new(Sent { pieces, left })
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.pop_front();
        self.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The transport of an exchange and its state.
struct Wire {
    io: Box<dyn Io>,
    wrote: bool,
    heard: bool,
    /// Whether all written bytes have been flushed.
    flushed: bool,
    /// The error that ended writing. The server may have answered before, so reading continues.
    unwritten: Option<io::Error>,
    /// The reason why the exchange ended.
    broken: Option<String>,
    /// Reads since the last yield.
    reads: u8,
}

/// Maximum number of reads before yielding. If a server sends faster than the client reads, the reader (of interim
/// replies, for example) requests more within one poll; timers and signals would never be polled.
const IN_A_ROW: u8 = 32;

impl Wire {
    fn new(io: Box<dyn Io>) -> Wire {
        Wire { io, wrote: false, heard: false, flushed: true, unwritten: None, broken: None, reads: 0 }
    }

    fn fail(&mut self, error: &io::Error) -> io::Error {
        self.broken = Some(match error.kind() {
            io::ErrorKind::UnexpectedEof => CLOSED.to_owned(),
            _ => format!("connection error: {error}"),
        });
        error.kind().into()
    }

    /// Records the outcome of a write of `size` bytes; after an error, further bytes are discarded.
    fn written(&mut self, outcome: io::Result<usize>, size: usize) -> usize {
        let error = match outcome {
            Ok(0) if size > 0 => io::ErrorKind::WriteZero.into(),
            Ok(count) => {
                self.wrote |= count > 0;
                return count;
            }
            Err(error) => error,
        };
        self.unwritten = Some(error);
        size
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.reads == IN_A_ROW {
            self.reads = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = room.filled().len();
        let Poll::Ready(read) = Pin::new(&mut self.io).poll_read(cx, room) else {
            self.reads = 0;
            return Poll::Pending;
        };
        self.reads += 1;
        let came = room.filled().len() > before;
        self.heard |= came;
        // After a write error, a reply that the server has sent before is returned first.
        Poll::Ready(match (read, self.unwritten.take()) {
            (Ok(()), None) => Ok(()),
            (Ok(()), error) if came => {
                self.unwritten = error;
                Ok(())
            }
            (Ok(()) | Err(_), Some(error)) | (Err(error), None) => Err(self.fail(&error)),
        })
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.flushed = false;
        if self.unwritten.is_some() {
            return Poll::Ready(Ok(bytes.len()));
        }
        let outcome = ready!(Pin::new(&mut self.io).poll_write(cx, bytes));
        Poll::Ready(Ok(self.written(outcome, bytes.len())))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.flushed = false;
        let size = slices.iter().map(|slice| slice.len()).sum();
        if self.unwritten.is_some() {
            return Poll::Ready(Ok(size));
        }
        let outcome = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, slices));
        Poll::Ready(Ok(self.written(outcome, size)))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unwritten.is_none() {
            match ready!(Pin::new(&mut self.io).poll_flush(cx)) {
                Ok(()) => self.flushed = true,
                Err(error) => self.unwritten = Some(error),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// An idle connection.
pub(super) struct Connection(Box<dyn Io>);

impl Connection {
    pub(super) fn new(io: Box<dyn Io>) -> Connection {
        Connection(io)
    }

    /// Returns whether the server has neither closed the connection nor sent unexpected bytes.
    pub(super) fn is_silent(&self) -> bool {
        // The socket is non-blocking.
        let seen = socket2::SockRef::from(self.0.socket()).peek(&mut [MaybeUninit::uninit()]);
        seen.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends a request and waits for the head of its reply; interim replies are skipped.
    pub(super) async fn send(self, request: Request<Box<Sent>>) -> Result<(Head, Exchange), Failure> {
        let mut exchange = Exchange::over(self.0).await?;
        let outcome = {
            let mut reply = pin!(exchange.sender.send_request(request));
            let (driver, over) = (&mut exchange.driver, &mut exchange.over);
            poll_fn(|cx| {
                if !*over {
                    *over = driver.poll_without_shutdown(cx).is_ready();
                }
                match reply.as_mut().poll(cx) {
                    Poll::Pending if *over => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                }
            })
            .await
        };
        let reply = match outcome {
            Some(Ok(reply)) => reply,
            Some(Err(error)) => return Err(exchange.fail(Some(&error))),
            None => return Err(exchange.fail(None)),
        };
        let (parts, body) = reply.into_parts();
        let length = body.size_hint().exact();
        exchange.body = Some(body);
        exchange.keep = keeps(parts.version, &parts.headers, length);
        let headers = parts.headers.iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        Ok((Head { status: parts.status.as_u16(), headers: headers.collect(), length }, exchange))
    }
}

/// Returns whether the connection can be reused: the server keeps it open, and the end of the body is delimited.
fn keeps(version: Version, headers: &HeaderMap, length: Option<u64>) -> bool {
    let listed = |name: HeaderName, word: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    let coded = headers.contains_key(TRANSFER_ENCODING);
    // A length in addition to a transfer coding indicates that an intermediary interprets the reply differently.
    let ends = if coded { !headers.contains_key(CONTENT_LENGTH) } else { length.is_some() };
    ends && !listed(CONNECTION, "close") && (version == Version::HTTP_11 || listed(CONNECTION, "keep-alive"))
}

/// A connection during an exchange. Dropping it closes the connection.
pub(super) struct Exchange {
    /// Moves bytes when polled, together with the wait for its result.
    driver: Box<http1::Connection<TokioIo<Wire>, Box<Sent>>>,
    /// Whether the driver has ended, and must not be polled again.
    over: bool,
    sender: http1::SendRequest<Box<Sent>>,
    body: Option<Incoming>,
    keep: bool,
}

impl Exchange {
    async fn over(io: Box<dyn Io>) -> Result<Exchange, Failure> {
        let made = http1::Builder::new()
            .writev(true)
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADERS)
            .handshake(TokioIo::new(Wire::new(io)));
        match Box::pin(made).await {
            Ok((sender, driver)) => {
                Ok(Exchange { driver: Box::new(driver), over: false, sender, body: None, keep: false })
            }
            Err(error) => {
                let text = format!("connection error: {error}");
                Err(Failure { text, wrote: false, heard: false })
            }
        }
    }

    /// Returns the reason why the exchange failed.
    pub(super) fn fail(self, error: Option<&hyper::Error>) -> Failure {
        let wire = self.driver.into_parts().io.into_inner();
        let text = wire.broken.unwrap_or_else(|| error.map_or_else(|| CLOSED.to_owned(), reason));
        Failure { text, wrote: wire.wrote, heard: wire.heard }
    }

    /// Returns whether the connection can serve another request after this exchange.
    pub(super) fn may_serve(&self) -> bool {
        self.keep
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Option<hyper::Error>>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let mut driven = false;
        loop {
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(piece) if !piece.is_empty() => return Poll::Ready(Some(Ok(piece))),
                    // Trailers are ignored.
                    _ => driven = false,
                },
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(Some(error)))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending if self.over => return Poll::Ready(Some(Err(None))),
                Poll::Pending if driven => return Poll::Pending,
                Poll::Pending => {
                    driven = true;
                    self.over = self.driver.poll_without_shutdown(cx).is_ready();
                }
            }
        }
    }

    /// Returns the next chunk of the body; `None` at its end. An error is passed to `fail`.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, Option<hyper::Error>> {
        poll_fn(|cx| self.poll_frame(cx)).await.transpose()
    }

    /// Returns whether the body was read up to the length announced in its head.
    pub(super) fn is_read(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    /// Returns the connection if the exchange is complete on both sides.
    pub(super) fn finish(mut self) -> Option<Connection> {
        if !self.keep || self.over {
            return None;
        }
        // The driver ends if the server has closed the connection or sent more bytes; the sender is ready after the
        // exchange.
        let mut cx = Context::from_waker(Waker::noop());
        if self.driver.poll_without_shutdown(&mut cx).is_ready() || !self.sender.is_ready() {
            return None;
        }
        let parts = self.driver.into_parts();
        let wire = parts.io.into_inner();
        let free = wire.flushed && wire.unwritten.is_none() && parts.read_buf.is_empty();
        free.then(|| Connection(wire.io))
    }

    /// Returns the transport, for TLS through a tunnel; `None` if bytes have already been received.
    pub(super) fn into_tunnel(self) -> Option<Box<dyn Io>> {
        let parts = self.driver.into_parts();
        parts.read_buf.is_empty().then(|| parts.io.into_inner().io)
    }
}

/// Returns the message of `hyper` for a reply that is truncated or not valid HTTP.
fn reason(error: &hyper::Error) -> String {
    let source = error.source();
    let kind = source.and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
    if error.is_incomplete_message()
        || error.is_canceled()
        || error.is_closed()
        || kind == Some(io::ErrorKind::UnexpectedEof)
    {
        return CLOSED.to_owned();
    }
    let text = source.map_or_else(|| error.to_string(), ToString::to_string);
    format!("the reply is no valid HTTP: {}", text.trim_end_matches(" parsed"))
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A connection that always has more data to read.
    struct Endless;

    impl AsyncRead for Endless {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            room: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            room.put_slice(b"a");
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Endless {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl Io for Endless {
        fn socket(&self) -> &TcpStream {
            unreachable!("nobody asks for the socket here")
        }
    }

    #[test]
    fn who_is_always_ready_gives_others_their_turn() {
        let mut wire = Wire::new(Box::new(Endless));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            let mut bytes = [0; 100];
            let mut room = ReadBuf::new(&mut bytes);
            while Pin::new(&mut wire).poll_read(&mut context, &mut room).is_ready() {}
            assert_eq!(room.filled().len(), usize::from(IN_A_ROW));
        }
    }
}
