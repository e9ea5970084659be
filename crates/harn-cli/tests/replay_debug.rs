//! `harn replay ID --debug`: steps from effect to effect, forwards and backwards.

use std::path::Path;

use crate::common::{Ran, command, finish, folder, harn_in};

fn debug(folder: &Path, commands: &[&str]) -> Ran {
    let mut harn = command(&["replay", "r", "--debug"]);
    harn.current_dir(folder);
    finish(harn, (commands.join("\n") + "\n").as_bytes())
}

fn recorded(files: &[(&str, &str)], code: i32) -> tempfile::TempDir {
    let dir = folder(files);
    let ran = harn_in(dir.path(), &["run", "--durable", "--run-id", "r", "main.harn"]);
    assert_eq!(ran.code, code, "{}", ran.shown());
    dir
}

const PROGRAM: &str = r#"import { load } from "./helper"
println("begin")
write_file("n.txt", "41")
let n = load("n.txt")
println("n is ${n}")
append_file("n.txt", "!")
println("end")
"#;
const HELPER: &str = "pub fn load(path) {\n  let text = read_file(path)\n  return to_int(text) + 1\n}\n";

#[test]
fn it_stands_at_each_effect_with_variables_and_calls() {
    let dir = recorded(&[("main.harn", PROGRAM), ("helper.harn", HELPER)], 0);
    let path = dir.path();
    let n = path.join("n.txt");
    std::fs::write(&n, "of today").unwrap();
    let ran =
        debug(path, &["", ":vars", ":stack", ":list", "path + \"?\"", "", ":vars", "n * 2", "", ":quit"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let out = ran.out.replace(&path.canonicalize().unwrap().display().to_string(), "DIR");
    let out: Vec<&str> = out.lines().collect();
    let starts = [
        "run r: 3 effects; :help lists the commands",
        "begin",
        "[1/3] replace DIR/n.txt at main.harn:3 (entry ",
        "     3 | write_file(\"n.txt\", \"41\")",
        "[2/3] read DIR/n.txt at ./helper.harn:2 (entry ",
        "     2 |   let text = read_file(path)",
        "path = \"n.txt\"",
        "#0 load at ./helper.harn:2",
        "#1 pipeline at main.harn:4",
        "     1 | pub fn load(path) {",
        ">    2 |   let text = read_file(path)",
        "     3 |   return to_int(text) + 1",
        "     4 | }",
        "\"n.txt?\"",
        "n is 42",
        "[3/3] append DIR/n.txt at main.harn:6 (entry ",
        "     6 | append_file(\"n.txt\", \"!\")",
        "n = 42",
        "84",
        "end",
        "the program has ended with exit code 0",
    ];
    for (line, start) in out.iter().zip(starts) {
        assert!(line.starts_with(start), "{line} is no {start}\n{}", ran.shown());
    }
    assert_eq!(out.len(), starts.len(), "{}", ran.shown());
    assert_eq!(std::fs::read_to_string(n).unwrap(), "of today", "nothing happens outside");
}

#[test]
fn it_steps_back_and_jumps() {
    let dir = recorded(&[("main.harn", PROGRAM), ("helper.harn", HELPER)], 0);
    let commands = [
        ":back",
        "",
        "",
        ":back",
        "text",
        ":go 100000",
        ":go x",
        ":go 0",
        ":vars",
        ":effects",
        ":what",
        ":vars 7",
        ":output",
        "",
        "",
        "",
        "what",
        ":back",
        ":output",
        ":help",
    ];
    let ran = debug(dir.path(), &commands);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let places: Vec<&str> = ran
        .out
        .lines()
        .filter_map(|line| line.strip_prefix('['))
        .filter_map(|line| line.split('/').next())
        .collect();
    assert_eq!(places, ["1", "2", "3", "2", "1", "2", "3", "3"], "{}", ran.shown());
    for text in [
        "this is the first effect",
        "Undefined variable: text",
        "there is no effect from entry 100000 on",
        ":go needs the number of an entry, got 'x'",
        "unknown command ':what'; :help lists the commands",
        "there is no call 7: :stack lists them, from 0 to 0",
        "the program has ended: :back, :go N, :effects or :quit",
        "begin\nn is 42\n:help",
    ] {
        let text = text.trim_end_matches("\n:help");
        assert!(ran.out.contains(text), "{text} is missing: {}", ran.shown());
    }
    // Output is shown once, at its position.
    assert_eq!(ran.out.matches("\nend\n").count(), 1, "{}", ran.shown());
    assert!(ran.out.trim_end().ends_with("builtins without effects"), "{}", ran.shown());
}

#[test]
fn tasks_that_take_turns_are_replayed_as_they_were() {
    let program = r#"
fn busy(n) { var sum = 0; for i in 1 to n { sum = sum + i }; return sum }
let all = parallel each [3, 1, 2] { k ->
  var seen = []
  for round in 1 to 3 {
    sleep(k)
    seen = seen + [busy(20000 * k)]
    append_file("log.txt", "${k}.${round}\n")
  }
  seen.len()
}
println(all)
"#;
    let dir = recorded(&[("main.harn", program)], 0);
    let there: Vec<&str> = vec![""; 25];
    let mut commands = there.clone();
    commands.extend(vec![":back"; 25]);
    let ran = debug(dir.path(), &commands);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let places: Vec<&str> =
        ran.out.lines().filter(|line| line.starts_with('[') && line.contains("(entry ")).collect();
    assert!(ran.out.starts_with("run r: 18 effects"), "9 waits and 9 appends: {}", ran.shown());
    assert!(ran.out.contains("\n[3, 3, 3]\n"), "{}", ran.shown());
    // Forwards to the end, and backwards over the same positions.
    let back: Vec<&str> = places[18..].iter().rev().copied().collect();
    assert_eq!(places[..18], back[..], "{}", ran.shown());
}

#[test]
fn an_agent_stands_at_what_its_tools_do() {
    let program = r#"
var tools = tool_registry()
tools = tool_define(tools, "note", "Notes.", {parameters: {n: {type: "int"}}, handler: { args ->
  let twice = args.n * 2
  append_file("notes.txt", "${twice}\n")
  "noted"
}})
llm_mock({tool_calls: [{name: "note", arguments: {n: 1}}, {name: "note", arguments: {n: 2}}]})
llm_mock({text: "all noted"})
println(agent_loop("Note.", nil, {provider: "mock", tools: tools}).visible_text)
"#;
    let dir = recorded(&[("main.harn", program)], 0);
    let ran = debug(dir.path(), &["", "twice", ":stack", "", "[args.n, twice]", "", ""]);
    assert!(ran.out.starts_with("run r: 3 effects"), "{}", ran.shown());
    for text in
        ["\n2\n#0 <closure> at main.harn:5\n#1 pipeline at main.harn:10\n", "\n[2, 4]\n", "\nall noted\n"]
    {
        assert!(ran.out.contains(text), "{text} is missing: {}", ran.shown());
    }
}

#[test]
fn runs_that_have_no_good_end() {
    let dir = recorded(&[("main.harn", "let a = random_int(1, 9)\nthrow \"no ${a > 0}\"\n")], 1);
    let ran = debug(dir.path(), &["", ":quit"]);
    assert!(ran.out.contains("the program has ended with exit code 1: "), "{}", ran.shown());
    assert!(ran.out.contains("no true"), "{}", ran.shown());
    let dir = recorded(&[("main.harn", "let a = ask_user(\"Who?\")\nprintln(a)\n")], 75);
    let ran = debug(dir.path(), &[":effects all"; 3]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let ran = debug(dir.path(), &["", "", ""]);
    assert!(ran.out.contains("the journal ends here"), "{}", ran.shown());
    let dir = recorded(&[("main.harn", "println(1)\n")], 0);
    let ran = debug(dir.path(), &[]);
    assert!(ran.out.contains("run r: 0 effects"), "{}", ran.shown());
    let wrong = harn_in(dir.path(), &["replay", "r", "--debug", "--check"]);
    assert_eq!(wrong.code, 2, "{}", wrong.shown());
    let none = harn_in(dir.path(), &["replay", "x", "--debug"]);
    assert!(none.code == 1 && none.err.contains("unknown run 'x'"), "{}", none.shown());
}

/// A closed pipe does not end the command; a full disk is reported.
#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_no_panic() {
    let dir = recorded(&[("main.harn", PROGRAM), ("helper.harn", HELPER)], 0);
    for (line, code, told) in [
        (
            "printf '\\n\\n:vars\\n' | $HARN replay r --debug > /dev/full",
            1,
            "cannot write to standard output",
        ),
        ("{ printf '\\n\\n:vars\\n' | $HARN replay r --debug; echo $? >&2; } | true", 0, "0\n"),
    ] {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", line]).current_dir(dir.path()).env("HARN", env!("CARGO_BIN_EXE_harn"));
        let ran = finish(shell, b"");
        assert!(
            ran.code == code && ran.err.contains(told) && !ran.err.contains("panicked"),
            "{}",
            ran.shown()
        );
    }
}
