//! Leases in memory.

use std::sync::Arc;

use super::state::State;
use crate::error::{Error, Result};
use crate::model::Lease;

/// Takes a lease ([`crate::Store::acquire`]).
pub(super) fn acquire(
    state: &mut State,
    scope: &str,
    owner: &str,
    now_ms: i64,
    until_ms: i64,
) -> Result<Lease> {
    let known = state.leases.get(scope);
    if let Some(held) = known
        && !held.owner.is_empty()
        && held.owner != owner
        && held.until_ms > now_ms
    {
        let (scope, owner, until_ms) = (scope.to_owned(), held.owner.clone(), held.until_ms);
        return Err(Error::Held { scope, owner, until_ms });
    }
    let epoch = known.map_or(0, |lease| lease.epoch) + 1;
    let lease = Lease { scope: scope.to_owned(), owner: owner.to_owned(), epoch, until_ms };
    Arc::make_mut(&mut state.leases).insert(scope.to_owned(), lease.clone());
    Ok(lease)
}
