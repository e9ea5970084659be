//! Deciding about a call when the world has to be asked in between.
//!
//! A decision is a pure function of the call and of the answers so far. It ends with the first question that has no
//! answer yet; whoever gets one asks again with it. So a loop that waits for a person can be saved like any other.

use harn_value::Data as Json;
use serde::{Deserialize, Serialize};

use super::answer::{Escalated, RuleList};

/// What has to be asked before a call is decided. Layers count from the loop's own policy outwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Question {
    /// Whether the closure of a rule of `permissions` accepts these arguments.
    Matches {
        /// Whose policy.
        layer: usize,
        /// Which of its lists.
        list: RuleList,
        /// The rule's tool glob, its key in that list.
        rule: String,
        /// The arguments of the call.
        arguments: Json,
    },
    /// `on_escalation`, with this request (`session_id` is added by who asks).
    Escalate {
        /// Whose policy.
        layer: usize,
        /// The request.
        request: Json,
    },
    /// The host, with these parameters of `session/request_permission` (ids are added by who asks).
    Approve {
        /// The parameters.
        request: Json,
    },
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Question::Matches`].
    Matches(bool),
    /// To [`Question::Escalate`].
    Escalated(Escalated),
    /// To [`Question::Escalate`]: the same call was granted for the whole session before.
    Remembered,
    /// To [`Question::Approve`].
    Host(Json),
    /// To [`Question::Approve`]: there is no host.
    NoHost,
    /// To [`Question::Approve`]: the host could not answer.
    HostFailed,
}

/// Why a call is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// For the model.
    pub reason: String,
    /// Of `tool_execution` metadata, when approval denied.
    pub approval: Option<&'static str>,
    /// Whether the capability policy denied: then the model is told how to call tools, too.
    pub is_above_ceiling: bool,
}

/// What a transcript keeps of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionEvent {
    /// `PermissionGrant`, `PermissionDeny` or `PermissionEscalation`.
    pub kind: &'static str,
    /// Why.
    pub reason: String,
    /// Whether the program was asked.
    pub escalated: bool,
}

/// What is decided, and how it came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Whether the call runs.
    pub verdict: Verdict,
    /// For the transcript, in order.
    pub events: Vec<PermissionEvent>,
}

/// Whether a call runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It does.
    Granted {
        /// Arguments that the host put in place of the model's.
        arguments: Option<Json>,
        /// Of `tool_execution` metadata, when the host approved.
        approval: Option<&'static str>,
    },
    /// It does not.
    Denied(Denial),
    /// This has to be asked first.
    Ask(Question),
    /// The answers do not belong to the questions.
    Unexpected,
}

/// Why a decision ends early.
pub(super) enum Stop {
    Ask(Question),
    Denied(Denial),
    Unexpected,
}

/// A decision under way.
pub(super) struct Judge<'a> {
    answers: std::slice::Iter<'a, Reply>,
    events: Vec<PermissionEvent>,
    escalated: bool,
    arguments: Option<Json>,
    approval: Option<&'static str>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(answers: &'a [Reply]) -> Judge<'a> {
        Judge {
            answers: answers.iter(),
            events: Vec::new(),
            escalated: false,
            arguments: None,
            approval: None,
        }
    }

    /// The answer to a question, or the end of the decision for now.
    pub(super) fn ask(&mut self, question: impl FnOnce() -> Question) -> Result<&'a Reply, Stop> {
        self.answers.next().ok_or_else(|| Stop::Ask(question()))
    }

    /// Notes that a rule granted the call.
    pub(super) fn granted(&mut self, reason: &str) {
        self.note("PermissionGrant", reason);
    }

    /// Notes that the program was asked about a refusal.
    pub(super) fn escalated(&mut self, reason: &str) {
        self.escalated = true;
        self.note("PermissionEscalation", reason);
    }

    /// Notes that the host approved, perhaps with other arguments.
    pub(super) fn approved(&mut self, arguments: Option<&Json>) {
        self.approval = Some("host_granted");
        if let Some(arguments) = arguments {
            self.arguments = Some(arguments.clone());
        }
    }

    /// Arguments that the host put in place of the model's.
    pub(super) fn replaced(&self) -> Option<&Json> {
        self.arguments.as_ref()
    }

    /// The refusal of the call.
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

    /// What is decided.
    pub(super) fn decide(mut self, ended: Result<(), Stop>) -> Decision {
        let verdict = match ended {
            Ok(()) => Verdict::Granted { arguments: self.arguments.take(), approval: self.approval },
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
