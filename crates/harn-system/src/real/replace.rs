//! Replacing a file as a whole: the new content goes into a temporary file beside it, which then takes its
//! place. Until then, and after every failure, the old content is there and nothing else.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::regular::{NONBLOCKING, regular};
use crate::file::Draft;

/// The longest chain of links that is followed, as Linux has it.
const MOST_LINKS: usize = 40;

/// A file that is being written and takes its place with [`Replacement::commit`]; dropped before, it
/// leaves nothing behind.
pub struct Replacement {
    target: PathBuf,
    /// Empty once it has become the target.
    temporary: PathBuf,
    file: File,
    keep: Option<Kept>,
}

/// What the new file takes over from the old one.
struct Kept {
    mode: u32,
    owner: (u32, u32),
}

impl Replacement {
    /// Begins to replace the file at `path`, or to make it. Links are followed: what they lead to is replaced.
    ///
    /// # Errors
    /// What opening the file for writing gives: its folder is missing, it is a directory or no regular file,
    /// it may not be written.
    pub fn new(path: &Path) -> io::Result<Replacement> {
        let target = behind_links(path)?;
        let keep = match target.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            facts => {
                regular(&facts?)?;
                // Opened and not touched: says whether it may be written, which a rename would not ask.
                let old = OpenOptions::new().write(true).custom_flags(NONBLOCKING).open(&target)?;
                let facts = old.metadata()?;
                regular(&facts)?;
                Some(Kept { mode: facts.mode() & 0o7777, owner: (facts.uid(), facts.gid()) })
            }
        };
        let (temporary, file) = temporary_beside(&target, keep.is_some())?;
        Ok(Replacement { target, temporary, file, keep })
    }

    /// The file that is being written.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The new file gets these permissions instead of those of the old one.
    pub(crate) fn with_mode(&mut self, mode: u32) {
        let owner = self.keep.as_ref().map(|kept| kept.owner);
        let own = || self.file.metadata().map_or((0, 0), |facts| (facts.uid(), facts.gid()));
        self.keep = Some(Kept { mode: mode & 0o7777, owner: owner.unwrap_or_else(own) });
    }

    /// Puts the new content in the place of the old.
    ///
    /// # Errors
    /// The system's error; the old content is as it was.
    pub fn commit(mut self) -> io::Result<()> {
        if let Some(kept) = &self.keep {
            let facts = self.file.metadata()?;
            if (facts.uid(), facts.gid()) != kept.owner {
                // Only a privileged process can do this; for others the file becomes their own.
                let _ = std::os::unix::fs::fchown(&self.file, Some(kept.owner.0), Some(kept.owner.1));
            }
            self.file.set_permissions(Permissions::from_mode(kept.mode))?;
        }
        std::fs::rename(&self.temporary, &self.target)?;
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

/// The path behind a chain of links, whether or not there is something at its end.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("/")).join(next),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::from_raw_os_error(rustix::io::Errno::LOOP.raw_os_error()))
}

/// A new file in the folder of `target`. Its name is short, so that a long one of the target does no harm.
pub(super) fn temporary_beside(target: &Path, private: bool) -> io::Result<(PathBuf, File)> {
    loop {
        let path = unused_name_beside(target);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(if private { 0o600 } else { 0o666 });
        match options.open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// A name in the folder of `target` that this process has not used before.
pub(super) fn unused_name_beside(target: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    target.with_file_name(format!(".harn-{:x}-{count:x}.tmp", std::process::id()))
}
