//! Linear groups as lists of blocks, and equation 1: local PPA <-> global PPA.
//!
//! A linear group is a *lane*: the blocks of a superblock in some neighbouring units, without those that were
//! bad when the superblock was opened. A lane is a node of a binary tree over the units. Its root, node 1, is
//! the whole superblock; nodes 2n and 2n + 1 are the halves of node n. A group's number says node, superblock
//! and part, so that a model tells by itself where it leads, however its superblock is divided later. A group
//! whose local PPAs would not fit 16 bits is cut into parts by rows of pages.
//!
//! The list stays what it was at the opening: a block that goes bad meanwhile is skipped, which costs one
//! local PPA a row until the superblock is full. Nobody else remembers which blocks were good when a
//! superblock was opened, so the list goes with every page, in its OOB, one bit a unit. How a superblock is
//! divided is kept in memory alone: it says to which group a page is trained, and any node above a page
//! leads to it.

use nand::{Divisor, Geometry, Ppn};
use std::ops::Range;

use crate::scheme::ConfigError;

/// Lanes of a superblock at most: a tree of so many leaves has its splits in 32 bits.
pub const MOST_LANES: u32 = 32;
/// The whole superblock.
pub const ROOT: u32 = 1;

/// The block lists of all superblocks, and how each is divided into lanes.
#[derive(Clone, Debug)]
pub struct BlockLists {
    units: u32,
    pages_per_block: u32,
    /// Divide a page's number, and its row's.
    by_units: Divisor,
    by_rows: Divisor,
    rows_per_part: u32,
    parts: u32,
    /// Groups of superblocks that are not divided.
    groups: u32,
    /// Lanes of a superblock at most, a power of two.
    lanes: u32,
    /// Words of a superblock's list.
    words: usize,
    /// One bit a unit: its block belongs to the group.
    lists: Vec<u64>,
    /// Blocks in each list (K).
    counts: Vec<u32>,
    /// By superblock: bit n says that node n is divided.
    splits: Vec<u32>,
}

impl BlockLists {
    /// Empty lists, for up to `lanes` lanes a superblock; the error says what does not fit 16 bits.
    pub fn new(geometry: &Geometry, lanes: u32) -> Result<BlockLists, ConfigError> {
        let units = geometry.units();
        let rows_per_part = ((1 << 16) / units).clamp(1, geometry.pages_per_block);
        let parts = geometry.pages_per_block.div_ceil(rows_per_part);
        let groups = u64::from(parts) * u64::from(geometry.superblocks());
        if units > 1 << 16 || groups >= u64::from(u16::MAX) {
            return Err(ConfigError(format!(
                "scheme lftl: {groups} linear groups of at most 65536 pages over {units} parallel units; a \
                 group's number has 16 bits"
            )));
        }
        let mut most = lanes.min(MOST_LANES).min(units).max(1).ilog2();
        while groups * ((2 << most) - 1) >= u64::from(u16::MAX) {
            most -= 1;
        }
        let words = units.div_ceil(64) as usize;
        Ok(BlockLists {
            units,
            pages_per_block: geometry.pages_per_block,
            by_units: Divisor::new(units),
            by_rows: Divisor::new(geometry.pages_per_block),
            rows_per_part,
            parts,
            groups: groups as u32,
            lanes: 1 << most,
            words,
            lists: vec![0; words * geometry.superblocks() as usize],
            counts: vec![0; geometry.superblocks() as usize],
            splits: vec![0; geometry.superblocks() as usize],
        })
    }

    /// Bytes of one list, in memory and in OOB.
    pub fn list_bytes(&self) -> usize {
        self.units.div_ceil(8) as usize
    }

    /// Bytes of all lists, and of what says how each superblock is divided: a bit for each node that can be.
    pub fn bytes(&self) -> u64 {
        let divided = (self.lanes - 1).div_ceil(8) as usize;
        self.counts.len() as u64 * (self.list_bytes() + divided) as u64
    }

    /// Lanes that a superblock can have at most.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Sets the list of a superblock to the units for which `is_good`; it is not divided.
    pub fn set(&mut self, superblock: u32, is_good: impl Fn(u32) -> bool) {
        let list = &mut self.lists[superblock as usize * self.words..][..self.words];
        list.fill(0);
        for unit in (0..self.units).filter(|&unit| is_good(unit)) {
            list[unit as usize / 64] |= 1 << (unit % 64);
        }
        self.counts[superblock as usize] = list.iter().map(|word| word.count_ones()).sum();
        self.splits[superblock as usize] = 0;
    }

    /// Sets the list of a superblock from its bytes.
    pub fn set_bytes(&mut self, superblock: u32, bytes: &[u8]) {
        self.set(superblock, |unit| bytes[unit as usize / 8] >> (unit % 8) & 1 == 1);
    }

    /// The bytes of a superblock's list, in place of what `bytes` held.
    pub fn to_bytes(&self, superblock: u32, bytes: &mut Vec<u8>) {
        bytes.clear();
        let list = &self.lists[superblock as usize * self.words..][..self.words];
        list.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.truncate(self.list_bytes());
    }

    /// Whether a superblock has a list.
    pub fn is_set(&self, superblock: u32) -> bool {
        self.counts[superblock as usize] > 0
    }

    /// Divides a node of a superblock: what is written from now on to its units is of its halves.
    pub fn divide(&mut self, superblock: u32, node: u32) {
        assert!(node < self.lanes, "node {node} is a leaf");
        self.splits[superblock as usize] |= 1 << node;
    }

    /// The units of a node.
    #[inline]
    pub fn units_of(&self, node: u32) -> Range<u32> {
        let depth = node.ilog2();
        let at = node - (1 << depth);
        let edge = |at: u32| ((u64::from(self.units) * u64::from(at)) >> depth) as u32;
        edge(at)..edge(at + 1)
    }

    /// The lane of a superblock to which a unit belongs.
    #[inline]
    pub fn node_of(&self, superblock: u32, unit: u32) -> u32 {
        let splits = self.splits[superblock as usize];
        let mut node = ROOT;
        while node < self.lanes && splits >> node & 1 == 1 {
            node = 2 * node + u32::from(unit >= self.units_of(2 * node).end);
        }
        node
    }

    /// The superblock of a group.
    pub fn superblock_of(&self, group: u16) -> u32 {
        u32::from(group) % self.groups / self.parts
    }

    /// Whether a group is a part of that node of that superblock.
    pub fn is_of(&self, group: u16, superblock: u32, node: u32) -> bool {
        self.superblock_of(group) == superblock && u32::from(group) / self.groups + 1 == node
    }

    fn list(&self, superblock: u32) -> &[u64] {
        &self.lists[superblock as usize * self.words..][..self.words]
    }

    /// Blocks of a list in some units.
    #[inline]
    fn count(&self, superblock: u32, units: Range<u32>) -> u32 {
        let words = (0..).zip(self.list(superblock)).map(|(at, &word)| {
            let from = units.start.clamp(at * 64, at * 64 + 64) - at * 64;
            let to = units.end.clamp(at * 64, at * 64 + 64) - at * 64;
            let below = |bit: u32| if bit == 64 { u64::MAX } else { (1 << bit) - 1 };
            (word & below(to) & !below(from)).count_ones()
        });
        words.sum()
    }

    /// The block of a superblock in `unit` belongs to a group.
    #[inline]
    fn is_listed(&self, superblock: u32, unit: u32) -> bool {
        self.list(superblock)[unit as usize / 64] >> (unit % 64) & 1 == 1
    }

    /// Whether a page belongs to a group.
    #[inline]
    pub fn has(&self, ppn: Ppn) -> bool {
        let (row, unit) = self.by_units.divide(ppn.0);
        self.is_listed(self.by_rows.divide(row).0, unit)
    }

    /// The group and local PPA of a page; `None` when its block is not in the list.
    #[inline]
    pub fn local(&self, ppn: Ppn) -> Option<(u16, u16)> {
        let (row, unit) = self.by_units.divide(ppn.0);
        let (superblock, row) = self.by_rows.divide(row);
        if !self.is_listed(superblock, unit) {
            return None;
        }
        let node = self.node_of(superblock, unit);
        let units = self.units_of(node);
        let is_whole = self.counts[superblock as usize] == self.units;
        let blocks = |units: Range<u32>| match is_whole {
            true => units.len() as u32,
            false => self.count(superblock, units),
        };
        let (index, count) = (blocks(units.start..unit), blocks(units));
        let (part, row) = (row / self.rows_per_part, row % self.rows_per_part);
        let group = (node - 1) * self.groups + superblock * self.parts + part;
        Some((group as u16, (row * count + index) as u16))
    }

    /// The page at a local PPA of a group; `None` beyond its end.
    #[inline]
    pub fn global(&self, group: u16, local: u16) -> Option<Ppn> {
        self.part(group).page(local)
    }

    /// A group, found once for many pages of it.
    #[inline]
    pub fn part(&self, group: u16) -> Part<'_> {
        let (number, node) = match u32::from(group) {
            whole if whole < self.groups => (whole, ROOT),
            group => (group % self.groups, group / self.groups + 1),
        };
        let (superblock, part) = match self.parts {
            1 => (number, 0),
            parts => (number / parts, number % parts),
        };
        let units = self.units_of(node);
        let is_whole = self.counts[superblock as usize] == self.units;
        let count = if is_whole { units.len() as u32 } else { self.count(superblock, units.clone()) };
        let below = if is_whole { units.start } else { self.count(superblock, 0..units.start) };
        let first_row = part * self.rows_per_part;
        let rows = self.rows_per_part.min(self.pages_per_block - first_row);
        let row = superblock * self.pages_per_block + first_row;
        Part { lists: self, superblock, is_whole, count, below, rows, row }
    }

    /// The unit of block `index` of a list.
    fn unit_at(&self, superblock: u32, mut index: u32) -> Option<u32> {
        for (at, &word) in (0..).zip(self.list(superblock)) {
            let ones = word.count_ones();
            if index >= ones {
                index -= ones;
                continue;
            }
            let mut word = word;
            for _ in 0..index {
                word &= word - 1;
            }
            return Some(at * 64 + word.trailing_zeros());
        }
        None
    }
}

/// A linear group.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    lists: &'a BlockLists,
    superblock: u32,
    /// No block of the superblock is missing.
    is_whole: bool,
    /// Blocks, and those of the superblock before the first one.
    count: u32,
    below: u32,
    /// Rows, and the first one, counted over the array.
    rows: u32,
    row: u32,
}

impl Part<'_> {
    /// The page at a local PPA; `None` beyond the end.
    #[inline]
    pub fn page(&self, local: u16) -> Option<Ppn> {
        if self.count == 0 {
            return None;
        }
        let (row, index) = (u32::from(local) / self.count, u32::from(local) % self.count);
        if row >= self.rows {
            return None;
        }
        self.at(row, index)
    }

    /// The page in a row, of the so many-th block.
    #[inline]
    fn at(&self, row: u32, index: u32) -> Option<Ppn> {
        let index = self.below + index;
        let unit = if self.is_whole { index } else { self.lists.unit_at(self.superblock, index)? };
        Some(Ppn((self.row + row) * self.lists.units + unit))
    }

    /// The page at a local PPA, and for how many local PPAs, that one included, pages follow one another.
    /// Where there is no page, there is none behind it.
    #[inline]
    pub fn stretch(&self, local: u16) -> (Option<Ppn>, u32) {
        if self.count == 0 {
            return (None, u32::MAX);
        }
        let (row, index) = (u32::from(local) / self.count, u32::from(local) % self.count);
        if row >= self.rows {
            return (None, u32::MAX);
        }
        let most = match self.count {
            _ if !self.is_whole => 1,
            // The next row begins behind the last block of this one.
            all if all == self.lists.units => self.rows * all - u32::from(local),
            count => count - index,
        };
        (self.at(row, index), most)
    }
}
