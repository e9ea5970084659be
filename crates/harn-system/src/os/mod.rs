//! Differences between operating systems behind common names: error codes, file identity, and the processes of a
//! command.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// Returns the system error for a code from [`codes`].
pub(crate) fn error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}
