//! What a server says of a reply before its body.

/// Status line and the headers that matter.
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
