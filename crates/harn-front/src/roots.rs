//! The project that a folder belongs to.

use std::path::{Path, PathBuf};

use crate::files::Files;

/// How many folders upwards the manifest of a source is looked for.
const MAX_LEVELS: usize = 16;

/// The folder of the manifest for the sources of a folder, which must be absolute and without `..`; none when the manifest is
/// not trusted.
#[must_use]
pub fn project_root(folder: &Path, files: &dyn Files) -> Option<PathBuf> {
    let manifest = manifest_near(folder, files).filter(|manifest| files.trusts(manifest))?;
    manifest.parent().map(Path::to_owned)
}

/// The manifest for the sources of a folder: from there upwards at most 16 folders, not beyond one that holds `.git`.
/// What lies above a repository must not set its hooks, servers and models.
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
