use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::*;

mod options;

/// A server that answers each request, in order, with the result of `answer` for its path. Returns its address and the
/// requests.
fn server(answer: impl Fn(&str) -> String + Send + 'static) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
            let mut head = String::new();
            while reader.read_line(&mut head).is_ok_and(|n| n > 2) {}
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            let _ = reader.read_exact(&mut body);
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            told.lock().expect("a lock").push(head + &String::from_utf8_lossy(&body));
            let _ = stream.write_all(answer(&path).as_bytes());
        }
    });
    (address, heard)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

async fn text(request: HttpRequest) -> Result<(u16, String), HttpError> {
    let reply = Clients::default().exchange(request).await?;
    let status = reply.status;
    Ok((status, String::from_utf8_lossy(&reply.read().await?).into_owned()))
}

fn page(status: &str, more: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{more}\r\n{body}", body.len())
}

#[test]
fn keys_do_not_follow_redirects_to_another_origin() {
    let (other, heard) = server(|_| page("200 OK", "", "there"));
    let target = other.clone();
    let (first, _) = server(move |_| page("302 Found", &format!("location: {target}/x\r\n"), ""));
    let names = ["authorization", "x-api-key", "api-key", "x-auth-token", "cookie"];
    let mut request = HttpRequest { redirects: 5, ..HttpRequest::new("GET", first) };
    request.headers = names.iter().map(|name| ((*name).to_owned(), "hidden".to_owned())).collect();
    request.headers.push(("x-plain".to_owned(), "shown".to_owned()));
    assert_eq!(block_on(text(request)).expect("a reply"), (200, "there".to_owned()));
    let heard = heard.lock().expect("a lock").concat();
    assert!(heard.contains("x-plain: shown") && !heard.contains("hidden"), "{heard}");
}

#[test]
fn redirects_keep_keys_and_bodies_where_they_may() {
    let (address, heard) = server(|path| match path {
        "/307" => page("307 Temporary Redirect", "location: /end\r\n", ""),
        "/303" => page("303 See Other", "location: /end\r\n", ""),
        "/loop" => page("302 Found", "location: /loop\r\n", ""),
        "/file" => page("302 Found", "location: file:///etc/passwd\r\n", ""),
        _ => page("200 OK", "", "end"),
    });
    let send = |path: &str, redirects| {
        let mut request = HttpRequest { redirects, ..HttpRequest::new("POST", format!("{address}{path}")) };
        request.headers = vec![("x-api-key".to_owned(), "k".to_owned())];
        request.body = Some(b"body".to_vec().into());
        block_on(text(request))
    };
    assert_eq!(send("/307", 1).expect("a reply").1, "end");
    assert_eq!(send("/303", 1).expect("a reply").1, "end");
    assert_eq!(send("/303", 0).expect("a reply").0, 303);
    assert_eq!(send("/loop", 3).expect_err("a loop").text, "too many redirects");
    assert_eq!(send("/file", 3).expect_err("no address").kind, HttpErrorKind::Redirect);
    let heard = heard.lock().expect("a lock");
    assert!(
        heard[1].starts_with("POST /end") && heard[1].ends_with("body") && heard[1].contains("x-api-key: k")
    );
    assert!(heard[3].starts_with("GET /end") && !heard[3].ends_with("body"));
}

#[test]
fn bodies_have_a_limit_whether_or_not_they_say_how_long_they_are() {
    let (address, _) = server(|path| match path {
        "/said" => page("200 OK", "", &"x".repeat(1001)),
        _ => format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", "x".repeat(1001)),
    });
    for path in ["/said", "/unsaid"] {
        let mut request = HttpRequest::new("GET", format!("{address}{path}"));
        request.max_response = 1000;
        let error = block_on(text(request.clone())).expect_err("too large");
        assert_eq!(error.text, "the response is larger than 1000 bytes (option max_response_bytes)");
        request.max_response = 1001;
        assert_eq!(block_on(text(request)).expect("a reply").1.len(), 1001);
    }
}

/// A server that passes each connection to `talk`, one after another. Returns its port and the number of connections.
fn listen(mut talk: impl FnMut(TcpStream, usize) + Send + 'static) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let _ = stream.set_nodelay(true);
            talk(stream, counted.fetch_add(1, Ordering::SeqCst));
        }
    });
    (port, count)
}

/// Reads a head; empty if the other side has closed the connection.
fn read_head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return String::new(),
        }
    }
    String::from_utf8(head).expect("a head is text")
}

async fn get(clients: &Clients, url: &str) -> Result<String, HttpError> {
    let reply = clients.exchange(HttpRequest { direct: true, ..HttpRequest::new("GET", url) }).await?;
    Ok(String::from_utf8_lossy(&reply.read().await?).into_owned())
}

#[test]
fn a_reply_may_come_in_pieces_of_any_size() {
    let replies = [
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n03\r\nllo\r\n0\r\na: b\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nhello",
    ];
    for size in [1, 2, 3, 7, 1000] {
        let (port, _) = listen(move |mut stream, number| {
            read_head(&mut stream);
            for piece in replies[number].as_bytes().chunks(size) {
                let _ = stream.write_all(piece);
                std::thread::yield_now();
            }
        });
        for _ in replies {
            let text = block_on(get(&Clients::default(), &format!("http://127.0.0.1:{port}/")));
            assert_eq!(text.expect("a reply"), "hello", "{size}");
        }
    }
}

#[test]
fn a_connection_serves_until_the_other_side_hangs_up() {
    let (port, count) = listen(|mut stream, _| {
        // Serves three requests, then closes the connection.
        for _ in 0..3 {
            if read_head(&mut stream).is_empty() {
                return;
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        }
    });
    block_on(async {
        let clients = Clients::default();
        for number in 0..7 {
            let url = format!("http://127.0.0.1:{port}/{number}");
            assert_eq!(get(&clients, &url).await.expect("a reply"), "ok");
            if number % 3 == 2 {
                // Waits until the connection is closed.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    });
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

#[test]
fn connections_with_something_left_on_them_are_not_used_again() {
    for (reply, text) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n", "ok"),
        ("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", "ok"),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 9\r\n\r\n1\r\nx\r\n0\r\n\r\n",
            "x",
        ),
    ] {
        let (port, count) = listen(move |mut stream, _| {
            read_head(&mut stream);
            let _ = stream.write_all(reply.as_bytes());
            // Holds the connection for as long as the client does.
            std::thread::spawn(move || read_head(&mut stream));
        });
        block_on(async {
            let clients = Clients::default();
            for _ in 0..2 {
                let got = get(&clients, &format!("http://127.0.0.1:{port}/")).await;
                assert_eq!(got.expect("a reply"), text);
            }
        });
        assert_eq!(count.load(Ordering::SeqCst), 2, "{reply}");
    }
}

#[test]
fn what_is_cut_off_or_no_http_is_an_error() {
    let closed = "the connection was closed before the reply was complete";
    for (reply, error) in [
        ("", closed),
        ("HTTP/1.1 200 OK\r\n", closed),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell", closed),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", closed),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n",
            "the reply is no valid HTTP: Invalid chunk body CR",
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-2\r\nhello\r\n",
            "the reply is no valid HTTP: Invalid chunk size line: missing size digit",
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            "the reply is no valid HTTP: invalid content-length",
        ),
        ("hello\r\n\r\n", "the reply is no valid HTTP: invalid HTTP version"),
    ] {
        let (port, _) = listen(move |mut stream, _| {
            read_head(&mut stream);
            let _ = stream.write_all(reply.as_bytes());
        });
        let got = block_on(get(&Clients::default(), &format!("http://127.0.0.1:{port}/")));
        let failed = got.expect_err(reply);
        assert_eq!((failed.kind, failed.text.as_str()), (HttpErrorKind::Broken, error), "{reply}");
    }
}

#[test]
fn heads_that_are_none_are_refused() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(201));
    for head in [
        "HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: \r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        &many,
    ] {
        let reply = head.to_owned();
        let (port, _) = listen(move |mut stream, _| {
            read_head(&mut stream);
            let _ = stream.write_all(reply.as_bytes());
        });
        let got = block_on(get(&Clients::default(), &format!("http://127.0.0.1:{port}/")));
        let error = got.expect_err(head).text;
        assert!(error.starts_with("the reply is no valid HTTP: "), "{head}: {error}");
    }
}

#[test]
fn a_body_ends_as_its_head_says() {
    for (head, method, text, connections) in [
        ("1.1 200 OK\r\ncontent-length: 5", "GET", "hello", 1),
        ("1.1 200 OK\r\nContent-Length: 5, 5", "GET", "hello", 1),
        ("1.1 200 OK\r\ncontent-length: 5", "HEAD", "", 1),
        ("1.1 204 No Content", "GET", "", 1),
        ("1.1 304 Not Modified\r\ncontent-length: 7", "GET", "", 1),
        ("1.1 101 Switching", "GET", "", 2),
        ("1.1 200", "GET", "hello", 2),
        ("1.1 200 OK\r\ntransfer-encoding: gzip, Chunked", "GET", "hello", 1),
        ("1.1 200 OK\r\ntransfer-encoding: gzip", "GET", "hello", 2),
        ("1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 5", "GET", "hello", 2),
        ("1.0 200 OK\r\ncontent-length: 5", "GET", "hello", 2),
        ("1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 5", "GET", "hello", 1),
    ] {
        let body = match text {
            "" => "",
            _ if head.ends_with("Chunked") => "5\r\nhello\r\n0\r\n\r\n",
            _ => "hello",
        };
        let reply = format!("HTTP/{head}\r\n\r\n{body}");
        let until_closed = matches!(head, "1.1 200" | "1.1 200 OK\r\ntransfer-encoding: gzip");
        let (port, count) = listen(move |mut stream, _| {
            let reply = reply.clone();
            std::thread::spawn(move || {
                while !read_head(&mut stream).is_empty() {
                    let _ = stream.write_all(reply.as_bytes());
                    if until_closed {
                        return;
                    }
                }
            });
        });
        block_on(async {
            let clients = Clients::default();
            for _ in 0..2 {
                let request = HttpRequest::new(method, format!("http://127.0.0.1:{port}/"));
                let reply = clients.exchange(request).await.expect("a reply");
                assert_eq!(reply.read().await.expect("a body"), text.as_bytes(), "{head}");
            }
        });
        assert_eq!(count.load(Ordering::SeqCst), connections, "{head}");
    }
}

#[test]
fn who_gives_up_closes_the_connection() {
    for begun in ["", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe"] {
        let (told, closed) = std::sync::mpsc::channel();
        let (port, _) = listen(move |mut stream, _| {
            read_head(&mut stream);
            let _ = stream.write_all(begun.as_bytes());
            let _ = told.send(stream.read(&mut [0]).unwrap_or(0));
        });
        block_on(async {
            let clients = Clients::default();
            let url = format!("http://127.0.0.1:{port}/");
            let waited = tokio::time::timeout(Duration::from_millis(50), get(&clients, &url)).await;
            assert!(waited.is_err(), "the reply is not complete");
            let ended = closed.recv_timeout(Duration::from_secs(20));
            assert_eq!(ended, Ok(0), "nothing more comes, and the connection ends");
        });
    }
}

#[test]
fn a_wait_that_is_given_up_loses_nothing_of_the_body() {
    let (port, _) = listen(|mut stream, _| {
        read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
        for byte in b"hello" {
            std::thread::sleep(Duration::from_millis(20));
            let _ = stream.write_all(&[*byte]);
        }
    });
    block_on(async {
        let request = HttpRequest::new("GET", format!("http://127.0.0.1:{port}/"));
        let mut reply = Clients::default().exchange(request).await.expect("a reply");
        let mut got = Vec::new();
        loop {
            match tokio::time::timeout(Duration::from_millis(3), reply.body.next()).await {
                Ok(piece) => match piece.expect("a piece") {
                    Some(piece) => got.extend_from_slice(&piece),
                    None => break,
                },
                Err(_) => continue,
            }
        }
        assert_eq!(got, b"hello");
    });
}

#[test]
fn heads_without_end_are_given_up() {
    let (port, _) = listen(|mut stream, _| {
        read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"a: b\r\n").is_ok() {}
    });
    let failed = block_on(get(&Clients::default(), &format!("http://127.0.0.1:{port}/")));
    let failed = failed.expect_err("too long");
    assert_eq!(failed.text, "the reply is no valid HTTP: message head is too large");
}

#[test]
fn both_sides_may_talk_at_the_same_time() {
    const SIZE: usize = 16 << 20;
    // The server echoes each byte, so neither side can send everything first.
    let (port, _) = listen(|mut stream, _| {
        let head = read_head(&mut stream);
        assert!(head.contains(&format!("content-length: {SIZE}\r\n")), "{head}");
        let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n");
        let mut room = vec![0; 64 << 10];
        while let Ok(count @ 1..) = stream.read(&mut room) {
            if stream.write_all(&room[..count]).is_err() {
                return;
            }
        }
    });
    let pieces: Vec<Bytes> = (0..64u8).map(|n| vec![n; SIZE / 64].into()).collect();
    let sent = pieces.concat();
    let mut request = HttpRequest::new("POST", format!("http://127.0.0.1:{port}/"));
    request.body = Some(Payload(pieces));
    let reply = block_on(async { Clients::default().exchange(request).await?.read().await });
    assert!(reply.expect("a reply") == sent);
}

#[test]
fn an_answer_before_the_end_of_the_request_is_heard() {
    let (port, _) = listen(|mut stream, _| {
        read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nno!");
        std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
    });
    let mut request = HttpRequest::new("POST", format!("http://127.0.0.1:{port}/"));
    request.body = Some(vec![0; 32 << 20].into());
    assert_eq!(block_on(text(request)).expect("a reply"), (413, "no!".to_owned()));
}

#[test]
fn time_limits_hold_for_each_part() {
    let (port, _) = listen(|mut stream, _| {
        let head = read_head(&mut stream);
        if head.starts_with("GET /body") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe");
        }
        std::thread::spawn(move || read_head(&mut stream));
    });
    for path in ["head", "body"] {
        let mut request = HttpRequest::new("GET", format!("http://127.0.0.1:{port}/{path}"));
        request.timeout = Some(Duration::from_millis(50));
        let whole = block_on(text(request.clone())).expect_err("too late");
        (request.timeout, request.read_timeout) = (None, request.timeout);
        let silent = block_on(text(request)).expect_err("too late");
        assert_eq!((whole.kind, whole), (HttpErrorKind::Timeout, silent), "{path}");
    }
}

#[test]
fn requests_name_their_host_and_user_and_bring_their_own_headers() {
    let (address, heard) = server(|_| page("200 OK", "", "ok"));
    let address = address.replace("http://", "http://anna:a%20b@");
    let mut request = HttpRequest::new("POST", format!("{address}/a%20b?c=d#e"));
    request.headers =
        vec![("Content-Length".to_owned(), "999".to_owned()), ("X-Own".to_owned(), "1".to_owned())];
    assert_eq!(block_on(text(request)).expect("a reply").0, 200);
    let heard = heard.lock().expect("a lock").concat();
    let host = address.rsplit('@').next().expect("a host");
    let own = "x-own: 1\r\ncontent-length: 0\r\n\r\n";
    let expected = format!(
        "POST /a%20b?c=d HTTP/1.1\r\nhost: {host}\r\naccept: */*\r\nauthorization: Basic YW5uYTphIGI=\r\n{own}"
    );
    assert_eq!(heard, expected);
}

#[test]
fn a_proxy_is_asked_for_the_whole_address() {
    let (proxy, heard) = server(|_| page("200 OK", "", "from the proxy"));
    let mut request = HttpRequest::new("GET", "http://nowhere.invalid/x?y");
    request.proxy = Some(proxy.replace("http://", "http://me:pw@"));
    assert_eq!(block_on(text(request.clone())).expect("a reply").1, "from the proxy");
    let heard = heard.lock().expect("a lock").concat();
    assert!(
        heard.starts_with("GET http://nowhere.invalid/x?y HTTP/1.1\r\nhost: nowhere.invalid\r\n"),
        "{heard}"
    );
    assert!(heard.contains("proxy-authorization: Basic bWU6cHc=\r\n"), "{heard}");
    for (proxy, error) in [
        ("ftp://x", "invalid proxy 'ftp://x': it needs http:// or https:// and a host"),
        ("", "invalid proxy '': it needs http:// or https:// and a host"),
        ("socks5://x:1", "invalid proxy 'socks5://x:1': proxies of the kind socks5 are not supported"),
    ] {
        request.proxy = Some(proxy.to_owned());
        let failed = block_on(text(request.clone())).expect_err(proxy);
        assert_eq!((failed.kind, failed.text.as_str()), (HttpErrorKind::Invalid, error));
    }
}

/// A server with a self-signed certificate.
fn secure_server(reply: &'static str) -> (u16, rustls::pki_types::CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["far.invalid".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a configuration");
    let config = Arc::new(config);
    let (port, _) = listen(move |mut stream, _| {
        let config = config.clone();
        std::thread::spawn(move || {
            let mut tls = rustls::ServerConnection::new(config).expect("a connection");
            let mut both = rustls::Stream::new(&mut tls, &mut stream);
            while !read_head(&mut both).is_empty() {
                let _ = both.write_all(reply.as_bytes());
            }
        });
    });
    (port, made.cert.der().clone())
}

/// The same server, and clients that trust it.
fn secure(reply: &'static str) -> (u16, Clients) {
    let (port, certificate) = secure_server(reply);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("a root");
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let clients = Clients { trust: OnceCell::from(Arc::new(config)), ..Clients::default() };
    (port, clients)
}

#[test]
fn tls_goes_through_a_tunnel_and_the_tunnel_is_kept() {
    let (port, clients) = secure("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret");
    let (proxy, tunnels) = listen(move |mut stream, number| {
        let head = read_head(&mut stream);
        assert!(head.starts_with("CONNECT far.invalid:443 HTTP/1.1\r\nhost: far.invalid:443\r\n"), "{head}");
        assert!(head.contains("proxy-authorization: Basic bWU6cHc=\r\n"), "{head}");
        if number == 1 {
            let _ = stream.write_all(b"HTTP/1.1 407 Who?\r\ncontent-length: 0\r\n\r\n");
            return;
        }
        let _ = stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n");
        let far = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        for (mut from, mut to) in
            [(stream.try_clone().expect("a stream"), far.try_clone().expect("a stream")), (far, stream)]
        {
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        }
    });
    let mut request = HttpRequest::new("GET", "https://far.invalid/");
    request.proxy = Some(format!("http://me:pw@127.0.0.1:{proxy}"));
    block_on(async {
        for _ in 0..3 {
            let reply = clients.exchange(request.clone()).await.expect("a reply");
            assert_eq!(reply.read().await.expect("a body"), b"secret");
        }
        request.url = "https://far.invalid:443/other".to_owned();
        assert!(clients.exchange(request.clone()).await.is_ok());
        assert_eq!(tunnels.load(Ordering::SeqCst), 1);
        let fresh = Clients { trust: clients.trust.clone(), ..Clients::default() };
        let failed = fresh.exchange(request).await.err().expect("a refusal");
        let place =
            format!("cannot connect to https://far.invalid through the proxy http://127.0.0.1:{proxy}");
        assert_eq!(failed.text, format!("{place}: it requires a user name and a password (status 407)"));
    });
}

#[test]
fn certificates_are_checked() {
    let (port, clients) = secure("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    block_on(async {
        // A valid certificate for another name, and an untrusted one.
        let url = format!("https://localhost:{port}/");
        let other = get(&clients, &url).await.expect_err("another name");
        let place = format!("cannot connect to https://localhost:{port}: TLS error: ");
        assert!(other.text.starts_with(&place), "{}", other.text);
        assert_eq!(other.kind, HttpErrorKind::Connect);
        let strange = get(&Clients::default(), &url).await.expect_err("unknown");
        assert!(strange.text.contains("TLS "), "{}", strange.text);
    });
}

#[test]
fn a_connection_that_is_refused_says_so() {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let url = format!("http://user:secret@127.0.0.1:{port}/path?key=secret");
    let failed = block_on(get(&Clients::default(), &url)).expect_err("nobody");
    assert_eq!(failed.kind, HttpErrorKind::Connect);
    assert_eq!(failed.text, format!("cannot connect to http://127.0.0.1:{port}: connection refused"));
}

#[test]
fn a_resolver_is_asked_and_its_connections_are_its_own() {
    let (port, count) = listen(|mut stream, _| {
        std::thread::spawn(move || {
            while !read_head(&mut stream).is_empty() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
            }
        });
    });
    let here = || crate::net::Resolver::new(|_| Ok(vec!["127.0.0.1".parse().expect("an address")]));
    let mut request = HttpRequest::new("GET", format!("http://far.invalid:{port}/"));
    block_on(async {
        let clients = Clients::default();
        for (resolver, connections) in [(here(), 1), (here(), 2)] {
            request.resolver = Some(resolver);
            for _ in 0..2 {
                let reply = clients.exchange(request.clone()).await.expect("a reply");
                assert_eq!(reply.read().await.expect("a body"), b"ok");
            }
            assert_eq!(count.load(Ordering::SeqCst), connections);
        }
        request.resolver = Some(crate::net::Resolver::new(|_| Err(std::io::Error::other("not that host"))));
        let text = clients.exchange(request).await.err().expect("refused").text;
        assert_eq!(text, format!("cannot connect to http://far.invalid:{port}: not that host"));
    });
}
