//! The arguments of `harn runs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Subcommands of `harn runs`.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, newest first.
    List(RunsListArgs),
    /// List the queues of runs with their limits.
    Queues {
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
    /// Show the state of a run.
    Show {
        /// ID of the run
        id: String,
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
    /// List the journal entries of a run.
    Events(RunsEventsArgs),
    /// Compare the effects of two runs.
    ///
    /// The exit code is 1 if the effects differ. Different results are counted, but are not a difference. Times are ignored.
    Diff {
        /// ID of the first run
        first: String,
        /// ID of the second run
        second: String,
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
    /// Delete runs and their data.
    Rm {
        /// IDs of the runs
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
    /// Retry failed runs from the failed effect.
    ///
    /// Queues the runs; a worker or `harn resume ID` continues them. Effects that succeeded are not repeated. Also queues cancelled and
    /// suspended runs.
    Retry(RunsChangeArgs),
    /// Queue ended runs again from their start.
    ///
    /// A worker or `harn resume ID` then runs them with a new journal. All effects happen again.
    Requeue(RunsChangeArgs),
    /// Cancel runs.
    ///
    /// A run that is executing stops within seconds, without cleanup.
    Cancel(RunsChangeArgs),
    /// Pause runs until they are unpaused.
    ///
    /// A run that is executing stops as soon as it has no request or command in progress.
    Pause(RunsChangeArgs),
    /// Queue paused runs.
    Unpause(RunsChangeArgs),
    /// Delete runs that ended long ago.
    Prune {
        /// Delete runs that ended longer ago than this
        ///
        /// For example 90m, 12h or 30d. Default: `keep` in the section `[runs]` of harn.toml.
        #[arg(long, value_name = "TIME", value_parser = super::parse_age)]
        older_than: Option<std::time::Duration>,
        /// Delete only runs with this status
        ///
        /// One of completed, failed or cancelled; may be repeated. Default: all three.
        #[arg(long, value_name = "STATUS", value_parser = parse_end)]
        status: Vec<harn_store::RunStatus>,
        /// Count the runs; delete nothing
        #[arg(long)]
        dry_run: bool,
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
    /// Truncate a damaged journal.
    ///
    /// Reads the whole journal. If an entry was changed or is missing, the entries from there on are removed, and the run is
    /// suspended. Effects that they recorded may happen again.
    Repair {
        /// ID of the run
        id: String,
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
    /// Summarize a run record (`run.json`).
    Inspect {
        /// Run record, such as run.json
        #[arg(value_name = "RUN.json")]
        file: PathBuf,
        /// Compare with this record
        #[arg(long, value_name = "RUN.json")]
        compare: Option<PathBuf>,
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
    /// Print a run record (`run.json`).
    View {
        /// Run record, such as run.json
        #[arg(value_name = "RUN.json")]
        file: PathBuf,
        /// Write the complete record as JSON
        #[arg(long)]
        json: bool,
    },
    /// Export a run to a file.
    ///
    /// The file contains the journal, the sources and the answers of the run.
    Export {
        /// ID of the run
        id: String,
        /// Write to this file (default: standard output)
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Import a run from a file.
    ///
    /// The file was written by `harn runs export`.
    Import {
        /// File to import
        file: PathBuf,
        /// Rename the run (default: its original ID)
        #[arg(long = "run-id", value_name = "ID")]
        id: Option<String>,
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `harn runs retry` and its variants.
#[derive(Debug, Args)]
pub(crate) struct RunsChangeArgs {
    /// IDs of the runs
    #[arg(value_name = "ID", required_unless_present = "filter", conflicts_with = "filter")]
    pub(crate) ids: Vec<String>,
    /// Choose runs by a filter
    ///
    /// A comma-separated list such as `status=failed,program=report.harn,category=timeout,older-than=1d`. Skips
    /// runs that the command does not apply to.
    #[arg(long, value_name = "FILTER", value_parser = parse_filter)]
    pub(crate) filter: Option<Filter>,
    /// Write JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Selects runs by status, age and other criteria.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) status: Option<harn_store::RunStatus>,
    pub(crate) program: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) category: Option<String>,
    /// Substring of the name of the process that executes the run.
    pub(crate) owner: Option<String>,
    /// Substring of the note.
    pub(crate) note: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) older_than: Option<std::time::Duration>,
    pub(crate) newer_than: Option<std::time::Duration>,
}

/// Parses a filter.
fn parse_filter(text: &str) -> Result<Filter, String> {
    let mut filter = Filter::default();
    for part in text.split(',').map(str::trim) {
        let (key, value) = part
            .split_once('=')
            .filter(|(_, value)| !value.is_empty())
            .ok_or_else(|| format!("expected KEY=VALUE, such as status=failed, got '{part}'"))?;
        let given = || Some(value.to_owned());
        match key {
            "status" => filter.status = Some(super::parse_status(value)?),
            "program" => filter.program = given(),
            "id" => filter.id = given(),
            "category" => filter.category = given(),
            "owner" => filter.owner = given(),
            "note" => filter.note = given(),
            "queue" => filter.queue = given(),
            "key" => filter.key = given(),
            "group" => filter.group = given(),
            "older-than" => filter.older_than = Some(super::parse_age(value)?),
            "newer-than" => filter.newer_than = Some(super::parse_age(value)?),
            _ => {
                let keys =
                    "status, program, id, category, owner, note, queue, key, group, older-than or newer-than";
                return Err(format!("unknown key '{key}': expected {keys}"));
            }
        }
    }
    Ok(filter)
}

/// Parses the status of a run that has ended.
fn parse_end(text: &str) -> Result<harn_store::RunStatus, String> {
    let status = harn_store::RunStatus::named(text).filter(|status| status.is_end());
    status.ok_or_else(|| format!("expected completed, failed or cancelled, got '{text}'"))
}

/// Arguments of `harn runs list`.
#[derive(Debug, Args)]
pub(crate) struct RunsListArgs {
    /// Show only runs with this status
    ///
    /// One of queued, running, suspended, paused, completed, failed, cancelled or abandoned.
    #[arg(long, value_parser = super::parse_status)]
    pub(crate) status: Option<harn_store::RunStatus>,
    /// Show failed runs with their errors
    #[arg(long, conflicts_with_all = ["status", "dir"])]
    pub(crate) failed: bool,
    /// Show failed runs without retries left
    ///
    /// These runs were submitted with retries, and their last try has failed.
    #[arg(long, conflicts_with_all = ["status", "failed", "dir"])]
    pub(crate) dead: bool,
    /// Show only runs that match
    ///
    /// A comma-separated list such as `status=failed,program=report.harn,category=timeout,older-than=1d`. The keys are status,
    /// program, category, queue, key, group, id (matches a prefix), owner and note (match a part), older-than and newer-than.
    #[arg(long, value_name = "FILTER", value_parser = parse_filter, conflicts_with = "dir")]
    pub(crate) filter: Option<Filter>,
    /// Show the stored bytes of each run
    #[arg(long, conflicts_with = "dir")]
    pub(crate) size: bool,
    /// List run records of a directory instead
    ///
    /// Includes its subdirectories. Default: HARN_RUN_DIR, or .harn-runs.
    #[arg(long, value_name = "DIR", num_args = 0..=1, conflicts_with = "status")]
    pub(crate) dir: Option<Option<PathBuf>>,
    /// Limit the number of runs
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = super::at_least_one())]
    pub(crate) limit: u64,
    /// Write JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn runs events`.
#[derive(Debug, Args)]
pub(crate) struct RunsEventsArgs {
    /// ID of the run
    pub(crate) id: String,
    /// Start with this entry
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) from: u64,
    /// Limit the number of entries
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = super::at_least_one())]
    pub(crate) limit: u64,
    /// Write JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
}
