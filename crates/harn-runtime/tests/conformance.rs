//! The cases of `conformance/llm`, `conformance/agents` and `conformance/prompts`.
use std::path::{Path, PathBuf};

fn cases(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            cases(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "harn") {
            found.push(path);
        }
    }
}

fn failure(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    // A program that begins anew is begun by the command line, and files of providers and cassettes are read by it: its tests run these
    // cases.
    let beside = |kind: &str| path.with_extension(kind).is_file();
    if path.file_name()?.to_str()?.starts_with("anew_")
        || beside("providers.toml")
        || beside("llm-cassette.jsonl")
    {
        return None;
    }
    let expected = std::fs::read_to_string(path.with_extension("expected")).ok();
    let patterns = std::fs::read_to_string(path.with_extension("error")).ok();
    if expected.is_none() && patterns.is_none() {
        return None;
    }
    let mock = Some(path.with_extension("llm-mock.jsonl")).filter(|p| p.is_file());
    let env = [("HARN_LLM_CALLS_DISABLED", "1")];
    let run =
        crate::common::run_with(path.file_name()?.to_str()?, &text, path.parent()?, &env, mock.as_deref());
    match (expected, patterns, run.error) {
        (Some(_), _, Some(error)) => Some(format!("{error}\n{}", run.output)),
        (Some(expected), _, None) if expected.trim_end() != run.output.trim_end() => {
            Some(format!("expected:\n{}\nprinted:\n{}", expected.trim_end(), run.output.trim_end()))
        }
        (None, Some(_), None) => Some("the program does not fail".to_owned()),
        (None, Some(patterns), Some(error)) if !patterns.lines().any(|p| error.contains(p.trim())) => {
            Some(format!("another error: {error}"))
        }
        _ => None,
    }
}

#[test]
fn all_cases_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let mut paths = Vec::new();
    for topic in ["llm", "agents", "prompts"] {
        cases(&root.join(topic), &mut paths);
    }
    paths.sort();
    assert!(paths.len() >= 80, "only {} cases", paths.len());
    let failures: Vec<String> = paths
        .iter()
        .filter_map(|path| {
            Some(format!("== {}\n{}", path.strip_prefix(&root).ok()?.display(), failure(path)?))
        })
        .collect();
    assert!(failures.is_empty(), "{} of {} fail:\n\n{}", failures.len(), paths.len(), failures.join("\n\n"));
}
