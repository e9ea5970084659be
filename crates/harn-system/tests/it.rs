//! Whether other crates go around the door: they name what touches the machine in the listed files only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What touches files, processes, the network, clocks, environment and standard streams.
const WORDS: [&str; 18] = [
    "std::fs",
    "File::open",
    "process::Command",
    "reqwest",
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "tokio::time",
    "env::var",
    "env::current_dir",
    "env::temp_dir",
    "io::stdin",
    "io::stdout",
    ".canonicalize()",
    ".metadata()",
    ".symlink_metadata()",
    ".exists()",
    "read_dir(",
];

/// Files that still do so themselves, with what they use. A file that no longer does is to be taken out.
const EXCEPTIONS: [(&str, &[&str]); 24] = [
    ("crates/harn-check/src/preflight/mod.rs", &["read_dir(", "std::fs"]),
    ("crates/harn-check/src/preflight/templates.rs", &[".exists()", "read_dir(", "std::fs"]),
    ("crates/harn-check/src/settings/manifest.rs", &["env::current_dir"]),
    ("crates/harn-cli/src/cmd/demo/mod.rs", &["Instant::now", "Timestamp::now", "io::stdin", "io::stdout"]),
    ("crates/harn-cli/src/cmd/demo/record.rs", &["Timestamp::now"]),
    ("crates/harn-cli/src/cmd/explain/prompt.rs", &["io::stdout"]),
    ("crates/harn-cli/src/cmd/repl.rs", &["io::stdin"]),
    ("crates/harn-cli/src/cmd/test.rs", &[".canonicalize()", ".exists()", "Instant::now", "io::stdout"]),
    ("crates/harn-cli/src/conformance/run.rs", &["Instant::now"]),
    ("crates/harn-cli/src/out.rs", &["io::stdout"]),
    ("crates/harn-cli/src/program.rs", &["io::stdin"]),
    ("crates/harn-cli/src/repl/editor.rs", &["io::stdout"]),
    ("crates/harn-front/src/files.rs", &["std::fs"]),
    ("crates/harn-llm/src/host.rs", &["SystemTime::now", "env::var", "std::fs", "tokio::time"]),
    ("crates/harn-llm/src/runtime/layers/network.rs", &["tokio::time"]),
    ("crates/harn-llm/src/runtime/health.rs", &["Instant::now", "tokio::time"]),
    ("crates/harn-llm/src/transport.rs", &["Instant::now", "reqwest", "tokio::time"]),
    ("crates/harn-store/src/sqlite/schema.rs", &["std::fs"]),
    ("crates/harn-template/src/fs_loader.rs", &["File::open", "std::fs"]),
    ("crates/harn-template/src/paths.rs", &["std::fs"]),
    ("crates/harn-vm/src/concurrency.rs", &["tokio::time"]),
    ("crates/harn-vm/src/cx.rs", &["tokio::time"]),
    ("crates/harn-vm/src/fiber.rs", &["tokio::time"]),
    ("crates/harn-vm/src/task.rs", &["Instant::now", "tokio::time"]),
];

/// Files that are no part of a running program: fuzzing, and modules of tests.
const OUTSIDE: [&str; 2] = ["crates/harn-fuzz/", "crates/harn-llm/src/growth.rs"];

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

/// The words in the code of a file, without comments and tests.
fn used(text: &str) -> BTreeSet<&'static str> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| WORDS.into_iter().filter(|word| line.contains(word))).collect()
}

#[test]
fn nobody_goes_around_the_door() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root.join("crates")).expect("the crates") {
        sources(&entry.expect("an entry").path().join("src"), &mut files);
    }
    assert!(files.len() > 200, "the sources are there");
    let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for file in files {
        let name = file.strip_prefix(&root).expect("a path in the tree").display().to_string();
        let test = name.ends_with("/tests.rs") || name.contains("/tests/");
        if test || name.contains("crates/harn-system/") || OUTSIDE.iter().any(|free| name.contains(free)) {
            continue;
        }
        let words = used(&std::fs::read_to_string(&file).expect("a source"));
        if !words.is_empty() {
            found.insert(name, words);
        }
    }
    let known: BTreeMap<String, BTreeSet<&str>> = EXCEPTIONS
        .iter()
        .map(|(name, words)| ((*name).to_owned(), words.iter().copied().collect()))
        .collect();
    let mut wrong = Vec::new();
    for (name, words) in &found {
        let new: Vec<&str> = words
            .iter()
            .filter(|word| !known.get(name).is_some_and(|k| k.contains(*word)))
            .copied()
            .collect();
        if !new.is_empty() {
            wrong.push(format!("{name} goes around harn-system with {new:?}: use `System`"));
        }
    }
    for (name, words) in &known {
        let gone: Vec<&str> = words
            .iter()
            .filter(|word| !found.get(name).is_some_and(|f| f.contains(*word)))
            .copied()
            .collect();
        if !gone.is_empty() {
            wrong.push(format!("{name} no longer uses {gone:?}: take it out of EXCEPTIONS"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
