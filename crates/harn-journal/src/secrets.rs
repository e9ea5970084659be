//! Keys, which never enter a journal. Variables that are named like keys are read again from the environment when a run
//! goes on; where their values turn up in an answer, their name is written instead.

use std::borrow::Cow;

use memchr::memmem;

/// Shorter values are too common to be looked for.
const SHORTEST: usize = 8;

/// What a replay without the environment takes for a key.
pub(crate) const UNKNOWN: &str = "(a key that the journal does not hold)";

/// What stands in the place of any key where arguments are compared: a run can be followed with a key that was renewed, and
/// without any.
const SOME_KEY: &[u8] = b"\x01harn:key\x01";

/// Names and values that were read; [`UNKNOWN`] is the value of a key that is not there.
#[derive(Default)]
pub(crate) struct Secrets(Vec<(String, String)>);

/// What stands before the name of a key, and behind it.
const MARK: (&str, char) = ("\u{1}harn:secret:", '\u{1}');

fn mark(name: &str) -> String {
    format!("{}{name}{}", MARK.0, MARK.1)
}

/// The text before the first name that stands in the place of a key, the name, and the text behind it.
pub(crate) fn marked(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once(MARK.0)?;
    let (name, after) = rest.split_once(MARK.1)?;
    Some((before, name, after))
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let finder = memmem::Finder::new(from);
    let mut places = finder.find_iter(bytes).peekable();
    places.peek()?;
    let (mut out, mut done) = (Vec::with_capacity(bytes.len()), 0);
    for at in places {
        out.extend_from_slice(&bytes[done..at]);
        out.extend_from_slice(to);
        done = at + from.len();
    }
    out.extend_from_slice(&bytes[done..]);
    Some(out)
}

impl Secrets {
    /// Notes a key that was read.
    pub(crate) fn know(&mut self, name: &str, value: &str) {
        let known = self.0.iter().any(|(own, _)| own == name);
        if !known && value.len() >= SHORTEST {
            self.0.push((name.to_owned(), value.to_owned()));
        }
    }

    /// The bytes for a comparison: with the same in the place of every key.
    pub(crate) fn without<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        self.0.iter().fold(Cow::Borrowed(bytes), |bytes, (_, value)| {
            replaced(&bytes, value.as_bytes(), SOME_KEY).map_or(bytes, Cow::Owned)
        })
    }

    /// The bytes with names in the place of keys.
    pub(crate) fn hide(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.0.iter().fold(bytes, |bytes, (name, value)| {
            replaced(&bytes, value.as_bytes(), mark(name).as_bytes()).unwrap_or(bytes)
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text for people, with `$NAME` in the place of keys. It cannot be turned back.
    pub(crate) fn named(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| text.replace(value, &format!("${name}")))
    }

    /// The bytes with keys in the place of names.
    pub(crate) fn show(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.0.iter().fold(bytes, |bytes, (name, value)| {
            replaced(&bytes, mark(name).as_bytes(), value.as_bytes()).unwrap_or(bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_system::is_secret_variable;

    #[test]
    fn keys_are_hidden_and_shown() {
        let mut secrets = Secrets::default();
        secrets.know("API_KEY", "sk-0123456789");
        secrets.know("SHORT_KEY", "abc");
        let hidden = secrets.hide(b"a sk-0123456789 b abc sk-0123456789".to_vec());
        let text = String::from_utf8_lossy(&hidden).into_owned();
        assert!(!text.contains("0123456789") && text.contains("abc"), "{text}");
        assert_eq!(secrets.show(hidden), b"a sk-0123456789 b abc sk-0123456789");
        let mut others = Secrets::default();
        others.know("API_KEY", "sk-renewed-now");
        assert_eq!(secrets.without(b"a sk-0123456789 b"), others.without(b"a sk-renewed-now b"));
        let mut none = Secrets::default();
        none.know("API_KEY", UNKNOWN);
        assert_eq!(secrets.without(b"sk-0123456789"), none.without(UNKNOWN.as_bytes()));
        assert_eq!(secrets.named("/sk-0123456789/abc"), "/$API_KEY/abc");
    }

    #[test]
    fn names_of_keys() {
        for name in [
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASSWORD",
            "PGPASSWORD",
            "HARN_STORE_URL",
        ] {
            assert!(is_secret_variable(name), "{name}");
        }
        for name in ["HOME", "KEYBOARD", "HARN_LLM_PROVIDER", "MONKEY_NAME"] {
            assert!(!is_secret_variable(name), "{name}");
        }
    }
}
