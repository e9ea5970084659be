//! The rules that classify a failure by HTTP status, by phrases in a body, or by the message.

use super::{Category, Kind};

/// The classification of an HTTP reply, or of text that resembles one.
pub(super) struct HttpRule {
    pub(super) kind: Kind,
    pub(super) reason: &'static str,
    pub(super) tag: &'static str,
}

impl HttpRule {
    pub(super) fn category(&self, status: u16) -> Category {
        status_category(status).unwrap_or(match self.reason {
            "auth_failure" => Category::Auth,
            "rate_limit" => Category::RateLimit,
            "timeout" => Category::Timeout,
            "model_unavailable" => Category::NotFound,
            "server_error" => Category::ServerError,
            _ => Category::Generic,
        })
    }
}

fn contains_any(text: &str, needles: &[&str]) -> bool {
    needles.iter().any(|n| text.contains(n))
}

fn is_context_overflow(lower: &str) -> bool {
    // Bedrock throttles with "Too many tokens, please wait before trying again."
    if lower.contains("please wait before trying again") {
        return false;
    }
    contains_any(
        lower,
        &[
            "maximum context length",
            "context length",
            "context_length_exceeded",
            "prompt is too long",
            "prompt_tokens_exceeded",
            "exceeds the maximum",
            "context window",
            "context_window",
            "input is too long",
            "input length and `max_tokens` exceed",
            "too many tokens",
            "too many input tokens",
            "input token count",
            "maximum prompt length",
            "max_prompt_tokens",
            "reduce the length of the messages",
            "reduce your prompt",
            "exceeds the available context size",
            "exceed_context_size",
            "larger than the maximum context",
            "prompt exceeds max length",
            "string_above_max_length",
        ],
    ) || (lower.contains("exceed") && (lower.contains("context") || lower.contains("max_tokens")))
}

fn is_content_policy(lower: &str) -> bool {
    contains_any(
        lower,
        &[
            "content_policy",
            "content policy",
            "safety policy",
            "moderation",
            "responsible_ai_policy",
            "blocked by policy",
        ],
    )
}

/// Returns the first rule that matches a status and a lower-cased body.
pub(super) fn http_rule(status: u16, body: &str) -> HttpRule {
    let rule = |kind, reason, tag| HttpRule { kind, reason, tag };
    if is_context_overflow(body) {
        rule(Kind::Terminal, "context_overflow", "context_overflow")
    } else if is_content_policy(body) {
        rule(Kind::Terminal, "content_policy", "content_policy")
    } else if contains_any(body, &["invalid_api_key", "authentication_error", "unauthorized", "forbidden"])
        || matches!(status, 401 | 403)
    {
        rule(Kind::Terminal, "auth_failure", "auth_failure")
    } else if status == 429
        || contains_any(body, &["rate_limit", "insufficient_quota", "billing_hard_limit_reached"])
    {
        rule(Kind::Transient, "rate_limit", "rate_limited")
    } else if matches!(status, 408 | 504 | 522 | 524 | 598 | 599) || body.contains("timeout") {
        rule(Kind::Transient, "timeout", "timeout")
    } else if matches!(status, 404 | 410)
        || contains_any(
            body,
            &[
                "model_not_found",
                "not_found_error",
                "model not found",
                "model unavailable",
                "model is unavailable",
            ],
        )
    {
        rule(Kind::Terminal, "model_unavailable", "model_unavailable")
    } else if matches!(status, 409 | 425 | 500..=599)
        || contains_any(
            body,
            &[
                "overloaded",
                "service unavailable",
                "bad gateway",
                "api_error",
                "server_error",
                "internal error",
                "internal server error",
                "try again later",
            ],
        )
    {
        rule(Kind::Transient, "server_error", "http_error")
    } else if status == 400 || contains_any(body, &["invalid_request", "bad request"]) {
        rule(Kind::Terminal, "invalid_request", "invalid_request")
    } else {
        rule(Kind::Terminal, "unknown", "unknown")
    }
}

fn status_category(status: u16) -> Option<Category> {
    Some(match status {
        401 | 403 => Category::Auth,
        404 | 410 => Category::NotFound,
        408 | 504 | 522 | 524 | 598 | 599 => Category::Timeout,
        429 => Category::RateLimit,
        503 | 529 => Category::Overloaded,
        409 | 425 | 500..=599 => Category::ServerError,
        _ => return None,
    })
}

/// Classifies the message of an error that has no category.
pub(crate) fn classify_message(message: &str) -> Category {
    if let Some(category) = first_status(message).and_then(status_category) {
        return category;
    }
    let lower = message.to_lowercase();
    if message.contains("Deadline exceeded") {
        Category::Timeout
    } else if lower.contains("overloaded_error") {
        Category::Overloaded
    } else if lower.contains("api_error") {
        Category::ServerError
    } else if contains_any(&lower, &["insufficient_quota", "billing_hard_limit_reached"]) {
        Category::RateLimit
    } else if contains_any(&lower, &["invalid_api_key", "authentication_error"]) {
        Category::Auth
    } else if contains_any(&lower, &["not_found_error", "model_not_found"]) {
        Category::NotFound
    } else if lower.contains("circuit_open") {
        Category::CircuitOpen
    } else if contains_any(
        &lower,
        &[
            "connection reset",
            "connection refused",
            "connection closed",
            "broken pipe",
            "dns error",
            "stream error",
            "unexpected eof",
        ],
    ) {
        Category::TransientNetwork
    } else {
        Category::Generic
    }
}

/// Returns the first three-digit number from 400 to 599 that is not part of a longer identifier or number.
fn first_status(message: &str) -> Option<u16> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = message.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if !bytes[i].is_ascii_digit() {
            i += 1;
            continue;
        }
        let start = i;
        while i < bytes.len() && bytes[i].is_ascii_digit() {
            i += 1;
        }
        let alone = (start == 0 || !word(bytes[start - 1])) && (i == bytes.len() || !word(bytes[i]));
        if alone
            && i - start == 3
            && let Ok(n) = message[start..i].parse::<u16>()
            && (400..600).contains(&n)
        {
            return Some(n);
        }
    }
    None
}

pub(super) fn largest_number(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u64>().ok()).max()
}

/// Derives kind and reason of an error that is not an HTTP reply.
pub(crate) fn kind_and_reason(category: Category, message: &str) -> (Kind, &'static str) {
    let lower = message.to_lowercase();
    // Errors of these three categories quote the caller's text, which may contain any phrase.
    if !matches!(category, Category::BudgetExceeded | Category::SchemaValidation | Category::Cancelled) {
        if is_context_overflow(&lower) {
            return (Kind::Terminal, "context_overflow");
        }
        if is_content_policy(&lower) {
            return (Kind::Terminal, "content_policy");
        }
    }
    match category {
        Category::RateLimit => (Kind::Transient, "rate_limit"),
        Category::Timeout => (Kind::Transient, "timeout"),
        Category::Overloaded | Category::ServerError => (Kind::Transient, "server_error"),
        Category::TransientNetwork => (Kind::Transient, "network_error"),
        Category::Auth => (Kind::Terminal, "auth_failure"),
        Category::NotFound => (Kind::Terminal, "model_unavailable"),
        Category::BudgetExceeded => (Kind::Terminal, "budget_exceeded"),
        Category::Generic => {
            if lower.contains("too many requests") {
                return (Kind::Transient, "rate_limit");
            }
            if lower.contains("timed out") {
                return (Kind::Transient, "timeout");
            }
            let rule = http_rule(0, &lower);
            if rule.reason == "unknown" && lower.split(|c: char| !c.is_alphanumeric()).any(|w| w == "eof") {
                return (Kind::Transient, "network_error");
            }
            (rule.kind, rule.reason)
        }
        _ => (Kind::Terminal, "unknown"),
    }
}
