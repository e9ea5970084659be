//! Regular files, told apart from what opening or reading could wait for.

use std::fs::Metadata;
use std::io;

/// Opening must not wait, should the path have become a FIFO since it was looked at.
pub(super) const NONBLOCKING: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

/// Fails for what is no regular file.
pub(super) fn regular(facts: &Metadata) -> io::Result<()> {
    if facts.is_dir() {
        return Err(io::Error::from_raw_os_error(rustix::io::Errno::ISDIR.raw_os_error()));
    }
    if !facts.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(())
}
