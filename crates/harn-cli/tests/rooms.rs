//! The rooms of the house: no new circles between the files of a crate, and module maps that are true.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Circles that are there, as the names of their files. A circle that grows or is new fails the test, and so does one that is gone:
/// take it out here. docs/architecture.md says why each of these is there.
const KNOWN: &[(&str, &[&str])] = &[
    (
        "harn-syntax",
        &[
            "parser::decl",
            "parser::expr",
            "parser::literal",
            "parser::match_pattern",
            "parser::pattern",
            "parser::primary",
            "parser::stmt",
            "parser::ty",
        ],
    ),
    ("harn-value", &["foreign", "value"]),
    (
        "harn-vm",
        &[
            "access",
            "builtin",
            "call_loop",
            "calls",
            "channel",
            "cleanup",
            "closure",
            "coroutine",
            "cx",
            "cycles",
            "fiber",
            "generator",
            "interp",
            "isolate",
            "iter",
            "iter::drain",
            "iter::lanes",
            "iteration",
            "native",
            "observe",
            "ops",
            "task",
            "vm",
        ],
    ),
];

/// The crates' folders.
fn crates() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found: Vec<_> = std::fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.join("src").is_dir());
    found.sort();
    found
}

/// A file's path in the module tree, such as `["wire", "reader"]`.
type Module = Vec<String>;

/// All files of a crate with their texts.
fn modules(src: &Path) -> BTreeMap<Module, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![src.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
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

/// The text without comments and without the tests at its end.
fn without_tests(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..end].lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The paths that a text names from `crate`, `super` and `self`, as far as they are modules.
fn named(text: &str, module: &Module, all: &BTreeMap<Module, String>) -> BTreeSet<Module> {
    let mut found = BTreeSet::new();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(start) {
            if text[..at].ends_with(|c: char| word(c) || c == ':') {
                continue;
            }
            let mut base: Module = if start == "crate::" { Vec::new() } else { module.clone() };
            let mut rest = &text[at..];
            rest = rest.strip_prefix("crate::").or_else(|| rest.strip_prefix("self::")).unwrap_or(rest);
            while let Some(behind) = rest.strip_prefix("super::") {
                base.pop();
                rest = behind;
            }
            for branch in branches(rest) {
                let mut path = [base.clone(), branch].concat();
                while !path.is_empty() && !all.contains_key(&path) {
                    path.pop();
                }
                if !path.is_empty() && path != *module {
                    found.insert(path);
                }
            }
        }
    }
    found
}

/// The paths of `a::{b, c::d}`.
fn branches(text: &str) -> Vec<Module> {
    let mut path = Vec::new();
    let mut rest = text;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end > 0 {
            path.push(rest[..end].to_owned());
        }
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(next) if !next.starts_with('<') => rest = next,
            _ => break,
        }
    }
    let Some(group) = rest.strip_prefix('{').filter(|_| text[..text.len() - rest.len()].ends_with("::"))
    else {
        return vec![path];
    };
    let mut out = Vec::new();
    let mut depth = 0;
    let mut item = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                out.extend(
                    branches(group[item..at].trim())
                        .into_iter()
                        .map(|branch| [path.clone(), branch].concat()),
                );
                item = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    out
}

/// What can be reached from a module.
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

/// The circles between the files of a crate, as sorted names.
fn circles(src: &Path) -> BTreeSet<Vec<String>> {
    let all = modules(src);
    let uses: BTreeMap<Module, BTreeSet<Module>> =
        all.iter().map(|(module, text)| (module.clone(), named(text, module, &all))).collect();
    let reached: BTreeMap<&Module, BTreeSet<Module>> =
        uses.keys().map(|module| (module, reach(module, &uses))).collect();
    let mut found = BTreeSet::new();
    for (module, reach) in &reached {
        if reach.contains(*module) {
            let mutual = reach.iter().filter(|other| reached[other].contains(*module));
            found.insert(mutual.map(|path| path.join("::")).collect());
        }
    }
    found
}

#[test]
fn no_new_circles_between_files() {
    let mut found = BTreeSet::new();
    for folder in crates() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        found.extend(circles(&folder.join("src")).into_iter().map(|circle| (name.clone(), circle)));
    }
    let known: BTreeSet<(String, Vec<String>)> = KNOWN
        .iter()
        .map(|(name, files)| ((*name).to_owned(), files.iter().map(|file| (*file).to_owned()).collect()))
        .collect();
    let new: Vec<_> = found.difference(&known).collect();
    assert!(new.is_empty(), "files that use each other in a circle: {new:#?}");
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(gone.is_empty(), "circles that are no more, to be taken out of this list: {gone:#?}");
}

#[test]
fn a_circle_is_found() {
    let folder = crate::common::folder(&[
        ("src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
        ("src/a.rs", "use crate::{b::{self, f}, c};"),
        ("src/b/mod.rs", "mod inner;\npub fn f() { inner::f() }"),
        ("src/b/inner.rs", "use super::super::d::Thing; // crate::c"),
        ("src/c.rs", "fn f() { self::g() }\n#[cfg(test)]\nmod tests {\nuse crate::a;\n}"),
        ("src/d.rs", "fn f(x: crate::b::inner::T) {}"),
    ]);
    let expected = vec!["b::inner".to_owned(), "d".to_owned()];
    assert_eq!(circles(&folder.path().join("src")), BTreeSet::from([expected]));
}

#[test]
fn module_maps_are_true() {
    let mut wrong = Vec::new();
    for folder in crates() {
        let src = folder.join("src");
        let Ok(text) = std::fs::read_to_string(src.join("lib.rs")) else { continue };
        let docs: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        let say = |what: String| format!("{}: {what}", folder.join("src/lib.rs").display());
        for name in docs.iter().flat_map(|line| line.split('`').skip(1).step_by(2)) {
            let file = name.ends_with(".rs") || name.strip_suffix('/').is_some_and(|n| src.join(n).exists());
            let plain = !name.contains(['<', '{', ' ']);
            if file && plain && !src.join(name).exists() && !folder.join(name).exists() {
                wrong.push(say(format!("there is no `{name}`")));
            }
        }
        // A table of files names all of them.
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
