//! The execution of a workflow, as a state machine without I/O.
//!
//! [`Execution::next_step`] returns what is needed next (run models, run a command, wait, write the record), and
//! [`Execution::answer`] takes the result. It can be saved between any two steps.
//!
//! ```text
//! ready queue ─► node ─► work of a model, a command, or nothing ─► outcome ─► branch ─► edges ─► ready queue
//! ```

use std::collections::VecDeque;

use harn_value::{Data as Json, json};
use serde::{Deserialize, Serialize};

use super::graph::{Graph, Node};
use super::options::RunOptions;
use super::outcome::{Current, Ended, Report};
use super::record::{Mark, Record};
use super::routes::Routes;
use super::work::{Command, Inputs, Work, inputs_of, map_items, runs_loop};
use super::world::World;
use crate::artifact;

/// The next step that the driver must execute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// Write the record: see [`Execution::record`].
    Persist,
    /// Execute pieces of work concurrently, up to a limit, until enough have succeeded.
    Run {
        /// The pieces of work, in the order of their items.
        works: Vec<Work>,
        /// Maximum number of concurrent pieces.
        at_once: usize,
        /// Number of successes after which the remaining pieces are skipped.
        enough: usize,
        /// Whether an exception in a piece is a failed branch; otherwise it ends the run.
        tolerant: bool,
    },
    /// Run a command.
    Command(Command),
    /// Wait for this many milliseconds.
    Pause(u64),
    /// The run has ended: see [`Execution::result`].
    Finished,
}

/// The answer to a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The record is written, or the pause has elapsed.
    Done,
    /// The result of each piece; `None` for a skipped one.
    Worked(Vec<Option<Result<Report, String>>>),
    /// The result of a command.
    Ran {
        /// Its standard output.
        stdout: String,
        /// Its standard error.
        stderr: String,
        /// Its exit code; -1 if a signal or the timeout ended it.
        status: i64,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Phase {
    /// Nothing has been done yet.
    Start,
    /// The next node must be taken.
    Ready,
    /// A node is waiting for its work.
    Working(Box<Current>),
    /// The command that verifies a stage must be run.
    Check(Box<Current>),
    /// A stage is waiting for the command that verifies it.
    Checking(Box<Current>),
    /// The pause before the next attempt must be made.
    Backoff(Box<Current>),
    /// The next attempt must be started.
    Retry(Box<Current>),
    /// The record must be written.
    Save,
    /// The final record must be written.
    Closing,
    /// The run has ended.
    Ended,
}

/// The execution of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    routes: Routes,
    task: String,
    options: RunOptions,
    queue: VecDeque<String>,
    steps_left: u64,
    artifacts: Vec<Json>,
    record: Record,
    /// Remaining stages of the record that is replayed.
    replay: Option<VecDeque<Json>>,
    phase: Phase,
}

impl Execution {
    /// Starts a run, or resumes the one in the options.
    ///
    /// # Errors
    /// The graph cannot run, an artifact is malformed, or a record does not match.
    pub fn new(
        graph: Graph,
        task: &str,
        artifacts: &Json,
        options: RunOptions,
        world: &World<'_>,
    ) -> Result<Execution, String> {
        let found = super::validate(&graph, &Json::Null);
        if !found.errors.is_empty() {
            return Err(format!("invalid workflow: {}", found.errors.join("; ")));
        }
        let mut given = match artifacts {
            Json::Null => Vec::new(),
            Json::Array(list) => list
                .iter()
                .map(|one| artifact::artifact(one, &(world.now)(), world.ids))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| format!("artifacts: {error}"))?,
            _ => return Err("artifacts must be a list".to_owned()),
        };
        let steps = options.max_steps.unwrap_or(4 * graph.nodes.len() as u64);
        let replay = options
            .replays
            .then(|| options.replay_run["stages"].as_array().cloned().unwrap_or_default().into());
        let mut queue = VecDeque::from([graph.entry.clone()]);
        let mut record = Record::new(&graph, task, &options, world);
        if !options.resume_run.is_null() {
            let pending = record.resume(&options.resume_run, task)?;
            if let Some(pending) = pending {
                if let Some(gone) = pending.iter().find(|id| graph.node(id).is_none()) {
                    return Err(format!("resume: the graph has no node {gone}"));
                }
                queue = pending.into();
            }
            let known: Vec<Json> = options.resume_run["artifacts"].as_array().cloned().unwrap_or_default();
            given.retain(|new| known.iter().all(|old| old["id"] != new["id"]));
            given.splice(0..0, known);
        }
        let phase = Phase::Start;
        let task = task.to_owned();
        Ok(Execution {
            routes: Routes::new(graph),
            task,
            options,
            queue,
            steps_left: steps,
            artifacts: given,
            record,
            replay,
            phase,
        })
    }

    /// Returns the next step.
    ///
    /// # Errors
    /// The error that ends the run: a violated contract, a record that does not match, a prompt that does not render.
    pub fn next_step(&mut self, world: &World<'_>) -> Result<Step, String> {
        loop {
            match std::mem::replace(&mut self.phase, Phase::Ready) {
                Phase::Start => {
                    let (queue, now) = (self.queue.make_contiguous().to_vec(), (world.now)());
                    self.record.checkpoint(&queue, "start", &now, world);
                    return Ok(Step::Persist);
                }
                Phase::Ready => {
                    if let Some(step) = self.take_node(world)? {
                        return Ok(step);
                    }
                }
                Phase::Save => return Ok(Step::Persist),
                Phase::Backoff(current) => {
                    let pause = self.pause_before(&current)?;
                    self.phase = Phase::Retry(current);
                    if pause > 0 {
                        return Ok(Step::Pause(pause));
                    }
                }
                Phase::Retry(current) => {
                    if let Some(step) = self.work(*current, world)? {
                        return Ok(step);
                    }
                }
                Phase::Check(current) => {
                    let command = self.command(&self.node(&current.node)?, &current)?;
                    self.phase = Phase::Checking(current);
                    return Ok(Step::Command(command));
                }
                phase @ (Phase::Working(_) | Phase::Checking(_)) => {
                    self.phase = phase;
                    return Err("the workflow waits for an answer".to_owned());
                }
                Phase::Closing | Phase::Ended => {
                    self.phase = Phase::Ended;
                    return Ok(Step::Finished);
                }
            }
        }
    }

    /// Handles the answer to the last step.
    ///
    /// # Errors
    /// The answer does not match the step.
    pub fn answer(&mut self, answer: Answer, world: &World<'_>) -> Result<(), String> {
        match (std::mem::replace(&mut self.phase, Phase::Ready), answer) {
            (phase @ (Phase::Ready | Phase::Retry(_) | Phase::Closing), Answer::Done) => {
                self.phase = phase;
                Ok(())
            }
            (Phase::Working(current), Answer::Worked(reports)) => self.worked(*current, reports, world),
            (Phase::Working(current), Answer::Ran { stdout, stderr, status }) => {
                let node = self.node(&current.node)?;
                let ended = Ended::verified(&node, &format!("{stdout}\n{stderr}"), Some(status), None);
                self.finish_try(*current, ended, world)
            }
            (Phase::Checking(mut current), Answer::Ran { stdout, stderr, status }) => {
                let node = self.node(&current.node)?;
                let report = current.report.take();
                let ended = Ended::verified(&node, &format!("{stdout}\n{stderr}"), Some(status), report);
                self.finish_try(*current, ended, world)
            }
            (phase, _) => {
                self.phase = phase;
                Err("the workflow has not asked for that".to_owned())
            }
        }
    }

    /// Ends the run with an exception.
    pub fn abort(&mut self, error: &str, world: &World<'_>) {
        if let Some((node, _)) = self.current() {
            let node = node.to_owned();
            self.queue.push_front(node);
        }
        let queue: Vec<String> = self.queue.iter().cloned().collect();
        self.record.fail(error, &queue, world);
        self.phase = Phase::Ended;
    }

    /// Returns whether the run has ended.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Returns the current node and stage, for observers.
    pub fn current(&self) -> Option<(&str, &str)> {
        match &self.phase {
            Phase::Working(current)
            | Phase::Check(current)
            | Phase::Checking(current)
            | Phase::Backoff(current)
            | Phase::Retry(current) => Some((&current.node, &current.stage_id)),
            _ => None,
        }
    }

    /// Returns the current record.
    pub fn record(&self) -> Json {
        self.record.to_json(&self.artifacts, false)
    }

    /// Returns the current record in the form for files; [`unpack`](super::unpack) converts it to the form for
    /// programs.
    pub fn packed_record(&self) -> Json {
        self.record.to_json(&self.artifacts, true)
    }

    /// Returns the current position in the record.
    pub fn mark(&self) -> Mark {
        self.record.mark(self.artifacts.len())
    }

    /// Returns the changes of the record since `mark`; [`apply`](super::apply) adds them to an older one.
    pub fn changes(&self, mark: Mark) -> Json {
        self.record.changes(mark, &self.artifacts)
    }

    /// Returns whether no more stages follow.
    pub fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing | Phase::Ended)
    }

    /// Returns the result; its `path` is the file of the record, null if it is not stored.
    pub fn result(&self) -> Json {
        let run = self.record();
        let mut out = json!({
            "status": run["status"], "run": null, "artifacts": self.artifacts, "transcript": run["transcript"],
            "path": run["persisted_path"],
        });
        // Moved instead of copied, because it is large.
        out["run"] = run;
        out
    }

    /// Returns the handoffs of stages since the last call.
    pub fn take_handoffs(&mut self) -> Vec<Json> {
        self.record.take_handoffs()
    }

    /// Returns the id of the run.
    pub fn id(&self) -> &str {
        self.record.id()
    }

    /// Returns the execution environment in the options.
    pub fn execution(&self) -> &Json {
        &self.options.execution
    }

    /// Stores the path of the record in the record itself.
    pub fn persisted_at(&mut self, path: &str) {
        self.record.persisted_path = Some(path.to_owned());
    }

    fn node(&self, id: &str) -> Result<Node, String> {
        self.routes.node(id).cloned().ok_or_else(|| format!("the graph has no node {id}"))
    }

    /// Takes the next node from the queue and starts it. `None` if it is already done, or not ready.
    fn take_node(&mut self, world: &World<'_>) -> Result<Option<Step>, String> {
        if self.queue.is_empty() || self.steps_left == 0 {
            let status = if self.queue.is_empty() { "completed" } else { "paused" };
            let queue: Vec<String> = self.queue.iter().cloned().collect();
            self.record.close(status, &queue, world);
            self.phase = Phase::Closing;
            return Ok(Some(Step::Persist));
        }
        let Some(id) = self.queue.pop_front() else { return Ok(None) };
        self.steps_left -= 1;
        let node = self.node(&id)?;
        if node.kind() == "join" && !self.is_ready(&node) {
            self.queue.push_back(id);
            return Ok(None);
        }
        if self.replay.is_some() {
            return self.replay_stage(&node, world).map(|()| None);
        }
        let selected = inputs_of(&node, &self.artifacts)?;
        if node.part("input_contract")["require_transcript"] == true {
            self.require_transcript(&node)?;
        }
        let started_at = (world.now)();
        let current = Current {
            node: id,
            stage_id: self.record.next_stage_id(&node.id),
            attempt_started: started_at.clone(),
            started_at,
            items: if node.kind() == "map" { map_items(&node, &selected) } else { Vec::new() },
            selected,
            attempt: 1,
            attempts: Vec::new(),
            repair: None,
            report: None,
        };
        self.work(current, world)
    }

    fn require_transcript(&self, node: &Node) -> Result<(), String> {
        let named = node.part("model_policy")["session_id"].is_string()
            || self.options.model.contains_key("session_id");
        if named || !self.options.transcript.is_null() {
            return Ok(());
        }
        Err(format!(
            "workflow stage {} requires an existing session (model_policy.session_id or option transcript)",
            node.id
        ))
    }

    /// Returns whether enough of the nodes before a join are done.
    fn is_ready(&self, join: &Node) -> bool {
        let incoming = self.routes.incoming(&join.id);
        let done = incoming.iter().filter(|id| self.record.has_completed(id)).count() as u64;
        let policy = join.part("join_policy");
        let all = matches!(policy["strategy"].as_str(), Some("all" | "require_all_inputs"));
        let needed = policy["min_completed"].as_u64().unwrap_or(if all { incoming.len() as u64 } else { 1 });
        done >= needed.min(incoming.len() as u64)
    }

    /// Starts an attempt of a node.
    fn work(&mut self, mut current: Current, world: &World<'_>) -> Result<Option<Step>, String> {
        let node = self.node(&current.node)?;
        current.attempt_started = (world.now)();
        let works_like_a_stage = match node.kind() {
            "stage" | "subagent" => true,
            "verify" => node.get("verify")["command"].is_null() && node.has_work(),
            _ => false,
        };
        if works_like_a_stage {
            let work = self.inputs(&node, &current, &self.task).work(world.prose)?;
            self.phase = Phase::Working(Box::new(current));
            return Ok(Some(Step::Run { works: vec![work], at_once: 1, enough: 1, tolerant: false }));
        }
        match node.kind() {
            "verify" => match node.get("verify")["command"].as_str() {
                Some(_) => {
                    let command = self.command(&node, &current)?;
                    self.phase = Phase::Working(Box::new(current));
                    Ok(Some(Step::Command(command)))
                }
                None => {
                    self.settle(current, &node, Ended::verified(&node, "", None, None), world).map(|()| None)
                }
            },
            "map" if node.has_work() && !current.items.is_empty() => {
                let (works, at_once, enough) = self.map_works(&node, &current, world)?;
                self.phase = Phase::Working(Box::new(current));
                Ok(Some(Step::Run { works, at_once, enough, tolerant: true }))
            }
            _ => {
                let ended = Ended::without_work(&node, &current.selected, &current.items);
                self.settle(current, &node, ended, world).map(|()| None)
            }
        }
    }

    fn inputs<'a>(&'a self, node: &'a Node, current: &'a Current, task: &'a str) -> Inputs<'a> {
        Inputs {
            routes: &self.routes,
            node,
            options: &self.options,
            task,
            stage_id: &current.stage_id,
            run_id: self.record.id(),
            selected: &current.selected,
            repair: current.repair.as_deref(),
        }
    }

    fn command(&self, node: &Node, current: &Current) -> Result<Command, String> {
        let checks = node.get("verify");
        Ok(Command {
            node_id: node.id.clone(),
            line: checks["command"].as_str().unwrap_or_default().to_owned(),
            timeout_ms: checks["timeout"].as_u64(),
            policy: self.inputs(node, current, "").policy()?,
        })
    }

    /// Returns one piece of work per item.
    fn map_works(
        &self,
        node: &Node,
        current: &Current,
        world: &World<'_>,
    ) -> Result<(Vec<Work>, usize, usize), String> {
        let count = current.items.len();
        let mut works = Vec::with_capacity(count);
        for (at, item) in current.items.iter().enumerate() {
            let item = if item["_type"] == "artifact" {
                item.clone()
            } else {
                let text = match item {
                    Json::String(text) => text.clone(),
                    other => other.printed(),
                };
                let title = format!("item {}", at + 1);
                json!({"_type": "artifact", "kind": "artifact", "title": title, "text": text, "data": item})
            };
            let task = format!("{}\n\nMap item {} of {count}", self.task, at + 1);
            let selected = [item];
            let inputs = Inputs { selected: &selected, ..self.inputs(node, current, &task) };
            works.push(inputs.work(world.prose)?);
        }
        let limit = node.part("map_policy")["max_concurrent"].as_u64().and_then(|n| usize::try_from(n).ok());
        let join = node.part("join_policy");
        let enough = match join["strategy"].as_str() {
            Some("first" | "any") => 1,
            Some("quorum") => {
                join["min_completed"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(count)
            }
            _ => count,
        };
        Ok((works, limit.unwrap_or(count).min(count), enough.min(count)))
    }

    fn worked(
        &mut self,
        mut current: Current,
        reports: Vec<Option<Result<Report, String>>>,
        world: &World<'_>,
    ) -> Result<(), String> {
        let node = self.node(&current.node)?;
        if node.kind() == "map" {
            let ended = Ended::mapped(&node, &current.items, reports);
            return self.finish_try(current, ended, world);
        }
        let Some(Some(Ok(report))) = reports.into_iter().next() else {
            return Err(format!("workflow stage {} has no result", node.id));
        };
        if node.kind() == "verify" {
            let text = report.text.clone();
            return self.finish_try(current, Ended::verified(&node, &text, None, Some(report)), world);
        }
        let checked = node.part("retry_policy")["verify"] == true && !node.get("verify").is_null();
        if !checked || !report.succeeded() {
            let ended = Ended::worked(&node, report, runs_loop(&node));
            return self.finish_try(current, ended, world);
        }
        if node.get("verify")["command"].is_string() {
            current.report = Some(report);
            self.phase = Phase::Check(Box::new(current));
            return Ok(());
        }
        let text = report.text.clone();
        self.finish_try(current, Ended::verified(&node, &text, None, Some(report)), world)
    }

    /// Ends an attempt: the next one follows, or the stage ends.
    fn finish_try(&mut self, mut current: Current, ended: Ended, world: &World<'_>) -> Result<(), String> {
        let node = self.node(&current.node)?;
        let retry = node.part("retry_policy");
        let most = retry["max_attempts"].as_u64().unwrap_or(1);
        let repeats = matches!(node.kind(), "stage" | "subagent" | "verify" | "map");
        if ended.failed && repeats && current.attempt < most {
            current.attempts.push(ended.attempt(&current, &(world.now)()));
            if retry["repair"] == true {
                current.repair = Some(ended.why_failed());
            }
            current.attempt += 1;
            self.phase = Phase::Backoff(Box::new(current));
            return Ok(());
        }
        self.settle(current, &node, ended, world)
    }

    /// Returns the pause before the next attempt in milliseconds.
    fn pause_before(&self, current: &Current) -> Result<u64, String> {
        let node = self.node(&current.node)?;
        let retry = node.part("retry_policy");
        let factor = retry["backoff_multiplier"].as_f64().unwrap_or(1.0);
        let mut pause = retry["backoff_ms"].as_f64().unwrap_or(0.0);
        for _ in 2..current.attempt.min(1000) {
            pause *= factor;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an hour at most")]
        Ok(pause.min(3_600_000.0) as u64)
    }

    /// Records the end of a stage and follows its branch.
    fn settle(
        &mut self,
        mut current: Current,
        node: &Node,
        ended: Ended,
        world: &World<'_>,
    ) -> Result<(), String> {
        let now = (world.now)();
        current.attempts.push(ended.attempt(&current, &now));
        let mut made = Vec::new();
        for fields in ended.artifacts(node, &current) {
            made.push(artifact::artifact(&fields, &now, world.ids)?);
        }
        let produced: Vec<Json> = made.iter().map(|one| one["id"].clone()).collect();
        let stage = ended.stage(node, &current, &made, &now);
        self.artifacts.extend(made);
        self.follow(node, stage, &ended.branch, &current.selected, &produced, world);
        Ok(())
    }

    fn follow(
        &mut self,
        node: &Node,
        stage: Json,
        branch: &str,
        selected: &[Json],
        produced: &[Json],
        world: &World<'_>,
    ) {
        let now = (world.now)();
        let consumed: Vec<Json> = selected.iter().map(|one| one["id"].clone()).collect();
        let stage_id = stage["id"].as_str().unwrap_or_default().to_owned();
        self.record.add_stage(stage, !self.options.transcript.is_null());
        let next: Vec<String> =
            self.routes.next(&node.id, branch).iter().map(|edge| edge.to.clone()).collect();
        for to in next {
            self.record.add_transition(&stage_id, &node.id, &to, branch, &now, &consumed, produced, world);
            if !self.queue.contains(&to) {
                self.queue.push_back(to);
            }
        }
        let queue: Vec<String> = self.queue.iter().cloned().collect();
        self.record.checkpoint(&queue, "stage_complete", &now, world);
        self.phase = Phase::Save;
    }

    /// Takes a stage from the record that is replayed.
    fn replay_stage(&mut self, node: &Node, world: &World<'_>) -> Result<(), String> {
        let Some(mut stage) = self.replay.as_mut().and_then(VecDeque::pop_front) else {
            return Err(format!("workflow replay exhausted before node {}", node.id));
        };
        let recorded = stage["node_id"].as_str().unwrap_or_default();
        if recorded != node.id {
            return Err(format!(
                "workflow replay mismatch: expected node {}, next replay stage is {recorded}",
                node.id
            ));
        }
        stage["id"] = self.record.next_stage_id(&node.id).into();
        let made: Vec<Json> = stage["artifacts"].as_array().cloned().unwrap_or_default();
        let produced: Vec<Json> = made.iter().map(|one| one["id"].clone()).collect();
        let consumed: Vec<Json> = stage["consumed_artifact_ids"].as_array().cloned().unwrap_or_default();
        let selected: Vec<Json> = consumed.into_iter().map(|id| json!({"id": id})).collect();
        let branch = stage["branch"].as_str().unwrap_or_default().to_owned();
        self.artifacts.extend(made);
        self.follow(node, stage, &branch, &selected, &produced, world);
        Ok(())
    }
}
