//! Where the sources of a program lie: which folder is the project's root, which file an import means, and what it says.
//! Running, checking and linting ask here, so that they cannot disagree.
//!
//! This crate reads files through [`Files`], and knows nothing of what a program does. Read `imports.rs` first.
//!
//! | File | What it holds |
//! | --- | --- |
//! | `files` | how the front end looks at files |
//! | `imports` | from the text of an import to the file that it means |
//! | `packages` | installed packages and their `[exports]` |
//! | `roots` | the project that a folder belongs to |
//! | `trust` | which manifests may start programs and name addresses |
//! | `sources` | the files that were read, each once, with text and tree |
//! | `error` | imports that lead nowhere |
//! | `names` | what the names of a file stand for |
//! | `edits` | edits of a text |
//! | `exports` | the declarations that a file gives to others |

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
