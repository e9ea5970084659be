//! `harn lint`.

use crate::common::{folder, harn, harn_in};
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
    assert!(ran.err.contains("--> broken/harn.toml:1:6"), "{}", ran.err);
    // Other commands do not continue with default settings.
    for command in [&["check", "broken/a.harn"][..], &["run", "broken/a.harn"]] {
        std::fs::write(folder.path().join("broken/a.harn"), "println(1)\n").unwrap();
        let ran = harn_in(folder.path(), command);
        assert!(ran.code == 1 && ran.err.starts_with("error: failed to parse "), "{}", ran.shown());
    }
}

#[test]
fn what_a_manifest_says_wrongly_is_told_once() {
    let manifest = r#"chek = { strict = true }
[check]
strict = "yes"
stric = true
preflight_severity = "loud"
strict_types = true
[lint]
disabled = "template-parse"
template_variant_branch_threshold = -1
disable-rules = ["nope-rule"]
[asset_roots]
a = 3
b = "../out"
[lnit]
[tool.other]
anything = 1
[llm.providers.x]
base_url = 3
[llm.aliases]
good = { id = "m", provider = "x" }
bad = { id = "m" }
"#;
    let folder = folder(&[
        ("harn.toml", manifest),
        ("a.harn", "println(llm_resolve_model(\"good\").id)\n"),
        ("b.prompt", "x"),
    ]);
    let ran = harn_in(folder.path(), &["lint", "."]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    assert_snapshot!(ran.err);
    let checked = harn_in(folder.path(), &["check", "."]);
    assert_eq!((checked.code, &checked.err), (1, &ran.err));
    // A run is not affected by problems that concern only checks; one invalid alias does not affect the others.
    let ran = harn_in(folder.path(), &["run", "a.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "m\n"), "{}", ran.shown());
    for place in [
        "harn.toml:18:12: [llm.providers.x] is ignored: invalid type: integer `3`, expected a string",
        "harn.toml:21:7: [llm.aliases.bad] is ignored: missing field `provider`",
    ] {
        assert!(ran.err.contains(place), "{place}: {}", ran.err);
    }
    assert_eq!(ran.err.matches("TOML parse error").count(), 2, "{}", ran.err);
}

#[test]
fn a_manifest_in_order_gives_no_findings() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\n[exports]\nlib = \"a.harn\"\n[check]\nstrict = true\npreflight-severity = \"warn\"\ndisable_rules = [\"W0100\"]\n[lint]\ndisabled = [\"template-parse:old/**\"]\n[asset_roots]\nparts = \"parts\"\n[llm]\ndefault_provider = \"mock\"\n[capabilities]\n[my-tool]\nx = 1\n";
    let folder = folder(&[("harn.toml", manifest), ("a.harn", "println(1)\n")]);
    for command in ["lint", "check"] {
        let ran = harn_in(folder.path(), &[command, "."]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.shown());
    }
}

#[cfg(unix)]
#[test]
fn only_regular_files_of_a_bounded_size_are_read() {
    let folder = folder(&[("a.prompt", "x")]);
    let pipe = |name: &str| {
        assert!(
            std::process::Command::new("mkfifo").arg(folder.path().join(name)).status().unwrap().success()
        );
    };
    pipe("pipe.prompt");
    pipe("pipe.harn");
    let ran = harn_in(folder.path(), &["lint", "."]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "./a.prompt: no issues found\n"), "{}", ran.shown());
    for name in ["pipe.prompt", "pipe.harn"] {
        assert!(ran.err.contains(&format!("error: cannot read ./{name}: not a regular file")), "{}", ran.err);
    }
    let ran = harn_in(folder.path(), &["check", "."]);
    assert!(ran.code == 1 && ran.err.contains("./pipe.harn: not a regular file"), "{}", ran.shown());
    let ran = harn_in(folder.path(), &["lint", "/dev/zero"]);
    assert!(ran.code == 1 && ran.err.contains("/dev/zero: not a regular file"), "{}", ran.shown());
    std::fs::File::create(folder.path().join("big.prompt")).unwrap().set_len((16 << 20) + 1).unwrap();
    let ran = harn_in(folder.path(), &["lint", "big.prompt"]);
    assert!(ran.code == 1 && ran.err.contains("16777217 bytes, the limit is 16777216"), "{}", ran.shown());
    let ran = harn_in(folder.path(), &["lint", "nope"]);
    assert!(ran.err.starts_with("error: cannot read nope: "), "{}", ran.err);
}

#[test]
fn ignored_hidden_and_build_folders_are_left_out() {
    let folder = folder(&[
        (".gitignore", "generated/\n"),
        ("generated/a.prompt", IDENTITY),
        (".hidden/a.prompt", IDENTITY),
        ("target/a.prompt", IDENTITY),
        ("deep/build/a.prompt", IDENTITY),
        ("deep/node_modules/a.prompt", IDENTITY),
        ("deep/a.prompt", "x"),
    ]);
    let ran = harn_in(folder.path(), &["lint", "."]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "./deep/a.prompt: no issues found\n", ""));
    // Files named on the command line are linted even if they are ignored.
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
        ran.err.contains("error: cannot read gone.prompt: ")
            && ran.err.contains("error: cannot read gone.harn: "),
        "{}",
        ran.err
    );
    let ran = harn_in(folder.path(), &["lint", "."]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: no .harn files found under the given target(s)\n"));
}
