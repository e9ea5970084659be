//! Human in the loop: questions, approvals and escalations.

use std::time::Duration;

use harn_schema::options::Options;
use harn_value::Value;
use harn_value::{Data as Json, json};
use harn_vm::builtin::OptionDict;
use harn_vm::closure::is_callable;
use harn_vm::{Cx, Error, Result, builtins};

use crate::convert::{data, from_json, thrown, to_json};
use crate::hitl::{Asked, Filter, Kind, Pending, Request, Response, names, time_limit};

/// The kinds by which `hitl_pending` can filter.
const KINDS: [&str; 4] = ["question", "approval", "dual_control", "escalation"];

/// Options of `ask_user`.
#[derive(Options)]
#[options(thrown, own_type)]
struct AskOptions {
    /// Schema that the answer must match.
    schema: Value,
    /// Time limit; after it, the answer is `default`.
    #[option(default = DAY, shown = "24h", ty = "any", with = time_limit)]
    timeout: Duration,
    /// Answer after the time limit. Without a schema, answers are converted to its type.
    #[option(nil)]
    default: Option<Value>,
}

/// Options of `request_approval`.
#[derive(Options)]
#[options(thrown, own_type)]
struct ApprovalOptions {
    /// Details of the action for reviewers, in addition to its arguments.
    detail: Value,
    /// Arguments of the action.
    args: Value,
    /// Number of reviewers that must approve.
    #[option(default = 1, ty = "any", with = quorum)]
    quorum: usize,
    /// Reviewers that may answer; all when the list is empty.
    #[option(ty = "any", with = names)]
    reviewers: Vec<String>,
    /// Time limit; after it, the request fails.
    #[option(default = DAY, shown = "24h", ty = "any", with = time_limit)]
    deadline: Duration,
    /// Principal that makes the request.
    #[expect(dead_code, reason = "part of the request, which is recorded as it was given")]
    principal: Value,
    /// References that support the request.
    #[option(ty = "any", with = any_list)]
    #[expect(dead_code, reason = "as `principal`")]
    evidence_refs: Value,
    /// How the action can be undone.
    undo_metadata: Value,
    /// Capabilities that the action needs.
    #[option(ty = "any", with = any_list)]
    #[expect(dead_code, reason = "as `principal`")]
    capabilities_requested: Value,
}

/// Options of `hitl_pending`.
#[derive(Options)]
#[options(thrown, own_type)]
struct PendingOptions {
    /// Only requests from this time on, in milliseconds.
    since: Option<i64>,
    /// Only requests up to this time, in milliseconds.
    until: Option<i64>,
    /// Only requests of these kinds: `question`, `approval`, `dual_control`, `escalation`.
    #[option(ty = "list", with = names)]
    kinds: Vec<String>,
    /// Only requests of this agent.
    agent: Option<String>,
    /// Maximum number of requests.
    #[option(ty = "int", with = limit)]
    limit: Option<usize>,
}

/// The default timeout of requests.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn quorum(value: &Value) -> std::result::Result<usize, String> {
    let quorum = value.as_int().and_then(|quorum| usize::try_from(quorum).ok()).filter(|quorum| *quorum > 0);
    quorum.ok_or_else(|| "must be positive".to_owned())
}

fn limit(value: &Value) -> std::result::Result<Option<usize>, String> {
    quorum(value).map(Some).map_err(|_| "must be a positive int".to_owned())
}

fn any_list(value: &Value) -> std::result::Result<Value, String> {
    if value.as_list().is_some() { Ok(value.clone()) } else { Err("must be a list".to_owned()) }
}

builtins! {
    /// Human in the loop.
    pub(crate) static HITL: "people";

    /// Asks a human a question and returns the answer.
    ///
    /// The host answers; without a host, the user at the terminal. With `schema`, the answer must match it; without,
    /// the answer is converted to the type of `default`. After `timeout` (24 hours) the answer is `default`; without a
    /// default, `HumanTimeoutError` is thrown.
    ///
    /// ```harn
    /// host_mock("hitl", "question", {answer: "7"})
    /// println(ask_user("How many?", {default: 1}) + 1) // -> 8
    /// ```
    Random async fn ask_user(cx, prompt: Value as "!string", options: OptionDict<AskOptions>) -> "any" {
        let prompt = string_at("ask_user", &prompt, 1)?;
        let AskOptions { schema, timeout, default } = options.read()?;
        if !schema.is_nil() && let Err(error) = harn_schema::canonical(&schema) {
            return Err(thrown(format!("ask_user: schema: {error}")));
        }
        let request = Request {
            kind: Kind::Question, prompt, reviewers: Vec::new(), quorum: 1, timeout,
            details: json!({"schema": to_json(&schema), "default": default.as_ref().map(to_json)}),
        };
        let asked = Asked::new(&cx, request)?;
        let answer = match asked.answer().await? {
            Response::Late => return default.ok_or_else(|| asked.late()),
            Response::Answer(answer) => answer.get("answer").cloned().unwrap_or(answer),
        };
        coerced(&cx, &answer, &schema, &default.unwrap_or_default()).await?
    }

    /// Waits for the approval of an action: `{approved, reviewers, approved_at, reason, signatures}`.
    ///
    /// `quorum` (1) different reviewers of `reviewers` must approve within `deadline` (24 hours); the first
    /// rejection throws `ApprovalDeniedError`. A signature covers the action with its `args` and `detail`.
    ///
    /// ```harn
    /// host_mock("hitl", "approval", {approved: true, reviewer: "ada"})
    /// println(request_approval("deploy", {args: {to: "production"}}).reviewers) // -> [ada]
    /// ```
    Random async fn request_approval(cx, action: Value as "!string", options: OptionDict<ApprovalOptions>) -> "dict" {
        let action = string_at("request_approval", &action, 1)?;
        let ApprovalOptions { quorum, reviewers, deadline, detail, args, undo_metadata, .. } = options.read()?;
        if !reviewers.is_empty() && reviewers.len() < quorum {
            let text = format!("request_approval: quorum is {quorum}, but there are {} reviewers", reviewers.len());
            return Err(thrown(text));
        }
        // A signature covers only values that can be serialized.
        for (key, value) in [("args", args), ("detail", detail), ("undo_metadata", undo_metadata)] {
            data(&format!("request_approval: {key}"), &value)?;
        }
        let mut details = match to_json(options.given()) {
            Json::Null => json!({}),
            given => given,
        };
        details["action"] = action.as_str().into();
        let request = Request {
            kind: Kind::Approval, prompt: action, reviewers, quorum, timeout: deadline, details,
        };
        let yes = Asked::new(&cx, request)?.approvals().await?;
        from_json(&json!({
            "approved": true, "reviewers": yes.reviewers, "approved_at": yes.approved_at, "reason": yes.reason,
            "signatures": yes.signatures,
        }))
    }

    /// Runs a closure after `n` of `m` reviewers approved, and returns its value.
    ///
    /// ```harn
    /// host_mock("hitl", "dual_control", [{approved: true, reviewer: "ada"}, {approved: true, reviewer: "bob"}])
    /// println(dual_control(2, 3, { -> "wiped" }, ["ada", "bob", "eve"])) // -> wiped
    /// ```
    Random async fn dual_control(cx, n: Value as "!int", m: Value as "!int", action: Value as "!closure", approvers: Value as "!list?") -> "any" {
        let (n, m) = (positive_at("dual_control", &n, 1)?, positive_at("dual_control", &m, 2)?);
        if n > m {
            return Err(thrown("dual_control: n must be less than or equal to m"));
        }
        if !is_callable(&action) {
            return Err(thrown("dual_control: action must be a closure"));
        }
        let reviewers = match approvers.is_nil() {
            true => Vec::new(),
            false => names(&approvers).map_err(|wrong| thrown(format!("dual_control: approvers{wrong}")))?,
        };
        if !reviewers.is_empty() && reviewers.len() < m {
            return Err(thrown(format!("dual_control: expected at least {m} approvers, got {}", reviewers.len())));
        }
        let request = Request {
            kind: Kind::DualControl, prompt: format!("{n} of {m} people must approve"), reviewers, quorum: n, timeout: DAY,
            details: json!({"n": n, "m": m}),
        };
        let asked = Asked::new(&cx, request)?;
        asked.approvals().await?;
        let value = cx.call(&action, []).await?;
        asked.tell("hitl.dual_control_executed", json!({}))?;
        value
    }

    /// Escalates to a role: `{request_id, role, reason, trace_id, status, accepted_at, reviewer}`.
    ///
    /// `status` is `accepted` when the host accepts the escalation, else `pending`; the program continues in both
    /// cases. A durable run waits up to 24 hours until a reviewer accepts (`harn answer`).
    ///
    /// ```harn
    /// println(escalate_to("legal", "a contract").status) // -> pending
    /// ```
    Random async fn escalate_to(cx, role: Value as "!string", reason: Value as "!string") -> "dict" {
        let role = string_at("escalate_to", &role, 1)?;
        let reason = string_at("escalate_to", &reason, 2)?;
        let request = Request {
            kind: Kind::Escalation, prompt: reason.clone(), reviewers: Vec::new(), quorum: 1, timeout: DAY,
            details: json!({"role": role, "reason": reason}),
        };
        let asked = Asked::new(&cx, request)?;
        let answer = match asked.ask_host().await?.into_iter().next() {
            Some(answer) => answer,
            None => asked.taken_over().await?.unwrap_or_default(),
        };
        let accepted = answer["accepted"] == true;
        let accepted_at = accepted.then(|| match answer["accepted_at"].as_str().or(answer["responded_at"].as_str()) {
            Some(at) => at.to_owned(),
            None => harn_stdlib::iso_millis(cx.vm().system().now_ms()),
        });
        if accepted {
            asked.tell("hitl.escalation_accepted", json!({"reviewer": answer["reviewer"]}))?;
        }
        from_json(&json!({
            "request_id": asked.id, "role": role, "reason": reason, "trace_id": asked.trace_id,
            "status": if accepted { "accepted" } else { "pending" }, "accepted_at": accepted_at,
            "reviewer": if accepted { answer["reviewer"].clone() } else { Json::Null },
        }))
    }

    /// Lists the pending requests of the program, oldest first.
    ///
    /// ```harn
    /// println(hitl_pending()) // -> []
    /// ```
    State fn hitl_pending(cx, filters: OptionDict<PendingOptions>) -> "list<dict>" {
        let PendingOptions { since, until, kinds, agent, limit } = filters.read()?;
        if let Some(kind) = kinds.iter().find(|kind| !KINDS.contains(&kind.as_str())) {
            return Err(thrown(format!("hitl_pending: unsupported kind '{kind}'")));
        }
        from_json(&cx.state::<Pending>().list(&Filter { since, until, kinds, agent, limit }))
    }
}

fn string_at(function: &str, value: &Value, at: usize) -> Result<String> {
    let text =
        value.as_str().ok_or_else(|| thrown(format!("{function}: expected string argument at {at}")))?;
    if text.as_str().trim().is_empty() {
        return Err(thrown(format!("{function}: the string at {at} must not be empty")));
    }
    Ok(text.to_string())
}

fn positive_at(function: &str, value: &Value, at: usize) -> Result<usize> {
    let number =
        value.as_int().ok_or_else(|| thrown(format!("{function}: expected int argument at {at}")))?;
    match usize::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(thrown(format!("{function}: expected a positive int at {at}"))),
    }
}

/// Converts the answer to the form that the caller expects.
async fn coerced(cx: &Cx, answer: &Json, schema: &Value, default: &Value) -> Result<Value> {
    let plain = from_json(answer);
    let wrong = |what: &str| {
        Err(Error::thrown(format!("ask_user: the answer {} is no {what}", harn_value::short(&plain, 60))))
    };
    if !schema.is_nil() {
        let Some(check) = cx.vm().builtin("schema_expect") else { return Ok(plain) };
        let check = check.value();
        let first = cx.call(&check, [plain.clone(), schema.clone(), true.into()]).await;
        // A human types a string, but the schema may require a number or a structured value.
        let typed = answer.as_str().and_then(|text| serde_json::from_str::<Json>(text).ok());
        return match (first, typed) {
            (Ok(value), _) => Ok(value),
            (Err(_), Some(typed)) => cx.call(&check, [from_json(&typed), schema.clone(), true.into()]).await,
            (Err(error), None) => Err(error),
        };
    }
    if default.type_name() == "string" && !answer.is_string() {
        return Ok(Value::str(&answer.to_string()));
    }
    let text = answer.as_str().map(str::trim);
    let kind = default.type_name();
    Ok(match (kind, text) {
        ("int", Some(text)) => match text.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => return wrong("int"),
        },
        ("float", Some(text)) => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => number.into(),
            _ => return wrong("float"),
        },
        #[expect(clippy::cast_precision_loss, reason = "a person's number")]
        ("float", None) if answer.is_number() => {
            plain.as_float().or_else(|| plain.as_int().map(|number| number as f64)).unwrap_or_default().into()
        }
        ("list" | "dict", Some(text)) => {
            match serde_json::from_str::<Json>(text).map(|typed| from_json(&typed)) {
                Ok(typed) if typed.type_name() == kind => typed,
                _ => return wrong(kind),
            }
        }
        ("bool", Some(text)) => match text.to_lowercase().as_str() {
            "true" | "yes" | "y" => true.into(),
            "false" | "no" | "n" => false.into(),
            _ => return wrong("bool"),
        },
        ("int" | "float" | "bool" | "list" | "dict", None) if plain.type_name() != kind => {
            return wrong(kind);
        }
        _ => plain,
    })
}
