//! Approval questions: whether to ask, and the wait for the answer.
//!
//! If references and approvals outlive the process, a request does, too: when the same agent makes the same call in the
//! same thread again, it reuses the id and takes an answer that was given meanwhile.

use std::rc::Rc;
use std::time::Duration;

use harn_agent::harness::Approval;
use harn_agent::roles::approvals::AnswerError;
use harn_agent::roles::{Decision, Outcome, content_id, event};
use harn_value::Value;
use harn_value::{Data as Json, json};
use harn_vm::Result;

use crate::convert::{OrThrow, entry};
use crate::llm_embedder::new_id;
use crate::roles::closures::At;
use crate::roles::run::Turn;
use crate::roles::runtime::RoleRuntime;
use crate::roles::shelf::key;

/// Returns whether the user must be asked. Only a predicate that returns `false` skips the question: errors and values
/// of other types do not.
///
/// # Errors
/// Only errors that end the program or the run.
pub(crate) async fn must_ask(at: &At, rule: &Approval, subject: Value, context: Value) -> Result<bool> {
    let id = match rule {
        Approval::Never => return Ok(false),
        Approval::Always => return Ok(true),
        Approval::Dynamic(id) => id,
    };
    let problem = match at.call(&at.closure("predicates", id), vec![subject, context]).await {
        Ok(answer) => match answer.as_bool() {
            Some(answer) => return Ok(answer),
            None => format!("expected bool, got {}", answer.type_name()),
        },
        Err(error) if error.is_catchable() && !at.cx.task().is_cancelled() => error.to_string(),
        Err(error) => return Err(error),
    };
    let text = format!("warning: approval predicate '{id}': {problem}; approval is required");
    at.cx.vm().system().write_err(&harn_syntax::notice(&text));
    Ok(true)
}

/// A question to a human.
pub(crate) struct Question<'a> {
    /// `tool` or `plan`.
    pub(crate) kind: &'a str,
    /// The tool, or the id of the plan.
    pub(crate) target: &'a str,
    /// The arguments of the tool, or the plan.
    pub(crate) payload: Json,
    /// The id of the waiting call.
    pub(crate) call: &'a str,
    /// Glimpses of the references in a plan.
    pub(crate) glimpse: Option<Json>,
    /// An event that is sent immediately after the request.
    pub(crate) then: Option<Json>,
}

/// Asks, and waits for the answer.
///
/// # Errors
/// The run ends before an answer; the store fails.
pub(crate) async fn ask(at: &At, turn: &Rc<Turn>, question: Question<'_>) -> Result<Decision> {
    let runtime = &turn.run.runtime;
    let mut data = json!({
        "kind": question.kind, "target": question.target, "payload": question.payload,
        "resourceId": runtime.tenant(), "threadId": turn.thread,
    });
    let agent = &turn.bound().spec.name;
    let same = key(&["asked", runtime.tenant(), agent, &content_id(&data)]);
    let (id, given) = recall(at, runtime, &same).await?;
    data["id"] = id.as_str().into();
    data["correlationId"] = question.call.into();
    if let Some(glimpse) = question.glimpse {
        data["glimpse"] = glimpse;
    }
    runtime.approvals.borrow_mut().open(&id, &turn.run.trace.id);
    if let Some(decision) = given {
        runtime.approvals.borrow_mut().answer(&id, decision).or_throw()?;
    }
    turn.emit(at, event::with_data("approval-required", data)).await?;
    if let Some(event) = question.then {
        turn.emit(at, event).await?;
    }
    let decision = loop {
        let mut answered = std::pin::pin!(runtime.answered.notified());
        answered.as_mut().enable();
        let here = runtime.approvals.borrow_mut().take(&id);
        if let Some(decision) = here {
            break decision;
        }
        if !runtime.kv.is_durable() {
            answered.await;
        } else if let Some(decision) =
            runtime.kv.get(at, &id_key(runtime, &id)).await?.as_ref().and_then(stored_decision)
        {
            // Another process has answered, or this one since the last check: the stored answer takes precedence.
            runtime.approvals.borrow_mut().answer(&id, decision).ok();
        } else {
            tokio::select! {
                biased;
                () = &mut answered => {}
                slept = at.cx.sleep(POLL) => slept?,
            }
        }
    };
    if runtime.kv.is_durable() {
        // The next call of this kind is a new question.
        runtime.kv.change(at, &same, |_| Ok((Json::Null, ()))).await?;
        runtime.kv.change(at, &id_key(runtime, &id), |_| Ok((json!({"state": "resolved"}), ()))).await?;
    }
    turn.emit(at, event::with_data("approval-decision", decision.to_event(&id))).await?;
    Ok(decision)
}

/// Interval at which a waiting run checks for answers that another process stored.
const POLL: Duration = Duration::from_millis(250);

/// Returns the decision of a stored answer; `None` for a request without an answer.
fn stored_decision(state: &Json) -> Option<Decision> {
    if state["state"] != "answered" {
        return None;
    }
    Some(Decision {
        outcome: state["outcome"].as_str().and_then(Outcome::named)?,
        feedback: state["feedback"].as_str().map(str::to_owned),
        partial: state.get("partial").filter(|partial| !partial.is_null()).cloned(),
    })
}

fn id_key(runtime: &RoleRuntime, id: &str) -> String {
    key(&["approval", runtime.tenant(), id])
}

/// Returns the id of a question (that of an earlier process if it asked the same question), and the answer if it
/// exists.
async fn recall(at: &At, runtime: &RoleRuntime, same: &str) -> Result<(String, Option<Decision>)> {
    let fresh = new_id(at.cx.vm());
    if !runtime.kv.is_durable() {
        return Ok((fresh, None));
    }
    let mut id = runtime
        .kv
        .change(at, same, |found| {
            let id = found.and_then(|id| id.as_str().map(str::to_owned)).unwrap_or_else(|| fresh.clone());
            Ok((id.as_str().into(), id))
        })
        .await?;
    if runtime.approvals.borrow_mut().is_pending(&id) {
        // Another call of this process is asking the same question, so this one needs a separate id.
        id = fresh;
    }
    let state = runtime
        .kv
        .change(at, &id_key(runtime, &id), |found| {
            let state = found.filter(|state| state["state"] == "answered");
            let state = state.unwrap_or_else(|| json!({"state": "pending"}));
            Ok((state.clone(), state))
        })
        .await?;
    Ok((id, stored_decision(&state)))
}

/// Implements `respond_to_approval`.
///
/// # Errors
/// The request is unknown or already answered, or the answer is invalid.
pub(crate) async fn respond(
    at: &At,
    runtime: &RoleRuntime,
    id: &str,
    outcome: &str,
    options: &Value,
) -> Result<()> {
    let word = Outcome::named(outcome).ok_or_else(|| AnswerError::Outcome(outcome.to_owned())).or_throw()?;
    let feedback = entry(options, "feedback");
    let feedback = feedback.as_str().map(|text| text.to_string());
    let partial = entry(options, "partial");
    let partial = (!partial.is_nil()).then(|| crate::convert::to_json(&partial));
    let decision = Decision { outcome: word, feedback, partial };
    let resolved = || AnswerError::Resolved(id.to_owned());
    let known = runtime.approvals.borrow().is_known(id);
    if known && !runtime.approvals.borrow().is_pending(id) {
        return Err(resolved()).or_throw();
    }
    if runtime.kv.is_durable() {
        // Several processes may answer, so the store accepts only the first answer.
        let state = json!({"state": "answered", "outcome": decision.outcome.as_str(),
                           "feedback": decision.feedback, "partial": decision.partial});
        let change = |found: Option<Json>| match found.as_ref().and_then(|state| state["state"].as_str()) {
            Some("pending") => Ok((state, ())),
            Some(_) => Err(resolved()).or_throw(),
            None => Err(AnswerError::NotFound(id.to_owned())).or_throw(),
        };
        runtime.kv.change(at, &id_key(runtime, id), change).await?;
    } else {
        runtime.approvals.borrow_mut().answer(id, decision).or_throw()?;
    }
    runtime.answered.notify_waiters();
    Ok(())
}
