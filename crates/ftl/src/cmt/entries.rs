//! The store under every cached mapping table: slots of fixed number, an index by LPN, intrusive lists.
//!
//! The simulator's own bookkeeping (index, links, completions) is not what a firmware would hold: what is charged to
//! the budget is decided by each cache.

use hashbrown::HashTable;
use nand::{Done, Lpn};

/// No slot.
pub const NONE: u32 = u32::MAX;

/// A cached mapping.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Whose mapping.
    pub lpn: Lpn,
    /// The PPN, or [`crate::table::UNMAPPED`].
    pub ppn: u32,
    /// The mapping on flash is older.
    pub dirty: bool,
    /// The list that the entry is in, for caches with several.
    pub list: u8,
    /// Time of the last use, in uses of the cache.
    pub used: u64,
    /// What a user of the entry waits for: its load, and the program of the page it leads to.
    pub done: Done,
    prev: u32,
    next: u32,
}

/// A doubly linked list through the slots; the head is the most recently used.
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> List {
        List { head: NONE, tail: NONE, len: 0 }
    }
}

impl List {
    /// Entries in the list.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The least recently used slot, or [`NONE`].
    #[inline]
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// The most recently used slot, or [`NONE`].
    #[inline]
    pub fn head(&self) -> u32 {
        self.head
    }
}

/// Slots with an index by LPN.
#[derive(Clone, Debug)]
pub struct Entries {
    slots: Vec<Entry>,
    index: HashTable<u32>,
    /// One bit an LPN: whether it has an entry. Most questions are about LPNs that have none; this answers them from a
    /// small array.
    present: Vec<u64>,
    /// Head of the chain of free slots, through `next`.
    free: u32,
}

/// Fibonacci hashing: LPNs are dense, so their spread is all that is needed; the same on every machine.
#[inline]
fn hash(lpn: Lpn) -> u64 {
    u64::from(lpn.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Entries {
    /// Room for `capacity` entries of LPNs below `lpns`, allocated now.
    pub fn new(capacity: usize, lpns: usize) -> Entries {
        Entries {
            slots: Vec::with_capacity(capacity),
            index: HashTable::with_capacity(2 * capacity),
            present: vec![0; lpns.div_ceil(64)],
            free: NONE,
        }
    }

    /// Whether an LPN has an entry.
    #[inline]
    pub fn contains(&self, lpn: Lpn) -> bool {
        self.present[lpn.0 as usize / 64] >> (lpn.0 % 64) & 1 == 1
    }

    /// Entries present.
    #[inline]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The slot of an LPN.
    #[inline]
    pub fn find(&self, lpn: Lpn) -> Option<u32> {
        if !self.contains(lpn) {
            return None;
        }
        self.index.find(hash(lpn), |&slot| self.slots[slot as usize].lpn == lpn).copied()
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

    /// Adds an entry for an LPN that has none, in no list yet.
    #[inline]
    pub fn insert(&mut self, lpn: Lpn, ppn: u32, dirty: bool, done: Done) -> u32 {
        debug_assert!(!self.contains(lpn));
        let entry = Entry { lpn, ppn, dirty, list: 0, used: 0, done, prev: NONE, next: NONE };
        let slot = if self.free == NONE {
            self.slots.push(entry);
            self.slots.len() as u32 - 1
        } else {
            let slot = self.free;
            self.free = self.slots[slot as usize].next;
            self.slots[slot as usize] = entry;
            slot
        };
        self.present[lpn.0 as usize / 64] |= 1 << (lpn.0 % 64);
        let slots = &self.slots;
        self.index.insert_unique(hash(lpn), slot, |&slot| hash(slots[slot as usize].lpn));
        slot
    }

    /// Removes an entry that is in no list any more.
    #[inline]
    pub fn remove(&mut self, slot: u32) -> Entry {
        let entry = self.slots[slot as usize];
        if let Ok(found) = self.index.find_entry(hash(entry.lpn), |&at| at == slot) {
            found.remove();
        }
        self.present[entry.lpn.0 as usize / 64] &= !(1 << (entry.lpn.0 % 64));
        self.slots[slot as usize].next = self.free;
        self.free = slot;
        entry
    }

    /// Puts a slot at the head of a list.
    #[inline]
    pub fn push_front(&mut self, list: &mut List, slot: u32) {
        self.slots[slot as usize].prev = NONE;
        self.slots[slot as usize].next = list.head;
        if list.head == NONE {
            list.tail = slot;
        } else {
            self.slots[list.head as usize].prev = slot;
        }
        list.head = slot;
        list.len += 1;
    }

    /// Puts a slot where it belongs in a list ordered by last use.
    pub fn insert_by_use(&mut self, list: &mut List, slot: u32) {
        let used = self.slots[slot as usize].used;
        let mut older = list.head;
        while older != NONE && self.slots[older as usize].used > used {
            older = self.slots[older as usize].next;
        }
        let newer = if older == NONE { list.tail } else { self.slots[older as usize].prev };
        if newer == NONE {
            self.push_front(list, slot);
            return;
        }
        (self.slots[slot as usize].prev, self.slots[slot as usize].next) = (newer, older);
        self.slots[newer as usize].next = slot;
        if older == NONE {
            list.tail = slot;
        } else {
            self.slots[older as usize].prev = slot;
        }
        list.len += 1;
    }

    /// Takes a slot out of the list that it is in.
    #[inline]
    pub fn unlink(&mut self, list: &mut List, slot: u32) {
        let Entry { prev, next, .. } = self.slots[slot as usize];
        if prev == NONE {
            list.head = next;
        } else {
            self.slots[prev as usize].next = next;
        }
        if next == NONE {
            list.tail = prev;
        } else {
            self.slots[next as usize].prev = prev;
        }
        list.len -= 1;
    }

    /// The slots of a list, from the most to the least recently used.
    pub fn iter<'a>(&'a self, list: &List) -> impl Iterator<Item = u32> + 'a {
        let mut at = list.head;
        std::iter::from_fn(move || {
            let slot = at;
            (slot != NONE).then(|| {
                at = self.slots[slot as usize].next;
                slot
            })
        })
    }
}
