//! Long-running programs that answer requests.

use std::time::Duration;

use crate::process::Command;
use crate::wait::Uncertain;

/// A program that speaks JSON-RPC 2.0 over its standard streams, one message per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Id of the connection: all requests with the same id go to one process, which the first request starts.
    pub id: String,
    /// The command. `max_output` limits the bytes of one message; `input` and `timeout` are ignored.
    pub command: Command,
    /// The parameters of `initialize`, the first request on each connection, as JSON.
    pub hello: String,
    /// Methods of requests and notifications of the peer that callers receive. Of the others, `ping` is answered,
    /// requests are rejected and notifications dropped.
    pub heard: Vec<String>,
}

/// A step of an exchange with a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerStep {
    /// Sends a request. Returns its response, or a message that the peer sends before it.
    Ask,
    /// Sends the parameters as a message, unless they are `null`, and returns as [`PeerStep::Ask`] does.
    Continue,
    /// Returns a message of the peer that has already arrived, or nothing.
    Poll,
    /// Sends the parameters as a message and returns nothing.
    Send,
}

/// A request to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerRequest {
    /// The peer.
    pub peer: Peer,
    /// Number of the exchange, chosen by the caller: a request and the messages of the peer until its response.
    pub exchange: u64,
    /// The step to perform.
    pub step: PeerStep,
    /// The method. `initialize` returns the response from the opening of the connection.
    pub method: String,
    /// The parameters, as JSON.
    pub params: String,
    /// Time limit for the next message.
    pub timeout: Duration,
    /// How a resumed run treats the request if it is unknown whether it was executed.
    pub uncertain: Uncertain,
}
