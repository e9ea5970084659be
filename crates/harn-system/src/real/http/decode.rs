//! Decompression of bodies. The output has the same size limit as the input and is produced incrementally, because a
//! few bytes may expand to gigabytes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::rc::Rc;

use bytes::{Buf as _, Bytes};

use crate::net::{Body, HttpError, HttpErrorKind, HttpReply, too_large};
use crate::wait::Waiting;

/// The value of `Accept-Encoding`.
pub(super) const ACCEPTED: &str = "gzip, br, zstd, deflate";

/// Bytes that are decoded at once.
const PIECE: usize = 32 << 10;
/// Maximum number of nested codings.
const LAYERS: usize = 3;
/// Base-2 logarithm of the largest Zstandard window that RFC 9659 permits in HTTP.
const WINDOW: u32 = 23;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Brotli,
    Zstd,
    Deflate,
}

/// Returns the codings of a body in the order in which they were applied; `None` if one is unknown.
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

/// Returns the reply with a decompressed body. A reply with an unknown coding is returned unchanged.
pub(super) fn plain(reply: HttpReply, limit: u64) -> HttpReply {
    let of_body = |name: &str| name == "content-encoding";
    let named: Vec<&str> =
        reply.headers.iter().filter(|(name, _)| of_body(name)).map(|(_, value)| &**value).collect();
    let codings = match codings(&named.join(",")) {
        Some(codings) if (1..=LAYERS).contains(&codings.len()) => codings,
        _ => return reply,
    };
    // These headers describe the compressed body.
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

/// Received chunks that are not decoded yet. Reading returns an error of the kind `WouldBlock` if more input is needed.
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

/// A body that is decoded as it arrives.
struct Decoded {
    inner: Box<dyn Body>,
    codings: Vec<Coding>,
    pieces: Pieces,
    /// Created when the first byte arrives.
    reader: Option<Box<dyn Read>>,
    left: u64,
    limit: u64,
    over: bool,
}

impl Decoded {
    /// Receives the next chunk; returns false at the end of an empty body.
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
                    // The connection can be reused only if nothing is left on it.
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

/// Returns a reader that undoes the codings, the last one first. `first` is the first byte of the body.
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
            // Some servers omit the zlib header that `deflate` requires (RFC 9110, section 8.4.1.2).
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
