//! The specs of the role runtime as pure values: tools, agents, plans, references, approvals, and the runtime spec with
//! its camelCase wire form. Nothing here calls a model, executes a tool or accesses a store.
//!
//! Read [`agent`] and [`runtime`] first; [`wire`] is the JSON form in both directions; [`conversation`] converts
//! messages to the program that an interpreter receives.

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

/// An invalid spec. The display form is the error that a script catches.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HarnessError {
    /// A constructor received an unknown key.
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
        /// The expected type.
        expected: &'static str,
    },
    /// A schema is neither a JSON Schema nor a type map.
    #[error("{0}: unsupported schema")]
    Schema(String),
    /// An approval has an unknown form.
    #[error("{0}: approval must be 'never', 'always', or a dynamic policy")]
    Approval(String),
    /// A dynamic approval has no binding.
    #[error("{0}: approval dynamic value must be a non-empty binding id")]
    DynamicApproval(String),
    /// A prompt is neither a string nor layered.
    #[error("prompt must be a string or LayeredPrompt")]
    Prompt,
    /// A coordinator has no route.
    #[error("define_coordinator requires at least one route")]
    NoRoute,
    /// A rule is for a tool without a name.
    #[error("tool_approvals keys must be non-empty tool names")]
    ToolApprovalName,
    /// An alias is for an unknown plan status.
    #[error("unsupported plan display status `{0}`")]
    PlanStatus(String),
    /// The discriminator does not distinguish the variants of a union.
    #[error("tagged_union: {0}")]
    TaggedUnion(String),
    /// Specs contradict each other.
    #[error("define_runtime: {0}")]
    Runtime(String),
    /// A wire form is not a valid runtime spec.
    #[error("runtime spec: {0}")]
    Wire(String),
    /// A list of messages has no user message.
    #[error("Conversation must contain at least one user message")]
    NoUserMessage,
    /// A tool description did not render.
    #[error(transparent)]
    Prose(#[from] ProseError),
}
