//! Every program of the repository: the same tree, the same comments, and nothing left to do the second time.

use std::path::{Path, PathBuf};

use harn_fmt::{Options, Refusal, format};
use harn_syntax::ast::Program;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            programs(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "harn") {
            found.push(path);
        }
    }
}

/// The programs in the fences of a page.
fn fences(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside: Option<String> = None;
    for line in text.lines() {
        match &mut inside {
            Some(program) if line.trim() == "```" => {
                found.push(std::mem::take(program));
                inside = None;
            }
            Some(program) => {
                program.push_str(line);
                program.push('\n');
            }
            None if line.starts_with("```harn") => inside = Some(String::new()),
            None => {}
        }
    }
    found
}

fn pages(folder: &Path, found: &mut Vec<(String, String)>) {
    for path in std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = std::fs::read_to_string(&path).unwrap();
            for (at, program) in fences(&text).into_iter().enumerate() {
                found.push((format!("{} #{at}", path.display()), program));
            }
        }
    }
}

/// All programs of the repository, with their names.
pub(crate) fn all() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    for folder in ["conformance", "examples", "stdlib", "benches"] {
        programs(&root().join(folder), &mut paths);
    }
    paths.sort();
    let read = |path: &PathBuf| Some((path.display().to_string(), std::fs::read_to_string(path).ok()?));
    let mut all: Vec<(String, String)> = paths.iter().filter_map(read).collect();
    pages(&root().join("docs"), &mut all);
    all
}

/// The tree without the places of its nodes, parentheses and comments, imports in one order.
fn outline(program: &Program) -> String {
    let mut text = format!("{:?}", program.items);
    for (open, close) in [("kind: Paren(Expr { ", 0), ("span: ", 1)] {
        text = if close == 0 { without_parens(&text, open) } else { without_spans(&text) };
    }
    text
}

/// Removes `Span` values from a debug text.
fn without_spans(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("span: ") {
        let (before, behind) = rest.split_at(at);
        out.push_str(before);
        rest = behind["span: ".len()..].trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    }
    out.push_str(rest);
    out
}

/// Replaces `Expr { kind: Paren(Expr { X }), span }` by `Expr { X }`.
fn without_parens(text: &str, open: &str) -> String {
    let mut out = text.to_owned();
    while let Some(start) = out.find(open) {
        let inner = start + open.len();
        let mut depth = 1;
        let mut in_text = false;
        let mut escaped = false;
        let mut end = inner;
        for (at, c) in out[inner..].char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' if in_text => escaped = true,
                '"' => in_text = !in_text,
                _ if in_text => {}
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                end = inner + at;
                break;
            }
        }
        let content = out[inner..end].trim_end().to_owned();
        let behind = out[end..].find(" }").map_or(out.len(), |at| end + at);
        out = format!("{}{}{}", &out[..start], content, &out[behind..]);
    }
    out
}

#[test]
fn every_program_keeps_its_meaning_and_needs_no_second_pass() {
    let options = Options::default();
    let (mut formatted, mut wrong) = (0, Vec::new());
    for (name, text) in all() {
        let first = match format(&text, &options) {
            Ok(first) => first,
            Err(Refusal::Syntax(_)) => continue,
            Err(other) => {
                wrong.push(format!("{name}: {other}"));
                continue;
            }
        };
        formatted += 1;
        let (old, new) = (harn_syntax::parse(&text), harn_syntax::parse(&first));
        if let Some(error) = new.errors.first() {
            wrong.push(format!("{name}: no program any more: {}", error.canonical(&first)));
            continue;
        }
        let imports = old.program.imports().count();
        if imports == 0 && outline(&old.program) != outline(&new.program) {
            wrong.push(format!("{name}: another tree"));
        }
        match format(&first, &options) {
            Ok(second) if second == first => {}
            Ok(second) => {
                let line = first.lines().zip(second.lines()).find(|(a, b)| a != b);
                wrong.push(format!("{name}: a second pass changes {line:?}"));
            }
            Err(other) => wrong.push(format!("{name}: the second pass: {other}")),
        }
        for line in first.lines() {
            let blank_at_end =
                line.ends_with(' ') && !text.contains(line) && !line.trim_start().starts_with('*');
            if blank_at_end {
                wrong.push(format!("{name}: blanks at the end of {line:?}"));
            }
        }
    }
    assert!(formatted > 2500, "only {formatted} programs were formatted");
    assert!(wrong.is_empty(), "{} programs:\n{}", wrong.len(), wrong.join("\n"));
}

/// A small generator of numbers that is the same each time.
fn numbers(mut seed: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below.max(1)
    }
}

/// A program with comments put between its tokens.
fn with_comments(text: &str, seed: u64) -> String {
    let lexed = harn_syntax::lexer::lex(text);
    let mut random = numbers(seed);
    let mut out = String::with_capacity(text.len() + 200);
    let mut from = 0;
    for token in
        lexed.tokens.iter().filter(|token| token.spaced && token.kind != harn_syntax::token::TokenKind::Eof)
    {
        if random(6) != 0 || (token.span.start as usize) < from {
            continue;
        }
        let at = token.span.start as usize;
        out.push_str(&text[from..at]);
        out.push_str(["/* c */ ", "// c\n", "/* two\nlines */ ", "\n// own\n", "/** doc */"][random(5)]);
        from = at;
    }
    out.push_str(&text[from..]);
    out
}

#[test]
fn comments_may_stand_anywhere() {
    let options = Options::default();
    // Several comments between the operands of one operator may need a second pass to settle.
    let (mut formatted, mut wrong, mut unsettled) = (0, Vec::new(), Vec::new());
    for (name, text) in all() {
        // A program's comments stay where they are when others are added to the suite.
        let file = name.rsplit("/conformance/").next().unwrap_or(&name);
        let seed = file.bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let text = with_comments(&text, seed);
        let first = match format(&text, &options) {
            Ok(first) => first,
            // A line feed may end a statement too early.
            Err(Refusal::Syntax(_)) => continue,
            Err(other) => {
                wrong.push(format!("{name}: {other}\n{text}"));
                continue;
            }
        };
        formatted += 1;
        match format(&first, &options) {
            Ok(second) if second == first => {}
            Ok(second) => {
                let lines = first.lines().zip(second.lines());
                let at = lines.take_while(|(a, b)| a == b).count();
                let part = |text: &str| {
                    text.lines().skip(at.saturating_sub(1)).take(4).collect::<Vec<_>>().join("\n")
                };
                unsettled.push(format!("{name}: a second pass:\n{}\n----\n{}", part(&first), part(&second)));
            }
            Err(other) => wrong.push(format!("{name}: the second pass: {other}\n{first}")),
        }
    }
    assert!(formatted > 1000, "only {formatted} programs were formatted");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(
        unsettled.len() <= formatted / 500,
        "{} of {formatted}:\n{}",
        unsettled.len(),
        unsettled.join("\n\n")
    );
}

/// Puts one comment between two tokens.
fn with_one_comment(text: &str, random: &mut impl FnMut(usize) -> usize) -> String {
    let lexed = harn_syntax::lexer::lex(text);
    let token = &lexed.tokens[random(lexed.tokens.len())];
    let at = token.span.start as usize;
    let comment = ["/* c */", " /* c */ ", " // c\n", "\n// c\n", "/* c\n   d */ ", "/** c */ "][random(6)];
    format!("{}{comment}{}", &text[..at], &text[at..])
}

#[test]
fn a_comment_stays_at_any_place() {
    let options = Options::default();
    let rounds = if std::env::var_os("HARN_EVERY_CASE").is_some() { 20 } else { 1 };
    let (mut formatted, mut wrong) = (0, Vec::new());
    for (name, text) in all() {
        let file = name.rsplit("/conformance/").next().unwrap_or(&name);
        let seed = file.bytes().fold(7, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let mut random = numbers(seed);
        for _ in 0..rounds {
            let text = with_one_comment(&text, &mut random);
            let first = match format(&text, &options) {
                Ok(first) => first,
                // A line feed may end a statement too early.
                Err(Refusal::Syntax(_)) => continue,
                Err(other) => {
                    wrong.push(format!("{name}: {other}\n{text}"));
                    continue;
                }
            };
            formatted += 1;
            let (old, new) = (harn_syntax::parse(&text), harn_syntax::parse(&first));
            let is_comment =
                |line: &&str| line.contains("/* c") || line.contains("// c") || line.contains("/** c");
            let around = |text: &str| {
                let lines: Vec<&str> = text.lines().collect();
                let at = lines.iter().position(is_comment).unwrap_or(0);
                lines[at.saturating_sub(2)..(at + 3).min(lines.len())].join("\n")
            };
            // Several lines of `///` become one comment.
            let words = |program: &Program, text: &str| {
                let each = program.comments.iter().flat_map(|comment| {
                    let body = comment.span.slice(text).split(|c: char| !c.is_alphanumeric());
                    body.filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>()
                });
                let mut all: Vec<String> = each.collect();
                all.sort();
                all
            };
            if words(&old.program, &text) != words(&new.program, &first) {
                wrong.push(format!("{name}: a comment is lost\n{}\n----\n{}", around(&text), around(&first)));
            }
            if old.program.imports().count() == 0 && outline(&old.program) != outline(&new.program) {
                wrong.push(format!("{name}: another tree\n{}\n----\n{}", around(&text), around(&first)));
            }
            let second = format(&first, &options).unwrap_or_else(|other| other.to_string());
            if second != first {
                let at = first.lines().zip(second.lines()).take_while(|(a, b)| a == b).count();
                let part = |text: &str| {
                    text.lines().skip(at.saturating_sub(1)).take(4).collect::<Vec<_>>().join("\n")
                };
                let passes = format!("{}\n----\n{}", part(&first), part(&second));
                wrong.push(format!("{name}: a second pass:\n{}\n----\n{passes}", around(&text)));
            }
        }
    }
    println!("{formatted} programs with a comment");
    assert!(formatted > 2500, "only {formatted} programs were formatted");
    assert!(wrong.is_empty(), "{} of {formatted}:\n{}", wrong.len(), wrong.join("\n\n"));
}
