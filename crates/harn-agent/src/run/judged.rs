//! The result of validating a final reply.

use harn_llm::options::OutputFormat;
use harn_llm::structured::Judgement;

/// A validated final reply, with the options used.
pub(super) struct Judged {
    pub(super) output: OutputFormat,
    pub(super) judgement: Judgement,
}

impl Judged {
    /// Returns whether there is a schema and the answer matches it.
    pub(super) fn fits_schema(&self) -> bool {
        self.output.check.is_some() && self.judgement.errors.is_empty()
    }
}
