//! `harn lint`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{folder, harn, harn_in};
use insta::assert_snapshot;
use serde_json::Value;

const IDENTITY: &str = "{{ if llm.provider == \"anthropic\" }}<task>{{ end }}\n";
const AWARE: &str = "{{ if llm.capabilities.native_tools }}tools{{ end }}\n";

#[test]
fn templates_and_programs_are_linted() {
    let folder = folder(&[
        ("a.harn", "fn f(x) { return x\n  println(x) }\nf(1)\n"),
        ("fine.harn", "println(1)\n"),
        ("prompts/identity.harn.prompt", IDENTITY),
        ("prompts/many.prompt", &AWARE.repeat(4)),
        ("prompts/fine.prompt", &AWARE.repeat(3)),
        ("prompts/notes.txt", IDENTITY),
    ]);
    let ran = harn_in(folder.path(), &["lint", "."]);
    assert_eq!(ran.code, 0, "warnings alone are no failure: {}", ran.shown());
    assert_eq!(ran.out, "./fine.harn: no issues found\n./prompts/fine.prompt: no issues found\n");
    assert_snapshot!(ran.err);
}

#[test]
fn a_template_that_does_not_parse_is_an_error() {
    let folder = folder(&[("a.prompt", "Hello\n{{ if x }}\n"), ("b.harn", "let = 1\n")]);
    let ran = harn_in(folder.path(), &["lint", "a.prompt"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.starts_with("error: template did not parse: a.prompt at 2:1: "), "{}", ran.err);
    let ran = harn_in(folder.path(), &["lint", "b.harn"]);
    assert!(ran.code == 1 && ran.err.contains("--> b.harn:1:5"), "{}", ran.shown());
}

#[test]
fn the_manifest_sets_threshold_and_rules() {
    let many = AWARE.repeat(4);
    let folder = folder(&[
        (
            "harn.toml",
            "[lint]\ntemplate_variant_branch_threshold = 4\ndisabled = [\"template-provider-identity-branch:legacy/**\"]\n",
        ),
        ("many.prompt", &many),
        ("legacy/identity.prompt", IDENTITY),
        ("new/identity.prompt", IDENTITY),
        ("strict/harn.toml", "[check]\nstrict = true\n[lint]\ntemplate-variant-branch-threshold = 0\n"),
        ("strict/one.prompt", AWARE),
        ("broken/harn.toml", "[lint\n"),
        ("broken/a.prompt", "x"),
    ]);
    let ran = harn_in(folder.path(), &["lint", "many.prompt", "legacy", "new"]);
    assert_eq!(ran.out, "many.prompt: no issues found\nlegacy/identity.prompt: no issues found\n");
    assert!(ran.code == 0 && ran.err.contains("--> new/identity.prompt:1:1"), "{}", ran.shown());
    let ran = harn_in(folder.path(), &["lint", "strict"]);
    assert!(ran.code == 1 && ran.err.contains("threshold is 0"), "{}", ran.shown());
    let ran = harn_in(folder.path(), &["lint", "broken"]);
    assert!(ran.code == 0 && ran.err.starts_with("warning: failed to parse "), "{}", ran.shown());
}

#[test]
fn ignored_hidden_and_build_folders_are_left_out() {
    let folder = folder(&[
        (".gitignore", "generated/\n"),
        ("generated/a.prompt", IDENTITY),
        (".hidden/a.prompt", IDENTITY),
        ("target/a.prompt", IDENTITY),
        ("deep/node_modules/a.prompt", IDENTITY),
        ("deep/a.prompt", "x"),
    ]);
    let ran = harn_in(folder.path(), &["lint", "."]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "./deep/a.prompt: no issues found\n", ""));
    // What is named is linted all the same.
    let ran = harn_in(folder.path(), &["lint", "generated/a.prompt"]);
    assert!(ran.err.contains("--> generated/a.prompt:1:1"), "{}", ran.shown());
}

#[test]
fn the_json_report() {
    let folder = folder(&[("a.prompt", IDENTITY), ("b.prompt", "{{ end }}"), ("c.harn", "println(1)\n")]);
    let ran = harn_in(folder.path(), &["lint", "--json", "."]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&json["schemaVersion"], &json["ok"], &json["error"]["code"]),
        (&1.into(), &false.into(), &"lint_failed".into())
    );
    let summary = serde_json::json!({"files": 3, "errors": 1, "warnings": 1, "fixable": 0, "fixed": 0});
    assert_eq!(json["data"]["summary"], summary);
    let files = json["data"]["files"].as_array().unwrap();
    let statuses: Vec<&Value> = files.iter().map(|file| &file["status"]).collect();
    assert_eq!(statuses, ["warning", "error", "ok"]);
    let found = &files[0]["diagnostics"][0];
    let fields =
        ["severity", "category", "rule", "file", "line", "column", "end_line", "end_column", "fixable"];
    let values: Vec<String> = fields.iter().map(|field| found[*field].to_string()).collect();
    assert_eq!(
        values,
        [
            "\"warning\"",
            "\"lint\"",
            "\"template-provider-identity-branch\"",
            "\"./a.prompt\"",
            "1",
            "1",
            "1",
            "37",
            "false"
        ]
    );
    assert!(found["message"].as_str().unwrap().contains("`llm.provider`"), "{found}");
    assert!(found["help"].as_str().unwrap().contains("prefers_xml_scaffolding"), "{found}");
    let clean: Value =
        serde_json::from_str(&harn_in(folder.path(), &["lint", "--json", "c.harn"]).out).unwrap();
    assert_eq!((&clean["ok"], &clean["error"]), (&true.into(), &Value::Null));
}

#[test]
fn what_cannot_be_read_is_an_error() {
    assert_eq!(harn(&["lint"]).code, 2);
    let folder = folder(&[("notes.txt", "x")]);
    let ran = harn_in(folder.path(), &["lint", "gone.prompt", "gone.harn"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("Error reading gone.prompt: ") && ran.err.contains("Error reading gone.harn: "),
        "{}",
        ran.err
    );
    let ran = harn_in(folder.path(), &["lint", "."]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: no .harn files found under the given target(s)\n"));
}
