//! Files and directories. Relative paths are taken from the working directory of the run, not from
//! the directory of the script; messages name the resolved path.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use globset::GlobBuilder;
use harn_value::{Dict, Value};
use harn_vm::builtin::Text;
use harn_vm::{Cx, Error, builtins};

use super::paths;
use crate::args::{Given, MaybeText, printed};

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
    Fs fn read_file(cx, path: Text) -> "string" {
        read_text(cx, &path).map_err(Error::thrown)?
    }

    /// Reads a file as UTF-8 text, as `Ok(text)` or `Err(message)`; never throws.
    ///
    /// ```harn
    /// println(is_err(read_file_result("/no/such/file"))) // -> true
    /// ```
    Fs fn read_file_result(cx, path: Text) -> "Result" {
        match read_text(cx, &path) {
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
    Fs fn read_file_bytes(cx, path: Text) -> "bytes" {
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
    Fs fn read_lines(cx, path: Text) -> "list" {
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
    Fs fn write_file(cx, path: Text, content: MaybeText) -> "nil" {
        if let Some(content) = content.0 {
            let path = resolve(cx, &path);
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
    Fs fn write_file_bytes(cx, path: Text, content: Given) -> "nil" {
        if let Some(content) = content.0 {
            let Some(bytes) = content.as_bytes() else {
                let text = format!("write_file_bytes expects bytes content, got {}", content.type_name());
                return Err(Error::thrown(text));
            };
            let path = resolve(cx, &path);
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
    Fs fn append_file(cx, path: Text, content: MaybeText) -> "nil" {
        if let Some(content) = content.0 {
            let path = resolve(cx, &path);
            let mut file = std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(&path)
                .map_err(|e| failed("Failed to open file", &path, &e))?;
            let written = file.write_all(content.as_bytes());
            written.map_err(|e| failed("Failed to append to file", &path, &e))?;
        }
    }

    /// Copies a file.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_copy_file.txt")
    /// write_file(p, "x")
    /// copy_file(p, p + "2")
    /// println(read_file(p + "2")) // -> x
    /// delete_file(p)
    /// delete_file(p + "2")
    /// ```
    Fs fn copy_file(cx, from: Text, to: MaybeText) -> "nil" {
        if let Some(to) = to.0 {
            let (from, to) = (resolve(cx, &from), resolve(cx, &to));
            std::fs::copy(&from, &to).map_err(|error| {
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
    Fs fn move_file(cx, from: MaybeText, to: MaybeText) -> "nil" {
        let (Some(from), Some(to)) = (from.0, to.0) else {
            return Err(Error::thrown("move_file: src and dst are required"));
        };
        let (from, to) = (resolve(cx, &from), resolve(cx, &to));
        if std::fs::rename(&from, &to).is_err() {
            // Another file system, or a real error that the copy will meet again.
            std::fs::copy(&from, &to)
                .map_err(|error| Error::thrown(format!("move_file: copy failed: {error}")))?;
            std::fs::remove_file(&from)
                .map_err(|error| Error::thrown(format!("move_file: remove src failed: {error}")))?;
        }
    }

    /// Deletes a file, or a directory with everything in it.
    ///
    /// ```harn
    /// let p = path_join(temp_dir(), "harn_doc_delete_file.txt")
    /// write_file(p, "x")
    /// delete_file(p)
    /// println(file_exists(p)) // -> false
    /// ```
    Fs fn delete_file(cx, path: Text) -> "nil" {
        let path = resolve(cx, &path);
        let is_dir = path.symlink_metadata().is_ok_and(|m| m.is_dir());
        if is_dir {
            std::fs::remove_dir_all(&path).map_err(|e| failed("Failed to delete directory", &path, &e))?;
        } else {
            std::fs::remove_file(&path).map_err(|e| failed("Failed to delete file", &path, &e))?;
        }
    }

    /// Says whether there is a file or directory at a path.
    ///
    /// ```harn
    /// println([file_exists(temp_dir()), file_exists("/no/such/file")]) // -> [true, false]
    /// ```
    Fs fn file_exists(cx, path: Text) -> "bool" {
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
    Fs fn mkdir(cx, path: Text) -> "nil" {
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
    Fs fn list_dir(cx, path: Text = ".") -> "list" {
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
    Fs fn stat(cx, path: Text) -> "dict" {
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
    Fs fn walk_dir(cx, root: MaybeText, options: Value) -> "list" {
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
        walk.visit(&resolve(cx, &root), 0, &mut found);
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
            Some(options) => options.get_str("base").map(printed),
            None => (!base.is_nil()).then(|| printed(&base)),
        };
        let base = resolve(cx, base.as_deref().unwrap_or("."));
        let matcher = GlobBuilder::new(&pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| Error::thrown(format!("glob: {error}")))?
            .compile_matcher();
        let mut found = Vec::new();
        Walk { max_depth: usize::MAX, follow: false }.visit(&base, 0, &mut found);
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
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
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
    /// Adds `path` and everything below it, names in order. What cannot be read is left out.
    fn visit(&self, path: &Path, depth: usize, found: &mut Vec<Entry>) {
        // A chain of links that leads back to itself ends where the system refuses the path.
        let facts = if self.follow || depth == 0 { path.metadata() } else { path.symlink_metadata() };
        let Ok(facts) = facts else { return };
        found.push(Entry { path: path.to_owned(), is_dir: facts.is_dir(), is_file: facts.is_file(), depth });
        if facts.is_dir() && depth < self.max_depth {
            for name in sorted_names(path).unwrap_or_default() {
                self.visit(&path.join(name), depth + 1, found);
            }
        }
    }
}
