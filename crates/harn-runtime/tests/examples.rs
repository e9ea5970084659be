//! The programs of `examples/` run and print the expected output.
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    std::fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")).unwrap()
}

fn output(name: &str) -> String {
    let dir = folder();
    let text = std::fs::read_to_string(dir.join(name)).unwrap();
    let run = crate::common::run_with(name, &text, &dir, &[("HARN_LLM_CALLS_DISABLED", "1")], None);
    assert_eq!(run.error, None, "{name} printed:\n{}{}", run.output, run.errors);
    run.output
}

#[test]
fn every_example_runs_and_prints_something() {
    let mut failures = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        if name.ends_with(".harn") {
            count += 1;
            let printed = std::panic::catch_unwind(|| output(&name));
            if printed.is_ok_and(|text| text.trim().is_empty())
                || std::panic::catch_unwind(|| output(&name)).is_err()
            {
                failures.push(name);
            }
        }
    }
    assert!(count >= 12, "only {count} examples");
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn the_reviewer_reads_real_files_and_reports() {
    let text = output("review_folder.harn");
    assert!(text.contains("  · list_files {\"folder\":\".\"}"), "{text}");
    assert!(!text.contains("  ! "), "a tool call failed: {text}");
    assert!(text.contains("`report.py:11` — anything typed at the prompt is executed."), "{text}");
    assert!(text.trim_end().ends_with("done after 4 turns, 4 tool calls, 3256 tokens"), "{text}");
}

#[test]
fn the_reviewer_survives_a_model_that_leaves_the_folder() {
    let dir = folder();
    let text = std::fs::read_to_string(dir.join("review_folder.harn")).unwrap();
    let replies = tempfile::NamedTempFile::new().unwrap();
    let script = "{\"tool_calls\": [{\"name\": \"read_file\", \"arguments\": {\"path\": \"../../secret\"}}]}\n{\"text\": \"I stop.\"}\n";
    std::fs::write(replies.path(), script).unwrap();
    let env = [("HARN_LLM_PROVIDER", "mock")];
    let run = crate::common::run_with("review_folder.harn", &text, &dir, &env, Some(replies.path()));
    assert_eq!(run.error, None);
    assert!(run.output.contains("I stop.") && run.output.contains("done after 2 turns"), "{}", run.output);
}

#[test]
fn the_fixer_makes_the_test_pass() {
    let text = output("fix_test.harn");
    assert!(text.contains("  · investigate {"), "{text}");
    assert!(!text.contains("  ! "), "a tool call failed: {text}");
    assert!(text.contains("done after 5 turns; the tests pass\nthe test is unchanged: true"), "{text}");
}

#[test]
fn the_watcher_sees_the_change_and_hears_the_message() {
    let text = output("watch_folder.harn");
    assert!(text.contains("  The notes have changed"), "{text}");
    assert!(text.trim_end().ends_with("idle, 3 turns, 6 messages kept"), "{text}");
}
