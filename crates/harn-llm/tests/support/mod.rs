//! A strict HTTP server for tests: each connection uses the next script, and every request is stored.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test support; each file uses a part of it"
)]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use harn_llm::embedder::LocalFuture;
use harn_llm::{Call, CallError, Embedder, LlmError, LlmRuntime, StdEmbedder};
use harn_value::{Data as Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A step of the server on one connection, after it has read the request.
#[derive(Clone)]
pub enum Step {
    /// Writes bytes.
    Send(Vec<u8>),
    /// Writes `piece` repeatedly until `total` bytes are sent or the client has disconnected.
    Flood { piece: Vec<u8>, total: usize },
    /// Writes bytes one at a time, each in a separate packet.
    Drip(Vec<u8>),
    /// Sends nothing until the client disconnects.
    Hang,
}

impl Step {
    fn bytes(&self) -> &[u8] {
        match self {
            Step::Send(bytes) | Step::Drip(bytes) => bytes,
            Step::Flood { .. } | Step::Hang => &[],
        }
    }
}

/// A complete reply; the connection is closed after its body.
pub fn reply(status: &str, headers: &str, body: &str) -> Vec<Step> {
    let head =
        format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    vec![Step::Send(head.into_bytes()), Step::Send(body.as_bytes().to_vec())]
}

pub fn ok_json(body: &Value) -> Vec<Step> {
    reply("200 OK", "content-type: application/json\r\n", &body.to_string())
}

/// An event stream without a length, which ends with the connection.
pub fn stream(body: &str) -> Vec<Step> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    vec![Step::Send(head.as_bytes().to_vec()), Step::Send(body.as_bytes().to_vec())]
}

pub use harn_strict_servers::Request as Seen;

pub struct Server {
    pub url: String,
    pub seen: Rc<RefCell<Vec<Seen>>>,
    /// Connections that the client closed while the server was silent.
    pub closed: Rc<Cell<usize>>,
    /// Bytes sent by `Step::Flood`.
    pub flooded: Rc<Cell<usize>>,
}

impl Server {
    /// Starts a server; must run inside a `LocalSet`.
    pub async fn start(scripts: Vec<Vec<Step>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Rc<RefCell<Vec<Seen>>> = Rc::default();
        let log = seen.clone();
        let closed: Rc<Cell<usize>> = Rc::default();
        let count = closed.clone();
        let flooded: Rc<Cell<usize>> = Rc::default();
        let flood = flooded.clone();
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        tokio::task::spawn_local(async move {
            for script in scripts {
                let Ok((socket, _)) = listener.accept().await else { return };
                let log = log.clone();
                tokio::task::spawn_local(serve(
                    socket,
                    script,
                    test.clone(),
                    log,
                    count.clone(),
                    flood.clone(),
                ));
            }
        });
        Server { url, seen, closed, flooded }
    }

    pub fn request(&self, n: usize) -> Seen {
        self.seen.borrow()[n].clone()
    }

    /// Waits until `count` clients have disconnected from a silent server.
    pub async fn hung_up(&self, count: usize) {
        for _ in 0..2000 {
            if self.closed.get() == count {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("the connection is still open");
    }

    pub fn count(&self) -> usize {
        self.seen.borrow().len()
    }
}

async fn serve(
    mut socket: TcpStream,
    mut script: Vec<Step>,
    test: String,
    log: Rc<RefCell<Vec<Seen>>>,
    closed: Rc<Cell<usize>>,
    flooded: Rc<Cell<usize>>,
) {
    let mut bytes = Vec::new();
    let mut buffer = [0u8; 4096];
    let split = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at;
        }
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..split]).into_owned();
    let length: usize =
        Seen::parse(&head, b"").header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while bytes.len() < split + 4 + length {
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
        }
    }
    let request = Seen::parse(&head, &bytes[split + 4..]);
    let canned: Vec<u8> = script.iter().flat_map(Step::bytes).copied().collect();
    let reply = harn_strict_servers::answer(&test, &request, &canned);
    if reply != canned {
        script = vec![Step::Send(reply)];
    }
    log.borrow_mut().push(request);
    for step in script {
        match step {
            Step::Send(bytes) => {
                if socket.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Step::Flood { piece, total } => {
                let mut sent = 0;
                while sent < total && socket.write_all(&piece).await.is_ok() {
                    sent += piece.len();
                    flooded.set(flooded.get() + piece.len());
                }
            }
            Step::Drip(bytes) => {
                let _ = socket.set_nodelay(true);
                for byte in bytes {
                    if socket.write_all(&[byte]).await.is_err() {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
            }
            Step::Hang => {
                // Ends when the client disconnects.
                let _ = socket.read(&mut buffer).await;
                closed.set(closed.get() + 1);
                return;
            }
        }
    }
    let _ = socket.shutdown().await;
}

/// An embedder that stores warnings, traces and waits, and never actually waits.
pub struct TestEmbedder {
    env: StdEmbedder,
    pub warnings: RefCell<Vec<String>>,
    pub traces: RefCell<Vec<Value>>,
    pub waits: RefCell<Vec<u64>>,
    pub now: RefCell<i64>,
    ids: RefCell<u64>,
}

impl Embedder for TestEmbedder {
    fn system(&self) -> Rc<dyn harn_system::System> {
        self.env.system()
    }
    fn env(&self, name: &str) -> Option<String> {
        self.env.env(name)
    }
    fn now_ms(&self) -> i64 {
        *self.now.borrow()
    }
    fn sleep(&self, time: std::time::Duration) -> LocalFuture<'_, ()> {
        let ms = u64::try_from(time.as_millis()).unwrap();
        self.waits.borrow_mut().push(ms);
        *self.now.borrow_mut() += i64::try_from(ms).unwrap();
        Box::pin(async {})
    }
    fn new_id(&self) -> String {
        *self.ids.borrow_mut() += 1;
        format!("id-{}", self.ids.borrow())
    }
    fn warn(&self, message: &str) {
        self.warnings.borrow_mut().push(message.to_string());
    }
    fn trace(&self, event: Value) {
        self.traces.borrow_mut().push(event);
    }
}

pub fn embedder(env: &[(&str, &str)]) -> Rc<TestEmbedder> {
    Rc::new(TestEmbedder {
        env: StdEmbedder::with_env(env.iter().copied()),
        warnings: RefCell::default(),
        traces: RefCell::default(),
        waits: RefCell::default(),
        now: RefCell::new(1_700_000_000_000),
        ids: RefCell::default(),
    })
}

pub fn runtime(env: &[(&str, &str)]) -> (Rc<LlmRuntime>, Rc<TestEmbedder>) {
    let embedder = embedder(env);
    (Rc::new(LlmRuntime::new(embedder.clone())), embedder)
}

pub const KEYS: &[(&str, &str)] =
    &[("OPENAI_API_KEY", "sk-open-1234"), ("ANTHROPIC_API_KEY", "sk-anth-1234")];

/// Runs a test on one thread, like the VM.
pub async fn local<T>(work: impl Future<Output = T>) -> T {
    tokio::task::LocalSet::new().run_until(work).await
}

/// Calls a provider at the server, without retries unless the options set them.
pub async fn ask(server: &Server, provider: &str, options: Value) -> Result<Value, CallError> {
    let (runtime, _) = runtime(KEYS);
    ask_with(&runtime, server, provider, options).await
}

pub async fn ask_with(
    runtime: &LlmRuntime,
    server: &Server,
    provider: &str,
    options: Value,
) -> Result<Value, CallError> {
    let mut all = json!({"provider": provider, "base_url": server.url, "llm_retries": 0});
    all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    runtime.llm_call(&Call::new("hi", None, all)).await
}

/// Returns the error of a call that must have failed after its options were accepted.
pub fn llm_error(result: Result<Value, CallError>) -> LlmError {
    match result {
        Err(CallError::Llm(error)) => error,
        other => panic!("expected a call error, got {other:?}"),
    }
}

pub const OPENAI_STREAM: &str = concat!(
    ": keep-alive\r\n\r\n",
    "data: {\"model\":\"gpt-4o-2024\",\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"<thi\"}}]}\r\n\r\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"nk>hm</think>\\n\\nGrüße \"}}]}\r\n\r\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"😀!\"}}]}\r\n\r\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"read\",\"arguments\":\"{\\\"pa\"}}]}}]}\r\n\r\n",
    "data: not json\r\n\r\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"th\\\":\\\"ü\\\"}\"}}]}}]}\r\n\r\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\r\n\r\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":7,\"prompt_tokens_details\":{\"cached_tokens\":3}}}\r\n\r\n",
    "data: [DONE]"
);

pub const ANTHROPIC_STREAM: &str = concat!(
    "event: message_start\n",
    "data: {\"type\":\"message_start\",\"message\":{\"model\":\"claude\",\"content\":[],\"usage\":{\"input_tokens\":9,\"cache_read_input_tokens\":4,\"output_tokens\":1}}}\n\n",
    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm ü\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"sig\"}}\n\n",
    "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello \"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"wörld\"}}\n\n",
    "data: {\"type\":\"content_block_stop\",\"index\":1}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"server_tool_use\",\"id\":\"s1\",\"name\":\"tool_search_tool_bm25\",\"input\":{}}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"query\\\":\\\"x\\\"}\"}}\n\n",
    "data: {\"type\":\"content_block_stop\",\"index\":2}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":3,\"content_block\":{\"type\":\"tool_search_tool_result\",\"tool_use_id\":\"s1\",\"content\":{\"type\":\"tool_search_tool_search_result\",\"tool_references\":[{\"type\":\"tool_reference\",\"tool_name\":\"deploy\"}]}}}\n\n",
    "data: {\"type\":\"content_block_stop\",\"index\":3}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":4,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"deploy\",\"input\":{}}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":4,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"env\\\":\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":4,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\\\"prod\\\"}\"}}\n\n",
    "data: {\"type\":\"content_block_stop\",\"index\":4}\n\n",
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":21}}\n\n",
    "data: {\"type\":\"message_stop\"}\n\n"
);

pub const RESPONSES_STREAM: &str = concat!(
    "data: {\"type\":\"response.created\",\"response\":{\"model\":\"gpt-5.4\",\"output\":[]}}\n\n",
    "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"summary\":[]}}\n\n",
    "data: {\"type\":\"response.reasoning_summary_text.delta\",\"output_index\":0,\"delta\":\"thought\"}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"thought\"}]}}\n\n",
    "data: {\"type\":\"response.output_text.delta\",\"output_index\":1,\"delta\":\"Hé\"}\n\n",
    "data: {\"type\":\"response.output_text.delta\",\"output_index\":1,\"delta\":\"llo\"}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"Héllo\"}]}}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"output_index\":2,\"item\":{\"type\":\"tool_search_call\",\"id\":\"q\",\"execution\":\"server\",\"arguments\":{\"query\":\"x\"}}}\n\n",
    "data: {\"type\":\"response.output_item.added\",\"output_index\":3,\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"\"}}\n\n",
    "data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":3,\"delta\":\"{\\\"a\\\":1}\"}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"output_index\":3,\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}\n\n",
    "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[],\"usage\":{\"input_tokens\":5,\"output_tokens\":6,\"input_tokens_details\":{\"cached_tokens\":0,\"cache_write_tokens\":0},\"output_tokens_details\":{\"reasoning_tokens\":0}}}}\n\n"
);

pub const OLLAMA_STREAM: &str = concat!(
    "{\"model\":\"llama3.2:latest\",\"message\":{\"role\":\"assistant\",\"thinking\":\"hm\"},\"done\":false}\n",
    "{\"model\":\"llama3.2:latest\",\"message\":{\"role\":\"assistant\",\"content\":\"Hé\"},\"done\":false}\r\n",
    "data: {\"model\":\"llama3.2:latest\",\"message\":{\"role\":\"assistant\",\"content\":\"llo\"},\"done\":false}\n",
    "{\"message\":{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]},\"done\":false}\n",
    "{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":8,\"eval_count\":3}"
);
