//! Establishing connections: addresses, sockets, tunnels through proxies, TLS.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::header::HeaderValue;
use http::{Method, Request};
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::egress::Blocked;
use crate::net::{HttpError, HttpErrorKind};

use super::invalid;
use super::route::{Peer, Proxy, Route};
use super::tls;
use super::wire::{Connection, Io, Sent};

/// Delay before the next address of a host is tried in parallel (RFC 8305).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);
/// TCP keepalive: idle time and interval of the probes, and the number of unanswered probes.
const KEEPALIVE: (Duration, u32) = (Duration::from_secs(15), 3);

fn failed(text: impl Into<String>) -> HttpError {
    HttpError::new(HttpErrorKind::Connect, text)
}

/// Establishes a connection for exchanges. `tls` returns the default TLS configuration; it is called only for TLS
/// connections.
pub(super) async fn connect(
    route: &Route,
    tls: impl Fn() -> Result<Arc<rustls::ClientConfig>, HttpError>,
) -> Result<Connection, HttpError> {
    open(route, tls, false).await.map(Connection::new)
}

/// As [`connect`], for protocols spoken only with the host: with `tunnels`, a proxy only forwards bytes.
pub(super) async fn open(
    route: &Route,
    tls: impl Fn() -> Result<Arc<rustls::ClientConfig>, HttpError>,
    tunnels: bool,
) -> Result<Box<dyn Io>, HttpError> {
    let first = route.proxy.as_ref().map_or(&route.peer, |proxy| &proxy.peer);
    let mut io = socket(first, route).await?;
    let to_peer = async |io| {
        let own = route.tls.as_deref();
        let config = own.map_or_else(&tls, tls::config)?;
        secure(io, &route.peer, config, own.map_or(&[], |own| &own.pins)).await
    };
    if first.tls {
        io = match &route.proxy {
            // TLS settings of the host do not apply to the proxy.
            Some(proxy) => secure(io, &proxy.peer, tls()?, &[]).await?,
            None => to_peer(io).await?,
        };
    }
    if let Some(proxy) = &route.proxy
        && (route.peer.tls || tunnels)
    {
        io = tunnel(io, proxy, &route.peer).await?;
        if route.peer.tls {
            io = to_peer(io).await?;
        }
    }
    Ok(io)
}

/// Connects to the first hop of a route. Every connection passes through here, so the egress rules are enforced here.
async fn socket(peer: &Peer, route: &Route) -> Result<Box<dyn Io>, HttpError> {
    let resolver = route.resolver.as_ref();
    let egress = route.egress.as_deref();
    let via = if route.proxy.is_some() { "the proxy " } else { "" };
    let unreachable = |reason: String| failed(format!("cannot connect to {via}{peer}: {reason}"));
    let stop = |by: Blocked| {
        let what = if route.proxy.is_some() { "the proxy" } else { "the host" };
        let reason = format!("{what}: {}", by.reason);
        HttpError::new(HttpErrorKind::Egress, Blocked { reason, ..by }.to_text(&route.origin()))
    };
    if let Some(egress) = egress {
        egress.check_peer(&peer.host, peer.port).map_err(stop)?;
    }
    let name = peer.host.trim_start_matches('[').trim_end_matches(']');
    let addresses: Vec<SocketAddr> = match (name.parse::<IpAddr>(), resolver) {
        (Ok(address), _) => vec![SocketAddr::new(address, peer.port)],
        (_, Some(resolver)) => {
            let found = resolver.find(name).map_err(|reason| unreachable(reason.to_string()))?;
            found.into_iter().map(|address| SocketAddr::new(address, peer.port)).collect()
        }
        _ => {
            let found = tokio::net::lookup_host((name, peer.port)).await;
            found.map_err(|reason| unreachable(format!("dns error: {reason}")))?.collect()
        }
    };
    if addresses.is_empty() {
        return Err(unreachable("dns error: the host has no address".to_owned()));
    }
    let addresses = match egress {
        Some(egress) => egress.admit(&peer.host, peer.port, addresses).map_err(stop)?,
        None => addresses,
    };
    let stream = race(in_turns(addresses)).await.map_err(|reason| unreachable(in_words(&reason)))?;
    tune(&stream);
    Ok(Box::new(stream))
}

/// Returns the reason why a socket did not open, without the error code of the system.
fn in_words(reason: &io::Error) -> String {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut};
    match reason.kind() {
        kind @ (ConnectionRefused | HostUnreachable | NetworkUnreachable | TimedOut) => kind.to_string(),
        _ => reason.to_string(),
    }
}

/// Interleaves IPv4 and IPv6 addresses.
fn in_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut own, mut other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == first);
    let mut all = Vec::with_capacity(own.len() + other.len());
    let (mut own, mut other) = (own.drain(..), other.drain(..));
    loop {
        match (own.next(), other.next()) {
            (None, None) => return all,
            (one, two) => all.extend(one.into_iter().chain(two)),
        }
    }
}

type Attempt = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// Connects to the first address that answers. The next address is tried after a failure or a delay.
async fn race(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut addresses = addresses.into_iter();
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut last: io::Error = io::ErrorKind::AddrNotAvailable.into();
    loop {
        if let Some(address) = addresses.next() {
            attempts.push(Box::pin(TcpStream::connect(address)));
        } else if attempts.is_empty() {
            return Err(last);
        }
        let ended = poll_fn(|cx| {
            for at in 0..attempts.len() {
                if let Poll::Ready(outcome) = attempts[at].as_mut().poll(cx) {
                    drop(attempts.swap_remove(at));
                    return Poll::Ready(outcome);
                }
            }
            Poll::Pending
        });
        let ended = match addresses.len() {
            0 => Some(ended.await),
            _ => tokio::time::timeout(NEXT_ADDRESS, ended).await.ok(),
        };
        match ended {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(error)) => last = error,
            None => {}
        }
    }
}

/// Disables Nagle's algorithm and enables TCP keepalive.
fn tune(stream: &TcpStream) {
    // The connection works without these options.
    let _ = stream.set_nodelay(true);
    let (time, count) = KEEPALIVE;
    let keepalive = TcpKeepalive::new().with_time(time).with_interval(time).with_retries(count);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

async fn secure(
    io: Box<dyn Io>,
    peer: &Peer,
    config: Arc<rustls::ClientConfig>,
    pins: &[[u8; 32]],
) -> Result<Box<dyn Io>, HttpError> {
    let host = peer.host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host)
        .map_err(|_| HttpError::new(HttpErrorKind::Invalid, "invalid URL: TLS knows no such host name"))?;
    let stream = TlsConnector::from(config)
        .connect(name, io)
        .await
        .map_err(|reason| failed(format!("cannot connect to {peer}: TLS error: {reason}")))?;
    tls::check_pins(pins, stream.get_ref().1)?;
    Ok(Box::new(stream))
}

/// Requests a tunnel to a host from a proxy.
async fn tunnel(io: Box<dyn Io>, proxy: &Proxy, to: &Peer) -> Result<Box<dyn Io>, HttpError> {
    let target = format!("{}:{}", to.host, to.port);
    let refused =
        |reason: &str| failed(format!("cannot connect to {to} through the proxy {}: {reason}", proxy.peer));
    let mut request = Request::new(Sent::new(&[]));
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = target.parse().map_err(|reason| invalid(format!("invalid URL: {reason}")))?;
    let name = HeaderValue::try_from(target).map_err(|reason| invalid(format!("invalid URL: {reason}")))?;
    request.headers_mut().insert("host", name);
    if let Some(auth) = &proxy.auth {
        let auth = HeaderValue::from_bytes(auth)
            .map_err(|_| refused("its user name and password are not a valid header"))?;
        request.headers_mut().insert("proxy-authorization", auth);
    }
    let sent = Connection::new(io).send(request).await;
    let (reply, exchange) = sent.map_err(|failure| refused(&failure.text))?;
    match reply.status {
        200..=299 => exchange.into_tunnel().ok_or_else(|| refused("it sent data after its reply")),
        407 => Err(refused("it requires a user name and a password (status 407)")),
        status => Err(refused(&format!("status {status}"))),
    }
}
