//! Converts types of the table of builtins to [`Ty`].

use harn_syntax::ast::Name;

use super::{Field, Ty};

/// Parses a result type of the table: `list<string>`, `int | nil`, `{ok: bool, path?: string}`. Unknown type names
/// become unknown types.
pub(crate) fn from_table(text: &str) -> Ty {
    let text = text.trim();
    let text = text.strip_prefix('!').unwrap_or(text);
    let (text, optional) = text.strip_suffix('?').map_or((text, false), |text| (text, true));
    let mut types: Vec<Ty> = split(text, '|').map(one).collect();
    if optional {
        types.push(Ty::Nil);
    }
    match types.len() {
        1 => types.remove(0),
        _ if types.contains(&Ty::Any) => Ty::Any,
        _ => Ty::OneOf(types),
    }
}

fn one(text: &str) -> Ty {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        if inner.contains("...") {
            return Ty::named("dict");
        }
        let field = |entry: &str| {
            let (name, ty) = entry.split_once(':')?;
            let name = name.trim();
            let (name, optional) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
            let ty = from_table(ty);
            // Whether a builtin gives it, the program may know.
            let ty = if optional && ty != Ty::Any { Ty::union([Ty::OneOf(vec![Ty::Nil]), ty]) } else { ty };
            Some(Field { name: Name::new(name), optional, ty })
        };
        return Ty::Shape(split(inner, ',').filter_map(field).collect());
    }
    let (name, args) = match text.split_once('<') {
        Some((name, rest)) => {
            (name, split(rest.trim_end().trim_end_matches('>'), ',').map(from_table).collect())
        }
        None => (text, Vec::new()),
    };
    let word = match name {
        "nil" => return Ty::Nil,
        "never" => return Ty::Never,
        "pair" => "Pair",
        "generator" => "Generator",
        "stream" => "Stream",
        "function" => "closure",
        "int" | "float" | "string" | "bool" | "list" | "dict" | "set" | "bytes" | "range" | "iter"
        | "Result" | "duration" | "closure" => name,
        _ => return Ty::Any,
    };
    // Unknown arguments of a container are omitted.
    let args = if args.contains(&Ty::Any) && matches!(word, "list" | "dict") { Vec::new() } else { args };
    Ty::Named(Name::new(word), args)
}

/// Splits at separators outside of brackets.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let whole = rest?;
        let mut depth = 0;
        for (at, c) in whole.char_indices() {
            match c {
                '(' | '<' | '{' => depth += 1,
                ')' | '>' | '}' => depth -= 1,
                _ if c == separator && depth == 0 => {
                    rest = whole.get(at + 1..);
                    return whole.get(..at);
                }
                _ => {}
            }
        }
        rest = None;
        Some(whole)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notation_of_the_table_is_read() {
        assert_eq!(from_table("list<string>").to_string(), "list<string>");
        assert_eq!(from_table("int | nil"), Ty::OneOf(vec![Ty::named("int"), Ty::Nil]));
        assert_eq!(from_table("string?"), Ty::OneOf(vec![Ty::named("string"), Ty::Nil]));
        let shape = from_table("{ok: bool, rows?: list<{a: int}>}");
        assert_eq!(shape.to_string(), "{ok: bool, rows?: list<{a: int}>}");
        assert_eq!(from_table("AgentSpec"), Ty::Any);
        assert_eq!(from_table("list<any>"), Ty::named("list"));
        assert_eq!(from_table("{...}"), Ty::named("dict"));
    }
}
