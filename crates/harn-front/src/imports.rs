//! Resolves the path of an import (modules guide, "Paths"): to an embedded `std/` module, a file relative to the
//! importer, or a file of an installed package.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::ImportError;
use crate::files::Files;
use crate::packages;

/// Returns the source of an embedded module `std/NAME` by its name.
pub type StdModules = fn(&str) -> Option<&'static str>;

/// The target of an import.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// An embedded module, by its name after `std/`.
    Std(String),
    /// A file, without `.` segments.
    File(PathBuf),
}

impl Target {
    /// Returns the name shown in messages.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Target::Std(name) => format!("std/{name}.harn"),
            Target::File(path) => path.display().to_string(),
        }
    }

    /// Returns the directory that its own imports are relative to.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        match self {
            Target::Std(_) => PathBuf::new(),
            Target::File(path) => path.parent().map(Path::to_owned).unwrap_or_default(),
        }
    }

    /// Returns a unique key: a file has the same key for all paths that refer to it.
    #[must_use]
    pub fn key(&self, files: &dyn Files) -> PathBuf {
        match self {
            Target::Std(name) => PathBuf::from(format!("std:{name}")),
            Target::File(path) => files.canonical(path).unwrap_or_else(|_| path.clone()),
        }
    }
}

/// Resolves `import "path"` in a file of the directory `dir`.
///
/// # Errors
/// Returns an error if the import cannot be resolved; see [`ImportError`].
pub fn resolve(path: &str, dir: &Path, files: &dyn Files, std: StdModules) -> Result<Target, ImportError> {
    if let Some(name) = path.strip_prefix("std/") {
        let unknown = || ImportError::UnknownStd { path: path.to_owned() };
        return std(name).map(|_| Target::Std(name.to_owned())).ok_or_else(unknown);
    }
    let direct: PathBuf = dir.join(path).components().collect();
    if files.is_file(&direct) {
        return Ok(Target::File(direct));
    }
    let named = if direct.extension().is_none() { direct.with_extension("harn") } else { direct };
    if files.is_file(&named) {
        return Ok(Target::File(named));
    }
    if let Some(found) = packages::find(path, dir, files)? {
        return Ok(Target::File(found));
    }
    let why = match files.kind(&named) {
        Ok(_) => io::Error::other("not a regular file"),
        Err(error) => error,
    };
    Err(ImportError::NotFound { path: path.to_owned(), why: why.to_string() })
}
