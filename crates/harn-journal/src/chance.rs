//! Random numbers: one draw is written down, and all that follow are made of it.
//!
//! A run draws often, mostly ids, so a draw of its own for each would be most of its journal. A run that is resumed goes on with
//! the same numbers: what was printed of them is not printed again. A fork draws anew: it has nothing in common from there on.

use sha2::{Digest as _, Sha256};

/// What is drawn at once.
pub(crate) const SEED: usize = 32;

/// Numbers made of a seed.
#[derive(Default)]
pub(crate) struct Chance {
    pub(crate) seed: Option<Vec<u8>>,
    /// How many pieces were made of it.
    pub(crate) made: u64,
    /// Whether it was drawn by this process, for what happens live.
    pub(crate) is_own: bool,
}

impl Chance {
    /// Fills bytes with the next pieces.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        // Without a seed the run has stopped, and nobody sees what becomes of it.
        let Some(seed) = &self.seed else { return };
        for piece in bytes.chunks_mut(SEED) {
            let made = Sha256::new().chain_update(seed).chain_update(self.made.to_le_bytes()).finalize();
            self.made += 1;
            piece.iter_mut().zip(made).for_each(|(byte, made)| *byte = made);
        }
    }
}
