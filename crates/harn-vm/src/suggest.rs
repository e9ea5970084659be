//! "Did you mean": the nearest visible name.

pub use harn_syntax::suggest::{distance, nearest};

/// Returns `` (did you mean `name`?)`` or nothing. The equivalent of a name of another language takes precedence over
/// names with a similar spelling.
pub fn hint<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let meant = harn_syntax::habits::instead_of(word).filter(|meant| names.contains(meant));
    // Advice about a name of another language is more useful than a name with a similar spelling.
    let alike = || {
        harn_syntax::habits::name_advice(word)
            .is_none()
            .then(|| nearest(word, names.iter().copied()))
            .flatten()
    };
    meant.or_else(alike).map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}
