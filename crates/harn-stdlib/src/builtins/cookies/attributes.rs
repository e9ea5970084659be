//! The attributes of a cookie in a `Set-Cookie` header.

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use harn_value::{Str, Value};
use harn_vm::Result;

use super::date;
use super::headers::checked;
use super::wrong::refused;
use crate::args::printed;

/// The last second that has an HTTP date.
const LAST_SECOND: f64 = 253_402_300_799.0;

/// The attributes in the order in which they are written.
#[derive(Default)]
pub(super) struct Attributes {
    path: Option<Str>,
    domain: Option<Str>,
    max_age: Option<i64>,
    expires: Option<Str>,
    http_only: bool,
    secure: bool,
    same_site: Option<&'static str>,
}

impl Attributes {
    /// Returns secure defaults: sent to all paths of the site and only there, and hidden from scripts.
    pub(super) fn careful() -> Attributes {
        Attributes {
            path: Some("/".into()),
            http_only: true,
            secure: true,
            same_site: Some("Lax"),
            ..Attributes::default()
        }
    }

    /// Returns the attributes with the given options.
    pub(super) fn with(mut self, options: &Value) -> Result<Attributes> {
        let options = options.to_dict();
        let option = |name: &str| options.as_ref()?.get_str(name).filter(|value| !value.is_nil());
        if let Some(path) = option("path") {
            self.path = Some(attribute("Path", printed(path))?);
        }
        if let Some(domain) = option("domain") {
            self.domain = Some(attribute("Domain", printed(domain))?);
        }
        if let Some(age) = option("max_age") {
            // Durations are in milliseconds.
            self.max_age = age.as_duration().map(|ms| ms / 1000).or_else(|| age.as_int());
        }
        if let Some(expires) = option("expires") {
            self.expires = Some(expiry(expires)?);
        }
        let flag = |name: &str, default: bool| option(name).map_or(default, Value::truthy);
        self.http_only = flag("http_only", self.http_only);
        self.secure = flag("secure", self.secure);
        if let Some(site) = option("same_site") {
            self.same_site = Some(same_site(&printed(site))?);
        }
        if self.same_site == Some("None") && !self.secure {
            return Err(refused("SameSite=None requires Secure"));
        }
        Ok(self)
    }

    /// Returns the attributes that delete the cookie, overriding the options for its lifetime.
    pub(super) fn over(self) -> Attributes {
        Attributes { max_age: Some(0), expires: Some("Thu, 01 Jan 1970 00:00:00 GMT".into()), ..self }
    }

    /// Returns the value of the header.
    pub(super) fn set_cookie(&self, name: &str, value: &str) -> Result<String> {
        checked(name, value)?;
        let mut out = format!("{name}={value}");
        let max_age = self.max_age.map(|age| age.to_string());
        let valued = [
            ("Path", self.path.as_deref()),
            ("Domain", self.domain.as_deref()),
            ("Max-Age", max_age.as_deref()),
            ("Expires", self.expires.as_deref()),
        ];
        for (attribute, value) in valued {
            if let Some(value) = value {
                let _ = write!(out, "; {attribute}={value}");
            }
        }
        out.push_str(if self.http_only { "; HttpOnly" } else { "" });
        out.push_str(if self.secure { "; Secure" } else { "" });
        if let Some(site) = self.same_site {
            let _ = write!(out, "; SameSite={site}");
        }
        Ok(out)
    }
}

/// Checks that `text` terminates neither the attribute nor the header.
fn attribute(name: &str, text: Str) -> Result<Str> {
    if text.bytes().all(|b| matches!(b, b' '..=b'~') && b != b';') { Ok(text) } else { Err(invalid(name)) }
}

fn invalid(name: &str) -> harn_vm::Error {
    refused(&format!("{name} contains an invalid cookie attribute value"))
}

/// Returns the value of `Expires` for a date string or a number of seconds.
fn expiry(value: &Value) -> Result<Str> {
    match value.as_number() {
        Some(seconds) if (0.0..=LAST_SECOND).contains(&seconds) => {
            let at = UNIX_EPOCH + Duration::from_secs(seconds as u64);
            Ok(Str::new(&httpdate::fmt_http_date(at)))
        }
        Some(_) => Err(invalid("Expires")),
        None => {
            let text = attribute("Expires", printed(value))?;
            if date::millis(&text).is_some() { Ok(text) } else { Err(invalid("Expires")) }
        }
    }
}

fn same_site(text: &str) -> Result<&'static str> {
    let known = ["Lax", "Strict", "None"].into_iter().find(|known| known.eq_ignore_ascii_case(text));
    known.ok_or_else(|| refused("same_site must be one of Lax, Strict, or None"))
}
