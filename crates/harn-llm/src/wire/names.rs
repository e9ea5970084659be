//! Tool names in the form that providers accept.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The maximum number of characters of a tool name in every wire format.
const NAME: usize = 64;

pub(super) fn digest(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Encodes a number in letters and digits.
pub(super) fn letters(mut number: u64, count: usize) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut digit = || {
        let at = usize::try_from(number % 62).unwrap_or(0);
        number /= 62;
        char::from(DIGITS[at])
    };
    (0..count).map(|_| digit()).collect()
}

/// Returns the name of a tool on the wire. A name that every provider accepts is unchanged; any other name is mapped,
/// with a digest that makes it unique.
pub(crate) fn wire_name(name: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    if name.len() <= NAME && name.chars().all(fits) && name.starts_with(starts) {
        return name.into();
    }
    let mut mapped = String::with_capacity(NAME);
    if !name.starts_with(starts) {
        mapped.push('_');
    }
    mapped.extend(name.chars().take(NAME - 10).map(|c| if fits(c) { c } else { '_' }));
    format!("{mapped}_{}", letters(digest(name), 8)).into()
}
