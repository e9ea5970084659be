//! The endpoints of a connection and its proxy.

use std::fmt;
use std::sync::Arc;

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use url::{Position, Url};

use crate::egress::{Blocked, Egress};
use crate::net::{HttpError, HttpErrorKind, HttpRequest, Resolver, Tls};

use super::invalid;

/// One end of a connection.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    pub(super) tls: bool,
    /// A name or an address; IPv6 addresses are in brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

/// The origin, without the default port of the scheme.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, usual) = if self.tls { ("https", 443) } else { ("http", 80) };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port == usual { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

/// A proxy and its credentials.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Proxy {
    pub(super) peer: Peer,
    pub(super) auth: Option<Vec<u8>>,
}

/// The route of a connection. Connections with equal routes are interchangeable.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Route {
    pub(super) peer: Peer,
    pub(super) proxy: Option<Proxy>,
    pub(super) resolver: Option<Resolver>,
    /// TLS settings for the peer in addition to the defaults.
    pub(super) tls: Option<Arc<Tls>>,
    /// The egress rules under which it was opened: it serves no request with other rules.
    pub(super) egress: Option<Arc<Egress>>,
}

/// Returns the error of a request that a rule blocks. The query may contain a key, so it is omitted.
pub(super) fn blocked(url: &Url, by: &Blocked) -> HttpError {
    let place = format!("{}://{}", url.scheme(), &url[Position::BeforeHost..Position::AfterPath]);
    HttpError::new(HttpErrorKind::Egress, by.to_text(&place))
}

impl Route {
    /// Returns the route of a request to a URL, after a check of its egress rules.
    pub(super) fn of(request: &HttpRequest, tls: Option<&Arc<Tls>>, url: &Url) -> Result<Route, HttpError> {
        let peer = match (url.scheme(), url.host_str(), url.port_or_known_default()) {
            (scheme @ ("http" | "https"), Some(host), Some(port)) if !host.is_empty() => {
                Peer { tls: scheme == "https", host: host.to_owned(), port }
            }
            _ => return Err(invalid("invalid URL: it needs http:// or https:// and a host".to_owned())),
        };
        if !peer.tls && tls.is_some_and(|tls| !tls.pins.is_empty()) {
            return Err(invalid("tls: pinned_sha256 needs https://".to_owned()));
        }
        if let Some(egress) = &request.egress {
            egress.check(url).map_err(|by| blocked(url, &by))?;
        }
        let tls = tls.filter(|_| peer.tls).cloned();
        let (resolver, egress) = (request.resolver.clone(), request.egress.clone());
        Ok(Route { peer, proxy: proxy(request, url)?, resolver, tls, egress })
    }

    /// Returns the origin of the peer.
    pub(super) fn origin(&self) -> String {
        let Peer { tls, host, port } = &self.peer;
        format!("{}://{host}:{port}/", if *tls { "https" } else { "http" })
    }

    /// Returns the proxy if it receives requests with absolute URLs, and not requests for tunnels.
    pub(super) fn asks_proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref().filter(|_| !self.peer.tls)
    }
}

fn proxy(request: &HttpRequest, url: &Url) -> Result<Option<Proxy>, HttpError> {
    let found = proxy_of(request, url)?;
    let own = request.proxy_auth.as_ref().map(|auth| auth.as_bytes().to_vec());
    Ok(found.map(|proxy| Proxy { auth: own.or(proxy.auth), peer: proxy.peer }))
}

fn proxy_of(request: &HttpRequest, url: &Url) -> Result<Option<Proxy>, HttpError> {
    let target = || {
        let origin = url.origin().ascii_serialization();
        origin.parse::<Uri>().map_err(|reason| invalid(format!("invalid URL: {reason}")))
    };
    match &request.proxy {
        Some(given) => {
            let refused = |reason: &str| invalid(format!("invalid proxy '{}': {reason}", shown(given)));
            let found = Matcher::builder().all(given.as_str()).build().intercept(&target()?);
            let found = found.ok_or_else(|| refused("it needs http:// or https:// and a host"))?;
            let proxy = hop(&found).map_err(|reason| refused(&reason))?;
            let passed = request.no_proxy.as_ref().is_some_and(|hosts| {
                let without = Matcher::builder().all(given.as_str()).no(hosts.as_str()).build();
                target().is_ok_and(|target| without.intercept(&target).is_none())
            });
            Ok((!passed).then_some(proxy))
        }
        None if request.direct => Ok(None),
        None => match Matcher::from_env().intercept(&target()?) {
            // The value may contain a password: it is not printed.
            Some(found) => hop(&found)
                .map(Some)
                .map_err(|reason| invalid(format!("invalid proxy in the environment: {reason}"))),
            None => Ok(None),
        },
    }
}

/// Returns the URL of a proxy without the user name and the password.
fn shown(proxy: &str) -> String {
    let (head, rest) = proxy.split_at(proxy.find("://").map_or(0, |at| at + 3));
    format!("{head}{}", rest.rsplit_once('@').map_or(rest, |(_, host)| host))
}

fn hop(found: &Intercept) -> Result<Proxy, String> {
    let uri = found.uri();
    let tls = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        other => return Err(format!("proxies of the kind {} are not supported", other.unwrap_or("?"))),
    };
    let Some(host) = uri.host().filter(|host| !host.is_empty()) else { return Err("no host".to_owned()) };
    let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
    let auth = found.basic_auth().map(|value| value.as_bytes().to_vec());
    Ok(Proxy { peer: Peer { tls, host: host.to_owned(), port }, auth })
}
