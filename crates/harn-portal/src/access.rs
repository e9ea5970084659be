//! Access checks: the host of a request must be this one, to prevent DNS rebinding; changes must come from this page;
//! and each request needs the token that was printed at the start, in a cookie, in the header `Authorization` or, for
//! the first page, in the address.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, Method, Uri, header};
use harn_runtime::constant_time_equal;

/// The secret of a portal.
#[derive(Clone)]
pub struct Token {
    text: String,
    /// A token for a single request: for the browser that is opened, whose arguments are visible to other users.
    once: Arc<Mutex<Option<String>>>,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Creates a token from two random strings.
    pub fn new(text: String, once: String) -> Token {
        Token { text, once: Arc::new(Mutex::new(Some(once))) }
    }

    /// Compares with the token. A token for one use becomes invalid.
    fn is(&self, text: &str) -> bool {
        if constant_time_equal(text.as_bytes(), self.text.as_bytes()) {
            return true;
        }
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = once.as_ref().is_some_and(|once| constant_time_equal(text.as_bytes(), once.as_bytes()));
        if fits {
            *once = None;
        }
        fits
    }
}

/// The decision about a request.
pub(crate) enum Verdict {
    Pass,
    /// Redirects to the address without the token, and sets the cookie.
    Welcome {
        to: String,
        cookie: String,
    },
    /// Responds with status 401.
    NoToken,
    /// Responds with status 403.
    Refuse(&'static str),
}

/// Returns the name of the cookie. It contains the port, because browsers send a cookie to all ports of a host.
fn cookie_name(address: SocketAddr) -> String {
    format!("harn_portal_{}", address.port())
}

/// Decides about a request.
pub(crate) fn judge(
    token: Option<&Token>,
    address: SocketAddr,
    given_host: &str,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Verdict {
    if let Some(why) = why_not(address, given_host, method, headers) {
        return Verdict::Refuse(why);
    }
    let Some(token) = token else { return Verdict::Pass };
    let name = cookie_name(address);
    let text = |value: &axum::http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let cookies = headers.get_all(header::COOKIE).iter().map(text).collect::<Vec<_>>().join(";");
    let cookie = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
    let shown = headers.get(header::AUTHORIZATION).map(text).unwrap_or_default();
    let shown = shown.strip_prefix("Bearer ").or_else(|| shown.strip_prefix("token ")).unwrap_or_default();
    let same = |text: &str| constant_time_equal(text.as_bytes(), token.text.as_bytes());
    if cookie.filter(|(own, _)| *own == name).any(|(_, value)| same(value)) || same(shown) {
        return Verdict::Pass;
    }
    let query = uri.query().unwrap_or_default();
    let asked = query.split('&').find_map(|pair| pair.strip_prefix("token="));
    if !asked.is_some_and(|text| token.is(text)) {
        return Verdict::NoToken;
    }
    let rest: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("token=")).collect();
    // A path that begins with two slashes would address another host.
    let path = format!("/{}", uri.path().trim_start_matches('/'));
    let to = if rest.is_empty() { path } else { format!("{path}?{}", rest.join("&")) };
    let cookie = format!("{name}={}; Path=/; HttpOnly; SameSite=Strict", token.text);
    Verdict::Welcome { to, cookie }
}

fn why_not(address: SocketAddr, given: &str, method: &Method, headers: &HeaderMap) -> Option<&'static str> {
    let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(header::HOST).unwrap_or_default();
    if !is_own(host, address, given) {
        return Some("the request names another host than this portal");
    }
    if *method == Method::GET || *method == Method::HEAD {
        return None;
    }
    let own = format!("http://{host}");
    if text(header::ORIGIN).is_some_and(|origin| !origin.eq_ignore_ascii_case(&own)) {
        return Some("the request comes from another page");
    }
    let site = headers.get("sec-fetch-site").map(|value| value.to_str().unwrap_or_default());
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        return Some("the request comes from another page");
    }
    None
}

/// Whether a `Host` header names the address that the portal listens on, or this machine.
fn is_own(host: &str, address: SocketAddr, given: &str) -> bool {
    let host = host.to_lowercase();
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port.parse().ok()),
        _ => (host.as_str(), Some(80)),
    };
    if port != Some(address.port()) {
        return false;
    }
    let name = name.trim_start_matches('[').trim_end_matches(']');
    match name.parse::<IpAddr>() {
        // Unlike a name, an IP address is not subject to DNS rebinding.
        Ok(ip) => address.ip().is_unspecified() || ip == address.ip() || ip.is_loopback(),
        Err(_) => name == "localhost" || name == given,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_this_portal() {
        let local: SocketAddr = "127.0.0.1:4721".parse().unwrap();
        for own in ["127.0.0.1:4721", "localhost:4721", "LOCALHOST:4721", "[::1]:4721"] {
            assert!(is_own(own, local, "127.0.0.1"), "{own}");
        }
        for other in [
            "",
            "localhost",
            "localhost:80",
            "evil.example:4721",
            "10.0.0.1:4721",
            "localhost.evil.example:4721",
        ] {
            assert!(!is_own(other, local, "127.0.0.1"), "{other}");
        }
        let all: SocketAddr = "0.0.0.0:80".parse().unwrap();
        assert!(is_own("10.0.0.1", all, "0.0.0.0") && is_own("box.lan", all, "box.lan"));
        assert!(!is_own("evil.example", all, "0.0.0.0"));
    }
}
