//! Helpers for statements.

use crate::error::Error;

use super::fault::Outcome;

/// Maximum number of rows, and of bytes, per statement.
const ROWS: usize = 1_000;
const BYTES: usize = 16 << 20;

/// Converts a number to the type of the database.
pub(super) fn number(n: u64) -> Outcome<i64> {
    i64::try_from(n).map_err(|_| Error::invalid("number", "it is too large for the store").into())
}

/// Converts an upper bound, which may exceed the range of the database.
pub(super) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The length of a page.
pub(super) fn page(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Cuts a list into pieces that fit into one statement each.
pub(super) fn pieces<T>(list: &[T], size: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take(ROWS).take_while(|one| {
            let is_first = bytes == 0;
            bytes += size(one) + 1;
            is_first || bytes <= BYTES
        });
        let count = fits.count();
        let (piece, behind) = rest.split_at(count);
        rest = behind;
        (count > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_small_and_lose_nothing() {
        let sizes = [5, BYTES + 1, 0, BYTES - 10, 20, 1];
        let cut: Vec<Vec<usize>> = pieces(&sizes, |size| *size).map(<[usize]>::to_vec).collect();
        assert_eq!(cut, [vec![5], vec![BYTES + 1], vec![0, BYTES - 10], vec![20, 1]]);
        let many = vec![1; 2 * ROWS + 1];
        assert_eq!(pieces(&many, |_| 1).map(<[usize]>::len).collect::<Vec<_>>(), [ROWS, ROWS, 1]);
        assert_eq!(pieces(&[0_usize; 0], |_| 1).count(), 0);
    }
}
