//! `harn check FILE...`: syntax, names and other findings, without running anything.

use std::path::PathBuf;

use crate::args::CheckArgs;
use crate::findings::{self, Findings, Wording};
use crate::program::Program;

/// Checks files; 1 if there was an error.
pub(crate) fn check(args: &CheckArgs) -> u8 {
    let paths = match findings::collect(&args.targets, findings::is_program, false) {
        Ok(paths) => paths,
        Err(text) => {
            eprintln!("error: {text}");
            return 1;
        }
    };
    let files: Vec<Findings> = paths.into_iter().map(|path| check_file(path, args)).collect();
    let wording = Wording { clean: "ok", failed: "check_failed", counts: &[] };
    findings::report(&files, &wording, args.json)
}

fn check_file(path: PathBuf, args: &CheckArgs) -> Findings {
    if findings::is_template(&path) {
        return super::lint::lint_template(path);
    }
    match Program::read(&path) {
        Ok(program) => {
            let (mut settings, mut problems) = findings::settings(program.dir());
            settings.preflight = args.preflight.unwrap_or(settings.preflight);
            if args.bundle_root.is_some() {
                settings.bundle_root.clone_from(&args.bundle_root);
            }
            problems.extend(program.check(&settings));
            Findings { path, problems, strict: settings.strict }
        }
        Err(text) => Findings::unreadable(path, text),
    }
}
