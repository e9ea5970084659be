//! Every example runs as documented in its README: from the root of the repository, without a key.

use std::path::Path;

use crate::common::{Ran, command, finish, folder, harn_in, repository};

/// Runs a program. Returns its result, and the messages of its call log that report a failed tool to the model.
fn with_failed_tools(dir: &Path, program: &str) -> (Ran, Vec<String>) {
    let logs = folder(&[]);
    let mut command = command(&["run", program]);
    command.current_dir(dir).env("HARN_LLM_TRANSCRIPT_DIR", logs.path());
    let ran = finish(command, b"");
    let log = std::fs::read_to_string(logs.path().join("llm_transcript.jsonl")).unwrap_or_default();
    let failed = |line: &&str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let content = line["content"].to_string();
        let tells = ["\\nError: ", "\"Error: "].iter().any(|start| content.contains(start));
        line["type"] == "message" && line["role"] != "assistant" && tells
    };
    (ran, log.lines().filter(failed).map(str::to_owned).collect())
}

#[test]
fn a_tool_call_that_fails_is_seen() {
    for format in ["text", "native"] {
        let program = format!(
            "tool bad(x: int) -> int {{ description \"d\"\n throw \"no\" }}\n\
             llm_mock({{tool_calls: [{{name: \"bad\", arguments: {{x: 1}}}}]}})\nllm_mock({{text: \"ok\"}})\n\
             println(agent_loop(\"x\", nil, {{provider: \"mock\", tools: [bad], tool_format: \"{format}\"}}).status)"
        );
        let dir = folder(&[("main.harn", &program)]);
        let (ran, failed) = with_failed_tools(dir.path(), "main.harn");
        assert_eq!((ran.out.as_str(), failed.len()), ("done\n", 1), "{format}: {failed:?}\n{}", ran.shown());
    }
}

#[test]
fn all_examples_run() {
    let root = repository();
    let of = |directory: &str| -> Vec<String> {
        let entries = std::fs::read_dir(root.join("examples").join(directory)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".harn")).map(|name| format!("{directory}{name}")).collect()
    };
    let mut names = [of(""), of("agents/")].concat();
    names.sort();
    assert!(names.len() >= 10, "only {} examples", names.len());
    let readme = std::fs::read_to_string(root.join("examples/README.md")).unwrap();
    for name in names {
        if name.ends_with("sql_analyst.harn")
            && std::process::Command::new("sqlite3").arg("-version").output().is_err()
        {
            eprintln!("skipped {name}: the program sqlite3 is not installed");
            continue;
        }
        let (ran, failed) = with_failed_tools(&root, &format!("examples/{name}"));
        assert!(failed.is_empty(), "{name}: a tool call failed: {failed:?}");
        // Retries of model calls are printed on standard error; errors and warnings of Harn are not allowed.
        let complaint =
            ran.err.lines().any(|line| line.starts_with("error: ") || line.starts_with("warning: "));
        assert!(ran.code == 0 && !complaint, "{name}\n{}", ran.shown());
        assert!(!ran.out.is_empty(), "{name} prints nothing");
        assert!(readme.contains(&format!("({name})")), "examples/README.md does not mention {name}");
    }
}

#[test]
fn the_reviewer_reads_the_folder_and_reports() {
    let root = repository();
    let first = harn_in(&root, &["run", "examples/review_folder.harn"]);
    assert_eq!((first.code, first.err.as_str()), (0, ""), "{}", first.shown());
    assert!(first.out.contains("orders.py"), "{}", first.out);
    // Recorded replies and real tools give the same result every time.
    assert_eq!(harn_in(&root, &["run", "examples/review_folder.harn"]).out, first.out);
}
