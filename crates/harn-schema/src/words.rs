//! The words for types: Harn's own, and those of JSON Schema.

/// A type that both have a word for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Harn's.
    pub harn: &'static str,
    /// That of JSON Schema, which has fewer.
    pub json: &'static str,
}

/// All of them. Where one JSON word stands for several of Harn's, the first is its translation back.
pub const WORDS: &[Word] = &[
    Word { harn: "string", json: "string" },
    Word { harn: "int", json: "integer" },
    Word { harn: "float", json: "number" },
    Word { harn: "bool", json: "boolean" },
    Word { harn: "nil", json: "null" },
    Word { harn: "list", json: "array" },
    Word { harn: "dict", json: "object" },
    Word { harn: "set", json: "array" },
    Word { harn: "bytes", json: "string" },
];

/// The type that a word of either language means.
#[must_use]
pub fn find(word: &str) -> Option<Word> {
    let own = WORDS.iter().find(|known| known.harn == word);
    own.or_else(|| WORDS.iter().find(|known| known.json == word)).copied()
}

/// Harn's word for a type; an unknown word stays as it is.
#[must_use]
pub fn harn(word: &str) -> &str {
    find(word).map_or(word, |known| known.harn)
}

/// JSON Schema's word for a type; an unknown word stays as it is.
#[must_use]
pub fn json(word: &str) -> &str {
    find(word).map_or(word, |known| known.json)
}

/// JSON Schema's word for a limit of Harn's schemas; an unknown word stays as it is.
#[must_use]
pub fn json_key(key: &str) -> &str {
    match key {
        "min" => "minimum",
        "max" => "maximum",
        "min_length" => "minLength",
        "max_length" => "maxLength",
        "min_items" => "minItems",
        "max_items" => "maxItems",
        other => other,
    }
}

/// JSON Schema's word for a type; text for what it has no word for.
#[must_use]
pub fn json_or_text(word: &str) -> &'static str {
    find(word).map_or("string", |known| known.json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_both_languages_are_known() {
        for word in WORDS {
            assert_eq!((harn(word.harn), json(word.harn)), (word.harn, word.json));
            assert_eq!(json(word.json), word.json);
        }
        assert_eq!(
            [harn("array"), harn("string"), harn("number"), harn("null")],
            ["list", "string", "float", "nil"]
        );
        assert_eq!([harn("any"), json("any"), json_or_text("any")], ["any", "any", "string"]);
    }
}
