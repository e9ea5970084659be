//! Habits of other languages: the help line says what Harn writes instead.
/// The help lines of all errors in a text.
fn help(text: &str) -> Vec<String> {
    harn_syntax::parse(text).errors.iter().filter_map(|error| error.diagnostic(text).help).collect()
}

#[test]
fn each_habit_has_its_advice() {
    let habits = [
        ("let mut x = 1", "`var`"),
        ("const x = 1", "`let`"),
        ("if a and b { }", "`&&`"),
        ("if a or b { }", "`||`"),
        ("if not a { }", "`!`"),
        ("def f(x) { return x }", "`fn`"),
        ("function f(x) { return x }", "`fn`"),
        ("async fn f() { }", "spawn"),
        ("if a { } elif b { }", "`else if`"),
        ("if a { } elseif b { }", "`else if`"),
        ("class A { }", "`struct Name"),
        ("switch x { }", "`match"),
        ("unless x { }", "`if !condition"),
        ("while (true) do { }", "without `do`"),
        ("export fn f() { }", "`pub`"),
        ("raise \"x\"", "`throw`"),
        ("try { } except { }", "`catch`"),
        ("from \"std/json\" import x", "`import { name } from"),
        ("import json", "the path of an import is text"),
        ("var i = 0\ni++", "`x += 1`"),
        ("if a === b { }", "`==`"),
        ("if a !== b { }", "`!=`"),
        ("let f = x => x + 1", "`{ x -> x + 1 }`"),
        ("for (var i = 0; i < 3; i += 1) { }", "without parentheses"),
        ("println('hi')", "double quotes"),
        ("# comment", "`//`"),
        ("let x = 5 – 3", "minus sign"),
    ];
    for (text, expected) in habits {
        let found = help(text);
        assert!(found.first().is_some_and(|help| help.contains(expected)), "{text}: {found:?}");
    }
}

#[test]
fn the_words_are_ordinary_names() {
    let text = "let mut = 1\nlet and = mut\nlet def = and\nfn function(lambda) { return lambda }\nlet const = function(def)";
    assert!(harn_syntax::parse(text).errors.is_empty());
}

#[test]
fn a_missing_comma_is_named() {
    for (text, expected) in [
        ("let d = {a: 1 b: 2}", "put a `,` before this entry, or add a closing `}`"),
        ("let d = [1 2]", "put a `,` before this entry, or add a closing `]`"),
        ("f(a b)", "put a `,` before this entry, or add a closing `)`"),
        ("f(a", "add a closing `)` to finish this expression or parameter list"),
    ] {
        assert_eq!(help(text), [expected], "{text}");
    }
}
