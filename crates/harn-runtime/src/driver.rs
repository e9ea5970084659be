//! Runs the steps of an agent loop: calls models, tools and callbacks, and notifies subscribers.

mod guard;
mod handoff;
mod incoming;
mod setup;
mod tools;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use harn_agent::policy::{Escalated, Question, Reply};
use harn_agent::{
    AgentEvent, AgentLoop, Answer, Archive, Binding, Look, LoopError, ModelCall, Moment, PermissionQuestion,
    SkillHook, Step, ToolReply, ToolRun, ToolStatus, Transfer,
};
use harn_llm::options::shape::Shape;
use harn_llm::structured::PartialAnswer;
use harn_llm::transcript::extra_events;
use harn_llm::{Category, Conversation, LlmRuntime};
use harn_prompt::Prose;
use harn_prompt::reminder::providers::{BuiltIn, Selection};
use harn_prompt::reminder::transcript::audit_event;
use harn_prompt::reminder::{HostMode, Reminder, host_reminder, pending, provider_reminders};
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Value};
use harn_vm::closure::is_callable;
use harn_vm::{Cx, Error, Result};

use crate::agents::Roster;
use crate::builtins::{call_dict, failed};
use crate::compact::{Writer, compress, llm_options};
use crate::convert::{OrThrow, entry, from_json, text, thrown, to_json, with_functions};
use crate::hooks::Hooks;
use crate::host::{self, Listener};
use crate::live;
use crate::llm_embedder::{CallOptions, LlmState, calling, new_id, prompts_for, runtime, validation};
use crate::mcp_loop::LoopServers;
use crate::mcp_project::Held;
use crate::policy::Layer;
use crate::reminders::{Reminders, tell};
use crate::rest::{self, FileKeeper, Keeper};
use crate::session::{Note, Scope, Session, Sessions, Talk};
use crate::session_store;
use crate::skill_host;
use crate::template_state::{LlmBinding, OpenContext};
use crate::tool_options::{doubts, handlers, surface_of};
use crate::witness::Witness;
use guard::{Guardrail, guardrails};
use handoff::{Before, Continued};
use incoming::Incoming;
use setup::{accepted_media, check_servers, check_surface, command_policies, context_window};

pub(crate) use setup::loop_config;

pub(crate) use tools::{declared_parameters, report_bug};

/// The state that a loop needs of the script that started it.
struct Driver {
    cx: Cx,
    llm: Rc<LlmRuntime>,
    state: Rc<LlmState>,
    reminders: Rc<Reminders>,
    /// The active providers of reminders.
    providers: Selection,
    /// The options as passed by the script.
    options: Value,
    session: Rc<Session>,
    /// The number of the loop's messages in its session, if it stores them.
    stored: Cell<Option<usize>>,
    /// The loop's part of the session's conversation.
    talk: Rc<Talk>,
    /// The current iteration.
    iteration: Cell<u32>,
    hooks: Rc<Hooks>,
    /// Receives messages of the host.
    listener: Rc<Listener>,
    /// Reminders of the host that are only recorded as events.
    audits: RefCell<Vec<Json>>,
    /// The payload of the current turn for hooks; `None` between turns.
    turn: RefCell<Option<Json>>,
    /// The policy of the loop, and the policies around it.
    layer: Rc<Layer>,
    handlers: BTreeMap<String, Value>,
    /// The servers of `mcp_servers`.
    servers: LoopServers,
    /// The project's servers that the loop uses.
    project_servers: Held,
    /// How tools handle effects that are in doubt.
    doubts: BTreeMap<String, harn_system::Uncertain>,
    caller: Value,
    shape_context: Value,
    review_turn: Value,
    validate_output: Value,
    recite: Value,
    /// The guardrails on the input, until the first call begins, and the guardrails on the answer.
    input_guards: RefCell<Vec<Guardrail>>,
    output_guards: Vec<Guardrail>,
    /// The agents of the handoffs, if there are any.
    roster: Option<Rc<Roster>>,
    /// The name of the agent, if it has one.
    name: Option<String>,
    /// When the conversation began.
    started: Duration,
    /// The closure that receives text of replies as it arrives.
    on_delta: Option<Value>,
    /// Stores the snapshots of a daemon.
    keeper: Option<Rc<dyn Keeper>>,
    /// The part of the current reply's text that has been streamed.
    told: RefCell<String>,
    /// The answer of the reply that is streamed, where the loop has a schema.
    partial: RefCell<Option<PartialAnswer>>,
    /// Tool calls that were reported while the model wrote them, and have not started yet.
    incoming: RefCell<Incoming>,
    /// When the calls of the turn started.
    since: RefCell<BTreeMap<String, Duration>>,
}

/// Runs a loop from its arguments to its result dict.
///
/// # Errors
/// Invalid options, a model call that fails without further retries, or an error that a callback throws.
pub(crate) async fn run(cx: &Cx, prompt: &Value, system: &Value, given: &Value) -> Result<Value> {
    let place = Place { keeper: None, joins: true, continues: None };
    let mut ended = run_in(cx, prompt, system, given, place).await?;
    let others = ended.result["transcript"]["events"].take();
    let ids = || new_id(cx.vm());
    let (messages, events) = ended.messages.shown(others.as_array().map_or(&[], Vec::as_slice), &ids);
    let mut result = from_json(&ended.result);
    let transcript = result.as_dict_mut().and_then(|result| result.make_mut().get_mut(&"transcript".into()));
    if let Some(transcript) = transcript.and_then(Value::as_dict_mut) {
        let transcript = transcript.make_mut();
        transcript.insert("messages", messages);
        transcript.insert("events", events);
    }
    Ok(result)
}

/// The context of a loop.
struct Place {
    /// Stores the snapshots of a daemon with a handle.
    keeper: Option<Rc<dyn Keeper>>,
    /// Whether the loop continues the session of the surrounding loop unless it names one.
    joins: bool,
    /// The conversation that another agent has transferred.
    continues: Option<Continued>,
}

/// The outcome of a loop.
pub(crate) struct Ended {
    /// The result dict; without the messages of its transcript before [`Ended::complete`].
    pub(crate) result: Json,
    /// The conversation.
    messages: Conversation,
    /// The user-visible text of the last turn.
    pub(crate) last_visible: String,
    /// Whether `max_iterations` ended it.
    pub(crate) out_of_turns: bool,
}

impl Ended {
    fn complete(mut self, cx: &Cx) -> Ended {
        AgentLoop::add_messages(&self.messages, &mut self.result, &|| new_id(cx.vm()));
        self
    }
}

/// Like [`run`], for callers that convert the result.
///
/// # Errors
/// As [`run`].
pub(crate) async fn run_loop(cx: &Cx, prompt: &Value, system: &Value, given: &Value) -> Result<Ended> {
    Ok(run_in(cx, prompt, system, given, Place { keeper: None, joins: false, continues: None })
        .await?
        .complete(cx))
}

/// Like [`run_loop`], for a daemon with a handle.
///
/// # Errors
/// As [`run`].
pub(crate) async fn run_kept(
    cx: &Cx,
    prompt: &Value,
    system: &Value,
    given: &Value,
    keeper: Rc<dyn Keeper>,
) -> Result<Ended> {
    Ok(run_in(cx, prompt, system, given, Place { keeper: Some(keeper), joins: false, continues: None })
        .await?
        .complete(cx))
}

async fn run_in(cx: &Cx, prompt: &Value, system: &Value, given: &Value, place: Place) -> Result<Ended> {
    // Boxed, because a loop waits long, and the state of its setup is freed by then.
    let mut begun = Box::pin(begin(cx, prompt, system, given, place)).await?;
    loop {
        let Begun { driver, agent, llm, .. } = &mut *begun;
        match driver.drive(agent, llm).await? {
            Driven::Ended(ended) => {
                Box::pin(driver.servers.close(cx)).await?;
                return Ok(ended);
            }
            Driven::HandedOff(transfer) => begun = Box::pin(begun.hand_off(cx, transfer)).await?,
        }
    }
}

/// Why a loop does not continue.
enum Driven {
    /// The loop has ended.
    Ended(Ended),
    /// The loop of another agent continues the conversation.
    HandedOff(Transfer),
}

/// A loop that is about to run, and the guards of its scope. Fields are dropped in reverse order of setup.
struct Begun {
    agent: AgentLoop,
    _context: OpenContext,
    llm: LlmBinding,
    driver: Driver,
    in_force: crate::policy::InForce,
    /// The limits of the agents that had the conversation before.
    before: Before,
    commands: Vec<crate::command_policy::InForce>,
    scope: LoopScope,
    _options: CallOptions,
}

/// Reads the arguments of a loop, and applies its policies and scopes.
async fn begin(cx: &Cx, prompt: &Value, system: &Value, given: &Value, place: Place) -> Result<Box<Begun>> {
    let Place { keeper, joins, mut continues } = place;
    let llm = runtime(cx);
    let mut call_options = CallOptions::new(cx, given);
    if let Json::Object(options) = &call_options.json {
        // Before the warning that such an option has no effect.
        harn_agent::neighbours::reject_misplaced(options).map_err(|error| thrown(error.0))?;
    }
    llm.notice_slips(&call_options.json, crate::option_sets::loop_options(), joins);
    // Errors of its calls' options are reported before anything has begun, but after errors of the loop's own options.
    let wrong_call = crate::option_check::wrong_call(&call_options.json);
    let route = llm.render_context(&call_options.json);
    // Tools and history are moved into the loop, to avoid a second copy.
    let mut options = match call_options.json.take() {
        Json::Object(options) => options,
        _ => Map::new(),
    };
    let (prompt, given_system, system) = (text(prompt).unwrap_or_default(), system.clone(), text(system));
    let sessions = cx.state::<Sessions>();
    let servers = LoopServers::start(cx, given, &mut options).await?;
    let surface = surface_of(&prompt, system.as_deref(), &options);
    let mut config = loop_config(cx, &llm, &prompt, system.as_deref(), options, route.as_ref().ok()).await?;
    let roster = match &continues {
        Some(continued) => Some(continued.roster.clone()),
        None if config.handoffs.is_empty() => None,
        None => {
            let name = config.name.clone().unwrap_or_default();
            Some(Rc::new(Roster::read(&name, &given_system, given)?))
        }
    };
    let (started, audits) = match &mut continues {
        Some(continued) => (continued.started, std::mem::take(&mut continued.audits)),
        None => (cx.system().monotonic(), Vec::new()),
    };
    let input_guards = match &continues {
        // The input was checked when the conversation began.
        Some(_) => Vec::new(),
        None => guardrails(cx, given, "input_guardrails")?,
    };
    let on_delta = live::listener("agent_loop", given)?;
    if let Some(wrong) = wrong_call {
        return Err(thrown(wrong));
    }
    check_surface(cx, &sessions, &surface)?;
    check_servers(cx, &sessions, &config.tools, &servers)?;
    let reminders = cx.state::<Reminders>();
    let providers;
    (providers, config.remind_at) =
        reminders.select(config.options.get("reminders").unwrap_or(&Json::Null)).or_throw()?;
    config.media = accepted_media(&llm, &config.options, route.as_ref().ok());
    config.context_window = context_window(&llm, &providers, route.as_ref().ok());
    config.compaction.fit(config.context_window);
    let around = sessions.running(cx);
    let joined = around.as_ref().filter(|_| joins && !sessions.is_telling(cx));
    let session = match (&continues, &config.session_id, joined) {
        (Some(continued), ..) => continued.session.clone(),
        (None, Some(id), _) if session_store::always(cx) => session_store::open(cx, id).await?,
        (None, Some(id), _) => sessions.named(id),
        (None, None, Some(around)) => around.session.clone(),
        (None, None, None) => Sessions::unnamed(format!("agent_session_{}", new_id(cx.vm()))),
    };
    // A named session is retained for later loops.
    let named = match &continues {
        Some(continued) => continued.named,
        None => config.session_id.is_some() || joined.is_some_and(|around| around.named),
    };
    let joined = around.is_some_and(|around| Rc::ptr_eq(&around.session, &session));
    config.session_id = Some(session.id.clone());
    config.skills.variables.insert("HARN_SESSION_ID".to_owned(), session.id.clone());
    let kept = keeper.is_some();
    let keeper = match (&config.daemon, keeper) {
        (None, _) => None,
        (Some(_), Some(keeper)) => Some(keeper),
        (Some(daemon), None) => Some(Rc::new(FileKeeper::new(cx, daemon)?) as Rc<dyn Keeper>),
    };
    let resumed = rest::resumed(cx, &config)?;
    if let (Some(keeper), Some((read, _))) = (&keeper, &resumed) {
        keeper.goes_on_from(read);
    }
    let mut stored = None;
    if let Some(continued) = &continues {
        config.skills.carried = session.carried_skills();
        stored = continued.stored;
    } else if resumed.is_some() && named {
        // The snapshot contains the conversation.
        session.history.borrow_mut().messages = Conversation::new();
        stored = Some(0);
    } else if named {
        config.skills.carried = session.carried_skills();
        let mut history = session.history.borrow().messages.clone();
        stored = Some(history.len());
        config.history.iter().for_each(|message| history.push(message));
        config.history = history;
    }
    reminders.adopt(cx.vm(), &session.id, &pending(config.options.get("transcript").unwrap_or(&Json::Null)));
    let tools = with_functions(&entry(given, "tools"));
    let callback =
        |keys: [&str; 2]| keys.iter().map(|key| entry(given, key)).find(is_callable).unwrap_or_default();
    let listener = Rc::new(Listener::new(cx, &session, joined));
    let scope = LoopScope::open(cx, &session, Part { named, joined }, &tools);
    let commands = command_policies(cx, given)?;
    let in_force = crate::policy::limit(cx, &mut config, given, &session)?;
    let driver = Driver {
        cx: cx.clone(),
        llm,
        state: cx.state::<LlmState>(),
        reminders,
        providers,
        options: given.clone(),
        session: session.clone(),
        stored: Cell::new(stored),
        talk: scope.scope.talk.clone(),
        iteration: Cell::new(0),
        hooks: cx.state::<Hooks>(),
        listener,
        audits: RefCell::new(audits),
        turn: RefCell::default(),
        layer: in_force.layer.clone(),
        handlers: handlers(cx, &tools, given)?,
        servers,
        project_servers: Held::new(cx),
        doubts: doubts(&tools)?,
        caller: callback(["llm_caller", "llm_caller"]),
        shape_context: callback(["context_callback", "context_filter"]),
        review_turn: callback(["post_turn_callback", "post_turn_callback"]),
        recite: callback(["recitation", "recitation"]),
        validate_output: callback(["output_validator", "output_validator"]),
        input_guards: RefCell::new(input_guards),
        output_guards: guardrails(cx, given, "output_guardrails")?,
        roster,
        name: config.name.clone(),
        started,
        on_delta,
        keeper,
        told: RefCell::default(),
        partial: RefCell::default(),
        incoming: RefCell::default(),
        since: RefCell::default(),
    };
    let llm = driver.state.route_value(route.unwrap_or_default());
    let llm = LlmBinding::new(move || llm.clone());
    let context = OpenContext::new(cx, llm.clone());
    let watch = config.daemon.as_ref().map(|daemon| daemon.watch_paths.clone()).unwrap_or_default();
    let mut before = Before::default();
    let mut agent = match continues {
        None => AgentLoop::new(config),
        Some(mut continued) => {
            before = std::mem::take(&mut continued.before);
            let prompts = prompts_for(cx, &driver.state, &llm);
            let Continued { agent, transfer, view, .. } = continued;
            agent.hand_off(config, transfer, view, &prompts).map_err(|error| broken(&error))?
        }
    };
    agent.look_up_paths(Rc::new(crate::policy::RealPaths(cx.clone())));
    if let Some((read, rests)) = resumed {
        agent
            .restore(&read.snapshot, kept || rests)
            .map_err(|why| thrown(format!("agent_loop: resume_path: {why}")))?;
    }
    let seen = rest::observe(cx, &watch)?;
    setup::check_watched(cx, &watch, |path| seen.contains_key(path))?;
    agent.watch_from(seen);
    Ok(Box::new(Begun {
        agent,
        _context: context,
        llm,
        driver,
        in_force,
        before,
        commands,
        scope,
        _options: call_options,
    }))
}

/// The relation of a loop to its session.
#[derive(Clone, Copy)]
struct Part {
    /// The session outlives the loop.
    named: bool,
    /// The surrounding loop belongs to the same session.
    joined: bool,
}

/// A running loop. Dropping it, also by cancellation, releases state that only the loop could use.
struct LoopScope {
    cx: Cx,
    scope: Scope,
    session: Rc<Session>,
    part: Part,
    /// Notes left for the surrounding loop.
    notes: Vec<Note>,
}

impl LoopScope {
    fn open(cx: &Cx, session: &Rc<Session>, part: Part, tools: &Value) -> LoopScope {
        let tools = harn_agent::registry::is_registry(tools).then(|| tools.clone());
        let scope = Scope::open(cx, session, part.named, part.joined, tools);
        let notes = if part.joined { session.take_notes() } else { Vec::new() };
        LoopScope { cx: cx.clone(), scope, session: session.clone(), part, notes }
    }
}

impl LoopScope {
    /// Leaves the session to the next agent of the conversation; returns whether it outlives the loop.
    fn pass_on(&mut self) -> bool {
        let named = self.part.named;
        // The session's state must survive until the next loop starts.
        self.part.named = true;
        named
    }
}

impl Drop for LoopScope {
    fn drop(&mut self) {
        self.session.give_back(std::mem::take(&mut self.notes));
        if !self.part.named && !self.part.joined {
            self.cx.state::<Reminders>().forget(&self.session.id);
        }
    }
}

impl Driver {
    async fn drive(&self, agent: &mut AgentLoop, llm: &LlmBinding) -> Result<Driven> {
        let prompts = prompts_for(&self.cx, &self.state, llm);
        // Boxed, except for the model call: a loop waits for it most of its time, and its future reserves space for all
        // unboxed futures.
        loop {
            self.hand_over_feedback(agent);
            self.listener.pass_on(agent);
            self.take_reminders()?;
            agent.set_hooked(self.hooks.watch_calls());
            if self.listener.take_skills_update() && skill_host::is_open(&self.options) {
                agent.renew_skills();
            }
            let step = self.with_reminders(agent, |agent| agent.next_step(&prompts));
            let step = step.map_err(|e| broken(&e));
            Box::pin(self.publish(agent)).await?;
            let answer = match step? {
                Step::Finished => break,
                Step::HandOff(transfer) => {
                    self.keep(agent);
                    Box::pin(session_store::flush(&self.cx, &self.session)).await?;
                    self.end_turn().await?;
                    return Ok(Driven::HandedOff(transfer));
                }
                Step::GuardOutput(answer) => Box::pin(self.guard_output(&answer)).await?,
                Step::Compact(archive) => Box::pin(self.write_summary(agent, &archive)).await?,
                Step::MatchSkills(question) => {
                    Answer::Host(Box::pin(host::ask(&self.cx, "skill", "match", &question)).await?)
                }
                Step::SearchTools(question) => {
                    Answer::Host(Box::pin(host::ask(&self.cx, "tool_search", "query", &question)).await?)
                }
                Step::ReadSkills => Box::pin(skill_host::read_again(&self.cx, &self.options)).await?,
                Step::FetchSkills(ids) => {
                    Box::pin(skill_host::fetch_for(&self.cx, &agent.config().skills, &ids)).await?
                }
                Step::BindServers(bindings) => Answer::Bound(Box::pin(self.bind_servers(&bindings)).await?),
                Step::RunSkillHooks(hooks) => {
                    Box::pin(self.run_skill_hooks(&hooks)).await?;
                    Answer::SkillHooks
                }
                Step::Recite(context) => {
                    let value = self.cx.call(&self.recite, [from_json(&context)]).await?;
                    Answer::Recitation(recited(&value)?)
                }
                Step::ShapeContext(context) => {
                    Answer::Context(to_json(&self.cx.call(&self.shape_context, [from_json(&context)]).await?))
                }
                Step::ReviewTurn(turn) => {
                    Answer::Review(to_json(&self.cx.call(&self.review_turn, [from_json(&turn)]).await?))
                }
                Step::ValidateOutput(answer) => {
                    let said = self.cx.call(&self.validate_output, [from_json(&answer)]).await?;
                    Answer::Validated(validation(&said).map_err(thrown)?)
                }
                Step::Remind(moment) => {
                    Box::pin(self.remind(agent, &moment, &prompts)).await?;
                    Answer::Reminded
                }
                Step::CallModel(call) => {
                    if let Some(keeper) = &self.keeper {
                        keeper.begins();
                    }
                    // Completed turns belong to the session, whatever the result of the call; an unanswered prompt does
                    // not.
                    if self.iteration.get() > 0 {
                        self.keep(agent);
                        Box::pin(session_store::flush(&self.cx, &self.session)).await?;
                    }
                    let guards = self.input_guards.take();
                    let answer = match guards.is_empty() {
                        true => self.call_model(agent, call).await?,
                        false => Box::pin(self.call_guarded(agent, call, guards)).await?,
                    };
                    Box::pin(self.follow_servers(agent)).await?;
                    if !matches!(answer, Answer::Blocked(_)) {
                        self.keep(agent);
                    }
                    answer
                }
                Step::Rest(rest) => match &self.keeper {
                    Some(keeper) => Answer::Rested(
                        Box::pin(rest::rest(&self.cx, &**keeper, &self.listener, agent, &rest)).await?,
                    ),
                    None => Answer::Rested(Look::default()),
                },
                Step::BeforeTool(intent) => Answer::BeforeTool(
                    Box::pin(self.hooks.before_tool(&self.cx, &self.session.id, &intent)).await?,
                ),
                Step::Permit(asked) => Answer::Permit(Box::pin(self.permit_all(&asked)).await?),
                Step::RunTools(runs) => {
                    let replies = Box::pin(self.tools(agent, &runs)).await?;
                    Box::pin(self.follow_servers(agent)).await?;
                    Answer::Tools(replies)
                }
            };
            self.hand_over_notes(agent);
            self.listener.pass_on(agent);
            let taken = self.with_reminders(agent, |agent| agent.answer(answer, &prompts));
            self.keep(agent);
            Box::pin(session_store::flush(&self.cx, &self.session)).await?;
            Box::pin(self.publish(agent)).await?;
            taken.map_err(|e| broken(&e))?;
        }
        self.keep(agent);
        self.end_turn().await?;
        if let Some(keeper) = &self.keeper {
            let status = agent.status().map_or("active", |status| status.as_str());
            keeper.keep(&self.cx, agent, status, agent.is_turn_completed())?;
        }
        let duration = millis(self.cx.system().monotonic().saturating_sub(self.started));
        self.take_reminders()?;
        let mut result = self.with_reminders(agent, |agent| {
            agent.outcome_without_messages(duration, &|| new_id(self.cx.vm()))
        });
        // Reminders that the host only wants to record come last; they were not sent to any model.
        if let Some(events) = result["transcript"]["events"].as_array_mut() {
            events.append(&mut self.audits.borrow_mut());
        }
        if self.stored.get().is_some() {
            if let Some(summary) = result["transcript"]["summary"].as_str() {
                self.session.history.borrow_mut().summary = Some(summary.to_owned());
            }
            self.session
                .history
                .borrow_mut()
                .events
                .extend(extra_events(&result["transcript"]).into_iter().map(Rc::new));
        }
        if !agent.config().skills.list.is_empty() {
            self.session.carry_skills(agent.active_skills());
        }
        Box::pin(session_store::flush(&self.cx, &self.session)).await?;
        self.trace(json!({
            "type": "loop_complete", "status": result["status"], "iterations": result["iterations"],
            "total_duration_ms": duration, "tools_used": result["trace"]["tools_used"],
            "successful_tools": result["tools"]["successful"],
        }));
        // A program that only prints the answer would not show this status.
        let status = result["status"].as_str().unwrap_or_default();
        if matches!(status, "stuck" | "watchdog" | "budget_exhausted" | "failed") {
            let turns = result["iterations"].as_i64().unwrap_or(0);
            let s = if turns == 1 { "" } else { "s" };
            let unmet = agent.unmet_requirement().filter(|_| result["trace"]["status"] == "done");
            let cause = unmet.map_or_else(
                || "without a finished answer".to_owned(),
                |names| {
                    format!("because no tool in `require_successful_tools` succeeded: {}", names.join(", "))
                },
            );
            crate::llm_runtime(self.cx.vm()).embedder().warn(&format!(
                "agent loop ended with status \"{status}\" after {turns} iteration{s}, {cause}"
            ));
        }
        let (last_visible, messages) = (agent.last_visible().to_owned(), agent.messages().clone());
        Ok(Driven::Ended(Ended { result, messages, last_visible, out_of_turns: agent.is_out_of_turns() }))
    }

    /// Runs tools, and passes the results through hooks and callbacks.
    async fn tools(&self, agent: &AgentLoop, runs: &[ToolRun]) -> Result<Vec<ToolReply>> {
        let mut replies = self.run_tools(agent, runs).await?;
        for (run, reply) in runs.iter().zip(&mut replies) {
            if reply.status != ToolStatus::Rejected {
                let text = std::mem::take(&mut reply.text);
                reply.text = self.hooks.after_tool(&self.cx, &self.session.id, run, text).await?;
            }
            self.compress(agent, &run.name, reply).await?;
        }
        Ok(replies)
    }

    /// Adds the notes that tools left to the loop's transcript.
    fn hand_over_notes(&self, agent: &mut AgentLoop) {
        for note in self.session.take_notes() {
            agent.note(&note.kind, &note.text, note.metadata);
        }
    }

    /// Lends the reminders of the session to the loop: while scripts run, they belong to the session.
    fn with_reminders<T>(&self, agent: &mut AgentLoop, work: impl FnOnce(&mut AgentLoop) -> T) -> T {
        self.reminders.exchange(&self.session.id, agent.reminders_mut());
        let out = work(agent);
        self.reminders.exchange(&self.session.id, agent.reminders_mut());
        out
    }

    /// Takes the host's reminders, which the next call includes in either delivery mode.
    fn take_reminders(&self) -> Result<()> {
        for payload in self.listener.take_reminders() {
            let (reminder, mode) = host_reminder(&payload, &new_id(self.cx.vm())).or_throw()?;
            match mode {
                HostMode::AuditOnly => self.audits.borrow_mut().push(audit_event(&reminder)),
                HostMode::FinishStep | HostMode::InterruptImmediate => {
                    self.reminders.add(self.cx.vm(), &self.session.id, &reminder);
                }
            }
        }
        Ok(())
    }

    /// Calls the active providers that subscribe to an event, in order.
    async fn remind(&self, agent: &AgentLoop, moment: &Moment, prose: &dyn Prose) -> Result<()> {
        let (none, event) = (Map::new(), moment.event.as_str());
        let payload = moment.payload.as_object().unwrap_or(&none);
        for id in &self.providers.enabled {
            let config = self.providers.config.get(id).unwrap_or(&none);
            let fresh = |_| new_id(self.cx.vm());
            let built_in = BuiltIn::named(id);
            let made: Vec<Reminder> = match built_in {
                Some(provider) if provider.subscribes_to.contains(&event) => {
                    provider.reminder(&fresh(0), payload, config, prose).or_throw()?.into_iter().collect()
                }
                Some(_) => continue,
                None => {
                    let Some(evaluate) = self.reminders.evaluator(id, event) else { continue };
                    let mut context = Dict::new();
                    context.insert("event", event);
                    context.insert("session", from_json(&agent.session(&self.session.id)));
                    context.insert("session_id", self.session.id.as_str());
                    context.insert("payload", from_json(&moment.payload));
                    context.insert("options", self.options.clone());
                    context.insert("config", from_json(&Json::Object(config.clone())));
                    let answer = self.cx.call(&evaluate, [context.into()]).await?;
                    provider_reminders(id, &to_json(&answer), &fresh).or_throw()?
                }
            };
            made.iter().for_each(|reminder| self.reminders.add(self.cx.vm(), &self.session.id, reminder));
            // Built-in providers run on every turn, so only runs with a result are recorded as events.
            if built_in.is_some() && made.is_empty() {
                continue;
            }
            let evaluated = json!({"kind": "transcript.reminder.provider_evaluated", "provider": id,
                                   "event": event, "reminders": made.len()});
            tell(self.cx.vm(), Some(&self.session.id), evaluated);
        }
        Ok(())
    }

    fn trace(&self, event: Json) {
        self.state.trace.borrow_mut().add(event);
    }

    /// Records tool calls and their results in `agent_trace`.
    fn trace_event(&self, event: &AgentEvent) {
        let iteration = self.iteration.get();
        let call = match event {
            AgentEvent::TurnStart { iteration } => return self.iteration.set(*iteration),
            AgentEvent::ToolCallUpdate(call) if call.status != "in_progress" => call,
            AgentEvent::LoopIntervention { .. }
            | AgentEvent::NativeToolFallback { .. }
            | AgentEvent::SchemaRetry { .. } => {
                let mut entry = Json::lossy(event);
                entry["iteration"] = iteration.into();
                return self.trace(entry);
            }
            _ => return,
        };
        let category = call.error_category.as_deref();
        let rejected = matches!(category, Some("permission_denied" | "rejected_loop"));
        if let Some(duration_ms) = call.execution_duration_ms {
            let status = match call.status.as_str() {
                "completed" => ToolStatus::Ok,
                _ if rejected => ToolStatus::Rejected,
                _ => ToolStatus::Error,
            };
            self.trace(json!({
                "type": "tool_execution", "tool_name": call.tool_name, "tool_use_id": call.tool_call_id,
                "duration_ms": duration_ms, "status": status.as_str(), "classification": category,
                "iteration": iteration,
            }));
        }
        if rejected {
            self.trace(json!({
                "type": "tool_rejected", "tool_name": call.tool_name, "reason": call.error, "iteration": iteration,
            }));
        }
    }

    /// Appends the messages since the last call to the session. A turn with tools is appended once all results exist:
    /// messages from other loops in the session must not separate calls from results.
    fn keep(&self, agent: &AgentLoop) {
        if agent.is_in_tool_turn() {
            return;
        }
        let Some(stored) = self.stored.get().filter(|_| self.input_guards.borrow().is_empty()) else {
            return;
        };
        let Some(messages) = agent.session_messages(stored) else { return };
        self.stored.set(Some(self.session.keep(&self.talk, &messages, stored)));
    }

    /// Applies changed tool lists that servers have announced.
    async fn follow_servers(&self, agent: &mut AgentLoop) -> Result<()> {
        for (server, entries) in self.servers.changes(&self.cx).await? {
            if let Err(why) = agent.replace_tools(&server, &entries) {
                let text = format!("warning: MCP server '{server}' changed its tools: {why}");
                self.cx.system().write_err(&harn_syntax::notice(&text));
            }
        }
        Ok(())
    }

    /// Starts servers for activated skills and releases those of deactivated skills; returns the problems.
    async fn bind_servers(&self, bindings: &[Binding]) -> Result<Vec<Option<String>>> {
        let mut problems = Vec::with_capacity(bindings.len());
        for Binding { server, wanted, .. } in bindings {
            problems.push(match wanted {
                true => self.project_servers.bind(&self.cx, server).await?,
                false => {
                    self.project_servers.unbind(server);
                    None
                }
            });
        }
        Ok(problems)
    }

    /// Calls the closures of activated and deactivated skills; their errors are reported and have no other effect.
    async fn run_skill_hooks(&self, hooks: &[SkillHook]) -> Result<()> {
        let given = entry(&self.options, "skills");
        let skills = harn_agent::skills::listed(&given);
        for SkillHook { skill, hook } in hooks {
            let closures = skills.iter().filter(|entry| harn_agent::skills::id_of(entry) == *skill);
            let closure = closures.map(|skill| entry(skill, hook)).find(is_callable).unwrap_or_default();
            match self.cx.call(&closure, []).await {
                Err(error) if error.is_catchable() => {
                    self.cx
                        .system()
                        .write_err(&harn_syntax::notice(&format!("warning: {hook} of a skill: {error}")));
                }
                called => drop(called?),
            }
        }
        Ok(())
    }

    /// Passes the feedback from `agent_inject_feedback` for the session to the loop.
    fn hand_over_feedback(&self, agent: &mut AgentLoop) {
        for (kind, text) in self.session.take_feedback() {
            agent.inject_feedback(&kind, &text);
        }
    }

    /// Answers questions of a policy: conditions sequentially, requests to humans concurrently.
    async fn permit_all(&self, asked: &[PermissionQuestion]) -> Result<Vec<Reply>> {
        let mut replies: Vec<Option<Result<Reply>>> = asked.iter().map(|_| None).collect();
        if asked.iter().all(|asked| matches!(asked.question, Question::Approve { .. })) {
            let mut waits: Vec<Pin<Box<_>>> =
                asked.iter().map(|asked| Box::pin(self.permit(asked))).collect();
            // Polled in a fixed order, because journal replay follows the order of polls.
            poll_fn(|context| {
                for (wait, reply) in waits.iter_mut().zip(&mut replies).filter(|(_, reply)| reply.is_none()) {
                    if let Poll::Ready(answered) = wait.as_mut().poll(context) {
                        *reply = Some(answered);
                    }
                }
                if replies.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        } else {
            for (asked, reply) in asked.iter().zip(&mut replies) {
                *reply = Some(self.permit(asked).await);
            }
        }
        replies.into_iter().flatten().collect()
    }

    /// Answers a question of a policy.
    async fn permit(&self, asked: &PermissionQuestion) -> Result<Reply> {
        let PermissionQuestion { intent, question, .. } = asked;
        let layer = |number: usize| {
            // The policies of a loop and their layers are created together.
            self.layer.at(number).ok_or_else(|| thrown("agent_loop: a policy without its program"))
        };
        match question {
            Question::Matches { layer: number, list, rule, arguments } => {
                let (option, key) = list.place();
                let closure = entry(&entry(&entry(&layer(*number)?.options, option), key), rule);
                let answer = self.cx.call(&closure, [from_json(arguments)]).await?;
                // Any value other than a bool decides against the call: a permitting rule does not match, a restricting
                // one does.
                let matches = answer.as_bool().unwrap_or_else(|| {
                    let (got, effect) = (answer.type_name(), list.undecided());
                    let text = format!("{option}.{key} of '{rule}': expected bool, got {got}; {effect}");
                    self.cx.system().write_err(&format!("[harn] warning: {text}\n"));
                    !list.permits()
                });
                Ok(Reply::Matches(matches))
            }
            Question::Escalate { layer: number, request } => {
                let layer = layer(*number)?;
                if layer.session.has_granted(&intent.name, &intent.arguments) {
                    return Ok(Reply::Remembered);
                }
                let mut request = request.clone();
                request["session_id"] = self.session.id.as_str().into();
                let closure = entry(&entry(&layer.options, "permissions"), "on_escalation");
                let said = to_json(&self.cx.call(&closure, [from_json(&request)]).await?);
                let verdict = Escalated::read(&said).or_throw()?;
                if verdict.for_session {
                    layer.session.grant(&intent.name, &intent.arguments);
                }
                Ok(Reply::Escalated(verdict))
            }
            Question::Approve { request } => {
                let mut request = request.clone();
                request["sessionId"] = self.session.id.as_str().into();
                crate::audit::complete(&self.cx, &mut request["mutation"], Some(&self.session.id));
                request["toolCall"]["toolCallId"] = intent.id.as_str().into();
                let asked =
                    harn_stdlib::ask_host(&self.cx, "session", "request_permission", &from_json(&request))
                        .await;
                Ok(match asked {
                    None => {
                        let call = harn_value::short(&from_json(&intent.arguments), 200);
                        let prompt = format!("Run the tool {} with {call}?", intent.name); // prose-ok: for people
                        let said = crate::hitl::permission(&self.cx, prompt, request).await?;
                        if said.is_none() {
                            self.nobody_approves(&intent.name);
                        }
                        said.map_or(Reply::NoHost, Reply::Host)
                    }
                    Some(Ok(answer)) => Reply::Host(to_json(&answer)),
                    Some(Err(error)) if error.is_catchable() => Reply::HostFailed,
                    Some(Err(error)) => return Err(error),
                })
            }
        }
    }

    /// Warns the user once per tool that the tool was rejected because neither a host nor a terminal was available for
    /// approval.
    fn nobody_approves(&self, tool: &str) {
        let text = format!(
            "the tool {tool} was refused: it needs approval, and there is no host and no terminal to ask" // prose-ok: diagnostic
        );
        let told = ("no approval".to_owned(), text.clone());
        if self.cx.state::<Sessions>().odd_tools.borrow_mut().insert(told) {
            self.cx.system().write_err(&harn_syntax::notice(&format!("warning: {text}")));
        }
    }

    /// Notifies hooks that the current turn has ended.
    async fn end_turn(&self) -> Result<()> {
        self.give_up_calls("the call was not run").await;
        let turn = self.turn.take();
        match turn {
            Some(payload) => {
                self.hooks.tell(&self.cx, Some(&self.session.id), "PostAgentTurn", payload).await
            }
            None => Ok(()),
        }
    }

    /// Notifies hooks of the start and end of turns.
    async fn tell_hooks(&self, event: &AgentEvent) -> Result<()> {
        match event {
            AgentEvent::TurnStart { iteration } => {
                self.end_turn().await?;
                let payload = json!({"session": {"id": self.session.id}, "iteration": iteration});
                let told = self.hooks.watches("PreAgentTurn").then(|| payload.clone());
                *self.turn.borrow_mut() = Some(payload);
                match told {
                    Some(payload) => {
                        self.hooks.tell(&self.cx, Some(&self.session.id), "PreAgentTurn", payload).await
                    }
                    None => Ok(()),
                }
            }
            AgentEvent::TurnEnd { turn_info, .. } => {
                if let Some(payload) = &mut *self.turn.borrow_mut() {
                    payload["turn"] = turn_info.clone();
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Notifies subscribers of events; their errors are reported and have no other effect.
    async fn publish(&self, agent: &mut AgentLoop) -> Result<()> {
        for update in self.session.take_updates() {
            self.session.tell(&self.cx, &update).await;
        }
        for mut event in agent.take_events() {
            self.time(&mut event);
            self.cx.state::<Witness>().happened(&event);
            self.trace_event(&event);
            self.tell_hooks(&event).await?;
            if let AgentEvent::Warning { text } = &event {
                self.cx.system().write_err(&harn_syntax::notice(&format!("warning: {text}")));
            }
            if let AgentEvent::Reminder(entry) = &event {
                tell(self.cx.vm(), Some(&self.session.id), entry.clone());
            }
            if !event.is_live() {
                continue;
            }
            if let AgentEvent::AgentMessageChunk { text } = &event {
                // Text that was streamed is not published again.
                let told = self.told.take();
                let rest =
                    if told.is_empty() { Some(text.as_str()) } else { text.strip_prefix(told.as_str()) };
                match rest.filter(|rest| !rest.is_empty()) {
                    Some(rest) => {
                        self.tell_subscribers(&AgentEvent::AgentMessageChunk { text: rest.to_owned() }).await;
                    }
                    None => continue,
                }
            } else {
                let event = self.incoming.borrow_mut().taken_up(event);
                self.tell_subscribers(&event).await;
            }
        }
        Ok(())
    }

    /// Sets the duration of a finished call.
    fn time(&self, event: &mut AgentEvent) {
        let now = || self.cx.system().monotonic();
        match event {
            AgentEvent::ToolCall(call) => {
                self.since.borrow_mut().insert(call.tool_call_id.clone(), now());
            }
            AgentEvent::ToolCallUpdate(call) if call.status != "in_progress" => {
                let since = self.since.borrow_mut().remove(&call.tool_call_id);
                call.duration_ms = since.map(|since| millis(now().saturating_sub(since)));
            }
            _ => {}
        }
    }

    async fn tell_subscribers(&self, event: &AgentEvent) {
        self.session.tell_of(&self.cx, event, self.name.as_deref()).await;
    }

    /// Ends a loop whose call a limit rejected, with its results so far. If the loop has not called a model yet, it
    /// prints a warning, or throws if the limit is the session's.
    fn over_budget(&self, agent: &AgentLoop, error: Error) -> Result<Answer> {
        let dict = to_json(&error.caught());
        let message = dict["message"].printed();
        if agent.has_called() {
            return Ok(Answer::OverBudget(message));
        }
        let of_session = self.llm.ledger().limit();
        if of_session.is_some()
            && dict["limit"] == "total_budget_usd"
            && dict["limit_value"].as_f64() == of_session
        {
            return Err(error);
        }
        let text = format!(
            "warning: the loop ends before its first call: {message}; the reply is counted at max_tokens, so a smaller one costs less" // prose-ok: diagnostic
        );
        self.cx.system().write_err(&harn_syntax::notice(&text));
        Ok(Answer::OverBudget(message))
    }

    async fn call_model(&self, agent: &AgentLoop, call: ModelCall) -> Result<Answer> {
        // A model that replies immediately leaves no other point to yield.
        self.cx.give_way().await?;
        let started = self.cx.system().monotonic();
        let result = if is_callable(&self.caller) {
            match self.cx.call(&self.caller, [call_dict(agent.call_options(&call))]).await {
                Ok(value) => answered(&value)?,
                Err(error) if error.is_catchable() && over_budget(&to_json(&error.caught())) => {
                    return self.over_budget(agent, error);
                }
                Err(error) => return Err(error),
            }
        } else {
            let call = agent.call(&call);
            let asked = self.ask(agent, &call).await?;
            if asked.is_err() {
                self.give_up_calls("the reply broke off").await;
            }
            match asked {
                Ok(result) => result,
                Err(error) if error.category() == Category::BudgetExceeded => {
                    return self.over_budget(agent, failed(&error));
                }
                Err(error) => return Err(failed(&error)),
            }
        };
        let duration_ms = millis(self.cx.system().monotonic().saturating_sub(started));
        Ok(Answer::Reply { result, duration_ms })
    }

    /// Applies `compress_callback` to an output that is too long.
    async fn compress(&self, agent: &AgentLoop, tool: &str, reply: &mut ToolReply) -> Result<()> {
        if is_callable(&entry(&self.options, "compress_callback")) {
            let (text, limit) = (std::mem::take(&mut reply.text), agent.config().output_max_chars);
            reply.text = compress(&self.cx, &self.options, tool, text, limit).await?;
        }
        Ok(())
    }

    /// Writes the summary of messages that are compacted away. A failure to write it does not end the loop.
    async fn write_summary(&self, agent: &AgentLoop, archive: &Archive) -> Result<Answer> {
        let config = agent.config();
        let writer = Writer {
            function: "agent_loop",
            options: &self.options,
            custom: "compact_callback",
            summarize_prompt: config.compaction.summarize_prompt.as_deref(),
            reminders: &self.reminders.survivors(&self.session.id),
        };
        let options = &llm_options(&Json::Object(config.options.clone()));
        let ask = |prompt: String| async move {
            match self.summarise(prompt, options).await {
                Ok(text) => Ok(Some(text)),
                Err(error) if !error.is_catchable() || over_budget(&to_json(&error.caught())) => Err(error),
                Err(error) => {
                    let text = format!("warning: compaction: no summary, texts are cut instead: {error}");
                    self.cx.system().write_err(&harn_syntax::notice(&text));
                    Ok(None)
                }
            }
        };
        match writer.write(&self.cx, archive, ask).await {
            Ok(text) => Ok(Answer::Summary(text)),
            Err(error) if error.is_catchable() && over_budget(&to_json(&error.caught())) => {
                Ok(Answer::OverBudget(to_json(&error.caught())["message"].printed()))
            }
            // Errors of callbacks and of missing templates are passed to the program.
            Err(error) => Err(error),
        }
    }

    /// Asks for a summary in the same way as for every other call of the loop.
    async fn summarise(&self, prompt: String, options: &Json) -> Result<String> {
        if !is_callable(&self.caller) {
            let asked = self.llm.ask_plainly(prompt, options);
            return calling(&self.cx, options, asked).await.map_err(|e| failed(&e));
        }
        let mut call = options.as_object().cloned().unwrap_or_default();
        call.insert("messages".to_owned(), json!([{"role": "user", "content": prompt}]));
        let reply = answered(&self.cx.call(&self.caller, [call_dict(call)]).await?)?;
        let said = reply["visible_text"].as_str().or_else(|| reply["text"].as_str());
        Ok(said.unwrap_or_default().to_owned())
    }
}

/// Checks the result of `llm_caller`, which must have the shape of a result of `llm_call`.
fn answered(value: &Value) -> Result<Json> {
    const CALL: Shape = Shape::Map(&Shape::Any);
    let wrong =
        |what: String| thrown(format!("agent_loop: llm_caller must return a dict as llm_call does, {what}")); // prose-ok: diagnostic
    let result = to_json(value);
    if !result.is_object() {
        return Err(wrong(format!("got {}", value.type_name())));
    }
    for (key, shape) in [
        ("text", Shape::Str),
        ("visible_text", Shape::Str),
        ("tool_calls", Shape::List(&CALL)),
        ("input_tokens", Shape::Int(0)),
        ("output_tokens", Shape::Int(0)),
    ] {
        shape.check(key, &result[key]).map_err(|error| wrong(error.to_string()))?;
    }
    let calls = result["tool_calls"].as_array();
    if let Some(at) =
        calls.into_iter().flatten().position(|call| call["name"].as_str().is_none_or(str::is_empty))
    {
        return Err(wrong(format!("tool_calls[{at}] has no name")));
    }
    if result["text"].is_null() && calls.is_none_or(Vec::is_empty) {
        return Err(wrong("and this one has neither text nor tool_calls".to_owned()));
    }
    Ok(result)
}

/// Reads the result of a `recitation` closure.
///
/// # Errors
/// The result is neither a string nor nil.
pub(crate) fn recited(value: &Value) -> Result<Option<String>> {
    match value.as_str() {
        Some(text) => Ok(Some(text.to_string())),
        None if value.is_nil() => Ok(None),
        None => Err(thrown(format!("recitation must return a string or nil, got {}", value.type_name()))),
    }
}

fn over_budget(error: &Json) -> bool {
    error["category"] == "budget_exceeded"
}

fn broken(error: &LoopError) -> Error {
    match error {
        LoopError::Callback(text) => Error::thrown(text.as_str()),
        other => thrown(other),
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
