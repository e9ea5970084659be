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

    /// Reads the cookies of a request: `{cookies, pairs, duplicates, invalid}`.
    ///
    /// `headers` is the text of a `Cookie` header, a list of such texts, or a dict of headers. `cookies` has the first value of each
    /// name, `pairs` all `{name, value}` in order, `duplicates` the values of names that come again, `invalid` what is no cookie as
    /// `{segment, reason}`. Quotes around a value are dropped.
    ///
    /// ```harn
    /// println(cookie_parse("a=1; b=\"2\"").cookies) // -> {a: 1, b: 2}
    /// println(cookie_parse({Cookie: "a=1; a=2; x"}).duplicates) // -> {a: [1, 2]}
    /// ```
    Pure fn cookie_parse(cx, headers: Value as "string | list | dict?") -> "dict" {
        Cookies::read(&headers::texts("cookie_parse", "headers", "cookie", &headers)?).into_dict()
    }

    /// Writes the value of a `Set-Cookie` header.
    ///
    /// `max_age` is a duration or a number of seconds, `expires` a date as HTTP has it or a time stamp in seconds, `same_site`
    /// `Lax`, `Strict` or `None`, which needs `secure`.
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

    /// Writes the value of a `Set-Cookie` header that makes a browser forget a cookie.
    ///
    /// It must name the `path` and `domain` that the cookie was set with; the path is `/` by default.
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

    /// Says which cookies a browser sends after an answer: `{cookie_header, cookies}`.
    ///
    /// `request` has the cookies of before as for `cookie_parse`, `set_cookie` the `Set-Cookie` header of the answer: a text, a list of
    /// texts, or a dict of headers; nil stands for none. A cookie with `Max-Age` of 0 or less, or a past
    /// `Expires`, is forgotten. Domains and paths are not looked at.
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
