//! People who are asked while nobody sits in front of the program.

use std::time::Duration;

/// Something that a person is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inquiry {
    /// Its id. What is asked again under the same id is the same inquiry.
    pub id: String,
    /// What kind of answer is expected, such as `question` or `approval`.
    pub kind: String,
    /// The question, for people.
    pub prompt: String,
    /// All that was asked, as JSON.
    pub details: String,
    /// How many answers it takes, each from another person.
    pub quorum: u32,
    /// How many answers the program has had already.
    pub had: u32,
    /// How long the answer may take; [`Duration::MAX`]: as long as it takes.
    pub time: Duration,
}

/// An answer to an [`Inquiry`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The answer, as JSON.
    pub value: String,
    /// Who gave it.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// A signature over what was asked and what was answered.
    pub signature: String,
}

/// What came of an [`Inquiry`]: the next answer, or nothing when the time is over. The error says why an answer does not count.
pub type Asked = Result<Option<Reply>, String>;
