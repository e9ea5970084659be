//! Features across files: definition, references, rename, links, unsaved changes.

use serde_json::{Value, json};

use super::client::{Client, applied};

const LIB: &str = "// Greets.\npub fn greet(name) { return \"hi ${name}\" }\npub enum Color { Red, Blue }\npub struct P { x: int }\nfn own() { return greet(\"me\") }\n";
const MAIN: &str = "import { greet, Color, P } from \"lib\"\nprintln(greet(\"a\"))\nlet c = Color.Red\nlet p = P {x: 1}\nprintln(p.x)\nfn other(greet_count) { return greet }\n";
const WHOLE: &str = "import \"./lib\"\nprintln(greet(\"b\"), Color.Red)\n";
const FREE: &str = "fn greet() { return 1 }\ngreet()\n";

fn project() -> Client {
    let mut client = Client::new(&[("lib.harn", LIB), ("whole.harn", WHOLE), ("free.harn", FREE)]);
    client.open("main.harn", MAIN);
    client
}

fn place(text: &str, word: &str, nth: usize) -> Value {
    let at = text.match_indices(word).nth(nth).unwrap().0;
    let line = text[..at].matches('\n').count();
    json!({"line": line, "character": at - text[..at].rfind('\n').map_or(0, |at| at + 1) + 1})
}

/// Returns the locations of a response as `file:line`, in order.
fn shown(answer: &Value) -> Vec<String> {
    let of = |place: &Value| {
        let uri = place["uri"].as_str().unwrap();
        format!("{}:{}", uri.rsplit('/').next().unwrap(), place["range"]["start"]["line"])
    };
    answer.as_array().unwrap().iter().map(of).collect()
}

#[test]
fn a_definition_is_found_through_imports() {
    let mut client = project();
    for (file, text, word, nth, line) in [
        ("main.harn", MAIN, "greet", 0, 1),
        ("main.harn", MAIN, "greet", 1, 1),
        ("main.harn", MAIN, "Color", 1, 2),
        ("main.harn", MAIN, "Red", 0, 2),
        ("main.harn", MAIN, "P {x", 0, 3),
        ("main.harn", MAIN, "x: 1", 0, 3),
        ("whole.harn", WHOLE, "greet", 0, 1),
        ("whole.harn", WHOLE, "Red", 0, 2),
        ("main.harn", MAIN, "\"lib\"", 0, 0),
    ] {
        let answer = client.at("textDocument/definition", file, &place(text, word, nth));
        assert_eq!(answer["uri"], client.uri("lib.harn"), "{word} of {file}: {answer}");
        assert_eq!(answer["range"]["start"]["line"], line, "{word} of {file}");
    }
    let answer = client.at("textDocument/definition", "free.harn", &place(FREE, "greet", 1));
    assert_eq!(answer["uri"], client.uri("free.harn"));
    let answer = client.at("textDocument/definition", "main.harn", &place(MAIN, "println", 0));
    assert_eq!(answer, Value::Null);
}

#[test]
fn hover_knows_what_is_imported() {
    let mut client = project();
    let answer = client.at("textDocument/hover", "main.harn", &place(MAIN, "greet", 1));
    assert_eq!(answer["contents"]["value"], "```harn\npub fn greet(name)\n```\n\nGreets.");
}

#[test]
fn references_are_found_in_all_files() {
    let mut client = project();
    let uri = client.uri("lib.harn");
    let params = |at: Value, with: bool| json!({"textDocument": {"uri": uri}, "position": at, "context": {"includeDeclaration": with}});
    let answer = client.ask("textDocument/references", params(place(LIB, "greet", 0), true));
    let expected = ["lib.harn:1", "lib.harn:4", "main.harn:0", "main.harn:1", "main.harn:5", "whole.harn:1"];
    assert_eq!(shown(&answer), expected);
    let answer = client.ask("textDocument/references", params(place(LIB, "greet", 0), false));
    assert_eq!(shown(&answer), expected[1..]);
    let answer = client.ask("textDocument/references", params(place(LIB, "Red", 0), true));
    assert_eq!(shown(&answer), ["lib.harn:2", "main.harn:2", "whole.harn:1"]);
    let answer = client.ask("textDocument/references", params(place(LIB, "x: int", 0), true));
    assert_eq!(shown(&answer), ["lib.harn:3", "main.harn:3", "main.harn:4"]);
}

#[test]
fn a_name_is_renamed_in_all_files() {
    let mut client = project();
    let uri = client.uri("main.harn");
    let answer = client.ask(
        "textDocument/rename",
        json!({"textDocument": {"uri": uri}, "position": place(MAIN, "greet", 1), "newName": "welcome"}),
    );
    let changes = &answer["changes"];
    let main = applied(MAIN, &changes[&uri]);
    assert_eq!(
        main,
        MAIN.replace("greet(", "welcome(")
            .replace("{ greet,", "{ welcome,")
            .replace("return greet }", "return welcome }")
    );
    let lib = applied(LIB, &changes[client.uri("lib.harn")]);
    assert_eq!(lib, LIB.replace("greet(", "welcome("));
    let whole = applied(WHOLE, &changes[client.uri("whole.harn")]);
    assert_eq!(whole, WHOLE.replace("greet(", "welcome("));
    assert!(changes.get(client.uri("free.harn")).is_none());
}

#[test]
fn a_variable_is_renamed_where_it_holds() {
    let text = "let a = 1\nfn f(a) { return a }\nlet {name} = {name: a}\nprintln(\"${a} ${name}\", a)\n";
    let (mut client, _) = Client::with(text);
    let uri = client.uri("main.harn");
    let mut rename = |at: Value, new: &str| {
        let answer = client.ask(
            "textDocument/rename",
            json!({"textDocument": {"uri": uri}, "position": at, "newName": new}),
        );
        applied(text, &answer["changes"][&uri])
    };
    assert_eq!(
        rename(json!({"line": 0, "character": 4}), "z"),
        "let z = 1\nfn f(a) { return a }\nlet {name} = {name: z}\nprintln(\"${z} ${name}\", z)\n"
    );
    assert_eq!(
        rename(json!({"line": 1, "character": 17}), "z"),
        "let a = 1\nfn f(z) { return z }\nlet {name} = {name: a}\nprintln(\"${a} ${name}\", a)\n"
    );
    assert_eq!(
        rename(json!({"line": 2, "character": 6}), "title"),
        "let a = 1\nfn f(a) { return a }\nlet {name: title} = {name: a}\nprintln(\"${a} ${title}\", a)\n"
    );
}

#[test]
fn what_cannot_be_renamed_says_why() {
    let text = "let a = 1\nlet b = 2\nstruct P { x: int }\nlet p = P {x: a}\nprintln(p.x, b)\n";
    let (mut client, _) = Client::with(text);
    let uri = client.uri("main.harn");
    let mut refused = |at: Value, new: &str| {
        client.refused(
            "textDocument/rename",
            json!({"textDocument": {"uri": uri}, "position": at, "newName": new}),
        )
    };
    let a = json!({"line": 0, "character": 4});
    assert!(refused(a.clone(), "b").contains("already means something"));
    assert!(refused(a.clone(), "let").contains("not a name"));
    assert!(refused(a.clone(), "a b").contains("not a name"));
    assert!(refused(a, "").contains("not a name"));
    assert!(refused(json!({"line": 4, "character": 2}), "out").contains("belongs to the language"));
    assert!(refused(json!({"line": 4, "character": 10}), "y").contains("cannot be renamed"));
    assert!(refused(json!({"line": 0, "character": 8}), "y").contains("no name"));
}

#[test]
fn what_is_not_saved_counts_for_imports() {
    let mut client = project();
    client.open("lib.harn", "pub fn greet(name, loud) { return name }\npub fn brand_new() { return 1 }\n");
    let answer = client.at("textDocument/hover", "main.harn", &place(MAIN, "greet", 1));
    assert!(answer["contents"]["value"].as_str().unwrap().contains("greet(name, loud)"));
    let at = client.open("third.harn", "import { $0 } from \"lib\"\n");
    assert_eq!(client.offers("third.harn", &at), ["greet", "brand_new"]);
}

#[test]
fn imports_are_links_and_are_completed() {
    let mut client = project();
    let links = client.of("textDocument/documentLink", "main.harn");
    assert_eq!(links[0]["target"], client.uri("lib.harn"));
    let at = client.open("fourth.harn", "import \"./$0\"");
    let offered = client.offers("fourth.harn", &at);
    assert!(offered.contains(&"./lib".to_owned()) && offered.contains(&"./whole".to_owned()), "{offered:?}");
    let at = client.open("fifth.harn", "import \"./lib\"\ngr$0");
    assert!(client.offers("fifth.harn", &at).contains(&"greet".to_owned()));
}

#[test]
fn findings_of_an_unsaved_import_follow_it() {
    let mut client = Client::new(&[("lib.harn", "/** One. */\npub fn one(a) { return a }\n")]);
    client.open("main.harn", "import { one } from \"./lib\"\nprintln(one(1))\n");
    assert_eq!(client.findings("main.harn"), Vec::<Value>::new());
    client.open("lib.harn", "/** Gives it back. */\npub fn two(a) { return a }\n");
    assert_eq!(client.findings("lib.harn"), Vec::<Value>::new());
    let uri = client.uri("lib.harn");
    client.tell("textDocument/didSave", json!({"textDocument": {"uri": uri}}));
    let found = client.findings("main.harn");
    assert!(found[0]["message"].as_str().unwrap().contains("one"), "{found:?}");
}
