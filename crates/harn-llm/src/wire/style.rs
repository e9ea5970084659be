//! The names of the wire formats.

use harn_value::Data as Value;
use serde::Deserialize;

use crate::sse::Framing;

/// The wire formats. Those that a chat endpoint may use have a name for the provider's table (`wire`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub enum WireStyle {
    /// Anthropic Messages.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// OpenAI Chat Completions and its many variants.
    #[serde(rename = "openai_chat")]
    OpenAiChat,
    /// OpenAI Responses.
    #[serde(rename = "openai_responses")]
    OpenAiResponses,
    /// Ollama's `/api/chat`.
    #[serde(rename = "ollama_chat")]
    OllamaChat,
    /// Ollama's `/api/generate` with a prompt rendered here.
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

    /// Returns whether the format is for text completion instead of chat.
    pub(crate) fn is_completion(self) -> bool {
        matches!(self, WireStyle::Completion | WireStyle::OllamaCompletion)
    }

    /// Returns the format name that messages store with provider data.
    pub(crate) fn word(self) -> &'static str {
        match self {
            WireStyle::Anthropic => "anthropic",
            WireStyle::OpenAiChat => "openai_chat",
            WireStyle::OpenAiResponses => "openai_responses",
            WireStyle::OllamaChat => "ollama_chat",
            WireStyle::OllamaRaw => "ollama_raw",
            WireStyle::Gemini => "gemini",
            WireStyle::Bedrock => "bedrock",
            WireStyle::Completion => "completion",
            WireStyle::OllamaCompletion => "ollama_completion",
        }
    }

    /// Returns the shape of native tools.
    pub(crate) fn tool_shape(self) -> ToolShape {
        match self {
            WireStyle::Anthropic => ToolShape::Anthropic,
            _ => ToolShape::OpenAi,
        }
    }

    /// Returns whether a tool result may contain images and documents. In other formats they come after the results.
    pub(crate) fn has_media_in_results(self) -> bool {
        matches!(self, WireStyle::Anthropic | WireStyle::Bedrock | WireStyle::OpenAiResponses)
    }

    /// Returns whether a tool represents a structured reply for models without a reply format.
    pub(crate) fn has_reply_tool(self) -> bool {
        matches!(self, WireStyle::Anthropic | WireStyle::Bedrock)
    }

    /// Returns whether the message list may contain system messages.
    pub(crate) fn has_system_role(self) -> bool {
        !matches!(self, WireStyle::Anthropic | WireStyle::Gemini | WireStyle::Bedrock)
    }

    /// Returns whether the format supports a block of a type that this crate does not know, in turns of the model or
    /// the user.
    pub(crate) fn has_block(self, block: &Value, of_model: bool) -> bool {
        let kind = crate::json::str_at(block, "type").unwrap_or_default();
        match (self, of_model) {
            (WireStyle::Anthropic, false) => {
                matches!(kind, "document" | "search_result" | "container_upload")
            }
            (WireStyle::Anthropic, true) => {
                matches!(kind, "redacted_thinking" | "server_tool_use" | "mcp_tool_use" | "mcp_tool_result")
                    || kind.ends_with("tool_result")
            }
            (WireStyle::OpenAiChat, false) => matches!(kind, "image_url" | "input_audio" | "file"),
            (WireStyle::OpenAiChat, true) => kind == "refusal",
            (WireStyle::OpenAiResponses, false) => {
                matches!(kind, "input_image" | "input_file" | "input_audio")
            }
            (WireStyle::OpenAiResponses, true) => kind == "refusal",
            _ => false,
        }
    }

    /// Returns how the messages of a stream are separated.
    pub fn framing(self) -> Framing {
        match self {
            WireStyle::OllamaChat | WireStyle::OllamaRaw => Framing::Lines,
            WireStyle::Bedrock => Framing::EventStream,
            _ => Framing::Sse,
        }
    }
}

/// The two shapes in which tool schemas are sent and recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolShape {
    /// `{name, description, input_schema}`.
    Anthropic,
    /// `{type: "function", function: {name, description, parameters}}`.
    OpenAi,
}
