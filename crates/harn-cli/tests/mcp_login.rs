//! Sign-in to MCP servers over HTTP, with a strict authorization server on this machine.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use base64::Engine;
use serde_json::{Value as Json, json};

use crate::common::{command, finish, folder};

type Fields = BTreeMap<String, String>;

/// The state of the server: one sign-in, its tokens, and the rejected requests.
#[derive(Default)]
struct State {
    challenge: String,
    redirect: String,
    access: usize,
    /// The received code verifier, to be compared with the challenge.
    verifier: String,
    polls: usize,
    refused: Vec<String>,
    calls: Vec<String>,
}

struct Strict {
    port: u16,
    state: Arc<Mutex<State>>,
}

fn decoded(text: &str) -> String {
    let bytes = text.replace('+', " ").into_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let hex = std::str::from_utf8(&bytes[at + 1..at + 3]).unwrap();
            out.push(u8::from_str_radix(hex, 16).unwrap());
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(out).unwrap()
}

fn fields(query: &str) -> Fields {
    query.split('&').filter_map(|part| part.split_once('=')).map(|(k, v)| (decoded(k), decoded(v))).collect()
}

impl Strict {
    fn start() -> Strict {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let state = shared.clone();
                std::thread::spawn(move || {
                    let mut input = BufReader::new(&socket);
                    while Strict::serve(&mut input, &socket, port, &state).is_some() {}
                });
            }
        });
        Strict { port, state }
    }

    fn serve(
        input: &mut BufReader<&TcpStream>,
        mut out: &TcpStream,
        port: u16,
        state: &Mutex<State>,
    ) -> Option<()> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            input.read_line(&mut head).ok().filter(|read| *read > 0)?;
        }
        let header = |name: &str| {
            let line = head.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}:")))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let mut body = vec![0; header("content-length").unwrap_or_default().parse().unwrap_or(0)];
        input.read_exact(&mut body).ok()?;
        let body = String::from_utf8(body).ok()?;
        let target = head.split(' ').nth(1)?;
        let mut state = state.lock().unwrap();
        let origin = format!("http://127.0.0.1:{port}");
        let (status, more, reply) = match target {
            "/mcp" => Strict::mcp(&mut state, &origin, header("authorization"), &body),
            "/.well-known/oauth-protected-resource/mcp" => {
                let found = json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin], "scopes_supported": ["read", "write"]});
                ("200 OK", String::new(), found)
            }
            "/.well-known/oauth-authorization-server" => {
                let found = json!({
                    "issuer": origin, "authorization_endpoint": format!("{origin}/authorize"), "token_endpoint": format!("{origin}/token"),
                    "registration_endpoint": format!("{origin}/register"), "device_authorization_endpoint": format!("{origin}/device"),
                    "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                });
                ("200 OK", String::new(), found)
            }
            "/register" => {
                let asked: Json = serde_json::from_str(&body).unwrap_or_default();
                let redirect = asked["redirect_uris"][0].as_str().unwrap_or_default().to_owned();
                if redirect.starts_with("http://127.0.0.1") && asked["token_endpoint_auth_method"] == "none" {
                    (
                        "201 Created",
                        String::new(),
                        json!({"client_id": "client-1", "redirect_uris": [redirect]}),
                    )
                } else {
                    ("400 Bad Request", String::new(), json!({"error": "invalid_redirect_uri"}))
                }
            }
            "/device" => {
                let given = fields(&body);
                assert_eq!(given["client_id"], "client-1");
                let place = format!("{origin}/enter");
                (
                    "200 OK",
                    String::new(),
                    json!({"device_code": "d-1", "user_code": "ABCD", "verification_uri": place, "interval": 1, "expires_in": 60}),
                )
            }
            "/token" => Strict::token(&mut state, &origin, &fields(&body)),
            _ => ("404 Not Found", String::new(), Json::Null),
        };
        if status.starts_with('4') {
            state.refused.push(format!("{target} {reply}"));
        }
        let reply = if reply.is_null() { String::new() } else { reply.to_string() };
        let length = reply.len();
        write!(out, "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{more}content-length: {length}\r\n\r\n{reply}").ok()
    }

    fn token(state: &mut State, origin: &str, given: &Fields) -> (&'static str, String, Json) {
        let get = |key: &str| given.get(key).map(String::as_str).unwrap_or_default();
        let wrong = |error: &str| ("400 Bad Request", String::new(), json!({"error": error}));
        if get("client_id") != "client-1" || get("resource") != format!("{origin}/mcp") {
            return wrong("invalid_request");
        }
        match get("grant_type") {
            "authorization_code" if get("code") == "c-1" && get("redirect_uri") == state.redirect => {
                state.verifier = get("code_verifier").to_owned();
            }
            "refresh_token" if get("refresh_token") == format!("refresh-secret-{}", state.access) => {}
            "urn:ietf:params:oauth:grant-type:device_code" if get("device_code") == "d-1" => {
                state.polls += 1;
                if state.polls == 1 {
                    return wrong("authorization_pending");
                }
            }
            _ => return wrong("invalid_grant"),
        }
        state.access += 1;
        let n = state.access;
        let tokens = json!({"access_token": format!("access-secret-{n}"), "token_type": "Bearer", "expires_in": 60, "refresh_token": format!("refresh-secret-{n}")});
        ("200 OK", "cache-control: no-store\r\n".to_owned(), tokens)
    }

    fn mcp(
        state: &mut State,
        origin: &str,
        token: Option<String>,
        body: &str,
    ) -> (&'static str, String, Json) {
        if token != Some(format!("Bearer access-secret-{}", state.access)) || state.access == 0 {
            let place = format!("{origin}/.well-known/oauth-protected-resource/mcp");
            return (
                "401 Unauthorized",
                format!("www-authenticate: Bearer resource_metadata=\"{place}\"\r\n"),
                Json::Null,
            );
        }
        let message: Json = serde_json::from_str(body).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let answer = |result: Json| {
            ("200 OK", String::new(), json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
        };
        state.calls.push(method.clone());
        match method.as_str() {
            "initialize" => answer(
                json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "locked"}, "capabilities": {"tools": {}}}),
            ),
            "tools/call" if message["params"]["name"] == "expire" => {
                // The client's access token becomes invalid; the refresh token stays valid.
                let text = format!("expired {}", token.unwrap_or_default());
                answer(json!({"content": [{"type": "text", "text": text}]}))
            }
            "tools/call" => answer(json!({"content": [{"type": "text", "text": "open"}]})),
            _ => ("202 Accepted", String::new(), Json::Null),
        }
    }
}

/// Simulates the user's browser: reads and checks the address, and returns the code.
fn browse(server: &Strict, address: &str, state: Option<&str>) -> String {
    let (place, query) = address.split_once('?').unwrap();
    assert_eq!(place, format!("http://127.0.0.1:{}/authorize", server.port));
    let asked = fields(query);
    for (key, value) in [
        ("response_type", "code"),
        ("client_id", "client-1"),
        ("code_challenge_method", "S256"),
        ("scope", "read write"),
    ] {
        assert_eq!(asked[key], value, "{address}");
    }
    assert_eq!(asked["resource"], format!("http://127.0.0.1:{}/mcp", server.port));
    {
        let mut known = server.state.lock().unwrap();
        known.challenge = asked["code_challenge"].clone();
        known.redirect = asked["redirect_uri"].clone();
    }
    let redirect = asked["redirect_uri"].strip_prefix("http://").unwrap();
    let (host, path) = redirect.split_once('/').unwrap();
    let mut socket = TcpStream::connect(host).unwrap();
    let given = state.unwrap_or(&asked["state"]);
    write!(socket, "GET /{path}?code=c-1&state={given} HTTP/1.1\r\nhost: {host}\r\n\r\n").unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn a_user_signs_in_and_programs_use_the_token() {
    let server = Strict::start();
    let url = format!("http://127.0.0.1:{}/mcp", server.port);
    let place = folder(&[("harn.toml", &format!("[[mcp]]\nname = \"locked\"\nurl = \"{url}\"\n"))]);
    let program = format!(
        "let c = mcp_connect(\"{url}\")\nprintln(mcp_call(c, \"x\"))\nprintln(mcp_call(c, \"expire\"))\n"
    );
    std::fs::write(place.path().join("main.harn"), program).unwrap();
    let harn = |args: &[&str]| {
        let mut harn = command(args);
        harn.current_dir(place.path()).env("HOME", place.path()).env_remove("XDG_STATE_HOME");
        harn
    };
    let ran = finish(harn(&["run", "main.harn"]), b"");
    assert!(ran.err.contains("status 401 (sign in with `harn mcp login`"), "{}", ran.shown());

    let mut login = harn(&["mcp", "login", "locked"]);
    let mut child = login.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("http") {
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0, "no address");
    }
    // A code for another sign-in is rejected.
    assert!(browse(&server, line.trim(), Some("forged")).starts_with("HTTP/1.1 400 "));
    assert!(browse(&server, line.trim(), None).starts_with("HTTP/1.1 200 "));
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert!(child.wait().unwrap().success(), "{out}");
    assert_eq!(out, "signed in to locked\n");
    let verifier = server.state.lock().unwrap().verifier.clone();
    let hashed = finish(harn(&["run", "-e", &format!("println(sha256(\"{verifier}\"))")]), b"");
    let hex = hashed.out.trim().to_owned();
    let bytes: Vec<u8> = (0..32).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap()).collect();
    let challenge = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    assert_eq!(challenge, server.state.lock().unwrap().challenge);

    let folder = place.path().join(".local/state/harn/mcp-tokens");
    let file = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let ran = finish(harn(&["run", "--durable", "--run-id", "r1", "main.harn"]), b"");
    assert_eq!(ran.out, "open\nexpired Bearer ***\n", "{}", ran.shown());
    // The server replaces all tokens: the client uses its refresh token, and the file permissions stay private.
    {
        let mut state = server.state.lock().unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        state.access = 1;
        std::fs::write(&file, text.replace("access-secret-1", "access-stale-00")).unwrap();
    }
    let ran = finish(harn(&["run", "--durable", "--run-id", "r2", "main.harn"]), b"");
    assert_eq!(ran.out, "open\nexpired Bearer ***\n", "{}", ran.shown());
    let stored = std::fs::read_to_string(&file).unwrap();
    assert!(stored.contains("access-secret-2") && stored.contains("refresh-secret-2"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // No journal contains a token.
    for entry in std::fs::read_dir(place.path().join(".harn")).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        for secret in ["access-secret", "refresh-secret", "access-stale"] {
            let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!found, "{} in {}", secret, entry.path().display());
        }
    }
    let ran = finish(harn(&["mcp", "logout", &url]), b"");
    assert_eq!((ran.code, ran.out), (0, format!("signed out of {url}\n")));
    assert!(!file.exists());
}

#[test]
fn a_user_signs_in_on_another_device() {
    let server = Strict::start();
    let url = format!("http://127.0.0.1:{}/mcp", server.port);
    let place = folder(&[]);
    let mut login = command(&["mcp", "login", &url, "--device"]);
    login.current_dir(place.path()).env("HOME", place.path()).env_remove("XDG_STATE_HOME");
    let ran = finish(login, b"");
    assert_eq!((ran.code, ran.out.clone()), (0, format!("signed in to {url}\n")), "{}", ran.shown());
    assert!(
        ran.err.contains(&format!("open http://127.0.0.1:{}/enter and enter ABCD", server.port)),
        "{}",
        ran.shown()
    );
    assert_eq!(server.state.lock().unwrap().polls, 2);
}

#[test]
fn addresses_without_sign_in_are_errors() {
    let place = folder(&[("harn.toml", "[[mcp]]\nname = \"p\"\ncommand = \"x\"\n")]);
    for (server, why) in [
        ("nobody", "no server named 'nobody' is registered"),
        ("p", "is a program: it has no sign-in over HTTP"),
        ("http://127.0.0.1:1/mcp", "http://127.0.0.1:1/mcp: "),
    ] {
        let mut login = command(&["mcp", "login", server]);
        login.current_dir(place.path()).env("HOME", place.path());
        let ran = finish(login, b"");
        assert!(ran.code == 1 && ran.err.contains(why), "{server}: {}", ran.shown());
    }
}
