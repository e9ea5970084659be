//! Runs guardrails: input guardrails concurrently with the first model call, output guardrails before the loop ends.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use harn_agent::agents::History;
use harn_agent::{AgentLoop, Answer, Blocked, ModelCall};
use harn_value::{Data as Json, Value};
use harn_vm::closure::declared_name;
use harn_vm::{Cx, Result};

use super::Driver;
use crate::agents::{AGENT_GUARD, is_agent, name_of, with_model};
use crate::convert::{entry, from_json, partial, thrown};
use crate::llm_embedder::objection;

/// A guardrail: a function that returns nil, or the reason to stop the loop.
pub(super) struct Guardrail {
    name: String,
    check: Value,
}

/// Reads an option with guardrails. Agents without a model use the model of the loop.
///
/// # Errors
/// The builtin that calls agents is missing.
pub(super) fn guardrails(cx: &Cx, options: &Value, key: &str) -> Result<Vec<Guardrail>> {
    let list = entry(options, key);
    let each = list.as_list().into_iter().flat_map(|list| list.iter()).enumerate();
    let read = |(at, given): (usize, &Value)| {
        Ok(match is_agent(given) {
            true => Guardrail {
                name: name_of(given),
                check: partial(cx, AGENT_GUARD, vec![with_model(given, options)])?,
            },
            false => {
                let name = declared_name(given).map_or_else(|| format!("{key}[{at}]"), str::to_owned);
                Guardrail { name, check: given.clone() }
            }
        })
    };
    each.map(read).collect()
}

impl Driver {
    /// Calls the model while guardrails check the input. If one of them stops the loop, the call is aborted. No tool of
    /// the reply runs before all guardrails have accepted the input.
    pub(super) async fn call_guarded(
        &self,
        agent: &AgentLoop,
        call: ModelCall,
        guards: Vec<Guardrail>,
    ) -> Result<Answer> {
        let task = agent.history_for(History::Task).and_then(|task| task.into_iter().next());
        let input = match task.map(|message| message["content"].clone()) {
            Some(Json::String(text)) => Value::from(text.as_str()),
            content => from_json(&content.unwrap_or_default()),
        };
        let mut checks = Box::pin(self.check("input", &guards, input));
        let mut call = Box::pin(self.call_model(agent, call));
        let (mut passed, mut answer) = (false, None);
        // The checks are polled first, because a call must not be dropped after it has just requested something else.
        let ended = poll_fn(|context| {
            if !passed && let Poll::Ready(checked) = checks.as_mut().poll(context) {
                match checked {
                    Ok(None) => passed = true,
                    stopped => return Poll::Ready(stopped.map(|blocked| blocked.map(Answer::Blocked))),
                }
            }
            if answer.is_none()
                && let Poll::Ready(answered) = call.as_mut().poll(context)
            {
                answer = Some(answered);
            }
            match (passed, answer.take()) {
                (true, Some(answered)) => Poll::Ready(answered.map(Some)),
                (_, waiting) => {
                    answer = waiting;
                    Poll::Pending
                }
            }
        })
        .await?;
        let is_blocked = matches!(ended, Some(Answer::Blocked(_)));
        drop(call);
        if is_blocked {
            self.give_up_calls("a guardrail stopped the loop").await;
        }
        ended.ok_or_else(|| thrown("agent_loop: a guardrail without a verdict"))
    }

    /// Checks the answer with guardrails.
    pub(super) async fn guard_output(&self, answer: &Json) -> Result<Answer> {
        let stopped = self.check("output", &self.output_guards, from_json(answer)).await?;
        Ok(stopped.map_or(Answer::Guarded, Answer::Blocked))
    }

    /// Runs guardrails concurrently, each in a separate task. The first one that stops the loop aborts the others.
    ///
    /// # Errors
    /// An error that a guardrail throws, because a loop does not continue without its verdict.
    async fn check(&self, stage: &str, guards: &[Guardrail], value: Value) -> Result<Option<Blocked>> {
        let tasks: Vec<_> =
            guards.iter().map(|guard| self.cx.spawn(&guard.check, vec![value.clone()])).collect();
        let mut waits: Vec<Option<Pin<Box<_>>>> =
            tasks.iter().map(|task| Some(Box::pin(self.cx.join(task)))).collect();
        // Polled in a fixed order, because journal replay follows the order of polls.
        poll_fn(|context| {
            for (wait, guard) in waits.iter_mut().zip(guards) {
                let Some(running) = wait else { continue };
                let Poll::Ready(said) = running.as_mut().poll(context) else { continue };
                *wait = None;
                let option = format!("{stage}_guardrails");
                let reason = said.and_then(|said| objection(&option, &said).map_err(thrown));
                match reason {
                    Ok(None) => {}
                    Ok(Some(reason)) => {
                        let (stage, guardrail) = (stage.to_owned(), guard.name.clone());
                        return Poll::Ready(Ok(Some(Blocked { stage, guardrail, reason })));
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            if waits.iter().all(Option::is_none) { Poll::Ready(Ok(None)) } else { Poll::Pending }
        })
        .await
    }
}
