//! A small deterministic random number generator: the same seed produces the same inputs on every machine.

/// xorshift64* with a seed mixed by splitmix64, so that adjacent seeds produce unrelated streams.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Creates the stream for a seed and an index, such as the number of an input.
    pub(crate) fn new(seed: u64, index: u64) -> Rng {
        let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Rng((z ^ (z >> 31)) | 1)
    }

    /// Returns 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a number below `n`; 0 if `n` is 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.bits() >> 16) as usize % n }
    }

    /// Returns true with a probability of `percent` percent.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns a random item.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }
}
