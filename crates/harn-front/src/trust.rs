//! Trust in manifests: a manifest outside the working directory that another user owns or can modify starts no
//! programs, configures no endpoints that receive keys, and extends no permissions. `HARN_TRUST` and `harn trust`
//! add trusted directories.

use std::path::{Path, PathBuf};

use harn_system::{System, SystemExt};

/// The variable with the directories of trusted manifests, separated by commas.
const VARIABLE: &str = "HARN_TRUST";

/// Maximum size of the list of trusted directories: 1 MiB.
const MAX_LIST: u64 = 1 << 20;

/// Returns the file that lists the user's trusted directories, one per line.
pub fn list_file(system: &dyn System) -> Option<PathBuf> {
    let home = system.env("HOME").filter(|home| !home.is_empty())?;
    Some(Path::new(&home).join(".config/harn/trusted"))
}

/// Returns the user's trusted directories from that file.
pub fn listed(system: &dyn System) -> Vec<PathBuf> {
    // A list that other users can modify is ignored.
    let file = list_file(system).filter(|file| system.is_file(file) && !system.is_foreign(file));
    let text = file.and_then(|file| system.read_text(&file, MAX_LIST).ok()).unwrap_or_default();
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(PathBuf::from).collect()
}

/// Returns whether a manifest is trusted.
pub(crate) fn trusts(system: &dyn System, manifest: &Path) -> bool {
    // Checked first, because most manifests belong to the user and the following queries are recorded in a journal.
    if !system.is_foreign(manifest) {
        return true;
    }
    let real = |path: &Path| system.canonical(path).unwrap_or_else(|_| path.to_owned());
    let folder = real(manifest.parent().unwrap_or(Path::new("/")));
    if system.cwd().is_ok_and(|cwd| folder.starts_with(real(&cwd))) {
        return true;
    }
    let named = system.env(VARIABLE).unwrap_or_default();
    let named = named.split(',').map(str::trim).filter(|path| !path.is_empty()).map(PathBuf::from);
    named.chain(listed(system)).any(|path| path.is_absolute() && real(&path) == folder)
}

/// Returns the warning about a manifest that is not trusted.
pub fn warning(system: &dyn System, manifest: &Path) -> Option<String> {
    if trusts(system, manifest) {
        return None;
    }
    let folder = manifest.parent().unwrap_or(Path::new("/"));
    Some(format!(
        "{} belongs to another user or can be changed by one: its servers, hooks, models, store and sandbox roots are not used; \
         to trust it, run `harn trust {}` or set {VARIABLE}",
        manifest.display(),
        folder.display()
    ))
}
