//! Sets of numbers: a bit for each, in words of 64.

/// Whether a number is in the set.
#[inline]
pub(crate) fn has(bits: &[u64], number: u32) -> bool {
    bits[number as usize / 64] >> (number % 64) & 1 == 1
}

/// Puts a number into the set, or takes it out; returns whether that changed the set.
#[inline]
pub(crate) fn set(bits: &mut [u64], number: u32, to: bool) -> bool {
    let (word, mask) = (&mut bits[number as usize / 64], 1 << (number % 64));
    let before = *word & mask != 0;
    *word = if to { *word | mask } else { *word & !mask };
    before != to
}

/// The first number of the set at or after `from` and before `end`.
#[inline]
pub(crate) fn next(bits: &[u64], from: u32, end: u32) -> Option<u32> {
    let mut at = from;
    while at < end {
        let word = bits[at as usize / 64] >> (at % 64);
        if word != 0 {
            let found = at + word.trailing_zeros();
            return (found < end).then_some(found);
        }
        at = (at / 64 + 1) * 64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_found_in_order() {
        let mut bits = [0; 3];
        let numbers = [0, 1, 63, 64, 130, 191];
        for number in numbers {
            assert!(set(&mut bits, number, true) && !set(&mut bits, number, true) && has(&bits, number));
        }
        let mut found = Vec::new();
        while let Some(number) = next(&bits, found.last().map_or(0, |last| last + 1), 192) {
            found.push(number);
        }
        assert_eq!(found, numbers);
        assert_eq!((next(&bits, 2, 63), next(&bits, 2, 64)), (None, Some(63)));
        assert!(set(&mut bits, 63, false) && next(&bits, 2, 64).is_none());
    }
}
