//! Lexical rules: the tokens of a source.

use harn_syntax::lexer::{Lexed, lex};
use harn_syntax::token::{CommentKind, TokenKind};
use harn_syntax::{MAX_ERRORS, SyntaxErrorKind};

/// Returns the kinds of all tokens except the final `Eof`.
fn kinds(source: &str) -> Vec<TokenKind> {
    let lexed = clean(source);
    lexed.tokens[..lexed.tokens.len() - 1].iter().map(|token| token.kind).collect()
}

fn clean(source: &str) -> Lexed {
    let lexed = lex(source);
    assert_eq!(lexed.errors, [], "{source}");
    lexed
}

fn errors(source: &str) -> Vec<String> {
    lex(source).errors.iter().map(|error| error.canonical(source)).collect()
}

/// Returns the resolved contents of all string tokens.
fn texts(source: &str) -> Vec<String> {
    let lexed = clean(source);
    let strings =
        lexed.tokens.iter().filter(|token| matches!(token.kind, TokenKind::Str | TokenKind::StrText));
    strings
        .map(|token| match token.link {
            0 => token.span.slice(source).trim_matches('"').to_owned(),
            link => lexed.texts[link as usize - 1].to_string(),
        })
        .collect()
}

#[test]
fn all_46_words_are_reserved() {
    let words = "break catch continue deadline defer else emit enum eval_pack exclusive extends false finally fn for \
                 from guard if impl import in interface let match mutex nil override parallel pipeline pub require \
                 retry return select skill spawn struct throw to tool true try type var while yield";
    let kinds = kinds(words);
    assert_eq!(kinds.len(), 46);
    for (kind, word) in kinds.iter().zip(words.split(' ')) {
        assert!(kind.is_keyword(), "{word}");
        assert_eq!(kind.text(), word);
    }
}

#[test]
fn contextual_words_are_names() {
    let words =
        "gen each settle with as stream timeout default not where out description summarize self await Ok";
    assert!(kinds(words).iter().all(|kind| *kind == TokenKind::Ident));
}

#[test]
fn names_take_letters_of_all_languages() {
    assert_eq!(kinds("été _x ünï2 letü 変数"), [TokenKind::Ident; 5]);
}

#[test]
fn numbers() {
    use TokenKind::*;
    assert_eq!(kinds("0 007 1_000 0x1F 0o17 0b101"), [Int; 6]);
    assert_eq!(kinds("1.5 1e5 2.5e-3 1_0.0_1"), [Float; 4]);
    assert_eq!(kinds("5ms 5s 5m 5h 5d 5w 1_000ms"), [Duration; 7]);
    assert_eq!(kinds("5.name"), [Int, Dot, Ident]);
    assert_eq!(kinds("5."), [Int, Dot]);
    assert_eq!(kinds(".5"), [Dot, Int]);
    assert_eq!(kinds("1...2"), [Int, Ellipsis, Int]);
}

#[test]
fn a_number_never_runs_into_a_name() {
    assert_eq!(errors("12abc"), ["Unexpected character 'a' at 1:3"]);
    assert_eq!(errors("5sec"), ["Unexpected character 's' at 1:2"]);
    assert_eq!(errors("1_"), ["Unexpected character '_' at 1:2"]);
    assert_eq!(errors("0xZZ"), ["Unexpected character 'x' at 1:2"]);
    assert_eq!(errors("1.5s"), ["Unexpected character 's' at 1:4"]);
    assert_eq!(errors("5mé"), ["Unexpected character 'm' at 1:2"]);
    assert_eq!(lex("12abc").tokens.len(), 2, "one token and the end");
}

#[test]
fn operators_are_the_longest_match() {
    use TokenKind::*;
    assert_eq!(
        kinds("== != && || |> ?? ** ?. -> <= >= += -= *= /= %= ..."),
        [
            EqEq,
            NotEq,
            AndAnd,
            OrOr,
            PipeGt,
            QuestionQuestion,
            StarStar,
            QuestionDot,
            Arrow,
            LtEq,
            GtEq,
            PlusEq,
            MinusEq,
            StarEq,
            SlashEq,
            PercentEq,
            Ellipsis
        ]
    );
    assert_eq!(kinds("***"), [StarStar, Star]);
    assert_eq!(kinds("list<list<int>>"), [Ident, Lt, Ident, Lt, Ident, Gt, Gt]);
}

#[test]
fn comments_nest_and_are_kept() {
    let source = "a /* x /* y */ z */ b // c\n/// doc\n//// no doc\n/** doc */ /*** no */ /**/";
    let lexed = clean(source);
    let kinds: Vec<_> = lexed.comments.iter().map(|comment| comment.kind).collect();
    use CommentKind::*;
    assert_eq!(kinds, [Block, Line, DocLine, Line, DocBlock, Block, Block]);
    assert_eq!(lexed.comments[0].span.slice(source), "/* x /* y */ z */");
    assert_eq!(lexed.comments[2].span.slice(source), "/// doc");
}

#[test]
fn a_block_comment_over_lines_is_no_newline() {
    assert_eq!(kinds("a /* \n\n */ b"), [TokenKind::Ident; 2]);
}

#[test]
fn an_unclosed_block_comment_names_its_opening() {
    assert_eq!(errors("a\n  /* b /* c */"), ["Unterminated block comment at 2:3"]);
}

#[test]
fn a_shebang_is_skipped_only_at_the_start() {
    let lexed = clean("#!/usr/bin/env harn\nx");
    assert_eq!(lexed.shebang.map(|span| (span.start, span.end)), Some((0, 19)));
    assert_eq!(errors(" #!x"), ["Unexpected character '#' at 1:2"]);
}

#[test]
fn a_backslash_joins_lines() {
    assert_eq!(kinds("a \\\n b \\\r\n c"), [TokenKind::Ident; 3]);
    assert_eq!(errors("a \\ b"), ["Unexpected character '\\' at 1:3"]);
}

#[test]
fn escapes() {
    assert_eq!(texts(r#""a\n\t\\\"\$\r\0\u{1F600}""#), ["a\n\t\\\"$\r\0\u{1F600}"]);
    assert_eq!(texts(r#""\d+\s""#), ["\\d+\\s"]);
    assert_eq!(texts(r#""\users \u{zz} \u{}""#), ["\\users \\u{zz} \\u{}"]);
    assert_eq!(texts(r#""\${a} $5 $""#), ["${a} $5 $"]);
    assert_eq!(errors(r#""\u{D800}""#), ["invalid Unicode escape: no such character at 1:2"]);
}

#[test]
fn interpolation_is_a_flat_list() {
    use TokenKind::*;
    assert_eq!(
        kinds(r#""a${x}b${ {k: "}"} /* } */ }""#),
        [
            StrStart,
            StrText,
            InterpStart,
            Ident,
            InterpEnd,
            StrText,
            InterpStart,
            LBrace,
            Ident,
            Colon,
            Str,
            RBrace,
            InterpEnd,
            StrEnd
        ]
    );
    assert_eq!(
        kinds(r#""${"${"${x}"}"}""#).iter().filter(|kind| **kind == InterpStart).count(),
        3,
        "strings nest without limit but the nesting limit"
    );
}

#[test]
fn interpolations_may_span_lines_but_strings_may_not() {
    assert_eq!(errors("\"a${\nx\n}b\""), [] as [&str; 0]);
    assert_eq!(errors("let s = \"abc\nlet t = 1"), ["Unterminated string at 1:9"]);
    assert_eq!(errors("let s = r\"abc"), ["Unterminated string at 1:9"]);
    assert_eq!(errors("\"a\\\nb"), ["Unterminated string at 1:1"]);
}

#[test]
fn an_unclosed_string_is_reported_once_where_it_begins() {
    assert_eq!(errors("println(\"a ${x\")\ny"), ["Unterminated string at 1:9"]);
    assert_eq!(errors("\"a ${x"), ["Unterminated string at 1:1"]);
    assert_eq!(errors("\"\"\"a\nb"), ["Unterminated string at 1:1"]);
    assert_eq!(errors("\"\"\"\n${f(\"abc)}\n\"\"\""), ["Unterminated string at 2:5"]);
}

#[test]
fn an_empty_interpolation_is_an_error() {
    assert_eq!(errors("\"a${}\""), ["Unexpected character '}' at 1:5"]);
    assert_eq!(errors("\"a${ \n }\""), ["Unexpected character '}' at 2:2"]);
}

#[test]
fn raw_strings_have_no_escapes() {
    use TokenKind::*;
    assert_eq!(kinds(r#"r"\d${x}""#), [RawStr]);
    assert_eq!(kinds("r + rx"), [Ident, Plus, Ident]);
}

#[test]
fn triple_quoted_strings_lose_their_indentation() {
    assert_eq!(texts("\"\"\"\n    a\n      b\n\n    c\n    \"\"\""), ["a\n  b\n\nc"]);
    assert_eq!(texts("\"\"\"   a\"\"\""), ["a"]);
    assert_eq!(texts("\"\"\"\n\n  a\n\n\"\"\""), ["\na\n"]);
    assert_eq!(texts("\"\"\"a \"quoted\" and \"\" \\n\"\"\""), ["a \"quoted\" and \"\" \\n"]);
    assert_eq!(texts("\"\"\"\n  a\r\n  b\r\n  \"\"\""), ["a\nb"]);
    assert_eq!(texts("\"\"\"\"\"\""), [""]);
}

#[test]
fn indentation_is_found_before_interpolation() {
    assert_eq!(texts("\"\"\"\n    Dear ${who},\n      x\n    ${a}\n    \"\"\""), ["Dear ", ",\n  x\n", ""]);
    assert_eq!(texts("\"\"\"\n  ${a}\n    b\n\"\"\""), ["", "\n  b"]);
    assert_eq!(texts("\"\"\"${\n x\n}\n    b\"\"\""), ["\n    b"]);
}

#[test]
fn columns_count_characters() {
    assert_eq!(errors("let é = \"日本\" ~"), ["Unexpected character '~' at 1:14"]);
}

#[test]
fn hostile_texts_cost_little() {
    for text in ["[", "(", "{", "\"${", "{ x -> "] {
        let lexed = lex(&text.repeat(1_000_000));
        assert!(lexed.aborted);
        assert_eq!(lexed.errors.len(), 1);
        assert_eq!(lexed.errors[0].kind, SyntaxErrorKind::NestingTooDeep);
        assert!(lexed.tokens.len() < 2000);
    }
    assert_eq!(lex(&"~".repeat(1_000_000)).errors.len(), MAX_ERRORS);
}
