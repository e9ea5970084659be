//! The portal: a local web page over the records of runs.
//!
//! The page is three files that are part of the binary; what it shows comes from a small API of JSON. Nothing is written
//! but what a launch makes, and nothing is kept between requests but the rows of records that have not changed since.
//!
//! | File | What it holds |
//! | --- | --- |
//! | `server` | addresses and their answers |
//! | `access` | who may ask: hosts, origins, the token |
//! | `records` | which files are records, and what a list shows of each |
//! | `list` | filters, order and pages of the list |
//! | `detail` | everything about one run |
//! | `calls` | the call log beside a record: turns, renders of templates, the story |
//! | `timeline` | spans of a run, recorded or derived |
//! | `fields` | fields of JSON that may be missing |
//! | `costs` | what was spent, by day and by model |
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

/// What the portal shows, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder of the records, which may be missing.
    pub dir: PathBuf,
    /// The folder that launched programs run in and below which they lie.
    pub workspace: PathBuf,
    /// The `harn` program, which launches run.
    pub program: PathBuf,
    /// Whether programs may be launched although the portal listens to other machines.
    pub remote_launch: bool,
    /// The secret that requests must show; `None` lets every process of this machine and its browser pages ask.
    pub token: Option<Token>,
    /// The version that the page shows.
    pub version: &'static str,
    /// Providers and models for launches: `{providers: [{name, ready, note, default_model, models}]}`.
    pub models: Data,
    /// Words of the language: `{keywords, builtins}`.
    pub words: Data,
}
