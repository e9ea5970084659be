//! WebSockets: connections on which both sides send messages.

use std::rc::Rc;

use crate::net::HttpError;
use crate::wait::Waiting;

/// A frame of a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A text message.
    Text(String),
    /// A binary message.
    Binary(Vec<u8>),
    /// A ping; the implementation answers it.
    Ping(Vec<u8>),
    /// A pong.
    Pong(Vec<u8>),
    /// A close frame with its code and reason.
    Close(u16, String),
}

impl Frame {
    /// Returns the size of the payload in bytes.
    pub fn size(&self) -> usize {
        match self {
            Frame::Text(text) | Frame::Close(_, text) => text.len(),
            Frame::Binary(bytes) | Frame::Ping(bytes) | Frame::Pong(bytes) => bytes.len(),
        }
    }

    /// Encodes the frame for a journal.
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

    /// Decodes a frame from [`Frame::to_bytes`].
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

/// An open WebSocket. Dropping it closes the connection.
pub trait Socket {
    /// Returns the next frame; `None` after the other side has closed the connection. This is cancel safe.
    ///
    /// # Errors
    /// A message is larger than allowed, or a frame is invalid; no further frames follow.
    fn next(self: Rc<Self>) -> Waiting<'static, Result<Option<Frame>, HttpError>>;

    /// Sends a frame, and waits briefly until it is flushed. Returns false if the send buffer is full.
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
