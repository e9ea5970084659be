//! Questions to human reviewers while no user is at the terminal.

use std::time::Duration;

/// A question to human reviewers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inquiry {
    /// The id. Repeating an id repeats the same inquiry.
    pub id: String,
    /// What kind of answer is expected, such as `question` or `approval`.
    pub kind: String,
    /// The question to display.
    pub prompt: String,
    /// The complete request, as JSON.
    pub details: String,
    /// Required number of answers, each from a different reviewer.
    pub quorum: u32,
    /// Number of answers that the program has already received.
    pub had: u32,
    /// Time limit of the answer; [`Duration::MAX`] for none.
    pub time: Duration,
}

/// An answer to an [`Inquiry`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The answer, as JSON.
    pub value: String,
    /// The reviewer.
    pub by: String,
    /// The time of the answer, in milliseconds since 1970.
    pub at_ms: i64,
    /// A signature over the question and the answer.
    pub signature: String,
}

/// The outcome of an [`Inquiry`]: the next answer, or `None` after the time limit. The error is the reason why an
/// answer is invalid.
pub type Asked = Result<Option<Reply>, String>;
