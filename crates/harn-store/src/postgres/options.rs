//! How a database is used.

use std::time::Duration;

/// How a database is used.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// How long to wait for a connection. An address can say it, too: `connect_timeout=SECONDS`.
    pub connect_timeout: Duration,
    /// How long to wait for others that write the same.
    pub busy_timeout: Duration,
    /// How long a statement may take.
    pub statement_timeout: Duration,
    /// How long a connection that was lost is sought again, and a write that another session locks out is tried again.
    pub patience: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            busy_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(60),
            patience: Duration::from_secs(60),
        }
    }
}
