//! Compaction: replaces older messages with a summary.

use std::ops::Range;
use std::rc::Rc;

use harn_value::{Data as Value, json};

use super::{Ids, add_asset, event, is_transcript, with_messages};
use crate::conversation::Conversation;
use crate::estimate::estimate_tokens;
use crate::json::{display, list_at, present, str_at};
use crate::message::Message;
use crate::options::Shape;
use harn_prompt::untrusted::{RESULTS, quote_name, quote_speech, quote_summary};

/// How the summary is produced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Masks long messages that the model did not write.
    ObservationMask,
    /// Truncates messages.
    Truncate,
    /// A model writes the summary.
    Llm,
}

impl Strategy {
    /// Returns the name of the option.
    pub fn as_str(self) -> &'static str {
        match self {
            Strategy::ObservationMask => "observation_mask",
            Strategy::Truncate => "truncate",
            Strategy::Llm => "llm",
        }
    }
}

/// The options of `transcript_compact`.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactOptions {
    /// How the summary is produced.
    pub strategy: Strategy,
    /// The number of messages to retain at the end.
    pub keep_last: usize,
    /// The transcript is not compacted if it has no more tokens than this.
    pub target_tokens: Option<i64>,
    /// A given summary.
    pub summary: Option<String>,
    /// Template of the prompt (strategy `llm` only).
    pub summarize_prompt: Option<String>,
}

impl CompactOptions {
    /// Parses the option dict.
    ///
    /// # Errors
    /// `transcript_compact: …`.
    pub fn from_json(options: &Value) -> Result<CompactOptions, String> {
        let word = present(options, "strategy").or_else(|| present(options, "compact_strategy")).map(display);
        let strategy = match word.as_deref() {
            None | Some("observation_mask") => Strategy::ObservationMask,
            Some("truncate") => Strategy::Truncate,
            Some("llm") => Strategy::Llm,
            Some(other) => {
                return Err(format!(
                    "transcript_compact: strategy '{other}' is not supported; use 'llm', 'truncate', or 'observation_mask'"
                ));
            }
        };
        let summarize_prompt = present(options, "summarize_prompt").map(display);
        if summarize_prompt.is_some() && strategy != Strategy::Llm {
            return Err(
                "transcript_compact: summarize_prompt is only supported with strategy 'llm'".to_string()
            );
        }
        let int = |key: &str| options.get(key).and_then(Value::as_i64);
        for key in ["keep_last", "target_tokens"] {
            let fits = Shape::Int(i64::MIN).check(key, options.get(key).unwrap_or(&Value::Null));
            fits.map_err(|wrong| format!("transcript_compact: {wrong}"))?;
        }
        let keep_last = usize::try_from(int("keep_last").unwrap_or(12))
            .map_err(|_| "transcript_compact: keep_last must be >= 0".to_string())?;
        let target_tokens = int("target_tokens");
        if target_tokens.is_some_and(|n| n < 0) {
            return Err("transcript_compact: target_tokens must be >= 0".to_string());
        }
        let summary = present(options, "summary").map(display).filter(|s| !s.trim().is_empty());
        Ok(CompactOptions { strategy, keep_last, target_tokens, summary, summarize_prompt })
    }
}

fn message_text(message: &Value) -> String {
    match message.get("content") {
        None | Some(Value::Null) => String::new(),
        Some(content) => crate::message::result_text(content),
    }
}

/// Returns the content of a message without the model's reasoning.
fn public_text(message: &Value) -> String {
    let Some(Value::Array(blocks)) = message.get("content") else { return message_text(message) };
    let public: Vec<Value> = blocks.iter().filter(|block| !is_private(block)).cloned().collect();
    if public.is_empty() { String::new() } else { crate::message::result_text(&Value::Array(public)) }
}

/// Returns whether a block of a message is only for the model that wrote it.
pub fn is_private(block: &Value) -> bool {
    let kinds = ["reasoning", "thinking", "redacted_thinking"];
    str_at(block, "visibility") == Some("private")
        || str_at(block, "type").is_some_and(|kind| kinds.contains(&kind))
}

/// Estimates the tokens of messages.
pub fn tokens_of(messages: &[Value]) -> i64 {
    messages.iter().map(|m| estimate_tokens(&message_text(m))).sum()
}

fn is_result(message: &Value) -> bool {
    let is_block = |b: &Value| str_at(b, "type") == Some("tool_result");
    match message.get("content") {
        Some(Value::Array(blocks)) if blocks.iter().any(is_block) => true,
        // Results of calls in text are sent as feedback of the runtime.
        Some(Value::String(text)) if text.starts_with(RESULTS) => true,
        _ => matches!(str_at(message, "role"), Some("tool" | "tool_result")),
    }
}

/// Returns the range of messages to archive if the first `keep_first` and the last `keep_last` are retained; `None`
/// when it is empty.
///
/// The retained messages at the end start with a user message if possible, and never within a turn with tools. Those at
/// the beginning end after the results of their calls.
pub fn archivable(messages: &[Value], keep_first: usize, keep_last: usize) -> Option<Range<usize>> {
    let is_user = |m: &Value| str_at(m, "role") == Some("user");
    giving_way(messages, keep_first, keep_last, is_user, is_result)
}

/// Like [`archivable`], without converting the messages to dicts.
pub fn archivable_of(
    conversation: &Conversation,
    keep_first: usize,
    keep_last: usize,
) -> Option<Range<usize>> {
    let is_user = |m: &Rc<Message>| m.is_from_user();
    let is_result = |m: &Rc<Message>| m.given().map_or_else(|| m.holds_results(), is_result);
    conversation.with(|messages| giving_way(messages, keep_first, keep_last, is_user, is_result))
}

fn giving_way<M>(
    messages: &[M],
    keep_first: usize,
    keep_last: usize,
    is_user: impl Fn(&M) -> bool,
    is_result: impl Fn(&M) -> bool,
) -> Option<Range<usize>> {
    let open = |n: &usize| *n > 0 && messages.get(*n).is_some_and(&is_result);
    let keep_first = (keep_first..).find(|n| !open(n)).unwrap_or(keep_first);
    let wanted = messages.len().checked_sub(keep_last).filter(|end| *end > keep_first)?;
    let starts = |n: &usize| messages.get(*n).is_some_and(|m| is_user(m) && !is_result(m));
    let at_user = (keep_first + 1..=wanted.min(messages.len().saturating_sub(1))).rev().find(starts);
    let mut end = at_user.unwrap_or(wanted);
    // Results must not be separated from the turn that made the calls.
    while end > keep_first && messages.get(end).is_some_and(&is_result) {
        end -= 1;
    }
    (end > keep_first).then_some(keep_first..end)
}

/// Returns whether a message is a long result, which masking shortens.
pub fn is_long_result(message: &Value) -> bool {
    let text = message_text(message);
    str_at(message, "role") != Some("assistant") && text.len() >= 500 && text.lines().count() > 3
}

/// Returns the number of messages to archive at the beginning; `None` when the transcript is not compacted.
///
/// # Errors
/// The value is not a transcript.
pub fn plan(transcript: &Value, options: &CompactOptions) -> Result<Option<usize>, String> {
    if !is_transcript(transcript) {
        return Err("transcript_compact: first argument must be a transcript".to_string());
    }
    let messages = list_at(transcript, "messages");
    let small = options.target_tokens.is_some_and(|target| tokens_of(messages) <= target);
    if small || messages.len() <= options.keep_last {
        return Ok(None);
    }
    Ok(archivable(messages, 0, options.keep_last).map(|range| range.end))
}

/// Returns messages as lines `ROLE: content`, including tool calls.
pub(crate) fn conversation_lines(messages: &[Value]) -> String {
    let line = |m: &Value| {
        let role = str_at(m, "role").unwrap_or("user").to_uppercase();
        let calls = list_at(m, "tool_calls").iter().filter_map(|call| {
            let function = call.get("function")?;
            let arguments = function.get("arguments").map(display).unwrap_or_default();
            let shown: String = arguments.chars().take(LINE_CHARS).collect();
            Some(format!(" {}({shown})", str_at(function, "name")?))
        });
        let said = format!("{}{}", public_text(m), calls.collect::<String>());
        format!("{}: {}", quote_name(&role), quote_speech(&said))
    };
    messages.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The maximum number of characters per line, and of lines, in a truncated summary.
const LINE_CHARS: usize = 500;
const LINES: usize = 15;

/// Renders the message that replaces the removed ones; `written` is a summary by a model. The content is
/// [quoted](harn_prompt::untrusted::quote_summary): a frame that is cut off or repeated in it has no effect, and no
/// line of a message can be mistaken for another message.
pub fn render(removed: &[Value], strategy: Strategy, written: Option<&str>) -> String {
    render_masked(removed, strategy, written, &|_| None)
}

/// Like [`render`]; `mask` may provide a replacement for the long result at an index.
pub fn render_masked(
    removed: &[Value],
    strategy: Strategy,
    written: Option<&str>,
    mask: &dyn Fn(usize) -> Option<String>,
) -> String {
    let count = removed.len();
    let role = |m: &Value| quote_name(str_at(m, "role").unwrap_or("user"));
    match strategy {
        Strategy::Llm => {
            let written = quote_summary(written.unwrap_or_default().trim());
            format!("[auto-compacted {count} older messages]\n{written}")
        }
        Strategy::Truncate => {
            let mut out = format!("[auto-compacted {count} older messages via truncate strategy]");
            for message in removed.iter().take(LINES) {
                let text: String = public_text(message).chars().take(LINE_CHARS).collect();
                out.push_str(&format!("\n[{}] {}", role(message), quote_summary(&text)));
            }
            out
        }
        Strategy::ObservationMask => {
            let mut out = format!("[auto-compacted {count} older messages via observation masking]");
            for (at, message) in removed.iter().enumerate() {
                let (role, text) = (role(message), public_text(message));
                let shown = match mask(at) {
                    Some(shown) => shown,
                    None if is_long_result(message) => {
                        let (first, lines) = (text.lines().next().unwrap_or_default(), text.lines().count());
                        format!("{first}... [{lines} lines, {} chars masked]", text.chars().count())
                    }
                    None => text,
                };
                out.push_str(&format!("\n[{role}] {}", quote_summary(&shown)));
            }
            out
        }
    }
}

/// A compacted transcript and the metadata of its event.
#[derive(Debug, Clone, PartialEq)]
pub struct Compacted {
    /// The new transcript.
    pub transcript: Value,
    /// Metadata of the `compaction` event, if messages were archived.
    pub metadata: Option<Value>,
}

/// Replaces the first `archived` messages with `text`.
pub fn apply(
    transcript: &Value,
    options: &CompactOptions,
    archived: Option<usize>,
    text: &str,
    ids: &Ids<'_>,
) -> Compacted {
    let Some(archived) = archived else {
        let mut out = transcript.clone();
        if let Some(summary) = &options.summary {
            store_summary(&mut out, summary);
        }
        return Compacted { transcript: out, metadata: None };
    };
    let messages = list_at(transcript, "messages");
    let mut kept = vec![json!({"role": "user", "content": text})];
    kept.extend_from_slice(&messages[archived.min(messages.len())..]);
    let after = tokens_of(&kept);
    let asset_id = ids();
    let mut out = with_messages(transcript, kept, ids);
    store_summary(&mut out, options.summary.as_deref().unwrap_or(text));
    let asset = json!({
        "id": asset_id, "kind": "compaction_source_transcript", "title": "Pre-compaction transcript",
        "data": transcript,
    });
    // Never fails, because the value is a transcript.
    out = add_asset(&out, &asset, ids).unwrap_or(out);
    let metadata = json!({
        "mode": "manual", "strategy": options.strategy.as_str(), "engine_strategy": options.strategy.as_str(),
        "keep_first": 0, "keep_last": options.keep_last, "target_tokens": options.target_tokens, "archived_messages": archived,
        "estimated_tokens_before": tokens_of(messages), "estimated_tokens_after": after,
        "snapshot_asset_id": asset_id,
    });
    let told = compaction_text(options.strategy.as_str());
    let made = event("compaction", "system", "internal", &told, Some(metadata.clone()), ids);
    if let Some(events) = out.get_mut("events").and_then(Value::as_array_mut) {
        events.push(made);
    }
    Compacted { transcript: out, metadata: Some(metadata) }
}

/// Returns the description of a `compaction` event.
pub fn compaction_text(strategy: &str) -> String {
    format!("Transcript compacted via {strategy}")
}

/// Stores a summary after an older, different one.
fn store_summary(transcript: &mut Value, summary: &str) {
    let old = str_at(transcript, "summary").filter(|old| !old.trim().is_empty() && *old != summary);
    let text = match old {
        Some(old) => format!("{old}\n\n{summary}"),
        None => summary.to_string(),
    };
    transcript["summary"] = text.into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::from_messages;

    fn ids() -> String {
        "i".to_string()
    }

    fn alternating(n: usize) -> Value {
        let message = |k: usize| json!({"role": if k.is_multiple_of(2) { "user" } else { "assistant" }, "content": format!("m{k}")});
        from_messages(&(0..n).map(message).collect(), &ids).unwrap()
    }

    fn options(o: Value) -> CompactOptions {
        CompactOptions::from_json(&o).unwrap()
    }

    #[test]
    fn the_kept_tail_starts_at_a_user_message() {
        let o = options(json!({"keep_last": 1, "strategy": "truncate", "summary": "S"}));
        let t = alternating(4);
        assert_eq!(plan(&t, &o), Ok(Some(2)));
        let text = render(&list_at(&t, "messages")[..2], o.strategy, None);
        assert_eq!(
            text,
            "[auto-compacted 2 older messages via truncate strategy]\n[user] m0\n[assistant] m1"
        );
        let done = apply(&t, &o, Some(2), &text, &ids);
        assert_eq!(done.transcript["messages"].as_array().unwrap().len(), 3);
        assert_eq!(done.transcript["summary"], "S");
        assert_eq!(done.transcript["assets"][0]["data"], t);
        assert_eq!(done.metadata.unwrap()["archived_messages"], 2);
    }

    #[test]
    fn tool_turns_are_not_split() {
        let t = from_messages(
            &json!([{"role": "user", "content": "u"}, {"role": "assistant", "tool_calls": [{}]},
                    {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}]),
            &ids,
        )
        .unwrap();
        assert_eq!(plan(&t, &options(json!({"keep_last": 1}))), Ok(Some(1)));
    }

    #[test]
    fn small_transcripts_stay_but_take_a_summary() {
        let t = alternating(4);
        for o in [
            json!({"keep_last": 4, "summary": "S"}),
            json!({"keep_last": 0, "target_tokens": 100, "summary": "S"}),
        ] {
            let o = options(o);
            assert_eq!(plan(&t, &o), Ok(None));
            let done = apply(&t, &o, None, "", &ids);
            assert_eq!((done.transcript["summary"].as_str(), done.metadata), (Some("S"), None));
        }
    }

    #[test]
    fn long_observations_are_masked() {
        let long = format!("head\n{}", "x\n".repeat(300));
        let text = render(&[json!({"role": "tool", "content": long})], Strategy::ObservationMask, None);
        assert!(text.ends_with("[tool] head... [301 lines, 605 chars masked]"), "{text}");
    }

    #[test]
    fn wrong_options_are_named() {
        let error = |o: Value| CompactOptions::from_json(&o).unwrap_err();
        assert_eq!(
            error(json!({"strategy": "custom"})),
            "transcript_compact: strategy 'custom' is not supported; use 'llm', 'truncate', or 'observation_mask'"
        );
        assert_eq!(error(json!({"keep_last": -1})), "transcript_compact: keep_last must be >= 0");
        assert_eq!(error(json!({"target_tokens": -1})), "transcript_compact: target_tokens must be >= 0");
        assert_eq!(
            error(json!({"summarize_prompt": "x"})),
            "transcript_compact: summarize_prompt is only supported with strategy 'llm'"
        );
    }
}
