//! The rooms of the house: no new circles between the files of a crate, module maps that are true, and no door that nobody uses.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Circles that are there, as the names of their files. A circle that grows or is new fails the test, and so does one that is gone:
/// take it out here. docs/architecture.md says why each of these is there.
const KNOWN: &[(&str, &[&str])] = &[
    (
        "harn-syntax",
        &[
            "parser::attribute",
            "parser::decl",
            "parser::expr",
            "parser::limits",
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
            "identity",
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
            "task_scope",
            "vm",
        ],
    ),
];

/// What is `pub` although no other crate names it: crate, name and why. Whoever uses one of these takes it out here.
const OPEN: &[(&str, &str, &str)] = &[
    ("harn-llm", "llm_call_streaming", "a Rust program shows replies while they arrive"),
    ("harn-prompt", "is_included", "the short question to what `reduce` says of a fragment"),
    ("harn-prompt", "requiring_cap", "makes fragments, as `requiring_tool` does"),
    ("harn-prompt", "system_prompt_record", "a Rust program that keeps transcripts records prompts"),
    ("harn-system", "with_input", "a Rust program's tests say what standard input holds"),
    ("harn-system", "with_readonly", "a Rust program's tests have a file that cannot be written"),
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

/// The words of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The name that a line of a source declares for all crates: a function, constant or static. Types are not asked for: functions
/// and fields hand them out, and whoever gets one need not name it.
fn open_item(line: &str) -> Option<&str> {
    let mut rest = line.trim_start().strip_prefix("pub ")?;
    loop {
        let (word, behind) = rest.split_once(' ')?;
        let name = || words(behind).next().filter(|name| behind.starts_with(name) && *name != "_");
        match word {
            "fn" | "static" => return name(),
            // `const fn` goes on, `const NAME` is the item.
            "const"
                if behind
                    .split_once([' ', ':'])
                    .is_some_and(|(next, _)| !["fn", "unsafe"].contains(&next)) =>
            {
                return name();
            }
            "const" | "async" | "unsafe" => rest = behind,
            _ => return None,
        }
    }
}

/// What a crate's source shows to others besides its items: examples in its documentation, and bodies of macros.
fn shown(text: &str) -> String {
    let mut out = String::new();
    let (mut example, mut makes) = (false, false);
    for line in text.lines() {
        let doc = line.trim_start();
        match doc.strip_prefix("///").or_else(|| doc.strip_prefix("//!")) {
            Some(doc) if doc.trim_start().starts_with("```") => {
                let kind = doc.trim_start().trim_start_matches('`');
                example = !example && !["text", "harn", "toml", "json"].contains(&kind);
            }
            Some(doc) if example => out.extend([doc, "\n"]),
            Some(_) => {}
            None => {
                example = false;
                makes |= line.starts_with("macro_rules!");
                if makes {
                    out.extend([line, "\n"]);
                    makes = line != "}";
                }
            }
        }
    }
    out
}

/// What the library crates below a folder declare for other crates, and no other crate, test, bench, example, macro or README names.
fn unused_doors(root: &Path) -> BTreeSet<(String, String)> {
    let mut folders: Vec<PathBuf> =
        ["crates", "python", "benches", "editors", "fuzz"].iter().map(|name| root.join(name)).collect();
    let mut items = BTreeSet::new();
    // Who names what: the library whose own source a text is, if it is one, and the text.
    let mut texts: Vec<(Option<String>, String)> = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !["target", "node_modules", "corpus"].contains(&name.as_str()) {
                    folders.push(path);
                }
                continue;
            }
            if !(name == "README.md" || name.ends_with(".rs") && name != "rooms.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let inside = path.strip_prefix(root.join("crates")).unwrap_or(Path::new(""));
            let parts: Vec<_> = inside.components().map(|part| part.as_os_str().to_string_lossy()).collect();
            let library = parts.get(1).is_some_and(|part| part == "src")
                && root.join("crates").join(&*parts[0]).join("src/lib.rs").exists();
            if library {
                let owner = parts[0].clone().into_owned();
                let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
                items.extend(
                    text[..end].lines().filter_map(open_item).map(|item| (owner.clone(), item.to_owned())),
                );
                texts.push((None, shown(&text)));
                texts.push((Some(owner), text));
            } else {
                texts.push((None, text));
            }
        }
    }
    let mut left: HashMap<&str, Vec<&str>> = HashMap::new();
    for (owner, item) in &items {
        left.entry(item).or_default().push(owner);
    }
    for (owner, text) in &texts {
        for word in words(text) {
            if let Some(owners) = left.get_mut(word) {
                owners.retain(|name| owner.as_deref() == Some(*name));
                if owners.is_empty() {
                    left.remove(word);
                }
            }
        }
    }
    left.iter()
        .flat_map(|(item, owners)| owners.iter().map(|owner| ((*owner).to_owned(), (*item).to_owned())))
        .collect()
}

#[test]
fn what_is_open_to_other_crates_is_used_by_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().parent().unwrap();
    let found = unused_doors(root);
    let known: BTreeSet<(String, String)> =
        OPEN.iter().map(|(owner, item, _)| ((*owner).to_owned(), (*item).to_owned())).collect();
    let new: Vec<_> = found.difference(&known).collect();
    assert!(
        new.is_empty(),
        "no other crate names these; `pub(crate)`, or a line in OPEN with a reason: {new:#?}"
    );
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(gone.is_empty(), "used or gone, to be taken out of OPEN: {gone:#?}");
}

#[test]
fn an_unused_door_is_found() {
    let lib = [
        "/// ```",
        "/// a::in_example();",
        "/// ```",
        "pub fn in_example() {}",
        "pub const fn alone() {}",
        "pub const ALONE_TOO: u8 = 1;",
        "pub static ALONE_AS_WELL: u8 = 1;",
        "pub fn used() {}",
        "pub fn in_macro() {}",
        "pub fn in_readme() {}",
        "pub fn in_own_test() {}",
        "pub(crate) fn inside() {}",
        "pub struct Type;",
        "impl Type {",
        "    pub async fn alone_in_type(&self) {}",
        "}",
        "macro_rules! call {",
        "    () => { $crate::in_macro() };",
        "}",
        "#[cfg(test)]",
        "mod tests {",
        "    pub fn helper() {}",
        "}",
    ];
    let folder = crate::common::folder(&[
        ("crates/a/src/lib.rs", &lib.join("\n")),
        ("crates/a/README.md", "Call `in_readme`."),
        ("crates/a/tests/it.rs", "fn f() { a::in_own_test() }"),
        ("crates/b/src/main.rs", "pub fn alone_in_program() { a::used() }"),
    ]);
    let expected = ["ALONE_AS_WELL", "ALONE_TOO", "alone", "alone_in_type"];
    let expected = expected.map(|name| ("a".to_owned(), name.to_owned()));
    assert_eq!(unused_doors(folder.path()), BTreeSet::from(expected));
}
