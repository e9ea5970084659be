//! Access control of a server over HTTP: clients need its key or sign their requests. Without both, requests of browser
//! pages through DNS rebinding are rejected.

use std::net::IpAddr;

use axum::http::{HeaderMap, StatusCode, header};
use harn_runtime::{constant_time_equal, hmac_sha256};

/// Maximum difference between the time of a signed request and now.
const MAX_AGE_SECS: i64 = 300;

/// Header with the time at which a request was signed, in seconds since 1970.
const TIMESTAMP: &str = "x-harn-timestamp";

/// Header with the signature of a request: `sha256=` and a hexadecimal HMAC.
const SIGNATURE: &str = "x-harn-signature";

/// The required credentials. The type has no `Debug`, so that keys cannot appear in messages.
pub(super) struct Guard {
    key: Option<String>,
    secret: Option<String>,
}

/// The reason for rejecting a request.
pub(super) type Refusal = (StatusCode, &'static str);

/// The rejection of unauthenticated requests. A missing key and a wrong one have the same response.
pub(super) const UNKNOWN: Refusal = (StatusCode::UNAUTHORIZED, "a valid key or signature is needed");

/// How a request was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    /// No credentials are required, or the key is correct.
    AtOnce,
    /// Only if the signature matches the body.
    BySignature,
}

impl Guard {
    pub(super) fn new(key: Option<String>, secret: Option<String>) -> Guard {
        Guard { key, secret }
    }

    /// Checks the headers of a request.
    ///
    /// # Errors
    /// The reason for the rejection.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<Admitted, Refusal> {
        if self.key.is_none() && self.secret.is_none() {
            return self.is_asked_for(headers).map(|()| Admitted::AtOnce);
        }
        if self.has_key(headers) {
            return Ok(Admitted::AtOnce);
        }
        let has_signature = self.secret.is_some() && headers.contains_key(SIGNATURE);
        if has_signature { Ok(Admitted::BySignature) } else { Err(UNKNOWN) }
    }

    fn has_key(&self, headers: &HeaderMap) -> bool {
        let Some(key) = &self.key else { return false };
        let bearer = text(headers, header::AUTHORIZATION.as_str()).and_then(|value| {
            let (scheme, given) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(given.trim())
        });
        let given = bearer.or_else(|| text(headers, "x-api-key"));
        given.is_some_and(|given| constant_time_equal(given.as_bytes(), key.as_bytes()))
    }

    /// Whether a request has a recent signature of its method, path and body. `now` is in seconds.
    pub(super) fn is_signed(&self, headers: &HeaderMap, request: (&str, &str, &[u8]), now: i64) -> bool {
        let Some(secret) = &self.secret else { return false };
        let (Some(at), Some(given)) = (text(headers, TIMESTAMP), text(headers, SIGNATURE)) else {
            return false;
        };
        let is_fresh = at.parse::<i64>().is_ok_and(|at| at.abs_diff(now) <= MAX_AGE_SECS.unsigned_abs());
        let expected = signature(secret, at, request);
        is_fresh && constant_time_equal(given.as_bytes(), expected.as_bytes())
    }

    /// Without credentials, the `Host` header must name this machine. Otherwise a page could reach the server through
    /// DNS rebinding.
    fn is_asked_for(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = text(headers, header::HOST.as_str()).unwrap_or_default();
        if !is_of_this_machine(host) {
            return Err((StatusCode::FORBIDDEN, "the request names another host than this machine"));
        }
        let origin = headers.contains_key(header::ORIGIN).then(|| text(headers, header::ORIGIN.as_str()));
        let page =
            |origin: Option<&str>| origin.and_then(|origin| Some(origin.split_once("://")?.1.to_owned()));
        match origin {
            Some(origin) if !page(origin).is_some_and(|host| is_of_this_machine(&host)) => {
                Err((StatusCode::FORBIDDEN, "the request comes from a page of another host"))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the signature of a request: an HMAC-SHA256 of its time, method, path and body, separated by line feeds.
fn signature(secret: &str, at: &str, (method, path, body): (&str, &str, &[u8])) -> String {
    let message = [format!("{at}\n{method}\n{path}\n").as_bytes(), body].concat();
    let digits = hmac_sha256(secret.as_bytes(), &message).map(|byte| format!("{byte:02x}"));
    format!("sha256={}", digits.concat())
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Whether a host, with or without a port, is this machine.
fn is_of_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn pages_of_others_are_refused() {
        let guard = Guard::new(None, None);
        let admits = |pairs: &[(&'static str, &str)]| guard.admit(&headers(pairs)).is_ok();
        for good in ["127.0.0.1:8765", "localhost", "LOCALHOST:1", "[::1]:8765"] {
            assert!(admits(&[("host", good)]), "{good}");
        }
        for bad in ["evil.test:8765", "", "127.0.0.1.evil.test", "10.0.0.1:8765"] {
            assert!(!admits(&[("host", bad)]), "{bad}");
        }
        assert!(admits(&[("host", "localhost"), ("origin", "http://localhost:3000")]));
        for bad in ["http://evil.test", "null"] {
            assert!(!admits(&[("host", "localhost"), ("origin", bad)]), "{bad}");
        }
    }

    #[test]
    fn a_key_or_a_signature_is_needed() {
        let guard = Guard::new(Some("k1".to_owned()), Some("s1".to_owned()));
        let admits = |pairs: &[(&'static str, &str)]| {
            let (headers, request) = (headers(pairs), ("POST", "/mcp", &b"{}"[..]));
            match guard.admit(&headers) {
                Ok(Admitted::AtOnce) => true,
                Ok(Admitted::BySignature) => guard.is_signed(&headers, request, 1_000),
                Err(_) => false,
            }
        };
        assert!(admits(&[("authorization", "Bearer k1")]) && admits(&[("x-api-key", "k1")]));
        for bad in ["Bearer k2", "Bearer ", "k1", "Basic k1"] {
            assert!(!admits(&[("authorization", bad)]), "{bad}");
        }
        assert!(!admits(&[]));
        let signed = |secret: &str, at: &str, body: &[u8]| {
            let signature = signature(secret, at, ("POST", "/mcp", body));
            admits(&[(TIMESTAMP, at), (SIGNATURE, &signature)])
        };
        assert!(signed("s1", "1000", b"{}") && signed("s1", "1300", b"{}"));
        assert!(!signed("s2", "1000", b"{}") && !signed("s1", "1000", b"[]"));
        assert!(!signed("s1", "1301", b"{}") && !signed("s1", "699", b"{}") && !signed("s1", "", b"{}"));
    }
}
