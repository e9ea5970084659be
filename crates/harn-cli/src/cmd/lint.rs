//! `harn lint FILE...`: the rules for programs and prompt templates, and the findings that are no matter of a program's
//! surroundings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use harn_check::Located;
use harn_syntax::{Severity, SourceFile, Span};
use harn_system::{Real, System};

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
    if let Err(text) = super::packages::ready(paths.iter().filter_map(|path| path.parent())) {
        eprintln!("error: {}", harn_syntax::printable(&text));
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
                match mend_file(&path, &text, lint, is_rule, args.json) {
                    Ok(None) => {}
                    Ok(Some((mended, count))) => {
                        problems = Program::of(&path, mended).lint(&settings);
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

/// Passes over a file at most: one mend may make room for another.
const MAX_PASSES: usize = 10;

/// Only the rules, and operators on text, have mends that keep the meaning; a name that is meant is for the author to say.
fn is_rule(code: &str) -> bool {
    code.starts_with(|c: char| c.is_ascii_lowercase()) || code == "E0203"
}

/// Applies the safe mends of a file and writes it; the new text and how many there were, if there were any.
///
/// # Errors
/// The finding that the file cannot be written.
pub(super) fn mend_file(
    path: &Path,
    text: &str,
    find: impl Fn(&Program) -> Vec<Problem>,
    is_safe: fn(&str) -> bool,
    quiet: bool,
) -> Result<Option<(String, usize)>, Box<Findings>> {
    let (mended, count) = mend(path, text.to_owned(), find, is_safe);
    if count == 0 {
        return Ok(None);
    }
    if let Err(error) = Real::new().replace(path, mended.as_bytes()) {
        let text = format!("cannot write the fixed file: {error}");
        return Err(Box::new(Findings::unreadable(path.to_owned(), text)));
    }
    if !quiet {
        let name = path.display().to_string();
        crate::out::write(&format!("{}: applied {count} fix(es)\n", harn_syntax::printable(&name)));
    }
    Ok(Some((mended, count)))
}

/// Applies the safe mends until none is left; the text, and how many there were.
fn mend(
    path: &Path,
    mut text: String,
    find: impl Fn(&Program) -> Vec<Problem>,
    is_safe: fn(&str) -> bool,
) -> (String, usize) {
    let mut count = 0;
    for _ in 0..MAX_PASSES {
        let found = find(&Program::of(path, text.clone()));
        let mut fixes: Vec<_> = found
            .iter()
            .filter(|problem| {
                is_safe(problem.diagnostic.code)
                    && problem.file.as_ref().is_none_or(|file| Path::new(file.name()) == path)
            })
            .filter_map(|problem| problem.diagnostic.fix.as_ref())
            .collect();
        fixes.sort_by_key(|fix| fix.edits.iter().map(|(span, _)| span.start).min());
        let mut edits: Vec<&(Span, String)> = Vec::new();
        let (mut end, mut applied) = (0, 0);
        for fix in fixes {
            if fix.edits.iter().all(|(span, _)| span.start >= end) {
                end = fix.edits.iter().map(|(span, _)| span.end).max().unwrap_or(end);
                edits.extend(&fix.edits);
                applied += 1;
            }
        }
        let mut mended = text.clone();
        // Of two at one place the one that only puts text in comes last.
        edits.sort_by_key(|(span, _)| std::cmp::Reverse((span.start, span.end)));
        edits.into_iter().for_each(|(span, new)| mended.replace_range(span.range(), new));
        if applied == 0 || !harn_syntax::parse(&mended).errors.is_empty() {
            break;
        }
        text = mended;
        count += applied;
    }
    (text, count)
}

/// Runs the rules for templates.
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
