//! Habits from other languages: the help line shows the Harn equivalent.
/// Returns the help lines of all errors in a source.
fn help(text: &str) -> Vec<String> {
    harn_syntax::parse(text).errors.iter().filter_map(|error| error.diagnostic(text).help).collect()
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

#[test]
fn names_in_braces_and_fields_of_tools() {
    for (text, expected) in [
        (
            "import { x y } from \"z\"",
            "names in braces need commas between them: `import { x, y } from \"z\"`",
        ),
        ("let {a b c} = d", "names in braces need commas between them: `let {a, b, c} = d`"),
        ("import { x as y } from \"z\"", "imported names cannot be renamed: `import { x } from \"z\"`"),
        ("tool t(x) {\n  descripton \"a\"\n}", "did you mean `description`?"),
        (
            "tool t(x) {\n  description: \"a\"\n}",
            "tool fields have no `:`: write the name, a space and the value",
        ),
    ] {
        assert_eq!(help(text), [expected], "{text}");
    }
}

#[test]
fn statements_in_braces_where_a_value_stands() {
    for text in [
        "let a = {task: { sleep(1h) }}",
        "f({ foo() })",
        "let a = {\n  task: {\n    try { 1 }\n  }\n}",
        "let a = [{ xs.map(f) }]",
        "xs.map({ if x { 1 } })",
        "let f = { return 1 }",
    ] {
        let told = help(text);
        let expected = Some("write a closure without parameters as `{ -> ... }`");
        assert_eq!(told.first().map(String::as_str), expected, "{text}");
    }
    // These are dicts.
    assert_eq!(help("let d = { a = 1 }"), ["write dict entries as `key: value`: `let d = { a: 1 }`"]);
    assert_eq!(
        help("let h = spawn({ return 1 })").first().map(String::as_str),
        Some("a block follows `spawn`: `spawn { ... }`")
    );
}

#[test]
fn a_line_is_read_with_the_beginning_of_its_block() {
    for (text, expected) in [
        (
            "fn f(x) {\n  let y = match x {\n    1 => \"one\",\n    _ => \"other\"\n  }\n}",
            "write an arm as `pattern -> { ... }`; the arms of `match` have no commas: `match x { 1 -> { \"one\" }`",
        ),
        (
            "pub struct P {\n  a: int\n  x: int = 0\n}",
            "fields have no defaults: mark an optional field with `?`, or create the struct in a function: `struct P { x?: int`",
        ),
    ] {
        assert_eq!(help(text).first().map(String::as_str), Some(expected), "{text}");
    }
    // In other contexts the same lines have their ordinary meaning.
    assert!(help("fn f() {\n  x: int = 0\n}")[0].contains("`let x: int = 0`"));
    assert!(help("xs.map(\n  x => x + 1\n)")[0].contains("`{ x -> x + 1 }`"));
}

/// Lines in other languages with the reported message and help. Review the snapshot from the perspective of a new
/// user.
#[test]
fn foreign_lines_and_their_answers() {
    let (mut told, mut rows, mut answered) = (String::new(), 0, 0);
    for line in include_str!("foreign_lines.txt").lines() {
        let Some(error) = harn_syntax::parse(line).errors.into_iter().next() else { continue };
        let diagnostic = error.diagnostic(line);
        rows += 1;
        answered += usize::from(diagnostic.help.is_some());
        told.push_str(&format!("{line}\n    {}\n", diagnostic.message));
        for (span, label) in diagnostic.labels.iter().skip(1) {
            told.push_str(&format!("    {}..{}: {label}\n", span.start, span.end));
        }
        told.push_str(&format!("    = {}\n\n", diagnostic.help.as_deref().unwrap_or("(nothing)")));
    }
    assert!(rows >= 150 && answered * 10 >= rows * 9, "{answered} of {rows} lines are answered");
    insta::assert_snapshot!(told);
}

/// Returns the message and the help for a line of another language: from the parser, or about a name of another
/// language.
fn told(line: &str) -> (String, Option<String>) {
    if let Some(error) = harn_syntax::parse(line).errors.into_iter().next() {
        let diagnostic = error.diagnostic(line);
        return (diagnostic.message, diagnostic.help);
    }
    let names = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    let advice = names.filter_map(harn_syntax::habits::name_advice).next();
    ("(it parses)".to_owned(), advice.map(str::to_owned))
}

/// Five programs by users of other languages, with one mistake per line: at least nine of ten messages name the
/// fix.
#[test]
fn programs_of_strangers_are_answered() {
    let programs = [
        ("Python", include_str!("strangers/python.txt")),
        ("JavaScript", include_str!("strangers/javascript.txt")),
        ("Go", include_str!("strangers/go.txt")),
        ("Rust", include_str!("strangers/rust.txt")),
        ("shell", include_str!("strangers/shell.txt")),
    ];
    let mut shown = String::new();
    for (language, program) in programs {
        let (mut lines, mut answered) = (0, 0);
        shown.push_str(&format!("== {language}\n\n"));
        for line in program.lines() {
            let (message, help) = told(line);
            lines += 1;
            answered += usize::from(help.is_some());
            shown.push_str(&format!(
                "{line}\n    {message}\n    = {}\n\n",
                help.as_deref().unwrap_or("(nothing)")
            ));
        }
        assert!(
            lines >= 25 && answered * 10 >= lines * 9,
            "{language}: {answered} of {lines} lines are answered\n{shown}"
        );
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn errors_of_running_programs_have_a_way_out() {
    let way = |text: &str, place: &str| harn_syntax::habits::failed(text, place).unwrap_or_default();
    assert_eq!(way("cannot iterate over int", "10"), "iterate over a range: `for i in 1 to 10`");
    assert_eq!(way("cannot iterate over int", &"x".repeat(50)), "iterate over a range: `for i in 1 to n`");
    assert!(way("cannot order list and list", "sort_by").contains("`sort_by` twice, the last key first"));
    assert!(
        way("exec: arguments must be text or dict, got list", "exec").contains("`exec(\"ls\", \"-la\")`")
    );
    assert!(
        way("exec_at: arguments must be text or dict, got list", "exec_at")
            .contains("`exec_at(dir, \"ls\", ")
    );
    assert!(way("P: expected a dict of fields, got int", "P(1, 2)").ends_with("`P {field: value}`"));
    assert_eq!(way("cannot iterate over bool", "true"), "");
}
