//! Leases as statements.

use rusqlite::{Connection, params};

use super::fault::Outcome;
use super::statement::run;
use crate::error::Error;
use crate::model::Lease;

/// Takes a lease ([`crate::Store::acquire`]).
pub(super) fn acquire(
    db: &Connection,
    scope: &str,
    owner: &str,
    now_ms: i64,
    until_ms: i64,
) -> Outcome<Lease> {
    let known = super::read::lease(db, scope)?;
    if let Some(held) = &known
        && !held.owner.is_empty()
        && held.owner != owner
        && held.until_ms > now_ms
    {
        let (scope, owner, until_ms) = (scope.to_owned(), held.owner.clone(), held.until_ms);
        return Err(Error::Held { scope, owner, until_ms }.into());
    }
    let epoch = known.map_or(0, |lease| lease.epoch) + 1;
    let sql = "INSERT OR REPLACE INTO lease (scope, owner, epoch, until_ms) VALUES (?, ?, ?, ?)";
    run(db, sql, params![scope, owner, epoch, until_ms])?;
    Ok(Lease { scope: scope.to_owned(), owner: owner.to_owned(), epoch, until_ms })
}
