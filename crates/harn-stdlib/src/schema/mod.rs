//! Schemas: dicts that describe values, with JSON Schema spellings accepted everywhere.
//!
//! [`canonical()`] brings a schema into one form, [`check()`] validates a value against one and gives the
//! normalized value, `convert.rs` translates from and to JSON Schema. Other crates validate structured
//! model answers with the same functions.

mod canonical;
mod check;
mod convert;

pub use canonical::{SchemaError, canonical};
pub use check::check;
pub use convert::{Dialect, to_json_schema};
