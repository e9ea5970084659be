//! The fields of the dicts that builtins return, for the checker: an unknown field reads as nil, which is probably a
//! mistake.

use harn_syntax::signature::{Record, RecordField};

const fn plain(name: &'static str) -> RecordField {
    RecordField { name, record: None }
}

const fn of(name: &'static str, record: &'static Record) -> RecordField {
    RecordField { name, record: Some(record) }
}

/// Token usage of a model call.
const USAGE: [RecordField; 9] = [
    plain("input_tokens"),
    plain("output_tokens"),
    plain("reasoning_tokens"),
    plain("estimated"),
    plain("cache_read_tokens"),
    plain("cache_write_tokens"),
    plain("cache_creation_input_tokens"),
    plain("cache_hit_ratio"),
    plain("cache_savings_usd"),
];

static LLM_USAGE: Record = Record {
    name: "LlmUsage",
    fields: &USAGE,
    foreign: &[
        ("prompt_tokens", "input_tokens"),
        ("completion_tokens", "output_tokens"),
        ("cached_tokens", "cache_read_tokens"),
        ("cost", "`llm_cost()` of the run"),
    ],
};

static TRANSCRIPT: Record = Record {
    name: "Transcript",
    fields: &[
        plain("_type"),
        plain("version"),
        plain("id"),
        plain("messages"),
        plain("events"),
        plain("assets"),
        plain("state"),
        plain("summary"),
        plain("metadata"),
    ],
    foreign: &[],
};

static LLM_RESULT: Record = Record {
    name: "LlmResult",
    fields: &[
        plain("text"),
        plain("visible_text"),
        plain("prose"),
        plain("provider"),
        plain("model"),
        USAGE[0],
        USAGE[1],
        USAGE[2],
        USAGE[3],
        USAGE[4],
        USAGE[5],
        USAGE[6],
        USAGE[7],
        USAGE[8],
        of("usage", &LLM_USAGE),
        plain("blocks"),
        of("transcript", &TRANSCRIPT),
        plain("tool_calls"),
        plain("data"),
        plain("repaired"),
        plain("thinking"),
        plain("private_reasoning"),
        plain("thinking_summary"),
        plain("stop_reason"),
        plain("tool_parse_errors"),
        plain("protocol_violations"),
        plain("canonical_text"),
        plain("done_marker"),
    ],
    foreign: &[
        ("choices", "text"),
        ("content", "text"),
        ("message", "text"),
        ("output", "text"),
        ("output_text", "text"),
        ("response", "text"),
        ("parsed", "data"),
        ("finish_reason", "stop_reason"),
        ("reasoning", "thinking"),
        ("messages", "transcript.messages"),
        ("tokens", "usage"),
        ("cost", "`llm_cost()` of the run"),
    ],
};

static LLM_ERROR: Record = Record {
    name: "LlmError",
    fields: &[
        plain("category"),
        plain("kind"),
        plain("reason"),
        plain("message"),
        plain("provider"),
        plain("model"),
        plain("retry_after_ms"),
        plain("partial_usage"),
        plain("limit"),
        plain("limit_value"),
        plain("projected_cost_usd"),
        plain("session_cost_usd"),
        plain("projected_input_tokens"),
        plain("projected_output_tokens"),
        plain("status"),
    ],
    foreign: &[("code", "category"), ("type", "category"), ("text", "message")],
};

static LLM_SAFE_RESULT: Record = Record {
    name: "LlmSafeResult",
    fields: &[plain("ok"), of("response", &LLM_RESULT), of("error", &LLM_ERROR)],
    foreign: &[
        ("text", "response.text"),
        ("data", "response.data"),
        ("content", "response.text"),
        ("value", "response"),
    ],
};

static STRUCTURED_SAFE_RESULT: Record = Record {
    name: "StructuredSafeResult",
    fields: &[plain("ok"), plain("data"), of("error", &LLM_ERROR)],
    foreign: &[("response", "data"), ("value", "data"), ("text", "data")],
};

static STRUCTURED_RESULT: Record = Record {
    name: "StructuredResult",
    fields: &[
        plain("ok"),
        plain("data"),
        plain("raw_text"),
        plain("error"),
        plain("error_category"),
        plain("attempts"),
        plain("repaired"),
        plain("extracted_json"),
        plain("tool_calls"),
        of("usage", &LLM_USAGE),
        plain("model"),
        plain("provider"),
    ],
    foreign: &[("text", "raw_text"), ("value", "data")],
};

static AGENT_LLM: Record = Record {
    name: "AgentLlm",
    fields: &[plain("iterations"), plain("duration_ms"), plain("input_tokens"), plain("output_tokens")],
    foreign: &[("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")],
};

static AGENT_TOOLS: Record = Record {
    name: "AgentTools",
    fields: &[plain("calls"), plain("successful"), plain("rejected"), plain("mode")],
    foreign: &[],
};

static BLOCKED: Record =
    Record { name: "Blocked", fields: &[plain("stage"), plain("guardrail"), plain("reason")], foreign: &[] };

static AGENT_RESULT: Record = Record {
    name: "AgentResult",
    fields: &[
        plain("status"),
        plain("stop_reason"),
        plain("text"),
        plain("final_text"),
        plain("visible_text"),
        plain("data"),
        plain("iterations"),
        plain("duration_ms"),
        plain("tools_used"),
        plain("rejected_tools"),
        of("llm", &AGENT_LLM),
        of("tools", &AGENT_TOOLS),
        plain("trace"),
        of("transcript", &TRANSCRIPT),
        plain("task_ledger"),
        plain("ledger_done_rejections"),
        plain("deferred_user_messages"),
        plain("daemon_state"),
        plain("daemon_snapshot_path"),
        plain("error"),
        of("blocked", &BLOCKED),
        plain("last_agent"),
        plain("handoffs"),
    ],
    foreign: &[
        ("agent", "last_agent"),
        ("output", "final_text"),
        ("final_output", "final_text"),
        ("content", "final_text"),
        ("answer", "final_text"),
        ("result", "final_text"),
        ("message", "final_text"),
        ("messages", "transcript.messages"),
        ("usage", "llm"),
        ("cost", "`llm_cost()` of the run"),
        ("tool_calls", "tools.calls"),
        ("turns", "iterations"),
        ("steps", "iterations"),
    ],
};

static SUB_AGENT_RESULT: Record = Record {
    name: "SubAgentResult",
    fields: &[
        plain("ok"),
        plain("summary"),
        plain("data"),
        plain("error"),
        plain("tokens_used"),
        plain("budget_exceeded"),
        plain("artifacts"),
        plain("evidence_added"),
        plain("session_id"),
        of("transcript", &TRANSCRIPT),
        plain("tools_used"),
        plain("usage"),
        // Fields of the handle that `background` returns.
        plain("id"),
        plain("name"),
        plain("mode"),
        plain("request"),
        plain("error_category"),
        plain("awaiting_started_at"),
        plain("status"),
        plain("task"),
        plain("history"),
        plain("result"),
        plain("created_at"),
        plain("started_at"),
        plain("finished_at"),
        plain("_type"),
    ],
    foreign: &[("text", "summary"), ("output", "summary"), ("content", "summary")],
};

static HTTP_RESPONSE: Record = Record {
    name: "HttpResponse",
    fields: &[plain("status"), plain("headers"), plain("ok"), plain("body"), plain("bytes_written")],
    foreign: &[
        ("status_code", "status"),
        ("statusCode", "status"),
        ("code", "status"),
        ("text", "body"),
        ("content", "body"),
        ("data", "body"),
        ("json", "json_parse(r.body)"),
    ],
};

static PROCESS_RESULT: Record = Record {
    name: "ProcessResult",
    fields: &[plain("stdout"), plain("stderr"), plain("status"), plain("success"), plain("timed_out")],
    foreign: &[
        ("code", "status"),
        ("exit_code", "status"),
        ("exitCode", "status"),
        ("returncode", "status"),
        ("exit_status", "status"),
        ("output", "stdout"),
        ("out", "stdout"),
        ("err", "stderr"),
        ("ok", "success"),
    ],
};

/// Returns the fields of the dict that a builtin returns, if the table contains the builtin.
pub fn record(builtin: &str) -> Option<&'static Record> {
    Some(match builtin {
        "llm_call" | "llm_completion" => &LLM_RESULT,
        "llm_call_safe" => &LLM_SAFE_RESULT,
        "llm_call_structured_safe" => &STRUCTURED_SAFE_RESULT,
        "llm_call_structured_result" => &STRUCTURED_RESULT,
        "agent_loop" => &AGENT_RESULT,
        "sub_agent_run" => &SUB_AGENT_RESULT,
        "http_get"
        | "http_delete"
        | "http_post"
        | "http_put"
        | "http_patch"
        | "http_request"
        | "http_download"
        | "http_session_request" => &HTTP_RESPONSE,
        "exec" | "exec_at" | "shell" | "shell_at" => &PROCESS_RESULT,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns the names in the first column of the tables of a section, up to its first subsection.
    fn documented(page: &str, section: &str) -> BTreeSet<String> {
        let (_, text) = page.split_once(&format!("\n## {section}\n")).expect("the section");
        let end = text.find("\n## ").into_iter().chain(text.find("\n### ")).min().unwrap_or(text.len());
        let cells = text[..end].lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
        cells
            .flat_map(|cell| cell.split('`').filter(|name| name.starts_with(|c: char| c.is_alphabetic())))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn the_page_about_results_has_the_same_fields() {
        let page = include_str!("../../../docs/results.md");
        for (section, record) in [
            ("llm_call", &LLM_RESULT),
            ("llm_call_safe", &LLM_SAFE_RESULT),
            ("llm_call_structured_safe", &STRUCTURED_SAFE_RESULT),
            ("llm_call_structured_result", &STRUCTURED_RESULT),
            ("agent_loop", &AGENT_RESULT),
        ] {
            let known: BTreeSet<String> = record.fields.iter().map(|field| field.name.to_owned()).collect();
            assert_eq!(documented(page, section), known, "{section}");
        }
    }

    #[test]
    fn what_is_meant_is_a_field() {
        for record in [
            &LLM_USAGE,
            &LLM_RESULT,
            &LLM_ERROR,
            &AGENT_RESULT,
            &SUB_AGENT_RESULT,
            &HTTP_RESPONSE,
            &PROCESS_RESULT,
        ] {
            for (foreign, meant) in record.foreign {
                let field = meant.split('.').next().unwrap_or(meant);
                let is_call = meant.starts_with('`') || meant.contains('(');
                assert!(record.field(foreign).is_none(), "{foreign}");
                assert!(is_call || record.field(field).is_some(), "{meant}");
            }
        }
    }
}
