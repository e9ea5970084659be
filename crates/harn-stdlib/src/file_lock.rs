//! Waiting for a file that several programs change.

use std::io;
use std::path::Path;
use std::time::Duration;

use harn_system::{Lock, System};
use harn_vm::{Cx, Result};

/// How often the lock is tried: for about ten seconds.
const TRIES: u64 = 4_000;

/// Waits until no other program holds the lock file `path`. The file stays: removing it would let two programs hold two locks.
///
/// The pauses are short, of 1 to 4 ms: a program that changes the file in a loop leaves it unlocked for a small part of the time only,
/// and a waiting program must find one of these moments.
///
/// # Errors
/// The outer error is that the program is stopped meanwhile; the inner one that the lock cannot be had.
pub async fn wait(cx: &Cx, system: &dyn System, path: &Path) -> Result<io::Result<Lock>> {
    for tried in 0..TRIES {
        match system.try_lock(path) {
            Ok(Some(lock)) => return Ok(Ok(lock)),
            Ok(None) => cx.sleep(Duration::from_millis(1 + tried % 4)).await?,
            Err(error) => return Ok(Err(error)),
        }
    }
    let text = format!("other programs have held the lock {} for ten seconds", path.display());
    Ok(Err(io::Error::new(io::ErrorKind::WouldBlock, text)))
}
