//! Habits of servers.

use serde::Deserialize;

/// Whose habits a server has beyond its wire format: what it asks for, offers, and does differently.
#[derive(Debug, Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Those of the wire format alone.
    #[default]
    Plain,
    /// Anthropic's own servers.
    Anthropic,
    /// OpenAI's own servers, which have the Responses API, too.
    Openai,
    /// OpenAI's models at Azure: deployments stand in addresses.
    Azure,
    /// Google's cloud: project and location stand in addresses.
    Vertex,
    /// Amazon's cloud: requests are signed.
    Bedrock,
    /// Ollama, with an endpoint of its own and one like OpenAI's.
    Ollama,
    /// OpenRouter, with a word of its own for thinking.
    Openrouter,
    /// The mock, which imitates others.
    Mock,
}
