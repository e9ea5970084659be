//! `harn dap`: the debug adapter, on standard input and output.
//!
//! The main thread reads requests. A second thread runs the program, stops it between two statements (`stops.rs`) and
//! answers requests while it is stopped. `shared.rs` has the state shared by both threads, `launch.rs` the launch
//! arguments, `breakpoints.rs` the breakpoints, `values.rs` the presentation of values, `host.rs` the calls of the
//! host, and `wire.rs` the messages.

mod breakpoints;
mod host;
mod launch;
mod shared;
mod stops;
mod values;
mod wire;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use harn_runtime::{ModelTraffic, attach_host};
use harn_system::{Layer, Real, Stream, System, Waiting};
use harn_value::{Data as Json, json};
use harn_vm::block_on;

use crate::program::{self, End, Program, RunOptions};
use launch::Launch;
use shared::{Filters, Mode, Shared};
use stops::Stops;
pub(crate) use values::text as shown;
use wire::{Message, Request};

/// Serves an editor until it disconnects or its stream ends. Returns the exit code.
pub(crate) fn dap() -> u8 {
    let shared: Arc<Shared> = Arc::default();
    let mut session = Session { shared: shared.clone(), launch: None, running: None };
    let code = session.serve();
    shared.end();
    if let Some(running) = session.running.take() {
        // Wait only as long as the program's cleanup may take.
        session.wait(running);
    }
    code
}

struct Session {
    shared: Arc<Shared>,
    launch: Option<Launch>,
    running: Option<JoinHandle<()>>,
}

impl Session {
    fn serve(&mut self) -> u8 {
        let mut input = wire::input();
        loop {
            let request = match wire::read(&mut input) {
                Ok(Some(Message::Request(request))) => request,
                Ok(Some(Message::Answer(number, answer))) => {
                    self.shared.answered(number, answer);
                    continue;
                }
                // The editor is gone.
                Ok(None) => return 1,
                Err(error) => {
                    eprintln!("{}", harn_syntax::error_line(&error.to_string()));
                    return 1;
                }
            };
            if self.shared.wire.is_closed() {
                return 1;
            }
            if request.command == "disconnect" {
                self.shared.end();
                self.shared.wire.answer(&request, Ok(Json::Null));
                return 0;
            }
            self.handle(request);
        }
    }

    fn handle(&mut self, request: Request) {
        let list = |name: &str| request.arguments[name].as_array().cloned().unwrap_or_default();
        let answer = match request.command.as_str() {
            "initialize" => {
                self.shared.state().hosts = request.arguments["supportsHarnHostCall"] == true;
                Ok(capabilities())
            }
            "launch" => {
                let launched = self.read_launch(&request);
                let is_ready = launched.is_ok();
                self.shared.wire.answer(&request, launched);
                if is_ready {
                    self.shared.wire.event("initialized", json!({}));
                }
                return;
            }
            "attach" => Err("a program that runs already cannot be attached to: launch it".to_owned()),
            "setBreakpoints" => {
                let path = request.arguments["source"]["path"].as_str().unwrap_or_default().to_owned();
                let told = self.shared.state().breakpoints.set(&path, &list("breakpoints"));
                Ok(json!({"breakpoints": told}))
            }
            "setFunctionBreakpoints" => {
                let told = self.shared.state().breakpoints.set_functions(&list("breakpoints"));
                Ok(json!({"breakpoints": told}))
            }
            "setExceptionBreakpoints" => {
                let filters = list("filters");
                let has = |name: &str| filters.iter().any(|filter| filter == name);
                self.shared.state().filters = Filters { all: has("all"), uncaught: has("uncaught") };
                Ok(json!({}))
            }
            "configurationDone" => {
                self.shared.wire.answer(&request, Ok(json!({})));
                self.start();
                return;
            }
            "threads" => Ok(self.threads()),
            "pause" => {
                let mut state = self.shared.state();
                if !state.stopped {
                    state.mode = Mode::Pause;
                }
                Ok(json!({}))
            }
            "terminate" => {
                self.shared.end();
                Ok(json!({}))
            }
            _ => return self.forward(request),
        };
        self.shared.wire.answer(&request, answer);
    }

    /// Forwards a request to the program's thread, which answers while the program is stopped.
    fn forward(&self, request: Request) {
        let mut state = self.shared.state();
        if state.stopped {
            state.queue.push_back(request);
            drop(state);
            return self.shared.wake();
        }
        drop(state);
        let text = match request.command.as_str() {
            "stackTrace" | "scopes" | "variables" | "evaluate" | "continue" | "next" | "stepIn"
            | "stepOut" | "exceptionInfo" => "the program is running".to_owned(),
            other => format!("`{other}` is not known here"),
        };
        self.shared.wire.answer(&request, Err(text));
    }

    fn threads(&self) -> Json {
        let mut state = self.shared.state();
        state.thread("0");
        let name = |task: &String| if task == "0" { "program".to_owned() } else { format!("task {task}") };
        let threads =
            state.tasks.iter().enumerate().map(|(at, task)| json!({"id": at + 1, "name": name(task)}));
        json!({"threads": threads.collect::<Vec<_>>()})
    }

    fn read_launch(&mut self, request: &Request) -> Result<Json, String> {
        if self.launch.is_some() || self.running.is_some() {
            return Err("a program was launched already".to_owned());
        }
        let launch = launch::read(&request.arguments)?;
        if let Some(folder) = &launch.cwd {
            work_in(folder).map_err(|e| format!("cannot work in {folder}: {e}"))?;
        }
        if launch.stop_on_entry && launch.observed {
            self.shared.state().mode = Mode::Entry;
        }
        self.launch = Some(launch);
        Ok(json!({}))
    }

    fn start(&mut self) {
        if self.running.is_some() {
            return;
        }
        let Some(launch) = self.launch.take() else { return };
        let shared = self.shared.clone();
        // A separate thread, so that this one continues to read requests.
        let running = std::thread::Builder::new().name("program".to_owned()).stack_size(16 << 20);
        match running.spawn(move || {
            let code = run(&launch, &shared);
            shared.wire.event("exited", json!({"exitCode": code}));
            shared.wire.event("terminated", json!({}));
        }) {
            Ok(running) => self.running = Some(running),
            Err(error) => {
                self.shared.output("stderr", &format!("cannot start the program: {error}\n"), Json::Null);
                self.shared.wire.event("terminated", json!({}));
            }
        }
    }

    /// Waits for the program to end, up to a limit.
    fn wait(&self, running: JoinHandle<()>) {
        for _ in 0..100 {
            if running.is_finished() {
                break;
            }
            let _ = block_on(async { Real::new().sleep(std::time::Duration::from_millis(10)).await });
        }
    }
}

/// Changes the working directory of the process. No program is running yet.
#[expect(clippy::disallowed_methods, reason = "the process serves one program, and this is before it starts")]
fn work_in(folder: &str) -> std::io::Result<()> {
    std::env::set_current_dir(folder)
}

fn capabilities() -> Json {
    json!({
        "supportsConfigurationDoneRequest": true,
        "supportsFunctionBreakpoints": true,
        "supportsConditionalBreakpoints": true,
        "supportsHitConditionalBreakpoints": true,
        "supportsLogPoints": true,
        "supportsEvaluateForHovers": true,
        "supportsExceptionInfoRequest": true,
        "supportsTerminateRequest": true,
        "exceptionBreakpointFilters": [
            {"filter": "all", "label": "All errors", "description": "Stop where any error is thrown"},
            {
                "filter": "uncaught", "label": "Uncaught errors", "default": true,
                "description": "Stop where an error is thrown that no `catch` waits for",
            },
        ],
    })
}

/// Runs the program to its end. Returns its exit code.
fn run(launch: &Launch, shared: &Arc<Shared>) -> u8 {
    let fail = |text: &str| {
        shared.output("stderr", &format!("{}\n", text.trim_end()), Json::Null);
        1
    };
    let packages = crate::cmd::packages::ready(launch.program.parent().into_iter());
    let program = match packages.and_then(|()| Program::read(&launch.program)) {
        Ok(program) => program,
        Err(text) => return fail(&text),
    };
    let observer = || Rc::new(Stops::new(shared.clone())) as Rc<dyn harn_vm::Observer>;
    let models = shared.clone();
    let witness: program::Witness = Box::new(move |event_type, fields| {
        if event_type == "transcript" && fields["kind"] == "provider_call_response" {
            models.output("telemetry", "provider_call_response", fields["payload"].clone());
        }
    });
    let mut options = RunOptions {
        argv: launch.args.clone(),
        task: launch.task.clone(),
        traffic: ModelTraffic { replies: launch.replies.clone(), ..ModelTraffic::default() },
        observer: launch.observed.then(observer),
        witness: Some(witness),
        ..RunOptions::default()
    };
    let task = options.task.as_deref().map_or(harn_value::Value::NIL, harn_value::Value::str);
    let console = Rc::new(Console { inner: Real::new(), shared: shared.clone(), line: RefCell::default() });
    let system = console.clone();
    let ready = |interrupt: harn_vm::Interrupt| {
        let mut state = shared.state();
        if state.ending {
            interrupt.interrupt();
        }
        state.interrupt = Some(interrupt);
    };
    let told = |end: End| {
        let (code, result) = end.settle();
        if let Err(failure) = result {
            fail(&failure.draw(false));
        }
        code
    };
    let prepared = match program::prepare(&program, &mut options, system, ready) {
        Ok(prepared) => prepared,
        Err(end) => return told(end),
    };
    let vm = prepared.vm.clone();
    if shared.state().hosts {
        attach_host(&vm, Rc::new(host::Client { shared: shared.clone() }));
    }
    for problem in &prepared.warnings {
        shared.output("stderr", &problem.draw(false), Json::Null);
    }
    let ran = block_on(prepared.run(None, task));
    console.send();
    match ran {
        Ok(Ok(outcome)) => told(program.end(&vm, &outcome)),
        Ok(Err(text)) => fail(&text),
        Err(error) => fail(&format!("cannot start the event loop: {error}")),
    }
}

/// The system of the program: output goes to the client, and standard input is not available.
struct Console {
    inner: Real,
    shared: Arc<Shared>,
    /// The output of an incomplete line.
    line: RefCell<String>,
}

impl Console {
    /// Sends the pending output.
    fn send(&self) {
        let text = self.line.take();
        if !text.is_empty() {
            self.shared.output("stdout", &text, Json::Null);
        }
    }
}

impl Layer for Console {
    fn inner(&self) -> &dyn System {
        &self.inner
    }

    fn write_out(&self, text: &str) -> std::io::Result<()> {
        self.line.borrow_mut().push_str(text);
        if text.contains('\n') {
            self.send();
        }
        Ok(())
    }

    fn flush(&self) -> std::io::Result<()> {
        self.send();
        Ok(())
    }

    fn write_err(&self, text: &str) {
        self.send();
        self.shared.output("stderr", text, Json::Null);
    }

    fn read_line(&self) -> Waiting<'static, std::io::Result<Option<String>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn read_input(&self) -> Waiting<'static, std::io::Result<String>> {
        Box::pin(std::future::ready(Ok(String::new())))
    }

    fn is_terminal(&self, _stream: Stream) -> bool {
        false
    }

    fn has_people(&self) -> bool {
        false
    }
}
