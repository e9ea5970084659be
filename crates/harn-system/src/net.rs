//! HTTP as an exchange: a request, the head of its reply, and the body as a stream.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::egress::Egress;
use crate::wait::{Uncertain, Waiting};

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// Its method, in capitals.
    pub method: String,
    /// Where it goes: `http://` or `https://`.
    pub url: String,
    /// Its headers.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Option<Payload>,
    /// The longest that the exchange may take, the body of the reply included.
    pub timeout: Option<Duration>,
    /// The longest that a connection may take to come about.
    pub connect_timeout: Option<Duration>,
    /// The longest that may pass between two pieces of the body.
    pub read_timeout: Option<Duration>,
    /// How many redirects are followed; with 0 a redirect is the reply.
    pub redirects: usize,
    /// The address of a proxy.
    pub proxy: Option<String>,
    /// What a proxy is shown: the value of `Proxy-Authorization`.
    pub proxy_auth: Option<String>,
    /// The hosts that `proxy` is not asked for, with commas between.
    pub no_proxy: Option<String>,
    /// What TLS with the host trusts and shows, beyond what the system trusts.
    pub tls: Option<Arc<Tls>>,
    /// Whether the reply may come compressed; its body is what it was before.
    pub decompress: bool,
    /// Whether the proxies that the environment names are left out.
    pub direct: bool,
    /// Where it may lead: its address, each redirect, and each connection, the one to a proxy too, are held to it.
    pub egress: Option<Arc<Egress>>,
    /// Who finds the addresses of hosts instead of the system.
    pub resolver: Option<Resolver>,
    /// Most bytes of the reply's body.
    pub max_response: u64,
    /// What a run that goes on does with it when nobody knows whether it arrived. GET, HEAD, PUT and DELETE are sent again
    /// in any case.
    pub uncertain: Uncertain,
    /// Whether the sender reads the whole body before it does anything else: a journal then records head and body as one
    /// effect.
    pub whole: bool,
}

impl HttpRequest {
    /// Bytes of a reply that are read when nothing else is said: 64 MiB.
    pub const MAX_RESPONSE: u64 = 64 << 20;

    /// A request without headers, body and limits of time that follows no redirects.
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

/// What TLS trusts and shows, beyond the roots of the system.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Tls {
    /// Certificates that are trusted, too, as PEM.
    pub roots: Option<Vec<u8>>,
    /// A certificate with its chain and its key, as PEM. They do not follow a redirect to another origin.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// SHA-256 of the public keys (SubjectPublicKeyInfo) that the host may have; empty when it may have any.
    pub pins: Vec<[u8; 32]>,
}

impl Tls {
    /// The same without what tells who asks.
    pub(crate) fn without_identity(&self) -> Tls {
        Tls { roots: self.roots.clone(), identity: None, pins: self.pins.clone() }
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

/// The body of a request: pieces that others may hold, too. A clone shares them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload(pub Vec<Bytes>);

impl Payload {
    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// The bytes in one piece.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.concat()
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Payload {
        Payload(vec![bytes.into()])
    }
}

/// Finds the addresses of a host. Clones are equal, others are not.
#[derive(Clone)]
pub struct Resolver(Arc<Find>);

type Find = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

impl Resolver {
    /// Makes one of a function.
    pub fn new(find: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Resolver {
        Resolver(Arc::new(find))
    }

    /// The addresses of a host.
    ///
    /// # Errors
    /// There are none, or it must not be reached.
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

/// The head of a reply, and the body to come. Dropping it hangs up.
pub struct HttpReply {
    /// Its status.
    pub status: u16,
    /// Its headers, names in small letters.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Box<dyn Body>,
}

/// The body of a reply, as it comes.
pub trait Body {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> Waiting<'_, Result<Option<Bytes>, HttpError>>;

    /// Whether all of it was read, as far as that is known without waiting: [`next`](Body::next) gives `None` then.
    fn is_over(&self) -> bool;

    /// Gives up a body of which all that matters was read: what is left of it is read when it comes soon, so that the
    /// connection serves the next request.
    fn release(self: Box<Self>) -> Waiting<'static, ()>;
}

impl HttpReply {
    /// The first header of a name in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The words that go with the status; empty for one that has none.
    pub fn phrase(&self) -> &'static str {
        let status = http::StatusCode::from_u16(self.status).ok();
        status.and_then(|status| status.canonical_reason()).unwrap_or_default()
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// That of the body.
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

/// Why there is no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpErrorKind {
    /// The request could not be made as it is: its address, a header, the method, the proxy.
    Invalid,
    /// Its time was over.
    Timeout,
    /// No connection came about.
    Connect,
    /// It broke off, or what came is no HTTP.
    Broken,
    /// Too many redirects, or one that leads nowhere.
    Redirect,
    /// The body is larger than allowed.
    TooLarge,
    /// A permission forbids it.
    Refused,
    /// Nobody knows whether the request arrived: the process that sent it has ended.
    InDoubt,
    /// A rule blocks it; the text is for [`Blocked::parse`](crate::Blocked::parse).
    Egress,
    /// The run was interrupted while the body was read, and the repeated reply differs. Its body follows from the first byte.
    Restarted,
}

/// An exchange that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpError {
    /// Its kind.
    pub kind: HttpErrorKind,
    /// What happened. It names the origin at most: the rest of an address may hold a key.
    pub text: String,
}

impl HttpError {
    /// An error.
    pub fn new(kind: HttpErrorKind, text: impl Into<String>) -> HttpError {
        HttpError { kind, text: text.into() }
    }

    /// Whether another attempt may go well: a timeout or a failed connection.
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

/// The error of a body that is larger than its request allows.
pub(crate) fn too_large(limit: u64) -> HttpError {
    let text = format!("the response is larger than {limit} bytes (option max_response_bytes)");
    HttpError::new(HttpErrorKind::TooLarge, text)
}
