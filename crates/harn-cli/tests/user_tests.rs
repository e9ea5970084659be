//! `harn test` on the tests of a project.

use std::path::Path;

use crate::common::{Ran, harn_in};

fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// Runs tests and removes all durations from the result.
fn run(folder: &Path, args: &[&str]) -> Ran {
    let mut ran = harn_in(folder, args);
    let times = regex::Regex::new(r"\d+ ms").unwrap();
    ran.out = times.replace_all(&ran.out, "N ms").into_owned();
    ran
}

const TWO: &str = "let shared = [1]\n\
    pipeline test_ok() {\n  println(\"fine\")\n  assert_eq(shared, [1])\n}\n\
    @test\npipeline marked() {\n  println(\"before\")\n  assert_eq({a: [1, 2]}, {a: [1, 3]}, \"numbers\")\n}\n\
    pipeline helper() {\n  throw \"never runs\"\n}\n";

#[test]
fn modules_of_tests_find_their_templates() {
    let module = "pub fn hi(name) { return render(\"prompts/hi.harn.prompt\", {name: name}) }\n\
        pub fn place() { return source_dir() }\n";
    let test = "import { hi, place } from \"../m\"\n\
        pipeline test_hi() {\n  assert_eq(hi(\"Ada\"), \"Hello Ada\")\n\
        \x20 assert_eq(path_join(place(), \"tests\"), cwd())\n  assert_eq(source_dir(), cwd())\n}\n";
    let folder = project(&[
        ("m.harn", module),
        ("prompts/hi.harn.prompt", "Hello {{ name }}"),
        ("tests/a.harn", test),
    ]);
    let root = folder.path().to_str().unwrap();
    for (place, args) in [
        ("", vec!["test"]),
        ("", vec!["test", "tests/a.harn"]),
        ("tests", vec!["test", "a.harn"]),
        ("prompts", vec!["test", root]),
    ] {
        let ran = run(&folder.path().join(place), &args);
        assert_eq!(ran.code, 0, "{place} {args:?}\n{}", ran.shown());
    }
}

#[test]
fn a_failed_assertion_shows_both_values_and_the_line() {
    let folder = project(&[("tests/a.harn", TWO), ("tests/helper.harn", "fn f() { throw 1 }\n")]);
    let ran = run(folder.path(), &["test"]);
    assert_eq!(ran.code, 1);
    let expected = "Running 2 tests from 1 file...\n\n\
  \x20 PASS  test_ok [tests/a.harn] (N ms)\n\
  \x20 FAIL  marked [tests/a.harn]\n\
        error: Thrown: numbers\n\
          --> tests/a.harn:9:3\n\
           |\n\
         9 |   assert_eq({a: [1, 2]}, {a: [1, 3]}, \"numbers\")\n\
           |   ^^^^^^^^^\n\
           = note: expected {a: [1, 3]}\n\
           = note: got {a: [1, 2]}\n\
           = note: they differ at .a[1]: expected 3, got 2\n\
        output:\n\
          before\n\n\
1 passed, 1 failed, 2 total (N ms)\n";
    let plain = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert_eq!(plain(&ran.out), plain(expected), "{}", ran.out);
}

#[test]
fn passing_tests_are_quiet_unless_asked() {
    let folder = project(&[("tests/a.harn", "pipeline test_a() { println(\"hello\") }\n")]);
    let ran = run(folder.path(), &["test"]);
    assert_eq!((ran.code, ran.out.contains("hello")), (0, false), "{}", ran.out);
    assert!(ran.out.ends_with("\n1 passed, 1 total (N ms)\n"), "{}", ran.out);
    let ran = run(folder.path(), &["test", "--verbose"]);
    assert!(ran.out.contains("output:\n          hello\n"), "{}", ran.out);
    let ran = run(folder.path(), &["test", "--timing"]);
    assert!(ran.out.contains("Slowest 1 tests:"), "{}", ran.out);
}

#[test]
fn every_test_starts_anew_in_the_folder_of_its_file() {
    let text = "import { next } from \"lib/counter\"\n\
        pipeline test_one() {\n  assert_eq(next(), 1)\n  store_set(\"k\", 1)\n}\n\
        pipeline test_two() {\n  assert_eq(next(), 1)\n  assert_eq(store_get(\"k\"), nil)\n  assert_eq(read_file(\"data.txt\"), \"here\")\n}\n";
    let folder = project(&[
        ("deep/tests/a.harn", text),
        ("deep/tests/lib/counter.harn", "var n = 0\npub fn next() {\n  n += 1\n  n\n}\n"),
        ("deep/tests/data.txt", "here"),
    ]);
    let ran = run(folder.path(), &["test", "deep"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(!folder.path().join("deep/tests/.harn").exists());
}

#[test]
fn what_does_not_end_is_stopped() {
    let folder = project(&[(
        "a.harn",
        "pipeline test_loop() {\n  println(\"so far\")\n  while true { }\n}\npipeline test_b() { }\n",
    )]);
    let ran = run(folder.path(), &["test", "a.harn", "--timeout", "300"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.out.contains("FAIL  test_loop [a.harn]\n        error: timed out after 300ms\n        output:\n          so far\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("1 passed, 1 failed, 2 total"), "{}", ran.out);
}

#[test]
fn files_that_are_no_programs_fail() {
    let folder = project(&[
        ("tests/bad.harn", "pipeline test_a( {\n"),
        ("tests/types.harn", "let n: int = \"a\"\npipeline test_b() { }\n"),
    ]);
    let ran = run(folder.path(), &["test"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("FAIL  <file error> [tests/bad.harn]"), "{}", ran.out);
    assert!(ran.out.contains("'n' declared as int, but assigned string"), "{}", ran.out);
}

#[test]
fn filters_choose_by_name_or_path() {
    let text = "pipeline test_red() { }\npipeline test_green() { }\n";
    let folder = project(&[("tests/one.harn", text), ("tests/two.harn", text)]);
    let count = |filter: &str| {
        let ran = run(folder.path(), &["test", "--filter", filter]);
        assert_eq!(ran.code, 0, "{}", ran.out);
        ran.out.matches("PASS").count()
    };
    assert_eq!(
        [count("red"), count("two"), count("re:red|one"), count("*gre*"), count("red|green")],
        [2, 2, 3, 2, 4]
    );
    let none = run(folder.path(), &["test", "--filter", "blue"]);
    let told = "error: --filter blue: no test matches\n";
    assert_eq!((none.code, none.out.as_str(), none.err.as_str()), (1, "", told));
    assert_eq!(run(folder.path(), &["test", "--filter", "re:("]).code, 2);
}

#[test]
fn reports_for_tools() {
    let folder = project(&[("tests/a.harn", TWO)]);
    let ran =
        run(folder.path(), &["test", "--json", "--junit", "out/junit.xml", "--json-out", "out/report.json"]);
    assert_eq!(ran.code, 1);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["suite"], "user");
    assert_eq!(
        report["summary"],
        serde_json::json!({"total": 2, "passed": 1, "failed": 1, "timed_out": 0, "skipped": 0})
    );
    assert_eq!(report["cases"][0]["name"], "test_ok");
    assert_eq!(report["cases"][0]["classname"], "tests.a");
    assert!(report["cases"][1]["message"].as_str().unwrap().contains("Thrown: numbers"));
    let written = std::fs::read_to_string(folder.path().join("out/report.json")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap()["cases"][1]["outcome"], "failed");
    let xml = std::fs::read_to_string(folder.path().join("out/junit.xml")).unwrap();
    assert!(
        xml.contains("tests=\"2\" failures=\"1\"") && xml.contains("name=\"marked [tests/a.harn]\""),
        "{xml}"
    );
}

#[test]
fn models_are_not_asked() {
    let text = "pipeline test_mock() {\n  llm_mock({text: \"hi\"})\n  assert_eq(llm_call(\"q\").text, \"hi\")\n}\n\
        pipeline test_real() {\n  llm_call(\"q\", nil, {provider: \"openai\", model: \"gpt-4o\"})\n}\n";
    let folder = project(&[("tests/a.harn", text)]);
    let ran = run(folder.path(), &["test"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("PASS  test_mock") && ran.out.contains("FAIL  test_real"), "{}", ran.out);
}

#[test]
fn what_cannot_be_tested_is_told() {
    let folder = project(&[("a.harn", "println(1)\n")]);
    let missing = run(folder.path(), &["test", "nowhere"]);
    assert_eq!(missing.code, 1);
    assert!(missing.err.starts_with("error: Path not found: nowhere\n"), "{}", missing.err);
    let none = run(folder.path(), &["test"]);
    assert_eq!(none.code, 2);
    assert!(none.err.contains("no path specified and no tests/ directory found"), "{}", none.err);
    assert_eq!(
        run(folder.path(), &["test", "a.harn"]).out,
        "No test pipelines found: a test is a pipeline whose name begins with `test_`, such as `pipeline test_sum() { ... }`\n"
    );
    assert_eq!(run(folder.path(), &["test", "a.harn", "--in-memory"]).code, 2);
    let exits = project(&[("a.harn", "pipeline test_exit() { exit(3) }\n")]);
    let ran = run(exits.path(), &["test", "a.harn"]);
    assert!(ran.code == 1 && ran.out.contains("the test ended with exit(3)"), "{}", ran.out);
}

#[test]
fn a_function_marked_as_a_test_is_told() {
    let folder = project(&[("tests/a.harn", "@test\nfn adds() {\n  assert_eq(1 + 1, 2)\n}\n")]);
    let ran = run(folder.path(), &["test"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.out.contains("error: `@test` only applies to pipelines: `fn adds` is not run"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("--> tests/a.harn:1:1") && ran.out.contains("write `pipeline adds() { ... }`"),
        "{}",
        ran.out
    );
}

/// An error that prevents a file from running is reported with its first test; an error during a test is reported only
/// by that test.
#[test]
fn an_error_of_a_file_is_told_once() {
    let wrong = "fn f(a: int) { a }\npipeline test_a() { f(1) }\npipeline test_b() { f(\"x\") }\n";
    let unknown = "pipeline test_c() { assert(nosuch) }\npipeline test_d() { assert(true) }\n";
    let folder = project(&[("tests/a.harn", wrong), ("tests/b.harn", unknown)]);
    let ran = run(folder.path(), &["test"]);
    assert_eq!(ran.out.matches("Argument 1 ('a'): expected int, got string").count(), 1, "{}", ran.out);
    assert!(
        ran.out.contains("FAIL  test_b [tests/a.harn]\n        the same error as in test_a\n"),
        "{}",
        ran.out
    );
    assert_eq!(ran.out.matches("Undefined variable: nosuch").count(), 1, "{}", ran.out);
    assert!(ran.out.contains("1 passed, 3 failed"), "{}", ran.out);
}
