//! Options of a database.

use std::time::Duration;

/// Options of a database.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Timeout of a connection attempt. Also an option of the address: `connect_timeout=SECONDS`.
    pub connect_timeout: Duration,
    /// How long to wait for locks.
    pub busy_timeout: Duration,
    /// Timeout of a statement.
    pub statement_timeout: Duration,
    /// How long to retry a lost connection.
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
