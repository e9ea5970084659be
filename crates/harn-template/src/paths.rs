//! Paths of templates: joined, compared, and the project that they belong to.

use std::path::{Component, Path, PathBuf};

use harn_system::System;

/// The folder that holds a file.
pub(crate) fn folder_of(path: &Path) -> PathBuf {
    path.parent().map(Path::to_owned).unwrap_or_default()
}

/// `base` and `rel` joined, without `.` segments.
pub(crate) fn join(base: &Path, rel: &str) -> PathBuf {
    base.join(rel).components().filter(|part| *part != Component::CurDir).collect()
}

/// The path of a file without `..` segments, where that names the same file. It asks the file system, so a path that
/// must not be looked at is to be refused before.
pub(crate) fn shortest(path: PathBuf, system: &dyn System) -> PathBuf {
    match path.file_name() {
        Some(name) => without_parents(&folder_of(&path), system).join(name),
        None => path,
    }
}

/// `folder` without `..` segments; as it is when that would be another folder, which links can bring about, or when it
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

/// A folder without links; `None` when there is no such folder.
fn existing(folder: &Path, system: &dyn System) -> Option<PathBuf> {
    system.canonical(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }).ok()
}

/// The path from the root on, without `.` segments; `..` stays.
fn absolute(path: &Path, system: &dyn System) -> Option<PathBuf> {
    let whole = if path.is_absolute() { path.to_owned() } else { system.cwd().ok()?.join(path) };
    Some(whole.components().filter(|part| *part != Component::CurDir).collect())
}

/// The absolute path of a folder, empty for the current one, such that each of its ancestors holds the one below it:
/// without `.` and `..`.
pub fn absolute_folder(folder: &Path, system: &dyn System) -> Option<PathBuf> {
    let absolute = without_parents(&absolute(folder, system)?, system);
    let tidy = !absolute.components().any(|part| part == Component::ParentDir);
    Some(if tidy { absolute } else { real_path(&absolute, system) })
}

/// The folder of the manifest for what lies in `folder`.
pub fn project_root(folder: &Path, system: &dyn System) -> Option<PathBuf> {
    harn_front::project_root(&absolute_folder(folder, system)?, &harn_front::Through(system))
}

/// Whether a path stays below the folder of the project that it is joined to: what follows `@/`, and the folders of
/// `[asset_roots]`.
pub fn is_project_path(rel: &str) -> bool {
    !rel.is_empty()
        && !rel.starts_with('/')
        && !rel.contains('\\')
        && rel.split('/').all(|segment| segment != "..")
}

/// `path` without links, `.` and `..`. What does not exist is resolved as far as it does, so that a
/// missing file is judged by where it would be.
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
