//! The file system interface of the collector.

use std::path::Path;

/// A directory entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// File name without its directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// Reads directories. The host implements it and thereby decides what may be read.
pub trait FolderReader {
    /// Returns the content of a file; `None` if it does not exist, is a directory, or must not be read.
    fn read(&self, file: &Path) -> Option<String>;

    /// Returns the entries of a directory in any order; empty if it is not a directory or must not be read.
    fn list(&self, folder: &Path) -> Vec<Entry>;
}

#[cfg(test)]
pub(super) mod testing {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::PathBuf;

    use super::*;

    /// Files in memory.
    pub(in crate::profile) struct MemoryFolder(BTreeMap<PathBuf, String>);

    impl MemoryFolder {
        pub(in crate::profile) fn of(files: &[(&str, &str)]) -> Self {
            Self(files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect())
        }
    }

    impl FolderReader for MemoryFolder {
        fn read(&self, file: &Path) -> Option<String> {
            self.0.get(file).cloned()
        }

        fn list(&self, folder: &Path) -> Vec<Entry> {
            let mut entries = BTreeSet::new();
            for path in self.0.keys() {
                let mut parts = path.strip_prefix(folder).into_iter().flat_map(|rest| rest.components());
                if let Some(first) = parts.next() {
                    let name = first.as_os_str().to_string_lossy().into_owned();
                    entries.insert(Entry { name, is_dir: parts.next().is_some() });
                }
            }
            entries.into_iter().rev().collect()
        }
    }
}
