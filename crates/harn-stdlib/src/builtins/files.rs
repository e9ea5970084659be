//! Files and directories. Relative paths are resolved against the working directory of the run, not the directory of
//! the script; messages contain the resolved path.

use std::io;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use harn_schema::options::Options;
use harn_system::SystemExt;
use harn_system::{MoveError, System};
use harn_value::{Dict, Str, Value};
use harn_vm::builtin::{OptionDict, Text};
use harn_vm::failures::Failures;
use harn_vm::iter::Iter;
use harn_vm::{Cx, Error, Result, builtins};
use rustc_hash::FxHashSet;

use crate::args::{Given, MaybePath, MaybeText, PathArg};
use crate::failures;
use crate::places::{is_drive, no_directory, resolve, show, spared, target};
use crate::text::Lines;

/// Options of `walk_dir`.
#[derive(Options)]
struct WalkOptions {
    /// Maximum depth; the entries of the directory have depth 1.
    #[option(default = usize::MAX, shown = "no limit", ty = "int", with = depth)]
    max_depth: usize,
    /// Whether links to directories are followed.
    follow_symlinks: bool,
    /// Not supported: a call returns the whole list.
    #[option(ty = "bool", with = unsupported)]
    _long_running: bool,
    /// Not supported: a call returns the whole list.
    #[option(ty = "bool", with = unsupported)]
    _background: bool,
}

fn depth(value: &Value) -> std::result::Result<usize, String> {
    let depth = value.as_int().and_then(|depth| usize::try_from(depth).ok());
    depth.ok_or_else(|| "must not be negative".to_owned())
}

fn unsupported(value: &Value) -> std::result::Result<bool, String> {
    match value.truthy() {
        true => Err("is not supported, a call gives the whole list; use spawn to go on meanwhile".to_owned()),
        false => Ok(false),
    }
}

/// Options of `glob`.
#[derive(Options)]
#[options(short = "base")]
struct GlobOptions {
    /// Base directory of a relative pattern.
    #[option(shown = ".")]
    base: Option<Str>,
}

builtins! {
    /// Files and directories.
    pub(crate) static FILES: "files";

    /// Reads a file as a UTF-8 string.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_read_file.txt")
    /// write_file(p, "hello")
    /// println(read_file(p)) // -> hello
    /// delete_file(p)
    /// ```
    Fs fn read_file(cx, path: PathArg) -> "string" {
        read_text(cx, &path)?
    }

    /// Reads a file as a UTF-8 string, as `Ok(text)` or `Err(message)`; never throws.
    ///
    /// ```harn
    /// println(is_err(read_file_result("/no/such/file"))) // -> true
    /// ```
    Fs fn read_file_result(cx, path: Str) -> "Result" {
        let text = if path.is_empty() {
            Err(Error::thrown("read_file_result: path is empty"))
        } else {
            read_text(cx, &path)
        };
        match text {
            Ok(text) => Value::ok(text.into()),
            Err(error) => {
                cx.state::<Failures>().learn(&error);
                Value::err(error.caught())
            }
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
        let bytes = read_bytes(cx, &path);
        Value::bytes(bytes.map_err(|e| failed(cx, "Failed to read file", &path, &e))?)
    }

    /// Lists the lines of a file without line endings.
    ///
    /// `file_lines` yields them one by one.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_read_lines.txt")
    /// write_file(p, "a\nb\n")
    /// println(read_lines(p)) // -> [a, b]
    /// delete_file(p)
    /// ```
    Fs fn read_lines(cx, path: PathArg) -> "list" {
        let path = resolve(cx, &path);
        let text = read_utf8(cx, &path).map_err(|e| failed(cx, "read_lines:", &path, &e))?;
        text.lines().map(Value::str).collect::<Vec<_>>()
    }

    /// Returns an iterator over the lines of a file, without line endings.
    ///
    /// The file is read immediately, and its lines are created one by one. Use it for files with too many lines for a
    /// list.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_file_lines.txt")
    /// write_file(p, "a\nbcd\n")
    /// println(file_lines(p).map({ line -> line.len() }).to_list()) // -> [1, 3]
    /// delete_file(p)
    /// ```
    Fs fn file_lines(cx, path: PathArg) -> "iter" {
        let path = resolve(cx, &path);
        let text = read_utf8(cx, &path).map_err(|e| failed(cx, "file_lines:", &path, &e))?;
        Iter::from_source(Lines::new(text)).into_value()
    }

    /// Writes a string to a file and replaces or creates the file; its directory must exist.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_write_file.txt")
    /// write_file(p, 42)
    /// println(read_file(p)) // -> 42
    /// delete_file(p)
    /// ```
    Fs fn write_file(cx, path: PathArg, content: Text) -> "nil" {
        let path = target(cx, "write_file", &path)?;
        let written = cx.system().replace(&path, content.as_bytes());
        written.map_err(|e| failed(cx, "Failed to write file", &path, &e))?;
    }

    /// Writes bytes to a file and replaces or creates the file; its directory must exist.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_write_file_bytes.bin")
    /// write_file_bytes(p, bytes_from_hex("6869"))
    /// println(read_file(p)) // -> hi
    /// delete_file(p)
    /// ```
    Fs fn write_file_bytes(cx, path: PathArg, content: Given as "bytes") -> "nil" {
        let content = content.or_nil();
        let Some(bytes) = content.as_bytes() else {
            let text = format!("write_file_bytes expects bytes content, got {}", content.type_name());
            return Err(Error::thrown(text));
        };
        let path = target(cx, "write_file_bytes", &path)?;
        let written = cx.system().replace(&path, bytes);
        written.map_err(|e| failed(cx, "Failed to write file", &path, &e))?;
    }

    /// Appends a string to a file and creates the file if it does not exist.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_append_file.txt")
    /// append_file(p, "a")
    /// append_file(p, "b")
    /// println(read_file(p)) // -> ab
    /// delete_file(p)
    /// ```
    Fs fn append_file(cx, path: PathArg, content: Text) -> "nil" {
        let path = target(cx, "append_file", &path)?;
        let opened = |e: &io::Error| !matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::WriteZero);
        cx.system().append(&path, content.as_bytes()).map_err(|e| {
            failed(cx, if opened(&e) { "Failed to open file" } else { "Failed to append to file" }, &path, &e)
        })?;
    }

    /// Copies a file with its permissions.
    ///
    /// The target is replaced atomically or stays unchanged. Copying a file onto itself is an
    /// error.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_copy_file.txt")
    /// write_file(p, "x")
    /// copy_file(p, p + "2")
    /// println(read_file(p + "2")) // -> x
    /// delete_file(p)
    /// delete_file(p + "2")
    /// ```
    Fs fn copy_file(cx, from: PathArg, to: PathArg) -> "nil" {
        let (from, to) = (resolve(cx, &from), target(cx, "copy_file", &to)?);
        cx.system().copy(&from, &to).map_err(|error| {
            let text = || format!("Failed to copy {} to {}: {error}", show(&from), show(&to));
            failures::of_io(cx, &error, Some(&from), text)
        })?;
    }

    /// Moves a file or directory, even to another file system.
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
        // The target path of a directory may end with a slash, that of a file must not.
        let goal = if cx.vm().system().is_dir(&source) { resolve(cx, &to) } else { no_directory(cx, &to)? };
        cx.system().rename(&source, &spared(cx, "move_file", goal)?).map_err(|error| {
            let (what, reason) = match error {
                MoveError::NotMoved(reason) => ("copy failed", reason),
                MoveError::NotRemoved(reason) => ("remove src failed", reason),
            };
            failures::of_io(cx, &reason, Some(&source), || format!("move_file: {what}: {reason}"))
        })?;
    }

    /// Deletes a file, a link, or a directory with its contents.
    ///
    /// Paths that are or contain the working directory, the project's root, the home directory or the root
    /// of the file system are rejected, by this function and by every move or replacement.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_delete_file.txt")
    /// write_file(p, "x")
    /// delete_file(p)
    /// println(file_exists(p)) // -> false
    /// ```
    Fs fn delete_file(cx, path: PathArg) -> "nil" {
        let path = spared(cx, "delete_file", resolve(cx, &path))?;
        let is_dir = cx.vm().system().link_facts(&path).is_ok_and(|facts| facts.is_dir());
        let what = if is_dir { "Failed to delete directory" } else { "Failed to delete file" };
        cx.system().remove(&path).map_err(|e| failed(cx, what, &path, &e))?;
    }

    /// Returns whether a file or directory exists at a path.
    ///
    /// ```harn
    /// println([file_exists(temp_dir()), file_exists("/no/such/file")]) // -> [true, false]
    /// ```
    Fs fn file_exists(cx, path: PathArg) -> "bool" {
        match cx.system().facts(&resolve(cx, &path)) {
            Ok(_) => true,
            Err(error) => cx.refusal(&error).map_or(Ok(false), Err)?,
        }
    }

    /// Creates a directory and its parents; an existing directory is not an error.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_mkdir", "a")
    /// mkdir(p)
    /// println(stat(p).is_dir) // -> true
    /// delete_file(dirname(p))
    /// ```
    Fs fn mkdir(cx, path: PathArg) -> "nil" {
        let path = resolve(cx, &path);
        cx.system().make_dirs(&path).map_err(|e| failed(cx, "Failed to create directory", &path, &e))?;
    }

    /// Lists the names in a directory, including hidden ones, sorted.
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
        let names = cx.system().names(&path).map_err(|e| failed(cx, "Failed to list directory", &path, &e))?;
        names.iter().map(|name| show(name).into()).collect::<Vec<Value>>()
    }

    /// Returns the metadata of a file: `{size, is_file, is_dir, readonly, modified}`.
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
        let facts = cx.system().facts(&path).map_err(|e| failed(cx, "Failed to stat", &path, &e))?;
        let mut dict = Dict::new();
        dict.insert("size", facts.size as i64);
        dict.insert("is_file", facts.is_file());
        dict.insert("is_dir", facts.is_dir());
        dict.insert("readonly", facts.readonly);
        dict.insert("modified", facts.modified);
        dict
    }

    /// Returns the system's directory for temporary files.
    ///
    /// ```harn
    /// println(file_exists(temp_dir())) // -> true
    /// ```
    Env fn temp_dir(cx) -> "string" {
        show(&cx.system().temp_dir())
    }

    /// Lists a directory and everything below it: dicts `{path, is_dir, is_file, depth}`.
    ///
    /// The directory itself has depth 0. If it does not exist, the list is empty.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_walk_dir")
    /// mkdir(path_join(p, "a"))
    /// println(walk_dir(p).map({ e -> e.depth })) // -> [0, 1]
    /// delete_file(p)
    /// ```
    Fs fn walk_dir(cx, root: MaybePath, options: OptionDict<WalkOptions>) -> "list" {
        let Some(root) = root.0 else {
            return Err(Error::thrown("walk_dir: root path is required"));
        };
        let WalkOptions { max_depth, follow_symlinks, .. } = options.read()?;
        let found = walk(cx, &resolve(cx, &root), max_depth, follow_symlinks)?;
        found.into_iter().map(Entry::into_value).collect::<Vec<_>>()
    }

    /// Lists the absolute paths below a directory that match a pattern, sorted.
    ///
    /// `*` and `?` do not match `/`, `**/` matches any depth, and `[..]` and `{a,b}` are supported.
    /// Hidden files are included. An absolute pattern needs no directory.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_glob")
    /// mkdir(p)
    /// write_file(path_join(p, "a.txt"), "")
    /// write_file(path_join(p, "b.md"), "")
    /// println(glob("*.txt", p).map(basename)) // -> [a.txt]
    /// delete_file(p)
    /// ```
    Fs fn glob(cx, pattern: MaybeText as "string", base: OptionDict<GlobOptions>) -> "list" {
        let Some(pattern) = pattern.0 else {
            return Err(Error::thrown("glob: pattern is required"));
        };
        if pattern.is_empty() {
            return Err(Error::thrown("glob: pattern is empty"));
        }
        let base = base.read()?.base.map_or_else(|| Ok(".".into()), |base| PathArg::checked("glob", base))?;
        // An absolute pattern determines the base: its leading directories without wildcards.
        let (base, pattern) = match absolute(&pattern) {
            Some((folder, rest)) => (resolve(cx, folder), rest),
            None => below(glob_base(cx, &base)?, &pattern),
        };
        let matcher = glob_matcher(&straight(pattern)?)?;
        let found = walk(cx, &base, usize::MAX, false)?;
        let mut paths: Vec<String> = found
            .into_iter()
            .filter(|entry| entry.path.strip_prefix(&base).is_ok_and(|p| p != Path::new("") && matcher.is_match(show(p))))
            .map(|entry| show(&entry.path))
            .collect();
        paths.sort();
        paths.into_iter().map(Value::from).collect::<Vec<_>>()
    }
}

/// Returns the base directory of a relative pattern.
fn glob_base(cx: &Cx, base: &str) -> Result<PathBuf> {
    let folder = resolve(cx, base);
    match cx.system().facts(&folder) {
        Ok(facts) if facts.is_dir() => Ok(folder),
        Ok(_) => Err(Error::thrown(format!("glob: base is no directory: {}", show(&folder)))),
        Err(error) => Err(failed(cx, "glob: cannot read base", &folder, &error)),
    }
}

/// Resolves `.` and `..` at the start of a pattern against the directory.
fn below(mut folder: PathBuf, mut pattern: &str) -> (PathBuf, &str) {
    loop {
        if let Some(rest) = pattern.strip_prefix("./") {
            pattern = rest;
        } else if let Some(rest) = pattern.strip_prefix("../") {
            folder.pop();
            pattern = rest;
        } else {
            return (folder, pattern);
        }
    }
}

/// Removes `.` and `..` from the directories of a pattern, because the matched paths contain none.
fn straight(pattern: &str) -> Result<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in pattern.split('/') {
        match part {
            "." if pattern.len() > 1 => {}
            ".." => {
                let special = |part: &&str| part.contains(['*', '?', '[', '{', '\\']);
                if parts.pop().is_none_or(|above| special(&above)) {
                    return Err(Error::thrown("glob: `..` stands behind a wildcard"));
                }
            }
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// Splits an absolute pattern into its leading directories without wildcards, and the remainder.
fn absolute(pattern: &str) -> Option<(&str, &str)> {
    let drive = cfg!(windows) && pattern.get(..2).is_some_and(is_drive) && pattern[2..].starts_with('/');
    if !pattern.starts_with('/') && !drive {
        return None;
    }
    let special = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    let slash = pattern[..special].rfind('/').unwrap_or(0);
    Some((if slash == 0 { "/" } else { &pattern[..slash] }, &pattern[slash + 1..]))
}

/// Maximum length of a pattern in bytes: a longer one cannot match a path, and the matcher cannot be built from every
/// long pattern.
const MAX_PATTERN: usize = 4096;

/// Maximum nesting depth of braces.
const MAX_BRACES: usize = 16;

fn glob_matcher(pattern: &str) -> Result<GlobMatcher> {
    let wrong = |reason: &str| Error::thrown(format!("glob: {reason}"));
    if pattern.len() > MAX_PATTERN {
        return Err(wrong(&format!(
            "the pattern has {} bytes, at most {MAX_PATTERN} are read",
            pattern.len()
        )));
    }
    let mut open = 0usize;
    for c in pattern.chars() {
        match c {
            '{' => open += 1,
            '}' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > MAX_BRACES {
            return Err(wrong(&format!("more than {MAX_BRACES} levels of braces")));
        }
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    Ok(glob.map_err(|error| wrong(&error.to_string()))?.compile_matcher())
}

fn failed(cx: &Cx, what: &str, path: &Path, error: &io::Error) -> Error {
    failures::of_io(cx, error, Some(path), || format!("{what} {}: {error}", show(path)))
}

/// Reads a file that fits into the memory limit.
fn read_bytes(cx: &Cx, path: &Path) -> io::Result<Vec<u8>> {
    cx.system().read(path, harn_value::memory::left() as u64).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("{error}, which is what the memory limit leaves (see --max-memory)"),
        ),
        _ => error,
    })
}

fn read_utf8(cx: &Cx, path: &Path) -> io::Result<String> {
    let bytes = read_bytes(cx, path)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

/// Reads a text file; returns the error that `read_file` throws.
fn read_text(cx: &Cx, path: &str) -> Result<String> {
    let path = resolve(cx, path);
    read_utf8(cx, &path).map_err(|error| failed(cx, "Failed to read file", &path, &error))
}

/// State of a directory walk.
struct Walk<'a> {
    system: &'a dyn System,
    max_depth: usize,
    follow: bool,
    /// Visited directories.
    entered: FxHashSet<(u64, u64)>,
    found: Vec<Entry>,
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

/// Returns a directory and its descendants, with names in order. Unreadable entries are omitted; a root that the policy
/// rejects is an error.
fn walk(cx: &Cx, root: &Path, max_depth: usize, follow: bool) -> Result<Vec<Entry>> {
    let system = cx.system();
    if let Some(error) = system.facts(root).err().and_then(|error| cx.refusal(&error)) {
        return Err(error);
    }
    let mut walk =
        Walk { system: &*system, max_depth, follow, entered: FxHashSet::default(), found: Vec::new() };
    walk.visit(cx, root, 0)?;
    Ok(walk.found)
}

impl Walk<'_> {
    /// Adds `path` and its descendants. A visited directory is not entered again through a link, because links can
    /// create infinitely many paths.
    fn visit(&mut self, cx: &Cx, path: &Path, depth: usize) -> Result<()> {
        let Ok(own) = self.system.link_facts(path) else { return Ok(()) };
        let through = own.is_link() && (self.follow || depth == 0);
        let Ok(facts) = (if through { self.system.facts(path) } else { Ok(own) }) else { return Ok(()) };
        let entry = Entry { path: path.to_owned(), is_dir: facts.is_dir(), is_file: facts.is_file(), depth };
        self.found.push(entry);
        if self.found.len().is_multiple_of(1024) {
            cx.check()?;
        }
        if !facts.is_dir() || depth >= self.max_depth || (!self.entered.insert(facts.identity) && through) {
            return Ok(());
        }
        for name in self.system.names(path).unwrap_or_default() {
            self.visit(cx, &path.join(&name), depth + 1)?;
        }
        Ok(())
    }
}
