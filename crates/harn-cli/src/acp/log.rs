//! The log of updates sent to the client in a session. It is stored in the project's state directory so that another
//! process can load the session.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use harn_system::{Real, System, SystemExt};
use harn_value::Data as Json;

/// The largest log that is read: 256 MiB.
const MAX_BYTES: u64 = 256 << 20;

/// The log of a session, with one update per line.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// A write failed. No more lines are written, because lines after a partial one could not be read.
    broken: Cell<bool>,
}

impl Log {
    /// Returns the log of a session, or `None` if `id` is not a valid id.
    pub(super) fn of(cwd: &Path, id: &str) -> Option<Log> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_id = !id.is_empty() && id.len() <= 100 && id.chars().all(fits);
        is_id.then(|| Log {
            path: cwd.join(".harn/acp").join(format!("{id}.jsonl")),
            broken: Cell::new(false),
        })
    }

    /// Creates an empty log.
    ///
    /// # Errors
    /// The directory cannot be created or the file cannot be written.
    pub(super) fn begin(&self) -> std::io::Result<()> {
        let system = Real::new();
        system.make_dirs(self.path.parent().unwrap_or(&self.path))?;
        system.append(&self.path, b"")
    }

    /// Whether the log file exists.
    pub(super) fn exists(&self) -> bool {
        Real::new().is_file(&self.path)
    }

    /// Appends an update.
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

    /// Returns the updates before the first incomplete line, and truncates the file there.
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
