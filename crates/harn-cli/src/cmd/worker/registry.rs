//! The registry of workers in a store. Each worker stores a record under a lease that it renews.
//!
//! A record is named after a host and a number. A worker takes the first number of its host without a live worker, so a
//! restarted worker replaces its previous record.

use std::sync::Arc;

use harn_store::{Error as StoreError, Expect, Lease, Store, StoreExt, Write};
use harn_value::{Data as Value, json};

/// The key-value space of the records.
const SPACE: &str = "workers";

/// Interval of heartbeats, and how long a worker is considered alive after one.
pub(super) const BEAT_MS: i64 = 5_000;
const ALIVE_MS: i64 = 3 * BEAT_MS;

/// Records of workers that ended or died this long ago are removed.
const FORGET_MS: i64 = 86_400_000;

/// Maximum number of workers per host.
const NUMBERS: u32 = 10_000;

/// Number of records read in one query.
const PAGE: usize = 500;

fn scope(key: &str) -> String {
    format!("worker/{key}")
}

/// The record of this worker.
pub(super) struct Registration {
    store: Arc<dyn Store>,
    owner: String,
    host: String,
    /// The key of the record, and its lease.
    own: Option<(String, Lease)>,
}

impl Registration {
    pub(super) fn new(store: Arc<dyn Store>, owner: String, host: String) -> Registration {
        let host = if host.is_empty() { "localhost".to_owned() } else { host };
        Registration { store, owner, host, own: None }
    }

    /// Renews the lease and writes the record.
    ///
    /// # Errors
    /// The errors of the store; the next heartbeat tries again.
    pub(super) async fn beat(&mut self, mut record: Value, now_ms: i64) -> Result<(), StoreError> {
        let (key, lease) = match self.own.take() {
            Some(own) => own,
            None => self.register(now_ms).await?,
        };
        record["host"] = self.host.as_str().into();
        record["seen_ms"] = now_ms.into();
        let put = Write::KvPut {
            space: SPACE.to_owned(),
            key: key.clone(),
            value: record.to_string().into_bytes(),
            expect: Expect::Anything,
        };
        let writes = vec![Write::Renew { until_ms: now_ms + ALIVE_MS }, put];
        match self.store.write(&lease.fence(), writes).await {
            // This process was suspended for so long that another worker owns its record.
            Err(error) if error.is_fenced() => Err(error),
            written => {
                self.own = Some((key, lease));
                written.map(drop)
            }
        }
    }

    async fn register(&self, now_ms: i64) -> Result<(String, Lease), StoreError> {
        let mut number = 0;
        loop {
            let key = format!("{}/{number}", self.host);
            match self.store.acquire(&scope(&key), &self.owner, now_ms, now_ms + ALIVE_MS).await {
                Err(StoreError::Held { .. }) if number < NUMBERS => number += 1,
                Err(error) => return Err(error),
                Ok(lease) => {
                    self.forget(&lease, now_ms).await?;
                    return Ok((key, lease));
                }
            }
        }
    }

    /// Removes old records.
    async fn forget(&self, lease: &Lease, now_ms: i64) -> Result<(), StoreError> {
        let is_old =
            |record: &Value| record["seen_ms"].as_i64().is_some_and(|seen| seen < now_ms - FORGET_MS);
        for (key, record) in records(&*self.store).await? {
            if is_old(&record) {
                let delete = Write::KvDelete { space: SPACE.to_owned(), key, expect: Expect::Anything };
                self.store.write(&lease.fence(), vec![delete]).await?;
            }
        }
        Ok(())
    }

    /// Writes the last record and releases the lease.
    pub(super) async fn end(&mut self, record: Value, now_ms: i64) -> Result<(), StoreError> {
        if self.own.is_some() {
            self.beat(record, now_ms).await?;
        }
        match self.own.take() {
            Some((_, lease)) => self.store.release(&lease.fence()).await,
            None => Ok(()),
        }
    }
}

async fn records(store: &dyn Store) -> Result<Vec<(String, Value)>, StoreError> {
    let mut found: Vec<(String, Value)> = Vec::new();
    loop {
        let after = found.last().map(|(key, _)| key.clone());
        let page = store.kv_list(SPACE, "", after.as_deref(), PAGE).await?;
        let is_last = page.len() < PAGE;
        found.extend(
            page.into_iter()
                .map(|(key, entry)| (key, serde_json::from_slice(&entry.value).unwrap_or_default())),
        );
        if is_last {
            return Ok(found);
        }
    }
}

/// A worker, as other processes see it.
pub(crate) struct WorkerInfo {
    pub(crate) name: String,
    /// `working`, `draining`, `stopped`, or `dead` if its heartbeats stopped unexpectedly.
    pub(crate) status: String,
    pub(crate) record: Value,
    /// The time since its last heartbeat.
    pub(crate) age_ms: i64,
}

impl WorkerInfo {
    pub(crate) fn is_alive(&self) -> bool {
        matches!(&*self.status, "working" | "draining")
    }

    /// Returns the worker as JSON.
    pub(crate) fn data(&self, time: impl Fn(i64) -> String) -> Value {
        let of = |key: &str| self.record[key].clone();
        let at = |key: &str| self.record[key].as_i64().map_or(Value::Null, |ms| time(ms).into());
        json!({
            "name": self.name, "status": self.status, "host": of("host"), "pid": of("pid"), "version": of("version"),
            "started_at": at("started_ms"), "seen_at": at("seen_ms"), "heartbeat_age_ms": self.age_ms,
            "concurrency": of("concurrency"), "queues": of("queues"), "runs": of("runs"), "ended": of("ended"),
        })
    }
}

/// Returns the workers of a store, by name.
///
/// # Errors
/// The errors of the store.
pub(crate) async fn workers(store: &dyn Store, now_ms: i64) -> Result<Vec<WorkerInfo>, StoreError> {
    let mut found = Vec::new();
    for (name, record) in records(store).await? {
        let lease = store.lease(&scope(&name)).await?;
        let holds = lease.is_some_and(|lease| !lease.owner.is_empty() && lease.until_ms > now_ms);
        let last = record["status"].as_str().unwrap_or("working");
        let status = match last {
            "stopped" => last,
            last if holds => last,
            _ => "dead",
        };
        let age_ms = (now_ms - record["seen_ms"].as_i64().unwrap_or(now_ms)).max(0);
        found.push(WorkerInfo { name, status: status.to_owned(), record, age_ms });
    }
    Ok(found)
}
