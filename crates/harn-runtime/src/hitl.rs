//! Human in the loop: requests that a human answers, and the reviewers who may answer them.
//!
//! Requests and answers are events. The host is asked first (including a mock), then the user at the terminal. Without
//! either, the task waits until another task of the program records an answer (`hitl.response_received` with its
//! `request_id`), a remote reviewer answers ([`harn_system::System::inquire`]), or the request times out.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use harn_stdlib::event_log::EventLog;
use harn_system::{Inquiry, SystemExt};
use harn_value::{Data as Json, json};
use harn_value::{Dict, Value};
use harn_vm::iter::Source;
use harn_vm::{Cx, Error, Result};
use sha2::{Digest, Sha256};

use crate::convert::{from_json, thrown, to_json};
use crate::llm_embedder::new_id;
use crate::session::Sessions;

/// The kinds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Question,
    Approval,
    DualControl,
    Escalation,
}

impl Kind {
    /// Returns the name of the kind in requests, mocks and filters.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Question => "question",
            Kind::Approval => "approval",
            Kind::DualControl => "dual_control",
            Kind::Escalation => "escalation",
        }
    }

    /// Returns the topic of its events.
    fn topic(self) -> &'static str {
        match self {
            Kind::Question => "hitl.questions",
            Kind::Approval => "hitl.approvals",
            Kind::DualControl => "hitl.dual_control",
            Kind::Escalation => "hitl.escalations",
        }
    }

    fn asked(self) -> &'static str {
        match self {
            Kind::Question => "hitl.question_asked",
            Kind::Approval => "hitl.approval_requested",
            Kind::DualControl => "hitl.dual_control_requested",
            Kind::Escalation => "hitl.escalation_issued",
        }
    }
}

/// A request to a human.
pub(crate) struct Request {
    pub(crate) kind: Kind,
    /// The prompt that the human reads.
    pub(crate) prompt: String,
    /// The allowed reviewers; empty if everyone may answer.
    pub(crate) reviewers: Vec<String>,
    /// The required number of different reviewers who approve.
    pub(crate) quorum: usize,
    /// The time limit.
    pub(crate) timeout: Duration,
    /// Additional data for the host.
    pub(crate) details: Json,
}

/// The terminal shows one question at a time.
#[derive(Default)]
struct Terminal(tokio::sync::Mutex<()>);

/// A request that waits for its answer.
#[derive(Clone)]
struct Open {
    kind: Kind,
    agent: Option<String>,
    prompt: String,
    trace_id: String,
    timestamp: i64,
    approvers: Vec<String>,
    metadata: Json,
}

/// The open requests of a program, in creation order.
#[derive(Default)]
pub(crate) struct Pending(RefCell<BTreeMap<u64, (String, Open)>>, std::cell::Cell<u64>);

/// Removes a request from the list when its task no longer waits for it, for any reason.
struct Listed {
    pending: Rc<Pending>,
    number: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.pending.0.borrow_mut().remove(&self.number);
    }
}

/// The filter of `hitl_pending`.
#[derive(Default)]
pub(crate) struct Filter {
    pub(crate) since: Option<i64>,
    pub(crate) until: Option<i64>,
    pub(crate) kinds: Vec<String>,
    pub(crate) agent: Option<String>,
    pub(crate) limit: Option<usize>,
}

impl Pending {
    /// Returns the matching open requests, oldest first.
    pub(crate) fn list(&self, filter: &Filter) -> Json {
        let fits = |open: &Open| {
            filter.since.is_none_or(|since| open.timestamp >= since)
                && filter.until.is_none_or(|until| open.timestamp <= until)
                && (filter.kinds.is_empty() || filter.kinds.iter().any(|kind| kind == open.kind.as_str()))
                && (filter.agent.is_none() || filter.agent == open.agent)
        };
        self.0
            .borrow()
            .values()
            .filter(|(_, open)| fits(open))
            .take(filter.limit.unwrap_or(usize::MAX))
            .map(|(id, open)| {
                json!({
                    "request_id": id, "request_kind": open.kind.as_str(), "agent": open.agent, "prompt": open.prompt,
                    "trace_id": open.trace_id, "timestamp": open.timestamp, "approvers": open.approvers,
                    "metadata": open.metadata,
                })
            })
            .collect()
    }
}

/// A request in progress.
pub(crate) struct Asked {
    cx: Cx,
    pub(crate) id: String,
    pub(crate) trace_id: String,
    request: Request,
    /// When it was created, on the monotonic clock.
    since: Duration,
    /// The number of answers received from remote reviewers.
    had: Cell<u32>,
    /// The id of the event that announced it.
    asked_at: Cell<i64>,
    _listed: Listed,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.cx.system().end_inquiry(&self.id);
    }
}

/// The result of an approval: the reviewers and the time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Approved {
    pub(crate) reviewers: Vec<String>,
    pub(crate) approved_at: String,
    pub(crate) reason: Option<String>,
    pub(crate) signatures: Vec<Json>,
    /// The complete last answer.
    pub(crate) answer: Json,
}

/// The result of waiting.
pub(crate) enum Response {
    Answer(Json),
    /// The request timed out.
    Late,
}

impl Asked {
    /// Creates and announces a request.
    pub(crate) fn new(cx: &Cx, request: Request) -> Result<Asked> {
        let pending = cx.state::<Pending>();
        let number = pending.1.get() + 1;
        pending.1.set(number);
        let (id, trace_id) = (format!("hitl_{}", new_id(cx.vm())), format!("trace_{}", new_id(cx.vm())));
        let agent = cx.state::<Sessions>().running(cx).map(|running| running.session.id.clone());
        let open = Open {
            kind: request.kind,
            agent,
            prompt: request.prompt.clone(),
            trace_id: trace_id.clone(),
            timestamp: cx.system().now_ms(),
            approvers: request.reviewers.clone(),
            metadata: request.details.clone(),
        };
        pending.0.borrow_mut().insert(number, (id.clone(), open));
        let (since, had) = (cx.system().monotonic(), Cell::new(0));
        let listed = Listed { pending, number };
        let asked_at = Cell::new(0);
        let asked = Asked { cx: cx.clone(), id, trace_id, request, since, had, asked_at, _listed: listed };
        asked.asked_at.set(asked.tell(asked.request.kind.asked(), asked.params())?);
        harn_stdlib::notify_host(cx, "harn.hitl.requested", &from_json(&asked.params()));
        Ok(asked)
    }

    /// Returns the request for the host and the event log.
    fn params(&self) -> Json {
        let mut params = self.request.details.clone();
        if !params.is_object() {
            params = json!({});
        }
        params["request_id"] = self.id.as_str().into();
        params["kind"] = self.request.kind.as_str().into();
        params["prompt"] = self.request.prompt.as_str().into();
        params["trace_id"] = self.trace_id.as_str().into();
        params["reviewers"] = json!(self.request.reviewers);
        params["quorum"] = self.request.quorum.into();
        params
    }

    /// Adds an event about the request; returns its id.
    pub(crate) fn tell(&self, kind: &str, payload: Json) -> Result<i64> {
        let mut payload = payload;
        payload["request_id"] = self.id.as_str().into();
        let (log, now) = (EventLog::of(self.cx.vm()), self.cx.system().now_ms());
        log.emit(self.request.kind.topic(), kind, from_json(&payload), Dict::new(), now)
    }

    /// Asks the host; empty if it has no answer.
    pub(crate) async fn ask_host(&self) -> Result<Vec<Json>> {
        let params = from_json(&self.params());
        let answer = harn_stdlib::ask_host(&self.cx, "hitl", self.request.kind.as_str(), &params).await;
        let answer = match answer {
            None => return Ok(Vec::new()),
            Some(answer) => to_json(&answer?),
        };
        let answers = match answer {
            Json::Array(answers) => answers,
            Json::Null => Vec::new(),
            one => vec![one],
        };
        for answer in &answers {
            self.tell("hitl.response_received", json!({"response": answer}))?;
        }
        Ok(answers)
    }

    /// Asks the user at the terminal, within the time limit; `None` without an answer.
    async fn ask_terminal(&self, question: &str) -> Result<Option<String>> {
        let asked = async {
            let terminal = self.cx.state::<Terminal>();
            let _turn = terminal.0.lock().await;
            harn_stdlib::ask_terminal(&self.cx, question).await
        };
        let Some(line) = self.cx.system().within(self.time_left(), asked).await.transpose()?.flatten() else {
            return Ok(None);
        };
        self.tell("hitl.response_received", json!({"response": {"text": line, "reviewer": TERMINAL}}))?;
        Ok(Some(line))
    }

    fn time_left(&self) -> Duration {
        self.request.timeout.saturating_sub(self.cx.system().monotonic().saturating_sub(self.since))
    }

    /// Waits for an answer of a remote reviewer, or one that another task records.
    async fn wait(&self) -> Result<Response> {
        let system = self.cx.system();
        let log = EventLog::of(self.cx.vm());
        // Earlier events cannot be answers to this request.
        let after = usize::try_from(self.asked_at.get()).ok();
        let mut events = log.subscribe(self.request.kind.topic(), after)?;
        let answered = async {
            loop {
                let Some(event) = events.next(&self.cx).await? else { continue };
                let event = to_json(&event);
                let payload = &event["payload"];
                // Answers of the host, the terminal or a remote reviewer were already processed.
                if event["kind"] == "hitl.response_received"
                    && payload["request_id"] == self.id.as_str()
                    && payload["response"].is_null()
                {
                    return Ok::<Json, Error>(payload.clone());
                }
            }
        };
        let inquiry = Inquiry {
            id: self.id.clone(),
            kind: self.request.kind.as_str().to_owned(),
            prompt: self.request.prompt.clone(),
            details: self.params().to_string(),
            quorum: u32::try_from(self.request.quorum).unwrap_or(u32::MAX),
            had: self.had.get(),
            time: self.time_left(),
        };
        let reply = tokio::select! {
            biased;
            answer = answered => return Ok(Response::Answer(answer?)),
            reply = self.cx.wait(system.inquire(inquiry)) => reply?,
        };
        match reply {
            Ok(None) => Ok(Response::Late),
            Ok(Some(reply)) => {
                self.had.set(self.had.get() + 1);
                let answer = given(reply);
                self.tell("hitl.response_received", json!({"response": answer}))?;
                Ok(Response::Answer(answer))
            }
            Err(text) => Err(thrown(text)),
        }
    }

    /// Returns the line with the arguments of the action to approve, if it has arguments.
    fn arguments(&self) -> Option<String> {
        shown_arguments(&self.request.details).map(|line| format!("    {line}\n"))
    }

    /// Returns the prompt for a terminal: without control characters, and without lines that resemble output of the
    /// runtime.
    fn prompt(&self) -> String {
        harn_syntax::with_margin(&self.request.prompt, harn_syntax::MARGIN)
    }

    /// Reports on standard error that the program waits.
    fn announce(&self) {
        let (kind, id) = (self.request.kind.as_str(), &self.id);
        let text = format!("{kind} {id} waits for an answer: {}", self.request.prompt);
        let arguments = self.arguments().unwrap_or_default();
        self.cx.system().write_err(&format!("{}{arguments}", harn_syntax::notice(&text)));
    }

    /// Waits until a remote reviewer accepts an escalation; `None` without remote reviewers.
    pub(crate) async fn taken_over(&self) -> Result<Option<Json>> {
        if !self.cx.system().has_people() {
            return Ok(None);
        }
        self.announce();
        let Response::Answer(answer) = self.wait().await? else {
            self.tell("hitl.timeout", json!({}))?;
            return Ok(None);
        };
        self.refuse_cancelled(&answer)?;
        let accepted = answer["approved"].as_bool().or(answer["accepted"].as_bool()).unwrap_or(true);
        Ok(accepted.then(|| {
            let mut answer = answer;
            answer["accepted"] = true.into();
            answer
        }))
    }

    /// Returns the answer to a question.
    pub(crate) async fn answer(&self) -> Result<Response> {
        if let Some(answer) = self.ask_host().await?.into_iter().next() {
            self.refuse_cancelled(&answer)?;
            return Ok(Response::Answer(answer));
        }
        if let Some(line) = self.ask_terminal(&format!("{} ", self.prompt())).await? {
            return Ok(Response::Answer(json!({"answer": line})));
        }
        self.announce();
        let response = self.wait().await?;
        match &response {
            Response::Answer(answer) => self.refuse_cancelled(answer)?,
            Response::Late => {
                self.tell("hitl.timeout", json!({}))?;
            }
        }
        Ok(response)
    }

    /// Asks only the user at the terminal; `None` if the terminal ends without an answer.
    async fn approval_at_terminal(&self) -> Result<Option<Approved>> {
        let mut yes = Approved::default();
        Ok(self.ask_for_approval(&mut yes).await?.then_some(yes))
    }

    /// Asks the user at the terminal, and records the answer; false without one.
    async fn ask_for_approval(&self, yes: &mut Approved) -> Result<bool> {
        let question = match self.arguments() {
            Some(arguments) => format!("{}\n{arguments}[y/N] ", self.prompt()),
            None => format!("{} [y/N] ", self.prompt()),
        };
        let Some(line) = self.ask_terminal(&question).await? else { return Ok(false) };
        if !matches!(line.trim().to_lowercase().as_str(), "y" | "yes") {
            return Err(self.denied(TERMINAL.to_owned(), None, yes)?);
        }
        let Some(reviewer) = self.terminal_reviewer().await? else { return Ok(false) };
        self.count(&json!({"approved": true, "reviewer": reviewer}), yes)?;
        Ok(true)
    }

    /// Returns the name of the reviewer at the terminal: the user's name if it is one of the reviewers, else the name
    /// that the user enters. `None` if the user enters nothing.
    async fn terminal_reviewer(&self) -> Result<Option<String>> {
        let reviewers = &self.request.reviewers;
        if reviewers.is_empty() {
            return Ok(Some(TERMINAL.to_owned()));
        }
        let system = self.cx.system();
        let user = ["USER", "LOGNAME"].iter().find_map(|name| system.env(name));
        if let Some(user) = user.filter(|user| reviewers.contains(user)) {
            return Ok(Some(user));
        }
        let question = format!("Reviewer ({}): ", harn_syntax::printable(&reviewers.join(", ")));
        while let Some(line) = self.ask_terminal(&question).await? {
            match line.trim() {
                "" => break,
                name if reviewers.iter().any(|reviewer| reviewer == name) => {
                    return Ok(Some(name.to_owned()));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Waits until enough reviewers have approved.
    ///
    /// # Errors
    /// `ApprovalDeniedError` when a reviewer rejects, `HumanTimeoutError` when the request times out.
    pub(crate) async fn approvals(&self) -> Result<Approved> {
        let mut yes = Approved::default();
        loop {
            let before = yes.reviewers.len();
            for answer in self.ask_host().await? {
                self.count(&answer, &mut yes)?;
            }
            if yes.reviewers.len() >= self.request.quorum {
                break;
            }
            // Without a new reviewer, asking the same host again would loop forever.
            if yes.reviewers.len() == before {
                break;
            }
        }
        if yes.reviewers.is_empty() && self.request.quorum == 1 {
            self.ask_for_approval(&mut yes).await?;
        }
        if yes.reviewers.len() < self.request.quorum {
            self.announce();
        }
        while yes.reviewers.len() < self.request.quorum {
            match self.wait().await? {
                Response::Answer(answer) => self.count(&answer, &mut yes)?,
                Response::Late => {
                    self.tell("hitl.timeout", json!({}))?;
                    return Err(self.late());
                }
            }
        }
        let word = match self.request.kind {
            Kind::DualControl => "hitl.dual_control_approved",
            _ => "hitl.approval_approved",
        };
        self.tell(word, json!({"reviewers": yes.reviewers}))?;
        Ok(yes)
    }

    /// Records one answer to an approval.
    fn count(&self, answer: &Json, yes: &mut Approved) -> Result<()> {
        self.refuse_cancelled(answer)?;
        let reviewer = match &answer["reviewer"] {
            Json::Null => TERMINAL.to_owned(),
            Json::String(name) if !name.trim().is_empty() => name.clone(),
            _ => {
                let kind = self.request.kind.as_str();
                return Err(thrown(format!(
                    "{kind}: the reviewer of an answer must be a string that is not empty"
                )));
            }
        };
        let listed = self.request.reviewers.is_empty() || self.request.reviewers.contains(&reviewer);
        if !listed {
            let text = format!(
                "warning: {reviewer} answered {} but is none of its reviewers",
                self.request.kind.as_str()
            );
            self.cx.vm().system().write_err(&harn_syntax::notice(&text));
            return Ok(());
        }
        let reason = answer["reason"].as_str().map(str::to_owned);
        let approved = answer["approved"].as_bool().ok_or_else(|| {
            thrown(format!("{}: an answer must have approved: true or false", self.request.kind.as_str()))
        })?;
        if !approved {
            return Err(self.denied(reviewer, reason, yes)?);
        }
        if yes.reviewers.contains(&reviewer) {
            return Ok(());
        }
        let signed_at = match &answer["responded_at"] {
            Json::String(at) => at.clone(),
            _ => harn_stdlib::iso_millis(self.cx.system().now_ms()),
        };
        // The signature covers the approved action, so that an approval is not valid for another action.
        let signature = match &answer["signature"] {
            Json::String(signature) => signature.clone(),
            _ => {
                let signed = json!([self.request.prompt, self.request.details, reviewer, signed_at]);
                let digest = Sha256::digest(signed.to_string().as_bytes());
                let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("sha256:{hex}")
            }
        };
        let signature = json!({"reviewer": reviewer, "signed_at": signed_at, "signature": signature});
        yes.signatures.push(signature);
        yes.reviewers.push(reviewer);
        yes.approved_at = signed_at;
        yes.reason = reason.or(yes.reason.take());
        yes.answer = answer.clone();
        Ok(())
    }

    /// Records that a reviewer rejected the request. Returns the error for the program.
    fn denied(&self, reviewer: String, reason: Option<String>, yes: &Approved) -> Result<Error> {
        let word = match self.request.kind {
            Kind::DualControl => "hitl.dual_control_denied",
            _ => "hitl.approval_denied",
        };
        self.tell(word, json!({"reviewer": reviewer, "reason": reason}))?;
        let mut reviewers = yes.reviewers.clone();
        reviewers.push(reviewer);
        Ok(throw(json!({
            "name": "ApprovalDeniedError", "category": "generic",
            "message": reason.clone().unwrap_or_else(|| "approval was denied".to_owned()),
            "request_id": self.id, "reviewers": reviewers, "reason": reason,
        })))
    }

    fn refuse_cancelled(&self, answer: &Json) -> Result<()> {
        if answer["cancelled"] != true {
            return Ok(());
        }
        let reason = answer["reason"].as_str();
        let message = reason.unwrap_or("the request was cancelled"); // prose-ok: diagnostic
        Err(throw(json!({
            "name": "HumanCancelledError", "category": "cancelled", "message": message, "request_id": self.id,
            "kind": self.request.kind.as_str(), "wait_id": self.id, "waitpoint_ids": [self.id], "reason": reason,
        })))
    }

    /// Returns the error of a request that timed out.
    pub(crate) fn late(&self) -> Error {
        let kind = self.request.kind.as_str();
        throw(json!({
            "name": "HumanTimeoutError", "category": "timeout", "message": format!("{kind} timed out"),
            "request_id": self.id, "kind": kind,
        }))
    }
}

/// Maximum length of the line of arguments, in characters.
const MAX_ARGUMENTS: usize = 2000;

/// Arguments up to this length are part of the prompt of a tool approval.
const SHORT_ARGUMENTS: usize = 150;

/// Returns the arguments of the action to approve in one line: `arguments: {..}`; `None` if the details of the request
/// have no arguments.
pub fn shown_arguments(details: &Json) -> Option<String> {
    let raw = &details["toolCall"]["rawInput"];
    // The prompt of a tool approval already contains short arguments.
    let arguments = Some(&details["args"]).filter(|args| !args.is_null());
    let arguments = arguments.or_else(|| Some(raw).filter(|raw| raw.to_string().len() > SHORT_ARGUMENTS))?;
    // JSON escapes most control characters and line feeds, but not the control characters of bidirectional text.
    let text = harn_syntax::printable(&arguments.to_string()).into_owned();
    let cut = text.char_indices().nth(MAX_ARGUMENTS).map(|(at, _)| &text[..at]);
    Some(match cut {
        Some(cut) => format!("arguments: {cut}… ({} characters)", text.chars().count()),
        None => format!("arguments: {text}"),
    })
}

/// Converts the answer of a remote reviewer to the form of host answers.
fn given(reply: harn_system::Reply) -> Json {
    let value = serde_json::from_str(&reply.value).unwrap_or(Json::String(reply.value));
    let mut answer = if value.is_object() { value } else { json!({"answer": value}) };
    answer["reviewer"] = reply.by.into();
    answer["responded_at"] = harn_stdlib::iso_millis(reply.at_ms).into();
    answer["signature"] = reply.signature.into();
    answer
}

/// Asks for permission, at the terminal or remotely. Returns the answer in the form of host answers; `None` without a
/// terminal and remote reviewers.
pub(crate) async fn permission(cx: &Cx, prompt: String, details: Json) -> Result<Option<Json>> {
    let waits = cx.system().has_people();
    if !waits && !harn_stdlib::has_terminal(cx) {
        return Ok(None);
    }
    let timeout = Duration::from_secs(24 * 60 * 60);
    let request =
        Request { kind: Kind::Approval, prompt, reviewers: Vec::new(), quorum: 1, timeout, details };
    let asked = Asked::new(cx, request)?;
    let approved = match waits {
        true => asked.approvals().await,
        // If the terminal ends without an answer, waiting for another reviewer is useless.
        false => match asked.approval_at_terminal().await.transpose() {
            Some(approved) => approved,
            None => return Ok(None),
        },
    };
    match approved {
        Ok(yes) => Ok(Some(json!({
            "granted": true, "args": yes.answer["args"], "reviewers": yes.reviewers, "signatures": yes.signatures,
        }))),
        Err(error) if error.is_catchable() => {
            let error = to_json(&error.caught());
            let reason = error["message"].as_str().unwrap_or("the approval was not given"); // prose-ok: diagnostic
            Ok(Some(json!({"granted": false, "reason": reason})))
        }
        Err(error) => Err(error),
    }
}

/// The default name of the reviewer at the terminal.
const TERMINAL: &str = "operator";

fn throw(error: Json) -> Error {
    Error::thrown(from_json(&error))
}

/// Reads a time limit: a duration or milliseconds.
///
/// # Errors
/// The value is of another type.
pub(crate) fn time_limit(value: &Value) -> std::result::Result<Duration, String> {
    let ms = value.as_duration().or_else(|| value.as_int()).and_then(|ms| u64::try_from(ms).ok());
    ms.map(Duration::from_millis).ok_or_else(|| ": expected a duration or millisecond count".to_owned())
}

/// Reads a list of names and removes duplicates.
///
/// # Errors
/// The value is not a list of strings with content.
pub(crate) fn names(value: &Value) -> std::result::Result<Vec<String>, String> {
    let wrong = || ": expected list<string>".to_owned();
    let mut out: Vec<String> = Vec::new();
    for item in value.as_list().ok_or_else(wrong)?.iter() {
        let name = item.as_str().filter(|name| !name.trim().is_empty()).ok_or_else(wrong)?;
        if !out.iter().any(|known| **known == **name) {
            out.push(name.to_string());
        }
    }
    Ok(out)
}
