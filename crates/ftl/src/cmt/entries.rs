//! The store under every cached mapping table: slots of fixed number, an index by LPN, intrusive lists.
//!
//! The simulator's own bookkeeping (index, links, completions) is not what a firmware would hold: what is
//! charged to the budget is decided by each cache.

use super::index::Index;
use crate::list::{linked, Links, List, NONE};
use nand::{Done, Lpn};
use prefetch_index::prefetch_index;

/// A cached mapping. Thirty-two bytes, so that none straddles a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct Entry {
    /// The LPN that the entry maps.
    pub lpn: Lpn,
    /// The PPN, or [`crate::table::UNMAPPED`].
    pub ppn: u32,
    /// What a user of the entry waits for: its load, and the program of the page it leads to.
    pub done: Done,
    /// Time of the last use, then [`LIST`] and [`DIRTY`].
    state: u64,
    links: Links,
}

linked!(Entry);

const _: () = assert!(size_of::<Entry>() == 32);

const DIRTY: u64 = 1;
const LIST: u64 = 2;
const USED_SHIFT: u32 = 2;

impl Entry {
    /// Whether the mapping on flash is older.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        self.state & DIRTY != 0
    }

    /// Says whether the mapping on flash is older; returns whether it was.
    #[inline]
    pub fn set_dirty(&mut self, dirty: bool) -> bool {
        let was = self.is_dirty();
        self.state = self.state & !DIRTY | u64::from(dirty);
        was
    }

    /// The number of the list that the entry is in, of a cache with two.
    #[inline]
    pub fn list(&self) -> usize {
        usize::from(self.state & LIST != 0)
    }

    /// Says in which of two lists the entry is.
    #[inline]
    pub fn set_list(&mut self, list: usize) {
        self.state = self.state & !LIST | if list == 0 { 0 } else { LIST };
    }

    /// Time of the last use, in uses of the cache.
    #[inline]
    pub fn used(&self) -> u64 {
        self.state >> USED_SHIFT
    }

    /// Sets the time of the last use.
    #[inline]
    pub fn set_used(&mut self, used: u64) {
        self.state = self.state & (DIRTY | LIST) | used << USED_SHIFT;
    }
}

/// Slots with an index by LPN.
#[derive(Clone, Debug)]
pub struct Entries {
    slots: Vec<Entry>,
    index: Index,
    /// Head of the chain of free slots, through `next`.
    free: u32,
}

impl Entries {
    /// Room for `capacity` entries of LPNs below `lpns`, allocated now.
    pub fn new(capacity: usize, lpns: usize) -> Entries {
        Entries { slots: Vec::with_capacity(capacity), index: Index::new(capacity, lpns), free: NONE }
    }

    /// Whether an LPN has an entry.
    #[inline]
    pub fn contains(&self, lpn: Lpn) -> bool {
        self.index.contains(lpn)
    }

    /// Entries in the cache now, not counting free places.
    #[inline]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// The slot of an LPN.
    #[inline]
    pub fn find(&self, lpn: Lpn) -> Option<u32> {
        self.index.find(lpn)
    }

    /// The entry in a slot.
    #[inline]
    pub fn get(&self, slot: u32) -> &Entry {
        &self.slots[slot as usize]
    }

    /// The entry in a slot.
    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> &mut Entry {
        &mut self.slots[slot as usize]
    }

    /// Adds a clean entry for an LPN that has none, in no list yet.
    #[inline]
    pub fn insert(&mut self, lpn: Lpn, ppn: u32, done: Done) -> u32 {
        let entry = Entry { lpn, ppn, done, state: 0, links: Links::NONE };
        let slot = if self.free == NONE {
            self.slots.push(entry);
            self.slots.len() as u32 - 1
        } else {
            let slot = self.free;
            self.free = self.slots[slot as usize].links.next;
            prefetch_index(&self.slots, self.free as usize);
            self.slots[slot as usize] = entry;
            slot
        };
        self.index.insert(lpn, slot);
        slot
    }

    /// Removes an entry that is in no list any more.
    #[inline]
    pub fn remove(&mut self, slot: u32) -> Entry {
        let entry = self.slots[slot as usize];
        self.index.remove(entry.lpn);
        self.slots[slot as usize].links.next = self.free;
        self.free = slot;
        entry
    }

    /// Starts bringing into the processor's cache what looking an LPN up, or adding it, will touch.
    #[inline]
    pub fn expect(&self, lpn: Lpn) {
        self.index.expect(lpn);
    }

    /// Starts bringing the entry in a slot into the processor's cache.
    #[inline]
    pub fn expect_slot(&self, slot: u32) {
        prefetch_index(&self.slots, slot as usize);
    }

    /// Starts bringing into the processor's cache what removing the tail of a list will touch, beside the
    /// tail itself.
    #[inline]
    pub fn expect_removal(&self, list: &List) {
        if let Some(tail) = self.slots.get(list.tail() as usize) {
            self.index.expect(tail.lpn);
            prefetch_index(&self.slots, tail.links.prev as usize);
        }
    }

    /// Starts bringing the tail of a list into the processor's cache.
    #[inline]
    pub fn expect_tail(&self, list: &List) {
        prefetch_index(&self.slots, list.tail() as usize);
    }

    /// Starts bringing the head of a list into the processor's cache.
    #[inline]
    pub fn expect_head(&self, list: &List) {
        prefetch_index(&self.slots, list.head() as usize);
    }

    /// Puts a slot at the head of a list.
    #[inline]
    pub fn push_front(&mut self, list: &mut List, slot: u32) {
        list.push_front(&mut self.slots, slot);
    }

    /// Puts a slot where it belongs in a list ordered by last use. The search begins at `near`, which is in
    /// the list, or at the head for [`NONE`].
    pub fn insert_by_use(&mut self, list: &mut List, slot: u32, near: u32) {
        let used = |slot: u32| self.slots[slot as usize].used();
        let mut older = if near == NONE { list.head() } else { near };
        while older != NONE && used(older) > used(slot) {
            older = self.slots[older as usize].links.next;
        }
        let before = |older: u32| if older == NONE { list.tail() } else { self.newer(older) };
        while before(older) != NONE && used(before(older)) < used(slot) {
            older = before(older);
        }
        let between = Links { prev: before(older), next: older };
        list.insert(&mut self.slots, slot, between);
    }

    /// The first LPN from `from` on, and below `end`, that has an entry.
    pub fn next_present(&self, from: Lpn, end: Lpn) -> Option<Lpn> {
        self.index.next_present(from, end)
    }

    /// Takes a slot out of the list that it is in.
    #[inline]
    pub fn unlink(&mut self, list: &mut List, slot: u32) {
        list.unlink(&mut self.slots, slot);
    }

    /// The slot used next after this one in its list, or [`NONE`].
    #[inline]
    pub fn newer(&self, slot: u32) -> u32 {
        self.slots[slot as usize].links.prev
    }

    /// The slots of a list, from the most to the least recently used.
    pub fn iter<'a>(&'a self, list: &List) -> impl Iterator<Item = u32> + 'a {
        list.iter(&self.slots)
    }
}
