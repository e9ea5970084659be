//! A model server: reads Chat Completions requests and answers each with a call of the tool `look`, or with text if the
//! request offers no tools.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Default)]
struct Counts {
    connections: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
    delay_ms: AtomicU64,
}

/// A server on its own thread, which lives as long as the process.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    counts: Arc<Counts>,
}

impl Server {
    pub(crate) fn start() -> Server {
        let counts: Arc<Counts> = Arc::default();
        let (give, take) = std::sync::mpsc::channel();
        let shared = counts.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let socket = tokio::net::TcpSocket::new_v4().unwrap();
                socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
                let listener: TcpListener = socket.listen(8192).unwrap();
                give.send(listener.local_addr().unwrap()).unwrap();
                loop {
                    let Ok((stream, _)) = listener.accept().await else { continue };
                    shared.connections.fetch_add(1, Ordering::Relaxed);
                    let _ = stream.set_nodelay(true);
                    tokio::spawn(serve(stream, shared.clone()));
                }
            });
        });
        Server { address: take.recv().unwrap(), counts }
    }

    /// Sets the delay of all later replies.
    pub(crate) fn reply_after(&self, delay: Duration) {
        self.counts.delay_ms.store(u64::try_from(delay.as_millis()).unwrap(), Ordering::Relaxed);
    }

    pub(crate) fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::Relaxed)
    }

    /// Returns the total size of all request bodies in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.counts.bytes.load(Ordering::Relaxed)
    }
}

async fn serve(mut stream: TcpStream, counts: Arc<Counts>) {
    let mut bytes: Vec<u8> = Vec::new();
    let mut buffer = vec![0u8; 16 << 10];
    loop {
        let end = loop {
            if let Some(at) = find(&bytes, b"\r\n\r\n") {
                break at + 4;
            }
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(n) => bytes.extend_from_slice(&buffer[..n]),
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.and_then(|n| n.trim().parse().ok()).unwrap_or(0);
        // The body is counted but not stored. Only its end, which contains the options, is inspected.
        let mut body = bytes.split_off(end);
        let mut seen = body.len();
        let tools = Flag::new(b"\"tools\":");
        let streams = Flag::new(b"\"stream\":true");
        let (mut tools, mut streams) = (tools, streams);
        tools.look(&body);
        streams.look(&body);
        bytes.clear();
        while seen < length {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(n) => {
                    seen += n;
                    tools.look(&buffer[..n]);
                    streams.look(&buffer[..n]);
                }
            }
        }
        body.clear();
        counts.bytes.fetch_add(length as u64, Ordering::Relaxed);
        let number = counts.requests.fetch_add(1, Ordering::Relaxed);
        let delay = counts.delay_ms.load(Ordering::Relaxed);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        let reply = if head.starts_with("post /sink") {
            whole("{}")
        } else {
            answer(number, tools.seen, streams.seen)
        };
        if stream.write_all(&reply).await.is_err() {
            return;
        }
    }
}

/// Detects whether a byte string occurs in data that arrives in pieces.
struct Flag {
    words: &'static [u8],
    rest: Vec<u8>,
    seen: bool,
}

impl Flag {
    fn new(words: &'static [u8]) -> Flag {
        Flag { words, rest: Vec::new(), seen: false }
    }

    fn look(&mut self, piece: &[u8]) {
        if self.seen {
            return;
        }
        let head = &piece[..piece.len().min(self.words.len())];
        self.rest.extend_from_slice(head);
        self.seen = find(&self.rest, self.words).is_some() || find(piece, self.words).is_some();
        self.rest.clear();
        self.rest.extend_from_slice(&piece[piece.len().saturating_sub(self.words.len())..]);
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(at) = haystack[from..].iter().position(|b| *b == first) {
        if haystack[from + at..].starts_with(needle) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

fn whole(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into()
}

fn answer(number: u64, tools: bool, streams: bool) -> Vec<u8> {
    let call = format!(
        r#"[{{"index":0,"id":"call_{number}","type":"function","function":{{"name":"look","arguments":"{{\"at\":{number}}}"}}}}]"#
    );
    let (text, reason) = if tools { ("I look further.", "tool_calls") } else { ("Here it is.", "stop") };
    let calls = if tools { format!(r#","tool_calls":{call}"#) } else { String::new() };
    let usage = r#"{"prompt_tokens":10,"completion_tokens":5}"#;
    if !streams {
        return whole(&format!(
            r#"{{"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"{calls}}},"finish_reason":"{reason}"}}],"usage":{usage}}}"#
        ));
    }
    let first = format!(
        r#"data: {{"model":"m","choices":[{{"index":0,"delta":{{"role":"assistant","content":"{text}"{calls}}}}}]}}"#
    );
    let last = format!(
        r#"data: {{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}],"usage":{usage}}}"#
    );
    let body = format!("{first}\n\n{last}\n\ndata: [DONE]\n\n");
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    )
    .into()
}

/// Posts `total` bytes in `count` requests that grow linearly, like those of a loop, over one connection.
pub(crate) fn post(address: SocketAddr, count: u64, total: u64) {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let step = total * 2 / (count * (count + 1));
    let body = vec![b'x'; usize::try_from(step * count).unwrap()];
    let mut reply = [0u8; 512];
    for turn in 1..=count {
        let length = step * turn;
        let head = format!("POST /sink HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body[..usize::try_from(length).unwrap()]).unwrap();
        assert!(stream.read(&mut reply).unwrap() > 0);
    }
}
