//! `harn run --trace`, and the manifest of a program that is run from elsewhere.

use crate::common::{command, finish, folder, harn_in};

const CALLS: &str = r#"
llm_mock({text: "a", model: "gpt-4o-mini", input_tokens: 1000, output_tokens: 500})
llm_mock({error: {category: "auth", message: "no"}})
println(llm_call("x", nil, {provider: "mock"}).text)
println(llm_call_safe("x", nil, {provider: "mock", model: "m"}).ok)
"#;

/// Without the times, which differ from run to run.
fn timeless(text: &str) -> String {
    let words = text.split(' ').collect::<Vec<_>>();
    let word = |(n, word): (usize, &&str)| {
        let is_time = words.get(n + 1).is_some_and(|next| next.starts_with("ms"));
        if is_time { "N".to_owned() } else { (*word).to_owned() }
    };
    words.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_summary_lists_calls_with_tokens_and_cost() {
    let folder = folder(&[
        ("a.harn", CALLS),
        ("b.harn", "println(1)"),
        ("c.harn", "llm_call(\"x\", nil, {provider: \"mock\"})\nthrow 1"),
    ]);
    let ran = harn_in(folder.path(), &["run", "--trace", "a.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "a\nfalse\n"), "{}", ran.shown());
    assert_eq!(
        timeless(&ran.err),
        "─── LLM trace ───\n  #1: gpt-4o-mini | 1000 in + 500 out tokens | N ms\n  #2: m | failed: auth | N ms\n  \
         1 call (1 failed), 1500 tokens (1000in + 500out), N ms, ~$0.0004\n"
    );
    // Nothing is said of a program without calls, and nothing is asked for without the option.
    assert_eq!(harn_in(folder.path(), &["run", "--trace", "b.harn"]).err, "");
    assert_eq!(harn_in(folder.path(), &["run", "a.harn"]).err, "");
    // A program that fails has its summary, too.
    let failed = harn_in(folder.path(), &["run", "--trace", "c.harn"]);
    assert!(failed.code == 1 && failed.err.contains("─── LLM trace ───"), "{}", failed.shown());
}

#[test]
fn the_variable_does_what_the_option_does() {
    let folder = folder(&[("a.harn", CALLS)]);
    for (value, shown) in [("1", true), ("0", false), ("", false)] {
        let mut command = command(&["run", "a.harn"]);
        command.current_dir(folder.path()).env("HARN_TRACE", value);
        assert_eq!(finish(command, b"").err.contains("LLM trace"), shown, "HARN_TRACE={value}");
    }
}

#[test]
fn the_models_of_a_project_are_those_of_the_program_not_of_the_working_folder() {
    let project =
        |model: &str| format!("[llm.aliases]\nhouse = {{ id = \"{model}\", provider = \"mock\" }}\n");
    let (there, here) = (project("model-there"), project("model-here"));
    let show = "println(llm_call(\"x\", nil, {model: \"house\"}).model)";
    let folder = folder(&[
        ("there/harn.toml", there.as_str()),
        ("there/sub/main.harn", show),
        ("here/harn.toml", here.as_str()),
        ("here/other.txt", ""),
    ]);
    let here = folder.path().join("here");
    for args in [&["run", "../there/sub/main.harn"][..], &["../there/sub/main.harn"]] {
        let ran = harn_in(&here, args);
        assert_eq!((ran.code, ran.out.as_str()), (0, "model-there\n"), "{}", ran.shown());
    }
    // Code without a file belongs to the working folder.
    assert_eq!(harn_in(&here, &["run", "-e", show]).out, "model-here\n");
}
