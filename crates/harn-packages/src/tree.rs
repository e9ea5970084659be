//! The files of a package: their digest, and copies.

use std::path::{Path, PathBuf};

use harn_system::{Kind, System};
use sha2::{Digest, Sha256};

use crate::{Result, Trouble, trouble};

/// Maximum size of one file of a package, in bytes.
const MAX_FILE: u64 = 256 << 20;

/// Maximum number of files of a package.
const MAX_FILES: usize = 100_000;

/// Names that are not part of a package, at any depth.
const LEFT_OUT: [&str; 2] = [".git", ".harn"];

/// Lists the files of a package relative to its directory, sorted; for a package of one file, the empty path.
///
/// # Errors
/// A link or device: a link could lead out of the package. Files that cannot be listed.
pub(crate) fn files(system: &dyn System, root: &Path) -> Result<Vec<PathBuf>> {
    let cannot =
        |path: &Path, why: &dyn std::fmt::Display| Trouble(format!("cannot read {}: {why}", path.display()));
    if system.facts(root).map_err(|e| cannot(root, &e))?.is_file() {
        return Ok(vec![PathBuf::new()]);
    }
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let names = system.names(&root.join(&folder)).map_err(|e| cannot(&root.join(&folder), &e))?;
        for name in names {
            if LEFT_OUT.iter().any(|left| name.as_os_str() == *left) {
                continue;
            }
            let path = folder.join(&name);
            let whole = root.join(&path);
            match system.link_facts(&whole).map_err(|e| cannot(&whole, &e))?.kind {
                Kind::File => found.push(path),
                Kind::Dir => folders.push(path),
                Kind::Link => {
                    return trouble(format!(
                        "{} is a link; a package holds files and folders only",
                        whole.display()
                    ));
                }
                Kind::Other => return trouble(format!("{} is neither file nor folder", whole.display())),
            }
            if found.len() > MAX_FILES {
                return trouble(format!("{} has more than {MAX_FILES} files", root.display()));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns `sha256:` and the digest of a package: for each file, sorted by path, the lengths and bytes of its path
/// and content.
///
/// # Errors
/// Those of [`files`], or a file cannot be read.
pub(crate) fn digest(system: &dyn System, root: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    for path in files(system, root)? {
        // The same on every system.
        let name: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let name = name.join("/");
        let bytes = read(system, &joined(root, &path))?;
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(&bytes);
    }
    Ok(format!("sha256:{}", hex(&hash.finalize())))
}

/// Makes `to` a copy of `from`, atomically: the complete new directory replaces the old one.
///
/// # Errors
/// As `files`, and failed writes.
pub fn copy(system: &dyn System, from: &Path, to: &Path) -> Result<()> {
    let cannot = |what: &str, path: &Path, why: &dyn std::fmt::Display| {
        Trouble(format!("cannot {what} {}: {why}", path.display()))
    };
    let names = files(system, from)?;
    let parent = to.parent().unwrap_or(Path::new("."));
    system.make_dirs(parent).map_err(|e| cannot("make", parent, &e))?;
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let draft = parent.join(format!(".{name}.{}", system.pid()));
    let _ = system.remove(&draft);
    let made = (|| {
        if names == [PathBuf::new()] {
            return system.copy(from, &draft).map_err(|e| cannot("copy", from, &e));
        }
        system.make_dirs(&draft).map_err(|e| cannot("make", &draft, &e))?;
        for path in &names {
            let target = draft.join(path);
            if let Some(folder) = target.parent() {
                system.make_dirs(folder).map_err(|e| cannot("make", folder, &e))?;
            }
            system.copy(&from.join(path), &target).map_err(|e| cannot("copy", &from.join(path), &e))?;
        }
        Ok(())
    })();
    if let Err(error) = made {
        let _ = system.remove(&draft);
        return Err(error);
    }
    put(system, &draft, to).inspect_err(|_| drop(system.remove(&draft)))
}

/// Moves a complete draft to its target. The previous target is renamed first, and restored on an error.
fn put(system: &dyn System, draft: &Path, to: &Path) -> Result<()> {
    let moved = |from: &Path, to: &Path| {
        system.rename(from, to).map_err(|e| match e {
            harn_system::MoveError::NotMoved(e) | harn_system::MoveError::NotRemoved(e) => {
                Trouble(format!("cannot write {}: {e}", to.display()))
            }
        })
    };
    if system.link_facts(to).is_err() {
        return moved(draft, to);
    }
    let mut aside = draft.as_os_str().to_owned();
    aside.push(".old");
    let aside = PathBuf::from(aside);
    let _ = system.remove(&aside);
    moved(to, &aside)?;
    if let Err(error) = moved(draft, to) {
        return match moved(&aside, to) {
            Ok(()) => Err(error),
            Err(_) => trouble(format!("{error}; what was there is now {}", aside.display())),
        };
    }
    let _ = system.remove(&aside);
    Ok(())
}

/// Whether two packages have the same files with the same content.
pub(crate) fn same(system: &dyn System, one: &Path, other: &Path) -> bool {
    let (Ok(a), Ok(b)) = (files(system, one), files(system, other)) else { return false };
    a == b
        && a.iter().all(|path| {
            let (left, right) = (joined(one, path), joined(other, path));
            let size = |path: &Path| system.facts(path).map(|facts| facts.size).ok();
            size(&left) == size(&right)
                && matches!((read(system, &left), read(system, &right)), (Ok(x), Ok(y)) if x == y)
        })
}

/// Returns the path of a file of a package, which may be the package itself.
fn joined(root: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { root.to_owned() } else { root.join(path) }
}

fn read(system: &dyn System, path: &Path) -> Result<Vec<u8>> {
    system.read(path, MAX_FILE).map_err(|e| Trouble(format!("cannot read {}: {e}", path.display())))
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}
