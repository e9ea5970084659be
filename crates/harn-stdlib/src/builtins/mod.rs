//! The builtin functions, one file per topic.

use harn_value::Value;
use harn_vm::Builtin;

mod assert;
mod bytes;
mod circuit;
mod compress;
mod convert;
mod cookies;
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
mod jwt;
mod key_pairs;
mod lists;
mod math;
mod metadata;
mod multipart;
mod output;
mod own_args;
mod paths;
mod process;
mod random;
mod regex;
mod result;
mod schema;
pub(crate) mod sets;
mod signed_url;
mod snapshot;
mod spans;
mod store;
mod stream;
mod strings;
mod supervisor;
mod terminal;
mod time;
mod toml;
mod transport;
mod url;
mod yaml;

pub use bytes::constant_time_equal;
pub(crate) use bytes::from_hex;
pub use dates::{iso_millis, timestamp_now};
pub use digests::hmac_sha256;
pub use env::{run_folder, state_place};
pub use host::{ask_host, call_host_tool, has_host, notify_host, notify_host_with};
pub(crate) use lists::entry_dicts;
pub use regex::wrong_pattern;
pub use terminal::{ask_terminal, has_terminal};

/// Returns the tables of all functions, in the order of the reference.
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
        compress::COMPRESSION,
        multipart::MULTIPART,
        key_pairs::KEY_PAIRS,
        jwt::TOKENS,
        signed_url::SIGNED_URLS,
        cookies::COOKIES,
        cookies::SESSIONS,
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
        transport::TRANSPORT,
        host::HOST,
        store::STORE,
        metadata::METADATA,
        circuit::CIRCUITS,
        supervisor::SUPERVISORS,
        spans::SPANS,
    ]
}

/// Returns the names that are values, not functions.
pub fn globals() -> Vec<(&'static str, Value)> {
    vec![("pi", Value::float(std::f64::consts::PI)), ("e", Value::float(std::f64::consts::E))]
}
