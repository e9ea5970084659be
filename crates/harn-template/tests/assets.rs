//! The embedded prompts of the standard library: each one parses, has no lint findings, and renders meaningful
//! output.
use std::borrow::Cow;
use std::path::{Path, PathBuf};

use harn_template::{AssetLoader, Assets, LintSettings, Origin, RenderContext, Template, lint};

/// The directory that is embedded as `std/`.
struct Stdlib(PathBuf);

impl Stdlib {
    fn open() -> Stdlib {
        Stdlib(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stdlib"))
    }

    /// Returns all prompts as paths after `std/`, sorted.
    fn prompts(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.to_string_lossy().ends_with(".prompt") {
                    found.push(path.strip_prefix(&self.0).unwrap().to_string_lossy().into_owned());
                }
            }
        }
        found.sort();
        found
    }
}

impl Assets for Stdlib {
    fn get(&self, path: &str) -> Option<Cow<'static, str>> {
        std::fs::read_to_string(self.0.join(path)).ok().map(Cow::Owned)
    }
}

fn render(path: &str, json: &str) -> String {
    let loader = AssetLoader(Stdlib::open());
    let context = RenderContext { loader: &loader, ..RenderContext::default() };
    Template::load(path, &loader).and_then(|t| t.render(&crate::common::bindings(json), &context)).unwrap()
}

fn agent(name: &str, json: &str) -> String {
    render(&format!("std/agent/prompts/{name}.harn.prompt"), json)
}

/// The catalog of agent prompts.
const AGENT_PROMPTS: &[&str] = &[
    "action_required_feedback",
    "action_turn_nudge",
    "agent_turn_preamble",
    "completion_judge_default",
    "completion_judge_feedback_fallback",
    "completion_judge_user",
    "daemon_timer_feedback",
    "daemon_watch_feedback",
    "default_nudge",
    "ledger_description",
    "ledger_not_satisfied_feedback",
    "load_skill_description",
    "loop_until_done_system",
    "mcp_advisory_note",
    "native_tool_contract_feedback",
    "output_instruction",
    "parse_guidance",
    "persistent_loop_system",
    "progress_nudge",
    "protocol_violation_feedback",
    "skill_catalog_intro",
    "task_ledger_state",
    "tool_contract_action_native",
    "tool_contract_action_text",
    "tool_contract_deferred_tools",
    "tool_contract_native",
    "tool_contract_task_ledger",
    "tool_contract_text",
    "tool_contract_text_response_protocol",
    "verification_gate_feedback",
];

/// Values for all bindings that the agent prompts use.
const EVERYTHING: &str = r###"{
    "mode": "text", "native_mode": false, "require_action": true, "done_sentinel": "##DONE##", "include_task_ledger_help": true,
    "tool_examples": "EXAMPLES", "shared_types": "type A = string;", "expanded_schemas": "declare function f(args: {}): string;",
    "compact_schemas": "- `g({})` — G.", "tools": [{"name": "a", "description": "Does a."}, {"name": "b"}],
    "loop_until_done": true, "exit_when_verified": true, "has_tools": true, "native_done": false, "sentinel_active": true,
    "max_prose_chars": 200, "nudges_left": 1, "iteration": 2, "max_iterations": 50, "progress_tool": "todo",
    "schema": {"type": "object"}, "schema_text": "{\n  \"type\": \"object\"\n}", "tool_names": ["f", "g"], "violations": ["one", "two"], "executed": true,
    "policy": "allow_once", "tool_call_count": 1, "errors": ["one", "two"], "last_result": "exit_code=1",
    "interval_ms": 500, "watch_paths": ["a.rs", "b.rs"], "task": "Write it.", "response": "Written.", "transcript": "f() -> ok",
    "deliverables": ["one", {"text": "two", "status": "done"}], "reason": "Tests are missing.", "missing": ["tests", "docs"],
    "name": "files"
}"###;

#[test]
fn rendered_agent_prompts() {
    let mut shown = String::new();
    for name in AGENT_PROMPTS {
        shown.push_str(&format!("==== {name}\n{}\n", agent(name, EVERYTHING)));
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn agent_prompts_render_without_bindings() {
    for name in AGENT_PROMPTS {
        let rendered = agent(name, "{}");
        assert!(!rendered.contains("{{"), "{name} leaves a directive:\n{rendered}");
        assert!(!rendered.contains("\n\n\n"), "{name} leaves empty lines:\n{rendered}");
    }
}

#[test]
fn every_prompt_is_free_of_lint() {
    let stdlib = Stdlib::open();
    for path in stdlib.prompts() {
        let text = stdlib.get(&path).unwrap();
        let findings = lint(Origin::Asset(path.clone()), &text, &LintSettings::default());
        assert!(findings.is_empty(), "{path}: {findings:?}");
    }
}

#[test]
fn quoted_texts_are_exact() {
    let sentinel = r###"{"done_sentinel": "##DONE##"}"###;
    assert_eq!(
        agent("persistent_loop_system", sentinel),
        "IMPORTANT: You MUST keep working until the task is complete. Do NOT stop to explain or summarize — take action. \
         Output ##DONE## only when the task is fully complete and verified."
    );
    assert_eq!(
        agent("default_nudge", sentinel),
        "You have not output ##DONE## yet — the task is not complete. Use your tools to continue working. Only output \
         ##DONE## when the task is fully complete and verified."
    );
    assert_eq!(agent("default_nudge", "{}"), "The task is not complete. Use your tools to continue working.");
    for (name, bindings, text) in [
        (
            "loop_skipped",
            r#"{"tool": "ls", "count": 4}"#,
            "BLOCKED: ls() was NOT executed (repeated 4 times identically). This call will not be executed again with these \
             arguments. You MUST change your approach NOW.",
        ),
        (
            "loop_blocked",
            r#"{"tool": "ls", "count": 3}"#,
            "BLOCKED: ls() has failed 3 times identically. You MUST use a different approach. Pick a different available tool or \
             change your parameters.",
        ),
        (
            "loop_warned",
            r#"{"tool": "ls", "count": 2, "first": "<a> \"{{ b }}\""}"#,
            "[LOOP DETECTED] This exact ls() call has produced the same result 2 times. The result says: \"<a> \"{{ b }}\"\". Try a \
             DIFFERENT tool or DIFFERENT parameters.",
        ),
        (
            "missing_parameters",
            r#"{"tool": "ls", "missing": "a, b"}"#,
            "Tool 'ls' is missing required parameter(s): a, b. Provide all required parameters and try again.",
        ),
        (
            "policy_advice",
            "{}",
            "Use one of the declared tools exactly as named and put extra fields inside that tool's arguments.",
        ),
        ("do_not_retry", "{}", "Do not retry this tool."),
        (
            "tool_unavailable",
            r#"{"tool": "ls", "executor": null}"#,
            "Tool 'ls' is not available in the current environment. Use only the tools listed in the tool-calling contract.",
        ),
        (
            "tool_unavailable",
            r#"{"tool": "ls", "executor": "host_bridge"}"#,
            "tool 'ls' is declared executor: \"host_bridge\" but no host bridge is connected to this environment.",
        ),
        (
            "tool_unavailable",
            r#"{"tool": "ls", "executor": "provider_native"}"#,
            "tool 'ls' is declared executor: \"provider_native\" and is run by the model's server only.",
        ),
        (
            "read_file_more",
            r#"{"more": 3, "next": 2001}"#,
            "[... 3 more lines not shown. Use offset=2001 to continue reading]",
        ),
    ] {
        assert_eq!(agent(name, bindings), text);
    }
}

#[test]
fn the_text_contract_has_its_parts_in_order() {
    let full = agent(
        "tool_contract_text",
        r#"{"require_action": true, "tool_examples": "EX", "include_task_ledger_help": true, "shared_types": "type A = string;",
            "expanded_schemas": "declare function f(args: {}): string;", "compact_schemas": "- `g({})` — G.", "done_sentinel": "FIN"}"#,
    );
    let mut at = 0;
    for part in [
        "## Tool Calling Contract\n\nActive mode: `text`",
        "## Response protocol",
        "<tool_call>",
        "</tool_call>",
        "<assistant_prose>",
        "</assistant_prose>",
        "<user_response>",
        "</user_response>",
        "<done>FIN</done>",
        "action-gated",
        "## Tool call examples\n\nEX",
        "## Task ledger",
        "## Shared types\n\ntype A",
        "## Available tools\n\ndeclare function f",
        "## Other tools",
        "- `g({})`",
    ] {
        at +=
            full[at..].find(part).unwrap_or_else(|| panic!("{part} is missing behind byte {at} of\n{full}"));
    }
    let native = agent("tool_contract_text", r#"{"native_mode": true, "require_action": true}"#);
    assert!(
        native.starts_with("## Tool Calling Contract\n\nActive mode: `native`")
            && native.contains("action-gated"),
        "{native}"
    );
    assert!(agent("tool_contract_text", "{}").contains("<done>##DONE##</done>"));
}

#[test]
fn the_loop_contract_fits_the_loop() {
    let text = agent(
        "loop_until_done_system",
        r#"{"loop_until_done": true, "sentinel_active": true, "done_sentinel": "FIN", "has_tools": true}"#,
    );
    assert!(
        text.starts_with("IMPORTANT: You MUST keep working until the task is complete.")
            && text.contains("Output FIN only when"),
        "{text}"
    );
    let none = agent("loop_until_done_system", r#"{"loop_until_done": true, "done_sentinel": "FIN"}"#);
    assert!(!none.contains("FIN"), "{none}");
}

#[test]
fn the_schema_nudge_has_one_item_per_line() {
    let bindings = r#"{"errors": "at root: missing required key 'a'", "required_keys": "a, b", "allowed_keys": "", "shape": "- root allowed keys: a"}"#;
    assert_eq!(
        render("std/llm/schema_nudge.harn.prompt", bindings),
        "Your previous response did not match the required JSON schema.\nValidation errors: at root: missing required key 'a'.\n\
         Required keys: a, b.\nExpected JSON schema shape:\n- root allowed keys: a\n\
         Respond again with only valid JSON that matches the schema: no prose, no code fences."
    );
}

#[test]
fn lists_of_feedback_are_laid_out() {
    assert_eq!(
        agent(
            "tool_contract_deferred_tools",
            r#"{"tools": [{"name": "a", "description": "Does a."}, {"name": "b"}]}"#
        ),
        "## Tools available via `__harn_tool_search` (deferred)\n\nThese tools exist but are not loaded. Search for the one you \
         need; what is found can be called from the next turn on.\n\n- `a`: Does a.\n- `b`"
    );
    let watch = agent("daemon_watch_feedback", r#"{"watch_paths": ["a", "b"]}"#);
    assert!(watch.starts_with("These watched files changed:\n- a\n- b\nLook at"), "{watch}");
    let parse = agent("parse_guidance", r#"{"errors": ["one", "two"]}"#);
    assert!(parse.contains("not run:\n- one\n- two\nWrite each call"), "{parse}");
    let schema = agent(
        "output_instruction",
        r#"{"schema": {"type": "object"}, "schema_text": "{\n  \"type\": \"object\"\n}"}"#,
    );
    assert!(schema.ends_with("JSON Schema:\n\n{\n  \"type\": \"object\"\n}"), "{schema}");
    let judge =
        agent("completion_judge_feedback_fallback", r#"{"missing": ["tests"], "done_sentinel": "FIN"}"#);
    assert!(judge.ends_with("Still to do:\n- tests\n\nOutput FIN again when it is done."), "{judge}");
}
