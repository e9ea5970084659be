//! Methods of strings. Positions are in Unicode scalar values.

use harn_value::{Str, Value};
use harn_vm::builtin::Text;
use harn_vm::{Error, builtins};

use crate::args::{Int, MaybeText, room_for};
use crate::text::{self, Side};

builtins! {
    /// Methods of strings.
    pub(crate) static STRING: "string";

    /// Counts the characters.
    ///
    /// ```harn
    /// println("café".count()) // -> 4
    /// ```
    Pure fn count(cx, this: Str) -> "int" {
        this.char_count()
    }

    /// Returns whether the string is empty.
    ///
    /// ```harn
    /// println(["".empty(), " ".empty()]) // -> [true, false]
    /// ```
    Pure fn empty(cx, this: Str) -> "bool" {
        this.is_empty()
    }

    /// Returns whether a substring occurs.
    ///
    /// ```harn
    /// println(["team".contains("ea"), "h5".contains(5)]) // -> [true, true]
    /// ```
    Pure fn contains(cx, this: Str, part: Text) -> "bool" {
        this.contains(&*part)
    }

    /// Returns whether the string starts with a prefix.
    ///
    /// ```harn
    /// println("harness".starts_with("harn")) // -> true
    /// ```
    Pure fn starts_with(cx, this: Str, prefix: Text) -> "bool" {
        this.starts_with(&*prefix)
    }

    /// Returns whether the string ends with a suffix.
    ///
    /// ```harn
    /// println("a.harn".ends_with(".harn")) // -> true
    /// ```
    Pure fn ends_with(cx, this: Str, suffix: Text) -> "bool" {
        this.ends_with(&*suffix)
    }

    /// Returns the first position of a substring, or -1 if it is absent.
    ///
    /// ```harn
    /// println(["häns häns".index_of("ns"), "abc".index_of("x")]) // -> [2, -1]
    /// ```
    Pure fn index_of(cx, this: Str, part: Text) -> "int" {
        this.find(&*part).map_or(-1, |at| text::char_position(&this, at))
    }

    /// Returns the last position of a substring, or -1 if it is absent.
    ///
    /// ```harn
    /// println("a/b/c".last_index_of("/")) // -> 3
    /// ```
    Pure fn last_index_of(cx, this: Str, part: Text) -> "int" {
        this.rfind(&*part).map_or(-1, |at| text::char_position(&this, at))
    }

    /// Replaces all occurrences of `old`.
    ///
    /// An empty `old` matches between all characters and at both ends.
    ///
    /// ```harn
    /// println(["banana".replace("an", ""), "abc".replace("", "-")]) // -> [ba, -a-b-c-]
    /// ```
    Pure fn replace(cx, this: Str, old: MaybeText, new: MaybeText) -> "string" {
        match (old.0, new.0) {
            (Some(old), Some(new)) => text::replace(&this, &old, &new)?,
            _ => return Err(Error::type_error("string.replace: expected 2 arguments")),
        }
    }

    /// Splits at every separator, keeping empty pieces.
    ///
    /// With an empty separator, returns the characters, with an empty string at both ends.
    ///
    /// ```harn
    /// println("a b".split()) // -> [a, b]
    /// println("a,b".split(",").count) // -> 2
    /// ```
    Pure fn split(cx, this: Str, separator: Text = " ") -> "list" {
        text::split(&this, &separator)?
    }

    /// Splits into lines, without line endings and without an empty last line.
    ///
    /// ```harn
    /// println("a\nb\r\n".lines()) // -> [a, b]
    /// ```
    Pure fn lines(cx, this: Str) -> "list" {
        this.lines().map(Value::str).collect::<Vec<_>>()
    }

    /// Lists the characters.
    ///
    /// ```harn
    /// println("héy".chars()) // -> [h, é, y]
    /// ```
    Pure fn chars(cx, this: Str) -> "list" {
        room_for(this.char_count())?;
        let mut buffer = [0; 4];
        this.as_str().chars().map(|c| Value::str(c.encode_utf8(&mut buffer))).collect::<Vec<_>>()
    }

    /// Returns the character at a position; nil if the position is out of range.
    ///
    /// ```harn
    /// println(["abc".char_at(1), "abc".char_at(9), "abc".char_at(-1)]) // -> [b, nil, nil]
    /// ```
    Pure fn char_at(cx, this: Str, position: Int) -> "any" {
        let at = usize::try_from(position.or(0)).ok().filter(|at| *at < this.char_count());
        at.map(|at| Str::new(this.char_range(at, at + 1)))
    }

    /// Returns the characters from `start` to before `end`.
    ///
    /// The function `substring` takes a length instead of an end. Positions out of range are
    /// clamped.
    ///
    /// ```harn
    /// println("hello".substring(1, 3)) // -> el
    /// println("hello".substring(3)) // -> lo
    /// ```
    Pure fn substring(cx, this: Str, start: Int, end: Int) -> "string" {
        text::between(&this, start.or(0), end.or(i64::MAX))
    }

    /// Removes whitespace at both ends.
    ///
    /// ```harn
    /// println("<${" a ".trim()}>") // -> <a>
    /// ```
    Pure fn trim(cx, this: Str) -> "string" {
        this.trim()
    }

    /// Removes whitespace at the start.
    ///
    /// ```harn
    /// println("<${" a ".trim_start()}>") // -> <a >
    /// ```
    Pure fn trim_start(cx, this: Str) -> "string" {
        this.trim_start()
    }

    /// Removes whitespace at the end.
    ///
    /// ```harn
    /// println("<${" a ".trim_end()}>") // -> < a>
    /// ```
    Pure fn trim_end(cx, this: Str) -> "string" {
        this.trim_end()
    }

    /// Converts to lower case (Unicode).
    ///
    /// ```harn
    /// println("ÄB".lowercase()) // -> äb
    /// ```
    Pure fn lowercase(cx, this: Str) -> "string" {
        this.to_lowercase()
    }

    /// Converts to upper case (Unicode).
    ///
    /// ```harn
    /// println("ß".uppercase()) // -> SS
    /// ```
    Pure fn uppercase(cx, this: Str) -> "string" {
        this.to_uppercase()
    }

    /// Returns `count` copies; `""` for a count below 1.
    ///
    /// ```harn
    /// println("ab".repeat(3)) // -> ababab
    /// ```
    Pure fn repeat(cx, this: Str, count: Int) -> "string" {
        text::repeat(&this, count.or(1))?
    }

    /// Returns the characters in reverse order.
    ///
    /// ```harn
    /// println("héy".reverse()) // -> yéh
    /// ```
    Pure fn reverse(cx, this: Str) -> "string" {
        this.chars().rev().collect::<String>()
    }

    /// Pads on the left to `width` characters with the first character of `fill`.
    ///
    /// ```harn
    /// println("7".pad_left(3, "0")) // -> 007
    /// ```
    Pure fn pad_left(cx, this: Str, width: Int, fill: Text = " ") -> "string" {
        text::pad(&this, this.char_count(), width.or(0), first(&fill), Side::Left)?
    }

    /// Pads on the right to `width` characters with the first character of `fill`.
    ///
    /// ```harn
    /// println("7".pad_right(3, ".") + "|") // -> 7..|
    /// ```
    Pure fn pad_right(cx, this: Str, width: Int, fill: Text = " ") -> "string" {
        text::pad(&this, this.char_count(), width.or(0), first(&fill), Side::Right)?
    }

    /// Returns an iterator over the characters.
    ///
    /// ```harn
    /// println("abc".iter().map({ c -> c.upper() }).to_list()) // -> [A, B, C]
    /// ```
    Pure fn iter(cx, this: Value) -> "iter" {
        cx.iter(&this)?.into_value()
    }
}

builtins! {
    /// Aliases of string methods.
    pub(crate) static STRING_ALIASES: "string";

    /// Counts the characters; an alias of `count`.
    ///
    /// ```harn
    /// println("abc".len()) // -> 3
    /// ```
    Pure fn len(cx, this: Str) -> "int" {
        this.char_count()
    }

    /// Converts to lower case; an alias of `lowercase`.
    ///
    /// ```harn
    /// println("AB".lower()) // -> ab
    /// ```
    Pure fn lower(cx, this: Str) -> "string" {
        this.to_lowercase()
    }

    /// Converts to lower case; an alias of `lowercase`.
    ///
    /// ```harn
    /// println("AB".to_lower()) // -> ab
    /// ```
    Pure fn to_lower(cx, this: Str) -> "string" {
        this.to_lowercase()
    }

    /// Converts to upper case; an alias of `uppercase`.
    ///
    /// ```harn
    /// println("ab".upper()) // -> AB
    /// ```
    Pure fn upper(cx, this: Str) -> "string" {
        this.to_uppercase()
    }

    /// Converts to upper case; an alias of `uppercase`.
    ///
    /// ```harn
    /// println("ab".to_upper()) // -> AB
    /// ```
    Pure fn to_upper(cx, this: Str) -> "string" {
        this.to_uppercase()
    }
}

/// Returns the first character of a fill string, or a space if it is empty.
fn first(fill: &str) -> &str {
    fill.chars().next().map_or(" ", |c| &fill[..c.len_utf8()])
}
