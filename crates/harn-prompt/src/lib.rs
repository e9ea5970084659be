//! Prompt assembly: combines an ordered list of fragments to one system prompt, and explains the origin of every byte.
//!
//! The crate is pure. It does not access files, clock or environment, calls no model and does not depend on the VM.
//! Values are passed as [`harn_value::Data`] (see [`value`] for helpers), prompt templates through [`Prose`].
//!
//! Read in this order:
//!
//! | Module | Content |
//! |---|---|
//! | [`fragment`], [`mod@reduce`] | fragments, and the function that reduces a list of them to a prompt |
//! | [`options`] | converts the options of a call to that list, in a fixed order |
//! | [`turn`] | the primary block of an agent's turn, as separate fragments |
//! | [`mod@explain`], [`mod@compare`], [`stability`], [`view`] | why a fragment is included, and how the prompt differs without a tool, for programs and users |
//! | [`reminder`] | fragments with a limited lifetime |
//! | [`layered`] | prompts from explicit layers |
//! | [`mentions`] | the tools that a prompt mentions |
//! | [`untrusted`] | untrusted content inside the frames of the runtime |
//!
//! ```
//! use harn_prompt::prompt_explain;
//! use harn_value::json;
//!
//! let explained = prompt_explain(&json!({
//!     "system": "You help.",
//!     "tools": [{"name": "todo", "guidance": "Tick items."}, {"name": "read"}],
//! }))?;
//! assert_eq!(explained["system"], "You help.\n\nTick items.");
//! assert_eq!(explained["fragments"][1]["reason"], "tool(s) present: todo");
//! # Ok::<(), harn_prompt::OptionError>(())
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

pub mod compare;
pub mod explain;
pub mod fragment;
pub mod layered;
pub mod mentions;
pub mod options;
pub mod prose;
pub mod reduce;
pub mod reminder;
pub mod stability;
pub mod turn;
pub mod untrusted;
pub mod value;
pub mod view;

pub use compare::{Change, Difference, compare};
pub use explain::{Explanation, explain, prompt_explain, system_prompt_record};
pub use fragment::{Bucket, Fragment};
pub use layered::{LayeredPrompt, augment_prompt_tools, layered_prompt};
pub use options::{CallParts, OptionError, active_caps, active_tools, assemble, declare, tool_guidance};
pub use prose::{FixedProse, Prose, ProseError};
pub use reduce::{Assembly, Provenance, Reason, reduce};
pub use stability::{Stability, StabilityReport, stability_report};
pub use turn::{ToolListing, TurnError, TurnInput, turn_fragments, turn_system};

/// Includes the README, so that its example is tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
