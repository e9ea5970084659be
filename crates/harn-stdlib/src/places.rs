//! Paths in arguments of builtins: resolution, and protection of the directories that the program needs.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use harn_system::{Protected, SystemExt};
use harn_vm::{Cx, Result};

use crate::failures;

/// Resolves a path against the working directory, with `.` and `..` resolved lexically.
pub(crate) fn resolve(cx: &Cx, path: &str) -> PathBuf {
    let dir = if Path::new(path).is_absolute() { String::new() } else { show(&cx.system().work_dir()) };
    // Without a working directory, a path stays relative, and no operation finds it.
    let text = if dir.is_empty() { path.to_owned() } else { format!("{dir}/{path}") };
    // `//server/share` on Windows begins with a slash that `normalize` would remove.
    if cfg!(windows) && text.starts_with("//") {
        return PathBuf::from(format!("/{}", normalize(&text)));
    }
    from_text(&normalize(&text))
}

/// Returns the path of a file to write.
///
/// # Errors
/// `NAME: refuses PATH: it holds PLACE`; an error for a path with a trailing slash, which is not a file.
pub(crate) fn target(cx: &Cx, builtin: &str, path: &str) -> Result<PathBuf> {
    spared(cx, builtin, no_directory(cx, path)?)
}

/// Resolves a path, and rejects a trailing slash unless the path is a directory.
pub(crate) fn no_directory(cx: &Cx, path: &str) -> Result<PathBuf> {
    let resolved = resolve(cx, path);
    if path.ends_with('/') && !cx.vm().system().is_dir(&resolved) {
        let reason = io::Error::from(io::ErrorKind::NotADirectory);
        let text = || format!("Failed to write file {path}: {reason}");
        return Err(failures::of_io(cx, &reason, Some(Path::new(path)), text));
    }
    Ok(resolved)
}

/// Checks that a resolved path may be removed, moved or replaced: it contains no directory that the program needs.
///
/// # Errors
/// `NAME: refuses PATH: it holds PLACE`
pub(crate) fn spared(cx: &Cx, builtin: &str, path: PathBuf) -> Result<PathBuf> {
    // Without a working directory, `..` cannot be resolved, so the content of the path is unknown.
    if !path.is_absolute() {
        let reason = io::Error::from(io::ErrorKind::NotFound);
        let text = || format!("{builtin}: there is no working directory to look for {} in", show(&path));
        return Err(failures::of_io(cx, &reason, Some(&path), text));
    }
    // Only a directory can contain one of them. Most paths are files or do not exist.
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

/// The first of 128 private use characters that represent bytes from 0x80 in names that are not valid UTF-8.
#[cfg(unix)]
const BYTE_CHARACTERS: u32 = 0xf780;

/// Converts a name to text. A byte that is not valid UTF-8 becomes a private use character, which [`from_text`]
/// converts back. A character of this range in the name is treated as three such bytes, so different names have
/// different texts.
#[cfg(unix)]
fn to_text(path: &Path) -> Cow<'_, str> {
    use std::os::unix::ffi::OsStrExt;

    let stands_for_byte = |c: char| (BYTE_CHARACTERS..BYTE_CHARACTERS + 128).contains(&u32::from(c));
    if let Some(text) = path.to_str().filter(|text| !text.contains(stands_for_byte)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let escape = |byte: u8, out: &mut String| {
        out.extend(char::from_u32(BYTE_CHARACTERS + u32::from(byte) - 0x80));
    };
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if stands_for_byte(c) {
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| escape(byte, &mut out));
            } else {
                out.push(c);
            }
        }
        chunk.invalid().iter().for_each(|byte| escape(*byte, &mut out));
    }
    Cow::Owned(out)
}

#[cfg(not(unix))]
fn to_text(path: &Path) -> Cow<'_, str> {
    path.to_string_lossy()
}

/// Converts text from [`show`] to a path.
#[cfg(unix)]
fn from_text(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;

    let byte =
        |c: char| u32::from(c).checked_sub(BYTE_CHARACTERS).filter(|n| *n < 128).map(|n| 0x80 + n as u8);
    if !text.contains(|c| byte(c).is_some()) {
        return PathBuf::from(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match byte(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(not(unix))]
fn from_text(text: &str) -> PathBuf {
    PathBuf::from(text)
}

/// Converts a path to text with `/` as separator.
pub(crate) fn show(path: &Path) -> String {
    let text = to_text(path);
    // Paths with the prefix `\\?\` do not support `/`.
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

/// Normalizes a path: `/` as separator, without `.`, repeated and trailing slashes, and without `..` where possible.
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
