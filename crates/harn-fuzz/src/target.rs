//! The fuzz targets, and the properties that must hold for every input.

use harn_syntax::lexer::lex;
use harn_syntax::token::TokenKind;
use harn_syntax::{SourceFile, parse};
use harn_template::{RenderContext, Template};
use harn_value::{Dict, Value};

use crate::rng::Rng;
use crate::{documents, files, generate, machine, reference, replies, values};

/// A part of Harn that processes external input.
pub(crate) struct Target {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Directory in `fuzz/corpus` with its inputs.
    pub(crate) corpus: &'static str,
    /// Extension of additional files that are used as inputs.
    pub(crate) extension: &'static str,
    /// Generates a well-formed input.
    pub(crate) generate: fn(&mut Rng) -> Vec<u8>,
    /// Panics if a property does not hold.
    pub(crate) check: fn(&[u8]),
}

/// All targets.
pub(crate) static TARGETS: &[Target] = &[
    Target { name: "lexer", corpus: "program", extension: ".harn", generate: program, check: check_lexer },
    Target { name: "parser", corpus: "program", extension: ".harn", generate: program, check: check_parser },
    Target { name: "format", corpus: "program", extension: ".harn", generate: program, check: check_format },
    Target {
        name: "template",
        corpus: "template",
        extension: ".harn.prompt",
        generate: template,
        check: check_template,
    },
    Target { name: "vm", corpus: "program", extension: ".harn", generate: program, check: machine::check },
    Target {
        name: "blocks",
        corpus: "program",
        extension: ".harn",
        generate: program,
        check: machine::check_blocks,
    },
    Target {
        name: "reference",
        corpus: "reference",
        extension: ".harn",
        generate: reference::generate,
        check: reference::check,
    },
    Target {
        name: "sse",
        corpus: "sse",
        extension: ".txt",
        generate: replies::generate_sse,
        check: replies::check_sse,
    },
    Target {
        name: "stream",
        corpus: "stream",
        extension: ".txt",
        generate: replies::generate_stream,
        check: replies::check_stream,
    },
    Target {
        name: "json",
        corpus: "json",
        extension: ".txt",
        generate: replies::generate_json,
        check: replies::check_json,
    },
    Target {
        name: "tagged",
        corpus: "tagged",
        extension: ".txt",
        generate: replies::generate_tagged,
        check: replies::check_tagged,
    },
    Target {
        name: "manifest",
        corpus: "manifest",
        extension: ".toml",
        generate: documents::generate_manifest,
        check: documents::check_manifest,
    },
    Target {
        name: "transcript",
        corpus: "transcript",
        extension: ".json",
        generate: documents::generate_transcript,
        check: documents::check_transcript,
    },
    Target {
        name: "values",
        corpus: "values",
        extension: ".harn.prompt",
        generate: values::generate,
        check: values::check,
    },
    Target {
        name: "files",
        corpus: "files",
        extension: ".txt",
        generate: files::generate,
        check: files::check,
    },
];

fn program(rng: &mut Rng) -> Vec<u8> {
    generate::program(rng).into_bytes()
}

fn template(rng: &mut Rng) -> Vec<u8> {
    generate::template(rng).into_bytes()
}

/// The lexer accounts for every byte: tokens are in order and on character boundaries, and between them there is
/// only whitespace, comments, or source text with a reported error.
fn check_lexer(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let lexed = lex(&text);
    let mut end = 0;
    for token in &lexed.tokens {
        let (from, to) = (token.span.start as usize, token.span.end as usize);
        if token.kind == TokenKind::Eof {
            // The end of the file is reported at the end of the last line with content, not after blank lines.
            assert!(to <= text.len(), "the end of the file lies beyond it");
            break;
        }
        assert!(from >= end && to >= from, "tokens overlap at {from}");
        assert!(
            text.is_char_boundary(from) && text.is_char_boundary(to),
            "a token splits a character at {from}"
        );
        if lexed.errors.is_empty() {
            assert_trivia(&text[end..from], end, &lexed);
        }
        end = to;
    }
    if !lexed.aborted {
        assert_eq!(lexed.tokens.last().map(|t| t.kind), Some(TokenKind::Eof), "no end of file");
    }
    for error in &lexed.errors {
        assert!(error.span.end as usize <= text.len(), "an error beyond the text");
    }
}

/// Asserts that there is only whitespace, a line joined by `\`, a comment or the first line between two tokens.
fn assert_trivia(gap: &str, at: usize, lexed: &harn_syntax::lexer::Lexed) {
    let inside = |offset: usize| {
        let offset = offset as u32;
        lexed.comments.iter().map(|c| c.span).chain(lexed.shebang).any(|span| span.contains(offset))
    };
    for (i, c) in gap.char_indices() {
        let blank = matches!(c, ' ' | '\t' | '\r' | '\n' | '\\' | '\u{FEFF}');
        assert!(blank || inside(at + i), "the lexer dropped {c:?} at {}", at + i);
    }
}

/// The parser reports every error with a message and a location inside the file, and an additional comment between
/// two tokens does not change the tree.
fn check_parser(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let parsed = parse(&text);
    let file = SourceFile::new("fuzz.harn", &*text);
    for error in parsed.errors.iter().take(20) {
        assert!(error.span.end as usize <= text.len(), "an error beyond the text");
        assert!(!error.canonical(&text).is_empty(), "an error without a text");
        let drawn = error.diagnostic(&text).render(&file, false);
        assert!(drawn.contains("--> fuzz.harn:"), "an error without a place: {drawn}");
    }
    if parsed.errors.is_empty() {
        let spread = with_comments(&text);
        let again = parse(&spread);
        assert!(again.errors.is_empty(), "comments break the text: {}", again.errors[0].canonical(&spread));
        let (first, second) = (without_spans(&parsed.program.items), without_spans(&again.program.items));
        assert!(first == second, "comments change the tree:\n{first}\n{second}");
    }
}

/// A formatted program has the same tokens and comments (the formatter verifies this and otherwise rejects it), and
/// a second pass does not change it.
fn check_format(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let options = harn_fmt::Options::default();
    let first = match harn_fmt::format(&text, &options) {
        Err(harn_fmt::Refusal::Syntax(_)) => return,
        Err(other) => panic!("{other}"),
        Ok(first) => first,
    };
    match harn_fmt::format(&first, &options) {
        Ok(second) => assert!(first == second, "a second pass changes the text:\n{first}\n---\n{second}"),
        Err(other) => panic!("the second pass: {other}\n{first}"),
    }
}

/// Inserts a comment before every token that is preceded by whitespace.
fn with_comments(text: &str) -> String {
    let lexed = lex(text);
    let mut out = String::with_capacity(text.len() * 2);
    let mut end = 0;
    for token in
        lexed.tokens.iter().filter(|t| t.spaced && t.kind != TokenKind::Newline && t.kind != TokenKind::Eof)
    {
        let at = token.span.start as usize;
        out.push_str(&text[end..at]);
        out.push_str("/* c */ ");
        end = at;
    }
    out.push_str(&text[end..]);
    out
}

/// Formats the tree without spans, which are written as `12..15` in the debug form.
fn without_spans(tree: &impl std::fmt::Debug) -> String {
    let text = format!("{tree:?}");
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find("..") {
        let head = rest[..at].trim_end_matches(|c: char| c.is_ascii_digit());
        let tail = rest[at + 2..].trim_start_matches(|c: char| c.is_ascii_digit());
        out.push_str(head);
        out.push('@');
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// A template parses or is rejected with a location, and renders the same output twice.
fn check_template(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let template = match Template::inline(&text) {
        Ok(template) => template,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "an error without a text");
            return;
        }
    };
    let items = || Value::from(vec![Value::from(1_i64), Value::str("two"), Value::NIL]);
    let bindings = || -> Dict {
        [
            ("name", Value::str("Ada")),
            ("n", Value::from(3_i64)),
            ("xs", items()),
            ("user", Value::dict([("tags", items())].into_iter().collect::<Dict>())),
        ]
        .into_iter()
        .collect()
    };
    let context = RenderContext { max_output: 1 << 20, ..RenderContext::default() };
    let render = || template.render(&Value::dict(bindings()), &context).map_err(|e| e.to_string());
    assert_eq!(render(), render(), "two renderings differ");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_programs_parse() {
        for index in 0..1500 {
            let text = generate::program(&mut Rng::new(7, index));
            let parsed = parse(&text);
            if let Some(error) = parsed.errors.first() {
                panic!("{}\n{text}", error.canonical(&text));
            }
        }
    }

    #[test]
    fn spans_are_taken_out() {
        assert_eq!(without_spans(&(1_usize..25_usize, "a")), "(@, \"a\")");
    }

    #[test]
    fn kept_inputs_hold() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
        for target in TARGETS.iter().filter(|t| !["vm", "blocks", "reference"].contains(&t.name)) {
            for input in crate::corpus::read(&root, target.corpus, target.extension) {
                (target.check)(&input);
            }
        }
    }
}
