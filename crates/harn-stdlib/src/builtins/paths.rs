//! Functions on path strings; only the two workspace functions access the file system.

use harn_system::SystemExt;
use harn_value::{Dict, Value};
use harn_vm::builtin::{Rest, Text};
use harn_vm::{Cx, builtins};

use crate::args::{MaybeText, printed};
use crate::places::{is_drive, normalize, resolve, segments, show};

builtins! {
    /// Paths.
    pub(crate) static PATHS: "paths";

    /// Joins parts with one `/`; an absolute part discards everything before it.
    ///
    /// ```harn
    /// println([path_join("a", "b.txt"), path_join("a/", "/etc"), path_join()]) // -> [a/b.txt, /etc, ]
    /// ```
    Pure fn path_join(cx, parts: Rest as "string") -> "string" {
        let mut out = String::new();
        for part in &parts.0 {
            let part = printed(part);
            let drive = cfg!(windows) && part.get(..2).is_some_and(is_drive);
            if part.starts_with('/') || drive {
                out.clear();
            } else if !out.is_empty() && !out.ends_with('/') {
                out.push('/');
            }
            out.push_str(&part);
        }
        out
    }

    /// Returns the directory part.
    ///
    /// ```harn
    /// println([dirname("/usr/bin/x"), dirname("/a"), dirname("a")]) // -> [/usr/bin, /, ]
    /// ```
    Pure fn dirname(cx, path: Text as "string") -> "string" {
        let path = trimmed(&path);
        match path.rfind('/') {
            Some(0) if path.len() > 1 => "/",
            Some(0) | None => "",
            Some(at) => trimmed(&path[..at]),
        }
    }

    /// Returns the last component.
    ///
    /// ```harn
    /// println([basename("/a/b.txt"), basename("/a/b/"), basename("/")]) // -> [b.txt, b, ]
    /// ```
    Pure fn basename(cx, path: Text as "string") -> "string" {
        file_name(&path)
    }

    /// Returns the last extension with its dot.
    ///
    /// ```harn
    /// println([extname("a.tar.gz"), extname(".bashrc"), extname("a.")]) // -> [.gz, , .]
    /// ```
    Pure fn extname(cx, path: Text as "string") -> "string" {
        let name = file_name(&path);
        &name[split_name(name).0.len()..]
    }

    /// Returns the directory part; `\` is treated as `/`.
    ///
    /// ```harn
    /// println([path_parent("a/b"), path_parent("a"), path_parent("/a")]) // -> [a, , /]
    /// ```
    Pure fn path_parent(cx, path: Text as "string") -> "string" {
        parent(&posix(&path))
    }

    /// Returns the last component; `\` is treated as `/`.
    ///
    /// ```harn
    /// println(path_basename("C:\\a\\b.txt")) // -> b.txt
    /// ```
    Pure fn path_basename(cx, path: Text as "string") -> "string" {
        file_name(&posix(&path)).to_owned()
    }

    /// Returns the last component without its last extension.
    ///
    /// ```harn
    /// println([path_stem("a.tar.gz"), path_stem(".bashrc")]) // -> [a.tar, .bashrc]
    /// ```
    Pure fn path_stem(cx, path: Text as "string") -> "string" {
        split_name(file_name(&posix(&path))).0.to_owned()
    }

    /// Returns the last extension with its dot; `\` is treated as `/`.
    ///
    /// ```harn
    /// println([path_extension("x/a.gz"), path_extension(".bashrc")]) // -> [.gz, ]
    /// ```
    Pure fn path_extension(cx, path: Text as "string") -> "string" {
        split_name(file_name(&posix(&path))).1.to_owned()
    }

    /// Replaces the last extension; an empty one removes it.
    ///
    /// ```harn
    /// println([path_with_extension("a/b.md", "txt"), path_with_extension("a.md", "")]) // -> [a/b.txt, a]
    /// ```
    Pure fn path_with_extension(cx, path: Text as "string", extension: Text as "string") -> "string" {
        let path = posix(&path);
        let stem = split_name(file_name(&path)).0;
        let extension = extension.strip_prefix('.').unwrap_or(&extension);
        let name = if extension.is_empty() { stem.to_owned() } else { format!("{stem}.{extension}") };
        with_name(&path, &name)
    }

    /// Replaces the last component except its extension.
    ///
    /// ```harn
    /// println(path_with_stem("a/b.md", "c")) // -> a/c.md
    /// ```
    Pure fn path_with_stem(cx, path: Text as "string", stem: Text as "string") -> "string" {
        let path = posix(&path);
        let name = format!("{}{}", &*stem, split_name(file_name(&path)).1);
        with_name(&path, &name)
    }

    /// Returns whether a path is absolute: `/x` or `C:/x`.
    ///
    /// ```harn
    /// println([path_is_absolute("/a"), path_is_absolute("C:\\a"), path_is_absolute("C:a")]) // -> [true, true, false]
    /// ```
    Pure fn path_is_absolute(cx, path: Text as "string") -> "bool" {
        is_absolute(&posix(&path))
    }

    /// Returns whether a path is not absolute.
    ///
    /// ```harn
    /// println(path_is_relative("a/b")) // -> true
    /// ```
    Pure fn path_is_relative(cx, path: Text as "string") -> "bool" {
        !is_absolute(&posix(&path))
    }

    /// Resolves `.` and `..`, and removes repeated and trailing `/`.
    ///
    /// ```harn
    /// println([path_normalize("a/./b/../c/"), path_normalize("/../a"), path_normalize("a/..")]) // -> [a/c, /a, .]
    /// ```
    Pure fn path_normalize(cx, path: Text as "string") -> "string" {
        normalize(&posix(&path))
    }

    /// Returns the path relative to `base`, or nil if only one of the two is absolute.
    ///
    /// The result is also nil if `base` has more leading `..` than the path, because the name of the directory to
    /// descend into is unknown. `path_join(cwd(), path)` makes a path absolute.
    ///
    /// ```harn
    /// println([path_relative_to("/a/b/c", "/a/d"), path_relative_to("a", "a"), path_relative_to("/a", "b")]) // -> [../b/c, ., nil]
    /// ```
    Pure fn path_relative_to(cx, path: Text as "string", base: Text as "string") -> "string | nil" {
        relative_to(&normalize(&posix(&path)), &normalize(&posix(&base)))
    }

    /// Replaces `\` by `/`.
    ///
    /// ```harn
    /// println(path_to_posix("a\\b")) // -> a/b
    /// ```
    Pure fn path_to_posix(cx, path: Text as "string") -> "string" {
        posix(&path)
    }

    /// Replaces `\` by `/`, which every supported system understands.
    ///
    /// ```harn
    /// println(path_to_native("a\\b")) // -> a/b
    /// ```
    Pure fn path_to_native(cx, path: Text as "string") -> "string" {
        posix(&path)
    }

    /// Lists the components.
    ///
    /// ```harn
    /// println(path_segments("/a//b/")) // -> [a, b]
    /// ```
    Pure fn path_segments(cx, path: Text as "string") -> "list" {
        segments(&posix(&path)).map(Value::str).collect::<Vec<_>>()
    }

    /// Splits a path into its parts: `{dir, file, stem, ext, segments}`.
    ///
    /// ```harn
    /// println(path_parts("/a/b.txt")) // -> {dir: /a, ext: .txt, file: b.txt, segments: [a, b.txt], stem: b}
    /// ```
    Pure fn path_parts(cx, path: Text as "string") -> "dict" {
        let path = posix(&path);
        let file = file_name(&path);
        let (stem, ext) = split_name(file);
        let mut dict = Dict::new();
        dict.insert("dir", parent(&path));
        dict.insert("file", file);
        dict.insert("stem", stem);
        dict.insert("ext", ext);
        dict.insert("segments", segments(&path).map(Value::str).collect::<Vec<_>>());
        dict
    }

    /// Returns the relation of a path to the workspace.
    ///
    /// The result is `{input, kind, normalized, workspace_path, host_path, recovered_root_drift, reason}` with
    /// the kinds `workspace_relative`, `host_absolute` and `invalid`.
    ///
    /// ```harn
    /// println(path_workspace_info("../x", "/w").reason) // -> workspace-relative path escapes the workspace root
    /// println(path_workspace_info("/w/a/./b", "/w").workspace_path) // -> a/b
    /// ```
    Fs fn path_workspace_info(cx, path: Text as "string", root: MaybeText as "string?") -> "dict" {
        workspace_info(cx, &path, root)
    }

    /// Returns a path relative to the workspace, or nil if it is outside of the workspace.
    ///
    /// ```harn
    /// println([path_workspace_normalize("a/../b", "/w"), path_workspace_normalize("/etc", "/w")]) // -> [b, nil]
    /// ```
    Fs fn path_workspace_normalize(cx, path: Text as "string", root: MaybeText as "string?") -> "string | nil" {
        workspace_info(cx, &path, root).get_str("workspace_path").cloned()
    }
}

fn posix(path: &str) -> String {
    path.replace('\\', "/")
}

/// Removes trailing slashes, except from `/`.
fn trimmed(path: &str) -> &str {
    let kept = path.trim_end_matches('/');
    if kept.is_empty() && !path.is_empty() { "/" } else { kept }
}

fn file_name(path: &str) -> &str {
    let path = trimmed(path);
    path.rsplit('/').next().unwrap_or(path)
}

/// Splits a name into stem and extension with its dot; a leading dot does not start an extension.
fn split_name(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(at) if at > 0 => name.split_at(at),
        _ => (name, ""),
    }
}

fn parent(path: &str) -> String {
    let path = trimmed(path);
    match path.rfind('/') {
        Some(0) => "/".to_owned(),
        Some(at) if is_drive(&path[..at]) => path[..=at].to_owned(),
        Some(at) => trimmed(&path[..at]).to_owned(),
        None => String::new(),
    }
}

fn with_name(path: &str, name: &str) -> String {
    let parent = parent(path);
    match parent.as_str() {
        "" => name.to_owned(),
        _ if parent.ends_with('/') => parent + name,
        _ => format!("{parent}/{name}"),
    }
}

fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || (path.get(..2).is_some_and(is_drive) && path[2..].starts_with('/'))
}

/// Returns the relative path between two normalized paths.
fn relative_to(path: &str, base: &str) -> Option<String> {
    if is_absolute(path) != is_absolute(base) {
        return None;
    }
    let parts = |path| segments(path).filter(|part| *part != ".").collect::<Vec<_>>();
    let (path, base) = (parts(path), parts(base));
    let common = path.iter().zip(&base).take_while(|(a, b)| a == b).count();
    // The name of the directory below such a `..` is known only to the file system.
    if base[common..].contains(&"..") {
        return None;
    }
    let mut steps = vec![".."; base.len() - common];
    steps.extend_from_slice(&path[common..]);
    Some(if steps.is_empty() { ".".to_owned() } else { steps.join("/") })
}

fn workspace_info(cx: &Cx, input: &str, root: MaybeText) -> Dict {
    let root = match root.0 {
        Some(root) => show(&resolve(cx, &root)),
        None => show(&cx.system().work_dir()),
    };
    let root = normalize(&posix(&root));
    let path = normalize(&posix(input));
    let mut info = Dict::new();
    info.insert("input", input);
    let mut fill =
        |kind: &str, workspace: Option<String>, host: Option<String>, drift: bool, reason: Option<&str>| {
            info.insert("kind", kind);
            info.insert("normalized", if reason.is_none() { Some(path.as_str()) } else { None });
            info.insert("workspace_path", workspace);
            info.insert("host_path", host);
            info.insert("recovered_root_drift", drift);
            info.insert("reason", reason);
        };
    let inside = |path: &str| relative_to(path, &root).filter(|p| p != ".." && !p.starts_with("../"));
    if input.is_empty() {
        fill("invalid", None, None, false, Some("path is empty"));
    } else if input.contains('\0') {
        fill("invalid", None, None, false, Some("path contains NUL bytes"));
    } else if !is_absolute(&path) {
        if path == ".." || path.starts_with("../") {
            fill("invalid", None, None, false, Some("workspace-relative path escapes the workspace root"));
        } else {
            let host = normalize(&format!("{root}/{path}"));
            fill("workspace_relative", Some(path.clone()), Some(host), false, None);
        }
    } else if let Some(workspace) = inside(&path) {
        fill("host_absolute", Some(workspace), Some(path.clone()), false, None);
    } else if let Some((workspace, host)) = drifted(cx, &path, &root) {
        fill("workspace_relative", Some(workspace), Some(host), true, None);
    } else {
        fill("host_absolute", None, Some(path.clone()), false, None);
    }
    info
}

/// Returns the corrected form of an absolute path that does not exist, if the path without its leading `/`, or the
/// parent of that path, exists in the root.
fn drifted(cx: &Cx, path: &str, root: &str) -> Option<(String, String)> {
    let inner = path.strip_prefix('/').filter(|inner| !inner.is_empty())?;
    let host = format!("{root}/{inner}");
    let exists = |path: &str| cx.system().exists(std::path::Path::new(path));
    let parent_exists = inner.contains('/') && exists(&parent(&host));
    (!exists(path) && (exists(&host) || parent_exists)).then(|| (inner.to_owned(), host))
}
