//! A connection, and statements on it. The thread of the store waits for each answer.

#![expect(
    clippy::disallowed_methods,
    reason = "the connection has a thread of its own, with timers of its own; certificates are files of the operator"
)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error as _;
use std::future::Future;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, ToSql};
use tokio_postgres::{Client, NoTls, Row, Statement};

use super::address::Address;
use super::fault::{Fault, Outcome, told};
use super::options::PostgresOptions;
use super::tls::Tls;

/// The arguments of a statement.
pub(super) type Args<'a> = &'a [&'a (dyn ToSql + Sync)];

/// How long an answer may take beyond the server's statement timeout.
const GRACE: Duration = Duration::from_secs(5);

/// The rows of a statement, and their columns by number.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Outcome<T> {
    // Only damage can cause a value of the wrong type.
    row.try_get(index).map_err(|error| Fault::Damaged(told(&error)))
}

/// Reads a non-negative number.
pub(super) fn count(row: &Row, index: usize) -> Outcome<u64> {
    let found: i64 = get(row, index)?;
    u64::try_from(found).map_err(|_| Fault::Damaged(format!("a count is {found}")))
}

/// An open connection.
pub(super) struct Db {
    runtime: Runtime,
    client: Client,
    statements: RefCell<HashMap<String, Statement>>,
    limit: Duration,
}

impl Db {
    /// Connects and configures the session.
    pub(super) fn open(address: &Address, options: &PostgresOptions, name: &str) -> Outcome<Db> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Fault::NoWay(error.to_string()))?;
        let mut config = address.config.clone();
        config.application_name(name);
        let wait = config.get_connect_timeout().copied().unwrap_or(options.connect_timeout) + GRACE;
        let secure = config.get_ssl_mode() != tokio_postgres::config::SslMode::Disable;
        let tls = if secure { Some(Tls::new(address.authority.as_deref())?) } else { None };
        let client = runtime.block_on(async {
            // The connection runs on this runtime while the thread waits for an answer.
            let connecting = async {
                match tls {
                    Some(tls) => config.connect(tls).await.map(|(client, connection)| {
                        tokio::spawn(connection);
                        client
                    }),
                    None => config.connect(NoTls).await.map(|(client, connection)| {
                        tokio::spawn(connection);
                        client
                    }),
                }
            };
            match tokio::time::timeout(wait, connecting).await {
                Ok(connected) => connected.map_err(|error| unreachable(address, &error)),
                Err(_) => Err(Fault::Lost(format!("{} does not answer", address.hosts()))),
            }
        })?;
        let limit = options.statement_timeout + GRACE;
        let db = Db { runtime, client, statements: RefCell::default(), limit };
        // A process that is stopped during a transaction must not lock rows for long.
        db.batch(&format!(
            "SET search_path = harn;
             SET statement_timeout = {};
             SET lock_timeout = {};
             SET idle_in_transaction_session_timeout = 10000;
             SELECT set_config('synchronous_commit', 'on', false)
                 WHERE current_setting('synchronous_commit') = 'off';",
            options.statement_timeout.as_millis(),
            options.busy_timeout.as_millis().max(1),
        ))?;
        Ok(db)
    }

    /// Waits for an answer of the server.
    fn on<T>(&self, asked: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Outcome<T> {
        match self.runtime.block_on(async { tokio::time::timeout(self.limit, asked).await }) {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Fault::Lost(format!("the server did not answer for {} s", self.limit.as_secs()))),
        }
    }

    /// Runs statements without arguments.
    pub(super) fn batch(&self, sql: &str) -> Outcome<()> {
        self.on(self.client.batch_execute(sql))
    }

    fn statement(&self, sql: &str) -> Outcome<Statement> {
        let known = self.statements.borrow().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.on(self.client.prepare(sql))?;
        self.statements.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Runs a statement; returns the number of rows.
    pub(super) fn run(&self, sql: &str, args: Args<'_>) -> Outcome<u64> {
        let statement = self.statement(sql)?;
        self.on(self.client.execute(&statement, args))
    }

    /// All rows of a statement.
    pub(super) fn rows<T>(
        &self,
        sql: &str,
        args: Args<'_>,
        read: impl FnMut(&Row) -> Outcome<T>,
    ) -> Outcome<Vec<T>> {
        let statement = self.statement(sql)?;
        self.on(self.client.query(&statement, args))?.iter().map(read).collect()
    }

    /// Returns the row of a statement that yields at most one.
    pub(super) fn row<T>(
        &self,
        sql: &str,
        args: Args<'_>,
        read: impl FnOnce(&Row) -> Outcome<T>,
    ) -> Outcome<Option<T>> {
        let statement = self.statement(sql)?;
        self.on(self.client.query_opt(&statement, args))?.as_ref().map(read).transpose()
    }

    /// Returns the row of a statement that yields exactly one.
    pub(super) fn one<T>(
        &self,
        sql: &str,
        args: Args<'_>,
        read: impl FnOnce(&Row) -> Outcome<T>,
    ) -> Outcome<T> {
        self.row(sql, args, read)?.ok_or_else(|| Fault::Server("a statement gave no row".to_owned()))
    }

    /// Begins a transaction with a statement, in one trip to the server.
    pub(super) fn begin(&self, begin: &str, sql: &str, args: Args<'_>) -> Outcome<()> {
        let statement = self.statement(sql)?;
        self.on(async {
            let (begun, ran) =
                tokio::join!(self.client.batch_execute(begin), self.client.execute(&statement, args));
            begun.and(ran).map(drop)
        })
    }
}

/// Explains a failed connection.
fn unreachable(address: &Address, error: &tokio_postgres::Error) -> Fault {
    let text = told(error);
    let hosts = address.hosts();
    let user = address.config.get_user().unwrap_or_default();
    let database = address.config.get_dbname().unwrap_or_default();
    let Some(code) = error.code() else {
        let is_io = error.source().is_some_and(|cause| cause.is::<std::io::Error>());
        if text.contains("password missing") {
            return Fault::NoWay(format!(
                "the server asks user '{user}' for a password: put it into the address, or into PGPASSWORD"
            ));
        }
        if text.contains("TLS") {
            return Fault::NoWay(format!(
                "no secure connection to {hosts} ({text}): name its authority with sslrootcert=FILE, or switch TLS off \
                 with sslmode=disable"
            ));
        }
        return if is_io || error.is_closed() {
            Fault::Lost(format!("no server can be reached at {hosts} ({text}): is it running?"))
        } else {
            Fault::NoWay(format!("no connection to {hosts}: {text}"))
        };
    };
    let denied = [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION];
    match code {
        code if denied.contains(code) => Fault::NoWay(format!(
            "the server does not let user '{user}' in: {text}; look at user and password"
        )),
        code if *code == SqlState::INVALID_CATALOG_NAME => Fault::NoWay(format!(
            "the server has no database '{database}': make it with `createdb {database}`, or name another one"
        )),
        code if *code == SqlState::TOO_MANY_CONNECTIONS => Fault::Lost(format!(
            "the server takes no more connections ({text}): raise its max_connections, or run fewer processes"
        )),
        code if *code == SqlState::CANNOT_CONNECT_NOW => {
            Fault::Lost(format!("the server is not ready: {text}"))
        }
        _ => Fault::NoWay(format!("no connection to {hosts}: {text}")),
    }
}
