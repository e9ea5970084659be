//! Static checks of a program: names, calls, streams, dead code; and of the prompt templates that it renders. Nothing
//! is executed.
//!
//! - [`check_program`] runs before every `harn run`. It is one walk over the syntax tree of one file; imported files
//!   are read only if an unresolved name remains. An error of this pass prevents the run, so the pass reports an
//!   error only if the program is certainly wrong.
//! - [`check_templates`] is the preflight of `harn check`: it reads the templates of literal `render(...)` calls,
//!   follows includes, and compares the bindings with the names that the templates use.
//! - [`check_invariants`] verifies that `@invariant("NAME")` holds on all paths out of a function.
//! - [`lint_program`] runs the rules of `harn lint` for programs.
//! - [`withdraw_unproven`] removes the fixes that may change the meaning of the program.
//! - [`lint_template_file`] runs the template rules of `harn lint` with the [`Settings`] of the manifest.
//!
//! The crate does not know values and the virtual machine: [`Signatures`] provide the names of builtins, functions of
//! the [`World`] provide embedded modules and prompts.
//!
//! Read `walk.rs` first: it maintains the scopes and calls the checks, one per file in `checks/`; `pass.rs` has their
//! shared state. `scope.rs` resolves names to definitions, `types/` defines types and their compatibility, `infer/`
//! infers the type of an expression, `flow.rs` and `facts.rs` narrow types by conditions.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

mod call_sites;
mod checks;
mod codes;
mod examples;
mod facts;
mod fixes;
mod flow;
mod imports;
mod infer;
mod invariants;
mod lints;
mod pass;
mod preflight;
mod retry;
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
pub use fixes::{compatible_fixes, withdraw_unproven};
pub use invariants::{INVARIANTS, Step, Violation, check_invariants, has_handler, is_act, written_paths};
pub use lints::{LAYOUT_RULES, MaxTools, lint_program, lint_template_file};
pub use preflight::{Bundle, BundledAsset, Located, Quiet, bundle_of, check_templates};
pub use retry::RetryPolicy;
pub use settings::{
    PreflightSeverity, Queue, RuleFilter, Runs, Settings, flat_values, manifest_file, read_operations,
    unknown_tables,
};
pub use strict::strict_types;
pub use tell::types_of;
pub use told::{Told, ToldMember, ToldType};
pub use types::is_builtin_type;
pub use walk::check_program;
pub use world::{Signatures, Source, World};
