//! Locking files that several programs change.

use std::io;
use std::path::Path;
use std::time::Duration;

use harn_system::{Lock, System};
use harn_vm::{Cx, Result};

/// Number of attempts to acquire the lock: about ten seconds.
const TRIES: u64 = 4_000;

/// Waits until no other program holds the lock file `path`. The file is not removed, because two programs could then
/// hold different locks.
///
/// The delays are short, 1 to 4 ms: a program that changes the file in a loop unlocks it only briefly, and a waiting
/// program must find such a moment.
///
/// # Errors
/// The outer error means that the program is stopped; the inner one that the lock cannot be acquired.
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
