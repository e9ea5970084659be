//! "Did you mean": the nearest name.

/// Returns the nearest of `names` within edit distance 2 (1 for words of one or two characters) that has something of
/// the word: another letter alone is another name. Ties go to the nearest length, then the alphabet.
pub(crate) fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let limit = if length <= 2 { 1 } else { 2 };
    names
        .into_iter()
        .filter(|name| !name.starts_with("__") && *name != word)
        .map(|name| (name.chars().count().abs_diff(length), name))
        .filter(|&(longer, _)| longer <= limit)
        .map(|(longer, name)| (distance(word, name), longer, name))
        .filter(|&(distance, longer, _)| distance <= limit && distance < length + longer)
        .min()
        .map(|(_, _, name)| name)
}

/// Edit distance: insert, delete, replace.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
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
    }
}
