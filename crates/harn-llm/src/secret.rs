//! A value that must never be shown: keys and tokens.

use std::fmt;

/// Text such as an API key. `Debug` and `Display` print `***`; only [`Secret::reveal`] gives the text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// Returns the text, for the one place that puts it on the wire.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns true when there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces every occurrence of the secret in `text` by `***`.
    pub fn redact(&self, text: &str) -> String {
        // A very short "key" would turn harmless text into stars.
        if self.0.len() < 4 || !text.contains(&self.0) {
            return text.to_string();
        }
        text.replace(&self.0, "***")
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let key = Secret::new("sk-live-123456");
        assert_eq!(format!("{key:?} {key}"), "*** ***");
        assert_eq!(key.redact("bad key sk-live-123456!"), "bad key ***!");
    }
}
