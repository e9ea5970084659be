//! Buffered standard output. It is flushed after each line on a terminal, otherwise in chunks and on request.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::os;

/// Whether standard output was closed when the process started.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Marks standard output as closed from the start: further output is lost. Rust's startup code opens the null
/// device instead, so the caller has to check before.
pub fn set_closed() {
    CLOSED.store(true, Ordering::Relaxed);
}

/// Checks that standard output was not closed from the start.
///
/// # Errors
/// The error of the system for a closed stream.
pub fn check_open() -> io::Result<()> {
    if CLOSED.load(Ordering::Relaxed) {
        return Err(os::error(os::codes::BADF));
    }
    Ok(())
}

/// Size of the buffer in bytes.
const PIECE: usize = 8192;

#[derive(Default)]
pub(super) struct Output {
    buffer: RefCell<Vec<u8>>,
    interactive: OnceCell<bool>,
    /// The kind and the message of the first failure. The output is lost, so the error is permanent.
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
