//! Errors of a loop's settings.

/// An invalid option, detected before the first request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);
