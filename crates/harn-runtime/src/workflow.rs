//! Runs workflows: calls models, runs commands, waits and writes records, as the state machine of a run directs.

use std::cell::Cell;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use harn_agent::AgentEvent;
use harn_agent::lifecycle::{Execution as Place, Life, Mode, Request};
use harn_agent::policy::Policy;
use harn_agent::workflow::{
    Answer, Command, Execution, LIMIT_KEYS, Mark, Report, RunOptions, Step, Work, World, apply, unpack,
};
use harn_llm::Category;
use harn_stdlib::{run_folder, timestamp_now};
use harn_system::{System, SystemExt};
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Value};
use harn_vm::closure::Partial;
use harn_vm::{Cx, Error, Limit, Result};

use crate::builtins::{call_once, read_graph};
use crate::convert::{data, data_option, entry, from_json, text, thrown, to_json};
use crate::driver::run_loop;
use crate::kept::Kept;
use crate::llm_embedder::{new_id, prompts_of, runtime};
use crate::option_check::refuse_of_run;
use crate::policy::narrow;
use crate::session::Sessions;
use crate::task_facts;
use crate::worker::place::{self, Tree};
use crate::worker::registry::{Worker, tell_updates};
use crate::worker::stage::{check_transcript, dict_of};
use crate::worker::start::{Start, start, stop, wait};
use crate::worker::terms::{Limits, Terms};

/// Maximum size of a record that is read: 1 GiB.
const MAX_RECORD: u64 = 1 << 30;

/// Runs a workflow from its arguments to its result dict.
///
/// # Errors
/// Invalid arguments, a graph that cannot run, a violated contract, or an error that a stage throws.
pub(crate) async fn execute(
    cx: &Cx,
    task: &Value,
    graph: &Value,
    artifacts: &Value,
    given: &Value,
) -> Result<Value> {
    let wrong = |error: String| thrown(format!("workflow_execute: {error}"));
    let Some(task) = text(task) else {
        return Err(wrong("missing task".to_owned()));
    };
    let ids = || new_id(cx.vm());
    let mut kept = Kept::default();
    let written = graph;
    let graph = read_graph(cx, "workflow_execute", graph, &mut kept, &ids)?;
    refuse_of_run(cx, "workflow_execute", given)?;
    crate::audit::read("workflow_execute", given)?;
    for key in ["metadata", "trigger_event"] {
        data_option("workflow_execute", given, key)?;
    }
    check_transcript(&entry(given, "transcript")).map_err(|why| wrong(format!("option {why}")))?;
    let limits = limits_of(written, given)?;
    let mut options = RunOptions::of(&kept.take(given)).map_err(wrong)?;
    if let Some(path) = &options.resume_path {
        options.resume_run = load(&*cx.system(), path).map_err(wrong)?;
    }
    if let Some(path) = &options.replay_path {
        options.replay_run = load(&*cx.system(), path).map_err(wrong)?;
    }
    let file = RecordFile::choose(cx, &options);
    let mut audit = json!({"execution_kind": "workflow"});
    options
        .audit
        .as_object()
        .into_iter()
        .flatten()
        .for_each(|(key, value)| audit[key.as_str()] = value.clone());
    let (now, prose) = (|| timestamp_now(cx), prompts_of(cx));
    let world = World { now: &now, ids: &ids, prose: &prose };
    let workflow = graph.id.clone();
    let run = Execution::new(graph, &task, &data("workflow_execute: artifacts", artifacts)?, options, &world);
    let mut run = run.map_err(|error| match error.strip_prefix("invalid workflow: ") {
        Some(_) => Error::runtime(format!("workflow_execute: {error}")),
        None => wrong(error),
    })?;
    if let Some(file) = &file {
        run.persisted_at(&file.shown);
    }
    let mut place = Place::from_option(run.execution(), "workflow").map_err(wrong)?;
    place::settle(cx, &mut place, run.id()).map_err(wrong)?;
    let tree = Tree::make(cx, &place).await.map_err(wrong)?;
    let moved = (!place.is_default()).then(|| Limit::layer(cx, |inner| place::layer(inner, &place)));
    audit["run_id"] = run.id().into();
    let said = task_facts::say(cx, [("workflow_id", &*workflow), ("run_id", run.id())]);
    let audited = crate::audit::audited(cx, &audit, None);
    let logged = file.as_ref().and_then(|file| crate::llm_layers::log_beside(cx, &file.path));
    let ended = drive(cx, &mut run, &kept, &limits, file.as_ref(), &world).await;
    drop((said, audited, logged, moved));
    let finished = ended.is_ok();
    if let Err(error) = tree.close(ended, wrong).await {
        if error.is_catchable() && !finished {
            run.abort(&error.uncaught_text(), &world);
            // The error of the stage takes precedence; a failure to write its record is reported as a warning.
            let written = file.as_ref().map_or(Ok(0), |file| file.write(cx, &run.packed_record()));
            if let Err(problem) = written {
                cx.system().write_err(&harn_syntax::notice(&format!("warning: {}", problem.uncaught_text())));
            }
        }
        return Err(error);
    }
    Ok(kept.give(&run.result()))
}

/// Returns the limits of a run and its graph for all work of the run. They apply on top of the nodes' limits, so that
/// nodes can only restrict.
fn limits_of(graph: &Value, options: &Value) -> Result<Limits> {
    let run = ["approval_policy"].into_iter().chain(LIMIT_KEYS).map(|key| (key, entry(options, key)));
    let named = [("policy", "capability_policy"), ("approval_policy", "approval_policy")];
    let graph = named.map(|(key, from)| (key, entry(graph, from)));
    let asked = |config: Value| Limits::asked("workflow_execute", &config);
    Ok(asked(dict_of(run))?.below(asked(dict_of(graph))?))
}

async fn drive(
    cx: &Cx,
    run: &mut Execution,
    kept: &Kept,
    limits: &Limits,
    file: Option<&RecordFile>,
    world: &World<'_>,
) -> Result<()> {
    loop {
        let answer = match run.next_step(world).map_err(thrown)? {
            Step::Finished => return Ok(()),
            Step::Persist => {
                if let Some(file) = file {
                    file.save(cx, run)?;
                }
                // A chain of nodes without waits has no other point to yield.
                cx.give_way().await?;
                Answer::Done
            }
            Step::Pause(ms) => {
                cx.sleep(Duration::from_millis(ms)).await?;
                Answer::Done
            }
            Step::Command(command) => {
                let _terms = Terms::open(cx, limits, &Place::default(), None, &[]);
                run_command(cx, &command).await?
            }
            Step::Run { works, at_once, enough, tolerant } => {
                let _terms = Terms::open(cx, limits, &Place::default(), None, &[]);
                let reports = if tolerant {
                    run_many(cx, works, kept, at_once, enough).await?
                } else {
                    let mut reports = Vec::with_capacity(works.len());
                    for work in &works {
                        let options = kept.give(&work.options);
                        reports.push(Some(Ok(perform(cx, work, &options).await?)));
                    }
                    reports
                };
                Answer::Worked(reports)
            }
        };
        run.answer(answer, world).map_err(thrown)?;
        for handoff in run.take_handoffs() {
            if let Some(around) = cx.state::<Sessions>().running(cx) {
                around.session.tell(cx, &AgentEvent::Handoff(json!({"handoff": handoff}))).await;
            }
        }
    }
}

/// Performs a unit of work, directly or in a worker.
async fn perform(cx: &Cx, work: &Work, options: &Value) -> Result<Report> {
    let _said = task_facts::say(cx, [("run_id", &*work.run_id), ("stage_id", &*work.stage_id)]);
    match &work.delegate {
        Some(request) => delegate(cx, work, options, request).await,
        None => ask(cx, work, options).await,
    }
}

/// Stops a worker when its caller no longer waits.
struct Delegated {
    cx: Cx,
    worker: Rc<Worker>,
    deadlines: usize,
}

impl Drop for Delegated {
    fn drop(&mut self) {
        if !self.worker.life().blocks() {
            return;
        }
        // Workers of a run that is suspended, to be resumed in another process, are not cancelled.
        let task = self.cx.task();
        if task.is_aborted() || task.interrupted_since(self.deadlines) {
            stop(&self.cx, &self.worker);
        } else if let Some(task) = self.worker.task.borrow().clone() {
            task.abort();
        }
    }
}

/// Performs a unit of work in a worker.
async fn delegate(cx: &Cx, work: &Work, options: &Value, request: &Json) -> Result<Report> {
    let described = Work { delegate: None, ..work.clone() };
    let mut config = Dict::new();
    config.insert("work", from_json(&Json::lossy(&described)));
    config.insert("work_options", options.clone());
    let task = request["task"].as_str().unwrap_or_default().to_owned();
    let worker = start(
        cx,
        Start {
            function: "workflow_execute",
            mode: Mode::DelegatedStage,
            name: request["name"].as_str().unwrap_or_default().to_owned(),
            request: Request::new(&task, work.system.as_deref(), &request["metadata"]),
            task,
            config: config.into(),
            limits: Value::from(Dict::new()),
            transcript: Json::Null,
            artifacts: Vec::new(),
            session_id: None,
            parent_stage_id: Some(work.stage_id.clone()),
            parent_run_id: Some(work.run_id.clone()),
        },
    )
    .await?;
    let delegated = Delegated { cx: cx.clone(), worker, deadlines: cx.task().deadline_count() };
    let worker = &delegated.worker;
    tell_updates(cx, worker).await;
    wait(cx, worker).await?;
    tell_updates(cx, worker).await;
    let mut handle = to_json(&worker.handle());
    if worker.life() != Life::Completed {
        return Err(thrown(format!(
            "workflow stage {}: its worker {}: {}",
            work.node_id,
            worker.life().as_str(),
            handle["error"].printed()
        )));
    }
    let done = handle["result"]["report"].take();
    let mut report: Report = done.read().map_err(thrown)?;
    if let Some(fields) = handle.as_object_mut() {
        // The stage in the record contains the result.
        fields.shift_remove("result");
    }
    report.worker = handle;
    Ok(report)
}

/// Returns the result of a worker that performed a unit of work.
pub(crate) async fn delegated(cx: &Cx, config: &Value, task: &str, execution: &Json) -> Result<Json> {
    let report = perform_described(cx, &entry(config, "work"), &entry(config, "work_options")).await?;
    let report = to_json(&report);
    Ok(json!({
        "status": "completed", "mode": "delegated_stage", "task": task, "result": report["result"], "artifacts": [],
        "transcript": report["result"]["transcript"], "execution": execution, "report": report,
    }))
}

/// Runs the loop or call of a stage; returns its result, and the displayed text. In a worker, a single call is checked
/// against the task's policies, like one of `llm_call`; `workflow_execute` has checked them for all stages.
pub(crate) async fn ask_model(
    cx: &Cx,
    work: &Work,
    options: &Value,
    in_worker: bool,
) -> Result<(Json, String)> {
    if let Some(session) = &work.needs_session
        && cx.state::<Sessions>().known(session).is_none()
    {
        let name = &work.node_id;
        return Err(thrown(format!("workflow stage {name} requires an existing session ({session})")));
    }
    let prompt = Value::from(work.prompt.as_str());
    let system = work.system.as_deref().map_or(Value::NIL, Value::from);
    if work.is_loop {
        let ended = run_loop(cx, &prompt, &system, options).await?;
        return Ok((ended.result, ended.last_visible));
    }
    let result = if in_worker {
        let Some(call) = cx.vm().builtin("llm_call") else { return Err(thrown("llm_call is not there")) };
        cx.call(&call.value(), [prompt, system, options.clone()]).await?
    } else {
        call_once(cx, &prompt, &system, options).await?
    };
    let result = to_json(&result);
    let text = result["visible_text"].as_str().or_else(|| result["text"].as_str());
    let text = text.unwrap_or_default().to_owned();
    Ok((result, text))
}

/// Performs a unit of work with a model, and reports it.
async fn ask(cx: &Cx, work: &Work, options: &Value) -> Result<Report> {
    let started = cx.system().monotonic();
    let done = ask_model(cx, work, options, false).await;
    let duration =
        i64::try_from(cx.system().monotonic().saturating_sub(started).as_millis()).unwrap_or(i64::MAX);
    let (result, said) = match done {
        Ok(done) => done,
        // If a reply violates the contract of its stage, the stage fails without an error of the program.
        Err(error) if error.is_catchable() && is_invalid(&to_json(&error.caught())) => {
            let error = to_json(&error.caught());
            (json!({"status": Category::SchemaValidation.as_str(), "error": error}), String::new())
        }
        Err(error) => return Err(error),
    };
    let llm = runtime(cx);
    let route = llm.render_context(&to_json(options)).unwrap_or_default();
    let asked = result["transcript"]["events"].as_array().into_iter().flatten();
    let asked = asked.filter_map(|event| event["metadata"]["model"].as_str()).next_back();
    let model =
        result["model"].as_str().or(asked).or_else(|| route["model"].as_str()).unwrap_or_default().to_owned();
    let counts = if result["llm"].is_object() { &result["llm"] } else { &result };
    let tokens = |key: &str| counts[key].as_i64().unwrap_or(0);
    let cost = llm.cost(&model, tokens("input_tokens"), tokens("output_tokens"));
    Ok(Report::of(result, &said, &model, cost, duration))
}

fn is_invalid(error: &Json) -> bool {
    error["category"] == Category::SchemaValidation.as_str()
}

/// Performs units of work, each in a separate task, until enough have succeeded. Stops those that are no longer needed.
async fn run_many(
    cx: &Cx,
    works: Vec<Work>,
    kept: &Kept,
    at_once: usize,
    enough: usize,
) -> Result<Vec<Option<std::result::Result<Report, String>>>> {
    type Running<'a> = Pin<Box<dyn Future<Output = Result<Value>> + 'a>>;
    let body = cx
        .vm()
        .builtin("__workflow_work")
        .map(|builtin| Partial::value(builtin, Vec::new()))
        .ok_or_else(|| Error::runtime("no builtin __workflow_work"))?;
    let node = works.first().map(|work| work.node_id.clone()).unwrap_or_default();
    let mut out: Vec<Option<std::result::Result<Report, String>>> = works.iter().map(|_| None).collect();
    let mut waiting = works.into_iter().enumerate();
    let mut running: Vec<(usize, Running<'_>)> = Vec::new();
    let mut good = 0;
    while good < enough {
        while running.len() < at_once
            && let Some((at, work)) = waiting.next()
        {
            let options = kept.give(&work.options);
            let description = Json::lossy(&work);
            let task = cx.spawn(&body, vec![from_json(&description), options]);
            running.push((at, Box::pin(async move { cx.join(&task).await })));
        }
        if running.is_empty() {
            break;
        }
        let (place, result) = std::future::poll_fn(|context| {
            for (place, (_, work)) in running.iter_mut().enumerate() {
                if let Poll::Ready(result) = work.as_mut().poll(context) {
                    return Poll::Ready((place, result));
                }
            }
            Poll::Pending
        })
        .await;
        let (at, _) = running.remove(place);
        let report = match result {
            Ok(value) => Ok(to_json(&value).read::<Report>().map_err(thrown)?),
            Err(error) if error.is_catchable() => {
                // The error is in the record; also print it for the user.
                let text = error.uncaught_text();
                cx.system().write_err(&harn_syntax::notice(&format!(
                    "warning: workflow stage {node}, item {}: {text}",
                    at + 1
                )));
                Err(text)
            }
            Err(error) => return Err(error),
        };
        good += usize::from(report.as_ref().is_ok_and(Report::succeeded));
        out[at] = Some(report);
    }
    Ok(out)
}

/// The body of a task of [`run_many`].
pub(crate) async fn perform_described(cx: &Cx, work: &Value, options: &Value) -> Result<Value> {
    let work: Work = to_json(work).read().map_err(thrown)?;
    let report = perform(cx, &work, options).await?;
    Ok(from_json(&Json::lossy(&report)))
}

/// Runs a command that verifies, with the builtin that runs programs, so that command policies apply.
async fn run_command(cx: &Cx, command: &Command) -> Result<Answer> {
    let _limit = limited(cx, &command.policy)?;
    let exec = cx.vm().builtin("exec").ok_or_else(|| Error::runtime("no builtin exec"))?;
    let shell: &[&str] = match cx.system().platform().0 {
        "windows" => &["cmd", "/d", "/s", "/c"],
        _ => &["/bin/sh", "-lc"],
    };
    let mut arguments: Vec<Value> = shell.iter().copied().chain([&*command.line]).map(Value::from).collect();
    if let Some(timeout) = command.timeout_ms {
        arguments.push(from_json(&json!({"timeout": timeout})));
    }
    let ran = to_json(&cx.call(&exec.value(), arguments).await?);
    let text = |key: &str| ran[key].as_str().unwrap_or_default().to_owned();
    let (mut stderr, timed_out) = (text("stderr"), ran["timed_out"] == true);
    for note in [text("reason"), text("message")] {
        stderr.push_str(&note);
    }
    if timed_out {
        stderr.push_str("the command took longer than its timeout");
    }
    let status = ran["status"].as_i64().filter(|_| !timed_out).unwrap_or(-1);
    Ok(Answer::Ran { stdout: text("stdout"), stderr, status })
}

/// Applies the policy of a node to its work.
fn limited(cx: &Cx, policy: &Json) -> Result<Option<Limit>> {
    if policy.is_null() {
        return Ok(None);
    }
    let mut options = Map::new();
    options.insert("policy".to_owned(), policy.clone());
    let policy = Policy::from_options(&options).map_err(thrown)?;
    Ok(Some(narrow(cx, policy, Value::NIL)))
}

/// The location of a run's record.
struct RecordFile {
    path: PathBuf,
    shown: String,
    /// The state of the files.
    saved: Cell<Option<Saved>>,
}

/// The part of a record that is in its files, and their sizes.
#[derive(Clone, Copy)]
struct Saved {
    mark: Mark,
    whole: usize,
    later: usize,
}

impl RecordFile {
    /// Returns `None` if no path is configured and the run must not write.
    fn choose(cx: &Cx, options: &RunOptions) -> Option<RecordFile> {
        let given = options.persist_path.as_ref().or(options.resume_path.as_ref()).cloned();
        let given = given.or_else(|| options.resume_run["persisted_path"].as_str().map(str::to_owned));
        match given {
            Some(shown) => {
                let path = cx.system().work_dir().join(&shown);
                Some(RecordFile { path, shown, saved: Cell::default() })
            }
            None => {
                let path = run_folder(cx).join(format!("{}.json", new_id(cx.vm())));
                let shown = path.display().to_string();
                cx.may_keep(&path).then(|| RecordFile { path, shown, saved: Cell::default() })
            }
        }
    }

    fn failed(&self, cx: &Cx, error: &std::io::Error) -> Error {
        let text =
            || thrown(format!("workflow_execute: cannot write the run record {}: {error}", self.shown));
        cx.refusal(error).unwrap_or_else(text)
    }

    /// Writes the complete record.
    fn write(&self, cx: &Cx, record: &Json) -> Result<usize> {
        let written = write_record(&*cx.system(), &self.path, record);
        let size = written.map_err(|error| self.failed(cx, &error))?;
        let later = later_than(&self.path);
        if cx.system().link_facts(&later).is_ok() {
            // The record now contains its content. If it remains, it has no effect.
            let _ = cx.system().remove(&later);
        }
        Ok(size)
    }

    /// Stores the state of the run. The complete record is written at the start, at the end, and when the changes have
    /// grown as large as the record; changes in between are appended to a second file. So the total number of written
    /// bytes is linear in the size of the record instead of quadratic.
    fn save(&self, cx: &Cx, run: &Execution) -> Result<()> {
        if let Some(saved) = self.saved.get().filter(|_| !run.is_closing()) {
            let changes = serde_json::to_vec(&run.changes(saved.mark));
            let mut line = changes.map_err(|error| self.failed(cx, &std::io::Error::other(error)))?;
            line.push(b'\n');
            let later = saved.later + line.len();
            if later <= saved.whole {
                let kept = cx.system().append(&later_than(&self.path), &line);
                kept.map_err(|error| self.failed(cx, &error))?;
                self.saved.set(Some(Saved { mark: run.mark(), later, ..saved }));
                return Ok(());
            }
        }
        let whole = self.write(cx, &run.packed_record())?;
        self.saved.set(Some(Saved { mark: run.mark(), whole, later: 0 }));
        Ok(())
    }
}

/// Returns the path of the file with the changes since a record was written.
fn later_than(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".later");
    name.into()
}

/// Writes a complete record, and returns its size.
pub(crate) fn write_record(system: &dyn System, path: &Path, record: &Json) -> std::io::Result<usize> {
    let text = serde_json::to_vec(record).map_err(std::io::Error::other)?;
    system.write_with_folder(path, |system| system.replace(path, &text))?;
    Ok(text.len())
}

/// Parses JSON. Artifacts may be nested deeper than the fast parser supports.
fn parsed(bytes: &[u8]) -> std::result::Result<Json, String> {
    serde_json::from_slice(bytes).or_else(|quick| {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        let read = harn_value::json::parse(text).map_err(|_| quick.to_string())?;
        harn_value::json::to_data(&read).map_err(|_| quick.to_string())
    })
}

/// Reads a record of a run.
pub(crate) fn load(system: &dyn System, path: &str) -> std::result::Result<Json, String> {
    let file = system.work_dir().join(path);
    let bytes =
        system.read(&file, MAX_RECORD).map_err(|e| format!("cannot read the run record {path}: {e}"))?;
    let mut run = parsed(&bytes).map_err(|e| format!("{path} is not valid JSON: {e}"))?;
    if run["_type"] != "run_record" {
        return Err(format!("{path} is not a run record"));
    }
    if run["status"] == "running" {
        let later = match system.read(&later_than(&file), MAX_RECORD) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            // Without the changes, completed work would be repeated.
            read => {
                read.map_err(|e| format!("cannot read {path}.later, which belongs to the run record: {e}"))?
            }
        };
        // An incomplete last line was not acknowledged.
        let lines = later.split(|byte| *byte == b'\n').map(parsed);
        let _ = lines.map_while(std::result::Result::ok).all(|changes| apply(&mut run, &changes));
    }
    unpack(&mut run);
    Ok(run)
}
