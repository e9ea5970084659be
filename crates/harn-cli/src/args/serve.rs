//! The arguments of `harn serve`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// How a program is served.
#[derive(Debug, Subcommand)]
pub(crate) enum Serve {
    /// Serve a program as an agent of the Agent Client Protocol, on standard input and output.
    ///
    /// The program runs once for each prompt, which is its task. What its loops say and what it prints goes to the client.
    Acp(AcpArgs),
    /// Serve a program as a server of the Model Context Protocol, on standard input and output or over HTTP.
    ///
    /// The program runs once. What it has registered by then with `mcp_tools`, `mcp_resource`, `mcp_resource_template` and
    /// `mcp_prompt` is offered; without any of these, the functions and tools that it exports with `pub`. What it prints goes to
    /// standard error.
    Mcp(McpArgs),
}

/// Arguments of `harn serve mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// The program.
    pub(crate) file: PathBuf,
    /// How messages come and go.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) transport: Transport,
    /// With --transport http: where to listen, as HOST:PORT; port 0 is any free one (default: 127.0.0.1:8765).
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) bind: Option<String>,
    /// With --transport http: the path that messages are sent to (default: /mcp).
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// With --transport http: a JSON file that says what the server is; it is at /.well-known/mcp.json.
    #[arg(long, value_name = "FILE")]
    pub(crate) card: Option<PathBuf>,
    /// With --transport http: clients must have this key; the variable HARN_SERVE_API_KEY keeps it out of lists of processes.
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// With --transport http: clients may sign requests with this secret in place of a key.
    #[arg(long, value_name = "SECRET")]
    pub(crate) hmac_secret: Option<String>,
    /// Answer model calls from this file of recorded replies (JSON Lines).
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_mock: Option<PathBuf>,
}

/// How messages of a server come and go.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum Transport {
    /// A message a line, on standard input and output.
    #[default]
    Stdio,
    /// A request for each message.
    Http,
}

/// Arguments of `harn serve acp`.
#[derive(Debug, Args)]
pub(crate) struct AcpArgs {
    /// The program.
    pub(crate) file: PathBuf,
    /// Answer the model calls of each session from this file of recorded replies (JSON Lines).
    #[arg(long, value_name = "FILE")]
    pub(crate) llm_mock: Option<PathBuf>,
}
