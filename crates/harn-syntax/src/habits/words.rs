//! Foreign words and punctuation.

use std::sync::LazyLock;

use regex::Regex;

use crate::Span;
use crate::token::TokenKind;

/// Words at the location of the parse failure or directly before it, with the advice for each.
const WORDS: &[(&str, &str)] = &[
    ("and", "write `&&` for and"),
    ("or", "write `||` for or"),
    ("not", "write `!` for not (`not` is used in `not in` only)"),
    ("mut", "declare variables that change with `var`: `var x = 1`"),
    ("const", "declare constants with `let`: `let x = 1`"),
    ("elif", "write `else if`"),
    ("elsif", "write `else if`"),
    ("elseif", "write `else if`"),
    ("def", "declare functions with `fn`: `fn double(x) { return x * 2 }`"),
    ("func", "declare functions with `fn`: `fn double(x) { return x * 2 }`"),
    ("function", "declare functions with `fn`: `fn double(x) { return x * 2 }`"),
    ("lambda", "write a closure as `{ x -> x + 1 }`"),
    (
        "async",
        "every function can wait; start a task with `spawn { ... }` and get its result with `await(task)`",
    ),
    ("class", "declare records with `struct Name { ... }`, methods with `impl Name { ... }`"),
    ("switch", "write `match value { pattern -> { ... } }`"),
    ("case", "write an arm of `match` as `pattern -> { ... }`"),
    ("unless", "write `if !condition { ... }`"),
    ("do", "write `while condition { ... }`, without `do`"),
    ("foreach", "write `for item in items { ... }`"),
    ("export", "mark exports with `pub`"),
    ("raise", "throw an error with `throw`"),
    ("except", "catch errors with `catch`: `try { ... } catch (e) { ... }`"),
    ("from", "write `import { name } from \"path\"`"),
];

/// Advice for pairs of a suffix of the source before the failure and a prefix of the source after it.
const SIGNS: &[(&str, &str, &str)] = &[
    ("+", "+", "increment with `x += 1`"),
    ("==", "=", "compare values with `==`"),
    ("!=", "=", "compare values with `!=`"),
    ("=", ">", "write a closure as `{ x -> x + 1 }`, an arm of `match` `pattern -> { ... }`"),
    ("", "=>", "write a closure as `{ x -> x + 1 }`, an arm of `match` `pattern -> { ... }`"),
    ("for (", "", "write `for i in 0 to 10 { ... }`, without parentheses"),
    ("import ", "", "the path of an import is a string: `import \"std/json\"`"),
];

/// Returns advice for users of other languages about `span`, where `source` failed to parse.
pub(crate) fn advice(source: &str, span: Span) -> Option<&'static str> {
    let line_start = source[..span.start as usize].rfind('\n').map_or(0, |at| at + 1);
    let before = &source[line_start..span.start as usize];
    let at = &source[span.start as usize..];
    let word_at = at.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
    let trimmed = before.trim_end();
    let word_before = trimmed.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
    // `from` also occurs in other statements.
    let fits = |word: &str| word != "from" || before.contains("import") || at.contains("import");
    let word =
        |word: &str| WORDS.iter().find(|(known, _)| *known == word && fits(word)).map(|(_, advice)| *advice);
    let sign = || {
        let fits = |(end, start, _): &&(&str, &str, &str)| before.ends_with(end) && at.starts_with(start);
        SIGNS.iter().find(fits).map(|(_, _, advice)| *advice)
    };
    word(word_at).or_else(|| word(word_before)).or_else(sign)
}

/// Returns advice if a keyword is used as a name: after `let`, or as a parameter.
pub(crate) fn for_a_name(before: &str, at: &str) -> Option<String> {
    static DECLARED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(concat!(
            r"(?:^|[^\w.])(?:(?:let|var|fn|tool|pipeline|struct|enum|interface|type)\s+",
            r"|(fn|tool|pipeline)\b[^()]*\((?:(?:[^()]|\([^()]*\))*,)?\s*)$"
        ))
        .ok()
    });
    let word = at.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
    if !TokenKind::is_keyword_text(word) {
        return None;
    }
    let found = (*DECLARED).as_ref()?.captures(before)?;
    let tool = match found.get(1).map(|kind| kind.as_str()) {
        Some("tool") => "; `tool_define` allows such parameter names",
        _ => "",
    };
    Some(format!("`{word}` is a keyword; choose another name, such as `{word}_`{tool}"))
}

/// Returns advice if the parser failed after a raw string that ended earlier than intended.
pub(crate) fn raw_text(line: &str, at: usize) -> Option<&'static str> {
    static RAW: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r####"(?:^|[^\w])r(?:"""|#+"[^"]*"[^#]|"[^"]*\\"[^\s,;)\]}])"####).ok());
    let found = (*RAW).as_ref()?.find(line)?;
    (found.start() <= at).then_some(
        "a raw string `r\"...\"` ends at its first `\"`: write `\\x22` in a pattern; write other strings with quotes \
         in `\"\"\"`, or escape each as `\\\"`",
    )
}

/// Keywords that begin statements or fields of tools.
const BEGINNINGS: [&str; 33] = [
    "annotations",
    "break",
    "catch",
    "compact",
    "continue",
    "deadline",
    "defer",
    "description",
    "else",
    "emit",
    "enum",
    "finally",
    "for",
    "guidance",
    "guard",
    "if",
    "impl",
    "import",
    "interface",
    "let",
    "match",
    "namespace",
    "parallel",
    "pipeline",
    "retry",
    "return",
    "select",
    "skill",
    "spawn",
    "struct",
    "throw",
    "while",
    "yield",
];

/// Returns the intended keyword at the beginning of a statement, where the parser failed directly after a misspelt
/// one.
pub(crate) fn misspelt(before: &str, goes_on: bool) -> Option<String> {
    let word = before.rsplit(['{', '}', ';']).next()?.trim();
    if !goes_on
        || word.len() < 3
        || !word.chars().all(|c| c.is_ascii_lowercase())
        || BEGINNINGS.contains(&word)
    {
        return None;
    }
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    // One inserted, deleted or replaced letter, or the same letters in another order.
    let is_slip = |meant: &&&str| {
        meant.starts_with(&word[..1])
            && (crate::suggest::distance(word, meant) == 1 || letters(word) == letters(meant))
    };
    BEGINNINGS.iter().find(is_slip).map(|meant| format!("did you mean `{meant}`?"))
}

/// Returns advice for a line that looks like a shell command.
pub(crate) fn command(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (first, rest) = words.split_first()?;
    let is_name = first.starts_with(|c: char| c.is_ascii_lowercase())
        && first.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        && !TokenKind::is_keyword_text(first);
    let are_words =
        rest.iter().all(|word| word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c)));
    (is_name && are_words && !rest.is_empty()).then(|| {
        let line = words.join(" ");
        format!("call functions with parentheses; run a system command with `shell(\"{line}\")`")
    })
}

/// Returns the replacement for a character that cannot start a token.
pub(crate) fn character(c: char) -> Option<&'static str> {
    match c {
        '\'' | '`' | '“' | '”' | '„' | '‘' | '’' => Some("strings need double quotes: `\"text\"`"),
        '#' => Some("comments start with `//`"),
        '–' | '—' | '−' => Some("write a plain minus sign: `-`"),
        '\u{a0}' | '\u{feff}' | '\u{200b}' => Some("write an ordinary space"),
        '$' => Some("names have no `$`; inside a string write `${name}`"),
        _ => None,
    }
}
