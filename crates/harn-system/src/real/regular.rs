//! Checks for regular files, which can be opened and read without blocking.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

use crate::os;

/// Fails for anything but a regular file.
pub(super) fn regular(facts: &Metadata) -> io::Result<()> {
    if facts.is_dir() {
        return Err(os::error(os::codes::ISDIR));
    }
    if !facts.is_file() {
        return Err(no_regular_file());
    }
    Ok(())
}

/// Opens a regular file without blocking.
pub(super) fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = os::without_waiting(options).open(path)?;
    if !os::is_on_disk(&file) {
        return Err(no_regular_file());
    }
    regular(&file.metadata()?)?;
    Ok(file)
}

fn no_regular_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}
