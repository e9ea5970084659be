//! The thread that has the connection: it finds a lost one again, and finds out what became of a commit without an answer.

#![expect(clippy::disallowed_methods, reason = "the thread waits between its tries to reach the server")]

use std::time::{Duration, Instant};

use super::address::Address;
use super::connect::{Db, count, get};
use super::fault::{Fault, Outcome};
use super::options::PostgresOptions;
use super::schema;
use crate::thread::{Jobs, Next, Work};

type Any = dyn Work<Db, Fault>;

/// How long to wait between two tries to reach the server.
const PAUSE: Duration = Duration::from_millis(100);

/// How often a transaction is tried that others stood in the way of.
const TRIES: u32 = 20;

/// One writer of so many removes the rows of those that are gone.
const SWEEP: i64 = 64;

/// How often a read is tried that lost its connection.
const READS: u32 = 3;

/// The mark of a group of writes, in the transaction of the group.
const MARK: &str = "INSERT INTO writer (id, number) OVERRIDING SYSTEM VALUE VALUES ($1, $2)
    ON CONFLICT (id) DO UPDATE SET number = $2, seen = now()";

/// The mark that there is. Who asks waits until a transaction has ended that writes it.
const FOUND: &str = "INSERT INTO writer (id) OVERRIDING SYSTEM VALUE VALUES ($1)
    ON CONFLICT (id) DO UPDATE SET seen = now() RETURNING number";

/// The connection, once it is open.
pub(super) struct Worker {
    address: Address,
    options: PostgresOptions,
    db: Option<Db>,
    /// Whether there ever was a connection: one that was lost is sought for longer than one that never was.
    was_open: bool,
    /// This thread, as the database knows it; from its first write on.
    writer: Option<i64>,
    /// How many groups of writes were begun.
    number: i64,
}

/// Where a group of writes came to its end.
enum Broken {
    /// Nothing of it happened.
    Before(Fault),
    /// The server has not said what became of it.
    InCommit(String, Vec<Outcome<()>>),
}

impl Worker {
    pub(super) fn new(address: Address, options: PostgresOptions) -> Worker {
        Worker { address, options, db: None, was_open: false, writer: None, number: 0 }
    }

    /// Works until nobody can ask any more.
    pub(super) fn work(mut self, mut jobs: Jobs<Db, Fault>) {
        while let Some(next) = jobs.next() {
            match next {
                Next::Read(mut work) => {
                    let outcome = self.read(&mut *work);
                    self.answer(work, outcome);
                }
                Next::Alone(mut work) => {
                    let outcome = self.db().and_then(|db| work.run(db));
                    self.forget_if_lost(outcome.as_ref().err());
                    self.answer(work, outcome);
                }
                Next::Group(group) => self.commit(group),
            }
        }
    }

    /// The name of the connection, by which it is found when it was lost.
    fn name(&self) -> String {
        self.writer.map_or("harn".to_owned(), |writer| format!("harn writer {writer}"))
    }

    /// The open connection. One that was lost is sought until patience ends.
    fn db(&mut self) -> Outcome<&Db> {
        if self.db.is_none() {
            let begun = Instant::now();
            let db = loop {
                match self.connect() {
                    Err(Fault::Lost(_)) if self.was_open && begun.elapsed() < self.options.patience => {
                        std::thread::sleep(PAUSE);
                    }
                    other => break other?,
                }
            };
            self.db = Some(db);
        }
        self.db.as_ref().ok_or_else(|| Fault::Lost("there is no connection".to_owned()))
    }

    fn connect(&mut self) -> Outcome<Db> {
        let name = self.name();
        let db = Db::open(&self.address, &self.options, &name)?;
        self.was_open = true;
        schema::prepare(&db)?;
        if self.writer.is_some() {
            // The server may not have noticed that the connection before this one is gone, and hold what it has locked.
            let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1
                       AND datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()";
            db.rows(sql, &[&name], |_| Ok(()))?;
        }
        Ok(db)
    }

    fn forget_if_lost(&mut self, fault: Option<&Fault>) {
        if fault.is_some_and(Fault::is_lost) {
            self.db = None;
        }
    }

    fn answer(&self, work: Box<Any>, outcome: Outcome<()>) {
        let waited_ms = u64::try_from(self.options.busy_timeout.as_millis()).unwrap_or(u64::MAX);
        work.finish(outcome.map_err(|fault| fault.named(&self.address.shown, waited_ms)));
    }

    /// Reads; what was read on a connection that broke off is read again.
    fn read(&mut self, work: &mut Any) -> Outcome<()> {
        let mut tries = 0;
        loop {
            tries += 1;
            let outcome = self.db().and_then(|db| snapshot(db, work));
            let was_lost = outcome.as_ref().is_err_and(Fault::is_lost);
            // Without a connection the time for it is over.
            if !was_lost || tries == READS || self.db.is_none() {
                self.forget_if_lost(outcome.as_ref().err());
                return outcome;
            }
            self.db = None;
        }
    }

    /// Makes itself known to the database, before the first write.
    fn introduce(&mut self) -> Outcome<i64> {
        if let Some(writer) = self.writer {
            return Ok(writer);
        }
        let db = self.db()?;
        let sql = "INSERT INTO writer DEFAULT VALUES RETURNING id";
        let writer: i64 = db.one(sql, &[], |row| get(row, 0))?;
        db.batch(&format!("SET application_name = 'harn writer {writer}'"))?;
        // Those that were last seen long ago are gone; one that is not makes its row anew. Not everybody looks through all of them:
        // there may be as many as there were processes in that time.
        if writer % SWEEP == 0 {
            db.run("DELETE FROM writer WHERE seen < now() - interval '30 days'", &[])?;
        }
        self.writer = Some(writer);
        Ok(writer)
    }

    fn commit(&mut self, mut group: Vec<Box<Any>>) {
        let begun = Instant::now();
        let mut tries = 0;
        let fault = loop {
            tries += 1;
            self.number += 1;
            let number = self.number;
            let had_connection = self.db.is_some();
            let outcome = match self.introduce().and_then(|writer| Ok((writer, self.db()?))) {
                Ok((writer, db)) => together(db, &mut group, writer, number),
                Err(fault) => Err(Broken::Before(fault)),
            };
            let outcomes = match outcome {
                Ok(outcomes) => outcomes,
                Err(Broken::Before(fault @ Fault::Lost(_))) => {
                    let is_over = self.db.is_none() && !had_connection;
                    self.db = None;
                    if tries < TRIES && !is_over {
                        continue;
                    }
                    break fault;
                }
                Err(Broken::Before(Fault::Again(_))) if tries < TRIES => {
                    // Alone they lock less.
                    if group.len() > 1 {
                        return group.into_iter().for_each(|work| self.commit(vec![work]));
                    }
                    // Not as long as the others wait.
                    let own = self.writer.unwrap_or_default().unsigned_abs() % 7 + 1;
                    std::thread::sleep(Duration::from_millis(u64::from(tries) * own));
                    continue;
                }
                // Another session has locked the rows or the table, for longer than a statement waits.
                Err(Broken::Before(Fault::Busy)) if begun.elapsed() < self.options.patience => {
                    if group.len() > 1 {
                        return group.into_iter().for_each(|work| self.commit(vec![work]));
                    }
                    tries -= 1;
                    continue;
                }
                Err(Broken::Before(fault)) => break fault,
                Err(Broken::InCommit(why, outcomes)) => match self.was_committed(number) {
                    Ok(true) => outcomes,
                    Ok(false) if tries < TRIES => continue,
                    Ok(false) => break Fault::Lost(why),
                    Err(_) => break Fault::InDoubt(why),
                },
            };
            for (work, outcome) in group.into_iter().zip(outcomes) {
                self.answer(work, outcome);
            }
            return;
        };
        let is_for_all = matches!(fault, Fault::Lost(_) | Fault::NoWay(_) | Fault::InDoubt(_));
        if group.len() > 1 && !is_for_all {
            // One of them may have been too much for the server, or wait for others: the rest is not to suffer for it.
            group.into_iter().for_each(|work| self.commit(vec![work]));
        } else {
            group.into_iter().for_each(|work| self.answer(work, Err(fault.clone())));
        }
    }

    /// Asks the database whether a group of writes is there, on a new connection.
    fn was_committed(&mut self, number: i64) -> Outcome<bool> {
        self.db = None;
        let writer = self.writer.unwrap_or_default();
        let mut tries = 0;
        loop {
            tries += 1;
            let found = self.db().and_then(|db| db.one(FOUND, &[&writer], |row| count(row, 0)));
            match found {
                Ok(found) => return Ok(found == number.unsigned_abs()),
                Err(Fault::Lost(_)) if tries < READS && self.db.is_some() => self.db = None,
                Err(fault) => {
                    self.forget_if_lost(Some(&fault));
                    return Err(fault);
                }
            }
        }
    }
}

/// Runs work that reads more than once and must see one state.
fn snapshot(db: &Db, work: &mut Any) -> Outcome<()> {
    db.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    let outcome = work.run(db);
    match (outcome, db.batch("COMMIT")) {
        // What was read is right, whatever becomes of the connection; the next one who asks finds out.
        (Ok(()), _) => Ok(()),
        (Err(fault), _) => Err(fault),
    }
}

/// Runs a group of writes in one transaction.
fn together(db: &Db, group: &mut [Box<Any>], writer: i64, number: i64) -> Result<Vec<Outcome<()>>, Broken> {
    let undone = |fault: Fault| {
        if fault.is_lost() || db.batch("ROLLBACK").is_ok() {
            return fault;
        }
        Fault::Lost("the connection broke off".to_owned())
    };
    let begun = db.begin("BEGIN ISOLATION LEVEL READ COMMITTED", MARK, &[&writer, &number]);
    let outcomes = match (begun, &mut *group) {
        (Err(fault), _) => Err(fault),
        // One that is alone needs no savepoint: it is undone with the transaction.
        (Ok(()), [work]) => match work.run(db) {
            Err(fault) if !fault.is_storage() => {
                return match undone(fault) {
                    lost @ Fault::Lost(_) => Err(Broken::Before(lost)),
                    fault => Ok(vec![Err(fault)]),
                };
            }
            outcome => outcome.map(|()| vec![Ok(())]),
        },
        (Ok(()), group) => each(db, group),
    };
    let outcomes = outcomes.map_err(|fault| Broken::Before(undone(fault)))?;
    match db.batch("COMMIT") {
        Ok(()) => Ok(outcomes),
        Err(Fault::Lost(why)) => Err(Broken::InCommit(why, outcomes)),
        Err(fault) => Err(Broken::Before(fault)),
    }
}

fn each(db: &Db, group: &mut [Box<Any>]) -> Outcome<Vec<Outcome<()>>> {
    let mut outcomes = Vec::with_capacity(group.len());
    db.batch("SAVEPOINT one")?;
    for work in group {
        let outcome = work.run(db);
        match &outcome {
            Ok(()) => db.batch("RELEASE one; SAVEPOINT one")?,
            Err(fault) if fault.is_storage() => return Err(fault.clone()),
            Err(_) => db.batch("ROLLBACK TO one")?,
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}
