//! `harn serve mcp`: serves a program as an MCP server. harn-runtime implements the server; this module transports
//! messages, over standard input and output with one JSON-RPC message per line, or over HTTP (`http.rs`, with access
//! control in `guard.rs`).

mod guard;
mod http;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use harn_check::Settings;
use harn_runtime::{McpServer, ModelTraffic};
use harn_system::{Layer, Real, System, SystemExt, Waiting};
use harn_value::Data as Json;
use harn_vm::{Instance, Interrupt, block_on};
use tokio::sync::{mpsc, oneshot};

use crate::args::{McpArgs, Transport, usage_error};
use crate::health::{Health, Usage};
use crate::json_rpc::{self, INVALID_REQUEST, PARSE_ERROR, Problem, Wire};
use crate::logs::Log;
use crate::program::{self, Prepared, Program, RunOptions};

/// Maximum number of concurrent requests. Further ones wait.
const AT_ONCE: usize = 256;

/// How long requests may take to end after the client disconnects.
const GRACE: Duration = Duration::from_secs(2);

/// The methods with their own label in metrics. Other names are chosen by clients.
const METHODS: [&str; 12] = [
    "initialize",
    "ping",
    "completion/complete",
    "logging/setLevel",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "tools/call",
    "tools/list",
];

/// The system of the program: standard input and output carry the protocol.
struct ServerSystem {
    real: Real,
    log: Arc<Log>,
}

impl Layer for ServerSystem {
    fn inner(&self) -> &dyn System {
        &self.real
    }

    fn write_out(&self, text: &str) -> io::Result<()> {
        self.log.write(text);
        Ok(())
    }

    fn write_err(&self, text: &str) {
        self.log.write(text);
    }

    fn read_line(&self) -> Waiting<'static, io::Result<Option<String>>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// A server whose requests are counted in the metrics.
struct Counted {
    server: McpServer,
    health: Arc<Health>,
    log: Arc<Log>,
    /// The program's usage that is already counted.
    used: Cell<Usage>,
}

impl Counted {
    async fn answer(&self, method: &str, params: &Json) -> Result<Json, harn_runtime::McpProblem> {
        let mut request = CountedRequest {
            counted: self,
            method: METHODS.into_iter().find(|known| *known == method).unwrap_or("other"),
            outcome: "cancelled",
            begun: Real::new().monotonic(),
        };
        self.health.request_begins();
        let answer = self.server.answer(method, params).await;
        // A failed tool returns a result with `isError`.
        let fails = answer.as_ref().map_or(true, |answer| answer["isError"] == true);
        request.outcome = if fails { "error" } else { "ok" };
        answer
    }
}

/// A request in progress. It is counted when dropped, also if the client cancels it.
struct CountedRequest<'a> {
    counted: &'a Counted,
    method: &'static str,
    outcome: &'static str,
    begun: Duration,
}

impl Drop for CountedRequest<'_> {
    fn drop(&mut self) {
        let Counted { server, health, log, used } = self.counted;
        let time = Real::new().monotonic().saturating_sub(self.begun);
        health.request_ends(self.method, self.outcome, time);
        log.request(self.method, self.outcome, time);
        let now = Usage::of(server.instance().vm());
        health.used(now.minus(used.replace(now)));
    }
}

/// Serves a program. Returns the exit code.
pub(crate) fn serve(args: &McpArgs) -> u8 {
    let settings = match args.transport {
        Transport::Http => Some(http::Settings::of(args).unwrap_or_else(|why| usage_error("serve", &why))),
        Transport::Stdio => None,
    };
    let of_http = [
        ("--bind", args.bind.is_some()),
        ("--path", args.path.is_some()),
        ("--card", args.card.is_some()),
        ("--api-key", args.api_key.is_some()),
        ("--hmac-secret", args.hmac_secret.is_some()),
    ];
    if let Some((name, _)) = of_http.iter().find(|(_, given)| *given && settings.is_none()) {
        usage_error("serve", &format!("{name} needs --transport http"));
    }
    let log = Arc::new(Log::new(args.operation.log_format));
    let fail = |why: &str| {
        log.write(&format!("{}\n", harn_syntax::printable(why)));
        1
    };
    let health = match args.operation.serve() {
        Ok(health) => health,
        Err(why) => return fail(&format!("error: {why}")),
    };
    let packages = crate::cmd::packages::ready(args.file.parent().into_iter());
    let program = match packages.and_then(|()| Program::read(&args.file)) {
        Ok(program) => program,
        Err(why) => return fail(&why),
    };
    let traffic = ModelTraffic { replies: args.llm_mock.clone(), ..ModelTraffic::default() };
    let mut options = RunOptions { traffic, ..RunOptions::default() };
    let mut interrupt = None;
    let system = Rc::new(ServerSystem { real: Real::new(), log: log.clone() });
    let prepared = program::prepare(&program, &mut options, system, |means| {
        interrupt = Some(means.clone());
        crate::signal::stop_on_signal(means);
    });
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(end) => return told(end, &log),
    };
    prepared.warnings.iter().for_each(|problem| log.write(&problem.draw(false)));
    let listener = match settings.map(http::Settings::listen).transpose() {
        Ok(listener) => listener,
        Err(why) => return fail(&format!("error: {why}")),
    };
    let name = name(&args.file, &program);
    let world = (&health, &log);
    match block_on(run(&program, prepared, &name, &interrupt.unwrap_or_default(), listener, world)) {
        Ok(code) => code,
        Err(error) => fail(&format!("[harn] error: cannot start the event loop: {error}")),
    }
}

/// Returns the name of the server: the package's name if the file is the package's main program, otherwise the file's
/// name.
fn name(file: &Path, program: &Program) -> String {
    let stem = file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    match stem.as_str() {
        "main" | "lib" => Settings::find(&Real::new(), program.dir()).0.package.unwrap_or(stem),
        _ => stem,
    }
}

/// Reports a program that does not run. Returns the exit code.
fn told(end: program::End, log: &Log) -> u8 {
    match end.settle() {
        (code, Err(failure)) => {
            log.write(&failure.draw(false));
            code
        }
        (code, Ok(_)) => code,
    }
}

async fn run(
    program: &Program,
    prepared: Prepared,
    name: &str,
    interrupt: &Interrupt,
    listener: Option<http::Listener>,
    (health, log): (&Arc<Health>, &Arc<Log>),
) -> u8 {
    health.watch_event_loop();
    let fail = |why: &str| {
        log.write(&format!("error: {}\n", harn_syntax::printable(why)));
        1
    };
    if let Err(why) = harn_runtime::install_manifest_hooks(&prepared.vm, program.dir()).await {
        return fail(&why);
    }
    harn_runtime::start_servers(&prepared.vm).await;
    let (instance, functions) = prepared.instance(program.text());
    let vm = instance.vm().clone();
    let ended = |error| told(program.end(&vm, &harn_vm::Outcome { result: Err(error) }), log);
    if let Err(error) = begin(&instance).await {
        let code = ended(error);
        let _ = instance.end().await;
        return code;
    }
    let mut server = McpServer::new(instance, name);
    let offered = server.offer(&functions);
    let (health, used) = (health.clone(), Cell::default());
    let server = Counted { server, health, log: log.clone(), used };
    server.health.ready();
    let code = match (offered, listener) {
        (Ok(()), None) => converse(&server, interrupt).await,
        (Ok(()), Some(listener)) => http::converse(&server, listener, interrupt).await,
        (Err(error), _) => fail(&error.uncaught_text()),
    };
    server.health.not_ready("stopping");
    match server.server.instance().end().await {
        Ok(()) => code,
        Err(error) => code.max(ended(error)),
    }
}

/// Runs the program as `harn run` does.
async fn begin(instance: &Instance) -> harn_vm::Result<()> {
    instance.begin().await?;
    if let Some(call) = instance.pipeline(None, &[])? {
        call.result().await?;
    }
    Ok(())
}

/// An event of the server.
enum Event {
    /// A line of the client; `None` at the end of input.
    Line(Option<Result<String, Problem>>),
    /// The end of a request. A cancelled request has no response.
    Ended(Json, Option<Result<Json, harn_runtime::McpProblem>>),
    /// A signal.
    Stop,
}

type Request<'a> = Pin<Box<dyn Future<Output = Event> + 'a>>;

/// The requests in progress, with a handle to cancel each.
struct Running<'a> {
    server: &'a Counted,
    wire: &'a Wire,
    requests: FuturesUnordered<Request<'a>>,
    cancels: BTreeMap<String, oneshot::Sender<()>>,
    greeted: bool,
}

/// Serves requests until the client disconnects. Returns the exit code.
async fn converse(server: &Counted, interrupt: &Interrupt) -> u8 {
    let (send, mut lines) = mpsc::channel(AT_ONCE);
    std::thread::spawn(move || json_rpc::lines().all(|line| send.blocking_send(line).is_ok()));
    let wire = Wire::default();
    let requests = FuturesUnordered::new();
    let mut running = Running { server, wire: &wire, requests, cancels: BTreeMap::new(), greeted: false };
    loop {
        let event = tokio::select! {
            biased;
            () = interrupt.asked() => Event::Stop,
            Some(event) = running.requests.next() => event,
            line = lines.recv(), if running.requests.len() < AT_ONCE => Event::Line(line),
        };
        match event {
            Event::Stop => return 0,
            Event::Line(None) => break,
            Event::Line(Some(Ok(line))) => running.take(&line),
            Event::Line(Some(Err(problem))) => wire.answer(&Json::Null, Err(problem)),
            Event::Ended(id, answer) => {
                if let Some(code) = running.ended(&id, answer) {
                    return code;
                }
            }
        }
        if wire.is_closed() {
            return 0;
        }
    }
    // The client has disconnected. Its requests may end within the grace period.
    let last = async {
        while let Some(event) = running.requests.next().await {
            if let Event::Ended(id, answer) = event
                && let Some(code) = running.ended(&id, answer)
            {
                return code;
            }
        }
        0
    };
    Real::new().within(GRACE, last).await.unwrap_or(0)
}

impl Running<'_> {
    /// Handles a message.
    fn take(&mut self, line: &str) {
        let message: Json = match serde_json::from_str(line) {
            Ok(message) => message,
            Err(error) => {
                let problem = Problem::new(PARSE_ERROR, format!("the line is not valid JSON: {error}"));
                return self.wire.answer(&Json::Null, Err(problem));
            }
        };
        let id = message.get("id").filter(|id| !id.is_null()).cloned();
        let Some(method) = message["method"].as_str() else {
            // The server sends no requests, so responses of the client are ignored.
            if message.get("result").is_none() && message.get("error").is_none() {
                let problem = Problem::new(INVALID_REQUEST, "a message needs a `method`");
                self.wire.answer(&id.unwrap_or_default(), Err(problem));
            }
            return;
        };
        let params = message["params"].clone();
        let Some(id) = id else {
            if method == "notifications/cancelled"
                && let Some(cancel) = self.cancels.remove(&params["requestId"].to_string())
            {
                let _ = cancel.send(());
            }
            return;
        };
        let refuse = |why: &str| self.wire.answer(&id, Err(Problem::new(INVALID_REQUEST, why)));
        if !id.is_string() && !id.is_number() {
            return refuse("an `id` is a string or a number");
        }
        if self.cancels.contains_key(&id.to_string()) {
            return refuse("a request of this `id` is still being answered");
        }
        match method {
            "initialize" => self.greeted = true,
            "ping" => {}
            _ if !self.greeted => return refuse("`initialize` comes first"),
            _ => {}
        }
        let (cancel, cancelled) = oneshot::channel();
        self.cancels.insert(id.to_string(), cancel);
        let (server, method) = (self.server, method.to_owned());
        self.requests.push(Box::pin(async move {
            tokio::select! {
                biased;
                Ok(()) = cancelled => Event::Ended(id, None),
                answer = server.answer(&method, &params) => Event::Ended(id, Some(answer)),
            }
        }));
    }

    /// Sends a response. Returns the exit code if the program called `exit` during the request.
    fn ended(&mut self, id: &Json, answer: Option<Result<Json, harn_runtime::McpProblem>>) -> Option<u8> {
        self.cancels.remove(&id.to_string());
        let answer = answer?;
        let code = answer.as_ref().err().and_then(|problem| problem.exit);
        self.wire.answer(id, answer.map_err(|problem| Problem::new(problem.code, problem.message)));
        code.map(|code| code.clamp(0, 255) as u8)
    }
}
