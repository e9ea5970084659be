//! [`ArrayPart`]: where the entries are whose keys are small ints. Sets and dicts that are filled with such keys find them
//! by one look into an array, without a hash.

/// Places of entries by the int that is their key, for all ints from 0 to before [`ArrayPart::len`].
#[derive(Clone, Default)]
pub(crate) struct ArrayPart {
    /// Place plus one; 0 where there is no entry.
    places: Vec<u32>,
}

/// Of so many places at least one has an entry when the array grows.
const SPARSE: usize = 4;

impl ArrayPart {
    /// How many ints it covers.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The place of the entry with key `int`, or that there is none; nothing when the array does not cover it.
    #[inline(always)]
    pub(crate) fn find(&self, int: i64) -> Option<Option<u32>> {
        // A negative int is a large number here.
        self.places.get(int as usize).map(|place| place.checked_sub(1))
    }

    /// Notes the place of the entry with key `int`; false when the array does not cover it.
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

    /// Notes that there is no entry with key `int`, and gives the place it had.
    #[inline(always)]
    pub(crate) fn clear(&mut self, int: i64) -> Option<u32> {
        self.places.get_mut(int as usize).and_then(|place| std::mem::take(place).checked_sub(1))
    }

    /// Covers as many ints as pays for entries with these keys: the largest power of two of which a quarter is there.
    /// Says whether it has grown: then the caller notes the places of the entries that are covered now.
    pub(crate) fn grow(&mut self, ints: impl Iterator<Item = i64>) -> bool {
        // How many ints need so many bits.
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

/// The int that a text is the printed form of, if it is a small one and not negative.
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
