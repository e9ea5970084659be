//! Schemas: dicts that describe values. JSON Schema spellings are accepted everywhere.
//!
//! The crate has one table of type names ([`words`]), one canonical form of schemas ([`canonical()`]), one
//! conversion to JSON Schema, and one set of validation messages. It does not depend on the virtual machine or on
//! models.
//!
//! | File | Content |
//! | --- | --- |
//! | `words` | type names in Harn and in JSON Schema |
//! | `canonical` | the canonical form of a schema |
//! | `check` | validation of a value, with defaults |
//! | `convert` | conversion of a canonical schema to JSON Schema or OpenAPI |
//! | `json` | conversion of serialized schemas to JSON Schema |
//! | `fits` | validation of JSON with full JSON Schema (feature `json`) |
//! | `minimal` | the smallest value of a schema |
//! | `complaint` | validation messages |
//! | `lead` | fast path to the groups of patterns with a literal prefix |
//! | `pattern` | compiled regular expressions |
//! | `partial` | schemas of values that have not arrived completely |
//! | `near` | similar names for suggestions |
//! | `options` | option dicts described by structs |
//! | `shape` | checks of options in dicts of data |
//! | `written` | typos in handwritten schemas |
//! | `search` | interruptible searches in large strings |

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
pub mod partial;
mod pattern;
pub mod search;
pub mod shape;
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
