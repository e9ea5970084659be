//! The journal of runs, and the bytes that runs share.

use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Outcome;
use super::statement::{page, row, rows, run, signed};
use crate::error::Error;
use crate::model::Digest;
use crate::run::{Chain, EntryKind, JournalEntry};
use crate::write::Written;

/// Payloads above this size are stored once, under their digest: histories and files repeat often.
const INLINE: usize = 16 << 10;

fn key(run: i64, seq: u64) -> i64 {
    (run << 32) | i64::from(u32::try_from(seq).unwrap_or(u32::MAX))
}

/// Stores bytes once, and counts the references.
pub(super) fn share(db: &Connection, bytes: &[u8]) -> Outcome<Digest> {
    share_by(db, bytes, 1)
}

/// Adds references to shared bytes.
pub(super) fn share_by(db: &Connection, bytes: &[u8], refs: usize) -> Outcome<Digest> {
    let digest = Digest::of(bytes);
    // The bytes are not passed if they exist.
    if run(db, "UPDATE shared SET refs = refs + ? WHERE digest = ?", params![refs, digest.0])? == 0 {
        run(db, "INSERT INTO shared (digest, refs, bytes) VALUES (?, ?, ?)", params![digest.0, refs, bytes])?;
    }
    Ok(digest)
}

/// Removes a reference to shared bytes.
pub(super) fn unshare(db: &Connection, digest: Digest) -> Outcome<()> {
    run(db, "UPDATE shared SET refs = refs - 1 WHERE digest = ?", [digest.0])?;
    run(db, "DELETE FROM shared WHERE digest = ? AND refs <= 0", [digest.0]).map(drop)
}

/// Compares shared bytes with their digest.
pub(super) fn whole(digest: Digest, bytes: Option<Vec<u8>>) -> Outcome<Vec<u8>> {
    match bytes {
        Some(bytes) if Digest::of(&bytes) == digest => Ok(bytes),
        // The caller fills in the path.
        found => Err(Error::Corrupt {
            path: std::path::PathBuf::new(),
            detail: match found {
                Some(_) => format!("the bytes {digest} are others"),
                None => format!("the bytes {digest} are missing"),
            },
        }
        .into()),
    }
}

pub(super) fn append(db: &Connection, number: i64, entries: &[JournalEntry], at_ms: i64) -> Outcome<Written> {
    let sql =
        "INSERT INTO journal (key, task, count, kind, name, place, digest, at_ms, payload, digest_of_payload,
               checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let mut effects = 0;
    let mut chain = chain(db, number, entries.first().map_or(0, |entry| entry.seq))?;
    for entry in entries {
        let JournalEntry { seq, task, count, kind, name, place, digest, at_ms, payload } = entry;
        let shared = if payload.len() > INLINE { Some(share(db, payload)?) } else { None };
        let checksum = chain.next(entry, shared.as_ref());
        let (inline, shared) = match &shared {
            Some(digest) => (None, Some(&digest.0[..])),
            None => (Some(payload), None),
        };
        let kind = *kind as i64;
        run(
            db,
            sql,
            params![
                key(number, *seq),
                &**task,
                count,
                kind,
                &**name,
                &**place,
                digest,
                at_ms,
                inline,
                shared,
                checksum
            ],
        )?;
        effects += u64::from(entry.kind == EntryKind::Outcome);
    }
    let sql = "UPDATE run SET length = length + ?, effects = effects + ?, updated_ms = ? WHERE number = ?
               RETURNING length";
    let args = params![entries.len(), effects, at_ms, number];
    Ok(Written::Count(db.prepare_cached(sql)?.query_row(args, |row| row.get(0))?))
}

/// The chain of checksums before an entry.
fn chain(db: &Connection, number: i64, seq: u64) -> Outcome<Chain> {
    let sql = "SELECT checksum FROM journal WHERE key = ?";
    let before = match seq.checked_sub(1) {
        Some(before) => row(db, sql, [key(number, before)], |row| row.get(0))?,
        None => None,
    };
    Ok(Chain::after(before))
}

/// Removes the entries of a journal from a number on.
pub(super) fn cut(db: &Connection, number: i64, length: u64, at_ms: i64) -> Outcome<Written> {
    let (first, last) = (key(number, length), key(number, u64::MAX));
    let cut = remove(db, first, last)?;
    let sql = "UPDATE run SET length = ?1, updated_ms = ?2, effects = (SELECT count(*) FROM journal
                   WHERE key >= ?3 AND key < ?4 AND kind = ?5) WHERE number = ?6";
    let outcome = EntryKind::Outcome as i64;
    run(db, sql, params![length, at_ms, key(number, 0), first, outcome, number])?;
    Ok(Written::Count(cut as u64))
}

fn remove(db: &Connection, first: i64, last: i64) -> Outcome<usize> {
    let sql =
        "SELECT digest_of_payload FROM journal WHERE key BETWEEN ? AND ? AND digest_of_payload IS NOT NULL";
    for digest in rows(db, sql, [first, last], |row| row.get(0))? {
        unshare(db, Digest(digest))?;
    }
    run(db, "DELETE FROM journal WHERE key BETWEEN ? AND ?", [first, last])
}

/// Entries of the run `id`, whose number and length are given.
pub(super) fn read(
    db: &Connection,
    id: &str,
    (number, length): (i64, u64),
    from: u64,
    limit: usize,
) -> Outcome<Vec<JournalEntry>> {
    if from > u64::from(u32::MAX) {
        return Ok(Vec::new());
    }
    let sql =
        "SELECT key, task, count, kind, name, place, journal.digest, at_ms, payload, digest_of_payload, bytes,
               checksum
               FROM journal LEFT JOIN shared ON shared.digest = digest_of_payload
               WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?";
    let args = params![key(number, from), key(number, u64::MAX), page(limit)];
    let found = rows(db, sql, args, |row| {
        let (key, kind): (i64, i64) = (row.get(0)?, row.get(3)?);
        let kind = EntryKind::ALL.into_iter().find(|known| *known as i64 == kind).ok_or_else(|| {
            let why = format!("there is no kind {kind} of entries");
            rusqlite::Error::FromSqlConversionFailure(3, rusqlite::types::Type::Integer, why.into())
        })?;
        let entry = JournalEntry {
            seq: (key & i64::from(u32::MAX)).cast_unsigned(),
            task: row.get(1)?,
            count: row.get(2)?,
            kind,
            name: row.get(4)?,
            place: row.get(5)?,
            digest: row.get(6)?,
            at_ms: row.get(7)?,
            payload: row.get::<_, Option<Vec<u8>>>(8)?.unwrap_or_default(),
        };
        let shared = row.get::<_, Option<[u8; 32]>>(9)?.map(Digest);
        Ok((entry, row.get::<_, i64>(11)?, shared, row.get::<_, Option<Vec<u8>>>(10)?))
    })?;
    let mut out = Vec::with_capacity(found.len());
    let damaged = |seq: u64, what: &str| {
        let (path, detail) = (std::path::PathBuf::new(), format!("entry {seq} of run '{id}' {what}"));
        Error::Corrupt { path, detail }
    };
    let expected = length.saturating_sub(from).min(limit as u64);
    if found.len() as u64 > expected {
        return Err(damaged(from + expected, "lies behind the end").into());
    }
    let mut chain = chain(db, number, from)?;
    for (next, (mut entry, checksum, shared, bytes)) in (from..).zip(found) {
        if entry.seq != next {
            return Err(damaged(next, "is missing").into());
        }
        if !chain.fits(&entry, shared.as_ref(), checksum) {
            return Err(damaged(next, "was changed").into());
        }
        if let Some(digest) = shared {
            entry.payload = whole(digest, bytes)?;
        }
        out.push(entry);
    }
    if (out.len() as u64) < expected {
        return Err(damaged(from + out.len() as u64, "is missing").into());
    }
    Ok(out)
}

/// Copies the first entries of a journal to a run that has none.
pub(super) fn copy(db: &Connection, from: i64, to: i64, length: u64) -> Outcome<()> {
    let range = params![key(from, 0), key(from, 0).saturating_add(signed(length))];
    let outcome = EntryKind::Outcome as i64;
    let sql = "SELECT count(*) FROM journal WHERE key >= ? AND key < ? AND kind = ?";
    let effects: u64 = db
        .prepare_cached(sql)?
        .query_row(params![range[0], range[1], outcome], |row| row.get(0))
        .optional()?
        .unwrap_or(0);
    let sql = "UPDATE shared SET refs = refs + (SELECT count(*) FROM journal
                   WHERE key >= ?1 AND key < ?2 AND digest_of_payload = shared.digest)
               WHERE digest IN (SELECT digest_of_payload FROM journal
                   WHERE key >= ?1 AND key < ?2 AND digest_of_payload IS NOT NULL)";
    run(db, sql, range)?;
    let sql =
        "INSERT INTO journal SELECT key - ?1 + ?3, task, count, kind, name, place, digest, at_ms, payload,
               digest_of_payload, checksum FROM journal WHERE key >= ?1 AND key < ?2";
    run(db, sql, params![range[0], range[1], key(to, 0)])?;
    run(db, "UPDATE run SET length = ?, effects = ? WHERE number = ?", params![length, effects, to]).map(drop)
}

pub(super) fn delete(db: &Connection, number: i64) -> Outcome<()> {
    remove(db, key(number, 0), key(number, u64::MAX)).map(drop)
}

/// Compares all shared bytes with their digests, their counts with their references, and journals with their lengths.
pub(super) fn verify(db: &Connection) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    let mut all = db.prepare("SELECT digest, bytes FROM shared ORDER BY digest")?;
    let mut all = all.query([])?;
    while let Some(row) = all.next()? {
        let digest = Digest(row.get(0)?);
        if Digest::of(row.get_ref(1)?.as_blob().unwrap_or_default()) != digest {
            found.push(format!("the bytes {digest} are others"));
        }
    }
    let sql = "SELECT 'bytes are counted ' || refs || ' times and named ' || named || ' times' FROM (
                   SELECT refs, (SELECT count(*) FROM source WHERE digest = shared.digest) +
                       (SELECT count(*) FROM journal WHERE digest_of_payload = shared.digest) AS named FROM shared)
               WHERE refs <> named";
    found.extend(rows(db, sql, [], |row| row.get::<_, String>(0))?);
    let sql = "SELECT 'run ''' || id || ''' has ' || found || ' of ' || length || ' entries' FROM (
                   SELECT id, length, (SELECT count(*) FROM journal
                       WHERE key BETWEEN number << 32 AND (number << 32) + 4294967295) AS found FROM run)
               WHERE found <> length";
    found.extend(rows(db, sql, [], |row| row.get::<_, String>(0))?);
    Ok(found)
}
