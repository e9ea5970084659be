//! The thread that has the file: it does one thing at a time, in the order in which they were asked for.
//!
//! Writes that wait at the same time share one transaction (and so one wait for the disk); each has a savepoint of its
//! own, and is answered only after all of them are committed.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::fault::Outcome;
use super::options::SqliteOptions;
use super::schema;
use crate::error::Result;

/// How many writes share a transaction at most.
const GROUP: usize = 128;

/// Something to be done with the file.
pub(super) enum Job {
    /// Changes nothing.
    Read(Box<dyn Work>),
    /// Changes something, and is to be committed.
    Write(Box<dyn Work>),
    /// Must stand outside of a transaction.
    Alone(Box<dyn Work>),
}

/// One piece of work; it may be run again when the transaction that it shared failed.
pub(super) trait Work: Send {
    /// Does it.
    fn run(&mut self, db: &Connection) -> Outcome<()>;
    /// Answers whoever asked: what was done stands, or why not.
    fn finish(self: Box<Self>, outcome: Result<()>);
}

/// The usual [`Work`]: a function and where its result goes.
pub(super) struct Task<T, F> {
    work: F,
    result: Option<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Task<T, F>
where
    T: Send + 'static,
    F: FnMut(&Connection) -> Outcome<T> + Send + 'static,
{
    pub(super) fn boxed(work: F) -> (Box<dyn Work>, oneshot::Receiver<Result<T>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Task { work, result: None, reply }), answer)
    }
}

impl<T, F> Work for Task<T, F>
where
    T: Send,
    F: FnMut(&Connection) -> Outcome<T> + Send,
{
    fn run(&mut self, db: &Connection) -> Outcome<()> {
        self.result = None;
        self.result = Some((self.work)(db)?);
        Ok(())
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        // Without a result there was an error; a caller that went away does not mind.
        let answer = match (outcome, self.result) {
            (Ok(()), Some(result)) => Ok(result),
            (Err(error), _) => Err(error),
            (Ok(()), None) => return,
        };
        let _ = self.reply.send(answer);
    }
}

/// The file, once it is open.
pub(super) struct Thread {
    pub(super) path: PathBuf,
    pub(super) options: SqliteOptions,
    pub(super) jobs: Receiver<Job>,
    pub(super) db: Option<Connection>,
}

impl Thread {
    /// Works until nobody can ask any more.
    pub(super) fn work(mut self) {
        let mut next = self.jobs.recv().ok();
        while let Some(job) = next.take() {
            match job {
                Job::Read(mut work) => {
                    let outcome = self.db().and_then(|db| snapshot(db, &mut *work));
                    self.answer(work, outcome);
                }
                Job::Alone(mut work) => {
                    let outcome = self.db().and_then(|db| work.run(db));
                    self.answer(work, outcome);
                }
                Job::Write(work) => {
                    let mut group = vec![work];
                    while group.len() < GROUP {
                        match self.jobs.try_recv() {
                            Ok(Job::Write(work)) => group.push(work),
                            Ok(other) => {
                                next = Some(other);
                                break;
                            }
                            Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                        }
                    }
                    self.commit(group);
                }
            }
            next = next.or_else(|| self.jobs.recv().ok());
        }
    }

    /// The open file. A file that could not be opened is tried again by the next job.
    fn db(&mut self) -> Outcome<&Connection> {
        let db = match self.db.take() {
            Some(db) => db,
            None => schema::open(&self.path, &self.options)?,
        };
        Ok(self.db.insert(db))
    }

    fn answer(&self, work: Box<dyn Work>, outcome: Outcome<()>) {
        work.finish(outcome.map_err(|fault| fault.named(&self.path, self.options.busy_timeout)));
    }

    fn commit(&mut self, mut group: Vec<Box<dyn Work>>) {
        let outcome = self.db().and_then(|db| together(db, &mut group));
        match outcome {
            Ok(outcomes) => {
                for (work, outcome) in group.into_iter().zip(outcomes) {
                    self.answer(work, outcome);
                }
            }
            // One of them may have been too much for the disk: the others are not to suffer for it.
            Err(fault) if group.len() > 1 && !fault.is_busy() => {
                group.into_iter().for_each(|work| self.commit(vec![work]));
            }
            Err(fault) => {
                group.into_iter().for_each(|work| self.answer(work, Err(fault.clone())));
            }
        }
    }
}

/// Runs work that reads more than once and must see one state.
fn snapshot(db: &Connection, work: &mut dyn Work) -> Outcome<()> {
    db.execute_batch("BEGIN")?;
    let outcome = work.run(db);
    let _ = db.execute_batch("COMMIT");
    outcome
}

/// Runs a group of writes in one transaction. An error means that nothing of it happened.
fn together(db: &Connection, group: &mut [Box<dyn Work>]) -> Outcome<Vec<Outcome<()>>> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    let outcome = each(db, group).and_then(|outcomes| {
        db.execute_batch("COMMIT")?;
        Ok(outcomes)
    });
    // Some errors have ended the transaction already.
    if outcome.is_err() && !db.is_autocommit() {
        let _ = db.execute_batch("ROLLBACK");
    }
    outcome
}

fn each(db: &Connection, group: &mut [Box<dyn Work>]) -> Outcome<Vec<Outcome<()>>> {
    let mut outcomes = Vec::with_capacity(group.len());
    for work in group {
        db.prepare_cached("SAVEPOINT one")?.execute([])?;
        let outcome = work.run(db);
        match &outcome {
            Ok(()) => {}
            Err(fault) if fault.is_storage() => return Err(fault.clone()),
            Err(_) => drop(db.prepare_cached("ROLLBACK TO one")?.execute([])?),
        }
        db.prepare_cached("RELEASE one")?.execute([])?;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}
