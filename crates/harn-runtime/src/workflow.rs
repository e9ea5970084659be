//! Runs workflows: asks models, runs commands, waits and writes records, as the state machine of a run says.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use harn_agent::policy::Policy;
use harn_agent::workflow::{Answer, Command, Execution, Report, RunOptions, Step, Work, World};
use harn_llm::Category;
use harn_stdlib::{run_folder, timestamp_now};
use harn_system::{Command as Program, Refusal, System, SystemExt};
use harn_value::Value;
use harn_vm::closure::Partial;
use harn_vm::{Cx, Error, Limit, Result};
use serde_json::{Map, Value as Json, json};

use crate::builtins::{call_once, read_graph};
use crate::convert::{from_json, text, thrown, to_json};
use crate::driver::run_loop;
use crate::kept::{Kept, plain};
use crate::llm_host::{new_id, prompts_of, runtime};
use crate::policy::narrow;
use crate::session::Sessions;

/// The largest record that is read: 1 GiB.
const MAX_RECORD: u64 = 1 << 30;

/// Runs a workflow from its arguments to its result dict.
///
/// # Errors
/// Wrong arguments, a graph that cannot run, a contract that is not kept, or what a stage throws.
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
    let graph = read_graph("workflow_execute", graph, &mut kept, &ids)?;
    let mut options = RunOptions::read(&kept.take(given)).map_err(wrong)?;
    if let Some(path) = &options.resume_path {
        options.resume_run = load(cx, path).map_err(wrong)?;
    }
    if let Some(path) = &options.replay_path {
        options.replay_run = load(cx, path).map_err(wrong)?;
    }
    let file = RecordFile::choose(cx, &options);
    let (now, prose) = (|| timestamp_now(cx), prompts_of(cx));
    let world = World { now: &now, ids: &ids, prose: &prose };
    let run = Execution::new(graph, &task, &to_json(artifacts), options, &world);
    let mut run = run.map_err(|error| match error.strip_prefix("invalid workflow: ") {
        Some(_) => Error::runtime(format!("workflow_execute: {error}")),
        None => wrong(error),
    })?;
    run.persisted_at(&file.shown);
    let ended = drive(cx, &mut run, &kept, &file, &world).await;
    if let Err(error) = ended {
        if error.is_catchable() {
            run.abort(&error.uncaught_text(), &world);
            // The error of the stage is what counts; that its record could not be written either is told beside it.
            if let Err(problem) = file.write(cx, &run.record()) {
                cx.system().write_err(&format!("[harn] warning: {}\n", problem.uncaught_text()));
            }
        }
        return Err(error);
    }
    Ok(kept.give(&run.result(&file.shown)))
}

async fn drive(
    cx: &Cx,
    run: &mut Execution,
    kept: &Kept,
    file: &RecordFile,
    world: &World<'_>,
) -> Result<()> {
    loop {
        let answer = match run.next_step(world).map_err(thrown)? {
            Step::Finished => return Ok(()),
            Step::Persist => {
                file.write(cx, &run.record())?;
                // A chain of nodes that need nothing leaves no other moment.
                cx.give_way().await?;
                Answer::Done
            }
            Step::Pause(ms) => {
                cx.sleep(Duration::from_millis(ms)).await?;
                Answer::Done
            }
            Step::Command(command) => run_command(cx, &command).await?,
            Step::Run { works, at_once, enough, tolerant } => {
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
    }
}

/// Does one piece of work: a loop, or a call.
async fn perform(cx: &Cx, work: &Work, options: &Value) -> Result<Report> {
    if let Some(session) = &work.needs_session
        && cx.state::<Sessions>().known(session).is_none()
    {
        let name = &work.node_id;
        return Err(thrown(format!("workflow stage {name} requires an existing session ({session})")));
    }
    let started = cx.system().monotonic();
    let prompt = Value::from(work.prompt.as_str());
    let system = work.system.as_deref().map_or(Value::NIL, Value::from);
    let done = if work.is_loop {
        run_loop(cx, &prompt, &system, options).await.map(|ended| (ended.result, ended.last_visible))
    } else {
        call_once(cx, &prompt, &system, options).await.map(|result| {
            let result = to_json(&result);
            let text =
                result["visible_text"].as_str().or_else(|| result["text"].as_str()).unwrap_or_default();
            (result.clone(), text.to_owned())
        })
    };
    let duration =
        i64::try_from(cx.system().monotonic().saturating_sub(started).as_millis()).unwrap_or(i64::MAX);
    let (result, said) = match done {
        Ok(done) => done,
        // A reply that does not keep the contract of its stage is a failed stage, and no error of the program.
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

/// Does pieces of work, each in a task of its own, until enough have succeeded. What is not needed any more is stopped.
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
    let mut out: Vec<Option<std::result::Result<Report, String>>> = works.iter().map(|_| None).collect();
    let mut waiting = works.into_iter().enumerate();
    let mut running: Vec<(usize, Running<'_>)> = Vec::new();
    let mut good = 0;
    while good < enough {
        while running.len() < at_once
            && let Some((at, work)) = waiting.next()
        {
            let options = kept.give(&work.options);
            let description = serde_json::to_value(&work).map_err(thrown)?;
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
            Ok(value) => Ok(serde_json::from_value::<Report>(to_json(&value)).map_err(thrown)?),
            Err(error) if error.is_catchable() => Err(error.uncaught_text()),
            Err(error) => return Err(error),
        };
        good += usize::from(report.as_ref().is_ok_and(Report::succeeded));
        out[at] = Some(report);
    }
    Ok(out)
}

/// The body of a task of [`run_many`].
pub(crate) async fn perform_described(cx: &Cx, work: &Value, options: &Value) -> Result<Value> {
    let work: Work = serde_json::from_value(to_json(work)).map_err(thrown)?;
    let report = perform(cx, &work, options).await?;
    Ok(from_json(&serde_json::to_value(&report).map_err(thrown)?))
}

/// Runs a command that verifies.
async fn run_command(cx: &Cx, command: &Command) -> Result<Answer> {
    let _limit = limited(cx, &command.policy)?;
    let system = cx.system();
    // What was printed so far belongs before what the command writes to a shared terminal.
    let _ = system.flush();
    let program = Program {
        arguments: vec!["-lc".to_owned(), command.line.clone()],
        dir: Some(system.work_dir()),
        timeout: command.timeout_ms.map(Duration::from_millis),
        ..Program::new("/bin/sh")
    };
    let ran = system.run(program).await.map_err(|error| {
        let name = &command.node_id;
        match Refusal::of(&error) {
            Some(refusal) => {
                Error::category("tool_rejected", format!("workflow stage {name}: its command {refusal}"))
            }
            None => thrown(format!("workflow stage {name}: its command cannot run: {error}")),
        }
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut stderr = text(&ran.stderr);
    if ran.timed_out {
        stderr.push_str("the command took longer than its timeout");
    }
    let status = ran.code.filter(|_| !ran.timed_out).map_or(-1, i64::from);
    Ok(Answer::Ran { stdout: text(&ran.stdout), stderr, status })
}

/// Puts the policy of a node over what it does.
fn limited(cx: &Cx, policy: &Json) -> Result<Option<Limit>> {
    if policy.is_null() {
        return Ok(None);
    }
    let mut options = Map::new();
    options.insert("policy".to_owned(), policy.clone());
    let policy = Policy::from_options(&options).map_err(thrown)?;
    Ok(Some(narrow(cx, policy, Value::NIL)))
}

/// Where the record of a run lies.
struct RecordFile {
    path: PathBuf,
    shown: String,
    /// Whether the program has chosen the place: then its limits hold for it.
    chosen: bool,
}

impl RecordFile {
    fn choose(cx: &Cx, options: &RunOptions) -> RecordFile {
        let given = options.persist_path.as_ref().or(options.resume_path.as_ref()).cloned();
        let given = given.or_else(|| options.resume_run["persisted_path"].as_str().map(str::to_owned));
        match given {
            Some(shown) => RecordFile { path: cx.system().work_dir().join(&shown), shown, chosen: true },
            None => {
                let path = run_folder(cx).join(format!("{}.json", new_id(cx.vm())));
                RecordFile { shown: path.display().to_string(), path, chosen: false }
            }
        }
    }

    fn write(&self, cx: &Cx, record: &Json) -> Result<()> {
        let system = if self.chosen { cx.system() } else { cx.vm().system().clone() };
        write_record(&*system, &self.path, record).map_err(|error| {
            let text =
                || thrown(format!("workflow_execute: cannot write the run record {}: {error}", self.shown));
            cx.refusal(&error).unwrap_or_else(text)
        })
    }
}

/// Writes a record as a whole.
pub(crate) fn write_record(system: &dyn System, path: &Path, record: &Json) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        system.make_dirs(folder)?;
    }
    let text = serde_json::to_vec(&plain(record)).map_err(std::io::Error::other)?;
    system.replace(path, &text)
}

/// Reads a record of a run.
pub(crate) fn load(cx: &Cx, path: &str) -> std::result::Result<Json, String> {
    let system = cx.system();
    let file = system.work_dir().join(path);
    let bytes =
        system.read(&file, MAX_RECORD).map_err(|e| format!("cannot read the run record {path}: {e}"))?;
    let run: Json = serde_json::from_slice(&bytes).map_err(|e| format!("{path} is no JSON: {e}"))?;
    if run["_type"] == "run_record" { Ok(run) } else { Err(format!("{path} is no run record")) }
}
