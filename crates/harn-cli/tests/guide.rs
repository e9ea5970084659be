//! The examples of the agent guide run as written, with recorded replies or the mock.
//!
//! `guide/agents.txt` contains them, with the code before and after each example that makes it a program. A `*` in the
//! output matches any line.

use crate::common::{command, finish, folder};

/// Returns the part of an example below a heading.
fn part<'t>(example: &'t str, heading: &str) -> &'t str {
    let begin = format!("--- {heading}\n");
    let Some((_, rest)) = example.split_once(&begin) else { return "" };
    rest.split_once("--- ").map_or(rest, |(part, _)| part)
}

#[test]
fn examples_of_agents_run_as_they_are_written() {
    let text = include_str!("guide/agents.txt");
    let mut seen = 0;
    for example in text.split("=== ").skip(1) {
        let name = example.lines().next().unwrap_or_default();
        let program = ["before", "example", "after"].map(|heading| part(example, heading)).concat();
        let replies = part(example, "replies");
        let place = folder(&[("main.harn", &program), ("replies.jsonl", replies)]);
        let mut run = command(&["run", "main.harn"]);
        match replies {
            "" => run.env("HARN_LLM_PROVIDER", "mock"),
            _ => run.args(["--llm-mock", "replies.jsonl"]),
        };
        run.current_dir(place.path());
        let ran = finish(run, b"");
        assert_eq!(ran.code, 0, "{name}: {}", ran.shown());
        let wanted: Vec<&str> = part(example, "output").trim_end().lines().collect();
        let got: Vec<&str> = ran.out.trim_end().lines().collect();
        let same = wanted.len() == got.len() && wanted.iter().zip(&got).all(|(w, g)| *w == "*" || w == g);
        assert!(same, "{name}: wanted {wanted:#?}, got {}", ran.shown());
        seen += 1;
    }
    assert_eq!(seen, 29, "each example is there");
}
