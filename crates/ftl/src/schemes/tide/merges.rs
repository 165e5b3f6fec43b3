//! Merges in steps: which group is merged next, and a page of one at a time.

use super::stats::{BINS, MERGED_PAGES};
use super::timetable::LEAD;
use super::Tide;
use crate::bits;
use crate::breach::Breach;
use crate::counters::Cause;
use crate::flash::Flash;
use crate::log_block::stats::FULL_MERGES;
use crate::log_block::Core;
use nand::{Done, Fault, Lpn, Nand};

/// The groups whose homes are on one parallel unit, one of which is merged at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    /// The first of them.
    first: u32,
    /// Bins that it is ahead of the front.
    lead: u32,
    /// No group of that bin comes before this one.
    cursor: u32,
    is_busy: bool,
}

impl Lane {
    pub(super) fn new(first: u32) -> Lane {
        Lane { first, lead: 0, cursor: first, is_busy: false }
    }

    /// Whether a group of it may be merged next, if there is one.
    fn may_go_on(&self) -> bool {
        !self.is_busy && self.lead <= LEAD
    }

    /// The front is another bin.
    fn turn(&mut self) {
        if self.lead == 0 {
            self.cursor = self.first;
        }
        self.lead = self.lead.saturating_sub(1);
    }
}

impl Tide {
    /// Copies a page of a compaction, or of one of the merges under way, and begins others. `false`: nothing
    /// is in the log.
    pub(super) fn step<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<bool, Fault> {
        self.step_or_wait(core, flash, false)
    }

    /// As [`Tide::step`], but if it may wait, of the merges only one whose die has time for it. `false` also
    /// says that none has.
    pub(super) fn step_or_wait<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        may_wait: bool,
    ) -> Result<bool, Fault> {
        if self.step_rise(core, flash)? || self.compact(core, flash)? {
            return Ok(true);
        }
        if self.may_begin_merge(core) && self.begin(core, flash)? {
            return Ok(true);
        }
        if self.active == 0 {
            return self.end_stale_rise(core, flash, true);
        }
        let first = if self.turn < self.active { self.turn } else { self.turn % self.active };
        let can_go_on = |&at: &usize| self.merges[at].has_block() || core.pool.free_blocks() > 0;
        let in_turn = || (first..self.active).chain(0..first).filter(can_go_on);
        let unit = |at: usize| core.layout().unit_of(self.merges[at].logical);
        let has_time = |&at: &usize| !core.pool.load.is_long(unit(at));
        let at = match in_turn().find(has_time) {
            Some(at) => at,
            None if may_wait => return Ok(false),
            None => in_turn().next().unwrap_or(first),
        };
        self.turn = at + 1;
        let (group, offset) = (self.merges[at].logical, self.merges[at].offset());
        let known = self.load_for_merge(core, flash, group, offset)?;
        self.begun -= self.merges[at].left();
        let ended = core.step_merge(flash, &mut self.merges[at], known);
        self.begun += self.merges[at].left();
        if ended? {
            flash.counters.count(&FULL_MERGES, 1);
            let group = self.merges[at].logical;
            self.left_log(core, group);
            bits::set(&mut self.merging, group, false);
            self.lane_of(group).is_busy = false;
            self.lanes_are_out = false;
            self.active -= 1;
            self.merges.swap(at, self.active);
            self.bins.swap(at, self.active);
            self.erase_emptied(core, flash)?;
            if let Some(rest) = self.rest {
                self.erase_merged(core, flash, rest)?;
            }
        }
        Ok(true)
    }

    /// Whether one more merge may be under way. Each takes a free block before it gives one back, and beside
    /// others it leaves one, for a program that fails and for trims. After power cuts, and where blocks have
    /// become bad, hardly one is free. Those under way are counted only where few blocks are.
    fn may_begin_merge(&self, core: &Core) -> bool {
        if self.active == self.merges.len() {
            return false;
        }
        let (free, active) = (core.pool.free_blocks() as usize, &self.merges[..self.active]);
        let left = usize::from(self.active > 0);
        free > left + self.active || free > left + active.iter().filter(|merge| !merge.has_block()).count()
    }

    /// Brings the place of the page at `offset` of a group into memory, for a merge, and those of the pages
    /// behind it.
    pub(super) fn load_for_merge<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        group: u32,
        offset: u32,
    ) -> Result<Done, Fault> {
        let Some(map) = &mut self.map else { return Ok(Done::READY) };
        match core.lpn(group, offset) {
            Some(lpn) if map.is_away(lpn) => {
                let layout = *core.layout();
                let others = (offset + 1..self.block_pages).map(|offset| layout.lpn(group, offset));
                let others = others.take_while(|&lpn| lpn < layout.exported_pages).map(Lpn);
                map.load(core, flash, lpn, others, Cause::Merge, Done::READY).map(|(done, _)| done)
            }
            Some(lpn) => Ok(map.known(lpn)),
            None => Ok(Done::READY),
        }
    }

    /// Pages of a group may have left the log.
    pub(super) fn left_log(&mut self, core: &Core, group: u32) {
        if let Some(map) = &mut self.map {
            let lpns = (0..self.block_pages).filter_map(|offset| core.lpn(group, offset));
            lpns.for_each(|lpn| map.left(core, lpn));
        }
    }

    /// Begins a merge: of the next group of a lane, or of what is left in the bin before the front. The next
    /// bin is the front when the last group of this one is begun. `true`: a group was put off in place of it.
    fn begin<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<bool, Fault> {
        for _ in 0..self.table.bins() {
            while let Some(group) = self.next_group() {
                if self.put_off(core, flash, group)? {
                    return Ok(true);
                }
                if self.begin_group(core, flash, group)? {
                    return Ok(false);
                }
            }
            let front = self.table.front();
            if self.table.groups_in(front) > 0 {
                if self.active > 0 {
                    return Ok(false);
                }
                // Some groups came to the bin when their lane had passed it.
                self.lanes.iter_mut().for_each(|lane| *lane = Lane::new(lane.first));
                self.lanes_are_out = false;
                continue;
            }
            while let Some(open) = self.table.take_open(front) {
                core.close_log(open);
                self.erase_if_dead(core, flash, Some(open))?;
            }
            self.erase_merged(core, flash, front)?;
            if let Some(rest) = self.rest {
                // Whatever is not left when the merges under way have ended needs no search.
                if self.active == 0 {
                    if let Some(group) = self.left_in(core, flash, rest) {
                        self.begin_group(core, flash, group)?;
                    }
                }
                return Ok(false);
            }
            self.rest = (self.table.units_in(front) > 0).then_some(front);
            flash.counters.count(&BINS, 1);
            self.table.turn();
            self.lanes.iter_mut().for_each(Lane::turn);
            self.lanes_are_out = false;
        }
        Ok(false)
    }

    /// Checks that no lane has more groups where none is asked any more.
    pub(super) fn check_lanes(&self) -> Result<(), Breach> {
        match self.lanes.iter().position(Lane::may_go_on).filter(|_| self.lanes_are_out) {
            Some(lane) => Err(format!("lane {lane} may go on, but none is asked").into()),
            None => Ok(()),
        }
    }

    /// The next group of a lane in which none is being merged. A lane that has no more in its bin goes on
    /// with the next one, so that no die waits for the others.
    fn next_group(&mut self) -> Option<u32> {
        if self.lanes_are_out {
            return None;
        }
        let count = self.lanes.len();
        for _ in 0..count {
            let lane = &mut self.lanes[self.lane];
            self.lane = (self.lane + 1) % count;
            while lane.may_go_on() {
                if let Some(group) = self.table.next_of(lane.lead, lane.cursor) {
                    lane.cursor = group;
                    return Some(group);
                }
                (lane.lead, lane.cursor) = (lane.lead + 1, lane.first);
            }
        }
        self.lanes_are_out = true;
        None
    }

    /// A group that has a page in a log block of a bin that was merged, and is not being merged: recovery
    /// puts the log blocks into bins that not all of their groups belong to.
    fn left_in<N: Nand>(&self, core: &Core, flash: &Flash<N>, bin: u8) -> Option<u32> {
        let pages = self.table.units_of(bin).flat_map(|unit| (0..self.block_pages).map(move |at| (unit, at)));
        let groups = pages.filter_map(|(unit, at)| Some(core.place(core.log_lpn(flash, unit, at)?).0));
        groups.into_iter().find(|&group| !self.is_merging(group))
    }

    /// Begins to merge a group. `false`: there is nothing to merge.
    fn begin_group<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        group: u32,
    ) -> Result<bool, Fault> {
        let pages = core.pages_in_log(group);
        self.bins[self.active] = self.table.bin_of(group);
        self.table.leave(group, pages);
        if pages == 0 || !core.begin_merge(flash, &mut self.merges[self.active], group)? {
            return Ok(false);
        }
        flash.counters.count(&MERGED_PAGES, u64::from(pages));
        self.gathered.merges(pages);
        self.begun += self.merges[self.active].left();
        self.active += 1;
        bits::set(&mut self.merging, group, true);
        self.lane_of(group).is_busy = true;
        Ok(true)
    }
}
