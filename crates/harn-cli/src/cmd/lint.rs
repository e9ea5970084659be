//! `harn lint FILE...`: the rules for prompt templates, and for programs the findings that are no matter of their
//! surroundings.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_check::Located;
use harn_syntax::{Severity, SourceFile};

use crate::args::LintArgs;
use crate::findings::{self, Findings, Manifests, Wording};
use crate::program::Program;
use crate::report::Problem;

/// Lints files; 1 if there was an error, or anything at all in a strict project.
pub(crate) fn lint(args: &LintArgs) -> u8 {
    let wanted = |path: &Path| findings::is_program(path) || findings::is_template(path);
    let paths = match findings::collect(&args.targets, wanted, true) {
        Ok(paths) => paths,
        Err(text) => {
            eprintln!("error: {}", harn_syntax::printable(&text));
            return 1;
        }
    };
    let mut manifests = Manifests::new(Severity::Warning);
    let files = paths.into_iter().map(|path| lint_file(path, &mut manifests)).collect();
    let wording = Wording { clean: "no issues found", failed: "lint_failed", counts: &["fixable", "fixed"] };
    findings::report(&manifests.with(files), &wording, args.json)
}

fn lint_file(path: PathBuf, manifests: &mut Manifests) -> Findings {
    if findings::is_template(&path) {
        return lint_template(path, manifests);
    }
    match findings::read_text(&path) {
        Ok(text) => {
            let program = Program::of(&path, text);
            let settings = manifests.settings(program.dir());
            let problems = program.lint(&settings);
            Findings { path, problems, strict: settings.strict, repeated: 0 }
        }
        Err(text) => Findings::unreadable(path, text),
    }
}

/// Runs the rules for templates.
pub(super) fn lint_template(path: PathBuf, manifests: &mut Manifests) -> Findings {
    let text = match findings::read_text(&path) {
        Ok(text) => text,
        Err(text) => return Findings::unreadable(path, text),
    };
    let settings = manifests.settings(path.parent().unwrap_or(Path::new("")));
    let found = harn_check::lint_template_file(&path, &text, &settings);
    let file = Rc::new(SourceFile::new(path.display().to_string(), text));
    let problem = |diagnostic| Problem::located(Located { file: Some(file.clone()), diagnostic });
    let problems = found.into_iter().map(problem).collect();
    Findings { path, problems, strict: settings.strict, repeated: 0 }
}
