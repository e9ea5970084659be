//! URLs that expire and that only the holder of a secret can create.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use harn_schema::options::Options;
use harn_value::{Dict, Str, Value, steps};
use harn_vm::builtin::OptionDict;
use harn_vm::{Error, Result, builtins};
use url::{Url, form_urlencoded};

use super::bytes::{constant_time_equal, percent_encode};
use super::digests::hmac_sha256;
use crate::args::{Needed, printed};

builtins! {
    /// Signed URLs.
    pub(crate) static SIGNED_URLS: "signed_urls";

    /// Signs a URL, or a path that starts with `/`, with claims and a time of expiry in seconds.
    ///
    /// Claims become query parameters in printed form, after the existing parameters of `base`; a fragment and user
    /// information are dropped.
    ///
    /// ```harn
    /// let link = signed_url("/files/a b", {user: "ada"}, "secret", 1700000000)
    /// println(link.starts_with("/files/a%20b?exp=1700000000&sig=")) // -> true
    /// println(verify_signed_url(link, "secret", 1699999999).claims) // -> {user: ada}
    /// ```
    Pure fn signed_url(cx, base: Needed as "string", claims: Needed as "dict", secret: Needed as "string", expires_at: Needed as "int", options: OptionDict<SignOptions>) -> "string" {
        let (Some(base), Some(claims), Some(secret), Some(expires_at)) =
            (base.text(), claims.0.and_then(|claims| claims.to_dict()), secret.text(), expires_at.0)
        else {
            return Err(refused("signed_url", "requires 4 or 5 arguments: base, claims, secret, expires_at, options?"));
        };
        if secret.is_empty() {
            return Err(refused("signed_url", EMPTY));
        }
        let SignOptions { kid, names } = options.read()?;
        names.check("signed_url")?;
        let link = Link::of(&base).ok_or_else(|| refused("signed_url", NO_LINK))?;
        signed(link, &claims, &secret, &printed(&expires_at), kid.as_deref(), &names)?
    }

    /// Verifies a URL of `signed_url`: `{valid, reason, signature_valid, expired, expires_at, kid, claims}`.
    ///
    /// `secret_or_keys` is the secret, or a dict from `kid` to secret. `reason` is `ok`, `missing_signature`,
    /// `missing_expiry`, `invalid_expiry`, `duplicate_kid`, `unknown_key`, `bad_signature` or `expired`; all reasons
    /// except `ok` and `expired` mean that the URL was not signed with the secret. Claims are strings.
    ///
    /// ```harn
    /// let link = signed_url("https://example.com/a", {user: "ada"}, "secret", 1700000000)
    /// println(verify_signed_url(link, "secret", 1700000000).reason) // -> ok
    /// println(verify_signed_url(link, "secret", 1700000001).reason) // -> expired
    /// println(verify_signed_url(link + "1", "secret", 1700000000).reason) // -> bad_signature
    /// ```
    Pure fn verify_signed_url(cx, url: Needed as "string", secret_or_keys: Needed as "string | dict", now: Needed as "int", options: OptionDict<VerifyOptions>) -> "dict" {
        let (Some(url), Some(keys), Some(now)) = (url.text(), secret_or_keys.0, now.0.and_then(|now| now.as_int())) else {
            let text = "requires 3 or 4 arguments: url, secret_or_keys, now, options?";
            return Err(refused("verify_signed_url", text));
        };
        let options = options.read()?;
        options.names.check("verify_signed_url")?;
        let keys = Keys::of(&keys)?;
        let link = Link::of(&url).ok_or_else(|| refused("verify_signed_url", NO_LINK))?;
        verdict(link, &keys, now, &options)
    }
}

/// With an empty secret, any client could sign.
const EMPTY: &str = "the secret is empty";

const NO_LINK: &str = "expected an absolute URL or an absolute path starting with `/`";

fn refused(function: &str, text: &str) -> Error {
    Error::runtime(format!("{function}: {text}"))
}

/// Options of `signed_url`.
#[derive(Options)]
struct SignOptions {
    /// Name of the secret, for `verify_signed_url`.
    kid: Option<Str>,
    #[option(flatten)]
    names: Names,
}

/// Options of `verify_signed_url`.
#[derive(Options)]
struct VerifyOptions {
    /// Tolerance after the expiry in which a URL is still valid: a duration or seconds.
    #[option(default = 0, ty = "duration | int", with = seconds)]
    skew_seconds: i64,
    #[option(flatten)]
    names: Names,
}

/// Names of the query parameters.
#[derive(Options)]
struct Names {
    /// Parameter of the signature.
    #[option(default = Str::new("sig"), shown = "sig")]
    signature_param: Str,
    /// Parameter of the time of expiry.
    #[option(default = Str::new("exp"), shown = "exp")]
    expires_param: Str,
    /// Parameter of the name of the secret.
    #[option(default = Str::new("kid"), shown = "kid")]
    kid_param: Str,
}

fn seconds(value: &Value) -> std::result::Result<i64, String> {
    let seconds = value.as_int().or_else(|| Some(value.as_duration()? / 1000));
    seconds.ok_or_else(|| "must be a duration or a number of seconds".to_owned())
}

impl Names {
    fn check(&self, function: &str) -> Result<()> {
        let Names { signature_param, expires_param, kid_param } = self;
        if signature_param == expires_param || signature_param == kid_param || expires_param == kid_param {
            return Err(refused(function, "signature_param, expires_param, and kid_param must be distinct"));
        }
        Ok(())
    }

    /// Returns whether a query parameter is reserved, so that it is not a claim.
    fn reserves(&self, name: &str) -> bool {
        [&self.signature_param, &self.expires_param, &self.kid_param]
            .iter()
            .any(|reserved| ***reserved == *name)
    }
}

/// A URL: the resource and the decoded query.
struct Link {
    resource: String,
    pairs: Vec<(String, String)>,
}

impl Link {
    /// Parses a URL with a host, or a path that starts with `/`; returns `None` for other text.
    fn of(text: &str) -> Option<Link> {
        steps::bytes(text.len());
        if text.starts_with('/') {
            let text = text.split_once('#').map_or(text, |(before, _)| before);
            let (path, query) = text.split_once('?').unwrap_or((text, ""));
            return Some(Link { resource: encoded_path(path), pairs: decoded(query) });
        }
        let url = Url::parse(text).ok()?;
        let host = url.host_str().filter(|host| !host.is_empty())?;
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let resource = format!("{}://{host}{port}{}", url.scheme(), url.path());
        Some(Link { resource, pairs: decoded(url.query().unwrap_or_default()) })
    }

    /// Returns the query in its canonical form.
    fn query(&self) -> String {
        let pair = |(name, value): &(String, String)| (percent_encode(name), percent_encode(value));
        let mut pairs: Vec<(String, String)> = self.pairs.iter().map(pair).collect();
        pairs.sort();
        pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    }

    /// Returns the signature of the resource and the query.
    fn signature(&self, secret: &str) -> String {
        let message = format!("harn-signed-url-v1\n{}\n{}", self.resource, self.query());
        URL_SAFE_NO_PAD.encode(hmac_sha256(secret.as_bytes(), message.as_bytes()))
    }

    /// Removes the parameters with this name and returns their values.
    fn take(&mut self, name: &str) -> Vec<String> {
        let taken = self.pairs.extract_if(.., |(key, _)| key == name);
        taken.map(|(_, value)| value).collect()
    }

    /// Returns the values of the parameters with this name.
    fn all(&self, name: &str) -> Vec<&str> {
        self.pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }
}

fn decoded(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// Percent-encodes all bytes of a path that are neither unreserved nor `/`; encoded bytes stay encoded, in upper case.
fn encoded_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find(['%', '/']) {
        out.push_str(&percent_encode(&rest[..at]));
        let code = rest.get(at + 1..at + 3).filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()));
        let length = match (&rest[at..=at], code) {
            ("%", Some(code)) => {
                out.push('%');
                out.push_str(&code.to_ascii_uppercase());
                3
            }
            ("%", None) => {
                out.push_str("%25");
                1
            }
            _ => {
                out.push('/');
                1
            }
        };
        rest = &rest[at + length..];
    }
    out.push_str(&percent_encode(rest));
    out
}

/// The secret, or the secrets by key id.
enum Keys {
    One(Str),
    Named(Vec<(Str, Str)>),
}

impl Keys {
    fn of(keys: &Value) -> Result<Keys> {
        let Some(dict) = keys.to_dict() else {
            let secret = printed(keys);
            return if secret.is_empty() {
                Err(refused("verify_signed_url", EMPTY))
            } else {
                Ok(Keys::One(secret))
            };
        };
        let secret = |(kid, secret): (&Str, &Value)| match secret.as_str() {
            Some(text) if text.is_empty() => {
                Err(refused("verify_signed_url", &format!("the secret of key '{kid}' is empty")))
            }
            Some(text) => Ok((kid.clone(), text.clone())),
            None => {
                let got = secret.type_name();
                let text = format!("verify_signed_url: secret_or_keys.{kid} must be string, got {got}");
                Err(Error::type_error(text))
            }
        };
        dict.iter().map(secret).collect::<Result<_>>().map(Keys::Named)
    }

    fn get(&self, kid: Option<&str>) -> Option<&Str> {
        match self {
            Keys::One(secret) => Some(secret),
            Keys::Named(keys) => keys.iter().find(|(name, _)| Some(&**name) == kid).map(|(_, secret)| secret),
        }
    }
}

/// Returns the URL with claims, expiry and signature.
fn signed(
    mut link: Link,
    claims: &Dict,
    secret: &str,
    expires_at: &str,
    kid: Option<&str>,
    names: &Names,
) -> Result<String> {
    link.pairs.retain(|(name, _)| !names.reserves(name));
    for (name, value) in claims.iter() {
        if names.reserves(name) {
            return Err(refused("signed_url", &format!("claims cannot contain reserved parameter `{name}`")));
        }
        link.pairs.push((name.to_string(), printed(value).to_string()));
    }
    link.pairs.push((names.expires_param.to_string(), expires_at.to_owned()));
    if let Some(kid) = kid {
        link.pairs.push((names.kid_param.to_string(), kid.to_string()));
    }
    link.pairs.push((names.signature_param.to_string(), link.signature(secret)));
    Ok(format!("{}?{}", link.resource, link.query()))
}

/// Returns the result of the verification of a URL.
fn verdict(mut link: Link, keys: &Keys, now: i64, options: &VerifyOptions) -> Dict {
    let names = &options.names;
    let signatures = link.take(&names.signature_param);
    let expiries = link.all(&names.expires_param);
    let expires_at = match expiries[..] {
        [expiry] => expiry.parse::<i64>().ok(),
        _ => None,
    };
    let kids = link.all(&names.kid_param);
    let kid = kids.first().copied();
    let secret = keys.get(kid);
    // A second signature would not be verified.
    let signature_valid = match (&signatures[..], secret) {
        ([signature], Some(secret)) if kids.len() < 2 && expires_at.is_some() => {
            constant_time_equal(link.signature(secret).as_bytes(), signature.as_bytes())
        }
        _ => false,
    };
    let expired = expires_at.is_some_and(|at| now > at.saturating_add(options.skew_seconds));
    let failures = [
        (signatures.is_empty(), "missing_signature"),
        (expiries.is_empty(), "missing_expiry"),
        (expires_at.is_none(), "invalid_expiry"),
        (kids.len() > 1, "duplicate_kid"),
        (secret.is_none(), "unknown_key"),
        (!signature_valid, "bad_signature"),
        (expired, "expired"),
    ];
    let reason = failures.iter().find(|(failed, _)| *failed).map_or("ok", |(_, reason)| reason);
    let mut claims = Dict::new();
    for (name, value) in link.pairs.iter().filter(|(name, _)| !names.reserves(name)) {
        claims.insert(name.as_str(), value.as_str());
    }
    let mut dict = Dict::new();
    dict.insert("valid", reason == "ok");
    dict.insert("reason", reason);
    dict.insert("signature_valid", signature_valid);
    dict.insert("expired", expired);
    dict.insert("expires_at", expires_at);
    dict.insert("kid", kid);
    dict.insert("claims", Value::dict(claims));
    dict
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn options() -> VerifyOptions {
        harn_schema::options::read(&Value::NIL).unwrap()
    }

    fn reason(link: &str, options: &VerifyOptions) -> String {
        let Some(link) = Link::of(link) else { return "no link".to_owned() };
        let found = verdict(link, &Keys::One("secret".into()), 5, options);
        printed(found.get_str("reason").unwrap()).to_string()
    }

    proptest! {
        #[test]
        fn what_was_signed_is_good_and_a_flipped_bit_is_seen(
            path in any::<String>(), claim in any::<String>(), at in 0usize..43, bit in 0u8..7,
        ) {
            let options = options();
            let claims: Dict = [("claim", claim.as_str())].into_iter().collect();
            let link = Link::of(&format!("/{path}")).unwrap();
            let link = signed(link, &claims, "secret", "5", None, &options.names).unwrap();
            prop_assert_eq!(reason(&link, &options), "ok");
            let start = link.find("&sig=").unwrap() + 5;
            let mut bytes = link.into_bytes();
            bytes[start + at] ^= 1 << bit;
            let link = String::from_utf8(bytes).unwrap();
            prop_assert_ne!(reason(&link, &options), "ok");
        }

        #[test]
        fn any_text_has_a_verdict(text in any::<String>()) {
            let options = options();
            prop_assert_ne!(reason(&text, &options), "ok");
        }
    }
}
