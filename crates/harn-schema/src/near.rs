//! Finds similar names for suggestions.

/// Returns the known name that is similar to `word`: at most one edit in short names, two in longer ones.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let limit = if length < 5 { 1 } else { 2 };
    names
        .filter(|name| name.chars().count().abs_diff(length) <= limit)
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| name)
}
