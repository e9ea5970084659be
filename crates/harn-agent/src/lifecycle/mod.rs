//! The lifecycle of delegated work: one state machine for workers, sub-agents and workflow stages, without I/O.
//!
//! ```text
//!            ┌──────────── send_input, trigger ────────────┐
//!            ▼                                             │
//! spawn ─► Running ─┬─► Completed, Failed, Cancelled ──────┤
//!            ▲      └─► Awaiting (retriggerable) ──────────┘
//!            │
//!   resume ──┴── Interrupted (a snapshot whose process died while it ran)
//! ```
//!
//! A [`Record`] is the complete state of a unit of work. It can be saved at any time ([`Record::snapshot`]) and loaded
//! again; scripts see it as [`Record::handle`]. The driver decides who runs it and where its snapshot is stored.

mod carry;
mod envelope;
mod execution;
mod request;
#[cfg(test)]
mod tests;

use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Serialize};

use crate::policy::Policy;
pub use carry::{Carry, TranscriptMode};
pub use envelope::{Envelope, Failure};
pub use execution::{Cleanup, Execution, Worktree};
pub use request::Request;

/// The kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A whole workflow.
    Workflow,
    /// One stage.
    Stage,
    /// A separate loop.
    SubAgent,
    /// A stage that a workflow delegated.
    DelegatedStage,
}

impl Mode {
    /// Returns the name in handles.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Workflow => "workflow",
            Mode::Stage => "stage",
            Mode::SubAgent => "sub_agent",
            Mode::DelegatedStage => "delegated_stage",
        }
    }
}

/// The state of the work in its lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// It is running.
    Running,
    /// It ended, whether successful or not.
    Completed,
    /// It ended with an exception.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It ended, and waits for the next trigger.
    Awaiting,
    /// The process that ran it has died.
    Interrupted,
}

impl Life {
    /// Returns the name in handles.
    pub fn as_str(self) -> &'static str {
        match self {
            Life::Running => "running",
            Life::Completed => "completed",
            Life::Failed => "failed",
            Life::Cancelled => "cancelled",
            Life::Awaiting => "awaiting",
            Life::Interrupted => "interrupted",
        }
    }

    /// Returns whether a caller that waits for the work must continue to wait.
    pub fn blocks(self) -> bool {
        matches!(self, Life::Running | Life::Awaiting)
    }
}

/// The parents of the work, and its session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The worker that started it.
    pub parent_worker_id: Option<String>,
    /// The stage that started it.
    pub parent_stage_id: Option<String>,
    /// The run that contains it.
    pub parent_run_id: Option<String>,
    /// The session whose loop started it.
    pub parent_session_id: Option<String>,
    /// Its own session.
    pub session_id: Option<String>,
}

/// The outcome of a run of the work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// The result that the handle shows.
    pub result: Json,
    /// The conversation so far; null without one.
    pub transcript: Json,
    /// The artifacts of the run.
    pub artifacts: Vec<Json>,
    /// Id and file of the run record, if any.
    pub run: Option<(String, Option<String>)>,
}

/// The inputs of the next run.
#[derive(Debug, Clone, PartialEq)]
pub struct Inputs {
    /// The task.
    pub task: String,
    /// The conversation to continue; null without one.
    pub transcript: Json,
    /// The artifacts that are carried over.
    pub artifacts: Vec<Json>,
    /// File of the run record from which a workflow resumes.
    pub run_path: Option<String>,
}

/// A state change of a unit of work, for subscribers and hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// It was started.
    Spawned,
    /// It was started again.
    Progressed,
    /// It waits for a trigger.
    WaitingForInput,
    /// It ended.
    Completed,
    /// It ended with an exception.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Update {
    /// Returns the name of the event for project hooks.
    pub fn hook(self) -> &'static str {
        match self {
            Update::Spawned => "WorkerSpawned",
            Update::Progressed => "WorkerProgressed",
            Update::WaitingForInput => "WorkerWaitingForInput",
            Update::Completed => "WorkerCompleted",
            Update::Failed => "WorkerFailed",
            Update::Cancelled => "WorkerCancelled",
        }
    }

    /// Returns the name in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Update::Spawned => "spawned",
            Update::Progressed => "progressed",
            Update::WaitingForInput => "waiting_for_input",
            Update::Completed => "completed",
            Update::Failed => "failed",
            Update::Cancelled => "cancelled",
        }
    }
}

/// The complete state of a unit of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub mode: Mode,
    /// Its state.
    #[serde(rename = "status")]
    pub life: Life,
    /// All tasks so far, the current one last.
    pub history: Vec<String>,
    /// The first task with its additional data.
    pub request: Request,
    /// Its parents.
    #[serde(flatten)]
    pub lineage: Lineage,
    /// RFC 3339, like all times here.
    pub created_at: String,
    /// When the current or last run began.
    pub started_at: String,
    /// When it ended.
    pub finished_at: Option<String>,
    /// Since when it waits for a trigger.
    pub awaiting_started_at: Option<String>,
    /// The result of the last run.
    pub result: Json,
    /// The error message.
    #[serde(rename = "latest_error")]
    pub error: Option<String>,
    /// The conversation for the next run, from the last run that ended.
    pub transcript: Json,
    /// The artifacts for the next run, from the last run that ended.
    pub artifacts: Vec<Json>,
    /// The payload of the last `worker_trigger`.
    pub latest_payload: Json,
    /// The run record of the last run.
    pub child_run_id: Option<String>,
    /// Its file.
    pub child_run_path: Option<String>,
    /// The state that continuation carries over.
    #[serde(rename = "carry_policy")]
    pub carry: Carry,
    /// Where it runs.
    pub execution: Execution,
    /// Metadata of the mutation session.
    pub audit: Json,
    /// The options that it was started with, without closures.
    pub config: Json,
    /// Paths of the closures in `config`; they are missing in a process that loads the snapshot.
    pub closures: Vec<String>,
    /// The policies in effect where it was started, outermost first.
    pub inherited: Vec<Policy>,
    /// The policies that it was started with.
    pub own: Vec<Policy>,
    /// The file of the snapshot; `None` if it has none.
    pub snapshot_path: Option<String>,
}

/// The parameters of a new record.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub mode: Mode,
    /// The task.
    pub task: String,
    /// Its additional data.
    pub request: Request,
    /// Its parents.
    pub lineage: Lineage,
    /// The state that continuation carries over.
    pub carry: Carry,
    /// Where it runs.
    pub execution: Execution,
    /// Metadata of the mutation session.
    pub audit: Json,
    /// The options to start with.
    pub config: Json,
    /// The initial conversation.
    pub transcript: Json,
    /// The initial artifacts.
    pub artifacts: Vec<Json>,
    /// The policies in effect for the caller that starts it, outermost first.
    pub inherited: Vec<Policy>,
    /// The policies to start with.
    pub own: Vec<Policy>,
}

impl Record {
    /// Creates the record of work that starts now.
    pub fn new(plan: Plan, now: &str) -> Record {
        let mut closures = Vec::new();
        let config = without_closures(&plan.config, "", &mut closures);
        Record {
            id: plan.id,
            name: plan.name,
            mode: plan.mode,
            life: Life::Running,
            history: vec![plan.task],
            request: plan.request,
            lineage: plan.lineage,
            created_at: now.to_owned(),
            started_at: now.to_owned(),
            finished_at: None,
            awaiting_started_at: None,
            result: Json::Null,
            error: None,
            transcript: plan.transcript,
            artifacts: plan.artifacts,
            latest_payload: Json::Null,
            child_run_id: None,
            child_run_path: None,
            carry: plan.carry,
            execution: plan.execution,
            audit: plan.audit,
            config,
            closures,
            inherited: plan.inherited,
            own: plan.own,
            snapshot_path: None,
        }
    }

    /// Returns the current task.
    pub fn task(&self) -> &str {
        self.history.last().map_or("", String::as_str)
    }

    /// Returns the inputs of the run that is about to start.
    pub fn inputs(&self) -> Inputs {
        Inputs {
            task: self.task().to_owned(),
            transcript: self.transcript.clone(),
            artifacts: self.artifacts.clone(),
            run_path: self.child_run_path.clone().filter(|_| self.carry.resume_workflow),
        }
    }

    /// Records the end of a run.
    pub fn finish(&mut self, outcome: Outcome, now: &str) -> Update {
        self.result = outcome.result;
        self.transcript = outcome.transcript;
        self.artifacts = outcome.artifacts;
        self.error = None;
        self.finished_at = Some(now.to_owned());
        if let Some((id, path)) = outcome.run {
            self.child_run_id = Some(id);
            self.child_run_path = path;
        }
        if self.carry.retriggerable {
            self.life = Life::Awaiting;
            self.awaiting_started_at = Some(now.to_owned());
            return Update::WaitingForInput;
        }
        self.life = Life::Completed;
        Update::Completed
    }

    /// Records that a run ended with an exception. The state of the previous run is retained, so that the task can be
    /// retried.
    pub fn fail(&mut self, error: &str, now: &str) -> Update {
        self.life = Life::Failed;
        self.error = Some(error.to_owned());
        self.finished_at = Some(now.to_owned());
        Update::Failed
    }

    /// Cancels the work. Work that has ended is unchanged; work that waits for a trigger stops waiting.
    pub fn cancel(&mut self, now: &str) -> Option<Update> {
        if matches!(self.life, Life::Completed | Life::Failed | Life::Cancelled) {
            return None;
        }
        self.life = Life::Cancelled;
        self.error = Some("worker cancelled".to_owned()); // prose-ok: contract text
        self.awaiting_started_at = None;
        self.finished_at = Some(now.to_owned());
        Some(Update::Cancelled)
    }

    fn run_again(&mut self, task: &str, now: &str) -> Update {
        self.history.push(task.to_owned());
        self.start(now);
        Update::Progressed
    }

    fn start(&mut self, now: &str) {
        self.life = Life::Running;
        self.result = Json::Null;
        self.error = None;
        self.started_at = now.to_owned();
        self.finished_at = None;
        self.awaiting_started_at = None;
        if !self.carry.keeps_artifacts {
            self.artifacts.clear();
        }
        if self.carry.transcript == TranscriptMode::Reset {
            self.transcript = Json::Null;
        }
    }

    /// `send_input`: starts a new task of work that is not running.
    ///
    /// # Errors
    /// The work is running, or the task is empty.
    pub fn send_input(&mut self, task: &str, now: &str) -> Result<Update, String> {
        if task.trim().is_empty() {
            return Err("send_input: task text must not be empty".to_owned());
        }
        if self.life == Life::Running {
            return Err(format!("send_input: worker {} is still running", self.id));
        }
        Ok(self.run_again(task, now))
    }

    /// `worker_trigger`: starts the next task of work that waits for a trigger. A string payload is the task; any other
    /// payload becomes JSON.
    ///
    /// # Errors
    /// The work does not wait for a trigger, or the payload is empty.
    pub fn trigger(&mut self, payload: &Json, now: &str) -> Result<Update, String> {
        let id = &self.id;
        if !self.carry.retriggerable {
            return Err(format!("worker_trigger: worker {id} is not retriggerable"));
        }
        match self.life {
            Life::Awaiting => {}
            Life::Running => return Err(format!("worker_trigger: worker {id} is still running")),
            life => {
                return Err(format!(
                    "worker_trigger: worker {id} is not awaiting (status={})",
                    life.as_str()
                ));
            }
        }
        let task = match payload {
            Json::Null => String::new(),
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
        if task.trim().is_empty() {
            return Err("worker_trigger: payload must not be empty".to_owned());
        }
        self.latest_payload = payload.clone();
        Ok(self.run_again(&task, now))
    }

    /// `resume_agent`: restarts the task of interrupted work with its original inputs. Other work is unchanged.
    pub fn resume(&mut self, now: &str) -> Option<Update> {
        if self.life != Life::Interrupted {
            return None;
        }
        self.life = Life::Running;
        self.started_at = now.to_owned();
        self.finished_at = None;
        Some(Update::Progressed)
    }

    /// Returns the snapshot.
    pub fn snapshot(&self) -> Json {
        let mut out = Json::lossy(self);
        if let Some(map) = out.as_object_mut() {
            map.insert("_type".to_owned(), "worker_snapshot".into());
            map.insert("task".to_owned(), self.task().into());
        }
        out
    }

    /// Loads a snapshot. Work that was running becomes interrupted.
    ///
    /// # Errors
    /// The value is not a valid worker snapshot.
    pub fn from_snapshot(snapshot: Json) -> Result<Record, String> {
        if snapshot["_type"] != "worker_snapshot" {
            return Err("it is no worker snapshot".to_owned());
        }
        let mut record: Record = snapshot.read().map_err(|e| e.to_string())?;
        if record.history.is_empty() {
            return Err("it has no task".to_owned());
        }
        if record.life == Life::Running {
            record.life = Life::Interrupted;
        }
        Ok(record)
    }

    /// Returns the provenance of the work's results.
    pub fn provenance(&self) -> Json {
        json!({
            "worker_id": self.id, "worker_name": self.name, "mode": self.mode.as_str(),
            "parent_worker_id": self.lineage.parent_worker_id, "parent_stage_id": self.lineage.parent_stage_id,
            "parent_run_id": self.lineage.parent_run_id, "session_id": self.lineage.session_id,
            "parent_session_id": self.lineage.parent_session_id, "run_id": self.child_run_id,
            "run_path": self.child_run_path, "snapshot_path": self.snapshot_path,
        })
    }

    /// Returns the dict for scripts.
    pub fn handle(&self) -> Json {
        json!({
            "_type": "agent_handle", "id": self.id, "name": self.name, "task": self.task(),
            "mode": self.mode.as_str(), "status": self.life.as_str(), "created_at": self.created_at,
            "started_at": self.started_at, "finished_at": self.finished_at,
            "awaiting_started_at": self.awaiting_started_at, "history": self.history,
            "request": self.request.to_json(), "provenance": self.provenance(), "result": self.result,
            "error": self.error, "artifact_count": self.artifacts.len(),
            "has_transcript": !self.transcript.is_null(), "parent_worker_id": self.lineage.parent_worker_id,
            "parent_stage_id": self.lineage.parent_stage_id, "child_run_id": self.child_run_id,
            "child_run_path": self.child_run_path, "execution": self.execution.to_json(),
            "snapshot_path": self.snapshot_path, "audit": self.audit,
        })
    }
}

/// Returns a copy of options without functions, other opaque values and API keys, and the paths of those values.
pub fn without_functions(value: &Json) -> (Json, Vec<String>) {
    let mut places = Vec::new();
    (without_closures(value, "", &mut places), places)
}

/// Returns a copy without opaque values; appends their paths to `places`.
fn without_closures(value: &Json, place: &str, places: &mut Vec<String>) -> Json {
    if value.as_opaque().is_some() {
        places.push(place.to_owned());
        return Json::Null;
    }
    let below = |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
    match value {
        Json::Array(items) => {
            let each = items.iter().enumerate();
            each.map(|(at, item)| without_closures(item, &below(&at.to_string()), places)).collect()
        }
        Json::Object(map) => {
            // API keys must not be written to files.
            let kept = map.iter().filter(|(key, _)| *key != "api_key");
            let copied: Map<String, Json> =
                kept.map(|(key, item)| (key.clone(), without_closures(item, &below(key), places))).collect();
            Json::Object(copied)
        }
        plain => plain.clone(),
    }
}
