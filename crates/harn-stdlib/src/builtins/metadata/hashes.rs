//! Digests of directories, which show whether stored facts are stale.

use std::io;
use std::path::{Path, PathBuf};

use harn_system::Facts as FileFacts;
use harn_value::{Dict, Value};
use harn_vm::{Cx, Error, Result};
use sha2::{Digest, Sha256};

use super::super::bytes::to_hex;
use super::super::env::{run_folder, state_root};
use super::facts::{Facts, shown};
use crate::failures;
use crate::places::{resolve, show};

/// The namespace of the hashes.
const CLASSIFICATION: &str = "classification";
const STRUCTURE: &str = "structureHash";
const CONTENT: &str = "contentHash";

/// The digests of a directory.
pub(super) struct Hashes {
    /// Digest of the names, types and sizes of the entries.
    pub(super) structure: String,
    /// Also includes modification times.
    pub(super) content: String,
}

/// Computes digests for a builtin.
pub(super) struct Hashing<'a> {
    cx: &'a Cx,
    builtin: &'static str,
    /// Directories that the runtime writes. They are excluded, because saving facts would make the facts stale.
    own: [PathBuf; 2],
}

impl Hashing<'_> {
    pub(super) fn new<'a>(cx: &'a Cx, builtin: &'static str) -> Hashing<'a> {
        Hashing { cx, builtin, own: [state_root(cx), run_folder(cx)] }
    }

    /// Returns the digests of a directory; `None` if it does not exist. Subdirectories are not included recursively,
    /// because they have their own facts.
    pub(super) fn of(&self, dir: &str) -> Result<Option<Hashes>> {
        let path = resolve(self.cx, dir);
        let system = self.cx.system();
        let names = match system.names(&path) {
            Ok(names) => names,
            Err(error) if gone(&error) => return Ok(None),
            Err(error) => return Err(unread(self.cx, self.builtin, &path, &error)),
        };
        let (mut structure, mut content) = (Sha256::new(), Sha256::new());
        for (at, name) in names.iter().enumerate() {
            if at % 1024 == 1023 {
                self.cx.check()?;
            }
            let entry = path.join(name);
            if self.own.contains(&entry) {
                continue;
            }
            let facts = match system.link_facts(&entry) {
                Ok(facts) => facts,
                Err(error) if gone(&error) => continue,
                Err(error) => return Err(unread(self.cx, self.builtin, &entry, &error)),
            };
            let text = line(&show(name), &facts);
            structure.update(&text);
            content.update(&text);
            // The modification time of a directory changes with its entries.
            if !facts.is_dir() {
                content.update(facts.modified.to_bits().to_le_bytes());
            }
        }
        let hex = |digest: Sha256| to_hex(&digest.finalize());
        Ok(Some(Hashes { structure: hex(structure), content: hex(content) }))
    }

    /// Implements `metadata_stale`.
    pub(super) fn stale(&self, facts: &Facts) -> Result<Dict> {
        let (mut tier1, mut tier2) = (Vec::new(), Vec::new());
        for dir in facts.stored(Some(CLASSIFICATION))? {
            let stored = facts.local(CLASSIFICATION, &dir)?.unwrap_or_default();
            let (structure, content) = (hash(&stored, STRUCTURE), hash(&stored, CONTENT));
            if structure.or(content).is_none() {
                continue;
            }
            let now = self.of(&dir)?;
            let now = now.as_ref();
            if structure.is_some_and(|hash| now.is_none_or(|now| now.structure != hash)) {
                tier1.push(Value::from(shown(&dir)));
            }
            if content.is_some_and(|hash| now.is_none_or(|now| now.content != hash)) {
                tier2.push(Value::from(shown(&dir)));
            }
        }
        let mut found = Dict::new();
        found.insert("any_stale", !tier1.is_empty() || !tier2.is_empty());
        found.insert("tier1", tier1);
        found.insert("tier2", tier2);
        Ok(found)
    }

    /// Implements `metadata_refresh_hashes`.
    pub(super) fn refresh(&self, facts: &Facts) -> Result<()> {
        for dir in facts.stored(None)? {
            let mut fresh = Dict::new();
            if let Some(now) = self.of(&dir)? {
                fresh.insert(STRUCTURE, now.structure);
                fresh.insert(CONTENT, now.content);
            } else {
                let stored = facts.local(CLASSIFICATION, &dir)?.unwrap_or_default();
                for name in [STRUCTURE, CONTENT].into_iter().filter(|name| stored.contains(name)) {
                    fresh.insert(name, Value::NIL);
                }
            }
            if !fresh.is_empty() {
                facts.set(CLASSIFICATION, &dir, &fresh);
            }
        }
        Ok(())
    }

    /// Implements `metadata_status`.
    pub(super) fn status(&self, facts: &Facts, namespace: Option<&str>) -> Result<Dict> {
        let directories = facts.stored(None)?;
        let namespaces = facts.namespaces();
        let (mut no_structure, mut no_content) = (Vec::new(), Vec::new());
        for dir in &directories {
            let own = namespace.map(|namespace| facts.local(namespace, dir)).transpose()?.flatten();
            let looked_at = match own {
                Some(own) => own,
                None => facts.local(CLASSIFICATION, dir)?.unwrap_or_default(),
            };
            let missing = [STRUCTURE, CONTENT].map(|name| hash(&looked_at, name).is_none());
            if missing == [false, false] || !self.exists(dir)? {
                continue;
            }
            for (missing, list) in missing.into_iter().zip([&mut no_structure, &mut no_content]) {
                if missing {
                    list.push(Value::from(shown(dir)));
                }
            }
        }
        let mut found = Dict::new();
        found.insert("directory_count", directories.len());
        found.insert("namespace_count", namespaces.len());
        found
            .insert("directories", directories.iter().map(|dir| Value::from(shown(dir))).collect::<Vec<_>>());
        found.insert("namespaces", namespaces.iter().map(Value::from).collect::<Vec<_>>());
        found.insert("missing_structure_hash", no_structure);
        found.insert("missing_content_hash", no_content);
        found.insert("stale", self.stale(facts)?);
        Ok(found)
    }

    fn exists(&self, dir: &str) -> Result<bool> {
        match self.cx.system().facts(&resolve(self.cx, dir)) {
            Ok(facts) => Ok(facts.is_dir()),
            Err(error) => self.cx.refusal(&error).map_or(Ok(false), Err),
        }
    }
}

/// Encodes an entry. Names contain no zero byte, so different lists of entries have different encodings.
fn line(name: &str, facts: &FileFacts) -> String {
    let (kind, size) = match facts {
        facts if facts.is_dir() => ('d', 0),
        facts if facts.is_link() => ('l', facts.size),
        facts => ('f', facts.size),
    };
    format!("{name}\0{kind}{size}\0")
}

/// Returns whether the path does not exist or is invalid.
fn gone(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::NotFound | K::NotADirectory | K::InvalidInput | K::InvalidFilename)
}

/// Returns the error for an unreadable directory.
pub(super) fn unread(cx: &Cx, builtin: &str, path: &Path, error: &io::Error) -> Error {
    failures::of_io(cx, error, Some(path), || format!("{builtin}: cannot read {}: {error}", show(path)))
}

/// Returns the hash with this name.
fn hash<'a>(facts: &'a Dict, name: &str) -> Option<&'a str> {
    facts.get_str(name).and_then(Value::as_str).map(|hash| &**hash)
}
