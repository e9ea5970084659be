//! Continues a loop with another agent.

use std::rc::Rc;
use std::time::Duration;

use harn_agent::agents::History;
use harn_agent::{AgentLoop, Transfer};
use harn_value::{Data as Json, Value};
use harn_vm::{Cx, Limit, Result};

use super::{Begun, Place, begin};
use crate::agents::{Member, Roster, history_closure};
use crate::command_policy;
use crate::convert::{from_json, thrown, to_json};
use crate::policy::Depth;
use crate::session::Session;

/// A conversation that is transferred.
pub(super) struct Continued {
    /// The session of the conversation.
    pub(super) session: Rc<Session>,
    /// Whether the session outlives the loop.
    pub(super) named: bool,
    /// The number of the loop's messages in the session, if it stores them.
    pub(super) stored: Option<usize>,
    /// When the conversation began.
    pub(super) started: Duration,
    /// Reminders of the host that are only recorded.
    pub(super) audits: Vec<Json>,
    /// The agents that can receive the conversation.
    pub(super) roster: Rc<Roster>,
    /// The limits that remain in effect.
    pub(super) before: Before,
    /// The loop of the agent that transfers it.
    pub(super) agent: AgentLoop,
    /// The transfer.
    pub(super) transfer: Transfer,
    /// The messages that the next agent sees; `None` for all.
    pub(super) view: Option<Vec<Json>>,
}

/// The limits of the agents that had a conversation: they apply until its end, so that a handoff never extends
/// permissions.
#[derive(Default)]
pub(super) struct Before {
    /// The options that they come from.
    options: Vec<Value>,
    limits: Vec<Limit>,
    commands: Vec<command_policy::InForce>,
    depth: Option<Depth>,
}

impl Begun {
    /// Ends this loop and begins the loop of the agent that receives the conversation.
    ///
    /// # Errors
    /// The options of that agent are invalid, or the closure `history` of the handoff throws or returns something other
    /// than messages.
    pub(super) async fn hand_off(self: Box<Begun>, cx: &Cx, transfer: Transfer) -> Result<Box<Begun>> {
        let Begun { agent, driver, in_force, mut before, commands, mut scope, .. } = *self;
        let (Some(roster), Some(handoff)) = (driver.roster.clone(), agent.handoff(&transfer).cloned()) else {
            return Err(thrown("agent_loop: a handoff without its agent"));
        };
        let view = match (agent.history_for(handoff.history), handoff.history) {
            (Some(seen), History::Callback) => {
                let closure = history_closure(&driver.options, transfer.at).unwrap_or_default();
                let chosen = to_json(&cx.call(&closure, [from_json(&seen.into())]).await?);
                let got = chosen.type_name();
                let Json::Array(list) = chosen else {
                    return Err(thrown(format!(
                        "agent_loop: handoffs: history must return a list of messages, got {got}" // prose-ok: diagnostic
                    )));
                };
                Some(list)
            }
            (view, _) => view,
        };
        driver.servers.close(cx).await?;
        before.options.push(driver.options.clone());
        let Member { system, options } =
            roster.member(&transfer.to, handoff.tools.as_deref(), &before.options)?;
        let (limit, depth) = in_force.passed_on(cx);
        before.limits.extend(limit);
        before.commands.extend(commands);
        before.depth = Some(depth);
        let named = scope.pass_on();
        drop(scope);
        let continued = Continued {
            session: driver.session.clone(),
            named,
            stored: driver.stored.get(),
            started: driver.started,
            audits: driver.audits.take(),
            roster,
            before,
            agent,
            transfer,
            view,
        };
        drop(driver);
        let place = Place { keeper: None, joins: false, continues: Some(continued) };
        begin(cx, &Value::NIL, &system, &options.into(), place).await
    }
}
