//! Effects in doubt: an earlier process started them, and their outcome is unknown.
//!
//! A policy or an answer decides: the effect is repeated, has a given result, or fails. Without a decision the
//! program gets an error. The entry of that error, and all following entries, stay in memory until the program
//! handles it or an effect depends on it. If the program does not handle it, they are dropped, and the run is
//! suspended before the effect.

use std::rc::Rc;

use harn_store::{NewWaitpoint, wait};
use harn_system::{Finished, HttpError, HttpErrorKind};
use serde_json::Value;

use crate::journal::{Core, State};
use crate::op::{Inquired, Pending};
use crate::setup::{InDoubtPolicy, Stop};
use crate::wire::Came;

/// The decision about an effect in doubt.
pub(crate) enum Decision {
    /// Repeats the effect.
    Again,
    /// Uses this result.
    Result(Value),
    /// Throws an error.
    Fail,
}

/// Returns the error of a request in doubt.
pub(crate) fn uncertain(note: &str) -> HttpError {
    let text = format!(
        "{note}: the run was interrupted while this request was under way, and it is unknown whether it arrived; to send it again, pass idempotent: true or on_uncertain: \"retry\" (\"ask\" asks a human), or resume with --retry-in-doubt"
    );
    HttpError::new(HttpErrorKind::InDoubt, text)
}

impl State {
    /// Notes that the program receives the error of an effect in doubt next: of an operation, or of an immediate
    /// effect.
    pub(crate) fn hand_over_undecided(&mut self, op: Option<u64>) {
        let undecided = &mut self.undecided;
        let doubt = match op {
            Some(op) => undecided.ops.remove(&op),
            None => undecided.at_once.take(),
        };
        if let Some(doubt) = doubt
            && undecided.handed_over.is_none()
        {
            undecided.handed_over = Some((self.next, doubt));
        }
    }

    /// Returns whether entries wait for the handling of an effect in doubt, because an effect depends on them.
    pub(crate) fn holds_undecided(&mut self) -> bool {
        if self.wanted.is_some() {
            self.undecided.handed_over = None;
        }
        self.undecided.handed_over.is_some()
    }
}

fn request_of(inquired: &Inquired, asked_ms: i64) -> NewWaitpoint {
    let Pending { id, kind, prompt, .. } = inquired.request.clone();
    NewWaitpoint { request_id: id, kind, prompt, info: b"{}".to_vec(), asked_ms, due_ms: None, quorum: 1 }
}

fn decision_of(answer: &[u8]) -> Decision {
    let mut answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    match (answer["approved"] == true, answer.get_mut("result")) {
        (true, _) => Decision::Again,
        (false, Some(result)) => Decision::Result(result.take()),
        (false, None) => Decision::Fail,
    }
}

impl Core {
    /// Returns the request for a decision about an operation that starts next.
    pub(crate) fn doubt(&self, name: &str, note: &str) -> Rc<Inquired> {
        let id = format!("doubt_{}", self.state.borrow().next_op);
        self.doubt_of(&id, name, note)
    }

    fn doubt_of(&self, id: &str, name: &str, note: &str) -> Rc<Inquired> {
        let note = self.named(note);
        let prompt = format!(
            "the run was interrupted during {name} {note}, and it is unknown whether it happened. Repeat it?"
        );
        Inquired::new(id, "in_doubt", &prompt, 0)
    }

    /// Decides about an operation: with `asks` this waits for an answer.
    pub(crate) async fn decide(&self, doubt: &Rc<Inquired>, asks: bool, op: u64) -> Decision {
        if let Some(decision) = self.decision_of_policy(doubt) {
            return decision;
        }
        let request = request_of(doubt, self.inner.now_ms());
        if asks {
            let given = self.person(request, doubt, None).await;
            doubt.waits.set(false);
            return given.ok().flatten().map_or(Decision::Fail, |given| decision_of(&given.value));
        }
        match self.keeper.answers(&request).await {
            Err(text) => {
                self.stop(Stop::Unkept(text));
                Decision::Fail
            }
            Ok(answers) => match answers.into_iter().find_map(Result::ok) {
                Some(given) => decision_of(&given.value),
                None => {
                    self.state.borrow_mut().undecided.ops.insert(op, doubt.clone());
                    Decision::Fail
                }
            },
        }
    }

    /// Decides about an immediate effect.
    pub(crate) fn decide_at_once(&self, name: &str, note: &str) -> Decision {
        let id = format!("doubt_at_{}", self.state.borrow().undecided.begun);
        let doubt = self.doubt_of(&id, name, note);
        if let Some(decision) = self.decision_of_policy(&doubt) {
            return decision;
        }
        match wait(self.keeper.answers(&request_of(&doubt, self.inner.now_ms()))) {
            Err(text) => {
                self.stop(Stop::Unkept(text));
                Decision::Fail
            }
            Ok(answers) => match answers.into_iter().find_map(Result::ok) {
                Some(given) => decision_of(&given.value),
                None => {
                    self.state.borrow_mut().undecided.at_once = Some(doubt);
                    Decision::Fail
                }
            },
        }
    }

    fn decision_of_policy(&self, doubt: &Inquired) -> Option<Decision> {
        let decision = match &self.in_doubt {
            InDoubtPolicy::Ask => return None,
            InDoubtPolicy::Retry => Decision::Again,
            InDoubtPolicy::Skip(result) => Decision::Result(result.clone()),
        };
        // An earlier process may have asked.
        self.close(&doubt.request.id);
        Some(decision)
    }

    /// Handles the error of an effect in doubt: it was caught, or it ends the program, and the run is suspended
    /// before the effect.
    pub(crate) fn settle_doubt(&self, is_caught: bool) {
        let Some((from, doubt)) = self.state.borrow_mut().undecided.handed_over.take() else { return };
        if is_caught || self.is_stopped() {
            return;
        }
        {
            let state = &mut *self.state.borrow_mut();
            state.buffer.retain(|entry| entry.seq < from);
            state.next = from;
            let (out, err) = state.output.cut(from);
            state.printed = (state.printed.0 - out, state.printed.1 - err);
        }
        self.commit();
        let request = request_of(&doubt, self.inner.now_ms());
        if let Err(text) = wait(self.keeper.open(request)) {
            return self.stop(Stop::Unkept(text));
        }
        doubt.waits.set(true);
        let mut pending = self.state.borrow().pending();
        pending.push(doubt.request.clone());
        self.stop(Stop::Suspended { due_ms: None, pending });
    }
}

/// Returns a result as a string: strings unchanged, other values as JSON.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Converts a given result to that of a program: an exit code, its standard output, or `{code, stdout, stderr}`.
pub(crate) fn finished_of(value: &Value) -> Finished {
    let code_of = |value: &Value| value.as_i64().and_then(|code| i32::try_from(code).ok());
    let stream = |name: &str| value.get(name).map(text_of).unwrap_or_default().into_bytes();
    let (code, stdout, stderr) = match value {
        Value::Object(fields) => {
            let code = fields.get("code").or_else(|| fields.get("status")).and_then(code_of);
            (code.unwrap_or(0), stream("stdout"), stream("stderr"))
        }
        Value::Null => (0, Vec::new(), Vec::new()),
        value => match code_of(value) {
            Some(code) => (code, Vec::new(), Vec::new()),
            None => (0, text_of(value).into_bytes(), Vec::new()),
        },
    };
    Finished { pid: 0, code: Some(code), signal: None, stdout, stderr, timed_out: false }
}

/// Converts a given result to a reply: its body, or `{status, headers, body}`.
pub(crate) fn reply_of(value: &Value) -> Result<Came, HttpError> {
    let status = value.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    let (head, body) = match status {
        Some(status) => {
            let headers = value.get("headers").and_then(Value::as_object).into_iter().flatten();
            let headers = headers.map(|(name, value)| (name.to_lowercase(), text_of(value))).collect();
            ((status, headers), value.get("body").map(text_of).unwrap_or_default())
        }
        None if value.is_null() => ((200, Vec::new()), String::new()),
        None => ((200, Vec::new()), text_of(value)),
    };
    Ok(Came { head, body: Some(Ok(body.into_bytes())) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_given_result_has_the_form_of_its_effect() {
        let ran = |value: Value| {
            let ran = finished_of(&value);
            (ran.code, String::from_utf8_lossy(&ran.stdout).into_owned(), ran.stderr)
        };
        assert_eq!(ran(json!(3)), (Some(3), String::new(), Vec::new()));
        assert_eq!(ran(json!("out")), (Some(0), "out".to_owned(), Vec::new()));
        assert_eq!(
            ran(json!({"code": 2, "stdout": "a", "stderr": "b"})),
            (Some(2), "a".to_owned(), b"b".to_vec())
        );
        let reply = |value: Value| {
            let came = reply_of(&value).expect("a reply");
            let body = came.body.expect("a body").expect("no error");
            (came.head.0, came.head.1, String::from_utf8_lossy(&body).into_owned())
        };
        assert_eq!(reply(json!("text")), (200, Vec::new(), "text".to_owned()));
        assert_eq!(reply(json!({"paid": true})), (200, Vec::new(), "{\"paid\":true}".to_owned()));
        assert_eq!(
            reply(json!({"status": 201, "headers": {"X-Id": 7}, "body": {"a": 1}})),
            (201, vec![("x-id".to_owned(), "7".to_owned())], "{\"a\":1}".to_owned())
        );
        assert!(matches!(decision_of(b"{\"result\": 1}"), Decision::Result(Value::Number(_))));
        assert!(matches!(decision_of(b"{\"approved\": true}"), Decision::Again));
        assert!(matches!(decision_of(b"{\"approved\": false}"), Decision::Fail));
    }
}
