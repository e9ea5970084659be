//! Schemas: dicts that describe values, with JSON Schema spellings accepted everywhere.
//!
//! There is one table of type words ([`words`]), one form that every schema is brought into ([`canonical()`]), one way
//! to write one as JSON Schema, and one set of messages about values that do not fit. Nothing here knows of the machine or of models.
//!
//! | File | What it holds |
//! | --- | --- |
//! | `words` | the words for types, in Harn and in JSON Schema |
//! | `canonical` | the one form of a schema |
//! | `check` | validation of a value, with defaults |
//! | `convert` | a canonical schema as JSON Schema or OpenAPI |
//! | `json` | schemas that travel as JSON: to JSON Schema, as they are |
//! | `fits` | validation of JSON by all of JSON Schema (feature `json`) |
//! | `minimal` | the smallest value of a schema |
//! | `complaint` | what is said about a value that does not fit |
//! | `lead` | a shorter way to the groups of patterns that begin with a text |
//! | `pattern` | compiled regular expressions |
//! | `near` | the name that was meant |
//! | `options` | option dicts that structs describe |
//! | `written` | slips in schemas that people write |
//! | `search` | searches in large texts that can be stopped |

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod canonical;
mod check;
mod complaint;
mod convert;
#[cfg(feature = "json")]
mod fits;
mod json;
mod lead;
mod minimal;
mod near;
pub mod options;
mod pattern;
pub mod search;
pub mod words;
mod written;

pub use canonical::{SchemaError, canonical};
pub use check::check;
pub use convert::{Dialect, to_json_schema};
#[cfg(feature = "json")]
pub use fits::{compile_error, errors, with_ints};
pub use json::{as_json_schema, hoisted};
pub use minimal::minimal;
pub use near::nearest;
pub use pattern::{Pattern, compiled};
pub use written::{meant_type, slip};

use harn_value::with_stack;
