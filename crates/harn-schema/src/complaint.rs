//! Messages about values that do not match a schema.

use std::fmt::{self, Display};

/// A validation message without the path.
pub(crate) enum Complaint<'a> {
    Type { expected: &'a str, got: &'a str },
    Constant { expected: &'a dyn Display, got: &'a dyn Display },
    NotOneOf(&'a dyn Display),
    NoBranch,
    Below { limit: &'a dyn Display, got: &'a dyn Display },
    Above { limit: &'a dyn Display, got: &'a dyn Display },
    Shorter { limit: &'a dyn Display, got: usize },
    Longer { limit: &'a dyn Display, got: usize },
    Fewer { limit: &'a dyn Display, got: usize },
    More { limit: &'a dyn Display, got: usize },
    Pattern(&'a str),
    BrokenPattern { pattern: &'a str, reason: &'a str },
    Missing(&'a dyn Display),
    Unexpected(&'a str),
    Reference(&'a str),
}

impl Display for Complaint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Complaint::Type { expected, got } => write!(f, "expected type '{expected}', got '{got}'"),
            Complaint::Constant { expected, got } => write!(f, "expected constant {expected}, got {got}"),
            Complaint::NotOneOf(allowed) => write!(f, "value must be one of {allowed}"),
            Complaint::NoBranch => write!(f, "value did not match any union branch"),
            Complaint::Below { limit, got } => write!(f, "expected value >= {limit}, got {got}"),
            Complaint::Above { limit, got } => write!(f, "expected value <= {limit}, got {got}"),
            Complaint::Shorter { limit, got } => write!(f, "expected length >= {limit}, got {got}"),
            Complaint::Longer { limit, got } => write!(f, "expected length <= {limit}, got {got}"),
            Complaint::Fewer { limit, got } => write!(f, "expected at least {limit} items, got {got}"),
            Complaint::More { limit, got } => write!(f, "expected at most {limit} items, got {got}"),
            Complaint::Pattern(pattern) => write!(f, "value does not match pattern '{pattern}'"),
            Complaint::BrokenPattern { pattern, reason } => {
                write!(f, "invalid regex pattern '{pattern}': {reason}")
            }
            Complaint::Missing(key) => write!(f, "missing required key '{key}'"),
            Complaint::Unexpected(key) => write!(f, "unexpected key '{key}'"),
            Complaint::Reference(to) => write!(f, "unresolved schema reference '{to}'"),
        }
    }
}
