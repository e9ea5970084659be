//! Run records, for commands that inspect them.

use harn_agent::workflow::fixture::{evaluate, fixture, normalise};
use harn_system::System;
use harn_value::Data;

pub use harn_agent::workflow::fixture::diff;

/// A record that was read from a file.
pub struct RunRecord {
    /// The record, with defaults for fields that are missing in the file.
    pub run: Data,
    /// Whether the file contains a fixture. Otherwise, it is derived from the run.
    pub is_fixture_embedded: bool,
}

impl RunRecord {
    /// Reads a record.
    ///
    /// # Errors
    /// A message for the user.
    pub fn read(system: &dyn System, path: &str) -> Result<RunRecord, String> {
        let found = crate::workflow::load(system, path)?;
        let is_fixture_embedded = !found["replay_fixture"].is_null();
        let run = normalise(&found, "", &String::new).map_err(|error| format!("{path}: {error}"))?;
        Ok(RunRecord { run, is_fixture_embedded })
    }

    /// Evaluates the run against its fixture: `{pass, failures, stage_count}`.
    #[must_use]
    pub fn evaluate(&self) -> Data {
        let own = &self.run["replay_fixture"];
        if own.is_null() { evaluate(&self.run, &fixture(&self.run, "")) } else { evaluate(&self.run, own) }
    }
}
