//! Standard output of the commands. A write error is stored and turns success into failure when the command ends. A
//! closed pipe is not a failure.

#![expect(clippy::disallowed_methods, reason = "what the commands themselves write; it may be no text")]

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use harn_system::real::output;

static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Standard output.
pub(crate) struct Out;

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let open = if bytes.is_empty() { Ok(()) } else { output::check_open() };
        open.and_then(|()| io::stdout().write(bytes)).map_err(remember)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().map_err(remember)
    }
}

/// Writes a string. [`settle`] reports errors.
pub(crate) fn write(text: &str) {
    let _ = Out.write_all(text.as_bytes());
}

/// Stores the first error. Returns a copy.
fn remember(error: io::Error) -> io::Error {
    let again = io::Error::new(error.kind(), error.to_string());
    if error.kind() != io::ErrorKind::Interrupted {
        FAILED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
    again
}

/// Flushes the output. Returns the exit code of a command that would end with `code`.
pub(crate) fn settle(code: u8) -> u8 {
    let _ = Out.flush();
    let failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner).take();
    match failed {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(io::stderr(), "error: cannot write to standard output: {error}");
            code.max(1)
        }
        _ => code,
    }
}
