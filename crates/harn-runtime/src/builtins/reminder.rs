//! System reminders in transcripts and sessions: context for the next turns that expires automatically.

use harn_prompt::reminder::{Origin, Reminder, Source, transcript as pure};
use harn_value::{Dict, Value};
use harn_vm::{Builtin, Error, Result, builtins};

use crate::convert::{OrThrow, data, from_json, thrown, to_json};
use crate::llm_embedder::new_id;
use crate::reminders::{Provider, Reminders};

builtins! {
    /// Reminders.
    pub(crate) static REMINDERS: "transcripts";

    /// Creates the transcript event of a reminder; fields of the wrong shape get their defaults.
    ///
    /// ```harn
    /// let e = transcript_reminder_event({body: "Be brief.", ttl_turns: 2})
    /// println("${e.kind} ${e.text} ${e.reminder.ttl_turns}") // -> system_reminder Be brief. 2
    /// ```
    Random fn transcript_reminder_event(cx, options: Value as "!reminder_record") -> "dict" {
        let Some(mut reminder) = Reminder::from_record(&data("transcript_reminder_event: options", &options)?) else {
            return Err(thrown("transcript_reminder_event: body must be a non-blank string"));
        };
        if reminder.id.is_empty() {
            reminder.id = new_id(cx.vm());
        }
        from_json(&pure::reminder_event(&reminder))
    }

    /// Registers a reminder provider for loops that start later.
    ///
    /// At each event that it subscribes to, `evaluate` is called with `{event, session, session_id, payload, options,
    /// config}` and returns nil, a reminder, `{reminder}` or a list.
    ///
    /// The events are `session_start`, `pre_turn`, `post_turn`, `post_tool`, `post_compact`, `session_resume`, `daemon_idle`
    /// and `budget_pressure`. A provider with the same id is replaced.
    ///
    /// ```harn
    /// register_reminder_provider({id: "clock", subscribes_to: ["pre_turn"], evaluate: { c ->
    ///   {body: "Turn ${c.payload.iteration + 1}.", ttl_turns: 1, dedupe_key: "clock"}
    /// }})
    /// agent_loop("Hi", "Be kind.", {provider: "mock"})
    /// println(llm_mock_calls()[0].system.contains("Turn 1.")) // -> true
    /// clear_reminder_providers()
    /// ```
    State fn register_reminder_provider(cx, provider: Value as "!dict") -> "nil" {
        cx.state::<Reminders>().register(Provider::parse(&provider).or_throw()?);
    }

    /// Removes the providers that `register_reminder_provider` added; running loops stop calling them.
    ///
    /// ```harn
    /// println(clear_reminder_providers()) // -> nil
    /// ```
    State fn clear_reminder_providers(cx) -> "nil" {
        cx.state::<Reminders>().clear_providers();
    }

    /// Adds a reminder to a session and returns the reminder's id.
    ///
    /// The session may be running or not. Options are those of `transcript.inject_reminder`.
    ///
    /// ```harn
    /// agent_session_remind("s", {body: "Tests are red."})
    /// llm_call("Hi", "Be kind.", {provider: "mock", session_id: "s"})
    /// println(llm_mock_calls()[0].system.contains("Tests are red.")) // -> true
    /// ```
    Random fn agent_session_remind(cx, session_id: Value as "!string", options: Value as "!dict | string") -> "string" {
        let session_id = session("agent_session_remind(session_id, options)", &session_id)?;
        let (function, id) = ("agent_session_remind", new_id(cx.vm()));
        let reminder =
            Reminder::parse(function, Origin::Options, &data("agent_session_remind: options", &options)?, &id, Source::InPipeline).or_throw()?;
        cx.state::<Reminders>().add(cx.vm(), &session_id, &reminder);
        reminder.id
    }

    /// Removes reminders from a session and returns their number; all selectors (`id`, `tag`, `dedupe_key`) must match.
    ///
    /// ```harn
    /// agent_session_remind("s", {body: "Tests are red.", tags: ["tests"]})
    /// println(agent_session_clear_reminders("s", {tag: "tests"})) // -> 1
    /// ```
    State fn agent_session_clear_reminders(cx, session_id: Value as "!string", selector: Value as "!dict | string?") -> "int" {
        let session_id = session("agent_session_clear_reminders(session_id, selector)", &session_id)?;
        cx.state::<Reminders>().clear(cx.vm(), &session_id, &to_json(&selector)).or_throw()?
    }
}

builtins! {
    /// Methods of `transcript`: the builtin `transcript` is the receiver of `transcript.NAME(…)`.
    pub(crate) static METHODS: "transcripts";

    /// Adds a reminder to a transcript and replaces pending ones with the same `dedupe_key`.
    ///
    /// ```harn
    /// let r = transcript.inject_reminder(transcript(), {body: "Be brief.", ttl_turns: 2})
    /// println(transcript_events_by_kind(r.transcript, "system_reminder")[0].text) // -> Be brief.
    /// ```
    Random fn inject_reminder(cx, this: Value, transcript: Value as "!dict", options: Value as "!dict") -> "dict" {
        of_transcript(&this, "inject_reminder")?;
        let injected = pure::inject_reminder(&to_json(&transcript), &data("transcript.inject_reminder: options", &options)?, &new_id(cx.vm())).or_throw()?;
        from_json(&injected.to_json())
    }

    /// Removes reminders from a transcript; all selectors must match.
    ///
    /// ```harn
    /// let r = transcript.inject_reminder(transcript(), {body: "Be brief.", tags: ["style"]})
    /// println(transcript.clear_reminders(r.transcript, {tag: "style"}).removed_count) // -> 1
    /// ```
    Pure fn clear_reminders(cx, this: Value, transcript: Value as "!dict", selector: Value as "!dict | string?") -> "dict" {
        of_transcript(&this, "clear_reminders")?;
        let cleared = pure::clear_reminders(&to_json(&transcript), &to_json(&selector)).or_throw()?;
        let mut out = Dict::new();
        out.insert("transcript", from_json(&cleared.transcript));
        out.insert("removed_count", cleared.removed_count);
        out
    }
}

/// Reads the id of a session.
fn session(function: &str, id: &Value) -> Result<String> {
    let id = id.as_str().map(ToString::to_string);
    id.ok_or_else(|| thrown(format!("{function}: session_id must be a string")))
}

/// Checks that the receiver is `transcript`, because methods are registered for all builtins.
fn of_transcript(this: &Value, name: &str) -> Result<()> {
    match Builtin::of(this) {
        Some(builtin) if builtin.name() == "transcript" => Ok(()),
        _ => Err(Error::type_error(format!("unknown method `{name}` on builtin"))),
    }
}
