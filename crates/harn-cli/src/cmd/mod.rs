//! The commands, one file each. Each gives the exit code.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod cron;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod durable;
pub(crate) mod explain;
pub(crate) mod fmt;
pub(crate) mod lint;
pub(crate) mod lsp;
pub(crate) mod models;
pub(crate) mod new;
pub(crate) mod packages;
pub(crate) mod providers;
pub(crate) mod ready;
pub(crate) mod repl;
pub(crate) mod replay_debug;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod submit;
pub(crate) mod test;
pub(crate) mod version;
pub(crate) mod viz;
pub(crate) mod watch;
pub(crate) mod worker;
