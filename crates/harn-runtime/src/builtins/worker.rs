//! Workers and sub-agents.

use std::rc::Rc;

use harn_agent::lifecycle::{Execution, Life, Mode, Request};
use harn_value::{Data as Json, Dict, Value};
use harn_vm::builtin::Maybe;
use harn_vm::{Cx, Result, builtins};

use crate::convert::{data, data_option, entry, text, thrown, to_json};
use crate::llm_embedder::new_id;
use crate::option_check::refuse_inside;
use crate::session::Sessions;
use crate::worker::place::Tree;
use crate::worker::registry::{Worker, Workers, tell_updates};
use crate::worker::start::{Start, cancel, find, load, settle, start, wait};
use crate::worker::sub_agent::{self, SubAgent};
use crate::worker::{job, place, stage};

builtins! {
    /// Workers: loops, stages and workflows that run concurrently with the program, and sub-agents.
    pub(crate) static WORKERS: "workers";

    /// Starts a worker, which runs concurrently with the program, and returns its handle.
    ///
    /// `config.node` is one stage, `config.graph` a workflow. `wait: true` waits for the end. `policy` and `tools`
    /// restrict the permissions of the worker, which never exceed those of its parent. As with `spawn`, the worker sees
    /// copies of the program's variables.
    ///
    /// ```harn
    /// llm_mock({text: "A summary."})
    /// let worker = spawn_agent({task: "Sum up", node: {mode: "llm", model_policy: {provider: "mock"}}})
    /// let done = wait_agent(worker)
    /// println("${worker.status} ${done.status} ${done.result.result.visible_text}") // -> running completed A summary.
    /// ```
    Loop async fn spawn_agent(cx, config: Maybe as "!worker_config") -> "dict" {
        let worker = spawn(&cx, config.0).await?;
        tell_updates(&cx, &worker).await;
        if worker.1 {
            wait(&cx, &worker.0).await?;
            tell_updates(&cx, &worker).await;
        }
        worker.handle()
    }

    /// Waits for a worker, or for each of a list, and returns the updated handles.
    ///
    /// A worker with `carry: {retriggerable: true}` ends only when it is closed.
    ///
    /// ```harn
    /// let node = {mode: "llm", model_policy: {provider: "mock"}}
    /// let workers = ["a", "b"].map({ task -> spawn_agent({task: task, node: node}) })
    /// println(wait_agent(workers).map({ w -> w.status })) // -> [completed, completed]
    /// ```
    State async fn wait_agent(cx, worker: Maybe as "!dict | string | list") -> "dict | list" {
        let Some(given) = worker.0.filter(|given| !given.is_nil()) else {
            return Err(thrown("wait_agent: missing worker handle"));
        };
        if let Some(list) = given.as_list() {
            let workers = list.iter().map(|one| known(&cx, "wait_agent", one)).collect::<Result<Vec<_>>>()?;
            let mut handles = Vec::with_capacity(workers.len());
            for worker in &workers {
                wait(&cx, worker).await?;
                tell_updates(&cx, worker).await;
                handles.push(worker.handle());
            }
            return Ok(Value::list(handles));
        }
        let worker = known(&cx, "wait_agent", &given)?;
        wait(&cx, &worker).await?;
        tell_updates(&cx, &worker).await;
        worker.handle()
    }

    /// Starts a new task in a finished worker, which keeps its state as its `carry` specifies.
    ///
    /// ```harn
    /// let w = spawn_agent({task: "One", wait: true, node: {mode: "llm", model_policy: {provider: "mock"}}})
    /// println(wait_agent(send_input(w, "Two")).history) // -> [One, Two]
    /// ```
    Loop async fn send_input(cx, worker: Maybe as "!dict | string", task: Maybe as "!string") -> "dict" {
        let (Some(given), Some(task)) = (worker.0.filter(|w| !w.is_nil()), task.0.filter(|t| t.as_str().is_some()))
        else {
            return Err(thrown("send_input: requires worker handle and task text"));
        };
        let worker = known(&cx, "send_input", &given)?;
        settle(&cx, &worker).await?;
        job::again(&cx, &worker, |record, now| record.send_input(&task.to_string(), now).map(Some))?;
        tell_updates(&cx, &worker).await;
        worker.handle()
    }

    /// Wakes a worker that waits between triggers: a string is its next task, other values are passed as
    /// JSON.
    ///
    /// ```harn
    /// let node = {mode: "llm", model_policy: {provider: "mock"}}
    /// let w = spawn_agent({task: "Watch", node: node, carry: {retriggerable: true}})
    /// while list_agents()[0].status == "running" { sleep(1) }
    /// worker_trigger(w, {file: "a.rs"})
    /// println(list_agents()[0].history) // -> [Watch, {"file":"a.rs"}]
    /// ```
    Loop async fn worker_trigger(cx, worker: Maybe as "!dict | string", payload: Maybe as "any?") -> "dict" {
        let Some(given) = worker.0.filter(|w| !w.is_nil()) else {
            return Err(thrown("worker_trigger: missing worker handle"));
        };
        let worker = known(&cx, "worker_trigger", &given)?;
        settle(&cx, &worker).await?;
        let payload = data("worker_trigger: payload", &payload.0.unwrap_or_default())?;
        job::again(&cx, &worker, |record, now| record.trigger(&payload, now).map(Some))?;
        tell_updates(&cx, &worker).await;
        worker.handle()
    }

    /// Loads a worker by its id or snapshot path; an interrupted worker restarts its task.
    ///
    /// A worker is interrupted when its process dies while it runs.
    ///
    /// ```harn
    /// let w = spawn_agent({task: "One", wait: true, node: {mode: "llm", model_policy: {provider: "mock"}}})
    /// println(resume_agent(w.snapshot_path).status) // -> completed
    /// ```
    Loop async fn resume_agent(cx, id_or_path: Maybe as "!dict | string") -> "dict" {
        let reference = id_or_path.0.unwrap_or_default();
        let by_id = entry(&reference, "id");
        let reference = if by_id.is_nil() { reference } else { by_id };
        let Some(reference) = reference.as_str().map(|text| text.to_string()).filter(|text| !text.trim().is_empty())
        else {
            return Err(thrown("resume_agent: missing worker id or snapshot path"));
        };
        let worker = load(&cx, &reference)?;
        if worker.life() == Life::Interrupted {
            job::again(&cx, &worker, |record, now| Ok(record.resume(now)))?;
        }
        tell_updates(&cx, &worker).await;
        worker.handle()
    }

    /// Stops a worker and everything that it started; a finished worker stays unchanged.
    ///
    /// ```harn
    /// let w = spawn_agent({task: "One", node: {mode: "llm", model_policy: {provider: "mock"}}})
    /// let closed = close_agent(w)
    /// println("${closed.status}: ${closed.error}") // -> cancelled: worker cancelled
    /// ```
    Fs async fn close_agent(cx, worker: Maybe as "!dict | string") -> "dict" {
        let Some(given) = worker.0.filter(|given| !given.is_nil()) else {
            return Err(thrown("close_agent: missing worker handle"));
        };
        let worker = known(&cx, "close_agent", &given)?;
        cancel(&cx, &worker).await?;
        tell_updates(&cx, &worker).await;
        worker.handle()
    }

    /// Returns the handles of all workers of the program, oldest first.
    ///
    /// ```harn
    /// println(list_agents()) // -> []
    /// ```
    State fn list_agents(cx) -> "list" {
        let ids = cx.state::<Workers>().ids();
        let handle = |id: String| Ok(find(cx, &id)?.ok_or_else(|| job::unknown(&id))?.handle());
        ids.into_iter().map(handle).collect::<Result<Vec<Value>>>()
    }

    /// Runs a loop in a new session and returns its result in one dict.
    ///
    /// The caller's conversation contains only the tool call and its result. `allowed_tools` restricts the sub-agent's
    /// tools and permissions; `returns: {schema}` requests data. `background: true` returns a worker's handle instead,
    /// whose `result` is the dict.
    ///
    /// ```harn
    /// llm_mock({text: "{\"paths\": [\"main.rs\"]}"})
    /// let schema = {type: "object", properties: {paths: {type: "array"}}, required: ["paths"]}
    /// let r = sub_agent_run("Find the entry point.", {provider: "mock", returns: {schema: schema}})
    /// println("${r.ok} ${r.data.paths}") // -> true [main.rs]
    /// ```
    Loop async fn sub_agent_run(cx, task: Value as "!string", options: Value as "!loop_options?") -> "dict" {
        let Some(task) = task.as_str().map(|task| task.to_string()).filter(|task| !task.trim().is_empty()) else {
            return Err(thrown("sub_agent_run: task is required"));
        };
        let flag = |key: &str| match entry(&options, key) {
            nil if nil.is_nil() => Ok(false),
            flag => flag.as_bool().ok_or_else(|| {
                thrown(format!("sub_agent_run: {key} must be a bool, got {}", flag.type_name()))
            }),
        };
        // Invalid options are reported to the caller, before the work is started.
        let parent = cx.state::<Sessions>().running(&cx).map(|running| running.session.clone());
        let sub = SubAgent::new(&cx, &options, parent)?;
        if flag("background")? {
            let worker = in_background(&cx, task, &options, &sub).await?;
            tell_updates(&cx, &worker).await;
            return Ok(worker.handle());
        }
        let kept = ["carry"].into_iter().chain(Request::keys()).find(|key| !entry(&options, key).is_nil());
        if !entry(&options, "wait").is_nil() {
            return Err(thrown("sub_agent_run: wait is an option of spawn_agent; without background: true a sub-agent is waited for")); // prose-ok: diagnostic
        }
        if let Some(key) = kept {
            return Err(thrown(format!("sub_agent_run: {key} is for work that goes on, with background: true"))); // prose-ok: diagnostic
        }
        let told = |text: String| thrown(format!("sub_agent_run: {text}"));
        let id = new_id(cx.vm());
        let mut execution = Execution::from_option(&to_json(&entry(&options, "execution")), &id).map_err(told)?;
        place::settle(&cx, &mut execution, &id).map_err(told)?;
        let tree = Tree::make(&cx, &execution).await.map_err(told)?;
        let ended = sub.run(&cx, &task, &execution).await;
        sub_agent::value(&tree.close(ended, told).await?)
    }

    /// Runs the task of a worker.
    State async fn worker_job = "__worker_job"(cx, id: Value, config: Value) -> "nil" {
        job::run(&cx, &id.to_string(), &config).await;
    }
}

/// A worker, and whether to wait for it.
struct Spawned(Rc<Worker>, bool);

impl std::ops::Deref for Spawned {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        &self.0
    }
}

async fn spawn(cx: &Cx, config: Option<Value>) -> Result<Spawned> {
    let function = "spawn_agent";
    let told = |text: String| thrown(format!("{function}: {text}"));
    let Some(config) = config.filter(|config| !config.is_nil()) else {
        return Err(thrown("spawn_agent: missing config"));
    };
    if config.to_dict().is_none() {
        return Err(thrown("spawn_agent: config must be a dict"));
    }
    let task = entry(&config, "task");
    let task = task.as_str().map(|task| task.to_string()).filter(|task| !task.trim().is_empty());
    let Some(task) = task else { return Err(thrown("spawn_agent: config.task is required")) };
    let (graph, node) = (entry(&config, "graph"), entry(&config, "node"));
    let (mode, asked) = match (graph.is_nil(), node.is_nil()) {
        (true, true) => return Err(thrown("spawn_agent: config requires either graph or node")),
        (false, false) => {
            return Err(thrown("spawn_agent: config requires either graph or node, and has both"));
        }
        (false, true) => {
            if cx.vm().builtin(job::EXECUTE).is_none() {
                return Err(told(job::no_workflows()));
            }
            (Mode::Workflow, stage::graph_metadata(&graph))
        }
        (true, false) => {
            stage::check(&node).map_err(told)?;
            if !entry(&config, "options").is_nil() {
                return Err(thrown(
                    "spawn_agent: config.options belongs to a graph; a node has model_policy",
                ));
            }
            (Mode::Stage, stage::metadata(&node))
        }
    };
    refuse_inside(cx, function, "worker_config", &config)?;
    let transcript = entry(&config, "transcript");
    stage::check_transcript(&transcript).map_err(|why| told(format!("config.{why}")))?;
    let named = |key: &str| match entry(&config, key) {
        nil if nil.is_nil() => Ok(None),
        name => match name.as_str().map(|name| name.to_string()).filter(|name| !name.trim().is_empty()) {
            Some(name) => Ok(Some(name)),
            None => Err(told(format!(
                "config.{key} must be a string that is not empty, got {}",
                name.type_name()
            ))),
        },
    };
    let name = named("name")?.unwrap_or_else(|| "worker".to_owned());
    let waits = match entry(&config, "wait") {
        nil if nil.is_nil() => false,
        flag => flag
            .as_bool()
            .ok_or_else(|| told(format!("config.wait must be a bool, got {}", flag.type_name())))?,
    };
    let plan = Start {
        function,
        mode,
        name,
        request: Request::new(&task, text(&entry(&node, "system")).as_deref(), &asked),
        task,
        limits: config.clone(),
        transcript: to_json(&transcript),
        artifacts: stage::artifacts(&entry(&config, "artifacts")).map_err(told)?,
        session_id: text(&entry(&entry(&node, "model_policy"), "session_id")),
        parent_stage_id: named("parent_stage_id")?,
        parent_run_id: None,
        config: stage::dict_of([("graph", graph), ("node", node), ("options", entry(&config, "options"))]),
    };
    Ok(Spawned(start(cx, plan).await?, waits))
}

/// Returns the request for a sub-agent.
fn request_of(function: &str, task: &str, options: &Value) -> Result<Request> {
    let asked = Request::keys().map(|key| Ok((key.to_owned(), data_option(function, options, key)?)));
    let asked = Json::Object(asked.collect::<Result<_>>()?);
    Ok(Request::new(task, text(&entry(options, "system")).as_deref(), &asked))
}

async fn in_background(cx: &Cx, task: String, options: &Value, sub: &SubAgent) -> Result<Rc<Worker>> {
    let mut kept = options.to_dict().map(|dict| (*dict).clone()).unwrap_or_default();
    kept.insert("session_id", sub.session.id.as_str());
    // The set of tools is determined when the worker is created, not when it runs.
    if entry(options, "tools").is_nil()
        && let Some(tools) = cx.state::<Sessions>().tools(cx)
    {
        kept.insert("tools", tools);
    }
    // The policy in the options applies to the loop; the worker adds the limits from `carry`.
    let mut limits = Dict::new();
    for key in ["carry", "execution", "audit"] {
        limits.insert(key, entry(options, key));
    }
    let plan = Start {
        function: "sub_agent_run",
        mode: Mode::SubAgent,
        name: sub.name.clone(),
        request: request_of("sub_agent_run", &task, options)?,
        task,
        limits: limits.into(),
        config: stage::dict_of([("options", kept.into())]),
        transcript: harn_value::Data::Null,
        artifacts: Vec::new(),
        session_id: Some(sub.session.id.clone()),
        parent_stage_id: None,
        parent_run_id: None,
    };
    start(cx, plan).await
}

/// Returns the worker of a handle or id.
fn known(cx: &Cx, function: &str, given: &Value) -> Result<Rc<Worker>> {
    let told = |text: String| Err(thrown(format!("{function}: {text}")));
    let id = if given.to_dict().is_some() { entry(given, "id") } else { given.clone() };
    match id.as_str().map(|id| id.to_string()) {
        Some(id) if !id.trim().is_empty() => find(cx, &id)?.ok_or_else(|| job::unknown(&id)),
        Some(_) => told("missing worker handle".to_owned()),
        None if given.to_dict().is_some() => told("worker handle dict is missing an id field".to_owned()),
        None => told(format!("expected worker handle or worker id, got {}", given.type_name())),
    }
}
