//! Replacing a file as a whole: the new content goes into a temporary file beside it, which then takes its
//! place. Until then, and after every failure, the old content is there and nothing else.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::regular::{open_regular, regular};
use crate::file::Draft;
use crate::os;

/// The longest chain of links that is followed, as Linux has it.
const MOST_LINKS: usize = 40;

/// A file that is being written and takes its place with [`Replacement::commit`]; dropped before, it
/// leaves nothing behind.
pub struct Replacement {
    target: PathBuf,
    /// Empty once it has become the target.
    temporary: PathBuf,
    file: File,
    /// What it takes over from the old one.
    keep: Option<os::Kept>,
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
                let old = open_regular(OpenOptions::new().write(true), &target)?;
                Some(os::Kept::of(&old.metadata()?))
            }
        };
        let (temporary, file) = temporary_beside(&target, keep.is_some())?;
        Ok(Replacement { target, temporary, file, keep })
    }

    /// The file that is being written.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The new file gets the permissions of another one instead of those of the old one.
    pub(crate) fn with_permissions(&mut self, facts: &Metadata) {
        self.keep = Some(os::Kept::with_permissions(self.keep.take(), facts));
    }

    /// Puts the new content in the place of the old.
    ///
    /// # Errors
    /// The system's error; the old content is as it was.
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

/// Makes a file that nobody but its owner may read. The bytes are there as a whole, or the file is not there.
///
/// # Errors
/// The system's error; one of kind `AlreadyExists` when there is something at the path.
pub fn create_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = os::for_owner_only(options.write(true).create_new(true), true).open(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).inspect_err(|_| drop(std::fs::remove_file(path)))
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
    Err(os::error(os::codes::LOOP))
}

/// A new file in the folder of `target`. Its name is short, so that a long one of the target does no harm.
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

/// A name in the folder of `target` that this process has not used before.
pub(super) fn unused_name_beside(target: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    target.with_file_name(format!(".harn-{:x}-{count:x}.tmp", std::process::id()))
}
