//! The row type of the tables of foreign syntax forms.

use regex::Captures;

/// How the matched part is written in Harn.
pub(super) enum Fix {
    /// Replaced by a template with `$1` or `${name}` for the groups of the pattern.
    By(&'static str),
    /// Replaced by a function, if a template is not sufficient.
    With(fn(&Captures<'_>) -> String),
    /// Cannot be fixed by changing this line.
    None,
}

/// Rows of pattern, replacement, and a short explanation.
pub(super) type Table = &'static [(&'static str, Fix, &'static str)];
