//! Reading the output of a decoder. Its size is determined by untrusted data, so memory is reserved in steps.

use std::fmt::Display;
use std::io::{ErrorKind, Read, Write};

use harn_value::memory;
use harn_vm::{Error, Result};

use crate::args::room_for_bytes;

/// Bytes between two checks of limits.
const PIECE: usize = 64 << 10;

/// Checks whether an operation may continue.
pub(super) trait Check: Fn() -> Result<()> {}

impl<F: Fn() -> Result<()>> Check for F {}

/// Returns the error for invalid data.
pub(super) fn broken(name: &str, reason: impl Display) -> Error {
    Error::runtime(format!("{name}: {reason}"))
}

/// Reads the whole output of a decoder.
///
/// # Errors
/// `NAME: <reason>` for invalid data; the error of the memory limit, before it is exceeded; the error of `check`.
pub(super) fn read_all(name: &str, mut from: impl Read, check: &impl Check) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut piece = vec![0; PIECE];
    loop {
        check()?;
        let count = match from.read(&mut piece) {
            Ok(0) => return Ok(out),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(broken(name, error)),
        };
        make_room(&mut out, count)?;
        out.extend_from_slice(&piece[..count]);
    }
}

fn make_room(out: &mut Vec<u8>, more: usize) -> Result<()> {
    let needed = out.len() + more;
    if needed > out.capacity() {
        let size = memory::growth(out.capacity(), needed);
        // The old buffer exists until its content has been copied.
        room_for_bytes(size)?;
        out.reserve_exact(size - out.len());
    }
    Ok(())
}

/// Writes all bytes to an encoder.
///
/// # Errors
/// `NAME: <reason>`, and the error of `check`.
pub(super) fn write_all(name: &str, bytes: &[u8], to: &mut impl Write, check: &impl Check) -> Result<()> {
    for piece in bytes.chunks(PIECE) {
        check()?;
        to.write_all(piece).map_err(|error| broken(name, error))?;
    }
    Ok(())
}

/// Checks the memory limit for the encoded form of `size` bytes, which is hardly ever larger, and returns an empty
/// buffer for it.
///
/// # Errors
/// The error of the memory limit.
pub(super) fn target(size: usize) -> Result<Vec<u8>> {
    room_for_bytes(size.saturating_add(size / 16))?;
    Ok(Vec::new())
}
