//! Incomplete programs: typed character by character, and edited at random. The server must neither crash nor return an
//! invalid position, and its state must not depend on the sequence of edits that led to a text.

use serde_json::{Value, json};

use super::client::{Client, check_places, offset};

const PROGRAM: &str = r#"import { words } from "std/text"

// Counts. 😀
struct Count { name: string, n: int = 0 }
enum Mode { Fast, Slow(limit: int) }

fn count(texts: list<string>, mode = Mode.Fast) -> dict {
  var found = {}
  for text in texts {
    let key = text.trim().lower()
    found[key] = (found[key] ?? 0) + 1
  }
  match mode {
    Mode.Fast -> { return found }
    Mode.Slow(limit) -> { return found.filter({ k, v -> v > limit }) }
  }
}

pipeline main(task) {
  let result = try { count(["a é", "b"]) } catch (e) { {error: "${e}"} }
  println("got ${result.keys().map({ k -> "<${k}>" })}", result?.error)
}
"#;

/// Sends every kind of request about a source that may be invalid.
fn ask_all(client: &mut Client, name: &str, text: &str, at: usize) -> Vec<Value> {
    let line = text[..at].matches('\n').count();
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    let column: usize = text[start..at].chars().map(char::len_utf16).sum();
    let place = json!({"line": line, "character": column});
    assert_eq!(offset(text, &place), at);
    let mut answers = Vec::new();
    for method in ["completion", "hover", "signatureHelp", "documentHighlight"] {
        answers.push(client.at(&format!("textDocument/{method}"), name, &place));
    }
    for method in ["documentSymbol", "documentLink"] {
        answers.push(client.of(&format!("textDocument/{method}"), name));
    }
    let uri = client.uri(name);
    answers.push(
        client
            .ask("textDocument/selectionRange", json!({"textDocument": {"uri": uri}, "positions": [place]})),
    );
    let end = json!({"line": text.matches('\n').count(), "character": 0});
    let range = json!({"start": {"line": 0, "character": 0}, "end": end});
    answers.push(client.ask("textDocument/inlayHint", json!({"textDocument": {"uri": uri}, "range": range})));
    answers.iter().for_each(|answer| check_places(text, answer));
    let tokens = client.of("textDocument/semanticTokens/full", name);
    check_tokens(text, &tokens);
    answers.push(tokens);
    let folds = client.of("textDocument/foldingRange", name);
    for fold in folds.as_array().unwrap() {
        assert!(fold["endLine"].as_u64().unwrap() as usize <= text.matches('\n').count());
    }
    answers.push(folds);
    answers
}

fn check_tokens(text: &str, answer: &Value) {
    let data: Vec<u64> = answer["data"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    let (mut line, mut column, mut end) = (0, 0, 0);
    for token in data.chunks(5) {
        column = if token[0] == 0 { column + token[1] } else { token[1] };
        line += token[0];
        let start = offset(text, &json!({"line": line, "character": column}));
        assert!(start >= end, "tokens overlap at {start}");
        end = offset(text, &json!({"line": line, "character": column + token[2]}));
    }
}

fn change(client: &mut Client, name: &str, text: &str, from: usize, to: usize, new: &str) -> String {
    let place = |at: usize| {
        let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
        let column: usize = text[start..at].chars().map(char::len_utf16).sum();
        json!({"line": text[..at].matches('\n').count(), "character": column})
    };
    let range = json!({"start": place(from), "end": place(to)});
    let uri = client.uri(name);
    client.tell(
        "textDocument/didChange",
        json!({"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"range": range, "text": new}]}),
    );
    let mut out = text.to_owned();
    out.replace_range(from..to, new);
    out
}

#[test]
fn a_program_typed_character_by_character() {
    let mut client = Client::new(&[]);
    client.open("main.harn", "");
    let mut text = String::new();
    for c in PROGRAM.chars() {
        let end = text.len();
        text = change(&mut client, "main.harn", &text, end, end, &c.to_string());
        ask_all(&mut client, "main.harn", &text, text.len());
    }
    assert_eq!(text, PROGRAM);
}

#[test]
fn a_carriage_return_ends_a_line() {
    let text = "// a\rb\nlet x = 1\nprintln(x, \"\u{1F600}\", y)\n";
    let mut client = Client::new(&[]);
    client.open("main.harn", text);
    let found = client.findings("main.harn");
    assert_eq!(found[0]["range"]["start"], json!({"line": 3, "character": 17}), "{found:?}");
    let uri = client.uri("main.harn");
    let at = json!({"line": 2, "character": 4});
    let end = json!({"line": 2, "character": 5});
    let edit = json!({"range": {"start": at, "end": end}, "text": "y"});
    client.tell(
        "textDocument/didChange",
        json!({"textDocument": {"uri": uri, "version": 2}, "contentChanges": [edit]}),
    );
    let found = client.findings("main.harn");
    assert!(found[0]["message"].as_str().unwrap().contains(": x"), "{found:?}");
    assert_eq!(found[0]["range"]["start"], json!({"line": 3, "character": 8}), "{found:?}");
}

#[test]
fn a_program_torn_apart_by_edits() {
    const PIECES: &[&str] = &[
        "{",
        "}",
        "(",
        ")",
        "\"",
        "${",
        ".",
        "fn f(",
        "let ",
        "\n",
        "😀",
        "é",
        "import \"",
        "//",
        "/*",
        "match x {",
        ",",
        "=",
        "\r\n",
        "struct S {",
        " ",
    ];
    let mut client = Client::new(&[]);
    client.open("main.harn", PROGRAM);
    let mut text = PROGRAM.to_owned();
    // A Park-Miller generator with a fixed seed.
    let mut state = 20_261_u64;
    let mut random = |below: usize| {
        state = state * 48_271 % 2_147_483_647;
        state as usize % below.max(1)
    };
    for round in 0..300 {
        let boundary = |text: &str, mut at: usize| {
            while !text.is_char_boundary(at) || text[..at].ends_with('\r') {
                at -= 1;
            }
            at
        };
        let from = boundary(&text, random(text.len() + 1));
        let to = boundary(&text, (from + random(12)).min(text.len())).max(from);
        let piece = PIECES[random(PIECES.len())];
        text = change(&mut client, "main.harn", &text, from, to, piece);
        let at = boundary(&text, random(text.len() + 1));
        if text[at..].starts_with("\r\n") || text.contains('\r') && round % 7 != 0 {
            continue;
        }
        let answers = ask_all(&mut client, "main.harn", &text, at);
        if round % 10 == 0 {
            let fresh = format!("fresh{round}.harn");
            client.open(&fresh, &text);
            let again = ask_all(&mut client, &fresh, &text, at);
            let strip = |answers: Vec<Value>, name: &str| {
                serde_json::to_string(&answers).unwrap().replace(name, "main.harn")
            };
            assert_eq!(strip(again, &fresh), strip(answers, "main.harn"), "round {round}");
            let uri = client.uri(&fresh);
            client.tell("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
        }
        if text.len() > 3_000 {
            let keep = boundary(&text, 1_500);
            let end = text.len();
            text = change(&mut client, "main.harn", &text, keep, end, "\n");
        }
    }
}

/// A benchmark: `cargo test --release -p harn-cli --bin harn long_file -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, which prints times"]
fn answers_about_a_long_file() {
    let mut text = String::new();
    for number in 0..150 {
        let body = PROGRAM.split_once("enum Mode").unwrap().1.split_once("fn count").unwrap().1;
        let function = body.split_once("pipeline main").unwrap().0;
        text.push_str(&format!(
            "enum Mode{number} {{ Fast, Slow(limit: int) }}\nfn count{number}{}",
            function.replace("Mode.", &format!("Mode{number}."))
        ));
        text.push_str(&format!("fn use{number}(a: int, b = {{x: 1}}) {{\n  let c = count{number}([\"a\"])\n  println(c, a, b.x)\n  return c\n}}\n\n"));
    }
    let lines = text.matches('\n').count();
    let mut client = Client::new(&[]);
    client.open("main.harn", &text);
    let middle = text.match_indices("println(c").nth(75).unwrap().0;
    let line = text[..middle].matches('\n').count();
    let mut times: std::collections::BTreeMap<&str, Vec<f64>> = std::collections::BTreeMap::new();
    for round in 0..100 {
        let at = json!({"line": line, "character": 2 + round % 5});
        let uri = client.uri("main.harn");
        let range = json!({"start": at, "end": at});
        client.tell(
            "textDocument/didChange",
            json!({"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"range": range, "text": "x"}]}),
        );
        for method in ["completion", "hover", "signatureHelp", "definition", "documentHighlight"] {
            let start = std::time::Instant::now();
            client.at(&format!("textDocument/{method}"), "main.harn", &at);
            times.entry(method).or_default().push(start.elapsed().as_secs_f64() * 1e3);
        }
        for method in ["documentSymbol", "semanticTokens/full", "foldingRange"] {
            let start = std::time::Instant::now();
            client.of(&format!("textDocument/{method}"), "main.harn");
            times.entry(method).or_default().push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    println!("{lines} lines");
    for (method, mut list) in times {
        list.sort_by(f64::total_cmp);
        println!(
            "{method:20} median {:6.2} ms, 99th {:6.2} ms",
            list[list.len() / 2],
            list[list.len() * 99 / 100]
        );
    }
}
