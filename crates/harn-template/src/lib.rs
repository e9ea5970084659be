//! The .harn.prompt template engine.
