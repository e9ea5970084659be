//! Errors on the thread of the connection, before they know the store's address.

use std::error::Error as _;
use std::path::Path;

use tokio_postgres::error::SqlState;

use crate::error::Error;

/// An error inside the database.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// The connection is lost, or the server is temporarily unreachable.
    Lost(String),
    /// The connection is impossible; a retry does not help.
    NoWay(String),
    /// Transactions conflicted; this one was rolled back and can be retried.
    Again(String),
    /// Another process has locked the rows.
    Busy,
    /// The server's disk is full.
    Full,
    /// The server or this user is read-only.
    ReadOnly,
    /// The data is invalid.
    Damaged(String),
    /// An error of the server.
    Server(String),
    /// The outcome of the commit cannot be determined.
    InDoubt(String),
    /// A complete error.
    Other(Error),
}

pub(super) type Outcome<T> = Result<T, Fault>;

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        match error {
            Error::Corrupt { detail, .. } => Fault::Damaged(detail),
            error => Fault::Other(error),
        }
    }
}

/// An error with its causes, in one line.
pub(super) fn told(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return format!("{} [{}]", error.message(), error.code().code());
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Fault {
        let text = told(&error);
        let Some(code) = error.code() else {
            let is_io = error.source().is_some_and(|cause| cause.is::<std::io::Error>());
            return if error.is_closed() || is_io { Fault::Lost(text) } else { Fault::Server(text) };
        };
        // Errors of the server that end the connection.
        let ends = [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::DATABASE_DROPPED,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ];
        let again = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
        let read_only = [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::INSUFFICIENT_PRIVILEGE];
        let damaged = [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED];
        match code {
            code if ends.contains(code) || code.code().starts_with("08") || code.code() == "57P05" => {
                Fault::Lost(text)
            }
            code if again.contains(code) => Fault::Again(text),
            code if *code == SqlState::LOCK_NOT_AVAILABLE => Fault::Busy,
            code if *code == SqlState::DISK_FULL => Fault::Full,
            code if read_only.contains(code) => Fault::ReadOnly,
            code if damaged.contains(code) => Fault::Damaged(text),
            _ => Fault::Server(text),
        }
    }
}

impl Fault {
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Fault::Lost(_))
    }

    /// Returns whether the database caused the error, and not the request.
    pub(super) fn is_storage(&self) -> bool {
        match self {
            Fault::Other(error) => error.is_storage(),
            _ => true,
        }
    }

    /// Converts to the error that the caller sees.
    pub(super) fn named(self, path: &Path, waited_ms: u64) -> Error {
        let path = path.to_owned();
        match self {
            Fault::Lost(why) | Fault::NoWay(why) => Error::Open { path, why },
            Fault::Again(why) | Fault::Server(why) => Error::Io { path, why },
            Fault::Busy => Error::Busy { path, waited_ms },
            Fault::Full => Error::Full { path },
            Fault::ReadOnly => Error::ReadOnly { path },
            Fault::Damaged(detail) => Error::Corrupt { path, detail },
            Fault::InDoubt(why) => Error::InDoubt { path, why },
            Fault::Other(Error::Newer { found, known, .. }) => Error::Newer { path, found, known },
            Fault::Other(error) => error,
        }
    }
}
