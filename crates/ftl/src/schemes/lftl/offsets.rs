//! Sets of offsets in a chunk: one bit for each LPA.

use std::ops::Range;

/// LPAs of the largest chunk.
pub const MOST_LPAS: usize = 512;
/// In place of an offset.
const NONE: u16 = u16::MAX;

/// Which LPAs of a chunk are outliers: one bit each.
pub type Bits = [u64; MOST_LPAS / 64];

/// Whether bit `offset` is set.
#[inline]
pub fn bit(bits: &Bits, offset: u16) -> bool {
    bits[usize::from(offset) / 64] >> (offset % 64) & 1 == 1
}

/// Sets bit `offset`.
pub fn set_bit(bits: &mut Bits, offset: u16) {
    bits[usize::from(offset) / 64] |= 1 << (offset % 64);
}

/// Sets the bits from `first` to `last`.
pub fn set_bits(bits: &mut Bits, first: u16, last: u16) {
    let mut from = first;
    while from <= last {
        let end = (from / 64 * 64 + 63).min(last);
        bits[usize::from(from) / 64] |= u64::MAX >> (63 - (end - from)) << (from % 64);
        from = end + 1;
    }
}

/// Calls `each` with each word in which bits from `first` to `last` lie, and a mask of these, as long as it
/// says so.
#[inline]
fn each_word(bits: &Bits, first: u16, last: u16, mut each: impl FnMut(u64, u64) -> bool) {
    let (from, to) = (usize::from(first) / 64, usize::from(last) / 64);
    let (low, high) = (u64::MAX << (first % 64), u64::MAX >> (63 - last % 64));
    if from == to {
        each(bits[from], low & high);
        return;
    }
    let goes_on = each(bits[from], low) && bits[from + 1..to].iter().all(|&word| each(word, u64::MAX));
    if goes_on {
        each(bits[to], high);
    }
}

/// How many bits from `first` to `last` are set.
#[inline]
pub fn ones(bits: &Bits, first: u16, last: u16) -> u32 {
    let mut ones = 0;
    each_word(bits, first, last, |word, mask| {
        ones += (word & mask).count_ones();
        true
    });
    ones
}

/// Whether none of the bits from `first` to `last` is set.
#[inline]
pub fn is_clear(bits: &Bits, first: u16, last: u16) -> bool {
    let mut any = 0;
    each_word(bits, first, last, |word, mask| {
        any |= word & mask;
        any == 0
    });
    any == 0
}

/// Whether more than `most` of the bits from `first` to `last` are clear. It looks at no more of them than it
/// has to.
#[inline]
pub fn has_clear(bits: &Bits, first: u16, last: u16, most: usize) -> bool {
    let mut left = most + 1;
    each_word(bits, first, last, |word, mask| {
        let mut word = !word & mask;
        while word != 0 && left > 0 {
            word &= word - 1;
            left -= 1;
        }
        left > 0
    });
    left == 0
}

/// Where two lists are the same.
pub fn same(these: &[u32], those: &[u32]) -> Bits {
    let mut bits = Bits::default();
    let words = these.chunks(64).zip(those.chunks(64));
    for (word, (these, those)) in bits.iter_mut().zip(words) {
        let mut bytes = [0; 64];
        for (byte, (a, b)) in bytes.iter_mut().zip(these.iter().zip(those)) {
            *byte = u8::from(a == b);
        }
        for (eight, at) in bytes.chunks_exact(8).zip((0..).step_by(8)) {
            let mut packed = [0; 8];
            packed.copy_from_slice(eight);
            // The lowest bits of eight bytes, side by side in the highest byte.
            *word |= (u64::from_le_bytes(packed).wrapping_mul(0x0102_0408_1020_4080) >> 56) << at;
        }
    }
    bits
}

/// The first bit from `from` on that is not set; behind the last one, where all are.
pub fn next_zero(bits: &Bits, from: u16) -> u16 {
    let mut at = from;
    while usize::from(at) < MOST_LPAS {
        let ones = (!bits[usize::from(at) / 64] >> (at % 64)).trailing_zeros() as u16;
        if ones < 64 - at % 64 {
            return at + ones;
        }
        at = (at / 64 + 1) * 64;
    }
    at
}

/// How many bits of some offsets are set, and the first and last of them.
pub fn within(bits: &Bits, offsets: &Range<u16>) -> (u32, u16, u16) {
    let (mut count, mut first, mut last) = (0, NONE, 0);
    let mut from = offsets.start;
    while from < offsets.end {
        let end = (from / 64 * 64 + 64).min(offsets.end);
        let word = bits[usize::from(from) / 64] >> (from % 64) & (u64::MAX >> (64 - (end - from)));
        if word != 0 {
            first = first.min(from + word.trailing_zeros() as u16);
            last = from + 63 - word.leading_zeros() as u16;
            count += word.count_ones();
        }
        from = end;
    }
    (count, first, last)
}

/// Calls `each` with every offset whose bit is set, ascending.
#[inline]
pub fn each_bit(bits: &Bits, mut each: impl FnMut(u16)) {
    for (at, &word) in (0u16..).zip(bits) {
        let mut word = word;
        while word != 0 {
            each(at * 64 + word.trailing_zeros() as u16);
            word &= word - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(bits: &Bits) -> Vec<u16> {
        (0..MOST_LPAS as u16).filter(|&offset| bit(bits, offset)).collect()
    }

    proptest! {
        #[test]
        fn each_says_what_a_walk_over_the_offsets_says(
            list in prop::collection::vec(0u32..3, 1..=MOST_LPAS),
            other in prop::collection::vec(0u32..3, MOST_LPAS),
            first in 0u16..MOST_LPAS as u16,
            pages in 1u16..200,
        ) {
            let end = (first + pages).min(MOST_LPAS as u16);
            let bits = same(&list, &other[..list.len()]);
            let all: Vec<u16> =
                (0..list.len()).filter(|&at| list[at] == other[at]).map(|at| at as u16).collect();
            prop_assert_eq!(&set(&bits), &all);
            let some: Vec<u16> = all.iter().copied().filter(|at| (first..end).contains(at)).collect();
            prop_assert_eq!(ones(&bits, first, end - 1) as usize, some.len());
            prop_assert_eq!(is_clear(&bits, first, end - 1), some.is_empty());
            let clear = usize::from(end - first) - some.len();
            (0..8).for_each(|most| assert_eq!(has_clear(&bits, first, end - 1, most), clear > most));
            let (count, low, high) = within(&bits, &(first..end));
            prop_assert_eq!(count as usize, some.len());
            prop_assert!(some.is_empty() || (low, high) == (some[0], some[some.len() - 1]));
            let behind = (first..MOST_LPAS as u16).find(|&at| !bit(&bits, at)).unwrap_or(MOST_LPAS as u16);
            prop_assert_eq!(next_zero(&bits, first), behind);
            let mut each = Vec::new();
            each_bit(&bits, |offset| each.push(offset));
            prop_assert_eq!(&each, &all);
            let mut more = bits;
            set_bits(&mut more, first, end - 1);
            let known = |&at: &u16| bit(&bits, at) || (first..end).contains(&at);
            prop_assert_eq!(set(&more), (0..MOST_LPAS as u16).filter(known).collect::<Vec<_>>());
        }
    }
}
