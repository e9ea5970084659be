//! An HTTP/1.1 client that sends the exact bytes of a test.

use std::io::{Read, Write};
use std::net::TcpStream;

use harn_value::Data;

/// A response.
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Data {
        self.body.parse().unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> String {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.to_owned())
            .unwrap_or_default()
    }
}

/// Sends a request: the head without its final empty line, and a body.
pub(crate) fn request(address: &str, head: &str, body: &str) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    let text = format!("{head}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let reply = String::from_utf8(reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}
