//! Cookies (RFC 6265), plain and signed, and sessions stored in them.

mod attributes;
mod date;
mod headers;
mod sessions;
mod wrong;

use harn_value::{Dict, Value};
use harn_vm::builtins;

use self::attributes::Attributes;
use self::headers::Cookies;
pub(super) use self::sessions::SESSIONS;
use self::wrong::missing;
use crate::args::Needed;
use crate::state::now_ms;

builtins! {
    /// Cookies.
    pub(crate) static COOKIES: "cookies";

    /// Parses the cookies of a request: `{cookies, pairs, duplicates, invalid}`.
    ///
    /// `headers` is the value of a `Cookie` header, a list of such values, or a dict of headers. `cookies` contains the
    /// first value of each name, `pairs` all `{name, value}` in order, `duplicates` the further values of repeated
    /// names, and `invalid` the malformed parts as `{segment, reason}`. Quotes around a value are dropped.
    ///
    /// ```harn
    /// println(cookie_parse("a=1; b=\"2\"").cookies) // -> {a: 1, b: 2}
    /// println(cookie_parse({Cookie: "a=1; a=2; x"}).duplicates) // -> {a: [1, 2]}
    /// ```
    Pure fn cookie_parse(cx, headers: Value as "string | list | dict?") -> "dict" {
        Cookies::read(&headers::texts("cookie_parse", "headers", "cookie", &headers)?).into_dict()
    }

    /// Builds the value of a `Set-Cookie` header.
    ///
    /// `max_age` is a duration or a number of seconds. `expires` is an HTTP date or a timestamp in seconds. `same_site`
    /// is `Lax`, `Strict` or `None`; `None` requires `secure`.
    ///
    /// ```harn
    /// println(cookie_serialize("a", "1", {path: "/", max_age: 1h, http_only: true})) // -> a=1; Path=/; Max-Age=3600; HttpOnly
    /// ```
    Pure fn cookie_serialize(cx, name: Needed as "string", value: Needed as "text", options: Value as "cookie_options?") -> "string" {
        let (Some(name), Some(value)) = (name.text(), value.text()) else {
            return Err(missing("cookie_serialize", 2));
        };
        Attributes::default().with(&options)?.set_cookie(&name, &value)?
    }

    /// Builds the value of a `Set-Cookie` header that deletes a cookie.
    ///
    /// It must use the same `path` and `domain` as the cookie; the default path is `/`.
    ///
    /// ```harn
    /// println(cookie_delete("a")) // -> a=; Path=/; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT; HttpOnly; Secure; SameSite=Lax
    /// ```
    Pure fn cookie_delete(cx, name: Needed as "string", options: Value as "cookie_options?") -> "string" {
        let Some(name) = name.text() else {
            return Err(missing("cookie_delete", 1));
        };
        Attributes::careful().with(&options)?.over().set_cookie(&name, "")?
    }

    /// Simulates a browser: returns the cookies that it sends after a response: `{cookie_header, cookies}`.
    ///
    /// `request` contains the earlier cookies, as for `cookie_parse`. `set_cookie` is the `Set-Cookie` header of the
    /// response: a string, a list of strings, or a dict of headers; nil if the response sets no cookie. A cookie with a
    /// `Max-Age` of 0 or less, or a past `Expires`, is deleted. Domains and paths are ignored.
    ///
    /// ```harn
    /// println(cookie_round_trip("a=1; b=2", ["a=3; Path=/", cookie_delete("b")]).cookie_header) // -> a=3
    /// ```
    Clock fn cookie_round_trip(cx, request: Needed as "string | list | dict | nil", set_cookie: Needed as "string | list | dict | nil") -> "dict" {
        let (Some(request), Some(set_cookie)) = (request.0, set_cookie.0) else {
            return Err(missing("cookie_round_trip", 2));
        };
        let mut cookies = Cookies::read(&headers::texts("cookie_round_trip", "request", "cookie", &request)?).firsts();
        for text in headers::texts("cookie_round_trip", "set_cookie", "set-cookie", &set_cookie)? {
            headers::apply(&text, now_ms(cx), &mut cookies);
        }
        let header: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies: Dict = cookies.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut dict = Dict::new();
        dict.insert("cookie_header", header.join("; "));
        dict.insert("cookies", Value::dict(cookies));
        dict
    }
}
