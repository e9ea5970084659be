//! The wire formats by name.

use serde::Deserialize;

use crate::sse::Framing;

/// The wire formats. Those that a provider may speak at its chat endpoint have a word in its table (`wire`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum WireStyle {
    /// Anthropic Messages.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// OpenAI Chat Completions and its many relatives.
    #[serde(rename = "openai_chat")]
    OpenAiChat,
    /// OpenAI Responses.
    #[serde(rename = "openai_responses")]
    OpenAiResponses,
    /// Ollama's `/api/chat`.
    #[serde(rename = "ollama_chat")]
    OllamaChat,
    /// Ollama's `/api/generate` with a prompt we render.
    #[serde(skip)]
    OllamaRaw,
    /// Google's `generateContent`.
    #[serde(rename = "gemini")]
    Gemini,
    /// Amazon's Converse.
    #[serde(rename = "bedrock")]
    Bedrock,
    /// OpenAI's text completions.
    #[serde(skip)]
    Completion,
    /// Ollama's `/api/generate` for text completions.
    #[serde(skip)]
    OllamaCompletion,
}

impl WireStyle {
    /// Returns the format of a provider's completion endpoint.
    pub(crate) fn of_completion(endpoint: &str) -> WireStyle {
        if endpoint.contains("/api/generate") { WireStyle::OllamaCompletion } else { WireStyle::Completion }
    }

    /// Returns whether text is continued, not a conversation.
    pub(crate) fn is_completion(self) -> bool {
        matches!(self, WireStyle::Completion | WireStyle::OllamaCompletion)
    }

    /// Returns the shape of native tools.
    pub(crate) fn tool_shape(self) -> ToolShape {
        match self {
            WireStyle::Anthropic => ToolShape::Anthropic,
            _ => ToolShape::OpenAi,
        }
    }

    /// Returns whether system messages may stand in the message list.
    pub(crate) fn has_system_role(self) -> bool {
        !matches!(self, WireStyle::Anthropic | WireStyle::Gemini | WireStyle::Bedrock)
    }

    /// Returns how the messages of a stream are separated.
    pub fn framing(self) -> Framing {
        match self {
            WireStyle::OllamaChat | WireStyle::OllamaRaw => Framing::Lines,
            _ => Framing::Sse,
        }
    }
}

/// The two shapes in which tool schemas travel and are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolShape {
    /// `{name, description, input_schema}`.
    Anthropic,
    /// `{type: "function", function: {name, description, parameters}}`.
    OpenAi,
}
