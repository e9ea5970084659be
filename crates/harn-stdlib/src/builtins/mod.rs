//! The functions, one file per topic.

use harn_value::Value;
use harn_vm::Builtin;

mod assert;
mod bytes;
mod circuit;
mod convert;
mod csv;
mod dates;
mod digests;
mod durations;
mod env;
mod event_log;
mod files;
mod host;
mod host_process;
mod http;
mod iter;
mod jq;
mod json;
mod json_file;
mod junit;
mod lists;
mod math;
mod output;
mod own_args;
mod paths;
mod process;
mod random;
mod regex;
mod result;
mod schema;
pub(crate) mod sets;
mod snapshot;
mod spans;
mod store;
mod stream;
mod strings;
mod terminal;
mod time;
mod toml;
mod url;
mod yaml;

pub use dates::{iso_millis, timestamp_now};
pub use env::{run_folder, state_place};
pub use host::{ask_host, call_host_tool, has_host, notify_host, notify_host_with};
pub(crate) use lists::entry_dicts;
pub use regex::wrong_pattern;
pub use terminal::{ask_terminal, has_terminal};

/// The tables of all functions, in the order of the reference.
pub fn builtins() -> Vec<&'static [Builtin]> {
    vec![
        output::OUTPUT,
        output::LOGGING,
        terminal::TERMINAL,
        terminal::COLOR,
        convert::CONVERSION,
        result::RESULTS,
        strings::STRINGS,
        strings::UNICODE,
        lists::LISTS,
        sets::SETS,
        iter::CONSTRUCTORS,
        stream::STREAM,
        event_log::EVENT_LOG,
        math::MATH,
        math::STATISTICS,
        random::RANDOM,
        json::JSON,
        jq::JQ,
        schema::SCHEMAS,
        regex::REGEX,
        bytes::BYTES,
        bytes::ENCODINGS,
        digests::DIGESTS,
        csv::CSV,
        yaml::YAML,
        toml::TOML,
        url::URLS,
        random::UUIDS,
        time::TIME,
        dates::DATES,
        durations::DURATIONS,
        files::FILES,
        paths::PATHS,
        env::ENVIRONMENT,
        process::PROCESS,
        assert::ERRORS,
        own_args::OWN_ARGS,
        snapshot::SNAPSHOTS,
        junit::JUNIT,
        http::HTTP,
        host::HOST,
        store::STORE,
        circuit::CIRCUITS,
        spans::SPANS,
    ]
}

/// Names that are values, not functions.
pub fn globals() -> Vec<(&'static str, Value)> {
    vec![("pi", Value::float(std::f64::consts::PI)), ("e", Value::float(std::f64::consts::E))]
}
