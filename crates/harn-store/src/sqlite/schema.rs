//! Opening the file: pragmas, the schema and its versions.

#![expect(
    clippy::disallowed_methods,
    reason = "SQLite opens and locks files itself, too, on a thread of its own"
)]

use std::path::Path;
use std::time::Duration;

use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::fault::{Fault, Outcome};
use super::options::{Durability, SqliteOptions};
use super::wal::{self, Marker};
use crate::error::Error;

/// The application ID in the header of the file: "Harn" in ASCII.
const APPLICATION: i32 = 0x4861_726E;

/// The steps from one schema version to the next. A step that was ever released is never changed.
const MIGRATIONS: &[&str] =
    &[include_str!("v1.sql"), include_str!("v2.sql"), include_str!("v3.sql"), include_str!("v4.sql")];

/// Number of attempts, and the pause in milliseconds, for a step for which SQLite does not wait.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(25);

/// Opens or creates the file.
pub(super) fn open(path: &Path, options: &SqliteOptions) -> Outcome<Connection> {
    if let Some(folder) = path.parent().filter(|folder| !options.reads && !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| {
            Fault::Other(Error::Open { path: path.to_owned(), why: format!("{}: {error}", folder.display()) })
        })?;
    }
    for end in ["", "-wal", "-shm", "-journal", "-mark"] {
        let mut file = path.as_os_str().to_owned();
        file.push(end);
        if std::fs::symlink_metadata(&file).is_ok_and(|facts| facts.is_symlink()) {
            let why = format!("{} is a link; name the file that it leads to", Path::new(&file).display());
            return Err(Fault::Other(Error::Open { path: path.to_owned(), why }));
        }
    }
    let damaged = |detail| Fault::Other(Error::Corrupt { path: path.to_owned(), detail });
    // Before SQLite opens the file, because it drops damaged frames.
    match wal::check(path) {
        Err(_) if options.repairs => wal::forget(path).map_err(|error| damaged(error.to_string()))?,
        found => found.map_err(damaged)?,
    }
    if options.durability == Durability::PowerCut && !options.repairs && wal::has_lost_log(path) {
        let shown = path.display();
        return Err(damaged(format!(
            "it was copied without its log {shown}-wal, which may hold the newest data: copy all files that begin with {shown}, or use `harn store backup`"
        )));
    }
    if options.reads {
        return open_to_read(path, options);
    }
    match open_to_write(path, options) {
        // A file or a directory that this user cannot write can be read; each write reports the reason why it fails.
        Err(fault) if fault.is_of_writing() && path.is_file() => {
            open_to_read(path, options).map_err(|_| fault)
        }
        opened => opened,
    }
}

fn open_to_write(path: &Path, options: &SqliteOptions) -> Outcome<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(options.busy_timeout)?;
    db.set_prepared_statement_cache_capacity(64);
    if db.is_readonly("main")? {
        return readable(db, path);
    }
    ours(&db, path)?;
    if options.durability == Durability::PowerCut {
        wal::begin(path).map_err(|error| {
            Fault::Other(Error::Open {
                path: path.to_owned(),
                why: format!("its mark cannot be made: {error}"),
            })
        })?;
    }
    persistently(|| prepare(&db))?;
    let synchronous = match options.durability {
        Durability::PowerCut => "FULL",
        Durability::Crash => "NORMAL",
    };
    // Foreign keys: entries go with their record. Cell sizes: damage is noticed when a page is read.
    db.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous};
         PRAGMA foreign_keys = ON;
         PRAGMA cell_size_check = ON;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -8192;
         PRAGMA journal_size_limit = 8388608;"
    ))?;
    if options.durability == Durability::PowerCut {
        let page: u64 = db.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        let mut marker = Marker::new(path, page);
        // Replaces the default hook of SQLite, which checkpoints the log.
        db.wal_hook(Some(move |log: &mut Wal, frames: i32| {
            if marker.committed(frames.unsigned_abs()) {
                // A reader or another process may block it; the next commit tries again.
                let _ = log.checkpoint();
            }
            Ok(())
        }))?;
    }
    migrate(&mut db, path)?;
    if let Some(max) = options.max_bytes {
        let page: u64 = db.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        db.query_row(&format!("PRAGMA max_page_count = {}", (max / page).max(1)), [], |_| Ok(()))?;
    }
    Ok(db)
}

/// Opens a file without changing it.
fn open_to_read(path: &Path, options: &SqliteOptions) -> Outcome<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(options.busy_timeout)?;
    db.set_prepared_statement_cache_capacity(64);
    readable(db, path)
}

/// Checks a file that is only read.
fn readable(mut db: Connection, path: &Path) -> Outcome<Connection> {
    let mut found = version(&db);
    let has_log = std::fs::metadata(wal::log_of(path)).is_ok_and(|log| log.len() > 0);
    if found.is_err() && !has_log {
        // In a read-only directory SQLite cannot make the index of the log. Without a log, no process writes the file.
        let mut uri = "file:".to_owned();
        for byte in path.as_os_str().as_encoded_bytes() {
            match byte {
                b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
                byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
                byte => uri += &format!("%{byte:02X}"),
            }
        }
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        db = Connection::open_with_flags(uri + "?immutable=1", flags)?;
        found = version(&db);
    }
    match found? {
        (APPLICATION, found) if found as usize == MIGRATIONS.len() => Ok(db),
        (APPLICATION, found) if found as usize > MIGRATIONS.len() => Err(newer(path, found)),
        (APPLICATION, found) => {
            let known = MIGRATIONS.len();
            let why = format!(
                "it has schema version {found}, and it is only read: a command that can write it, such as `harn worker --drain`, upgrades it to version {known}"
            );
            Err(Fault::Other(Error::Open { path: path.to_owned(), why }))
        }
        _ => Err(Fault::Other(Error::Foreign { path: path.to_owned() })),
    }
}

/// The application and the schema version that the file names.
fn version(db: &Connection) -> Outcome<(i32, u32)> {
    let application = db.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    Ok((application, db.query_row("PRAGMA user_version", [], |row| row.get(0))?))
}

fn newer(path: &Path, found: u32) -> Fault {
    Fault::Other(Error::Newer { path: path.to_owned(), found, known: MIGRATIONS.len() as u32 })
}

/// Rejects files of other programs before they are changed.
fn ours(db: &Connection, path: &Path) -> Outcome<()> {
    // In one transaction, because another process may be creating the file.
    let look = db.unchecked_transaction()?;
    let (application, found) = version(&look)?;
    if application == APPLICATION {
        return if found as usize > MIGRATIONS.len() { Err(newer(path, found)) } else { Ok(()) };
    }
    let tables: u64 = look.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application == 0 && found == 0 && tables == 0 {
        return Ok(());
    }
    Err(Fault::Other(Error::Foreign { path: path.to_owned() }))
}

/// Settings that are stored in the file. Changing to WAL needs exclusive access, and SQLite does not wait for that.
fn prepare(db: &Connection) -> Outcome<()> {
    let mode: String = db.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode != "wal" {
        db.execute_batch("PRAGMA auto_vacuum = INCREMENTAL;")?;
        let mode: String = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            return Err(Fault::Busy);
        }
    }
    Ok(())
}

fn persistently(mut step: impl FnMut() -> Outcome<()>) -> Outcome<()> {
    for _ in 1..TRIES {
        match step() {
            Err(fault) if fault.is_busy() => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
    step()
}

fn migrate(db: &mut Connection, path: &Path) -> Outcome<()> {
    if version(db)? == (APPLICATION, MIGRATIONS.len() as u32) {
        return Ok(());
    }
    // Reads the version again in the transaction: another process may have migrated it.
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (_, found) = version(&transaction)?;
    if found as usize > MIGRATIONS.len() {
        return Err(newer(path, found));
    }
    for step in &MIGRATIONS[found as usize..] {
        transaction.execute_batch(step)?;
    }
    transaction.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {};",
        MIGRATIONS.len()
    ))?;
    Ok(transaction.commit()?)
}

/// Copies the file to `to`, as it is at one moment, while other processes use it. The copy is one file without a log.
pub(super) fn backup(path: &Path, to: &Path) -> Outcome<()> {
    let options = SqliteOptions { reads: true, ..SqliteOptions::default() };
    let db = open(path, &options)?;
    db.execute("VACUUM INTO ?", [to.as_os_str().to_string_lossy()]).map(drop)?;
    let copy =
        Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let found: String = copy.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    match found.as_str() {
        "ok" => Ok(()),
        _ => Err(Fault::Other(Error::Corrupt { path: to.to_owned(), detail: found })),
    }
}
