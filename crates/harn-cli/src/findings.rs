//! What `harn check` and `harn lint` have in common: which files they look at, and how findings are shown.

use std::io::Write;
use std::path::{Path, PathBuf};

use harn_check::Settings;
use harn_syntax::Severity;
use serde_json::{Value, json};

use crate::report::Problem;
use crate::style::Colour;

/// Folders that are not searched.
const SKIPPED: &[&str] = &["node_modules", "target"];

/// What was found in one file.
pub(crate) struct Findings {
    /// The file, as it was named.
    pub(crate) path: PathBuf,
    /// What is wrong, in the order in which it is shown.
    pub(crate) problems: Vec<Problem>,
    /// Warnings count as errors.
    pub(crate) strict: bool,
}

impl Findings {
    /// A file that could not be read.
    pub(crate) fn unreadable(path: PathBuf, text: String) -> Findings {
        Findings { path, problems: vec![Problem::general(text)], strict: false }
    }

    fn has_error(&self) -> bool {
        self.problems.iter().any(|problem| problem.diagnostic.severity == Severity::Error)
    }

    fn fails(&self) -> bool {
        self.has_error() || (self.strict && !self.problems.is_empty())
    }
}

/// Whether a file is a prompt template by its name.
pub(crate) fn is_template(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "prompt")
}

/// Whether a file is a program by its name.
pub(crate) fn is_program(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "harn")
}

/// The files that targets stand for: a file stands for itself, a folder for the `wanted` files below it in order of
/// their paths. Hidden and build folders are left out; with `ignoring`, whatever `.gitignore` and `.ignore` name as well.
///
/// # Errors
/// A sentence, when a folder cannot be read or there is no file at all.
pub(crate) fn collect(
    targets: &[PathBuf],
    wanted: fn(&Path) -> bool,
    ignoring: bool,
) -> Result<Vec<PathBuf>, String> {
    let mut paths = Vec::new();
    for target in targets {
        if !target.is_dir() {
            paths.push(target.clone());
            continue;
        }
        let walk = ignore::WalkBuilder::new(target)
            .standard_filters(false)
            .hidden(true)
            .parents(ignoring)
            .ignore(ignoring)
            .git_ignore(ignoring)
            .require_git(false)
            .sort_by_file_path(Path::cmp)
            .filter_entry(|entry| {
                entry.depth() == 0 || !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped)
            })
            .build();
        for entry in walk {
            let entry = entry.map_err(|e| format!("cannot search {}: {e}", target.display()))?;
            if entry.file_type().is_none_or(|kind| !kind.is_dir()) && wanted(entry.path()) {
                paths.push(entry.into_path());
            }
        }
    }
    if paths.is_empty() {
        Err("no .harn files found under the given target(s)".to_owned())
    } else {
        Ok(paths)
    }
}

/// The settings for a file, and what is wrong with the manifest.
pub(crate) fn settings(dir: &Path) -> (Settings, Vec<Problem>) {
    let (settings, complaint) = Settings::find(dir);
    let complaint = complaint.map(|diagnostic| Problem {
        plain: diagnostic.message.clone(),
        diagnostic,
        file: None,
        calls: Vec::new(),
    });
    (settings, complaint.into_iter().collect())
}

/// How a command words its report.
pub(crate) struct Wording {
    /// What is said of a file without findings, behind its path.
    pub(crate) clean: &'static str,
    /// The code of a failed report.
    pub(crate) failed: &'static str,
    /// Further counts of the summary.
    pub(crate) counts: &'static [&'static str],
}

/// Shows what was found; 1 if the command failed.
pub(crate) fn report(files: &[Findings], wording: &Wording, json: bool) -> u8 {
    let failed = files.iter().any(Findings::fails);
    if json {
        // A closed pipe is the reader's choice; the exit code still tells.
        let _ = writeln!(std::io::stdout(), "{}", document(files, wording, !failed));
    } else {
        print_text(files, wording);
    }
    u8::from(failed)
}

fn print_text(files: &[Findings], wording: &Wording) {
    let colour = Colour::of(&std::io::stderr()).on();
    for file in files {
        if file.problems.is_empty() {
            let _ = writeln!(std::io::stdout(), "{}: {}", file.path.display(), wording.clean);
        }
        for problem in &file.problems {
            let _ = writeln!(std::io::stderr(), "{}", problem.draw(colour));
        }
    }
}

fn document(files: &[Findings], wording: &Wording, ok: bool) -> Value {
    let count = |severity: Severity| {
        files.iter().flat_map(|f| &f.problems).filter(|p| p.diagnostic.severity == severity).count()
    };
    let rows: Vec<_> = files
        .iter()
        .map(|file| {
            let status = match (file.has_error(), file.problems.is_empty()) {
                (true, _) => "error",
                (false, false) => "warning",
                (false, true) => "ok",
            };
            let diagnostics: Vec<_> = file.problems.iter().map(Problem::finding).collect();
            json!({"path": file.path.display().to_string(), "status": status, "diagnostics": diagnostics})
        })
        .collect();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let mut summary = json!({"files": files.len(), "errors": errors, "warnings": warnings});
    for name in wording.counts {
        summary[*name] = 0.into();
    }
    let message = format!("{errors} errors, {warnings} warnings");
    let error = (!ok).then(|| json!({"code": wording.failed, "message": message, "details": null}));
    json!({
        "schemaVersion": 1, "ok": ok, "data": {"files": rows, "summary": summary}, "error": error, "warnings": [],
    })
}
