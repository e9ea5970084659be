//! Converts the options of a call to the ordered list of fragments.
//!
//! | # | From | Module |
//! |---|---|---|
//! | 1–6 | `system_preamble` … `system_suffix` | [`host`] |
//! | 6a | a transcript's summary | [`CallParts`] |
//! | 7a / 7b, 8 | `_system_fragments`, or `system` and the context profile | [`primary`] |
//! | 8a | the tool contract in text of a single call | [`CallParts`] |
//! | 9 | guidance of `tools` | [`tools`] |
//! | 10–12 | reminders, output instruction, displaced messages | [`CallParts`] |

pub mod host;
pub mod primary;
pub mod tools;

use std::collections::BTreeSet;

use harn_value::{Data as Value, data::Map};

pub use primary::context_profile;
pub use tools::{active_caps, active_tools, tool_guidance};

use crate::fragment::{Bucket, Fragment};
use crate::reduce::{Assembly, reduce};
use crate::value::{present, text};

/// An option that cannot be converted to a fragment. Programs catch the display form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// A host option has a type that is not a prompt part.
    #[error("{option}: expected a string, dict, list, nil, or false; got {got}")]
    HostType {
        /// The option's name with indices.
        option: String,
        /// The type found.
        got: String,
    },
    /// A dict has no content.
    #[error("{option}: system prompt part must include `content`, `text`, `prompt`, or `parts`")]
    NoText {
        /// The option's name with indices.
        option: String,
    },
    /// A position is not a known name.
    #[error("{option}.position: expected \"before\" or \"after\", got \"{got}\"")]
    Position {
        /// The option's name with indices.
        option: String,
        /// The given position.
        got: String,
    },
    /// A position is not a string.
    #[error("{option}.position: expected a string, got {got}")]
    PositionType {
        /// The option's name with indices.
        option: String,
        /// The type found.
        got: String,
    },
    /// An entry of `_system_fragments` has an invalid bucket.
    #[error("_system_fragments[{index}].bucket must be \"before\" or \"after\"; got \"{got}\"")]
    Bucket {
        /// The entry's index.
        index: usize,
        /// The value found.
        got: String,
    },
    /// A condition of a fragment is not a list of names. It is an error, because a conditional fragment must not be
    /// included by mistake.
    #[error("{field} must be a list of names; got {got}")]
    Gate {
        /// The condition's key, after the option and the index.
        field: String,
        /// The value found.
        got: String,
    },
    /// A part or fragment has an unknown field, which may be a misspelled condition.
    #[error("{place} has no field `{key}`; {}", meant(key, known))]
    Field {
        /// The option, followed by the index.
        place: String,
        /// The field.
        key: String,
        /// The known fields.
        known: &'static [&'static str],
    },
    /// The options are not a dict.
    #[error("{function}: options must be a dict, got {got}")]
    NotADict {
        /// The function that was called.
        function: &'static str,
        /// The type found.
        got: String,
    },
    /// `without` contains a tool that is not in the options.
    #[error("prompt_explain: without names `{name}`, {}", none_of(known))]
    WithoutUnknown {
        /// The name.
        name: String,
        /// The tools of the options.
        known: Vec<String>,
    },
    /// `without` is not a list of tool names.
    #[error("prompt_explain: without must be a list of tool names, got {got}")]
    Without {
        /// The type found.
        got: String,
    },
}

/// Returns a suggestion for a field, or the known fields.
fn meant(key: &str, known: &[&str]) -> String {
    let near = known.iter().map(|name| (strsim::damerau_levenshtein(key, name), name)).min();
    match near.filter(|(distance, _)| *distance <= 2) {
        Some((_, name)) => format!("did you mean `{name}`?"),
        None => format!("it has {}", known.join(", ")),
    }
}

/// Rejects fields that are not in `known`.
fn only_known(
    place: &str,
    dict: &Map<String, Value>,
    known: &'static [&'static str],
) -> Result<(), OptionError> {
    match dict.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(OptionError::Field { place: place.to_owned(), key: key.clone(), known }),
    }
}

fn none_of(known: &[String]) -> String {
    match known {
        [] => "but the options have no tools".to_owned(),
        known => format!("which is none of the tools: {}", known.join(", ")),
    }
}

/// Parts that only a live call adds to the list (rows 6a, 8a, 10, 11, 12). Empty for a static prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallParts {
    /// The summary of the transcript that the call continues; see [`transcript_summary`].
    pub transcript_summary: Option<String>,
    /// The rendered tool contract of a single call with tools in text format. In a loop, it is part of the primary
    /// block.
    pub text_tool_contract: Option<String>,
    /// Reminders that become part of the system prompt, oldest first; see [`crate::reminder::place`].
    pub reminders: Vec<Fragment>,
    /// The rendered instruction of a completion on a chat route.
    pub completion_instruction: Option<String>,
    /// The rendered instruction of a structured call on a route without its own channel for structured output.
    pub output_instruction: Option<String>,
    /// System and developer messages for which the wire format has no role: index in the message list, content.
    pub messages: Vec<(usize, String)>,
}

/// Converts options to the ordered list of fragments.
///
/// `system` is the argument of the call; a value with content takes precedence over the option `system`.
///
/// # Errors
/// A host option or `_system_fragments` has a wrong shape.
pub fn declare(
    options: &Map<String, Value>,
    system: Option<&Value>,
    live: &CallParts,
) -> Result<Vec<Fragment>, OptionError> {
    let mut list = Vec::new();
    host::declare(options, &mut list)?;
    if let Some(summary) = &live.transcript_summary {
        let body = format!("Conversation summary:\n{summary}");
        list.push(Fragment::new("transcript:summary", "transcript", body));
    }
    if !primary::decomposed(options, &mut list)? {
        list.extend(primary::system(options, system));
        list.extend(primary::profile_fragments(options, primary::ProfileIds::Indexed)?);
    }
    if let Some(contract) = &live.text_tool_contract {
        list.push(Fragment::new("primary:text_tool_contract", "primary", contract));
    }
    list.extend(tool_guidance(tools::given(options)));
    list.extend(live.reminders.iter().cloned());
    if let Some(instruction) = &live.completion_instruction {
        let fragment = Fragment::new("call:completion_instruction", "call", instruction);
        list.push(fragment.in_bucket(Bucket::After));
    }
    if let Some(instruction) = &live.output_instruction {
        let fragment = Fragment::new("call:output_instruction", "call", instruction);
        list.push(fragment.in_bucket(Bucket::After));
    }
    for (index, text) in &live.messages {
        let fragment = Fragment::new(format!("message:{index}"), "message", text);
        list.push(fragment.in_bucket(Bucket::After));
    }
    Ok(list)
}

/// Declares the fragments and reduces them.
///
/// `active` is the set of active tools, if the caller determines it (a loop does, after policy, skills and deferral).
/// `None` determines it from the options.
///
/// # Errors
/// Those of [`declare`].
pub fn assemble(
    options: &Map<String, Value>,
    system: Option<&Value>,
    live: &CallParts,
    active: Option<&BTreeSet<String>>,
) -> Result<Assembly, OptionError> {
    let fragments = declare(options, system, live)?;
    let caps = active_caps(options);
    Ok(match active {
        Some(tools) => reduce(&fragments, tools, &caps),
        None => reduce(&fragments, &active_tools(options), &caps),
    })
}

/// Returns the summary for row 6a: that of `options.transcript`, unless a message of the request already contains it.
#[must_use]
pub fn transcript_summary(options: &Map<String, Value>) -> Option<String> {
    let transcript = options.get("transcript")?.as_object()?;
    let summary = text(transcript, "summary")?;
    let lists = [transcript.get("messages"), options.get("messages")];
    let messages = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
    let told =
        messages.filter_map(|m| m.as_object()?.get("content")).any(|content| contains_text(content, summary));
    (!told).then(|| summary.to_owned())
}

fn contains_text(content: &Value, needle: &str) -> bool {
    match content {
        Value::String(s) => s.contains(needle),
        Value::Array(blocks) => blocks.iter().any(|block| contains_text(block, needle)),
        Value::Object(block) => present(block, "text").is_some_and(|t| contains_text(t, needle)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn options(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn all_parts_stand_in_their_order() {
        let options = options(&json!({
            "system_suffix": "S", "system_appendix": "A", "system_prompt_parts": ["parts"],
            "system_context": "C", "system_prefix": "X", "system_preamble": "P", "system": "base",
        }));
        let live = CallParts {
            reminders: vec![Fragment::new("reminder:r", "reminder", "R")],
            ..CallParts::default()
        };
        let assembly = assemble(&options, None, &live, None).unwrap();
        assert_eq!(assembly.as_str(), "P\n\nX\n\nC\n\nparts\n\nbase\n\nR\n\nA\n\nS");
    }

    #[test]
    fn live_rows_have_their_ids_sources_and_places() {
        let options = options(&json!({
            "system": "base", "system_appendix": "A",
            "context_profile": {"prompt_fragments": [{"id": "profile:x", "source": "profile:x", "body": "prof"}]},
            "tools": [{"name": "t", "guidance": "guide"}],
        }));
        let live = CallParts {
            transcript_summary: Some("earlier".into()),
            text_tool_contract: Some("contract".into()),
            reminders: vec![Fragment::new("reminder:r", "reminder", "R")],
            output_instruction: Some("json".into()),
            completion_instruction: Some("continue".into()),
            messages: vec![(3, "msg".into())],
        };
        let assembly = assemble(&options, None, &live, None).unwrap();
        assert_eq!(
            assembly.as_str(),
            "Conversation summary:\nearlier\n\nbase\n\nprof\n\ncontract\n\nguide\n\nR\n\nA\n\ncontinue\n\njson\n\nmsg"
        );
        let trace: Vec<_> = assembly
            .provenance
            .iter()
            .map(|p| (p.id.as_str(), p.source.as_str(), p.bucket.as_str()))
            .collect();
        assert_eq!(
            trace,
            [
                ("host:system_appendix", "host:system_appendix", "after"),
                ("transcript:summary", "transcript", "before"),
                ("primary", "primary", "before"),
                ("profile:x", "profile:x", "before"),
                ("primary:text_tool_contract", "primary", "before"),
                ("tool:t.guidance", "tool:t", "before"),
                ("reminder:r", "reminder", "before"),
                ("call:completion_instruction", "call", "after"),
                ("call:output_instruction", "call", "after"),
                ("message:3", "message", "after"),
            ]
        );
    }

    #[test]
    fn after_entries_of_the_primary_block_come_behind_appendix_and_suffix() {
        let options = options(&json!({
            "system_appendix": "A", "system_suffix": "S",
            "_system_fragments": [{"body": "tail", "bucket": "after"}, {"body": "head"}],
        }));
        let assembly = assemble(&options, None, &CallParts::default(), None).unwrap();
        assert_eq!(assembly.as_str(), "head\n\nA\n\nS\n\ntail");
    }

    #[test]
    fn a_summary_is_told_once() {
        let told = |messages: Value| {
            transcript_summary(&options(&json!({"transcript": {"summary": "we met", "messages": messages}})))
        };
        assert_eq!(told(json!([])).as_deref(), Some("we met"));
        assert_eq!(told(json!([{"role": "user", "content": "so: we met."}])), None);
        assert_eq!(told(json!([{"content": [{"type": "text", "text": "we met"}]}])), None);
        assert_eq!(transcript_summary(&options(&json!({"transcript": {"summary": " "}}))), None);
        assert_eq!(transcript_summary(&options(&json!({"transcript": "x"}))), None);
        assert_eq!(transcript_summary(&Map::new()), None);
    }

    #[test]
    fn a_scoped_tool_set_gates_guidance() {
        let options = options(&json!({"tools": [{"name": "t", "guidance": "g"}]}));
        let none = BTreeSet::new();
        let assembly = assemble(&options, None, &CallParts::default(), Some(&none)).unwrap();
        assert_eq!(assembly.text, None);
        assert_eq!(assembly.provenance[0].reason.to_string(), "requires tool `t` (not available)");
    }
}
