//! Errors of calls: categories, the rules that assign them, and the dict that programs catch.

mod classify;

use std::fmt;

use harn_value::{Data as Value, json};

use crate::event::Usage;
use crate::json::Object;
use crate::reply_head::ReplyHead;
pub(crate) use classify::{classify_message, kind_and_reason};
use classify::{http_rule, largest_number};

/// An invalid option, found before any request is sent. Programs catch it as a plain string.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionError(pub String);

impl OptionError {
    /// Wraps a message.
    pub fn new(message: impl Into<String>) -> Self {
        OptionError(message.into())
    }
}

/// The reason why a call produced no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The options are invalid or no route is usable; nothing was sent.
    #[error("{0}")]
    Option(String),
    /// The call itself failed.
    #[error("{0}")]
    Llm(LlmError),
}

impl From<OptionError> for CallError {
    fn from(e: OptionError) -> Self {
        CallError::Option(e.0)
    }
}

impl From<LlmError> for CallError {
    fn from(e: LlmError) -> Self {
        CallError::Llm(e)
    }
}

impl CallError {
    /// Returns the value that a program catches: the string of an option error, else the error dict.
    pub fn to_thrown(&self) -> Value {
        match self {
            CallError::Option(message) => Value::String(message.clone()),
            CallError::Llm(e) => e.to_json(),
        }
    }

    /// Returns the error dict of the `_safe` functions, in which option errors are dicts too.
    pub fn to_safe_json(&self) -> Value {
        match self {
            CallError::Llm(e) => e.to_json(),
            CallError::Option(message) => {
                let (category, reason) = if message.starts_with("Missing API key") {
                    (Category::Auth, "auth_failure")
                } else {
                    (Category::Generic, "unknown")
                };
                json!({"category": category.as_str(), "kind": "terminal", "reason": reason, "message": message})
            }
        }
    }

    /// Returns the category.
    pub fn category(&self) -> Category {
        match self {
            CallError::Llm(e) => e.category,
            CallError::Option(message) if message.starts_with("Missing API key") => Category::Auth,
            CallError::Option(_) => Category::Generic,
        }
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        match self {
            CallError::Option(message) => message,
            CallError::Llm(e) => &e.message,
        }
    }
}

macro_rules! categories {
    ($($variant:ident $word:literal $doc:literal),* $(,)?) => {
        /// The category of a failure, coarse enough to branch on.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Category { $(#[doc = concat!($doc, ".")] $variant),* }

        impl Category {
            /// All categories, in the order of the documentation.
            pub const ALL: &[Category] = &[$(Category::$variant),*];

            /// Returns the name used in error dicts.
            pub fn as_str(self) -> &'static str {
                match self { $(Category::$variant => $word),* }
            }
        }
    };
}

categories! {
    RateLimit "rate_limit" "Too many requests or an exhausted quota",
    Timeout "timeout" "No answer in time",
    Overloaded "overloaded" "The provider has no capacity now",
    ServerError "server_error" "The provider failed or answered nonsense",
    TransientNetwork "transient_network" "The connection failed",
    SchemaValidation "schema_validation" "The reply does not match the schema",
    Auth "auth" "The key is missing or refused",
    NotFound "not_found" "No such model or endpoint",
    CircuitOpen "circuit_open" "A circuit breaker holds calls back",
    BudgetExceeded "budget_exceeded" "The call would cost or did cost too much",
    ToolError "tool_error" "A tool failed",
    ToolRejected "tool_rejected" "A tool was not allowed to run",
    EgressBlocked "egress_blocked" "Network policy forbids the request",
    Cancelled "cancelled" "The caller gave up",
    Generic "generic" "Anything else",
}

impl Category {
    /// Returns the category with the given name.
    pub(crate) fn from_word(word: &str) -> Option<Category> {
        Self::ALL.iter().copied().find(|c| c.as_str() == word)
    }
}

/// Whether a retry can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A retry may succeed.
    Transient,
    /// A retry fails the same way.
    Terminal,
}

impl Kind {
    /// Returns the name used in error dicts.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Transient => "transient",
            Kind::Terminal => "terminal",
        }
    }
}

/// A failed call. The details are boxed, so that the error has the size of a pointer.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmError(Box<ErrorDetails>);

/// The details of a failed call.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorDetails {
    /// The category of the failure.
    pub category: Category,
    /// Whether a retry can succeed.
    pub kind: Kind,
    /// The specific reason (`context_overflow`, `auth_failure`, …).
    pub reason: &'static str,
    /// The message for users.
    pub message: String,
    /// The provider that was called.
    pub provider: String,
    /// The model that was called.
    pub model: String,
    /// The HTTP status, if the server replied.
    pub status: Option<u16>,
    /// The delay that the provider requests before a retry, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Tokens counted before a stream failed.
    pub partial_usage: Option<Usage>,
    /// Additional fields of the dict (budget errors).
    pub extra: Option<Object>,
}

impl std::ops::Deref for LlmError {
    type Target = ErrorDetails;
    fn deref(&self) -> &ErrorDetails {
        &self.0
    }
}

impl std::ops::DerefMut for LlmError {
    fn deref_mut(&mut self) -> &mut ErrorDetails {
        &mut self.0
    }
}

impl fmt::Display for LlmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LlmError {}

impl LlmError {
    /// Creates an error of a known category; kind and reason follow from it and the message.
    pub fn new(category: Category, message: impl Into<String>) -> Self {
        let message = message.into();
        let (kind, reason) = kind_and_reason(category, &message);
        LlmError(Box::new(ErrorDetails {
            category,
            kind,
            reason,
            retry_after_ms: None,
            message,
            provider: String::new(),
            model: String::new(),
            status: None,
            partial_usage: None,
            extra: None,
        }))
    }

    /// Creates the error of an HTTP reply that is not a success.
    pub fn http(provider: &str, head: &ReplyHead, body: &str, now_ms: i64) -> Self {
        let ReplyHead { status, phrase, retry_after, .. } = head;
        let status = *status;
        let rule = http_rule(status, &body.to_lowercase());
        let phrase = if phrase.is_empty() { String::new() } else { format!(" {phrase}") };
        let retry_after = retry_after.as_deref();
        let mut message = format!("{provider} HTTP {status}{phrase} [{}]: {body}", rule.tag);
        if rule.reason == "context_overflow"
            && let Some(n) = largest_number(body)
        {
            message.push_str(&format!(" (offending_tokens: {n})"));
        }
        if let Some(hint) = retry_after {
            message.push_str(&format!(" (retry-after: {hint})"));
        }
        let mut error = Self::new(rule.category(status), message);
        error.kind = rule.kind;
        error.reason = rule.reason;
        error.status = Some(status);
        error.retry_after_ms =
            retry_after.and_then(|hint| crate::retry_after::parse_retry_after(hint, now_ms));
        error.retry_after_ms = error.retry_after_ms.or_else(|| crate::retry_after::retry_info(body));
        error
    }

    /// Creates the error that an `error` object inside a reply describes.
    pub fn api(provider: &str, error: &Value) -> Self {
        let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let detail = error.as_str().map(str::to_string).unwrap_or_else(|| match text("message") {
            "" => error.to_string(),
            message => message.to_string(),
        });
        let number = ["code", "status"].iter().find_map(|k| error.get(k).and_then(Value::as_u64));
        let status = number.and_then(|n| u16::try_from(n).ok()).filter(|n| (400..600).contains(n));
        let words = format!("{} {} {detail}", text("type"), text("code")).to_lowercase();
        let message = format!("{provider} API error: {detail}");
        // The Responses API puts into `code` what others put into `type`.
        let kind = if text("type").is_empty() { text("code") } else { text("type") };
        let category = match kind {
            "overloaded_error" => Category::Overloaded,
            "rate_limit_error" => Category::RateLimit,
            "api_error" | "server_error" => Category::ServerError,
            "timeout_error" => Category::Timeout,
            "authentication_error" | "permission_error" => Category::Auth,
            "not_found_error" => Category::NotFound,
            _ => match status {
                Some(status) => http_rule(status, &words).category(status),
                None => match http_rule(0, &words).category(0) {
                    Category::Generic => classify_message(&detail),
                    category => category,
                },
            },
        };
        let mut made = Self::new(category, message);
        if category == Category::Generic {
            let rule = http_rule(status.unwrap_or(0), &words);
            (made.kind, made.reason) = (rule.kind, rule.reason);
        }
        made.status = status;
        made
    }

    /// Sets the route that failed, unless it is already set.
    #[must_use]
    pub fn at(mut self, provider: &str, model: &str) -> Self {
        if self.provider.is_empty() {
            self.provider = provider.to_string();
        }
        if self.model.is_empty() {
            self.model = model.to_string();
        }
        self
    }

    /// Adds the token counts that were known when the call failed.
    #[must_use]
    pub(crate) fn with_usage(mut self, usage: Usage) -> Self {
        if !usage.is_empty() {
            self.partial_usage = Some(usage);
        }
        self
    }

    /// Returns the dict that programs catch.
    pub fn to_json(&self) -> Value {
        let mut out = Object::new();
        out.insert("category".into(), self.category.as_str().into());
        out.insert("kind".into(), self.kind.as_str().into());
        out.insert("reason".into(), self.reason.into());
        out.insert("message".into(), self.message.as_str().into());
        out.insert("provider".into(), self.provider.as_str().into());
        out.insert("model".into(), self.model.as_str().into());
        if let Some(ms) = self.retry_after_ms {
            out.insert("retry_after_ms".into(), ms.into());
        }
        if let Some(usage) = self.partial_usage {
            out.insert("partial_usage".into(), usage.to_json());
        }
        if let Some(extra) = &self.extra {
            out.extend(extra.clone());
        }
        Value::Object(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(category: Category, message: &str) -> (&'static str, &'static str) {
        let e = LlmError::new(category, message);
        (e.kind.as_str(), e.reason)
    }

    #[test]
    fn an_error_says_what_it_is_by_type_or_by_code() {
        for key in ["type", "code"] {
            let mut object = json!({"message": "it broke"});
            object[key] = "server_error".into();
            let error = LlmError::api("openai", &object);
            assert_eq!((error.category, error.kind.as_str()), (Category::ServerError, "transient"), "{key}");
        }
    }

    #[test]
    fn category_outranks_message() {
        assert_eq!(of(Category::Overloaded, "529 overloaded"), ("transient", "server_error"));
        assert_eq!(of(Category::Auth, "auth_failure"), ("terminal", "auth_failure"));
        assert_eq!(of(Category::Generic, "maximum context length is 5"), ("terminal", "context_overflow"));
        assert_eq!(of(Category::SchemaValidation, "x"), ("terminal", "unknown"));
        assert_eq!(of(Category::Generic, "Too Many Requests"), ("transient", "rate_limit"));
    }

    #[test]
    fn http_rules_follow_status_and_body() {
        let http = |provider, status, phrase: &str, body, retry_after: Option<&str>| {
            let head = ReplyHead {
                status,
                phrase: phrase.into(),
                content_type: "text/plain".into(),
                retry_after: retry_after.map(str::to_string),
            };
            LlmError::http(provider, &head, body, 0)
        };
        let e = http("openai", 429, "Too Many Requests", "slow down", Some("7"));
        assert_eq!(e.message, "openai HTTP 429 Too Many Requests [rate_limited]: slow down (retry-after: 7)");
        assert_eq!(
            (e.category, e.kind, e.retry_after_ms),
            (Category::RateLimit, Kind::Transient, Some(7000))
        );
        let e = http("openai", 400, "Bad Request", "maximum context length is 8192, got 9000", None);
        assert!(e.message.ends_with("(offending_tokens: 9000)"), "{}", e.message);
        assert_eq!((e.category, e.reason), (Category::Generic, "context_overflow"));
        let quota = r#"{"error": {"details": [{"retryDelay": "2s"}]}}"#;
        assert_eq!(http("gemini", 429, "", quota, None).retry_after_ms, Some(2000));
        assert_eq!(http("gemini", 429, "", quota, Some("3")).retry_after_ms, Some(3000));
        let e = http("anthropic", 529, "", "overloaded", None);
        assert_eq!((e.category, e.reason), (Category::Overloaded, "server_error"));
    }

    #[test]
    fn messages_are_classified_by_lone_status_numbers() {
        assert_eq!(classify_message("got HTTP 503 from upstream"), Category::Overloaded);
        assert_eq!(classify_message("error code v429x"), Category::Generic);
        assert_eq!(classify_message("4290 items"), Category::Generic);
        assert_eq!(classify_message("connection reset by peer"), Category::TransientNetwork);
    }
}
