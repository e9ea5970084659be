//! Locates the sources of a program: the root directory of the project, the file of each import, and its content.
//! The commands to run, check and lint programs all use this crate, so their results are consistent.
//!
//! The crate reads files through [`Files`] and does not depend on the semantics of programs. Read `imports.rs`
//! first.
//!
//! | File | Content |
//! | --- | --- |
//! | `files` | file access of the front end |
//! | `imports` | resolution of import paths to files |
//! | `packages` | installed packages and their `[exports]` |
//! | `roots` | the project that a directory belongs to |
//! | `trust` | manifests that may start programs and configure endpoints |
//! | `sources` | cache of files with their source and tree |
//! | `error` | errors of unresolvable imports |
//! | `names` | name resolution in a file |
//! | `edits` | source edits |
//! | `exports` | the declarations that a file exports |

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod edits;
mod error;
mod exports;
mod files;
mod imports;
mod names;
mod packages;
mod roots;
mod sources;
pub mod trust;

pub use edits::{apply_edits, edited_spans};
pub use error::ImportError;
pub use exports::{exports, is_hidden, selectable};
pub use files::{Files, Kind, MAX_BYTES, Through};
pub use imports::{StdModules, Target, resolve};
pub use names::{MemberUse, NameChanges, Names, Qualified, Symbol, SymbolId, SymbolKind, Use};
pub use roots::{manifest_near, project_root};
pub use sources::{Sources, Unit};
