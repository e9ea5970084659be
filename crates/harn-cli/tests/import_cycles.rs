//! Import cycles between the files of a crate, and module maps that name every file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The existing cycles, one per line: the crate and its files. The list may only shrink. docs/architecture.md explains
/// the intended ones.
const KNOWN: &str = include_str!("import_cycles.txt");

/// Returns the directories of the crates.
pub(crate) fn crates() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found: Vec<_> = std::fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.join("src").is_dir());
    found.sort();
    found
}

/// A file's path in the module tree, such as `["wire", "reader"]`; empty for the root of the crate.
type Module = Vec<String>;

/// Returns all files of a crate, without comments and unit tests.
fn modules(src: &Path) -> BTreeMap<Module, String> {
    let mut found = BTreeMap::new();
    let mut directories = vec![src.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(src).unwrap().with_extension("");
                let mut module: Module =
                    inside.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
                if matches!(module.last().map(String::as_str), Some("lib" | "main" | "mod")) {
                    module.pop();
                }
                found.insert(module, without_tests(&std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

/// Removes comments and the unit tests at the end of a source.
fn without_tests(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..end].lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the paths of `a::{b, c::d as e}` with the name that each one introduces: `a::b` as `b`, `a::c::d` as `e`. A
/// glob is a path that ends with `*`.
fn branches(text: &str) -> Vec<(Module, String)> {
    let mut path = Vec::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            let mut out = Vec::new();
            for item in items_of_group(group) {
                for (branch, name) in branches(item) {
                    // `a::{self}` is `a`.
                    let branch = if branch == ["self"] { Vec::new() } else { branch };
                    let name = if name == "self" { path.last().cloned().unwrap_or_default() } else { name };
                    out.push(([path.clone(), branch].concat(), name));
                }
            }
            return out;
        }
        if rest.starts_with('*') {
            path.push("*".to_owned());
            return vec![(path, "*".to_owned())];
        }
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        if end > 0 {
            path.push(rest[..end].to_owned());
        }
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(next) if !next.starts_with('<') => rest = next,
            _ => break,
        }
    }
    let renamed =
        rest.trim_start().strip_prefix("as ").map(|name| name.split(|c| !is_word(c)).next().unwrap());
    let name = renamed.map(str::to_owned).or_else(|| path.last().cloned()).unwrap_or_default();
    vec![(path, name)]
}

/// Returns the items between the braces of a group. `text` starts after the opening brace.
fn items_of_group(text: &str) -> Vec<&str> {
    let (mut items, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                let item = text[start..at].trim();
                items.extend((!item.is_empty()).then_some(item));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    items
}

/// The files of a crate, and their re-exports.
struct Crate {
    files: BTreeMap<Module, String>,
    /// Re-exports of a file: the name (`*` for globs) and the path it refers to.
    exports: BTreeMap<Module, Vec<(String, Module)>>,
}

impl Crate {
    fn read(src: &Path) -> Crate {
        let files = modules(src);
        let mut read = Crate { exports: BTreeMap::new(), files };
        for (module, text) in &read.files {
            let mut exports = Vec::new();
            for (statement, _) in uses(text).into_iter().filter(|(_, exported)| *exported) {
                for (path, name) in branches(statement) {
                    exports.extend(read.absolute(module, &path).map(|path| (name, path)));
                }
            }
            read.exports.insert(module.clone(), exports);
        }
        read
    }

    /// Resolves a path in a file to one from the root of the crate; `None` for a path to another crate.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let mut base = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => module.clone(),
            child => {
                let below = [module.as_slice(), &[child.to_owned()]].concat();
                return self.files.contains_key(&below).then(|| [module.as_slice(), path].concat());
            }
        };
        let mut rest = path;
        while let Some((first, behind)) = rest.split_first() {
            match first.as_str() {
                "crate" | "self" => {}
                "super" => drop(base.pop()),
                _ => break,
            }
            rest = behind;
        }
        Some([base.as_slice(), rest].concat())
    }

    /// Returns the file that defines the item with a path from the root; `None` if no file of the crate does.
    fn definer(&self, path: &[String], depth: usize) -> Option<Module> {
        let mut at = path.len();
        while at > 0 && !self.files.contains_key(&path[..at]) {
            at -= 1;
        }
        let (module, rest) = (path[..at].to_vec(), &path[at..]);
        let text = self.files.get(&module)?;
        let Some(name) = rest.first().filter(|name| *name != "*") else {
            return Some(module);
        };
        if defines(text, name) || depth > 8 {
            return Some(module);
        }
        let exports = &self.exports[&module];
        let named = exports.iter().find(|(exported, _)| exported == name);
        if let Some((_, target)) = named {
            return self.definer(&[target.as_slice(), &rest[1..]].concat(), depth + 1);
        }
        let mut globs = exports.iter().filter(|(exported, _)| exported == "*");
        let found = globs.find_map(|(_, target)| {
            let inner = [&target[..target.len() - 1], rest].concat();
            self.definer(&inner, depth + 1).filter(|found| defines(&self.files[found], name))
        });
        // Items that macros define are not found in the source; those of the root are macros themselves.
        found.or_else(|| (!module.is_empty()).then_some(module))
    }

    /// Returns the files that a file uses. A re-export is not a use: a user of the item uses the file that defines it.
    fn used(&self, module: &Module) -> BTreeSet<Module> {
        let text = &self.files[module];
        let mut paths: Vec<Module> = Vec::new();
        let statements = uses(text);
        for (statement, exported) in &statements {
            // A re-exported item may also be used here: then its name occurs elsewhere in the file.
            let named = |name: &str| {
                let count = text.match_indices(name).filter(|(at, _)| is_whole(text, *at, name)).count();
                let inside =
                    statement.match_indices(name).filter(|(at, _)| is_whole(statement, *at, name)).count();
                count > inside
            };
            let used = branches(statement).into_iter().filter(|(_, name)| !exported || named(name));
            paths.extend(used.map(|(path, _)| path));
        }
        // Paths in code.
        for (at, _) in text.match_indices("::") {
            let start = text[..at].rfind(|c| !is_word(c)).map_or(0, |before| before + 1);
            if start == at || text[..start].ends_with("::") || text[..start].ends_with('$') {
                continue;
            }
            let inside = |statement: &&str| {
                let from = statement.as_ptr() as usize - text.as_ptr() as usize;
                (from..from + statement.len()).contains(&start)
            };
            if !statements.iter().any(|(statement, _)| inside(statement)) {
                paths.extend(branches(&text[start..]).into_iter().map(|(path, _)| path));
            }
        }
        let found = paths.iter().filter_map(|path| self.definer(&self.absolute(module, path)?, 0));
        found.filter(|found| found != module).collect()
    }
}

/// Whether the name at this offset is a whole identifier.
fn is_whole(text: &str, at: usize, name: &str) -> bool {
    !text[..at].ends_with(is_word) && !text[at + name.len()..].starts_with(is_word)
}

/// Returns the `use` statements of a source without the keyword, and whether they are re-exports.
fn uses(text: &str) -> Vec<(&str, bool)> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = line.trim_start();
        let behind = match start.strip_prefix("pub") {
            Some(rest) if rest.starts_with([' ', '(']) => rest
                .find("use ")
                .filter(|end| {
                    let between = rest[..*end].trim();
                    between.is_empty() || between.starts_with('(') && between.ends_with(')')
                })
                .map(|end| &rest[end..]),
            _ => Some(start),
        };
        if let Some(path) = behind.and_then(|rest| rest.strip_prefix("use ")) {
            let from = at + line.len() - path.len();
            let end = text[from..].find(';').map_or(text.len(), |end| from + end);
            found.push((&text[from..end], start.starts_with("pub")));
        }
        at += line.len();
    }
    found
}

/// Whether a source defines an item with this name.
fn defines(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let keyword = text[..at].trim_end().rsplit(|c| !is_word(c) && c != '!').next().unwrap_or_default();
        let keywords =
            ["fn", "struct", "enum", "trait", "const", "static", "type", "union", "macro_rules!", "mod"];
        is_whole(text, at, name) && text[..at].ends_with([' ', '\n']) && keywords.contains(&keyword)
    })
}

/// Returns the files that are reachable from a file.
fn reach(from: &Module, uses: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<Module> {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![from.clone()];
    while let Some(module) = waiting.pop() {
        for next in uses.get(&module).into_iter().flatten() {
            if seen.insert(next.clone()) {
                waiting.push(next.clone());
            }
        }
    }
    seen
}

/// Returns the import cycles between the files of a crate, as sorted names; `crate` is the root.
fn cycles(src: &Path) -> BTreeSet<Vec<String>> {
    let read = Crate::read(src);
    let uses: BTreeMap<Module, BTreeSet<Module>> =
        read.files.keys().map(|module| (module.clone(), read.used(module))).collect();
    let reached: BTreeMap<&Module, BTreeSet<Module>> =
        uses.keys().map(|module| (module, reach(module, &uses))).collect();
    let mut found = BTreeSet::new();
    let name = |path: &Module| if path.is_empty() { "crate".to_owned() } else { path.join("::") };
    for (module, reach) in &reached {
        if reach.contains(*module) {
            let mutual = reach.iter().filter(|other| reached[other].contains(*module));
            found.insert(mutual.map(name).collect());
        }
    }
    found
}

#[test]
fn there_are_no_new_import_cycles() {
    let mut found = BTreeSet::new();
    for directory in crates() {
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        let cycles = cycles(&directory.join("src"));
        found.extend(cycles.into_iter().map(|cycle| format!("{name}: {}", cycle.join(", "))));
    }
    let known: BTreeSet<String> = KNOWN.lines().map(str::to_owned).collect();
    let new: Vec<_> = found.difference(&known).collect();
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "new or larger import cycles: {new:#?}\nno longer there, remove from import_cycles.txt: {gone:#?}"
    );
}

#[test]
fn cycles_of_all_kinds_of_paths_are_found() {
    let of = |files: &[(&str, &str)]| {
        let directory = crate::common::folder(files);
        cycles(&directory.path().join("src")).into_iter().map(|cycle| cycle.join(" ")).collect::<Vec<_>>()
    };
    let text = [
        ("src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
        ("src/a.rs", "use crate::{b::{self, f}, c};"),
        ("src/b/mod.rs", "mod inner;\npub fn f() {}"),
        ("src/b/inner.rs", "use super::super::d::Thing; // crate::c"),
        ("src/c.rs", "fn f() { self::g() }\n#[cfg(test)]\nmod tests {\nuse crate::a;\n}"),
        ("src/d.rs", "fn f(x: crate::b::inner::T) {}"),
    ];
    assert_eq!(of(&text), ["b::inner d"]);
    // A group at the root.
    assert_eq!(
        of(&[("src/a.rs", "use crate::{b, c};"), ("src/b.rs", "use crate::a;"), ("src/c.rs", "")]),
        ["a b"]
    );
    // A child that uses its parent.
    let child = "use super::Thing;";
    let parent = |uses: &str| format!("mod inner;\n{uses}\npub struct Thing;");
    assert_eq!(
        of(&[("src/a/mod.rs", &parent("fn f() { inner::f() }")), ("src/a/inner.rs", child)]),
        ["a a::inner"]
    );
    // A re-export is not a use; the user of the name uses the file that defines it.
    assert_eq!(of(&[("src/a/mod.rs", &parent("pub use inner::f;")), ("src/a/inner.rs", child)]), [""; 0]);
    for export in ["pub use inner::T;", "pub use inner::*;", "pub(crate) use self::inner::{T, f};"] {
        let found = of(&[
            ("src/a/mod.rs", &parent(export)),
            ("src/a/inner.rs", "use crate::b;\npub struct T;\npub fn f() {}"),
            ("src/b.rs", "use crate::a::T;"),
        ]);
        assert_eq!(found, ["a::inner b"], "{export}");
    }
    // The root of the crate.
    let root = "mod a;\npub fn f() { a::g() }";
    assert_eq!(of(&[("src/lib.rs", root), ("src/a.rs", "pub fn g() { crate::f() }")]), ["crate a"]);
}

#[test]
fn module_maps_name_every_file() {
    let mut wrong = Vec::new();
    for directory in crates() {
        let src = directory.join("src");
        let Ok(text) = std::fs::read_to_string(src.join("lib.rs")) else { continue };
        let docs: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        let say = |what: String| format!("{}: {what}", directory.join("src/lib.rs").display());
        for name in docs.iter().flat_map(|line| line.split('`').skip(1).step_by(2)) {
            let file = name.ends_with(".rs") || name.strip_suffix('/').is_some_and(|n| src.join(n).exists());
            let plain = !name.contains(['<', '{', ' ']);
            if file && plain && !src.join(name).exists() && !directory.join(name).exists() {
                wrong.push(say(format!("there is no `{name}`")));
            }
        }
        // A table of files must name all of them.
        let rows: BTreeSet<String> = docs
            .iter()
            .skip_while(|line| !line.starts_with("//! | File |"))
            .filter_map(|line| Some(line.strip_prefix("//! | `")?.split_once('`')?.0.to_owned()))
            .collect();
        if !rows.is_empty() {
            let there: BTreeSet<String> = modules(&src)
                .into_keys()
                .filter(|path| path.len() == 1)
                .map(|path| path[0].clone())
                .collect();
            wrong.extend(there.difference(&rows).map(|name| say(format!("the map lacks `{name}`"))));
            wrong.extend(rows.difference(&there).map(|name| say(format!("there is no module `{name}`"))));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
