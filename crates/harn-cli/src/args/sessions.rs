//! The arguments of `harn sessions`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

/// Subcommands of `harn sessions`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, most recently changed first.
    List {
        /// Limit the number of sessions
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = super::at_least_one())]
        limit: u64,
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
    /// Show the messages of a session.
    Show {
        /// ID of the session
        id: String,
        /// Show only the newest messages
        #[arg(long, value_name = "N", value_parser = super::at_least_one())]
        last: Option<u64>,
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
    /// Export a session as JSON.
    ///
    /// The document contains the messages, the other transcript events, the summary and the related sessions.
    Export {
        /// ID of the session
        id: String,
        /// Write to this file (default: standard output)
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Keep only the newest messages.
    ///
    /// A tool call is removed with its result.
    Trim {
        /// ID of the session
        id: String,
        /// Keep this many messages
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        keep: u64,
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
    /// Delete sessions.
    Rm {
        /// IDs of the sessions
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
    /// Delete sessions that have not changed recently.
    Prune {
        /// Delete sessions that changed longer ago than this
        ///
        /// For example 90m, 12h or 30d.
        #[arg(long, value_name = "TIME", value_parser = super::parse_age)]
        older_than: Duration,
        /// List the sessions; delete nothing
        #[arg(long)]
        dry_run: bool,
        /// Write JSON to standard output
        #[arg(long)]
        json: bool,
    },
}
