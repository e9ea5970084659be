//! Tools and the agent loop.
