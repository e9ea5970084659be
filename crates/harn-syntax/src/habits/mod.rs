//! Recognizes habits from other languages and advises the Harn equivalent.
//!
//! Nothing here is part of the grammar: a program may use all of these words as names. The source is inspected only
//! after it failed to parse or a name was not found:
//!
//! - `lines`: forms of a whole line (`for i, x in xs:`), answered with the corrected line; the tables are `forms`,
//!   `special` and `statements` (single languages) and `shell`; `form` defines their rows;
//! - `words`: single words and punctuation (`elif`, `i++`, typographic quotes);
//! - `names`: names defined by other languages (`null`, `str`, `open`);
//! - `libraries`: functions, methods and types of their libraries (`Math.max`, `xs.append`, `i32`).

mod form;
mod forms;
mod libraries;
mod lines;
mod names;
mod shell;
mod special;
mod statements;
mod words;

pub(crate) use words::character;

use libraries::method_advice;
pub use libraries::type_instead_of;
pub use libraries::undefined;
pub use names::{advice as name_advice, instead_of};

use crate::Span;

/// Maximum length of an inspected line, in bytes: advice about a longer one is not useful.
const MAX_LINE: usize = 400;

/// Returns advice for users of other languages about the location `span`, where `source` failed to parse.
pub(crate) fn advice(source: &str, span: Span) -> Option<String> {
    let at = span.start as usize;
    let start = source[..at].rfind('\n').map_or(0, |end| end + 1);
    let end = source[at..].find('\n').map_or(source.len(), |end| at + end);
    let line = source[start..end].trim_end_matches('\r');
    let by_line = || {
        let in_block = || in_block(source, start, line, at - start);
        (line.len() <= MAX_LINE).then(|| in_block().or_else(|| lines::advice(line, at - start))).flatten()
    };
    let (before, behind) = line.split_at(line.len().min(at - start));
    let misspelt = || words::misspelt(before, !behind.is_empty());
    words::for_a_name(before, behind)
        .or_else(|| closure_without_arrow(source, at, |word, _| STATEMENTS.contains(&word)))
        .or_else(|| words::raw_text(line, at - start).map(str::to_owned))
        .or_else(|| {
            misspelt()
                .filter(|_| before.contains(['{', '}', ';']) && behind.starts_with(char::is_alphanumeric))
        })
        .or_else(by_line)
        .or_else(|| closure_without_arrow(source, at, |_, next| "(.[+-*/%<>".contains(next)))
        .or_else(|| words::advice(source, span).map(str::to_owned))
        .or_else(misspelt)
        .or_else(|| words::command(line))
}

/// Keywords that begin statements.
const STATEMENTS: [&str; 12] =
    ["if", "for", "while", "try", "return", "throw", "let", "var", "match", "defer", "spawn", "parallel"];

/// Returns advice for braces in value position that contain a statement: without an arrow they are parsed as a
/// dict. `begins` returns whether the word before `at` and the character at `at` begin a statement.
fn closure_without_arrow(source: &str, at: usize, begins: fn(&str, char) -> bool) -> Option<String> {
    let opener = crate::brackets::opener(&source[..at], u32::try_from(at).ok()?)?;
    let (head, inside) = source[..at].split_at(opener.start as usize);
    let word = inside.strip_prefix('{')?.trim();
    let is_name = !word.is_empty() && word.chars().all(|c| c == '_' || c.is_alphanumeric());
    let is_value = head.trim_end().ends_with(['(', ',', ':', '=', '[']);
    let is_statement = is_name && is_value && begins(word, source[at..].chars().next()?);
    is_statement.then(|| "write a closure without parameters as `{ -> ... }`".to_owned())
}

/// Keywords of blocks whose lines have a special meaning, each with a sign of a malformed line.
const BLOCKS: [(&str, &str); 2] = [("match ", "=>"), ("struct ", "=")];

/// Returns advice for a line in a multi-line `match` or `struct`: the line is checked with the head of the block
/// before it.
fn in_block(source: &str, start: usize, line: &str, at: usize) -> Option<String> {
    let blocks = || BLOCKS.into_iter().filter(|(_, sign)| line.contains(sign));
    blocks().next()?;
    let opener = crate::brackets::opener(&source[..start], u32::try_from(start).ok()?)?;
    let head = &source[..opener.end as usize];
    let head = &head[head.rfind('\n').map_or(0, |end| end + 1)..];
    let head = blocks().find_map(|(word, _)| head.rfind(word).map(|begin| &head[begin..]))?;
    let trimmed = line.trim_start();
    let at = at.checked_sub(line.len() - trimmed.len())?;
    (head.ends_with('{') && head.len() <= MAX_LINE)
        .then(|| lines::advice(&format!("{head} {trimmed}"), head.len() + 1 + at))
        .flatten()
}

/// Returns advice for the line around `span`, where a name is undefined, if the line looks like a shell command.
pub fn of_a_shell(source: &str, span: Span) -> Option<String> {
    let at = span.start as usize;
    let start = source[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = source[start..].lines().next()?.trim();
    shell::line(line)
}

/// Returns help for a runtime error, based on its message without the error kind and on the source at its location.
pub fn failed(text: &str, place: &str) -> Option<String> {
    if text == "cannot iterate over int" {
        let most = Some(place).filter(|place| place.len() <= 40 && !place.contains('\n')).unwrap_or("n");
        return Some(format!("iterate over a range: `for i in 1 to {most}`"));
    }
    if text.starts_with("parallel count must be an int, got list") {
        return Some("to run the body for each item, write `parallel each`".to_owned());
    }
    if ["tools must contain only tool ", "tools must be declared as tool "]
        .iter()
        .any(|start| text.starts_with(start))
    {
        return Some("pass tools instead: declare each with `tool NAME(...) { ... }`".to_owned());
    }
    let level = [
        ("network", "network"),
        ("LLM/network", "network"),
        ("process.exec", "process_exec"),
        ("workspace write", "workspace_write"),
        ("workspace.delete", "workspace_write"),
        ("workspace.read_text", "read_only"),
    ];
    let needed = level.iter().find(|(what, _)| text.ends_with(&format!("exceeds {what} ceiling")));
    if let Some((_, level)) = needed {
        return Some(format!(
            "`harn run --sandbox={level}` permits it; in a policy: `side_effect_level: \"{level}\"`"
        ));
    }
    if text == "cannot order list and list" {
        return Some(
            "a sort key is a number or a string; for two keys call `sort_by` twice, the last key first, or compare \
             with `sort({ a, b -> ... })`"
                .to_owned(),
        );
    }
    if let Some((name, _)) = text.split_once(": arguments must be text or dict, got list") {
        let head = if name == "exec_at" { "exec_at(dir, \"ls\"" } else { "exec(\"ls\"" };
        return Some(format!(
            "pass the arguments one by one: `{head}, \"-la\")`, or spread a list: `{head}, ...list)`"
        ));
    }
    if text.starts_with("Failed to write file ") && text.ends_with("(os error 2)") {
        return Some("create the directory first: `mkdir(dirname(path))`".to_owned());
    }
    if text.starts_with("Failed to read template ") && text.contains("{{") {
        return Some(
            "`render` takes the path of a file; render a string with `render_string(text, values)`"
                .to_owned(),
        );
    }
    let (name, _) = text.split_once(": expected a dict of fields, got ")?;
    Some(format!("name the fields of the struct: `{name} {{field: value}}`"))
}

/// Methods of iterators that users may call on a generator or stream.
const OF_ITERATORS: [&str; 25] = [
    "all",
    "any",
    "chain",
    "chunks",
    "count",
    "enumerate",
    "filter",
    "find",
    "first",
    "flat_map",
    "for_each",
    "last",
    "len",
    "map",
    "max",
    "min",
    "reduce",
    "skip",
    "skip_while",
    "sum",
    "take",
    "take_while",
    "to_list",
    "to_set",
    "zip",
];

/// Returns help for a call of a method that values of `type_name` do not have; `names` are their methods in order.
pub fn method_help(name: &str, type_name: &str, names: &[&str]) -> Option<String> {
    let near =
        || crate::suggest::nearest(name, names.iter().copied()).map(|near| format!("did you mean `{near}`?"));
    // Advice about dicts and lists would be misleading for generators and streams.
    let lazy = matches!(type_name, "generator" | "stream");
    let advice = if lazy && OF_ITERATORS.contains(&name) {
        Some(format!("use an iterator: `it.iter().{name}(...)`"))
    } else {
        method_advice(name).filter(|_| !lazy).map(str::to_owned)
    };
    if type_name == "task_handle" {
        return Some(format!("wait for the result of the task: `await(task).{name}(...)`"));
    }
    let meant = advice.or_else(near);
    // The few methods of functions are not useful to a user who expected `log` to be a module.
    if type_name == "builtin" && meant.is_none() {
        return Some(
            "a builtin is a function, called by its name: `log(text)`; `harn explain NAME` shows it"
                .to_owned(),
        );
    }
    meant.or_else(|| (!names.is_empty()).then(|| format!("methods of {type_name}: {}", names.join(", "))))
}

/// Returns advice for a string whose `"` at `quote` is never closed, if it contains an unclosed `${`, or if a raw
/// string before it ended too early.
pub(crate) fn open_interpolation(source: &str, quote: Span) -> Option<String> {
    let at = quote.start as usize;
    let start = source[..at].rfind('\n').map_or(0, |end| end + 1);
    if let Some(advice) = source[start..].lines().next().and_then(|line| words::raw_text(line, at - start)) {
        return Some(advice.to_owned());
    }
    let rest = &source[at..];
    let line = rest.lines().next()?;
    let open = line.rfind("${")?;
    (!line[open..].contains('}'))
        .then(|| "close `${` with `}`, and the string with `\"`; for a literal `${`, write `\\${`".to_owned())
}

/// Returns advice for the line of `opener`, an unclosed bracket, if the closing bracket is hidden there.
pub(crate) fn hidden_closer(source: &str, opener: Span) -> Option<String> {
    let start = opener.start as usize;
    let end = source[start..].find('\n').map_or(source.len(), |end| start + end);
    lines::hidden_closer(&source[start..end])
}
