//! The life of delegated work: one state machine for workers, sub-agents and workflow stages, without I/O.
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
//! A [`Record`] is all that is known of a piece of work. It can be saved at any time ([`Record::snapshot`]) and read back;
//! what scripts see of it is [`Record::handle`]. Who runs it, and where its snapshot lies, is the driver's business.

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

/// What kind of work it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A whole workflow.
    Workflow,
    /// One stage.
    Stage,
    /// A loop of its own.
    SubAgent,
    /// A stage that a workflow handed on.
    DelegatedStage,
}

impl Mode {
    /// Returns the word of handles.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Workflow => "workflow",
            Mode::Stage => "stage",
            Mode::SubAgent => "sub_agent",
            Mode::DelegatedStage => "delegated_stage",
        }
    }
}

/// Where in its life the work stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// It runs.
    Running,
    /// It came to its end, well or badly.
    Completed,
    /// It ended with an exception.
    Failed,
    /// Somebody has stopped it.
    Cancelled,
    /// It came to its end, and waits for the next trigger.
    Awaiting,
    /// The process that ran it is gone.
    Interrupted,
}

impl Life {
    /// Returns the word of handles.
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

    /// Whether whoever waits for the work has to go on waiting.
    pub fn blocks(self) -> bool {
        matches!(self, Life::Running | Life::Awaiting)
    }
}

/// Whose work it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The worker that started it.
    pub parent_worker_id: Option<String>,
    /// The stage that started it.
    pub parent_stage_id: Option<String>,
    /// The run that it is part of.
    pub parent_run_id: Option<String>,
    /// The session whose loop started it.
    pub parent_session_id: Option<String>,
    /// Its own session.
    pub session_id: Option<String>,
}

/// What a run of the work came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// The result that the handle shows.
    pub result: Json,
    /// The conversation so far; null without one.
    pub transcript: Json,
    /// What the run left.
    pub artifacts: Vec<Json>,
    /// Id and file of the run record, when there is one.
    pub run: Option<(String, Option<String>)>,
}

/// What the next run begins with.
#[derive(Debug, Clone, PartialEq)]
pub struct Inputs {
    /// The task.
    pub task: String,
    /// The conversation to go on with; null without one.
    pub transcript: Json,
    /// What is carried on.
    pub artifacts: Vec<Json>,
    /// File of the run record that a workflow goes on from.
    pub run_path: Option<String>,
}

/// Something that happened to a piece of work, for subscribers and hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// It was started.
    Spawned,
    /// It was started again.
    Progressed,
    /// It waits for a trigger.
    WaitingForInput,
    /// It is over.
    Completed,
    /// It ended with an exception.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl Update {
    /// Returns the name of the event that hooks of a project can see.
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

    /// Returns the word of events.
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

/// All that is known of a piece of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub mode: Mode,
    /// Where it stands.
    #[serde(rename = "status")]
    pub life: Life,
    /// All tasks so far, the current one last.
    pub history: Vec<String>,
    /// The first task with what came with it.
    pub request: Request,
    /// Whose it is.
    #[serde(flatten)]
    pub lineage: Lineage,
    /// RFC 3339, as all times here.
    pub created_at: String,
    /// When the current or last run began.
    pub started_at: String,
    /// When it ended.
    pub finished_at: Option<String>,
    /// Since when it waits for a trigger.
    pub awaiting_started_at: Option<String>,
    /// What the last run came to.
    pub result: Json,
    /// Why it failed.
    #[serde(rename = "latest_error")]
    pub error: Option<String>,
    /// What the next run begins with: what the last one that ended has left.
    pub transcript: Json,
    /// As `transcript`.
    pub artifacts: Vec<Json>,
    /// What `worker_trigger` gave last.
    pub latest_payload: Json,
    /// The run record of the last run.
    pub child_run_id: Option<String>,
    /// Its file.
    pub child_run_path: Option<String>,
    /// What continuation carries.
    #[serde(rename = "carry_policy")]
    pub carry: Carry,
    /// Where it runs.
    pub execution: Execution,
    /// Metadata of the mutation session.
    pub audit: Json,
    /// What it was started with, without closures.
    pub config: Json,
    /// Where closures were in `config`: a process that reads the snapshot does not have them.
    pub closures: Vec<String>,
    /// The policies in effect where it was started, outermost first.
    pub inherited: Vec<Policy>,
    /// Those that it was started with.
    pub own: Vec<Policy>,
    /// Where the snapshot lies; none when it keeps none.
    pub snapshot_path: Option<String>,
}

/// What a record is made of.
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
    /// What came with it.
    pub request: Request,
    /// Whose it is.
    pub lineage: Lineage,
    /// What continuation carries.
    pub carry: Carry,
    /// Where it runs.
    pub execution: Execution,
    /// Metadata of the mutation session.
    pub audit: Json,
    /// What it is started with.
    pub config: Json,
    /// The conversation to begin with.
    pub transcript: Json,
    /// The artifacts to begin with.
    pub artifacts: Vec<Json>,
    /// The policies that are over whoever starts it, outermost first.
    pub inherited: Vec<Policy>,
    /// Those that it is started with.
    pub own: Vec<Policy>,
}

impl Record {
    /// Work that begins now.
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

    /// The current task.
    pub fn task(&self) -> &str {
        self.history.last().map_or("", String::as_str)
    }

    /// What the run that is about to begin is given.
    pub fn inputs(&self) -> Inputs {
        Inputs {
            task: self.task().to_owned(),
            transcript: self.transcript.clone(),
            artifacts: self.artifacts.clone(),
            run_path: self.child_run_path.clone().filter(|_| self.carry.resume_workflow),
        }
    }

    /// A run has ended.
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

    /// A run has ended with an exception. What the run before left is kept, so that it can be tried again.
    pub fn fail(&mut self, error: &str, now: &str) -> Update {
        self.life = Life::Failed;
        self.error = Some(error.to_owned());
        self.finished_at = Some(now.to_owned());
        Update::Failed
    }

    /// Somebody stops it. One that has ended stays as it is; one that waits for a trigger does so no longer.
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

    /// `send_input`: a new task for work that has ended.
    ///
    /// # Errors
    /// It runs, or the task is empty.
    pub fn send_input(&mut self, task: &str, now: &str) -> Result<Update, String> {
        if task.trim().is_empty() {
            return Err("send_input: task text must not be empty".to_owned());
        }
        if self.life == Life::Running {
            return Err(format!("send_input: worker {} is still running", self.id));
        }
        Ok(self.run_again(task, now))
    }

    /// `worker_trigger`: the next task of work that waits for one. A text is the task, anything else its JSON.
    ///
    /// # Errors
    /// It does not wait, or there is nothing in the payload.
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

    /// `resume_agent`: interrupted work starts its task again, with what it had begun with. Other work stays as it is.
    pub fn resume(&mut self, now: &str) -> Option<Update> {
        if self.life != Life::Interrupted {
            return None;
        }
        self.life = Life::Running;
        self.started_at = now.to_owned();
        self.finished_at = None;
        Some(Update::Progressed)
    }

    /// What is saved.
    pub fn snapshot(&self) -> Json {
        let mut out = Json::lossy(self);
        if let Some(map) = out.as_object_mut() {
            map.insert("_type".to_owned(), "worker_snapshot".into());
            map.insert("task".to_owned(), self.task().into());
        }
        out
    }

    /// Reads what was saved. Work that ran then does so no longer.
    ///
    /// # Errors
    /// It is no snapshot.
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

    /// Who made what, and where it is.
    pub fn provenance(&self) -> Json {
        json!({
            "worker_id": self.id, "worker_name": self.name, "mode": self.mode.as_str(),
            "parent_worker_id": self.lineage.parent_worker_id, "parent_stage_id": self.lineage.parent_stage_id,
            "parent_run_id": self.lineage.parent_run_id, "session_id": self.lineage.session_id,
            "parent_session_id": self.lineage.parent_session_id, "run_id": self.child_run_id,
            "run_path": self.child_run_path, "snapshot_path": self.snapshot_path,
        })
    }

    /// What scripts see.
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

/// A copy of options without the values that JSON cannot hold and without keys of providers, and where functions were.
pub fn without_functions(value: &Json) -> (Json, Vec<String>) {
    let mut places = Vec::new();
    (without_closures(value, "", &mut places), places)
}

/// A copy without the values that JSON cannot hold; `places` gets where they were.
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
            // A key of a provider is nothing for a file.
            let kept = map.iter().filter(|(key, _)| *key != "api_key");
            let copied: Map<String, Json> =
                kept.map(|(key, item)| (key.clone(), without_closures(item, &below(key), places))).collect();
            Json::Object(copied)
        }
        plain => plain.clone(),
    }
}
