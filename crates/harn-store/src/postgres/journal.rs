//! The journal of runs, and the bytes that runs share.

use super::connect::{Db, count, get};
use super::fault::{Fault, Outcome};
use super::read;
use super::statement::{number, page, pieces};
use crate::model::Digest;
use crate::run::{Chain, EntryKind, JournalEntry};
use crate::write::Written;

/// Payloads above this size are stored once, under their digest: histories and files repeat often.
const INLINE: usize = 16 << 10;

/// Stores bytes once, and counts the references.
pub(super) fn share(db: &Db, bytes: &[u8]) -> Outcome<Digest> {
    share_by(db, bytes, 1)
}

/// Adds references to shared bytes.
pub(super) fn share_by(db: &Db, bytes: &[u8], refs: i64) -> Outcome<Digest> {
    let digest = Digest::of(bytes);
    let key = &digest.0[..];
    // The bytes are not sent if they exist.
    if db.run("UPDATE shared SET refs = refs + $2 WHERE digest = $1", &[&key, &refs])? == 0 {
        let sql = "INSERT INTO shared (digest, refs, bytes) VALUES ($1, $3, $2)
                   ON CONFLICT (digest) DO UPDATE SET refs = shared.refs + $3";
        db.run(sql, &[&key, &bytes, &refs])?;
    }
    Ok(digest)
}

/// Removes a reference to shared bytes.
pub(super) fn unshare(db: &Db, digest: Digest) -> Outcome<()> {
    let key = &digest.0[..];
    db.run("UPDATE shared SET refs = refs - 1 WHERE digest = $1", &[&key])?;
    db.run("DELETE FROM shared WHERE digest = $1 AND refs <= 0", &[&key]).map(drop)
}

/// Compares shared bytes with their digest.
pub(super) fn whole(digest: Digest, bytes: Option<Vec<u8>>) -> Outcome<Vec<u8>> {
    match bytes {
        Some(bytes) if Digest::of(&bytes) == digest => Ok(bytes),
        Some(_) => Err(Fault::Damaged(format!("the bytes {digest} are others"))),
        None => Err(Fault::Damaged(format!("the bytes {digest} are missing"))),
    }
}

/// The size of an entry in a statement.
fn size(entry: &JournalEntry) -> usize {
    let payload = if entry.payload.len() > INLINE { 0 } else { entry.payload.len() };
    payload + entry.task.len() + entry.name.len() + entry.place.len() + entry.digest.len() + 64
}

pub(super) fn append(db: &Db, run: i64, entries: &[JournalEntry], at_ms: i64) -> Outcome<Written> {
    let sql = "INSERT INTO journal (run, seq, task, count, kind, name, place, digest, at_ms, payload,
                   digest_of_payload, checksum)
               SELECT $1, new.* FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::text[],
                   $7::text[], $8::bytea[], $9::bigint[], $10::bytea[], $11::bytea[], $12::bigint[]) AS new";
    let mut chain = chain(db, run, entries.first().map_or(0, |entry| entry.seq))?;
    for piece in pieces(entries, size) {
        let mut numbers = [const { Vec::new() }; 5];
        let [seqs, counts, kinds, times, checksums] = &mut numbers;
        let mut inline: Vec<Option<&[u8]>> = Vec::new();
        let mut shared: Vec<Option<Vec<u8>>> = Vec::new();
        for entry in piece {
            let digest = if entry.payload.len() > INLINE { Some(share(db, &entry.payload)?) } else { None };
            seqs.push(number(entry.seq)?);
            counts.push(number(entry.count)?);
            kinds.push(entry.kind as i64);
            times.push(entry.at_ms);
            checksums.push(chain.next(entry, digest.as_ref()));
            inline.push(if digest.is_none() { Some(&entry.payload) } else { None });
            shared.push(digest.map(|digest| digest.0.to_vec()));
        }
        let tasks: Vec<&str> = piece.iter().map(|entry| &*entry.task).collect();
        let names: Vec<&str> = piece.iter().map(|entry| &*entry.name).collect();
        let places: Vec<&str> = piece.iter().map(|entry| &*entry.place).collect();
        let digests: Vec<&[u8]> = piece.iter().map(|entry| &*entry.digest).collect();
        db.run(
            sql,
            &[
                &run, seqs, &tasks, counts, kinds, &names, &places, &digests, times, &inline, &shared,
                checksums,
            ],
        )?;
    }
    let effects = entries.iter().filter(|entry| entry.kind == EntryKind::Outcome).count() as i64;
    let sql = "UPDATE run SET length = length + $1, effects = effects + $2, updated_ms = $3 WHERE number = $4
               RETURNING length";
    let length = db.one(sql, &[&(entries.len() as i64), &effects, &at_ms, &run], |row| count(row, 0))?;
    Ok(Written::Count(length))
}

/// The chain of checksums before an entry.
fn chain(db: &Db, run: i64, seq: u64) -> Outcome<Chain> {
    let sql = "SELECT checksum FROM journal WHERE run = $1 AND seq = $2";
    let before = match seq.checked_sub(1) {
        Some(before) => db.row(sql, &[&run, &number(before)?], |row| get::<i64>(row, 0))?,
        None => None,
    };
    Ok(Chain::after(before))
}

/// Removes the entries of a journal from a number on.
pub(super) fn cut(db: &Db, run: i64, length: u64, at_ms: i64) -> Outcome<Written> {
    let length = number(length)?;
    let cut = remove(db, run, length)?;
    let sql = "UPDATE run SET length = $1, updated_ms = $2, effects = (SELECT count(*) FROM journal
                   WHERE journal.run = $3 AND journal.kind = $4) WHERE number = $3";
    db.run(sql, &[&length, &at_ms, &run, &(EntryKind::Outcome as i64)])?;
    Ok(Written::Count(cut))
}

/// Entries of the run `id`, whose number and length are given.
pub(super) fn read(
    db: &Db,
    id: &str,
    (run, length): (i64, u64),
    from: u64,
    limit: usize,
) -> Outcome<Vec<JournalEntry>> {
    if from > u64::from(u32::MAX) {
        return Ok(Vec::new());
    }
    let sql = "SELECT seq, task, count, kind, name, place, journal.digest, at_ms, payload, digest_of_payload,
                   bytes, checksum
               FROM journal LEFT JOIN shared ON shared.digest = digest_of_payload
               WHERE run = $1 AND seq >= $2 ORDER BY seq LIMIT $3";
    let found = db.rows(sql, &[&run, &number(from)?, &page(limit)], |row| {
        let kind: i64 = get(row, 3)?;
        let kind = EntryKind::ALL
            .into_iter()
            .find(|known| *known as i64 == kind)
            .ok_or_else(|| Fault::Damaged(format!("there is no kind {kind} of entries")))?;
        let entry = JournalEntry {
            seq: count(row, 0)?,
            task: get::<&str>(row, 1)?.into(),
            count: count(row, 2)?,
            kind,
            name: get::<&str>(row, 4)?.into(),
            place: get::<&str>(row, 5)?.into(),
            digest: get(row, 6)?,
            at_ms: get(row, 7)?,
            payload: get::<Option<Vec<u8>>>(row, 8)?.unwrap_or_default(),
        };
        let shared = get::<Option<&[u8]>>(row, 9)?.map(read::digest).transpose()?;
        Ok((entry, get::<i64>(row, 11)?, shared, get::<Option<Vec<u8>>>(row, 10)?))
    })?;
    let mut out = Vec::with_capacity(found.len());
    let damaged = |seq: u64, what: &str| Fault::Damaged(format!("entry {seq} of run '{id}' {what}"));
    let expected = length.saturating_sub(from).min(limit as u64);
    if found.len() as u64 > expected {
        return Err(damaged(from + expected, "lies behind the end"));
    }
    let mut chain = chain(db, run, from)?;
    for (next, (mut entry, checksum, shared, bytes)) in (from..).zip(found) {
        if entry.seq != next {
            return Err(damaged(next, "is missing"));
        }
        if !chain.fits(&entry, shared.as_ref(), checksum) {
            return Err(damaged(next, "was changed"));
        }
        if let Some(digest) = shared {
            entry.payload = whole(digest, bytes)?;
        }
        out.push(entry);
    }
    if (out.len() as u64) < expected {
        return Err(damaged(from + out.len() as u64, "is missing"));
    }
    Ok(out)
}

/// Copies the first entries of a journal to a run that has none.
pub(super) fn copy(db: &Db, from: i64, to: i64, length: u64) -> Outcome<()> {
    let end = number(length)?;
    let sql = "UPDATE shared SET refs = refs + named FROM (
                   SELECT digest_of_payload, count(*) AS named FROM journal
                   WHERE run = $1 AND seq < $2 AND digest_of_payload IS NOT NULL GROUP BY 1) AS names
               WHERE digest = digest_of_payload";
    db.run(sql, &[&from, &end])?;
    let sql = "INSERT INTO journal (run, seq, task, count, kind, name, place, digest, at_ms, payload,
                   digest_of_payload, checksum)
               SELECT $3, seq, task, count, kind, name, place, digest, at_ms, payload, digest_of_payload, checksum
               FROM journal WHERE run = $1 AND seq < $2";
    db.run(sql, &[&from, &end, &to])?;
    let sql = "UPDATE run SET length = $1, effects = (SELECT count(*) FROM journal WHERE journal.run = $2
                   AND journal.kind = $3) WHERE number = $2";
    db.run(sql, &[&end, &to, &(EntryKind::Outcome as i64)]).map(drop)
}

pub(super) fn delete(db: &Db, run: i64) -> Outcome<()> {
    remove(db, run, 0).map(drop)
}

/// Removes the entries from a number on; returns how many there were.
fn remove(db: &Db, run: i64, from: i64) -> Outcome<u64> {
    let sql = "UPDATE shared SET refs = refs - named FROM (
                   SELECT digest_of_payload, count(*) AS named FROM journal
                   WHERE run = $1 AND seq >= $2 AND digest_of_payload IS NOT NULL GROUP BY 1) AS names
               WHERE digest = digest_of_payload";
    db.run(sql, &[&run, &from])?;
    let sql = "DELETE FROM shared WHERE refs <= 0 AND digest IN (
                   SELECT digest_of_payload FROM journal
                   WHERE run = $1 AND seq >= $2 AND digest_of_payload IS NOT NULL)";
    db.run(sql, &[&run, &from])?;
    db.run("DELETE FROM journal WHERE run = $1 AND seq >= $2", &[&run, &from])
}
