//! The functions, one file per topic.

use harn_value::Value;
use harn_vm::Builtin;

mod assert;
mod bytes;
mod convert;
mod dates;
mod env;
mod files;
mod iter;
mod json;
mod lists;
mod math;
mod output;
mod paths;
mod process;
mod random;
mod regex;
mod result;
pub(crate) mod sets;
mod strings;
mod terminal;
mod time;

pub(crate) use lists::entry_dicts;

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
        math::MATH,
        math::STATISTICS,
        random::RANDOM,
        json::JSON,
        regex::REGEX,
        bytes::BYTES,
        bytes::ENCODINGS,
        random::UUIDS,
        time::TIME,
        files::FILES,
        paths::PATHS,
        env::ENVIRONMENT,
        process::PROCESS,
        assert::ERRORS,
    ]
}

/// Names that are values, not functions.
pub fn globals() -> Vec<(&'static str, Value)> {
    vec![("pi", Value::float(std::f64::consts::PI)), ("e", Value::float(std::f64::consts::E))]
}
