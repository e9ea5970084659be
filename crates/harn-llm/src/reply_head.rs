//! The head of a reply: status and headers.

/// Status line and the relevant headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyHead {
    /// Status code.
    pub status: u16,
    /// Reason phrase.
    pub phrase: String,
    /// `content-type`, or `unknown`.
    pub content_type: String,
    /// `retry-after`.
    pub retry_after: Option<String>,
}

impl ReplyHead {
    /// Returns whether the status is a success.
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}
