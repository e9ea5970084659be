//! How the front end looks at files.

use std::io;
use std::path::{Path, PathBuf};

use harn_system::System;

/// The largest source that is read: 16 MiB. What is made of one takes up to a hundred times as much.
pub const MAX_BYTES: u64 = 16 << 20;

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Folder,
    /// A device, a pipe, a socket.
    Other,
}

/// The files that sources are read from.
pub trait Files {
    /// What a path leads to.
    ///
    /// # Errors
    /// The system's error.
    fn kind(&self, path: &Path) -> io::Result<Kind>;

    /// The absolute path without links, `.` and `..`.
    ///
    /// # Errors
    /// The system's error; there must be something at the path.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;

    /// The bytes of a regular file of at most [`MAX_BYTES`].
    ///
    /// # Errors
    /// The system's error; an error for what is no regular file or too large.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Whether a manifest may start programs, name addresses for keys and widen permissions; see [`crate::trust`].
    fn trusts(&self, manifest: &Path) -> bool {
        let _ = manifest;
        true
    }

    /// Whether a path leads to a regular file.
    fn is_file(&self, path: &Path) -> bool {
        self.kind(path).is_ok_and(|kind| kind == Kind::File)
    }

    /// Whether a path leads to a directory.
    fn is_folder(&self, path: &Path) -> bool {
        self.kind(path).is_ok_and(|kind| kind == Kind::Folder)
    }
}

/// The files of a system.
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
