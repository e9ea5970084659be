//! WebSockets: a connection on which both sides send messages.

use std::rc::Rc;

use crate::net::HttpError;
use crate::wait::Waiting;

/// What travels over a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A message of text.
    Text(String),
    /// A message of bytes.
    Binary(Vec<u8>),
    /// A question whether the other side is there; it is answered by itself.
    Ping(Vec<u8>),
    /// The answer to it.
    Pong(Vec<u8>),
    /// The end, with a code and a reason.
    Close(u16, String),
}

impl Frame {
    /// How many bytes it carries.
    pub fn size(&self) -> usize {
        match self {
            Frame::Text(text) | Frame::Close(_, text) => text.len(),
            Frame::Binary(bytes) | Frame::Ping(bytes) | Frame::Pong(bytes) => bytes.len(),
        }
    }

    /// All of it as bytes, for a record.
    pub fn to_bytes(&self) -> Vec<u8> {
        let close;
        let (kind, bytes): (u8, &[u8]) = match self {
            Frame::Text(text) => (0, text.as_bytes()),
            Frame::Binary(bytes) => (1, bytes),
            Frame::Ping(bytes) => (2, bytes),
            Frame::Pong(bytes) => (3, bytes),
            Frame::Close(code, reason) => {
                close = [&code.to_be_bytes(), reason.as_bytes()].concat();
                (4, &close)
            }
        };
        [&[kind], bytes].concat()
    }

    /// The frame that [`Frame::to_bytes`] wrote.
    pub fn of_bytes(bytes: &[u8]) -> Option<Frame> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (kind, bytes) = bytes.split_first()?;
        Some(match kind {
            0 => Frame::Text(text(bytes)),
            1 => Frame::Binary(bytes.to_vec()),
            2 => Frame::Ping(bytes.to_vec()),
            3 => Frame::Pong(bytes.to_vec()),
            4 => {
                let (code, reason) = bytes.split_first_chunk()?;
                Frame::Close(u16::from_be_bytes(*code), text(reason))
            }
            _ => return None,
        })
    }
}

/// An open WebSocket. Dropping it hangs up.
pub trait Socket {
    /// The next frame; `None` once the other side is gone. A wait that is dropped takes nothing away.
    ///
    /// # Errors
    /// A message is larger than allowed, or what came is no frame: nothing more comes then.
    fn next(self: Rc<Self>) -> Waiting<'static, Result<Option<Frame>, HttpError>>;

    /// Sends a frame, and waits a moment for it to leave. False when too much waits to be sent already.
    ///
    /// # Errors
    /// The connection is closed.
    fn send(self: Rc<Self>, frame: Frame) -> Waiting<'static, Result<bool, HttpError>>;
}

#[cfg(test)]
mod tests {
    use super::Frame;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let frames = [
            Frame::Text("é".to_owned()),
            Frame::Binary(vec![0, 255]),
            Frame::Ping(Vec::new()),
            Frame::Pong(vec![1]),
            Frame::Close(1000, "bye".to_owned()),
        ];
        for frame in frames {
            assert_eq!(Frame::of_bytes(&frame.to_bytes()), Some(frame));
        }
        assert_eq!(Frame::of_bytes(&[]), None);
        assert_eq!(Frame::of_bytes(&[4, 1]), None);
        assert_eq!(Frame::of_bytes(&[9]), None);
    }
}
