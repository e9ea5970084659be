//! Keys, which never enter a journal. Variables with names of keys are read from the environment again when a run is
//! resumed; in answers their values are replaced by their names.
//!
//! The variables that are set when a run starts are known before its first entry, even if the program does not read
//! them.

use std::borrow::Cow;

use memchr::memmem;

/// Shorter values are too common to search for.
const SHORTEST: usize = 8;

/// Value of a key in a replay without the environment.
pub(crate) const UNKNOWN: &str = "(a key that the journal does not hold)";

/// Replaces any key when arguments are compared: a run can be followed with a renewed key, and without keys.
const SOME_KEY: &[u8] = b"\x01harn:key\x01";

struct Secret {
    name: String,
    value: String,
    finder: memmem::Finder<'static>,
    /// The encoded forms that differ from the value.
    encoded: Vec<(&'static str, memmem::Finder<'static>)>,
}

/// Encodings in which a value is recognized, too. Their names follow the name of the key in a mark.
const FORMS: [&str; 2] = ["json", "url"];

/// Returns a value in one of the encodings.
fn encoded(form: &str, value: &str) -> String {
    if form == "json" {
        let text = serde_json::Value::from(value).to_string();
        return text[1..text.len() - 1].to_owned();
    }
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Splits the content of a mark into the name of a key and the encoding of its value.
fn name_and_form(name: &str) -> (&str, Option<&str>) {
    name.split_once('#').map_or((name, None), |(name, form)| (name, Some(form)))
}

/// The known keys; a missing key has the value [`UNKNOWN`].
#[derive(Default)]
pub(crate) struct Secrets(Vec<Secret>);

/// Delimiters of the name of a key. With an empty name they stand for the first delimiter itself, which untrusted
/// content may contain.
const MARK: (&str, char) = ("\u{1}harn:secret:", '\u{1}');

fn mark(name: &str) -> String {
    format!("{}{name}{}", MARK.0, MARK.1)
}

fn replaced(bytes: &[u8], from: &memmem::Finder<'_>, to: &[u8]) -> Option<Vec<u8>> {
    let mut places = from.find_iter(bytes).peekable();
    places.peek()?;
    let (mut out, mut done) = (Vec::with_capacity(bytes.len()), 0);
    for at in places {
        out.extend_from_slice(&bytes[done..at]);
        out.extend_from_slice(to);
        done = at + from.needle().len();
    }
    out.extend_from_slice(&bytes[done..]);
    Some(out)
}

/// Fast check for a mark: most bytes have none.
fn may_have_mark(bytes: &[u8]) -> bool {
    memchr::memchr(MARK.0.as_bytes()[0], bytes).is_some()
}

/// Splits bytes at marked keys. The name is empty where the mark itself was escaped.
fn parts(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8], Option<&str>)> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let mark = memmem::find(bytes, MARK.0.as_bytes()).and_then(|at| {
            let (before, rest) = (&bytes[..at], &bytes[at + MARK.0.len()..]);
            let end = memchr::memchr(MARK.1 as u8, rest)?;
            Some((before, std::str::from_utf8(&rest[..end]).ok()?, &rest[end + 1..]))
        });
        let Some((before, name, after)) = mark else { return Some((std::mem::take(&mut bytes), None)) };
        bytes = after;
        Some((before, Some(name)))
    })
}

impl Secrets {
    /// Adds a key.
    pub(crate) fn know(&mut self, name: &str, value: &str) {
        if !self.knows(name) && value.len() >= SHORTEST {
            let finder = |text: &str| memmem::Finder::new(text).into_owned();
            let forms = FORMS.map(|form| (form, encoded(form, value)));
            let differ = forms.iter().filter(|(_, text)| text != value);
            let encoded = differ.map(|(form, text)| (*form, finder(text))).collect();
            self.0.push(Secret {
                name: name.to_owned(),
                value: value.to_owned(),
                finder: finder(value),
                encoded,
            });
        }
    }

    fn knows(&self, name: &str) -> bool {
        self.0.iter().any(|own| own.name == name)
    }

    /// Replaces each key by the same bytes, for a comparison.
    pub(crate) fn without<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        self.0.iter().fold(Cow::Borrowed(bytes), |bytes, secret| {
            replaced(&bytes, &secret.finder, SOME_KEY).map_or(bytes, Cow::Owned)
        })
    }

    /// Replaces keys by their marked names.
    pub(crate) fn hide(&self, bytes: Vec<u8>) -> Vec<u8> {
        let raw = may_have_mark(&bytes).then(|| memmem::Finder::new(MARK.0));
        let marked = raw.and_then(|raw| replaced(&bytes, &raw, mark("").as_bytes()));
        let bytes = marked.unwrap_or(bytes);
        self.0.iter().fold(bytes, |bytes, Secret { name, finder, encoded, .. }| {
            let hidden = replaced(&bytes, finder, mark(name).as_bytes()).unwrap_or(bytes);
            encoded.iter().fold(hidden, |bytes, (form, finder)| {
                replaced(&bytes, finder, mark(&format!("{name}#{form}")).as_bytes()).unwrap_or(bytes)
            })
        })
    }

    /// Returns how many bytes at the end may be the beginning of a key.
    pub(crate) fn open_end(&self, bytes: &[u8]) -> usize {
        let needles = self.0.iter().flat_map(|secret| {
            std::iter::once(&secret.finder).chain(secret.encoded.iter().map(|(_, finder)| finder))
        });
        let end = |needle: &[u8]| {
            let longest = needle.len().saturating_sub(1).min(bytes.len());
            (1..=longest).rev().find(|length| bytes.ends_with(&needle[..*length]))
        };
        needles.filter_map(|finder| end(finder.needle())).max().unwrap_or(0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces keys by `$NAME` in a message for humans. This cannot be reversed.
    pub(crate) fn named(&self, text: &str) -> String {
        if self.is_empty() {
            return text.to_owned();
        }
        let hidden = self.hide(text.as_bytes().to_vec());
        let mut out = String::with_capacity(text.len());
        for (before, name) in parts(&hidden) {
            out.push_str(&String::from_utf8_lossy(before));
            match name.map(name_and_form) {
                None => {}
                Some(("", _)) => out.push_str(MARK.0),
                Some((name, _)) => out.extend(["$", name]),
            }
        }
        out
    }

    /// Returns the names in hidden bytes whose keys are unknown.
    pub(crate) fn unknown_in(&self, bytes: &[u8]) -> Vec<String> {
        if !may_have_mark(bytes) {
            return Vec::new();
        }
        let names = parts(bytes).filter_map(|(_, name)| Some(name_and_form(name?).0));
        names.filter(|name| !name.is_empty() && !self.knows(name)).map(str::to_owned).collect()
    }

    /// Replaces marked names by keys.
    pub(crate) fn show(&self, bytes: Vec<u8>) -> Vec<u8> {
        if !may_have_mark(&bytes) {
            return bytes;
        }
        let mut out = Vec::with_capacity(bytes.len());
        for (before, name) in parts(&bytes) {
            out.extend_from_slice(before);
            match name {
                None => {}
                Some("") => out.extend_from_slice(MARK.0.as_bytes()),
                Some(name) => match self.value(name) {
                    Some(value) => out.extend_from_slice(value.as_bytes()),
                    None => out.extend_from_slice(mark(name).as_bytes()),
                },
            }
        }
        out
    }

    /// Returns the value of the key in a mark, in its encoding.
    fn value(&self, marked: &str) -> Option<Cow<'_, str>> {
        let (name, form) = name_and_form(marked);
        let secret = self.0.iter().find(|own| own.name == name)?;
        Some(form.map_or(Cow::Borrowed(&*secret.value), |form| encoded(form, &secret.value).into()))
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
    fn encoded_keys_are_hidden_and_shown() {
        let mut secrets = Secrets::default();
        secrets.know("PRIVATE_KEY", "-----BEGIN\n\"a/b+c\"\n");
        let text =
            "x -----BEGIN\\n\\\"a/b+c\\\"\\n y -----BEGIN%0A%22a%2Fb%2Bc%22%0A z -----BEGIN\n\"a/b+c\"\n";
        let hidden = secrets.hide(text.as_bytes().to_vec());
        assert!(!String::from_utf8_lossy(&hidden).contains("BEGIN"), "{hidden:?}");
        assert_eq!(secrets.show(hidden.clone()), text.as_bytes());
        assert_eq!(secrets.named(text), "x $PRIVATE_KEY y $PRIVATE_KEY z $PRIVATE_KEY");
        assert_eq!(Secrets::default().unknown_in(&hidden), ["PRIVATE_KEY"; 3]);
        let mut renewed = Secrets::default();
        renewed.know("PRIVATE_KEY", "0123456789");
        assert_eq!(renewed.show(hidden), b"x 0123456789 y 0123456789 z 0123456789");
    }

    #[test]
    fn a_text_that_looks_like_the_name_of_a_key_stays_that_text() {
        let mut secrets = Secrets::default();
        secrets.know("API_KEY", "sk-0123456789");
        let forged = format!("a {} {} b {}", mark("API_KEY"), mark(""), MARK.0).into_bytes();
        let hidden = secrets.hide(forged.clone());
        assert_eq!(secrets.unknown_in(&hidden), Vec::<String>::new());
        assert_eq!(secrets.show(hidden), forged);
        assert_eq!(Secrets::default().unknown_in(mark("API_KEY").as_bytes()), ["API_KEY"]);
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
