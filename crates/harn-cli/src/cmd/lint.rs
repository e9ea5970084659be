//! `harn lint FILE...`: the rules for prompt templates, and for programs the findings that are no matter of their
//! surroundings.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_syntax::SourceFile;

use crate::args::LintArgs;
use crate::findings::{self, Findings, Wording};
use crate::program::{self, Program};
use crate::report::Problem;

/// Lints files; 1 if there was an error, or anything at all in a strict project.
pub(crate) fn lint(args: &LintArgs) -> u8 {
    let wanted = |path: &Path| findings::is_program(path) || findings::is_template(path);
    let paths = match findings::collect(&args.targets, wanted, true) {
        Ok(paths) => paths,
        Err(text) => {
            eprintln!("error: {text}");
            return 1;
        }
    };
    let files: Vec<Findings> = paths.into_iter().map(lint_file).collect();
    let wording = Wording { clean: "no issues found", failed: "lint_failed", counts: &["fixable", "fixed"] };
    findings::report(&files, &wording, args.json)
}

fn lint_file(path: PathBuf) -> Findings {
    if findings::is_template(&path) { lint_template(path) } else { lint_program(path) }
}

fn lint_program(path: PathBuf) -> Findings {
    match Program::read(&path) {
        Ok(program) => {
            let (settings, mut problems) = findings::settings(program.dir());
            problems.extend(program.lint(&settings));
            Findings { path, problems, strict: settings.strict }
        }
        Err(text) => Findings::unreadable(path, text),
    }
}

/// Runs the rules for templates.
pub(super) fn lint_template(path: PathBuf) -> Findings {
    let text = match program::read_text(&path) {
        Ok(text) => text,
        Err(text) => return Findings::unreadable(path, text),
    };
    let (settings, mut problems) = findings::settings(path.parent().unwrap_or(Path::new("")));
    let found = harn_check::lint_template_file(&path, &text, &settings);
    let file = Rc::new(SourceFile::new(path.display().to_string(), text));
    problems.extend(found.into_iter().map(|diagnostic| Problem {
        plain: diagnostic.message.clone(),
        diagnostic,
        file: Some(file.clone()),
        calls: Vec::new(),
    }));
    Findings { path, problems, strict: settings.strict }
}
