//! Linear groups as lists of blocks, and equation 1: local PPA <-> global PPA.
//!
//! A linear group is a superblock: one block of each parallel unit, without those that were bad when it was
//! opened, so that a stream is written as fast as a striped one. A group whose local PPAs would not fit 16
//! bits is cut into parts by rows of pages; a group's number says superblock and part. The list stays what it
//! was at the opening: a block that goes bad meanwhile is skipped, which costs one local PPA a row until the
//! superblock is full.
//!
//! Nobody else remembers which blocks were good when a superblock was opened, so the list goes with every
//! page, in its OOB, one bit a unit.

use nand::{Geometry, Ppn};

/// The block lists of all superblocks.
#[derive(Clone, Debug)]
pub struct BlockLists {
    units: u32,
    pages_per_block: u32,
    rows_per_part: u32,
    parts: u32,
    /// Words of a superblock's list.
    words: usize,
    /// One bit a unit: its block belongs to the group.
    lists: Vec<u64>,
    /// Blocks in each list (K).
    counts: Vec<u32>,
}

impl BlockLists {
    /// Empty lists; the error says what does not fit 16 bits.
    pub fn new(geometry: &Geometry) -> Result<BlockLists, String> {
        let units = geometry.units();
        let rows_per_part = ((1 << 16) / units).clamp(1, geometry.pages_per_block);
        let parts = geometry.pages_per_block.div_ceil(rows_per_part);
        let groups = u64::from(parts) * u64::from(geometry.superblocks());
        if units > 1 << 16 || groups >= u64::from(u16::MAX) {
            return Err(format!(
                "{groups} linear groups of at most 65536 pages over {units} parallel units; a group's number has 16 bits"
            ));
        }
        let words = units.div_ceil(64) as usize;
        Ok(BlockLists {
            units,
            pages_per_block: geometry.pages_per_block,
            rows_per_part,
            parts,
            words,
            lists: vec![0; words * geometry.superblocks() as usize],
            counts: vec![0; geometry.superblocks() as usize],
        })
    }

    /// Bytes of one list, in memory and in OOB.
    pub fn list_bytes(&self) -> usize {
        self.units.div_ceil(8) as usize
    }

    /// Bytes of all lists.
    pub fn bytes(&self) -> u64 {
        self.counts.len() as u64 * self.list_bytes() as u64
    }

    /// Sets the list of a superblock to the units for which `is_good`.
    pub fn set(&mut self, superblock: u32, is_good: impl Fn(u32) -> bool) {
        let list = &mut self.lists[superblock as usize * self.words..][..self.words];
        list.fill(0);
        for unit in (0..self.units).filter(|&unit| is_good(unit)) {
            list[unit as usize / 64] |= 1 << (unit % 64);
        }
        self.counts[superblock as usize] = list.iter().map(|word| word.count_ones()).sum();
    }

    /// Sets the list of a superblock from its bytes.
    pub fn set_bytes(&mut self, superblock: u32, bytes: &[u8]) {
        self.set(superblock, |unit| bytes[unit as usize / 8] >> (unit % 8) & 1 == 1);
    }

    /// The bytes of a superblock's list, in place of what `bytes` held.
    pub fn to_bytes(&self, superblock: u32, bytes: &mut Vec<u8>) {
        bytes.clear();
        let list = &self.lists[superblock as usize * self.words..][..self.words];
        bytes.extend(list.iter().flat_map(|word| word.to_le_bytes()).take(self.list_bytes()));
    }

    /// Whether a superblock has a list.
    pub fn is_set(&self, superblock: u32) -> bool {
        self.counts[superblock as usize] > 0
    }

    /// The superblock of a group.
    pub fn superblock_of(&self, group: u16) -> u32 {
        u32::from(group) / self.parts
    }

    /// The group and local PPA of a page; `None` when its block is not in the list.
    #[inline]
    pub fn local(&self, ppn: Ppn) -> Option<(u16, u16)> {
        let (row, unit) = (ppn.0 / self.units, ppn.0 % self.units);
        let (superblock, row) = (row / self.pages_per_block, row % self.pages_per_block);
        let list = &self.lists[superblock as usize * self.words..][..self.words];
        let (word, bit) = (unit as usize / 64, unit % 64);
        if list[word] >> bit & 1 == 0 {
            return None;
        }
        let before: u32 = list[..word].iter().map(|word| word.count_ones()).sum();
        let index = before + (list[word] & ((1 << bit) - 1)).count_ones();
        let (part, row) = (row / self.rows_per_part, row % self.rows_per_part);
        let local = row * self.counts[superblock as usize] + index;
        Some(((superblock * self.parts + part) as u16, local as u16))
    }

    /// The page at a local PPA of a group; `None` beyond its end.
    #[inline]
    pub fn global(&self, group: u16, local: u16) -> Option<Ppn> {
        let (superblock, part) = (u32::from(group) / self.parts, u32::from(group) % self.parts);
        let count = *self.counts.get(superblock as usize)?;
        if count == 0 {
            return None;
        }
        let (row, index) = (u32::from(local) / count, u32::from(local) % count);
        let row_in_block = part * self.rows_per_part + row;
        if row >= self.rows_per_part || row_in_block >= self.pages_per_block {
            return None;
        }
        let unit = if count == self.units { index } else { self.unit_at(superblock, index)? };
        Some(Ppn((superblock * self.pages_per_block + row_in_block) * self.units + unit))
    }

    /// The unit of block `index` of a list.
    fn unit_at(&self, superblock: u32, mut index: u32) -> Option<u32> {
        let list = &self.lists[superblock as usize * self.words..][..self.words];
        for (at, &word) in (0..).zip(list) {
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
