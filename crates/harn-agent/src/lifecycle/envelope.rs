//! The result of a sub-agent: a dict of the same form for success and failure.

use harn_value::{Data as Json, json};

/// Why a sub-agent failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The category of the error.
    pub category: String,
    /// The error message.
    pub message: String,
    /// The tool that was denied.
    pub tool: Option<String>,
}

impl Failure {
    /// Creates a failure that does not concern a tool.
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
    tools_used: Json,
    usage: Json,
}

impl Envelope {
    /// Builds the envelope of a loop that failed.
    pub fn failed(failure: Failure, session_id: &str, transcript: Json) -> Envelope {
        let (input, output, calls) = tokens(&transcript);
        Envelope {
            summary: String::new(),
            artifacts: json!([]),
            tokens_used: input.saturating_add(output),
            tools_used: json!(tools(&transcript)),
            usage: json!({"input_tokens": input, "output_tokens": output, "llm_calls": calls}),
            budget_exceeded: failure.category == "budget_exceeded",
            data: Json::Null,
            error: Some(failure),
            session_id: session_id.to_owned(),
            transcript,
        }
    }

    /// Builds the envelope of a loop that has ended. `last` is the visible text of its last turn; `out_of_turns` means
    /// that `max_iterations` ended it; `wants_data` means that data was requested.
    pub fn of(
        outcome: &Json,
        last: &str,
        out_of_turns: bool,
        session_id: &str,
        wants_data: bool,
    ) -> Envelope {
        let transcript = outcome["transcript"].clone();
        let status = outcome["status"].as_str().unwrap_or_default();
        let natural = outcome["trace"]["status"].as_str().unwrap_or_default();
        let data = outcome["data"].clone();
        let summary = match &data {
            Json::Object(_) | Json::Array(_) if wants_data => data.to_string(),
            _ => last.trim().to_owned(),
        };
        let has_ended = matches!(status, "done" | "idle");
        let wrong = match (&outcome["error"], has_ended && wants_data && data.is_null()) {
            (Json::Null, true) => {
                let text = "sub_agent_run: the last reply did not contain valid JSON";
                Some(Failure::new("schema_validation", text))
            }
            (Json::Null, false) => None,
            (error, _) => {
                let text = |key: &str| error[key].as_str().unwrap_or_default();
                Some(Failure::new(text("category"), format!("sub_agent_run: {}", text("message"))))
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
        // A valid answer is a success, whichever tools the child tried before.
        let answered = wants_data && wrong.is_none() && ended().is_none();
        let denied = if answered { None } else { denied(&transcript) };
        let error = denied.or_else(|| if spent { ended() } else { None }).or(wrong).or_else(ended);
        Envelope {
            summary,
            artifacts: json!([]),
            tokens_used: {
                let (input, output, _) = tokens(&transcript);
                input.saturating_add(output)
            },
            tools_used: outcome["tools_used"].clone(),
            usage: json!({
                "input_tokens": outcome["llm"]["input_tokens"], "output_tokens": outcome["llm"]["output_tokens"],
                "llm_calls": outcome["trace"]["llm_calls"],
            }),
            budget_exceeded: spent,
            data: if error.is_none() { data } else { Json::Null },
            error,
            session_id: session_id.to_owned(),
            transcript,
        }
    }

    /// Returns whether the sub-agent succeeded.
    pub fn is_ok(&self) -> bool {
        self.error.is_none()
    }

    /// Returns the error message without the function name.
    pub fn failure(&self) -> Option<&str> {
        let message = self.error.as_ref()?.message.as_str();
        Some(message.strip_prefix("sub_agent_run: ").unwrap_or(message))
    }

    /// Returns the answer: the data, or else the summary.
    pub fn answer(&self) -> Json {
        if self.data.is_null() { self.summary.as_str().into() } else { self.data.clone() }
    }

    /// The conversation.
    pub fn transcript(&self) -> &Json {
        &self.transcript
    }

    /// Returns the event for the parent's transcript, with the given `name`.
    pub fn event(&self, name: &str) -> Json {
        json!({
            "name": name, "child_session_id": self.session_id, "ok": self.is_ok(), "summary": self.summary,
            "evidence_added": 0, "budget_exceeded": self.budget_exceeded,
            "error": self.error.as_ref().map(Failure::to_json),
        })
    }

    /// Returns the dict for scripts.
    pub fn to_json(&self) -> Json {
        let count = self.artifacts.as_array().map_or(0, Vec::len);
        json!({
            "ok": self.is_ok(), "summary": self.summary, "artifacts": self.artifacts, "evidence_added": count,
            "tokens_used": self.tokens_used, "budget_exceeded": self.budget_exceeded, "data": self.data,
            "error": self.error.as_ref().map(Failure::to_json), "session_id": self.session_id,
            "tools_used": self.tools_used, "usage": self.usage, "transcript": self.transcript,
        })
    }
}

/// Returns the first denied call.
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

/// Returns input tokens, output tokens and the number of all calls of a transcript.
fn tokens(transcript: &Json) -> (i64, i64, i64) {
    let events = transcript["events"].as_array().into_iter().flatten();
    events.filter(|event| event["kind"] == "provider_payload").fold(
        (0, 0, 0),
        |(input, output, calls), event| {
            let count = |key: &str| event["metadata"][key].as_i64().unwrap_or(0);
            (
                i64::saturating_add(input, count("input_tokens")),
                i64::saturating_add(output, count("output_tokens")),
                calls + 1,
            )
        },
    )
}

/// Returns the names of the executed tools, in order.
fn tools(transcript: &Json) -> Vec<&str> {
    let events = transcript["events"].as_array().into_iter().flatten();
    let of_tools = events.filter(|event| event["kind"] == "tool_execution");
    of_tools.filter_map(|event| event["metadata"]["tool_name"].as_str()).collect()
}
