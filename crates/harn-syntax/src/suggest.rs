//! "Did you mean": finds the most similar of some names.

/// Returns the edit distance: insertions, deletions, replacements and swaps of adjacent characters.
pub fn distance(a: &str, b: &str) -> usize {
    strsim::osa_distance(a, b)
}

/// Returns the nearest of `names` within the distance allowed for the length of the word: 1 for up to two
/// characters, 2 for up to five, otherwise 3. Most of the word must remain: two edits of a short word must preserve
/// its first letter and half of the longer word. Ties are resolved by the nearest length, then alphabetically.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    within(3, word, names)
}

/// Like [`nearest`], with a maximum distance of two: for sets so large that one name is always similar, or if
/// another message can explain the problem.
pub fn close<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    within(2, word, names)
}

fn within<'a>(most: usize, word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let limit = match length {
        0..=2 => 1,
        3..=5 => 2,
        _ => most,
    };
    names
        .into_iter()
        .filter(|name| !name.starts_with("__") && *name != word)
        .map(|name| (name.chars().count().abs_diff(length), name))
        .filter(|&(longer, _)| longer <= limit)
        .map(|(longer, name)| (distance(word, name), longer, name))
        .filter(|&(distance, longer, name)| {
            let first = || word.chars().next() == name.chars().next();
            distance <= limit
                && distance < length + longer
                && (distance < 2 || length > 4 || first() && distance * 2 <= name.chars().count().max(length))
        })
        .min()
        .map(|(_, _, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_wins() {
        assert_eq!(nearest("printl", ["println", "print", "sprint"]), Some("print"));
        assert_eq!(nearest("lenght", ["length", "len"]), Some("length"));
        assert_eq!(nearest("helper", ["println", "len"]), None);
        assert_eq!(nearest("ab", ["xy", "a", "b"]), Some("a"));
        assert_eq!(nearest("_x", ["__x"]), None);
        assert_eq!(nearest("x", ["y", "名"]), None);
        assert_eq!(nearest("x", ["xs"]), Some("xs"));
        assert_eq!(nearest("foo", ["cos", "for_each"]), None);
        assert_eq!(nearest("cfg", ["cos"]), None);
        assert_eq!(nearest("conn", ["join"]), None);
        assert_eq!(nearest("val", ["value"]), Some("value"));
        assert_eq!(nearest("tpye", ["type", "tape"]), Some("type"));
    }

    #[test]
    fn longer_words_may_be_further_away() {
        assert_eq!(nearest("qx", ["qyz"]), None);
        assert_eq!(nearest("tital", ["total", "vital", "petal"]), Some("total"));
        assert_eq!(nearest("tital", ["metals"]), None);
        assert_eq!(nearest("coumt_of", ["count_up"]), Some("count_up"));
        assert_eq!(nearest("coumt_of", ["count_abs"]), None);
        assert_eq!(close("coumt_of", ["count_up"]), None);
        assert_eq!(close("coumt_of", ["count_on"]), Some("count_on"));
    }
}
