//! Every possible failure of an exchange, one test each, with the category, kind and reason of the contract.
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use crate::support::*;
use harn_llm::runtime::StreamItem;
use harn_llm::{Call, CallError, LlmError, LlmRuntime};
use harn_value::{Data as Value, json};

const NETWORK: [&str; 3] = ["transient_network", "transient", "network_error"];
const TIMEOUT: [&str; 3] = ["timeout", "transient", "timeout"];
const SERVER: [&str; 3] = ["server_error", "transient", "server_error"];
const REFUSED: [&str; 3] = ["generic", "terminal", "invalid_request"];

/// Calls a server with one script, and returns the failure.
async fn fault(provider: &str, script: Vec<Step>, options: Value) -> LlmError {
    let server = Server::start(vec![script]).await;
    llm_error(ask(&server, provider, options).await)
}

#[track_caller]
fn assert_fault(error: &LlmError, expected: [&str; 3], says: &[&str]) {
    assert_eq!([error.category.as_str(), error.kind.as_str(), error.reason], expected, "{error}");
    for part in says {
        assert!(error.message.contains(part), "`{part}` is not in: {error}");
    }
    assert!(!error.provider.is_empty());
    assert!(!error.message.contains("sk-open-1234") && !error.message.contains("sk-anth-1234"), "{error}");
}

/// Returns a runtime that resolves the known hosts to this machine.
fn resolving(known: &'static [&'static str]) -> Rc<LlmRuntime> {
    let (runtime, _) = runtime(KEYS);
    runtime.resolve_hosts(move |host| match known.contains(&host) {
        true => Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]),
        false => Err(std::io::Error::other(format!("no address for {host}"))),
    });
    runtime
}

async fn ask_at(runtime: &LlmRuntime, base_url: &str) -> Result<Value, CallError> {
    let options = json!({"provider": "openai", "base_url": base_url, "llm_retries": 0});
    runtime.llm_call(&Call::new("hi", None, options)).await
}

fn port(server: &Server) -> &str {
    server.url.rsplit(':').next().unwrap()
}

// Before a connection is established.

#[tokio::test]
async fn dns_failure() {
    local(async {
        let error = llm_error(ask_at(&resolving(&[]), "https://api.example.com/v1").await);
        assert_fault(&error, NETWORK, &["openai API error: ", "no address for api.example.com"]);
    })
    .await;
}

#[tokio::test]
async fn connection_refused() {
    local(async {
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = llm_error(ask_at(&runtime(KEYS).0, &format!("http://{gone}")).await);
        assert_fault(&error, NETWORK, &["openai API error: ", "refused"]);
    })
    .await;
}

#[tokio::test]
async fn tls_certificate_that_nobody_vouches_for() {
    local(async {
        let names = vec!["api.example.com".to_string()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::task::spawn_local(async move {
            let (socket, _) = listener.accept().await.unwrap();
            tokio_rustls::TlsAcceptor::from(Arc::new(config)).accept(socket).await.is_err()
        });
        let url = format!("https://api.example.com:{port}/v1");
        let error = llm_error(ask_at(&resolving(&["api.example.com"]), &url).await);
        assert_fault(&error, NETWORK, &["certificate"]);
        assert!(server.await.unwrap(), "the client shook hands");
    })
    .await;
}

#[tokio::test]
async fn tls_spoken_to_a_server_without_it() {
    local(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::task::spawn_local(async move {
            use tokio::io::AsyncWriteExt as _;
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        });
        let url = format!("https://api.example.com:{port}");
        let error = llm_error(ask_at(&resolving(&["api.example.com"]), &url).await);
        assert_fault(&error, NETWORK, &["openai API error: "]);
    })
    .await;
}

// Before the headers.

#[tokio::test]
async fn dropped_before_headers() {
    local(async {
        assert_fault(&fault("openai", vec![], json!({})).await, NETWORK, &["openai API error: "]);
    })
    .await;
}

#[tokio::test]
async fn another_protocol() {
    local(async {
        let script = vec![Step::Send(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec())];
        assert_fault(&fault("openai", script, json!({})).await, NETWORK, &["openai API error: "]);
    })
    .await;
}

#[tokio::test]
async fn timeout_before_headers() {
    local(async {
        let server = Server::start(vec![vec![Step::Hang]]).await;
        let error = llm_error(ask(&server, "openai", json!({"timeout": 1})).await);
        assert_fault(&error, TIMEOUT, &["openai API error: request timed out after 1s"]);
        server.hung_up(1).await;
    })
    .await;
}

// Inside a stream.

fn half_a_stream() -> Vec<Step> {
    stream("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
}

#[tokio::test]
async fn stream_that_falls_silent() {
    local(async {
        let mut script = half_a_stream();
        script.push(Step::Hang);
        let server = Server::start(vec![script]).await;
        let error = llm_error(ask(&server, "openai", json!({"timeout": 1})).await);
        let says = "stream idle timeout: no data received for 1s";
        assert_fault(&error, TIMEOUT, &[says]);
        server.hung_up(1).await;
    })
    .await;
}

#[tokio::test]
async fn idle_stream() {
    local(async {
        let mut script = half_a_stream();
        script.push(Step::Hang);
        let server = Server::start(vec![script]).await;
        let options = json!({"provider": "openai", "base_url": server.url, "idle_timeout": 1});
        let mut items = Vec::new();
        let (runtime, _) = runtime(KEYS);
        runtime.llm_stream(&Call::new("hi", None, options), &mut |item| items.push(item)).await.unwrap();
        let [StreamItem::Chunk(text), StreamItem::Failed(CallError::Llm(error))] = items.as_slice() else {
            panic!("{items:?}")
        };
        assert_eq!(text, "a");
        assert_fault(error, TIMEOUT, &["stream idle timeout: no data received for 1s"]);
        server.hung_up(1).await;
    })
    .await;
}

#[tokio::test]
async fn a_named_idle_timeout_limits_the_first_byte_of_a_stream() {
    local(async {
        let server = Server::start(vec![vec![Step::Hang]]).await;
        let options =
            json!({"provider": "openai", "base_url": server.url, "idle_timeout": 1, "llm_retries": 0});
        let mut items = Vec::new();
        let (runtime, _) = runtime(KEYS);
        runtime.llm_stream(&Call::new("hi", None, options), &mut |item| items.push(item)).await.unwrap();
        let [StreamItem::Failed(CallError::Llm(error))] = items.as_slice() else { panic!("{items:?}") };
        assert_fault(error, TIMEOUT, &["1s"]);
        server.hung_up(1).await;
    })
    .await;
}

#[tokio::test]
async fn stream_cut_off_cleanly() {
    local(async {
        assert_fault(&fault("openai", half_a_stream(), json!({})).await, NETWORK, &["unexpected EOF"]);
    })
    .await;
}

#[tokio::test]
async fn stream_cut_off_inside_its_length() {
    local(async {
        let mut script = reply("200 OK", "content-type: text/event-stream\r\n", OPENAI_STREAM);
        script[1] = Step::Send(OPENAI_STREAM.as_bytes()[..300].to_vec());
        assert_fault(&fault("openai", script, json!({})).await, NETWORK, &["openai stream error (body)"]);
    })
    .await;
}

#[tokio::test]
async fn broken_stream_tells_what_was_used() {
    local(async {
        let cut = &ANTHROPIC_STREAM[..ANTHROPIC_STREAM.find("data: {\"type\":\"message_delta\"").unwrap()];
        let error = fault("anthropic", stream(cut), json!({})).await;
        assert_fault(&error, NETWORK, &["unexpected EOF"]);
        let used = json!({"input_tokens": 13, "output_tokens": 1, "cache_read_tokens": 4});
        assert_eq!(error.to_json()["partial_usage"], used);
    })
    .await;
}

/// Legal variants of the same event stream yield the same reply.
#[tokio::test]
async fn unusual_but_legal_event_streams() {
    local(async {
        let plain = OPENAI_STREAM.replace("\r\n", "\n") + "\n\n";
        let by_line =
            |f: &dyn Fn(&str) -> String| plain.split("\n\n").map(f).collect::<Vec<_>>().join("\n\n");
        let writings = [
            ("line feeds", plain.clone()),
            ("carriage returns and line feeds", plain.replace('\n', "\r\n")),
            ("carriage returns", plain.replace('\n', "\r")),
            ("comments everywhere", by_line(&|event| format!(": ping\n{event}\n:"))),
            ("no final blank line", plain.trim_end().to_string()),
            ("no terminal marker", plain.replace("data: [DONE]\n\n", "")),
            (
                "the same id on every event",
                by_line(&|event| format!("id: 7\nretry: 10\nevent: message\n{event}")),
            ),
            ("no space behind the colon", plain.replace("data: ", "data:")),
            ("a byte order mark", format!("\u{feff}{plain}")),
        ];
        let server = Server::start(writings.iter().map(|(_, text)| stream(text)).collect()).await;
        let mut first: Option<Value> = None;
        for (name, _) in writings {
            let mut result =
                ask(&server, "openai", json!({})).await.unwrap_or_else(|e| panic!("{name}: {e:?}"));
            result["transcript"] = Value::Null;
            assert_eq!(result["text"], "Grüße 😀!", "{name}");
            assert_eq!(*first.get_or_insert_with(|| result.clone()), result, "{name}");
        }
    })
    .await;
}

#[tokio::test]
async fn calls_of_one_reply_that_share_an_id_are_told_apart() {
    local(async {
        let call = |n: usize| json!({"id": "call_1", "type": "function", "function": {"name": "f", "arguments": format!("{{\"n\":{n}}}")}});
        let body = json!({"choices": [{"message": {"content": null, "tool_calls": [call(1), call(2), call(3)]}, "finish_reason": "tool_calls"}]});
        let server = Server::start(vec![ok_json(&body)]).await;
        let result = ask(&server, "openai", json!({})).await.unwrap();
        let calls = result["tool_calls"].as_array().unwrap();
        let seen: Vec<(&str, &Value)> =
            calls.iter().map(|c| (c["id"].as_str().unwrap(), &c["arguments"]["n"])).collect();
        assert_eq!(seen, [("call_1", &json!(1)), ("call_1_2", &json!(2)), ("call_1_3", &json!(3))]);
        let history = result["transcript"]["messages"][1]["tool_calls"].as_array().unwrap();
        assert_eq!(history[1]["id"], "call_1_2");
    })
    .await;
}

#[tokio::test]
async fn whole_calls_of_a_stream_without_places_are_told_apart() {
    local(async {
        let event = |n: usize| {
            let call = json!({"id": format!("call_{n}"), "function": {"name": "f", "arguments": format!("{{\"n\":{n}}}")}});
            format!("data: {}\n\n", json!({"choices": [{"delta": {"tool_calls": [call]}}]}))
        };
        let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
        let server = Server::start(vec![stream(&(event(1) + &event(2) + end))]).await;
        let result = ask(&server, "openai", json!({})).await.unwrap();
        let calls = result["tool_calls"].as_array().unwrap();
        let seen: Vec<(&str, &Value)> =
            calls.iter().map(|c| (c["id"].as_str().unwrap(), &c["arguments"]["n"])).collect();
        assert_eq!(seen, [("call_1", &json!(1)), ("call_2", &json!(2))]);
    })
    .await;
}

// Statuses. The bodies that each provider sends with them are tested in `formats`.

#[tokio::test]
async fn too_many_requests_with_seconds() {
    local(async {
        let script = reply("429 Too Many Requests", "retry-after: 3\r\n", "slow");
        let error = fault("openai", script, json!({})).await;
        assert_fault(
            &error,
            ["rate_limit", "transient", "rate_limit"],
            &["[rate_limited]", "(retry-after: 3)"],
        );
        assert_eq!(error.retry_after_ms, Some(3000));
    })
    .await;
}

#[tokio::test]
async fn too_many_requests_with_a_date() {
    local(async {
        // The clock of these tests is fixed at 2023-11-14T22:13:20Z.
        let script = reply("429 Too Many Requests", "retry-after: Tue, 14 Nov 2023 22:13:27 GMT\r\n", "slow");
        let error = fault("openai", script, json!({})).await;
        assert_fault(&error, ["rate_limit", "transient", "rate_limit"], &[]);
        assert_eq!(error.retry_after_ms, Some(7000));
    })
    .await;
}

#[tokio::test]
async fn overloaded_529() {
    local(async {
        let body = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        let error = fault("anthropic", reply("529 ", "", &body.to_string()), json!({})).await;
        assert_fault(
            &error,
            ["overloaded", "transient", "server_error"],
            &["anthropic HTTP 529", "[http_error]"],
        );
    })
    .await;
}

// Successful statuses with other content.

#[tokio::test]
async fn ok_with_an_error_body() {
    local(async {
        let json_body =
            json!({"error": {"message": "Rate limited", "type": "rate_limit_error", "code": 429}});
        let sse = |error: Value| stream(&format!("data: {error}\n\n"));
        let rate_limit = ["rate_limit", "transient", "rate_limit"];
        for (provider, script, expected) in [
            ("openai", ok_json(&json_body), rate_limit),
            ("openai", sse(json_body.clone()), rate_limit),
            (
                "openai",
                ok_json(&json!({"error": {"message": "no credit", "code": 402}})),
                ["generic", "terminal", "unknown"],
            ),
            ("openai", ok_json(&json!({"error": "invalid_api_key"})), ["auth", "terminal", "auth_failure"]),
            (
                "anthropic",
                sse(json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})),
                ["overloaded", "transient", "server_error"],
            ),
        ] {
            assert_fault(&fault(provider, script, json!({})).await, expected, &["API error: "]);
        }
    })
    .await;
}

#[tokio::test]
async fn ok_with_half_a_json() {
    local(async {
        let body =
            json!({"choices": [{"message": {"content": "plain"}, "finish_reason": "stop"}]}).to_string();
        for stream in [true, false] {
            let script = reply("200 OK", "content-type: application/json\r\n", &body[..30]);
            let error = fault("openai", script, json!({"stream": stream})).await;
            assert_fault(&error, NETWORK, &["the JSON body ends early"]);
        }
    })
    .await;
}

#[tokio::test]
async fn ok_with_nothing() {
    local(async {
        let script = reply("200 OK", "content-type: application/json\r\n", "");
        assert_fault(&fault("openai", script, json!({"stream": false})).await, NETWORK, &["empty reply"]);
    })
    .await;
}

#[tokio::test]
async fn ok_with_another_kind_of_content() {
    local(async {
        let html = "<html><body>login</body></html>";
        for (kind, body) in
            [("text/html", html), ("text/plain", "hello"), ("application/json", "{\"hello\":1}")]
        {
            for provider in ["openai", "anthropic", "gemini"] {
                let script = reply("200 OK", &format!("content-type: {kind}\r\n"), body);
                let env = [("GEMINI_API_KEY", "sk-open-1234"), KEYS[0], KEYS[1]];
                let server = Server::start(vec![script]).await;
                let options = json!({"model": "gemini-2.5-pro"});
                let error = llm_error(ask_with(&runtime(&env).0, &server, provider, options).await);
                let head = format!("{provider} response parse error: ");
                assert_fault(&error, SERVER, &[&head, kind, body]);
            }
        }
    })
    .await;
}

/// The body itself determines its type, not its header.
#[tokio::test]
async fn ok_with_the_wrong_content_type() {
    local(async {
        let body =
            json!({"choices": [{"message": {"content": "plain"}, "finish_reason": "stop"}]}).to_string();
        let server = Server::start(vec![
            reply("200 OK", "content-type: text/plain\r\n", &body),
            reply("200 OK", "", &body),
            reply("200 OK", "content-type: application/json\r\n", OPENAI_STREAM),
        ])
        .await;
        for expected in ["plain", "plain", "Grüße 😀!"] {
            assert_eq!(ask(&server, "openai", json!({})).await.unwrap()["text"], expected);
        }
    })
    .await;
}

// Redirects.

#[tokio::test]
async fn redirect_to_another_host() {
    local(async {
        let elsewhere = Server::start(vec![stream(OPENAI_STREAM)]).await;
        let away = |to: String| reply("307 Temporary Redirect", &format!("location: {to}\r\n"), "");
        let targets = [
            format!("http://other.example.net:{}/v1", port(&elsewhere)), // another host
            format!("http://api.example.com:{}/v1", port(&elsewhere)),   // another port
            format!("https://api.example.com:{}/v1", port(&elsewhere)),  // another scheme
        ];
        let server = Server::start(targets.iter().map(|t| away(t.clone())).collect()).await;
        let runtime = resolving(&["api.example.com", "other.example.net"]);
        let base = format!("http://api.example.com:{}", port(&server));
        for target in &targets {
            let error = llm_error(ask_at(&runtime, &base).await);
            assert_fault(&error, REFUSED, &["redirected to ", target.strip_suffix("/v1").unwrap()]);
        }
        assert_eq!((server.count(), elsewhere.count()), (3, 0));
    })
    .await;
}

#[tokio::test]
async fn redirect_within_the_host() {
    local(async {
        let near = reply("307 Temporary Redirect", "location: /moved/chat\r\n", "");
        let server = Server::start(vec![near, stream(OPENAI_STREAM)]).await;
        ask(&server, "openai", json!({})).await.unwrap();
        let moved = server.request(1);
        assert_eq!(moved.line, "POST /moved/chat HTTP/1.1");
        assert_eq!(moved.header("authorization"), Some("Bearer sk-open-1234"));
        assert_eq!(moved.body, server.request(0).body);
    })
    .await;
}

#[tokio::test]
async fn redirects_without_end() {
    local(async {
        let around = || reply("308 Permanent Redirect", "location: /again\r\n", "");
        let server = Server::start((0..8).map(|_| around()).collect()).await;
        let error = llm_error(ask(&server, "openai", json!({})).await);
        assert_fault(&error, REFUSED, &["more than 5 redirects", "/again"]);
        assert_eq!(server.count(), 6);
    })
    .await;
}

// Size.

const GIGABYTE: usize = 1 << 30;

/// The first bytes of a body that continues for a gigabyte.
fn endless(status: &str, kind: &str, start: &str, piece: &str) -> Vec<Step> {
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {GIGABYTE}\r\n\r\n{start}");
    let piece = piece.repeat((64 << 10) / piece.len()).into_bytes();
    vec![Step::Send(head.into_bytes()), Step::Flood { piece, total: GIGABYTE }]
}

/// Runs a call against an endless body on a separate thread. Returns the failure, the number of bytes that the server
/// sent, and the peak memory use.
fn gigabyte(script: Vec<Step>, options: Value) -> (LlmError, usize, usize) {
    let mut outcome = None;
    let memory = allocation_counter::measure(|| {
        let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        outcome = Some(reactor.block_on(local(async {
            let server = Server::start(vec![script]).await;
            let error = llm_error(ask(&server, "openai", options).await);
            (error, server.flooded.get())
        })));
    });
    let (error, sent) = outcome.unwrap();
    (error, sent, usize::try_from(memory.bytes_max).unwrap())
}

#[test]
fn a_body_of_a_gigabyte_is_given_up_at_the_limit() {
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}}]}\n\n";
    for (what, kind, start, piece) in [
        ("one JSON value", "application/json", "{\"choices\": \"", "x"),
        ("one line", "text/event-stream", "data: ", "x"),
        ("many events", "text/event-stream", "", event),
    ] {
        let limit = 4 << 20;
        let options = json!({"max_response_bytes": limit});
        let (error, sent, memory) = gigabyte(endless("200 OK", kind, start, piece), options);
        assert_fault(&error, ["server_error", "terminal", "server_error"], &["max_response_bytes = 4194304"]);
        // The socket buffers on both ends contain part of the sent bytes.
        assert!(sent < 8 * limit, "{what}: the server sent {sent} bytes");
        assert!(memory < 4 * limit, "{what}: {memory} bytes of memory");
    }
}

#[test]
fn an_error_body_of_a_gigabyte_is_clipped() {
    let script = endless("500 Internal Server Error", "text/plain", "", "x");
    let (error, sent, memory) = gigabyte(script, json!({}));
    assert_fault(&error, SERVER, &["openai HTTP 500 Internal Server Error [http_error]: xxxx"]);
    assert!(error.message.len() < 20_000 && sent < 16 << 20 && memory < 2 << 20, "{sent} {memory}");
}

#[test]
fn the_limit_is_64_mebibytes_unless_set() {
    let (error, _, memory) =
        gigabyte(endless("200 OK", "application/json", "{\"choices\": \"", "x"), json!({}));
    assert_fault(&error, ["server_error", "terminal", "server_error"], &["max_response_bytes = 67108864"]);
    assert!(memory < 200 << 20, "{memory}");
}

#[tokio::test]
async fn a_cancelled_call_closes_its_connection() {
    local(async {
        let server = Server::start(vec![vec![Step::Hang]]).await;
        let call = ask(&server, "openai", json!({}));
        assert!(tokio::time::timeout(std::time::Duration::from_millis(300), call).await.is_err());
        server.hung_up(1).await;
    })
    .await;
}
