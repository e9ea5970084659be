//! The schema in the database, and its versions.

use super::connect::{Db, get};
use super::fault::{Fault, Outcome};
use crate::error::Error;

/// The steps from one schema version to the next. A step that was ever released is never changed.
const MIGRATIONS: &[&str] = &[include_str!("v1.sql"), include_str!("v2.sql"), include_str!("v3.sql")];

/// The advisory lock for changes of the schema: "Harn" in ASCII.
const LOCK: i64 = 0x4861_726E;

/// The oldest supported server version.
const OLDEST: i32 = 130_000;

/// Checks the schema, and creates or upgrades it if needed. The caller fills in the path of errors.
pub(super) fn prepare(db: &Db) -> Outcome<()> {
    let sql = "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')";
    let (version, encoding): (i32, String) = db.one(sql, &[], |row| Ok((get(row, 0)?, get(row, 1)?)))?;
    if version < OLDEST {
        return Err(Fault::NoWay(format!(
            "the server is PostgreSQL {}: version {} or a newer one is needed",
            version / 10_000,
            OLDEST / 10_000
        )));
    }
    if encoding != "UTF8" {
        return Err(Fault::NoWay(format!(
            "the database keeps text as {encoding}: make one with `createdb --encoding UTF8 --template template0`"
        )));
    }
    let known = MIGRATIONS.len() as i32;
    if self::version(db)? == Some(known) {
        return Ok(());
    }
    // Concurrent processes wait here, and check again in a transaction that starts after the one before.
    db.rows("SELECT pg_advisory_lock($1)", &[&LOCK], |_| Ok(()))?;
    let made = db.batch("BEGIN ISOLATION LEVEL READ COMMITTED").and_then(|()| make(db));
    let made = made.and_then(|()| db.batch("COMMIT"));
    if let Err(fault) = &made
        && !fault.is_lost()
    {
        db.batch("ROLLBACK")?;
    }
    db.rows("SELECT pg_advisory_unlock($1)", &[&LOCK], |_| Ok(()))?;
    made
}

fn make(db: &Db) -> Outcome<()> {
    let found = version(db)?;
    let known = MIGRATIONS.len();
    if found.is_none() {
        let sql = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
                   WHERE nspname = 'harn')";
        if db.one(sql, &[], |row| get::<bool>(row, 0))? {
            return Err(Fault::NoWay(
                "its schema 'harn' belongs to another program: name another database".to_owned(),
            ));
        }
        db.batch(
            "CREATE SCHEMA IF NOT EXISTS harn;
             CREATE TABLE harn.schema_version (version INTEGER NOT NULL);
             INSERT INTO harn.schema_version VALUES (0);",
        )?;
    }
    let found = usize::try_from(found.unwrap_or(0)).unwrap_or(usize::MAX);
    if found > known {
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        return Err(Error::Newer { path: Default::default(), found, known: known as u32 }.into());
    }
    for step in &MIGRATIONS[found..] {
        db.batch(step)?;
    }
    db.run("UPDATE harn.schema_version SET version = $1", &[&(known as i32)]).map(drop)
}

/// The version of the schema, if there is one.
fn version(db: &Db) -> Outcome<Option<i32>> {
    let sql = "SELECT pg_catalog.to_regclass('harn.schema_version') IS NOT NULL";
    if !db.one(sql, &[], |row| get::<bool>(row, 0))? {
        return Ok(None);
    }
    db.row("SELECT version FROM harn.schema_version", &[], |row| get(row, 0))
}
