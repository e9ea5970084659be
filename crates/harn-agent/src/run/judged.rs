//! What came of judging a final reply.

use harn_llm::options::OutputFormat;
use harn_llm::structured::Judgement;

/// A final reply that was judged, and by which options.
pub(super) struct Judged {
    pub(super) output: OutputFormat,
    pub(super) judgement: Judgement,
}

impl Judged {
    /// Returns whether there is a schema, and the answer fits it.
    pub(super) fn fits_schema(&self) -> bool {
        self.output.check.is_some() && self.judgement.errors.is_empty()
    }
}
