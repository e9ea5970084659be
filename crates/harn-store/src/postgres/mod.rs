//! The store that several machines share: a PostgreSQL database.
//!
//! Writes of one process are sequential, and concurrent ones share a transaction; writes of several processes run in
//! parallel, and lock the rows that they compare.

mod address;
mod apply;
mod connect;
mod fault;
mod journal;
mod leases;
mod options;
mod queues;
mod read;
mod runs;
mod schema;
mod sessions;
mod statement;
mod tls;
mod worker;

use std::path::Path;
use std::sync::Arc;

use self::address::Address;
use self::connect::Db;
use self::fault::{Fault, Outcome};
pub use self::options::PostgresOptions;
use self::worker::Worker;
use crate::error::{Error, Result};
use crate::model::{Dead, Digest, Entry, Event, Fence, Lease, QueueStats, Session, Topic};
use crate::queue::{ClaimRuns, Claims, Submission, Submitted};
use crate::run::{Answer, JournalEntry, Prune, Run, RunFilter, Source, StoreStats, Waitpoint, Wish};
use crate::scheduling::{QueueState, RunQueue};
use crate::store::{Reply, Store};
use crate::thread::{self, Job, Thread, Work};
use crate::write::{self, Write, Written};

/// The store in a database. The connection is opened at the first use, by a dedicated thread.
pub struct PostgresStore {
    address: Address,
    options: PostgresOptions,
    thread: Thread<Db, Fault>,
}

impl PostgresStore {
    /// The store in the database at `url`, such as `postgres://user:password@host/database`. Its tables are made at
    /// the first use, in the schema `harn`.
    ///
    /// # Errors
    /// An invalid address.
    pub fn new(url: &str) -> Result<PostgresStore> {
        PostgresStore::with(url, PostgresOptions::default())
    }

    /// As [`PostgresStore::new`], with options.
    ///
    /// # Errors
    /// As [`PostgresStore::new`].
    pub fn with(url: &str, options: PostgresOptions) -> Result<PostgresStore> {
        Ok(PostgresStore { address: Address::read(url, &options)?, options, thread: Thread::new() })
    }

    /// The address, without its password.
    #[must_use]
    pub fn address(&self) -> &Path {
        &self.address.shown
    }

    fn ask<T, W>(
        &self,
        job: impl FnOnce(Box<dyn Work<Db, Fault>>) -> Job<Db, Fault>,
        work: W,
    ) -> Reply<'static, T>
    where
        T: Send + 'static,
        W: FnMut(&Db) -> Outcome<T> + Send + 'static,
    {
        let worker = Worker::new(self.address.clone(), self.options.clone());
        let failed = |why| Error::Open { path: self.address.shown.clone(), why };
        thread::task(work, |task| self.thread.send(job(task), |jobs| worker.work(jobs), failed))
    }

    fn read<T, W>(&self, work: W) -> Reply<'static, T>
    where
        T: Send + 'static,
        W: FnMut(&Db) -> Outcome<T> + Send + 'static,
    {
        self.ask(Job::Read, work)
    }
}

/// The server returns space on its own (autovacuum); this only checks the connection.
fn compact(db: &Db) -> Outcome<()> {
    db.batch("SELECT 1")
}

thread::store_on_a_thread!(PostgresStore);
