//! Functions on text. Every argument called `text` is converted to its printed form.

use harn_value::{List, Ref, Value, View, equal, steps};
use harn_vm::builtin::{Rest, Text, kind};
use harn_vm::signature::{self, Kinds};
use harn_vm::{Error, builtins};
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

use crate::args::{Int, printed};
use crate::text::{self, Side};

builtins! {
    /// Strings.
    pub(crate) static STRINGS: "strings";

    /// Removes whitespace at both ends.
    ///
    /// ```harn
    /// println("<${trim("  a b ")}>") // -> <a b>
    /// ```
    Pure fn trim(cx, s: Text) -> "string" {
        s.trim()
    }

    /// Converts to upper case (Unicode).
    ///
    /// ```harn
    /// println(uppercase("straße")) // -> STRASSE
    /// ```
    Pure fn uppercase(cx, s: Text) -> "string" {
        s.to_uppercase()
    }

    /// Converts to lower case (Unicode).
    ///
    /// ```harn
    /// println(lowercase("ÄB")) // -> äb
    /// ```
    Pure fn lowercase(cx, s: Text) -> "string" {
        s.to_lowercase()
    }

    /// Splits a string at every separator, keeping empty pieces.
    ///
    /// With an empty separator, returns the characters, with an empty string at both ends.
    ///
    /// ```harn
    /// println(split("a,,b", ",")) // -> [a, , b]
    /// println(split("to be")) // -> [to, be]
    /// ```
    Pure fn split(cx, s: Text, separator: Text = " ") -> "list" {
        text::split(&s, &separator)?
    }

    /// Joins the printed forms of a list's items.
    ///
    /// ```harn
    /// println(join([1, "a", nil], "-")) // -> 1-a-nil
    /// ```
    Pure fn join(cx, items: Ref<List>, separator: Text = "") -> "string" {
        text::join(items.iter(), &separator)?
    }

    /// Replaces all occurrences of `old`.
    ///
    /// An empty `old` matches between all characters and at both ends.
    ///
    /// ```harn
    /// println(replace("banana", "an", "AN")) // -> bANANa
    /// println(replace("abc", "", "-")) // -> -a-b-c-
    /// ```
    Pure fn replace(cx, s: Text, old: Text, new: Text) -> "string" {
        text::replace(&s, &old, &new)
    }

    /// Returns whether a string starts with a prefix.
    ///
    /// ```harn
    /// println(starts_with("harness", "harn")) // -> true
    /// ```
    Pure fn starts_with(cx, s: Text, prefix: Text) -> "bool" {
        s.starts_with(&*prefix)
    }

    /// Returns whether a string ends with a suffix.
    ///
    /// ```harn
    /// println(ends_with("a.harn", ".harn")) // -> true
    /// ```
    Pure fn ends_with(cx, s: Text, suffix: Text) -> "bool" {
        s.ends_with(&*suffix)
    }

    /// Returns whether a string contains a substring, or a list contains an equal item.
    ///
    /// For dicts and sets, use the methods `d.has(key)` and `s.contains(value)`.
    ///
    /// ```harn
    /// println([contains("team", "ea"), contains([1, 2], 2.0)]) // -> [true, true]
    /// ```
    Pure fn contains(cx, container: Value as "string | list", item: Value) -> "bool" {
        match container.view() {
            View::Str(s) if Kinds::TEXT.meets(kind(&item)) => s.contains(printed(&item).as_str()),
            View::Str(_) => {
                let text = signature::wrong_type("contains", "item", "text", item.type_name());
                return Err(Error::type_error(text));
            }
            View::List(items) => steps::each(items.iter()).any(|x| equal(x, &item)),
            _ => false,
        }
    }

    /// Returns the substring of `length` characters from `start`.
    ///
    /// The third argument is a length; the method `.substring(start, end)` takes an end. Positions
    /// out of range are clamped.
    ///
    /// ```harn
    /// println(substring("hello world", 6, 3)) // -> wor
    /// println(substring("hello", 3)) // -> lo
    /// ```
    Pure fn substring(cx, s: Text, start: Int, length: Int) -> "string" {
        let start = start.or(0).max(0);
        let end = length.0.map_or(i64::MAX, |length| start.saturating_add(length.max(0)));
        text::between(&s.0, start, end)
    }

    /// Formats a template: replaces `{}` by the arguments in order, or `{key}` by the entries of a dict.
    ///
    /// A placeholder without an argument or key stays unchanged. The format after `:` has the syntax of Python and
    /// Rust: `[[fill]align][+][0][width][,][.precision][type]`. Without a type, the precision is the number of decimal
    /// places of a number, with halves rounded away from zero, or the maximum length of a string. The types are `d`,
    /// `f`, `e`, `%`, `x`, `X`, `o`, `b` and `s`.
    ///
    /// ```harn
    /// println(format("{} + {} = {}", 1, 2, 3)) // -> 1 + 2 = 3
    /// println(format("hi {name}", {name: "Ada"})) // -> hi Ada
    /// println(format("{:.2} {:>5} {:05} {:,} {:.1%} {:x}", 3.14159, "x", 42, 1234567, 0.256, 255)) // -> 3.14     x 00042 1,234,567 25.6% ff
    /// println(format("{total:.2f} EUR", {total: 9})) // -> 9.00 EUR
    /// ```
    Pure fn format(cx, template: Text, values: Rest) -> "string" {
        match values.0.first().and_then(Value::as_dict) {
            Some(dict) => crate::format::keys(&template, |key| dict.get_str(key))?,
            None => crate::format::places(&template, &values.0)?,
        }
    }
}

builtins! {
    /// Unicode strings.
    pub(crate) static UNICODE: "unicode";

    /// Converts a string to a Unicode normal form: NFC, NFD, NFKC or NFKD.
    ///
    /// ```harn
    /// println(unicode_normalize("e\u{301}") == "é") // -> true
    /// ```
    Pure fn unicode_normalize(cx, s: Text, form: Text = "NFC") -> "string" {
        match form.to_ascii_uppercase().as_str() {
            "NFC" => steps::each(s.nfc()).collect::<String>(),
            "NFD" => steps::each(s.nfd()).collect(),
            "NFKC" => steps::each(s.nfkc()).collect(),
            "NFKD" => steps::each(s.nfkd()).collect(),
            _ => return Err(Error::runtime("unicode_normalize: form must be NFC, NFD, NFKC, or NFKD")),
        }
    }

    /// Splits a string into user-perceived characters.
    ///
    /// A letter with combining marks, or a flag, is one item.
    ///
    /// ```harn
    /// println(len(unicode_graphemes("e\u{301}x"))) // -> 2
    /// ```
    Pure fn unicode_graphemes(cx, s: Text) -> "list" {
        steps::gather(s.graphemes(true).map(Value::str))
    }

    /// Pads a string to `width` user-perceived characters.
    ///
    /// `side` is `left`, `right` or `both`; with `both`, odd padding is one character longer on the
    /// right. Only the first character of `fill` is used.
    ///
    /// ```harn
    /// println(str_pad("ha", 5, ".", "left")) // -> ...ha
    /// println(str_pad("é", 3, ".", "both")) // -> .é.
    /// ```
    Pure fn str_pad(cx, s: Text, width: i64, fill: Text = " ", side: Text = "right") -> "string" {
        let side = match &*side {
            "left" => Side::Left,
            "right" => Side::Right,
            "both" => Side::Both,
            _ => return Err(Error::runtime("str_pad: side must be left, right, or both")),
        };
        let fill = fill.graphemes(true).next().unwrap_or(" ");
        text::pad(&s, s.graphemes(true).count(), width, fill, side)?
    }

    /// Converts `snake_case` to `camelCase`; empty parts are dropped.
    ///
    /// ```harn
    /// println(snake_to_camel("test_file_name")) // -> testFileName
    /// ```
    Pure fn snake_to_camel(cx, s: Text) -> "string" {
        camel(s.split('_'), false)
    }

    /// Converts `snake_case` to `PascalCase`; empty parts are dropped.
    ///
    /// ```harn
    /// println(snake_to_pascal("test_file")) // -> TestFile
    /// ```
    Pure fn snake_to_pascal(cx, s: Text) -> "string" {
        camel(s.split('_'), true)
    }

    /// Converts `snake_case` to `kebab-case`; empty parts are dropped.
    ///
    /// ```harn
    /// println(snake_to_kebab("test_file")) // -> test-file
    /// ```
    Pure fn snake_to_kebab(cx, s: Text) -> "string" {
        parts(&s, '_').collect::<Vec<_>>().join("-")
    }

    /// Converts `kebab-case` to `camelCase`; parts are lower-cased first.
    ///
    /// ```harn
    /// println(kebab_to_camel("test-file")) // -> testFile
    /// ```
    Pure fn kebab_to_camel(cx, s: Text) -> "string" {
        camel(s.to_lowercase().split('-'), false)
    }

    /// Converts `kebab-case` to `snake_case`; parts are lower-cased first.
    ///
    /// ```harn
    /// println(kebab_to_snake("test-file")) // -> test_file
    /// ```
    Pure fn kebab_to_snake(cx, s: Text) -> "string" {
        parts(&s.to_lowercase(), '-').collect::<Vec<_>>().join("_")
    }

    /// Converts `camelCase` to `snake_case`.
    ///
    /// ```harn
    /// println(camel_to_snake("parseHTML5Doc")) // -> parse_html5_doc
    /// ```
    Pure fn camel_to_snake(cx, s: Text) -> "string" {
        words(&s, '_')
    }

    /// Converts `PascalCase` to `snake_case`.
    ///
    /// ```harn
    /// println(pascal_to_snake("HTTPServer")) // -> http_server
    /// ```
    Pure fn pascal_to_snake(cx, s: Text) -> "string" {
        words(&s, '_')
    }

    /// Converts `camelCase` to `kebab-case`.
    ///
    /// ```harn
    /// println(camel_to_kebab("testFile")) // -> test-file
    /// ```
    Pure fn camel_to_kebab(cx, s: Text) -> "string" {
        words(&s, '-')
    }

    /// Converts `PascalCase` to `camelCase`: the first character becomes lower case.
    ///
    /// ```harn
    /// println(pascal_to_camel("TestFile")) // -> testFile
    /// ```
    Pure fn pascal_to_camel(cx, s: Text) -> "string" {
        first_lower(&s)
    }

    /// Converts `camelCase` to `PascalCase`: the first character becomes upper case.
    ///
    /// ```harn
    /// println(camel_to_pascal("testFile")) // -> TestFile
    /// ```
    Pure fn camel_to_pascal(cx, s: Text) -> "string" {
        first_upper(&s)
    }

    /// Converts the first character to lower case.
    ///
    /// ```harn
    /// println(lowercase_first("HTTPServer")) // -> hTTPServer
    /// ```
    Pure fn lowercase_first(cx, s: Text) -> "string" {
        first_lower(&s)
    }

    /// Converts the first character to upper case.
    ///
    /// ```harn
    /// println(uppercase_first("error in line 2")) // -> Error in line 2
    /// ```
    Pure fn uppercase_first(cx, s: Text) -> "string" {
        first_upper(&s)
    }

    /// Capitalizes every word and makes its other letters lower case.
    ///
    /// Only whitespace separates words, and it is unchanged.
    ///
    /// ```harn
    /// println(title_case("hELLO wORLD-foo")) // -> Hello World-foo
    /// ```
    Pure fn title_case(cx, s: Text) -> "string" {
        let mut out = String::with_capacity(s.len());
        let mut start = true;
        for c in steps::each(s.chars()) {
            if start {
                out.extend(c.to_uppercase());
            } else {
                out.extend(c.to_lowercase());
            }
            start = c.is_whitespace();
        }
        out
    }
}

fn parts(text: &str, separator: char) -> impl Iterator<Item = &str> {
    text.split(separator).filter(|part| !part.is_empty())
}

fn camel<'a>(parts: impl Iterator<Item = &'a str>, capital: bool) -> String {
    let mut out = String::new();
    for part in parts.filter(|part| !part.is_empty()) {
        if out.is_empty() && !capital {
            out.push_str(part);
        } else {
            out.push_str(&first_upper(part));
        }
    }
    out
}

fn first_upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().collect::<String>() + chars.as_str())
}

fn first_lower(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_lowercase().collect::<String>() + chars.as_str())
}

/// Splits camel-case text into lower-case words: a word starts at an upper-case letter after a lower-case letter or
/// digit, and at the last of several upper-case letters before a lower-case letter.
fn words(text: &str, separator: char) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len() + 4);
    for (i, &c) in steps::each(chars.iter().enumerate()) {
        if i > 0 && c.is_uppercase() {
            let before = chars[i - 1];
            let ends_run = before.is_uppercase() && chars.get(i + 1).is_some_and(|c| c.is_lowercase());
            if before.is_lowercase() || before.is_numeric() || ends_run {
                out.push(separator);
            }
        }
        out.extend(c.to_lowercase());
    }
    out
}
