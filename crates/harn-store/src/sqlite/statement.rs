//! Running statements.

use rusqlite::{Connection, OptionalExtension, Params, Row};

use super::fault::Outcome;

/// Runs a statement; returns the number of rows.
pub(super) fn run(db: &Connection, sql: &str, args: impl Params) -> Outcome<usize> {
    Ok(db.prepare_cached(sql)?.execute(args)?)
}

/// Numbers in the file are signed; larger ones are capped.
pub(super) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// All rows of a statement.
pub(super) fn rows<T>(
    db: &Connection,
    sql: &str,
    args: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Outcome<Vec<T>> {
    Ok(db.prepare_cached(sql)?.query_map(args, read)?.collect::<Result<_, _>>()?)
}

/// Returns the row of a statement that yields at most one.
pub(super) fn row<T>(
    db: &Connection,
    sql: &str,
    args: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Outcome<Option<T>> {
    Ok(db.prepare_cached(sql)?.query_row(args, read).optional()?)
}

/// SQLite counts in signed numbers.
pub(super) fn page(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
