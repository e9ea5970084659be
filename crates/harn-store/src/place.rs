//! The location of a store, as a user names it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::shown::shown;
use crate::sqlite::{SqliteOptions, SqliteStore};
use crate::store::Store;

/// The location of a store.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// A file of SQLite.
    File(PathBuf),
    /// The address of a database, such as `postgres://user@host/database`. It may hold a password, which is never shown.
    Url(String),
}

impl Place {
    /// Creates the store. It is opened at the first use.
    ///
    /// # Errors
    /// An invalid address, or one of an unsupported kind.
    pub fn open(&self) -> Result<Arc<dyn Store>> {
        self.open_with(SqliteOptions::default())
    }

    /// Opens the store, also if its log has lost acknowledged writes, with the remaining data.
    ///
    /// # Errors
    /// Those of [`Place::open`].
    pub fn open_damaged(&self) -> Result<Arc<dyn Store>> {
        self.open_with(SqliteOptions { repairs: true, ..SqliteOptions::default() })
    }

    /// Opens an existing store for reading. A file is not changed, not even to upgrade its schema.
    ///
    /// # Errors
    /// Those of [`Place::open`].
    pub fn open_to_read(&self) -> Result<Arc<dyn Store>> {
        self.open_with(SqliteOptions { reads: true, ..SqliteOptions::default() })
    }

    /// Copies a store in a file to another file while processes use it. The copy is as the store was at one moment.
    ///
    /// # Errors
    /// The store is a database, or it cannot be read, or the copy cannot be written.
    pub fn backup(&self, to: &std::path::Path) -> Result<()> {
        match self {
            Place::File(path) => SqliteStore::backup(path, to),
            Place::Url(url) => {
                let why = format!(
                    "it is the database {}: use `pg_dump --schema=harn`, which copies it while it is used",
                    shown(url)
                );
                Err(Error::invalid("the store to back up", why))
            }
        }
    }

    fn open_with(&self, options: SqliteOptions) -> Result<Arc<dyn Store>> {
        let url = match self {
            Place::File(path) => return Ok(Arc::new(SqliteStore::with(path, options))),
            Place::Url(url) => url,
        };
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            let why = format!("expected postgres://USER@HOST/DATABASE, got {}", shown(url));
            return Err(Error::invalid("the address of the store", why));
        }
        open_database(url)
    }
}

impl Place {
    /// Adds a password if the address of a database has none.
    #[must_use]
    pub fn or_password(self, password: Option<&str>) -> Place {
        let (Place::Url(url), Some(password)) = (&self, password) else { return self };
        let Some((scheme, rest)) = url.split_once("://") else { return self };
        let Some((user, rest)) = rest.split_once('@') else { return self };
        if user.contains(':') || rest.contains("password=") {
            return self;
        }
        let written = password.bytes().map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        });
        Place::Url(format!("{scheme}://{user}:{}@{rest}", written.collect::<String>()))
    }
}

impl fmt::Display for Place {
    /// Without a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => write!(f, "{}", path.display()),
            Place::Url(url) => f.write_str(&shown(url)),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(feature = "postgres")]
fn open_database(url: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(crate::postgres::PostgresStore::new(url)?))
}

#[cfg(not(feature = "postgres"))]
fn open_database(url: &str) -> Result<Arc<dyn Store>> {
    let why =
        "this harn was built without PostgreSQL: take a released one, or build it with `--features postgres`";
    Err(Error::Open { path: shown(url).into(), why: why.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for (url, expected) in [
            ("postgres://ann:secret@db.example/runs?sslmode=disable", "postgres://ann@db.example/runs"),
            ("postgres://ann:sec@ret@db:5433/runs", "postgres://ann@db:5433/runs"),
            ("postgres://ann:sec/re?t#@db/runs", "postgres://ann@db/runs"),
            ("postgres://:secret@db/runs", "postgres://db/runs"),
            ("postgresql:///runs?host=/run&password=secret", "postgresql:///runs"),
            ("postgres://ann@db/runs?password=a@b", "postgres://ann@b"),
            ("password=secret host=db", "something else"),
            ("password=secret://", "something else"),
        ] {
            assert_eq!(shown(url), expected);
            assert!(!format!("{:?}", Place::Url(url.to_owned())).contains("secret"));
        }
    }

    #[test]
    fn a_password_is_added_where_there_is_none() {
        let with = |url: &str| match Place::Url(url.to_owned()).or_password(Some("a b/é")) {
            Place::Url(url) => url,
            Place::File(_) => String::new(),
        };
        assert_eq!(with("postgres://ann@db/runs"), "postgres://ann:a%20b%2F%C3%A9@db/runs");
        for url in [
            "postgres://ann:own@db/runs",
            "postgres://db/runs?user=ann",
            "postgres://ann@db/runs?password=own",
        ] {
            assert_eq!(with(url), url);
        }
        let plain = Place::Url("postgres://ann@db/runs".to_owned());
        assert_eq!(plain.clone().or_password(None), plain);
    }

    #[test]
    fn other_addresses_are_refused() {
        for url in ["mysql://ann:secret@db/runs", "secret", ""] {
            let error = Place::Url(url.to_owned()).open().err().map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert!(error.contains("expected postgres://USER@HOST/DATABASE"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[cfg(not(feature = "postgres"))]
    #[test]
    fn a_build_without_postgresql_says_so() {
        let error = Place::Url("postgres://ann:secret@db/runs".to_owned()).open().err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(
            error.contains("postgres://ann@db/runs") && error.contains("built without PostgreSQL"),
            "{error}"
        );
    }
}
