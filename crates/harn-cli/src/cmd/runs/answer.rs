//! Answers a request of a run, whether the run is suspended or executing.

use harn_store::{Answer, Error as StoreError, Waitpoint};
use harn_system::{Real, System};
use harn_value::{Data as Value, data::Map, json};

use super::{Failure, Outcome, Shown, answered, head, store, time, wait};
use crate::args::AnswerArgs;

/// The default name of the person who answers.
const SOMEBODY: &str = "operator";

pub(super) fn answer(args: &AnswerArgs) -> Outcome<Shown> {
    let store = store(&args.id)?;
    let run = head(&*store, &args.id)?;
    let now_ms = Real::new().now_ms();
    let (id, request_id) = (&args.id, &args.request);
    let all = wait(store.waitpoints(Some(id), false))?;
    let Some(found) = all.iter().find(|found| found.asked.request_id == *request_id) else {
        return Err(Failure::new("request_not_found", unknown(id, request_id, &all)));
    };
    if run.status.is_end() {
        let text = format!("run '{id}' has ended ({}): it takes no answer any more", run.status.word());
        return Err(Failure::new("run_has_ended", text));
    }
    if found.closed_ms.is_some() {
        let text = format!("run '{id}' does not ask '{request_id}' any more");
        return Err(Failure::new("request_is_closed", text));
    }
    let by = args.by.clone().unwrap_or_else(user);
    let value = value(args, found, &by)?;
    if let Some(due_ms) = found.asked.due_ms.filter(|due_ms| *due_ms < now_ms) {
        let text = format!(
            "'{request_id}' could be answered until {}: the run continues without an answer (`harn resume {id}`)",
            time(due_ms)
        );
        return Err(Failure::new("request_is_over", text));
    }
    let value = value.to_string().into_bytes();
    let signature = found.asked.signature(&value, &by, now_ms);
    let given = Answer { value, by: by.clone(), at_ms: now_ms, signature: signature.clone() };
    let given = match harn_journal::wait(store.answer(id, request_id, given)) {
        Err(StoreError::Exists { .. }) => {
            let text = format!("{by} has answered '{request_id}' of run '{id}' already");
            return Err(Failure::new("already_answered", text));
        }
        Err(StoreError::Conflict { found, .. }) => {
            let text = format!("'{request_id}' of run '{id}' takes no answer any more: {found}");
            return Err(Failure::new("already_answered", text));
        }
        given => answered(given)?,
    };
    let missing = (given.asked.quorum as usize).saturating_sub(given.answers.len());
    let status = run.status_at(now_ms);
    let next = match (missing, run.lease.as_ref().is_some_and(|lease| lease.until_ms > now_ms)) {
        (1.., _) if args.approve => format!("{missing} more must answer"),
        (_, true) => "the process that executes it continues".to_owned(),
        (_, false) => format!("`harn resume {id}` continues it"),
    };
    let data = json!({
        "id": id, "request_id": request_id, "by": by, "at": time(now_ms), "signature": signature,
        "missing": missing, "status": status.word(),
    });
    Ok(Shown::new(format!("run {id}: the answer of {by} is recorded; {next}\n"), data))
}

fn unknown(id: &str, request_id: &str, all: &[Waitpoint]) -> String {
    let open: Vec<String> = all
        .iter()
        .filter(|found| found.is_open())
        .map(|found| {
            let prompt = found.asked.prompt.replace('\n', " ");
            format!("{} ({}: {prompt})", found.asked.request_id, found.asked.kind)
        })
        .collect();
    match open.as_slice() {
        [] => format!("run '{id}' waits for no answer"),
        open => format!("run '{id}' has no request '{request_id}'; open requests: {}", open.join(", ")),
    }
}

/// Returns the name of the user of this machine.
fn user() -> String {
    let real = Real::new();
    let named = ["USER", "LOGNAME"].iter().find_map(|name| real.env(name).filter(|name| !name.is_empty()));
    named.unwrap_or_else(|| SOMEBODY.to_owned())
}

/// Converts the answer to the value that the program receives.
fn value(args: &AnswerArgs, found: &Waitpoint, by: &str) -> Outcome<Value> {
    let kind = &*found.asked.kind;
    let details: Value = serde_json::from_slice(&found.asked.info).unwrap_or_default();
    let reviewers: Vec<&str> =
        details["reviewers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !reviewers.is_empty() && !reviewers.contains(&by) {
        let text = format!(
            "`{by}` is not a reviewer of this {kind}; pass --by with one of: {}",
            reviewers.join(", ")
        );
        return Err(Failure::new("not_a_reviewer", text));
    }
    let decided = if args.approve || args.reject { Some(args.approve) } else { None };
    let given = args
        .value
        .as_deref()
        .map(|text| serde_json::from_str::<Value>(text).unwrap_or_else(|_| Value::String(text.to_owned())));
    let bad = |text: String| Err(Failure::new("bad_answer", text));
    if kind == "question" {
        return match given {
            Some(given) => Ok(json!({"answer": given})),
            None => bad("this is a question: give the answer in place of --approve or --reject".to_owned()),
        };
    }
    if kind == "waitpoint" {
        return match (decided, given) {
            (Some(false), None) => Ok(json!({"cancelled": true, "reason": args.reason})),
            (Some(true), None) => Ok(json!({"value": null, "reason": args.reason})),
            (None, Some(given)) => Ok(json!({"value": given})),
            _ => bad("this is a waitpoint: give its value, --approve for none, or --reject to cancel it"
                .to_owned()),
        };
    }
    if kind == "in_doubt"
        && let Some(result) = &given
    {
        return Ok(json!({"result": result.clone()}));
    }
    let mut answer = match (decided, given) {
        (Some(approved), _) => Map::from_iter([("approved".to_owned(), approved.into())]),
        (None, Some(Value::Object(given))) if given.get("approved").is_some_and(Value::is_boolean) => given,
        _ => {
            return bad(format!(
                "this is a request of kind {kind}: pass --approve, --reject or a JSON object with approved: true or false"
            ));
        }
    };
    if let Some(reason) = &args.reason {
        answer.insert("reason".to_owned(), reason.as_str().into());
    }
    Ok(Value::Object(answer))
}
