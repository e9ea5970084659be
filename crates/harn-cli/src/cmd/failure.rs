//! The failure of a run, and whether the run is retried.

use std::time::Duration;

use harn_journal::{Entry, last_effect, retry};
use harn_store::{NewStatus, Run, Write};
use harn_system::{Real, System};
use harn_value::{Data as Value, json};

use crate::program::End;
use crate::report::Problem;

/// Maximum number of characters of a message in the note of a run.
const NOTE: usize = 300;

/// Maximum number of stack frames stored.
const CALLS: usize = 50;

/// The failure of a run.
pub(super) struct Failure {
    data: Value,
    message: String,
    /// Whether a retry may succeed.
    may_pass: bool,
}

impl Failure {
    /// Returns the failure of a program that ended with `end`. `hide` replaces secrets by their names.
    pub(super) fn of(end: &End, hide: impl Fn(String) -> String) -> Option<Failure> {
        let (problem, message, may_pass) = match end {
            End::Result { code: 0, .. } | End::Anew(_) | End::Stopped => return None,
            End::Result { err: Some(text), .. } => (None, text.clone(), true),
            End::Result { code, .. } => (None, format!("the program ended with exit code {code}"), true),
            End::Failed(problem) => (Some(&**problem), problem.plain.clone(), true),
            // Every attempt would be rejected.
            End::Refused(problems) => {
                let first = problems.first();
                (first, first.map_or_else(String::new, |problem| problem.plain.clone()), false)
            }
        };
        let message = hide(message);
        let category = problem.and_then(|problem| problem.category.clone());
        let mut data = json!({
            "message": message, "category": category.unwrap_or_else(|| "generic".to_owned()),
            "kind": if may_pass { "runtime_error" } else { "diagnostics" }, "at": Value::Null, "stack": [],
        });
        if let Some(problem) = problem {
            data["at"] = place(problem).map_or(Value::Null, Value::from);
            let calls = problem.calls.iter().take(CALLS);
            let calls =
                calls.map(|call| json!({"function": call.function, "file": call.file, "line": call.line}));
            data["stack"] = calls.collect::<Vec<_>>().into();
        }
        Some(Failure { data, message, may_pass })
    }

    /// Returns the writes that store the failure and release the run, and, for a retry, the note and the time.
    pub(super) fn writes(
        mut self,
        head: &Run,
        entries: &[Entry],
        code: u8,
    ) -> (Vec<Write>, Option<(String, i64)>) {
        let now_ms = Real::new().now_ms();
        let tries = head.tries + 1;
        self.data["exit_code"] = code.into();
        self.data["try"] = tries.into();
        self.data["time"] =
            jiff::Timestamp::from_millisecond(now_ms).map_or(Value::Null, |at| at.to_string().into());
        self.data["last_effect"] = last_effect(entries).map_or(Value::Null, described);
        let (run, at_ms) = (head.id.clone(), now_ms);
        let failure = self.data.to_string().into_bytes();
        let mut writes = vec![Write::RunFailure { run: run.clone(), failure, at_ms }];
        let info: Value = serde_json::from_slice(&head.info).unwrap_or_default();
        let line = short(&self.message);
        let policy = Policy::of(&info).filter(|policy| self.may_pass && head.tries < policy.retries);
        let (status, note, again) = match policy {
            Some(policy) => {
                let delay = policy.delay(tries);
                let due_ms = now_ms.saturating_add(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX));
                let note = format!("try {tries} of {} failed: {line}", policy.retries + 1);
                writes.extend(retry(&run, entries, at_ms).1);
                (NewStatus::Queued { due_ms }, note.clone(), Some((note, due_ms)))
            }
            None => {
                let note = if tries > 1 { format!("{line} (after {tries} tries)") } else { line };
                (NewStatus::Failed { exit_code: i32::from(code) }, note, None)
            }
        };
        writes.push(Write::RunStatus { run, status, note, at_ms });
        writes.push(Write::Release);
        (writes, again)
    }
}

/// Returns file and line of a problem.
fn place(problem: &Problem) -> Option<String> {
    let (file, span) = (problem.file.as_ref()?, problem.diagnostic.span?);
    Some(format!("{}:{}", file.name(), file.line(span.start)))
}

fn described(entry: &Entry) -> Value {
    json!({"entry": entry.seq, "name": entry.what.name(), "about": entry.what.note(), "at": &*entry.place})
}

/// Returns the first line of a message, truncated.
fn short(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    match line.char_indices().nth(NOTE) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

/// The retry policy of a run.
struct Policy {
    retries: u64,
    backoff: String,
    delay_ms: u64,
    max_delay_ms: u64,
}

impl Policy {
    fn of(info: &Value) -> Option<Policy> {
        let retry = &info["retry"];
        Some(Policy {
            retries: retry["retries"].as_u64()?,
            backoff: retry["backoff"].as_str().unwrap_or("exponential").to_owned(),
            delay_ms: retry["delay_ms"].as_u64().unwrap_or(1_000),
            max_delay_ms: retry["max_delay_ms"].as_u64().unwrap_or(3_600_000),
        })
    }

    /// Returns the delay after `tries` failed attempts.
    fn delay(&self, tries: u64) -> Duration {
        let factor = match &*self.backoff {
            "fixed" => 1,
            "linear" => tries,
            _ => 1_u64.checked_shl(u32::try_from(tries - 1).unwrap_or(u32::MAX)).unwrap_or(u64::MAX),
        };
        Duration::from_millis(self.delay_ms.saturating_mul(factor).min(self.max_delay_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_up_to_their_limit() {
        let delays = |backoff: &str| {
            let policy = Policy { retries: 9, backoff: backoff.to_owned(), delay_ms: 100, max_delay_ms: 700 };
            [1, 2, 3, 4, 70].map(|tries| policy.delay(tries).as_millis())
        };
        assert_eq!(delays("fixed"), [100; 5]);
        assert_eq!(delays("linear"), [100, 200, 300, 400, 700]);
        assert_eq!(delays("exponential"), [100, 200, 400, 700, 700]);
    }
}
