//! Renames preserve the meaning of all names, or are rejected.

use std::path::{Path, PathBuf};
use std::time::Duration;

use harn_front::{Names, SymbolKind};
use serde_json::json;

use super::client::{Client, applied};
use crate::conformance::captured::{How, Replies, run_captured};
use crate::conformance::run::run_each;

/// Renames the name at the nth occurrence of a word. Returns the new text or the error message.
fn renamed(text: &str, word: &str, nth: usize, new: &str) -> Result<String, String> {
    let (mut client, _) = Client::with(text);
    let at = text.match_indices(word).nth(nth).unwrap().0;
    let uri = client.uri("main.harn");
    ask(&mut client, &uri, text, at, new)
}

/// Requests a rename of the name at an offset of an open file.
fn ask(client: &mut Client, uri: &str, text: &str, at: usize, new: &str) -> Result<String, String> {
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    let column: usize = text[start..at].chars().map(char::len_utf16).sum();
    let place = json!({"line": text[..at].matches('\n').count(), "character": column});
    let params = json!({"textDocument": {"uri": uri}, "position": place, "newName": new});
    let answer = serde_json::to_value(client.response("textDocument/rename", params)).unwrap();
    match answer["error"]["message"].as_str() {
        Some(reason) => Err(reason.to_owned()),
        None => {
            let edits = &answer["result"]["changes"][uri];
            Ok(if edits.is_null() { text.to_owned() } else { applied(text, edits) })
        }
    }
}

#[track_caller]
fn refused(text: &str, word: &str, nth: usize, new: &str, reason: &str) {
    let answer = renamed(text, word, nth, new).expect_err("a refusal");
    assert!(answer.contains(reason), "{answer}");
}

#[test]
fn a_name_that_means_something_is_not_given() {
    let text = "fn shout(s) {\n  s + \"!\"\n}\n\nprintln(shout(\"hi\"))\n";
    for new in ["println", "len", "to_string"] {
        refused(text, "shout", 0, new, "already means something: it is a builtin");
    }
    assert_eq!(renamed(text, "shout", 0, "other").unwrap(), text.replace("shout", "other"));
    refused(
        "struct P { x: int }\nlet p = P {x: 1}\n",
        "P",
        0,
        "string",
        "already means something: it is a type",
    );
    refused("fn f(a) { a }\nf(1)\n", "a", 0, "self", "already means something");
    refused("pipeline other() { 1 }\n", "other", 0, "test_it", "already means something");
    refused("pipeline main() { 1 }\n", "main", 0, "other", "select this pipeline by its name");
    // Another declaration would capture a reference, or a reference would capture it.
    refused(
        "let a = 1\nfn f(b) {\n  return a + b\n}\nprintln(f(1))\n",
        "a",
        0,
        "b",
        "already means something",
    );
    refused(
        "let a = 1\nfn f(b) {\n  return a + b\n}\nprintln(f(1))\n",
        "b",
        0,
        "a",
        "already means something",
    );
    refused(
        "let a = 1\nlet g = { b -> \"${a} ${b}\" }\nprintln(g(2))\n",
        "b",
        0,
        "a",
        "already means something",
    );
    refused("fn a() { 1 }\nfn b() { 2 }\nprintln(a(), b())\n", "a", 0, "b", "already means something");
    refused("enum E { A, B }\nprintln(E.A, E.B)\n", "A", 0, "B", "declared there already");
}

#[test]
fn names_that_others_use_are_not_renamed() {
    let tool = "tool greet(name: string, loud: bool = false) -> string {\n  description \"Greet\"\n  if loud { name.upper() } else { name }\n}\n\nprintln(greet({name: \"ada\", loud: true}))\n";
    refused(tool, "name", 0, "who", "callers and models pass the parameters of tools by name");
    refused(tool, "name.upper", 0, "who", "the parameters of tools by name");
    let acp = "@acp_tool(name: \"x\")\nfn greet(name) {\n  return name\n}\n";
    refused(acp, "name)", 0, "who", "the parameters of tools by name");
    refused(
        "struct P { x: int }\nimpl P {\n  fn get(self) { return self.x }\n}\n",
        "self",
        0,
        "me",
        "receiver",
    );
    refused("struct P { x: int }\nlet p = P {x: 1}\n", "x", 0, "y", "cannot be renamed");
    let invariant = "@invariant(\"budget.remaining\", left)\nfn f() {\n  var left = 3\n  left = 2\n  return left\n}\nf()\n";
    refused(invariant, "left = 3", 0, "rest", "an attribute mentions it");
}

#[test]
fn all_mentions_are_renamed() {
    for (text, word, new, expected) in [
        (
            "let {name, age: years} = {name: 1, age: 2}\nprintln(\"${name}${years}\")\n",
            "name",
            "who",
            "let {name: who, age: years} = {name: 1, age: 2}\nprintln(\"${who}${years}\")\n",
        ),
        (
            "let {name, age: years} = {name: 1, age: 2}\nprintln(\"${name}${years}\")\n",
            "years",
            "n",
            "let {name, age: n} = {name: 1, age: 2}\nprintln(\"${name}${n}\")\n",
        ),
        (
            "for {a} in [{a: 1}] {\n  println(a)\n}\n",
            "a}",
            "b",
            "for {a: b} in [{a: 1}] {\n  println(b)\n}\n",
        ),
        (
            "var n = 1\nlet add = { -> n + 1 }\nn = 2\nprintln(add(), \"\"\"\n  ${n}\n\"\"\")\n",
            "n = 1",
            "m",
            "var m = 1\nlet add = { -> m + 1 }\nm = 2\nprintln(add(), \"\"\"\n  ${m}\n\"\"\")\n",
        ),
        (
            "let a = 1\nfn f(a) {\n  return a\n}\nprintln(a, f(2))\n",
            "a",
            "b",
            "let b = 1\nfn f(a) {\n  return a\n}\nprintln(b, f(2))\n",
        ),
        (
            "enum E { One, Two(n: int) }\nfn f(e: E) {\n  match e {\n    E.One -> { 1 }\n    E.Two(n) -> { n }\n  }\n}\nprintln(f(E.Two(3)))\n",
            "Two",
            "Both",
            "enum E { One, Both(n: int) }\nfn f(e: E) {\n  match e {\n    E.One -> { 1 }\n    E.Both(n) -> { n }\n  }\n}\nprintln(f(E.Both(3)))\n",
        ),
        (
            "struct P { x: int }\nimpl P {\n  fn get(self) -> int { return self.x }\n}\nfn f(p: P, ps: list<P>) -> P { return P {x: p.x} }\n",
            "P",
            "Point",
            "struct Point { x: int }\nimpl Point {\n  fn get(self) -> int { return self.x }\n}\nfn f(p: Point, ps: list<Point>) -> Point { return Point {x: p.x} }\n",
        ),
        (
            "interface I {\n  fn m(self) -> int\n}\nfn f<T>(a: T) -> int where T: I {\n  return a.m()\n}\n",
            "T>",
            "U",
            "interface I {\n  fn m(self) -> int\n}\nfn f<U>(a: U) -> int where U: I {\n  return a.m()\n}\n",
        ),
        (
            "fn q() {\n  println(x)\n  let x = 5\n}\nlet x = 1\nq()\n",
            "x = 1",
            "y",
            "fn q() {\n  println(y)\n  let x = 5\n}\nlet y = 1\nq()\n",
        ),
        (
            "var n = 1\nlet f = { -> n }\nvar n = n + 1\nprintln(f(), n)\n",
            "n = n",
            "m",
            "var m = 1\nlet f = { -> m }\nvar m = m + 1\nprintln(f(), m)\n",
        ),
        (
            "try {\n  throw \"x\"\n} catch (e) {\n  println(e)\n}\n",
            "e) {\n  p",
            "err",
            "try {\n  throw \"x\"\n} catch (err) {\n  println(err)\n}\n",
        ),
    ] {
        assert_eq!(renamed(text, word, 0, new).as_deref(), Ok(expected));
    }
}

#[test]
fn a_file_that_imports_keeps_its_names() {
    let lib = "pub fn greet(n) {\n  return n\n}\n";
    let files = [
        ("lib.harn", lib),
        ("own.harn", "import \"./lib\"\n\nfn welcome() {\n  return greet(1)\n}\n\nprintln(welcome())\n"),
        ("far.harn", "import \"./pass\"\n\nfn hello() {\n  return 1\n}\n\nprintln(hello())\n"),
        ("pass.harn", "pub import \"./lib\"\n"),
        (
            "both.harn",
            "import { greet } from \"./lib\"\nimport { hail } from \"./other\"\n\nprintln(greet(1), hail())\n",
        ),
        ("other.harn", "pub fn hail() {\n  return 2\n}\n"),
    ];
    let mut client = Client::new(&files);
    client.open("lib.harn", lib);
    let uri = client.uri("lib.harn");
    let mut to = |new: &str| ask(&mut client, &uri, lib, 7, new);
    for (new, place) in [("welcome", "own.harn"), ("hello", "far.harn"), ("hail", "both.harn")] {
        let reason = to(new).expect_err("a refusal");
        assert!(reason.contains("already means something") && reason.contains(place), "{reason}");
    }
    assert_eq!(to("salute").unwrap(), lib.replace("greet", "salute"));
}

/// Pseudorandom numbers with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            programs(&path, found);
        } else if path.extension().is_some_and(|e| e == "harn") && path.with_extension("expected").exists() {
            found.push(path);
        }
    }
}

fn names(text: &str) -> Names {
    Names::of(&harn_syntax::parse(text).program, text.len() as u32)
}

/// Number of renames per program.
const ROUNDS: usize = 8;

/// One of this many programs is tested, unless `HARN_EVERY_CASE` is set.
const SAMPLE: usize = 48;

#[test]
fn random_renames_keep_the_meaning_or_are_refused() {
    let mut paths = Vec::new();
    programs(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance"), &mut paths);
    let every = std::env::var_os("HARN_EVERY_CASE").is_some();
    let mut random = Random(46);
    let (mut asked, mut refusals, mut jobs) = (0, 0, Vec::new());
    let mut client = Client::new(&[]);
    for (at, path) in paths.iter().enumerate() {
        let text = std::fs::read_to_string(path).unwrap();
        let parsed = harn_syntax::parse(&text);
        let alone = parsed.program.imports().all(|import| import.path.starts_with("std/"));
        if !(every || at % SAMPLE == 0) || !parsed.errors.is_empty() || !alone || text.len() > 8_000 {
            continue;
        }
        let before = names(&text);
        if before.symbols.is_empty() {
            continue;
        }
        let name = format!("p{at}.harn");
        client.open(&name, &text);
        let uri = client.uri(&name);
        for _ in 0..ROUNDS {
            let symbol = random.one(&before.symbols);
            let new = match random.below(6) {
                0 => random.one(&["println", "len", "to_string", "range", "int"]).to_string(),
                1 => format!("_{}", symbol.name),
                2 => "zq7".to_owned(),
                3 if !before.uses.is_empty() => random.one(&before.uses).name.to_string(),
                _ => random.one(&before.symbols).name.to_string(),
            };
            asked += 1;
            match ask(&mut client, &uri, &text, symbol.span.start as usize, &new) {
                Err(_) => refusals += 1,
                Ok(after) if after == text => {}
                Ok(after) => {
                    let same = |names: &Names| names.uses.iter().map(|used| used.symbol).collect::<Vec<_>>();
                    let new_names = names(&after);
                    assert_eq!(same(&before), same(&new_names), "{} -> {new}:\n{after}", symbol.name);
                    assert_eq!(before.symbols.len(), new_names.symbols.len(), "{after}");
                    // Names of types, tools and other symbols are printed.
                    let silent = [SymbolKind::Let, SymbolKind::Var, SymbolKind::Param, SymbolKind::Function];
                    if silent.contains(&symbol.kind) {
                        jobs.push((jobs.len(), path.clone(), symbol.name.to_string(), new, after));
                    }
                }
            }
        }
        client.tell("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_owned();
    let count = jobs.len();
    let wrong = run_each(jobs, 2, Duration::from_secs(60), move |(number, path, old, new, text), ready| {
        // Both run in the same directory, with the same files.
        let place = root.join(number.to_string());
        std::fs::create_dir_all(&place).unwrap();
        let file = place.join(path.file_name().unwrap());
        let mock = Some(path.with_extension("llm-mock.jsonl")).filter(|mock| mock.is_file());
        let run = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let outcome = run_captured(&file, mock.as_deref(), How::Memory, &Replies::None, &[], ready)?;
            let said = format!("{}\n{}", outcome.output, outcome.error.unwrap_or_default());
            // Errors contain function names.
            Ok::<String, String>(said.replace(new.as_str(), old))
        };
        let (first, again) = (run(&std::fs::read_to_string(path).unwrap()), run(text));
        (first != again).then(|| format!("{} {old} -> {new}:\n{first:?}\n{again:?}", path.display()))
    });
    let wrong: Vec<String> = wrong.into_iter().filter_map(|ended| ended.result.unwrap()).collect();
    println!("{asked} renames: {refusals} refused, {count} programs run");
    assert!(asked >= 250 && count >= 50 && refusals >= 50, "{asked} {refusals} {count}");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n\n"));
}
