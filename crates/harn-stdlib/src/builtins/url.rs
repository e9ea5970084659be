//! URLs and query strings.

use harn_value::{Dict, Value};
use harn_vm::builtin::Text;
use harn_vm::{Error, Result, builtins};
use url::Url;
use url::form_urlencoded;

use crate::args::printed;

builtins! {
    /// URLs.
    pub(crate) static URLS: "urls";

    /// Parses a URL: `{scheme, host, port, path, query, fragment, username, password}`.
    ///
    /// Missing parts are nil, as is the default port of the scheme; the host is in lower case.
    ///
    /// ```harn
    /// let u = url_parse("https://Ada@Example.com:8443/a b?q=1#x")
    /// println([u.host, u.port, u.path, u.query, u.fragment, u.username, u.password]) // -> [example.com, 8443, /a%20b, q=1, x, Ada, nil]
    /// println(try { url_parse("/a") }) // -> Result.Err(url_parse: relative URL without a base)
    /// ```
    Pure fn url_parse(cx, s: Text as "string") -> "dict" {
        let url = Url::parse(&s).map_err(|reason| Error::thrown(format!("url_parse: {reason}")))?;
        let mut dict = Dict::new();
        dict.insert("scheme", url.scheme());
        dict.insert("host", url.host_str());
        dict.insert("port", url.port().map(i64::from));
        dict.insert("path", url.path());
        dict.insert("query", url.query());
        dict.insert("fragment", url.fragment());
        dict.insert("username", Some(url.username()).filter(|name| !name.is_empty()));
        dict.insert("password", url.password());
        dict
    }

    /// Builds a URL from the parts that `url_parse` returns; `scheme` is required.
    ///
    /// ```harn
    /// println(url_build({scheme: "https", host: "example.com", path: "/a", query: "q=1"})) // -> https://example.com/a?q=1
    /// ```
    Pure fn url_build(cx, parts: Value as "!{scheme?: any, host?: any, port?: any, path?: any, query?: any, fragment?: any, username?: any, password?: any}") -> "string" {
        let Some(parts) = parts.to_dict() else {
            return Err(Error::thrown("url_build: expected a dict of url parts"));
        };
        build(&parts)?
    }

    /// Parses a query string to a list of `{key, value}` in order.
    ///
    /// ```harn
    /// println(query_parse("?a=1&b=x+y&a=%C3%BC")) // -> [{key: a, value: 1}, {key: b, value: x y}, {key: a, value: ü}]
    /// ```
    Pure fn query_parse(cx, s: Text as "string") -> "list" {
        let query = s.strip_prefix('?').unwrap_or(&s);
        let pair = |(key, value): (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| {
            Value::dict([("key", &*key), ("value", &*value)].into_iter().collect())
        };
        form_urlencoded::parse(query.as_bytes()).map(pair).collect::<Vec<_>>()
    }

    /// Serializes a list of `{key, value}` as a query string.
    ///
    /// ```harn
    /// println(query_stringify([{key: "a", value: "x y"}, {key: "b", value: "1,2"}])) // -> a=x+y&b=1%2C2
    /// ```
    Pure fn query_stringify(cx, pairs: Value as "!list") -> "string" {
        let Some(pairs) = pairs.as_list() else {
            return Err(Error::thrown("query_stringify: expected a list of {key, value} dicts"));
        };
        let mut out = form_urlencoded::Serializer::new(String::new());
        for pair in pairs.iter() {
            let parts = pair.to_dict();
            let part = |name: &str| parts.as_ref().and_then(|d| d.get_str(name)).map(printed);
            let (Some(key), Some(value)) = (part("key"), part("value")) else {
                return Err(Error::thrown("query_stringify: each item must be a {key, value} dict"));
            };
            out.append_pair(&key, &value);
        }
        out.finish()
    }
}

fn build(parts: &Dict) -> Result<String> {
    let part = |name: &str| parts.get_str(name).filter(|part| !part.is_nil()).map(printed);
    let scheme = part("scheme").ok_or_else(|| Error::thrown("url_build: 'scheme' is required"))?;
    let mut text = format!("{scheme}:");
    if let Some(host) = part("host") {
        text.push_str("//");
        text.push_str(&host);
    }
    let path = part("path").unwrap_or_else(|| "/".into());
    if !path.starts_with('/') && parts.contains("host") {
        text.push('/');
    }
    text.push_str(&path.replace('?', "%3F").replace('#', "%23"));
    let failed = |reason: &dyn std::fmt::Display| Error::thrown(format!("url_build: {reason}"));
    let mut url = Url::parse(&text).map_err(|reason| failed(&reason))?;
    if let Some(port) = part("port") {
        let port = port.parse().map_err(|_| failed(&"invalid port number"))?;
        url.set_port(Some(port)).map_err(|()| failed(&"cannot set a port"))?;
    }
    if let Some(name) = part("username") {
        url.set_username(&name).map_err(|()| failed(&"cannot set a username"))?;
    }
    if let Some(password) = part("password") {
        url.set_password(Some(&password)).map_err(|()| failed(&"cannot set a password"))?;
    }
    url.set_query(part("query").as_deref());
    url.set_fragment(part("fragment").as_deref());
    Ok(url.into())
}
