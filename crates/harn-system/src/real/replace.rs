//! Atomic replacement of files: the new content is written to a temporary file in the same directory, which is then
//! renamed. Before that, and after every failure, the old content is unchanged.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::regular::{open_regular, regular};
use crate::file::Draft;
use crate::os;

/// Maximum number of links in a chain, as on Linux.
const MOST_LINKS: usize = 40;

/// A new file that replaces its target with [`Replacement::commit`]; dropped before, it is removed.
pub struct Replacement {
    target: PathBuf,
    /// Empty after the rename.
    temporary: PathBuf,
    file: File,
    /// Attributes inherited from the old file.
    keep: Option<os::Kept>,
}

impl Replacement {
    /// Starts to replace or create the file at `path`. Links are followed: their target is replaced.
    ///
    /// # Errors
    /// The errors of opening the file for writing: its directory is missing, it is not a regular file, or it is not
    /// writable.
    pub fn new(path: &Path) -> io::Result<Replacement> {
        let target = behind_links(path)?;
        let keep = match target.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            facts => {
                regular(&facts?)?;
                // Opening the old file checks write access, which a rename does not check.
                let old = open_regular(OpenOptions::new().write(true), &target)?;
                Some(os::Kept::of(&old.metadata()?))
            }
        };
        let (temporary, file) = temporary_beside(&target, keep.is_some())?;
        Ok(Replacement { target, temporary, file, keep })
    }

    /// Returns the temporary file.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Uses the permissions of another file instead of those of the old one.
    pub(crate) fn with_permissions(&mut self, facts: &Metadata) {
        self.keep = Some(os::Kept::with_permissions(self.keep.take(), facts));
    }

    /// Replaces the old content with the new one.
    ///
    /// # Errors
    /// The error of the system; the old content is unchanged.
    pub fn commit(mut self) -> io::Result<()> {
        if let Some(kept) = &self.keep {
            kept.give_to(&self.file)?;
        }
        os::rename(&self.temporary, &self.target)?;
        self.temporary = PathBuf::new();
        Ok(())
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Draft for Replacement {
    fn commit(self: Box<Self>) -> io::Result<()> {
        Replacement::commit(*self)
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.temporary.as_os_str().is_empty() {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Creates a file that only its owner can read. On failure the file does not exist.
///
/// # Errors
/// The error of the system; its kind is `AlreadyExists` if the path exists.
pub fn create_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = os::for_owner_only(options.write(true).create_new(true), true).open(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).inspect_err(|_| drop(std::fs::remove_file(path)))
}

/// Resolves a chain of links, whose target need not exist.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("/")).join(next),
            Err(_) => return Ok(path),
        }
    }
    Err(os::error(os::codes::LOOP))
}

/// Creates a file in the directory of `target`. Its name is short, so that it is valid even if the target's name has
/// the maximum length.
pub(super) fn temporary_beside(target: &Path, private: bool) -> io::Result<(PathBuf, File)> {
    loop {
        let path = unused_name_beside(target);
        let mut options = OpenOptions::new();
        match os::for_owner_only(options.write(true).create_new(true), private).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns a file name in the directory of `target` that this process has not used before.
pub(super) fn unused_name_beside(target: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    target.with_file_name(format!(".harn-{:x}-{count:x}.tmp", std::process::id()))
}
