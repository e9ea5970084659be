//! People in the loop.

use harn_value::Value;
use harn_value::{Data as Json, json};
use harn_vm::closure::is_callable;
use harn_vm::{Cx, Error, Result, builtins};

use crate::convert::{data_option, entry, from_json, thrown, to_json};
use crate::hitl::{Asked, Filter, Kind, Pending, Request, Response, names, options, time_limit};

/// What `request_approval` may be told.
const APPROVAL_OPTIONS: [&str; 9] = [
    "detail",
    "args",
    "quorum",
    "reviewers",
    "deadline",
    "principal",
    "evidence_refs",
    "undo_metadata",
    "capabilities_requested",
];

/// The kinds that `hitl_pending` can be limited to.
const KINDS: [&str; 4] = ["question", "approval", "dual_control", "escalation"];

builtins! {
    /// People in the loop.
    pub(crate) static HITL: "people";

    /// Asks a person and returns the answer.
    ///
    /// The host is asked, else the person at the terminal. With `schema` the answer must fit it, else it gets the type of
    /// `default`. When `timeout` (24 hours) is over, `default` is the answer; without one `HumanTimeoutError` is thrown.
    ///
    /// ```harn
    /// host_mock("hitl", "question", {answer: "7"})
    /// println(ask_user("How many?", {default: 1}) + 1) // -> 8
    /// ```
    Random async fn ask_user(cx, prompt: Value as "!string", options: Value as "!{schema?: any, timeout?: any, default?: any}?") -> "any" {
        let prompt = string_at("ask_user", &prompt, 1)?;
        let given = self::options("ask_user", &options, &["schema", "timeout", "default"])?;
        let timeout = time_limit("ask_user", &options, "timeout")?;
        let (schema, default) = (entry(&options, "schema"), entry(&options, "default"));
        if !schema.is_nil() && let Err(error) = harn_schema::canonical(&schema) {
            return Err(thrown(format!("ask_user: schema: {error}")));
        }
        let has_default = given.contains_key("default");
        let request = Request {
            kind: Kind::Question, prompt, reviewers: Vec::new(), quorum: 1, timeout,
            details: json!({"schema": to_json(&schema), "default": given.get("default")}),
        };
        let asked = Asked::new(&cx, request)?;
        let answer = match asked.answer().await? {
            Response::Late if has_default => return Ok(default),
            Response::Late => return Err(asked.late()),
            Response::Answer(answer) => answer.get("answer").cloned().unwrap_or(answer),
        };
        coerced(&cx, &answer, &schema, &default).await?
    }

    /// Waits until enough people approve an action: `{approved, reviewers, approved_at, reason, signatures}`.
    ///
    /// `quorum` (1) different people of `reviewers` must say yes within `deadline` (24 hours); the first no throws
    /// `ApprovalDeniedError`. A signature covers the action with its `args` and `detail`.
    ///
    /// ```harn
    /// host_mock("hitl", "approval", {approved: true, reviewer: "ada"})
    /// println(request_approval("deploy", {args: {to: "production"}}).reviewers) // -> [ada]
    /// ```
    Random async fn request_approval(cx, action: Value as "!string", options: Value as "!{detail?: any, args?: any, quorum?: any, reviewers?: any, deadline?: any, principal?: any, evidence_refs?: any, undo_metadata?: any, capabilities_requested?: any}?") -> "dict" { // prose-ok: a type
        let action = string_at("request_approval", &action, 1)?;
        let given = self::options("request_approval", &options, &APPROVAL_OPTIONS)?;
        let quorum = match given.get("quorum") {
            None | Some(Json::Null) => 1,
            Some(quorum) => match quorum.as_i64().map(usize::try_from) {
                Some(Ok(quorum)) if quorum > 0 => quorum,
                _ => return Err(thrown("request_approval: quorum must be positive")),
            },
        };
        let reviewers = names("request_approval", &given, "reviewers")?;
        if !reviewers.is_empty() && reviewers.len() < quorum {
            let text = format!("request_approval: quorum is {quorum}, but there are {} reviewers", reviewers.len());
            return Err(thrown(text));
        }
        for key in ["evidence_refs", "capabilities_requested"] {
            if given.get(key).is_some_and(|list| !list.is_null() && !list.is_array()) {
                return Err(thrown(format!("request_approval: {key} must be a list")));
            }
        }
        for key in ["args", "detail", "undo_metadata"] {
            // A signature covers what can be written down.
            data_option("request_approval", &options, key)?;
        }
        let timeout = time_limit("request_approval", &options, "deadline")?;
        let mut details = Json::Object(given);
        details["action"] = action.as_str().into();
        let request = Request { kind: Kind::Approval, prompt: action, reviewers, quorum, timeout, details };
        let yes = Asked::new(&cx, request)?.approvals().await?;
        from_json(&json!({
            "approved": true, "reviewers": yes.reviewers, "approved_at": yes.approved_at, "reason": yes.reason,
            "signatures": yes.signatures,
        }))
    }

    /// Runs a closure after `n` of `m` people approved, and returns its value.
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
        let reviewers = match to_json(&approvers) {
            Json::Null => Vec::new(),
            list => names("dual_control", &json!({"approvers": list}).as_object().cloned().unwrap_or_default(), "approvers")?,
        };
        if !reviewers.is_empty() && reviewers.len() < m {
            return Err(thrown(format!("dual_control: expected at least {m} approvers, got {}", reviewers.len())));
        }
        let timeout = time_limit("dual_control", &Value::NIL, "deadline")?;
        let request = Request {
            kind: Kind::DualControl, prompt: format!("{n} of {m} people must approve"), reviewers, quorum: n, timeout,
            details: json!({"n": n, "m": m}),
        };
        let asked = Asked::new(&cx, request)?;
        asked.approvals().await?;
        let value = cx.call(&action, []).await?;
        asked.tell("hitl.dual_control_executed", json!({}))?;
        value
    }

    /// Hands something over to a role: `{request_id, role, reason, trace_id, status, accepted_at, reviewer}`.
    ///
    /// `status` is `accepted` when the host takes it, else `pending`: the program goes on. A durable run waits until
    /// somebody takes it (`harn answer`), for 24 hours.
    ///
    /// ```harn
    /// println(escalate_to("legal", "a contract").status) // -> pending
    /// ```
    Random async fn escalate_to(cx, role: Value as "!string", reason: Value as "!string") -> "dict" {
        let role = string_at("escalate_to", &role, 1)?;
        let reason = string_at("escalate_to", &reason, 2)?;
        let timeout = time_limit("escalate_to", &Value::NIL, "deadline")?;
        let request = Request {
            kind: Kind::Escalation, prompt: reason.clone(), reviewers: Vec::new(), quorum: 1, timeout,
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

    /// Lists the requests of the program that wait for an answer, the oldest first.
    ///
    /// Options: `since` and `until` (milliseconds), `kinds` (`question`, `approval`, `dual_control`, `escalation`),
    /// `agent`, `limit`.
    ///
    /// ```harn
    /// println(hitl_pending()) // -> []
    /// ```
    State fn hitl_pending(cx, filters: Value as "!{since?: int, until?: int, kinds?: list, agent?: string, limit?: int}?") -> "list<dict>" {
        let given = options("hitl_pending", &filters, &["since", "until", "kinds", "agent", "limit"])?;
        let time = |key: &str| match given.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => value.as_i64().map(Some).ok_or_else(|| {
                thrown(format!("hitl_pending: {key} must be a time in milliseconds"))
            }),
        };
        let kinds = names("hitl_pending", &given, "kinds")?;
        if let Some(kind) = kinds.iter().find(|kind| !KINDS.contains(&kind.as_str())) {
            return Err(thrown(format!("hitl_pending: unsupported kind '{kind}'")));
        }
        let limit = match given.get("limit") {
            None | Some(Json::Null) => None,
            Some(limit) => match limit.as_i64().map(usize::try_from) {
                Some(Ok(limit)) if limit > 0 => Some(limit),
                _ => return Err(thrown("hitl_pending: limit must be a positive int")),
            },
        };
        let agent = match given.get("agent") {
            None | Some(Json::Null) => None,
            Some(Json::String(agent)) => Some(agent.clone()),
            Some(_) => return Err(thrown("hitl_pending: agent must be a string")),
        };
        let filter = Filter { since: time("since")?, until: time("until")?, kinds, agent, limit };
        from_json(&cx.state::<Pending>().list(&filter))
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

/// The answer in the form that the caller wants.
async fn coerced(cx: &Cx, answer: &Json, schema: &Value, default: &Value) -> Result<Value> {
    let plain = from_json(answer);
    let wrong = |what: &str| {
        Err(Error::thrown(format!("ask_user: the answer {} is no {what}", harn_value::short(&plain, 60))))
    };
    if !schema.is_nil() {
        let Some(check) = cx.vm().builtin("schema_expect") else { return Ok(plain) };
        let check = check.value();
        let first = cx.call(&check, [plain.clone(), schema.clone(), true.into()]).await;
        // What a person types is text; the schema may want a number or a whole value.
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
