//! Deciding about a call when the world has to be asked in between.
//!
//! A decision is a pure function of the call and of the answers so far. It ends with the first question that has no
//! answer yet; whoever gets one asks again with it. So a loop that waits for a person can be saved like any other.

use harn_value::Data as Json;
use serde::{Deserialize, Serialize};

use super::answer::{Escalated, RuleList};
use super::path::Paths;
use crate::tool::LoopTool;

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

/// A call to decide about, in the form in which it will run.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    /// The called tool.
    pub tool: &'a LoopTool,
    /// The arguments that the tool receives.
    pub arguments: &'a Json,
    /// The answers to the questions so far.
    pub answers: &'a [Reply],
    /// The layer whose host put these arguments in place of others, and so has approved them.
    pub confirmed: Option<usize>,
    /// Finds out where paths lead.
    pub paths: &'a dyn Paths,
}

/// Whether a call runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It does.
    Granted {
        /// Of `tool_execution` metadata, when the host approved.
        approval: Option<&'static str>,
    },
    /// The host put these arguments in place of others: the call has to be decided with them, from the beginning.
    Replaced {
        /// The layer that asked the host.
        layer: usize,
        /// The arguments.
        arguments: Json,
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
    Replaced { layer: usize, arguments: Json },
    Denied(Denial),
    Unexpected,
}

/// A decision under way.
pub(super) struct Judge<'a> {
    answers: std::slice::Iter<'a, Reply>,
    /// Finds out where paths lead.
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

    /// Notes that the host approved.
    pub(super) fn approved(&mut self) {
        self.approval = Some("host_granted");
    }

    /// Whether the host put the arguments in place of others when this layer asked it.
    pub(super) fn is_confirmed(&self, layer: usize) -> bool {
        self.confirmed == Some(layer)
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
