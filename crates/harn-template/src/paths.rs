//! Paths of templates: joins and normalizes them, and finds their project.

use std::path::{Component, Path, PathBuf};

use harn_system::System;

/// Returns the directory of a file.
pub(crate) fn folder_of(path: &Path) -> PathBuf {
    path.parent().map(Path::to_owned).unwrap_or_default()
}

/// Joins `base` and `rel`, without `.` segments.
pub(crate) fn join(base: &Path, rel: &str) -> PathBuf {
    base.join(rel).components().filter(|part| *part != Component::CurDir).collect()
}

/// Returns the path of a file without `..` segments if that refers to the same file. It accesses the file system,
/// so callers must reject forbidden paths first.
pub(crate) fn shortest(path: PathBuf, system: &dyn System) -> PathBuf {
    match path.file_name() {
        Some(name) => without_parents(&folder_of(&path), system).join(name),
        None => path,
    }
}

/// Returns `folder` without `..` segments; unchanged if that would be another directory, because of links, or if it
/// does not exist.
fn without_parents(folder: &Path, system: &dyn System) -> PathBuf {
    if !folder.components().any(|part| part == Component::ParentDir) {
        return folder.to_owned();
    }
    let mut short = PathBuf::new();
    for part in folder.components() {
        match (part, short.components().next_back()) {
            (Component::ParentDir, Some(Component::Normal(_))) => {
                short.pop();
            }
            (Component::ParentDir, Some(Component::RootDir)) => {}
            _ => short.push(part),
        }
    }
    match (existing(folder, system), existing(&short, system)) {
        (Some(as_written), Some(shortened)) if as_written == shortened => short,
        _ => folder.to_owned(),
    }
}

/// Returns a directory with links resolved; `None` if it does not exist.
fn existing(folder: &Path, system: &dyn System) -> Option<PathBuf> {
    system.canonical(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }).ok()
}

/// Returns the absolute path without `.` segments; `..` segments are retained.
fn absolute(path: &Path, system: &dyn System) -> Option<PathBuf> {
    let whole = if path.is_absolute() { path.to_owned() } else { system.cwd().ok()?.join(path) };
    Some(whole.components().filter(|part| *part != Component::CurDir).collect())
}

/// Returns the absolute path of a directory (empty for the current one) without `.` and `..` segments, so that each
/// of its ancestors contains the next one.
pub fn absolute_folder(folder: &Path, system: &dyn System) -> Option<PathBuf> {
    let absolute = without_parents(&absolute(folder, system)?, system);
    let tidy = !absolute.components().any(|part| part == Component::ParentDir);
    Some(if tidy { absolute } else { real_path(&absolute, system) })
}

/// Returns the directory of the manifest that applies to `folder`.
pub fn project_root(folder: &Path, system: &dyn System) -> Option<PathBuf> {
    harn_front::project_root(&absolute_folder(folder, system)?, &harn_front::Through(system))
}

/// Returns whether a path stays below the project directory that it is joined to. Applies to the part after `@/`
/// and to the directories of `[asset_roots]`.
pub fn is_project_path(rel: &str) -> bool {
    !rel.is_empty()
        && !rel.starts_with('/')
        && !rel.contains('\\')
        && rel.split('/').all(|segment| segment != "..")
}

/// Returns `path` without links, `.` and `..`. A path that does not exist is resolved up to its last existing
/// ancestor, so that permission checks apply to the location that a missing file would have.
pub(crate) fn real_path(path: &Path, system: &dyn System) -> PathBuf {
    let absolute = absolute(path, system).unwrap_or_else(|| path.to_owned());
    if let Ok(real) = system.canonical(&absolute) {
        return real;
    }
    let mut real = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => {
                real.pop();
            }
            part => {
                real.push(part);
                if let Ok(resolved) = system.canonical(&real) {
                    real = resolved;
                }
            }
        }
    }
    real
}
