//! The arguments of `harn runs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Subcommands of `harn runs`.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, newest first.
    List(RunsListArgs),
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
    /// The exit code is 1 if they differ. Times and results are not compared.
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
    /// Cut the journal of a run before damage.
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
    /// Summarize a run record.
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
    /// Show a run record.
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
    /// The file has the journal, the sources and the answers of the run.
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

/// Arguments of `harn runs list`.
#[derive(Debug, Args)]
pub(crate) struct RunsListArgs {
    /// Show only runs with this status
    ///
    /// One of queued, running, suspended, completed, failed or abandoned.
    #[arg(long, value_parser = super::parse_status)]
    pub(crate) status: Option<harn_store::RunStatus>,
    /// List run records of a directory instead
    ///
    /// Includes its subdirectories. Default: HARN_RUN_DIR, or .harn-runs.
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, conflicts_with = "status")]
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
