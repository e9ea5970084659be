//! The native module of the Python package `harn`.
//!
//! [`machine`], [`data`], [`host`] and [`pending`] run programs and convert values without Python types, so that their
//! tests need no interpreter. The module `python` binds them with PyO3; unit tests exclude it and link without
//! libpython.

pub mod data;
pub mod host;
pub mod machine;
pub mod pending;
#[cfg(not(test))]
mod python;
#[cfg(test)]
mod tests;
