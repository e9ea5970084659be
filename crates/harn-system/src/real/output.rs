//! Standard output: gathered, and handed over at line ends on a terminal, else in pieces and when asked.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::os;

/// Whether standard output was closed when the process began.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Says that standard output was closed when the process began: what is written to it is lost. Rust's start-up opens the
/// null device in its place, so only who looked before can know.
pub fn set_closed() {
    CLOSED.store(true, Ordering::Relaxed);
}

/// The error of writing to standard output when it was closed from the beginning.
///
/// # Errors
/// The system's error for a closed stream.
pub fn check_open() -> io::Result<()> {
    if CLOSED.load(Ordering::Relaxed) {
        return Err(os::error(os::codes::BADF));
    }
    Ok(())
}

/// Bytes that are gathered.
const PIECE: usize = 8192;

#[derive(Default)]
pub(super) struct Output {
    buffer: RefCell<Vec<u8>>,
    interactive: OnceCell<bool>,
    /// The kind and text of the first failure. What could not be written then is lost, so it stays one.
    failed: RefCell<Option<(io::ErrorKind, String)>>,
    broken: Cell<bool>,
}

impl Output {
    pub(super) fn write(&self, text: &str) -> io::Result<()> {
        let interactive = *self.interactive.get_or_init(|| io::stdout().is_terminal());
        let mut buffer = self.buffer.borrow_mut();
        buffer.extend_from_slice(text.as_bytes());
        let full = buffer.len() >= PIECE || (interactive && text.ends_with('\n'));
        drop(buffer);
        if full || self.broken.get() { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&self) -> io::Result<()> {
        if let Some((kind, text)) = &*self.failed.borrow() {
            return Err(io::Error::new(*kind, text.clone()));
        }
        let bytes = std::mem::take(&mut *self.buffer.borrow_mut());
        if bytes.is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        let written = check_open().and_then(|()| out.write_all(&bytes)).and_then(|()| out.flush());
        written.inspect_err(|error| {
            self.broken.set(true);
            *self.failed.borrow_mut() = Some((error.kind(), error.to_string()));
        })
    }
}
