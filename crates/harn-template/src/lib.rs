//! The `.harn.prompt` template engine: text with `{{ directives }}` is parsed to a [`Template`], which can be
//! rendered with Harn values any number of times. Rendering is deterministic.
//! ```
//! use harn_template::{RenderContext, Template};
//! use harn_value::{Dict, Value};
//!
//! let template = Template::inline("Hello {{ name | default: \"you\" }}!").unwrap();
//! let bindings: Dict = [("name", Value::str("Ada"))].into_iter().collect();
//! assert_eq!(template.render(&Value::dict(bindings), &RenderContext::default()).unwrap(), "Hello Ada!");
//! ```
//!
//! The stages: `scan.rs` splits the source into pieces and applies trim markers, `compile.rs` compiles pieces to
//! the flat instructions of `program.rs` with `directive.rs` and `expr/`, and `render.rs` executes them with a
//! `frame.rs` frame per included template. Read `program.rs` first.
//!
//! The three tables [`FILTERS`], [`SECTIONS`] and [`ERRORS`] define filters, sections and errors; the reference
//! page is generated from them. The engine does not depend on the virtual machine and performs no I/O: files and
//! embedded templates are read through a [`Loader`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

mod analysis;
mod cache;
mod compile;
mod directive;
mod error;
mod eval;
mod expr;
mod filters;
mod form;
mod frame;
mod fs_loader;
mod lint;
mod loader;
mod paths;
mod program;
mod record;
mod reference;
mod render;
mod scan;
mod sections;
mod template;

pub use analysis::{FreeName, FreeNames, IncludeSite};
pub use cache::TemplateCache;
pub use error::{ERRORS, ErrorDoc, ErrorKind, TemplateError};
pub use filters::{FILTERS, FilterSpec};
pub use fs_loader::FsLoader;
pub use lint::{CAPABILITIES, Finding, LintSettings, RULES, RuleDoc, Severity, lint};
pub use loader::{AssetLoader, Assets, Caller, Loaded, Loader, Origin};
pub use paths::{absolute_folder, is_project_path, project_root};
pub use program::MAX_TEMPLATE_BYTES;
pub use record::{Branch, Rendered, Span, SpanKind};
pub use reference::reference;
pub use render::{MAX_INCLUDES, OnUnbound, RenderContext, Unbound};
pub use sections::{EnvelopeDoc, SECTIONS, SectionSpec};
pub use template::Template;

/// Includes the README, so that its example is tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
