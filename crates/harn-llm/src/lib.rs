//! Provider-neutral model calls: messages, wire formats, streaming, mock.
