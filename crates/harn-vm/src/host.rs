//! The outside world as a program sees it: output, clock, environment, files. Everything that is not
//! pure goes through one [`Host`], so that it can be refused, replaced in tests and recorded.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What a program can do outside of itself.
pub trait Host {
    /// Writes program output. Returning an error ends the program quietly (a closed pipe).
    ///
    /// # Errors
    /// The system's error.
    fn write_out(&self, text: &str) -> io::Result<()>;

    /// Hands buffered output to the system.
    ///
    /// # Errors
    /// The system's error.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    /// Writes diagnostics.
    fn write_err(&self, text: &str) {
        let _ = io::stderr().write_all(text.as_bytes());
    }

    /// A line of input without its line feed; `None` at the end.
    ///
    /// # Errors
    /// The system's error.
    fn read_line(&self) -> io::Result<Option<String>> {
        let mut line = String::new();
        if io::stdin().read_line(&mut line)? == 0 {
            return Ok(None);
        }
        Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned()))
    }

    /// An environment variable.
    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    /// Milliseconds since 1970-01-01 UTC.
    fn now_ms(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
    }

    /// Time since some fixed moment; never goes backwards.
    fn monotonic(&self) -> Duration {
        thread_local!(static START: Instant = Instant::now());
        START.with(Instant::elapsed)
    }

    /// 64 random bits.
    fn random(&self) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        std::collections::hash_map::RandomState::new().build_hasher().finish()
    }

    /// The working directory.
    fn cwd(&self) -> PathBuf {
        std::env::current_dir().unwrap_or_default()
    }

    /// The bytes of a regular file.
    ///
    /// # Errors
    /// The system's error.
    fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        harn_system::real::files::read(path, u64::MAX)
    }

    /// Replaces a file's content as a whole, creating the file.
    ///
    /// # Errors
    /// The system's error.
    fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        harn_system::real::files::replace(path, bytes)
    }
}

/// The real system; output buffered, flushed on a line end when it is a terminal, else when 8 KiB
/// have gathered, at every wait and at the end.
#[derive(Default)]
pub struct SystemHost {
    buffer: RefCell<Vec<u8>>,
    interactive: bool,
}

impl SystemHost {
    /// The process's own standard streams.
    pub fn new() -> SystemHost {
        SystemHost { buffer: RefCell::default(), interactive: io::IsTerminal::is_terminal(&io::stdout()) }
    }
}

impl Host for SystemHost {
    fn write_out(&self, text: &str) -> io::Result<()> {
        let mut buffer = self.buffer.borrow_mut();
        buffer.extend_from_slice(text.as_bytes());
        let full = buffer.len() >= 8192 || (self.interactive && text.ends_with('\n'));
        drop(buffer);
        if full { self.flush() } else { Ok(()) }
    }

    fn flush(&self) -> io::Result<()> {
        let bytes = std::mem::take(&mut *self.buffer.borrow_mut());
        if bytes.is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(&bytes)?;
        out.flush()
    }
}

/// Collects output in memory; everything else is the real system.
#[derive(Default)]
pub struct CaptureHost {
    out: RefCell<String>,
    err: RefCell<String>,
}

impl CaptureHost {
    /// What was written to standard output so far.
    pub fn output(&self) -> String {
        self.out.borrow().clone()
    }

    /// What was written to standard error so far.
    pub fn errors(&self) -> String {
        self.err.borrow().clone()
    }
}

impl Host for CaptureHost {
    fn write_out(&self, text: &str) -> io::Result<()> {
        self.out.borrow_mut().push_str(text);
        Ok(())
    }

    fn write_err(&self, text: &str) {
        self.err.borrow_mut().push_str(text);
    }
}
