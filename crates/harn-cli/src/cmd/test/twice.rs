//! `harn test --determinism`: runs each test twice and compares the results.

use harn_value::Data as Value;
use harn_vm::Interrupt;

use super::find::Test;
use super::one::{self, Run, Settings};
use crate::conformance::expect::difference;

/// The compared fields of a model reply.
const PARTS: [&str; 8] = [
    "provider",
    "model",
    "text",
    "tool_calls",
    "input_tokens",
    "output_tokens",
    "thinking",
    "thinking_summary",
];

/// Runs a test twice: with the recorded replies next to it, or otherwise with the replies of the first run in the
/// second one.
#[expect(clippy::disallowed_methods, reason = "a folder that is gone at the end, also after a panic")]
pub(super) fn run(test: &Test, settings: &Settings, ready: &dyn Fn(&Interrupt)) -> Run {
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            let text = format!("error: cannot make a folder for the replies of the test: {error}");
            return Run { failure: Some(text), ..Run::default() };
        }
    };
    let replies = Some(folder.path().to_owned());
    let has_fixture = one::fixture(&test.path).is_some();
    let mut first = settings.clone();
    let mut second = settings.clone();
    second.kept = replies.clone();
    match has_fixture {
        true => first.kept = replies,
        false => first.keep = replies,
    }
    let mut first = one::run(test, &first, ready);
    if first.failure.is_some() {
        return first;
    }
    let second = one::run(test, &second, ready);
    if let Some(text) = compare(test, &first, &second) {
        first.failure = Some(text);
    }
    first
}

/// Returns the difference between both runs.
fn compare(test: &Test, first: &Run, second: &Run) -> Option<String> {
    let path = test.path.display();
    if let Some(failure) = &second.failure {
        return Some(format!("error: {path}: replay failed\n{failure}"));
    }
    if let Some(lines) = difference(&first.output, &second.output) {
        return Some(format!("error: {path}: replay changed stdout (- first, + second)\n{lines}"));
    }
    let (first, second) = (replies(&first.calls), replies(&second.calls));
    let lines = difference(&first.join("\n"), &second.join("\n"))?;
    Some(format!("error: {path}: replay changed provider_call_response output (- first, + second)\n{lines}"))
}

/// Returns the model replies in a call log, one line each.
fn replies(calls: &str) -> Vec<String> {
    let lines = calls.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let replies = lines.filter(|line| line["type"] == "provider_call_response");
    let parts = |reply: Value| PARTS.iter().map(|part| (part.to_string(), reply[*part].clone())).collect();
    replies.map(|reply| Value::Object(parts(reply)).to_string()).collect()
}
