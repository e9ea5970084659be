//! The filters. The table [`FILTERS`] defines them: the parser checks names and argument counts against it, the
//! renderer calls `run`, docs/template-reference.md is generated from it, and a test runs every example.

use std::borrow::Cow;

use harn_value::{Value, View, json};

use crate::error::{ErrorKind, Fail};
use crate::form::{text_of, truthy};

/// A filter.
pub struct FilterSpec {
    /// The name after `|`.
    pub name: &'static str,
    /// Its parameters, with `?` for optional ones; empty without parameters.
    pub params: &'static str,
    /// Its result.
    pub doc: &'static str,
    /// Notes about edge cases; may be empty.
    pub notes: &'static str,
    /// A template and its output.
    pub example: (&'static str, &'static str),
    /// Minimum and maximum number of arguments.
    arity: (usize, usize),
    run: for<'a> fn(Piped<'a>, &Call<'_>) -> Result<Piped<'a>, Fail>,
}

impl std::fmt::Debug for FilterSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl FilterSpec {
    /// Returns whether it accepts this number of arguments.
    pub(crate) fn takes(&self, args: usize) -> bool {
        (self.arity.0..=self.arity.1).contains(&args)
    }

    pub(crate) fn run<'a>(&self, input: Piped<'a>, call: &Call<'_>) -> Result<Piped<'a>, Fail> {
        let taken = input.text_size();
        let made = (self.run)(input, call)?;
        // A long-running loop may call it on a long string, so each call costs steps in proportion to the string
        // length.
        harn_value::steps::bytes(taken + made.text_size());
        Ok(made)
    }
}

/// Maximum number of arguments of all filters.
pub(crate) const MAX_ARGS: usize = 2;

/// The arguments of a call, and the maximum size of its output.
pub(crate) struct Call<'c> {
    pub(crate) args: &'c [Value],
    pub(crate) limit: usize,
}

impl Call<'_> {
    /// Rejects output that is larger than a render may produce.
    fn check_size(&self, bytes: usize) -> Result<(), Fail> {
        if bytes <= self.limit {
            return Ok(());
        }
        Err(Box::new(ErrorKind::OutputTooLarge { limit: self.limit.to_string() }))
    }

    fn flag(&self, index: usize) -> bool {
        self.args.get(index).is_some_and(truthy)
    }
}

/// The value in a pipeline: the string output of a filter is converted to a value only if required.
pub(crate) enum Piped<'a> {
    Value(Cow<'a, Value>),
    Text(Cow<'a, str>),
}

impl Piped<'_> {
    /// Returns the size of a string in bytes, otherwise 0.
    fn text_size(&self) -> usize {
        match self {
            Piped::Text(text) => text.len(),
            Piped::Value(value) => value.as_str().map_or(0, |text| text.len()),
        }
    }
}

impl<'a> Piped<'a> {
    /// Returns the string form.
    pub(crate) fn into_text(self) -> Cow<'a, str> {
        match self {
            Piped::Text(text) => text,
            Piped::Value(Cow::Borrowed(value)) => text_of(value),
            Piped::Value(Cow::Owned(value)) => Cow::Owned(text_of(&value).into_owned()),
        }
    }

    pub(crate) fn into_value(self) -> Cow<'a, Value> {
        match self {
            Piped::Value(value) => value,
            Piped::Text(text) => Cow::Owned(Value::str(&text)),
        }
    }

    fn truthy(&self) -> bool {
        match self {
            Piped::Value(value) => truthy(value),
            Piped::Text(text) => !text.trim().is_empty(),
        }
    }

    /// Maps the string form.
    fn map_text(self, map: impl FnOnce(&str) -> String) -> Piped<'a> {
        Piped::Text(Cow::Owned(map(&self.into_text())))
    }

    fn owned(value: Value) -> Piped<'a> {
        Piped::Value(Cow::Owned(value))
    }
}

/// Finds a filter by name.
pub(crate) fn find(name: &str) -> Option<&'static FilterSpec> {
    FILTERS.iter().find(|spec| spec.name == name)
}

/// All filters, in the order of the reference.
pub const FILTERS: &[FilterSpec] = &[
    FilterSpec {
        name: "upper",
        params: "",
        doc: "The string in upper case.",
        notes: "Unicode: `ß` becomes `SS`.",
        example: (r#"{{ "straße" | upper }}"#, "STRASSE"),
        arity: (0, 0),
        run: |v, _| Ok(v.map_text(str::to_uppercase)),
    },
    FilterSpec {
        name: "lower",
        params: "",
        doc: "The string in lower case.",
        notes: "",
        example: (r#"{{ "ÀB" | lower }}"#, "àb"),
        arity: (0, 0),
        run: |v, _| Ok(v.map_text(str::to_lowercase)),
    },
    FilterSpec {
        name: "trim",
        params: "",
        doc: "The string without leading and trailing whitespace.",
        notes: "",
        example: (r#"[{{ "  a b\n" | trim }}]"#, "[a b]"),
        arity: (0, 0),
        run: |v, _| {
            Ok(Piped::Text(match v.into_text() {
                Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
                Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
            }))
        },
    },
    FilterSpec {
        name: "capitalize",
        params: "",
        doc: "The first character in upper case, all others in lower case.",
        notes: "",
        example: (r#"{{ "hELLO wORLD" | capitalize }}"#, "Hello world"),
        arity: (0, 0),
        run: |v, _| {
            Ok(v.map_text(|text| {
                let mut out = String::with_capacity(text.len());
                capitalize(text, &mut out);
                out
            }))
        },
    },
    FilterSpec {
        name: "title",
        params: "",
        doc: "The first character of each word in upper case, all others in lower case.",
        notes: "Whitespace separates words and is preserved.",
        example: (r#"{{ "the  quick FOX" | title }}"#, "The  Quick Fox"),
        arity: (0, 0),
        run: |v, _| Ok(v.map_text(title)),
    },
    FilterSpec {
        name: "length",
        params: "",
        doc: "The number of characters of a string, or of items of a list, set, dict or range.",
        notes: "`nil` has length 0; other types are an error.",
        example: (r#"{{ "größe" | length }}"#, "5"),
        arity: (0, 0),
        run: |v, _| length(&v).map(|n| Piped::owned(Value::int(i64::try_from(n).unwrap_or(i64::MAX)))),
    },
    FilterSpec {
        name: "first",
        params: "",
        doc: "The first item of a list or set, the first character of a string.",
        notes: "`nil` if the value is empty or has another type.",
        example: (r#"{{ "abc" | first }}"#, "a"),
        arity: (0, 0),
        run: |v, _| Ok(end_item(v, true)),
    },
    FilterSpec {
        name: "last",
        params: "",
        doc: "The last item of a list or set, the last character of a string.",
        notes: "`nil` if the value is empty or has another type.",
        example: (r#"{{ "a\nb" | lines | last }}"#, "b"),
        arity: (0, 0),
        run: |v, _| Ok(end_item(v, false)),
    },
    FilterSpec {
        name: "reverse",
        params: "",
        doc: "The items of a list or the characters of a string in reverse order.",
        notes: "Other types are unchanged.",
        example: (r#"{{ "abc" | reverse }}"#, "cba"),
        arity: (0, 0),
        run: |v, _| Ok(reverse(v)),
    },
    FilterSpec {
        name: "join",
        params: "sep",
        doc: "The items of a list or set as strings, separated by `sep`.",
        notes: "A string is unchanged; other types are an error.",
        example: (r#"{{ "a\nb" | lines | join: ", " }}"#, "a, b"),
        arity: (1, 1),
        run: join,
    },
    FilterSpec {
        name: "default",
        params: "fallback",
        doc: "The value if it is truthy, otherwise `fallback`.",
        notes: "Replaces every falsy value: also `0`, `false`, empty lists, and strings that are empty or only whitespace.",
        example: (r#"{{ missing | default: "anon" }}"#, "anon"),
        arity: (1, 1),
        run: |v, call| Ok(if v.truthy() { v } else { Piped::owned(call.args[0].clone()) }),
    },
    FilterSpec {
        name: "json",
        params: "pretty?",
        doc: "JSON, as `json_stringify` returns it; indented by two spaces if `pretty` is truthy.",
        notes: "Keys are sorted; `nil` is `null`.",
        example: (r#"{{ "a\n\"b\"" | lines | json }}"#, r#"["a","\"b\""]"#),
        arity: (0, 1),
        run: |v, call| {
            let value = v.into_value();
            let text = if call.flag(0) { json::pretty(&value) } else { json::stringify(&value) };
            Ok(Piped::Text(text.into()))
        },
    },
    FilterSpec {
        name: "indent",
        params: "width, first?",
        doc: "The string with `width` spaces before each line except the first; before every line if `first` is truthy.",
        notes: "Empty lines are not indented; a negative width is treated as 0; only `\\n` ends a line.",
        example: (r#"{{ "a\n\nb" | indent: 2 }}"#, "a\n\n  b"),
        arity: (1, 2),
        run: indent,
    },
    FilterSpec {
        name: "lines",
        params: "",
        doc: "The list of lines, split at `\\n`.",
        notes: "`\\r` is preserved; a final newline yields an empty last item; an empty string yields one empty item.",
        example: (r#"{{ "a\nb\n" | lines | length }}"#, "3"),
        arity: (0, 0),
        run: |v, _| Ok(Piped::owned(Value::list(v.into_text().split('\n').map(Value::str).collect()))),
    },
    FilterSpec {
        name: "escape_md",
        params: "",
        doc: "The string with a backslash before each character that Markdown may interpret.",
        notes: r"The characters ``\ ` * _ { } [ ] ( ) # + - . ! | < >``.",
        example: (r#"{{ "a_b [c] ~d" | escape_md }}"#, r"a\_b \[c\] ~d"),
        arity: (0, 0),
        run: |v, _| {
            Ok(v.map_text(|text| {
                let mut out = String::with_capacity(text.len() + text.len() / 8);
                for c in text.chars() {
                    if r"\`*_{}[]()#+-.!|<>".contains(c) {
                        out.push('\\');
                    }
                    out.push(c);
                }
                out
            }))
        },
    },
    FilterSpec {
        name: "replace",
        params: "from, to",
        doc: "The string with every occurrence of `from` replaced by `to`.",
        notes: "An empty `from` inserts `to` before each character and at the end.",
        example: (r#"{{ "a-b-c" | replace: "-", "+" }}"#, "a+b+c"),
        arity: (2, 2),
        run: |v, call| {
            let text = v.into_text();
            let (from, to) = (text_of(&call.args[0]), text_of(&call.args[1]));
            if to.len() > from.len() {
                let found =
                    if from.is_empty() { text.chars().count() + 1 } else { text.matches(&*from).count() };
                call.check_size(text.len().saturating_add(found.saturating_mul(to.len() - from.len())))?;
            }
            Ok(Piped::Text(text.replace(&*from, &to).into()))
        },
    },
];

fn capitalize(text: &str, out: &mut String) {
    let mut chars = text.chars();
    if let Some(first) = chars.next() {
        out.extend(first.to_uppercase());
        out.push_str(&chars.as_str().to_lowercase());
    }
}

fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(char::is_whitespace) {
        // The trailing whitespace of the piece is not changed by lower-casing.
        capitalize(word, &mut out);
    }
    out
}

fn length(input: &Piped<'_>) -> Result<u64, Fail> {
    let value = match input {
        Piped::Text(text) => return Ok(text.chars().count() as u64),
        Piped::Value(value) => value,
    };
    Ok(match value.view() {
        View::Nil => 0,
        View::Str(s) => s.char_count() as u64,
        View::List(items) => items.len() as u64,
        View::Set(items) => items.len() as u64,
        View::Dict(dict) => dict.len() as u64,
        View::Range(range) => range.len(),
        _ => return Err(Box::new(ErrorKind::LengthUndefined { ty: value.type_name().to_owned() })),
    })
}

fn end_item<'a>(input: Piped<'a>, front: bool) -> Piped<'a> {
    let char_at_end = |text: &str| if front { text.chars().next() } else { text.chars().next_back() };
    let value = match input {
        Piped::Text(text) => {
            return char_at_end(&text)
                .map_or(Piped::owned(Value::NIL), |c| Piped::Text(c.to_string().into()));
        }
        Piped::Value(value) => value,
    };
    let item = match value.view() {
        View::Str(s) => char_at_end(s).map(|c| Value::str(c.encode_utf8(&mut [0; 4]))),
        View::List(items) => if front { items.first() } else { items.last() }.cloned(),
        View::Set(items) => if front { items.nth(0) } else { items.iter().next_back() }.cloned(),
        _ => None,
    };
    Piped::owned(item.unwrap_or_default())
}

fn reverse<'a>(input: Piped<'a>) -> Piped<'a> {
    let backwards = |text: &str| text.chars().rev().collect::<String>();
    match input {
        Piped::Text(text) => Piped::Text(backwards(&text).into()),
        Piped::Value(value) => match value.view() {
            View::Str(s) => Piped::Text(backwards(s).into()),
            View::List(items) => Piped::owned(Value::list(items.iter().rev().cloned().collect())),
            _ => Piped::Value(value),
        },
    }
}

fn join<'a>(input: Piped<'a>, call: &Call<'_>) -> Result<Piped<'a>, Fail> {
    let Piped::Value(value) = input else { return Ok(input) };
    let sep = text_of(&call.args[0]);
    match value.view() {
        View::Str(_) => return Ok(Piped::Value(value)),
        View::List(items) => join_items(items.iter(), &sep, call),
        View::Set(items) => join_items(items.iter(), &sep, call),
        _ => Err(Box::new(ErrorKind::JoinType { ty: value.type_name().to_owned() })),
    }
    .map(|text| Piped::Text(text.into()))
}

fn join_items<'v>(
    items: impl ExactSizeIterator<Item = &'v Value>,
    sep: &str,
    call: &Call<'_>,
) -> Result<String, Fail> {
    call.check_size(items.len().saturating_mul(sep.len()))?;
    let mut out = String::new();
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push_str(sep);
        }
        crate::form::write_value(item, &mut out);
        call.check_size(out.len())?;
    }
    Ok(out)
}

fn indent<'a>(input: Piped<'a>, call: &Call<'_>) -> Result<Piped<'a>, Fail> {
    let width = call.args[0].as_int().ok_or_else(|| Box::new(ErrorKind::IndentWidth))?;
    let width = usize::try_from(width.max(0)).unwrap_or(usize::MAX);
    let text = input.into_text();
    let first = call.flag(1);
    let indented = |(at, line): &(usize, &str)| !line.is_empty() && (*at > 0 || first);
    let lines = text.split('\n').enumerate().filter(indented).count();
    call.check_size(text.len().saturating_add(width.saturating_mul(lines)))?;
    let mut out = String::with_capacity(text.len() + width * lines);
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if indented(&(i, line)) {
            out.extend(std::iter::repeat_n(' ', width));
        }
        out.push_str(line);
    }
    Ok(Piped::Text(out.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RenderContext, Template};
    use harn_value::{Dict, Set};

    fn render(template: &str, bindings: Dict) -> String {
        let result = Template::inline(template)
            .and_then(|t| t.render(&Value::dict(bindings), &RenderContext::default()));
        result.unwrap_or_else(|error| error.to_string())
    }

    fn with(template: &str, v: Value) -> String {
        render(template, [("v", v)].into_iter().collect())
    }

    #[test]
    fn every_example_renders_as_documented() {
        for spec in FILTERS {
            assert_eq!(render(spec.example.0, Dict::new()), spec.example.1, "{}", spec.name);
            assert!(spec.example.0.contains(&format!("| {}", spec.name)));
            assert!(spec.arity.1 <= MAX_ARGS);
            assert_eq!(
                spec.params.split(", ").filter(|p| !p.is_empty()).count(),
                spec.arity.1,
                "{}",
                spec.name
            );
            assert_eq!(spec.params.matches('?').count(), spec.arity.1 - spec.arity.0, "{}", spec.name);
        }
    }

    #[test]
    fn names_are_unique() {
        for (i, spec) in FILTERS.iter().enumerate() {
            assert!(FILTERS[..i].iter().all(|other| other.name != spec.name));
        }
    }

    #[test]
    fn text_filters_take_any_value() {
        assert_eq!(with("{{ v | upper }}", Value::list(vec![Value::NIL, Value::TRUE])), "[NIL, TRUE]");
        assert_eq!(with("[{{ v | upper }}]", Value::NIL), "[]");
        assert_eq!(with("{{ v | capitalize }}|{{ v | title }}", Value::str("")), "|");
        assert_eq!(with("{{ v | title }}", Value::str(" ǆ-x\tßa")), " Ǆ-x\tSSa");
    }

    #[test]
    fn lengths() {
        assert_eq!(with("{{ v | length }}", Value::NIL), "0");
        assert_eq!(
            with("{{ v | length }}", Value::range(harn_value::Range { start: 1, end: 4, exclusive: false })),
            "4"
        );
        assert_eq!(with("{{ v | length }}", Value::from(Set::from_iter([Value::int(1)]))), "1");
        assert_eq!(with("{{ v | length }}", Value::int(1)), "at 1:1: `length` not defined for int");
    }

    #[test]
    fn ends_of_lists_and_text() {
        let list = Value::list(vec![Value::int(1), Value::int(2)]);
        assert_eq!(with("{{ v | first }}{{ v | last }}", list), "12");
        assert_eq!(with("[{{ v | first }}{{ v | last }}]", Value::list(vec![])), "[]");
        assert_eq!(with("[{{ v | first }}]", Value::int(3)), "[]");
        assert_eq!(with("{{ v | last }}", Value::str("aé")), "é");
        assert_eq!(with("{{ v | reverse }}", Value::int(12)), "12");
        assert_eq!(with("{{ v | reverse }}", Value::list(vec![Value::int(1), Value::int(2)])), "[2, 1]");
    }

    #[test]
    fn join_writes_the_text_of_items() {
        let list = Value::list(vec![Value::NIL, Value::str("a"), Value::list(vec![Value::NIL])]);
        assert_eq!(with("{{ v | join: \"-\" }}", list), "-a-[nil]");
        assert_eq!(with("{{ v | join: 1 }}", Value::list(vec![Value::str("a"), Value::str("b")])), "a1b");
        assert_eq!(with("{{ v | join: \"-\" }}", Value::str("abc")), "abc");
        assert_eq!(with("{{ v | join: \"-\" }}", Value::int(1)), "at 1:1: `join` requires a list (got int)");
    }

    #[test]
    fn default_replaces_everything_falsy() {
        for v in [
            Value::NIL,
            Value::FALSE,
            Value::int(0),
            Value::float(-0.0),
            Value::str(" \n"),
            Value::list(vec![]),
        ] {
            assert_eq!(with("{{ v | default: \"x\" }}", v), "x");
        }
        assert_eq!(with("{{ v | default: \"x\" }}", Value::int(1)), "1");
    }

    #[test]
    fn indent_counts_and_refuses() {
        assert_eq!(with("{{ v | indent: 2, true }}", Value::str("a\n\r\nb")), "  a\n  \r\n  b");
        assert_eq!(with("{{ v | indent: -2 }}", Value::str("a\nb")), "a\nb");
        assert_eq!(
            with("{{ v | indent: 1.5 }}", Value::str("a")),
            "at 1:1: `indent` requires an integer width"
        );
        assert_eq!(
            with("{{ v | indent }}", Value::str("a")),
            "at 1:1: filter `indent` got wrong number of arguments"
        );
        assert!(with("{{ v | indent: 9000000000000000000 }}", Value::str("a\nb")).contains("output exceeds"));
        assert!(
            with("{{ v | indent: 9000000000000000000, true }}", Value::str("a")).contains("output exceeds")
        );
        // Neither the first line nor empty lines are indented, so no width is too large.
        assert_eq!(with("{{ v | indent: 99999999999 }}", Value::str("a\n\n")), "a\n\n");
    }

    #[test]
    fn replace_with_nothing_and_with_too_much() {
        assert_eq!(with("{{ v | replace: \"\", \"-\" }}", Value::str("ab")), "-a-b-");
        assert_eq!(with("{{ v | replace: 1, nil }}", Value::int(212)), "22");
        let big = Value::str(&"a".repeat(1 << 20));
        assert!(with("{{ v | replace: \"a\", v }}", big).contains("output exceeds"));
    }

    #[test]
    fn unknown_filters_fail_when_they_are_reached() {
        assert_eq!(with("{{ if v }}{{ v | nope }}{{ end }}", Value::NIL), "");
        assert_eq!(with("\n {{ v | nope }}", Value::NIL), "at 2:2: unknown filter `nope`");
        assert_eq!(
            with("{{ v | upper: 1 }}", Value::NIL),
            "at 1:1: filter `upper` got wrong number of arguments"
        );
        assert_eq!(
            with("{{ v | json: true, 1 }}", Value::NIL),
            "at 1:1: filter `json` got wrong number of arguments"
        );
    }

    #[test]
    fn filters_leave_the_value_alone() {
        let list = Value::list(vec![Value::int(2), Value::int(1)]);
        assert_eq!(with("{{ v | reverse }}{{ v }}", list), "[1, 2][2, 1]");
    }
}
