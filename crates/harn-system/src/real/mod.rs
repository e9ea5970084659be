//! The machine itself.

pub mod files;
mod replace;

pub use replace::Replacement;
