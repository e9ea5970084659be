//! `harn eval` and `harn test package --evals`.

use serde_json::Value;

use crate::common::{Ran, folder, harn_in};

/// Returns the record of a run with one stage.
fn record(id: &str, status: &str, text: &str) -> String {
    format!(
        r#"{{"_type":"run_record","id":"{id}","workflow_id":"w","status":"{status}","started_at":"2026-01-01T00:00:00Z","finished_at":"2026-01-01T00:00:02Z",
        "usage":{{"input_tokens":10,"output_tokens":5,"total_cost":0.5}},"stages":[{{"node_id":"write","status":"{status}","outcome":"x","visible_text":"{text}"}}]}}"#
    )
}

fn data(ran: &Ran) -> Value {
    let whole: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.shown()));
    whole["data"].clone()
}

#[test]
fn a_record_is_held_to_its_own_fixture_and_compared() {
    let broken = record("b", "failed", "no").replacen(
        "\"id\"",
        "\"replay_fixture\":{\"_type\":\"replay_fixture\",\"expected_status\":\"completed\"},\"id\"",
        1,
    );
    let dir = folder(&[("a.json", &record("a", "completed", "hi")), ("b.json", &broken)]);
    let ran = harn_in(dir.path(), &["eval", "a.json"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "PASS\nRun: a\nWorkflow: w\nStages: 1\n"),
        "{}",
        ran.shown()
    );
    let ran = harn_in(dir.path(), &["eval", "b.json"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.out.starts_with("FAIL\nRun: b\n")
            && ran.out.contains("\n- run status: expected completed, got failed\n"),
        "{}",
        ran.shown()
    );
    let ran = harn_in(dir.path(), &["eval", "a.json", "--compare", "b.json"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.out.contains("- differs from its baseline b\n")
            && ran.out.contains("- status: failed -> completed\n"),
        "{}",
        ran.shown()
    );
    assert_eq!(harn_in(dir.path(), &["eval", "a.json", "--compare", "a.json"]).code, 0);
    let ran = harn_in(dir.path(), &["eval", "b.json", "--json"]);
    assert_eq!((ran.code, data(&ran)["pass"].clone()), (1, false.into()));
}

#[test]
fn a_folder_of_records_is_evaluated_whole() {
    let (a, b) = (record("a", "completed", "hi"), record("b", "completed", "ho"));
    let files = [
        ("runs/a.json", a.as_str()),
        ("runs/deep/run.json", &b),
        ("runs/other.json", "{\"name\":\"x\"}"),
        ("base/a.json", &a),
        ("base/deep/run.json", &a),
        ("empty/x.txt", ""),
        ("packed/harn.eval.toml", "id = \"p\"\n"),
        ("damaged/a.json", "{\"_type\":\"run_rec"),
    ];
    let dir = folder(&files);
    let ran = harn_in(dir.path(), &["eval", "runs"]);
    let told = "PASS 2 passed, 0 failed, 2 total\n- PASS runs/a.json [a]\n- PASS runs/deep/run.json [b]\n";
    assert_eq!((ran.code, ran.out.as_str()), (0, told), "{}", ran.shown());
    // A directory is compared file by file.
    let ran = harn_in(dir.path(), &["eval", "runs", "--compare", "base"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.starts_with("FAIL 1 passed, 1 failed, 2 total\n- PASS runs/a.json [a]\n- FAIL runs/deep/run.json [b]\n  - differs from its baseline a\n"), "{}", ran.shown());
    for (path, text) in [
        ("gone", "error: Run path does not exist: gone\n"),
        ("empty", "error: there are no run records in empty\n"),
        ("packed", "error: there are no run records in packed; there is a pack: packed/harn.eval.toml\n"),
        ("damaged", "error: damaged/a.json is not valid JSON: "),
        ("runs/other.json", "error: cannot evaluate runs/other.json: it is JSON without `_type`; expected "),
    ] {
        let ran = harn_in(dir.path(), &["eval", path]);
        assert!(ran.code == 1 && ran.err.starts_with(text) && ran.out.is_empty(), "{path}: {}", ran.shown());
    }
}

#[test]
fn a_suite_names_its_files_from_where_it_lies() {
    let dir = folder(&[
        (
            "evals/suite.json",
            r#"{"_type":"eval_suite_manifest","id":"s","base_dir":"runs","cases":[{"run_path":"a.json"},{"label":"two","run_path":"b.json","fixture_path":"want.json"}]}"#,
        ),
        ("evals/wrong.json", r#"{"_type":"eval_suite_manifest","cases":[{"path":"a.json"}]}"#),
        ("evals/runs/a.json", &record("a", "completed", "hi")),
        ("evals/runs/b.json", &record("b", "failed", "hi")),
        (
            "evals/runs/want.json",
            r#"{"_type":"replay_fixture","expected_status":"completed","stage_assertions":[]}"#,
        ),
    ]);
    let ran = harn_in(dir.path(), &["eval", "evals/suite.json"]);
    let told = "FAIL 1 passed, 1 failed, 2 total\n- PASS a.json [a]\n- FAIL two [b]\n  - run status: expected completed, got failed\n";
    assert_eq!((ran.code, ran.out.as_str()), (1, told), "{}", ran.shown());
    let ran = harn_in(dir.path(), &["eval", "evals/suite.json", "--compare", "evals/runs/a.json"]);
    assert!(ran.out.contains("differs from its baseline a"), "{}", ran.shown());
    let ran = harn_in(dir.path(), &["eval", "evals/wrong.json"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: evals/wrong.json: cases[0].run_path is required\n"));
}

const PACK: &str = r#"
version = 1
id = "release"

[[fixtures]]
id = "good"
kind = "run-record"
path = "runs/a.json"

[[rubrics]]
id = "text"
kind = "deterministic"
assertions = [{kind = "visible-text-contains", contains = "hi"}]

[[cases]]
id = "holds"
run = "good"
rubrics = ["text"]
thresholds = {max-latency-ms = 2000, max-cost-usd = 0.5, max-tokens = 15}

[[cases]]
id = "slow"
name = "too slow"
run_path = "runs/a.json"
severity = "warning"
thresholds = {max-latency-ms = 1999}
"#;

#[test]
fn a_pack_fails_by_what_blocks_only() {
    let dir = folder(&[
        ("evals/harn.eval.toml", PACK),
        ("evals/strict.toml", &PACK.replace("warning", "blocking")),
        ("evals/slip.toml", &PACK.replace("rubrics = [\"text\"]", "rubrics = [\"texts\"]")),
        ("evals/no.toml", "id = \n"),
        ("evals/runs/a.json", &record("a", "completed", "hi")),
    ]);
    let ran = harn_in(dir.path(), &["eval", "evals/harn.eval.toml"]);
    let told = "PASS 1 passed, 1 failed, 2 total\n- PASS holds [a]\n- FAIL too slow [a] (warning)\n  - latency (ms): at most 1999, got 2000\n";
    assert_eq!((ran.code, ran.out.as_str()), (0, told), "{}", ran.shown());
    let ran = harn_in(dir.path(), &["eval", "evals/harn.eval.toml", "--json"]);
    assert_eq!((data(&ran)["warning_failed"].clone(), data(&ran)["pass"].clone()), (1.into(), true.into()));
    let ran = harn_in(dir.path(), &["eval", "evals/strict.toml"]);
    assert!(ran.code == 1 && ran.out.starts_with("FAIL 1 passed, 1 failed, 2 total\n"), "{}", ran.shown());
    let ran = harn_in(dir.path(), &["eval", "evals/slip.toml"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (1, "error: evals/slip.toml: cases[0].rubrics[0]: there is no rubric 'texts'; there are text\n")
    );
    let ran = harn_in(dir.path(), &["eval", "evals/no.toml"]);
    assert!(
        ran.code == 1 && ran.err.starts_with("error: evals/no.toml: that is no TOML (line 1): "),
        "{}",
        ran.shown()
    );
    let ran = harn_in(dir.path(), &["eval", "evals/harn.eval.toml", "--compare", "evals/runs/a.json"]);
    assert!(
        ran.code == 2 && ran.err.starts_with("error: --compare is not supported with eval pack manifests\n"),
        "{}",
        ran.shown()
    );
}

#[test]
fn the_packs_of_a_package_are_those_that_its_manifest_lists() {
    let run = record("a", "completed", "hi");
    let manifest = "[package]\nname = \"p\"\nevals = [\"evals/one.toml\", \"two.toml\"]\n";
    let two = PACK.replace("warning", "blocking");
    let dir = folder(&[
        ("harn.toml", manifest),
        ("evals/one.toml", PACK),
        ("evals/runs/a.json", &run),
        ("two.toml", &two),
        ("runs/a.json", &run),
        ("sub/x.harn", ""),
    ]);
    for folder in [dir.path().to_owned(), dir.path().join("sub")] {
        let ran = harn_in(&folder, &["test", "package", "--evals"]);
        assert_eq!(ran.code, 1, "{}", ran.shown());
        assert!(ran.out.contains("evals/one.toml: PASS 1 passed, 1 failed, 2 total\n"), "{}", ran.shown());
        assert!(ran.out.contains("two.toml: FAIL 1 passed, 1 failed, 2 total\n"), "{}", ran.shown());
    }
    let ran = harn_in(dir.path(), &["test", "package", "--evals", "--json"]);
    assert_eq!(
        (data(&ran)["pass"].clone(), data(&ran)["packs"][0]["path"].clone()),
        (false.into(), "evals/one.toml".into())
    );
    let without = folder(&[
        ("harn.toml", "[package]\nname = \"p\"\n"),
        ("harn.eval.toml", PACK),
        ("runs/a.json", &run),
    ]);
    let ran = harn_in(without.path(), &["test", "package", "--evals"]);
    assert!(ran.code == 0 && ran.out.starts_with("harn.eval.toml: PASS"), "{}", ran.shown());
    for (files, text) in [
        (
            vec![("harn.toml", "[package]\nname = \"p\"\n")],
            "no eval packs: there is neither `evals` in [package] nor harn.eval.toml",
        ),
        (vec![("harn.toml", "[package]\nevals = 3\n")], "[package] evals must be a list of paths of packs"),
        (vec![("harn.toml", "[package]\nevals = [\"gone.toml\"]\n")], "cannot read gone.toml: "),
        (vec![], "no harn.toml in this directory or its parents"),
    ] {
        let ran = harn_in(folder(&files).path(), &["test", "package", "--evals"]);
        assert!(ran.code == 1 && ran.err.contains(text), "{text}: {}", ran.shown());
    }
    for (args, text) in [
        (&["test", "package"][..], "`harn test package` needs --evals"),
        (&["test", "--evals"], "the argument '--evals' can only be used with `package`"),
        (&["test", "package", "--evals", "--watch"], "--watch cannot be used with `package`"),
    ] {
        let ran = harn_in(dir.path(), args);
        assert!(ran.code == 2 && ran.err.contains(text), "{args:?}: {}", ran.shown());
    }
}

const EXPERIMENT: &str = r#"
pipeline default(task) {
  let reply = llm_call("one\n\ntwo", "Base.", {provider: "mock"})
  eval_metric("length", reply.text.len())
  println("${argv} ${reply.text}")
  run_record_save({workflow_id: "w", id: "run-" + to_string(reply.text.len())})
}
"#;

#[test]
fn a_program_is_run_with_and_without_an_experiment() {
    let dir = folder(&[
        ("main.harn", EXPERIMENT),
        ("plain.jsonl", "{\"text\": \"short\"}\n"),
        ("plain.experiment.jsonl", "{\"text\": \"much longer\"}\n"),
        ("one.jsonl", "{\"text\": \"short\"}\n"),
        (
            "fails.harn",
            "pipeline default(task) {\n  let r = llm_call(\"x\", nil, {provider: \"mock\"})\n  require r.text == \"short\"\n}\n",
        ),
    ]);
    let args = [
        "eval",
        "main.harn",
        "--structural-experiment",
        "doubled_prompt",
        "--llm-mock",
        "plain.jsonl",
        "--",
        "a",
        "b",
    ];
    let ran = harn_in(dir.path(), &args);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let rows = [
        "PASS doubled_prompt\n",
        "\n- PASS run run-5\n",
        "\n- PASS run run-11\n",
        "\nlength: 5 -> 11 (+6)\n",
        "\nOutput: different\n",
        "plain: exit code 0, 1 calls, ",
        "experiment: exit code 0, 1 calls, ",
    ];
    rows.iter().for_each(|row| assert!(ran.out.contains(row), "{row}: {}", ran.shown()));
    // The records belong to the report and are removed.
    assert!(!dir.path().join(".harn-runs").exists());
    let ran = harn_in(
        dir.path(),
        &[
            "eval",
            "main.harn",
            "--structural-experiment",
            "doubled_prompt",
            "--llm-mock",
            "one.jsonl",
            "--json",
        ],
    );
    let found = data(&ran);
    assert_eq!(
        (found["same_output"].clone(), found["metrics"][0]["change"].clone()),
        (true.into(), 0.0.into()),
        "{}",
        ran.shown()
    );
    assert_eq!(found["runs"][1]["output"], "[] short\n");
    let ran = harn_in(
        dir.path(),
        &["eval", "fails.harn", "--structural-experiment", "doubled_prompt", "--llm-mock", "plain.jsonl"],
    );
    assert!(
        ran.code == 1
            && ran.out.starts_with("FAIL doubled_prompt\nplain: exit code 0")
            && ran.out.contains("experiment: exit code 1"),
        "{}",
        ran.shown()
    );
    assert!(ran.err.contains("require condition failed"), "{}", ran.shown());
    // The environment variable does not affect the plain run.
    let mut command = crate::common::command(&[
        "eval",
        "main.harn",
        "--structural-experiment",
        "doubled_prompt",
        "--llm-mock-record",
        "kept.jsonl",
    ]);
    command.current_dir(dir.path()).env("HARN_STRUCTURAL_EXPERIMENT", "no_such_thing");
    let ran = crate::common::finish(command, b"");
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(dir.path().join("kept.jsonl").exists() && dir.path().join("kept.experiment.jsonl").exists());
    for (args, code, text) in [
        (
            &["eval", "main.harn"][..],
            2,
            "a program is evaluated with --structural-experiment SPEC; `harn run main.harn` runs it",
        ),
        (&["eval", "main.harn", "--structural-experiment", "zzz"], 1, "unknown structural experiment `zzz`"),
        (&["eval", "main.harn", "--structural-experiment", " "], 1, "names no experiment"),
        (
            &["eval", "gone.harn", "--structural-experiment", "doubled_prompt"],
            1,
            "Run path does not exist: gone.harn",
        ),
        (
            &["eval", "x.json", "--structural-experiment", "doubled_prompt"],
            2,
            "needs a program: a file that ends in .harn",
        ),
        (&["eval", "x.json", "--llm-mock", "one.jsonl"], 2, "--structural-experiment"),
        (&["eval"], 2, "required"),
    ] {
        let ran = harn_in(dir.path(), args);
        assert!(ran.code == code && ran.err.contains(text), "{args:?}: {}", ran.shown());
    }
}

const TEMPLATE: &str = "Hello {{ name }}!\n{{ if llm.capabilities.native_tools }}Use your tools.{{ else }}Write calls as text.{{ end }}\n";

#[test]
fn a_template_is_shown_for_several_models_side_by_side() {
    let dir = folder(&[
        ("greet.harn.prompt", TEMPLATE),
        ("names.json", "{\"name\": \"Bea\"}"),
        ("harn.toml", "[eval.fleets.both]\nmodels = [\"mock:a\", \"openai:gpt-4o\"]\n"),
    ]);
    let base = ["eval", "prompt", "greet.harn.prompt", "--fleet"];
    let run = |rest: &[&str]| harn_in(dir.path(), &[&base[..], rest].concat());
    let ran = run(&["both", "--bindings", "{\"name\": \"Ada\"}"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    for row in [
        "Hello Ada!",
        "Write calls as text.",
        "Use your tools.",
        " | ",
        "What differs:",
        "mock:a: else\n",
        "openai:gpt-4o: if llm.capabilities.native_tools\n",
    ] {
        assert!(ran.out.contains(row), "{row}: {}", ran.shown());
    }
    // Both branches of an `if` are one decision.
    assert_eq!(ran.out.matches("greet.harn.prompt:2:").count(), 1, "{}", ran.shown());
    assert!(ran.out.lines().all(|row| row.chars().count() <= 80), "{}", ran.shown());
    // Models with the same prompt share a variant.
    let ran = run(&["mock:a,mock:b", "--bindings", "names.json", "--output", "json"]);
    let found = data(&ran);
    assert_eq!(found["variants"].as_array().map(Vec::len), Some(1), "{}", ran.shown());
    assert_eq!(found["variants"][0]["text"], "Hello Bea!\nWrite calls as text.\n");
    assert_eq!(found["models"][1]["branches"][0]["branch_id"], "else");
    let ran = run(&["both", "--bindings", "{\"name\": \"<b>\"}", "--output", "html", "-o", "out.html"]);
    assert!(ran.code == 0 && ran.out.is_empty(), "{}", ran.shown());
    let page = std::fs::read_to_string(dir.path().join("out.html")).unwrap();
    assert!(page.contains("Hello &lt;b&gt;!") && !page.contains("<b>"), "{page}");
    for (rest, code, text) in [
        (&["no_such_fleet"][..], 1, "unknown model or fleet 'no_such_fleet'"),
        (&["both", "--bindings", "[1]"], 1, "--bindings must be a JSON object, got "),
        (&["both", "--bindings", "{"], 1, "--bindings is not valid JSON"),
        (
            &["both", "--bindings", "gone.json"],
            1,
            "neither a JSON object nor a file that can be read: gone.json",
        ),
        (&[" "], 1, "--fleet names no model"),
        (&["both", "--judge", "mock:j"], 2, "--judge needs --mode judge"),
        (&["both", "--llm-mock", "x"], 2, "--llm-mock needs --mode run or judge"),
    ] {
        let ran = run(rest);
        assert!(ran.code == code && ran.err.contains(text), "{rest:?}: {}", ran.shown());
    }
    let ran = harn_in(dir.path(), &["eval", "prompt", "gone.prompt", "--fleet", "both"]);
    assert!(ran.code == 1 && ran.err.contains("gone.prompt"), "{}", ran.shown());
    let wrong = folder(&[("t.prompt", "x"), ("harn.toml", "[eval]\nfleets = 3\n")]);
    let ran = harn_in(wrong.path(), &["eval", "prompt", "t.prompt", "--fleet", "mock:a"]);
    assert!(ran.code == 1 && ran.err.contains("[eval.fleets] must be a table of fleets"), "{}", ran.shown());
    let wrong = folder(&[("t.prompt", "x"), ("harn.toml", "[eval.fleets.x]\nmodels = \"a\"\n")]);
    let ran = harn_in(wrong.path(), &["eval", "prompt", "t.prompt", "--fleet", "x"]);
    assert!(
        ran.code == 1 && ran.err.contains("[eval.fleets.x] models must be a list of names of models"),
        "{}",
        ran.shown()
    );
}

#[test]
fn models_answer_their_text_and_a_judge_says_how_well() {
    let replies = [
        "{\"text\": \"I am a\"}",
        "{\"text\": \"{\\\"score\\\": 7, \\\"reason\\\": \\\"Short.\\\"}\"}",
        "{\"error\": {\"category\": \"auth\", \"message\": \"no such model\"}}",
    ];
    let dir = folder(&[
        ("t.prompt", "Who are you?"),
        ("replies.jsonl", &(replies.join("\n") + "\n")),
        ("one.jsonl", "{\"text\": \"I am a\"}\n"),
    ]);
    let args =
        ["eval", "prompt", "t.prompt", "--fleet", "mock:a", "--mode", "run", "--llm-mock", "one.jsonl"];
    let ran = harn_in(dir.path(), &args);
    assert!(
        ran.code == 0 && ran.out.contains("\nmock:a (") && ran.out.contains("\n  I am a\n"),
        "{}",
        ran.shown()
    );
    let args = [
        "eval",
        "prompt",
        "t.prompt",
        "--fleet",
        "mock:a,mock:b",
        "--mode",
        "judge",
        "--judge",
        "mock:j",
        "--llm-mock",
        "replies.jsonl",
    ];
    let ran = harn_in(dir.path(), &args);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    assert!(ran.out.contains("  score 7 of 10: Short.\n") && ran.out.contains("failed: "), "{}", ran.shown());
}
