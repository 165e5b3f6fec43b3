//! Compaction: what is valid of a log block much of which was overwritten goes to its bin's open block.
//!
//! Pages that are written often supersede each other in the log. Without compaction their log blocks keep
//! that room until the turn of their bin, and groups are merged for room that hardly needs a copy.
//!
//! A block of S pages, v of which are valid, costs v and pays `(S - v) min(1, d / F) price`: its bin is d
//! ahead of the front, of F at the mean rate, and price is what a page of room costs by merges. The room of
//! a bin that is due soon comes soon anyway. The block that pays most is compacted, a page a step, if it pays
//! [`LEAST`] times what it costs: one that hardly pays will cost less later, as pages of it go on being
//! overwritten. (Zipf 0.99 on femu-4g, 94 % full: WA 7.28 without, 7.59, 6.77 and 6.64 with 1, 2 and 4
//! times.) Under uniform writes none does: a page is seldom overwritten while it is in the log.
//!
//! Several blocks are compacted at a time, each on a die of its own, and they take turns with the merges. One
//! after the other they would get all steps, and the host would wait for dies with forty of them in a row.

use super::timetable::LEAD;
use super::{Tide, COMPACTED, KEPT};
use crate::flash::Flash;
use crate::log_block::{Core, Layout};
use nand::{Done, Fault, Nand};

/// What a block pays is counted in so many parts of what it costs.
const PARTS: u64 = 256;

/// A block has to pay so many times what it costs.
const LEAST: u64 = 4;

/// Merges under way for each compaction under way, at most.
const MERGES: usize = 4;

/// Bytes of a compaction: log block, position.
const BYTES: u64 = 4 + 2;

/// What is known for compaction.
#[derive(Clone, Debug)]
pub(super) struct Compaction {
    /// The log blocks that are emptied, at most `most`, and the positions up to which that is done.
    under_way: Vec<(u32, u32)>,
    most: usize,
    /// Pages that had been written to the log when a block was looked for last.
    looked: u64,
    block_pages: u32,
    /// Pages that merges copy for a page of room, in 1/64, a mean of the last merges.
    price: u32,
}

impl Compaction {
    pub(super) fn new(layout: &Layout, merges: usize) -> Compaction {
        let most = merges.div_ceil(MERGES);
        Compaction {
            under_way: Vec::with_capacity(most),
            most,
            looked: 0,
            block_pages: layout.block_pages,
            price: 64,
        }
    }

    /// Bytes beside so many merges.
    pub(super) fn bytes(merges: usize) -> u64 {
        merges.div_ceil(MERGES) as u64 * BYTES
    }

    /// Log blocks that are emptied.
    pub(super) fn count(&self) -> usize {
        self.under_way.len()
    }

    /// A group with so many pages in the log is merged.
    pub(super) fn merges(&mut self, pages: u32) {
        self.price = (63 * self.price + 64 * self.block_pages / pages) / 64;
    }

    /// A log block was erased.
    pub(super) fn erased(&mut self, unit: u32) {
        self.under_way.retain(|&(other, _)| other != unit);
    }
}

impl Tide {
    /// Copies a page of the compaction at `at`, or ends it. `false`: no page was copied.
    pub(super) fn compact<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        at: usize,
    ) -> Result<bool, Fault> {
        let (unit, from) = self.compaction.under_way[at];
        let found = (from..self.block_pages).find_map(|at| Some((at, core.log_lpn(flash, unit, at)?)));
        if let Some((position, lpn)) = found {
            self.compaction.under_way[at].1 = position;
            let bin = self.table.bin_of_unit(unit);
            if self.move_to_bin(core, flash, bin, lpn, Done::READY)? {
                flash.counters.count(&COMPACTED, 1);
                return Ok(true);
            }
        }
        self.compaction.erased(unit);
        self.erase_emptied(core, flash).map(|()| false)
    }

    /// Begins to compact the log block that pays most, on a die where no other one is compacted: now and
    /// then, where log blocks are short and not memory.
    pub(super) fn begin_compaction(&mut self, core: &Core) {
        if self.log_pages < self.compaction.looked || self.compaction.count() == self.compaction.most {
            return;
        }
        if !self.are_blocks_wanted(core, self.burst(core)) || self.room(core) <= KEPT {
            return;
        }
        self.compaction.looked = self.log_pages + u64::from(self.block_pages / 4);
        let far = u64::from(self.table.ahead());
        let (dies, under_way) = (self.lanes.len() as u32, &self.compaction.under_way);
        let is_idle = |unit: u32| under_way.iter().all(|&(other, _)| other % dies != unit % dies);
        let worth = self.table.units_ahead(LEAD + 1).filter_map(|(ahead, unit)| {
            let valid = u64::from(core.pool.valid(unit));
            let room = u64::from(self.block_pages) - valid;
            let gain = room * u64::from(ahead).min(far) * u64::from(self.compaction.price);
            let costs = 64 * far * valid.max(1);
            // Most blocks do not pay, and need no division.
            let pays = (gain > LEAST * costs).then(|| PARTS * gain / costs)?;
            let is_sure = self.map.as_ref().is_none_or(|map| map.is_sure(unit));
            (pays > LEAST * PARTS && is_sure && !self.table.is_open(unit) && is_idle(unit))
                .then_some((pays, unit))
        });
        if let Some((_, unit)) = worth.max() {
            self.compaction.under_way.push((unit, 0));
        }
    }
}
