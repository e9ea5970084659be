//! Imports that lead nowhere.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why an import leads nowhere. It is shown as the run reports it.
#[derive(Debug)]
pub enum ImportError {
    /// There is no such embedded module.
    UnknownStd {
        /// The path of the import.
        path: String,
    },
    /// The path leads out of its package.
    Escape {
        /// The path of the import.
        path: String,
        /// What it does, or must not do.
        what: &'static str,
    },
    /// A package's manifest cannot be read, or names a file that cannot be imported.
    Manifest {
        /// The manifest.
        manifest: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// There is no such file.
    NotFound {
        /// The path of the import.
        path: String,
        /// The system's reason.
        why: String,
    },
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::UnknownStd { path } => write!(f, "Unknown stdlib module: {path}"),
            ImportError::Escape { path, what } => write!(f, "Import error: package path '{path}' {what}"),
            ImportError::Manifest { manifest, why } => {
                write!(f, "Import error: {}: {why}", manifest.display())
            }
            ImportError::NotFound { path, why } => {
                let plain = !["./", "../", "/"].iter().any(|prefix| path.starts_with(prefix));
                let extension = if Path::new(path).extension().is_none() { ".harn" } else { "" };
                let here = if plain { "./" } else { "" };
                write!(f, "Import error: cannot read '{here}{path}{extension}': {why}")
            }
        }
    }
}

impl std::error::Error for ImportError {}
