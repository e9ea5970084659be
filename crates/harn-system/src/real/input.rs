//! Standard input as text.

use std::future::poll_fn;
use std::io::{self, Read};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

// On systems where input cannot be polled, a thread reads it ahead.
#[cfg(any(windows, test))]
mod ahead;
#[cfg(unix)]
mod poll;

#[cfg(windows)]
use ahead::{is_ready, source, watch};
#[cfg(unix)]
use poll::{is_ready, source, watch};

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// A line reader with its buffer.
pub(crate) struct Input<R> {
    source: R,
    kept: Vec<u8>,
    /// Start of the next line.
    at: usize,
    /// Position where the search for its end resumes.
    looked: usize,
    ended: bool,
}

impl<R: Read> Input<R> {
    pub(crate) fn new(source: R) -> Input<R> {
        Input { source, kept: Vec::new(), at: 0, looked: 0, ended: false }
    }

    /// Returns the source.
    pub(crate) fn source(&mut self) -> &mut R {
        &mut self.source
    }

    /// Returns whether [`Input::line`] needs no more bytes.
    fn has_line(&mut self) -> bool {
        match self.kept[self.looked..].iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                self.looked += end;
                true
            }
            None => {
                self.looked = self.kept.len();
                self.ended
            }
        }
    }

    /// Reads once.
    fn fill(&mut self) -> io::Result<()> {
        self.kept.drain(..self.at);
        self.looked -= self.at;
        self.at = 0;
        let start = self.kept.len();
        self.kept.resize(start + PIECE, 0);
        let read = loop {
            match self.source.read(&mut self.kept[start..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.kept.truncate(start + read.as_ref().map_or(0, |read| *read));
        self.ended = read? == 0;
        Ok(())
    }

    /// Reads a line without its terminator; `None` at the end of the input.
    pub(crate) fn line(&mut self) -> io::Result<Option<String>> {
        while !self.has_line() {
            self.fill()?;
        }
        // A terminal may provide more input after its end.
        self.ended = false;
        let line = &self.kept[self.at..self.kept.len().min(self.looked + 1)];
        if line.is_empty() {
            return Ok(None);
        }
        self.at += line.len();
        self.looked = self.at;
        let end = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
        text(&line[..end], "a line of standard input").map(Some)
    }

    /// Reads the remaining input.
    pub(crate) fn rest(&mut self) -> io::Result<String> {
        while !self.ended {
            self.fill()?;
        }
        self.ended = false;
        let rest = std::mem::take(&mut self.kept);
        let rest = text(&rest[self.at..], "standard input");
        (self.at, self.looked) = (0, 0);
        rest
    }
}

fn text(bytes: &[u8], what: &str) -> io::Result<String> {
    str::from_utf8(bytes).map(str::to_owned).map_err(|error| {
        let at = error.valid_up_to();
        let reason = format!("{what} is not UTF-8: invalid byte {at} (counted from 0)");
        io::Error::new(io::ErrorKind::InvalidData, reason)
    })
}

type Standard = Input<Box<dyn Read + Send>>;

/// The buffered standard input of this process.
fn standard() -> MutexGuard<'static, Standard> {
    static INPUT: LazyLock<Mutex<Standard>> = LazyLock::new(|| Mutex::new(Input::new(source())));
    INPUT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a line of standard input.
pub(crate) async fn next_line() -> io::Result<Option<String>> {
    while !standard().has_line() {
        more().await?;
    }
    standard().line()
}

/// Reads a line of standard input and blocks the thread.
pub(crate) fn line_now() -> io::Result<Option<String>> {
    standard().line()
}

/// Waits for the end of standard input.
pub(crate) async fn all_that_is_left() -> io::Result<String> {
    while !standard().ended {
        more().await?;
    }
    standard().rest()
}

/// Yields to other tasks until a read does not block, then reads once.
async fn more() -> io::Result<()> {
    tokio::task::yield_now().await;
    poll_fn(|context| match is_ready() {
        true => Poll::Ready(standard().fill()),
        false => match watch(context.waker()) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        },
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_text_is_an_error_and_the_next_one_is_read() {
        let mut input = Input::new(b"good\nb\xffad\r\nmore\r\n\nend".as_slice());
        let mut next = || input.line();
        assert_eq!(next().expect("text").as_deref(), Some("good"));
        assert!(next().expect_err("no text").to_string().contains("not UTF-8: invalid byte 1"));
        assert_eq!(next().expect("text").as_deref(), Some("more"));
        assert_eq!(next().expect("text").as_deref(), Some(""));
        assert_eq!(next().expect("text").as_deref(), Some("end"));
        assert_eq!(next().expect("text"), None);
        assert!(Input::new(b"a\xff".as_slice()).rest().is_err());
        assert_eq!(Input::new("ä".as_bytes()).rest().expect("text"), "ä");
    }

    #[test]
    fn pieces_of_any_size_give_the_same_lines() {
        /// Returns a few bytes at a time.
        struct Drops<'a>(&'a [u8], usize);

        impl Read for Drops<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let (now, later) = self.0.split_at(self.1.min(self.0.len()).min(buffer.len()));
                buffer[..now.len()].copy_from_slice(now);
                self.0 = later;
                Ok(now.len())
            }
        }

        let text = "eins\n\nzwei\r\n".repeat(20_000) + "drei";
        for size in [1, 7, 4096, usize::MAX] {
            let mut input = Input::new(Drops(text.as_bytes(), size));
            assert_eq!(input.line().expect("text").as_deref(), Some("eins"));
            let mut lines = 1;
            while input.line().expect("text").is_some() {
                lines += 1;
            }
            assert_eq!(lines, 60_001, "{size}");
            let mut input = Input::new(Drops(text.as_bytes(), size));
            input.line().expect("text");
            assert_eq!(input.rest().expect("text"), text["eins\n".len()..]);
        }
    }
}
