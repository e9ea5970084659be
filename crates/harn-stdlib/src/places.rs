//! Places in the file system as builtins name them: resolved, and spared where the program stands on them.

use std::io;
use std::path::{Path, PathBuf};

use harn_system::{Protected, SystemExt};
use harn_vm::{Cx, Result};

use crate::failures;

/// A path as the operating system gets it: absolute, with `.` and `..` resolved as text.
pub(crate) fn resolve(cx: &Cx, path: &str) -> PathBuf {
    let path = Path::new(path);
    let path = if path.is_absolute() { path.to_owned() } else { cx.system().work_dir().join(path) };
    let text = show(&path);
    // `//server/share` of Windows begins with what would be one slash too many.
    if cfg!(windows) && text.starts_with("//") {
        return PathBuf::from(format!("/{}", normalize(&text)));
    }
    PathBuf::from(normalize(&text))
}

/// The path that something is about to be written to.
///
/// # Errors
/// `NAME: refuses PATH: it holds PLACE`; an error for a path with a closing slash, which is no file.
pub(crate) fn target(cx: &Cx, builtin: &str, path: &str) -> Result<PathBuf> {
    spared(cx, builtin, no_directory(cx, path)?)
}

/// A resolved path without the closing slash that makes it a directory's.
pub(crate) fn no_directory(cx: &Cx, path: &str) -> Result<PathBuf> {
    let resolved = resolve(cx, path);
    if path.ends_with('/') && !cx.vm().system().is_dir(&resolved) {
        let reason = io::Error::from(io::ErrorKind::NotADirectory);
        let text = || format!("Failed to write file {path}: {reason}");
        return Err(failures::of_io(cx, &reason, Some(Path::new(path)), text));
    }
    Ok(resolved)
}

/// A resolved path that may be removed, moved or replaced: it holds none of the places that a program
/// stands on.
///
/// # Errors
/// `NAME: refuses PATH: it holds PLACE`
pub(crate) fn spared(cx: &Cx, builtin: &str, path: PathBuf) -> Result<PathBuf> {
    // Without a working directory nobody knows what `..` would be, and what it holds.
    if !path.is_absolute() {
        let reason = io::Error::from(io::ErrorKind::NotFound);
        let text = || format!("{builtin}: there is no working directory to look for {} in", show(&path));
        return Err(failures::of_io(cx, &reason, Some(&path), text));
    }
    // Only a directory can hold one of them. Most paths are files, or nothing yet.
    if !cx.vm().system().is_dir(&path) {
        return Ok(path);
    }
    let source = resolve(cx, &show(&cx.caller_dir()));
    match Protected::of(&**cx.vm().system(), Some(&source)).held_by(&**cx.vm().system(), &path) {
        Some(place) => {
            let text = format!("{builtin}: refuses {}: it holds {place}", show(&path));
            Err(failures::refused(text, show(&path)))
        }
        None => Ok(path),
    }
}

/// A path as text, with `/`.
pub(crate) fn show(path: &Path) -> String {
    let text = path.to_string_lossy();
    // A path in the form `\\?\` knows no `/`.
    if cfg!(windows) && !text.starts_with(r"\\?\") {
        return text.replace('\\', "/");
    }
    text.into_owned()
}

pub(crate) fn is_drive(text: &str) -> bool {
    matches!(text.as_bytes(), [letter, b':'] if letter.is_ascii_alphabetic())
}

pub(crate) fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// A path with `/`, without `.`, `..` where possible, repeated and closing slashes.
pub(crate) fn normalize(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    let (drive, rest) = match path.get(..2).filter(|d| is_drive(d)) {
        Some(drive) => (drive, &path[2..]),
        None => ("", path),
    };
    let absolute = rest.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    for part in segments(rest).filter(|part| *part != ".") {
        match (part, kept.last()) {
            ("..", Some(&last)) if last != ".." => drop(kept.pop()),
            ("..", _) if absolute => {}
            _ => kept.push(part),
        }
    }
    let out = format!("{drive}{}{}", if absolute { "/" } else { "" }, kept.join("/"));
    if out.is_empty() { ".".to_owned() } else { out }
}
