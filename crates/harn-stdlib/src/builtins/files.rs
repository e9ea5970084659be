//! Files and directories. Relative paths are taken from the working directory of the run, not from
//! the directory of the script; messages name the resolved path.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use globset::GlobBuilder;
use harn_system::Protected;
use harn_system::real::files::{self as disk, MoveError};
use harn_value::{Dict, Str, Value};
use harn_vm::{Cx, Error, Result, builtins};
use rustc_hash::FxHashSet;

use super::paths;
use crate::args::{Given, MaybePath, MaybeText, PathArg};

builtins! {
    /// Files and directories.
    pub(crate) static FILES: "files";

    /// Reads a file as UTF-8 text.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_read_file.txt")
    /// write_file(p, "hello")
    /// println(read_file(p)) // -> hello
    /// delete_file(p)
    /// ```
    Fs fn read_file(cx, path: PathArg) -> "string" {
        read_text(cx, &path).map_err(Error::thrown)?
    }

    /// Reads a file as UTF-8 text, as `Ok(text)` or `Err(message)`; never throws.
    ///
    /// ```harn
    /// println(is_err(read_file_result("/no/such/file"))) // -> true
    /// ```
    Fs fn read_file_result(cx, path: Str) -> "Result" {
        let text = if path.is_empty() {
            Err("read_file_result: path is empty".to_owned())
        } else {
            read_text(cx, &path)
        };
        match text {
            Ok(text) => Value::ok(text.into()),
            Err(message) => Value::err(message.into()),
        }
    }

    /// Reads a file as bytes.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_read_file_bytes.bin")
    /// write_file(p, "hi")
    /// println(read_file_bytes(p)) // -> b"6869"
    /// delete_file(p)
    /// ```
    Fs fn read_file_bytes(cx, path: PathArg) -> "bytes" {
        let path = resolve(cx, &path);
        Value::bytes(cx.host().read_file(&path).map_err(|e| failed("Failed to read file", &path, &e))?)
    }

    /// Lists the lines of a file without their ends.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_read_lines.txt")
    /// write_file(p, "a\nb\n")
    /// println(read_lines(p)) // -> [a, b]
    /// delete_file(p)
    /// ```
    Fs fn read_lines(cx, path: PathArg) -> "list" {
        let path = resolve(cx, &path);
        let text = read_utf8(cx, &path).map_err(|e| failed("read_lines:", &path, &e))?;
        text.lines().map(Value::str).collect::<Vec<_>>()
    }

    /// Replaces a file by text, creating the file; its directory must exist.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_write_file.txt")
    /// write_file(p, 42)
    /// println(read_file(p)) // -> 42
    /// delete_file(p)
    /// ```
    Fs fn write_file(cx, path: PathArg, content: MaybeText) -> "nil" {
        if let Some(content) = content.0 {
            let path = target(cx, "write_file", &path)?;
            let written = cx.host().write_file(&path, content.as_bytes());
            written.map_err(|e| failed("Failed to write file", &path, &e))?;
        }
    }

    /// Replaces a file by bytes, creating the file; its directory must exist.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_write_file_bytes.bin")
    /// write_file_bytes(p, bytes_from_hex("6869"))
    /// println(read_file(p)) // -> hi
    /// delete_file(p)
    /// ```
    Fs fn write_file_bytes(cx, path: PathArg, content: Given) -> "nil" {
        if let Some(content) = content.0 {
            let Some(bytes) = content.as_bytes() else {
                let text = format!("write_file_bytes expects bytes content, got {}", content.type_name());
                return Err(Error::thrown(text));
            };
            let path = target(cx, "write_file_bytes", &path)?;
            let written = cx.host().write_file(&path, bytes);
            written.map_err(|e| failed("Failed to write file", &path, &e))?;
        }
    }

    /// Adds text at the end of a file, creating the file.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_append_file.txt")
    /// append_file(p, "a")
    /// append_file(p, "b")
    /// println(read_file(p)) // -> ab
    /// delete_file(p)
    /// ```
    Fs fn append_file(cx, path: PathArg, content: MaybeText) -> "nil" {
        if let Some(content) = content.0 {
            let path = target(cx, "append_file", &path)?;
            let mut file =
                disk::open_to_append(&path).map_err(|e| failed("Failed to open file", &path, &e))?;
            let written = disk::append_to(&mut file, content.as_bytes());
            written.map_err(|e| failed("Failed to append to file", &path, &e))?;
        }
    }

    /// Copies a file with its permissions.
    ///
    /// The target is replaced as a whole or stays as it was; a file is not copied onto itself.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_copy_file.txt")
    /// write_file(p, "x")
    /// copy_file(p, p + "2")
    /// println(read_file(p + "2")) // -> x
    /// delete_file(p)
    /// delete_file(p + "2")
    /// ```
    Fs fn copy_file(cx, from: PathArg, to: MaybePath) -> "nil" {
        if let Some(to) = to.0 {
            let (from, to) = (resolve(cx, &from), target(cx, "copy_file", &to)?);
            disk::copy(&from, &to).map_err(|error| {
                Error::thrown(format!("Failed to copy {} to {}: {error}", show(&from), show(&to)))
            })?;
        }
    }

    /// Moves a file or directory, also to another file system.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_move_file.txt")
    /// write_file(p, "x")
    /// move_file(p, p + "2")
    /// println([file_exists(p), file_exists(p + "2")]) // -> [false, true]
    /// delete_file(p + "2")
    /// ```
    Fs fn move_file(cx, from: MaybePath, to: MaybePath) -> "nil" {
        let (Some(from), Some(to)) = (from.0, to.0) else {
            return Err(Error::thrown("move_file: src and dst are required"));
        };
        let source = spared(cx, "move_file", resolve(cx, &from))?;
        // A directory may be given its new name with a closing slash, a file not.
        let goal = if source.is_dir() { resolve(cx, &to) } else { no_directory(cx, &to)? };
        disk::rename(&source, &spared(cx, "move_file", goal)?).map_err(|error| {
            Error::thrown(match error {
                MoveError::NotMoved(reason) => format!("move_file: copy failed: {reason}"),
                MoveError::NotRemoved(reason) => format!("move_file: remove src failed: {reason}"),
            })
        })?;
    }

    /// Deletes a file, a link, or a directory with everything in it.
    ///
    /// What is or holds the working directory, the project's root, the home folder or the root of the file
    /// system is refused, here and wherever something is moved or replaced.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_delete_file.txt")
    /// write_file(p, "x")
    /// delete_file(p)
    /// println(file_exists(p)) // -> false
    /// ```
    Fs fn delete_file(cx, path: PathArg) -> "nil" {
        let path = spared(cx, "delete_file", resolve(cx, &path))?;
        let is_dir = path.symlink_metadata().is_ok_and(|facts| facts.is_dir());
        let what = if is_dir { "Failed to delete directory" } else { "Failed to delete file" };
        disk::remove(&path).map_err(|e| failed(what, &path, &e))?;
    }

    /// Says whether there is a file or directory at a path.
    ///
    /// ```harn
    /// println([file_exists(temp_dir()), file_exists("/no/such/file")]) // -> [true, false]
    /// ```
    Fs fn file_exists(cx, path: PathArg) -> "bool" {
        resolve(cx, &path).exists()
    }

    /// Makes a directory and its parents; one that exists is fine.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_mkdir", "a")
    /// mkdir(p)
    /// println(stat(p).is_dir) // -> true
    /// delete_file(dirname(p))
    /// ```
    Fs fn mkdir(cx, path: PathArg) -> "nil" {
        let path = resolve(cx, &path);
        std::fs::create_dir_all(&path).map_err(|e| failed("Failed to create directory", &path, &e))?;
    }

    /// Lists the names in a directory, hidden ones too, sorted.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_list_dir")
    /// mkdir(path_join(p, "b"))
    /// write_file(path_join(p, "a.txt"), "")
    /// println(list_dir(p)) // -> [a.txt, b]
    /// delete_file(p)
    /// ```
    Fs fn list_dir(cx, path: PathArg = ".") -> "list" {
        let path = resolve(cx, &path);
        let names = sorted_names(&path).map_err(|e| failed("Failed to list directory", &path, &e))?;
        names.into_iter().map(Value::from).collect::<Vec<_>>()
    }

    /// Gives facts about a file: `{size, is_file, is_dir, readonly, modified}`.
    ///
    /// `modified` is in seconds since 1970.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_stat.txt")
    /// write_file(p, "abc")
    /// println([stat(p).size, stat(p).is_file]) // -> [3, true]
    /// delete_file(p)
    /// ```
    Fs fn stat(cx, path: PathArg) -> "dict" {
        let path = resolve(cx, &path);
        let facts = path.metadata().map_err(|e| failed("Failed to stat", &path, &e))?;
        let modified = facts.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let mut dict = Dict::new();
        dict.insert("size", facts.len() as i64);
        dict.insert("is_file", facts.is_file());
        dict.insert("is_dir", facts.is_dir());
        dict.insert("readonly", facts.permissions().readonly());
        dict.insert("modified", modified.map_or(0.0, |time| time.as_secs_f64()));
        dict
    }

    /// Gives the system's directory for temporary files.
    ///
    /// ```harn
    /// println(file_exists(temp_dir())) // -> true
    /// ```
    Env fn temp_dir(cx) -> "string" {
        show(&std::env::temp_dir())
    }

    /// Lists a directory and everything below it: dicts `{path, is_dir, is_file, depth}`.
    ///
    /// Options are `max_depth` and `follow_symlinks` (false). The directory itself has depth 0; when it
    /// is missing the list is empty.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_walk_dir")
    /// mkdir(path_join(p, "a"))
    /// println(walk_dir(p).map({ e -> e.depth })) // -> [0, 1]
    /// delete_file(p)
    /// ```
    Fs fn walk_dir(cx, root: MaybePath, options: Value) -> "list" {
        let Some(root) = root.0 else {
            return Err(Error::thrown("walk_dir: root path is required"));
        };
        let options = options.to_dict();
        let option = |name: &str| options.as_ref().and_then(|o| o.get_str(name)).cloned().unwrap_or_default();
        let walk = Walk {
            max_depth: option("max_depth").as_int().map_or(usize::MAX, crate::args::size),
            follow: option("follow_symlinks").truthy(),
        };
        let mut found = Vec::new();
        walk.visit(&resolve(cx, &root), 0, &mut FxHashSet::default(), &mut found);
        found.into_iter().map(Entry::into_value).collect::<Vec<_>>()
    }

    /// Lists the absolute paths below a directory that match a pattern, sorted.
    ///
    /// `*` and `?` stay inside one directory, `**/` matches any depth, `[..]` and `{a,b}` work. Hidden
    /// files are included.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_glob")
    /// mkdir(p)
    /// write_file(path_join(p, "a.txt"), "")
    /// write_file(path_join(p, "b.md"), "")
    /// println(glob("*.txt", p).map(basename)) // -> [a.txt]
    /// delete_file(p)
    /// ```
    Fs fn glob(cx, pattern: MaybeText, base: Given) -> "list" {
        let Some(pattern) = pattern.0 else {
            return Err(Error::thrown("glob: pattern is required"));
        };
        let base = base.or_nil();
        let base = match base.to_dict() {
            Some(options) => options.get_str("base").cloned().unwrap_or_default(),
            None => base,
        };
        let base = match base.as_str() {
            Some(base) => PathArg::checked("glob", base.clone())?,
            None if base.is_nil() => ".".into(),
            None => return Err(Error::type_error(format!("glob: base must be string, got {}", base.type_name()))),
        };
        let base = resolve(cx, &base);
        let matcher = GlobBuilder::new(&pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| Error::thrown(format!("glob: {error}")))?
            .compile_matcher();
        let mut found = Vec::new();
        Walk { max_depth: usize::MAX, follow: false }.visit(&base, 0, &mut FxHashSet::default(), &mut found);
        let mut paths: Vec<String> = found
            .into_iter()
            .filter(|entry| entry.path.strip_prefix(&base).is_ok_and(|p| p != Path::new("") && matcher.is_match(p)))
            .map(|entry| show(&entry.path))
            .collect();
        paths.sort();
        paths.into_iter().map(Value::from).collect::<Vec<_>>()
    }
}

/// A path as the operating system gets it: absolute, with `.` and `..` resolved as text.
pub(crate) fn resolve(cx: &Cx, path: &str) -> PathBuf {
    let path = Path::new(path);
    let path = if path.is_absolute() { path.to_owned() } else { cx.host().cwd().join(path) };
    PathBuf::from(paths::normalize(&show(&path)))
}

/// The path that something is about to be written to.
///
/// # Errors
/// `NAME: refuses PATH: it holds PLACE`; an error for a path with a closing slash, which is no file.
pub(crate) fn target(cx: &Cx, builtin: &str, path: &str) -> Result<PathBuf> {
    spared(cx, builtin, no_directory(cx, path)?)
}

/// A resolved path without the closing slash that makes it a directory's.
fn no_directory(cx: &Cx, path: &str) -> Result<PathBuf> {
    let resolved = resolve(cx, path);
    if path.ends_with('/') && !resolved.is_dir() {
        let reason = io::Error::from(io::ErrorKind::NotADirectory);
        return Err(failed("Failed to write file", Path::new(path), &reason));
    }
    Ok(resolved)
}

/// A resolved path that may be removed, moved or replaced: it holds none of the places that a program
/// stands on.
///
/// # Errors
/// `NAME: refuses PATH: it holds PLACE`
pub(crate) fn spared(cx: &Cx, builtin: &str, path: PathBuf) -> Result<PathBuf> {
    let project_at =
        |dir: &Path| dir.ancestors().find(|dir| dir.join("harn.toml").is_file()).map(Path::to_owned);
    let cwd = cx.host().cwd();
    let mut places = Protected::default();
    for project in [project_at(&cwd), project_at(&resolve(cx, &show(&cx.caller_dir())))] {
        if let Some(project) = project {
            places = places.and("the project's root", project);
        }
    }
    if let Some(home) = cx.host().env("HOME").filter(|home| home.starts_with('/')) {
        places = places.and("the home folder", home);
    }
    match places.first("the working directory", cwd).held_by(&path) {
        Some(place) => Err(Error::thrown(format!("{builtin}: refuses {}: it holds {place}", show(&path)))),
        None => Ok(path),
    }
}

/// A path as text, with `/`.
pub(crate) fn show(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::thrown(format!("{what} {}: {error}", show(path)))
}

fn read_utf8(cx: &Cx, path: &Path) -> io::Result<String> {
    let bytes = cx.host().read_file(path)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

/// The text of a file, or the message that `read_file` throws.
fn read_text(cx: &Cx, path: &str) -> std::result::Result<String, String> {
    let path = resolve(cx, path);
    read_utf8(cx, &path).map_err(|error| format!("Failed to read file {}: {error}", show(&path)))
}

fn sorted_names(path: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<String> = disk::names(path)?.iter().map(|name| show(name)).collect();
    names.sort();
    Ok(names)
}

struct Walk {
    max_depth: usize,
    follow: bool,
}

struct Entry {
    path: PathBuf,
    is_dir: bool,
    is_file: bool,
    depth: usize,
}

impl Entry {
    fn into_value(self) -> Value {
        let mut dict = Dict::new();
        dict.insert("path", show(&self.path));
        dict.insert("is_dir", self.is_dir);
        dict.insert("is_file", self.is_file);
        dict.insert("depth", self.depth);
        dict.into()
    }
}

impl Walk {
    /// Adds `path` and everything below it, names in order. What cannot be read is left out. A directory
    /// that was entered before is not entered through a link: links can multiply paths without end.
    fn visit(&self, path: &Path, depth: usize, entered: &mut FxHashSet<(u64, u64)>, found: &mut Vec<Entry>) {
        let Ok(own) = path.symlink_metadata() else { return };
        let facts =
            if (self.follow || depth == 0) && own.is_symlink() { path.metadata() } else { Ok(own.clone()) };
        let Ok(facts) = facts else { return };
        found.push(Entry { path: path.to_owned(), is_dir: facts.is_dir(), is_file: facts.is_file(), depth });
        if !facts.is_dir() || depth >= self.max_depth {
            return;
        }
        if !entered.insert((facts.dev(), facts.ino())) && own.is_symlink() {
            return;
        }
        for name in sorted_names(path).unwrap_or_default() {
            self.visit(&path.join(name), depth + 1, entered, found);
        }
    }
}
