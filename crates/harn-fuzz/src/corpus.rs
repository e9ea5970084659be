//! The kept inputs: one folder per kind of text under `fuzz/corpus`, and the programs of the conformance suite and
//! the examples, which are a corpus too.

use std::path::{Path, PathBuf};

/// Most bytes of a file that is worth mutating.
const MAX_BYTES: u64 = 16 << 10;

/// Reads the corpus of a target in the order of the file names.
pub(crate) fn read(root: &Path, folder: &str, extension: &str) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    collect(&root.join("corpus").join(folder), "", &mut paths);
    for more in ["../conformance", "../examples", "../stdlib"] {
        collect(&root.join(more), extension, &mut paths);
    }
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

fn collect(folder: &Path, extension: &str, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(meta) = entry.metadata() else { continue };
        if meta.is_dir() {
            collect(&path, extension, paths);
        } else if path.with_extension("answers").exists() {
            // It waits for people, and there is nobody here.
        } else if meta.len() <= MAX_BYTES && path.to_string_lossy().ends_with(extension) {
            paths.push(path);
        }
    }
}
