//! The lint rules for programs: which code they report, and the results of `--fix`.

use crate::common::{folder, harn_in};
use crate::models::harn_with_env;

/// Rules about layout, which the short programs in these tests violate.
const LAYOUT: &str = "[lint]\ndisabled = [\"blank-line-between-items\", \"missing-harndoc\"]\n";

/// Returns the reported rules with their lines.
fn rules(text: &str) -> Vec<(String, u64)> {
    rules_with(LAYOUT, text)
}

/// Returns the reported rules with a manifest.
fn rules_with(manifest: &str, text: &str) -> Vec<(String, u64)> {
    let folder = folder(&[("harn.toml", manifest), ("a.harn", text)]);
    let ran = harn_in(folder.path(), &["lint", "--json", "a.harn"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let found = report["data"]["files"][0]["diagnostics"].as_array().unwrap().clone();
    found.iter().map(|d| (d["rule"].as_str().unwrap_or("").to_owned(), d["line"].as_u64().unwrap())).collect()
}

#[track_caller]
fn fires(rule: &str, text: &str, line: u64) {
    assert_eq!(rules(text), [(rule.to_owned(), line)], "in {text}");
}

#[track_caller]
fn silent(text: &str) {
    assert_eq!(rules(text), [], "in {text}");
}

#[test]
fn names_that_nobody_reads() {
    fires("unused-variable", "let x = 1\nprintln(2)\n", 1);
    fires("unused-variable", "fn f() {\n  var y = 1\n  y = 2\n  3\n}\nprintln(f())\n", 2);
    fires("unused-pattern-binding", "let {a, b} = {a: 1, b: 2}\nprintln(a)\n", 1);
    fires("unused-parameter", "fn f(x, y) { x }\nprintln(f(1, 2))\n", 1);
    fires(
        "unused-import",
        "import { parse_int_or, shout } from \"std/text\"\nprintln(parse_int_or(\"1\", 2))\n",
        1,
    );
    silent("let _x = 1\nfn f(_a, b) { b }\nprintln(f(1, 2))\n");
    silent("let x = 1\nprintln(\"${x}\")\n");
    silent("pipeline p(task) {\n  println(1)\n}\n");
    silent("import { parse_int_or } from \"std/text\"\nlet f = parse_int_or\nprintln(f(\"1\", 2))\n");
}

#[test]
fn variables_that_do_not_vary() {
    fires("mutable-never-reassigned", "var x = 1\nprintln(x)\n", 1);
    silent("var x = 1\nx += 1\nprintln(x)\n");
    silent("var d = {a: 1}\nd.a = 2\nprintln(d)\n");
}

#[test]
fn comparisons_without_a_point() {
    fires("comparison-to-bool", "let x = true\nprintln(x == true)\n", 2);
    fires("pointless-comparison", "let x = 1\nprintln(x == x)\n", 2);
    silent("println(random() == random())\nlet a = {b: 1, c: 1}\nprintln(a.b == a.c)\n");
}

#[test]
fn types_of_fields_without_a_colon() {
    let rule = "field-without-colon";
    fires(rule, "struct P {\n  x int\n}\nprintln(P {x: 1, int: 2})\n", 2);
    fires(rule, "struct P {\n  x: int\n  next? Node\n}\nprintln(P {x: 1, Node: 2})\n", 3);
    fires(rule, "struct P { name str }\nprintln(P {name: 1, str: 2})\n", 1);
    // Two fields, separated by a comma, a line break or their names.
    silent("struct P { x, int }\nprintln(P {x: 1, int: 2})\n");
    silent("struct P {\n  x\n  int\n}\nprintln(P {x: 1, int: 2})\n");
    silent("struct P { x y }\nprintln(P {x: 1, y: 2})\n");
    silent("struct P { x: int string }\nprintln(P {x: 1, string: 2})\n");
}

#[test]
fn branches_that_are_never_taken() {
    fires(
        "duplicate-match-arm",
        "match 1 {\n  1 -> { println(1) }\n  2 | 1 -> { println(2) }\n  _ -> { println(3) }\n}\n",
        3,
    );
    fires("unreachable-match-arm", "match 1 {\n  _ -> { println(1) }\n  2 -> { println(2) }\n}\n", 3);
    fires(
        "repeated-condition",
        "let x = 1\nif x == 1 {\n  println(1)\n} else if x == 1 {\n  println(2)\n}\n",
        4,
    );
    silent("match 1 {\n  n if n > 1 -> { println(n) }\n  _ -> { println(0) }\n}\n");
    silent("if random() > 0.5 {\n  println(1)\n} else if random() > 0.5 {\n  println(2)\n}\n");
}

#[test]
fn blocks_that_do_nothing() {
    fires("empty-block", "if random() > 0.5 {\n}\nprintln(1)\n", 1);
    fires("empty-catch", "try {\n  println(1)\n} catch (_e) {\n}\nprintln(2)\n", 3);
    silent(
        "for _i in 1 to 3 {\n  // wait\n}\ntry {\n  println(1)\n} catch (_e) {\n  // fine\n}\nprintln(2)\n",
    );
}

#[test]
fn values_that_get_lost() {
    fires("unused-result", "var xs = [1]\nxs.push(2)\nxs = xs.push(3)\nprintln(xs)\n", 2);
    fires("unused-result", "var x = 1\nx == 2\nx = 3\nprintln(x)\n", 2);
    fires("parallel-assignment", "var n = 0\nparallel 2 { _i ->\n  n = n + 1\n}\nprintln(n)\n", 3);
    fires("parallel-assignment", "var n = 0\nlet t = spawn {\n  n = n + 1\n}\nawait(t)\nprintln(n)\n", 3);
    fires("unused-result", "yield 1\n", 1);
    fires("unused-result", "pipeline p() {\n  yield 1\n}\n", 2);
    silent("fn g() {\n  yield 1\n}\nprintln(g().to_list())\n");
    silent("let q = {push: { x -> println(x) }}\nq.push(1)\nprintln(q)\n");
    silent("fn f() {\n  let xs = [1]\n  xs.push(2)\n}\nprintln(f())\n");
    silent("println(parallel 2 { i ->\n  var n = i\n  n = n + 1\n  n\n})\n");
}

#[test]
fn values_that_nothing_is_done_with() {
    for lost in [
        "trim(s)",
        "len(xs)",
        "keys({a: 1})",
        "to_string(5)",
        "set_add(set(1), 2)",
        "xs.filter({ x -> x > 1 }).sort()",
        "s.trim().upper()",
        "\"a\".upper()",
        "[3, 1].sort()",
        "{a: 1}.merge({b: 2})",
        "1 to 5",
        "xs[0]",
        "{ x -> x }",
        "\"${s}!\"",
    ] {
        fires("unused-result", &format!("let s = \" a \"\nlet xs = [3, 1]\n{lost}\nprintln(s, xs)\n"), 3);
    }
    // The calls may be intended to fail, or have side effects.
    silent("try {\n  date_parse(\"x\")\n  println(1)\n} catch (e) {\n  println(e)\n}\n");
    silent("[3, 1].map({ x -> println(x) }).sort()\nprintln(1)\n");
    silent("fn trim(s) { println(s) }\ntrim(\"a\")\nprintln(1)\n");
    silent("fn f(x) {\n  x.sort()\n  to_list(x)\n  println(1)\n}\nf(1)\n");
}

#[test]
fn mends_keep_the_meaning() {
    let text = "import { shout, parse_int_or } from \"std/text\"\nimport { ext } from \"std/path\"\nvar x = parse_int_or(\"1\", 2)\nlet unused = 1\nprintln(x)\nprintl(2)\n";
    let folder = folder(&[("a.harn", text)]);
    let ran = harn_in(folder.path(), &["lint", "--fix", "a.harn"]);
    let fixed = std::fs::read_to_string(folder.path().join("a.harn")).unwrap();
    let expected = "import { parse_int_or } from \"std/text\"\n\nlet x = parse_int_or(\"1\", 2)\nlet _unused = 1\nprintln(x)\nprintl(2)\n";
    assert_eq!(fixed, expected);
    assert_eq!(ran.out, "a.harn: applied 6 fix(es)\n");
    // A name that merely resembles another one is left to the author.
    assert!(ran.code == 1 && ran.err.contains("printl"), "{}", ran.err);
}

/// Checks the result of repeated `harn lint --fix` until nothing changes.
#[track_caller]
fn fixed(text: &str, expected: &str) {
    let folder = folder(&[("harn.toml", LAYOUT), ("a.harn", text)]);
    let ran = harn_in(folder.path(), &["lint", "--fix", "a.harn"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("a.harn")).unwrap(), expected, "{}", ran.err);
}

#[test]
fn mends_of_branches_and_blocks() {
    fixed(
        "fn f(n) {\n  if n > 1 {\n    return 1\n  } else {\n    let m = n + 1\n    return m * m\n  }\n}\nprintln(f(1))\n",
        "fn f(n) {\n  if n > 1 {\n    return 1\n  }\n  let m = n + 1\n  return m * m\n}\nprintln(f(1))\n",
    );
    fixed(
        "fn f(n) {\n  if n { return 1 } else { return 2 }\n}\nprintln(f(1))\n",
        "fn f(n) {\n  if n { return 1 }\n  return 2\n}\nprintln(f(1))\n",
    );
    fixed(
        "fn f(n) {\n  if n == 1 {\n  }\n  for _i in 1 to 3 { }\n  println(n)\n}\nf(1)\n",
        "fn f(n) {\n  println(n)\n}\nf(1)\n",
    );
    for kept in [
        // The outer `m` is another variable, and cleanup belongs to its block.
        "fn f(n) {\n  let m = n\n  if n { return m } else {\n    let m = 2\n    println(m)\n    return m\n  }\n}\nprintln(f(1))\n",
        "fn f(n) {\n  if n { return 1 } else {\n    defer { println(2) }\n    return 2\n  }\n}\nprintln(f(1))\n",
        "fn f(n) {\n  if n { return 1 } /* or */ else { return 2 }\n}\nprintln(f(1))\n",
        // The evaluated expression may have side effects, or the block's value is used.
        "fn f(n) {\n  if n.next() {\n  }\n  for _i in n {\n  }\n  println(n)\n}\nf(1)\n",
        "fn f(n) {\n  println(n)\n  if n == 1 {\n  }\n}\nf(1)\n",
    ] {
        fixed(kept, kept);
    }
}

#[test]
fn mends_of_conditions_and_texts() {
    // NaN is not equal to itself.
    for kept in [
        "let x = 0.0 / 0.0\nprintln(x == x)\n",
        "var x = 1\nx = 0.0 / 0.0\nprintln(x == x)\n",
        "let x = 1\nfn f(x) {\n  return x == x\n}\nprintln(f(x))\n",
        "for x in [0.0 / 0.0] { println(x == x) }\n",
    ] {
        fixed(kept, kept);
    }
    fixed("let x = 1\nprintln((x > 1) == true)\n", "let x = 1\nprintln((x > 1))\n");
    fixed("let x = 1\nprintln(!x != true)\n", "let x = 1\nprintln(!(!x))\n");
    fixed(
        "let n = 2\nlet b = n > 1\nprintln(b == true, b != true)\n",
        "let n = 2\nlet b = n > 1\nprintln(b, !b)\n",
    );
    fixed(
        "fn f(x: bool) {\n  if x == false { println(x) }\n}\nf(true)\n",
        "fn f(x: bool) {\n  if !x { println(x) }\n}\nf(true)\n",
    );
    // `x` may be 1, which is not equal to true.
    fixed("let x = 1\nprintln(x == true)\n", "let x = 1\nprintln(x == true)\n");
    fixed("let x = 1\nprintln(x == x, x != x, x)\n", "let x = 1\nprintln(true, false, x)\n");
    fixed("let d = {a: 1}\nprintln(d.a == d.a)\n", "let d = {a: 1}\nprintln(d.a == d.a)\n");
    fixed("println(\"a \" + nil, true + \" b\")\n", "println(\"a ${nil}\", \"${true} b\")\n");
}

#[test]
fn an_argument_is_not_copied_first() {
    fires("redundant-clone", "fn f(xs) {\n  println(xs.clone())\n}\nf([1])\n", 2);
    silent("fn f(xs) {\n  let ys = xs.clone()\n  println(ys)\n}\nf([1])\n");
    fixed(
        "fn f(xs: list) {\n  println(xs.clone())\n}\nf([1])\n",
        "fn f(xs: list) {\n  println(xs)\n}\nf([1])\n",
    );
    // A dict may have a function under this key.
    let unknown = "fn f(xs) {\n  println(xs.clone())\n}\nf([1])\n";
    fixed(unknown, unknown);
}

#[test]
fn a_header_is_wanted_on_demand() {
    let folder = folder(&[("read_all.harn", "println(1)\n"), ("b.harn", "//! Says one.\n\nprintln(1)\n")]);
    let lint = |args: &[&str]| harn_in(folder.path(), &[&["lint"], args].concat());
    assert_eq!(lint(&["read_all.harn"]).out, "read_all.harn: no issues found\n");
    let ran = lint(&["--require-file-header", "read_all.harn", "b.harn"]);
    assert_eq!(ran.out, "b.harn: no issues found\n", "{}", ran.err);
    assert!(ran.err.contains("lint[require-file-header]"), "{}", ran.err);
    assert_eq!(ran.err.matches("warning: ").count(), 1, "{}", ran.err);
    lint(&["--require-file-header", "--fix", "read_all.harn"]);
    let fixed = std::fs::read_to_string(folder.path().join("read_all.harn")).unwrap();
    assert_eq!(fixed, "/** Read all. */\n\nprintln(1)\n");
}

#[test]
fn rules_can_be_turned_off() {
    let folder =
        folder(&[("harn.toml", "[lint]\ndisabled = [\"unused-variable\"]\n"), ("a.harn", "let x = 1\n")]);
    let ran = harn_in(folder.path(), &["lint", "a.harn"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "a.harn: no issues found\n", ""));
}

#[test]
fn more_words_than_needed() {
    fires("redundant-nil-ternary", "let p = env(\"P\")\nprintln(p == nil ? 1 : p)\n", 2);
    fires("redundant-nil-ternary", "let p = env(\"P\")\nprintln(p != nil ? p : 1)\n", 2);
    silent("let p = env(\"P\")\nprintln(p == nil ? 1 : 2)\n");
    fires("let-then-return", "fn f(n) {\n  let m = n * 2\n  return m\n}\nprintln(f(1))\n", 2);
    silent("fn f(n) {\n  let m: int = n * 2\n  return m\n}\nprintln(f(1))\n");
    fires(
        "unnecessary-else-return",
        "fn f(n) {\n  if n { return 1 } else { return 2 }\n}\nprintln(f(1))\n",
        2,
    );
    silent("fn f(n) {\n  if n { return 1 } else { println(n) }\n}\nprintln(f(1))\n");
    fires("unnecessary-cast", "println(to_int(1))\n", 1);
    fires("unnecessary-cast", "let x = 1.5\nprintln(to_int(to_int(x)))\n", 2);
    silent("let x = 1.5\nprintln(to_int(x))\n");
}

#[test]
fn declarations() {
    fires("unused-function", "fn f() { 1 }\nprintln(1)\n", 1);
    silent("fn f() { 1 }\nprintln(\"${f()}\")\n");
    silent("pub fn f() { 1 }\nprintln(1)\n");
    silent("fn _f() { 1 }\nprintln(1)\n");
    silent("fn f() { 1 }\n");
    fires("unused-type", "enum E { A }\nprintln(1)\n", 1);
    silent("type T = int\nfn f(t: T) { t }\nprintln(f(1))\n");
    fires("naming-convention", "fn getName() { 1 }\nprintln(getName())\n", 1);
    fires("naming-convention", "struct my_point { x: int }\nprintln(my_point({x: 1}))\n", 1);
    silent("struct HTTPClient { x: int }\nprintln(HTTPClient {x: 1})\n");
    let many = (0..26).map(|n| format!("  if n > {n} {{ println(n) }}\n")).collect::<String>();
    fires("cyclomatic-complexity", &format!("fn f(n) {{\n{many}}}\nf(1)\n"), 1);
    silent(&format!("@complexity(allow)\nfn f(n) {{\n{many}}}\nf(1)\n"));
}

#[test]
fn calls_out_of_place() {
    fires("assert-outside-test", "assert(1 < 2)\n", 1);
    silent("fn check(n) { assert(n) }\npipeline test_n() { check(1) }\n");
    fires("require-in-test", "pipeline test_n() {\n  require 1 < 2\n}\n", 2);
    silent("pipeline run() {\n  require 1 < 2\n}\n");
    fires("prompt-injection-risk", "let n = \"x\"\nprintln(llm_call(\"p\", \"You ${n}\").text)\n", 2);
    silent("let n = \"x\"\nprintln(llm_call(\"p ${n}\", \"You\").text)\n");
    fires("unhandled-approval-result", "request_approval(\"go?\")\nprintln(1)\n", 1);
    fires("unhandled-approval-result", "for name in [\"a\"] {\n  request_approval(name)\n}\n", 2);
    silent("let a = request_approval(\"go?\")\nprintln(a)\n");
    silent("let a = try {\n  request_approval(\"go?\")\n}\nprintln(a)\n");
    silent("fn ask() {\n  request_approval(\"go?\")\n}\nprintln(ask())\n");
}

#[test]
fn a_comment_with_a_reason_takes_a_finding_back() {
    silent("let x = 1 // harn-lint: allow unused-variable: read by the debugger\nprintln(2)\n");
    silent("// harn-lint: allow unused-variable: read by the debugger\nlet x = 1\nprintln(2)\n");
    fires("suppression", "let x = 1 // harn-lint: allow unused-variable: was unused\nprintln(x)\n", 1);
    fires("suppression", "let x = 1 // harn-lint: allow no-such-rule: because\nprintln(x)\n", 1);
    let found = rules("let x = 1 // harn-lint: allow unused-variable\nprintln(2)\n");
    let names: Vec<&str> = found.iter().map(|(rule, _)| rule.as_str()).collect();
    assert_eq!(names, ["unused-variable", "suppression"]);
}

#[test]
fn the_new_mends_keep_the_meaning() {
    let folder = folder(&[(
        "a.harn",
        "fn f(n) {\n  let m = n == nil ? 1 : n\n  return m\n}\nprintln(f(nil), to_int(2))\n",
    )]);
    let ran = harn_in(folder.path(), &["lint", "--fix", "a.harn"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let fixed = std::fs::read_to_string(folder.path().join("a.harn")).unwrap();
    assert_eq!(fixed, "fn f(n) {\n  return n ?? 1\n}\n\nprintln(f(nil), 2)\n");
    assert_eq!(harn_in(folder.path(), &["a.harn"]).out, "1 2\n");
}

#[test]
fn registries_that_are_too_large() {
    let folder = folder(&[(
        "harn.toml",
        "[llm.providers.small]\nbase_url = \"http://127.0.0.1:9\"\n\
         [[capabilities.provider.small]]\nmodel_match = \"tiny\"\nmax_tools = 1\n\
         [[capabilities.provider.small]]\nmodel_match = \"*\"\nmax_tools = 2\n",
    )]);
    let found = |text: &str| -> Vec<(String, u64)> {
        std::fs::write(folder.path().join("a.harn"), text).unwrap();
        let args = ["lint", "--json", "a.harn"];
        let ran =
            harn_with_env(folder.path(), &args, &[("HARN_LLM_PROVIDER", "small"), ("HARN_LLM_MODEL", "m")]);
        let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let found = report["data"]["files"][0]["diagnostics"].as_array().unwrap().clone();
        let rule = found.iter().filter(|d| d["rule"] == "tool-registry-size");
        rule.map(|d| (d["message"].as_str().unwrap().to_owned(), d["line"].as_u64().unwrap())).collect()
    };
    let message = |count: u64, most: u64, route: &str| {
        format!("tool registry has {count} tools, more than the {most} that {route} accepts")
    };
    let define = |name: &str, from: &str| format!("{name} = tool_define({from}, \"t\", \"T\", {{}})\n");
    let three = "tools: [{name: \"a\"}, {name: \"b\"}, {name: \"c\"}]";

    // The smallest limit of the models that the file names; otherwise that of the default model.
    let call = |options: &str| format!("println(llm_call(\"x\", nil, {{{options}}}).text)\n");
    assert_eq!(found(&call(three)), [(message(3, 2, "small/m"), 1)]);
    assert_eq!(found(&call("tools: [{name: \"a\"}, {name: \"b\"}]")), []);
    assert_eq!(found(&call("tools: [{name: \"a\"}, {name: \"b\"}, ...more]")), []);
    let tiny = call(&format!("provider: \"small\", model: \"tiny\", {three}"));
    assert_eq!(
        found(&(call("provider: \"small\", model: \"m\"") + &tiny)),
        [(message(3, 1, "small/tiny"), 2)]
    );
    assert_eq!(found(&call(&format!("provider: \"openai\", model: \"gpt-4o\", {three}"))), []);

    // One variable, several that pass on their registry, and nested calls.
    let grown = format!("var {}{}{}", define("r", "tool_registry()"), define("r", "r"), define("r", "r"));
    assert_eq!(found(&grown), [(message(3, 2, "small/m"), 3)]);
    let handed =
        format!("let {}let {}let {}", define("a", "tool_registry()"), define("b", "a"), define("c", "b"));
    assert_eq!(found(&handed), [(message(3, 2, "small/m"), 3)]);
    let within = "tool_define(tool_define(tool_define(tool_registry(), \"a\", \"A\", {}), \"b\", \"B\", {}), \"c\", \"C\", {})";
    assert_eq!(found(&call(&format!("tools: {within}"))), [(message(3, 2, "small/m"), 1)]);

    // Variables of other functions, a registry that is replaced, an unknown registry.
    let function = |body: &str| format!("fn f() {{\nvar {body}return r\n}}\n");
    let two = define("r", "tool_registry()") + &define("r", "r");
    assert_eq!(found(&(function(&two) + &function(&two).replace("fn f", "fn g"))), []);
    assert_eq!(found(&(format!("var {two}") + &define("r", "tool_registry()"))), []);
    assert_eq!(
        found(&format!("fn f(r) {{\n{}{}{}}}\n", define("r", "r"), define("r", "r"), define("r", "r"))),
        []
    );
    assert_eq!(
        found(&format!("var {two}fn f() {{\n{}}}\n", define("r", "r"))),
        [(message(3, 2, "small/m"), 4)]
    );
}

#[test]
fn what_fails_or_means_nothing_where_it_stands() {
    fires("break-outside-loop", "fn f() {\n  break\n}\nf()\n", 2);
    fires("break-outside-loop", "for n in [1] {\n  let f = fn(_x) { continue }\n  f(n)\n}\n", 2);
    fires("invalid-binary-op-literal", "fn f(x) { x + true }\nprintln(f(1))\n", 1);
    fires("invalid-binary-op-literal", "fn f(x) { nil * x }\nprintln(f(1))\n", 1);
    fires("pointless-comparison", "if true {\n  println(1)\n}\n", 1);
    fires("pipeline-return-type", "pub pipeline count(task) {\n  println(task)\n}\n", 1);
    silent("for n in [1, 2] {\n  if n == 1 { continue }\n  break\n}\n");
    silent("fn f(x) { x ? 1 : 2 }\nprintln(f(true) + 1)\n");
    silent("pub pipeline default(task) {\n  println(task)\n}\n");
    silent("pub pipeline test_count(task) {\n  println(task)\n}\n");
    silent("pub pipeline count(task) -> int {\n  return len(task)\n}\n");
}

#[test]
fn a_loop_that_is_not_there_is_an_error() {
    let folder = folder(&[("a.harn", "fn f() {\n  continue\n}\nf()\n")]);
    let ran = harn_in(folder.path(), &["lint", "a.harn"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("error: `continue` used outside of a loop"), "{}", ran.err);
}

#[test]
fn names_that_stand_for_two_things() {
    fires("shadow-variable", "let x = 1\nfor n in [1] {\n  let x = n\n  println(x)\n}\nprintln(x)\n", 3);
    // This fails when it is executed.
    let found = rules("fn f(x) {\n  let x = x ?? 1\n  return x + 1\n}\nprintln(f(1))\n");
    let both = [("E0112".to_owned(), 2), ("shadow-variable".to_owned(), 2)];
    assert_eq!(found, both);
    fires("shadow-variable", "fn f(n) {\n  for n in [n] {\n    println(n)\n  }\n}\nf(1)\n", 2);
    // Sibling scopes, a later variable, a parameter, and an unused name.
    silent("if random() > 0.5 {\n  let x = 1\n  println(x)\n} else {\n  let x = 2\n  println(x)\n}\n");
    silent("fn f() {\n  let x = 1\n  return x + 1\n}\nlet x = f()\nprintln(x)\n");
    silent("let x = 1\nprintln([2].map({ x -> x + 1 }), x)\n");
    let found = rules("let x = 1\nlet x = 2\nprintln(x)\n");
    assert!(found.contains(&("shadow-variable".to_owned(), 2)), "{found:?}");
}

#[test]
fn code_that_is_never_reached() {
    fires("dead-code-after-return", "fn f(n) {\n  return n\n  println(n)\n}\nprintln(f(1))\n", 3);
    silent("fn f(n) {\n  if n > 1 { return 2 }\n  return n\n}\nprintln(f(1))\n");
    for name in ["dead-code-after-return", "unreachable-code", "W0101"] {
        let manifest = format!("[lint]\ndisabled = [\"{name}\", \"blank-line-between-items\"]\n");
        assert_eq!(rules_with(&manifest, "fn f(n) {\n  return n\n  println(n)\n}\nprintln(f(1))\n"), []);
    }
    silent(
        "fn f(n) {\n  return n\n  println(n) // harn-lint: allow unreachable-code: shown in a talk\n}\nprintln(f(1))\n",
    );
}

#[test]
fn values_in_the_wrong_form() {
    let found = rules("let x = [1]\nprintln(x.clone())\n");
    assert!(found.contains(&("redundant-clone".to_owned(), 2)), "{found:?}");
    silent(
        "struct Box { n: int }\nimpl Box {\n  fn clone(self) { Box {n: self.n} }\n}\nprintln(Box {n: 1}.clone())\n",
    );
    let found = rules("let x: list = [1].iter().map({ n -> n })\nprintln(x)\n");
    assert!(found.contains(&("eager-collection-conversion".to_owned(), 1)), "{found:?}");
    let found = rules("fn f(xs) -> set { iter(xs) }\nprintln(f([1]))\n");
    assert!(found.contains(&("eager-collection-conversion".to_owned(), 1)), "{found:?}");
    silent("let x: list = [1].map({ n -> n })\nlet y: iter = [1].iter()\nprintln(x, y)\n");
    fires("untyped-dict-access", "println(json_parse(\"{}\").a)\n", 1);
    fires("untyped-dict-access", "println(llm_call(\"x\").data.name)\n", 1);
    silent("println(llm_call(\"x\").text, llm_call(\"x\", nil, {schema: {type: \"object\"}}).data)\n");
    silent("let user: {name: string} = json_parse(\"{}\")\nprintln(user.name)\n");
}

#[test]
fn effects_that_come_too_early_or_out_of_place() {
    let pr = "mcp_call(c, \"git::push_pr\", {})";
    fires("pr-open-without-secret-scan", &format!("fn f(c) {{\n  {pr}\n}}\nprintln(f(1))\n"), 2);
    fires(
        "pr-open-without-secret-scan",
        &format!(
            "fn f(c, s) {{\n  if s {{ mcp_call(c, \"secret_scan\", {{}}) }}\n  {pr}\n}}\nprintln(f(1, 2))\n"
        ),
        3,
    );
    silent(&format!("fn f(c) {{\n  mcp_call(c, \"secret_scan\", {{}})\n  {pr}\n}}\nprintln(f(1))\n"));
    silent(&format!(
        "fn f(c, s) {{\n  if s {{ mcp_call(c, \"secret_scan\", {{}}) }} else {{ return nil }}\n  {pr}\n}}\nprintln(f(1, 2))\n"
    ));
    fires("connector-effect-policy", "pub fn normalize_inbound(raw) {\n  return http_get(raw).body\n}\n", 2);
    fires(
        "connector-effect-policy",
        "pub fn poll_tick(state) { return state }\npub fn call(raw) {\n  return llm_call(raw).text\n}\n",
        3,
    );
    // Models, programs and files, by the effects in the builtin table. Metadata of models and reads of files are
    // allowed.
    for call in [
        "llm_call_structured(raw, {type: \"object\"})",
        "llm_stream(raw)",
        "workflow_execute(raw, {act: {}})",
        "daemon_spawn({task: raw})",
        "transcript_summarize(raw)",
        "agent_loop(raw)",
        "exec(raw)",
        "write_file_bytes(raw, bytes_from_string(\"a\"))",
        "store_set(\"k\", raw)",
    ] {
        let program =
            format!("pub fn poll_tick(state) {{ return state }}\npub fn call(raw) {{\n  return {call}\n}}\n");
        fires("connector-effect-policy", &program, 3);
    }
    for call in ["read_file(raw)", "llm_cost(raw, 1, 2)", "store_get(raw)", "http_get(raw)"] {
        silent(&format!("pub fn poll_tick(raw) {{ return {call} }}\n"));
    }
    // Code that polls may use the network; other functions may also be named `call`.
    silent("pub fn poll_tick(url) { return http_get(url).body }\n");
    silent("pub fn call(raw) { return llm_call(raw).text }\n");
}

#[test]
fn the_layout_of_a_file() {
    let all = |text: &str| rules_with("[lint]\n", text);
    let fires = |rule: &str, text: &str, line: u64| {
        assert_eq!(all(text), [(rule.to_owned(), line)], "in {text}");
    };
    fires("blank-line-between-items", "fn f() { 1 }\nprintln(f())\n", 2);
    fires("blank-line-between-items", "import \"std/text\"\nprintln(1)\n", 2);
    assert_eq!(all("type A = int\nlet x: A = 1\nprintln(x)\n"), []);
    assert_eq!(all("fn f() { 1 }\n\n// The start.\nprintln(f())\n"), []);
    fires("trailing-comma", "println({\n  a: 1,\n  b: 2 // last\n})\n", 3);
    assert_eq!(all("println([1, 2], {\n  a: 1,\n})\n"), []);
    fires("import-order", "import \"std/text\"\nimport \"std/path\"\n\nprintln(1)\n", 1);
    fires(
        "import-order",
        "import { shout, parse_int_or } from \"std/text\"\n\nprintln(shout(\"a\"), parse_int_or(\"1\", 2))\n",
        1,
    );
    fixed(
        "import { shout, parse_int_or } from \"std/text\"\nprintln(shout(\"a\"), parse_int_or(\"1\", 2))\n",
        "import { parse_int_or, shout } from \"std/text\"\nprintln(shout(\"a\"), parse_int_or(\"1\", 2))\n",
    );
    assert_eq!(all("import \"std/text\"\n// First the text.\nimport \"std/path\"\n\nprintln(1)\n"), []);
    fires("missing-harndoc", "pub fn f() { 1 }\n", 1);
    assert_eq!(
        all("/** One. */\npub fn f() { 1 }\n\n// A remark.\nfn _g() { f() }\n\npub struct S { x: int }\n"),
        []
    );
    fires("legacy-doc-comment", "// One.\npub fn f() { 1 }\n", 1);
    fires("legacy-doc-comment", "/// One.\nfn f() { 1 }\n\nprintln(f())\n", 1);
    assert_eq!(all("// harn-lint: allow missing-harndoc: says it itself\npub fn one() { 1 }\n"), []);
    let header = |text: &str| rules_with("[lint]\nrequire-file-header = true\n", text);
    assert_eq!(header("println(1)\n"), [("require-file-header".to_owned(), 1)]);
    assert_eq!(header("/** Of the function. */\nfn f() { 1 }\n\nprintln(f())\n").len(), 1);
    assert_eq!(header("#!/usr/bin/env harn\n/** Says one. */\n\nprintln(1)\n"), []);
    assert_eq!(header("//! Says one.\nprintln(1)\n"), []);
    let most = |most: u8| {
        rules_with(&format!("[lint]\ncomplexity_threshold = {most}\n"), "fn f(a) { a && a && a }\n")
    };
    assert_eq!(most(1), [("cyclomatic-complexity".to_owned(), 1)]);
    assert_eq!(most(2), []);
}

#[test]
fn the_mends_of_the_layout_are_those_of_the_formatter() {
    let text = "#!/usr/bin/env harn\nimport \"lib\"\nimport { ext } from \"std/path\"\n/// Says more.\n/// And more.\npub fn f(xs) -> list {\n  return xs.iter().map({ x -> ext(x) }).to_list()\n}\nprintln(f([\n  \"a.b\", // first\n  one()\n]))\n";
    let folder = folder(&[
        ("harn.toml", "[lint]\nrequire_file_header = true\n"),
        ("lib.harn", "/** One. */\n\n/** A name. */\npub fn one() { \"c.d\" }\n"),
        ("a_file.harn", text),
    ]);
    let ran = harn_in(folder.path(), &["lint", "--fix", "a_file.harn"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let fixed = std::fs::read_to_string(folder.path().join("a_file.harn")).unwrap();
    assert!(fixed.starts_with("#!/usr/bin/env harn\n/** A file. */\n\nimport { ext }"), "{fixed}");
    assert!(fixed.contains("\n/**\n * Says more.\n * And more.\n */\npub fn f"), "{fixed}");
    assert_eq!(harn_in(folder.path(), &["fmt", "--check", "a_file.harn"]).code, 0, "{fixed}");
    assert_eq!(harn_in(folder.path(), &["a_file.harn"]).out, "[b, d]\n");
}
