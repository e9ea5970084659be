//! [`ArrayPart`]: positions of entries whose keys are small ints. Sets and dicts with many such keys find them by one
//! array access, without hashing.

/// Positions of entries by int key, for all ints from 0 to before [`ArrayPart::len`].
#[derive(Clone, Default)]
pub(crate) struct ArrayPart {
    /// Position plus one; 0 for a missing entry.
    places: Vec<u32>,
}

/// The array grows only if at least one in this many slots is used.
const SPARSE: usize = 4;

impl ArrayPart {
    /// Returns how many ints it covers.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the position of the entry with key `int`: `Some(None)` if the entry is missing, `None` if the array
    /// does not cover the key.
    #[inline(always)]
    pub(crate) fn find(&self, int: i64) -> Option<Option<u32>> {
        // A negative int becomes a large index.
        self.places.get(int as usize).map(|place| place.checked_sub(1))
    }

    /// Sets the position of the entry with key `int`; returns false if the array does not cover it.
    #[inline(always)]
    pub(crate) fn set(&mut self, int: i64, place: u32) -> bool {
        match self.places.get_mut(int as usize) {
            Some(known) => {
                *known = place + 1;
                true
            }
            None => false,
        }
    }

    /// Removes the entry with key `int` and returns its position.
    #[inline(always)]
    pub(crate) fn clear(&mut self, int: i64) -> Option<u32> {
        self.places.get_mut(int as usize).and_then(|place| std::mem::take(place).checked_sub(1))
    }

    /// Grows to cover as many ints as is worthwhile for entries with these keys: the largest power of two of which a
    /// quarter is used. Returns whether it has grown; the caller then sets the positions of the newly covered entries.
    pub(crate) fn grow(&mut self, ints: impl Iterator<Item = i64>) -> bool {
        // Number of ints by bit length.
        let mut by_bits = [0usize; 33];
        for int in ints {
            if let Ok(int) = u32::try_from(int) {
                by_bits[(32 - int.leading_zeros()) as usize] += 1;
            }
        }
        let (mut below, mut covered) = (0, self.len());
        for (bits, count) in by_bits.iter().enumerate().take(32) {
            below += count;
            let size = 1usize << bits;
            if size > covered && below * SPARSE > size {
                covered = size;
            }
        }
        let grown = covered > self.len();
        if grown {
            self.places.resize(covered, 0);
        }
        grown
    }
}

/// Returns the int whose printed form is `text`, if it is small and not negative.
#[inline]
pub(crate) fn int_of(text: &str) -> Option<i64> {
    match text.as_bytes() {
        [b'0'] => Some(0),
        digits @ [b'1'..=b'9', ..] if digits.len() <= 9 => digits
            .iter()
            .try_fold(0, |int, digit| digit.is_ascii_digit().then(|| int * 10 + i64::from(digit - b'0'))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_printed_form_of_an_int_is_one() {
        for int in [0, 7, 10, 123_456_789] {
            assert_eq!(int_of(&int.to_string()), Some(int));
        }
        for text in ["", "-1", "007", "00", "1.0", "1e3", " 1", "1 ", "+1", "a", "9999999999"] {
            assert_eq!(int_of(text), None, "{text:?}");
        }
    }

    #[test]
    fn it_covers_what_a_quarter_of_is_there() {
        let mut part = ArrayPart::default();
        assert!(!part.grow([1 << 40, -1, i64::MIN, i64::MAX].into_iter()));
        assert!(part.grow(0..100));
        assert_eq!(part.len(), 256);
        assert!(!part.grow((0..100).map(|i| i * 1000)));
        assert_eq!(part.find(256), None);
        assert_eq!(part.find(-1), None);
        assert_eq!(part.find(3), Some(None));
        assert!(part.set(3, 0) && !part.set(256, 1));
        assert_eq!(part.find(3), Some(Some(0)));
        assert_eq!(part.clear(3), Some(0));
        assert_eq!(part.clear(3), None);
    }
}
