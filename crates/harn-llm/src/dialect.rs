//! Server dialects: differences between servers that share a wire format.

use serde::Deserialize;

/// The dialect of a server: its requirements, extensions and deviations beyond its wire format.
#[derive(Debug, Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// The wire format without deviations.
    #[default]
    Plain,
    /// Anthropic's servers.
    Anthropic,
    /// OpenAI's servers, which also offer the Responses API.
    Openai,
    /// OpenAI models on Azure; the deployment is part of the URL.
    Azure,
    /// Google Vertex AI; project and location are part of the URL.
    Vertex,
    /// Amazon Bedrock; requests are signed.
    Bedrock,
    /// Ollama, with its own endpoint and an OpenAI-compatible one.
    Ollama,
    /// OpenRouter, with its own option for thinking.
    Openrouter,
    /// The mock, which imitates other providers.
    Mock,
}
