//! Programs that read replies piece by piece from a server with random timing: they are replayed
//! with the same output.
//!
//! `HARN_KILLS` says how often; `make kill` does it 200 times.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Chance, Ran, command, folder, harn_in, kills};

/// How often each path was asked for.
type Asked = Arc<Mutex<BTreeMap<String, u32>>>;

/// A server that sends head and body of a reply apart, in pieces of random length with random pauses between.
struct Server {
    address: String,
    asked: Asked,
}

impl Server {
    /// Pauses last up to `pause_us` microseconds.
    fn start(seed: u64, pause_us: u64) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Asked::default();
        let own = asked.clone();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let (asked, chance) =
                    (own.clone(), Chance(seed ^ (number as u64 + 1).wrapping_mul(0x9E37_79B9)));
                std::thread::spawn(move || serve(&stream, &asked, chance, pause_us));
            }
        });
        Server { address, asked }
    }

    fn count(&self, path: &str) -> u32 {
        self.asked.lock().unwrap().get(path).copied().unwrap_or(0)
    }
}

/// Method, path and body of the next request; nothing when the client has gone.
fn request(reader: &mut BufReader<&TcpStream>) -> Option<(String, String, Value)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|read| *read > 0)?;
        if header == "\r\n" {
            break;
        }
        let (name, value) = header.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((method, path, serde_json::from_slice(&body).unwrap_or_default()))
}

fn serve(stream: &TcpStream, asked: &Asked, mut chance: Chance, pause_us: u64) {
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    while let Some((_, path, body)) = request(&mut reader) {
        *asked.lock().unwrap().entry(path.clone()).or_default() += 1;
        let (kind, content) = match (path.as_str(), body["stream"] == true) {
            ("/v1/chat/completions", true) => ("text/event-stream", events()),
            ("/v1/chat/completions", false) => ("application/json", completion()),
            _ => ("text/plain", format!("reply of {path}: {}", "0123456789".repeat(20))),
        };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
        if send(stream, head.as_bytes(), &mut chance, pause_us).is_none() {
            return;
        }
        if path.contains("slow") {
            std::thread::sleep(Duration::from_millis(400));
        }
        let mut rest = content.as_bytes();
        while !rest.is_empty() {
            let length = (1 + chance.below(120) as usize).min(rest.len());
            let (piece, behind) = rest.split_at(length);
            let chunk = [format!("{length:x}\r\n").as_bytes(), piece, b"\r\n"].concat();
            if send(stream, &chunk, &mut chance, pause_us).is_none() {
                return;
            }
            rest = behind;
        }
        if send(stream, b"0\r\n\r\n", &mut chance, pause_us).is_none() {
            return;
        }
    }
}

fn send(mut stream: &TcpStream, bytes: &[u8], chance: &mut Chance, pause_us: u64) -> Option<()> {
    stream.write_all(bytes).ok()?;
    let pause = Duration::from_micros(chance.below(pause_us));
    if chance.below(2) == 0 {
        std::thread::sleep(pause);
    }
    Some(())
}

/// The words of each streamed reply.
const WORDS: [&str; 8] = ["one ", "two ", "three ", "four ", "five ", "six ", "seven ", "eight"];

fn events() -> String {
    let chunk = |choice: Value| {
        format!(
            "data: {}\n\n",
            json!({"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})
        )
    };
    let mut all: Vec<String> =
        WORDS.iter().map(|word| chunk(json!({"index": 0, "delta": {"content": word}}))).collect();
    all.push(chunk(json!({"index": 0, "delta": {}, "finish_reason": "stop"})));
    all.push("data: [DONE]\n\n".to_owned());
    all.concat()
}

fn completion() -> String {
    let message = json!({"role": "assistant", "content": WORDS.concat()});
    json!({"id": "x", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
        .to_string()
}

/// Runs a program of the folder with a journal.
fn run(folder: &Path, server: &Server, args: &[&str]) -> Ran {
    let mut command = command(args);
    command.current_dir(folder).envs(surroundings(server));
    crate::common::finish(command, b"")
}

fn surroundings(server: &Server) -> [(&'static str, String); 3] {
    [
        ("BASE", server.address.clone()),
        ("LOCAL_LLM_BASE_URL", server.address.clone()),
        ("LOCAL_LLM_MODEL", "m".to_owned()),
    ]
}

const STREAM: &str = r#"
let base = env("BASE")
println(http_get("${base}/first").status)
var said = ""
for piece in llm_stream("Count.", nil, {provider: "local", model: "m"}) {
  said = said + piece
  println("piece of ${said.len()}")
}
println(said)
"#;

#[test]
fn a_streamed_reply_is_replayed_whatever_its_timing() {
    for round in 0..kills().max(20) {
        let server = Server::start(round + 1, [50, 300, 2000][round as usize % 3]);
        let dir = folder(&[("main.harn", STREAM)]);
        let ran = run(dir.path(), &server, &["run", "--durable", "--run-id", "r", "main.harn"]);
        assert_eq!(ran.code, 0, "round {round}: {}", ran.shown());
        assert!(ran.out.ends_with(&format!("{}\n", WORDS.concat())), "{}", ran.shown());
        let replayed = harn_in(dir.path(), &["replay", "r"]);
        assert_eq!((replayed.code, &replayed.out), (0, &ran.out), "round {round}: {}", replayed.shown());
        assert_eq!(server.count("/first"), 1, "a replay asks nobody");
    }
}
