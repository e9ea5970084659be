//! The arguments of `harn runs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What `harn runs` does.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List the runs, the newest first.
    List(RunsListArgs),
    /// Show how a run stands, and what it waits for.
    Show {
        /// The run.
        id: String,
        /// Write to standard output as JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the journal of a run, also while it is written.
    Events(RunsEventsArgs),
    /// Compare what two runs have done; the exit code is 1 when they differ. Times and outcomes may differ.
    Diff {
        /// The one.
        first: String,
        /// The other.
        second: String,
        /// Write to standard output as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove runs with all that belongs to them.
    Rm {
        /// The runs.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Write to standard output as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what the record of a run (a file such as run.json) comes to.
    Inspect {
        /// The record.
        #[arg(value_name = "RUN.json")]
        file: PathBuf,
        /// Also show what is different in this one.
        #[arg(long, value_name = "RUN.json")]
        compare: Option<PathBuf>,
        /// Write to standard output as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the record of a run as a whole with --json; without, what it comes to.
    View {
        /// The record.
        #[arg(value_name = "RUN.json")]
        file: PathBuf,
        /// Write to standard output as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write a run to a file, with its journal, sources and answers.
    Export {
        /// The run.
        id: String,
        /// The file; without it, standard output.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Take in a run from a file that `harn runs export` has written.
    Import {
        /// The file.
        file: PathBuf,
        /// The name of the run here; without it, the one that it had.
        #[arg(long = "run-id", value_name = "ID")]
        id: Option<String>,
        /// Write to standard output as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `harn runs list`.
#[derive(Debug, Args)]
pub(crate) struct RunsListArgs {
    /// Only those that stand so: queued, running, suspended, completed, failed or abandoned.
    #[arg(long, value_parser = super::parse_status)]
    pub(crate) status: Option<harn_store::RunStatus>,
    /// Instead of the project's store, the records in this folder and in the folders in it (files such as run.json); without a
    /// folder those in .harn-runs (HARN_RUN_DIR).
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, conflicts_with = "status")]
    pub(crate) dir: Option<Option<PathBuf>>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = super::at_least_one())]
    pub(crate) limit: u64,
    /// Write to standard output as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `harn runs events`.
#[derive(Debug, Args)]
pub(crate) struct RunsEventsArgs {
    /// The run.
    pub(crate) id: String,
    /// Begin with this entry.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) from: u64,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = super::at_least_one())]
    pub(crate) limit: u64,
    /// Write to standard output as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
