//! A sequence goes straight to new homes.
//!
//! When a long sequence comes to a region (the groups that consecutive pages lie in by turns), each group of
//! it gets a log block in which its pages stand in place. When the last page is written, these blocks become
//! the homes, and the old homes are erased: no page is copied. When the sequence ends before, they are log
//! blocks like others.
//!
//! A sequence that begins or becomes long in the middle of a region, or leaves some pages out, has the pages
//! before it copied first. That is less than a merge of the group would copy, and a file system that takes
//! the next free space goes on there with its next file. The pages that are left out are copied only for a
//! sequence that is long again behind them: a single page further on would else take the place of all
//! between. Where places of log pages are on flash, a region is written from its first page or not at all.

use super::{Tide, HOME_PAGES, KEPT};
use crate::counters::Cause;
use crate::flash::Flash;
use crate::list::NONE;
use crate::log_block::stats::SWITCH_MERGES;
use crate::log_block::{Core, HostPage, Layout};
use nand::{Done, Fault, Lpn, Nand};

/// Sequences that are followed at the same time.
const SEQUENCES: usize = 8;

/// Requests each of which begins where the one before ended.
#[derive(Clone, Copy, Debug, Default)]
struct Sequence {
    /// The page behind the last request.
    next: u32,
    pages: u32,
    /// Pages that the host had written when it was seen last.
    used: u64,
}

/// A region that is written in order.
#[derive(Clone, Debug)]
struct Rise {
    /// [`NONE`]: there is none.
    region: u32,
    /// Pages of the region that are written.
    next: u32,
    /// By group of the region; [`NONE`] for those that have no block yet, or no more.
    blocks: Vec<u32>,
    used: u64,
}

/// What is known of sequences.
#[derive(Clone, Debug)]
pub(super) struct Rises {
    sequences: [Sequence; SEQUENCES],
    rises: Vec<Rise>,
    /// Pages that the host wrote.
    clock: u64,
    /// Until this time there is room for a region to be kept.
    until: u64,
    /// Pages of a region.
    span: u32,
    /// Pages of a sequence that may write a whole region.
    long: u32,
    width: u32,
}

impl Rises {
    /// No sequence so far; those of `long` pages are written as regions, 0 for half a region.
    pub(super) fn new(layout: &Layout, long: u32) -> Rises {
        let span = layout.width * layout.block_pages;
        let idle = Rise { region: NONE, next: 0, blocks: vec![NONE; layout.width as usize], used: 0 };
        Rises {
            sequences: [Sequence::default(); SEQUENCES],
            rises: vec![idle; Rises::most(layout) as usize],
            clock: 0,
            until: 0,
            span,
            long: if long == 0 { (span / 2).max(1) } else { long },
            width: layout.width,
        }
    }

    /// Regions that may be written in order at the same time: as many as hold three quarters of the log.
    fn most(layout: &Layout) -> u32 {
        (3 * layout.log_blocks / layout.width / 4).min(SEQUENCES as u32)
    }

    /// Bytes for regions and sequences.
    pub(super) fn bytes(layout: &Layout) -> u64 {
        16 * SEQUENCES as u64 + u64::from(Rises::most(layout)) * (12 + 4 * u64::from(layout.width))
    }

    /// Log blocks to be kept for a region that will be begun.
    pub(super) fn room(&self) -> u32 {
        if self.clock < self.until {
            self.width
        } else {
            0
        }
    }

    /// The log blocks of all regions.
    pub(super) fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        let blocks = self.rises.iter().flat_map(|rise| rise.blocks.iter().copied());
        blocks.filter(|&block| block != NONE)
    }

    /// Follows the host's sequences.
    pub(super) fn see(&mut self, page: HostPage) {
        self.clock += 1;
        if !page.is_first() || self.rises.is_empty() {
            return;
        }
        let goes_on = self.sequences.iter().position(|it| it.next == page.base.0 && it.pages > 0);
        let oldest = (0..SEQUENCES).min_by_key(|&at| self.sequences[at].used).unwrap_or(0);
        let it = &mut self.sequences[goes_on.unwrap_or(oldest)];
        let before = if goes_on.is_some() { it.pages } else { 0 };
        *it = Sequence {
            next: page.base.0 + page.size,
            pages: before.saturating_add(page.size),
            used: self.clock,
        };
        if it.pages >= self.long / 2 {
            self.until = self.clock + u64::from(self.span);
        }
    }

    /// Whether the request of `page` goes on a long sequence: it may write a whole region.
    fn is_long(&self, page: HostPage) -> bool {
        let end = page.base.0 + page.size;
        self.sequences.iter().any(|it| it.next == end && it.pages >= self.long)
    }
}

impl Tide {
    /// Writes a page of a region that is written in order; `None` when it is none.
    pub(super) fn write_to_rise<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        (group, offset): (u32, u32),
        lpn: Lpn,
        at: Done,
    ) -> Result<Option<Done>, Fault> {
        let region = group / self.rises.width;
        let within = lpn.0 - region * self.rises.span;
        let may_copy = self.map.is_none() && !Tide::is_merging(self, group);
        let takes = |rise: &Rise| rise.region == region && rise.next == within;
        let Some(index) = self.rises.rises.iter().position(takes) else { return Ok(None) };
        let place = (group % self.rises.width) as usize;
        let mut block = self.rises.rises[index].blocks[place];
        if block == NONE {
            if self.room(core) == 0 {
                return self.end_rise(core, flash, index).map(|()| None);
            }
            block = core.open_log_on(flash, core.layout().unit_of(group))?;
            self.rises.rises[index].blocks[place] = block;
        }
        if core.pool.next(block) < offset && !(may_copy && core.copy_up_to(flash, group, block, offset)?) {
            return self.end_rise(core, flash, index).map(|()| None);
        }
        let rise = &mut self.rises.rises[index];
        let Some(done) = core.write_next(flash, block, lpn, at)? else {
            return self.end_rise(core, flash, index).map(|()| None);
        };
        flash.counters.count(&HOME_PAGES, 1);
        (rise.next, rise.used) = (within + 1, self.rises.clock);
        self.written(core, lpn);
        if within + 1 == core.layout().pages_of(region) {
            self.end_rise(core, flash, index)?;
        }
        Ok(Some(done))
    }

    /// Begins a region, or goes on with it, if a long sequence has come to it, and there is room.
    pub(super) fn begin_rise(&mut self, core: &Core, page: HostPage, group: u32) -> bool {
        let (region, width) = (group / self.rises.width, self.rises.width);
        let within = page.lpn.0 - region * self.rises.span;
        if (within > 0 && self.map.is_some()) || !self.rises.is_long(page) {
            return false;
        }
        let clock = self.rises.clock;
        if let Some(rise) = self.rises.rises.iter_mut().find(|rise| rise.region == region) {
            // It goes on behind what it leaves out.
            let goes_on = rise.next < within;
            rise.next = rise.next.max(within);
            return goes_on;
        }
        if self.room(core) < width + KEPT {
            return false;
        }
        let Some(rise) = self.rises.rises.iter_mut().find(|rise| rise.region == NONE) else { return false };
        (rise.region, rise.next, rise.used) = (region, within, clock);
        true
    }

    /// Ends a region: blocks that hold all of their group become its home, the others are log blocks of its
    /// bin.
    fn end_rise<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        index: usize,
    ) -> Result<(), Fault> {
        let width = self.rises.width;
        for place in 0..width {
            let rise = &mut self.rises.rises[index];
            let group = rise.region * width + place;
            let block = rise.blocks[place as usize];
            if block == NONE {
                continue;
            }
            if let Some(map) = &mut self.map {
                map.erased(block);
            }
            if core.is_dead_log(block) {
                core.release(flash, block, Cause::Merge)?;
                self.rises.rises[index].blocks[place as usize] = NONE;
                continue;
            }
            rise.blocks[place as usize] = NONE;
            if core.can_switch(group) {
                flash.counters.count(&SWITCH_MERGES, 1);
                core.switch(flash, group, block)?;
                self.left_log(core, group);
            } else {
                core.close_log(block);
                if self.table.bin_of(group) == super::NO_BIN {
                    self.table.assign(group, 1);
                }
                self.table.add_unit(self.table.bin_of(group), block);
            }
        }
        self.rises.rises[index].region = NONE;
        self.erase_emptied(core, flash)
    }

    /// Ends the region that was not written for the longest time, if that is twice the time that it takes to
    /// write one, or at once. `false`: none.
    pub(super) fn end_stale_rise<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        at_once: bool,
    ) -> Result<bool, Fault> {
        let stale = self.rises.clock.saturating_sub(2 * u64::from(self.rises.span));
        let rises = self.rises.rises.iter().enumerate().filter(|(_, rise)| rise.region != NONE);
        let oldest = rises.min_by_key(|(_, rise)| rise.used).map(|(index, rise)| (index, rise.used));
        match oldest {
            Some((index, used)) if at_once || used < stale => {
                self.end_rise(core, flash, index).map(|()| true)
            }
            _ => Ok(false),
        }
    }
}
