//! Compressed replies, redirect rules, pins and certificates, proxies.

use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::egress::{Blocked, Egress, EgressRule};
use crate::net::{Resolver, Tls};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    coder.write_all(bytes).expect("memory");
    coder.finish().expect("memory")
}

fn deflate(bytes: &[u8], framed: bool) -> Vec<u8> {
    let level = flate2::Compression::default();
    if framed {
        let mut coder = flate2::write::ZlibEncoder::new(Vec::new(), level);
        coder.write_all(bytes).expect("memory");
        return coder.finish().expect("memory");
    }
    let mut coder = flate2::write::DeflateEncoder::new(Vec::new(), level);
    coder.write_all(bytes).expect("memory");
    coder.finish().expect("memory")
}

fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut coder = ::brotli::CompressorWriter::new(&mut out, 4096, 5, 22);
    coder.write_all(bytes).expect("memory");
    drop(coder);
    out
}

/// A server that sends a compressed body in small chunks.
fn coded(coding: &'static str, body: Vec<u8>) -> String {
    let (port, _) = listen(move |mut stream, _| {
        let head = read_head(&mut stream).to_ascii_lowercase();
        let asked = if head.contains("accept-encoding: gzip, br, zstd, deflate\r\n") { "yes" } else { "no" };
        let size = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-encoding: {coding}\r\ncontent-length: {size}\r\nx-asked: {asked}\r\n\r\n"
        );
        let _ = stream.write_all(head.as_bytes());
        for piece in body.chunks(7) {
            if stream.write_all(piece).is_err() {
                return;
            }
        }
    });
    format!("http://127.0.0.1:{port}/")
}

async fn fetched(request: HttpRequest) -> Result<(Vec<(String, String)>, Vec<u8>), HttpError> {
    let reply = Clients::default().exchange(HttpRequest { direct: true, ..request }).await?;
    let headers = reply.headers.clone();
    Ok((headers, reply.read().await?))
}

#[test]
fn compressed_replies_are_what_they_were() {
    let plain = "hello, world! ".repeat(500).into_bytes();
    let twice = gzip(&brotli(&plain));
    for (coding, body) in [
        ("gzip", gzip(&plain)),
        ("X-GZIP, identity", gzip(&plain)),
        ("gzip", [gzip(&plain[..100]), gzip(&plain[100..])].concat()),
        ("br", brotli(&plain)),
        ("zstd", zstd::encode_all(&*plain, 3).expect("memory")),
        ("deflate", deflate(&plain, true)),
        ("deflate", deflate(&plain, false)),
        ("br, gzip", twice),
    ] {
        let request =
            HttpRequest { decompress: true, ..HttpRequest::new("GET", coded(coding, body.clone())) };
        let (headers, came) = block_on(fetched(request)).expect(coding);
        assert_eq!(came, plain, "{coding}");
        let named = |name: &str| headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        assert_eq!(
            (named("content-encoding"), named("content-length"), named("x-asked")),
            (None, None, Some("yes"))
        );
        // Without `decompress` the body is returned as it was sent.
        let request = HttpRequest::new("GET", coded(coding, body.clone()));
        let (headers, came) = block_on(fetched(request)).expect(coding);
        assert_eq!(came, body, "{coding}");
        assert!(headers.contains(&("x-asked".to_owned(), "no".to_owned())));
    }
    // A body with an unknown coding is returned unchanged, and an empty body has nothing to decode.
    for (coding, body) in [("strange", b"abc".to_vec()), ("gzip", Vec::new())] {
        let request =
            HttpRequest { decompress: true, ..HttpRequest::new("GET", coded(coding, body.clone())) };
        assert_eq!(block_on(fetched(request)).expect(coding).1, body);
    }
}

#[test]
fn what_is_decompressed_has_the_limit_of_the_reply() {
    let zeros = vec![0; 20 << 20];
    for (coding, body) in [
        ("gzip", gzip(&zeros)),
        ("br", brotli(&zeros)),
        ("zstd", zstd::encode_all(&*zeros, 3).expect("memory")),
        ("deflate", deflate(&zeros, true)),
    ] {
        let mut request = HttpRequest { decompress: true, ..HttpRequest::new("GET", coded(coding, body)) };
        request.max_response = 1 << 20;
        let error = block_on(fetched(request)).expect_err(coding);
        assert_eq!(error.kind, HttpErrorKind::TooLarge, "{coding}: {error}");
    }
    let whole = gzip(b"hello, world");
    for body in [whole[..whole.len() - 4].to_vec(), b"no gzip at all".to_vec()] {
        let request = HttpRequest { decompress: true, ..HttpRequest::new("GET", coded("gzip", body)) };
        let error = block_on(fetched(request)).expect_err("cut off or nonsense");
        assert!(error.text.starts_with("the body cannot be decompressed: "), "{error}");
    }
}

#[test]
fn redirects_are_held_to_the_rules() {
    let (other, heard) = server(|_| page("200 OK", "", "there"));
    let target = other.replace("127.0.0.1", "localhost");
    let place = format!("location: {target}/x?key=1\r\n");
    let (first, _) = server(move |_| page("302 Found", &place, ""));
    let request = HttpRequest {
        redirects: 5,
        egress: denied(&target.replace("http://", "")),
        direct: true,
        ..HttpRequest::new("GET", first)
    };
    let error = block_on(text(request)).expect_err("a rule");
    assert_eq!(error.kind, HttpErrorKind::Egress);
    let (place, by) = Blocked::parse(&error.text).expect("a rule");
    assert_eq!((place, &*by.host), (&*format!("{target}/x"), "localhost"));
    assert!(heard.lock().expect("a lock").is_empty());
}

fn denied(rule: &str) -> Option<Arc<Egress>> {
    let deny = vec![EgressRule::parse(rule).expect("a rule")];
    Some(Arc::new(Egress { allow: Vec::new(), deny, open: true }))
}

/// Every way to a server that the rules deny: by its address, by a name that resolves to it, through a proxy, over an
/// idle connection of a request without rules.
#[test]
fn every_connection_is_held_to_the_rules() {
    let (server, heard) = server(|_| page("200 OK", "", "there"));
    let address = server.trim_start_matches("http://").to_owned();
    let port = address.rsplit_once(':').expect("a port").1.to_owned();
    let elsewhere = || Some(Resolver::new(|_| Ok(vec!["127.0.0.1".parse().expect("an address")])));
    let plain = |url: &str| HttpRequest { direct: true, ..HttpRequest::new("GET", url) };
    let named = format!("http://a.test:{port}/");
    let proxied =
        |proxy: String, url: &str| HttpRequest { proxy: Some(proxy), ..HttpRequest::new("GET", url) };
    let clients = Clients::default();
    let ask =
        |request: HttpRequest| block_on(async { clients.exchange(request).await.map(|reply| reply.status) });
    ask(HttpRequest { resolver: elsewhere(), ..plain(&named) }).expect("without rules");
    let before = heard.lock().expect("a lock").len();
    for rule in [format!("127.0.0.0/8:{port}"), format!("localhost:{port}")] {
        let requests = [
            plain(&server),
            plain(&format!("http://0:{port}/")),
            plain(&format!("http://localhost:{port}/")),
            HttpRequest { resolver: elsewhere(), ..plain(&named) },
            proxied(server.clone(), "http://b.test/"),
            proxied(server.clone(), "https://b.test/"),
            proxied(format!("http://2130706433:{port}"), "http://b.test/"),
            proxied(format!("http://0:{port}"), "http://b.test/"),
            proxied(format!("http://localhost:{port}"), "https://b.test/"),
        ];
        for request in requests {
            let told = format!("{rule}: {} {:?}", request.url, request.proxy);
            let error = ask(HttpRequest { egress: denied(&rule), ..request.clone() }).expect_err(&told);
            assert_eq!(error.kind, HttpErrorKind::Egress, "{told}: {error}");
            let url = request.url.replacen("http", "ws", 1);
            let socket = HttpRequest { egress: denied(&rule), url, ..request };
            let error = block_on(async { clients.websocket(socket).await.map(drop) }).expect_err(&told);
            assert_eq!(error.kind, HttpErrorKind::Egress, "{told}: {error}");
        }
    }
    // A proxy is a connection of its own: permitting only the host is not enough.
    let allow = vec![EgressRule::parse("b.test").expect("a rule")];
    let only = Some(Arc::new(Egress { allow, deny: Vec::new(), open: false }));
    let error = ask(HttpRequest { egress: only, ..proxied(server.clone(), "http://b.test/") });
    let error = error.expect_err("the proxy is not allowed");
    let (_, by) = Blocked::parse(&error.text).expect("a rule");
    assert_eq!(by.reason, "the proxy: no allow rule matched");
    assert_eq!(heard.lock().expect("a lock").len(), before);
}

#[test]
fn a_bundle_is_trusted_and_pins_are_checked() {
    let (port, certificate) = secure_server("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret");
    let pem = format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        STANDARD.encode(&certificate)
    );
    let parsed = rustls::server::ParsedCertificate::try_from(&certificate).expect("a certificate");
    let key = parsed.subject_public_key_info();
    let hash = ring::digest::digest(&ring::digest::SHA256, &key);
    let pin: [u8; 32] = hash.as_ref().try_into().expect("32 bytes");
    let here = Resolver::new(|_| Ok(vec!["127.0.0.1".parse().expect("an address")]));
    let ask = |tls: Option<Tls>| {
        let url = format!("https://far.invalid:{port}/");
        let request = HttpRequest {
            resolver: Some(here.clone()),
            tls: tls.map(Arc::new),
            ..HttpRequest::new("GET", url)
        };
        block_on(fetched(request)).map(|(_, body)| body)
    };
    let roots = Some(pem.into_bytes());
    assert!(ask(None).is_err());
    assert_eq!(ask(Some(Tls { roots: roots.clone(), ..Tls::default() })), Ok(b"secret".to_vec()));
    let pinned = |pins| Some(Tls { roots: roots.clone(), pins, ..Tls::default() });
    assert_eq!(ask(pinned(vec![[0; 32], pin])), Ok(b"secret".to_vec()));
    assert_eq!(ask(pinned(vec![[0; 32]])), Err(invalid("TLS SPKI pin mismatch".to_owned())));
    let bad = ask(Some(Tls { roots: Some(b"no certificate".to_vec()), ..Tls::default() }));
    assert_eq!(bad, Err(invalid("tls: the CA bundle holds no PEM certificate".to_owned())));
    // Without TLS there is no key to check.
    let plain = HttpRequest {
        tls: pinned(vec![pin]).map(Arc::new),
        ..HttpRequest::new("GET", "http://127.0.0.1:1/")
    };
    let refused = block_on(fetched(plain)).expect_err("no TLS");
    assert_eq!(refused.text, "tls: pinned_sha256 needs https://");
}

#[test]
fn a_proxy_is_shown_who_asks_and_left_out_where_it_shall() {
    let (proxy, heard) = server(|_| page("200 OK", "", "proxy"));
    let (own, _) = server(|_| page("200 OK", "", "host"));
    let request = HttpRequest {
        proxy: Some(proxy),
        proxy_auth: Some("Basic bWU6cHc=".to_owned()),
        ..HttpRequest::new("GET", own)
    };
    assert_eq!(block_on(text(request.clone())).expect("a reply").1, "proxy");
    assert!(heard.lock().expect("a lock")[0].contains("proxy-authorization: Basic bWU6cHc=\r\n"));
    let passed = HttpRequest { no_proxy: Some("other.test,127.0.0.1".to_owned()), ..request.clone() };
    assert_eq!(block_on(text(passed)).expect("a reply").1, "host");
    let wrong = HttpRequest { proxy: Some("ftp://me:pw@x".to_owned()), ..request };
    let text = block_on(text(wrong)).expect_err("no proxy").text;
    assert_eq!(text, "invalid proxy 'ftp://x': it needs http:// or https:// and a host");
}
