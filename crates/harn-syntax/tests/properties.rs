//! Properties that hold for every source.

use harn_syntax::ast::{Expr, ExprKind, Program, StmtKind};
use harn_syntax::lexer::lex;
use harn_syntax::{SourceFile, Span, parse, parse_for_tools};
use proptest::prelude::*;

/// Fragments of programs; random sequences produce nearly valid and entirely invalid ones.
const SOUP: &[&str] = &[
    "let",
    "var",
    "x",
    "Y",
    "=",
    "1",
    "2.5",
    "5ms",
    "\"s\"",
    "\"a${",
    "}\"",
    "\"\"\"\n  t\n",
    "\"\"\"",
    "r\"q\"",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "->",
    ",",
    ":",
    ";",
    "\n",
    "\n",
    "?",
    "?.",
    "??",
    ".",
    "...",
    "+",
    "-",
    "*",
    "**",
    "/",
    "%",
    "<",
    ">",
    "<=",
    "==",
    "|",
    "||",
    "&&",
    "|>",
    "!",
    "@",
    "fn",
    "gen",
    "if",
    "else",
    "match",
    "for",
    "in",
    "not",
    "while",
    "try",
    "catch",
    "finally",
    "retry",
    "deadline",
    "spawn",
    "parallel",
    "each",
    "with",
    "as",
    "stream",
    "select",
    "from",
    "timeout",
    "default",
    "return",
    "yield",
    "emit",
    "throw",
    "tool",
    "skill",
    "description",
    "eval_pack",
    "enum",
    "struct",
    "type",
    "interface",
    "impl",
    "pipeline",
    "extends",
    "pub",
    "import",
    "where",
    "to",
    "exclusive",
    "guard",
    "require",
    "defer",
    "mutex",
    "override",
    "nil",
    "true",
    "_",
    "// c\n",
    "/* c */",
    "/*",
    "\\\n",
    "é",
    "$",
    "#",
    "\"",
];

fn soup() -> impl Strategy<Value = String> {
    let piece = (0..SOUP.len(), any::<bool>())
        .prop_map(|(at, blank)| if blank { format!("{} ", SOUP[at]) } else { SOUP[at].to_owned() });
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// Generates small valid programs.
fn valid() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("x".to_owned()),
        Just("1".to_owned()),
        Just("\"s${y}\"".to_owned()),
        Just("nil".to_owned()),
        Just("{}".to_owned()),
        Just("Point {x: 1}".to_owned()),
    ];
    let expr = leaf.prop_recursive(6, 40, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone(), 0..10_usize).prop_map(|(a, b, op)| {
                let op = ["+", "-", "**", "??", "==", "<=", "&&", "||", "in", "not in"][op];
                format!("{a} {op} {b}")
            }),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("f({a}, ...{b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}\n{b}]")),
            inner.clone().prop_map(|a| format!("{{k: {a}}}")),
            inner.clone().prop_map(|a| format!("{{ p -> {a} }}")),
            inner.clone().prop_map(|a| format!("({a}).m[0]?[1]")),
            inner.clone().prop_map(|a| format!("if {a} {{ {a} }} else {{ 2 }}")),
            (inner.clone(), inner)
                .prop_map(|(a, b)| format!("match {a} {{ 1 | 2 -> {{ {b} }} _ -> {{ }} }}")),
        ]
    });
    proptest::collection::vec(expr, 1..5)
        .prop_map(|exprs| exprs.iter().map(|expr| format!("let v = {expr}\n")).collect())
}

fn check(source: &str) -> Result<Program, TestCaseError> {
    let parsed = parse(source);
    let file = SourceFile::new("t.harn", source);
    for error in &parsed.errors {
        check_span(source, error.span)?;
        prop_assert!(!error.canonical(source).is_empty());
        let diagnostic = error.diagnostic(source);
        prop_assert!(diagnostic.render(&file, true).ends_with('\n'));
        prop_assert!(diagnostic.to_json(&file)["message"].is_string());
    }
    for comment in &parsed.program.comments {
        check_span(source, comment.span)?;
    }
    // The debug form of the tree contains every span; they are parsed from it.
    let dump = format!("{:?}", parsed.program.items);
    for part in dump.split("span: ").skip(1) {
        let digits = part.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or("");
        let Some((start, end)) = digits.split_once("..") else { continue };
        let parse = |text: &str| text.parse().map_err(|_| TestCaseError::fail(format!("no span: {part}")));
        check_span(source, Span::new(parse(start)?, parse(end)?))?;
    }
    Ok(parsed.program)
}

fn check_span(source: &str, span: Span) -> Result<(), TestCaseError> {
    prop_assert!(span.start <= span.end, "{span:?}");
    prop_assert!(source.get(span.range()).is_some(), "{span:?} is not in the source");
    Ok(())
}

/// Returns whether a program contains a placeholder for an error.
fn has_hole(program: &Program) -> bool {
    format!("{:?}", program.items).contains("kind: Error")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_never_panics(source in "\\PC{0,80}") {
        check(&source)?;
    }

    #[test]
    fn arbitrary_bytes_never_panic(source in "[ -~\n\t\r\u{e9}\u{1F600}]{0,120}") {
        check(&source)?;
    }

    #[test]
    fn token_soup_never_panics(source in soup()) {
        let program = check(&source)?;
        prop_assert_eq!(parse_for_tools(&source).errors, parse(&source).errors);
        if parse(&source).errors.is_empty() {
            prop_assert!(!has_hole(&program));
        }
    }

    #[test]
    fn tokens_lie_in_order_inside_the_source(source in soup()) {
        let mut last = 0;
        let mut tokens = lex(&source).tokens;
        // The end of the file is located after the last token other than a newline.
        tokens.pop();
        for token in tokens {
            check_span(&source, token.span)?;
            prop_assert!(token.span.start >= last, "{token:?} overlaps the one before");
            last = token.span.end;
        }
    }

    #[test]
    fn correct_programs_have_no_errors(source in valid()) {
        let parsed = parse(&source);
        prop_assert_eq!(&parsed.errors, &[], "{}", source);
        let only_lets = parsed.program.items.iter().all(|item| matches!(item.kind, StmtKind::Let { .. }));
        prop_assert!(only_lets);
        check(&source)?;
    }

    #[test]
    fn a_cut_program_never_panics(source in valid(), cut in 0.0..1.0_f64) {
        let mut at = (source.len() as f64 * cut) as usize;
        while !source.is_char_boundary(at) {
            at -= 1;
        }
        check(&source[..at])?;
    }

    #[test]
    fn crlf_makes_the_same_tree_shape(source in valid()) {
        let crlf = source.replace('\n', "\r\n");
        prop_assert_eq!(parse(&crlf).errors, []);
        prop_assert_eq!(parse(&crlf).program.items.len(), parse(&source).program.items.len());
    }
}

#[test]
fn nodes_stay_small() {
    assert!(size_of::<Expr>() <= 88, "{}", size_of::<Expr>());
    assert!(size_of::<ExprKind>() <= 80, "{}", size_of::<ExprKind>());
    assert_eq!(size_of::<harn_syntax::token::Token>(), 16);
    assert_eq!(size_of::<Span>(), 8);
}
