//! Event streams and WebSockets with local servers: valid, slow and broken ones.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message, WebSocket, accept};

/// A server that calls `serve` for each connection; returns its port.
fn server(serve: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    port
}

fn http(answer: &'static str, then: impl Fn(&mut TcpStream) + Send + Sync + Clone + 'static) -> u16 {
    server(move |mut stream| {
        // The head of the request arrives in one chunk here.
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(answer.as_bytes());
        then(&mut stream);
    })
}

fn events(body: &'static str, then: impl Fn(&mut TcpStream) + Send + Sync + Clone + 'static) -> u16 {
    http("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n", move |stream| {
        let _ = stream.write_all(body.as_bytes());
        then(stream);
    })
}

fn web_socket(serve: impl Fn(WebSocket<TcpStream>) + Send + Sync + Clone + 'static) -> u16 {
    server(move |stream| {
        if let Ok(socket) = accept(stream) {
            serve(socket);
        }
    })
}

/// Returns the output of a program that gets the port as `port`.
fn printed(port: u16, program: &str) -> String {
    let says = "fn says(f) { return unwrap_err(try { f() }) }";
    let run = crate::common::run("t.harn", &format!("let port = {port}\n{says}\n{program}"), Path::new("/"));
    assert_eq!(run.error, None, "{}", run.output);
    run.output
}

#[test]
fn events_come_one_by_one() {
    let port = events("data: 1\n\nevent: x\r\nid: 7\r\ndata: 2\r\n\r\n", |_| {});
    let program = r#"
        let h = sse_connect("GET", "http://127.0.0.1:${port}/")
        for i in 1 to 5 { println(sse_receive(h)) }"#;
    let expected = "{type: open}\n{data: 1, event: message, id: nil, retry_ms: nil, type: event}\n\
                    {data: 2, event: x, id: 7, retry_ms: nil, type: event}\nnil\nnil\n";
    assert_eq!(printed(port, program), expected);
}

#[test]
fn a_slow_stream_loses_nothing() {
    let port = events("data: 1\n\nda", |stream| {
        thread::sleep(Duration::from_millis(400));
        let _ = stream.write_all(b"ta: 2\n\n");
    });
    let program = r#"
        let h = sse_connect("GET", "http://127.0.0.1:${port}/", {timeout_ms: 200})
        sse_receive(h)
        println(sse_receive(h).data)
        println(sse_receive(h, 50))
        println(is_err(try { deadline 50ms { sse_receive(h) } }))
        println(sse_receive(h).data)
        println(sse_receive(h))"#;
    assert_eq!(printed(port, program), "1\n{type: timeout}\ntrue\n2\nnil\n");
}

#[test]
fn a_read_of_a_body_that_is_given_up_loses_nothing() {
    let port = http("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n", |stream| {
        let _ = stream.write_all(b"ab");
        thread::sleep(Duration::from_millis(400));
        let _ = stream.write_all(b"cd");
    });
    let program = r#"
        let h = http_stream_open("http://127.0.0.1:${port}/")
        println(bytes_to_string(http_stream_read(h)))
        println(is_err(try { deadline 50ms { http_stream_read(h) } }))
        let other = spawn { try { http_stream_read(h) } }
        sleep(20ms)
        println(says({ -> http_stream_read(h) }))
        println(bytes_to_string(unwrap(await(other))))
        println(http_stream_read(h))"#;
    let expected = "ab\ntrue\nhttp_stream_read: another task waits for 'http-stream-1' already\ncd\nnil\n";
    assert_eq!(printed(port, program), expected);
}

#[test]
fn replies_that_are_no_streams_are_errors() {
    let program =
        r#"println(says({ -> sse_connect("GET", "http://127.0.0.1:${port}/", {timeout_ms: 300}) }))"#;
    for (answer, error) in [
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "the server answered with status 404"),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n",
            "the reply is 'text/html' and no text/event-stream",
        ),
        ("", "operation timed out"),
    ] {
        let port = http(answer, |_| thread::sleep(Duration::from_secs(2)));
        let printed = printed(port, program);
        assert!(printed.starts_with("sse_connect: request failed: ") && printed.contains(error), "{printed}");
    }
}

#[test]
fn an_endless_event_ends_at_the_limit() {
    let port = events("data: ", |stream| while stream.write_all(&[b'x'; 4096]).is_ok() {});
    let program = r#"
        let h = sse_connect("GET", "http://127.0.0.1:${port}/")
        sse_receive(h)
        println(says({ -> sse_receive(h) }))"#;
    assert_eq!(printed(port, program), "sse_receive: message exceeded max_message_bytes (1048576)\n");
}

#[test]
fn messages_go_both_ways() {
    let port = web_socket(|mut socket| {
        let _ = socket.send(Message::Ping(b"p".to_vec().into()));
        while let Ok(message) = socket.read() {
            if message.is_pong() {
                let _ = socket.send(Message::text("ponged"));
            }
            if message.is_text() || message.is_binary() {
                let _ = socket.send(message);
            }
        }
    });
    let program = r#"
        let h = websocket_connect("ws://127.0.0.1:${port}/")
        println(websocket_receive(h))
        println(websocket_receive(h))
        println(websocket_send(h, "hi"), websocket_send(h, bytes_from_hex("00ff")))
        println(websocket_receive(h))
        println(websocket_receive(h))
        println(websocket_receive(h, 20))
        println(websocket_close(h), websocket_close(h))"#;
    let expected = "{data_base64: cA==, type: ping}\n{data: ponged, type: text}\ntrue true\n\
                    {data: hi, type: text}\n{data_base64: AP8=, type: binary}\n{type: timeout}\ntrue false\n";
    assert_eq!(printed(port, program), expected);
}

#[test]
fn the_end_is_told() {
    let port = web_socket(|mut socket| {
        let _ = socket.close(Some(CloseFrame { code: CloseCode::Away, reason: "bye".into() }));
        while socket.read().is_ok() {}
    });
    let program = r#"
        let h = websocket_connect("ws://127.0.0.1:${port}/")
        println(websocket_receive(h))
        println(websocket_receive(h))
        println(says({ -> websocket_send(h, "x") }))
        println(websocket_close(h))"#;
    let expected =
        "{code: 1001, reason: bye, type: close}\nnil\nwebsocket_send: the connection is closed\ntrue\n";
    assert_eq!(printed(port, program), expected);
}

#[test]
fn one_that_goes_without_a_word_is_gone() {
    let program = r#"
        let h = websocket_connect("ws://127.0.0.1:${port}/")
        println(websocket_receive(h))
        println(websocket_receive(h))"#;
    assert_eq!(printed(web_socket(drop), program), "nil\nnil\n");
}

#[test]
fn large_messages_leave_nothing_but_closing() {
    let port = web_socket(|mut socket| {
        let _ = socket.send(Message::text("123456"));
        while socket.read().is_ok() {}
    });
    let program = r#"
        let h = websocket_connect("ws://127.0.0.1:${port}/", {max_message_bytes: 5})
        println(says({ -> websocket_receive(h) }))
        println(says({ -> websocket_receive(h) }))
        println(websocket_close(h))"#;
    let error = "websocket_receive: message exceeded max_message_bytes (5)";
    assert_eq!(printed(port, program), format!("{error}\n{error}\ntrue\n"));
}

#[test]
fn one_that_does_not_read_fills_the_buffer() {
    let port = web_socket(|socket| {
        thread::sleep(Duration::from_secs(60));
        drop(socket);
    });
    let program = r#"
        let h = websocket_connect("ws://127.0.0.1:${port}/", {max_message_bytes: 4000000})
        let large = "x".repeat(4000000)
        println(says({ -> for i in 1 to 20 { websocket_send(h, large) } }))"#;
    assert_eq!(printed(port, program), "websocket_send: send buffer full\n");
}

#[test]
fn refused_upgrades_say_why() {
    let program = r#"println(says({ -> websocket_connect("ws://127.0.0.1:${port}/", {timeout_ms: 300}) }))"#;
    for (answer, error) in [
        ("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n", "the server answered with status 401"),
        ("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\r\n", ""),
        ("nonsense\r\n\r\n", ""),
        ("", "operation timed out"),
    ] {
        let port = http(answer, |_| thread::sleep(Duration::from_secs(2)));
        let printed = printed(port, program);
        assert!(printed.starts_with("websocket_connect: failed: ") && printed.contains(error), "{printed}");
    }
}
