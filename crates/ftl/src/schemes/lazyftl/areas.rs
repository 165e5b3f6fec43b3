//! The update block area and the cold block area: which blocks are in them, and which one is converted next.
//!
//! A block is in an area while the UMT has a mapping of one of its pages. The paper's conversion looks
//! through the UMT for them, and so would a firmware: the lists here save the simulator's time, and are no
//! memory of the controller's.

use crate::breach::Breach;
use crate::cmt::entries::{Entries, Entry};
use crate::cmt::two_level::TwoLevel;
use crate::list::{List, NONE};
use crate::table::UNMAPPED;
use nand::{Done, Lpn};

/// Which mappings leave the UMT when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Those of the block whose conversion writes the fewest translation pages; among equals the oldest.
    Cheapest,
    /// Those of the block that was begun first.
    Oldest,
    /// Those of the translation page that was written least lately: no block is converted as a whole.
    Coldest,
}

/// Where pages of the areas are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Area {
    /// Area of what the host writes (UBA).
    Update,
    /// Area of what collection moves (CBA).
    Cold,
}

#[derive(Clone, Debug)]
struct Block {
    /// Mappings in the UMT of pages that lie here, the newest first.
    mappings: List,
    /// When its first page was added, in blocks.
    begun: u64,
    /// Its place in `Areas::blocks`, or [`NONE`].
    place: u32,
    /// Translation pages that its conversion has to write, if that is known.
    cost: Option<u32>,
}

/// The blocks of both areas.
#[derive(Clone, Debug)]
pub(super) struct Areas {
    mappings: Entries,
    all: Vec<Block>,
    /// Those in an area.
    blocks: Vec<u32>,
    pages: u32,
    begun: u64,
    /// The block that each area is written in (CUB, CCB).
    current: [u32; 2],
    /// The last block, by translation page, that was found to have a mapping of it: for counting.
    seen: Vec<u64>,
    counts: u64,
}

impl Areas {
    /// Areas for `most` mappings of LPNs below `lpns`, on an array of `pages` pages in blocks of
    /// `block_pages`; the table has `table_pages`.
    pub(super) fn new(most: usize, lpns: usize, pages: u32, block_pages: u32, table_pages: u32) -> Areas {
        let fresh = Block { mappings: List::EMPTY, begun: 0, place: NONE, cost: None };
        // The last one is for LPNs that are mapped nowhere.
        let count = pages.div_ceil(block_pages) as usize + 1;
        Areas {
            mappings: Entries::new(most, lpns),
            all: vec![fresh; count],
            blocks: Vec::with_capacity(count.min(most)),
            pages: block_pages,
            begun: 0,
            current: [NONE; 2],
            seen: vec![0; table_pages as usize],
            counts: 0,
        }
    }

    /// Pages that are written to an area until one of its blocks is full.
    pub(super) fn block_pages(&self) -> u32 {
        self.pages
    }

    #[inline]
    fn block_of(&self, ppn: u32) -> u32 {
        if ppn == UNMAPPED {
            self.all.len() as u32 - 1
        } else {
            ppn / self.pages
        }
    }

    /// Adds the mapping of a page that was just programmed, or of a trim.
    #[inline]
    pub(super) fn add(&mut self, area: Area, lpn: Lpn, ppn: u32) {
        let at = self.block_of(ppn);
        if ppn != UNMAPPED {
            self.current[area as usize] = at;
        }
        let slot = self.mappings.insert(lpn, ppn, Done::READY);
        let block = &mut self.all[at as usize];
        if block.place == NONE {
            self.begun += 1;
            (block.place, block.begun) = (self.blocks.len() as u32, self.begun);
            self.blocks.push(at);
        }
        block.cost = None;
        self.mappings.push_front(&mut block.mappings, slot);
    }

    /// Takes the mapping of an LPN out: there is a newer one, or it is converted.
    #[inline]
    pub(super) fn remove(&mut self, lpn: Lpn) -> Option<Entry> {
        let slot = self.mappings.find(lpn)?;
        let at = self.block_of(self.mappings.get(slot).ppn);
        let block = &mut self.all[at as usize];
        self.mappings.unlink(&mut block.mappings, slot);
        block.cost = None;
        if block.mappings.is_empty() {
            let place = std::mem::replace(&mut block.place, NONE);
            self.blocks.swap_remove(place as usize);
            if let Some(&moved) = self.blocks.get(place as usize) {
                self.all[moved as usize].place = place;
            }
        }
        Some(self.mappings.remove(slot))
    }

    /// The mapping of an LPN was committed: its block may cost less.
    #[inline]
    pub(super) fn committed(&mut self, ppn: u32) {
        let at = self.block_of(ppn);
        self.all[at as usize].cost = None;
    }

    /// Whether a block is in an area.
    pub(super) fn contains(&self, block: u32) -> bool {
        self.all[block as usize].place != NONE
    }

    /// The LPN whose page was added to a block first, of those that are there still.
    pub(super) fn first_of(&self, block: u32) -> Option<Lpn> {
        let slot = self.all[block as usize].mappings.tail();
        (slot != NONE).then(|| self.mappings.get(slot).lpn)
    }

    /// The block to convert. One that is being written is taken only when there is no other.
    pub(super) fn choose(&mut self, order: Order, updates: &TwoLevel, entries_shift: u32) -> Option<u32> {
        let mut best: Option<(bool, u32, u64, u32)> = None;
        for place in 0..self.blocks.len() {
            let at = self.blocks[place];
            let cost = match order {
                Order::Cheapest => self.cost(at, updates, entries_shift),
                Order::Oldest | Order::Coldest => 0,
            };
            let rank = (self.current.contains(&at), cost, self.all[at as usize].begun, at);
            best = Some(best.map_or(rank, |best| best.min(rank)));
        }
        best.map(|(.., at)| at)
    }

    /// Translation pages that have mappings in a block that are newer than flash.
    fn cost(&mut self, at: u32, updates: &TwoLevel, entries_shift: u32) -> u32 {
        if let Some(cost) = self.all[at as usize].cost {
            return cost;
        }
        self.counts += 1;
        let mut cost = 0;
        for slot in self.mappings.iter(&self.all[at as usize].mappings) {
            let lpn = self.mappings.get(slot).lpn;
            let seen = &mut self.seen[(lpn.0 >> entries_shift) as usize];
            if *seen != self.counts && updates.peek(lpn).is_some_and(Entry::is_dirty) {
                *seen = self.counts;
                cost += 1;
            }
        }
        self.all[at as usize].cost = Some(cost);
        cost
    }

    /// Blocks in the areas.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Checks the areas against the UMT.
    pub(super) fn check(&self, updates: &TwoLevel) -> Result<(), Breach> {
        let mut found = 0;
        for (&at, place) in self.blocks.iter().zip(0..) {
            let block = &self.all[at as usize];
            if block.place != place || block.mappings.is_empty() {
                return Err(format!("block {at} of an area is out of place or has no mapping").into());
            }
            for slot in self.mappings.iter(&block.mappings) {
                let mapping = self.mappings.get(slot);
                let known = updates.peek(mapping.lpn).map(|update| update.ppn);
                if known != Some(mapping.ppn) || self.block_of(mapping.ppn) != at {
                    return Err(format!(
                        "LPN {} is in block {at} of an area, the UMT has {known:?}",
                        mapping.lpn.0
                    )
                    .into());
                }
                found += 1;
            }
        }
        let (entries, _) = updates.bytes();
        let expected = entries / crate::cmt::two_level::ENTRY_BYTES;
        if found != expected {
            return Err(format!("{found} mappings are in areas, and {expected} in the UMT").into());
        }
        Ok(())
    }
}
