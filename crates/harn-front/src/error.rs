//! Errors of unresolvable imports.

use std::fmt;
use std::path::{Path, PathBuf};

/// The reason why an import cannot be resolved. `Display` writes the message reported at run time.
#[derive(Debug)]
pub enum ImportError {
    /// The embedded module does not exist.
    UnknownStd {
        /// The path of the import.
        path: String,
    },
    /// The path is outside its package.
    Escape {
        /// The path of the import.
        path: String,
        /// The violated rule.
        what: &'static str,
    },
    /// The manifest of a package cannot be read, or refers to a file that cannot be imported.
    Manifest {
        /// The manifest.
        manifest: PathBuf,
        /// The reason.
        why: String,
    },
    /// The file does not exist.
    NotFound {
        /// The path of the import.
        path: String,
        /// The reason reported by the system.
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
