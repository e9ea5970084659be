//! The parts of statements with errors that the tree retains, for editors.

use harn_syntax::{parse, parse_for_tools};

use crate::common::sexpr;

/// Returns the compact form of the tree of an invalid source.
fn kept(source: &str) -> String {
    let parsed = parse_for_tools(source);
    assert!(!parsed.errors.is_empty(), "there is an error in {source:?}");
    assert_eq!(parsed.errors, parse(source).errors, "the errors are those of every parse: {source:?}");
    parsed.program.items.iter().map(sexpr::stmt).collect::<Vec<_>>().join("; ")
}

/// Asserts that the tree of an invalid source contains all of these parts.
fn keeps(source: &str, parts: &[&str]) {
    let tree = kept(source);
    for part in parts {
        assert!(tree.contains(part), "{part:?} of {source:?} is lost: {tree}");
    }
}

#[test]
fn the_receiver_of_a_missing_member_stays() {
    keeps("let user = f()\nlet b = user.\nlet c = 1\n", &["user", "c"]);
    keeps("fn g() {\n  user.\n}\nlet c = 1\n", &["g", "user", "c"]);
    keeps("fn g(a) {\n  let b = a.name.\n", &["g", "name", "b"]);
}

#[test]
fn calls_and_literals_that_are_not_closed_stay() {
    keeps("let x = f(a, \nlet y = 2\n", &["f", "a", "y"]);
    keeps("let x = [1, a.\nlet y = 2\n", &["a", "y"]);
    keeps("let x = {key: value, \nlet y = 2\n", &["key", "value", "y"]);
    keeps("println(\"a ${b.\")\nlet y = 2\n", &["y"]);
}

#[test]
fn what_stands_before_the_error_stays() {
    keeps("fn g(a: ) { let b = a }\n", &["g", "b"]);
    keeps("let x =\nlet y = 2\n", &["x", "y"]);
    keeps("if a { let b = 1 } else\n", &["a", "b"]);
    keeps("match v { 1 -> { let b = 1 }\n 2 ->", &["v", "b"]);
    keeps("import { a, b } from\nlet y = 1\n", &["y"]);
    keeps("for x in\nlet y = 1\n", &["x", "y"]);
    keeps("struct P { a: int, b: }\nlet y = 1\n", &["P", "y"]);
}

#[test]
fn a_text_without_errors_has_one_tree() {
    let source = "fn f(a) { return a.b(1) }\nlet x = f({a: [1, 2]})\n";
    assert_eq!(parse(source).program, parse_for_tools(source).program);
}

#[test]
fn every_beginning_of_a_program_is_parsed() {
    let source = include_str!("../../../examples/errors_and_retries.harn");
    let source = if source.len() > 4000 { &source[..4000] } else { source };
    for (end, _) in source.char_indices() {
        let text = &source[..end];
        let parsed = parse_for_tools(text);
        assert_eq!(parsed.errors, parse(text).errors, "at {end}");
        for item in &parsed.program.items {
            assert!(item.span.end as usize <= text.len() && item.span.start <= item.span.end, "at {end}");
        }
    }
}

#[test]
fn open_brackets_do_not_take_long() {
    for open in ["{", "(", "[", "f(", "fn f() {", "if a {", "a.b(", "{a: "] {
        let text = open.repeat(200);
        assert_eq!(parse_for_tools(&text).errors, parse(&text).errors);
    }
}

/// Every construct with brackets, truncated after every two tokens: where missing tokens are treated as present,
/// every loop iteration must still consume a token.
#[test]
fn nothing_is_read_for_ever() {
    let heads = [
        "select {",
        "match v {",
        "struct S {",
        "enum E {",
        "enum E { A(",
        "interface I {",
        "impl S {",
        "tool t(",
        "tool t(a) {",
        "skill s {",
        "eval_pack e {",
        "import {",
        "f(",
        "[",
        "{",
        "{a: 1,",
        "{ x ->",
        "let {",
        "let [",
        "let (",
        "fn f(",
        "fn f<",
        "fn f<T>(x) where",
        "let x: list<",
        "let x: {",
        "@a(",
        "\"${",
        "try { } catch (",
        "parallel each xs with {",
        "if a { } else",
        "type T =",
        "x.y(",
        "for (",
        "S {",
        "pipeline p(",
    ];
    let tokens = [
        "x", "1", "\"s\"", "(", ")", "[", "]", "{", "}", "->", ",", ":", ";", "\n", "|", "=", "+", "?", ".",
        "...", "<", ">", "@", "from", "timeout", "default", "case", "let", "fn", "if", "match", "select",
        "to", "not", "in",
    ];
    for head in heads {
        for first in tokens {
            for second in tokens {
                let text = format!("{head} {first} {second}");
                assert_eq!(parse_for_tools(&text).errors, parse(&text).errors, "{text}");
            }
        }
    }
}
