//! What the collector needs of a file system.

use std::path::Path;

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// File name, without its folder.
    pub name: String,
    /// Whether it is a folder.
    pub is_dir: bool,
}

/// Reads folders. The host implements it, and with it decides what may be read.
pub trait FolderReader {
    /// Returns the text of a file; `None` when there is none, it is a folder, or it must not be read.
    fn read(&self, file: &Path) -> Option<String>;

    /// Returns the entries of a folder in any order; none when it is no folder or must not be read.
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
