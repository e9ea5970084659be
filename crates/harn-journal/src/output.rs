//! Output that waits for entries of a journal.

use std::collections::VecDeque;
use std::io;

/// Output that waits for entries.
pub(crate) struct Piece {
    /// Number of the first entry that it does not wait for.
    upto: u64,
    pub(crate) error: bool,
    pub(crate) text: String,
}

#[derive(Default)]
pub(crate) struct Output {
    held: VecDeque<Piece>,
    /// Bytes of both streams.
    pub(crate) bytes: (usize, usize),
    /// When it was last checked, on the clock of the inner system.
    pub(crate) seen_to: u64,
    /// The first failure of delayed output. That output is lost, so the error remains.
    failed: Option<(io::ErrorKind, String)>,
}

impl Output {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn hold(&mut self, upto: u64, text: &str, error: bool) {
        let bytes = if error { &mut self.bytes.1 } else { &mut self.bytes.0 };
        *bytes += text.len();
        match self.held.back_mut() {
            Some(last) if last.upto == upto && last.error == error => last.text.push_str(text),
            _ => self.held.push_back(Piece { upto, error, text: text.to_owned() }),
        }
    }

    /// Returns the number of the entry up to which all output waits.
    pub(crate) fn waits_for(&self) -> u64 {
        self.held.back().map_or(0, |piece| piece.upto)
    }

    /// Takes output that waits for entries before `kept`, or for none.
    pub(crate) fn take(&mut self, kept: u64) -> Option<Piece> {
        let piece = self.held.pop_front_if(|piece| piece.upto <= kept)?;
        let bytes = if piece.error { &mut self.bytes.1 } else { &mut self.bytes.0 };
        *bytes -= piece.text.len();
        Some(piece)
    }

    /// Drops the output that waits for entries from this number on. Returns the bytes of both streams.
    pub(crate) fn cut(&mut self, from: u64) -> (u64, u64) {
        let mut cut = (0, 0);
        while let Some(piece) = self.held.pop_back_if(|piece| piece.upto > from) {
            let (held, bytes) =
                if piece.error { (&mut self.bytes.1, &mut cut.1) } else { (&mut self.bytes.0, &mut cut.0) };
            *held -= piece.text.len();
            *bytes += piece.text.len() as u64;
        }
        cut
    }

    pub(crate) fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.failed.get_or_insert((error.kind(), error.to_string()));
        }
    }

    /// Returns the failure of output that was written later.
    pub(crate) fn failure(&self) -> io::Result<()> {
        match &self.failed {
            Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
            None => Ok(()),
        }
    }
}
