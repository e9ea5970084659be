//! WebSockets over HTTP connections. `tungstenite` implements the protocol; sockets, proxies and TLS are shared with
//! HTTP.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::{Sink, Stream};
use http::{HeaderMap, HeaderValue, Request};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error, ProtocolError};
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::{Position, Url};

use super::route::Route;
use super::wire::Io;
use super::{Clients, Patience, connect, header_map, invalid};
use crate::net::{HttpError, HttpErrorKind, HttpRequest};
use crate::socket::{Frame, Socket};
use crate::wait::Waiting;

/// Maximum size of the send buffer in bytes, in addition to one message.
const MAX_WAITING: usize = 4 << 20;
/// How long `send` waits for a frame to be flushed.
const HANDOVER: Duration = Duration::from_secs(1);
/// Size of the read buffer in bytes; small, because many connections may be open.
const READ: usize = 16 << 10;
/// The status of a close frame without a code (RFC 6455 section 7.4.1).
const NO_CODE: u16 = 1005;

fn broken(text: impl Into<String>) -> HttpError {
    HttpError::new(HttpErrorKind::Broken, text)
}

impl Clients {
    /// Opens a WebSocket. The URL of the request has the scheme `ws` or `wss`; `max_response` limits each message.
    pub(crate) async fn websocket(&self, request: HttpRequest) -> Result<Rc<dyn Socket>, HttpError> {
        let until = request.timeout.and_then(|time| Instant::now().checked_add(time));
        let patience = Patience { until, silence: None };
        let connect = Patience { until, silence: request.connect_timeout };
        let url = address(&request.url)?;
        let route = Route::of(&request, request.tls.as_ref(), &url)?;
        let upgrade = upgrade(&url, header_map(&request.headers)?)?;
        // Boxed, because the future is large and only needed until the connection is established.
        let io = Box::pin(connect.wait(connect::open(&route, || self.trust(), true))).await?;
        let limit = usize::try_from(request.max_response).unwrap_or(usize::MAX);
        let config = WebSocketConfig::default()
            .read_buffer_size(READ)
            .write_buffer_size(0)
            .max_write_buffer_size(limit.saturating_add(MAX_WAITING))
            .max_message_size(Some(limit))
            .max_frame_size(Some(limit));
        let opened = async { client_async_with_config(upgrade, io, Some(config)).await.map_err(refused) };
        let (stream, _) = Box::pin(patience.wait(opened)).await?;
        Ok(Rc::new(Open { stream: RefCell::new(stream), limit }))
    }
}

/// Converts the URL of a WebSocket to HTTP.
fn address(text: &str) -> Result<Url, HttpError> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let scheme = match &*scheme.to_ascii_lowercase() {
        "ws" => "http",
        "wss" => "https",
        _ => return Err(invalid("invalid URL: it must start with ws:// or wss://".to_owned())),
    };
    let url = Url::parse(&format!("{scheme}://{rest}"))
        .map_err(|reason| invalid(format!("invalid URL: {reason}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        let text =
            "invalid URL: a WebSocket takes no name and password there; use the option headers or auth";
        return Err(invalid(text.to_owned()));
    }
    Ok(url)
}

/// Returns the request that upgrades a connection to a WebSocket.
fn upgrade(url: &Url, mut headers: HeaderMap) -> Result<Request<()>, HttpError> {
    let wrong = |reason: &dyn std::fmt::Display| invalid(format!("invalid URL: {reason}"));
    let host =
        HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]).map_err(|e| wrong(&e))?;
    let key = HeaderValue::from_str(&generate_key()).map_err(|e| wrong(&e))?;
    headers.entry("host").or_insert(host);
    headers.insert("connection", HeaderValue::from_static("Upgrade"));
    headers.insert("upgrade", HeaderValue::from_static("websocket"));
    headers.insert("sec-websocket-version", HeaderValue::from_static("13"));
    headers.insert("sec-websocket-key", key);
    let target = format!("ws://{}", &url[Position::BeforeHost..Position::AfterQuery]);
    let mut request = Request::get(target).body(()).map_err(|e| wrong(&e))?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// Converts the error of a failed handshake.
fn refused(error: Error) -> HttpError {
    match error {
        Error::Http(reply) => broken(format!("the server answered with status {}", reply.status().as_u16())),
        Error::Io(reason) => broken(format!("connection error: {reason}")),
        error => broken(error.to_string()),
    }
}

struct Open {
    stream: RefCell<WebSocketStream<Box<dyn Io>>>,
    /// Maximum size of a message in bytes.
    limit: usize,
}

impl Open {
    /// Converts a received message to a frame.
    fn came(&self, came: Option<Result<Message, Error>>) -> Result<Option<Frame>, HttpError> {
        Ok(Some(match came {
            Some(Ok(Message::Text(text))) => Frame::Text(text.as_str().to_owned()),
            Some(Ok(Message::Binary(bytes))) => Frame::Binary(bytes.into()),
            Some(Ok(Message::Ping(bytes))) => Frame::Ping(bytes.into()),
            Some(Ok(Message::Pong(bytes))) => Frame::Pong(bytes.into()),
            Some(Ok(Message::Close(frame))) => match frame {
                Some(CloseFrame { code, reason }) => Frame::Close(code.into(), reason.as_str().to_owned()),
                None => Frame::Close(NO_CODE, String::new()),
            },
            // Fragments are assembled before.
            Some(Ok(Message::Frame(_))) => Frame::Binary(Vec::new()),
            // Closing the connection without a close frame is an end, too.
            None | Some(Err(Error::Io(_) | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake))) => {
                return Ok(None);
            }
            Some(Err(Error::Capacity(CapacityError::MessageTooLong { .. }))) => {
                let text = format!("a message is larger than {} bytes", self.limit);
                return Err(HttpError::new(HttpErrorKind::TooLarge, text));
            }
            Some(Err(error)) => return Err(broken(error.to_string())),
        }))
    }
}

impl Socket for Open {
    fn next(self: Rc<Self>) -> Waiting<'static, Result<Option<Frame>, HttpError>> {
        Box::pin(async move {
            let came = poll_fn(|context| Pin::new(&mut *self.stream.borrow_mut()).poll_next(context)).await;
            self.came(came)
        })
    }

    fn send(self: Rc<Self>, frame: Frame) -> Waiting<'static, Result<bool, HttpError>> {
        let message = match frame {
            Frame::Text(text) => Message::Text(text.into()),
            Frame::Binary(bytes) => Message::Binary(bytes.into()),
            Frame::Ping(bytes) => Message::Ping(bytes.into()),
            Frame::Pong(bytes) => Message::Pong(bytes.into()),
            Frame::Close(NO_CODE, _) => Message::Close(None),
            Frame::Close(code, reason) => {
                Message::Close(Some(CloseFrame { code: CloseCode::from(code), reason: reason.into() }))
            }
        };
        Box::pin(async move {
            let taken = Pin::new(&mut *self.stream.borrow_mut()).start_send(message);
            match taken {
                Ok(()) => {}
                Err(Error::WriteBufferFull(_)) => return Ok(false),
                Err(Error::Io(reason)) => return Err(broken(format!("connection error: {reason}"))),
                Err(_) => return Err(broken("the connection is closed")),
            }
            let flush = poll_fn(|context| Pin::new(&mut *self.stream.borrow_mut()).poll_flush(context));
            match tokio::time::timeout(HANDOVER, flush).await {
                Ok(Err(Error::Io(reason))) => Err(broken(format!("connection error: {reason}"))),
                // Remaining bytes are sent during the next wait.
                _ => Ok(true),
            }
        })
    }
}
