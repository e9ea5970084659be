//! Every error status of every provider, with the body that it sends.

use harn_value::{Data as Value, json};

use super::ENV;
use crate::support::{Server, ask_with, llm_error, local, reply, runtime};

type Row = (u16, Value, [&'static str; 3]);

const AUTH: [&str; 3] = ["auth", "terminal", "auth_failure"];
const LIMIT: [&str; 3] = ["rate_limit", "transient", "rate_limit"];
const MISSING: [&str; 3] = ["not_found", "terminal", "model_unavailable"];
const INVALID: [&str; 3] = ["generic", "terminal", "invalid_request"];
const UNKNOWN: [&str; 3] = ["generic", "terminal", "unknown"];
const TIMEOUT: [&str; 3] = ["timeout", "transient", "timeout"];
const SERVER: [&str; 3] = ["server_error", "transient", "server_error"];
const OVERLOADED: [&str; 3] = ["overloaded", "transient", "server_error"];
const OVERFLOW: [&str; 3] = ["generic", "terminal", "context_overflow"];
const POLICY: [&str; 3] = ["generic", "terminal", "content_policy"];

fn anthropic() -> Vec<Row> {
    let body = |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"});
    vec![
        (400, body("invalid_request_error", "max_tokens: Field required"), INVALID),
        (400, body("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), OVERFLOW),
        (401, body("authentication_error", "invalid x-api-key"), AUTH),
        (402, body("billing_error", "Check your billing"), UNKNOWN),
        (403, body("permission_error", "Your key may not use this resource"), AUTH),
        (404, body("not_found_error", "model: claude-none"), MISSING),
        (413, body("request_too_large", "Request is larger than 32 MB"), UNKNOWN),
        (429, body("rate_limit_error", "This request would pass your limit"), LIMIT),
        (500, body("api_error", "Internal server error"), SERVER),
        (504, body("timeout_error", "The request took too long"), TIMEOUT),
        (529, body("overloaded_error", "Overloaded"), OVERLOADED),
    ]
}

fn openai() -> Vec<Row> {
    let body = |kind: &str, code: Value, message: &str| json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
    let plain = |message: &str| body("invalid_request_error", Value::Null, message);
    vec![
        (400, plain("Unsupported parameter"), INVALID),
        (
            400,
            body(
                "invalid_request_error",
                json!("context_length_exceeded"),
                "This model's maximum context length is 8192 tokens",
            ),
            OVERFLOW,
        ),
        (400, body("invalid_request_error", json!("content_policy_violation"), "Rejected"), POLICY),
        (401, body("invalid_request_error", json!("invalid_api_key"), "Incorrect API key provided"), AUTH),
        (
            403,
            body("request_forbidden", json!("unsupported_country_region_territory"), "Country not supported"),
            AUTH,
        ),
        (404, body("invalid_request_error", json!("model_not_found"), "The model does not exist"), MISSING),
        (409, plain("Conflict"), SERVER),
        (425, plain("Too early"), SERVER),
        (520, plain("Web server returned an unknown error"), SERVER),
        (422, plain("Unprocessable"), INVALID),
        (429, body("requests", json!("rate_limit_exceeded"), "Rate limit reached"), LIMIT),
        (
            429,
            body("insufficient_quota", json!("insufficient_quota"), "You exceeded your current quota"),
            LIMIT,
        ),
        (500, body("server_error", Value::Null, "The server had an error"), SERVER),
        (502, body("server_error", Value::Null, "Bad gateway"), SERVER),
        (503, body("server_error", Value::Null, "The engine is currently overloaded"), OVERLOADED),
    ]
}

fn gemini() -> Vec<Row> {
    let body = |code: u16, status: &str, message: &str| json!({"error": {"code": code, "message": message, "status": status}});
    vec![
        (400, body(400, "INVALID_ARGUMENT", "Request contains an invalid argument."), INVALID),
        (403, body(403, "PERMISSION_DENIED", "Method doesn't allow unregistered callers"), AUTH),
        (404, body(404, "NOT_FOUND", "models/none is not found"), MISSING),
        (429, body(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."), LIMIT),
        (500, body(500, "INTERNAL", "An internal error has occurred."), SERVER),
        (503, body(503, "UNAVAILABLE", "The model is overloaded. Please try again later."), OVERLOADED),
        (504, body(504, "DEADLINE_EXCEEDED", "The service was unable to finish in time."), TIMEOUT),
    ]
}

fn ollama() -> Vec<Row> {
    let body = |message: &str| json!({"error": message});
    vec![
        (400, body("registry.ollama.ai/library/x does not support tools"), INVALID),
        (500, body("llama runner process has terminated"), SERVER),
        (503, body("server busy, please try again. maximum pending requests exceeded"), OVERLOADED),
    ]
}

fn bedrock() -> Vec<Row> {
    let body = |message: &str| json!({"message": message});
    vec![
        (400, body("1 validation error detected"), INVALID),
        (403, body("The security token included in the request is invalid"), AUTH),
        (404, body("Could not resolve the foundation model"), MISSING),
        (408, body("Model has timed out in processing the request"), TIMEOUT),
        (424, body("The model returned an unexpected error"), UNKNOWN),
        (429, body("Too many requests, please wait before trying again."), LIMIT),
        (429, body("Too many tokens, please wait before trying again."), LIMIT),
        (500, body("The system encountered an unexpected error during processing."), SERVER),
        (503, body("Bedrock is unable to process your request."), OVERLOADED),
    ]
}

#[tokio::test]
async fn error_statuses_have_their_categories() {
    let providers = [
        ("anthropic", "claude-sonnet-4-20250514", anthropic()),
        ("openai", "gpt-4o", openai()),
        ("azure_openai", "gpt-4o", openai()),
        ("gemini", "gemini-2.5-pro", gemini()),
        ("vertex", "gemini-2.5-pro", gemini()),
        ("ollama", "llama3.2", ollama()),
        ("bedrock", "anthropic.claude-3", bedrock()),
    ];
    local(async {
        for (provider, model, rows) in providers {
            for (status, body, expected) in rows {
                for stream in [true, false] {
                    let script =
                        reply(&format!("{status} "), "content-type: application/json\r\n", &body.to_string());
                    let server = Server::start(vec![script]).await;
                    let options = json!({"model": model, "stream": stream});
                    let error = llm_error(ask_with(&runtime(ENV).0, &server, provider, options).await);
                    let what = format!("{provider} {status}: {error}");
                    assert_eq!(
                        [error.category.as_str(), error.kind.as_str(), error.reason],
                        expected,
                        "{what}"
                    );
                    assert!(error.message.starts_with(&format!("{provider} HTTP {status}")), "{what}");
                    assert_eq!((error.provider.as_str(), error.model.as_str()), (provider, model), "{what}");
                }
            }
        }
    })
    .await;
}
