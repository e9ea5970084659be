//! A session: a VM on its own thread that runs the program once per prompt.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_client_protocol_schema::v1::{ErrorCode, PromptResponse, StopReason};
use harn_runtime::{ModelTraffic, attach_host, host_inbox, keep_sessions_of};
use harn_system::{Layer, Real, System, Waiting};
use harn_value::Data as Json;
use harn_value::Value;
use harn_vm::{ErrorKind, Interrupt, block_on};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::client::Client;
use super::log::Log;
use super::protocol::problem;
use super::updates;
use crate::health::{Health, Usage};
use crate::json_rpc::{Problem, Wire};
use crate::logs;
use crate::program::{self, Prepared, Program, RunOptions};

/// The settings shared by all sessions.
#[derive(Clone)]
pub(super) struct Start {
    pub(super) file: PathBuf,
    pub(super) text: String,
    pub(super) traffic: ModelTraffic,
    /// Whether the client supports the requests and updates that Harn adds to the protocol.
    pub(super) extended: bool,
    /// The MCP servers of the client, as JSON.
    pub(super) servers: String,
    pub(super) health: Arc<Health>,
    pub(super) log: Arc<logs::Log>,
}

/// A command to a session.
pub(super) enum Command {
    /// Run the program for a prompt, and answer the request with this id.
    Prompt { id: Json, task: String },
    /// Forward a message of the client to the running loops.
    Tell { method: String, params: Json },
    /// Deliver the client's answer to a request.
    Answer { id: String, answer: Result<Json, Problem> },
    /// End the session.
    Close,
}

/// Whether a prompt is running, and how to stop it.
#[derive(Default)]
struct State {
    busy: bool,
    /// The client cancelled the prompt.
    cancelled: bool,
    interrupt: Option<Interrupt>,
}

type Shared = Arc<Mutex<State>>;

fn lock(state: &Shared) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The handle of a session, used outside of its thread.
pub(super) struct Handle {
    commands: UnboundedSender<Command>,
    state: Shared,
    thread: std::thread::JoinHandle<()>,
}

impl Handle {
    /// Starts a session.
    pub(super) fn start(
        id: &str,
        cwd: &Path,
        log: Option<Log>,
        before: &[Json],
        start: Start,
        wire: Arc<Wire>,
    ) -> Handle {
        let (commands, take) = unbounded_channel();
        let state = Shared::default();
        let calls = updates::calls_in(before);
        let (id, cwd, inside) = (id.to_owned(), cwd.to_owned(), state.clone());
        let thread = std::thread::spawn(move || {
            let client = Rc::new(Client {
                wire,
                session: id,
                cwd,
                extended: start.extended,
                task: RefCell::default(),
                printed: RefCell::default(),
                calls: RefCell::new(calls),
                log,
                tools: RefCell::default(),
                asked: RefCell::new(BTreeMap::new()),
                count: Cell::new(0),
            });
            if let Err(error) = block_on(serve(&start, &client, &inside, take)) {
                eprintln!("[harn] error: cannot start the event loop: {error}");
            }
        });
        Handle { commands, state, thread }
    }

    /// Sends a command. Has no effect after the session has ended.
    pub(super) fn send(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    /// Marks the session as busy. Returns false if it already is.
    pub(super) fn begin(&self) -> bool {
        let mut state = lock(&self.state);
        !std::mem::replace(&mut state.busy, true)
    }

    /// Cancels the running prompt.
    pub(super) fn cancel(&self) {
        let mut state = lock(&self.state);
        if state.busy {
            state.cancelled = true;
            if let Some(interrupt) = &state.interrupt {
                interrupt.interrupt();
            }
        }
    }

    /// Whether the session's thread has ended.
    pub(super) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }
}

/// The system of a session: the working directory comes from the client, and program output goes to the client.
struct SessionSystem {
    real: Real,
    client: Rc<Client>,
    log: Arc<logs::Log>,
}

impl Layer for SessionSystem {
    fn inner(&self) -> &dyn System {
        &self.real
    }

    fn cwd(&self) -> io::Result<PathBuf> {
        Ok(self.client.cwd.clone())
    }

    fn write_out(&self, text: &str) -> io::Result<()> {
        self.client.print(text);
        Ok(())
    }

    fn write_err(&self, text: &str) {
        self.log.write(text);
    }

    fn flush(&self) -> io::Result<()> {
        self.client.flush();
        Ok(())
    }

    // Standard input carries the protocol.
    fn read_line(&self) -> Waiting<'static, io::Result<Option<String>>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

async fn serve(start: &Start, client: &Rc<Client>, state: &Shared, mut commands: UnboundedReceiver<Command>) {
    let mut prepared: Option<Prepared> = None;
    let mut early: Vec<(String, Json)> = Vec::new();
    let mut used = Usage::default();
    while let Some(command) = commands.recv().await {
        match command {
            Command::Close => return,
            Command::Answer { id, answer } => client.answered(&id, answer),
            Command::Tell { method, params } => match &prepared {
                Some(prepared) => tell(prepared, &method, &params),
                None => early.push((method, params)),
            },
            Command::Prompt { id, task } => {
                let begun = Real::new().monotonic();
                start.health.request_begins();
                let answer = match ready(start, client, state, &mut prepared, &mut early) {
                    Err(text) => Err(problem(ErrorCode::InternalError, text)),
                    Ok(prepared) => {
                        client.task.replace(task.clone());
                        client.heard(&task);
                        let mut closed = false;
                        let ended = {
                            let mut run = std::pin::pin!(answer(prepared, client, &task));
                            loop {
                                tokio::select! {
                                    biased;
                                    command = commands.recv(), if !closed => match command {
                                        Some(Command::Answer { id, answer }) => client.answered(&id, answer),
                                        Some(Command::Tell { method, params }) => tell(prepared, &method, &params),
                                        // Prompts are rejected while one is running.
                                        Some(Command::Prompt { .. }) => {}
                                        // The run was interrupted before; its cleanup runs to the end.
                                        Some(Command::Close) | None => closed = true,
                                    },
                                    ended = &mut run => break ended,
                                }
                            }
                        };
                        let result = settle(prepared, state, &ended);
                        if closed {
                            count(start, begun, &result, &mut used, &prepared.vm);
                            return client.wire.answer(&id, result);
                        }
                        result
                    }
                };
                match &prepared {
                    Some(prepared) => count(start, begun, &answer, &mut used, &prepared.vm),
                    None => start.health.request_ends(PROMPT, "error", Duration::ZERO),
                }
                {
                    let mut state = lock(state);
                    (state.busy, state.cancelled) = (false, false);
                    if let Some(interrupt) = &state.interrupt {
                        interrupt.clear();
                    }
                }
                client.wire.answer(&id, answer);
            }
        }
    }
}

/// The name of the method in metrics.
const PROMPT: &str = "session/prompt";

/// Records metrics of a completed prompt.
fn count(
    start: &Start,
    begun: Duration,
    answer: &Result<Json, Problem>,
    used: &mut Usage,
    vm: &Rc<harn_vm::Vm>,
) {
    let outcome = match answer {
        Err(_) => "error",
        Ok(answer) if answer["stopReason"] == "cancelled" => "cancelled",
        Ok(_) => "ok",
    };
    let time = Real::new().monotonic().saturating_sub(begun);
    start.health.request_ends(PROMPT, outcome, time);
    start.log.request(PROMPT, outcome, time);
    let now = Usage::of(vm);
    start.health.used(now.minus(std::mem::replace(used, now)));
}

/// Returns the session's VM with the loaded program. Creates it for the first prompt.
fn ready<'a>(
    start: &Start,
    client: &Rc<Client>,
    state: &Shared,
    prepared: &'a mut Option<Prepared>,
    early: &mut Vec<(String, Json)>,
) -> Result<&'a Prepared, String> {
    if prepared.is_none() {
        let system =
            Rc::new(SessionSystem { real: Real::new(), client: client.clone(), log: start.log.clone() });
        let mut options = RunOptions { traffic: start.traffic.clone(), ..RunOptions::default() };
        let program = Program::of(&start.file, start.text.clone());
        let made = program::prepare(&program, &mut options, system, |interrupt| {
            let mut state = lock(state);
            if state.cancelled {
                interrupt.interrupt();
            }
            state.interrupt = Some(interrupt);
        });
        let made = made.map_err(|end| match end.settle() {
            (_, Err(failure)) => failure.message,
            (_, Ok(_)) => "the program could not be prepared".to_owned(),
        })?;
        attach_host(&made.vm, client.clone());
        harn_runtime::add_client_servers(&made.vm, &start.servers)?;
        if client.log.is_some() {
            // Persist the sessions of the program's loops so that they are available after a load.
            keep_sessions_of(&made.vm, &client.session);
        }
        for (method, params) in early.drain(..) {
            tell(&made, &method, &params);
        }
        *prepared = Some(made);
    }
    prepared.as_ref().ok_or_else(|| "the program could not be prepared".to_owned())
}

fn tell(prepared: &Prepared, method: &str, params: &Json) {
    if let Err(why) = host_inbox(&prepared.vm).tell(method, params) {
        eprint!("{}", harn_syntax::notice(&format!("warning: {why}")));
    }
}

/// Runs the program for a prompt. An error has a message and whether the run was stopped.
async fn answer(prepared: &Prepared, client: &Client, task: &str) -> Result<(), (String, bool)> {
    client.look_for_tools().await;
    match prepared.run(None, Value::str(task)).await {
        Err(text) => Err((text, false)),
        Ok(outcome) => match outcome.result {
            Ok(_) => Ok(()),
            Err(error) => match error.kind() {
                ErrorKind::Exit(0) => Ok(()),
                ErrorKind::Exit(code) => Err((format!("the program ended with exit code {code}"), false)),
                ErrorKind::Abort => Err((String::new(), true)),
                _ => Err((harn_vm::uncaught(&prepared.vm, &error).0.message, false)),
            },
        },
    }
}

/// Builds the response to a prompt.
fn settle(prepared: &Prepared, state: &Shared, ended: &Result<(), (String, bool)>) -> Result<Json, Problem> {
    let stopped = lock(state).cancelled || prepared.vm.interrupt().is_set();
    let reason = match ended {
        Ok(()) if !stopped => StopReason::EndTurn,
        Err((text, false)) if !stopped => return Err(problem(ErrorCode::InternalError, text.clone())),
        _ => StopReason::Cancelled,
    };
    Ok(Json::lossy(&PromptResponse::new(reason)))
}
