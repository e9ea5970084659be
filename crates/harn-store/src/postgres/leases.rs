//! Leases as statements.

use super::connect::{Db, count};
use super::fault::Outcome;
use crate::error::Error;
use crate::model::Lease;

/// Takes a lease ([`crate::Store::acquire`]). A concurrent caller waits, and finds it taken.
pub(super) fn acquire(db: &Db, scope: &str, owner: &str, now_ms: i64, until_ms: i64) -> Outcome<Lease> {
    let sql = "INSERT INTO lease (scope, owner, epoch, until_ms) VALUES ($1, $2, 1, $4)
               ON CONFLICT (scope) DO UPDATE SET owner = $2, epoch = lease.epoch + 1, until_ms = $4
               WHERE lease.owner = '' OR lease.owner = $2 OR lease.until_ms <= $3 RETURNING epoch";
    if let Some(epoch) = db.row(sql, &[&scope, &owner, &now_ms, &until_ms], |row| count(row, 0))? {
        return Ok(Lease { scope: scope.to_owned(), owner: owner.to_owned(), epoch, until_ms });
    }
    let held = super::read::lease(db, scope)?.ok_or_else(|| Error::missing(format!("lease '{scope}'")))?;
    Err(Error::Held { scope: scope.to_owned(), owner: held.owner, until_ms: held.until_ms }.into())
}
