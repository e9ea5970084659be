//! Random numbers: the journal records one seed, from which all numbers are generated.
//!
//! Runs draw often, mostly ids; an entry per draw would dominate the journal. A resumed run continues its sequence:
//! numbers that were printed are not printed again. A fork draws a new seed, because it shares nothing with its
//! origin from there on.

use sha2::{Digest as _, Sha256};

/// Bytes of a seed.
pub(crate) const SEED: usize = 32;

/// Random numbers generated from a seed.
#[derive(Default)]
pub(crate) struct Chance {
    pub(crate) seed: Option<Vec<u8>>,
    /// Number of generated pieces.
    pub(crate) made: u64,
    /// Whether this process drew the seed, for live execution.
    pub(crate) is_own: bool,
}

impl Chance {
    /// Fills `bytes` with the next random bytes.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        // Without a seed the run has stopped, and the result is not used.
        let Some(seed) = &self.seed else { return };
        for piece in bytes.chunks_mut(SEED) {
            let made = Sha256::new().chain_update(seed).chain_update(self.made.to_le_bytes()).finalize();
            self.made += 1;
            piece.iter_mut().zip(made).for_each(|(byte, made)| *byte = made);
        }
    }
}
