//! "Did you mean": the nearest of some names.

/// Edit distance (insert, delete, replace).
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let cost = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// The nearest of `names` within the distance allowed for a word of this length: 1 for two
/// characters, 2 up to five, else 3. A single character resembles too much. Ties go to the nearest length, then the alphabet.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let limit = match length {
        0..=1 => return None,
        2 => 1,
        3..=5 => 2,
        _ => 3,
    };
    names
        .filter(|name| !name.starts_with("__") && *name != word)
        .filter(|name| name.chars().count().abs_diff(length) <= limit)
        .map(|name| (distance(word, name), name.chars().count().abs_diff(length), name))
        .filter(|&(d, _, _)| d <= limit)
        .min()
        .map(|(_, _, name)| name)
}
