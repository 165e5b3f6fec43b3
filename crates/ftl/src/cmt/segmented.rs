//! Segmented LRU (Karedla et al. 1994) over single entries, as DFTL uses it.
//!
//! New entries enter the probationary segment; a hit there promotes to the protected one, whose overflow
//! falls back to the head of the probationary segment. Victims come from the tail of the probationary
//! segment.

use super::entries::{Entries, Entry};
use crate::breach::Breach;
use crate::list::{List, NONE};
use nand::{Done, Lpn};

const PROBATIONARY: usize = 0;
const PROTECTED: usize = 1;

/// A segmented-LRU cache of single mappings.
#[derive(Clone, Debug)]
pub struct SegmentedLru {
    entries: Entries,
    lists: [List; 2],
    capacity: usize,
    protected_capacity: u32,
}

impl SegmentedLru {
    /// A cache of `capacity` entries of LPNs below `lpns`, `protected_percent` of them at most in the
    /// protected segment.
    pub fn new(capacity: usize, lpns: usize, protected_percent: u32) -> SegmentedLru {
        SegmentedLru {
            entries: Entries::new(capacity, lpns),
            lists: [List::default(); 2],
            capacity,
            protected_capacity: (capacity as u64 * u64::from(protected_percent) / 100) as u32,
        }
    }

    /// Entries in both segments now.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Entries that both segments hold at most.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether an insertion needs an eviction first.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    /// The entry of an LPN, without using it.
    #[inline]
    pub fn peek(&self, lpn: Lpn) -> Option<&Entry> {
        self.entries.find(lpn).map(|slot| self.entries.get(slot))
    }

    /// The first LPN from `from` on, and below `end`, that has an entry.
    #[inline]
    pub fn next_present(&self, from: Lpn, end: Lpn) -> Option<Lpn> {
        self.entries.next_present(from, end)
    }

    /// The entry of an LPN, to be changed without counting as a use.
    #[inline]
    pub fn peek_mut(&mut self, lpn: Lpn) -> Option<&mut Entry> {
        self.entries.find(lpn).map(|slot| self.entries.get_mut(slot))
    }

    /// Uses the entry of an LPN.
    #[inline]
    pub fn touch(&mut self, lpn: Lpn) -> Option<&mut Entry> {
        let slot = self.entries.find(lpn)?;
        let from = self.entries.get(slot).list();
        self.entries.unlink(&mut self.lists[from], slot);
        self.entries.get_mut(slot).set_list(PROTECTED);
        self.entries.push_front(&mut self.lists[PROTECTED], slot);
        if self.lists[PROTECTED].len() > self.protected_capacity {
            let oldest = self.lists[PROTECTED].tail();
            self.entries.unlink(&mut self.lists[PROTECTED], oldest);
            self.entries.get_mut(oldest).set_list(PROBATIONARY);
            self.entries.push_front(&mut self.lists[PROBATIONARY], oldest);
        }
        Some(self.entries.get_mut(slot))
    }

    /// Adds an entry for an LPN that has none. There must be room.
    #[inline]
    pub fn insert(&mut self, lpn: Lpn, ppn: u32, done: Done) -> &mut Entry {
        assert!(!self.is_full());
        let slot = self.entries.insert(lpn, ppn, done);
        self.entries.push_front(&mut self.lists[PROBATIONARY], slot);
        self.entries.get_mut(slot)
    }

    /// The entry that leaves next.
    #[inline]
    pub fn victim(&self) -> Option<&Entry> {
        let tails = [self.lists[0].tail(), self.lists[1].tail()];
        tails.into_iter().find(|&slot| slot != NONE).map(|slot| self.entries.get(slot))
    }

    /// Takes the entry of an LPN out of its segment; `None` when there is none.
    #[inline]
    pub fn remove(&mut self, lpn: Lpn) -> Option<Entry> {
        let slot = self.entries.find(lpn)?;
        let list = self.entries.get(slot).list();
        self.entries.unlink(&mut self.lists[list], slot);
        let removed = self.entries.remove(slot);
        self.entries.expect_removal(&self.lists[PROBATIONARY]);
        Some(removed)
    }

    /// Starts bringing into the processor's cache what using or adding an LPN will touch.
    #[inline]
    pub fn expect(&self, lpn: Lpn) {
        self.entries.expect(lpn);
    }

    /// Checks lists and index against each other.
    pub fn check(&self) -> Result<(), Breach> {
        let listed: usize = self.lists.iter().map(|list| self.entries.iter(list).count()).sum();
        let counted: usize = self.lists.iter().map(|list| list.len() as usize).sum();
        if listed != self.len() || counted != self.len() || self.len() > self.capacity {
            return Err(format!(
                "cached mapping table: {} entries indexed, {listed} in lists of length {counted}, capacity {}",
                self.len(),
                self.capacity
            ).into());
        }
        for list in &self.lists {
            for slot in self.entries.iter(list) {
                if self.entries.find(self.entries.get(slot).lpn) != Some(slot) {
                    return Err(
                        format!("LPN {} is cached twice or lost", self.entries.get(slot).lpn.0).into()
                    );
                }
            }
        }
        Ok(())
    }
}
