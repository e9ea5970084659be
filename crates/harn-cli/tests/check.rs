//! `harn check`.

use crate::common::{folder, harn, harn_in};

#[test]
fn clean_files_are_ok() {
    let folder = folder(&[
        ("a.harn", "println(1)\n"),
        ("sub/b.harn", "let x = 1\nprintln(x)\n"),
        ("target/c.harn", "("),
    ]);
    let ran = harn_in(folder.path(), &["check", "."]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "./a.harn: ok\n./sub/b.harn: ok\n", ""));
}

#[test]
fn all_files_are_checked_and_nothing_is_run() {
    let folder = folder(&[
        ("a.harn", "let = 1\n"),
        ("b.harn", "println(\"ran\")\nprintl(1)\n"),
        ("c.harn", "let x = 1\nprintln(x)\n"),
    ]);
    let ran = harn_in(folder.path(), &["check", "a.harn", "b.harn", "c.harn", "missing.harn"]);
    assert_eq!(ran.code, 1);
    assert!(!ran.out.contains("ran"), "{}", ran.out);
    assert!(ran.out.contains("c.harn: ok\n"), "{}", ran.out);
    for text in [
        "--> a.harn:1:5",
        "call target `printl` is not defined or imported",
        "error: cannot read missing.harn: ",
    ] {
        assert!(ran.err.contains(text), "{text}: {}", ran.err);
    }
}

#[test]
fn json_lists_the_findings() {
    let folder = folder(&[("a.harn", "let = 1\n"), ("b.harn", "println(1)\n")]);
    let ran = harn_in(folder.path(), &["check", "--json", "a.harn", "b.harn"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["ok"], false);
    assert_eq!(json["data"]["summary"]["errors"], 1);
    assert_eq!(json["data"]["files"][0]["status"], "error");
    assert_eq!(json["data"]["files"][0]["diagnostics"][0]["span"]["column"], 5);
    assert_eq!(json["data"]["files"][1]["status"], "ok");
}

#[test]
fn a_target_is_needed() {
    assert_eq!(harn(&["check"]).code, 2);
    let empty = folder(&[]);
    let ran = harn_in(empty.path(), &["check", "."]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: no .harn files found under the given target(s)\n"));
}

#[test]
fn compile_errors_do_not_hide_what_the_checker_finds() {
    let text = "fn f(a) { a }\nf(1, 2)\nprintl(1)\nbreak\n";
    let folder = folder(&[("a.harn", text), ("b.harn", "fn f(a) { a }\nf(1, 2)\nbreak\n")]);
    let heads = |err: &str| {
        let is_head = |line: &&str| line.starts_with("error: ") || line.starts_with("warning: ");
        err.lines().filter(is_head).map(|line| line.chars().take(24).collect()).collect::<Vec<String>>()
    };
    let ran = harn_in(folder.path(), &["check", "a.harn"]);
    assert_eq!(ran.code, 1);
    assert_eq!(
        heads(&ran.err),
        ["error: Function 'f' expe", "error: call target `prin", "error: `break` used outs"],
        "{}",
        ran.err
    );
    // The checker runs before the compiler, and rejected programs are not compiled.
    let ran = harn_in(folder.path(), &["run", "a.harn"]);
    assert_eq!((ran.code, heads(&ran.err).len()), (1, 2), "{}", ran.err);
    let ran = harn_in(folder.path(), &["run", "b.harn"]);
    assert_eq!((ran.code, heads(&ran.err).len()), (1, 2), "{}", ran.err);
}

#[test]
fn templates_are_checked_in_their_own_place() {
    let folder = folder(&[
        (
            "main.harn",
            "let vars = {name: 1, tonn: 2}\nprintln(render(\"a.prompt\", vars))\nrender(\"gone.prompt\")\n",
        ),
        (
            "a.prompt",
            "{{ name | uper }} {{ tone }}\n{{ include \"parts/b.prompt\" }}\n{{ include \"c.prompt\" }}",
        ),
        ("parts/b.prompt", "b\n  {{ section \"tusk\" }}{{ endsection }}"),
    ]);
    let ran = harn_in(folder.path(), &["check", "main.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    insta::assert_snapshot!(ran.err);
    let ran = harn_in(folder.path(), &["check", "--preflight", "warning", "main.harn"]);
    let errors = ran.err.lines().filter(|line| line.starts_with("error")).count();
    assert_eq!((ran.code, errors), (0, 0), "{}", ran.shown());
    let ran = harn_in(folder.path(), &["check", "--preflight", "off", "main.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "main.harn: ok\n"));
    assert_eq!(harn_in(folder.path(), &["check", "--preflight", "loud", "main.harn"]).code, 2);
}

#[test]
fn templates_may_lie_below_a_bundle_root() {
    let folder = folder(&[("main.harn", "render(\"a.prompt\")\n"), ("dist/a.prompt", "x")]);
    assert_eq!(harn_in(folder.path(), &["check", "main.harn"]).code, 1);
    assert_eq!(harn_in(folder.path(), &["check", "--bundle-root", "dist", "main.harn"]).code, 0);
}

#[test]
fn a_bundle_lists_modules_and_templates() {
    let folder = folder(&[
        (
            "main.harn",
            "import { shout } from \"lib/text\"\nprintln(shout(render(\"note.txt\", {})))\nprintln(render_prompt(\"ask.txt\", {}))\n",
        ),
        ("lib/text.harn", "pub fn shout(x) {\n  return render(\"loud.harn.prompt\", {x: x})\n}\n"),
        ("lib/loud.harn.prompt", "{{ x }}{{ include \"end.txt\" }}"),
        ("lib/end.txt", "!"),
        ("note.txt", "n"),
        ("ask.txt", "a"),
    ]);
    let ran = harn_in(folder.path(), &["check", "--bundle", "main.harn"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let bundle = &document["data"]["bundles"][0];
    assert_eq!((&bundle["entry"], bundle["modules"].as_array().unwrap().len()), (&"main.harn".into(), 1));
    let kind = |name: &str| {
        let assets = bundle["assets"].as_array().unwrap();
        let found = assets.iter().find(|asset| asset["path"].as_str().unwrap().ends_with(name)).unwrap();
        (found["kind"].as_str().unwrap().to_owned(), found["used_by"][0].as_str().unwrap().to_owned())
    };
    assert_eq!(kind("note.txt"), ("template_asset".to_owned(), "main.harn:2:22".to_owned()));
    assert_eq!(kind("ask.txt").0, "prompt_asset");
    assert_eq!(kind("loud.harn.prompt").0, "prompt_asset");
    assert_eq!(kind("end.txt").0, "template_asset");
    std::fs::remove_file(folder.path().join("note.txt")).unwrap();
    let ran = harn_in(folder.path(), &["check", "--bundle", "main.harn"]);
    assert!(ran.code == 1 && ran.out.is_empty() && ran.err.contains("does not exist"), "{}", ran.shown());
}

#[test]
fn a_template_can_be_checked_by_itself() {
    let folder = folder(&[("a.harn.prompt", "Hello\n{{ end }}"), ("b.prompt", "Hello")]);
    let ran = harn_in(folder.path(), &["check", "a.harn.prompt", "b.prompt"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "b.prompt: ok\n"));
    assert!(ran.err.contains("--> a.harn.prompt:2:1"), "{}", ran.err);
}

#[test]
fn findings_have_kind_rule_and_place() {
    let folder = folder(&[("a.harn", "render(\"gone.prompt\")\nprintl(1)\n"), ("b.harn", "let = 1\n")]);
    let ran = harn_in(folder.path(), &["check", "--json", "a.harn", "b.harn", "gone.harn"]);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let of = |file: usize, at: usize| json["data"]["files"][file]["diagnostics"][at].clone();
    let shown =
        |d: serde_json::Value| format!("{} {} {}:{}", d["category"], d["rule"], d["line"], d["column"]);
    assert_eq!(shown(of(0, 0)), "\"type\" \"E0100\" 2:1");
    assert_eq!(shown(of(0, 1)), "\"preflight\" \"P0102\" 1:8");
    assert!(shown(of(1, 0)).starts_with("\"syntax\" ") && shown(of(1, 0)).ends_with(" 1:5"), "{}", of(1, 0));
    assert_eq!(of(2, 0)["severity"], "error");
    assert_eq!(json["data"]["summary"], serde_json::json!({"files": 3, "errors": 4, "warnings": 0}));
}

#[test]
fn a_finding_is_reported_once_however_its_file_is_reached() {
    let folder = folder(&[
        ("libx.harn", "/** Text. */\npub fn f() { return render(\"t.prompt\", {z: 1, other: 2}) }\n"),
        ("t.prompt", "{{ z }}\n"),
        ("multi.harn", "import { f } from \"./libx\"\nprintln(f())\n"),
        ("again.harn", "import { f } from \"././libx.harn\"\nprintln(f())\n"),
        ("sub/bad.prompt", "{{ if x }}"),
        ("one.harn", "render(\"sub/bad.prompt\")\n"),
        ("two.harn", "render(\"./sub/../sub/bad.prompt\")\n"),
    ]);
    let ran = harn_in(folder.path(), &["check", "."]);
    assert_eq!(ran.err.matches("binding `other` is not used").count(), 1, "{}", ran.err);
    assert!(ran.err.contains("--> ./libx.harn:2:47"), "{}", ran.err);
    assert_eq!(ran.err.matches("has a syntax error").count(), 1, "{}", ran.err);
    assert_eq!(
        ran.out,
        "./again.harn: see the findings in what it uses\n./multi.harn: see the findings in what it uses\n./two.harn: see the findings in what it uses\n"
    );
    let ran = harn_in(folder.path(), &["check", "--json", "."]);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["data"]["summary"], serde_json::json!({"files": 5, "errors": 1, "warnings": 1}));
    // When the importer is checked alone, it reports the problems of its imports.
    let ran = harn_in(folder.path(), &["check", "multi.harn"]);
    assert!(
        ran.err.contains("binding `other` is not used") && ran.err.contains("--> ./libx.harn:2:47"),
        "{}",
        ran.err
    );
}

#[test]
fn a_bundle_root_must_exist() {
    let folder = folder(&[("a.harn", "println(1)\n")]);
    let ran = harn_in(folder.path(), &["check", "--bundle-root", "nosuch", "a.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("--bundle-root: directory not found: nosuch"), "{}", ran.err);
}

#[test]
fn a_manifest_is_found_from_a_path_with_parents() {
    let folder = folder(&[
        ("project/harn.toml", "[check]\nstrict = true\n"),
        ("alone/a.harn", "fn f(x) { return x\n  println(x) }\nf(1)\n"),
    ]);
    // The settings come from the project of the file, not of the working directory.
    let ran = harn_in(&folder.path().join("project"), &["check", "../alone/a.harn"]);
    assert!(ran.code == 0 && ran.err.contains("unreachable code"), "{}", ran.shown());
}

#[test]
fn check_mends_what_has_one_mend() {
    let folder = crate::common::folder(&[("a.harn", "let n = 3\nprintln(\"n = \" + n)\n")]);
    let before = crate::common::harn_in(folder.path(), &["check", "a.harn"]);
    assert_eq!(before.code, 1);
    assert!(before.err.contains("can't add string and int"), "{}", before.err);
    let ran = crate::common::harn_in(folder.path(), &["check", "--fix", "a.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "a.harn: applied 1 fix(es)\na.harn: ok\n"), "{}", ran.err);
    let fixed = std::fs::read_to_string(folder.path().join("a.harn")).unwrap();
    assert_eq!(fixed, "let n = 3\nprintln(\"n = ${n}\")\n");
}

#[test]
fn check_leaves_alone_what_may_be_meant_otherwise() {
    let text = "let total = 3\nprintln(totl)\n";
    let folder = crate::common::folder(&[("a.harn", text)]);
    let ran = crate::common::harn_in(folder.path(), &["check", "--fix", "a.harn"]);
    assert_eq!(ran.code, 1);
    assert_eq!(std::fs::read_to_string(folder.path().join("a.harn")).unwrap(), text);
}

#[test]
fn strict_types_ask_for_a_look_at_what_comes_from_outside() {
    let text = "let a = json_parse(\"{}\")\nprintln(a.x)\nlet b = a\nprintln(b[\"x\"])\nprintln(json_parse(\"{}\").y)\n\
        println(json_parse(\"[1]\")[0])\nif schema_is(a, {type: \"dict\"}) { println(a.x) }\n\
        let c: {x?: int} = json_parse(\"{}\")\nprintln(c.x)\nschema_expect(b, {type: \"dict\"})\nprintln(b.x)\n";
    let folder =
        crate::common::folder(&[("a.harn", text), ("strict/harn.toml", "[check]\nstrict_types = true\n")]);
    std::fs::write(folder.path().join("strict/b.harn"), text).unwrap();
    let plain = crate::common::harn_in(folder.path(), &["check", "a.harn"]);
    // Without the option, only accesses to parts of the call itself are reported.
    let said: Vec<&str> =
        plain.err.lines().filter(|line| line.contains("lint[untyped-dict-access]")).collect();
    assert_eq!((plain.code, said.len()), (0, 2), "{}", plain.err);
    for args in [["check", "--strict-types", "a.harn"].as_slice(), &["check", "strict/b.harn"]] {
        let ran = crate::common::harn_in(folder.path(), args);
        let said: Vec<&str> = ran.err.lines().filter(|line| line.starts_with("warning")).collect();
        let expected = [
            "warning: Accessing property on unvalidated value 'a' from `json_parse`",
            "warning: Subscript access on unvalidated value 'b' from `json_parse`",
            "warning: Direct property access on unvalidated `json_parse()` result",
            "warning: Direct subscript access on unvalidated `json_parse()` result",
        ];
        assert_eq!((ran.code, said.as_slice()), (0, expected.as_slice()), "{}", ran.err);
    }
}

#[test]
fn check_runs_the_rules_of_lint_but_not_those_of_the_layout() {
    let text = "fn f(a) { 1 }\nprintln(f(2))\nbreak\n";
    let folder = crate::common::folder(&[
        ("a.harn", text),
        ("off/harn.toml", "[check]\ndisable_rules = [\"unused-parameter\"]\n"),
        ("off/b.harn", "fn f(a) { 1 }\nprintln(f(2))\n"),
        (
            "strict/harn.toml",
            "[check]\nstrict = true\n[lint]\nrequire_file_header = true\ncomplexity_threshold = 0\n",
        ),
        ("strict/c.harn", "println(1 > 0 && 2 > 1)\n"),
    ]);
    let ran = crate::common::harn_in(folder.path(), &["check", "--json", "a.harn"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let found = report["data"]["files"][0]["diagnostics"].as_array().unwrap();
    let found: Vec<_> = found.iter().map(|d| (d["rule"].as_str(), d["category"].as_str())).collect();
    assert_eq!(found, [(Some("unused-parameter"), Some("lint")), (Some("break-outside-loop"), Some("lint"))]);
    assert_eq!(ran.code, 1);
    // Disabled rules stay disabled, and rules that are only enabled for lint are not reported here.
    let ran = crate::common::harn_in(folder.path(), &["check", "off/b.harn", "strict/c.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "off/b.harn: ok\nstrict/c.harn: ok\n"), "{}", ran.err);
}

#[test]
fn a_type_that_is_a_slip_is_an_error_of_the_check() {
    let folder = crate::common::folder(&[("a.harn", "fn add(a: i32) { return a }\nprintln(add(nil))\n")]);
    let ran = crate::common::harn_in(folder.path(), &["check", "a.harn"]);
    assert!(
        ran.code == 1 && ran.err.contains("error: unknown type `i32`; did you mean `int`?"),
        "{}",
        ran.err
    );
}

#[test]
fn operations_of_the_host_must_be_known() {
    let text = "host_mock(\"db\", \"read\", 1)\nprintln(host_call(\"db.read\", {}), host_call(\"process.exec\", {}))\n\
        println(host_call(\"notes.list\", {}))\nlet name = \"a.b\"\nprintln(host_call(name, {}))\n\
        println({executor: \"host_bridge\", host_capability: \"notes.add\"})\n";
    let folder = crate::common::folder(&[
        ("a.harn", text),
        ("ops.json", "{\"capabilities\": {\"notes\": {\"list\": {}, \"add\": {}}}}"),
        ("ops.toml", "notes = [\"list\", \"add\"]\n"),
        ("wrong.json", "{\"notes\": 3}"),
        ("one/harn.toml", "[check]\nhost_capabilities_path = \"../ops.toml\"\npreflight_allow = [\"*\"]\n"),
        ("one/a.harn", text),
        (
            "two/harn.toml",
            "[check]\npreflight-allow = [\"notes.*\"]\n[check.host_capabilities]\nother = [\"x\"]\n",
        ),
        ("two/a.harn", text),
        (
            "bad/harn.toml",
            "[check]\nhost_capabilities_path = \"none.json\"\npreflight_allow = [3]\n[check.host_capabilities]\nnotes = \"list\"\n",
        ),
        ("bad/a.harn", "println(1)\n"),
    ]);
    let check = |args: &[&str]| {
        let ran = crate::common::harn_in(folder.path(), &[&["check"], args].concat());
        let errors = ran.err.lines().filter_map(|line| line.strip_prefix("error: "));
        (ran.code, errors.map(str::to_owned).collect::<Vec<_>>())
    };
    let unknown = |op: &str| format!("preflight: unknown host capability/operation '{op}'");
    let literal =
        "preflight: host_call(...) requires a literal \"capability.operation\" name for static validation";
    assert_eq!(
        check(&["a.harn"]),
        (1, vec![unknown("notes.list"), literal.to_owned(), unknown("notes.add")])
    );
    for file in ["ops.json", "ops.toml"] {
        assert_eq!(check(&["--host-capabilities", file, "a.harn"]), (1, vec![literal.to_owned()]));
    }
    assert_eq!(check(&["one/a.harn"]), (0, vec![]));
    assert_eq!(check(&["two/a.harn"]), (1, vec![literal.to_owned()]));
    let (code, errors) = check(&["bad/a.harn"]);
    assert_eq!((code, errors.len()), (1, 3), "{errors:?}");
    for (error, text) in errors.iter().zip([
        "[check] host_capabilities_path: cannot read none.json: ",
        "[check] preflight_allow must be a list of operations",
        "[check] host_capabilities: `notes` must be a list of names of operations",
    ]) {
        assert!(error.starts_with(text), "{error}");
    }
    let ran =
        crate::common::harn_in(folder.path(), &["check", "--host-capabilities", "wrong.json", "a.harn"]);
    assert!(ran.code == 2 && ran.err.contains("`notes` must be a list of names"), "{}", ran.err);
}

#[test]
fn a_workspace_names_its_programs() {
    let folder = crate::common::folder(&[
        ("harn.toml", "[workspace]\npipelines = [\"flows\", \"main.harn\"]\n"),
        ("main.harn", "println(1)\n"),
        ("flows/a.harn", "printl(1)\n"),
        ("other.harn", "println(2)\n"),
        ("empty/harn.toml", "[workspace]\npipelines = \"a\"\n"),
    ]);
    let ran = crate::common::harn_in(folder.path(), &["check", "--workspace", "other.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "other.harn: ok\nmain.harn: ok\n"), "{}", ran.err);
    assert!(ran.err.contains("--> flows/a.harn:1:1"), "{}", ran.err);
    for (args, text) in [
        (&["check"][..], "requires at least one target path, or `--workspace`"),
        (&["check", "--workspace", "empty"], "--workspace requires `[workspace].pipelines`"),
        (&["check", "--workspace", "/"], "--workspace could not find a harn.toml"),
    ] {
        let ran = crate::common::harn_in(folder.path(), args);
        assert!(ran.code == 2 && ran.err.contains(text), "{text}: {}", ran.shown());
    }
}

#[test]
fn invariants_are_followed_through_calls_and_files() {
    let main = "import { save } from \"lib\"\n\n@invariant(\"fs.writes\", \"out/**\")\nfn publish(text) {\n  \
                save(\"out/a.md\", text)\n  save(\"a.md\", text)\n}\n\n@invariant(\"fs.writes\", allow: [\"*.md\"])\n\
                pub fn plain(text) {\n  save(\"a.md\", text)\n}\n\npublish(\"x\")\n";
    let lib = "/** Writes. */\npub fn save(path, text) {\n  write_file(path, text)\n}\n";
    let folder = crate::common::folder(&[("main.harn", main), ("lib.harn", lib)]);
    let harn = |args: &[&str]| crate::common::harn_in(folder.path(), args);
    assert_eq!(harn(&["check", "--preflight", "off", "main.harn"]).code, 0);
    let ran = harn(&["check", "--invariants", "main.harn"]);
    let expected = "error: `write_file` writes `a.md`, but files may be written in out/**\n  --> lib.harn:3:14\n   |\n \
                    3 |   write_file(path, text)\n   |              ^^^^ invariant[fs.writes]\n  \
                    = note: `publish` calls `save`\n   = help: write to one of these places, or add a glob to the attribute\n";
    assert!(ran.code == 1 && ran.err.contains(expected), "{}", ran.err);
    let ran = harn(&["check", "--invariants", "--json", "main.harn"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(
        ran.out.contains("\"category\":\"invariant\"") || ran.out.contains("\"category\": \"invariant\""),
        "{report}"
    );

    let ran = harn(&["explain", "--invariant", "fs.writes", "publish", "main.harn"]);
    let expected = "fs.writes: `write_file` writes `a.md`, but files may be written in out/** (publish)\n  \
                    1. main.harn:4:4 `publish` begins\n  2. main.harn:6:3 calls `save`\n  3. lib.harn:3:14 calls `write_file`\n  \
                    help: write to one of these places, or add a glob to the attribute\n";
    assert_eq!((ran.code, ran.out.as_str()), (1, expected), "{}", ran.err);
    let ran = harn(&["explain", "--invariant", "fs.writes", "plain", "main.harn"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "No `fs.writes` violations found for `plain` in main.harn.\n")
    );
    let ran = harn(&["explain", "--invariant", "fs.writes", "nobody", "main.harn"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: handler `nobody` was not found\n"));
    let ran = harn(&["explain", "--invariant", "fs.write", "publish", "main.harn"]);
    assert!(ran.code == 2 && ran.err.contains("did you mean `fs.writes`?"), "{}", ran.err);
}

#[test]
fn a_wrong_argument_of_an_imported_function_shows_its_parameter() {
    let folder = crate::common::folder(&[
        ("lib.harn", "/** Gives it back. */\npub fn same(a: int) {\n  return a\n}\n"),
        ("main.harn", "import { same } from \"lib\"\n\nprintln(same(\"x\"))\n"),
    ]);
    let ran = crate::common::harn_in(folder.path(), &["check", "main.harn"]);
    assert_eq!(ran.code, 1);
    for part in [
        "error: Argument 1 ('a'): expected int, got string\n  --> main.harn:3:14\n",
        "lib.harn:2:13\n",
        "the parameter",
        "the argument",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
}
