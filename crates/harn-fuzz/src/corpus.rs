//! The stored inputs: one directory per kind of input in `fuzz/corpus`, and the programs of the conformance suite
//! and the examples.

use std::path::{Path, PathBuf};

/// Maximum size in bytes of a file that is mutated.
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

/// Writes a corpus to one file for [`read_copy`]. Files of the original corpus may change during a run, and then
/// the index of an input would no longer identify it.
pub(crate) fn write_copy(corpus: &[Vec<u8>], path: &Path) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    for text in corpus {
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text);
    }
    std::fs::write(path, bytes)
}

/// Reads a corpus written by [`write_copy`].
pub(crate) fn read_copy(path: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    let bytes = std::fs::read(path)?;
    let (mut rest, mut corpus) = (&bytes[..], Vec::new());
    while let Some((length, more)) = rest.split_first_chunk::<8>() {
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let (text, more) = more.split_at_checked(length).ok_or(std::io::ErrorKind::UnexpectedEof)?;
        corpus.push(text.to_vec());
        rest = more;
    }
    Ok(corpus)
}

fn collect(folder: &Path, extension: &str, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(meta) = entry.metadata() else { continue };
        if meta.is_dir() {
            collect(&path, extension, paths);
        } else if path.with_extension("answers").exists() {
            // The program requires user input, which is not available here.
        } else if meta.len() <= MAX_BYTES && path.to_string_lossy().ends_with(extension) {
            paths.push(path);
        }
    }
}
