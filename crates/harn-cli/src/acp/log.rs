//! What the client was told in a session, kept in the project's state folder so that the session can be loaded by another process.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use harn_system::{Real, System, SystemExt};
use harn_value::Data as Json;

/// The largest log that is read: 256 MiB.
const MAX_BYTES: u64 = 256 << 20;

/// The log of a session: one update a line.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// A line could not be written, so no more are: what stood behind it could not be read again.
    broken: Cell<bool>,
}

impl Log {
    /// Where the log of a session lies; nothing for what is no id.
    pub(super) fn of(cwd: &Path, id: &str) -> Option<Log> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_id = !id.is_empty() && id.len() <= 100 && id.chars().all(fits);
        is_id.then(|| Log {
            path: cwd.join(".harn/acp").join(format!("{id}.jsonl")),
            broken: Cell::new(false),
        })
    }

    /// Begins a log.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn begin(&self) -> std::io::Result<()> {
        let system = Real::new();
        system.make_dirs(self.path.parent().unwrap_or(&self.path))?;
        system.append(&self.path, b"")
    }

    /// Whether there is one.
    pub(super) fn exists(&self) -> bool {
        Real::new().is_file(&self.path)
    }

    /// Adds an update.
    pub(super) fn add(&self, update: &Json) {
        if self.broken.get() {
            return;
        }
        if let Err(error) = Real::new().append(&self.path, format!("{update}\n").as_bytes()) {
            self.broken.set(true);
            let path = self.path.display();
            eprintln!(
                "[harn] warning: what comes now will be missing when the session is loaded: {path}: {error}"
            );
        }
    }

    /// The updates, up to the first that was not written to its end; that and what stands behind it is cut off.
    ///
    /// # Errors
    /// The file cannot be read or truncated.
    pub(super) fn updates(&self) -> std::io::Result<Vec<Json>> {
        let bytes = Real::new().read(&self.path, MAX_BYTES)?;
        let (mut updates, mut good) = (Vec::new(), 0);
        for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            let Ok(update) = serde_json::from_slice(line) else { break };
            updates.push(update);
            good += line.len();
        }
        if good < bytes.len() {
            Real::new().replace(&self.path, &bytes[..good])?;
        }
        Ok(updates)
    }
}
