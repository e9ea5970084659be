//! The conformance suite, and the behaviour of its runner.

use std::io::Write;

use crate::common::{Ran, command, every_case, finish, folder, harn_in, repository};

/// Time limit of a case in milliseconds. Only a case that hangs reaches it, even on a loaded machine.
const PATIENT: &str = "300000";

/// Runs cases of the suite. Their state is isolated from concurrent runs of the suite.
fn suite(args: &[&str]) -> Ran {
    let state = tempfile::tempdir().expect("a scratch folder");
    let mut command = command(&["test", "conformance", "--timeout", PATIENT]);
    command.args(args).current_dir(repository()).env("HARN_STATE_DIR", state.path());
    finish(command, b"")
}

#[test]
fn the_suite_passes_in_one_process() {
    let ran = suite(&[]);
    let failures = ran.out.split_once("Failures:").map_or("", |(_, text)| text);
    assert_eq!(ran.code, 0, "{failures}\n{}", ran.err);
    let summary = ran.out.lines().last().unwrap_or_default();
    assert!(summary.contains(" passed, 0 failed, "), "{summary}");
}

/// The directories with cases that use files, time or the network. Changes to a simulated system affect these cases
/// first, so sampling tests use them.
const USE_THE_SYSTEM: &str = "re:^(agents/(commands|policy|workflows)|builtins|prompts/templates/sandbox|roles|runs|wrong_calls/habits)/";

/// Cases that run programs, which the in-memory system does not support.
const REAL_ONLY: [&str; 29] = [
    "agents/commands/closures_of_a_policy_run_no_commands.harn",
    "agents/commands/denied_patterns_match_lines_and_arguments.harn",
    "agents/commands/every_builtin_that_runs_programs_is_governed.harn",
    "agents/commands/every_policy_passes_the_form_that_runs.harn",
    "agents/commands/feedback_of_a_policy_reaches_the_model.harn",
    "agents/commands/options_survive_the_policy.harn",
    "agents/commands/policies_stack_and_never_widen.harn",
    "agents/commands/post_changes_and_annotates.harn",
    "agents/commands/pre_decides.harn",
    "agents/commands/risk_labels_ask_for_approval.harn",
    "agents/policy/empty_limits_permit_nothing.harn",
    "agents/policy/read_only_handlers_do_not_write.harn",
    "agents/policy/roots_hold_for_files_of_handlers.harn",
    "agents/policy/tools_of_servers_need_the_network.harn",
    "agents/workflows/a_run_takes_place_elsewhere.harn",
    "agents/workflows/action_graphs_run_as_workflows.harn",
    "agents/workflows/observability_is_derived_from_stages.harn",
    "agents/workflows/small_building_blocks.harn",
    "agents/workflows/task_run_needs_attention_after_a_repair.harn",
    "agents/workflows/the_prompt_of_a_stage.harn",
    "agents/workflows/verify_runs_a_command.harn",
    "agents/workflows/working_trees.harn",
    "builtins/environment/running_programs.harn",
    "builtins/files/what_is_no_file_is_not_opened.harn",
    "builtins/host/host_call_errors.harn",
    "builtins/host/process_exec_runs_programs.harn",
    "prompts/templates/sandbox/links_are_followed.harn",
    "wrong_calls/habits/a_program_that_is_not_there.harn",
    "wrong_calls/habits/timeouts_take_durations.harn",
];

#[test]
fn the_suite_runs_the_same_in_memory() {
    let filter: &[&str] = if every_case() { &[] } else { &["--filter", USE_THE_SYSTEM] };
    let ran = suite(&[&["--in-memory"], filter].concat());
    let failed: Vec<&str> = ran.out.lines().filter_map(|line| line.strip_prefix("  FAIL  ")).collect();
    assert_eq!(failed, REAL_ONLY, "{}", ran.out.split_once("Failures:").map_or("", |(_, text)| text));
    let summary = format!(" passed, {} failed, ", REAL_ONLY.len());
    assert!(ran.out.contains(&summary), "{}", ran.err);
}

/// Runs cases with a journal and kills each of them repeatedly; `make replays` does this with all cases. Failures are
/// printed immediately, bypassing the test runner.
fn from_a_journal(filter: &str) {
    let kills = if every_case() { "20" } else { "3" };
    let ran = suite(&["--journal", "--kills", kills, "--filter", filter]);
    if ran.code != 0 {
        let failures = ran.out.split_once("Failures:").map_or("", |(_, text)| text);
        let _ = std::io::stderr()
            .write_all(format!("with a journal, {filter}:{failures}\n{}", ran.err).as_bytes());
        panic!("{}{}", ran.out, ran.err);
    }
}

#[test]
fn cases_end_the_same_from_a_journal_and_broken_off() {
    from_a_journal("concurrency");
}

#[test]
fn workers_end_the_same_from_a_journal_and_broken_off() {
    from_a_journal("agents/workers");
}

/// Features of the guide to model calls and agents that are tested outside of the suite: number, file, test.
const SHOWN_ELSEWHERE: [(u32, &str, &str); 2] = [
    (144, "crates/harn-cli/tests/lint_rules.rs", "fn registries_that_are_too_large"),
    (146, "crates/harn-cli/tests/models.rs", "fn packages_and_the_project_configure_providers"),
];

#[test]
fn every_feature_of_the_guide_has_a_case() {
    let mut shown = std::collections::BTreeSet::new();
    let mut folders = vec![repository().join("conformance")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".harn") {
                shown.extend(name.split('_').next().and_then(|number| number.parse::<u32>().ok()));
            }
        }
    }
    for (number, file, test) in SHOWN_ELSEWHERE {
        let text = std::fs::read_to_string(repository().join(file)).unwrap();
        assert!(text.contains(test), "{file} has no `{test}`");
        shown.insert(number);
    }
    let missing: Vec<u32> = (111..=201).filter(|number| !shown.contains(number)).collect();
    assert_eq!(missing, [0; 0]);
}

fn small_suite() -> tempfile::TempDir {
    folder(&[
        ("conformance/a/good.harn", "println(\"yes\")\n"),
        ("conformance/a/good.expected", "yes\n"),
        ("conformance/a/bad.harn", "println(\"one\")\nprintln(\"two\")\n"),
        ("conformance/a/bad.expected", "one\n2\n"),
        ("conformance/b/fails.harn", "let x = 1 / 0\n"),
        ("conformance/b/fails.error", "nothing like it\nre:^Runtime error: Division by zero \\(line 1\\)$\n"),
        ("conformance/b/helper.harn", "fn f() { 1 }\n"),
        ("conformance/b/syntax.harn", "let = 1\n"),
        ("conformance/b/syntax.error", "Expected variable name or destructuring pattern, got = at 1:5\n"),
    ])
}

#[test]
fn results_are_listed_in_order_of_their_paths() {
    let suite = small_suite();
    let ran = harn_in(suite.path(), &["test", "conformance"]);
    let expected = "  FAIL  a/bad.harn\n  PASS  a/good.harn\n  PASS  b/fails.harn\n  PASS  b/syntax.harn\n\n\
                    3 passed, 1 failed, 4 total\n\nFailures:\n  a/bad.harn\n      one\n    - 2\n    + two\n";
    assert_eq!((ran.code, ran.out.as_str()), (1, expected), "{}", ran.err);
}

#[test]
fn selections_and_filters() {
    let suite = small_suite();
    let ran = harn_in(suite.path(), &["test", "conformance", "--filter", "good|syntax"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.ends_with("\n2 passed, 0 failed, 2 total\n"), "{}", ran.out);
    for selection in ["b", "conformance/b", "b/fails.harn"] {
        let ran = harn_in(suite.path(), &["test", "conformance", selection]);
        assert_eq!(ran.code, 0, "{selection}: {}", ran.err);
    }
    for (selection, text) in [
        (
            "nowhere",
            "Conformance target not found: nowhere. Expected a file or directory under conformance\n",
        ),
        ("..", "Conformance target must be inside conformance: ..\n"),
        ("b/fails.error", "Conformance target must be a .harn file or directory: b/fails.error\n"),
    ] {
        let ran = harn_in(suite.path(), &["test", "conformance", selection]);
        assert_eq!((ran.code, ran.err.as_str()), (1, format!("error: {text}").as_str()));
    }
    let nothing = folder(&[("a.harn", "")]);
    let ran = harn_in(nothing.path(), &["test", "conformance"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: Directory not found: conformance\n"));
}

#[test]
fn reports() {
    let suite = small_suite();
    let ran = harn_in(suite.path(), &["test", "conformance", "--junit", "out/report.xml", "--jobs", "1"]);
    assert!(ran.out.contains("JUnit XML written to out/report.xml\n"), "{}", ran.out);
    let xml = std::fs::read_to_string(suite.path().join("out/report.xml")).unwrap();
    assert!(xml.contains("<testsuite name=\"harn\" tests=\"4\" failures=\"1\""), "{xml}");
    let ran = harn_in(suite.path(), &["test", "conformance", "--json"]);
    assert_eq!(ran.code, 1);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["ok"], false);
    assert_eq!(json["schemaVersion"], 2);
    assert_eq!(json["data"]["summary"]["pass"], 3);
    assert_eq!(json["data"]["results"][0]["outcome"], "fail");
}

#[test]
fn an_endless_case_is_stopped() {
    let suite = folder(&[("conformance/loop.harn", "while true { }\n"), ("conformance/loop.expected", "")]);
    let ran = harn_in(suite.path(), &["test", "conformance", "--timeout", "300"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("loop.harn: timed out after 300ms"), "{}", ran.out);
}
