//! The portal: a local web page about the records of runs.
//!
//! The files of the page are embedded in the binary; its data comes from a small JSON API. The portal writes only the
//! files of launched programs, and caches only the rows of records that have not changed.
//!
//! | File | Content |
//! | --- | --- |
//! | `server` | routes and responses |
//! | `access` | access checks: hosts, origins, the token |
//! | `records` | detection of records, and the row of each in a list |
//! | `list` | filters, order and pages of the list |
//! | `detail` | all data of one run |
//! | `calls` | the call log of a record: turns, renders of templates, the conversation |
//! | `timeline` | spans of a run, recorded or derived |
//! | `fields` | optional fields of JSON |
//! | `costs` | costs by day and by model |
//! | `launch` | programs that the page has started |
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod access;
mod calls;
mod costs;
mod detail;
mod fields;
mod launch;
mod list;
mod records;
mod server;
mod timeline;

use std::path::PathBuf;

use harn_value::Data;

pub use access::Token;
pub use server::{Portal, bind};

/// Settings of the portal.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The directory of the records, which may be missing.
    pub dir: PathBuf,
    /// The directory in which launched programs run; they must be inside of it.
    pub workspace: PathBuf,
    /// The `harn` program, which launches run.
    pub program: PathBuf,
    /// Allows launches although the portal listens to other machines.
    pub remote_launch: bool,
    /// The token that requests require; `None` admits all processes of this machine, including browser pages.
    pub token: Option<Token>,
    /// The displayed version.
    pub version: &'static str,
    /// Providers and models for launches: `{providers: [{name, ready, note, default_model, models}]}`.
    pub models: Data,
    /// Names of the language: `{keywords, builtins}`.
    pub words: Data,
}
