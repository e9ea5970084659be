//! Prompt assembly: an ordered list of fragments becomes one system prompt, and every byte of it can be explained.
//!
//! The crate is pure. It reads no file, no clock and no environment, calls no model and knows nothing of the VM: values
//! come in as [`harn_value::Data`] (see [`value`] for what JSON cannot say) and prose comes in through [`Prose`].
//!
//! Read in this order:
//!
//! | Module | Idea |
//! |---|---|
//! | [`fragment`], [`mod@reduce`] | what a fragment is; the one function that makes text of a list of them |
//! | [`options`] | the options of a call, turned into that list in a fixed order |
//! | [`turn`] | the decomposed primary block of an agent's turn |
//! | [`mod@explain`], [`mod@compare`], [`stability`], [`view`] | why a sentence is there, what would be there without a tool, for programs and for people |
//! | [`reminder`] | fragments with a life span |
//! | [`layered`] | prompts from explicit layers |
//! | [`mentions`] | the tools that a text speaks of |
//! | [`untrusted`] | content from outside inside the frames of the runtime |
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

/// The README, so that its example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
