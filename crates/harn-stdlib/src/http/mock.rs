//! Mocks of HTTP requests, and the record of requests.

use std::cell::RefCell;

use harn_system::secret::{is_secret_header, is_secret_parameter};
use harn_value::{Dict, Value};
use url::form_urlencoded;

use super::options::body_bytes;
use crate::args::printed;

/// The mocks of a program.
#[derive(Default)]
pub(crate) struct Mocks {
    mocks: RefCell<Vec<Mock>>,
    calls: RefCell<Vec<Call>>,
}

struct Mock {
    method: String,
    pattern: String,
    responses: Vec<Value>,
    served: usize,
}

struct Call {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

/// A reply, from the network or a mock.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Mocks {
    /// Adds a mock, or replaces the one with the same method and pattern.
    pub(crate) fn add(&self, method: &str, pattern: &str, response: &Value) {
        let responses = response.to_dict().and_then(|d| d.get_str("responses")?.as_list().cloned());
        let responses = responses.map_or_else(|| vec![response.clone()], |list| list.to_vec());
        let mock = Mock { method: method.to_uppercase(), pattern: pattern.to_owned(), responses, served: 0 };
        let mut mocks = self.mocks.borrow_mut();
        match mocks.iter_mut().find(|m| m.method == mock.method && m.pattern == mock.pattern) {
            Some(same) => *same = mock,
            None => mocks.push(mock),
        }
    }

    /// Returns the reply of the first matching mock, and records the call.
    pub(super) fn answer(
        &self,
        method: &str,
        url: &str,
        headers: &[(String, String)],
        body: Option<&[u8]>,
    ) -> Option<Reply> {
        let mut mocks = self.mocks.borrow_mut();
        let fits = |mock: &&mut Mock| {
            (mock.method == "*" || mock.method == method) && glob_matches(&mock.pattern, url)
        };
        let mock = mocks.iter_mut().find(fits)?;
        let response = mock.responses.get(mock.served).or(mock.responses.last()).cloned().unwrap_or_default();
        mock.served += 1;
        let lower = |(name, value): &(String, String)| (name.to_lowercase(), value.clone());
        self.calls.borrow_mut().push(Call {
            method: method.to_owned(),
            url: url.to_owned(),
            headers: headers.iter().map(lower).collect(),
            body: body.map(<[u8]>::to_vec),
        });
        Some(reply(&response))
    }

    /// Returns the recorded requests: `{method, url, headers, body}` each.
    pub(crate) fn calls(&self, show_secrets: bool) -> Vec<Value> {
        self.calls.borrow().iter().map(|call| call.to_value(show_secrets)).collect()
    }

    /// Removes all mocks and recorded requests.
    pub(crate) fn clear(&self) {
        self.mocks.borrow_mut().clear();
        self.calls.borrow_mut().clear();
    }
}

fn reply(response: &Value) -> Reply {
    let dict = response.to_dict();
    let get = |name: &str| dict.as_ref().and_then(|d| d.get_str(name)).filter(|v| !v.is_nil());
    let status = get("status").and_then(Value::as_int).and_then(|s| u16::try_from(s).ok());
    let headers = get("headers").and_then(Value::to_dict);
    let headers = headers.iter().flat_map(|d| d.iter());
    Reply {
        status: status.unwrap_or(200),
        headers: headers.map(|(k, v)| (k.to_lowercase(), printed(v).to_string())).collect(),
        body: get("body").map(body_bytes).unwrap_or_default(),
    }
}

impl Call {
    fn to_value(&self, show_secrets: bool) -> Value {
        let header = |(name, value): &(String, String)| {
            let hidden = !show_secrets && is_secret_header(name);
            (name.clone(), if hidden { "[redacted]".to_owned() } else { value.clone() })
        };
        let mut dict = Dict::new();
        dict.insert("method", self.method.as_str());
        dict.insert("url", if show_secrets { self.url.clone() } else { redacted_url(&self.url) });
        dict.insert("headers", Value::dict(self.headers.iter().map(header).collect()));
        dict.insert("body", self.body.as_ref().map(|body| String::from_utf8_lossy(body).into_owned()));
        dict.into()
    }
}

/// Redacts the values of secret parameters and the password of a URL, which may be invalid.
pub(crate) fn redacted_url(url: &str) -> String {
    let url = without_password(url);
    let Some((base, query)) = url.split_once('?') else { return url };
    let part = |part: &str| {
        let name = form_urlencoded::parse(part.as_bytes()).next().map(|(name, _)| name.into_owned());
        match part.split_once('=') {
            Some((raw, _)) if name.is_some_and(|name| is_secret_parameter(&name)) => {
                format!("{raw}=%5Bredacted%5D")
            }
            _ => part.to_owned(),
        }
    };
    format!("{base}?{}", query.split('&').map(part).collect::<Vec<_>>().join("&"))
}

/// Redacts the password of `user:password@host` in a URL.
fn without_password(url: &str) -> String {
    let (head, rest) = url.split_at(url.find("://").map_or(0, |at| at + 3));
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    // Text after a colon that is not a port may be a password with a slash.
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let cut = !authority.contains('@') && port.bytes().any(|b| !b.is_ascii_digit());
    let login = if cut { rest } else { authority };
    match login.rsplit_once('@').map(|(login, _)| (login, login.split_once(':'))) {
        Some((login, Some((user, _)))) => format!("{head}{user}:%5Bredacted%5D{}", &rest[login.len()..]),
        _ => url.to_owned(),
    }
}

/// Returns whether `text` matches a pattern in which `*` matches any text.
pub(crate) fn glob_matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_text() {
        assert!(glob_matches("https://a/*", "https://a/b/c"));
        assert!(glob_matches("*x*y", "axbxy"));
        assert!(!glob_matches("ab*ba", "aba"));
        assert!(glob_matches("abc", "abc"));
        assert!(!glob_matches("abc", "abcd"));
    }

    #[test]
    fn secret_parameters_are_hidden() {
        assert_eq!(
            redacted_url("http://a/?b=1&api_key=x&my_token=y"),
            "http://a/?b=1&api_key=%5Bredacted%5D&my_token=%5Bredacted%5D"
        );
        for (url, shown) in [
            ("https://ann:pw@a.test/x", "https://ann:%5Bredacted%5D@a.test/x"),
            ("ftp://ann:p@w@a.test?x=1", "ftp://ann:%5Bredacted%5D@a.test?x=1"),
            ("ann:pw@a.test/x", "ann:%5Bredacted%5D@a.test/x"),
            ("http://ann:p/w@a.test/x", "http://ann:%5Bredacted%5D@a.test/x"),
            ("https://a.test:80/@scope/x", "https://a.test:80/@scope/x"),
            ("https://a.test/@scope/x", "https://a.test/@scope/x"),
            ("no address", "no address"),
        ] {
            assert_eq!(redacted_url(url), shown);
        }
    }
}
