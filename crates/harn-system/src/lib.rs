//! The operating system as Harn sees it.
//!
//! - [`guard`] says which paths nothing may remove, move or replace.
//! - [`real`] does what is asked on the machine: files without surprises (only regular files are opened,
//!   replacing is atomic, one file is never source and target).

pub mod guard;
pub mod real;

pub use guard::Protected;
