//! Consecutive calls use the same connection, streamed or not, whenever the end of a body arrives.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use harn_value::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::*;

/// When the server sends the end of a streamed body.
#[derive(Clone, Copy)]
enum End {
    /// In the packet of the last event.
    Together,
    /// In a separate packet, after this many milliseconds.
    Later(u64),
    /// Never.
    Never,
}

/// Starts a server with persistent connections; returns its URL and the number of accepted connections.
async fn keeping(end: End) -> (String, Rc<Cell<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count: Rc<Cell<usize>> = Rc::default();
    let counted = count.clone();
    tokio::task::spawn_local(async move {
        while let Ok((socket, _)) = listener.accept().await {
            counted.set(counted.get() + 1);
            let _ = socket.set_nodelay(true);
            tokio::task::spawn_local(answer(socket, end));
        }
    });
    (url, count)
}

async fn answer(mut socket: impl AsyncReadExt + AsyncWriteExt + Unpin, end: End) {
    let mut bytes = Vec::new();
    let mut buffer = [0u8; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let whole = text.split_once("\r\n\r\n").filter(|(head, body)| {
            let length = head
                .lines()
                .find_map(|l| l.to_lowercase().strip_prefix("content-length:").map(str::to_string));
            length.is_some_and(|n| body.len() >= n.trim().parse().unwrap())
        });
        let Some((_, body)) = whole else {
            match socket.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(n) => bytes.extend_from_slice(&buffer[..n]),
            }
            continue;
        };
        let streams = body.contains("\"stream\":true");
        bytes.clear();
        if !streams {
            let body =
                json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}).to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            socket.write_all(head.as_bytes()).await.unwrap();
            continue;
        }
        let body = format!("{OPENAI_STREAM}\n\n");
        let mut reply =
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n", body.len());
        if let End::Together = end {
            reply.push_str("0\r\n\r\n");
        }
        socket.write_all(reply.as_bytes()).await.unwrap();
        if let End::Later(ms) = end {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            socket.write_all(b"0\r\n\r\n").await.unwrap();
        }
    }
}

/// Returns the number of connections that `calls` consecutive calls use.
async fn connections(end: End, calls: usize, options: harn_value::Data) -> usize {
    let (url, count) = keeping(end).await;
    let (runtime, _) = runtime(KEYS);
    for n in 0..calls {
        let mut all = json!({"provider": "openai", "base_url": url});
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let call = harn_llm::Call::new(format!("hi {n}"), None, all);
        runtime.llm_call(&call).await.unwrap();
        // Simulates the program's own work between two calls.
        tokio::time::sleep(Duration::from_millis(if let End::Later(ms) = end { ms * 2 } else { 0 })).await;
    }
    count.get()
}

#[tokio::test]
async fn streamed_calls_in_a_row_share_a_connection() {
    local(async {
        assert_eq!(connections(End::Together, 20, json!({})).await, 1);
    })
    .await;
}

#[tokio::test]
async fn calls_in_one_piece_share_a_connection() {
    local(async {
        assert_eq!(connections(End::Together, 20, json!({"stream": false})).await, 1);
    })
    .await;
}

#[tokio::test]
async fn an_end_that_comes_late_is_read_beside_the_program() {
    local(async {
        assert_eq!(connections(End::Later(60), 5, json!({})).await, 1);
    })
    .await;
}

#[tokio::test]
async fn an_end_that_never_comes_holds_up_no_call() {
    local(async {
        assert_eq!(connections(End::Never, 3, json!({})).await, 3);
    })
    .await;
}
