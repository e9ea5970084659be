//! Random numbers: one draw is written down, and all that follow are made of it.
//!
//! A run draws often, mostly ids, so a draw of its own for each would be most of its journal. Whoever goes on live with a journal
//! draws anew: two runs that go on from one journal have nothing in common from there on.

use sha2::{Digest as _, Sha256};

use crate::entry::What;
use crate::journal::Core;

/// What is drawn at once.
const SEED: usize = 32;

/// Numbers made of a seed.
#[derive(Default)]
pub(crate) struct Chance {
    seed: Option<Vec<u8>>,
    /// How many pieces were made of it.
    made: u64,
    /// Whether it was drawn by this process, for what happens live.
    is_own: bool,
}

impl Chance {
    fn fill(&mut self, bytes: &mut [u8]) {
        // Without a seed the run has stopped, and nobody sees what becomes of it.
        let Some(seed) = &self.seed else { return };
        for piece in bytes.chunks_mut(SEED) {
            let made = Sha256::new().chain_update(seed).chain_update(self.made.to_le_bytes()).finalize();
            self.made += 1;
            piece.iter_mut().zip(made).for_each(|(byte, made)| *byte = made);
        }
    }
}

impl Core {
    /// Fills bytes at random.
    pub(crate) fn draw(&self, bytes: &mut [u8]) {
        if let Some(seed) = self.seed() {
            let is_own = self.state.borrow().live || self.is_loading();
            *self.chance.borrow_mut() = Chance { seed: Some(seed), made: 0, is_own };
        }
        self.chance.borrow_mut().fill(bytes);
    }

    /// A seed, where the run comes to a new one.
    fn seed(&self) -> Option<Vec<u8>> {
        let note = || format!("{SEED} bytes");
        let (has, is_own) = (self.chance.borrow().seed.is_some(), self.chance.borrow().is_own);
        let is_draw = |what: &What| matches!(what, What::Call { name, .. } if name == "random");
        if !self.is_loading() {
            let state = self.state.borrow();
            // A replay may come to the end of its journal before the program has ended, as with the clock.
            let goes_on = if state.is_followed() { self.replay || is_own } else { !state.next_is(is_draw) };
            if has && goes_on {
                return None;
            }
        } else if has {
            return None;
        }
        let seed: Vec<u8> = self.ask("random", SEED as u64, note, |system| {
            let mut seed = vec![0; SEED];
            system.random(&mut seed);
            seed
        });
        (!seed.is_empty()).then_some(seed)
    }
}
