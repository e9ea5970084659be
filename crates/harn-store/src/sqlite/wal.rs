//! The write-ahead log of SQLite: how far it was acknowledged, and whether all of that still exists.
//!
//! SQLite ends its log at the first frame with a wrong checksum, as if the remainder was never committed. A changed
//! bit would therefore drop acknowledged writes, and a resumed run would repeat their effects. The file `-mark` next
//! to the log records how far the log was acknowledged. It is written after each commit and before the answer, and
//! not synchronized: it survives the end of the process, and after a power failure it is at most older than the log.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the log is a file of SQLite, on the thread of the store"
)]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

/// Number of frames after which the log is checkpointed.
const CHECKPOINT: u32 = 1_000;

const HEADER: usize = 32;
const FRAME: usize = 24;

/// Number of attempts, and the pause between them, to read a log that another process may be writing.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);

/// The first bytes of a mark.
const MAGIC: &[u8; 8] = b"harnmark";

/// How far a log was acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    /// Identifies the log: SQLite draws new salts each time it restarts the log.
    salts: [u8; 8],
    frames: u32,
    /// SQLite's checksum of all frames up to there.
    checksum: [u8; 8],
}

impl Mark {
    const SIZE: usize = 36;

    fn to_bytes(self) -> [u8; Mark::SIZE] {
        let mut bytes = [0; Mark::SIZE];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.salts);
        bytes[16..20].copy_from_slice(&self.frames.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.checksum);
        let own = Sha256::digest(&bytes[..28]);
        bytes[28..].copy_from_slice(&own[..8]);
        bytes
    }

    /// Reads a mark; `None` for one that was changed.
    fn from_bytes(bytes: &[u8]) -> Option<Mark> {
        let fits = bytes.len() == Mark::SIZE && bytes.starts_with(MAGIC);
        let mark = fits.then(|| Mark {
            salts: array(&bytes[8..]),
            frames: u32::from_le_bytes(array(&bytes[16..])),
            checksum: array(&bytes[20..]),
        })?;
        (mark.to_bytes() == bytes).then_some(mark)
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(array(bytes))
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut file = path.as_os_str().to_owned();
    file.push(end);
    file.into()
}

/// Writes marks for the commits of this process.
pub(super) struct Marker {
    log: PathBuf,
    mark: PathBuf,
    files: Option<(File, File)>,
    page: u64,
}

impl Marker {
    /// A marker of the database at `path`, with pages of so many bytes.
    pub(super) fn new(path: &Path, page: u64) -> Marker {
        Marker { log: beside(path, "-wal"), mark: beside(path, "-mark"), files: None, page }
    }

    /// Records that the log is acknowledged up to this frame, which ends a commit of this process. Returns true when
    /// the log should be checkpointed.
    pub(super) fn committed(&mut self, frames: u32) -> bool {
        // If the mark cannot be written, the old one remains correct.
        if self.note(frames).is_err() {
            self.files = None;
        }
        frames >= CHECKPOINT
    }

    fn note(&mut self, frames: u32) -> io::Result<()> {
        let files = match self.files.take() {
            Some(files) => files,
            None => {
                let mark = OpenOptions::new().write(true).create(true).truncate(false).open(&self.mark)?;
                (File::open(&self.log)?, mark)
            }
        };
        let (log, mark) = self.files.insert(files);
        let mut frame = [0; FRAME];
        let at = HEADER as u64 + u64::from(frames.saturating_sub(1)) * (FRAME as u64 + self.page);
        log.seek(SeekFrom::Start(at))?;
        log.read_exact(&mut frame)?;
        let found = Mark { salts: array(&frame[8..]), frames, checksum: array(&frame[16..]) };
        mark.seek(SeekFrom::Start(0))?;
        mark.write_all(&found.to_bytes())
    }
}

/// The log of a database.
pub(super) fn log_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

/// Returns whether a database has neither its log nor its mark, although it was used with them: it was copied without them.
pub(super) fn has_lost_log(path: &Path) -> bool {
    let is_lost = || {
        let mut head = [0; HEADER];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
        // Byte 18 is 2 in a file with a log.
        let has_log = read.is_ok() && head.starts_with(b"SQLite format 3\0") && head[18] == 2;
        has_log && !log_of(path).exists() && !beside(path, "-mark").exists()
    };
    for _ in 1..TRIES {
        if !is_lost() {
            return false;
        }
        // Another process may be making the file.
        std::thread::sleep(PAUSE);
    }
    is_lost()
}

/// Makes an empty mark if there is none. It is there before the file has a log for the first time, so a file without both was
/// copied without them, and is not one whose making was interrupted.
pub(super) fn begin(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(false).open(beside(path, "-mark")).map(drop)
}

/// Removes the mark.
pub(super) fn forget(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(beside(path, "-mark")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Checks that all acknowledged frames of the log exist.
///
/// # Errors
/// The finding.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let mut found = check_once(path);
    for _ in 1..TRIES {
        if found.is_ok() {
            break;
        }
        // Another process may have restarted the log during the read.
        std::thread::sleep(PAUSE);
        found = check_once(path);
    }
    found
}

fn check_once(path: &Path) -> Result<(), String> {
    let mark = std::fs::read(beside(path, "-mark")).ok().and_then(|bytes| Mark::from_bytes(&bytes));
    let Ok(log) = File::open(beside(path, "-wal")) else { return Ok(()) };
    let mut log = io::BufReader::with_capacity(1 << 16, log);
    let mut header = [0; HEADER];
    if log.read_exact(&mut header).is_err() {
        return Ok(());
    }
    let big = header[3] & 1 == 1;
    let mut sum = Sum { big, words: (0, 0) };
    sum.add(&header[..24]);
    let known = number(&header) & !1 == 0x377F_0682;
    if !known || sum.to_bytes() != header[24..] {
        // A log without frames needs no check.
        let has_frames = log.read_exact(&mut [0; FRAME]).is_ok();
        return if has_frames { Err("the header of its log was changed".to_owned()) } else { Ok(()) };
    }
    let Some(mark) = mark.filter(|mark| mark.salts == header[16..24]) else { return Ok(()) };
    let mut frame = vec![0; FRAME + number(&header[8..]) as usize];
    for at in 0..mark.frames {
        let is_there = log.read_exact(&mut frame).is_ok() && frame[8..16] == mark.salts;
        sum.add(&frame[..8]);
        sum.add(&frame[FRAME..]);
        if !is_there || sum.to_bytes() != frame[16..24] {
            return Err(format!("frame {at} of {} acknowledged ones in its log was changed", mark.frames));
        }
    }
    if sum.to_bytes() == mark.checksum { Ok(()) } else { Err("its log is another one".to_owned()) }
}

fn added((one, two): (u32, u32), first: u32, second: u32) -> (u32, u32) {
    let one = one.wrapping_add(first).wrapping_add(two);
    (one, two.wrapping_add(second).wrapping_add(one))
}

/// The checksum of SQLite's log.
struct Sum {
    /// Whether 32-bit integers are big-endian.
    big: bool,
    words: (u32, u32),
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let (pairs, _) = bytes.as_chunks::<8>();
        // The first integer of a pair is the upper half of a big-endian number, and the lower half of a little-endian
        // number.
        self.words = match self.big {
            true => pairs.iter().fold(self.words, |words, pair| {
                let pair = u64::from_be_bytes(*pair);
                added(words, (pair >> 32) as u32, pair as u32)
            }),
            false => pairs.iter().fold(self.words, |words, pair| {
                let pair = u64::from_le_bytes(*pair);
                added(words, pair as u32, (pair >> 32) as u32)
            }),
        };
    }

    fn to_bytes(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.words.0.to_be_bytes());
        bytes[4..].copy_from_slice(&self.words.1.to_be_bytes());
        bytes
    }
}
