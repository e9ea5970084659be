//! The cases of a suite: a program and the expectation next to it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use harn_system::{Real, System, SystemExt};

use super::expect::Expectation;

/// A test case.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Path relative to the suite's directory, with `/` as separator.
    pub(crate) name: String,
    /// The program.
    pub(crate) path: PathBuf,
    /// The expected result.
    pub(crate) expectation: Expectation,
    /// The file of recorded model replies.
    pub(crate) mock: Option<PathBuf>,
}

/// Finds the cases below `target`, a directory or a program inside of `root`, sorted by path.
///
/// # Errors
/// A message about an unreadable file or a case with two expectations.
pub(crate) fn find(root: &Path, target: &Path) -> Result<Vec<Case>, String> {
    let mut programs = Vec::new();
    collect(target, &mut programs, &mut BTreeSet::new())?;
    programs.sort();
    let mut cases = Vec::new();
    for path in programs {
        if let Some(expectation) = expectation(&path).unwrap_or_else(|why| Some(Expectation::Unclear(why))) {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            let mock = Some(path.with_extension("llm-mock.jsonl")).filter(|p| Real::new().is_file(p));
            cases.push(Case { name, path, expectation, mock });
        }
    }
    Ok(cases)
}

/// Adds the programs at or below a path. Each directory is visited once, even if several links lead to it.
fn collect(at: &Path, programs: &mut Vec<PathBuf>, entered: &mut BTreeSet<(u64, u64)>) -> Result<(), String> {
    let facts = Real::new().facts(at).map_err(|e| format!("cannot read {}: {e}", at.display()))?;
    if !facts.is_dir() {
        programs.push(at.to_owned());
        return Ok(());
    }
    if !entered.insert(facts.identity) {
        return Ok(());
    }
    let names = Real::new().names(at).map_err(|e| format!("cannot read {}: {e}", at.display()))?;
    for path in names.iter().map(|name| at.join(name)) {
        if Real::new().is_dir(&path) {
            collect(&path, programs, entered)?;
        } else if path.extension().is_some_and(|e| e == "harn") {
            programs.push(path);
        }
    }
    Ok(())
}

/// Returns the expectation of a program; `None` for a helper module without one.
fn expectation(program: &Path) -> Result<Option<Expectation>, String> {
    let read = |extension: &str| {
        let path = program.with_extension(extension);
        match Real::new().read_text(&path, harn_vm::MAX_SOURCE) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(format!("cannot read {}: {e}", path.display())),
        }
    };
    match (read("expected")?, read("error")?, read("lint")?) {
        (Some(text), None, None) => Ok(Some(Expectation::Output(text))),
        (None, None, Some(text)) => Ok(Some(Expectation::Findings(text))),
        (None, Some(text), None) => match Expectation::error(&text) {
            Expectation::Error(patterns) if patterns.is_empty() => {
                Err(format!("the .error file of {} is empty", program.display()))
            }
            expectation => Ok(Some(expectation)),
        },
        (None, None, None) => Ok(None),
        (Some(_), Some(_), _) => {
            Err(format!("{} has both an .expected and an .error file", program.display()))
        }
        _ => Err(format!("{} has a .lint file and another expectation", program.display())),
    }
}
