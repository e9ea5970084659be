//! Features within one file: completion, hover, signatures, symbols, semantic tokens, diagnostics.

use serde_json::{Value, json};

use super::client::{Client, applied, check_places};

/// A program with `$0`, the completions that must be offered there, and those that must not.
type Offer = (&'static str, &'static [&'static str], &'static [&'static str]);

const OFFERS: &[Offer] = &[
    // Names.
    ("let user = 1\nlet b = us$0", &["user", "println", "let"], &[]),
    ("fn f(param) {\n  let inner = 1\n  $0\n}\nlet later = 2", &["param", "inner", "f"], &["later"]),
    ("fn f(param) { return 1 }\n$0", &["f"], &["param"]),
    ("for item in [1] {\n  it$0\n}", &["item"], &[]),
    ("let f = { x -> x$0 }", &["x"], &[]),
    ("try { f() } catch (err) {\n  e$0\n}", &["err"], &[]),
    ("match v { Some -> { let q = 1\n q$0 } }", &["q"], &[]),
    ("import \"std/text\"\n$0", &["println"], &[]),
    // Members, including those in an incomplete statement.
    ("let user = {name: \"a\", age: 1}\nlet b = user.$0", &["name", "age"], &["println"]),
    ("let user = {name: \"a\", age: 1}\nlet b = user.$0\nlet c = 1\n", &["name", "age"], &["println"]),
    ("let user = {name: \"a\", age: 1}\nprintln(user.na$0)", &["name"], &[]),
    ("let xs = [1, 2]\nxs.$0", &["map", "filter"], &["trim"]),
    ("\"a b\".$0", &["trim", "split"], &["flat_map"]),
    ("let n = 1.5\nlet s = \"${n}\"\ns.$0", &["trim"], &["flat_map"]),
    ("enum Color { Red, Green(v) }\nlet c = Color.$0", &["Red", "Green"], &["println"]),
    (
        "struct P { x: int, y: int }\nimpl P { fn norm(self) { return 1 } }\nlet p = P {x: 1, y: 2}\np.$0",
        &["x", "y", "norm"],
        &["println"],
    ),
    ("fn f(p: P) { p.$0 }\nstruct P { x: int }", &["x"], &[]),
    ("fn f(s: string) { s.$0 }", &["trim"], &["flat_map"]),
    // Keys.
    ("struct P { x: int, y: int }\nlet p = P {x: 1, $0}", &["y"], &["x", "println"]),
    ("struct P { x: int, y: int }\nlet p = P {$0}", &["x", "y"], &["println"]),
    ("llm_call(\"hi\", nil, {$0})", &["model", "temperature"], &["println"]),
    ("llm_call(\"hi\", nil, {model: \"x\", te$0})", &["temperature"], &["model", "println"]),
    ("llm_call(\"hi\", nil, {model: na$0})", &["nil"], &["temperature"]),
    // Imports.
    ("import \"std/$0\"", &["std/text", "std/math"], &["println"]),
    ("import \"$0", &["std/text"], &["println"]),
    ("import { $0 } from \"std/text\"", &[], &["println"]),
    // Nothing in comments and in strings that are not paths.
    ("// pri$0\nlet a = 1", &[], &["println"]),
    ("let a = \"pri$0\"", &[], &["println"]),
    ("let a = 1 /* pri$0 */", &[], &["println"]),
    // An interpolation contains code.
    ("let abc = 1\nlet a = \"x ${ab$0}\"", &["abc"], &[]),
];

#[test]
fn completion_offers_what_may_stand_there() {
    let mut client = Client::new(&[]);
    for (number, (text, wanted, unwanted)) in OFFERS.iter().enumerate() {
        let name = format!("case{number}.harn");
        let at = client.open(&name, text);
        let offered = client.offers(&name, &at);
        for word in *wanted {
            assert!(offered.iter().any(|name| name == word), "{text}: {word} is missing in {offered:?}");
        }
        for word in *unwanted {
            assert!(!offered.iter().any(|name| name == word), "{text}: {word} is offered");
        }
    }
}

#[test]
fn a_completion_replaces_the_word_that_was_begun() {
    let (mut client, at) = Client::with("let s = \"😀\"; let user_name = 1\nprintln(\"😀\", user_n$0)");
    let items = client.at("textDocument/completion", "main.harn", &at);
    let item = items.as_array().unwrap().iter().find(|item| item["label"] == "user_name").unwrap();
    assert_eq!(item["textEdit"]["range"]["start"], json!({"line": 1, "character": 14}));
    assert_eq!(item["textEdit"]["range"]["end"], at);
}

#[test]
fn what_is_offered_is_explained_on_demand() {
    let (mut client, at) = Client::with("[1].$0");
    let items = client.at("textDocument/completion", "main.harn", &at);
    let item = items.as_array().unwrap().iter().find(|item| item["label"] == "map").unwrap().clone();
    let item = client.ask("completionItem/resolve", item);
    assert!(item["detail"].as_str().unwrap().starts_with("map("), "{item}");
    assert!(!item["documentation"]["value"].as_str().unwrap().is_empty(), "{item}");
    let at = client.open("other.harn", "printl$0");
    let items = client.at("textDocument/completion", "other.harn", &at);
    let item = items.as_array().unwrap().iter().find(|item| item["label"] == "println").unwrap().clone();
    let item = client.ask("completionItem/resolve", item);
    assert!(item["detail"].as_str().unwrap().starts_with("println("), "{item}");
    // Items of the program's own names are not resolved.
    let plain = serde_json::json!({"label": "mine"});
    assert_eq!(client.ask("completionItem/resolve", plain.clone()), plain);
}

/// A program with `$0`, and the expected contents of the hover there; empty for no hover.
const HOVERS: &[(&str, &[&str])] = &[
    ("pri$0ntln(1)", &["```harn\nprintln(", "printed forms"]),
    ("[1].ma$0p({ x -> x })", &["map(", "list"]),
    ("\"a\".tr$0im()", &["trim()"]),
    (
        "// Adds one.\n// Nothing more.\nfn inc(n: int) -> int { return n + 1 }\nin$0c(1)",
        &["fn inc(n: int) -> int\n", "Adds one.\nNothing more."],
    ),
    ("let n = 1.5\nprintln(n$0)", &["let n: float"]),
    ("var names: list<string> = []\nprintln(na$0mes)", &["var names: list<string>"]),
    ("fn f(a: int = 3) { return a$0 }", &["a: int = 3"]),
    ("struct P { x: int }\nlet p: P$0 = P {x: 1}", &["struct P { x: int }"]),
    ("struct P { x: int }\nlet p = P {x: 1}\nprintln(p.x$0)", &["x: int"]),
    ("enum E { A(n: int), B }\nlet e = E.A$0(1)", &["A(n: int)"]),
    ("let d = {key: \"v\"}\nprintln(d.ke$0y)", &["key: string"]),
    ("wh$0ile false { }", &["while"]),
    ("import \"std/te$0xt\"", &["std/text", "embedded"]),
    (
        "tool look(path: string) -> string {\n  description \"Looks\"\n  return path\n}\nlo$0ok(\"a\")",
        &["tool look(path: string) -> string"],
    ),
    ("// pri$0ntln", &[]),
    ("let a = \"pri$0ntln\"", &[]),
    ("$0", &[]),
];

#[test]
fn hover_tells_what_a_name_is() {
    let mut client = Client::new(&[]);
    for (number, (text, wanted)) in HOVERS.iter().enumerate() {
        let name = format!("case{number}.harn");
        let at = client.open(&name, text);
        let answer = client.at("textDocument/hover", &name, &at);
        let told = answer["contents"]["value"].as_str().unwrap_or_default();
        assert_eq!(told.is_empty(), wanted.is_empty(), "{text}: {told}");
        for part in *wanted {
            assert!(told.contains(part), "{text}: {part:?} is missing in {told}");
        }
    }
}

/// A program with `$0`, and the label and active parameter of the expected signature.
const SIGNATURES: &[(&str, &str, u64)] = &[
    ("fn f(a: int, b = 2) { }\nf($0)", "fn f(a: int, b = 2)", 0),
    ("fn f(a: int, b = 2) { }\nf(1, $0", "fn f(a: int, b = 2)", 1),
    ("fn f(a: int, b = 2) { }\nf([1, 2, 3], g(1, 2), $0", "fn f(a: int, b = 2)", 2),
    ("fn f(a: int, b = 2) { }\nf({x: 1, y: $0", "fn f(a: int, b = 2)", 0),
    ("[1].map($0)", "map(", 0),
    ("\"a\".replace(\"a\", $0)", "replace(", 1),
    ("fn f(...all) { }\nf(1, 2, 3, $0)", "fn f(...all)", 0),
    (
        "struct P { x: int }\nimpl P { fn at(self, n: int) { return n } }\nlet p = P {x: 1}\np.at($0)",
        "fn at(self, n: int)",
        0,
    ),
    ("let a = 1\n$0", "", 0),
    ("fn f($0) { }", "", 0),
];

#[test]
fn signatures_help_with_a_call() {
    let mut client = Client::new(&[]);
    for (number, (text, label, parameter)) in SIGNATURES.iter().enumerate() {
        let name = format!("case{number}.harn");
        let at = client.open(&name, text);
        let answer = client.at("textDocument/signatureHelp", &name, &at);
        let shown = answer["signatures"][0]["label"].as_str().unwrap_or_default();
        assert_eq!(shown.is_empty(), label.is_empty(), "{text}: {shown}");
        assert!(shown.starts_with(label), "{text}: {shown}");
        if !label.is_empty() {
            assert_eq!(answer["activeParameter"], *parameter, "{text}");
        }
    }
}

#[test]
fn findings_are_told_as_one_types() {
    let (mut client, _) = Client::with("let a: int = \"text\"\nprintln(a)\n");
    let found = client.findings("main.harn");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        found[0]["message"].as_str().unwrap().lines().next(),
        Some("'a' declared as int, but assigned string")
    );
    assert_eq!(found[0]["severity"], 1);
    let uri = client.uri("main.harn");
    client.tell(
        "textDocument/didChange",
        json!({"textDocument": {"uri": uri, "version": 2}, "contentChanges": [
            {"range": {"start": {"line": 0, "character": 13}, "end": {"line": 0, "character": 19}}, "text": "1"}]}),
    );
    assert_eq!(client.findings("main.harn"), Vec::<Value>::new());
    client.tell(
        "textDocument/didChange",
        json!({"textDocument": {"uri": uri, "version": 3}, "contentChanges": [{"text": "let a = \"😀\" 1\nlet b = (1"}]}),
    );
    let found = client.findings("main.harn");
    assert_eq!(found.len(), 2, "{found:?}");
    check_places("let a = \"😀\" 1\nlet b = (1", &json!(found));
    client.tell("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
    assert_eq!(client.findings("main.harn"), Vec::<Value>::new());
}

#[test]
fn findings_have_mends() {
    let text = "fn f() {\n  let unused = 1\n  return prntln(2)\n}\nf()\n";
    let (mut client, _) = Client::with(text);
    let uri = client.uri("main.harn");
    let everything = json!({"start": {"line": 0, "character": 0}, "end": {"line": 4, "character": 0}});
    let actions = client.ask(
        "textDocument/codeAction",
        json!({"textDocument": {"uri": uri}, "range": everything, "context": {"diagnostics": []}}),
    );
    let actions = actions.as_array().unwrap();
    assert!(!actions.is_empty(), "there is something to fix");
    for action in actions {
        let fixed = applied(text, &action["edit"]["changes"][&uri]);
        assert_ne!(fixed, text, "{action}");
        assert!(harn_syntax::parse(&fixed).errors.is_empty(), "{fixed}");
    }
    let only = client.ask(
        "textDocument/codeAction",
        json!({"textDocument": {"uri": uri}, "range": everything,
            "context": {"diagnostics": [], "only": ["source.fixAll"]}}),
    );
    for action in only.as_array().unwrap() {
        assert_eq!(action["kind"], "source.fixAll.harn");
    }
    let none = client.ask(
        "textDocument/codeAction",
        json!({"textDocument": {"uri": uri}, "range": everything, "context": {"diagnostics": [], "only": ["refactor"]}}),
    );
    assert_eq!(none, json!([]));
}

#[test]
fn a_file_is_formatted_as_on_the_command_line() {
    let text = "import  \"std/math\"\nfn f( a,b ){\n return a+b\n}\n\n\n\nlet  s=\"😀\"\nlet  t=2\n";
    let (mut client, _) = Client::with(text);
    let uri = client.uri("main.harn");
    let options = json!({"tabSize": 2, "insertSpaces": true});
    let edits =
        client.ask("textDocument/formatting", json!({"textDocument": {"uri": uri}, "options": options}));
    let whole = applied(text, &edits);
    assert_eq!(whole, harn_fmt::format(text, &harn_fmt::Options::default()).unwrap());
    // Format only the function.
    let range = json!({"start": {"line": 2, "character": 0}, "end": {"line": 2, "character": 4}});
    let edits = client.ask(
        "textDocument/rangeFormatting",
        json!({"textDocument": {"uri": uri}, "range": range, "options": options}),
    );
    let part = applied(text, &edits);
    assert!(part.contains("return a + b") && part.contains("let  s=") && part.contains("import  "), "{part}");
    // A program with errors is not changed.
    client.open("broken.harn", "let  a = ");
    let uri = client.uri("broken.harn");
    let edits =
        client.ask("textDocument/formatting", json!({"textDocument": {"uri": uri}, "options": options}));
    assert_eq!(edits, json!([]));
}

#[test]
fn the_shape_of_a_file() {
    let text = "import \"std/math\"\nimport \"std/text\"\n\n// One.\n// Two.\nstruct P {\n  x: int\n}\n\nimpl P {\n  fn norm(self) {\n    return self.x\n  }\n}\n\nenum E { A, B }\n\nlet limit = 3\n";
    let (mut client, _) = Client::with(text);
    let symbols = client.of("textDocument/documentSymbol", "main.harn");
    let names: Vec<&str> = symbols.as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["P", "impl P", "E", "limit"]);
    assert_eq!(symbols[0]["children"][0]["name"], "x");
    assert_eq!(symbols[1]["children"][0]["name"], "norm");
    assert_eq!(symbols[2]["children"][1]["name"], "B");
    check_places(text, &symbols);
    let folds = client.of("textDocument/foldingRange", "main.harn");
    let lines: Vec<(u64, u64)> = folds
        .as_array()
        .unwrap()
        .iter()
        .map(|fold| (fold["startLine"].as_u64().unwrap(), fold["endLine"].as_u64().unwrap()))
        .collect();
    assert_eq!(lines, [(0, 1), (3, 4), (5, 6), (9, 12), (10, 11)]);
    let uri = client.uri("main.harn");
    let at = json!({"line": 11, "character": 17});
    let chain =
        client.ask("textDocument/selectionRange", json!({"textDocument": {"uri": uri}, "positions": [at]}));
    check_places(text, &chain);
    let mut depth = 0;
    let mut level = &chain[0];
    while !level.is_null() {
        depth += 1;
        level = &level["parent"];
    }
    assert!(depth >= 5, "{chain}");
    let found = client.ask("workspace/symbol", json!({"query": "lmt"}));
    assert_eq!(found[0]["name"], "limit");
}

#[test]
fn names_have_colours() {
    let text = "fn f(a) { return a + \"😀 ${a} x\" }\nlet b = f(1) // end\nprintln(b)";
    let (mut client, _) = Client::with(text);
    let answer = client.of("textDocument/semanticTokens/full", "main.harn");
    let data: Vec<u64> = answer["data"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    let (mut line, mut column) = (0, 0);
    let mut seen = Vec::new();
    for token in data.chunks(5) {
        column = if token[0] == 0 { column + token[1] } else { token[1] };
        line += token[0];
        let start = super::client::offset(text, &json!({"line": line, "character": column}));
        let end = super::client::offset(text, &json!({"line": line, "character": column + token[2]}));
        seen.push(format!("{}:{}:{}", &text[start..end], token[3], token[4]));
    }
    for wanted in ["fn:11:0", "f:0:1", "a:2:1", "a:2:0", "b:1:3", "println:0:4", "1:13:0", "// end:14:0"] {
        assert!(seen.iter().any(|token| token == wanted), "{wanted} is missing in {seen:?}");
    }
}

#[test]
fn types_that_are_not_written_are_hinted() {
    let (mut client, _) = Client::with("let s = \"😀\"; let n = 1\nlet t: int = 2\nlet xs = [1, 2]\n");
    let uri = client.uri("main.harn");
    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 3, "character": 0}});
    let hints = client.ask("textDocument/inlayHint", json!({"textDocument": {"uri": uri}, "range": range}));
    let shown: Vec<String> = hints
        .as_array()
        .unwrap()
        .iter()
        .map(|hint| {
            let at = &hint["position"];
            format!("{}:{}{}", at["line"], at["character"], hint["label"].as_str().unwrap())
        })
        .collect();
    assert_eq!(shown, ["0:5: string", "0:19: int", "2:6: list<int>"]);
}

#[test]
fn what_is_not_understood_is_refused() {
    let (mut client, _) = Client::with("println(1)");
    assert!(client.refused("textDocument/telepathy", json!({})).contains("telepathy"));
    assert!(!client.refused("textDocument/hover", json!({"position": 3})).is_empty());
    let uri = client.uri("missing.harn");
    let nowhere = json!({"textDocument": {"uri": uri}, "position": {"line": 0, "character": 0}});
    assert!(client.refused("textDocument/hover", nowhere).contains("neither open nor a file"));
    // A position beyond the end is clamped to the end.
    let far = json!({"line": 900, "character": 900});
    assert_eq!(client.at("textDocument/hover", "main.harn", &far), Value::Null);
    // Invalid notifications are ignored.
    client.tell("textDocument/didChange", json!({"nonsense": true}));
    client.tell("$/whatever", json!(null));
    assert_eq!(client.findings("main.harn"), Vec::<Value>::new());
}
