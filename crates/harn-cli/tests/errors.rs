//! Complete output of errors.

use crate::common::{folder, harn, harn_in, run_text};
use insta::assert_snapshot;

#[test]
fn a_runtime_error_with_its_calls() {
    let text = "fn add(x, n) {\n  return x + n\n}\nfn total(items) {\n  var sum = 0\n  for i in items {\n    \
                sum = add(sum, i)\n  }\n  return sum\n}\npipeline default() {\n  let t = total([1, nil])\n  \
                println(t)\n}\n";
    assert_snapshot!(run_text(text).shown());
}

#[test]
fn a_thrown_dict() {
    assert_snapshot!(run_text("fn f() {\n  throw {code: 3, why: \"x\"}\n}\nlet r = f()\n").shown());
}

#[test]
fn a_method_and_a_closure_in_the_stack() {
    let text = "struct P { x }\nimpl P {\n  fn scale(self, by) {\n    self.x / by\n  }\n}\n\
                let xs = [2, 0].map({ n ->\n  let p = P {x: 10}\n  let r = p.scale(n)\n  r\n})\n";
    assert_snapshot!(run_text(text).shown());
}

#[test]
fn cleanup_and_handlers_on_the_way_are_no_callers() {
    for (open, close) in [
        ("try {", "} finally {\n    0\n  }"),
        ("defer { 0 }\n  if true {", "}"),
        ("retry 2 {", "}"),
        ("deadline 5s {", "}"),
        ("try {", "} catch (e: TimeoutError) {\n    0\n  }"),
        ("try { try {", "} finally { 0 } } finally { 0 }"),
    ] {
        let text = format!("fn f() {{\n  {open}\n    throw 1\n  {close}\n}}\nlet r = f()\n");
        let ran = run_text(&text);
        let callers: Vec<&str> = ran.err.lines().filter(|line| line.contains("called from")).collect();
        assert!(matches!(callers[..], [one] if one.contains("called from pipeline")), "{text}{}", ran.err);
    }
}

#[test]
fn an_error_in_an_imported_file() {
    let lib = "pub fn shout(s) {\n  let n = s.count + nil\n  return n\n}\n";
    let main = "import { shout } from \"lib/text\"\n\nlet r = shout(\"a\")\nprintln(r)\n";
    let folder = folder(&[("lib/text.harn", lib), ("main.harn", main)]);
    assert_snapshot!(harn_in(folder.path(), &["run", "main.harn"]).shown());
}

#[test]
fn all_syntax_errors_are_reported() {
    assert_snapshot!(run_text("let = 5\nprintln(\"fine\")\nlet xs = [1, 2\nlet y = 3 +\n").shown());
}

#[test]
fn a_task_of_inline_code_fails_in_the_code_as_given() {
    let ran = harn(&["run", "-e", "spawn { 1 / 0 }\nsleep(5)"]);
    assert!(ran.err.contains("--> <inline>:1:"), "{}", ran.err);
    assert!(ran.err.contains(" 1 | spawn { 1 / 0 }\n") && !ran.err.contains("pipeline"), "{}", ran.err);
}

#[test]
fn inline_code_counts_its_own_lines() {
    assert_snapshot!(harn(&["run", "-e", "let a = 1\nlet b = a / 0\nprintln(b)"]).shown());
}

#[test]
fn an_unknown_function_is_found_before_the_run() {
    let ran = run_text("println(\"first\")\nprintl(\"x\")\n");
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("call target `printl` is not defined or imported"), "{}", ran.err);
    assert!(ran.err.contains("did you mean `print"), "{}", ran.err);
}

#[test]
fn a_deep_recursion_is_an_error_with_a_short_stack() {
    let ran = run_text("fn f(n) {\n  return 1 + f(n + 1)\n}\nf(0)\n");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("Stack overflow: too many nested calls"), "{}", ran.err);
    assert_eq!(ran.err.matches("called from").count(), 30, "{}", ran.err);
    assert!(ran.err.contains(" more frames\n"), "{}", ran.err);
}

#[test]
fn colour_only_when_asked_for() {
    let program = ["run", "-e", "throw 1"];
    let plain = harn(&program);
    assert!(!plain.err.contains('\x1b'), "{}", plain.err);
    let mut command = crate::common::command(&program);
    command.env_remove("NO_COLOR").env("FORCE_COLOR", "1");
    let coloured = crate::common::finish(command, b"");
    assert!(coloured.err.starts_with("\x1b[1;31merror\x1b[0m: "), "{:?}", coloured.err);
}

#[test]
fn json_events() {
    let ok = harn(&["run", "--json", "-e", "println(\"hi\")\nreturn 3"]);
    assert_snapshot!(ok.shown());
    let failed = harn(&["run", "--json", "--quiet", "-e", "println(\"hi\")\nlet x = 1 / 0"]);
    assert_snapshot!(failed.shown());
}

/// The wrong value is in the call; the expected type is in the declaration.
#[test]
fn a_wrong_argument_is_shown_at_the_call() {
    let program = "fn f(\n  a: int,\n) {\n  a\n}\nlet x: any = [\"b\"]\nfn g(y) {\n  f(y[0])\n}\ng(x)\n";
    let folder = folder(&[("main.harn", program)]);
    let ran = harn_in(folder.path(), &["run", "main.harn"]);
    assert_snapshot!(ran.err);
    let ran = harn_in(folder.path(), &["run", "-e", "fn f(a: int) { a }\nf(\"b\")"]);
    assert_snapshot!(ran.err);
}

/// A bug in a tool is reported to the model and to the user, with its location and stack trace.
#[test]
fn a_bug_in_a_tool_is_told_with_its_place() {
    let program = |body: &str, options: &str| {
        format!(
            "fn inner(x) {{\n  {body}\n}}\ntool bad(x: string) -> string {{\n  description \"Bad\"\n  inner(x)\n}}\n\
             for i in 1 to 2 {{\n  llm_mock({{tool_calls: [{{name: \"bad\", arguments: {{x: \"1\"}}}}]}})\n  \
             llm_mock({{text: \"end\"}})\n  println(agent_loop(\"Go\", nil, {{provider: \"mock\", tools: bad{options}}}).status)\n}}\n"
        )
    };
    let run = |body: &str, options: &str| {
        let folder = folder(&[("main.harn", &program(body, options))]);
        harn_in(folder.path(), &["run", "main.harn"])
    };
    for (body, error) in [
        ("nosuch + x", "error: Runtime error: Undefined variable: nosuch"),
        ("to_int(x) + [1]", "error: Type error: Cannot add int and list"),
        ("x.nope()", "error: Type error: unknown method `nope` on string"),
        ("1 / (to_int(x) - 1)", "error: Runtime error: Division by zero"),
    ] {
        let ran = run(body, "");
        assert_eq!((ran.code, &*ran.out), (0, "done\ndone\n"), "{body}: {}", ran.err);
        assert_eq!(ran.err.matches(error).count(), 1, "{body}: {}", ran.err);
        assert!(ran.err.contains("--> main.harn:2:"), "{body}: {}", ran.err);
        assert!(ran.err.contains("called from bad at main.harn:6"), "{body}: {}", ran.err);
        let ran = run(body, ", tool_errors: \"silent\"");
        assert!(!ran.err.contains("error: "), "{body}: {}", ran.err);
        let ran = run(body, ", tool_errors: \"raise\"");
        assert!(ran.code == 1 && ran.err.contains("--> main.harn:2:"), "{body}: {}", ran.err);
    }
}

#[test]
fn what_fails_in_a_sub_agent_or_a_map_is_told() {
    let program = r#"
let reg = tool_define(tool_registry(), "a", "d", {parameters: {}, handler: { x -> "A" }})
llm_mock({tool_calls: [{name: "a", arguments: {}}]})
let options = {provider: "mock", tools: reg, post_turn_callback: { turn -> turn.nosuch.foo() }}
println(sub_agent_run("x", {name: "finder", ...options}).error.category)
llm_mock_clear()
llm_mock({tool_calls: [{name: "a", arguments: {}}]})
let node = {kind: "map", mode: "agent", tools: reg, map_policy: {items: [1, 2]}, model_policy: {post_turn_callback: { turn -> throw "no" }}}
println(workflow_execute("x", {nodes: {each: node}}, [], {provider: "mock", persist_path: "run.json"}).run.stages[0].status)
"#;
    let folder = folder(&[("main.harn", program)]);
    let ran = harn_in(folder.path(), &["run", "main.harn"]);
    assert_eq!((ran.code, &*ran.out), (0, "runtime\npartial\n"), "{}", ran.shown());
    let told = "[harn] warning: sub-agent finder: Type error: unknown method `foo` on nil\n";
    assert_eq!(ran.err.matches(told).count(), 1, "{}", ran.err);
    assert_eq!(
        ran.err.matches("[harn] warning: workflow stage each, item 1: Thrown: no\n").count(),
        1,
        "{}",
        ran.err
    );
}

#[test]
fn files_that_are_not_there_are_answered() {
    let ran = run_text("write_file(\"out/a.txt\", \"x\")\n");
    assert!(ran.err.contains("help: create the directory first: `mkdir(dirname(path))`"), "{}", ran.err);
    assert_eq!(run_text("mkdir(dirname(\"out/in/a.txt\"))\nwrite_file(\"out/in/a.txt\", \"x\")\n").code, 0);
    let ran = run_text("println(render_prompt(\"Hello {{ name }}\", {name: \"Ada\"}))\n");
    assert!(
        ran.err.contains("help: `render` takes the path of a file; render a string with `render_string"),
        "{}",
        ran.err
    );
}

#[test]
fn wrong_values_are_answered_where_they_fail() {
    let ran = run_text("let n = json_parse(\"10\")\nfor i in n { println(i) }\n");
    assert!(ran.err.contains("help: iterate over a range: `for i in 1 to n`"), "{}", ran.err);
}
