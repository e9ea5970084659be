//! Hostile servers: every call of `http_get` and `http_download` ends in time, with little memory, and with an error
//! that names the cause.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::common::{folder, harn_in};

/// The behaviour of a server after it has sent its pieces.
enum Then {
    /// Closes the connection.
    Close,
    /// Sends nothing more.
    Wait,
    /// Repeats the last piece.
    Repeat,
}

const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunk(size: usize) -> Vec<u8> {
    [format!("{size:x}\r\n").as_bytes(), &vec![b'a'; size], b"\r\n"].concat()
}

fn head(lines: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{lines}\r\n").into_bytes()
}

/// Returns the behaviours of the server, each with part of the expected error.
fn behaviours() -> Vec<(&'static str, Vec<Vec<u8>>, Then, &'static str)> {
    vec![
        ("silence", vec![], Then::Wait, "timed out"),
        ("hangs_up", vec![], Then::Close, "http"),
        ("half_a_head", vec![b"HTTP/1.1 200 OK\r\nX-A: ".to_vec()], Then::Wait, "timed out"),
        (
            "one_head_without_end",
            vec![b"HTTP/1.1 200 OK\r\n".to_vec(), b"X-A: aaaaaaaa\r\n".repeat(1000)],
            Then::Repeat,
            "too large",
        ),
        (
            "a_body_that_stops",
            vec![head("Content-Length: 1000\r\n"), b"abc".to_vec()],
            Then::Wait,
            "timed out",
        ),
        (
            "a_body_without_end",
            vec![CHUNKED.to_vec(), chunk(1 << 16)],
            Then::Repeat,
            "larger than 200000 bytes",
        ),
        ("until_it_hangs_up", vec![head(""), vec![b'a'; 1 << 16]], Then::Repeat, "larger than 200000 bytes"),
        (
            "an_absurd_length",
            vec![head("Content-Length: 9223372036854775000\r\n")],
            Then::Wait,
            "larger than 200000 bytes",
        ),
        ("no_length", vec![head("Content-Length: many\r\n"), b"abc".to_vec()], Then::Close, "err"),
        (
            "two_lengths",
            vec![head("Content-Length: 3\r\nContent-Length: 4\r\n"), b"abcd".to_vec()],
            Then::Close,
            "err",
        ),
        ("a_short_body", vec![head("Content-Length: 1000\r\n"), b"abc".to_vec()], Then::Close, "err"),
        ("broken_chunks", vec![CHUNKED.to_vec(), b"zzzz\r\nhello\r\n0\r\n\r\n".to_vec()], Then::Close, "err"),
        ("a_chunk_without_end", vec![CHUNKED.to_vec(), b"ffffffffffffffff\r\n".to_vec()], Then::Wait, "err"),
        ("interim_without_end", vec![b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100)], Then::Repeat, "err"),
        ("no_http", vec![vec![0, 0, 18, 4, 0, 255, 254]], Then::Close, "err"),
        (
            "a_loop",
            vec![b"HTTP/1.1 302 X\r\nLocation: /a_loop\r\nContent-Length: 0\r\n\r\n".to_vec()],
            Then::Close,
            "too many redirects",
        ),
        (
            "to_a_file",
            vec![b"HTTP/1.1 302 X\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n".to_vec()],
            Then::Close,
            "no HTTP address",
        ),
        (
            "packed",
            vec![head("Content-Encoding: gzip\r\nContent-Length: 4\r\n"), vec![0x1f, 0x8b, 8, 0]],
            Then::Close,
            "the body cannot be decompressed",
        ),
        ("fine", vec![head("Content-Length: 2\r\n"), b"ok".to_vec()], Then::Close, "ok 200"),
    ]
}

/// Serves requests by the first segment of their path. The server ends with the test process.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || answer(stream.unwrap()));
        }
    });
    port
}

fn answer(mut stream: TcpStream) {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
        request.push(byte[0]);
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let Some(path) = request.split(' ').nth(1) else { return };
    let Some((_, pieces, then, _)) = behaviours().into_iter().find(|(name, ..)| path[1..] == **name) else {
        return;
    };
    for piece in &pieces {
        let _ = stream.write_all(piece);
    }
    match then {
        Then::Close => {}
        // The client disconnects, or the test ends.
        Then::Wait => _ = stream.read(&mut byte),
        Then::Repeat => while pieces.last().is_some_and(|piece| stream.write_all(piece).is_ok()) {},
    }
}

#[test]
fn every_call_ends_and_tells_why() {
    let names: Vec<String> = behaviours().iter().map(|(name, ..)| format!("{name:?}")).collect();
    let program = format!(
        "let limits = {{timeout_ms: 400, max_response_bytes: 200000}}\n\
         for name in [{}] {{\n  \
           let url = \"http://127.0.0.1:{}/${{name}}\"\n  \
           let got = try {{ http_get(url, limits) }}\n  \
           println(\"${{name}} ${{if is_ok(got) {{ \"ok ${{unwrap(got).status}}\" }} else {{ \"err ${{unwrap_err(got)}}\" }}}}\")\n  \
           write_file(\"kept\", \"old\")\n  \
           let kept = try {{ http_download(url, \"kept\", limits) }}\n  \
           if is_err(kept) && read_file(\"kept\") != \"old\" {{ println(\"${{name}} LOST\") }}\n\
         }}\nprintln(list_dir(\".\"))\n",
        names.join(", "),
        serve(),
    );
    let home = folder(&[("main.harn", &program)]);
    let ran = harn_in(home.path(), &["run", "--max-memory", "60M", "main.harn"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), behaviours().len() + 1, "{}", ran.shown());
    for (line, (name, .., told)) in lines.iter().zip(behaviours()) {
        let rest = line.strip_prefix(name).unwrap_or_else(|| panic!("{name}: {line}"));
        assert!(rest.contains(told), "{name} should tell `{told}`: {line}");
        let inner = ["hyper", "client error", "Kind(", "Error {"];
        assert!(!inner.iter().any(|word| rest.contains(word)), "{line} speaks of the inside");
    }
    assert_eq!(lines.last(), Some(&"[kept, main.harn]"), "nothing is left over: {}", ran.shown());
}
