//! What a connection leads to, and through which proxy.

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use url::Url;

use crate::net::{HttpError, HttpRequest, Resolver};

use super::invalid;

/// One end of a connection.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    pub(super) tls: bool,
    /// A name or an address; one of IPv6 stands in brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

/// A proxy, and what it wants to be shown.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Proxy {
    pub(super) peer: Peer,
    pub(super) auth: Option<Vec<u8>>,
}

/// What a connection leads to. Connections whose routes are equal stand in for each other.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Route {
    pub(super) peer: Peer,
    pub(super) proxy: Option<Proxy>,
    pub(super) resolver: Option<Resolver>,
}

impl Route {
    /// The route of a request to an address.
    pub(super) fn of(request: &HttpRequest, url: &Url) -> Result<Route, HttpError> {
        let peer = match (url.scheme(), url.host_str(), url.port_or_known_default()) {
            (scheme @ ("http" | "https"), Some(host), Some(port)) if !host.is_empty() => {
                Peer { tls: scheme == "https", host: host.to_owned(), port }
            }
            _ => return Err(invalid("invalid URL: it needs http:// or https:// and a host".to_owned())),
        };
        Ok(Route { peer, proxy: proxy(request, url)?, resolver: request.resolver.clone() })
    }

    /// Whether the proxy is asked for the whole address, and not for a connection to its host.
    pub(super) fn asks_proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref().filter(|_| !self.peer.tls)
    }
}

fn proxy(request: &HttpRequest, url: &Url) -> Result<Option<Proxy>, HttpError> {
    let target = || {
        let origin = url.origin().ascii_serialization();
        origin.parse::<Uri>().map_err(|reason| invalid(format!("invalid URL: {reason}")))
    };
    match &request.proxy {
        Some(given) => {
            let refused = |reason: &str| invalid(format!("invalid proxy '{given}': {reason}"));
            let found = Matcher::builder().all(given.as_str()).build().intercept(&target()?);
            let found = found.ok_or_else(|| refused("it needs http:// or https:// and a host"))?;
            hop(&found).map(Some).map_err(|reason| refused(&reason))
        }
        None if request.direct => Ok(None),
        None => match Matcher::from_env().intercept(&target()?) {
            // The value may hold a password: it is not shown.
            Some(found) => hop(&found)
                .map(Some)
                .map_err(|reason| invalid(format!("invalid proxy in the environment: {reason}"))),
            None => Ok(None),
        },
    }
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
