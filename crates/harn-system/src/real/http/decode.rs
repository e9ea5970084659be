//! Bodies that come compressed. What comes out is held to the same limit as what comes in, and is made piece by piece: a few
//! bytes may stand for gigabytes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::rc::Rc;

use bytes::{Buf as _, Bytes};

use crate::net::{Body, HttpError, HttpErrorKind, HttpReply, too_large};
use crate::wait::Waiting;

/// What is told to servers that a request can read.
pub(super) const ACCEPTED: &str = "gzip, br, zstd, deflate";

/// Bytes that are decoded at once.
const PIECE: usize = 32 << 10;
/// Codings that may lie over each other.
const LAYERS: usize = 3;
/// The largest window of Zstandard as its logarithm: what RFC 9659 allows in HTTP.
const WINDOW: u32 = 23;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Brotli,
    Zstd,
    Deflate,
}

/// The codings of a body in the order in which they were applied; `None` when there is one that nobody knows.
fn codings(header: &str) -> Option<Vec<Coding>> {
    let words = header.split(',').map(|word| word.trim().to_ascii_lowercase());
    let words = words.filter(|word| !word.is_empty() && word != "identity");
    let coding = |word: String| match &*word {
        "gzip" | "x-gzip" => Some(Coding::Gzip),
        "br" => Some(Coding::Brotli),
        "zstd" => Some(Coding::Zstd),
        "deflate" => Some(Coding::Deflate),
        _ => None,
    };
    words.map(coding).collect()
}

/// The reply with its body as it was before it was compressed. A coding that is not known leaves it as it came.
pub(super) fn plain(reply: HttpReply, limit: u64) -> HttpReply {
    let of_body = |name: &str| name == "content-encoding";
    let named: Vec<&str> =
        reply.headers.iter().filter(|(name, _)| of_body(name)).map(|(_, value)| &**value).collect();
    let codings = match codings(&named.join(",")) {
        Some(codings) if (1..=LAYERS).contains(&codings.len()) => codings,
        _ => return reply,
    };
    // They describe what came over the wire.
    let headers = reply.headers.into_iter().filter(|(name, _)| !of_body(name) && name != "content-length");
    let body = Decoded {
        inner: reply.body,
        codings,
        pieces: Pieces::default(),
        reader: None,
        left: limit,
        limit,
        over: false,
    };
    HttpReply { status: reply.status, headers: headers.collect(), body: Box::new(body) }
}

/// The pieces that came and were not decoded yet. Reading waits for more by an error of the kind `WouldBlock`.
#[derive(Clone, Default)]
struct Pieces(Rc<RefCell<(VecDeque<Bytes>, bool)>>);

impl Pieces {
    fn push(&self, piece: Option<Bytes>) {
        let mut own = self.0.borrow_mut();
        match piece {
            Some(piece) if piece.is_empty() => {}
            Some(piece) => own.0.push_back(piece),
            None => own.1 = true,
        }
    }
}

impl Read for Pieces {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut own = self.0.borrow_mut();
        let (pieces, over) = &mut *own;
        let Some(piece) = pieces.front_mut() else {
            return if *over { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        };
        let count = room.len().min(piece.len());
        piece.copy_to_slice(&mut room[..count]);
        if piece.is_empty() {
            pieces.pop_front();
        }
        Ok(count)
    }
}

/// A body that is decoded as it comes.
struct Decoded {
    inner: Box<dyn Body>,
    codings: Vec<Coding>,
    pieces: Pieces,
    /// Made when the first byte is there.
    reader: Option<Box<dyn Read>>,
    left: u64,
    limit: u64,
    over: bool,
}

impl Decoded {
    /// Takes the next piece of what came; false at the end of a body that has none.
    async fn take(&mut self) -> Result<bool, HttpError> {
        let piece = self.inner.next().await?;
        let first = piece.as_ref().and_then(|piece| piece.first().copied());
        let is_over = piece.is_none();
        self.pieces.push(piece);
        if let (None, Some(first)) = (&self.reader, first) {
            self.reader =
                Some(reader(&self.codings, self.pieces.clone(), first).map_err(|error| broken(&error))?);
        }
        Ok(!is_over || self.reader.is_some())
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, HttpError> {
        while !self.over {
            let mut room = vec![0; PIECE];
            let read = match &mut self.reader {
                Some(reader) => reader.read(&mut room),
                None => Err(io::ErrorKind::WouldBlock.into()),
            };
            match read {
                Ok(0) => {
                    self.over = true;
                    // The connection serves the next request when nothing is left on it.
                    while self.inner.next().await?.is_some() {}
                }
                Ok(count) => {
                    self.left = self.left.checked_sub(count as u64).ok_or_else(|| too_large(self.limit))?;
                    room.truncate(count);
                    return Ok(Some(room.into()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.over = !self.take().await?,
                Err(error) => return Err(broken(&error)),
            }
        }
        Ok(None)
    }
}

impl Body for Decoded {
    fn next(&mut self) -> Waiting<'_, Result<Option<Bytes>, HttpError>> {
        Box::pin(self.piece())
    }

    fn is_over(&self) -> bool {
        self.over || (self.reader.is_none() && self.inner.is_over())
    }

    fn release(self: Box<Self>) -> Waiting<'static, ()> {
        self.inner.release()
    }
}

/// What undoes the codings, the last one first. `first` is the first byte of what came.
fn reader(codings: &[Coding], pieces: Pieces, first: u8) -> io::Result<Box<dyn Read>> {
    let mut reader: Box<dyn Read> = Box::new(pieces);
    for (layer, coding) in codings.iter().rev().enumerate() {
        reader = match coding {
            Coding::Gzip => Box::new(flate2::read::MultiGzDecoder::new(reader)),
            Coding::Brotli => Box::new(brotli::Decompressor::new(reader, 4096)),
            Coding::Zstd => {
                let mut decoder = zstd::Decoder::new(reader)?;
                decoder.window_log_max(WINDOW)?;
                Box::new(decoder)
            }
            // Some servers leave out the frame that the name means (RFC 9110, section 8.4.1.2).
            Coding::Deflate if layer == 0 && first & 15 != 8 => {
                Box::new(flate2::read::DeflateDecoder::new(reader))
            }
            Coding::Deflate => Box::new(flate2::read::ZlibDecoder::new(reader)),
        };
    }
    Ok(reader)
}

fn broken(error: &io::Error) -> HttpError {
    let text = format!("the body cannot be decompressed: {error} (decompress: false gives it as it came)");
    HttpError::new(HttpErrorKind::Broken, text)
}
