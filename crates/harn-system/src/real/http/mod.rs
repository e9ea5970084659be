//! The HTTP client. Redirects are followed here, because credentials of one origin must not be sent to another.
//!
//! | File | Content |
//! | --- | --- |
//! | `wire` | one exchange on one connection |
//! | `route` | the endpoints of a connection and its proxy |
//! | `connect` | establishing connections |
//! | `tls` | trust roots, client certificates and pins |
//! | `decode` | decompression of bodies |
//! | `pool` | idle connections |
//! | `socket` | WebSockets |

mod connect;
mod decode;
mod pool;
mod route;
mod socket;
mod tls;
mod wire;

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Uri};
use tokio::time::Instant;
use url::{Position, Url};

use crate::net::{Body, HttpError, HttpErrorKind, HttpReply, HttpRequest, Payload, too_large};
use crate::secret::is_secret_header;
use crate::wait::Waiting;

use pool::Pool;
use route::Route;
use wire::{Exchange, Failure, Head, Sent};

/// The connections of a process, and its default TLS configuration.
#[derive(Default)]
pub(super) struct Clients {
    pool: Pool,
    trust: OnceCell<Arc<rustls::ClientConfig>>,
}

/// How long to wait for the end of a complete body. Servers usually send it immediately.
const LINGER: Duration = Duration::from_millis(20);
/// Time and size limits for draining a body in the background if its end did not arrive within that time.
const DRAIN: (Duration, usize) = (Duration::from_secs(5), 64 << 10);

fn invalid(text: String) -> HttpError {
    HttpError::new(HttpErrorKind::Invalid, text)
}

/// Time limits while waiting for the next part of a reply.
#[derive(Clone, Copy)]
struct Patience {
    /// The deadline of the whole exchange.
    until: Option<Instant>,
    /// Maximum time without data.
    silence: Option<Duration>,
}

impl Patience {
    async fn wait<T>(self, what: impl Future<Output = Result<T, HttpError>>) -> Result<T, HttpError> {
        let silent = self.silence.and_then(|time| Instant::now().checked_add(time));
        let Some(until) = [self.until, silent].into_iter().flatten().min() else { return what.await };
        match tokio::time::timeout_at(until, what).await {
            Ok(outcome) => outcome,
            Err(_) => Err(HttpError::new(HttpErrorKind::Timeout, "operation timed out")),
        }
    }
}

/// An outgoing request, except for the parts that depend on its URL.
struct Outgoing<'a> {
    method: &'a Method,
    headers: &'a HeaderMap,
    body: Option<&'a Payload>,
}

impl Outgoing<'_> {
    fn request(&self, route: &Route, url: &Url) -> Result<Request<Box<Sent>>, HttpError> {
        let target = match route.asks_proxy() {
            // The user name and the password are only for the host.
            Some(_) => format!("http://{}", &url[Position::BeforeHost..Position::AfterQuery]).parse(),
            None => PathAndQuery::try_from(&url[Position::BeforePath..Position::AfterQuery]).map(Uri::from),
        };
        let target = target.map_err(|reason| invalid(format!("invalid URL: {reason}")))?;
        let mut out = HeaderMap::with_capacity(self.headers.len() + 4);
        let mut line = |name: &'static str, value: &[u8]| match HeaderValue::from_bytes(value) {
            Ok(value) => {
                out.append(name, value);
                Ok(())
            }
            // The value may be a password: it is not printed.
            Err(_) => Err(invalid(format!("invalid URL: it makes no valid value of the header '{name}'"))),
        };
        if !self.headers.contains_key("host") {
            line("host", url[Position::BeforeHost..Position::AfterPort].as_bytes())?;
        }
        if !self.headers.contains_key("accept") {
            line("accept", b"*/*")?;
        }
        if !url.username().is_empty() || url.password().is_some() {
            let plain = |text: &str| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
            let mut pair = plain(url.username());
            pair.push(b':');
            pair.extend(plain(url.password().unwrap_or_default()));
            if !self.headers.contains_key("authorization") {
                let text = base64::engine::general_purpose::STANDARD.encode(pair);
                line("authorization", format!("Basic {text}").as_bytes())?;
            }
        }
        if let Some(auth) = route.asks_proxy().and_then(|proxy| proxy.auth.as_ref())
            && !self.headers.contains_key("proxy-authorization")
        {
            line("proxy-authorization", auth)?;
        }
        // The length of the body is known only here.
        for (name, value) in self.headers {
            if !matches!(name.as_str(), "content-length" | "transfer-encoding") {
                out.append(name.clone(), value.clone());
            }
        }
        let size = self.body.map(Payload::size);
        if size.is_some() || matches!(*self.method, Method::POST | Method::PUT | Method::PATCH) {
            out.append("content-length", HeaderValue::from(size.unwrap_or_default()));
        }
        let mut request = Request::new(Sent::new(self.body.map_or(&[][..], |body| &body.0)));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = target;
        *request.headers_mut() = out;
        Ok(request)
    }
}

impl Clients {
    fn trust(&self) -> Result<Arc<rustls::ClientConfig>, HttpError> {
        if let Some(trust) = self.trust.get() {
            return Ok(trust.clone());
        }
        let trust = tls::trust()?;
        Ok(self.trust.get_or_init(|| trust).clone())
    }

    /// Sends a request and waits for the head of its reply.
    async fn send(
        &self,
        route: &Arc<Route>,
        request: &Outgoing<'_>,
        url: &Url,
        patience: Patience,
        connect: Patience,
    ) -> Result<(Head, Exchange), HttpError> {
        loop {
            let kept = self.pool.take(route);
            let reused = kept.is_some();
            let connection = match kept {
                Some(connection) => connection,
                // Boxed, because the future is large and only needed until the connection is established.
                None => Box::pin(connect.wait(connect::connect(route, || self.trust()))).await?,
            };
            let sending = connection.send(request.request(route, url)?);
            match patience.wait(async { Ok(sending.await) }).await? {
                Ok(begun) => return Ok(begun),
                // The server closed a reused connection while the request was sent.
                Err(failure)
                    if reused && (!failure.wrote || (!failure.heard && request.method.is_idempotent())) => {}
                Err(failure) => return Err(broken(failure)),
            }
        }
    }

    /// Sends a request, follows redirects, and returns the head of the reply.
    pub(super) async fn exchange(&self, request: HttpRequest) -> Result<HttpReply, HttpError> {
        // The time limit applies to the whole exchange including redirects.
        let until = request.timeout.and_then(|time| Instant::now().checked_add(time));
        let patience = Patience { until, silence: request.read_timeout };
        let connect = Patience { until, silence: request.connect_timeout };
        let mut method = Method::from_bytes(request.method.as_bytes())
            .map_err(|reason| invalid(format!("invalid method '{}': {reason}", request.method)))?;
        let mut headers = header_map(&request.headers)?;
        let mut url = Url::parse(&request.url).map_err(|reason| invalid(format!("invalid URL: {reason}")))?;
        if request.decompress && !headers.contains_key("accept-encoding") && !headers.contains_key("range") {
            headers.insert("accept-encoding", HeaderValue::from_static(decode::ACCEPTED));
        }
        let mut tls = request.tls.clone();
        let mut has_body = true;
        let mut followed = 0;
        loop {
            let route = Arc::new(Route::of(&request, tls.as_ref(), &url)?);
            let body = request.body.as_ref().filter(|_| has_body);
            let outgoing = Outgoing { method: &method, headers: &headers, body };
            let (head, exchange) = self.send(&route, &outgoing, &url, patience, connect).await?;
            let place = redirect(&head).filter(|_| request.redirects > 0);
            let status = head.status;
            let pieces = Pieces {
                exchange: Some(exchange),
                route,
                pool: self.pool.clone(),
                patience,
                left: request.max_response,
                limit: request.max_response,
            };
            let Some(next) = place else {
                let reply = reply(head, pieces)?;
                return Ok(match request.decompress {
                    true => decode::plain(reply, request.max_response),
                    false => reply,
                });
            };
            if followed == request.redirects {
                return Err(HttpError::new(HttpErrorKind::Redirect, "too many redirects"));
            }
            followed += 1;
            // The body of a redirect is ignored, but the next request may need the connection.
            Box::new(pieces).release().await;
            let next = url.join(&next).ok().filter(|next| matches!(next.scheme(), "http" | "https"));
            let Some(next) = next else {
                return Err(HttpError::new(HttpErrorKind::Redirect, "a redirect leads to no HTTP address"));
            };
            // As browsers do, and RFC 9110 section 15.4 allows: only 307 and 308 repeat the body.
            let changes = match status {
                303 => method != Method::HEAD,
                301 | 302 => method == Method::POST,
                _ => false,
            };
            if changes {
                method = Method::GET;
                has_body = false;
                for name in ["content-type", "content-length", "content-encoding", "transfer-encoding"] {
                    headers.remove(name);
                }
            }
            if next.origin() != url.origin() {
                let secret: Vec<HeaderName> =
                    headers.keys().filter(|name| is_secret_header(name.as_str())).cloned().collect();
                for name in secret {
                    headers.remove(name);
                }
                headers.remove("host");
                tls = tls.map(|tls| Arc::new(tls.without_identity()));
            }
            url = next;
        }
    }
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, HttpError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|reason| invalid(format!("invalid header name '{name}': {reason}")))?;
        // The value may be a key: it is not printed.
        let mut value =
            HeaderValue::from_str(value)
                .or_else(|_| HeaderValue::from_bytes(value.as_bytes()))
                .map_err(|reason| invalid(format!("invalid value of the header '{name}': {reason}")))?;
        value.set_sensitive(is_secret_header(name));
        map.append(key, value);
    }
    Ok(map)
}

/// Returns the target of a redirect.
fn redirect(head: &Head) -> Option<String> {
    if !matches!(head.status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    head.headers.iter().find(|(name, _)| name == "location").map(|(_, place)| place.clone())
}

fn reply(head: Head, mut pieces: Pieces) -> Result<HttpReply, HttpError> {
    if head.length.is_some_and(|length| length > pieces.limit) {
        return Err(too_large(pieces.limit));
    }
    if head.length == Some(0) {
        pieces.end();
    }
    Ok(HttpReply { status: head.status, headers: head.headers, body: Box::new(pieces) })
}

/// The body of a reply.
struct Pieces {
    /// `None` after the end of the body.
    exchange: Option<Exchange>,
    route: Arc<Route>,
    pool: Pool,
    patience: Patience,
    left: u64,
    limit: u64,
}

impl Pieces {
    /// Returns the connection to the pool.
    fn end(&mut self) {
        if let Some(connection) = self.exchange.take().and_then(Exchange::finish) {
            self.pool.put(&self.route, connection);
        }
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, HttpError> {
        let Some(exchange) = &mut self.exchange else { return Ok(None) };
        let outcome = self.patience.wait(async { Ok(exchange.piece().await) }).await;
        match outcome {
            Ok(Ok(Some(piece))) => {
                if exchange.is_read() {
                    self.end();
                }
                Ok(Some(piece))
            }
            Ok(Ok(None)) => {
                self.end();
                Ok(None)
            }
            Ok(Err(error)) => match self.exchange.take() {
                Some(exchange) => Err(broken(exchange.fail(error.as_ref()))),
                None => Ok(None),
            },
            Err(late) => {
                self.exchange = None;
                Err(late)
            }
        }
    }

    /// Drains a body, unless it is too long for the connection to be worth reusing.
    async fn drain(&mut self) {
        let mut room = DRAIN.1;
        while let Ok(Some(piece)) = self.piece().await {
            match room.checked_sub(piece.len()) {
                Some(rest) => room = rest,
                None => return,
            }
        }
    }
}

impl Body for Pieces {
    fn next(&mut self) -> Waiting<'_, Result<Option<Bytes>, HttpError>> {
        Box::pin(async {
            let Some(piece) = self.piece().await? else { return Ok(None) };
            self.left = self.left.checked_sub(piece.len() as u64).ok_or_else(|| too_large(self.limit))?;
            Ok(Some(piece))
        })
    }

    fn is_over(&self) -> bool {
        self.exchange.is_none()
    }

    fn release(mut self: Box<Self>) -> Waiting<'static, ()> {
        Box::pin(async move {
            if !self.exchange.as_ref().is_some_and(Exchange::may_serve) {
                return;
            }
            if tokio::time::timeout(LINGER, self.drain()).await.is_err() {
                tokio::spawn(async move { tokio::time::timeout(DRAIN.0, self.drain()).await });
            }
        })
    }
}

fn broken(failure: Failure) -> HttpError {
    HttpError::new(HttpErrorKind::Broken, failure.text)
}

#[cfg(test)]
mod tests;
