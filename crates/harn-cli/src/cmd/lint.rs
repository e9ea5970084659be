//! `harn lint FILE...`: runs the lint rules for programs and prompt templates, and the checks that do not depend on the
//! program's environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use harn_check::Located;
use harn_syntax::{Severity, SourceFile};
use harn_system::{Real, System};

use crate::args::LintArgs;
use crate::findings::{self, Findings, Manifests, Wording};
use crate::program::Program;
use crate::report::Problem;

/// Lints files. Returns 1 if there is an error, or, in a strict project, any finding.
pub(crate) fn lint(args: &LintArgs) -> u8 {
    let wanted = |path: &Path| findings::is_program(path) || findings::is_template(path);
    let paths = match findings::collect(&args.targets, wanted, true) {
        Ok(paths) => paths,
        Err(text) => {
            eprintln!("{}", harn_syntax::error_line(&text));
            return 1;
        }
    };
    if let Err(text) = super::packages::ready(paths.iter().filter_map(|path| path.parent())) {
        eprintln!("{}", harn_syntax::error_line(&text));
        return 1;
    }
    let begin = || (Manifests::new(Severity::Warning), ());
    let files =
        findings::look_at(paths, args.fix, begin, |path, (manifests, ())| lint_file(path, args, manifests));
    let wording = Wording { clean: "no issues found", failed: "lint_failed", counts: &["fixable", "fixed"] };
    findings::report(&files, &wording, args.json)
}

fn lint_file(path: PathBuf, args: &LintArgs, manifests: &mut Manifests) -> Findings {
    if findings::is_template(&path) {
        return lint_template(path, manifests);
    }
    match findings::read_text(&path) {
        Ok(text) => {
            let program = Program::of(&path, text.clone());
            let mut settings = manifests.settings(program.dir());
            settings.require_file_header |= args.require_file_header;
            let mut problems = program.lint(&settings);
            let mut fixed = 0;
            if args.fix && path.as_os_str() != "-" {
                let lint = |program: &Program| program.lint(&settings);
                match fix_file(&path, &text, lint, args.json) {
                    Ok(None) => {}
                    Ok(Some((new, count))) => {
                        problems = Program::of(&path, new).lint(&settings);
                        fixed = count;
                    }
                    Err(finding) => return *finding,
                }
            }
            Findings { path, problems, strict: settings.strict, repeated: 0, fixed }
        }
        Err(text) => Findings::unreadable(path, text),
    }
}

/// Maximum number of passes over a file: a fix can enable another one.
const MAX_PASSES: usize = 10;

/// Applies the safe fixes to a file and writes it. Returns the new source and the number of fixes, or `None` if there
/// are none.
///
/// # Errors
/// A finding if the file cannot be written.
pub(super) fn fix_file(
    path: &Path,
    text: &str,
    find: impl Fn(&Program) -> Vec<Problem>,
    quiet: bool,
) -> Result<Option<(String, usize)>, Box<Findings>> {
    let (fixed, count) = fix(path, text.to_owned(), find);
    if count == 0 {
        return Ok(None);
    }
    if let Err(error) = Real::new().replace(path, fixed.as_bytes()) {
        let text = format!("cannot write the fixed file: {error}");
        return Err(Box::new(Findings::unreadable(path.to_owned(), text)));
    }
    if !quiet {
        let name = path.display().to_string();
        crate::out::write(&format!("{}: applied {count} fix(es)\n", harn_syntax::printable_name(&name)));
    }
    Ok(Some((fixed, count)))
}

/// Applies the safe fixes until none is left. Returns the source and the number of fixes.
fn fix(path: &Path, mut text: String, find: impl Fn(&Program) -> Vec<Problem>) -> (String, usize) {
    let mut count = 0;
    for _ in 0..MAX_PASSES {
        let program = Program::of(path, text.clone());
        let Some((fixed, applied)) = program.fixed(&find(&program)) else { break };
        text = fixed;
        count += applied;
    }
    (text, count)
}

/// Runs the lint rules for templates.
pub(super) fn lint_template(path: PathBuf, manifests: &mut Manifests) -> Findings {
    let text = match findings::read_text(&path) {
        Ok(text) => text,
        Err(text) => return Findings::unreadable(path, text),
    };
    let settings = manifests.settings(path.parent().unwrap_or(Path::new("")));
    let found = harn_check::lint_template_file(&path, &text, &settings);
    let file = Arc::new(SourceFile::new(path.display().to_string(), text));
    let problem = |diagnostic| Problem::located(Located { file: Some(file.clone()), diagnostic });
    let problems = found.into_iter().map(problem).collect();
    Findings { path, problems, strict: settings.strict, repeated: 0, fixed: 0 }
}
