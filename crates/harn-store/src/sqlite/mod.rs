//! The embedded store: one SQLite file in WAL mode, which any number of processes may use at once.

mod apply;
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
mod wal;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

use self::fault::{Fault, Outcome};
pub use self::options::{Durability, SqliteOptions};
use self::worker::Worker;
use crate::error::Error;
use crate::model::{Dead, Digest, Entry, Event, Fence, Lease, QueueStats, Session, Topic};
use crate::queue::{ClaimRuns, Claims, Submission, Submitted};
use crate::run::{Answer, JournalEntry, Prune, Run, RunFilter, Source, StoreStats, Waitpoint, Wish};
use crate::scheduling::{QueueState, RunQueue};
use crate::store::{Reply, Store};
use crate::thread::{self, Job, Thread, Work};
use crate::write::{self, Write, Written};

/// The store in a file. The file is opened at the first use, by a dedicated thread.
pub struct SqliteStore {
    path: PathBuf,
    options: SqliteOptions,
    thread: Thread<Connection, Fault>,
}

impl SqliteStore {
    /// Creates a store in the file `path`; directory and file are created at the first use. The file system must be
    /// local: SQLite's locks do not work on network file systems.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> SqliteStore {
        SqliteStore::with(path, SqliteOptions::default())
    }

    /// As [`SqliteStore::new`], with options.
    #[must_use]
    pub fn with(path: impl Into<PathBuf>, options: SqliteOptions) -> SqliteStore {
        SqliteStore { path: path.into(), options, thread: Thread::new() }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Copies a store to another file while processes use it. The copy is as the store was at one moment; it has no log.
    ///
    /// # Errors
    /// The store cannot be read, or the copy cannot be written.
    pub(crate) fn backup(path: &Path, to: &Path) -> crate::error::Result<()> {
        schema::backup(path, to).map_err(|fault| fault.named(to, SqliteOptions::default().busy_timeout))
    }

    fn ask<T, W>(
        &self,
        job: impl FnOnce(Box<dyn Work<Connection, Fault>>) -> Job<Connection, Fault>,
        work: W,
    ) -> Reply<'static, T>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> Outcome<T> + Send + 'static,
    {
        let (path, options) = (self.path.clone(), self.options.clone());
        let failed = |why| Error::Open { path: self.path.clone(), why };
        thread::task(work, |task| {
            self.thread.send(job(task), |jobs| Worker { path, options, db: None }.work(jobs), failed)
        })
    }

    fn read<T, W>(&self, work: W) -> Reply<'static, T>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> Outcome<T> + Send + 'static,
    {
        self.ask(Job::Read, work)
    }
}

/// Returns the space of removed data to the file system.
fn compact(db: &Connection) -> Outcome<()> {
    // It frees a page each time it is asked for a row.
    let mut vacuum = db.prepare("PRAGMA incremental_vacuum")?;
    let mut freed = vacuum.query([])?;
    while freed.next()?.is_some() {}
    drop(freed);
    drop(vacuum);
    db.execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE);")?;
    Ok(())
}

thread::store_on_a_thread!(SqliteStore);
