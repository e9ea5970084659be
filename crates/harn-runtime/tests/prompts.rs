//! Side effects of prompts: lines of the call log, the warning about a hidden `llm`, and the data that is sent.
use std::path::Path;

use harn_value::{Data as Json, json};

/// Runs a program with a call log and returns its `template.render` lines.
fn renders(dir: &Path, text: &str) -> Vec<Json> {
    logged(dir, text, "template.render")
}

/// Runs a program with a call log and returns its lines of one type.
fn logged(dir: &Path, text: &str, kind: &str) -> Vec<Json> {
    let log = tempfile::tempdir().unwrap();
    let folder = log.path().display().to_string();
    let env = [("HARN_LLM_TRANSCRIPT_DIR", folder.as_str()), ("HARN_LLM_CALLS_DISABLED", "1")];
    let run = crate::common::run_with("test.harn", text, dir, &env, None);
    assert_eq!(run.error, None, "{}{}", run.output, run.errors);
    let lines = std::fs::read_to_string(log.path().join("llm_transcript.jsonl")).unwrap_or_default();
    let lines = lines.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    lines.filter(|line| line["type"] == kind).collect()
}

const TEMPLATE: &str = "{{ if llm.capabilities.native_tools }}native{{ elif   not   missing }}text{{ end }}\n  \
                        {{ for x in xs }}{{ if x == 1 }}one{{ else }}other{{ end }}{{ end }}{{ if missing }}never{{ end }}\
                        {{ section \"task\" }}Go.{{ endsection }}{{ include \"leaf.harn.prompt\" }}";

#[test]
fn a_render_inside_a_context_is_a_line_of_the_call_log() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("t.harn.prompt"), TEMPLATE).unwrap();
    std::fs::write(dir.path().join("leaf.harn.prompt"), "\n{{ if xs }}leaf{{ end }}").unwrap();
    let program = r#"
__push_llm_render_context("anthropic", "claude-sonnet-4-20250514")
print(render("t.harn.prompt", {xs: [1, 2]}))
__pop_llm_render_context()
render("t.harn.prompt", {xs: [1, 2]})
"#;
    let lines = renders(dir.path(), program);
    assert_eq!(lines.len(), 1, "a render outside of a context writes nothing");
    let line = &lines[0];
    let uri = dir.path().join("t.harn.prompt").display().to_string();
    assert_eq!(line["template_uri"], *uri);
    let hash = harn_template::Template::inline(TEMPLATE).unwrap().revision_hash().to_owned();
    assert_eq!(line["template_revision_hash"], *hash);
    assert_eq!(line["llm"]["provider"], "anthropic");
    assert_eq!(line["llm"]["family"], "anthropic-claude");
    assert_eq!(line["llm"]["capabilities"]["native_tools"], true);
    assert_eq!(line["rendered_bytes"], "native\n  oneother<task>\nGo.\n</task>\nleaf".len());
    assert!(line["timestamp"].is_string() && line.get("span_id").is_some());
    let leaf = dir.path().join("leaf.harn.prompt").display().to_string();
    let branch = |uri: &str, line: u32, col: u32, id: &str, label: Json| {
        let mut entry = json!({"kind": "if", "template_uri": uri, "line": line, "col": col, "branch_id": id});
        if !label.is_null() {
            entry["branch_label"] = label;
        }
        entry
    };
    let mut section = branch(&uri, 2, 97, "xml", json!("task"));
    section["kind"] = "section".into();
    let column = |text: &str| TEMPLATE.lines().nth(1).unwrap().find(text).unwrap() as u32 + 1;
    section["col"] = column("{{ section").into();
    let inner = column("{{ if x == 1");
    let expected = [
        branch(&uri, 1, 1, "if", json!("llm.capabilities.native_tools")),
        branch(&uri, 2, inner, "if", json!("x == 1")),
        branch(&uri, 2, column("{{ else"), "else", Json::Null),
        branch(&uri, 2, column("{{ if missing"), "none", Json::Null),
        section,
        branch(&leaf, 2, 1, "if", json!("xs")),
    ];
    assert_eq!(line["branches"], json!(expected));
}

#[test]
fn conditions_are_labelled_with_their_whitespace_collapsed() {
    let program = r#"
__push_llm_render_context("mock", "m")
render_string("{{ if no }}{{ elif   not   no }}text{{ end }}", {no: false})
"#;
    let lines = renders(Path::new("/"), program);
    assert_eq!(lines[0]["template_uri"], "");
    assert_eq!(lines[0]["branches"][0]["branch_id"], "elif:1");
    assert_eq!(lines[0]["branches"][0]["branch_label"], "not no");
}

#[test]
fn all_ways_to_render_are_logged_and_failures_are_not() {
    let asset = "std/agent/prompts/progress_nudge.harn.prompt";
    let program = format!(
        r#"
__push_llm_render_context("mock", "m")
render("{asset}", {{progress_tool: "t"}})
render_prompt("{asset}", {{progress_tool: "t"}})
render_with_provenance("{asset}", {{progress_tool: "t"}})
host_call("template.render", {{path: "{asset}", bindings: {{progress_tool: "t"}}}})
render_string("x")
println(is_err(try {{ render_string("{{{{ x | nope }}}}") }}))
"#
    );
    let lines = renders(Path::new("/"), &program);
    let uris: Vec<&str> = lines.iter().map(|line| line["template_uri"].as_str().unwrap()).collect();
    let nudge = "std://agent/prompts/progress_nudge.harn.prompt";
    assert_eq!(uris, [nudge, nudge, nudge, nudge, ""]);
}

#[test]
fn prompts_of_the_runtime_render_against_the_model() {
    let program = r###"
llm_mock({text: "##DONE##"})
agent_loop("go", "Base.", {provider: "mock", model: "m1", persistent: true})
llm_mock({text: "no json"})
llm_mock({text: "{\"a\": 1}"})
llm_call("go", nil, {provider: "mock", model: "m2", output_schema: {type: "object", required: ["a"]}, schema_retries: 1})
"###;
    let lines = renders(Path::new("/"), program);
    let seen: Vec<(&str, &str)> = lines
        .iter()
        .map(|line| (line["template_uri"].as_str().unwrap(), line["llm"]["model"].as_str().unwrap()))
        .collect();
    assert!(seen.contains(&("std://agent/prompts/loop_until_done_system.harn.prompt", "m1")), "{seen:?}");
    assert!(seen.iter().any(|(uri, model)| uri.starts_with("std://llm/") && *model == "m2"), "{seen:?}");
}

#[test]
fn the_same_input_gives_the_same_lines() {
    let program = r#"
__push_llm_render_context("openai", "gpt-4o")
for x in [1, 2, 1] { render_string("{{ if x == 1 }}a{{ else }}b{{ end }}{{ section \"task\" }}t{{ endsection }}", {x: x}) }
"#;
    let strip = |lines: Vec<Json>| -> Vec<Json> {
        lines
            .into_iter()
            .map(|mut line| {
                line["timestamp"] = Json::Null;
                line
            })
            .collect()
    };
    let first = strip(renders(Path::new("/"), program));
    assert_eq!(first[0], first[2]);
    assert_ne!(first[0], first[1]);
    assert_eq!(strip(renders(Path::new("/"), program)), first);
}

#[test]
fn a_hidden_llm_is_warned_about_once_per_template() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.prompt"), "{{ llm }}").unwrap();
    std::fs::write(dir.path().join("b.prompt"), "{{ llm }}").unwrap();
    let program = r#"
render("a.prompt", {llm: "outside of a context nothing is hidden"})
__push_llm_render_context("mock", "m")
println(render("a.prompt", {llm: 1}) + render("a.prompt", {llm: 2}) + render("b.prompt", {llm: 3}))
render("a.prompt", {other: 1})
"#;
    let run = crate::common::run_with("test.harn", program, dir.path(), &[], None);
    assert_eq!((run.error, run.output.as_str()), (None, "123\n"));
    let warnings: Vec<&str> = run.errors.lines().filter(|l| l.contains("template.llm_scope")).collect();
    assert_eq!(warnings.len(), 2, "{}", run.errors);
    for (warning, file) in warnings.iter().zip(["a.prompt", "b.prompt"]) {
        assert!(warning.contains(&format!("template_uri={}", dir.path().join(file).display())), "{warning}");
        assert!(warning.contains("reason=user_binding_shadowed") && warning.contains("rename"), "{warning}");
    }
}

#[test]
fn the_system_prompt_is_logged_when_it_changed() {
    let program = r#"
for system in ["né", "né", "other"] { llm_call("go", system, {provider: "mock"}) }
"#;
    let lines = logged(Path::new("/"), program, "system_prompt");
    let contents: Vec<&str> = lines.iter().map(|line| line["content"].as_str().unwrap()).collect();
    assert_eq!(contents, ["né", "other"]);
    let expected = format!("sha256:{}", harn_prompt::layered::cache_key("né"));
    assert_eq!((&lines[0]["hash"], &lines[0]["sha256"]), (&json!(expected), &json!(expected)));
    assert_eq!(lines[0]["bytes"], 3);
}

#[test]
fn lines_of_the_call_log_are_events_too() {
    let log = tempfile::tempdir().unwrap();
    let folder = log.path().display().to_string();
    let program = r#"
llm_call("Hi", "Base.", {provider: "mock"})
let count = event_log.latest("agent.transcript.llm")
for event in event_log.subscribe("agent.transcript.llm") {
  println("${event.kind} ${event.payload.type == event.kind}")
  if event.id == count { break }
}
"#;
    let run = crate::common::run_with(
        "test.harn",
        program,
        log.path(),
        &[("HARN_LLM_TRANSCRIPT_DIR", &folder)],
        None,
    );
    assert_eq!(run.error, None, "{}{}", run.output, run.errors);
    let written = std::fs::read_to_string(log.path().join("llm_transcript.jsonl")).unwrap();
    let kinds = written.lines().map(|line| serde_json::from_str::<Json>(line).unwrap()["type"].clone());
    let expected: Vec<String> = kinds.map(|kind| format!("{} true", kind.as_str().unwrap())).collect();
    assert_eq!(run.output.lines().collect::<Vec<_>>(), expected);
    assert!(expected.len() > 3, "{expected:?}");
}
