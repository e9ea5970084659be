//! Type names of Harn and of JSON Schema.

/// A type with its name in both notations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The Harn name.
    pub harn: &'static str,
    /// The JSON Schema name; JSON Schema has fewer types.
    pub json: &'static str,
}

/// All types. If several Harn types share a JSON Schema name, the first one is its reverse translation.
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

/// Returns the type with this name in either notation.
#[must_use]
pub fn find(word: &str) -> Option<Word> {
    let own = WORDS.iter().find(|known| known.harn == word);
    own.or_else(|| WORDS.iter().find(|known| known.json == word)).copied()
}

/// Returns Harn's name of a type; returns unknown names unchanged.
#[must_use]
pub fn harn(word: &str) -> &str {
    find(word).map_or(word, |known| known.harn)
}

/// Returns JSON Schema's name of a type; returns unknown names unchanged.
#[must_use]
pub fn json(word: &str) -> &str {
    find(word).map_or(word, |known| known.json)
}

/// Returns JSON Schema's name of a Harn constraint keyword; returns unknown names unchanged.
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

/// Returns JSON Schema's name of a type; `string` for types that JSON Schema does not have.
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
