//! "Did you mean": the nearest visible name.

pub use harn_syntax::suggest::{distance, nearest};

/// `` (did you mean `name`?)`` or nothing. What a name of another language stands for comes before names that are only
/// spelt alike.
pub fn hint<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let meant = harn_syntax::habits::instead_of(word).filter(|meant| names.contains(meant));
    // Words about the habit say more than a name that is only spelt alike.
    let alike = || {
        harn_syntax::habits::name_advice(word)
            .is_none()
            .then(|| nearest(word, names.iter().copied()))
            .flatten()
    };
    meant.or_else(alike).map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}
