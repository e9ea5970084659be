//! What can be said of a program before it runs: names, calls, streams, dead code; and of the prompt templates it
//! renders. Nothing is executed.
//!
//! - [`check_program`] runs before every `harn run`. It is one walk over the syntax tree of one file; imported files
//!   are read only when a name is left that they could explain. An error of this pass means that the program is not
//!   run, so it reports one only when the program cannot be right.
//! - [`check_templates`] is the preflight of `harn check`: it reads what literal `render(...)` calls name, follows
//!   includes, and compares the bindings with the names that the templates use.
//! - [`check_invariants`] looks whether what `@invariant("NAME")` promises of a function holds on all ways that lead out of it.
//! - [`lint_program`] runs the rules of `harn lint` for programs.
//! - [`lint_template_file`] runs the template rules of `harn lint` with the [`Settings`] of the manifest.
//!
//! The crate knows neither values nor the machine: names of builtins come in as [`Signatures`], embedded modules and
//! prompts as functions of the [`World`].
//!
//! Read `walk.rs` first: it keeps the scopes and calls the checks, of which there is one per file in `checks/`; what they share
//! is in `pass.rs`. `scope.rs` leads from the use of a name to its definition, `types/` holds what types are and which fit,
//! `infer/` tells the type of an expression, `flow.rs` what conditions add to that, as `facts.rs`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

mod call_sites;
mod checks;
mod codes;
mod examples;
mod facts;
mod flow;
mod imports;
mod infer;
mod invariants;
mod lints;
mod pass;
mod preflight;
mod scope;
mod settings;
mod strict;
mod tell;
mod told;
mod types;
mod walk;
mod world;

pub use call_sites::{CallSite, SiteArgument, call_sites};
pub use checks::hidden_division::hidden_divisions;
pub use codes::{CODES, CodeDoc, is_certain, is_error, is_slip};
pub use examples::{EXAMPLES, Example, example};
pub use invariants::{INVARIANTS, Step, Violation, check_invariants, has_handler, is_act, written_paths};
pub use lints::{LAYOUT_RULES, MaxTools, lint_program, lint_template_file};
pub use preflight::{Bundle, BundledAsset, Located, Quiet, bundle_of, check_templates};
pub use settings::{PreflightSeverity, RuleFilter, Settings, manifest_file, read_operations};
pub use strict::strict_types;
pub use tell::types_of;
pub use told::{Told, ToldMember, ToldType};
pub use walk::check_program;
pub use world::{Signatures, Source, World};
