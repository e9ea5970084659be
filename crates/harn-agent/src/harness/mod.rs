//! The specs of the role runtime as pure values: tools, agents, plans, references, approvals, and the runtime spec with
//! its camelCase wire form. Nothing here calls a model, runs a tool or touches a store.
//!
//! Read [`agent`] and [`runtime`] first; [`wire`] is the JSON form both ways; [`conversation`] is the step from messages
//! to the program that an interpreter gets.

pub mod agent;
pub mod approval;
pub mod conversation;
mod fields;
pub mod plan;
pub mod runtime;
pub mod schema;
pub mod tool;
pub mod toolkit;
pub mod wire;

pub use agent::{AgentSpec, ModelSpec, Role, define_agent};
pub use approval::{Approval, Overrides, Patch, Policies, Subject};
pub use conversation::{ChatProgram, Conversation, chat_program, parse_conversation};
pub use fields::named_config;
pub use plan::{PlanSpec, ReferenceSpec, define_plan, define_reference, tagged_union};
pub use runtime::{Registration, RuntimeSpec, Tenant, define_runtime, define_tenant};
pub use schema::lower_schema;
pub use tool::{ToolSpec, define_tool};
pub use toolkit::{ToolkitDescriptions, ToolkitSpec, define_toolkit};
pub use wire::{runtime_spec_json, runtime_spec_of_record, runtime_spec_parse};

use harn_prompt::prose::ProseError;

/// A spec that is refused. The display form is what a script catches.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HarnessError {
    /// A constructor got a key it does not know.
    #[error("{function}: unknown key '{key}'")]
    UnknownKey {
        /// The constructor.
        function: String,
        /// The key.
        key: String,
    },
    /// A field is missing or has a wrong type.
    #[error("{function}: {field} must be {expected}")]
    Field {
        /// The constructor.
        function: String,
        /// The field's name.
        field: String,
        /// What it must be.
        expected: &'static str,
    },
    /// A schema is neither a JSON Schema nor a type map.
    #[error("{0}: unsupported schema")]
    Schema(String),
    /// An approval has none of the known forms.
    #[error("{0}: approval must be 'never', 'always', or a dynamic policy")]
    Approval(String),
    /// A dynamic approval names no binding.
    #[error("{0}: approval dynamic value must be a non-empty binding id")]
    DynamicApproval(String),
    /// A prompt is neither text nor layered.
    #[error("prompt must be a string or LayeredPrompt")]
    Prompt,
    /// A coordinator hands its work to nobody.
    #[error("define_coordinator requires at least one route")]
    NoRoute,
    /// A rule is given for a tool without a name.
    #[error("tool_approvals keys must be non-empty tool names")]
    ToolApprovalName,
    /// An alias is given for a status that plans do not have.
    #[error("unsupported plan display status `{0}`")]
    PlanStatus(String),
    /// A union cannot be told apart by its discriminator.
    #[error("tagged_union: {0}")]
    TaggedUnion(String),
    /// Specs that do not fit together.
    #[error("define_runtime: {0}")]
    Runtime(String),
    /// A wire form that is no runtime spec.
    #[error("runtime spec: {0}")]
    Wire(String),
    /// A list of messages without a question.
    #[error("Conversation must contain at least one user message")]
    NoUserMessage,
    /// A tool description did not render.
    #[error(transparent)]
    Prose(#[from] ProseError),
}
