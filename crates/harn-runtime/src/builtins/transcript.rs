//! Transcripts: conversations as immutable dicts.

use harn_agent::AgentEvent;
use harn_llm::transcript as pure;
use harn_value::Data as Json;
use harn_value::Value;
use harn_vm::builtin::Text;
use harn_vm::{Cx, Error, Result, builtins};

use crate::builtins::failed;
use crate::convert::{OrThrow, data, from_json, to_json};
use crate::llm_embedder::{new_id, runtime};
use crate::session::Sessions;

builtins! {
    /// Transcripts.
    pub(crate) static TRANSCRIPTS: "transcripts";

    /// Creates an empty transcript.
    ///
    /// ```harn
    /// println(transcript_messages(transcript())) // -> []
    /// ```
    Random fn transcript(cx, metadata: Value as "dict?") -> "dict" {
        let metadata = if metadata.is_nil() { None } else { Some(data("transcript: metadata", &metadata)?) };
        from_json(&pure::empty(metadata, &|| new_id(cx.vm())))
    }

    /// Creates an empty message list.
    ///
    /// ```harn
    /// println(add_user(conversation(), "Hi")) // -> [{content: Hi, role: user}]
    /// ```
    Pure fn conversation(cx) -> "list<dict>" {
        Vec::<Value>::new()
    }

    /// Creates a transcript from messages.
    ///
    /// ```harn
    /// println(transcript_stats(transcript_from_messages([{role: "user", content: "Hi"}])).message_count) // -> 1
    /// ```
    Random fn transcript_from_messages(cx, messages: Value as "!list | dict") -> "dict" {
        made(pure::from_messages(&data("transcript_from_messages: messages", &messages)?, &|| new_id(cx.vm())))?
    }

    /// Returns the messages of a transcript.
    ///
    /// ```harn
    /// let t = add_user(transcript(), "Hi")
    /// println(transcript_messages(t)[0].content) // -> Hi
    /// ```
    Pure fn transcript_messages(cx, transcript: Value as "!dict") -> "list<dict>" {
        made(pure::field("transcript_messages", &to_json(&transcript), "messages"))?
    }

    /// Returns the events of a transcript: one per message, then the other events.
    ///
    /// ```harn
    /// println(transcript_events(add_user(transcript(), "Hi"))[0].kind) // -> message
    /// ```
    Pure fn transcript_events(cx, transcript: Value as "!dict") -> "list<dict>" {
        made(pure::field("transcript_events", &to_json(&transcript), "events"))?
    }

    /// Returns the assets of a transcript.
    ///
    /// ```harn
    /// println(transcript_assets(transcript())) // -> []
    /// ```
    Pure fn transcript_assets(cx, transcript: Value as "!dict") -> "list<dict>" {
        made(pure::field("transcript_assets", &to_json(&transcript), "assets"))?
    }

    /// Returns the summary of a transcript, or nil without one.
    ///
    /// ```harn
    /// println(transcript_summary(transcript())) // -> nil
    /// ```
    Pure fn transcript_summary(cx, transcript: Value as "!dict") -> "string | nil" {
        made(pure::field("transcript_summary", &to_json(&transcript), "summary"))?
    }

    /// Returns the id of a transcript.
    ///
    /// ```harn
    /// println(transcript_id(transcript()).count()) // -> 36
    /// ```
    Pure fn transcript_id(cx, transcript: Value as "!dict") -> "string" {
        made(pure::field("transcript_id", &to_json(&transcript), "id"))?
    }

    /// Returns the events of one kind.
    ///
    /// ```harn
    /// println(transcript_events_by_kind(add_user(transcript(), "Hi"), "message").count()) // -> 1
    /// ```
    Pure fn transcript_events_by_kind(cx, transcript: Value, kind: Text) -> "list<dict>" {
        from_json(&pure::events_by_kind(&to_json(&transcript), &kind).into())
    }

    /// Counts messages, tool calls and visible events.
    ///
    /// ```harn
    /// println(transcript_stats(nil).message_count) // -> 0
    /// ```
    Pure fn transcript_stats(cx, transcript: Value as "dict?") -> "dict" {
        from_json(&pure::stats(&to_json(&transcript)))
    }

    /// Adds an asset; one of the same id is replaced.
    ///
    /// ```harn
    /// let t = transcript_add_asset(transcript(), {id: "a", kind: "image"})
    /// println(transcript_assets(t)[0].kind) // -> image
    /// ```
    Random fn transcript_add_asset(cx, transcript: Value as "!dict", asset: Value as "!string | dict") -> "dict" {
        made(pure::add_asset(&to_json(&transcript), &data("transcript_add_asset: asset", &asset)?, &|| new_id(cx.vm())))?
    }

    /// Renders the visible events of a transcript, one line each: messages of user and assistant.
    ///
    /// System messages, tool results and runtime messages to the model are omitted.
    ///
    /// ```harn
    /// println(transcript_render_visible(add_user(transcript(), "Hi"))) // -> user: Hi
    /// ```
    Pure fn transcript_render_visible(cx, transcript: Value as "!dict") -> "string" {
        pure::render_visible(&checked("transcript_render_visible", &transcript)?)
    }

    /// Renders all events of a transcript, one line each.
    ///
    /// ```harn
    /// println(transcript_render_full(add_user(transcript(), "Hi"))) // -> [public] user: Hi
    /// ```
    Pure fn transcript_render_full(cx, transcript: Value as "!dict") -> "string" {
        pure::render_full(&checked("transcript_render_full", &transcript)?)
    }

    /// Serializes a transcript to JSON.
    ///
    /// ```harn
    /// println(json_parse(transcript_export(transcript())).version) // -> 2
    /// ```
    Pure fn transcript_export(cx, transcript: Value as "!dict") -> "string" {
        pure::export(&checked("transcript_export", &transcript)?)
    }

    /// Parses a transcript from JSON.
    ///
    /// ```harn
    /// println(transcript_import(transcript_export(transcript())).version) // -> 2
    /// ```
    Pure fn transcript_import(cx, text: Text) -> "dict" {
        made(pure::import(&text))?
    }

    /// Copies a transcript and assigns a new id.
    ///
    /// ```harn
    /// println(transcript_fork(transcript()).state) // -> forked
    /// ```
    Random fn transcript_fork(cx, transcript: Value as "!dict", options: Value as "{retain_messages?: bool, retain_summary?: bool}?") -> "dict" {
        made(pure::fork(&to_json(&transcript), &to_json(&options), &|| new_id(cx.vm())))?
    }

    /// Creates an empty transcript in state `active`.
    ///
    /// ```harn
    /// println(transcript_reset().state) // -> active
    /// ```
    Random fn transcript_reset(cx, options: Value as "{metadata?: any}?") -> "dict" {
        from_json(&pure::reset(&data("transcript_reset: options", &options)?, &|| new_id(cx.vm())))
    }

    /// Marks a transcript as archived.
    ///
    /// ```harn
    /// println(transcript_archive(transcript()).state) // -> archived
    /// ```
    Random fn transcript_archive(cx, transcript: Value as "!dict") -> "dict" {
        made(pure::archive(&to_json(&transcript), &|| new_id(cx.vm())))?
    }

    /// Marks a transcript as abandoned.
    ///
    /// ```harn
    /// println(transcript_abandon(transcript()).state) // -> abandoned
    /// ```
    Random fn transcript_abandon(cx, transcript: Value as "!dict") -> "dict" {
        made(pure::abandon(&to_json(&transcript), &|| new_id(cx.vm())))?
    }

    /// Makes a transcript active again.
    ///
    /// ```harn
    /// println(transcript_resume(transcript_archive(transcript())).state) // -> active
    /// ```
    Random fn transcript_resume(cx, transcript: Value as "!dict") -> "dict" {
        made(pure::resume(&to_json(&transcript), &|| new_id(cx.vm())))?
    }

    /// Appends a message to a list or transcript.
    ///
    /// ```harn
    /// println(add_message([], "developer", "Be brief.")) // -> [{content: Be brief., role: developer}]
    /// ```
    Random fn add_message(cx, to: Value, role: Text, content: Value as "any?") -> "any" {
        add(cx, "add_message", &to, &role, &content)?
    }

    /// Appends a user message to a list or transcript.
    ///
    /// ```harn
    /// println(add_user([], "Hi")) // -> [{content: Hi, role: user}]
    /// ```
    Random fn add_user(cx, to: Value as "!dict | list?", content: Value as "any?") -> "any" {
        add(cx, "add_user", &to, "user", &content)?
    }

    /// Appends an assistant message to a list or transcript.
    ///
    /// ```harn
    /// println(add_assistant([], "Hello")) // -> [{content: Hello, role: assistant}]
    /// ```
    Random fn add_assistant(cx, to: Value as "!dict | list?", content: Value as "any?") -> "any" {
        add(cx, "add_assistant", &to, "assistant", &content)?
    }

    /// Appends a system message to a list or transcript.
    ///
    /// ```harn
    /// println(add_system([], "Be brief.")) // -> [{content: Be brief., role: system}]
    /// ```
    Random fn add_system(cx, to: Value as "!dict | list?", content: Value as "any?") -> "any" {
        add(cx, "add_system", &to, "system", &content)?
    }

    /// Appends a tool result to a list or transcript.
    ///
    /// ```harn
    /// println(add_tool_result([], "c1", "5")[0].role) // -> tool_result
    /// ```
    Random fn add_tool_result(cx, to: Value, tool_use_id: Text, content: Value as "any?") -> "any" {
        let ids = || new_id(cx.vm());
        made(pure::add_tool_result(&to_json(&to), &tool_use_id, data("add_tool_result: content", &content)?, &ids))?
    }

    /// Summarizes a transcript with a model and keeps its last messages.
    ///
    /// ```harn
    /// llm_mock({text: "They said hi."})
    /// let t = transcript_summarize(add_user(transcript(), "Hi"), {provider: "mock"})
    /// println(transcript_summary(t)) // -> They said hi.
    /// ```
    Llm async fn transcript_summarize(cx, transcript: Value as "!dict", options: Value as "call_options?") -> "dict" {
        let options = Json::Object(crate::convert::options(&options));
        let runtime = runtime(&cx);
        let result = runtime.transcript_summarize(&to_json(&transcript), &options).await;
        from_json(&result.map_err(|e| failed(&e))?)
    }

    /// Replaces the older messages of a transcript by a summary.
    ///
    /// ```harn
    /// var t = transcript()
    /// for n in 1 to 4 { t = add_user(t, "message ${n}") }
    /// let c = transcript_compact(t, {keep_last: 1, strategy: "truncate"})
    /// println(transcript_messages(c).count()) // -> 2
    /// ```
    Llm async fn transcript_compact(cx, transcript: Value as "!dict", options: Value as "call_options?") -> "dict" {
        crate::option_check::refuse_unknown(&cx, "transcript_compact", &options)?;
        let options = Json::Object(crate::convert::options(&options));
        let runtime = runtime(&cx);
        let render = |path: &str, bindings: &Json| -> std::result::Result<String, String> {
            let text = super::template::file(&cx, "transcript_compact", &path.into(), &from_json(bindings));
            text.map_err(|e| e.caught().to_string())
        };
        // Reminders are counted down first; those to preserve are among the retained events.
        let survivors = harn_prompt::reminder::compact(&to_json(&transcript));
        survivors.lifecycle.iter().for_each(|entry| crate::reminders::tell(cx.vm(), None, entry.to_json()));
        let transcript = survivors.transcript;
        let result = runtime.transcript_compact(&transcript, &options, &render).await;
        let compacted = result.map_err(|e| failed(&e))?;
        let session = transcript["id"].as_str().and_then(|id| cx.state::<Sessions>().known(id));
        if let (Some(metadata), Some(session)) = (compacted.metadata, session) {
            session.tell(&cx, &AgentEvent::TranscriptCompacted(metadata)).await;
        }
        from_json(&compacted.transcript)
    }

    /// Replaces the older messages of a list by one summary message, regardless of their size.
    ///
    /// ```harn
    /// var list = []
    /// for n in 1 to 5 { list = add_user(list, "message ${n}") }
    /// let short = transcript_auto_compact(list, {keep_last: 1, compact_callback: { old -> "${old.count()} gone" }})
    /// println(short[0].content.lines()) // -> [[auto-compacted 4 older messages], 4 gone]
    /// ```
    Llm async fn transcript_auto_compact(cx, messages: Value as "!list", options: Value as "call_options?") -> "list<dict>" {
        crate::compact::list(&cx, &messages, &options).await?
    }

    /// Estimates the tokens of messages: bytes of their content divided by four.
    ///
    /// ```harn
    /// println(estimate_tokens([{role: "user", content: "12345678"}])) // -> 2
    /// ```
    Pure fn estimate_tokens(cx, messages: Value as "list?") -> "int" {
        let messages = to_json(&messages);
        let bytes: usize = messages.as_array().into_iter().flatten().map(content_bytes).sum();
        bytes / 4
    }
}

fn content_bytes(message: &Json) -> usize {
    match &message["content"] {
        Json::String(text) => text.len(),
        Json::Array(blocks) => blocks.iter().filter_map(|b| b["text"].as_str()).map(str::len).sum(),
        _ => 0,
    }
}

fn made(result: std::result::Result<Json, String>) -> Result<Value> {
    Ok(from_json(&result.or_throw()?))
}

fn add(cx: &Cx, function: &str, to: &Value, role: &str, content: &Value) -> Result<Value> {
    let content = data(&format!("{function}: content"), content)?;
    made(pure::add_message(function, &to_json(to), role, content, &|| new_id(cx.vm())))
}

fn checked(function: &str, transcript: &Value) -> Result<Json> {
    let json = to_json(transcript);
    if pure::is_transcript(&json) {
        return Ok(json);
    }
    Err(Error::thrown(format!("{function}: argument must be a transcript")))
}
