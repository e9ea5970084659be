//! The thread of a store: it owns the file or the connection, and executes requests in order.
//!
//! Concurrent writes share one transaction, and thus one wait for the disk. Each has its own savepoint, and is
//! answered after the commit.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::store::Reply;

/// How many writes share a transaction at most.
const GROUP: usize = 128;

/// A job for a database `D`, with errors `F`.
pub(crate) enum Job<D, F> {
    /// Changes nothing.
    Read(Box<dyn Work<D, F>>),
    /// Changes data, and must be committed.
    Write(Box<dyn Work<D, F>>),
    /// Must run outside of a transaction.
    Alone(Box<dyn Work<D, F>>),
}

/// A unit of work; it may run again after the shared transaction failed.
pub(crate) trait Work<D, F>: Send {
    /// Runs it.
    fn run(&mut self, db: &D) -> Result<(), F>;
    /// Answers the caller with the result, or with the error.
    fn finish(self: Box<Self>, outcome: Result<()>);
}

/// The usual [`Work`]: a function and the receiver of its result.
struct Task<T, W> {
    work: W,
    result: Option<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, W, D, F> Work<D, F> for Task<T, W>
where
    T: Send,
    W: FnMut(&D) -> Result<T, F> + Send,
{
    fn run(&mut self, db: &D) -> Result<(), F> {
        self.result = None;
        self.result = Some((self.work)(db)?);
        Ok(())
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        // Without a result there was an error; the caller may have gone away.
        let answer = match (outcome, self.result) {
            (Ok(()), Some(result)) => Ok(result),
            (Err(error), _) => Err(error),
            (Ok(()), None) => return,
        };
        let _ = self.reply.send(answer);
    }
}

/// The channel of its jobs, and its handle.
type Running<D, F> = (Sender<Job<D, F>>, JoinHandle<()>);

/// A thread that is started by the first job.
pub(crate) struct Thread<D, F> {
    running: Mutex<Option<Running<D, F>>>,
}

impl<D: 'static, F: 'static> Thread<D, F> {
    pub(crate) fn new() -> Thread<D, F> {
        Thread { running: Mutex::default() }
    }

    /// Sends a job to the thread; `work` is the loop of the thread, which ends when all senders are gone.
    pub(crate) fn send(
        &self,
        job: Job<D, F>,
        work: impl FnOnce(Jobs<D, F>) + Send + 'static,
        failed: impl FnOnce(String) -> Error,
    ) -> Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let (jobs, _) = match &mut *running {
            Some(running) => running,
            none => {
                let (sender, jobs) = channel();
                let handle = std::thread::Builder::new()
                    .name("harn-store".to_owned())
                    .spawn(move || work(Jobs { jobs, next: None }))
                    .map_err(|error| failed(error.to_string()))?;
                none.insert((sender, handle))
            }
        };
        // A thread that has panicked is replaced by the next job.
        jobs.send(job).map_err(|_| {
            *running = None;
            Error::Closed
        })
    }
}

impl<D, F> Drop for Thread<D, F> {
    /// Waits for pending jobs.
    fn drop(&mut self) {
        let running = self.running.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((jobs, handle)) = running {
            drop(jobs);
            let _ = handle.join();
        }
    }
}

/// Wraps a function as work; returns its answer.
pub(crate) fn task<T, D, F>(
    work: impl FnMut(&D) -> Result<T, F> + Send + 'static,
    send: impl FnOnce(Box<dyn Work<D, F>>) -> Result<()>,
) -> Reply<'static, T>
where
    T: Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let sent = send(Box::new(Task { work, result: None, reply }));
    Box::pin(async move {
        sent?;
        answer.await.unwrap_or(Err(Error::Closed))
    })
}

/// Returns an error without asking the database.
pub(crate) fn refused<T: Send + 'static>(error: Error) -> Reply<'static, T> {
    Box::pin(std::future::ready(Err(error)))
}

/// The queue of jobs, on the side of the thread.
pub(crate) struct Jobs<D, F> {
    jobs: Receiver<Job<D, F>>,
    next: Option<Job<D, F>>,
}

/// Jobs that are executed together.
pub(crate) enum Next<D, F> {
    Read(Box<dyn Work<D, F>>),
    Alone(Box<dyn Work<D, F>>),
    /// Writes that share a transaction.
    Group(Vec<Box<dyn Work<D, F>>>),
}

impl<D, F> Jobs<D, F> {
    /// Waits for the next jobs; `None` when all senders are gone.
    pub(crate) fn next(&mut self) -> Option<Next<D, F>> {
        let job = match self.next.take() {
            Some(job) => job,
            None => self.jobs.recv().ok()?,
        };
        Some(match job {
            Job::Read(work) => Next::Read(work),
            Job::Alone(work) => Next::Alone(work),
            Job::Write(work) => {
                let mut group = vec![work];
                while group.len() < GROUP {
                    match self.jobs.try_recv() {
                        Ok(Job::Write(work)) => group.push(work),
                        Ok(other) => {
                            self.next = Some(other);
                            break;
                        }
                        Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                    }
                }
                Next::Group(group)
            }
        })
    }
}

/// Implements [`crate::Store`] for a store with a thread. Uses the modules `leases`, `apply`, `read`, `runs` and `queues` at
/// the place of its call: one set for each kind of database.
macro_rules! store_on_a_thread {
    ($store:ty) => {
        impl Store for $store {
            fn acquire<'a>(
                &'a self,
                scope: &'a str,
                owner: &'a str,
                now_ms: i64,
                until_ms: i64,
            ) -> Reply<'a, Lease> {
                if let Err(error) = write::name("scope", scope).and_then(|()| write::name("owner", owner)) {
                    return $crate::thread::refused(error);
                }
                let (scope, owner) = (scope.to_owned(), owner.to_owned());
                self.ask(Job::Write, move |db| leases::acquire(db, &scope, &owner, now_ms, until_ms))
            }

            fn write<'a>(&'a self, fence: &'a Fence, writes: Vec<Write>) -> Reply<'a, Vec<Written>> {
                if let Err(error) = writes.iter().try_for_each(write::check) {
                    return $crate::thread::refused(error);
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

            fn session_entries<'a>(
                &'a self,
                id: &'a str,
                from: u64,
                limit: usize,
            ) -> Reply<'a, Vec<Vec<u8>>> {
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

            fn answer<'a>(
                &'a self,
                run: &'a str,
                request_id: &'a str,
                answer: Answer,
            ) -> Reply<'a, Waitpoint> {
                if let Err(error) = write::check_answer(&answer) {
                    return $crate::thread::refused(error);
                }
                let (run, request_id) = (run.to_owned(), request_id.to_owned());
                self.ask(Job::Write, move |db| runs::answer(db, &run, &request_id, &answer))
            }

            fn claim_runs(&self, claim: ClaimRuns) -> Reply<'_, Claims> {
                if let Err(error) = claim.check() {
                    return $crate::thread::refused(error);
                }
                self.ask(Job::Write, move |db| queues::claim(db, &claim))
            }

            fn submit_runs(&self, submission: Submission) -> Reply<'_, Vec<Submitted>> {
                if let Err(error) = submission.check() {
                    return $crate::thread::refused(error);
                }
                self.ask(Job::Write, move |db| queues::submit(db, &submission))
            }

            fn set_run_queues(&self, queues: Vec<RunQueue>) -> Reply<'_, ()> {
                if let Err(error) = queues.iter().try_for_each(write::queue) {
                    return $crate::thread::refused(error);
                }
                self.ask(Job::Write, move |db| queues::set(db, &queues))
            }

            fn run_queues(&self, now_ms: i64) -> Reply<'_, Vec<QueueState>> {
                self.read(move |db| queues::states(db, now_ms))
            }

            fn wish<'a>(&'a self, run: &'a str, wish: Option<Wish>, at_ms: i64) -> Reply<'a, ()> {
                let run = run.to_owned();
                self.ask(Job::Write, move |db| runs::wish(db, &run, wish, at_ms))
            }

            fn prune(&self, prune: Prune) -> Reply<'_, u64> {
                self.ask(Job::Write, move |db| runs::prune(db, &prune))
            }

            fn run_bytes<'a>(&'a self, run: &'a str) -> Reply<'a, u64> {
                let run = run.to_owned();
                self.read(move |db| runs::bytes(db, &run))
            }

            fn stats(&self, now_ms: i64) -> Reply<'_, StoreStats> {
                self.read(move |db| runs::stats(db, now_ms))
            }

            fn compact(&self) -> Reply<'_, ()> {
                self.ask(Job::Alone, compact)
            }

            fn verify(&self) -> Reply<'_, Vec<String>> {
                self.read(read::verify)
            }
        }
    };
}

pub(crate) use store_on_a_thread;
