//! Errors on the thread of the file, before they know the file's name.

use std::path::Path;
use std::time::Duration;

use rusqlite::ErrorCode;

use crate::error::Error;

/// An error inside the file.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// Another process has locked the file.
    Busy,
    /// An error of SQLite: its code and message.
    Sqlite(Option<ErrorCode>, String),
    /// A complete error.
    Other(Error),
}

pub(super) type Outcome<T> = Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Fault::Busy,
            None if matches!(error, rusqlite::Error::ToSqlConversionFailure(_)) => {
                Fault::Other(Error::invalid("number", "it is too large for the store"))
            }
            // Only damage can cause a value of the wrong type.
            None if !matches!(error, rusqlite::Error::SqliteFailure(..)) => {
                Fault::Sqlite(Some(ErrorCode::DatabaseCorrupt), error.to_string())
            }
            code => {
                // The index of the log cannot be made on a full disk.
                let is_full = error
                    .sqlite_error()
                    .is_some_and(|found| found.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE);
                Fault::Sqlite(if is_full { Some(ErrorCode::DiskFull) } else { code }, error.to_string())
            }
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Other(error)
    }
}

impl Fault {
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Fault::Busy)
    }

    /// Returns whether the file may be readable although it cannot be written.
    pub(super) fn is_of_writing(&self) -> bool {
        use ErrorCode::{CannotOpen, DiskFull, PermissionDenied, ReadOnly};
        matches!(self, Fault::Sqlite(Some(CannotOpen | DiskFull | PermissionDenied | ReadOnly), _))
    }

    /// Returns whether the file caused the error, and not the request.
    pub(super) fn is_storage(&self) -> bool {
        match self {
            Fault::Busy | Fault::Sqlite(..) => true,
            Fault::Other(error) => error.is_storage(),
        }
    }

    /// Converts to the error that the caller sees.
    pub(super) fn named(self, path: &Path, waited: Duration) -> Error {
        let path = path.to_owned();
        let (code, why) = match self {
            Fault::Busy => {
                return Error::Busy {
                    path,
                    waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
                };
            }
            Fault::Other(Error::Corrupt { detail, .. }) => return Error::Corrupt { path, detail },
            Fault::Other(error) => return error,
            Fault::Sqlite(code, why) => (code, why),
        };
        match code {
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Error::ReadOnly { path },
            Some(ErrorCode::DiskFull) => Error::Full { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Error::Corrupt { path, detail: why }
            }
            Some(ErrorCode::CannotOpen) => Error::Open { path, why },
            _ => Error::Io { path, why },
        }
    }
}
