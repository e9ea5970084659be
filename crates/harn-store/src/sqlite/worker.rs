//! The thread of the file.

use std::path::PathBuf;

use rusqlite::Connection;

use super::fault::{Fault, Outcome};
use super::options::SqliteOptions;
use super::schema;
use crate::thread::{Jobs, Next, Work};

type Any = dyn Work<Connection, Fault>;

/// The file, once it is open.
pub(super) struct Worker {
    pub(super) path: PathBuf,
    pub(super) options: SqliteOptions,
    pub(super) db: Option<Connection>,
}

impl Worker {
    /// Executes jobs until all senders are gone.
    pub(super) fn work(mut self, mut jobs: Jobs<Connection, Fault>) {
        while let Some(next) = jobs.next() {
            match next {
                Next::Read(mut work) => {
                    let outcome = self.db().and_then(|db| snapshot(db, &mut *work));
                    self.answer(work, outcome);
                }
                Next::Alone(mut work) => {
                    let outcome = self.db().and_then(|db| work.run(db));
                    self.answer(work, outcome);
                }
                Next::Group(group) => self.commit(group),
            }
        }
    }

    /// Returns the open file. After a failure the next job tries again.
    fn db(&mut self) -> Outcome<&Connection> {
        let db = match self.db.take() {
            Some(db) => db,
            None => schema::open(&self.path, &self.options)?,
        };
        Ok(self.db.insert(db))
    }

    fn answer(&self, work: Box<Any>, outcome: Outcome<()>) {
        work.finish(outcome.map_err(|fault| fault.named(&self.path, self.options.busy_timeout)));
    }

    fn commit(&mut self, mut group: Vec<Box<Any>>) {
        let outcome = self.db().and_then(|db| together(db, &mut group));
        match outcome {
            Ok(outcomes) => {
                for (work, outcome) in group.into_iter().zip(outcomes) {
                    self.answer(work, outcome);
                }
            }
            // One write may have been too much for the disk: the other writes are not affected.
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
fn snapshot(db: &Connection, work: &mut Any) -> Outcome<()> {
    db.execute_batch("BEGIN")?;
    let outcome = work.run(db);
    let _ = db.execute_batch("COMMIT");
    outcome
}

/// Runs a group of writes in one transaction. An error means that it was rolled back.
fn together(db: &Connection, group: &mut [Box<Any>]) -> Outcome<Vec<Outcome<()>>> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    let outcome = each(db, group).and_then(|outcomes| {
        db.execute_batch("COMMIT")?;
        Ok(outcomes)
    });
    // Some errors end the transaction.
    if outcome.is_err() && !db.is_autocommit() {
        let _ = db.execute_batch("ROLLBACK");
    }
    outcome
}

fn each(db: &Connection, group: &mut [Box<Any>]) -> Outcome<Vec<Outcome<()>>> {
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
