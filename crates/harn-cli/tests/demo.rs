//! `harn demo`.

use crate::common::{command, finish, folder, harn, harn_in};
use insta::assert_snapshot;
use serde_json::{Value, json};

/// Returns the receipt that a demo prints as JSON.
fn receipt_of(id: &str) -> Value {
    let ran = harn(&["demo", id, "--no-record"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.shown());
    serde_json::from_str(ran.out.lines().find(|line| line.starts_with("{\"")).unwrap()).unwrap()
}

fn receipt() -> Value {
    json!({
        "receipt_kind": "prompt_guidance_receipt", "guidance_with_tool": true, "guidance_without_tool": false,
        "drift_proof": true, "included_with": ["primary", "tool:todo.guidance"], "included_without": ["primary"],
        "fragment_count_with": 2, "fragment_count_without": 1,
    })
}

/// Removes the duration from a report.
fn timeless(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("--- demo complete in ") {
        Some(_) => "--- demo complete in N ms ---".to_owned(),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_list() {
    let ran = harn(&["demo", "--list"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_snapshot!(ran.out);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    // Without a terminal there is no menu.
    assert_eq!(harn(&["demo"]).out, ran.out);
    let list: Value = serde_json::from_str(&harn(&["demo", "--list", "--json"]).out).unwrap();
    assert_eq!(list["scenarios"][0]["id"], "merge-captain");
    assert!(
        list["scenarios"]
            .as_array()
            .unwrap()
            .iter()
            .all(|s| s["title"].is_string() && s["description"].is_string())
    );
}

#[test]
fn agents_with_roles_and_a_plan() {
    let ran = harn(&["demo", "roles", "--no-record"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for line in [
        "│  │  ← look_up 40",
        "│  │  ▸ plan spring-1: proposal → pending_approval",
        "│  │  ! price_changed {\"product\":\"lamp\",\"to\":36}",
        "│  │  ▸ plan spring-1: executing → done",
        "│  ■ stop, 2736 tokens",
        "└ coordinator",
    ] {
        assert!(ran.out.lines().any(|l| l == line), "{line}\n{}", ran.out);
    }
}

#[test]
fn prompt_guidance_as_people_see_it() {
    let ran = harn(&["demo", "prompt-guidance", "--no-record"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_snapshot!(timeless(&ran.out));
    // The table has one row per fragment, however long the reasons are.
    let is_narrow = |line: &str| line.chars().count() <= 80 || line.starts_with('{') || line.contains('|');
    assert!(ran.out.lines().all(is_narrow), "{}", ran.out);
    let receipts: Vec<Value> = ran.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(receipts, [receipt()]);
    for line in [
        "    - primary [before] included=true — unconditional",
        "    - tool:todo.guidance [before] included=true — tool(s) present: todo",
        "tool:todo.guidance | included 31 B, tool(s) present: todo | -",
        "included/excluded  | 2/0                                  | 1/0",
        "primary:todo_note | excluded, requires tool `todo` (not available)",
    ] {
        assert!(ran.out.lines().any(|l| l == line), "{line}\n{}", ran.out);
    }
}

#[test]
fn prompt_guidance_in_colour() {
    let mut command = command(&["demo", "prompt-guidance", "--no-record"]);
    command.env_remove("NO_COLOR").env("FORCE_COLOR", "1");
    let out = finish(command, b"").out;
    assert!(out.contains("\u{1b}[1m=== harn demo · prompt-guidance ===\u{1b}[0m"), "{out}");
    assert!(out.contains("\u{1b}[36mtool:todo.guidance\u{1b}[0m"), "{out}");
    assert!(!harn(&["demo", "prompt-guidance", "--no-record"]).out.contains('\u{1b}'));
}

#[test]
fn the_json_of_a_run() {
    let folder = folder(&[]);
    let ran = harn_in(folder.path(), &["demo", "prompt-guidance", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["scenario", "title", "exit_code", "elapsed_ms", "stdout", "stderr", "run_record_dir"]);
    assert_eq!(
        (&json["scenario"], &json["exit_code"], &json["stderr"]),
        (&"prompt-guidance".into(), &0.into(), &"".into())
    );
    let last = json["stdout"].as_str().unwrap().lines().last().unwrap();
    assert_eq!(serde_json::from_str::<Value>(last).unwrap(), receipt());
    assert!(json["elapsed_ms"].is_u64());
}

#[test]
fn a_record_is_kept_unless_told_otherwise() {
    let folder = folder(&[]);
    let first = harn_in(folder.path(), &["demo", "prompt-guidance"]);
    let second = harn_in(folder.path(), &["demo", "prompt-guidance"]);
    assert_eq!((first.code, second.code), (0, 0), "{}", first.shown());
    let runs: Vec<_> = std::fs::read_dir(folder.path().join(".harn-runs")).unwrap().flatten().collect();
    assert_eq!(runs.len(), 2, "runs of one second have folders of their own");
    for run in runs {
        let name = run.file_name().into_string().unwrap();
        assert!(name.starts_with("demo-prompt-guidance-"), "{name}");
        assert!(first.out.contains(&name) || second.out.contains(&name));
        let record: Value =
            serde_json::from_str(&std::fs::read_to_string(run.path().join("run.json")).unwrap()).unwrap();
        assert_eq!(record["_type"], "run_record");
        assert_eq!(
            (&record["id"], &record["workflow_id"]),
            (&name.as_str().into(), &"harn-demo:prompt-guidance".into())
        );
        assert_eq!((&record["task"], &record["status"]), (&"prompt-guidance".into(), &"complete".into()));
        let demo = &record["metadata"]["demo"];
        assert_eq!((&demo["scenario"], &demo["exit_code"]), (&"prompt-guidance".into(), &0.into()));
        assert!(
            demo["stdout"].as_str().unwrap().ends_with("}\n") && demo["recorded_at_unix_seconds"].is_i64()
        );
        assert!(record["started_at"].as_str().unwrap().ends_with('Z'));
        assert_eq!(std::fs::read_dir(run.path()).unwrap().count(), 1, "no scratch file is left");
    }
    let quiet = crate::common::folder(&[]);
    harn_in(quiet.path(), &["demo", "prompt-guidance", "--no-record"]);
    assert_eq!(std::fs::read_dir(quiet.path()).unwrap().count(), 0);
}

#[test]
fn a_record_that_cannot_be_written_is_a_warning() {
    let folder = folder(&[(".harn-runs", "a file")]);
    let ran = harn_in(folder.path(), &["demo", "prompt-guidance"]);
    assert_eq!(ran.code, 0, "the demo itself ran: {}", ran.shown());
    assert!(ran.err.starts_with("warning: cannot write the run record .harn-runs: "), "{}", ran.err);
    assert!(ran.out.contains("--- demo complete in ") && !ran.out.contains("Record: "), "{}", ran.out);
    let ran = harn_in(folder.path(), &["demo", "prompt-guidance", "--json"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &document["exit_code"], &document["run_record_dir"]), (0, &0.into(), &Value::Null));
}

#[test]
fn an_unknown_scenario_gets_a_suggestion_and_the_list() {
    let ran = harn(&["demo", "prompt-guidence"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(
        ran.err
            .starts_with("error: unknown scenario `prompt-guidence` (did you mean `prompt-guidance`?)\n\n"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("Run one with `harn demo NAME`."), "{}", ran.err);
    let ran = harn(&["demo", "zzz"]);
    assert!(ran.code == 2 && ran.err.starts_with("error: unknown scenario `zzz`\n"), "{}", ran.err);
    assert_eq!(harn(&["demo", "--list", "prompt-guidance"]).code, 2);
}

#[test]
fn an_agent_at_work() {
    let ran = harn(&["demo", "agent-loop", "--no-record"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.shown());
    assert_snapshot!(timeless(&ran.out));
    assert!(!ran.out.contains("  error "), "a tool call failed: {}", ran.out);
}

#[test]
fn a_race_of_providers() {
    let ran = harn(&["demo", "provider-race", "--no-record"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.shown());
    // The order depends on the speed of the machine.
    for line in
        ["anthropic  claude-sonnet-4-20250514  0.000153 USD   Sargasso.", "free           The Sargasso Sea"]
    {
        assert!(ran.out.contains(line), "{line}\n{}", ran.out);
    }
    let receipt: Value = serde_json::from_str(ran.out.lines().find(|l| l.starts_with('{')).unwrap()).unwrap();
    assert_eq!(receipt["answered"], json!(["anthropic", "ollama", "openai"]));
    assert_eq!(receipt["cheapest"], "ollama");
}

#[test]
fn a_queue_of_merges() {
    let receipt = receipt_of("merge-captain");
    assert_eq!(receipt["receipt_kind"], "merge_captain_receipt");
    let queues = (&receipt["merged"], &receipt["waiting"], &receipt["asked"], &receipt["overruled"]);
    assert_eq!(queues, (&json!([41]), &json!([42]), &json!([43]), &json!([42])));
    assert_eq!(receipt["decisions"][1]["reason"], "rule: check test failed");
}

#[test]
fn a_review_with_a_question() {
    let receipt = receipt_of("review-captain");
    assert_eq!(
        (&receipt["verdict"], &receipt["blockers"]),
        (&"request_changes".into(), &2.into()),
        "{receipt}"
    );
    assert!(receipt["question"].as_str().unwrap().ends_with('?') && receipt["answer"].is_string());
}

#[test]
fn one_template_for_two_models() {
    let folder = folder(&[]);
    let ran = harn_in(folder.path(), &["demo", "variant-resolution"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.shown());
    assert!(ran.out.contains("\n  <task>\n") && ran.out.contains("\n  Task:\n"), "{}", ran.out);
    let run = std::fs::read_dir(folder.path().join(".harn-runs")).unwrap().next().unwrap().unwrap();
    let log = std::fs::read_to_string(run.path().join("run-llm/llm_transcript.jsonl")).unwrap();
    let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let renders: Vec<Value> = entries.filter(|entry| entry["type"] == "template.render").collect();
    let seen = |render: &Value| {
        let branches = render["branches"].as_array().unwrap().iter();
        let ids: Vec<String> = branches.map(|b| b["branch_id"].as_str().unwrap().to_owned()).collect();
        (render["llm"]["provider"].as_str().unwrap().to_owned(), ids.join(" "))
    };
    let seen: Vec<_> = renders.iter().map(seen).collect();
    let pair = |provider: &str, ids: &str| (provider.to_owned(), ids.to_owned());
    assert_eq!(
        seen,
        [pair("anthropic", "xml xml xml_tools if"), pair("ollama", "plain plain native_tools if")]
    );
    assert_eq!(renders[0]["template_revision_hash"], renders[1]["template_revision_hash"]);
}
