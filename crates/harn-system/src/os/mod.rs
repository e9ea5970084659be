//! What the systems do each in their own way, behind the same names: numbers of errors, files and what makes a file one file,
//! the processes of a command.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// The system's error of a number from [`codes`].
pub(crate) fn error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}
