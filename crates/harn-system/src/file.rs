//! Words about files that all systems share.

use std::any::Any;
use std::io;

/// What is at a path.
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

/// Facts about a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Facts {
    /// What it is.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
    /// Whether nobody may write to it.
    pub readonly: bool,
    /// When it was last changed, in seconds since 1970.
    pub modified: f64,
    /// Device and inode: equal for two paths that are one file.
    pub identity: (u64, u64),
}

impl Facts {
    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Dir
    }

    /// Whether it is a link.
    pub fn is_link(&self) -> bool {
        self.kind == Kind::Link
    }
}

/// The new content of a file while it is written. Dropped before it is committed, it leaves nothing behind.
pub trait Draft: io::Write {
    /// Puts the new content in the place of the old.
    ///
    /// # Errors
    /// The system's error; the old content is as it was.
    fn commit(self: Box<Self>) -> io::Result<()>;
}

/// A lock; dropping it gives it back.
pub struct Lock(#[allow(dead_code, reason = "held for its drop")] pub(crate) Box<dyn Any>);

impl Lock {
    /// A lock that something else stands for.
    pub fn of(held: impl Any) -> Lock {
        Lock(Box::new(held))
    }
}

/// Why something could not be moved.
#[derive(Debug)]
pub enum MoveError {
    /// It is where it was.
    NotMoved(io::Error),
    /// It is complete at the new place, but could not be removed from the old one.
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
