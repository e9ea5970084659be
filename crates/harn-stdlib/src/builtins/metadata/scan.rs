//! Lists the entries below a directory that match a pattern, by default without hidden ones.

use std::path::{Path, PathBuf};

use harn_value::{Dict, Value};
use harn_vm::{Cx, Error, Result};

use super::hashes::unread;
use crate::places::{resolve, show};

/// The criteria of a scan.
pub(super) struct Scan {
    pattern: Pattern,
    max_depth: usize,
    hidden: bool,
    dirs: bool,
    files: bool,
}

impl Scan {
    /// Parses the pattern and the options of a call.
    ///
    /// # Errors
    /// A pattern or options are given twice, the pattern has several wildcards, or the depth is negative.
    pub(super) fn new(builtin: &str, second: &Value, third: &Value) -> Result<Scan> {
        let (own, options) = match (second.as_str(), second.to_dict(), third.to_dict()) {
            (None, Some(_), Some(_)) => {
                let text = format!("{builtin}: options stand in both arguments: put them into one dict");
                return Err(Error::runtime(text));
            }
            (own, first, second) => (own, first.or(second)),
        };
        let option = |name: &str| options.as_ref().and_then(|o| o.get_str(name)).filter(|v| !v.is_nil());
        let named = option("pattern").and_then(Value::as_str);
        if own.is_some() && named.is_some() {
            let text = format!("{builtin}: pattern is given twice, as argument and as option: leave one out");
            return Err(Error::runtime(text));
        }
        let flag = |name: &str, default: bool| option(name).map_or(default, Value::truthy);
        let max_depth = option("max_depth").and_then(Value::as_int).unwrap_or(5);
        Ok(Scan {
            pattern: Pattern::new(builtin, own.or(named).map_or("", |text| &**text))?,
            max_depth: usize::try_from(max_depth)
                .map_err(|_| Error::runtime(format!("{builtin}: max_depth must not be negative")))?,
            hidden: flag("include_hidden", false),
            dirs: flag("include_dirs", true),
            files: flag("include_files", true),
        })
    }

    /// Returns the entries below `root`, with names in order. Unreadable subdirectories are treated as empty.
    ///
    /// # Errors
    /// The root cannot be read.
    pub(super) fn entries(&self, cx: &Cx, builtin: &str, root: &Path) -> Result<Vec<Value>> {
        let system = cx.system();
        let names = system.names(root).map_err(|error| unread(cx, builtin, root, &error))?;
        let work_dir = resolve(cx, ".");
        let (mut found, mut looked_at) = (Vec::new(), 0usize);
        let mut open = Vec::new();
        self.enter(&mut open, root, names, 0);
        while let Some((path, depth)) = open.pop() {
            looked_at += 1;
            if looked_at.is_multiple_of(1024) {
                cx.check()?;
            }
            let Ok(facts) = system.link_facts(&path) else { continue };
            let shown = show(path.strip_prefix(&work_dir).unwrap_or(&path));
            let wanted = if facts.is_dir() { self.dirs } else { self.files };
            if wanted && self.pattern.fits(&shown) {
                let mut entry = Dict::new();
                entry.insert("path", shown);
                entry.insert("size", facts.size as i64);
                entry.insert("modified", facts.modified);
                entry.insert("is_dir", facts.is_dir());
                found.push(entry.into());
            }
            if facts.is_dir() && depth < self.max_depth {
                self.enter(&mut open, &path, system.names(&path).unwrap_or_default(), depth + 1);
            }
        }
        Ok(found)
    }

    /// Pushes the entries of a directory onto the stack of entries to visit.
    fn enter(&self, open: &mut Vec<(PathBuf, usize)>, dir: &Path, names: Vec<PathBuf>, depth: usize) {
        let visible = |name: &PathBuf| self.hidden || !name.as_os_str().as_encoded_bytes().starts_with(b".");
        open.extend(names.into_iter().rev().filter(visible).map(|name| (dir.join(name), depth)));
    }
}

/// Selects paths.
enum Pattern {
    /// Paths that contain a string.
    Inside(String),
    /// Paths with a prefix and a suffix.
    Around(String, String),
}

impl Pattern {
    fn new(builtin: &str, text: &str) -> Result<Pattern> {
        let Some((start, end)) = text.split_once("**").or_else(|| text.split_once('*')) else {
            return Ok(Pattern::Inside(text.to_owned()));
        };
        if start.contains('*') || end.contains('*') {
            return Err(Error::runtime(format!(
                "{builtin}: pattern takes one `*` or `**`, got {text:?}: `glob` takes such patterns"
            )));
        }
        Ok(Pattern::Around(start.to_owned(), end.to_owned()))
    }

    fn fits(&self, path: &str) -> bool {
        match self {
            Pattern::Inside(text) => path.contains(&**text),
            Pattern::Around(start, end) => {
                path.strip_prefix(&**start).is_some_and(|rest| rest.ends_with(&**end))
            }
        }
    }
}
