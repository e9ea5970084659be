//! Finds the tests of a project: pipelines named `test_...` or marked `@test`.

use std::path::{Path, PathBuf};

use harn_syntax::ast::{DeclKind, StmtKind};
use harn_syntax::{Diagnostic, SourceFile};
use harn_system::{Real, SystemExt};

use crate::findings;

/// A test, or a file with errors.
#[derive(Clone)]
pub(super) struct Test {
    /// The name of the pipeline, or `<file error>`.
    pub(super) name: String,
    /// The path of the file as it was found.
    pub(super) path: PathBuf,
    /// Why the file cannot be loaded.
    pub(super) broken: Option<String>,
}

/// The name of the entry for a file with errors.
pub(super) const FILE_ERROR: &str = "<file error>";

/// Finds the tests of a file, or of all files of a directory that contain tests, ordered by path.
///
/// # Errors
/// A message if a directory cannot be searched.
pub(super) fn find(target: &Path) -> Result<Vec<Test>, String> {
    if !Real::new().is_dir(target) {
        return Ok(of_file(target, true));
    }
    match findings::collect(&[target.to_owned()], findings::is_program, false) {
        Ok(paths) => Ok(paths.iter().flat_map(|path| of_file(path, false)).collect()),
        Err(text) if text.starts_with("no .harn files") => Ok(Vec::new()),
        Err(text) => Err(text),
    }
}

fn of_file(path: &Path, always: bool) -> Vec<Test> {
    let test = |name: &str, broken| Test { name: name.to_owned(), path: path.to_owned(), broken };
    let text = match findings::read_text(path) {
        Ok(text) => text,
        Err(why) => return vec![test(FILE_ERROR, Some(format!("error: {why}")))],
    };
    if !always && !text.contains("test_") && !text.contains("@test") {
        return Vec::new();
    }
    let parsed = harn_syntax::parse(&text);
    if !parsed.errors.is_empty() {
        let file = SourceFile::new(path.display().to_string(), text.as_str());
        let drawn = parsed.errors.iter().map(|error| error.diagnostic(&text).render(&file, false));
        return vec![test(FILE_ERROR, Some(drawn.collect::<Vec<_>>().join("\n")))];
    }
    // An attribute without effect is reported: a test that never runs looks like one that passes.
    let marked = parsed.program.items.iter().filter_map(|item| match &item.kind {
        StmtKind::Decl(decl) if !matches!(decl.kind, DeclKind::Pipeline(_)) => {
            decl.attrs.iter().find(|attr| attr.name.name == "test").map(|attr| (decl, attr))
        }
        _ => None,
    });
    let not_run = marked.map(|(decl, attr)| {
        let (word, name) = (decl.kind.keyword(), decl.kind.name().name.as_str());
        let diagnostic =
            Diagnostic::error(format!("`@test` only applies to pipelines: `{word} {name}` is not run"))
                .with_label(attr.span, "")
                .with_help(format!("write `pipeline {name}() {{ ... }}`"));
        let file = SourceFile::new(path.display().to_string(), text.as_str());
        test(name, Some(diagnostic.render(&file, false)))
    });
    let not_run: Vec<Test> = not_run.collect();
    parsed
        .program
        .pipelines()
        .filter(|(decl, pipeline)| {
            pipeline.name.name.starts_with("test_") || decl.attrs.iter().any(|attr| attr.name.name == "test")
        })
        .map(|(_, pipeline)| test(&pipeline.name.name, None))
        .chain(not_run)
        .collect()
}
