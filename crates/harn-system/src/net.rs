//! HTTP exchanges: a request, the head of the reply, and the body as a stream.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::egress::Egress;
use crate::wait::{Uncertain, Waiting};

/// An HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method, in upper case.
    pub method: String,
    /// The URL, with the scheme `http` or `https`.
    pub url: String,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<Payload>,
    /// Time limit of the exchange, including the body of the reply.
    pub timeout: Option<Duration>,
    /// Time limit of establishing a connection.
    pub connect_timeout: Option<Duration>,
    /// Time limit between two chunks of the body.
    pub read_timeout: Option<Duration>,
    /// Maximum number of redirects to follow; with 0 a redirect is returned as the reply.
    pub redirects: usize,
    /// The URL of a proxy.
    pub proxy: Option<String>,
    /// The value of `Proxy-Authorization` for the proxy.
    pub proxy_auth: Option<String>,
    /// Comma-separated hosts that bypass `proxy`.
    pub no_proxy: Option<String>,
    /// Additional trust roots, client identity and pins for TLS with the host.
    pub tls: Option<Arc<Tls>>,
    /// Whether the reply may be compressed; its body is returned decompressed.
    pub decompress: bool,
    /// Whether to ignore the proxies of the environment.
    pub direct: bool,
    /// Rules for the URL, each redirect and each connection, including one to a proxy.
    pub egress: Option<Arc<Egress>>,
    /// Resolves hosts instead of the system.
    pub resolver: Option<Resolver>,
    /// Maximum size of the reply body in bytes.
    pub max_response: u64,
    /// How a resumed run treats the request if it is unknown whether it arrived. GET, HEAD, PUT and DELETE are always
    /// sent again.
    pub uncertain: Uncertain,
    /// Whether the sender reads the whole body before it does anything else: a journal then records head and body as
    /// one effect.
    pub whole: bool,
}

impl HttpRequest {
    /// Default maximum size of a reply body in bytes: 64 MiB.
    pub const MAX_RESPONSE: u64 = 64 << 20;

    /// Creates a request without headers, body and time limits that follows no redirects.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> HttpRequest {
        HttpRequest {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: None,
            timeout: None,
            connect_timeout: None,
            read_timeout: None,
            redirects: 0,
            proxy: None,
            proxy_auth: None,
            no_proxy: None,
            tls: None,
            decompress: false,
            direct: false,
            egress: None,
            resolver: None,
            max_response: HttpRequest::MAX_RESPONSE,
            uncertain: Uncertain::Fail,
            whole: false,
        }
    }
}

/// TLS settings in addition to the trust roots of the system.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Tls {
    /// Additional trusted certificates, as PEM.
    pub roots: Option<Vec<u8>>,
    /// A client certificate with its chain and its key, as PEM. It is not used after a redirect to another origin.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Permitted SHA-256 hashes of the host's public key (SubjectPublicKeyInfo); empty to permit any key.
    pub pins: Vec<[u8; 32]>,
}

impl Tls {
    /// Returns the settings without the client identity.
    pub(crate) fn without_identity(&self) -> Tls {
        Tls { roots: self.roots.clone(), identity: None, pins: self.pins.clone() }
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

/// The body of a request as shared chunks; clones share them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload(pub Vec<Bytes>);

impl Payload {
    /// Returns the size in bytes.
    pub fn size(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Returns the bytes in one buffer.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.concat()
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Payload {
        Payload(vec![bytes.into()])
    }
}

/// Resolves the addresses of a host. Only clones of the same resolver are equal.
#[derive(Clone)]
pub struct Resolver(Arc<Find>);

type Find = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

impl Resolver {
    /// Creates a resolver from a function.
    pub fn new(find: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Resolver {
        Resolver(Arc::new(find))
    }

    /// Returns the addresses of a host.
    ///
    /// # Errors
    /// The host has no address, or must not be reached.
    pub fn find(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        (self.0)(host)
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>().addr()
    }
}

impl PartialEq for Resolver {
    fn eq(&self, other: &Resolver) -> bool {
        self.address() == other.address()
    }
}

impl Eq for Resolver {}

impl std::hash::Hash for Resolver {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}

/// The head of a reply, with the body as a stream. Dropping it closes the connection.
pub struct HttpReply {
    /// The status code.
    pub status: u16,
    /// The headers; names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Box<dyn Body>,
}

/// The body of a reply as a stream.
pub trait Body {
    /// Returns the next chunk; `None` at the end.
    fn next(&mut self) -> Waiting<'_, Result<Option<Bytes>, HttpError>>;

    /// Returns whether the body is known to be complete without waiting: [`next`](Body::next) then returns `None`.
    fn is_over(&self) -> bool;

    /// Releases a body that is no longer needed. The remainder is drained if it arrives soon, so that the connection
    /// can be reused.
    fn release(self: Box<Self>) -> Waiting<'static, ()>;
}

impl HttpReply {
    /// Returns the first header with a lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Returns the reason phrase of the status; empty for an unknown status.
    pub fn phrase(&self) -> &'static str {
        let status = http::StatusCode::from_u16(self.status).ok();
        status.and_then(|status| status.canonical_reason()).unwrap_or_default()
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// The error of the body.
    pub async fn read(mut self) -> Result<Vec<u8>, HttpError> {
        let mut bytes = Vec::new();
        loop {
            match self.body.next().await {
                Ok(Some(piece)) => bytes.extend_from_slice(&piece),
                Ok(None) => return Ok(bytes),
                Err(error) if error.kind == HttpErrorKind::Restarted => bytes.clear(),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The reason why an exchange failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpErrorKind {
    /// The request is invalid: its URL, a header, the method or the proxy.
    Invalid,
    /// A time limit was exceeded.
    Timeout,
    /// No connection was established.
    Connect,
    /// The connection was closed early, or the reply is not valid HTTP.
    Broken,
    /// Too many redirects, or an invalid redirect.
    Redirect,
    /// The body is larger than allowed.
    TooLarge,
    /// A policy rejects the request.
    Refused,
    /// It is unknown whether the request arrived, because the process that sent it has ended.
    InDoubt,
    /// An egress rule blocks the request; [`Blocked::parse`](crate::Blocked::parse) decodes the message.
    Egress,
    /// The run was interrupted while the body was read, and the repeated reply differs. Its body follows from the first
    /// byte.
    Restarted,
}

/// A failed exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpError {
    /// Its kind.
    pub kind: HttpErrorKind,
    /// The message. It contains at most the origin of the URL, because the remainder may contain a key.
    pub text: String,
}

impl HttpError {
    /// Creates an error.
    pub fn new(kind: HttpErrorKind, text: impl Into<String>) -> HttpError {
        HttpError { kind, text: text.into() }
    }

    /// Returns whether a retry may succeed: a timeout or a failed connection.
    pub fn is_passing(&self) -> bool {
        matches!(self.kind, HttpErrorKind::Timeout | HttpErrorKind::Connect)
    }
}

impl std::fmt::Display for HttpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for HttpError {}

/// Returns the error for a body that exceeds the limit of its request.
pub(crate) fn too_large(limit: u64) -> HttpError {
    let text = format!("the response is larger than {limit} bytes (option max_response_bytes)");
    HttpError::new(HttpErrorKind::TooLarge, text)
}
