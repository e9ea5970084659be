//! Draws the seed of random numbers: requested and recorded like other effects.

use crate::chance::{Chance, SEED};
use crate::entry::What;
use crate::journal::Core;

impl Core {
    /// Fills `bytes` with random bytes.
    pub(crate) fn draw(&self, bytes: &mut [u8]) {
        if let Some(seed) = self.seed() {
            let is_own = self.state.borrow().live || self.is_loading();
            *self.chance.borrow_mut() = Chance { seed: Some(seed), made: 0, is_own };
        }
        self.chance.borrow_mut().fill(bytes);
    }

    /// Returns a new seed if the run needs one at this place.
    fn seed(&self) -> Option<Vec<u8>> {
        let note = || format!("{SEED} bytes");
        let (has, is_own) = (self.chance.borrow().seed.is_some(), self.chance.borrow().is_own);
        let is_draw = |what: &What| matches!(what, What::Call { name, .. } if name == "random");
        if !self.is_loading() {
            let state = self.state.borrow();
            // A replay may reach the end of its journal before the program has ended, as with the clock. A resumed
            // run continues its sequence: numbers that were printed have no entries. A fork is a different run.
            let goes_on = if state.is_followed() { is_own || !self.copies } else { !state.next_is(is_draw) };
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
