//! Tests of the formatter.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "these are tests")]

mod corpus;
mod layout;
