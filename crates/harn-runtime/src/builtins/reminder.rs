//! System reminders in transcripts: context for the next turns that expires by itself.

use harn_prompt::reminder::{Reminder, transcript as pure};
use harn_value::{Dict, Value};
use harn_vm::{Builtin, Error, Result, builtins};

use crate::convert::{OrThrow, from_json, thrown, to_json};
use crate::llm_host::new_id;

builtins! {
    /// Reminders.
    pub(crate) static REMINDERS: "transcripts";

    /// Makes the transcript event of a reminder; what has a wrong shape gets its default.
    ///
    /// ```harn
    /// let e = transcript_reminder_event({body: "Be brief.", ttl_turns: 2})
    /// println("${e.kind} ${e.text} ${e.reminder.ttl_turns}") // -> system_reminder Be brief. 2
    /// ```
    Pure fn transcript_reminder_event(cx, options: Value) -> "dict" {
        let Some(mut reminder) = Reminder::from_record(&to_json(&options)) else {
            return Err(thrown("transcript_reminder_event: body must be a non-blank string"));
        };
        if reminder.id.is_empty() {
            reminder.id = new_id(cx.vm());
        }
        from_json(&pure::reminder_event(&reminder))
    }
}

builtins! {
    /// What `transcript.NAME(…)` calls: the builtin `transcript` is the receiver.
    pub(crate) static METHODS: "transcripts";

    /// Adds a reminder to a transcript; pending ones with its `dedupe_key` are replaced.
    ///
    /// ```harn
    /// let r = transcript.inject_reminder(transcript(), {body: "Be brief.", ttl_turns: 2})
    /// println(transcript_events_by_kind(r.transcript, "system_reminder")[0].text) // -> Be brief.
    /// ```
    Pure fn inject_reminder(cx, this: Value, transcript: Value, options: Value) -> "dict" {
        of_transcript(&this, "inject_reminder")?;
        let injected = pure::inject_reminder(&to_json(&transcript), &to_json(&options), &new_id(cx.vm())).or_throw()?;
        from_json(&injected.to_json())
    }

    /// Removes reminders from a transcript; all given selectors must match.
    ///
    /// ```harn
    /// let r = transcript.inject_reminder(transcript(), {body: "Be brief.", tags: ["style"]})
    /// println(transcript.clear_reminders(r.transcript, {tag: "style"}).removed_count) // -> 1
    /// ```
    Pure fn clear_reminders(cx, this: Value, transcript: Value, selector: Value) -> "dict" {
        of_transcript(&this, "clear_reminders")?;
        let cleared = pure::clear_reminders(&to_json(&transcript), &to_json(&selector)).or_throw()?;
        let mut out = Dict::new();
        out.insert("transcript", from_json(&cleared.transcript));
        out.insert("removed_count", cleared.removed_count);
        out
    }
}

/// These are functions of the name `transcript`, and no methods of other builtins.
fn of_transcript(this: &Value, name: &str) -> Result<()> {
    match Builtin::of(this) {
        Some(builtin) if builtin.name() == "transcript" => Ok(()),
        _ => Err(Error::type_error(format!("unknown method `{name}` on builtin"))),
    }
}
