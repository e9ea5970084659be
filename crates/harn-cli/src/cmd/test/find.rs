//! The tests of a project: pipelines named `test_...` or marked `@test`.

use std::path::{Path, PathBuf};

use harn_syntax::SourceFile;
use harn_system::{Real, SystemExt};

use crate::findings;

/// A test, or a file that cannot be read as a program.
pub(super) struct Test {
    /// The name of the pipeline, `<file error>` for a file.
    pub(super) name: String,
    /// The file, as it was reached.
    pub(super) path: PathBuf,
    /// Why the file cannot be read.
    pub(super) broken: Option<String>,
}

/// The name of the entry that stands for a file.
pub(super) const FILE_ERROR: &str = "<file error>";

/// Finds the tests of a file, or of the files of a folder that speak of tests, in order of their paths.
///
/// # Errors
/// A sentence, when a folder cannot be searched.
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
    parsed
        .program
        .pipelines()
        .filter(|(decl, pipeline)| {
            pipeline.name.name.starts_with("test_") || decl.attrs.iter().any(|attr| attr.name.name == "test")
        })
        .map(|(_, pipeline)| test(&pipeline.name.name, None))
        .collect()
}
