//! Two-level LRU (TPFTL, section 4.2): cached mappings clustered by translation page into *TP nodes*.
//!
//! Nodes are ordered by page-level hotness, the average hotness of their entries; the hotness of an entry is
//! the time of its last use. Inside a node, entries are in LRU order, clean and dirty ones apart.
//!
//! Charged: [`ENTRY_BYTES`] an entry (10-bit offset, dirty bit, 4-byte PPN, as the paper has it) and
//! [`NODE_BYTES`] a node (VTPN and links; the paper does not say, but in its figure 4 a node and one entry
//! leave room for two entries).

use super::entries::{Entries, Entry};
use crate::breach::Breach;
use crate::list::{List, NONE};
use crate::scheme::CachedPage;
use nand::{Done, Lpn, Vtpn};

/// Bytes charged for a cached mapping.
pub const ENTRY_BYTES: u64 = 6;
/// Bytes charged for a TP node.
pub const NODE_BYTES: u64 = 8;

const CLEAN: usize = 0;
const DIRTY: usize = 1;

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    lists: [List; 2],
    /// Sum of the entries' times of last use.
    hotness: u64,
}

impl Node {
    fn len(&self) -> u32 {
        self.lists[0].len() + self.lists[1].len()
    }
}

/// A cache of mappings in two levels.
#[derive(Clone, Debug)]
pub struct TwoLevel {
    entries: Entries,
    /// By VTPN.
    nodes: Vec<Node>,
    /// Heap of cached nodes, coldest first, four children a place: average hotness and VTPN in one word.
    heap: Vec<u64>,
    /// Place in the heap of each cached node, by VTPN.
    places: Vec<u32>,
    entries_shift: u32,
    budget_bytes: u64,
    clock: u64,
    /// The node and the slot that became dirty by relocation last, while it is dirty: the next one mostly
    /// belongs beside it.
    relocated: Option<(usize, u32)>,
}

/// Bits of a heap word that hold the VTPN: enough for 32-bit LPNs and pages of 4 KiB.
const VTPN_BITS: u32 = 25;

#[inline]
fn vtpn_of(word: u64) -> usize {
    (word & ((1 << VTPN_BITS) - 1)) as usize
}

impl TwoLevel {
    /// A cache of `budget_bytes` over a table of `table_pages` translation pages of `entries_per_page`
    /// mappings.
    pub fn new(budget_bytes: u64, table_pages: u32, entries_per_page: u32) -> TwoLevel {
        let capacity =
            (budget_bytes / ENTRY_BYTES).min(u64::from(table_pages) * u64::from(entries_per_page)) as usize;
        let lpns = table_pages as usize * entries_per_page as usize;
        TwoLevel {
            entries: Entries::new(capacity, lpns),
            nodes: vec![Node::default(); table_pages as usize],
            heap: Vec::with_capacity(table_pages as usize),
            places: vec![0; table_pages as usize],
            entries_shift: entries_per_page.trailing_zeros(),
            budget_bytes,
            clock: 0,
            relocated: None,
        }
    }

    /// Mappings in the cache now, over all TP nodes.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes in use: by entries, by nodes.
    pub fn bytes(&self) -> (u64, u64) {
        (self.entries.len() as u64 * ENTRY_BYTES, self.heap.len() as u64 * NODE_BYTES)
    }

    /// Bytes that are not in use.
    #[inline]
    pub fn free_bytes(&self) -> u64 {
        let (entries, nodes) = self.bytes();
        self.budget_bytes.saturating_sub(entries + nodes)
    }

    /// From now on the cache may use so many bytes, at most as many as it was made for. Returns how many more
    /// are in use.
    #[inline]
    pub fn set_budget(&mut self, bytes: u64) -> u64 {
        self.budget_bytes = bytes;
        let (entries, nodes) = self.bytes();
        (entries + nodes).saturating_sub(bytes)
    }

    #[inline]
    fn vtpn(&self, lpn: Lpn) -> usize {
        (lpn.0 >> self.entries_shift) as usize
    }

    /// Mappings cached of a translation page.
    #[inline]
    pub fn len_of(&self, vtpn: Vtpn) -> u32 {
        self.nodes[vtpn.0 as usize].len()
    }

    /// Dirty mappings cached of a translation page.
    #[inline]
    pub fn dirty_of(&self, vtpn: Vtpn) -> u32 {
        self.nodes[vtpn.0 as usize].lists[DIRTY].len()
    }

    /// Whether an LPN is cached.
    #[inline]
    pub fn contains(&self, lpn: Lpn) -> bool {
        self.entries.contains(lpn)
    }

    /// How many LPNs directly before `lpn`, in its translation page, are cached.
    pub fn predecessors(&self, lpn: Lpn) -> u32 {
        let first = lpn.0 >> self.entries_shift << self.entries_shift;
        (first..lpn.0).rev().take_while(|&before| self.contains(Lpn(before))).count() as u32
    }

    /// The entry of an LPN, without using it.
    #[inline]
    pub fn peek(&self, lpn: Lpn) -> Option<&Entry> {
        self.entries.find(lpn).map(|slot| self.entries.get(slot))
    }

    /// Uses the entry of an LPN.
    #[inline]
    pub fn touch(&mut self, lpn: Lpn) -> Option<Entry> {
        self.entries.find(lpn).map(|slot| self.use_slot(slot, None))
    }

    /// Uses the entry of an LPN and changes it, which makes it dirty. Returns the entry as it was.
    #[inline]
    pub fn write(&mut self, lpn: Lpn, ppn: u32, done: Done) -> Option<Entry> {
        self.entries.find(lpn).map(|slot| self.use_slot(slot, Some((ppn, done))))
    }

    fn use_slot(&mut self, slot: u32, change: Option<(u32, Done)>) -> Entry {
        self.clock += 1;
        let old = *self.entries.get(slot);
        let vtpn = self.vtpn(old.lpn);
        let node = &mut self.nodes[vtpn];
        self.entries.unlink(&mut node.lists[old.list()], slot);
        let entry = self.entries.get_mut(slot);
        entry.set_used(self.clock);
        if let Some((ppn, done)) = change {
            (entry.ppn, entry.done) = (ppn, done);
            entry.set_dirty(true);
            entry.set_list(DIRTY);
        }
        let list = entry.list();
        self.entries.push_front(&mut node.lists[list], slot);
        node.hotness += self.clock - old.used();
        self.place_again(vtpn);
        old
    }

    /// Adds a clean entry for an LPN that has none. There must be room. Returns whether that made a new node.
    pub fn insert(&mut self, lpn: Lpn, ppn: u32, done: Done) -> bool {
        self.clock += 1;
        let slot = self.entries.insert(lpn, ppn, done);
        self.entries.get_mut(slot).set_used(self.clock);
        let vtpn = self.vtpn(lpn);
        let node = &mut self.nodes[vtpn];
        let fresh = node.len() == 0;
        self.entries.push_front(&mut node.lists[CLEAN], slot);
        node.hotness += self.clock;
        if fresh {
            self.heap.push(self.clock << VTPN_BITS | vtpn as u64);
            self.sift_up(self.heap.len() - 1);
        } else {
            self.place_again(vtpn);
        }
        self.expect_eviction();
        fresh
    }

    /// Changes an entry without using it (collection moved the page), which makes it dirty. Whether there is
    /// one.
    pub fn relocate(&mut self, lpn: Lpn, ppn: u32, done: Done) -> bool {
        let Some(slot) = self.entries.find(lpn) else { return false };
        let vtpn = self.vtpn(lpn);
        let entry = self.entries.get_mut(slot);
        (entry.ppn, entry.done) = (ppn, done);
        if !entry.set_dirty(true) {
            entry.set_list(DIRTY);
            let [clean, dirty] = &mut self.nodes[vtpn].lists;
            self.entries.unlink(clean, slot);
            let near = self.relocated.filter(|&(of, _)| of == vtpn);
            self.entries.insert_by_use(dirty, slot, near.map_or(NONE, |(_, near)| near));
            self.relocated = Some((vtpn, slot));
        }
        true
    }

    /// As [`TwoLevel::relocate`] for an entry whose translation page is written next with what changed: a
    /// clean entry stays clean, and keeps its place. Whether there is a dirty one.
    pub fn correct(&mut self, lpn: Lpn, ppn: u32, done: Done) -> bool {
        let Some(slot) = self.entries.find(lpn) else { return false };
        let entry = self.entries.get_mut(slot);
        (entry.ppn, entry.done) = (ppn, done);
        entry.is_dirty()
    }

    /// Drops the entry of an LPN. Returns it and whether its node went with it.
    pub fn remove(&mut self, lpn: Lpn) -> Option<(Entry, bool)> {
        self.entries.find(lpn).map(|slot| self.remove_slot(slot))
    }

    /// Drops the entry in a slot. Returns it and whether its node went with it.
    pub fn remove_slot(&mut self, slot: u32) -> (Entry, bool) {
        let vtpn = self.vtpn(self.entries.get(slot).lpn);
        let list = self.entries.get(slot).list();
        self.entries.unlink(&mut self.nodes[vtpn].lists[list], slot);
        self.relocated = self.relocated.filter(|&(_, near)| near != slot);
        let entry = self.entries.remove(slot);
        let node = &mut self.nodes[vtpn];
        node.hotness -= entry.used();
        let last = node.len() == 0;
        if last {
            self.take_out(self.places[vtpn] as usize);
        } else {
            self.place_again(vtpn);
        }
        self.expect_victims();
        (entry, last)
    }

    /// Starts bringing into the processor's cache the entries that may leave next: of the coldest node and of
    /// those that may become the coldest.
    #[inline]
    fn expect_victims(&self) {
        for &word in self.heap.iter().take(5) {
            self.entries.expect_tail(&self.nodes[vtpn_of(word)].lists[CLEAN]);
        }
    }

    /// Starts bringing into the processor's cache what the next eviction will touch beside the entry itself,
    /// which [`TwoLevel::expect_victims`] named a while ago.
    #[inline]
    fn expect_eviction(&self) {
        if let Some(&word) = self.heap.first() {
            self.entries.expect_removal(&self.nodes[vtpn_of(word)].lists[CLEAN]);
        }
    }

    /// The TP node with the lowest mean hotness of its entries; `None` when the cache is empty.
    #[inline]
    pub fn coldest(&self) -> Option<Vtpn> {
        self.heap.first().map(|&word| Vtpn(vtpn_of(word) as u32))
    }

    /// The slots of the `count` entries of a node that leave next, in order: the least recently used, with
    /// `clean_first` the clean ones before the dirty ones.
    #[inline]
    pub fn victims_of(&self, vtpn: Vtpn, count: u32, clean_first: bool, victims: &mut Vec<u32>) {
        let [mut clean, mut dirty] = self.nodes[vtpn.0 as usize].lists.map(|list| list.tail());
        victims.clear();
        for _ in 0..count {
            let used = |slot: u32| self.entries.get(slot).used();
            let takes_clean = match (clean, dirty) {
                (NONE, NONE) => return,
                (NONE, _) => false,
                (_, NONE) => true,
                (clean, dirty) => clean_first || used(clean) < used(dirty),
            };
            let next = if takes_clean { &mut clean } else { &mut dirty };
            victims.push(*next);
            *next = self.entries.newer(*next);
        }
    }

    /// The entry in a slot.
    #[inline]
    pub fn get(&self, slot: u32) -> &Entry {
        self.entries.get(slot)
    }

    /// Calls `each` for every dirty entry of a node.
    pub fn each_dirty(&self, vtpn: Vtpn, mut each: impl FnMut(&Entry)) {
        for slot in self.entries.iter(&self.nodes[vtpn.0 as usize].lists[DIRTY]) {
            each(self.entries.get(slot));
        }
    }

    /// Calls `each` for every node.
    pub fn each_node(&self, each: &mut dyn FnMut(CachedPage)) {
        for &word in &self.heap {
            let vtpn = Vtpn(vtpn_of(word) as u32);
            each(CachedPage { vtpn, entries: self.len_of(vtpn), dirty: self.dirty_of(vtpn) });
        }
    }

    /// Marks every entry of a node clean: they were written back.
    pub fn cleaned(&mut self, vtpn: Vtpn) {
        self.relocated = None;
        let [clean, dirty] = &mut self.nodes[vtpn.0 as usize].lists;
        let mut newer = NONE;
        while !dirty.is_empty() {
            let slot = dirty.head();
            self.entries.unlink(dirty, slot);
            let entry = self.entries.get_mut(slot);
            entry.set_dirty(false);
            entry.set_list(CLEAN);
            self.entries.insert_by_use(clean, slot, newer);
            newer = slot;
        }
    }

    /// Brings a node to its place in the heap after its hotness changed.
    #[inline]
    fn place_again(&mut self, vtpn: usize) {
        let node = &self.nodes[vtpn];
        let average = node.hotness / u64::from(node.len());
        let word = average << VTPN_BITS | vtpn as u64;
        let place = self.places[vtpn] as usize;
        let before = std::mem::replace(&mut self.heap[place], word);
        if word > before {
            self.sift_down(place);
        } else if word < before {
            self.sift_up(place);
        }
    }

    fn take_out(&mut self, place: usize) {
        let last = self.heap.len() - 1;
        self.heap.swap(place, last);
        self.heap.pop();
        if place < last {
            self.places[vtpn_of(self.heap[place])] = place as u32;
            self.sift_down(place);
            self.sift_up(place);
        }
    }

    fn sift_up(&mut self, mut at: usize) {
        let word = self.heap[at];
        while at > 0 && word < self.heap[(at - 1) / 4] {
            self.heap[at] = self.heap[(at - 1) / 4];
            self.places[vtpn_of(self.heap[at])] = at as u32;
            at = (at - 1) / 4;
        }
        self.heap[at] = word;
        self.places[vtpn_of(word)] = at as u32;
    }

    fn sift_down(&mut self, mut at: usize) {
        let word = self.heap[at];
        loop {
            let first = 4 * at + 1;
            let (child, least) = match self.heap.get(first..) {
                // Which one it is cannot be guessed, so that a processor had better not branch on it.
                Some(&[a, b, c, d, ..]) => {
                    let (left, ab) = if b < a { (1, b) } else { (0, a) };
                    let (right, cd) = if d < c { (3, d) } else { (2, c) };
                    if cd < ab {
                        (right, cd)
                    } else {
                        (left, ab)
                    }
                }
                Some(few) => match (0..).zip(few).min_by_key(|&(_, &child)| child) {
                    Some((child, &least)) => (child, least),
                    None => break,
                },
                None => break,
            };
            if word <= least {
                break;
            }
            self.heap[at] = least;
            self.places[vtpn_of(least)] = at as u32;
            at = first + child;
        }
        self.heap[at] = word;
        self.places[vtpn_of(word)] = at as u32;
    }

    /// Starts bringing into the processor's cache what using or adding an LPN will touch.
    #[inline]
    pub fn expect(&self, lpn: Lpn) {
        self.entries.expect(lpn);
        self.entries.expect_head(&self.nodes[self.vtpn(lpn)].lists[CLEAN]);
    }

    /// Checks lists, index, heap and bytes against each other.
    pub fn check(&self) -> Result<(), Breach> {
        let (entries, nodes) = self.bytes();
        if entries + nodes > self.budget_bytes {
            return Err(format!("the cache holds {} bytes of {}", entries + nodes, self.budget_bytes).into());
        }
        let mut listed = 0;
        for (place, &word) in self.heap.iter().enumerate() {
            let (key, vtpn) = (word >> VTPN_BITS, vtpn_of(word));
            let node = &self.nodes[vtpn];
            let parent = place.saturating_sub(1) / 4;
            if self.places[vtpn] as usize != place || self.heap[parent] > word {
                return Err(format!("TP node {vtpn} is out of place in the page-level order").into());
            }
            let mut hotness = 0;
            for (number, list) in node.lists.iter().enumerate() {
                let mut newest = u64::MAX;
                for slot in self.entries.iter(list) {
                    let entry = self.entries.get(slot);
                    listed += 1;
                    hotness += entry.used();
                    let in_order = entry.used() < newest && entry.is_dirty() == (number == DIRTY);
                    newest = entry.used();
                    if !in_order || self.vtpn(entry.lpn) != vtpn || self.entries.find(entry.lpn) != Some(slot)
                    {
                        return Err(format!("LPN {} is cached in the wrong place", entry.lpn.0).into());
                    }
                }
            }
            if hotness != node.hotness || key != hotness / u64::from(node.len().max(1)) {
                return Err(format!("TP node {vtpn} has the wrong hotness").into());
            }
        }
        if listed != self.entries.len() {
            return Err(
                format!("{} mappings are cached but {listed} are in lists", self.entries.len()).into()
            );
        }
        Ok(())
    }
}
