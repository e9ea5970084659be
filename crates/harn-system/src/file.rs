//! File types shared by all systems.

use std::any::Any;
use std::io;

/// The type of a file system entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Link,
    /// A FIFO, socket or device.
    Other,
}

/// Metadata of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Facts {
    /// The type of the entry.
    pub kind: Kind,
    /// The size in bytes.
    pub size: u64,
    /// Whether no user may write to it.
    pub readonly: bool,
    /// The time of the last change, in seconds since 1970.
    pub modified: f64,
    /// Device and inode: equal for two paths to the same file.
    pub identity: (u64, u64),
}

impl Facts {
    /// Returns whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    /// Returns whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Dir
    }

    /// Returns whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.kind == Kind::Link
    }
}

/// The new content of a file while it is written. Dropping it before `commit` discards the content.
pub trait Draft: io::Write {
    /// Replaces the old content with the new one.
    ///
    /// # Errors
    /// The error of the system; the old content is unchanged.
    fn commit(self: Box<Self>) -> io::Result<()>;
}

/// A lock, released on drop.
pub struct Lock(#[allow(dead_code, reason = "held for its drop")] pub(crate) Box<dyn Any>);

impl Lock {
    /// Creates a lock that drops `held` when it is released.
    pub fn of(held: impl Any) -> Lock {
        Lock(Box::new(held))
    }
}

/// The reason why a file or directory could not be moved.
#[derive(Debug)]
pub enum MoveError {
    /// It is still at the old path.
    NotMoved(io::Error),
    /// It is complete at the new path, but could not be removed from the old one.
    NotRemoved(io::Error),
}

impl std::fmt::Display for MoveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MoveError::NotMoved(error) => write!(f, "cannot move: {error}"),
            MoveError::NotRemoved(error) => write!(f, "copied, but cannot remove the original: {error}"),
        }
    }
}

impl std::error::Error for MoveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let (MoveError::NotMoved(error) | MoveError::NotRemoved(error)) = self;
        Some(error)
    }
}
