//! Compaction: writes the summary that replaces older messages, for loops, sessions and message lists.

use std::rc::Rc;

use harn_agent::AgentEvent;
use harn_agent::compaction::Engine;
use harn_agent::run::Archive;
use harn_llm::transcript::{archivable, is_long_result, render, render_masked, tokens_of};
use harn_prompt::reminder::Reminder;
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Value};
use harn_vm::closure::{is_callable, parameter_count};
use harn_vm::{Cx, Error, Result};

use crate::builtins::{failed, file};
use crate::convert::{entry, from_json, text, thrown, to_json};
use crate::llm_embedder::runtime;
use crate::reminders::Reminders;
use crate::session::Session;

/// The inputs of a summary, except for the messages.
pub(crate) struct Writer<'a> {
    /// The function that was called, for errors.
    pub(crate) function: &'a str,
    /// The option dict with its closures.
    pub(crate) options: &'a Value,
    /// The option with the closure that receives the archived messages.
    pub(crate) custom: &'a str,
    /// Template of the prompt for a model's summary.
    pub(crate) summarize_prompt: Option<&'a str>,
    /// The reminders that outlive the messages.
    pub(crate) reminders: &'a [Reminder],
}

impl Writer<'_> {
    /// Writes the summary that replaces messages. Uses `ask` to call a model; returns `None` if the model returns
    /// nothing.
    ///
    /// # Errors
    /// A callback throws or returns an invalid value, the template does not render, or `ask` fails.
    pub(crate) async fn write<'w, F>(
        &'w self,
        cx: &'w Cx,
        archive: &'w Archive,
        ask: impl FnOnce(String) -> F + 'w,
    ) -> Result<Option<String>>
    where
        F: Future<Output = Result<Option<String>>>,
    {
        let messages = &archive.messages;
        let layout = archive.engine.layout();
        match archive.engine {
            Engine::Truncate => Ok(Some(render(messages, layout, None))),
            Engine::ObservationMask => {
                let masks = self.masks(cx, messages).await?;
                Ok(Some(render_masked(messages, layout, None, &|at| masks.get(at).cloned().flatten())))
            }
            Engine::Custom => {
                let callback = entry(self.options, self.custom);
                let mut given = vec![from_json(&Json::Array(messages.clone()))];
                if parameter_count(&callback).is_some_and(|count| count > 1) {
                    let reminders = self.reminders.iter().map(Reminder::to_json).collect();
                    given.push(from_json(&Json::Array(reminders)));
                }
                let answer = cx.call(&callback, given).await?;
                let written = match answer.to_dict() {
                    Some(_) => entry(&answer, "summary"),
                    None => answer.clone(),
                };
                let written = written.as_str().map(ToString::to_string);
                let written = written.ok_or_else(|| {
                    let (function, custom) = (self.function, self.custom);
                    thrown(format!(
                        "{function}: {custom} must return a string or {{summary}}, got {}",
                        answer.type_name()
                    ))
                })?;
                Ok(Some(render(messages, layout, Some(&written))))
            }
            Engine::Llm => {
                let prompt_of = |path: &str, bindings: &Json| -> std::result::Result<String, String> {
                    let text = file(cx, self.function, &path.into(), &from_json(bindings));
                    text.map_err(|e| e.caught().to_string())
                };
                let prompt = runtime(cx).summary_prompt(messages, self.summarize_prompt, &prompt_of);
                let written = ask(prompt.map_err(|e| failed(&e))?).await?;
                let written = written.filter(|text| !text.trim().is_empty());
                Ok(written.map(|text| render(messages, layout, Some(&text))))
            }
        }
    }

    /// Returns the replacements that `mask_callback` returns for long results, by position.
    async fn masks(&self, cx: &Cx, messages: &[Json]) -> Result<Vec<Option<String>>> {
        let callback = entry(self.options, "mask_callback");
        if !is_callable(&callback) {
            return Ok(Vec::new());
        }
        let mut masks = Vec::with_capacity(messages.len());
        for message in messages {
            masks.push(match is_long_result(message) {
                true => match cx.call(&callback, [from_json(message)]).await? {
                    nil if nil.is_nil() => None,
                    mask => Some(mask.as_str().map(ToString::to_string).ok_or_else(|| {
                        let (function, got) = (self.function, mask.type_name());
                        thrown(format!("{function}: mask_callback must return a string or nil, got {got}"))
                    })?),
                },
                false => None,
            });
        }
        Ok(masks)
    }
}

/// The options of `transcript_auto_compact` and `agent_session_compact`.
struct Settings {
    engine: Engine,
    keep_last: usize,
    threshold: i64,
    hard_limit: Option<i64>,
    hard_engine: Engine,
    custom: &'static str,
    summarize_prompt: Option<String>,
}

impl Settings {
    fn read(function: &str, options: &Value, custom: &'static str) -> Result<Settings> {
        let wrong = |what: String| -> Error { thrown(format!("{function}: {what}")) };
        let int = |key: &str, least: i64| -> Result<Option<i64>> {
            let value = entry(options, key);
            match value.as_int() {
                Some(n) if n >= least => Ok(Some(n)),
                _ if value.is_nil() => Ok(None),
                _ => Err(wrong(format!("{key} must be an int of at least {least}"))),
            }
        };
        let engine = |key: &str| -> Result<Option<Engine>> {
            let Some(word) = text(&entry(options, key)) else { return Ok(None) };
            Engine::of(&word).map(Some).ok_or_else(|| {
                wrong(format!(
                    "{key} '{word}' is not supported; use 'llm', 'truncate', 'observation_mask', or 'custom'"
                ))
            })
        };
        for key in [custom, "mask_callback", "compress_callback"] {
            let value = entry(options, key);
            if !value.is_nil() && !is_callable(&value) {
                return Err(wrong(format!("`{key}` must be a closure")));
            }
        }
        let has_writer = is_callable(&entry(options, custom));
        let default = if has_writer { Engine::Custom } else { Engine::ObservationMask };
        let chosen = engine("compact_strategy")?.unwrap_or(default);
        if chosen == Engine::Custom && !has_writer {
            return Err(wrong(format!("strategy 'custom' needs `{custom}`")));
        }
        Ok(Settings {
            engine: chosen,
            keep_last: usize::try_from(int("keep_last", 0)?.unwrap_or(12)).unwrap_or(usize::MAX),
            threshold: int("token_threshold", 0)?.unwrap_or(0),
            hard_limit: int("hard_limit_tokens", 1)?,
            hard_engine: engine("hard_limit_strategy")?.unwrap_or(Engine::Truncate),
            custom,
            summarize_prompt: text(&entry(options, "summarize_prompt")),
        })
    }

    /// Compacts messages unconditionally.
    async fn run(
        &self,
        cx: &Cx,
        function: &str,
        options: &Value,
        messages: Vec<Json>,
        reminders: &[Reminder],
    ) -> Result<Compacted> {
        let before = tokens_of(&messages);
        let mut out = Compacted { messages, archived: 0, text: None, before };
        if before < self.threshold {
            return Ok(out);
        }
        for (pass, engine) in [self.engine, self.hard_engine].into_iter().enumerate() {
            let too_large = self.hard_limit.is_some_and(|limit| tokens_of(&out.messages) > limit);
            if pass > 0 && (!too_large || out.text.is_none()) {
                break;
            }
            let Some(range) = archivable(&out.messages, 0, self.keep_last) else { break };
            let archive = Archive { messages: out.messages[range.clone()].to_vec(), engine };
            let summarize_prompt = self.summarize_prompt.as_deref();
            let writer = Writer { function, options, custom: self.custom, summarize_prompt, reminders };
            let llm = llm_options(&Json::Object(crate::convert::options(options)));
            let ask = |prompt| async move {
                runtime(cx).ask_plainly(prompt, &llm).await.map(Some).map_err(|e| failed(&e))
            };
            let text = writer.write(cx, &archive, ask).await?;
            let text = text.unwrap_or_else(|| render(&archive.messages, Engine::Truncate.layout(), None));
            if pass == 0 {
                out.archived = range.len();
            }
            out.messages.splice(range, [json!({"role": "user", "content": text})]);
            out.text = Some(text);
        }
        Ok(out)
    }
}

struct Compacted {
    messages: Vec<Json>,
    archived: usize,
    text: Option<String>,
    before: i64,
}

/// Returns the options that apply to a call for a summary: route, limits and sampling, but not the format of the reply.
pub(crate) fn llm_options(options: &Json) -> Json {
    const OTHER: [&str; 18] = [
        "_system_fragments",
        "messages",
        "output_schema",
        "output_validation",
        "prompt",
        "reminders",
        "response_format",
        "schema",
        "schema_retries",
        "session_id",
        "stop",
        "stream",
        "system",
        "tool_choice",
        "tool_format",
        "tool_search",
        "tools",
        "transcript",
    ];
    let map: Map<String, Json> = options
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !OTHER.contains(&key.as_str()))
        .filter(|(key, _)| !crate::option_sets::loop_options().iter().any(|own| own.name == *key))
        .filter(|(key, _)| !["keep_last", "token_threshold", "custom_compactor"].contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Json::Object(map)
}

/// Implements `transcript_auto_compact`.
///
/// # Errors
/// Invalid arguments, or an error of the writer.
pub(crate) async fn list(cx: &Cx, messages: &Value, options: &Value) -> Result<Value> {
    let function = "transcript_auto_compact";
    let Json::Array(messages) = to_json(messages) else {
        return Err(thrown(format!("{function}: first argument must be a message list")));
    };
    crate::option_check::refuse_unknown(cx, function, options)?;
    let settings = Settings::read(function, options, "compact_callback")?;
    let messages = shortened(cx, function, options, messages).await?;
    let done = settings.run(cx, function, options, messages, &[]).await?;
    Ok(from_json(&done.messages.into()))
}

/// Implements `agent_session_compact`: compacts the messages of a session, and returns the number of remaining
/// messages.
///
/// # Errors
/// Invalid options, or an error of the writer.
pub(crate) async fn session(cx: &Cx, session: &Rc<Session>, options: &Value) -> Result<usize> {
    let function = "agent_session_compact";
    let Some(dict) =
        options.to_dict().or_else(|| options.is_nil().then(|| harn_value::Ref::new(Dict::new())))
    else {
        return Err(thrown(format!("{function}: `opts` must be a dict or nil")));
    };
    if let Some(problem) = crate::option_check::unknown_of_compaction(dict.keys().map(|key| key.as_str())) {
        return Err(thrown(problem));
    }
    let settings = Settings::read(function, options, "custom_compactor")?;
    let before = session.history.borrow().messages.clone();
    let messages = shortened(cx, function, options, before.to_json()).await?;
    let reminders = cx.state::<Reminders>();
    let survivors = reminders.survivors(&session.id);
    let done = settings.run(cx, function, options, messages, &survivors).await?;
    let mut told = None;
    let kept = {
        let mut history = session.history.borrow_mut();
        if !before.is_prefix_of(&history.messages) || history.messages.len() != before.len() {
            return Err(thrown(format!("{function}: the session has changed while its summary was written")));
        }
        history.messages = before.with_same(&done.messages).map_err(|e| thrown(e.0))?;
        if let Some(text) = done.text {
            let metadata = json!({
                "mode": "manual", "strategy": settings.engine.as_str(), "engine_strategy": settings.engine.as_str(),
                "archived_messages": done.archived, "estimated_tokens_before": done.before,
                "estimated_tokens_after": tokens_of(&done.messages), "keep_first": 0, "keep_last": settings.keep_last,
            });
            let ids = || crate::llm_embedder::new_id(cx.vm());
            let said = harn_llm::transcript::compaction_text(settings.engine.as_str());
            told = Some(AgentEvent::TranscriptCompacted(metadata.clone()));
            let event =
                harn_llm::transcript::event("compaction", "system", "internal", &said, Some(metadata), &ids);
            history.events.push(Rc::new(event));
            history.summary = Some(match history.summary.take() {
                Some(old) => format!("{old}\n\n{text}"),
                None => text,
            });
        }
        history.messages.len()
    };
    if let Some(event) = told {
        reminders.compact(cx.vm(), &session.id);
        session.tell(cx, &event).await;
    }
    Ok(kept)
}

/// Shortens individual tool results above `tool_output_max_chars`, if that is set.
async fn shortened(cx: &Cx, function: &str, options: &Value, mut messages: Vec<Json>) -> Result<Vec<Json>> {
    let wrong = || thrown(format!("{function}: tool_output_max_chars must be an int of at least 1"));
    let limit = entry(options, "tool_output_max_chars");
    let Some(limit) = limit.as_int() else {
        if limit.is_nil() {
            return Ok(messages);
        }
        return Err(wrong());
    };
    let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
    let limit = limit.ok_or_else(wrong)?;
    for message in &mut messages {
        let is_result = matches!(message["role"].as_str(), Some("tool" | "tool_result"));
        let Some(content) = message["content"].as_str().filter(|_| is_result).map(str::to_owned) else {
            continue;
        };
        let name = message["tool_name"].as_str().unwrap_or_default().to_owned();
        message["content"] = compress(cx, options, &name, content, limit).await?.into();
    }
    Ok(messages)
}

/// Shortens the output of a tool that is longer than `limit` characters, with `compress_callback` or else with
/// `microcompact`.
///
/// # Errors
/// The callback throws or returns something other than a string.
pub(crate) async fn compress(
    cx: &Cx,
    options: &Value,
    tool: &str,
    output: String,
    limit: usize,
) -> Result<String> {
    if output.chars().nth(limit).is_none() {
        return Ok(output);
    }
    let callback = entry(options, "compress_callback");
    if !is_callable(&callback) {
        return Ok(harn_agent::microcompact::microcompact(&output, limit));
    }
    let told = json!({"tool_name": tool, "output": output, "max_chars": limit});
    let answer = cx.call(&callback, [from_json(&told)]).await?;
    match answer.as_str() {
        Some(text) => Ok(text.to_string()),
        None => Err(thrown(format!("compress_callback must return a string, got {}", answer.type_name()))),
    }
}
