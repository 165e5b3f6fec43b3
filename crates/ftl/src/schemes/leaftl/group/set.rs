//! Sets of the offsets of a group.

/// Offsets of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set([u64; 4]);

impl Set {
    /// Whether `offset` is in it.
    pub fn has(&self, offset: u8) -> bool {
        self.0[usize::from(offset / 64)] >> (offset % 64) & 1 == 1
    }

    /// Puts `offset` in.
    pub fn add(&mut self, offset: u8) {
        self.0[usize::from(offset / 64)] |= 1 << (offset % 64);
    }

    /// The offsets from `first` to `last`.
    pub fn range(first: u8, last: u8) -> Set {
        let below = |end: usize, word: usize| match end.saturating_sub(64 * word) {
            bits if bits >= 64 => u64::MAX,
            bits => (1 << bits) - 1,
        };
        Set(std::array::from_fn(|word| below(usize::from(last) + 1, word) & !below(usize::from(first), word)))
    }

    /// Every `stride`-th offset from `first` to `last`.
    pub fn strided(first: u8, last: u8, stride: u32) -> Set {
        if stride == 1 {
            return Set::range(first, last);
        }
        let mut set = Set::default();
        let mut at = u32::from(first);
        while at <= u32::from(last) {
            set.0[at as usize / 64] |= 1 << (at % 64);
            at += stride;
        }
        set
    }

    pub(super) fn with(self, other: Set) -> Set {
        Set(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    pub(super) fn without(self, other: Set) -> Set {
        Set(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    pub(super) fn and(self, other: Set) -> Set {
        Set(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn first(&self) -> u8 {
        let word = self.0.iter().position(|&word| word != 0).unwrap_or(0);
        (word * 64) as u8 + (self.0[word].trailing_zeros() % 64) as u8
    }

    pub(super) fn last(&self) -> u8 {
        let word = self.0.iter().rposition(|&word| word != 0).unwrap_or(0);
        (word * 64) as u8 + (63 - self.0[word].leading_zeros() % 64) as u8
    }

    /// The offsets, ascending.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..4).flat_map(move |word| {
            let mut bits = self.0[word];
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some((word * 64) as u8 + bit as u8)
            })
        })
    }
}

impl FromIterator<u8> for Set {
    fn from_iter<I: IntoIterator<Item = u8>>(offsets: I) -> Set {
        let mut set = Set::default();
        offsets.into_iter().for_each(|offset| set.add(offset));
        set
    }
}
