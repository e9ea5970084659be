//! Public items of the library crates that are not used outside of their crate.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Public items that no other crate uses: crate, name and the reason to keep them public.
const UNUSED: &[(&str, &str, &str)] = &[
    ("harn-derive", "derive_options", "the derive is used by its name, `Options`"),
    ("harn-llm", "llm_call_streaming", "a Rust program shows replies while they arrive"),
    ("harn-prompt", "is_included", "the short form of `reduce`"),
    ("harn-prompt", "requiring_cap", "makes fragments, as `requiring_tool` does"),
    ("harn-prompt", "system_prompt_record", "a Rust program that stores transcripts records prompts"),
    ("harn-system", "with_input", "tests of a Rust program supply standard input"),
    ("harn-system", "with_readonly", "tests of a Rust program need a read-only file"),
];

/// Returns the identifiers of a source.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the name of the public function, constant or static that a line declares. Types are excluded: a crate that
/// receives one from a function or field need not name it.
fn public_item(line: &str) -> Option<&str> {
    let mut rest = line.trim_start().strip_prefix("pub ")?;
    loop {
        let (word, behind) = rest.split_once(' ')?;
        let name = || words(behind).next().filter(|name| behind.starts_with(name) && *name != "_");
        match word {
            "fn" | "static" => return name(),
            // `const fn` continues, `const NAME` is the item.
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

/// Returns the code of a source that runs outside of its crate: documentation examples and macro bodies.
fn code_for_others(text: &str) -> String {
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

/// Returns the public items of the library crates that no other crate, test, bench, example, macro or README uses.
fn unused_items(root: &Path) -> BTreeSet<(String, String)> {
    let mut folders: Vec<PathBuf> =
        ["crates", "python", "benches", "editors", "fuzz"].iter().map(|name| root.join(name)).collect();
    let mut items = BTreeSet::new();
    // Each source with its library crate, if it belongs to one.
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
            if !(name == "README.md" || name.ends_with(".rs") && name != "unused_public_items.rs") {
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
                    text[..end].lines().filter_map(public_item).map(|item| (owner.clone(), item.to_owned())),
                );
                texts.push((None, code_for_others(&text)));
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
fn public_items_are_used_by_other_crates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().parent().unwrap();
    let found = unused_items(root);
    let known: BTreeSet<(String, String)> =
        UNUSED.iter().map(|(owner, item, _)| ((*owner).to_owned(), (*item).to_owned())).collect();
    let new: Vec<_> = found.difference(&known).collect();
    assert!(
        new.is_empty(),
        "not used by another crate; make them `pub(crate)` or add them to UNUSED with a reason: {new:#?}"
    );
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(gone.is_empty(), "used or gone, remove from UNUSED: {gone:#?}");
}

#[test]
fn unused_public_items_are_found() {
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
    assert_eq!(unused_items(folder.path()), BTreeSet::from(expected));
}
