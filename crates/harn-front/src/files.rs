//! File access of the front end.

use std::io;
use std::path::{Path, PathBuf};

use harn_system::System;

/// Maximum size of a source file: 16 MiB. Compilation needs up to a hundred times as much memory.
pub const MAX_BYTES: u64 = 16 << 20;

/// The kind of a file system entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Folder,
    /// A device, a pipe or a socket.
    Other,
}

/// The file system that sources are read from.
pub trait Files {
    /// Returns the kind of the entry at a path.
    ///
    /// # Errors
    /// Returns the system's error.
    fn kind(&self, path: &Path) -> io::Result<Kind>;

    /// Returns the absolute path without links, `.` and `..`.
    ///
    /// # Errors
    /// Returns the system's error, also if nothing exists at the path.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;

    /// Reads a regular file of at most [`MAX_BYTES`].
    ///
    /// # Errors
    /// Returns the system's error, or an error if the entry is not a regular file or is too large.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Returns whether a manifest may start programs, configure endpoints that receive keys, and extend
    /// permissions; see [`crate::trust`].
    fn trusts(&self, manifest: &Path) -> bool {
        let _ = manifest;
        true
    }

    /// Returns whether the path is a regular file.
    fn is_file(&self, path: &Path) -> bool {
        self.kind(path).is_ok_and(|kind| kind == Kind::File)
    }

    /// Returns whether the path is a directory.
    fn is_folder(&self, path: &Path) -> bool {
        self.kind(path).is_ok_and(|kind| kind == Kind::Folder)
    }
}

/// Accesses files through a `System`.
#[derive(Clone, Copy)]
pub struct Through<'a>(pub &'a dyn System);

impl Files for Through<'_> {
    fn kind(&self, path: &Path) -> io::Result<Kind> {
        let facts = self.0.facts(path)?;
        Ok(match () {
            () if facts.is_file() => Kind::File,
            () if facts.is_dir() => Kind::Folder,
            () => Kind::Other,
        })
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.canonical(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.read(path, MAX_BYTES)
    }

    fn trusts(&self, manifest: &Path) -> bool {
        crate::trust::trusts(self.0, manifest)
    }
}
