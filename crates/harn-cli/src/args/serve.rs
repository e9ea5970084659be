//! The arguments of `harn serve`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Subcommands of `harn serve`.
#[derive(Debug, Subcommand)]
pub(crate) enum Serve {
    /// Serve a program as an ACP agent.
    ///
    /// The agent speaks the Agent Client Protocol on standard input and output. The program runs once per prompt, with the
    /// prompt as its task. Messages of its agent loops and its output go to the client.
    Acp(AcpArgs),
    /// Serve a program as an MCP server.
    ///
    /// The server speaks the Model Context Protocol on standard input and output or over HTTP. The program runs once. The
    /// server offers what the program registers with `mcp_tools`, `mcp_resource`, `mcp_resource_template` and `mcp_prompt`;
    /// if it registers nothing, its `pub` functions and tools. The program's output goes to standard error.
    Mcp(McpArgs),
}

/// Arguments of `harn serve mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Program to serve
    pub(crate) file: PathBuf,
    /// Choose the transport
    #[arg(long, value_enum, default_value_t)]
    pub(crate) transport: Transport,
    /// Listen on HOST:PORT; requires `--transport http`
    ///
    /// Port 0 chooses a free port. Default: 127.0.0.1:8765.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) bind: Option<String>,
    /// Set the URL path; requires `--transport http`
    ///
    /// Default: /mcp.
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// Serve this server card; requires `--transport http`
    ///
    /// A JSON file that describes the server, served at /.well-known/mcp.json.
    #[arg(long, value_name = "FILE")]
    pub(crate) card: Option<PathBuf>,
    /// Require this API key; requires `--transport http`
    ///
    /// Set HARN_SERVE_API_KEY instead to hide the key from process lists.
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// Accept signed requests; requires `--transport http`
    ///
    /// Clients can sign requests with this secret instead of sending a key.
    #[arg(long, value_name = "SECRET")]
    pub(crate) hmac_secret: Option<String>,
    /// Answer model calls from recorded replies
    ///
    /// The file is written by `harn run --llm-mock-record` (JSON Lines).
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_mock: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) operation: super::OperationArgs,
}

/// The transports of an MCP server.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum Transport {
    /// Standard input and output, one message per line
    #[default]
    Stdio,
    /// HTTP, one request per message
    Http,
}

/// Arguments of `harn serve acp`.
#[derive(Debug, Args)]
pub(crate) struct AcpArgs {
    /// Program to serve
    pub(crate) file: PathBuf,
    /// Answer model calls from recorded replies
    ///
    /// Every session starts at the beginning of the file (JSON Lines).
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_mock: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) operation: super::OperationArgs,
}
