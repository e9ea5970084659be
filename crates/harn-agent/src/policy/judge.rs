//! Decisions about calls that need answers from the program or the host.
//!
//! A decision is a pure function of the call and the answers so far. It ends at the first question without an answer;
//! the driver gets the answer and decides again with it. So a loop that waits for a human can be saved like any other.

use harn_value::Data as Json;
use serde::{Deserialize, Serialize};

use super::answer::{Escalated, RuleList};
use super::path::Paths;
use crate::tool::LoopTool;

/// A question that must be answered before a call is decided. Layers are numbered outward from the loop's own policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Question {
    /// Whether the closure of a rule accepts these arguments.
    Matches {
        /// The layer of the policy.
        layer: usize,
        /// The list of the rule.
        list: RuleList,
        /// The rule's tool glob, which is its key in that list.
        rule: String,
        /// The arguments of the call.
        arguments: Json,
    },
    /// For `on_escalation`, with this request (the driver adds `session_id`).
    Escalate {
        /// The layer of the policy.
        layer: usize,
        /// The request.
        request: Json,
    },
    /// For the host, with these parameters of `session/request_permission` (the driver adds ids).
    Approve {
        /// The parameters.
        request: Json,
    },
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// Answers [`Question::Matches`].
    Matches(bool),
    /// Answers [`Question::Escalate`].
    Escalated(Escalated),
    /// Answers [`Question::Escalate`]: the same call was already granted for the whole session.
    Remembered,
    /// Answers [`Question::Approve`].
    Host(Json),
    /// Answers [`Question::Approve`]: there is no host.
    NoHost,
    /// Answers [`Question::Approve`]: the host failed to answer.
    HostFailed,
}

/// Why a call is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The reason for the model.
    pub reason: String,
    /// The approval state for `tool_execution` metadata, if the approval policy denied the call.
    pub approval: Option<&'static str>,
    /// Whether the capability policy denied the call; the model then also receives guidance on tool calls.
    pub is_above_ceiling: bool,
}

/// An event of a decision for the transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionEvent {
    /// `PermissionGrant`, `PermissionDeny` or `PermissionEscalation`.
    pub kind: &'static str,
    /// The reason.
    pub reason: String,
    /// Whether `on_escalation` was called.
    pub escalated: bool,
}

/// The result of a decision, with its events.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Whether the call may run.
    pub verdict: Verdict,
    /// Events for the transcript, in order.
    pub events: Vec<PermissionEvent>,
}

/// A call to decide about, in the form in which it will run.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    /// The called tool.
    pub tool: &'a LoopTool,
    /// The arguments that the tool receives.
    pub arguments: &'a Json,
    /// The answers so far.
    pub answers: &'a [Reply],
    /// The layer whose host replaced the arguments with these ones, and has therefore approved them.
    pub confirmed: Option<usize>,
    /// Resolves paths.
    pub paths: &'a dyn Paths,
}

/// The verdict on a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The call may run.
    Granted {
        /// The approval state for `tool_execution` metadata, if the host approved the call.
        approval: Option<&'static str>,
    },
    /// The host replaced the arguments: the call must be decided again from the beginning with the new ones.
    Replaced {
        /// The layer that asked the host.
        layer: usize,
        /// The arguments.
        arguments: Json,
    },
    /// The call must not run.
    Denied(Denial),
    /// This question must be answered first.
    Ask(Question),
    /// The answers do not match the questions.
    Unexpected,
}

/// Why a decision ends early.
pub(super) enum Stop {
    Ask(Question),
    Replaced { layer: usize, arguments: Json },
    Denied(Denial),
    Unexpected,
}

/// A decision in progress.
pub(super) struct Judge<'a> {
    answers: std::slice::Iter<'a, Reply>,
    /// Resolves paths.
    pub(super) paths: &'a dyn Paths,
    confirmed: Option<usize>,
    events: Vec<PermissionEvent>,
    escalated: bool,
    approval: Option<&'static str>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(case: &Case<'a>) -> Judge<'a> {
        Judge {
            answers: case.answers.iter(),
            paths: case.paths,
            confirmed: case.confirmed,
            events: Vec::new(),
            escalated: false,
            approval: None,
        }
    }

    /// Returns the answer to a question, or ends the decision with that question.
    pub(super) fn ask(&mut self, question: impl FnOnce() -> Question) -> Result<&'a Reply, Stop> {
        self.answers.next().ok_or_else(|| Stop::Ask(question()))
    }

    /// Records that a rule granted the call.
    pub(super) fn granted(&mut self, reason: &str) {
        self.note("PermissionGrant", reason);
    }

    /// Records that `on_escalation` is called about a denial.
    pub(super) fn escalated(&mut self, reason: &str) {
        self.escalated = true;
        self.note("PermissionEscalation", reason);
    }

    /// Records that the host approved.
    pub(super) fn approved(&mut self) {
        self.approval = Some("host_granted");
    }

    /// Returns whether the host replaced the arguments when this layer asked it.
    pub(super) fn is_confirmed(&self, layer: usize) -> bool {
        self.confirmed == Some(layer)
    }

    /// Denies the call.
    #[expect(clippy::unused_self, reason = "refusals and grants are made at one place")]
    pub(super) fn denied(&self, reason: String, approval: Option<&'static str>) -> Stop {
        Stop::Denied(Denial { reason, approval, is_above_ceiling: false })
    }

    #[expect(clippy::unused_self, reason = "refusals and grants are made at one place")]
    pub(super) fn above_ceiling(&self, reason: String) -> Stop {
        Stop::Denied(Denial { reason, approval: None, is_above_ceiling: true })
    }

    fn note(&mut self, kind: &'static str, reason: &str) {
        self.events.push(PermissionEvent { kind, reason: reason.to_owned(), escalated: self.escalated });
    }

    /// Returns the decision.
    pub(super) fn decision(mut self, ended: Result<(), Stop>) -> Decision {
        let verdict = match ended {
            Ok(()) => Verdict::Granted { approval: self.approval },
            Err(Stop::Replaced { layer, arguments }) => Verdict::Replaced { layer, arguments },
            Err(Stop::Ask(question)) => Verdict::Ask(question),
            Err(Stop::Unexpected) => Verdict::Unexpected,
            Err(Stop::Denied(denial)) => {
                self.note("PermissionDeny", &denial.reason);
                Verdict::Denied(denial)
            }
        };
        Decision { verdict, events: self.events }
    }
}
