//! Reminders that are returned by providers and hooks, or sent by the host.

use harn_value::Data as Value;

use super::{Origin, Reminder, ReminderError, Source};
use crate::value::present;

/// Parses the result of a provider's `evaluate`: nil, a spec, `{reminder: spec}`, or a list of these. `fresh_id`
/// returns the id of a reminder without one, given its index.
///
/// # Errors
/// A spec is malformed; the message names the provider.
pub fn provider_reminders(
    provider: &str,
    result: &Value,
    fresh_id: &dyn Fn(usize) -> String,
) -> Result<Vec<Reminder>, ReminderError> {
    let mut list = Vec::new();
    read(&format!("reminder provider '{provider}'"), result, Source::StdlibProvider, fresh_id, &mut list)?;
    Ok(list)
}

/// Splits the result of a hook into its reminder effects and the remaining result. The remaining result of `{reminder:
/// spec, then?}` is `then`, that of a bare spec (a dict with `body`) nil, that of a list its last other entry. A result
/// without effects is returned unchanged.
///
/// `takes_effects` is false for worker lifecycle events.
///
/// # Errors
/// A spec is malformed, or the event does not support effects.
pub fn hook_effects(
    event: &str,
    takes_effects: bool,
    result: &Value,
    fresh_id: &dyn Fn(usize) -> String,
) -> Result<(Vec<Reminder>, Value), ReminderError> {
    let is_effect = |value: &Value| {
        value.as_object().is_some_and(|d| d.contains_key("reminder") || d.contains_key("body"))
    };
    let (effects, rest): (Vec<&Value>, Value) = match result {
        Value::Array(items) if items.iter().any(is_effect) => {
            let rest = items.iter().rfind(|item| !is_effect(item)).cloned().unwrap_or_default();
            (items.iter().filter(|item| is_effect(item)).collect(), rest)
        }
        other if is_effect(other) => (vec![other], other.get("then").cloned().unwrap_or_default()),
        other => return Ok((Vec::new(), other.clone())),
    };
    if !takes_effects {
        return Err(ReminderError::NoEffects(event.to_owned()));
    }
    let mut list = Vec::new();
    for effect in effects {
        read(&format!("hook '{event}'"), effect, Source::Hook, fresh_id, &mut list)?;
    }
    Ok((list, rest))
}

fn read(
    producer: &str,
    value: &Value,
    source: Source,
    fresh_id: &dyn Fn(usize) -> String,
    list: &mut Vec<Reminder>,
) -> Result<(), ReminderError> {
    match value {
        Value::Null => Ok(()),
        Value::Array(items) => items.iter().try_for_each(|item| read(producer, item, source, fresh_id, list)),
        other => match other.as_object().and_then(|dict| dict.get("reminder")) {
            Some(inner) => read(producer, inner, source, fresh_id, list),
            None => {
                let id = fresh_id(list.len());
                list.push(Reminder::parse(producer, Origin::Provider, other, &id, source)?);
                Ok(())
            }
        },
    }
}

/// When a reminder of the host takes effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostMode {
    /// Immediately, even during a step.
    InterruptImmediate,
    /// After the current step.
    #[default]
    FinishStep,
    /// Only in the transcript, when the loop exits.
    AuditOnly,
}

/// Parses the payload of the host notification `session/remind`: the fields of a reminder, `mode` and `_meta`.
///
/// # Errors
/// The payload is malformed.
pub fn host_reminder(payload: &Value, fresh_id: &str) -> Result<(Reminder, HostMode), ReminderError> {
    let function = "session/remind";
    let wrong = |field: &str, expected| ReminderError::Field {
        function: function.to_owned(),
        code: Origin::Host.code(),
        field: field.to_owned(),
        expected,
    };
    let mut fields = payload.as_object().ok_or_else(|| wrong("payload", "an object"))?.clone();
    let mode = match present(&fields, "mode").map(Value::as_str) {
        None => HostMode::default(),
        Some(Some("interrupt_immediate")) => HostMode::InterruptImmediate,
        Some(Some("finish_step")) => HostMode::FinishStep,
        Some(Some("audit_only")) => HostMode::AuditOnly,
        Some(_) => return Err(wrong("mode", "interrupt_immediate, finish_step or audit_only")),
    };
    for key in ["mode", "_meta", "sessionId", "session_id"] {
        fields.shift_remove(key);
    }
    let reminder = Reminder::parse(function, Origin::Host, &Value::Object(fields), fresh_id, Source::Bridge)?;
    Ok((reminder, mode))
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn fresh(index: usize) -> String {
        format!("r{index}")
    }

    #[test]
    fn providers_return_nil_specs_and_lists() {
        let ids = |value: Value| -> Vec<String> {
            provider_reminders("p", &value, &fresh).unwrap().into_iter().map(|r| r.id).collect()
        };
        assert!(ids(json!(null)).is_empty());
        assert_eq!(ids(json!({"body": "a"})), ["r0"]);
        assert_eq!(
            ids(json!([{"reminder": {"body": "a"}}, null, {"body": "b", "id": "own"}, {"body": "c"}])),
            ["r0", "own", "r2"]
        );
        assert_eq!(
            provider_reminders("p", &json!({"text": "a"}), &fresh).unwrap_err().to_string(),
            "reminder provider 'p': unknown option 'text' (HARN-RMD-006)"
        );
        assert_eq!(
            provider_reminders("p", &json!("a"), &fresh).unwrap_err().to_string(),
            "reminder provider 'p': reminder must be a dict (HARN-RMD-006)"
        );
    }

    #[test]
    fn hooks_return_effects_and_their_own_result() {
        let run = |value: Value| hook_effects("PostToolUse", true, &value, &fresh).unwrap();
        let (reminders, rest) = run(json!({"reminder": {"body": "a"}, "then": {"result": "x"}}));
        assert_eq!((reminders[0].source, rest), (Source::Hook, json!({"result": "x"})));
        assert_eq!(run(json!({"body": "a"})).1, json!(null));
        assert_eq!(run(json!({"deny": "no"})), (vec![], json!({"deny": "no"})));
        assert_eq!(run(json!("text")), (vec![], json!("text")));
        let (reminders, rest) = run(json!([{"body": "a"}, {"deny": "no"}, {"reminder": {"body": "b"}}]));
        assert_eq!((reminders.len(), rest), (2, json!({"deny": "no"})));
    }

    #[test]
    fn worker_events_take_no_effects() {
        let run = |value: Value| hook_effects("WorkerFailed", false, &value, &fresh);
        assert_eq!(
            run(json!({"body": "a"})).unwrap_err().to_string(),
            "WorkerFailed: this hook event takes no reminder effects (HARN-RMD-008)"
        );
        assert!(run(json!(null)).is_ok());
    }

    #[test]
    fn the_host_names_a_mode() {
        let (reminder, mode) = host_reminder(
            &json!({"body": "b", "mode": "audit_only", "_meta": {"x": 1}, "sessionId": "s"}),
            "h",
        )
        .unwrap();
        assert_eq!((reminder.source, reminder.id.as_str(), mode), (Source::Bridge, "h", HostMode::AuditOnly));
        assert_eq!(host_reminder(&json!({"body": "b"}), "h").unwrap().1, HostMode::FinishStep);
        let error = |payload: Value| host_reminder(&payload, "h").unwrap_err().to_string();
        assert_eq!(
            error(json!({"body": "b", "mode": "now"})),
            "session/remind: mode must be interrupt_immediate, finish_step or audit_only (HARN-RMD-002)"
        );
        assert_eq!(error(json!([])), "session/remind: payload must be an object (HARN-RMD-002)");
        assert_eq!(error(json!({"body": "b", "x": 1})), "session/remind: unknown option 'x' (HARN-RMD-002)");
    }
}
