//! Groups in memory: packed records under LRU.

use crate::breach::Breach;
use crate::list::{linked, Links, List, NONE};
use nand::Done;
use prefetch_index::prefetch_index;

/// A group that is not cached.
const ABSENT: u8 = u8::MAX;
/// Records lie in slots of 16, 32, 64 .. bytes. A matter of this program alone: a firmware would compact its
/// memory, and what is charged are the bytes of the records.
const LEAST_SLOT: usize = 16;
const CLASSES: usize = 9;

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Size class, or `ABSENT`.
    class: u8,
    dirty: bool,
    length: u16,
    slot: u32,
    /// Neighbours in the order of use.
    links: Links,
    /// When the record is loaded.
    known: Done,
    /// When the pages that it leads to are programmed.
    programmed: Done,
}

linked!(Node);

#[derive(Clone, Debug)]
struct Class {
    bytes: Vec<u8>,
    free: Vec<u32>,
}

/// The cached groups.
#[derive(Clone, Debug)]
pub struct Cache {
    /// By group.
    nodes: Vec<Node>,
    classes: Vec<Class>,
    /// Cached groups, the most recently used first.
    used: List,
    dirty: u32,
    /// Bytes of all records.
    bytes: u64,
}

impl Cache {
    /// What a cached group takes beside its record: where the record is (4), its length and flags (2), two
    /// LRU links (2 x 4), and an index entry (2).
    pub const GROUP_BYTES: u64 = 16;

    /// An empty cache for `groups` groups, which will not hold more than `bytes` bytes for long.
    pub fn new(groups: u32, bytes: u64) -> Cache {
        let absent = Node {
            class: ABSENT,
            dirty: false,
            length: 0,
            slot: 0,
            links: Links::NONE,
            known: Done::READY,
            programmed: Done::READY,
        };
        let class = |class: usize| {
            let size = LEAST_SLOT << class;
            let slots = (groups as usize).min(2 * bytes as usize / size + 8);
            Class { bytes: Vec::with_capacity(slots * size), free: Vec::with_capacity(slots) }
        };
        Cache {
            nodes: vec![absent; groups as usize],
            classes: (0..CLASSES).map(class).collect(),
            used: List::EMPTY,
            dirty: 0,
            bytes: 0,
        }
    }

    /// Bytes in use: records and what each group takes beside.
    pub fn bytes(&self) -> u64 {
        self.bytes + self.cached() * Cache::GROUP_BYTES
    }

    /// Memory that the cached records take, as packed on flash.
    pub fn record_bytes(&self) -> u64 {
        self.bytes
    }

    /// Groups cached.
    pub fn cached(&self) -> u64 {
        u64::from(self.used.len())
    }

    /// Whether any group is newer than on flash.
    pub fn has_dirty(&self) -> bool {
        self.dirty > 0
    }

    /// Whether a group is cached.
    #[inline]
    pub fn has(&self, group: u32) -> bool {
        self.nodes[group as usize].class != ABSENT
    }

    /// Whether a group is newer than on flash.
    #[inline]
    pub fn is_dirty(&self, group: u32) -> bool {
        self.nodes[group as usize].dirty
    }

    /// The record of a cached group.
    #[inline]
    pub fn record(&self, group: u32) -> &[u8] {
        let node = &self.nodes[group as usize];
        debug_assert!(node.class != ABSENT);
        let size = LEAST_SLOT << node.class;
        &self.classes[usize::from(node.class)].bytes[node.slot as usize * size..][..usize::from(node.length)]
    }

    /// Starts bringing the record of a cached group into the processor's cache.
    pub fn expect(&self, group: u32) {
        let record = self.record(group);
        (0..record.len()).step_by(64).for_each(|at| prefetch_index(record, at));
    }

    /// When the record of a cached group is there, and when the pages that it leads to are programmed.
    #[inline]
    pub fn waits(&self, group: u32) -> (Done, Done) {
        let node = &self.nodes[group as usize];
        (node.known, node.programmed)
    }

    /// The least recently used group.
    pub fn coldest(&self) -> Option<u32> {
        Some(self.used.tail()).filter(|&group| group != NONE)
    }

    /// Makes a cached group the most recently used one.
    #[inline]
    pub fn touch(&mut self, group: u32) {
        self.used.touch(&mut self.nodes, group);
    }

    /// Caches a group as it is on flash.
    pub fn load(&mut self, group: u32, record: &[u8], known: Done) {
        debug_assert!(!self.has(group));
        self.place(group, record);
        let node = &mut self.nodes[group as usize];
        (node.known, node.programmed, node.dirty) = (known, Done::READY, false);
        self.used.push_front(&mut self.nodes, group);
    }

    /// Replaces the record of a cached group; it is newer than flash from now on. `programmed` covers the
    /// pages that it leads to.
    pub fn replace(&mut self, group: u32, record: &[u8], programmed: Done) {
        let node = &self.nodes[group as usize];
        debug_assert!(node.class != ABSENT);
        if usize::from(node.class) == class_of(record.len()) {
            let (class, slot) = (usize::from(node.class), node.slot as usize);
            let size = LEAST_SLOT << class;
            self.classes[class].bytes[slot * size..][..record.len()].copy_from_slice(record);
            self.bytes = self.bytes + record.len() as u64 - u64::from(node.length);
            self.nodes[group as usize].length = record.len() as u16;
        } else {
            self.give_up(group);
            self.place(group, record);
        }
        let node = &mut self.nodes[group as usize];
        node.programmed = programmed;
        self.dirty += u32::from(!node.dirty);
        node.dirty = true;
    }

    /// A group is on flash as it is here.
    pub fn clean(&mut self, group: u32) {
        let node = &mut self.nodes[group as usize];
        self.dirty -= u32::from(node.dirty);
        node.dirty = false;
    }

    /// Puts a clean group out.
    pub fn remove(&mut self, group: u32) {
        assert!(!self.is_dirty(group), "group {group} is newer than on flash");
        self.used.unlink(&mut self.nodes, group);
        self.give_up(group);
        self.nodes[group as usize].class = ABSENT;
    }

    fn place(&mut self, group: u32, record: &[u8]) {
        let class = class_of(record.len());
        let size = LEAST_SLOT << class;
        let Class { bytes, free } = &mut self.classes[class];
        let slot = free.pop().unwrap_or_else(|| {
            bytes.resize(bytes.len() + size, 0);
            (bytes.len() / size - 1) as u32
        });
        bytes[slot as usize * size..][..record.len()].copy_from_slice(record);
        self.bytes += record.len() as u64;
        let node = &mut self.nodes[group as usize];
        (node.class, node.slot, node.length) = (class as u8, slot, record.len() as u16);
    }

    fn give_up(&mut self, group: u32) {
        let node = &self.nodes[group as usize];
        self.classes[usize::from(node.class)].free.push(node.slot);
        self.bytes -= u64::from(node.length);
    }

    /// Checks counts against the nodes; one sentence for the first breach.
    pub fn check(&self) -> Result<(), Breach> {
        let cached: Vec<&Node> = self.nodes.iter().filter(|node| node.class != ABSENT).collect();
        let bytes: u64 = cached.iter().map(|node| u64::from(node.length)).sum();
        let dirty = cached.iter().filter(|node| node.dirty).count();
        if (cached.len(), dirty, bytes) != (self.used.len() as usize, self.dirty as usize, self.bytes) {
            return Err(format!(
                "{} groups are cached, {dirty} of them dirty, in {bytes} bytes, but {}, {} and {} are counted",
                cached.len(),
                self.used.len(),
                self.dirty,
                self.bytes
            ).into());
        }
        let listed = self.used.iter(&self.nodes).take(cached.len() + 1).count();
        if listed != cached.len() {
            return Err(format!("{} groups are cached but {listed} are in the LRU list", cached.len()).into());
        }
        Ok(())
    }
}

/// The size class of a record.
fn class_of(length: usize) -> usize {
    (length.max(1).next_power_of_two().max(LEAST_SLOT) / LEAST_SLOT).trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_kept_through_growth_and_put_out_in_order_of_use() {
        let mut cache = Cache::new(8, 4096);
        for group in 0..8u32 {
            cache.load(group, &vec![group as u8; 5 * group as usize], Done::READY);
        }
        cache.touch(0);
        cache.replace(3, &[9; 2306], Done::READY);
        cache.replace(5, &[], Done::READY);
        assert_eq!(cache.record(3), [9; 2306]);
        assert_eq!(cache.record(7), [7; 35]);
        assert!(cache.is_dirty(3) && cache.has_dirty() && cache.record(5).is_empty());
        assert_eq!(cache.check(), Ok(()));
        assert_eq!(cache.coldest(), Some(1));
        cache.remove(1);
        cache.clean(3);
        cache.clean(5);
        assert!(!cache.has_dirty() && !cache.has(1) && cache.cached() == 7);
        assert_eq!(cache.record_bytes(), 2306 + 10 + 20 + 30 + 35);
        assert_eq!(cache.check(), Ok(()));
    }
}
