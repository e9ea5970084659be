//! Approval requests, each answered once.

use std::collections::{BTreeMap, VecDeque};

use harn_value::{Data as Value, json};

/// The outcome of an approval request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Approved.
    Approve,
    /// Rejected.
    Reject,
    /// Rejected in this form; a revision is requested.
    Revise,
}

impl Outcome {
    /// Finds an outcome by its name.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        [Self::Approve, Self::Reject, Self::Revise].into_iter().find(|outcome| outcome.as_str() == word)
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Revise => "revise",
        }
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The outcome.
    pub outcome: Outcome,
    /// A comment on the outcome.
    pub feedback: Option<String>,
    /// The part of a plan that may remain.
    pub partial: Option<Value>,
}

impl Decision {
    /// Returns the data of the event `approval-decision`.
    #[must_use]
    pub fn to_event(&self, id: &str) -> Value {
        let mut outcome = json!({"outcome": self.outcome.as_str()});
        if let Some(partial) = &self.partial {
            outcome["partial"] = partial.clone();
        }
        let mut data = json!({"id": id, "outcome": outcome});
        if let Some(feedback) = &self.feedback {
            data["feedback"] = feedback.as_str().into();
        }
        data
    }

    /// Returns the reason for a rejection.
    #[must_use]
    pub fn reason(&self) -> &str {
        self.feedback.as_deref().filter(|text| !text.trim().is_empty()).unwrap_or("Approval rejected")
    }
}

/// Why an answer is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The request does not exist.
    #[error("approval not found: {0}")]
    NotFound(String),
    /// The request was already answered, or its run was cancelled.
    #[error("approval already resolved: {0}")]
    Resolved(String),
    /// The outcome is not one of the three names.
    #[error("respond_to_approval: outcome must be \"approve\", \"reject\" or \"revise\", got \"{0}\"")]
    Outcome(String),
}

/// Maximum number of resolved ids that are retained.
const REMEMBERED: usize = 10_000;

enum State {
    Pending { run: String },
    Answered(Decision),
    Resolved,
}

/// The approval requests of a runtime.
#[derive(Default)]
pub struct Approvals {
    states: BTreeMap<String, State>,
    /// Resolved ids, oldest first.
    resolved: VecDeque<String>,
}

impl Approvals {
    /// Adds a request of a run.
    pub fn open(&mut self, id: &str, run: &str) {
        self.states.insert(id.to_owned(), State::Pending { run: run.to_owned() });
    }

    /// Answers a request.
    ///
    /// # Errors
    /// No request has this id, or it was already answered.
    pub fn answer(&mut self, id: &str, decision: Decision) -> Result<(), AnswerError> {
        match self.states.get_mut(id) {
            None => Err(AnswerError::NotFound(id.to_owned())),
            Some(state @ State::Pending { .. }) => {
                *state = State::Answered(decision);
                Ok(())
            }
            Some(_) => Err(AnswerError::Resolved(id.to_owned())),
        }
    }

    /// Takes the answer to a request; returns it only once.
    pub fn take(&mut self, id: &str) -> Option<Decision> {
        let state = self.states.get_mut(id)?;
        match std::mem::replace(state, State::Resolved) {
            State::Answered(decision) => {
                self.close(id);
                Some(decision)
            }
            other => {
                *state = other;
                None
            }
        }
    }

    /// Closes the unanswered requests of a run that has ended.
    pub fn cancel_run(&mut self, run: &str) {
        let of_run = |state: &State| matches!(state, State::Pending { run: asked } if asked == run);
        let ids: Vec<String> =
            self.states.iter().filter(|(_, state)| of_run(state)).map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.states.insert(id.clone(), State::Resolved);
            self.close(&id);
        }
    }

    /// Returns whether there is a request with this id, answered or not.
    #[must_use]
    pub fn is_known(&self, id: &str) -> bool {
        self.states.contains_key(id)
    }

    /// Returns whether a request is pending.
    #[must_use]
    pub fn is_pending(&self, id: &str) -> bool {
        matches!(self.states.get(id), Some(State::Pending { .. }))
    }

    /// Returns the number of pending requests.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.states.values().filter(|state| matches!(state, State::Pending { .. })).count()
    }

    fn close(&mut self, id: &str) {
        self.resolved.push_back(id.to_owned());
        if self.resolved.len() > REMEMBERED
            && let Some(oldest) = self.resolved.pop_front()
        {
            self.states.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yes() -> Decision {
        Decision { outcome: Outcome::Approve, feedback: None, partial: None }
    }

    #[test]
    fn each_request_is_answered_once() {
        let mut approvals = Approvals::default();
        assert_eq!(approvals.answer("a", yes()).unwrap_err().to_string(), "approval not found: a");
        approvals.open("a", "run");
        assert_eq!((approvals.pending(), approvals.take("a")), (1, None));
        approvals.answer("a", yes()).unwrap();
        assert_eq!(approvals.answer("a", yes()).unwrap_err().to_string(), "approval already resolved: a");
        assert_eq!(approvals.take("a"), Some(yes()));
        assert_eq!(approvals.take("a"), None);
        assert_eq!(approvals.answer("a", yes()).unwrap_err().to_string(), "approval already resolved: a");
    }

    #[test]
    fn a_cancelled_run_leaves_nothing_pending() {
        let mut approvals = Approvals::default();
        approvals.open("a", "one");
        approvals.open("b", "two");
        approvals.cancel_run("one");
        assert_eq!(approvals.pending(), 1);
        assert_eq!(approvals.answer("a", yes()).unwrap_err().to_string(), "approval already resolved: a");
        assert!(approvals.answer("b", yes()).is_ok());
    }

    #[test]
    fn old_ids_are_forgotten() {
        let mut approvals = Approvals::default();
        for n in 0..REMEMBERED + 5 {
            let id = n.to_string();
            approvals.open(&id, "run");
            approvals.answer(&id, yes()).unwrap();
            approvals.take(&id);
        }
        assert_eq!(approvals.states.len(), REMEMBERED);
    }

    #[test]
    fn decisions_as_events() {
        let decision = Decision {
            outcome: Outcome::Revise,
            feedback: Some("less".into()),
            partial: Some(json!({"keep": [0]})),
        };
        assert_eq!(
            decision.to_event("a"),
            json!({"id": "a", "outcome": {"outcome": "revise", "partial": {"keep": [0]}}, "feedback": "less"})
        );
        assert_eq!(decision.reason(), "less");
        assert_eq!(yes().reason(), "Approval rejected");
        assert_eq!(Outcome::named("revise"), Some(Outcome::Revise));
        assert_eq!(Outcome::named("maybe"), None);
    }
}
