//! The preflight: imports, templates and their bindings.

use crate::common::Project;
use harn_check::{PreflightSeverity, Quiet, Settings, Source, check_templates};
use harn_syntax::Severity;
use insta::assert_snapshot;

const NONE: [&str; 0] = [];

#[test]
fn syntax_errors_stand_in_the_template() {
    let project = Project::new(&[("prompts/a.harn.prompt", "Hello\n  {{ if name }}x\n")]);
    assert_snapshot!(project.drawn(
        "let t = render(\"prompts/a.harn.prompt\", {name: 1})\nrender_prompt(\"prompts/a.harn.prompt\")\n"
    ));
}

#[test]
fn missing_targets_name_the_place_and_a_near_file() {
    let project = Project::new(&[("prompts/hello.harn.prompt", "x"), ("plain.prompt", "x")]);
    assert_snapshot!(project.drawn(
        "render(\"prompts/helo.harn.prompt\")\nrender_prompt(\"plain.harn.prompt\")\nhost_call(\"template.render\", {path: \"gone.txt\"})\nrender(\"std/agent/gone.harn.prompt\")\nrender(\"std/agent/nudge.harn.prompt\", {who: 1})\n"
    ));
}

#[test]
fn paths_with_an_at_sign_are_checked() {
    let call = "render(\"@/a.prompt\")\nrender(\"@parts/b.prompt\")\nrender(\"@gone/b.prompt\")\nrender(\"@/../x\")\n";
    let bare = Project::new(&[]);
    assert!(bare.messages("render(\"@/a.prompt\")")[0].starts_with(
        "preflight: package-root prompt path '@/a.prompt' has no project root: no harn.toml found above "
    ));
    let project = Project::new(&[
        ("harn.toml", "[asset_roots]\nparts = \"deep/parts\"\n"),
        ("a.prompt", "x"),
        ("deep/parts/b.prompt", "x"),
    ]);
    assert_eq!(
        project.messages(call),
        [
            "preflight: asset alias 'gone' is not defined in [asset_roots] of harn.toml",
            "preflight: invalid project-root asset path '@/../x'",
        ]
    );
}

#[test]
fn includes_are_followed() {
    let project = Project::new(&[
        ("a.prompt", "{{ include \"parts/b.prompt\" }}\n{{ include \"gone.prompt\" }}{{ include x }}"),
        ("parts/b.prompt", "b\n{{ include \"c.prompt\" }}{{ include \"../../out.prompt\" }}"),
        ("parts/c.prompt", "{{ include \"../a.prompt\" }}{{ section \"nonsense\" }}{{ endsection }}"),
    ]);
    assert_snapshot!(project.drawn("fn f() {\n  render(\"a.prompt\")\n  render(\"a.prompt\")\n}\n"));
}

#[test]
fn includes_that_lead_back_fail_whenever_they_are_reached() {
    let project = Project::new(&[
        (
            "a.prompt",
            "{{ include \"loop.prompt\" }}{{ include \"fine.prompt\" }}{{ include \"fine.prompt\" }}",
        ),
        ("fine.prompt", "x"),
        ("loop.prompt", "x\n{{ include \"loop2.prompt\" }}"),
        ("loop2.prompt", "{{ include \"sub/../loop.prompt\" }}"),
        ("sub/x.prompt", ""),
        ("self.prompt", "{{ if x }}{{ include \"self.prompt\" }}{{ end }}"),
    ]);
    assert_snapshot!(
        project.drawn("render(\"a.prompt\")\nrender(\"a.prompt\")\nrender(\"self.prompt\", {x: 1})\n")
    );
}

#[test]
fn includes_nest_to_a_limit() {
    let files: Vec<(String, String)> = (0..40)
        .map(|n| (format!("{n}.prompt"), format!("{{{{ include \"{}.prompt\" }}}}", n + 1)))
        .chain([("40.prompt".to_owned(), String::new())])
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let project = Project::new(&files);
    assert_eq!(project.messages("render(\"7.prompt\")"), ["preflight: include depth exceeded (32 levels)"]);
    assert_eq!(project.messages("render(\"8.prompt\")"), NONE);
}

#[test]
fn a_path_must_not_be_empty() {
    let project = Project::new(&[]);
    assert_eq!(
        project.messages("render(\"\", {})\nrender_prompt(\"\")"),
        [
            "preflight: render target is empty: the path must be a non-empty string",
            "preflight: render_prompt target is empty: the path must be a non-empty string",
        ]
    );
}

#[test]
fn what_was_removed_is_named() {
    let project = Project::new(&[]);
    assert_eq!(
        project.messages("host_invoke(\"project\", \"scan\", {})"),
        ["preflight: host_invoke(...) was removed; use host_call(\"capability.operation\", args)"]
    );
    assert_eq!(project.messages("fn host_invoke(a) { a }\nhost_invoke(1)"), NONE);
}

#[test]
fn unknown_filters_are_named() {
    let project = Project::new(&[("a.prompt", "{{ x | uper }}\n{{ y | zzzzzz }}")]);
    assert_snapshot!(project.drawn("render(\"a.prompt\", {x: 1, y: 2})"));
    project.write("harn.toml", "[lint]\ndisabled = [\"template-unknown-filter:*.prompt\"]\n");
    assert_eq!(project.messages("render(\"a.prompt\", {x: 1, y: 2})"), NONE);
}

#[test]
fn bindings_are_compared_with_the_names_that_templates_use() {
    let project = Project::new(&[
        (
            "hello.harn.prompt",
            "Hello {{ name }},\n{{ tone | upper }} {{ include \"sign.prompt\" with { who: name } }}",
        ),
        ("sign.prompt", "{{ who }} of {{ team }}"),
    ]);
    assert_snapshot!(
        project.drawn("let text = render(\"hello.harn.prompt\", {name: \"Ada\", tonn: \"kind\", size: 3})\n")
    );
}

#[test]
fn names_that_a_template_asks_for_may_be_absent() {
    let project = Project::new(&[
        (
            "a.prompt",
            "{{ if a }}{{ a.b }}{{ elif b }}{{ b }}{{ end }}{{ c | default: \"x\" }}{{ for d in ds }}{{ d }}{{ end }}{{ llm.model }}{{ include \"b.prompt\" with { e: e } }}",
        ),
        ("b.prompt", "{{ if e }}{{ e }}{{ end }}"),
    ]);
    assert_eq!(project.messages("render(\"a.prompt\", {ds: []})"), NONE);
    assert_eq!(
        project.messages("render(\"a.prompt\", {_note: 1, llm: 2})"),
        ["preflight: template 'a.prompt' uses `ds`, which is not bound"]
    );
    // Without bindings, or with bindings that are not known, there is nothing to compare.
    assert_eq!(project.messages("render(\"a.prompt\")\nlet k = \"x\"\nrender(\"a.prompt\", {[k]: 1})\nrender(\"a.prompt\", {...k})"), NONE);
}

#[test]
fn a_let_bound_to_a_dict_is_followed() {
    let project = Project::new(&[("a.prompt", "{{ a }}"), ("b.prompt", "{{ b }}")]);
    let shared = "fn f() {\n  let vars = {a: 1, b: 2, c: 3}\n  return render(\"a.prompt\", vars) + render(\"b.prompt\", vars)\n}";
    assert_eq!(
        project.messages(shared),
        ["preflight: binding `c` is not used by the templates 'a.prompt', 'b.prompt'"]
    );
    // What the program reads itself, or what may change, is not judged.
    assert_eq!(
        project.messages("let vars = {a: 1, c: 3}\nprintln(vars.c)\nrender(\"a.prompt\", vars)"),
        NONE
    );
    assert_eq!(project.messages("var vars = {c: 3}\nvars.a = 1\nrender(\"a.prompt\", vars)"), NONE);
    assert_eq!(
        project.messages("fn f(vars) { render(\"a.prompt\", vars) }\nlet vars = {c: 3}\nprintln(vars)"),
        NONE
    );
    assert_eq!(
        project.messages("let vars = {c: 3}\nprintln(vars)\nrender(\"a.prompt\", vars)"),
        ["preflight: template 'a.prompt' uses `a`, which is not bound"]
    );
}

#[test]
fn computed_includes_make_every_binding_useful() {
    let project =
        Project::new(&[("a.prompt", "{{ include p }}"), ("b.prompt", "{{ include \"gone.prompt\" }}")]);
    assert_eq!(project.messages("render(\"a.prompt\", {p: \"x\", q: 1})"), NONE);
    assert_eq!(project.messages("render(\"b.prompt\", {q: 1})").len(), 1);
}

#[test]
fn a_function_of_the_program_hides_the_builtin() {
    let project = Project::new(&[]);
    assert_eq!(project.messages("fn render(p) { p }\nrender(\"gone.prompt\")"), NONE);
    let with_lib = Project::new(&[("lib.harn", "pub fn render(p) { p }")]);
    assert_eq!(with_lib.messages("import { render } from \"lib\"\nrender(\"gone.prompt\")"), NONE);
    assert_eq!(
        project.messages("let p = \"gone.prompt\"\nrender(p)\nrender(\"${p}\")\nrender(...[p])"),
        NONE
    );
}

#[test]
fn imports_must_resolve_in_every_file() {
    let project = Project::new(&[
        ("helpers.harn", "import \"gone\"\npub fn f() { render(\"here.prompt\") }\n"),
        ("sub/one.harn", "import \"../helpers\"\nfn g() { render(\"here.prompt\") }\n"),
        ("sub/here.prompt", "x"),
        (".harn/packages/kit/lib.harn", "pub fn k() { 1 }"),
        (".harn/packages/kit/harn.toml", "[exports]\nextra = \"src/extra.harn\"\n"),
        (".harn/packages/kit/src/extra.harn", "pub fn x() { 1 }"),
    ]);
    assert_snapshot!(project.drawn("import \"helper\"\nimport \"std/nothing\"\nimport { k } from \"kit\"\nimport \"kit/extra\"\nimport \"sub/one\"\n"));
}

#[test]
fn imports_must_parse() {
    let project =
        Project::new(&[("bad.harn", "fn b( { 2 }\n"), ("facade.harn", "pub import { b } from \"bad\"\n")]);
    assert_snapshot!(project.drawn("import { b } from \"bad\"\nimport \"facade\"\nprintln(b())\n"));
}

#[test]
fn the_bundle_root_is_tried_first() {
    let project = Project::new(&[
        ("harn.toml", "[check]\nbundle_root = \"out\"\n"),
        ("out/a.prompt", "{{ end }}"),
        ("a.prompt", "fine"),
    ]);
    assert_eq!(project.messages("render(\"a.prompt\")").len(), 1);
    assert_eq!(
        project.messages("render(\"b.prompt\")"),
        ["preflight: render target 'b.prompt' does not exist at out/b.prompt, b.prompt"]
    );
}

#[test]
fn the_severity_can_be_set() {
    let project = Project::new(&[]);
    let text = "render(\"gone.prompt\")";
    let tree = crate::common::parse(text);
    let source = Source { name: "main.harn", dir: &project.dir, text, tree: &tree };
    let with = |preflight| {
        let settings = Settings { preflight, ..Settings::default() };
        let found = check_templates(&source, &crate::common::world(), &settings, &Quiet::default());
        found.iter().map(|located| located.diagnostic.severity).collect::<Vec<_>>()
    };
    assert_eq!(with(PreflightSeverity::Error), [Severity::Error]);
    assert_eq!(with(PreflightSeverity::Warning), [Severity::Warning]);
    assert_eq!(with(PreflightSeverity::Off), []);
}

#[test]
fn files_that_say_nothing_are_looked_at_once() {
    let project = Project::new(&[
        ("a.harn", "import \"b\"\n"),
        ("b.harn", "import \"a\"\npub fn f() { 1 }\n"),
        ("c.harn", "import \"a\"\nimport \"gone\"\n"),
        ("d.harn", "import \"c\"\n"),
        ("e.harn", "fn show() { render(\"e.prompt\", {}) }\n"),
        ("e.prompt", "text"),
    ]);
    let quiet = Quiet::default();
    let found = |text: &str| {
        let tree = crate::common::parse(text);
        let source = Source { name: "main.harn", dir: &project.dir, text, tree: &tree };
        let found = check_templates(&source, &crate::common::world(), &Settings::default(), &quiet);
        found.into_iter().map(|located| located.diagnostic.message).collect::<Vec<_>>()
    };
    assert_eq!(found("import \"a\"\nimport \"e\"\n"), Vec::<String>::new());
    // What was quiet is not read again, not even what it imports.
    project.write("a.harn", "import \"nowhere\"\n");
    assert_eq!(found("import \"a\"\n"), Vec::<String>::new());
    // What renders templates is looked at for each program, and what has a finding, and what imports that.
    project.write("e.prompt", "{{ end }}");
    assert_eq!(found("import \"e\"\n").len(), 1);
    for _ in 0..2 {
        assert_eq!(found("import \"d\"\n"), ["preflight: unresolved import 'gone'"]);
    }
}

#[test]
fn odd_targets_are_reported_and_never_read_without_end() {
    let project = Project::new(&[("folder/x", "")]);
    std::fs::write(project.dir.join("bytes.prompt"), [0xFF, 0xFE]).unwrap();
    for path in ["folder", "bytes.prompt", "/dev/zero", ""] {
        let found = project.messages(&format!("render(\"{path}\")"));
        assert_eq!(found.len(), 1, "{path}: {found:?}");
        assert!(found[0].starts_with("preflight: "), "{found:?}");
    }
}

#[test]
fn findings_of_the_program_come_first() {
    let project = Project::new(&[("a.prompt", "{{ end }}")]);
    let found = project.preflight("render(\"a.prompt\")\nrender(\"gone.prompt\")");
    let files: Vec<bool> = found.iter().map(|located| located.file.is_some()).collect();
    assert_eq!(files, [false, true]);
}

#[test]
fn names_that_come_from_two_places_are_told() {
    let project = Project::new(&[
        ("a.harn", "pub fn same() { 1 }\n\npub fn only_a() { 1 }\n\ntype Id = int\n"),
        ("b.harn", "pub fn same() { 2 }\n\npub fn only_b() { 2 }\n\ntype Id = string\n"),
        ("facade.harn", "pub import \"a\"\npub import { only_b } from \"b\"\n"),
        ("torn.harn", "pub import \"a\"\npub import \"b\"\n"),
    ]);
    let messages = |text: &str| project.messages(text);
    let both = "preflight: import collision — 'same' is exported by both 'a.harn' and 'b.harn'";
    assert_eq!(messages("import \"a\"\nimport \"b\"\n"), [both]);
    assert_eq!(messages("import { same } from \"a\"\nimport { same, only_b } from \"b\"\n"), [both]);
    let fine = [
        "import \"a\"\nimport { only_b } from \"b\"\nprintln(same())\n",
        // One function by two ways.
        "import \"a\"\nimport \"facade\"\nprintln(same(), only_b())\n",
        // A type that nobody mentions, and one that is declared here.
        "import { same } from \"a\"\nimport { only_b } from \"b\"\n",
        "import \"facade\"\ntype Id = bool\nfn f(id: Id) { id }\n",
    ];
    for text in fine {
        assert_eq!(messages(text), NONE, "{text}");
    }
    assert_eq!(
        messages("import \"facade\"\nfn only_b() { 3 }\n"),
        ["preflight: import collision — 'only_b' is declared here and exported by 'b.harn'"]
    );
    assert_eq!(
        messages("import { only_a } from \"torn\"\n"),
        [
            "preflight: re-export conflict — 'same' is re-exported (or locally defined) by multiple sources: a.harn, b.harn"
        ]
    );
}

#[test]
fn tools_that_a_prompt_speaks_of_must_be_there() {
    let project = Project::new(&[
        (
            "go.harn.prompt",
            "Call read_note() {{ if has_x }}and{{ end }} `deep_look(1)`, say (so).\n```\nnot_this()\n```\n",
        ),
        ("lib.harn", "pub fn f() { 1 }\n"),
    ]);
    let tool = |name: &str, more: &str| {
        format!("tool_define(tool_registry(), \"{name}\", \"Does\", {{{more}handler: {{ _a -> 1 }}}})\n")
    };
    let both = tool("read_notes", "") + &tool("deep_look", "defer_loading: true, ");
    let render = "render(\"go.harn.prompt\", {})\n";
    let unknown =
        "preflight: TOOL_SURFACE_UNKNOWN_PROMPT_TOOL: the prompt mentions 'read_note', which is no tool";
    let deferred = "preflight: TOOL_SURFACE_DEFERRED_TOOL_PROMPT_REFERENCE: the prompt mentions 'deep_look', which is deferred";
    assert_eq!(project.messages(&format!("{both}{render}")), [unknown]);
    assert_eq!(
        project.messages(&format!("{both}{render}let o = {{tool_search: \"bm25\"}}\n")),
        [unknown, deferred]
    );
    // Other tools may come from elsewhere, or none is made here.
    for more in ["import \"lib\"\n", "mcp_connect(\"x\")\n", "let skills = load_skills()\n"] {
        assert_eq!(project.messages(&format!("{more}{both}{render}")), NONE, "{more}");
    }
    assert_eq!(project.messages(render), NONE);
    assert_eq!(project.messages(&format!("{both}{render}fn read_note() {{ 1 }}\n")), NONE);
}

#[test]
fn folders_that_programs_run_in_must_be_there() {
    let project = Project::new(&[]);
    let text = "exec_at(\"gone/a\", \"ls\")\nshell_at(\"gone/b\", \"ls\")\nshell_at(\"/\", \"ls\")\nspawn_agent({task: \"t\", execution: {cwd: \"gone/c\", worktree: {repo: \"gone/d\"}}})\nprintln(\"gone/a2, gone/b.x, agone/cc\")\n";
    let messages = project.messages(text);
    let begins = |what: &str, folder: &str| format!("preflight: {what} '{folder}' does not exist at ");
    let expected = [
        begins("execution directory", "gone/a"),
        begins("execution directory", "gone/b"),
        begins("execution directory", "gone/c"),
        begins("worktree repo", "gone/d"),
    ];
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert!(messages.iter().zip(&expected).all(|(told, start)| told.starts_with(start)), "{messages:?}");
    let made = "mkdir(\"gone/a\")\nexec_at(\"gone/a\", \"ls\")\nshell(\"git clone x gone/b\")\nshell_at(\"gone/b\", \"ls\")\n";
    assert_eq!(project.messages(made), NONE);
}
