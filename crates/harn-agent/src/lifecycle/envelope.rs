//! What a sub-agent gives to whoever asked: one dict, whatever happened.

use harn_llm::structured::extract;
use harn_value::{Data as Json, json};

/// What the caller wants besides the text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expected {
    /// JSON was asked for.
    pub json: bool,
    /// What it must look like: `returns.schema`.
    pub schema: Option<Json>,
}

/// Why a sub-agent has not done what it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The word for it.
    pub category: String,
    /// The text for people.
    pub message: String,
    /// The tool that was denied.
    pub tool: Option<String>,
}

impl Failure {
    /// A failure without a tool.
    pub fn new(category: &str, message: impl Into<String>) -> Failure {
        Failure { category: category.to_owned(), message: message.into(), tool: None }
    }

    fn to_json(&self) -> Json {
        let mut out = json!({"category": self.category, "message": self.message});
        if let Some(tool) = &self.tool {
            out["tool"] = tool.as_str().into();
        }
        out
    }
}

/// The envelope of `sub_agent_run`.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    summary: String,
    artifacts: Json,
    tokens_used: i64,
    budget_exceeded: bool,
    data: Json,
    error: Option<Failure>,
    session_id: String,
    transcript: Json,
}

impl Envelope {
    /// The envelope of a loop that could not go on.
    pub fn failed(failure: Failure, session_id: &str, transcript: Json) -> Envelope {
        let tokens_used = tokens(&transcript);
        Envelope {
            summary: String::new(),
            artifacts: json!([]),
            tokens_used,
            budget_exceeded: failure.category == "budget_exceeded",
            data: Json::Null,
            error: Some(failure),
            session_id: session_id.to_owned(),
            transcript,
        }
    }

    /// The envelope of a loop that has ended. `last` is what people should see of its last turn; `out_of_turns` tells
    /// that `max_iterations` ended it; `validate` gives what is wrong with data against a schema.
    pub fn of(
        outcome: &Json,
        last: &str,
        out_of_turns: bool,
        session_id: &str,
        expected: &Expected,
        validate: impl Fn(&Json, &Json) -> Vec<String>,
    ) -> Envelope {
        let transcript = outcome["transcript"].clone();
        let status = outcome["status"].as_str().unwrap_or_default();
        let natural = outcome["trace"]["status"].as_str().unwrap_or_default();
        let wants = expected.json || expected.schema.is_some();
        let found = if wants { find_json(last, &transcript) } else { None };
        let summary = match &found {
            Some((text, _)) => text.clone(),
            None => last.trim().to_owned(),
        };
        let (data, wrong) = match (&found, wants) {
            (_, false) => (Json::Null, None),
            (None, true) => {
                let text = "sub_agent_run: child transcript did not contain valid JSON";
                (Json::Null, Some(Failure::new("schema_validation", text)))
            }
            (Some((_, value)), true) => {
                let problems =
                    expected.schema.as_ref().map(|schema| validate(schema, value)).unwrap_or_default();
                if problems.is_empty() {
                    (value.clone(), None)
                } else {
                    let text =
                        format!("sub_agent_run: return schema validation failed: {}", problems.join("; "));
                    (Json::Null, Some(Failure::new("schema_validation", text)))
                }
            }
        };
        let spent = natural == "budget_exhausted" && !out_of_turns;
        let ended = || match status {
            "budget_exhausted" if spent => {
                Some(Failure::new("budget_exceeded", "sub_agent_run: the budget was used up")) // prose-ok: diagnostic
            }
            "done" | "idle" => None,
            other => Some(Failure::new("runtime", format!("sub_agent_run: the loop ended {other}"))),
        };
        // A valid answer counts, whatever tools the child tried before.
        let answered = wants && wrong.is_none() && ended().is_none();
        let denied = if answered { None } else { denied(&transcript) };
        let error = denied.or_else(|| if spent { ended() } else { None }).or(wrong).or_else(ended);
        Envelope {
            summary,
            artifacts: json!([]),
            tokens_used: tokens(&transcript),
            budget_exceeded: spent,
            data: if error.is_none() { data } else { Json::Null },
            error,
            session_id: session_id.to_owned(),
            transcript,
        }
    }

    /// Whether everything went well.
    pub fn is_ok(&self) -> bool {
        self.error.is_none()
    }

    /// The conversation.
    pub fn transcript(&self) -> &Json {
        &self.transcript
    }

    /// What the parent's transcript says of it, under `name`.
    pub fn event(&self, name: &str) -> Json {
        json!({
            "name": name, "child_session_id": self.session_id, "ok": self.is_ok(), "summary": self.summary,
            "evidence_added": 0, "budget_exceeded": self.budget_exceeded,
            "error": self.error.as_ref().map(Failure::to_json),
        })
    }

    /// What scripts see.
    pub fn to_json(&self) -> Json {
        let count = self.artifacts.as_array().map_or(0, Vec::len);
        json!({
            "ok": self.is_ok(), "summary": self.summary, "artifacts": self.artifacts, "evidence_added": count,
            "tokens_used": self.tokens_used, "budget_exceeded": self.budget_exceeded, "data": self.data,
            "error": self.error.as_ref().map(Failure::to_json), "session_id": self.session_id,
            "transcript": self.transcript,
        })
    }
}

/// The first denial of a call.
fn denied(transcript: &Json) -> Option<Failure> {
    let events = transcript["events"].as_array()?;
    let event = events.iter().find(|event| {
        event["kind"] == "tool_execution" && event["metadata"]["error_category"] == "permission_denied"
    })?;
    let tool = event["metadata"]["tool_name"].as_str().map(str::to_owned);
    let text = event["text"].as_str().unwrap_or_default();
    let reason = serde_json::from_str::<Json>(text).ok();
    let reason = reason.as_ref().and_then(|denial| denial["reason"].as_str()).unwrap_or(text);
    Some(Failure { category: "permission_denied".to_owned(), message: reason.to_owned(), tool })
}

/// Tokens of all calls of a transcript.
fn tokens(transcript: &Json) -> i64 {
    let of = |event: &Json| {
        let count = |key: &str| event["metadata"][key].as_i64().unwrap_or(0);
        count("input_tokens").saturating_add(count("output_tokens"))
    };
    let events = transcript["events"].as_array().into_iter().flatten();
    events.filter(|event| event["kind"] == "provider_payload").map(of).fold(0, i64::saturating_add)
}

/// JSON in the last text, else in the newest message of the model that has some.
fn find_json(last: &str, transcript: &Json) -> Option<(String, Json)> {
    let said = transcript["messages"].as_array().into_iter().flatten().rev();
    let said =
        said.filter(|message| message["role"] == "assistant").filter_map(
            |message| match &message["content"] {
                Json::String(text) => Some(text.clone()),
                Json::Array(blocks) => {
                    Some(blocks.iter().filter_map(|block| block["text"].as_str()).collect::<String>())
                }
                _ => None,
            },
        );
    let found = |text: String| {
        let found = extract::from_text(&text)?;
        let shown = if found.whole { text.trim().to_owned() } else { found.value.to_string() };
        (found.value.is_object() || found.value.is_array()).then_some((shown, found.value))
    };
    std::iter::once(last.to_owned()).chain(said).find_map(found)
}
