//! Room in the log: when merges are due, and how many pages they copy for each that the host writes.

use super::map::LogMap;
use super::Tide;
use crate::flash::Flash;
use crate::log_block::Core;
use nand::{Done, Fault, Nand};

/// Log blocks that are kept for bins whose open block is full at the same time.
pub(super) const KEPT: u32 = 4;

/// The part of the log that idle time makes room in for bursts of writes, and that these open, at most.
pub(super) const LOG_FOR_BURSTS: u32 = 16;

/// Rounds of merges in one pause from which on it is a long one. A pause whose room is made has no more.
pub(super) const LONG_PAUSE: u32 = 256;
/// Pages on each die that idle time makes room for before it has seen a burst of more.
const BURST_OF_A_DIE: u32 = 64;

/// Parallel units up to which no copy waits for its own: all of them are busy at once under load, so a copy
/// that waits for one with time comes when the log is full, together with thousands of others.
const FEW_UNITS: usize = 8;

/// A page that is owed, and all of the room, in fixed point.
pub(super) const ONE: u32 = 256;

impl Tide {
    /// Log blocks that can be opened.
    pub(super) fn room(&self, core: &Core) -> u32 {
        core.log_limit().saturating_sub(core.log_count())
    }

    /// Whether merges are due: the front keeps its log blocks until its last group is merged, and the log
    /// must not be full before that.
    pub(super) fn is_room_wanted(&self, core: &Core) -> bool {
        self.are_blocks_wanted(core, 0) || self.map.as_ref().is_some_and(LogMap::is_short)
    }

    /// Whether merges are worth the time in which the host asks for nothing: the next burst of writes then
    /// finds room. What is left in extras is no such room: a burst wants many dies, and some extras may be on
    /// the same one.
    pub(super) fn is_room_wanted_in_idle_time(&self, core: &Core) -> bool {
        self.are_blocks_wanted(core, self.room_for_bursts(core)) || self.is_room_wanted(core)
    }

    /// Log blocks that idle time makes room for.
    pub(super) fn room_for_bursts(&self, core: &Core) -> u32 {
        if self.calm >= LONG_PAUSE {
            return self.burst(core);
        }
        let least = u64::from(BURST_OF_A_DIE * core.layout().parallel_units);
        let pages = least.max(2 * self.largest_burst);
        pages.div_ceil(self.block_pages.into()).min(self.burst(core).into()) as u32
    }

    /// Log blocks that bursts are given at most.
    pub(super) fn burst(&self, core: &Core) -> u32 {
        core.log_limit() / LOG_FOR_BURSTS
    }

    /// Whether so few log blocks can be opened, beyond so many.
    pub(super) fn are_blocks_wanted(&self, core: &Core, beyond: u32) -> bool {
        self.room(core) <= self.room_at_first() + beyond
    }

    /// Log blocks that can be opened when merges begin to be due.
    fn room_at_first(&self) -> u32 {
        self.table.most_units_soon() + KEPT + self.tail() + self.rises.room()
    }

    /// Log blocks that the host may fill while the last merges of a bin end: all merges are under way then,
    /// and a page pays for about as many copies as one of the log costs.
    pub(super) fn tail(&self) -> u32 {
        let merges = self.merges.len() as u32;
        let block_costs = self.gathered.price_of(self.block_pages, self.block_pages);
        let blocks = u64::from(merges * self.block_pages) / block_costs.max(self.block_pages.into());
        (blocks as u32).max(merges / 6)
    }

    /// Steps that cannot wait, for the page that is written next: else the log would be full before merges
    /// free log blocks, or memory before the offsets of log pages have theirs.
    fn due(&self, core: &Core) -> u32 {
        let work = match self.rest {
            // The last groups of the bin before: what is begun of them has to end, and then there is room
            // again. Each merge has its turn, those of the front, too.
            Some(rest) => {
                let of_rest =
                    self.bins[..self.active].iter().zip(&self.merges).filter(|(&bin, _)| bin == rest);
                of_rest.map(|(_, merge)| merge.left()).max().unwrap_or(0) * self.active as u32
            }
            None => {
                let groups = self.table.groups_in(self.table.front());
                groups * self.block_pages + self.begun + self.left_in_rises()
            }
        };
        let pages = self.room(core).saturating_sub(KEPT + self.rises.room()) * self.block_pages;
        let pages = self.map.as_ref().map_or(pages, |map| pages.min(map.pages_left()));
        work / pages.max(1)
    }

    /// What the page that is written next owes: what a page of the log costs, times 2 (1 - r), where r is the
    /// part of the room that is left. Room comes a bin at a time, so a rule that followed it closely would
    /// ask for many copies, and then for few.
    fn owes(&self, core: &Core) -> u32 {
        let one = u64::from(ONE);
        let part = |left: u32, of: u32| if left < of { one * u64::from(left) / u64::from(of) } else { one };
        let left = part(self.room(core), self.room_at_first());
        let left = self.map.as_ref().map_or(left, |map| left.min(part(map.pages_left(), map.short())));
        let price = self.gathered.price_of(ONE, self.block_pages);
        // A page of the log costs a block at most.
        (price * 2 * (one - left) / one) as u32
    }

    /// Makes room in memory for a page that goes to the log: evicts places, or merges where there are none.
    pub(super) fn make_memory<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        at: Done,
    ) -> Result<Done, Fault> {
        while let Some(map) = &mut self.map {
            if let Some(done) = map.make_room(core, flash, at)? {
                return Ok(done);
            }
            if !self.step(core, flash)? {
                break;
            }
        }
        Ok(at)
    }

    /// Merges some of what is due, and goes on until a log block can be opened.
    pub(super) fn make_room<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        self.erase_emptied(core, flash)?;
        if !self.is_room_wanted(core) {
            return Ok(());
        }
        self.end_stale_rise(core, flash, false)?;
        self.owed += self.owes(core);
        let due = self.due(core);
        // Where fewer units merge, they do more than the count of their work can say.
        let may_wait = self.lanes.len() > FEW_UNITS && 4 * self.merges.len() >= 3 * self.lanes.len();
        for step in 0..due.max(self.owed / ONE).min(self.block_pages) {
            if !self.step_or_wait(core, flash, may_wait && step >= due)? {
                break;
            }
            self.owed = self.owed.saturating_sub(ONE);
        }
        // A page for each merge may wait for its die.
        self.owed = self.owed.min(self.merges.len() as u32 * ONE);
        while self.room(core) == 0 && self.step(core, flash)? {}
        Ok(())
    }
}
