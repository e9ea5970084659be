//! Reading what a decoder gives. How much that is stands in data that somebody else made, so room is asked for piece by piece.

use std::fmt::Display;
use std::io::{ErrorKind, Read, Write};

use harn_value::memory;
use harn_vm::{Error, Result};

use crate::args::room_for_bytes;

/// Bytes between two looks at limits.
const PIECE: usize = 64 << 10;

/// Asks whether work may go on.
pub(super) trait Check: Fn() -> Result<()> {}

impl<F: Fn() -> Result<()>> Check for F {}

/// The error of data that is not what it should be.
pub(super) fn broken(name: &str, reason: impl Display) -> Error {
    Error::runtime(format!("{name}: {reason}"))
}

/// Reads all that a decoder gives.
///
/// # Errors
/// `NAME: <reason>` for broken data; that of the memory limit, before it is passed; that of `check`.
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
        // The old bytes stay until the new ones are there.
        room_for_bytes(size)?;
        out.reserve_exact(size - out.len());
    }
    Ok(())
}

/// Writes all bytes to an encoder.
///
/// # Errors
/// `NAME: <reason>`, and that of `check`.
pub(super) fn write_all(name: &str, bytes: &[u8], to: &mut impl Write, check: &impl Check) -> Result<()> {
    for piece in bytes.chunks(PIECE) {
        check()?;
        to.write_all(piece).map_err(|error| broken(name, error))?;
    }
    Ok(())
}

/// A target for what an encoder makes of `size` bytes, which is hardly ever more than they are.
///
/// # Errors
/// That of the memory limit.
pub(super) fn target(size: usize) -> Result<Vec<u8>> {
    room_for_bytes(size.saturating_add(size / 16))?;
    Ok(Vec::new())
}
