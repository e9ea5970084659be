//! Programs that answer requests for as long as they run.

use std::time::Duration;

use crate::process::Command;
use crate::wait::Uncertain;

/// A program that speaks JSON-RPC 2.0 over its standard streams, one message a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Which connection: all requests with one id go to one process, which the first of them starts.
    pub id: String,
    /// How it is started. `max_output` is the most bytes of one message; `input` and `timeout` mean nothing.
    pub command: Command,
    /// The parameters of `initialize`, which is asked first on each connection, as JSON.
    pub hello: String,
}

/// A request to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerRequest {
    /// Who is asked.
    pub peer: Peer,
    /// The method. `initialize` gives what the peer said when the connection was opened.
    pub method: String,
    /// Its parameters, as JSON.
    pub params: String,
    /// How long the answer may take.
    pub timeout: Duration,
    /// What a run that goes on does with it when nobody knows whether it was carried out.
    pub uncertain: Uncertain,
}
