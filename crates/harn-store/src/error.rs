//! Errors of a store.

use std::path::{Path, PathBuf};

/// Errors of a store. Nothing of a rejected write is stored.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The lease of the write is not the current one: it expired and has another owner, or was released.
    #[error(
        "the lease of '{scope}' with epoch {epoch} is no longer valid (the current epoch is {current}): \
         someone else goes on with this work"
    )]
    Fenced {
        /// The scope of the lease.
        scope: String,
        /// The epoch that the write carried.
        epoch: u64,
        /// The current epoch; 0 if the lease never existed.
        current: u64,
    },
    /// Another owner has the lease, and it has not expired.
    #[error("'{scope}' is held by {owner} until {until_ms} ms")]
    Held {
        /// The scope of the lease.
        scope: String,
        /// The current owner.
        owner: String,
        /// The expiry, in milliseconds since 1970.
        until_ms: i64,
    },
    /// The record was created under another scope, and only a lease of that one can change it.
    #[error("{what} belongs to '{scope}'")]
    Owned {
        /// The record.
        what: String,
        /// The scope that it belongs to.
        scope: String,
    },
    /// Another writer has changed the value in the meantime.
    #[error("{what} is at {found}, the write expects {expected}")]
    Conflict {
        /// The object of the write.
        what: String,
        /// The state that the writer expects.
        expected: String,
        /// The current state.
        found: String,
    },
    /// The object does not exist.
    #[error("there is no {what}")]
    Missing {
        /// The missing object.
        what: String,
    },
    /// The object exists already.
    #[error("there is {what} already")]
    Exists {
        /// The existing object.
        what: String,
    },
    /// A run that has not ended has the key.
    #[error("run '{run}' of queue '{queue}' has the key '{key}', and has not ended")]
    KeyInUse {
        /// The queue.
        queue: String,
        /// The key.
        key: String,
        /// The run.
        run: String,
    },
    /// The receipt is invalid: another worker has claimed the message since, or it is gone.
    #[error("message '{id}' of queue '{queue}' is not claimed by attempt {attempt}")]
    NotClaimed {
        /// The queue.
        queue: String,
        /// The message.
        id: String,
        /// The attempt that the receipt names.
        attempt: u32,
    },
    /// The request is invalid.
    #[error("{what}: {why}")]
    Invalid {
        /// The argument.
        what: String,
        /// The reason.
        why: String,
    },
    /// Another process held the file for longer than the store waits.
    #[error("the store {} is busy: another process has been writing to it for {waited_ms} ms", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
        /// How long the store waited.
        waited_ms: u64,
    },
    /// The file, its directory or its disk is not writable.
    #[error("the store {} is read-only: {}", path.display(), writable(path))]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// No space is left, on the disk or under the configured limit.
    #[error("no room for the store {}: free some space on its disk, or raise the store's limit", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error("the store {} is damaged ({detail}): {}", path.display(), remedy(path))]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The finding.
        detail: String,
    },
    /// The file is a database of another program.
    #[error("{} is a database of another program: name another file", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a newer Harn.
    #[error("the store {} has schema version {found}, this Harn knows up to {known}: use a newer Harn", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
        /// The newest supported version.
        known: u32,
    },
    /// The file cannot be opened.
    #[error("cannot open the store {}: {why}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// The connection failed during a commit, and its outcome cannot be determined.
    #[error(
        "it is not known whether the store {} has kept the last writes ({why}): look at what is there before they are \
         made again", path.display()
    )]
    InDoubt {
        /// The address.
        path: PathBuf,
        /// What happened.
        why: String,
    },
    /// Another error of the system.
    #[error("the store {} failed: {why}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The store was closed during the request.
    #[error("the store is closed")]
    Closed,
}

/// Whether a store is a database, and not a file.
fn is_database(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.contains("://"))
}

fn writable(path: &Path) -> &'static str {
    if is_database(path) {
        "name a server that takes writes, and a user with the right to write"
    } else {
        "give this user the right to write the file and its folder"
    }
}

fn remedy(path: &Path) -> &'static str {
    if is_database(path) {
        "restore a copy of the database"
    } else {
        "`harn runs repair ID` takes what is left of a run; else restore a copy, or move the file and those beside it away"
    }
}

/// The result of an operation of a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn invalid(what: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Invalid { what: what.into(), why: why.into() }
    }

    pub(crate) fn missing(what: impl Into<String>) -> Error {
        Error::Missing { what: what.into() }
    }

    /// Returns whether the caller has lost its lease and should stop.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(self, Error::Fenced { .. })
    }

    /// Whether it may pass by itself or when an administrator acts: the database is away, locked, full or takes no writes.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            Error::Busy { .. }
                | Error::ReadOnly { .. }
                | Error::Full { .. }
                | Error::Open { .. }
                | Error::InDoubt { .. }
                | Error::Io { .. }
        )
    }

    /// Returns whether the error concerns the file and not only this request: concurrent writes fail as well.
    #[must_use]
    pub fn is_storage(&self) -> bool {
        matches!(
            self,
            Error::Busy { .. }
                | Error::ReadOnly { .. }
                | Error::Full { .. }
                | Error::Corrupt { .. }
                | Error::Foreign { .. }
                | Error::Newer { .. }
                | Error::Open { .. }
                | Error::InDoubt { .. }
                | Error::Io { .. }
                | Error::Closed
        )
    }
}
