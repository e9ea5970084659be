//! `harn check FILE...`: syntax, names and other findings, without running anything.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::args::CheckArgs;
use crate::program::Program;
use crate::report::Problem;
use crate::style::Colour;
use harn_syntax::Severity;

/// Folders that are not searched.
const SKIPPED: &[&str] = &["node_modules", "target"];

/// What was found in one file.
struct Checked {
    path: PathBuf,
    problems: Vec<Problem>,
    /// The file could not be read.
    unreadable: Option<String>,
    /// Warnings count as errors.
    strict: bool,
}

/// Checks files; 1 if there was an error.
pub(crate) fn check(args: &CheckArgs) -> u8 {
    let mut paths = Vec::new();
    for target in &args.targets {
        if target.is_dir() {
            collect(target, &mut paths);
        } else {
            paths.push(target.clone());
        }
    }
    if paths.is_empty() {
        eprintln!("error: no .harn files found under the given target(s)");
        return 1;
    }
    let files: Vec<Checked> = paths.into_iter().map(check_file).collect();
    let failed =
        files.iter().any(|f| f.unreadable.is_some() || f.problems.iter().any(|p| f.strict || is_error(p)));
    if args.json {
        print_json(&files, !failed)
    } else {
        print_text(&files)
    }
    u8::from(failed)
}

fn is_error(problem: &Problem) -> bool {
    problem.diagnostic.severity == Severity::Error
}

/// Programs below a folder in order of their paths.
fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&&*name) {
                collect(&path, paths);
            }
        } else if name.ends_with(".harn") {
            paths.push(path);
        }
    }
}

fn check_file(path: PathBuf) -> Checked {
    match Program::read(&path) {
        Ok(program) => {
            let (problems, strict) = program.check();
            Checked { path, problems, unreadable: None, strict }
        }
        Err(text) => Checked { path, problems: Vec::new(), unreadable: Some(text), strict: false },
    }
}

fn print_text(files: &[Checked]) {
    let colour = Colour::of(&std::io::stderr()).on();
    // Closed pipes are the reader's choice; the exit code still tells.
    for file in files {
        if let Some(text) = &file.unreadable {
            let _ = writeln!(std::io::stderr(), "{text}");
        } else if file.problems.is_empty() {
            let _ = writeln!(std::io::stdout(), "{}: ok", file.path.display());
        }
        for problem in &file.problems {
            let _ = writeln!(std::io::stderr(), "{}", problem.draw(colour));
        }
    }
}

fn print_json(files: &[Checked], ok: bool) {
    let count = |severity: Severity| {
        files.iter().flat_map(|f| &f.problems).filter(|p| p.diagnostic.severity == severity).count()
    };
    let rows: Vec<_> = files
        .iter()
        .map(|file| {
            let errors = file.unreadable.is_some() || file.problems.iter().any(is_error);
            let status = match (errors, file.problems.is_empty()) {
                (true, _) => "error",
                (false, false) => "warning",
                (false, true) => "ok",
            };
            let mut diagnostics: Vec<_> = file.problems.iter().map(Problem::json).collect();
            if let Some(text) = &file.unreadable {
                diagnostics.push(json!({"severity": "error", "message": text, "file": file.path}));
            }
            json!({"path": file.path, "status": status, "diagnostics": diagnostics})
        })
        .collect();
    let unreadable = files.iter().filter(|f| f.unreadable.is_some()).count();
    let errors = count(Severity::Error) + unreadable;
    let summary = json!({"files": files.len(), "errors": errors, "warnings": count(Severity::Warning)});
    let error = (!ok)
        .then(|| json!({"code": "check_failed", "message": format!("{errors} errors"), "details": null}));
    let document = json!({
        "schemaVersion": 1, "ok": ok, "data": {"files": rows, "summary": summary}, "error": error, "warnings": [],
    });
    let _ = writeln!(std::io::stdout(), "{document}");
}
