//! Where the entry of an LPN is: a hash table with linear probing, which keeps LPN and slot side by side.
//!
//! Of our own because a lookup must touch one cache line, and because the line that a later lookup needs must be
//! nameable beforehand ([`Index::expect`]); no library table offers both.

use nand::Lpn;
use prefetch_index::prefetch_index;

/// An empty place. LPN `u32::MAX` does not exist: page numbers end before it.
const EMPTY: (u32, u32) = (u32::MAX, u32::MAX);

/// LPN to slot. Holds what it was made for and does not grow.
#[derive(Clone, Debug)]
pub struct Index {
    places: Vec<(u32, u32)>,
    shift: u32,
    len: usize,
}

impl Index {
    /// Room for `capacity` LPNs, at most three quarters full.
    pub fn new(capacity: usize) -> Index {
        let places = (capacity * 4 / 3 + 1).next_power_of_two().max(8);
        Index { places: vec![EMPTY; places], shift: 64 - places.trailing_zeros(), len: 0 }
    }

    /// LPNs held.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fibonacci hashing: LPNs are dense, so their spread is all that is needed; the same on every machine.
    #[inline]
    fn home(&self, lpn: u32) -> usize {
        (u64::from(lpn).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    #[inline]
    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// The slot of an LPN.
    #[inline]
    pub fn find(&self, lpn: Lpn) -> Option<u32> {
        let mut place = self.home(lpn.0);
        loop {
            match self.places[place] {
                EMPTY => return None,
                (found, slot) if found == lpn.0 => return Some(slot),
                _ => place = self.after(place),
            }
        }
    }

    /// Adds an LPN that is not held.
    #[inline]
    pub fn insert(&mut self, lpn: Lpn, slot: u32) {
        self.len += 1;
        assert!(4 * self.len <= 3 * self.places.len(), "the index is full");
        let mut place = self.home(lpn.0);
        while self.places[place] != EMPTY {
            place = self.after(place);
        }
        self.places[place] = (lpn.0, slot);
    }

    /// Drops an LPN. What was displaced by it moves back, so that searches end at the first empty place.
    #[inline]
    pub fn remove(&mut self, lpn: Lpn) {
        let mut gap = self.home(lpn.0);
        while self.places[gap].0 != lpn.0 {
            if self.places[gap] == EMPTY {
                return;
            }
            gap = self.after(gap);
        }
        self.len -= 1;
        let mask = self.places.len() - 1;
        let mut place = self.after(gap);
        while self.places[place] != EMPTY {
            let home = self.home(self.places[place].0);
            if (place.wrapping_sub(home) & mask) >= (place.wrapping_sub(gap) & mask) {
                self.places[gap] = self.places[place];
                gap = place;
            }
            place = self.after(place);
        }
        self.places[gap] = EMPTY;
    }

    /// Starts bringing an LPN's place into the processor's cache.
    #[inline]
    pub fn expect(&self, lpn: Lpn) {
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
            let mut index = Index::new(30);
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
