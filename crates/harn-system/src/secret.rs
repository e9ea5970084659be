//! Secrets: names of headers, variables, parameters and fields that hold one, and values that must never be printed.

use std::fmt;

/// A secret such as an API key. `Debug` and `Display` print `***`; only [`Secret::reveal`] returns the value.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// Returns the value, for sending it to its receiver.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether the secret is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces every occurrence of the secret in `text` by `***`: also without a `Bearer ` prefix, in other letter
    /// case (as in host names), and a prefix of the secret at the end of `text`, which may be truncated.
    pub fn redact(&self, text: &str) -> String {
        let mut out = self.redact_whole(text);
        if let Some(cut) = self.beginning_at_end(&out) {
            out.truncate(out.len() - cut);
            out.push_str("***");
        }
        out
    }

    /// As [`Secret::redact`], but replaces only complete occurrences, for text that is not truncated.
    pub fn redact_whole(&self, text: &str) -> String {
        if self.is_short() { text.to_string() } else { self.without_whole(text) }
    }

    /// Redacts the secret in text that is split into chunks, at any boundary; if the text `is_cut`, also a prefix of
    /// the secret at its end. Returns whether something was redacted.
    pub fn redact_pieces(&self, pieces: &mut [&mut String], is_cut: bool) -> bool {
        if self.is_short() {
            return false;
        }
        let text: String = pieces.iter().map(|piece| piece.as_str()).collect();
        let (wanted, lower) = (self.bare().to_ascii_lowercase(), text.to_ascii_lowercase());
        let mut found: Vec<_> = lower.match_indices(&wanted).map(|(at, _)| at..at + wanted.len()).collect();
        let rest = &text[found.last().map_or(0, |last| last.end)..];
        let half = self.beginning_at_end(rest).filter(|_| is_cut);
        found.extend(half.map(|cut| text.len() - cut..text.len()));
        let mut start = 0;
        for piece in pieces.iter_mut().filter(|_| !found.is_empty()) {
            let end = start + piece.len();
            let (mut out, mut at) = (String::new(), start);
            let first = found.partition_point(|range| range.end <= start);
            for range in found[first..].iter().take_while(|range| range.start < end) {
                // The first chunk of an occurrence contains the `***`; its remainder is removed from the other chunks.
                if range.start >= start {
                    out.push_str(&text[at..range.start]);
                    out.push_str("***");
                }
                at = range.end.min(end);
            }
            out.push_str(&text[at..end]);
            **piece = out;
            start = end;
        }
        !found.is_empty()
    }

    /// Redacting a very short key would change harmless text.
    fn is_short(&self) -> bool {
        self.bare().len() < MIN_SECRET
    }

    /// Returns the length of the secret's prefix at the end of `text`.
    fn beginning_at_end(&self, text: &str) -> Option<usize> {
        let bare = self.bare();
        (MIN_SECRET..bare.len()).rev().find(|n| bare.is_char_boundary(*n) && text.ends_with(&bare[..*n]))
    }

    fn bare(&self) -> &str {
        self.0.strip_prefix("Bearer ").unwrap_or(&self.0)
    }

    /// Replaces every complete occurrence, ignoring case.
    fn without_whole(&self, text: &str) -> String {
        let bare = self.bare();
        let (wanted, lower) = (bare.to_ascii_lowercase(), text.to_ascii_lowercase());
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        // ASCII letters have the same length in either case, so positions are valid in both strings.
        while let Some(found) = lower[at..].find(&wanted) {
            out.push_str(&text[at..at + found]);
            out.push_str("***");
            at += found + wanted.len();
        }
        out.push_str(&text[at..]);
        out
    }

    /// Returns the length of the key in bytes, without `Bearer `.
    pub fn key_len(&self) -> usize {
        self.bare().len()
    }
}

/// Shorter strings are not redacted, because they would occur everywhere.
const MIN_SECRET: usize = 4;

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Parts of names of credentials: headers, URL parameters, fields.
const WORDS: [&str; 10] =
    ["key", "token", "secret", "password", "passwd", "credential", "auth", "session", "signature", "cookie"];

/// Returns whether a header holds a secret, by its name: it is not sent after a redirect to another origin, and is
/// redacted where requests and configurations are printed.
pub fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

/// Returns whether an environment variable holds a secret, by its name.
pub fn is_secret_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // The URL of the store may contain a password.
    matches!(&*name, "HARN_STORE_URL" | "PGPASSWORD")
        || ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"]
            .iter()
            .any(|part| name.split('_').any(|word| word.strip_suffix('S').unwrap_or(word) == *part))
}

/// Returns whether a URL parameter holds a secret, by its name.
pub fn is_secret_parameter(name: &str) -> bool {
    let name = name.to_lowercase();
    matches!(&*name, "sig" | "code" | "key" | "apikey")
        || name.split(['_', '-', '.']).any(|word| WORDS.contains(&word) || word == "apikey")
}

/// Parts of names of fields that hold secrets. Fields named `key` or `session` are excluded because they often hold
/// none.
pub const FIELD_WORDS: [&str; 9] =
    ["token", "secret", "password", "passwd", "api_key", "apikey", "api-key", "authorization", "credential"];

/// Redacts the secrets of a URL: the user information, and the values of query parameters with secret names. Text that
/// is not a URL is redacted completely if it may contain a password.
pub fn redact_url(url: &str) -> String {
    let Some(mut parsed) = url::Url::parse(url).ok().filter(url::Url::has_host) else {
        return if url.contains('@') { "***".to_string() } else { url.to_string() };
    };
    let bare = parsed.username().is_empty() && parsed.password().is_none();
    if bare && !parsed.query_pairs().any(|(name, _)| is_secret_parameter(&name)) {
        return url.to_string();
    }
    if !bare && parsed.set_username("***").is_ok() {
        // A URL that accepts a user name also accepts a password.
        let _ = parsed.set_password(None);
    }
    let query = parsed.query().map(|query| {
        let shown = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) if is_secret_parameter(name) => format!("{name}=***"),
            _ => pair.to_string(),
        });
        shown.collect::<Vec<_>>().join("&")
    });
    parsed.set_query(query.as_deref());
    parsed.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_hold_secrets() {
        for name in [
            "Authorization",
            "x-api-key",
            "Api-Key",
            "X-Auth-Token",
            "x-goog-api-key",
            "Cookie",
            "Set-Cookie",
            "X-Amz-Security-Token",
            "X-Session",
            "X-Credential",
            "X-Signature",
            "Proxy-Authorization",
            "X-Passwd",
        ] {
            assert!(is_secret_header(name), "{name}");
        }
        for name in ["accept", "content-type", "user-agent", "x-request-id", "anthropic-version"] {
            assert!(!is_secret_header(name), "{name}");
        }
        for name in ["Key", "api_key", "access_token", "X-Amz-Signature", "sig", "client_secret", "password"]
        {
            assert!(is_secret_parameter(name), "{name}");
        }
        for name in ["page", "keyword", "api-version", "monkey", "q"] {
            assert!(!is_secret_parameter(name), "{name}");
        }
    }

    #[test]
    fn a_secret_is_never_shown() {
        let key = Secret::new("sk-live-123456");
        assert_eq!(format!("{key:?} {key}"), "*** ***");
        assert_eq!(key.redact("bad key sk-live-123456!"), "bad key ***!");
        assert_eq!(key.redact("to http://SK-live-123456.host"), "to http://***.host");
        assert_eq!(key.redact("é cut: sk-live-12345"), "é cut: ***");
        assert_eq!(key.redact("sk-live-123456sk-live-123456 sk-"), "****** sk-");
    }

    #[test]
    fn addresses_are_shown_without_their_secrets() {
        for (url, shown) in [
            ("https://h/v1?api-version=2", "https://h/v1?api-version=2"),
            ("https://me:pw@h/v1", "https://***@h/v1"),
            ("https://h/v1?a=b&Key=s3&x", "https://h/v1?a=b&Key=***&x"),
            ("me:pw@h", "***"),
        ] {
            assert_eq!(redact_url(url), shown, "{url}");
        }
    }
}
