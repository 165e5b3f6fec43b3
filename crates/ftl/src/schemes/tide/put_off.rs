//! A group that has few pages in the log when its turn comes is put off: they move to a later bin.
//!
//! A merge copies a whole group, however few of its pages are in the log. A group that is written a page at a
//! time, now and then, is assigned by a rate that it had before, or that is too low to be counted. If it were
//! merged at each turn, it would cost a block's worth of programs for a page or two of room.
//!
//! The best wait follows from what room is worth: g pages that wait T bins take g T of it, and a merge pays
//! when that is what the mean merge takes, m F, for m pages and the mean wait F. (With pages that come at an
//! even rate r, g = r T, and this is the timetable's own rule, T = F sqrt(mean rate / r).) So a group with g
//! pages should wait m F / g bins in all. If that is twice what it has waited, or more, its pages are copied
//! to a bin up to F ahead. Bins further ahead have hardly a page in the log block that they write, and
//! would take that block for the few pages of such groups alone.

use super::map::LogMap;
use super::room::KEPT;
use super::stats::PUT_OFF;
use super::Tide;
use crate::flash::Flash;
use crate::log_block::Core;
use nand::{Done, Fault, Lpn, Nand};

/// A group is put off if its log pages are at most such a part of it: else the copies cost much of a merge.
pub(super) const PARTS: u32 = 4;

/// Merges that the mean is taken of, when the oldest count for little.
const RECENT: u32 = 512;

/// Log pages of the groups that were merged of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gathered {
    pages: u32,
    groups: u32,
}

impl Gathered {
    /// Bytes of the two numbers.
    pub(super) const BYTES: u64 = 8;

    /// A group with so many pages in the log is merged.
    pub(super) fn merges(&mut self, pages: u32) {
        if self.groups == RECENT {
            (self.pages, self.groups) = (self.pages / 2, self.groups / 2);
        }
        (self.pages, self.groups) = (self.pages + pages, self.groups + 1);
    }

    /// Pages that merges of groups of `block_pages` copy for the room of so many log pages. Before the first
    /// merge a page costs one.
    pub(super) fn price_of(&self, pages: u32, block_pages: u32) -> u64 {
        match self.pages {
            0 => pages.into(),
            merged => u64::from(pages) * u64::from(self.groups * block_pages) / u64::from(merged),
        }
    }

    /// How often the pages of the mean group are so many.
    pub(super) fn times(&self, number: u32, pages: u32) -> u32 {
        number * self.pages / (self.groups * pages).max(1)
    }
}

impl Tide {
    /// Moves the log pages of a group whose turn it is to a later bin, if they are few. `false`: the group is
    /// to be merged.
    pub(super) fn put_off<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        group: u32,
    ) -> Result<bool, Fault> {
        let pages = core.pages_in_log(group);
        if pages == 0 || PARTS * pages > self.block_pages || self.room(core) <= KEPT {
            return Ok(false);
        }
        // A move frees no memory.
        if self.map.as_ref().is_some_and(LogMap::is_short) {
            return Ok(false);
        }
        let wait = self.gathered.times(self.table.ahead(), pages);
        if !self.table.put_off(group, wait) {
            return Ok(false);
        }
        let bin = self.table.bin_of(group);
        for offset in 0..self.block_pages {
            let lpn = core.lpn(group, offset).filter(|&lpn| core.log_page(lpn).is_some());
            let Some(lpn) = lpn else { continue };
            let known = self.load_for_merge(core, flash, group, offset)?;
            if !self.move_to_bin(core, flash, bin, lpn, known)? {
                // What is left is merged when its log block is the last one of its bin.
                break;
            }
            flash.counters.count(&PUT_OFF, 1);
        }
        self.erase_emptied(core, flash)?;
        Ok(true)
    }

    /// Moves a page of the log, which is known to be where it is `after` that, to the log block for a page of
    /// a bin ([`Tide::unit_for`]). `false`: there is no room, in the log or in memory.
    pub(super) fn move_to_bin<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        bin: u8,
        lpn: Lpn,
        after: Done,
    ) -> Result<bool, Fault> {
        let has_memory = match &mut self.map {
            Some(map) => map.make_room(core, flash, Done::READY)?.is_some(),
            None => true,
        };
        if !has_memory {
            return Ok(false);
        }
        while self.room(core) > 0 || self.open_in(core, bin).is_some() {
            let to = self.unit_for(core, flash, bin)?;
            if core.move_in_log(flash, lpn, to, after)? {
                self.took_page(core, flash, to)?;
                if let Some(map) = &mut self.map {
                    map.written(core, lpn);
                }
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_forgets() {
        let mut gathered = Gathered::default();
        assert_eq!((gathered.times(60, 1), gathered.price_of(10, 64)), (0, 10));
        (0..RECENT).for_each(|_| gathered.merges(4));
        assert_eq!((gathered.times(60, 4), gathered.times(60, 1)), (60, 240));
        assert_eq!(gathered.price_of(10, 64), 160);
        (0..4 * RECENT).for_each(|_| gathered.merges(32));
        assert!((56..=60).contains(&gathered.times(60, 32)), "{gathered:?}");
    }
}
