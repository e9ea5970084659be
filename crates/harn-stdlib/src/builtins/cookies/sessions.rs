//! Values that are stored in the browser and protected against changes: signed cookies and sessions.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use harn_value::{Dict, Str, Value, json};
use harn_vm::builtins;

use super::attributes::Attributes;
use super::headers::{self, Cookies};
use super::wrong::{missing, refused};
use crate::args::Needed;
use crate::builtins::bytes::constant_time_equal;
use crate::builtins::digests::hmac_sha256;
use crate::plain::check_data;

builtins! {
    /// Signed cookies and sessions.
    pub(crate) static SESSIONS: "cookies";

    /// Appends a signature to the value of a cookie: `value.signature`.
    ///
    /// The value is not encrypted: anyone can read it, but changing it requires the secret.
    ///
    /// ```harn
    /// println(cookie_verify(cookie_sign("ada", "secret"), "secret")) // -> {error: nil, ok: true, value: ada}
    /// ```
    Pure fn cookie_sign(cx, value: Needed as "text", secret: Needed as "string") -> "string" {
        let (Some(value), Some(secret)) = (value.text(), secret.text()) else {
            return Err(missing("cookie_sign", 2));
        };
        let secret = secret_of("cookie_sign", secret)?;
        if value.chars().any(|c| c.is_control() || c == ';' || c == ',') {
            return Err(refused("cookie_sign value must not contain separators or control characters"));
        }
        format!("{value}.{}", signature(&value, &secret))
    }

    /// Verifies a value of `cookie_sign`: `{ok, value, error}`.
    ///
    /// `error` is `malformed`, `invalid_signature` or nil. The value is only returned if the signature is
    /// valid.
    ///
    /// ```harn
    /// println(cookie_verify("eve.AAAA", "secret")) // -> {error: invalid_signature, ok: false, value: nil}
    /// ```
    Pure fn cookie_verify(cx, signed: Needed as "string", secret: Needed as "string") -> "dict" {
        let (Some(signed), Some(secret)) = (signed.text(), secret.text()) else {
            return Err(missing("cookie_verify", 2));
        };
        let secret = secret_of("cookie_verify", secret)?;
        verdict("value", match signed.rsplit_once('.') {
            None => Err("malformed"),
            Some((value, given)) if is_signed(value, given, &secret) => Ok(Value::str(value)),
            Some(_) => Err("invalid_signature"),
        })
    }

    /// Serializes data as a signed token for a cookie.
    ///
    /// The data is not encrypted: anyone can read it, but changing it requires the secret.
    ///
    /// ```harn
    /// let token = session_sign({user: "ada"}, "secret")
    /// println(token.split(".")[0]) // -> v1
    /// println(session_verify(token, "secret").payload) // -> {user: ada}
    /// ```
    Pure fn session_sign(cx, payload: Needed, secret: Needed as "string") -> "string" {
        let (Some(payload), Some(secret)) = (payload.0, secret.text()) else {
            return Err(missing("session_sign", 2));
        };
        let secret = secret_of("session_sign", secret)?;
        token(&payload, &secret)?
    }

    /// Verifies a token of `session_sign`: `{ok, payload, error}`.
    ///
    /// `error` is `malformed`, `invalid_signature`, `malformed_payload` or nil. The payload is only parsed after the
    /// signature is verified.
    ///
    /// ```harn
    /// println(session_verify("v1.e30.AAAA", "secret").error) // -> invalid_signature
    /// ```
    Pure fn session_verify(cx, token: Needed as "string", secret: Needed as "string") -> "dict" {
        let (Some(token), Some(secret)) = (token.text(), secret.text()) else {
            return Err(missing("session_verify", 2));
        };
        let secret = secret_of("session_verify", secret)?;
        verdict("payload", payload(&token, &secret))
    }

    /// Builds the `Set-Cookie` header of a session; options as for `cookie_serialize`.
    ///
    /// By default, the cookie has `Path=/`, `HttpOnly`, `Secure` and `SameSite=Lax`.
    ///
    /// ```harn
    /// println(session_cookie("sid", {user: "ada"}, "secret").ends_with("; Path=/; HttpOnly; Secure; SameSite=Lax")) // -> true
    /// ```
    Pure fn session_cookie(cx, name: Needed as "string", payload: Needed, secret: Needed as "string", options: Value as "cookie_options?") -> "string" {
        let (Some(name), Some(payload), Some(secret)) = (name.text(), payload.0, secret.text()) else {
            return Err(missing("session_cookie", 3));
        };
        let secret = secret_of("session_cookie", secret)?;
        Attributes::careful().with(&options)?.set_cookie(&name, &token(&payload, &secret)?)?
    }

    /// Finds and verifies the session in the cookies of a request: `{ok, payload, error}`.
    ///
    /// `headers` is as for `cookie_parse`; `error` is as for `session_verify`, or `missing_cookie`.
    ///
    /// ```harn
    /// let header = "sid=" + session_sign({user: "ada"}, "secret")
    /// println(session_from_cookies({cookie: header}, "sid", "secret").payload) // -> {user: ada}
    /// println(session_from_cookies(nil, "sid", "secret").error) // -> missing_cookie
    /// ```
    Pure fn session_from_cookies(cx, headers: Needed as "string | list | dict | nil", name: Needed as "string", secret: Needed as "string") -> "dict" {
        let (Some(given), Some(name), Some(secret)) = (headers.0, name.text(), secret.text()) else {
            return Err(missing("session_from_cookies", 3));
        };
        let secret = secret_of("session_from_cookies", secret)?;
        let cookies = Cookies::read(&headers::texts("session_from_cookies", "headers", "cookie", &given)?).firsts();
        let found = cookies.iter().find(|(known, _)| *known == *name);
        verdict("payload", found.ok_or("missing_cookie").and_then(|(_, token)| payload(token, &secret)))
    }
}

/// Checks the secret of a builtin.
///
/// # Errors
/// The secret is empty, so that any client could sign.
fn secret_of(function: &str, secret: Str) -> harn_vm::Result<Str> {
    if secret.is_empty() { Err(refused(&format!("{function}: the secret is empty"))) } else { Ok(secret) }
}

fn signature(text: &str, secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(hmac_sha256(secret.as_bytes(), text.as_bytes()))
}

/// Signatures are compared as text because their encoding is unique.
fn is_signed(text: &str, given: &str, secret: &str) -> bool {
    constant_time_equal(signature(text, secret).as_bytes(), given.as_bytes())
}

fn token(payload: &Value, secret: &str) -> harn_vm::Result<String> {
    check_data("cookie: payload", payload)?;
    let payload = URL_SAFE_NO_PAD.encode(json::stringify(payload));
    Ok(format!("v1.{payload}.{}", signature(&payload, secret)))
}

fn payload(token: &str, secret: &str) -> Result<Value, &'static str> {
    let mut parts = token.split('.');
    let (Some("v1"), Some(payload), Some(given), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err("malformed");
    };
    if !is_signed(payload, given, secret) {
        return Err("invalid_signature");
    }
    let text = URL_SAFE_NO_PAD.decode(payload).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.and_then(|text| json::parse(&text).ok()).ok_or("malformed_payload")
}

/// Returns `{ok, error}` and the result under the name `key`.
fn verdict(key: &str, found: Result<Value, &'static str>) -> Dict {
    let mut dict = Dict::new();
    dict.insert("ok", found.is_ok());
    dict.insert("error", found.as_ref().err().copied());
    dict.insert(key, found.unwrap_or_default());
    dict
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_signed_is_good_and_a_flipped_bit_is_seen(text in any::<String>(), at in any::<usize>(), bit in 0u8..7) {
            let value = Value::str(&text);
            let token = token(&value, "secret").unwrap();
            prop_assert_eq!(payload(&token, "secret").unwrap().to_string(), text);
            prop_assert!(payload(&token, "another").is_err());
            let mut bytes = token.into_bytes();
            let place = at % bytes.len();
            bytes[place] ^= 1 << bit;
            prop_assert!(payload(&String::from_utf8(bytes).unwrap(), "secret").is_err());
        }

        #[test]
        fn any_text_can_be_read(text in any::<String>()) {
            let _ = payload(&text, "secret");
            let _ = super::super::date::millis(&text);
            let cookies = Cookies::read(&[text.as_str().into()]);
            let mut firsts = cookies.firsts();
            headers::apply(&text, 0, &mut firsts);
        }
    }
}
