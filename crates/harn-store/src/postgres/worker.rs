//! The thread of the connection: reconnects, and determines whether an unacknowledged commit succeeded.

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

/// Maximum number of attempts for a transaction that conflicts with others.
const TRIES: u32 = 20;

/// One writer of so many removes the rows of those that are gone.
const SWEEP: i64 = 64;

/// How often a read is tried that lost its connection.
const READS: u32 = 3;

/// The mark of a group of writes, in the transaction of the group.
const MARK: &str = "INSERT INTO writer (id, number) OVERRIDING SYSTEM VALUE VALUES ($1, $2)
    ON CONFLICT (id) DO UPDATE SET number = $2, seen = now()";

/// The mark exists. The query waits until a transaction that writes it has ended.
const FOUND: &str = "INSERT INTO writer (id) OVERRIDING SYSTEM VALUE VALUES ($1)
    ON CONFLICT (id) DO UPDATE SET seen = now() RETURNING number";

/// The connection, once it is open.
pub(super) struct Worker {
    address: Address,
    options: PostgresOptions,
    db: Option<Db>,
    /// Whether there was a connection: a lost one is retried for longer than the first one.
    was_open: bool,
    /// ID of this writer in the database, from its first write on.
    writer: Option<i64>,
    /// How many groups of writes were begun.
    number: i64,
}

/// Where a group of writes failed.
enum Broken {
    /// Nothing of it happened.
    Before(Fault),
    /// The outcome is unknown.
    InCommit(String, Vec<Outcome<()>>),
}

impl Worker {
    pub(super) fn new(address: Address, options: PostgresOptions) -> Worker {
        Worker { address, options, db: None, was_open: false, writer: None, number: 0 }
    }

    /// Executes jobs until all senders are gone.
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

    /// Returns the name of the connection, by which a lost one is found.
    fn name(&self) -> String {
        self.writer.map_or("harn".to_owned(), |writer| format!("harn writer {writer}"))
    }

    /// Returns the open connection. Retries a lost one until a timeout.
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
            // The server may not have noticed that the previous connection is gone, and still hold its locks.
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

    /// Reads; repeats a read whose connection broke off.
    fn read(&mut self, work: &mut Any) -> Outcome<()> {
        let mut tries = 0;
        loop {
            tries += 1;
            let outcome = self.db().and_then(|db| snapshot(db, work));
            let was_lost = outcome.as_ref().is_err_and(Fault::is_lost);
            // The time for reconnecting is over.
            if !was_lost || tries == READS || self.db.is_none() {
                self.forget_if_lost(outcome.as_ref().err());
                return outcome;
            }
            self.db = None;
        }
    }

    /// Registers this writer in the database, before the first write.
    fn introduce(&mut self) -> Outcome<i64> {
        if let Some(writer) = self.writer {
            return Ok(writer);
        }
        let db = self.db()?;
        let sql = "INSERT INTO writer DEFAULT VALUES RETURNING id";
        let writer: i64 = db.one(sql, &[], |row| get(row, 0))?;
        db.batch(&format!("SET application_name = 'harn writer {writer}'"))?;
        // Writers that were last seen long ago are gone; one that is still alive creates its row again. Only some
        // writers sweep, because there may be as many rows as processes in that time.
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
                    // Single writes hold fewer locks.
                    if group.len() > 1 {
                        return group.into_iter().for_each(|work| self.commit(vec![work]));
                    }
                    // A different pause per writer.
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
            // One write may have been too much for the server, or waits for others: the other writes are not
            // affected.
            group.into_iter().for_each(|work| self.commit(vec![work]));
        } else {
            group.into_iter().for_each(|work| self.answer(work, Err(fault.clone())));
        }
    }

    /// Queries on a new connection whether a group of writes was committed.
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
        // The result of a read is valid even if the connection fails; the next request notices that.
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
        // A single write needs no savepoint: it is rolled back with the transaction.
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
