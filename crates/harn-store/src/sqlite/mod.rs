//! The embedded store: one SQLite file in WAL mode, which any number of processes may use at once.

mod apply;
mod fault;
mod journal;
mod leases;
mod options;
mod read;
mod runs;
mod schema;
mod sessions;
mod statement;
mod thread;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

use self::fault::Outcome;
pub use self::options::{Durability, SqliteOptions};
use self::thread::{Job, Task, Thread};
use crate::error::{Error, Result};
use crate::model::{Dead, Digest, Entry, Event, Fence, Lease, QueueStats, Session, Topic};
use crate::run::{Answer, JournalEntry, Run, RunFilter, Source, Waitpoint};
use crate::store::{Reply, Store};
use crate::write::{self, Write, Written};

/// The store in a file. Nothing is opened before the first use; then a thread of its own does the work.
pub struct SqliteStore {
    path: PathBuf,
    options: SqliteOptions,
    thread: Mutex<Option<(Sender<Job>, JoinHandle<()>)>>,
}

impl SqliteStore {
    /// The store in the file `path`; folder and file are made at the first use. The file system must be a local one:
    /// SQLite's locks do not hold on network file systems.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> SqliteStore {
        SqliteStore::with(path, SqliteOptions::default())
    }

    /// As [`SqliteStore::new`], with options.
    #[must_use]
    pub fn with(path: impl Into<PathBuf>, options: SqliteOptions) -> SqliteStore {
        SqliteStore { path: path.into(), options, thread: Mutex::default() }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Hands a job to the thread, which is started by the first one.
    fn send(&self, job: Job) -> Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let (jobs, _) = match &mut *thread {
            Some(running) => running,
            none => {
                let (sender, jobs) = channel();
                let state = Thread { path: self.path.clone(), options: self.options.clone(), jobs, db: None };
                let handle = std::thread::Builder::new()
                    .name("harn-store".to_owned())
                    .spawn(move || state.work())
                    .map_err(|error| Error::Open { path: self.path.clone(), why: error.to_string() })?;
                none.insert((sender, handle))
            }
        };
        // A thread that has panicked is replaced by the next job.
        jobs.send(job).map_err(|_| {
            *thread = None;
            Error::Closed
        })
    }

    fn ask<T, F>(&self, job: impl FnOnce(Box<dyn thread::Work>) -> Job, work: F) -> Reply<'static, T>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Outcome<T> + Send + 'static,
    {
        let (task, answer) = Task::boxed(work);
        let sent = self.send(job(task));
        Box::pin(async move {
            sent?;
            answer.await.unwrap_or(Err(Error::Closed))
        })
    }

    fn read<T, F>(&self, work: F) -> Reply<'static, T>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Outcome<T> + Send + 'static,
    {
        self.ask(Job::Read, work)
    }
}

impl Drop for SqliteStore {
    /// Waits for what was asked for, and closes the file.
    fn drop(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((jobs, handle)) = thread {
            drop(jobs);
            let _ = handle.join();
        }
    }
}

/// A refusal without asking the file.
fn refused<T: Send + 'static>(error: Error) -> Reply<'static, T> {
    Box::pin(std::future::ready(Err(error)))
}

impl Store for SqliteStore {
    fn acquire<'a>(&'a self, scope: &'a str, owner: &'a str, now_ms: i64, until_ms: i64) -> Reply<'a, Lease> {
        if let Err(error) = write::name("scope", scope).and_then(|()| write::name("owner", owner)) {
            return refused(error);
        }
        let (scope, owner) = (scope.to_owned(), owner.to_owned());
        self.ask(Job::Write, move |db| leases::acquire(db, &scope, &owner, now_ms, until_ms))
    }

    fn write<'a>(&'a self, fence: &'a Fence, writes: Vec<Write>) -> Reply<'a, Vec<Written>> {
        if let Err(error) = writes.iter().try_for_each(write::check) {
            return refused(error);
        }
        let (fence, writes) = (fence.clone(), Arc::new(writes));
        self.ask(Job::Write, move |db| apply::all(db, &fence, &writes))
    }

    fn lease<'a>(&'a self, scope: &'a str) -> Reply<'a, Option<Lease>> {
        let scope = scope.to_owned();
        self.read(move |db| read::lease(db, &scope))
    }

    fn kv_get<'a>(&'a self, space: &'a str, key: &'a str) -> Reply<'a, Option<Entry>> {
        let (space, key) = (space.to_owned(), key.to_owned());
        self.read(move |db| read::kv_get(db, &space, &key))
    }

    fn kv_list<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> Reply<'a, Vec<(String, Entry)>> {
        let (space, prefix, after) = (space.to_owned(), prefix.to_owned(), after.map(str::to_owned));
        self.read(move |db| read::kv_list(db, &space, &prefix, after.as_deref(), limit))
    }

    fn log_read<'a>(&'a self, topic: &'a str, after: u64, limit: usize) -> Reply<'a, Vec<Event>> {
        let topic = topic.to_owned();
        self.read(move |db| read::log_read(db, &topic, after, limit))
    }

    fn log_topic<'a>(&'a self, topic: &'a str) -> Reply<'a, Option<Topic>> {
        let topic = topic.to_owned();
        self.read(move |db| read::log_topic(db, &topic))
    }

    fn log_topics<'a>(&'a self, after: Option<&'a str>, limit: usize) -> Reply<'a, Vec<Topic>> {
        let after = after.map(str::to_owned);
        self.read(move |db| read::log_topics(db, after.as_deref(), limit))
    }

    fn queue_stats<'a>(&'a self, queue: &'a str, now_ms: i64) -> Reply<'a, QueueStats> {
        let queue = queue.to_owned();
        self.read(move |db| read::queue_stats(db, &queue, now_ms))
    }

    fn queue_dead<'a>(
        &'a self,
        queue: &'a str,
        now_ms: i64,
        after: Option<&'a str>,
        limit: usize,
    ) -> Reply<'a, Vec<Dead>> {
        let (queue, after) = (queue.to_owned(), after.map(str::to_owned));
        self.read(move |db| read::queue_dead(db, &queue, now_ms, after.as_deref(), limit))
    }

    fn session<'a>(&'a self, id: &'a str) -> Reply<'a, Option<Session>> {
        let id = id.to_owned();
        self.read(move |db| read::session(db, &id))
    }

    fn sessions<'a>(
        &'a self,

        status: Option<&'a str>,
        after: Option<&'a str>,
        limit: usize,
    ) -> Reply<'a, Vec<Session>> {
        let (status, after) = (status.map(str::to_owned), after.map(str::to_owned));
        self.read(move |db| read::sessions(db, status.as_deref(), after.as_deref(), limit))
    }

    fn session_entries<'a>(&'a self, id: &'a str, from: u64, limit: usize) -> Reply<'a, Vec<Vec<u8>>> {
        let id = id.to_owned();
        self.read(move |db| read::session_entries(db, &id, from, limit))
    }

    fn blob(&self, digest: Digest) -> Reply<'_, Option<Vec<u8>>> {
        self.read(move |db| read::blob(db, digest))
    }

    fn blobs(&self, after: Option<Digest>, limit: usize) -> Reply<'_, Vec<(Digest, u64)>> {
        self.read(move |db| read::blobs(db, after, limit))
    }

    fn run<'a>(&'a self, id: &'a str) -> Reply<'a, Option<Run>> {
        let id = id.to_owned();
        self.read(move |db| runs::one(db, &id))
    }

    fn runs(&self, filter: RunFilter, limit: usize) -> Reply<'_, Vec<Run>> {
        self.read(move |db| runs::all(db, filter, limit))
    }

    fn journal<'a>(&'a self, run: &'a str, from: u64, limit: usize) -> Reply<'a, Vec<JournalEntry>> {
        let run = run.to_owned();
        self.read(move |db| runs::journal(db, &run, from, limit))
    }

    fn sources<'a>(&'a self, run: &'a str) -> Reply<'a, Vec<Source>> {
        let run = run.to_owned();
        self.read(move |db| runs::sources(db, &run))
    }

    fn waitpoints<'a>(&'a self, run: Option<&'a str>, open: bool) -> Reply<'a, Vec<Waitpoint>> {
        let run = run.map(str::to_owned);
        self.read(move |db| runs::waitpoints(db, run.as_deref(), open))
    }

    fn waitpoint<'a>(&'a self, run: &'a str, request_id: &'a str) -> Reply<'a, Waitpoint> {
        let (run, request_id) = (run.to_owned(), request_id.to_owned());
        self.read(move |db| runs::one_waitpoint(db, &run, &request_id))
    }

    fn answer<'a>(&'a self, run: &'a str, request_id: &'a str, answer: Answer) -> Reply<'a, Waitpoint> {
        if let Err(error) = write::check_answer(&answer) {
            return refused(error);
        }
        let (run, request_id) = (run.to_owned(), request_id.to_owned());
        self.ask(Job::Write, move |db| runs::answer(db, &run, &request_id, &answer))
    }

    fn claim_run<'a>(
        &'a self,
        owner: &'a str,
        now_ms: i64,
        until_ms: i64,
    ) -> Reply<'a, Option<(Run, Lease)>> {
        if let Err(error) = write::name("owner", owner) {
            return refused(error);
        }
        let owner = owner.to_owned();
        self.ask(Job::Write, move |db| runs::claim(db, &owner, now_ms, until_ms))
    }

    fn compact(&self) -> Reply<'_, ()> {
        self.ask(Job::Alone, |db| {
            // It frees a page each time it is asked for a row.
            let mut vacuum = db.prepare("PRAGMA incremental_vacuum")?;
            let mut freed = vacuum.query([])?;
            while freed.next()?.is_some() {}
            drop(freed);
            drop(vacuum);
            db.execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE);")?;
            Ok(())
        })
    }

    fn verify(&self) -> Reply<'_, Vec<String>> {
        self.read(read::verify)
    }
}
