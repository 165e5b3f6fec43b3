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

use super::room::KEPT;
use super::stats::COMPACTED;
use super::timetable::LEAD;
use super::Tide;
use crate::flash::Flash;
use crate::list::NONE;
use crate::log_block::Core;
use nand::{Done, Fault, Nand};

/// Pages of room that are priced: enough for a price that is hardly rounded.
const PRICED: u32 = 64;

/// What a block pays is counted in so many parts of what it costs.
const PARTS: u64 = 256;

/// A block has to pay so many times what it costs.
const LEAST: u64 = 4;

/// What is known for compaction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compaction {
    /// The log block that is emptied, and the position up to which that is done.
    under_way: Option<(u32, u32)>,
    /// Pages that had been written to the log when a block was looked for last.
    looked: u64,
}

impl Compaction {
    /// A log block was erased.
    pub(super) fn erased(&mut self, unit: u32) {
        self.under_way = self.under_way.filter(|&(other, _)| other != unit);
    }
}

impl Tide {
    /// Copies a page of a log block that is worth it. `false`: there is none.
    pub(super) fn compact<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<bool, Fault> {
        let Some((unit, from)) = self.compaction.under_way.or_else(|| self.begin_compaction(core)) else {
            return Ok(false);
        };
        let found = (from..self.block_pages).find_map(|at| Some((at, core.log_lpn(flash, unit, at)?)));
        let Some((position, lpn)) = found else {
            self.compaction.under_way = None;
            return self.erase_emptied(core, flash).map(|()| false);
        };
        self.compaction.under_way = Some((unit, position));
        let bin = self.table.bin_of_unit(unit);
        if self.move_to_bin(core, flash, bin, lpn, Done::READY)? {
            flash.counters.count(&COMPACTED, 1);
            return Ok(true);
        }
        self.compaction.under_way = None;
        Ok(false)
    }

    /// Looks for the log block that pays most, now and then, where log blocks are short and not memory.
    fn begin_compaction(&mut self, core: &Core) -> Option<(u32, u32)> {
        if self.log_pages < self.compaction.looked {
            return None;
        }
        if !self.are_blocks_wanted(core, self.burst(core)) || self.room(core) <= KEPT {
            return None;
        }
        self.compaction.looked = self.log_pages + u64::from(self.block_pages / 4);
        let far = u64::from(self.table.ahead());
        let price = self.gathered.price_of(PRICED, self.block_pages);
        let mut most = (0, NONE);
        for (ahead, bin) in self.table.bins_ahead(LEAD + 1) {
            let gain = |room: u64| room * u64::from(ahead).min(far) * price;
            let costs = |valid: u64| u64::from(PRICED) * far * valid.max(1);
            // Blocks that hold more do not pay: gain(block_pages - valid) <= LEAST * costs(valid).
            let limit = gain(self.block_pages.into()) / (gain(1) + LEAST * costs(1)).max(1);
            for unit in self.table.units_of(bin) {
                let valid = u64::from(core.pool.valid(unit));
                if valid > limit {
                    continue;
                }
                let pays = PARTS * gain(u64::from(self.block_pages) - valid) / costs(valid);
                let is_sure = self.map.as_ref().is_none_or(|map| map.is_sure(unit));
                if pays > LEAST * PARTS && is_sure && !self.table.is_open(unit) {
                    most = most.max((pays, unit));
                }
            }
        }
        (most.0 > 0).then_some((most.1, 0))
    }
}
