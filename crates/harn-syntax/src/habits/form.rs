//! What a row of the tables of forms says.

use regex::Captures;

/// How the part that a pattern found is written in Harn.
pub(super) enum Fix {
    /// By a text with `$1` or `${name}` for the groups of the pattern.
    By(&'static str),
    /// By a function, where a template does not do.
    With(fn(&Captures<'_>) -> String),
    /// Not by changing this line.
    None,
}

/// Rows of pattern, replacement, and the difference in a few words.
pub(super) type Table = &'static [(&'static str, Fix, &'static str)];
