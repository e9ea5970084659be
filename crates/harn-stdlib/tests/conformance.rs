//! Runs the cases of `conformance/builtins` in the virtual machine.

use std::path::{Path, PathBuf};

fn cases(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            cases(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "harn") {
            found.push(path);
        }
    }
}

/// Returns the lines without the part that varies: the duration of a timer.
fn comparable(text: &str) -> Vec<String> {
    let line = |line: &str| match line.rsplit_once(": ") {
        Some((timer, time)) if timer.starts_with("[timer] ") && time.ends_with("ms") => timer.to_owned(),
        _ => line.to_owned(),
    };
    text.trim_end().lines().map(line).collect()
}

fn failure(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let name = path.file_name()?.to_str()?;
    let run = crate::common::run(name, &text, path.parent()?);
    if let Ok(expected) = std::fs::read_to_string(path.with_extension("expected")) {
        return match run.error {
            Some(error) => Some(error),
            None if comparable(&run.output) != comparable(&expected) => {
                Some(format!("expected:\n{}\nprinted:\n{}", expected.trim_end(), run.output.trim_end()))
            }
            None => None,
        };
    }
    let patterns = std::fs::read_to_string(path.with_extension("error")).ok()?;
    match run.error {
        None => Some("the program does not fail".to_owned()),
        Some(error) if patterns.lines().any(|pattern| error.contains(pattern.trim())) => None,
        Some(error) => Some(format!("another error: {error}")),
    }
}

#[test]
fn all_cases_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/builtins");
    let mut paths = Vec::new();
    cases(&root, &mut paths);
    paths.sort();
    assert!(paths.len() >= 150, "only {} cases", paths.len());
    let failures: Vec<String> = paths
        .iter()
        .filter_map(|path| {
            Some(format!("== {}\n{}", path.strip_prefix(&root).ok()?.display(), failure(path)?))
        })
        .collect();
    assert!(failures.is_empty(), "{} of {} fail:\n\n{}", failures.len(), paths.len(), failures.join("\n\n"));
}
