//! Options of `harn test`: coverage, recorded replies, snapshots, determinism, watching.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::common::{Ran, command, finish, folder, harn_in};
use crate::models::{REPLY, serve};

fn with_env(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Ran {
    let mut command = command(args);
    command.current_dir(folder).envs(env.iter().copied());
    finish(command, b"")
}

const LIB: &str = "pub fn sign(n) {\n  if n < 0 {\n    return \"minus\"\n  }\n  let word = \"plus\"\n  word\n}\n\n\
    pub fn never() {\n  println(\"never\")\n  [1, 2].map({ n ->\n    n + 1\n  })\n}\n\npub fn twice(n) { n * 2 }\n";

const TESTS: &str = "import { sign, twice } from \"../lib/sign\"\n\
    pipeline test_plus() {\n  for n in [1, 2, 3] {\n    assert_eq(sign(n), \"plus\")\n  }\n}\n\
    pipeline test_twice() {\n  assert_eq(twice(2), 4)\n}\n";

#[test]
fn coverage_counts_the_lines_of_the_modules_under_test() {
    let home = folder(&[("lib/sign.harn", LIB), ("tests/sign.harn", TESTS)]);
    let plain = harn_in(home.path(), &["test"]);
    assert!(plain.code == 0 && !plain.out.contains("Coverage"), "{plain:?}");
    let ran = harn_in(home.path(), &["test", "--coverage-out", "out/lcov.info"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let table: Vec<&str> = ran.out.lines().skip_while(|line| !line.starts_with("Coverage")).collect();
    assert_eq!(
        table,
        [
            "Coverage       Lines  Hit  Part   Missed",
            "lib/sign.harn  8      4    50.0%  3, 10-12",
            "Total          8      4    50.0%",
            "LCOV written to out/lcov.info",
        ],
        "{}",
        ran.out
    );
    let lcov = std::fs::read_to_string(home.path().join("out/lcov.info")).unwrap();
    let expected = "TN:\nSF:lib/sign.harn\nDA:2,3\nDA:3,0\nDA:5,3\nDA:6,3\nDA:10,0\nDA:11,0\nDA:12,0\nDA:16,1\n\
        LF:8\nLH:4\nend_of_record\n";
    assert_eq!(lcov, expected);
    let ran = harn_in(home.path(), &["test", "--coverage", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["coverage"]["files"][0]["missed"], serde_json::json!([3, 10, 11, 12]));
    assert_eq!(report["coverage"]["hit"], 4);
}

#[test]
fn counted_programs_do_the_same() {
    // Generators, tasks, handlers and cleanup leave the interpreter's loop in different ways.
    let text = "gen fn numbers() {\n  defer { println(\"closed\") }\n  for n in 1 to 5 {\n    emit n\n  }\n}\n\
        pipeline test_all() {\n  for n in numbers() {\n    if n == 3 { break }\n    println(n)\n  }\n\
        let found = parallel each [3, 4] { n -> n * 2 }\n  println(found)\n\
        let r = try {\n    throw \"x\"\n  } catch (e) {\n    \"caught ${e}\"\n  } finally {\n    println(\"finally\")\n  }\n  println(r)\n\
        println([3, 1, 2].sort_by({ n -> 0 - n }).map({ n ->\n    let m = n + 1\n    m\n  }))\n}\n";
    let home = folder(&[("tests/a.harn", text)]);
    let shown = |args: &[&str]| {
        let ran = harn_in(home.path(), args);
        assert_eq!(ran.code, 0, "{ran:?}");
        let lines = ran.out.lines().skip_while(|line| !line.contains("output:"));
        lines.take_while(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let plain = shown(&["test", "-v"]);
    assert!(plain.len() > 6, "{plain:?}");
    assert_eq!(plain, shown(&["test", "-v", "--coverage"]));
}

#[test]
fn replies_are_recorded_and_replayed_by_what_was_asked() {
    let (address, asked) = serve(&[REPLY]);
    let manifest = format!("[llm.providers.mine]\nbase_url = \"{address}\"\nauth_env = \"MINE_KEY\"\n");
    let test = "pipeline test_ask() {\n  let r = llm_call(\"hello\", nil, {provider: \"mine\", model: \"m\", stream: false})\n  \
        assert_eq(r.text, \"From the wire.\")\n}\n";
    let home = folder(&[("harn.toml", &manifest), ("tests/a.harn", test)]);
    let key = [("MINE_KEY", "secret-key-of-mine")];
    let refused = harn_in(home.path(), &["test"]);
    assert!(refused.code == 1 && refused.out.contains("LLM calls are disabled"), "{refused:?}");
    let missing = harn_in(home.path(), &["test", "--replay"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(
        missing.out.contains("no recorded reply ") && missing.out.contains("for the prompt \"hello\""),
        "{missing:?}"
    );
    let recorded = with_env(home.path(), &["test", "--record"], &key);
    assert_eq!(recorded.code, 0, "{recorded:?}");
    assert!(asked.recv().unwrap().contains("hello"));
    let kept: Vec<_> = std::fs::read_dir(home.path().join(".harn-fixtures")).unwrap().collect();
    assert_eq!(kept.len(), 1);
    let kept = kept[0].as_ref().unwrap().path();
    assert_eq!(kept.file_stem().unwrap().len(), 16);
    let text = std::fs::read_to_string(&kept).unwrap();
    assert!(text.contains("From the wire.") && !text.contains("secret"), "{text}");
    // There is no server and no key.
    let replayed = harn_in(home.path(), &["test", "--replay"]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    std::fs::write(&kept, "{\"txt\": 1}\n").unwrap();
    let broken = harn_in(home.path(), &["test", "--replay"]);
    assert_eq!(broken.code, 1, "{broken:?}");
}

#[test]
fn replies_of_the_suite_are_recorded_and_replayed() {
    let (address, asked) = serve(&[REPLY]);
    let manifest = format!("[llm.providers.mine]\nbase_url = \"{address}\"\nauth_env = \"MINE_KEY\"\n");
    let case = "println(llm_call(\"hello\", nil, {provider: \"mine\", model: \"m\", stream: false}).text)\n";
    let files = [
        ("harn.toml", manifest.as_str()),
        ("conformance/a.harn", case),
        ("conformance/a.expected", "From the wire.\n"),
    ];
    let home = folder(&files);
    let run = |options: &[&str]| {
        let args = [&["test", "conformance"], options].concat();
        with_env(home.path(), &args, &[("MINE_KEY", "secret-key-of-mine")])
    };
    let refused = run(&[]);
    assert!(refused.code == 1 && refused.out.contains("LLM calls are disabled"), "{refused:?}");
    let missing = run(&["--replay"]);
    assert!(missing.code == 1 && missing.out.contains("for the prompt \"hello\""), "{missing:?}");
    let recorded = run(&["--record"]);
    assert_eq!(recorded.code, 0, "{recorded:?}");
    assert!(asked.recv().unwrap().contains("hello"));
    // There is no server and no key.
    let replayed = harn_in(home.path(), &["test", "conformance", "--replay"]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
}

#[test]
fn replies_beside_a_file_answer_its_tests() {
    let test = "pipeline test_first() {\n  assert_eq(llm_call(\"a\").text, \"one\")\n}\n\
        pipeline test_again() {\n  assert_eq(llm_call(\"b\").text, \"one\")\n  assert_eq(llm_call(\"c\").text, \"two\")\n}\n";
    let replies = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
    let home = folder(&[("tests/a.harn", test), ("tests/a.llm-mock.jsonl", replies)]);
    let ran = harn_in(home.path(), &["test"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let again = harn_in(home.path(), &["test", "--determinism"]);
    assert_eq!(again.code, 0, "{again:?}");
}

#[test]
fn two_runs_that_differ_are_told() {
    let same = "pipeline test_same() {\n  println(llm_call(\"q\").text)\n}\n";
    let other = "pipeline test_other() {\n  println(\"first line\")\n  println(uuid())\n}\n";
    let asks = "pipeline test_asks() {\n  llm_call(\"a ${uuid()}\")\n}\n";
    let home = folder(&[("tests/a.harn", &format!("{same}{other}{asks}"))]);
    assert_eq!(harn_in(home.path(), &["test"]).code, 0);
    let ran = harn_in(home.path(), &["test", "--determinism"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("PASS  test_same"), "{}", ran.out);
    assert!(ran.out.contains("FAIL  test_other"), "{}", ran.out);
    assert!(ran.out.contains("tests/a.harn: replay changed stdout"), "{}", ran.out);
    assert!(ran.out.contains("          first line\n"), "{}", ran.out);
    let calls = "tests/a.harn: replay changed provider_call_response output";
    assert!(ran.out.contains("FAIL  test_asks") && ran.out.contains(calls), "{}", ran.out);
    assert_eq!(harn_in(home.path(), &["test", "--determinism", "--record"]).code, 2);
}

#[test]
fn snapshots_are_written_on_demand_and_compared() {
    let test = |n: u32| {
        format!(
            "pipeline test_shape() {{\n  assert_snapshot({{b: {n}, a: [1]}}, \"shape\")\n  assert_snapshot(\"x\\ny\", \"text\")\n}}\n"
        )
    };
    let home = folder(&[("tests/a.harn", &test(1))]);
    let write = |text: String| std::fs::write(home.path().join("tests/a.harn"), text).unwrap();
    let missing = harn_in(home.path(), &["test"]);
    assert_eq!(missing.code, 1);
    assert!(missing.out.contains("there is no snapshot \"shape\" yet"), "{}", missing.out);
    assert!(!home.path().join("tests/snapshots").exists());
    assert_eq!(harn_in(home.path(), &["test", "--update-snapshots"]).code, 0);
    let read = |name: &str| std::fs::read_to_string(home.path().join("tests/snapshots").join(name)).unwrap();
    assert_eq!(read("a.shape.snap"), "{\n  \"a\": [\n    1\n  ],\n  \"b\": 1\n}\n");
    assert_eq!(read("a.text.snap"), "x\ny\n");
    assert_eq!(harn_in(home.path(), &["test"]).code, 0);
    write(test(2));
    let differs = harn_in(home.path(), &["test"]);
    assert_eq!(differs.code, 1);
    assert!(differs.out.contains("the value differs from the snapshot \"shape\""), "{}", differs.out);
    assert!(differs.out.contains("line 5: expected `  \"b\": 1`, got `  \"b\": 2`"), "{}", differs.out);
    assert_eq!(harn_in(home.path(), &["test", "--update-snapshots"]).code, 0);
    assert!(read("a.shape.snap").contains("\"b\": 2"));
    write("pipeline test_name() {\n  assert_snapshot(1, \"../up\")\n}\n".to_owned());
    let bad = harn_in(home.path(), &["test", "--update-snapshots"]);
    assert!(bad.code == 1 && bad.out.contains("name must have letters"), "{}", bad.out);
}

#[test]
fn texts_that_differ_are_told_by_line() {
    let test = "pipeline test_lines() {\n  assert_eq(\"one\\ntwo\\nthree\", \"one\\n2\\nthree\")\n}\n";
    let home = folder(&[("tests/a.harn", test)]);
    let ran = harn_in(home.path(), &["test"]);
    assert!(ran.out.contains("they differ in line 2: expected `2`, got `two`"), "{}", ran.out);
}

#[test]
fn watching_runs_the_tests_again() {
    let home = folder(&[
        ("harn.toml", "[package]\nname = \"p\"\n"),
        ("lib/n.harn", "pub fn n() { 1 }\n"),
        ("tests/a.harn", "import { n } from \"../lib/n\"\npipeline test_n() {\n  assert_eq(n(), 1)\n}\n"),
    ]);
    let mut command = command(&["test", "--watch"]);
    command.current_dir(home.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut next = || told.next().unwrap().unwrap();
    assert!(next().starts_with("[watch] ended with 0, waiting for changes below "));
    // The module is next to the test directory, in the project.
    std::fs::write(home.path().join("lib/n.harn"), "pub fn n() { 22 }\n").unwrap();
    assert_eq!(next(), "[watch] lib/n.harn changed");
    assert!(next().starts_with("[watch] ended with 1, waiting"));
    child.kill().unwrap();
    let out = child.wait_with_output().unwrap();
    let out = String::from_utf8(out.stdout).unwrap();
    assert!(out.contains("PASS  test_n") && out.contains("FAIL  test_n"), "{out}");
    assert_eq!(harn_in(home.path(), &["test", "--watch", "--json"]).code, 2);
}

#[test]
fn options_of_projects_are_refused_for_the_suite() {
    let home = folder(&[("conformance/a.harn", "println(1)\n"), ("conformance/a.expected", "1\n")]);
    for option in ["--watch", "--coverage", "--update-snapshots"] {
        let ran = harn_in(home.path(), &["test", "conformance", option]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(&format!("'{option}' cannot be used with `conformance`")), "{ran:?}");
    }
    for option in ["--record", "--replay"] {
        for other in ["--in-memory", "--journal", "--determinism"] {
            assert_eq!(harn_in(home.path(), &["test", "conformance", option, other]).code, 2);
        }
    }
    assert_eq!(harn_in(home.path(), &["test", "conformance", "--determinism"]).code, 0);
    std::fs::write(home.path().join("conformance/b.harn"), "println(uuid())\n").unwrap();
    std::fs::write(home.path().join("conformance/b.expected"), "x\n").unwrap();
    let ran = harn_in(home.path(), &["test", "conformance", "--determinism"]);
    assert!(ran.code == 1 && ran.out.contains("replay changed stdout: run again"), "{ran:?}");
}

#[test]
fn programs_are_timed() {
    let home = folder(&[
        ("a.harn", "println(llm_call(\"q\").text)\nlet xs = [1, 2]\nxs.map({ x -> x + 1 })\n"),
        ("bad.harn", "throw \"no\"\n"),
        ("r.jsonl", "{\"text\": \"hi\", \"input_tokens\": 3, \"output_tokens\": 4}\n"),
    ]);
    let args = ["bench", "a.harn", "-n", "3", "--llm-mock", "r.jsonl", "--profile-json", "p.json"];
    let ran = harn_in(home.path(), &args);
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[..2], ["Benchmark: a.harn", "Iterations: 3"]);
    assert!(lines[2].starts_with("Wall time: min ") && lines[2].contains(" ms | avg "), "{}", ran.out);
    assert_eq!(lines[4..6], ["LLM calls: 3", "Tokens: 9 in + 12 out"]);
    let text = std::fs::read_to_string(home.path().join("p.json")).unwrap();
    let profile: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(profile["runs"].as_array().unwrap().len(), 3);
    assert_eq!(profile["runs"][1]["llm"]["output_tokens"], 4);
    let none = harn_in(home.path(), &["bench", "a.harn", "-n", "0"]);
    assert_eq!((none.code, none.err.trim()), (1, "error: `harn bench` requires at least one iteration"));
    let bad = harn_in(home.path(), &["bench", "bad.harn"]);
    assert!(
        bad.code == 1 && bad.err.contains("Thrown: no") && bad.err.contains("run 1 of 10 failed"),
        "{bad:?}"
    );
}

/// The result of `harn doctor` in a directory: its exit code and output, and the status and detail of a check.
struct Examined {
    ran: Ran,
    checks: Vec<serde_json::Value>,
    home: tempfile::TempDir,
}

impl Examined {
    fn new(files: &[(&str, &str)], env: &[(&str, &str)]) -> Examined {
        let home = folder(files);
        let ran = with_env(home.path(), &["doctor", "--json", "--no-network"], env);
        let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let checks = report["data"]["checks"].as_array().unwrap().clone();
        Examined { ran, checks, home }
    }

    fn of(&self, name: &str) -> (&str, &str) {
        let check = self.checks.iter().find(|check| check["check"] == name).unwrap();
        (check["status"].as_str().unwrap(), check["detail"].as_str().unwrap())
    }
}

#[test]
fn what_is_missing_is_told() {
    let plain = Examined::new(&[("a.harn", "")], &[("HARN_LLM_PROVIDER", "mock")]);
    assert_eq!(plain.ran.code, 0, "{:?}", plain.ran);
    assert_eq!(plain.of("manifest").0, "SKIP");
    assert_eq!([plain.of("providers").0, plain.of("permissions").0, plain.of("store").0], ["OK"; 3]);
    let misspelt = Examined::new(&[], &[("HARN_LLM_PROVDER", "mock")]);
    let (status, detail) = misspelt.of("variables");
    assert_eq!(status, "WARN");
    assert!(detail.contains("HARN_LLM_PROVDER (did you mean HARN_LLM_PROVIDER?)"), "{detail}");
    let warning =
        "[harn] warning: the variable HARN_LLM_PROVDER has no effect: did you mean HARN_LLM_PROVIDER?\n";
    assert!(misspelt.ran.err.contains(warning), "{:?}", misspelt.ran);
    // It is read-only.
    assert_eq!(std::fs::read_dir(plain.home.path()).unwrap().count(), 1);
    let key = [("HARN_LLM_PROVIDER", "openai"), ("OPENAI_API_KEY", "sk-very-secret-key")];
    let keyed = Examined::new(&[("harn.toml", "[package]\nname = \"p\"\n")], &key);
    let (manifest, network) = (keyed.of("manifest").0, keyed.of("network").0);
    assert_eq!((keyed.ran.code, manifest, network), (0, "OK", "SKIP"), "{:?}", keyed.ran);
    assert!(keyed.of("providers").1.contains("openai (OPENAI_API_KEY)"), "{:?}", keyed.ran);
    assert!(!keyed.ran.out.contains("secret"), "{:?}", keyed.ran);
    let wants = Examined::new(&[("harn.toml", "[dependencies]\nother = { path = \"../other\" }\n")], &[]);
    assert_eq!(wants.of("dependencies"), ("FAIL", "harn.lock is missing: run `harn install`"));
    assert_eq!(wants.ran.code, 1);
    let broken = Examined::new(&[("harn.toml", "[package\n")], &[]);
    assert_eq!((broken.ran.code, broken.of("manifest").0), (1, "FAIL"), "{:?}", broken.ran);
    let skills = Examined::new(&[("harn.toml", "[skills]\npaths = 1\n")], &[]);
    assert_eq!((skills.ran.code, skills.of("skills").0), (1, "FAIL"), "{:?}", skills.ran);
    let skill = Examined::new(&[("harn.toml", ""), (".harn/skills/a/SKILL.md", "no head\n")], &[]);
    assert_eq!((skill.ran.code, skill.of("skills").0), (0, "WARN"), "{:?}", skill.ran);
    let lines = harn_in(skill.home.path(), &["doctor", "--no-network"]);
    assert!(lines.out.lines().all(|line| line.len() > 22 && line.starts_with("  ")), "{}", lines.out);
}

#[test]
fn skills_of_a_folder_are_found_by_tests_and_programs() {
    let test = "pipeline test_skills() {\n  println(skill_list(skills).map({ s -> s.name }))\n}\n";
    let skill = "---\nname: greet\nshort: Hello.\ndescription: Say hello.\n---\nBe kind.\n";
    let home = folder(&[("tests/a.harn", test), ("mine/greet/SKILL.md", skill)]);
    for (dirs, found) in [(&["--skill-dir", "mine"][..], "[greet]"), (&[][..], "[]")] {
        let ran = harn_in(home.path(), &[&["test", "-v"], dirs].concat());
        assert!(ran.code == 0 && ran.out.contains(found), "{ran:?}");
        let program = ["-e", "println(skill_list(skills).map({ s -> s.name }))"];
        let ran = harn_in(home.path(), &[&["run"], dirs, &program[..]].concat());
        assert_eq!(ran.out, format!("{found}\n"), "{ran:?}");
    }
    for command in [&["test"][..], &["run", "-e", "println(1)"]] {
        let ran = harn_in(home.path(), &[command, &["--skill-dir", "mien"]].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("--skill-dir: directory not found: mien"), "{ran:?}");
    }
}

#[test]
fn a_test_that_asks_a_model_is_told_what_to_do() {
    let test = "pipeline test_real() { llm_call(\"hi\", nil, {provider: \"openai\"}) }\n";
    let home = folder(&[("tests/a.harn", test)]);
    let ran = harn_in(home.path(), &["test"]);
    assert!(ran.out.contains("would make a real LLM request"), "{ran:?}");
    assert!(ran.out.contains("note: tests do not call models: set the reply with `llm_mock`"), "{ran:?}");
    // A user who disabled calls needs no hint how to enable them.
    let ran = with_env(home.path(), &["test"], &[("HARN_LLM_CALLS_DISABLED", "1")]);
    assert!(!ran.out.contains("note: tests do not call models"), "{ran:?}");
}
