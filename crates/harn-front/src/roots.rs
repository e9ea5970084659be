//! The project that a directory belongs to.

use std::path::{Path, PathBuf};

use crate::files::Files;

/// Maximum number of directories that are searched for the manifest of a source.
const MAX_LEVELS: usize = 16;

/// Returns the directory of the manifest for the sources of `folder`, which must be absolute and without `..`.
/// Returns `None` if the manifest is not trusted.
#[must_use]
pub fn project_root(folder: &Path, files: &dyn Files) -> Option<PathBuf> {
    let manifest = manifest_near(folder, files).filter(|manifest| files.trusts(manifest))?;
    manifest.parent().map(Path::to_owned)
}

/// Returns the manifest for the sources of a directory. Searches at most 16 directories upwards and stops at one
/// that contains `.git`: files above a repository must not configure its hooks, servers and models.
#[must_use]
pub fn manifest_near(folder: &Path, files: &dyn Files) -> Option<PathBuf> {
    for folder in folder.ancestors().take(MAX_LEVELS) {
        let path = folder.join("harn.toml");
        if files.is_file(&path) {
            return Some(path);
        }
        if files.kind(&folder.join(".git")).is_ok() {
            break;
        }
    }
    None
}
