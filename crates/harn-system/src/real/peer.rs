//! Programs that answer requests in JSON-RPC 2.0, one message per line.
//!
//! A peer is not trusted: messages have a size limit, invalid messages are skipped, responses without a waiting request
//! are dropped, an unreadable response is an error of its request, and every wait has a time limit. A peer that has
//! ended is not restarted, because another process would not know the earlier messages.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::process::Stdio;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{Notify, OnceCell, mpsc, oneshot};

use super::process::prepared;
use crate::os::Group;
use crate::peer::{Peer, PeerRequest, PeerStep};

/// How long a peer that is no longer needed may take to exit.
const GRACE: Duration = Duration::from_secs(1);

/// Bytes of standard error that are retained for the error message when the peer ends.
const LAST_WORDS: usize = 2048;

/// Capacity of the queue of messages to a peer. Requests of a peer that does not read get no response.
const WAITING: usize = 64;

/// Capacity of the queue of messages from a peer. If it is full, requests are rejected and notifications dropped.
const HEARD: usize = 256;

/// The connections of a process.
#[derive(Default)]
pub(super) struct Peers(RefCell<BTreeMap<String, Rc<OnceCell<Connection>>>>);

impl Peers {
    /// Sends a request to a peer, which is started if necessary.
    pub(super) async fn ask(&self, request: PeerRequest) -> io::Result<Vec<u8>> {
        let slot = self.0.borrow_mut().entry(request.peer.id.clone()).or_default().clone();
        let answer = async {
            let connection = slot.get_or_try_init(|| Connection::open(&request.peer)).await?;
            match (request.step, request.method.as_str()) {
                (PeerStep::Ask, "initialize") => return Ok(connection.hello.clone()),
                (PeerStep::Ask, method) => {
                    connection.begin(request.exchange, method, &request.params).await?
                }
                (PeerStep::Continue, _) => connection.reply(&request.params).await?,
                (PeerStep::Send, _) => return connection.reply(&request.params).await.map(|()| Vec::new()),
                (PeerStep::Poll, _) => {
                    return Ok(state(&connection.shared).heard.pop_front().unwrap_or_default());
                }
            }
            connection.wait(request.exchange).await
        };
        let late = |_| {
            let text = format!("no answer to {} within {:?}", request.method, request.timeout);
            io::Error::new(io::ErrorKind::TimedOut, text)
        };
        tokio::time::timeout(request.timeout, answer).await.map_err(late)?
    }

    /// Closes a connection if it exists; with `ID#EXCHANGE` cancels only an exchange.
    pub(super) fn leave(&self, id: &str) {
        let exchange = id.rsplit_once('#').and_then(|(id, exchange)| Some((id, exchange.parse().ok()?)));
        match exchange {
            Some((id, exchange)) => {
                let slot = self.0.borrow().get(id).cloned();
                if let Some(connection) = slot.as_ref().and_then(|slot| slot.get()) {
                    connection.cancel(exchange);
                }
            }
            None => {
                self.0.borrow_mut().remove(id);
            }
        }
    }
}

/// State shared with the reading task.
#[derive(Default)]
struct State {
    /// The pending requests by id.
    asked: HashMap<u64, oneshot::Sender<io::Result<Vec<u8>>>>,
    last_id: u64,
    /// Messages of the peer that no caller has received.
    heard: VecDeque<Vec<u8>>,
    /// The reason why the peer has ended.
    ended: Option<String>,
}

/// The state, and a signal for each message for callers.
#[derive(Default)]
struct Common {
    state: Mutex<State>,
    arrived: Notify,
}

type Shared = Arc<Common>;

fn state(shared: &Shared) -> MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pending request between two steps of its exchange.
struct Open {
    id: u64,
    answer: oneshot::Receiver<io::Result<Vec<u8>>>,
}

/// A running peer, terminated on drop.
struct Connection {
    shared: Shared,
    out: mpsc::Sender<Vec<u8>>,
    /// The response to `initialize`.
    hello: Vec<u8>,
    exchanges: RefCell<HashMap<u64, Open>>,
    /// Dropping it ends the reading task.
    _stay: oneshot::Sender<()>,
}

impl Connection {
    async fn open(peer: &Peer) -> io::Result<Connection> {
        let mut command = prepared(&peer.command);
        command.stdin(Stdio::piped());
        let (mut child, group) = Group::start(&mut command)?;
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("the program has no standard streams"));
        };
        let shared = Shared::default();
        let (out, messages) = mpsc::channel(WAITING);
        let (stay, left) = oneshot::channel();
        tokio::spawn(write(input, messages));
        let limit = usize::try_from(peer.command.max_output).unwrap_or(usize::MAX);
        let process = Process { child, group, errors };
        let takes = Takes { shared: shared.clone(), out: out.downgrade(), heard: peer.heard.clone() };
        tokio::spawn(read(output, process, takes, left, limit));
        let exchanges = RefCell::default();
        let mut connection = Connection { shared, out, hello: Vec::new(), exchanges, _stay: stay };
        connection.begin(0, "initialize", &peer.hello).await?;
        connection.hello = connection.next(0, std::future::pending()).await?;
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        connection.send(&ready).await?;
        Ok(connection)
    }

    async fn send(&self, message: &Json) -> io::Result<()> {
        self.out.send(line(message)).await.map_err(|_| self.ended())
    }

    /// Sends a request.
    async fn begin(&self, exchange: u64, method: &str, params: &str) -> io::Result<()> {
        let params: Json = serde_json::from_str(params)?;
        let (tell, answer) = oneshot::channel();
        let id = {
            let mut state = state(&self.shared);
            if state.ended.is_some() {
                drop(state);
                return Err(self.ended());
            }
            state.last_id += 1;
            let id = state.last_id;
            state.asked.insert(id, tell);
            id
        };
        let mut asked = Asked { connection: self, id: Some(id) };
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await?;
        asked.id = None;
        self.exchanges.borrow_mut().insert(exchange, Open { id, answer });
        Ok(())
    }

    /// Sends a message of the caller to the peer, unless it is `null`.
    async fn reply(&self, message: &str) -> io::Result<()> {
        match serde_json::from_str(message)? {
            Json::Null => Ok(()),
            message => self.send(&message).await,
        }
    }

    /// Waits for the response of an exchange, or for an earlier message of the peer.
    async fn wait(&self, exchange: u64) -> io::Result<Vec<u8>> {
        self.next(exchange, self.next_heard()).await
    }

    /// Waits for the response of an exchange, or for another event that is returned first. Dropping the wait cancels
    /// the exchange.
    async fn next(&self, exchange: u64, other: impl Future<Output = Vec<u8>>) -> io::Result<Vec<u8>> {
        let Some(mut open) = self.exchanges.borrow_mut().remove(&exchange) else {
            let text = "it was restarted before it answered";
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, text));
        };
        let mut asked = Asked { connection: self, id: Some(open.id) };
        let came = tokio::select! {
            biased;
            message = other => Ok(message),
            answer = &mut open.answer => Err(answer),
        };
        asked.id = None;
        match came {
            Ok(message) => {
                self.exchanges.borrow_mut().insert(exchange, open);
                Ok(message)
            }
            Err(answer) => answer.map_err(|_| self.ended())?,
        }
    }

    fn cancel(&self, exchange: u64) {
        let open = self.exchanges.borrow_mut().remove(&exchange);
        drop(open.map(|open| Asked { connection: self, id: Some(open.id) }));
    }

    async fn next_heard(&self) -> Vec<u8> {
        loop {
            if let Some(message) = state(&self.shared).heard.pop_front() {
                return message;
            }
            self.shared.arrived.notified().await;
        }
    }

    fn ended(&self) -> io::Error {
        let why = state(&self.shared).ended.clone();
        io::Error::new(io::ErrorKind::BrokenPipe, why.unwrap_or_else(|| "it has ended".to_owned()))
    }
}

/// A pending request. Dropping it sends a cancellation to the peer.
struct Asked<'a> {
    connection: &'a Connection,
    id: Option<u64>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        if state(&self.connection.shared).asked.remove(&id).is_some() {
            let params = json!({"requestId": id});
            let told = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
            // If the queue is full, the peer does not read, so the cancellation is dropped.
            let _ = self.connection.out.try_send(line(&told));
        }
    }
}

fn line(message: &Json) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

async fn write(mut input: ChildStdin, mut messages: mpsc::Receiver<Vec<u8>>) {
    while let Some(message) = messages.recv().await {
        // The reading task detects the end of the peer.
        if input.write_all(&message).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
}

/// The process of a peer, which ends with it.
struct Process {
    child: Child,
    group: Group,
    errors: ChildStderr,
}

/// Reads the messages of a peer until it ends or is no longer needed.
async fn read(
    output: ChildStdout,
    process: Process,
    takes: Takes,
    mut left: oneshot::Receiver<()>,
    limit: usize,
) {
    let Process { mut child, mut group, errors } = process;
    let mut output = BufReader::new(output);
    let mut errors = Errors { from: Some(errors), kept: Vec::new() };
    let mut message = Vec::new();
    let mut why = None;
    loop {
        tokio::select! {
            biased;
            _ = &mut left => break,
            () = errors.next(), if errors.from.is_some() => {}
            read = output.fill_buf() => {
                let Ok(bytes) = read else { break };
                if bytes.is_empty() {
                    break;
                }
                let end = bytes.iter().position(|byte| *byte == b'\n');
                let part = end.map_or(bytes.len(), |end| end + 1);
                message.extend_from_slice(&bytes[..part]);
                output.consume(part);
                if message.len() > limit {
                    why = Some(format!("a message is larger than {limit} bytes"));
                    break;
                }
                if end.is_some() {
                    takes.take(std::mem::take(&mut message));
                }
            }
        }
    }
    if why.is_none() {
        // The connection closes the input of the peer; a peer that has closed its output is about to exit.
        if let Ok(Ok(status)) = tokio::time::timeout(GRACE, child.wait()).await {
            group.forget();
            why = Some(match status.code() {
                Some(code) => format!("it has ended with exit code {code}"),
                None => "it was ended by a signal".to_owned(),
            });
        }
    }
    group.end();
    let _ = tokio::time::timeout(Duration::from_millis(50), errors.rest()).await;
    let mut why = why.unwrap_or_else(|| "it has closed its output".to_owned());
    if let Some(last) = errors.last_line() {
        why = format!("{why}: {last}");
    }
    let mut state = state(&takes.shared);
    state.ended = Some(why);
    state.asked.clear();
}

/// Fails the request whose response cannot be parsed, because no other response will follow. If the message is too
/// malformed to identify the request, all pending requests fail.
fn refuse(shared: &Shared, message: &[u8], why: &serde_json::Error) {
    let mut state = state(shared);
    let waiting: Vec<_> = match receiver(message) {
        Some(id) => id.and_then(|id| state.asked.remove(&id)).into_iter().collect(),
        None if is_meant_as_message(message) => state.asked.drain().map(|(_, tell)| tell).collect(),
        None => Vec::new(),
    };
    for tell in waiting {
        let text = format!("it has sent an answer that is not valid JSON: {why}");
        // The same kind of error as for a peer that has ended: errors of a started peer have this kind. The request may
        // have been cancelled.
        let _ = tell.send(Err(io::Error::new(io::ErrorKind::BrokenPipe, text)));
    }
}

/// Returns the id of the request that an object answers; `Some(None)` for an object that is not a response; `None` for
/// an incomplete object. Only the top-level names are inspected, so the nesting depth and the encoding of other values
/// are irrelevant.
fn receiver(message: &[u8]) -> Option<Option<u64>> {
    let (mut at, mut depth, mut id, mut is_answer) = (0, 0_usize, None, true);
    while let Some(byte) = message.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let begin = at;
                while *message.get(at)? != b'"' {
                    at += if message[at] == b'\\' { 2 } else { 1 };
                }
                let name = &message[begin..at];
                at += 1;
                let rest = message.get(at..)?.trim_ascii_start();
                if let Some(value) = rest.strip_prefix(b":").filter(|_| depth == 1) {
                    let value = value.trim_ascii_start();
                    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    match name {
                        b"id" => id = String::from_utf8_lossy(&value[..digits]).parse().ok(),
                        b"method" => is_answer = false,
                        _ => {}
                    }
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    let is_object = message.trim_ascii_start().starts_with(b"{") && depth == 0;
    is_object.then_some(id.filter(|_| is_answer))
}

/// Returns whether a malformed line was meant as a message; other lines are program output.
fn is_meant_as_message(line: &[u8]) -> bool {
    let name = b"\"jsonrpc\"";
    line.trim_ascii_start().starts_with(b"{") && line.windows(name.len()).any(|part| part == name)
}

/// Dispatches messages of a peer.
struct Takes {
    shared: Shared,
    out: mpsc::WeakSender<Vec<u8>>,
    heard: Vec<String>,
}

impl Takes {
    fn take(&self, message: Vec<u8>) {
        let fields = match serde_json::from_slice::<Json>(&message) {
            Ok(Json::Object(fields)) => fields,
            Ok(_) => return,
            Err(why) => return refuse(&self.shared, &message, &why),
        };
        let id = fields.get("id").filter(|id| !id.is_null());
        match (fields.get("method").and_then(Json::as_str), id) {
            (Some(method), id) if self.heard.iter().any(|heard| heard == method) => {
                let mut state = state(&self.shared);
                if state.heard.len() < HEARD {
                    state.heard.push_back(message);
                    self.shared.arrived.notify_one();
                } else if let Some(id) = id {
                    self.reject(id, -32603, "too many requests wait for the client");
                }
            }
            (Some("ping"), Some(id)) => self.send(&json!({"jsonrpc": "2.0", "id": id, "result": {}})),
            (Some(_), Some(id)) => self.reject(id, -32601, "Method not found"),
            (None, Some(id)) => {
                let asked = id.as_u64().and_then(|id| state(&self.shared).asked.remove(&id));
                if let Some(asked) = asked {
                    let _ = asked.send(Ok(message));
                }
            }
            (_, None) => {}
        }
    }

    fn reject(&self, id: &Json, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    fn send(&self, message: &Json) {
        if let Some(out) = self.out.upgrade() {
            let _ = out.try_send(line(message));
        }
    }
}

/// The last bytes of the standard error of a peer.
struct Errors {
    from: Option<ChildStderr>,
    kept: Vec<u8>,
}

impl Errors {
    async fn next(&mut self) {
        let Some(from) = &mut self.from else { return };
        let mut bytes = [0; 1024];
        match from.read(&mut bytes).await {
            Ok(0) | Err(_) => self.from = None,
            Ok(read) => {
                self.kept.extend_from_slice(&bytes[..read]);
                let over = self.kept.len().saturating_sub(LAST_WORDS);
                self.kept.drain(..over);
            }
        }
    }

    async fn rest(&mut self) {
        while self.from.is_some() {
            self.next().await;
        }
    }

    fn last_line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.kept);
        let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        Some(last.chars().take(300).collect())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::process::Command;
    use crate::wait::Uncertain;

    fn request(line: &str, method: &str) -> PeerRequest {
        let arguments = vec!["-c".to_owned(), line.to_owned()];
        let command = Command { arguments, max_output: 10_000, ..Command::new("sh") };
        PeerRequest {
            peer: Peer {
                id: "a".to_owned(),
                command,
                hello: "{}".to_owned(),
                heard: vec!["roots/list".to_owned()],
            },
            exchange: 1,
            step: PeerStep::Ask,
            method: method.to_owned(),
            params: "{}".to_owned(),
            timeout: Duration::from_secs(60),
            uncertain: Uncertain::Fail,
        }
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(future)
    }

    fn ask(line: &str, method: &str) -> io::Result<String> {
        let answer = block_on(Peers::default().ask(request(line, method)));
        answer.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    const HELLO: &str = r#"read l; echo '{"id":1,"result":{"who":"a"}}'; read l;"#;

    #[test]
    fn it_is_greeted_once_and_answers() {
        let told = format!(r#"{HELLO} read l; echo "$l" >&2; echo '{{"id":2,"result":7}}'; read l"#);
        assert_eq!(ask(&told, "initialize").expect("answers"), r#"{"id":1,"result":{"who":"a"}}"#);
        assert_eq!(ask(&told, "x/y").expect("answers"), r#"{"id":2,"result":7}"#);
    }

    #[test]
    fn what_is_no_answer_is_passed_over() {
        let noise = r#"echo hello; echo; echo '[1]'; echo '{"id":9,"result":1}'; echo '{"method":"notifications/x"}';
            echo '{"id":"p","method":"ping"}'; read p; echo '{"id":"q","method":"other/list"}'; read q;"#;
        let line = format!(r#"{HELLO} read l; {noise} echo "{{\"id\":2,\"result\":[$p,$q]}}"; read l"#);
        let answer: Json = serde_json::from_str(&ask(&line, "x").expect("answers")).expect("JSON");
        assert_eq!(answer["result"][0]["result"], json!({}));
        assert_eq!(answer["result"][1]["error"]["code"], -32601);
    }

    #[test]
    fn requests_of_the_peer_come_before_its_answer() {
        let script = r#"read l; echo '{"id":"q","method":"roots/list"}'; read q; echo "{\"id\":2,\"result\":[$q]}"; read l;
            echo '{"id":"w","method":"roots/list"}'; read c; echo "$c" >&2; exit 3"#;
        let line = format!("{HELLO} {script}");
        block_on(async {
            let peers = Peers::default();
            let step =
                |step, params: &str| PeerRequest { step, params: params.to_owned(), ..request(&line, "x") };
            let json = |bytes: Vec<u8>| serde_json::from_slice::<Json>(&bytes).expect("JSON");
            assert_eq!(
                json(peers.ask(step(PeerStep::Ask, "{}")).await.expect("asks"))["method"],
                "roots/list"
            );
            let reply = r#"{"id":"q","result":7}"#;
            let answer = peers.ask(step(PeerStep::Continue, reply)).await.expect("answers");
            assert_eq!(json(answer)["result"][0]["result"], 7);
            let next = PeerRequest { exchange: 2, ..step(PeerStep::Ask, "{}") };
            assert_eq!(json(peers.ask(next.clone()).await.expect("asks"))["id"], "w");
            assert!(peers.ask(step(PeerStep::Poll, "{}")).await.expect("polls").is_empty());
            // Cancelling an exchange between two steps.
            peers.leave("a#2");
            let late = PeerRequest { step: PeerStep::Continue, params: "null".to_owned(), ..next };
            assert!(peers.ask(late).await.expect_err("cancelled").to_string().contains("restarted"));
            let error = peers.ask(step(PeerStep::Ask, "{}")).await.expect_err("it ends").to_string();
            assert!(error.contains("notifications/cancelled") && error.contains("exit code 3"), "{error}");
        });
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_told_at_once() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let answers = [
            (format!(r#"echo '{{"jsonrpc":"2.0","id":2,"result":{deep}}}'"#), "recursion limit exceeded"),
            (r#"printf '{"id":2,"result":"\377"}\n'"#.to_owned(), "invalid unicode code point"),
            (r#"echo '{"jsonrpc":"2.0","id":2,"result":'"#.to_owned(), "EOF while parsing"),
        ];
        for (answer, why) in answers {
            let error =
                ask(&format!("{HELLO} read l; {answer}; read l; sleep 60"), "x").expect_err("no answer");
            let said = error.to_string();
            assert!(
                said.starts_with("it has sent an answer that is not valid JSON: ") && said.contains(why),
                "{said}"
            );
        }
        // Other output and responses to other requests are ignored.
        let noise = format!(r#"echo "{{'id': 2}}"; echo '{{"id":7,"result":{deep}}}';"#);
        let line = format!(r#"{HELLO} read l; {noise} echo '{{"id":2,"result":7}}'; read l"#);
        assert_eq!(ask(&line, "x").expect("answers"), r#"{"id":2,"result":7}"#);
    }

    #[test]
    fn one_that_ends_says_why() {
        let error = ask(&format!("{HELLO} read l; echo bad luck >&2; exit 3"), "x").expect_err("it ends");
        assert_eq!(error.to_string(), "it has ended with exit code 3: bad luck");
        let error = ask("exit 4", "x").expect_err("it ends");
        assert_eq!(error.to_string(), "it has ended with exit code 4");
        assert_eq!(
            ask("/no/such/program; exit 127", "x").expect_err("it ends").kind(),
            io::ErrorKind::BrokenPipe
        );
    }

    #[test]
    fn one_that_has_ended_stays_so() {
        let line = format!("{HELLO} exit 0");
        block_on(async {
            let peers = Peers::default();
            for _ in 0..3 {
                let error = peers.ask(request(&line, "x")).await.expect_err("it has ended");
                assert_eq!(error.to_string(), "it has ended with exit code 0");
            }
            peers.leave("a");
            peers.ask(request(&line, "initialize")).await.expect("another process");
        });
    }

    #[test]
    fn endless_messages_and_endless_waits_end() {
        let error = ask(&format!("{HELLO} tr '\\0' 'x' < /dev/zero"), "x").expect_err("too large");
        assert_eq!(error.to_string(), "a message is larger than 10000 bytes");
        let mut late = request(&format!("{HELLO} yes"), "x");
        late.timeout = Duration::from_millis(300);
        let error = block_on(Peers::default().ask(late)).expect_err("no answer");
        assert_eq!(error.to_string(), "no answer to x within 300ms");
    }

    #[test]
    fn leaving_ends_it_with_what_it_has_started() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let note = folder.path().join("pid");
        let line = format!("{HELLO} sleep 1000 & echo $! > {}; trap '' TERM HUP; wait; wait", note.display());
        block_on(async {
            let peers = Peers::default();
            peers.ask(request(&line, "initialize")).await.expect("answers");
            let pid = loop {
                let read = std::fs::read_to_string(&note).unwrap_or_default();
                if read.ends_with('\n') {
                    break read.trim().to_owned();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            };
            peers.leave("a");
            let gone = || {
                !std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
            };
            for _ in 0..500 {
                if gone() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            panic!("it still runs");
        });
    }
}
