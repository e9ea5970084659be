//! The toolkit `plans`: drafts, and the execution of an approved plan exactly once.

use std::rc::Rc;

use harn_agent::roles::plan::{Executed, Plan, PlanError, Status};
use harn_agent::roles::{Outcome, event};
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Value};
use harn_vm::closure::is_callable;
use harn_vm::{Error, Result};

use crate::convert::{OrThrow, entry, from_json, thrown, to_json, told};
use crate::roles::ask::{Question, ask, must_ask};
use crate::roles::closures::At;
use crate::roles::references;
use crate::roles::run::Turn;
use crate::roles::runtime::RoleRuntime;
use crate::roles::shelf::key;

fn key_of(runtime: &RoleRuntime, id: &str) -> String {
    key(&["plan", runtime.tenant(), id])
}

fn now(at: &At) -> String {
    harn_stdlib::timestamp_now(&at.cx)
}

/// Runs one of the tools.
///
/// # Errors
/// The error result of the call.
pub(crate) async fn tool(
    at: &At,
    turn: &Rc<Turn>,
    name: &str,
    args: &Json,
    call: &str,
    context: &Dict,
) -> Result<Value> {
    let runtime = &turn.run.runtime;
    let id = args["planId"].as_str().unwrap_or_default();
    match name {
        "storePlan" => store(at, runtime, id, args).await,
        "getPlan" => {
            let found = runtime.plans.get(at, &key_of(runtime, id)).await?;
            let plan = found.map(|found| Plan::of(id, found)).transpose().or_throw()?;
            Ok(plan.map_or(Value::NIL, |plan| from_json(&shown(&plan))))
        }
        _ => execute(at, turn, id, call, context).await,
    }
}

async fn store(at: &At, runtime: &RoleRuntime, id: &str, args: &Json) -> Result<Value> {
    let name = args["specName"].as_str().unwrap_or_default();
    let spec = runtime.spec.plans.iter().find(|spec| spec.name == name);
    let spec = spec.ok_or_else(|| PlanError::UnknownSpec(name.to_owned())).or_throw()?;
    if id.trim().is_empty() {
        return Err(thrown("storePlan: planId must be a non-empty string"));
    }
    let plan = Plan::draft(spec, id, runtime.tenant(), &args["body"], &now(at)).or_throw()?;
    let stored = plan.to_json();
    let shown = runtime
        .plans
        .change(at, &key_of(runtime, id), |found| {
            if let Some(found) = found {
                Plan::of(id, found).and_then(|plan| plan.may_be_replaced(id)).or_throw()?;
            }
            let mut kept = stored.clone();
            // The name of the spec determines the displayed states; it is not part of the plan.
            kept["spec"] = name.into();
            Ok((kept, stored))
        })
        .await?;
    Ok(from_json(&shown))
}

/// Changes a stored plan.
async fn change(
    at: &At,
    runtime: &RoleRuntime,
    id: &str,
    change: impl FnOnce(&mut Plan) -> std::result::Result<(), PlanError>,
) -> Result<Plan> {
    runtime
        .plans
        .change(at, &key_of(runtime, id), |found| {
            let found = found.ok_or_else(|| PlanError::NotFound(id.to_owned())).or_throw()?;
            let mut plan = Plan::of(id, found).or_throw()?;
            change(&mut plan).or_throw()?;
            Ok((plan.to_json(), plan))
        })
        .await
}

/// Returns the event of a change, with the labels of the states from the plan's spec.
fn status_change(runtime: &RoleRuntime, plan: &Plan, id: &str, from: &str, to: &str) -> Json {
    let mut data = json!({"planId": id, "from": from, "to": to});
    let stored = plan.to_json();
    let spec = runtime.spec.plans.iter().find(|spec| stored["spec"] == spec.name.as_str());
    for (field, status) in [("fromAlias", from), ("toAlias", to)] {
        let alias = spec.and_then(|spec| spec.display_aliases.iter().find(|(known, _)| known == status));
        if let Some((_, alias)) = alias {
            data[field] = alias.as_str().into();
        }
    }
    event::with_data("plan-status-change", data)
}

/// Returns the visible fields of a plan.
fn shown(plan: &Plan) -> Json {
    let mut fields = plan.to_json();
    if let Some(map) = fields.as_object_mut() {
        map.shift_remove("spec");
    }
    fields
}

const PENDING: &str = "pending_approval";

async fn execute(at: &At, turn: &Rc<Turn>, id: &str, call: &str, context: &Dict) -> Result<Value> {
    let runtime = &turn.run.runtime;
    let dispatcher = entry(&at.closures, "dispatcher");
    if !is_callable(&dispatcher) {
        return Err(thrown("executePlan: the runtime has no action_dispatcher"));
    }
    let found = runtime.plans.get(at, &key_of(runtime, id)).await?;
    let found = found.ok_or_else(|| PlanError::NotFound(id.to_owned())).or_throw()?;
    let plan = Plan::of(id, found).or_throw()?;
    if plan.status() == Status::Draft
        && let Some(answer) = approve(at, turn, &plan, id, call, context).await?
    {
        return Ok(answer);
    }
    // The process that writes this transition executes the plan; after a crash it is not executed again.
    let plan = change(at, runtime, id, |plan| plan.start(&now(at))).await?;
    turn.emit(at, status_change(runtime, &plan, id, "approved", "executing")).await?;
    let done = dispatch(at, runtime, &plan, &dispatcher, context).await;
    let (plan, failure) = match done {
        Ok(done) => (change(at, runtime, id, |plan| plan.complete(&done, &now(at))).await?, None),
        Err((_, error)) if !error.is_catchable() || at.cx.task().is_cancelled() => return Err(error),
        Err((code, error)) => {
            let message = told(&error);
            (change(at, runtime, id, |plan| plan.fail(&message, code, &now(at))).await?, Some(error))
        }
    };
    turn.emit(at, status_change(runtime, &plan, id, "executing", plan.status().as_str())).await?;
    match failure {
        Some(error) => Err(error),
        None => Ok(from_json(&json!({
            "planId": id, "status": plan.status().as_str(), "outcome": plan.to_json()["outcome"],
        }))),
    }
}

/// Approves a draft, after asking if its rule requires it. Returns the result of the call if the plan must be revised.
async fn approve(
    at: &At,
    turn: &Rc<Turn>,
    plan: &Plan,
    id: &str,
    call: &str,
    context: &Dict,
) -> Result<Option<Value>> {
    let runtime = &turn.run.runtime;
    let mut about = context.clone();
    about.insert("target", id);
    about.insert("kind", "plan");
    let rule = &turn.bound().plan_rule;
    let asked = must_ask(at, rule, from_json(&shown(plan)), about.into()).await?;
    let mut by = "policy";
    let from = if asked { PENDING } else { Status::Draft.as_str() };
    if asked {
        let question = Question {
            kind: "plan",
            target: id,
            payload: shown(plan),
            call,
            glimpse: glimpses(at, runtime, plan).await?,
            then: Some(status_change(runtime, plan, id, "draft", PENDING)),
        };
        let decision = ask(at, turn, question).await?;
        by = "user";
        if decision.outcome != Outcome::Approve {
            turn.emit(at, status_change(runtime, plan, id, PENDING, "draft")).await?;
        }
        match decision.outcome {
            Outcome::Approve => {}
            Outcome::Reject => return Err(thrown(format!("Plan {id} rejected: {}", decision.reason()))),
            Outcome::Revise => {
                let partial = decision.partial.unwrap_or_default();
                let answer =
                    json!({"rejected": true, "should_revise": true, "plan_id": id, "partial": partial});
                return Ok(Some(from_json(&answer)));
            }
        }
    }
    let seen = plan.to_json();
    let approved = change(at, runtime, id, |plan| {
        // The approval is only valid for the version that was shown.
        if plan.to_json() != seen {
            return Err(PlanError::Transition {
                expected: "the plan that was shown",
                got: "another version",
            });
        }
        plan.approve(by, &now(at))
    });
    let plan = approved.await?;
    turn.emit(at, status_change(runtime, &plan, id, from, "approved")).await?;
    Ok(None)
}

/// Returns glimpses of the references in a plan, by kind and id; `None` if it has no valid references.
async fn glimpses(at: &At, runtime: &RoleRuntime, plan: &Plan) -> Result<Option<Json>> {
    let mut out = Map::new();
    for (kind, id) in plan.references() {
        match references::find(at, runtime, &kind, &id).await {
            Ok(stored) => {
                let of_kind = out.entry(kind).or_insert_with(|| json!({}));
                of_kind[id.as_str()] = stored.glimpse;
            }
            Err(error) if error.is_catchable() => {}
            Err(error) => return Err(error),
        }
    }
    Ok((!out.is_empty()).then(|| out.into()))
}

/// Resolves the references of the actions once each, and lets the program execute the actions.
async fn dispatch(
    at: &At,
    runtime: &RoleRuntime,
    plan: &Plan,
    dispatcher: &Value,
    context: &Dict,
) -> std::result::Result<Executed, (&'static str, Error)> {
    let mut resolved = Map::new();
    for (kind, id) in plan.references() {
        let stored =
            references::find(at, runtime, &kind, &id).await.map_err(|e| ("reference_not_found", e))?;
        let of_kind = resolved.entry(kind).or_insert_with(|| json!({}));
        of_kind[id.as_str()] = stored.value;
    }
    let mut context = context.clone();
    context.insert("resolved_refs", from_json(&resolved.into()));
    context.insert("plan", from_json(&shown(plan)));
    let actions = from_json(&plan.actions().to_vec().into());
    let answer =
        at.call(dispatcher, vec![actions, context.into()]).await.map_err(|e| ("dispatch_failed", e))?;
    Executed::read(&to_json(&answer)).map_err(|why| ("invalid_outcome", thrown(why)))
}
