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
    /// Methods of requests and notifications of the peer that callers receive. Of others, `ping` is answered, requests are
    /// rejected and notifications dropped.
    pub heard: Vec<String>,
}

/// A step of an exchange with a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerStep {
    /// Sends a request. Returns its answer, or a message of the peer that comes before.
    Ask,
    /// Sends the parameters as a message, unless they are `null`, and returns as [`PeerStep::Ask`].
    Continue,
    /// Returns a message of the peer that is there already, else nothing.
    Poll,
    /// Sends the parameters as a message, and returns nothing.
    Send,
}

/// A request to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerRequest {
    /// Who is asked.
    pub peer: Peer,
    /// Number of the exchange, which the caller chooses: a request, and what the peer says until it is answered.
    pub exchange: u64,
    /// What is done.
    pub step: PeerStep,
    /// The method. `initialize` gives what the peer said when the connection was opened.
    pub method: String,
    /// Its parameters, as JSON.
    pub params: String,
    /// How long the next message may take.
    pub timeout: Duration,
    /// What a run that goes on does with it when nobody knows whether it was carried out.
    pub uncertain: Uncertain,
}
