//! Decides again about calls whose arguments were changed after they were admitted, for example by command policies.

use harn_prompt::Prose;

use super::dispatch::Decided;
use super::state::{Admitting, Call};
use super::{AgentLoop, LoopError, PermissionQuestion, ToolIntent, ToolRun};
use crate::policy::Reply;

/// A decision about a changed call.
pub struct Review {
    run: ToolRun,
    admitting: Admitting,
}

/// The state of a decision about a changed call.
pub enum Reviewed {
    /// The call runs in this form.
    Run(ToolRun),
    /// These questions must be answered first; [`Review::answer`] takes the replies.
    Ask(Vec<PermissionQuestion>),
    /// The call does not run.
    Refused(String),
}

impl Review {
    /// Starts a decision about a call with its current arguments.
    pub fn new(run: ToolRun) -> Review {
        let call = Call::new(run.id.clone(), run.name.clone(), run.arguments.clone());
        Review { run, admitting: Admitting::new(call) }
    }

    /// Adds the replies to the questions.
    pub fn answer(&mut self, replies: Vec<Reply>) {
        self.admitting.answers.extend(replies);
    }
}

impl AgentLoop {
    /// Decides about a changed call as far as the replies permit.
    ///
    /// # Errors
    /// An asset does not render.
    pub fn review(&self, review: &mut Review, prose: &dyn Prose) -> Result<Reviewed, LoopError> {
        let Review { run, admitting } = review;
        let Some(tool) = self.config.tool(&run.name) else { return Ok(Reviewed::Run(run.clone())) };
        let decided = self.decide(admitting, tool, &mut Vec::new(), prose)?;
        if admitting.replaced > 0 {
            // The command policy has not checked this form of the call.
            let reason = "a command policy and the host have both changed the arguments"; // prose-ok: diagnostic
            return Ok(Reviewed::Refused(reason.to_owned()));
        }
        Ok(match decided {
            Decided::Run(approval) => Reviewed::Run(ToolRun {
                arguments: admitting.call.arguments.clone(),
                approval: approval.map(str::to_owned).or_else(|| run.approval.clone()),
                ..run.clone()
            }),
            Decided::Ask(question) => {
                let intent = ToolIntent::of(&admitting.call);
                Reviewed::Ask(vec![PermissionQuestion { intent, question, ahead: 0 }])
            }
            Decided::Denied { reason: text, .. } | Decided::Wrong(text) => Reviewed::Refused(text),
        })
    }
}
