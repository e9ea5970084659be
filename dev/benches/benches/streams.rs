//! Benchmarks of the layers above the network: reading streams, calls answered by the mock model, and a thousand
//! concurrent streams. Run with `cargo bench -p harn-benches --bench streams`; an argument selects one: `decode`,
//! `mock`, `many`. A thousand streams need 2,100 open files (`ulimit -n 4096`).
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a bench")]

use std::cell::RefCell;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use harn_llm::response::ResponseBuilder;
use harn_llm::runtime::StreamItem;
use harn_llm::wire::ReplyReader;
use harn_llm::{Call, LlmRuntime, Request, StdEmbedder};
use harn_value::{Data as Value, json};

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|c| c == name);
    if wanted("decode") {
        decode();
    }
    if wanted("mock") {
        mock();
    }
    if wanted("many") {
        many();
    }
}

fn runtime(env: &[(&str, &str)]) -> Rc<LlmRuntime> {
    Rc::new(LlmRuntime::new(Rc::new(StdEmbedder::with_env(env.iter().copied()))))
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&reactor, work)
}

/// Returns the fastest of some runs.
fn fastest(runs: usize, mut run: impl FnMut()) -> Duration {
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .min()
        .unwrap()
}

// Reading streams.

const EVENTS: usize = 20_000;
/// Number of bytes that a socket returns at a time.
const CHUNK: usize = 16 << 10;

fn sse(events: impl IntoIterator<Item = Value>) -> String {
    events.into_iter().map(|e| format!("data: {e}\n\n")).collect()
}

fn streams() -> Vec<(&'static str, Value, String)> {
    let word = |n: usize| format!("word{} ", n % 100);
    let openai = |n: usize| {
        json!({"id": "chatcmpl-BtM2vwFvGtuxLYxvpGgVaEnJvGsYe", "object": "chat.completion.chunk", "created": 1752576261,
               "model": "gpt-4o-2024-08-06", "service_tier": "default", "system_fingerprint": "fp_07871e2ad8",
               "choices": [{"index": 0, "delta": {"content": word(n)}, "logprobs": null, "finish_reason": null}]})
    };
    let anthropic = |n: usize| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word(n)}});
    let gemini = |n: usize| {
        json!({"candidates": [{"content": {"parts": [{"text": word(n)}], "role": "model"}, "index": 0}],
               "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": n}, "modelVersion": "gemini-2.5-pro"})
    };
    let ollama = |n: usize| json!({"model": "qwen3:8b", "created_at": "2025-07-15T10:44:21.5Z", "message": {"role": "assistant", "content": word(n)}, "done": false});
    let lines = (0..EVENTS).map(|n| format!("{}\n", ollama(n))).collect::<String>();
    vec![
        ("openai", json!({}), sse((0..EVENTS).map(openai)) + "data: [DONE]\n\n"),
        ("anthropic", json!({}), sse((0..EVENTS).map(anthropic)) + "data: {\"type\": \"message_stop\"}\n\n"),
        (
            "gemini",
            json!({"model": "gemini-2.5-pro"}),
            sse((0..EVENTS).map(gemini)) + "data: {\"candidates\": [{\"finishReason\": \"STOP\"}]}\n\n",
        ),
        ("ollama", json!({"ollama": {"num_ctx": 1}}), lines + "{\"done\": true}\n"),
    ]
}

fn read(request: &Request, text: &str) -> usize {
    let mut reader = ReplyReader::new(request, true);
    let mut builder = ResponseBuilder::default();
    let mut events = Vec::new();
    let mut count = 0;
    for chunk in text.as_bytes().chunks(CHUNK) {
        reader.feed(chunk, &mut events).unwrap();
        count += events.len();
        events.drain(..).for_each(|event| builder.push(&event));
    }
    reader.finish(request, "text/event-stream", &mut events).unwrap();
    black_box(builder.finish("p", "m", harn_llm::config::Dialect::Plain).unwrap());
    count
}

fn decode() {
    println!("reading streams of {EVENTS} events in chunks of {CHUNK} bytes");
    let keys = [("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k"), ("GEMINI_API_KEY", "k")];
    for (provider, options, text) in streams() {
        let mut all = json!({"provider": provider});
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let request = runtime(&keys).prepare(&Call::new("hi", None, all)).unwrap().request;
        let time = fastest(20, || assert!(read(&request, &text) >= EVENTS));
        let memory = allocation_counter::measure(|| {
            read(&request, &text);
        });
        println!(
            "  {provider:10} {:6.0} MB/s  {:5.2} µs and {:5.1} allocations per event of {} bytes",
            text.len() as f64 / 1e6 / time.as_secs_f64(),
            time.as_secs_f64() * 1e6 / EVENTS as f64,
            memory.count_total as f64 / EVENTS as f64,
            text.len() / EVENTS,
        );
    }
}

// Calls answered by the mock.

fn mock() {
    const CALLS: usize = 5_000;
    let call = Call::new("Hello world", Some("Be kind."), json!({"provider": "mock"}));
    let time = fastest(3, || {
        let runtime = runtime(&[]);
        block_on(async {
            for _ in 0..CALLS {
                black_box(runtime.llm_call(&call).await.unwrap());
            }
        });
    });
    println!(
        "llm_call with the mock: {:.0} calls a second, {:.1} µs each",
        CALLS as f64 / time.as_secs_f64(),
        time.as_secs_f64() * 1e6 / CALLS as f64
    );
}

// Many streams.

const PIECES: usize = 40;
const PAUSE: Duration = Duration::from_millis(100);

fn now_us() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// A server that writes the current time in every chunk. It has its own thread and reactor.
fn timing_server(streams: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut sockets = Vec::new();
        for _ in 0..streams {
            let (mut socket, _) = listener.accept().unwrap();
            let mut head = [0; 2048];
            let _ = socket.read(&mut head).unwrap();
            socket.set_nodelay(true).unwrap();
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").unwrap();
            sockets.push(socket);
        }
        // Distributed over the pause, like streams of different callers.
        let step = PAUSE / u32::try_from(streams).unwrap();
        let start = Instant::now();
        for piece in 0..PIECES {
            for (n, socket) in sockets.iter_mut().enumerate() {
                let due = start + PAUSE * u32::try_from(piece).unwrap() + step * u32::try_from(n).unwrap();
                let wait = due.saturating_duration_since(Instant::now());
                if wait > Duration::from_micros(200) {
                    std::thread::sleep(wait);
                }
                let event =
                    json!({"choices": [{"index": 0, "delta": {"content": format!("{} ", now_us())}}]});
                let _ = socket.write_all(format!("data: {event}\n\n").as_bytes());
            }
        }
        for socket in &mut sockets {
            let _ = socket.write_all(b"data: [DONE]\n\n");
        }
    });
    url
}

/// The reader of the streams.
#[derive(Clone, Copy)]
enum Reader {
    /// `llm_stream`.
    Ours,
    /// The plain HTTP client, which only reads the time in a chunk: the cost of the machine, the server and the
    /// client without Harn.
    Plain,
}

/// Returns the delays of the chunks in a text, in µs.
fn delays_in(text: &str) -> impl Iterator<Item = u64> {
    let now = now_us();
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|t| t.len() > 10);
    numbers.map(move |t| now.saturating_sub(t.parse::<u64>().unwrap()))
}

async fn read_ours(runtime: Rc<LlmRuntime>, url: String, seen: Rc<RefCell<Vec<u64>>>) {
    let call = Call::new("hi", None, json!({"provider": "openai", "base_url": url}));
    let mut deliver = |item| match item {
        harn_llm::runtime::StreamItem::Result(_) => {}
        StreamItem::Chunk(text) => seen.borrow_mut().extend(delays_in(&text)),
        StreamItem::Failed(error) => panic!("{error:?}"),
    };
    runtime.llm_stream(&call, &mut deliver).await.unwrap();
}

async fn read_plain(client: reqwest::Client, url: String, seen: Rc<RefCell<Vec<u64>>>) {
    let mut reply = client.post(url).body("{}").send().await.unwrap();
    while let Some(chunk) = reply.chunk().await.unwrap() {
        seen.borrow_mut().extend(delays_in(str::from_utf8(&chunk).unwrap()));
    }
}

/// Runs this number of concurrent streams. Returns the sorted delays of all chunks in µs, and the peak memory of
/// the reader.
fn run_streams(reader: Reader, streams: usize) -> (Vec<u64>, u64) {
    let url = timing_server(streams);
    let delays: Rc<RefCell<Vec<u64>>> = Rc::new(RefCell::new(Vec::with_capacity(streams * PIECES)));
    let seen = delays.clone();
    let memory = allocation_counter::measure(move || {
        block_on(async {
            let runtime = runtime(&[("OPENAI_API_KEY", "k")]);
            let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
            let start = |_| match reader {
                Reader::Ours => {
                    tokio::task::spawn_local(read_ours(runtime.clone(), url.clone(), seen.clone()))
                }
                Reader::Plain => {
                    tokio::task::spawn_local(read_plain(client.clone(), url.clone(), seen.clone()))
                }
            };
            let tasks: Vec<_> = (0..streams).map(start).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
    let mut delays = delays.take();
    delays.sort_unstable();
    assert_eq!(delays.len(), streams * PIECES);
    (delays, memory.bytes_max)
}

fn many() {
    println!(
        "streams at once, {PIECES} pieces each, one every {} ms; the delay of a piece",
        PAUSE.as_millis()
    );
    rustls::crypto::ring::default_provider().install_default().unwrap();
    for (name, reader) in [("the HTTP client alone", Reader::Plain), ("llm_stream", Reader::Ours)] {
        let (_, idle) = run_streams(reader, 1);
        for streams in [1, 100, 1_000] {
            let (delays, memory) = run_streams(reader, streams);
            let at = |share: f64| delays[((delays.len() - 1) as f64 * share) as usize] as f64 / 1e3;
            println!(
                "  {name:21} {streams:5} streams: {:.2} ms (median), {:.2} ms (99 %), {:.2} ms (most); {:.1} KiB a stream",
                at(0.5),
                at(0.99),
                at(1.0),
                memory.saturating_sub(idle) as f64 / 1024.0 / (streams.max(2) - 1) as f64,
            );
        }
    }
}
