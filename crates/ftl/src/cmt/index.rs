//! Where the entry of an LPN is: a hash table with linear probing, which keeps LPN and slot side by side.
//!
//! Of our own because a lookup must touch one cache line, and because the line that a later lookup needs must
//! be nameable beforehand ([`Index::expect`]); no library table offers both. Most questions are about LPNs
//! that have no entry: a bit for each LPN answers them from a small array. So only what is held is searched
//! for, a search need not end at an empty place, and an LPN that is dropped leaves one behind: nothing has to
//! move up.

use crate::bits;
use nand::Lpn;
use prefetch_index::prefetch_index;

/// An empty place. LPN `u32::MAX` does not exist: page numbers end before it.
const EMPTY: (u32, u32) = (u32::MAX, u32::MAX);

/// The power of two of LPNs whose places take as much room as a cache line.
const NEIGHBOURS: u32 = 3;

/// LPN to slot. Holds what it was made for and does not grow.
#[derive(Clone, Debug)]
pub struct Index {
    places: Vec<(u32, u32)>,
    shift: u32,
    len: usize,
    /// One bit an LPN: whether it is held.
    present: Vec<u64>,
}

impl Index {
    /// Room for `capacity` LPNs below `lpns`, at most three quarters full.
    pub fn new(capacity: usize, lpns: usize) -> Index {
        let places = (capacity * 4 / 3 + 1).next_power_of_two().max(2 << NEIGHBOURS);
        Index {
            places: vec![EMPTY; places],
            shift: 64 + NEIGHBOURS - places.trailing_zeros(),
            len: 0,
            present: vec![0; lpns.div_ceil(64)],
        }
    }

    /// LPNs that have a slot now.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether an LPN is held.
    #[inline]
    pub fn contains(&self, lpn: Lpn) -> bool {
        bits::has(&self.present, lpn.0)
    }

    /// The first LPN from `from` on, and below `end`, that is held.
    pub fn next_present(&self, from: Lpn, end: Lpn) -> Option<Lpn> {
        bits::next(&self.present, from.0, end.0).map(Lpn)
    }

    /// Fibonacci hashing: LPNs are dense, so their spread is all that is needed; the same on every machine.
    /// Neighbours have homes side by side, in one or two cache lines, so that a sequence misses few of them.
    #[inline]
    fn home(&self, lpn: u32) -> usize {
        let line = u64::from(lpn >> NEIGHBOURS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        (line as usize) << NEIGHBOURS | (lpn as usize & ((1 << NEIGHBOURS) - 1))
    }

    /// The first place with this number in it, from its home on. There must be one.
    #[inline]
    fn place(&self, home: usize, number: u32) -> usize {
        let mut place = home;
        while self.places[place].0 != number {
            place = (place + 1) & (self.places.len() - 1);
        }
        place
    }

    /// The slot of an LPN.
    #[inline]
    pub fn find(&self, lpn: Lpn) -> Option<u32> {
        self.contains(lpn).then(|| self.places[self.place(self.home(lpn.0), lpn.0)].1)
    }

    /// Adds an LPN that is not held.
    #[inline]
    pub fn insert(&mut self, lpn: Lpn, slot: u32) {
        debug_assert!(!self.contains(lpn));
        self.len += 1;
        assert!(4 * self.len <= 3 * self.places.len(), "the index is full");
        let place = self.place(self.home(lpn.0), EMPTY.0);
        self.places[place] = (lpn.0, slot);
        bits::set(&mut self.present, lpn.0, true);
    }

    /// Drops an LPN, if it is held.
    #[inline]
    pub fn remove(&mut self, lpn: Lpn) {
        if self.contains(lpn) {
            self.len -= 1;
            let place = self.place(self.home(lpn.0), lpn.0);
            self.places[place] = EMPTY;
            bits::set(&mut self.present, lpn.0, false);
        }
    }

    /// Starts bringing an LPN's place into the processor's cache.
    #[inline]
    pub fn expect(&self, lpn: Lpn) {
        prefetch_index(&self.present, lpn.0 as usize / 64);
        prefetch_index(&self.places, self.home(lpn.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0u32..60, any::<bool>()), 0..500)) {
            let mut index = Index::new(30, 60);
            let mut map = BTreeMap::new();
            for (step, (lpn, add)) in (0..).zip(steps) {
                if add && map.len() < 30 && !map.contains_key(&lpn) {
                    index.insert(Lpn(lpn), step);
                    map.insert(lpn, step);
                } else {
                    index.remove(Lpn(lpn));
                    map.remove(&lpn);
                }
                prop_assert_eq!(index.len(), map.len());
                for lpn in 0..60 {
                    prop_assert_eq!(index.find(Lpn(lpn)), map.get(&lpn).copied());
                }
            }
        }
    }
}
