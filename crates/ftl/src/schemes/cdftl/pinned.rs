//! LRU over single entries of which some may not leave: CDFTL's first level, where a dirty entry leaves only
//! into a translation page that is in memory.
//!
//! Entries stand in two heaps by that, least recently used first. Heaps, because entries change sides in any
//! order: in a list each would have to look for its place.

use crate::breach::Breach;
use crate::cmt::entries::{Entries, Entry};
use nand::{Done, Lpn};

const FREE: usize = 0;
const PINNED: usize = 1;

/// Slots by time of last use, the oldest first, four children a place.
#[derive(Clone, Debug)]
struct Oldest(Vec<(u64, u32)>);

impl Oldest {
    fn push(&mut self, used: u64, slot: u32, places: &mut [u32]) {
        self.0.push((used, slot));
        self.sift_up(self.0.len() - 1, places);
    }

    fn remove(&mut self, place: usize, places: &mut [u32]) {
        let last = self.0.len() - 1;
        self.0.swap(place, last);
        self.0.pop();
        if place < last {
            self.sift_down(place, places);
            self.sift_up(place, places);
        }
    }

    fn renew(&mut self, place: usize, used: u64, places: &mut [u32]) {
        self.0[place].0 = used;
        self.sift_down(place, places);
    }

    fn sift_up(&mut self, mut at: usize, places: &mut [u32]) {
        let moved = self.0[at];
        while at > 0 && moved < self.0[(at - 1) / 4] {
            self.0[at] = self.0[(at - 1) / 4];
            places[self.0[at].1 as usize] = at as u32;
            at = (at - 1) / 4;
        }
        self.0[at] = moved;
        places[moved.1 as usize] = at as u32;
    }

    fn sift_down(&mut self, mut at: usize, places: &mut [u32]) {
        let moved = self.0[at];
        loop {
            let children = 4 * at + 1..(4 * at + 5).min(self.0.len());
            let Some(least) = children.min_by_key(|&child| self.0[child]) else { break };
            if moved <= self.0[least] {
                break;
            }
            self.0[at] = self.0[least];
            places[self.0[at].1 as usize] = at as u32;
            at = least;
        }
        self.0[at] = moved;
        places[moved.1 as usize] = at as u32;
    }
}

/// A cache of single mappings, some of them pinned.
#[derive(Clone, Debug)]
pub struct PinnedLru {
    entries: Entries,
    heaps: [Oldest; 2],
    /// Place in its heap, by slot.
    places: Vec<u32>,
    capacity: usize,
    clock: u64,
}

impl PinnedLru {
    /// A cache of `capacity` entries of LPNs below `lpns`.
    pub fn new(capacity: usize, lpns: usize) -> PinnedLru {
        let heap = || Oldest(Vec::with_capacity(capacity));
        PinnedLru {
            entries: Entries::new(capacity, lpns),
            heaps: [heap(), heap()],
            places: vec![0; capacity],
            capacity,
            clock: 0,
        }
    }

    /// Entries in the cache now.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether an insertion needs a removal first.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    /// The entry of an LPN, without using it.
    #[inline]
    pub fn peek(&self, lpn: Lpn) -> Option<&Entry> {
        self.entries.find(lpn).map(|slot| self.entries.get(slot))
    }

    /// The entry of an LPN, to be changed without counting as a use. [`PinnedLru::pin`] follows when that
    /// makes it stay.
    #[inline]
    pub fn peek_mut(&mut self, lpn: Lpn) -> Option<&mut Entry> {
        self.entries.find(lpn).map(|slot| self.entries.get_mut(slot))
    }

    /// Uses the entry of an LPN.
    #[inline]
    pub fn touch(&mut self, lpn: Lpn) -> Option<&mut Entry> {
        let slot = self.entries.find(lpn)?;
        self.clock += 1;
        let entry = self.entries.get_mut(slot);
        entry.set_used(self.clock);
        let heap = &mut self.heaps[entry.list()];
        heap.renew(self.places[slot as usize] as usize, self.clock, &mut self.places);
        Some(self.entries.get_mut(slot))
    }

    /// Adds a clean entry, which may leave, for an LPN that has none. There must be room.
    #[inline]
    pub fn insert(&mut self, lpn: Lpn, ppn: u32, done: Done) {
        assert!(!self.is_full());
        self.clock += 1;
        let slot = self.entries.insert(lpn, ppn, done);
        self.entries.get_mut(slot).set_used(self.clock);
        self.heaps[FREE].push(self.clock, slot, &mut self.places);
    }

    /// Says whether the entry of an LPN must stay.
    #[inline]
    pub fn pin(&mut self, lpn: Lpn, stay: bool) {
        let Some(slot) = self.entries.find(lpn) else { return };
        let (from, to) = (self.entries.get(slot).list(), if stay { PINNED } else { FREE });
        if from == to {
            return;
        }
        let used = self.entries.get(slot).used();
        self.heaps[from].remove(self.places[slot as usize] as usize, &mut self.places);
        self.entries.get_mut(slot).set_list(to);
        self.heaps[to].push(used, slot, &mut self.places);
    }

    /// The entry that leaves next: the least recently used of those that may.
    #[inline]
    pub fn victim(&self) -> Option<&Entry> {
        self.heaps[FREE].0.first().map(|&(_, slot)| self.entries.get(slot))
    }

    /// The least recently used of the entries that must stay.
    #[inline]
    pub fn oldest_pinned(&self) -> Option<&Entry> {
        self.heaps[PINNED].0.first().map(|&(_, slot)| self.entries.get(slot))
    }

    /// Takes the entry of an LPN out of the cache; `None` when there is none.
    #[inline]
    pub fn remove(&mut self, lpn: Lpn) -> Option<Entry> {
        let slot = self.entries.find(lpn)?;
        let list = self.entries.get(slot).list();
        self.heaps[list].remove(self.places[slot as usize] as usize, &mut self.places);
        Some(self.entries.remove(slot))
    }

    /// The first LPN from `from` on, and below `end`, that has an entry.
    pub fn next_present(&self, from: Lpn, end: Lpn) -> Option<Lpn> {
        self.entries.next_present(from, end)
    }

    /// Starts bringing into the processor's cache what using or adding an LPN will touch.
    #[inline]
    pub fn expect(&self, lpn: Lpn) {
        self.entries.expect(lpn);
    }

    /// Checks heaps and index against each other.
    pub fn check(&self) -> Result<(), Breach> {
        for (number, heap) in self.heaps.iter().enumerate() {
            for (place, &(used, slot)) in heap.0.iter().enumerate() {
                let entry = self.entries.get(slot);
                let sound = entry.list() == number
                    && entry.used() == used
                    && self.places[slot as usize] as usize == place
                    && heap.0[place.saturating_sub(1) / 4].0 <= used
                    && (number == FREE || entry.is_dirty())
                    && self.entries.find(entry.lpn) == Some(slot);
                if !sound {
                    return Err(format!("LPN {} is cached in the wrong place", entry.lpn.0).into());
                }
            }
        }
        let ordered: usize = self.heaps.iter().map(|heap| heap.0.len()).sum();
        if ordered != self.len() || self.len() > self.capacity {
            return Err(format!(
                "cached mapping table: {} entries indexed, {ordered} in order, capacity {}",
                self.len(),
                self.capacity
            )
            .into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The pinning cache, the slow way: time of last use, dirtiness and pin by LPN.
    #[derive(Default)]
    struct SlowPins {
        entries: BTreeMap<u32, (u64, bool, bool)>,
        clock: u64,
    }

    impl SlowPins {
        fn oldest(&self, pinned: bool) -> Option<u32> {
            let of_side = self.entries.iter().filter(|(_, e)| e.2 == pinned);
            of_side.min_by_key(|(_, e)| e.0).map(|(&lpn, _)| lpn)
        }
    }

    proptest! {
        #[test]
        fn pinned_lru_lets_the_oldest_free_entry_go(steps in prop::collection::vec((0u32..40, 0u32..5), 1..400)) {
            let mut cache = PinnedLru::new(12, 40);
            let mut slow = SlowPins::default();
            for (lpn, what) in steps {
                slow.clock += u64::from(what < 2);
                match what {
                    0 => {
                        let hit = cache.touch(Lpn(lpn)).is_some();
                        prop_assert_eq!(hit, slow.entries.contains_key(&lpn));
                        slow.clock -= u64::from(!hit);
                        slow.entries.entry(lpn).and_modify(|e| e.0 = slow.clock);
                    }
                    1 if !cache.is_full() && cache.peek(Lpn(lpn)).is_none() => {
                        cache.insert(Lpn(lpn), 3 * lpn, Done::READY);
                        slow.entries.insert(lpn, (slow.clock, false, false));
                    }
                    1 => slow.clock -= 1,
                    2 | 3 => {
                        if let Some(entry) = cache.peek_mut(Lpn(lpn)) {
                            entry.set_dirty(true);
                        }
                        cache.pin(Lpn(lpn), what == 2);
                        slow.entries.entry(lpn).and_modify(|e| (e.1, e.2) = (true, what == 2));
                    }
                    _ => {
                        prop_assert_eq!(cache.remove(Lpn(lpn)).is_some(), slow.entries.remove(&lpn).is_some());
                    }
                }
                prop_assert_eq!(cache.victim().map(|e| e.lpn.0), slow.oldest(false));
                prop_assert_eq!(cache.oldest_pinned().map(|e| e.lpn.0), slow.oldest(true));
                prop_assert_eq!(cache.len(), slow.entries.len());
                let present: Vec<u32> =
                    std::iter::successors(cache.next_present(Lpn(0), Lpn(40)), |l| cache.next_present(Lpn(l.0 + 1), Lpn(40)))
                        .map(|lpn| lpn.0)
                        .collect();
                prop_assert_eq!(present, slow.entries.keys().copied().collect::<Vec<_>>());
                prop_assert_eq!(cache.check(), Ok(()));
            }
        }
    }
}
