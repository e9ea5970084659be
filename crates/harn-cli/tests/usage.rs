//! Usage errors: exit code 2, and a message that explains what to do.

use crate::common::{command, finish, folder, harn, harn_in};

#[test]
fn no_arguments_show_first_steps_on_standard_error() {
    let ran = harn(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("Usage: harn <COMMAND>"), "{}", ran.err);
    for command in ["harn demo agent-loop", "harn repl", "harn --help"] {
        assert!(ran.err.contains(command), "{command}\n{}", ran.err);
    }
}

#[test]
fn commands_that_write_json_are_listed() {
    let listed = |args: &[&str]| -> serde_json::Value { serde_json::from_str(&harn(args).out).unwrap() };
    let all = listed(&["--json-schemas"]);
    assert_eq!((&all["schemaVersion"], &all["ok"]), (&1.into(), &true.into()));
    let of = |name: &str| all["data"].as_array().unwrap().iter().find(|row| row["command"] == name).cloned();
    assert_eq!(of("lint"), Some(serde_json::json!({"command": "lint", "schemaVersion": 1})));
    assert_eq!(of("test"), Some(serde_json::json!({"command": "test", "schemaVersion": 2})));
    let one = listed(&["--json-schemas", "--command", "eval prompt"]);
    assert_eq!(one["data"], serde_json::json!([{"command": "eval prompt", "schemaVersion": 1}]));
    let none = harn(&["--json-schemas", "--command", "repl"]);
    assert!(none.code == 1 && none.out.contains("no command 'repl' writes JSON"), "{}", none.shown());
}

#[test]
fn slips_are_answered_with_what_was_meant() {
    let ran = harn(&["rnu", "a.harn"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with("error: unrecognized subcommand 'rnu'\n"), "{}", ran.err);
    assert!(ran.err.matches("tip:").count() == 1 && ran.err.contains("'run'"), "{}", ran.err);
    let ran = harn(&["acp"]);
    assert!(ran.code == 2 && ran.err.contains("\n  tip: did you mean 'serve acp'?\n"), "{}", ran.err);
    assert!(!ran.err.contains("acp-serve"), "{}", ran.err);
    let ran = harn(&["serve", "mpc"]);
    assert!(ran.code == 2 && ran.err.contains("'mcp'") && !ran.err.contains("'fmt'"), "{}", ran.err);
    let ran = harn(&["serve", "foo"]);
    assert!(ran.code == 2 && !ran.err.contains("tip:"), "{}", ran.err);
    let ran = harn(&["run", "--trce", "a.harn"]);
    assert!(ran.err.contains("--trace"), "{}", ran.err);
    let folder = folder(&[("job.harn", "println(argv)"), ("notes.txt", "")]);
    for (typed, tip) in [("job", "harn run job.harn"), ("notes.txt", "harn run notes.txt")] {
        let ran = harn_in(folder.path(), &[typed]);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains(&format!("\n  tip: to run the file: {tip}\n")), "{}", ran.err);
    }
    let ran = harn_in(folder.path(), &["run", "job.harn", "x"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("harn run job.harn -- x"), "{}", ran.err);
}

#[test]
fn a_task_is_in_the_environment_of_the_program() {
    let program = "pipeline main(task) { println(\"${task} ${env(\"HARN_TASK\")} ${host_call(\"runtime.task\", {})}\") }\n";
    let folder = folder(&[("job.harn", program), ("harn.toml", "[package]\nname = \"job\"\n")]);
    let run = |args: &[&str]| harn_in(folder.path(), args).out;
    assert_eq!(run(&["run", "--task", "abc", "job.harn"]), "abc abc abc\n");
    assert_eq!(run(&["run", "--durable", "--run-id", "one", "--task", "abc", "job.harn"]), "abc abc abc\n");
    assert_eq!(run(&["replay", "one"]), "abc abc abc\n");
    let mut inherited = command(&["run", "--task", "new", "job.harn"]);
    inherited.current_dir(folder.path()).env("HARN_TASK", "old");
    assert_eq!(finish(inherited, b"").out, "new new new\n");
    #[cfg(unix)]
    assert_eq!(
        run(&["run", "--task", "abc", "-e", "print(exec(\"sh\", \"-c\", \"echo $HARN_TASK\").stdout)"]),
        "abc\n"
    );
}

#[test]
fn a_file_runs_with_arguments() {
    let folder = folder(&[("job.harn", "println(argv)"), ("tool", "println(argv)")]);
    let run = |args: &[&str]| harn_in(folder.path(), args).out;
    assert_eq!(run(&["job.harn", "a", "--json", "-v"]), "[a, --json, -v]\n");
    assert_eq!(run(&["job.harn", "--", "a"]), "[a]\n");
    assert_eq!(run(&["job.harn"]), "[]\n");
    assert_eq!(run(&["./tool", "--", "--", "b"]), "[--, b]\n");
}

#[cfg(unix)]
#[test]
fn a_program_can_be_a_command() {
    use std::os::unix::fs::PermissionsExt;
    let program = "#!/usr/bin/env harn\nprintln(\"hello ${argv}\")\n";
    let folder = folder(&[("greet", program)]);
    let path = folder.path().join("greet");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let harn = std::path::Path::new(env!("CARGO_BIN_EXE_harn"));
    let search = format!("{}:{}", harn.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = std::process::Command::new(&path);
    command.args(["one", "--two"]).env("PATH", search).env("NO_COLOR", "1");
    let ran = finish(command, b"");
    assert_eq!((ran.code, ran.out.as_str()), (0, "hello [one, --two]\n"), "{}", ran.shown());
}

#[test]
fn help_and_version_go_to_standard_output() {
    for args in [&["--help"][..], &["help", "run"], &["run", "--help"], &["test", "-h"]] {
        let ran = harn(args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        assert!(ran.out.contains("Usage:"), "{args:?}");
    }
    let ran = harn(&["--version"]);
    assert_eq!((ran.code, ran.out), (0, format!("harn {}\n", env!("CARGO_PKG_VERSION"))));
    let ran = harn(&["version"]);
    assert!(ran.code == 0 && ran.out.contains(&format!("harn v{}", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn unknown_commands_and_options() {
    let ran = harn(&["frobnicate"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with("error: unrecognized subcommand 'frobnicate'\n\nUsage: "), "{}", ran.err);
    let ran = harn(&["run", "--frobnicate", "a.harn"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with("error: unexpected argument '--frobnicate' found\n"), "{}", ran.err);
    assert!(ran.err.contains("\n\nUsage: "), "{}", ran.err);
}

#[test]
fn a_wrong_value_of_a_variable_names_the_variable() {
    let with = |args: &[&str]| {
        let mut command = command(args);
        command.env("HARN_TEST_JOBS", "abc");
        finish(command, b"")
    };
    let ran = with(&["test", "x.harn"]);
    assert_eq!(ran.code, 2);
    let tip = "tip: the environment variable HARN_TEST_JOBS sets --jobs to 'abc'";
    assert!(ran.err.contains("invalid value 'abc' for '--jobs <N>'") && ran.err.contains(tip), "{}", ran.err);
    let typed = with(&["test", "--jobs", "0", "x.harn"]);
    assert!(
        typed.err.contains("invalid value '0'") && !typed.err.contains("HARN_TEST_JOBS"),
        "{}",
        typed.err
    );
}

#[test]
fn slips_are_told_when_a_program_is_submitted() {
    let folder = folder(&[("a.harn", "println(1)\n")]);
    for (option, told) in [
        (&["--llm-mock", "no.jsonl"][..], "--llm-mock: file not found: no.jsonl"),
        (&["--llm-cassette", "no.jsonl"], "--llm-cassette: file not found: no.jsonl"),
        (&["--skill-dir", "no"], "--skill-dir: directory not found: no"),
        (&["--explain-cost"], "--explain-cost runs nothing"),
        (&["--durable"], "--durable is not needed"),
        (&["--json", "--quiet"], "--quiet does not apply"),
    ] {
        let ran = harn_in(folder.path(), &[&["submit"], option, &["a.harn"]].concat());
        assert_eq!(ran.code, 2, "{}", ran.shown());
        assert!(ran.err.contains(told), "{}", ran.shown());
        assert!(!folder.path().join(".harn").exists(), "{option:?}");
    }
    // The help does not list options that are rejected.
    let help = harn_in(folder.path(), &["submit", "--help"]).out;
    assert!(help.contains("--run-id"), "{help}");
    for option in ["--explain-cost", "--durable", "--quiet"] {
        assert!(!help.contains(option), "{option}: {help}");
    }
}

#[test]
fn a_program_that_does_not_parse_leaves_no_run() {
    let folder = folder(&[("a.harn", "println(1\n")]);
    let ran = harn_in(folder.path(), &["run", "--durable", "a.harn"]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    assert!(!ran.err.contains("started"), "{}", ran.shown());
    assert_eq!(harn_in(folder.path(), &["runs", "list"]).out, "No runs.\n");
}

#[test]
fn an_estimate_shows_its_costs_beside_long_names() {
    let name = "anthropic:claude-sonnet-4-20250514";
    let call = format!("llm_call_structured_result(\"Hi\", {{}}, {{model: \"{name}\", max_tokens: 10}})\n");
    let folder = folder(&[(
        "a.harn",
        &(call + "llm_call(\"Hi\", nil, {model: \"openai:gpt-4o\", max_tokens: 10})\n"),
    )]);
    let ran = harn_in(folder.path(), &["run", "--explain-cost", "a.harn"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let rows: Vec<&str> = ran.out.lines().take_while(|line| !line.is_empty()).collect();
    for row in &rows {
        assert!(row.chars().count() <= 80, "{row}");
    }
    for row in &rows[1..] {
        let cost = row.rsplit(' ').next().unwrap();
        assert!(cost.len() == 6 && cost.parse::<f64>().is_ok(), "{}", ran.out);
    }
    assert!(rows[1].contains("anthropic:claude-son"), "{}", ran.out);
}

#[test]
fn run_wants_exactly_one_program() {
    let ran = harn(&["run"]);
    assert_eq!(ran.code, 2);
    let text = "error: `harn run` requires either `-e <code>` or `<file.harn>`\n\nUsage: ";
    assert!(ran.err.starts_with(text), "{}", ran.err);
    let ran = harn(&["run", "-e", "1", "a.harn"]);
    assert_eq!(ran.code, 2);
    let text = "error: `harn run` accepts either `-e <code>` or `<file.harn>`, not both\n\nUsage: ";
    assert!(ran.err.starts_with(text), "{}", ran.err);
}

#[test]
fn an_option_of_run_before_the_file_is_told_its_place() {
    let ran = harn(&["--trace", "a.harn", "x"]);
    assert_eq!(ran.code, 2);
    let tip = "  tip: write options of `harn run` after `run`: harn run --trace a.harn x\n";
    assert!(ran.err.contains(tip), "{}", ran.err);
}

#[test]
fn a_command_without_its_files_names_the_folder() {
    for command in ["check", "lint", "fmt"] {
        let ran = harn(&[command]);
        assert_eq!(ran.code, 2, "{command}");
        let tip = format!("  tip: to use all programs in this directory: harn {command} .\n");
        assert!(ran.err.contains(&tip), "{}", ran.err);
    }
}

#[test]
fn a_new_project_names_its_template_before_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let ran = harn(&["new", "agent", &path("helper")]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(std::fs::read_to_string(dir.path().join("helper/main.harn")).unwrap().contains("agent_loop"));
    let ran = harn(&["new", "agnet", &path("other")]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("unknown template 'agnet' (did you mean `agent`?); known templates: basic, agent"),
        "{}",
        ran.err
    );
    assert!(!dir.path().join("other").exists());
}

#[test]
fn sizes_filters_and_targets_are_checked() {
    let ran = harn(&["run", "--max-memory", "lots", "-e", "1"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("512M"), "{}", ran.err);
    let ran = harn(&["test", "conformance", "--filter", "re:("]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("invalid regular expression"), "{}", ran.err);
    let ran = harn(&["completions", "tcl"]);
    assert_eq!(ran.code, 2);
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = harn(&["completions", shell]);
        assert_eq!(ran.code, 0);
        for command in ["run", "repl", "explain", "max-memory"] {
            assert!(ran.out.contains(command), "{shell} lacks {command}");
        }
    }
}

#[test]
fn a_list_of_builtins_that_is_empty_is_refused() {
    for option in ["--allow", "--deny"] {
        for list in ["", ","] {
            let ran = harn(&["run", option, list, "-e", "println(1)"]);
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.shown());
            assert!(ran.err.contains(&format!("`{option}` names no builtin")), "{}", ran.err);
        }
    }
}
