//! The VM as a fuzz target.

/// Nothing yet.
pub(crate) fn check(_bytes: &[u8]) {}
