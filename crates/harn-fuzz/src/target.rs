//! What is fuzzed, and what must hold for every input.

use crate::generate;
use crate::rng::Rng;

/// A part of Harn that reads text from outside.
pub(crate) struct Target {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Folder under `fuzz/corpus` with its inputs.
    pub(crate) corpus: &'static str,
    /// End of the names of further files that serve as inputs.
    pub(crate) extension: &'static str,
    /// Writes a well-formed input.
    pub(crate) generate: fn(&mut Rng) -> Vec<u8>,
    /// Panics if a property does not hold.
    pub(crate) check: fn(&[u8]),
}

/// All targets.
pub(crate) static TARGETS: &[Target] = &[];

#[allow(dead_code)]
fn program(rng: &mut Rng) -> Vec<u8> {
    generate::program(rng).into_bytes()
}
