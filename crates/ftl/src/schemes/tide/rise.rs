//! A sequence goes straight to new homes.
//!
//! When a sequence comes to a region (the groups that consecutive pages lie in by turns), each group of it
//! gets a log block in which its pages stand in place. When the last page is written, these blocks become
//! the homes, and the old homes are erased: no page is copied. When the sequence ends before, what is missing
//! is copied in steps, where a merge would copy the whole group. Blocks that hold a fourth or less become log
//! blocks like others.
//!
//! A sequence is written so if that will cost less than the log ([`Rises::pays`]). Whether it will come to
//! the end of the region, the sequences before it say ([`Lengths`]).
//!
//! A sequence that begins in the middle of a region, or leaves some pages out, has the pages before it copied
//! first. That is less than a merge of the group would copy, and a file system that takes the next free space
//! goes on there with its next file. The pages that are left out are copied only for a sequence that pays
//! behind them, too: a single page further on would else take the place of all between. Pages that are left
//! out because they came before their turn, and so are in the log, are copied for any write behind them.
//! Where places of log pages are on flash, a region is written from its first page or not at all.
//!
//! Several threads of a host write one sequence, so its requests come a little out of order. A sequence goes
//! on with what begins near its end ([`Sequence::goes_on_at`]), or each such request would begin a new one,
//! and a file of gigabytes would count as many short ones.

use super::lengths::{Lengths, WHOLE};
use super::put_off::{Gathered, PARTS};
use super::room::KEPT;
use super::stats::HOME_PAGES;
use super::Tide;
use crate::breach::Breach;
use crate::counters::Cause;
use crate::flash::Flash;
use crate::list::NONE;
use crate::log_block::stats::SWITCH_MERGES;
use crate::log_block::{Core, HostPage, Layout};
use nand::{Done, Fault, Lpn, Nand};
use std::cmp::Reverse;

/// Sequences that are followed at the same time.
const SEQUENCES: usize = 8;

/// A region is left when the host has written this many times its pages elsewhere.
const STALE: u32 = 2;

/// A request may begin so many times its size from the end of its sequence, but no more than an eighth of the
/// sequence's length: as many requests a host has under way. So a random write of a page hardly ever does.
const UNDER_WAY: u32 = 32;

/// Pages that a sequence goes on by, from which on what it wrote before counts half. A pause of it counts as
/// so many of the host's pages at most.
const RECENT: u32 = 4096;

/// Requests each of which begins where the ones before ended, or near it.
#[derive(Clone, Copy, Debug, Default)]
struct Sequence {
    /// The page behind the furthest request.
    next: u32,
    /// The pages that it has written at its end.
    pages: u32,
    /// Pages that the host had written when it was seen last.
    used: u64,
    /// Of late: pages that it has gone on by, and those of them that it wrote in order.
    gone_on: u32,
    in_order: u32,
    /// Stray pages of others before that.
    since: u64,
}

impl Sequence {
    /// Whether a request that begins there, of `size` pages, belongs to it.
    fn goes_on_at(&self, lpn: u32, size: u32) -> bool {
        self.pages > 0 && lpn.abs_diff(self.next) <= size.saturating_mul(UNDER_WAY).min(self.pages / 8)
    }

    /// Takes a request, of pages `base` to `end`, when the host has written `clock` pages, `stray` of them
    /// stray. Whether it came in order.
    fn takes(&mut self, base: u32, end: u32, clock: u64, stray: u64) -> bool {
        self.since = (self.since + (clock - self.used).saturating_sub(RECENT.into())).min(stray);
        self.used = clock;
        if end <= self.next {
            return false;
        }
        let is_in_order = base <= self.next;
        self.gone_on += end - self.next;
        self.in_order += if is_in_order { end - self.next } else { 0 };
        if self.gone_on > RECENT {
            (self.gone_on, self.in_order) = (self.gone_on / 2, self.in_order / 2);
            self.since = stray - (stray - self.since) / 2;
        }
        self.pages += end - self.next.max(base);
        self.next = end;
        is_in_order
    }

    /// Of `pages` that it goes on by, those that will not be written in order, and the stray pages that the
    /// host writes meanwhile: as it was of late.
    fn beside(&self, pages: u32, stray: u64) -> (u32, u64) {
        let (pages, gone_on) = (u64::from(pages), u64::from(self.gone_on.max(1)));
        let out_of_order = pages * u64::from(self.gone_on - self.in_order) / gone_on;
        (out_of_order as u32, pages * stray.saturating_sub(self.since) / gone_on)
    }

    /// Until when it is followed, where there are many: the host writes as much elsewhere as it has come to,
    /// up to so many pages. If the one seen last stayed longest, a handful of random writes would end all.
    fn lasts(&self, most: u32) -> u64 {
        self.used + u64::from(self.pages.min(most))
    }
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
    /// Pages still to be copied, of a region that no sequence writes any more.
    left: Option<u32>,
    /// The group that is asked first for the next of these.
    turn: u32,
}

/// What is known of sequences.
#[derive(Clone, Debug)]
pub(super) struct Rises {
    sequences: [Sequence; SEQUENCES],
    rises: Vec<Rise>,
    /// How many of them no sequence writes any more.
    left: u32,
    /// Pages that the host wrote.
    clock: u64,
    /// Those of them that go to the log: all but what came in order in a sequence as long as a region.
    stray: u64,
    /// Until this time there is room for a region to be kept.
    until: u64,
    /// Pages of a region.
    span: u32,
    /// Pages of a sequence that may write a whole region; 0: as many as pay.
    long: u32,
    lengths: Lengths,
    /// Pages that the log has room for.
    log_pages: u64,
    /// The sequence that the request which is written continues, if it does so in order: what comes out of
    /// order begins nothing, as it may be a random write.
    current: Option<usize>,
    /// Whether that request may begin a region where it is.
    may_begin: bool,
    width: u32,
}

impl Rises {
    /// No sequence so far; those of `long` pages are written as regions, 0 for as many as pay.
    pub(super) fn new(layout: &Layout, long: u32) -> Rises {
        let span = layout.width * layout.block_pages;
        let blocks = vec![NONE; layout.width as usize];
        let idle = Rise { region: NONE, next: 0, blocks, used: 0, left: None, turn: 0 };
        Rises {
            sequences: [Sequence::default(); SEQUENCES],
            rises: vec![idle; Rises::most(layout) as usize],
            left: 0,
            clock: 0,
            stray: 0,
            until: 0,
            span,
            long,
            lengths: Lengths::default(),
            log_pages: u64::from(layout.log_blocks * layout.block_pages),
            current: None,
            may_begin: false,
            width: layout.width,
        }
    }

    /// Regions that may be written in order at the same time: as many as hold three quarters of the log.
    fn most(layout: &Layout) -> u32 {
        (3 * layout.log_blocks / layout.width / 4).min(SEQUENCES as u32)
    }

    /// Bytes for regions and sequences.
    pub(super) fn bytes(layout: &Layout) -> u64 {
        let rises = u64::from(Rises::most(layout)) * (20 + 4 * u64::from(layout.width));
        32 * SEQUENCES as u64 + Lengths::BYTES + rises
    }

    /// Log blocks to be kept for a region that will be begun.
    pub(super) fn room(&self) -> u32 {
        if self.clock < self.until {
            self.width
        } else {
            0
        }
    }

    /// Checks that the regions which no sequence writes are counted.
    pub(super) fn check(&self) -> Result<(), Breach> {
        let left = self.rises.iter().filter(|rise| rise.left.is_some()).count();
        if left != self.left as usize {
            return Err(
                format!("{left} regions are left by their sequences, and {} are counted", self.left).into()
            );
        }
        Ok(())
    }

    /// The log blocks of all regions.
    pub(super) fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        let blocks = self.rises.iter().flat_map(|rise| rise.blocks.iter().copied());
        blocks.filter(|&block| block != NONE)
    }

    /// Follows the host's sequences. `gathered` says what a page of the log costs.
    pub(super) fn see(&mut self, page: HostPage, gathered: &Gathered) {
        self.clock += 1;
        if !page.is_first() || self.rises.is_empty() {
            return;
        }
        let (base, end) = (page.base.0, page.base.0 + page.size);
        let near = (0..SEQUENCES).filter(|&at| self.sequences[at].goes_on_at(base, page.size));
        // An older one may have ended where this one goes on, as may a random write.
        let nearest = near.min_by_key(|&at| {
            let Sequence { next, pages, .. } = self.sequences[at];
            (next.abs_diff(base), Reverse(pages))
        });
        let at = nearest.unwrap_or_else(|| self.follow(base));
        let sequence = &mut self.sequences[at];
        let is_in_order = sequence.takes(base, end, self.clock, self.stray);
        if !is_in_order || sequence.pages < self.span {
            self.stray += u64::from(page.size);
            // What it writes in order itself takes no room from others.
            sequence.since += if is_in_order { page.size.into() } else { 0 };
        }
        self.current = is_in_order.then_some(at);
        self.may_begin = self.pays(page.size, base % self.span, gathered);
        if self.pays_for_room(gathered) {
            self.until = self.clock + u64::from(self.span);
        }
    }

    /// Follows a sequence from `base` on, in place of the one that lasts least.
    fn follow(&mut self, base: u32) -> usize {
        let most = STALE * self.span;
        let at = (0..SEQUENCES).min_by_key(|&at| self.sequences[at].lasts(most)).unwrap_or(0);
        if self.sequences[at].pages > 0 {
            self.lengths.ends(self.sequences[at].pages);
        }
        let (used, since) = (self.clock - 1, self.stray);
        self.sequences[at] = Sequence { next: base, used, since, ..Sequence::default() };
        at
    }

    /// Whether room should be made at once for the next region of the sequence, though nobody else is served
    /// meanwhile. That takes copies. They are not all lost: when the sequence has ended, the log fills the
    /// room without a merge. So it pays if the mean sequence that came so far goes on for half as many pages.
    fn pays_for_room(&self, gathered: &Gathered) -> bool {
        let Some(at) = self.current else { return false };
        // First, as of random writes it is known at once.
        if !self.pays(0, 0, gathered) {
            return false;
        }
        let copies = gathered.price_of(self.span, self.span / self.width);
        let more = u32::try_from(copies).unwrap_or(u32::MAX);
        let (_, mean) = self.lengths.go_on(self.sequences[at].pages, more);
        2 * u64::from(mean) >= copies
    }

    /// Whether the sequence that is written, and of which `coming` pages are to be written, should begin a
    /// region `within` it.
    ///
    /// In the log each page of a region costs what others do, and all of them no more than a merge of each
    /// group. This is saved if the sequence comes to the end of the region, less two costs. What is in front
    /// of `within`, and what does not come in order, is copied. And the log has less room for the pages that
    /// others write to it: it lacks the blocks of the region, and as many that are kept for the next one.
    ///
    /// If the sequence ends before, these copies are lost, merges come before their time, and the blocks of
    /// the region are held until it is left: so much room, for such a part of the time that a page waits in
    /// the log.
    fn pays(&self, coming: u32, within: u32, gathered: &Gathered) -> bool {
        let Some(at) = self.current else { return false };
        let sequence = &self.sequences[at];
        if self.long > 0 {
            return sequence.pages >= self.long;
        }
        if sequence.pages < self.width {
            return false;
        }
        let left = self.span - within;
        let (reach, mean) = self.lengths.go_on(sequence.pages, left.saturating_sub(coming));
        let price = |pages| gathered.price_of(pages, self.span / self.width);
        let in_log = |pages| price(pages).min(self.span.into());
        let held = |time| price(self.span).saturating_mul(time) / self.log_pages;
        let (out_of_order, others) = sequence.beside(left, self.stray);
        let copies = u64::from(within + out_of_order);
        let saved = in_log(left).saturating_sub(copies + 2 * held(others));
        let early = u64::from(self.span) - in_log(coming.min(left) + mean);
        reach * saved > (WHOLE - reach) * (copies + early + held(u64::from(STALE * self.span)))
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
        let takes = |rise: &Rise| rise.region == region && rise.next == within && rise.left.is_none();
        let Some(index) = self.rises.rises.iter().position(takes) else { return Ok(None) };
        let place = (group % self.rises.width) as usize;
        let mut block = self.rises.rises[index].blocks[place];
        let written = if block == NONE { 0 } else { core.pool.next(block) };
        if written < offset && !may_copy {
            // The region goes on behind it.
            self.rises.rises[index].next = within + 1;
            let is_last = within + 1 == core.layout().pages_of(region);
            return if is_last { self.end_rise(core, flash, index).map(|()| None) } else { Ok(None) };
        }
        if block == NONE {
            if self.room(core) == 0 {
                return self.leave_rise(core, flash, index).map(|()| None);
            }
            block = core.open_log_on(flash, core.layout().unit_of(group))?;
            self.rises.rises[index].blocks[place] = block;
        }
        if written < offset && !core.copy_up_to(flash, group, block, offset)? {
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
        if within == 0 && !page.is_first() {
            let coming = page.base.0 + page.size - page.lpn.0;
            self.rises.may_begin = self.rises.pays(coming, 0, &self.gathered);
        }
        if within > 0 && self.map.is_some() {
            return false;
        }
        let Rises { clock, may_begin, span, .. } = self.rises;
        if let Some(rise) = self.rises.rises.iter_mut().find(|rise| rise.region == region) {
            if rise.next > within || rise.left.is_some() {
                return false;
            }
            // It goes on behind what it leaves out.
            let mut left_out = (region * span + rise.next..page.lpn.0).map(Lpn);
            let goes_on = may_begin || left_out.all(|lpn| core.log_page(lpn).is_some());
            if goes_on {
                rise.next = within;
            }
            return goes_on;
        }
        if !may_begin || self.room(core) < width + KEPT {
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
        for place in 0..self.rises.width {
            self.end_block(core, flash, index, place)?;
        }
        self.rises.rises[index].region = NONE;
        self.rises.left -= u32::from(self.rises.rises[index].left.take().is_some());
        self.erase_emptied(core, flash)
    }

    /// The block of a group of a region, if it has one, becomes the home or a log block of a bin.
    fn end_block<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        index: usize,
        place: u32,
    ) -> Result<(), Fault> {
        let rise = &mut self.rises.rises[index];
        let group = rise.region * self.rises.width + place;
        let block = rise.blocks[place as usize];
        if block == NONE {
            return Ok(());
        }
        if let Some(map) = &mut self.map {
            map.erased(block);
        }
        if core.is_dead_log(block) {
            core.release(flash, block, Cause::Merge)?;
            self.rises.rises[index].blocks[place as usize] = NONE;
            return Ok(());
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
        Ok(())
    }

    /// No sequence writes a region any more: what is missing in its blocks will be copied, a page a step. A
    /// merge would copy what they hold, too. Blocks that hold little become log blocks at once.
    fn leave_rise<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        index: usize,
    ) -> Result<(), Fault> {
        let mut left = 0;
        for place in 0..self.rises.width {
            let block = self.rises.rises[index].blocks[place as usize];
            let written = if block == NONE { 0 } else { core.pool.next(block) };
            if self.map.is_some() || PARTS * written <= self.block_pages {
                self.end_block(core, flash, index, place)?;
            } else {
                left += self.block_pages - written;
            }
        }
        if left == 0 {
            return self.end_rise(core, flash, index);
        }
        self.rises.rises[index].left = Some(left);
        self.rises.left += 1;
        self.erase_emptied(core, flash)
    }

    /// Pages still to be copied for regions that no sequence writes any more.
    pub(super) fn left_in_rises(&self) -> u32 {
        self.rises.rises.iter().filter_map(|rise| rise.left).sum()
    }

    /// Copies a page for a region that no sequence writes any more, of each of its groups by turns. `false`:
    /// there is no such region.
    pub(super) fn step_rise<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
    ) -> Result<bool, Fault> {
        if self.rises.left == 0 {
            return Ok(false);
        }
        let left = self.rises.rises.iter().position(|rise| rise.left.is_some());
        let Some(index) = left else { return Ok(false) };
        let width = self.rises.width;
        for _ in 0..width {
            let rise = &mut self.rises.rises[index];
            let place = rise.turn;
            rise.turn = (place + 1) % width;
            let (group, block) = (rise.region * width + place, rise.blocks[place as usize]);
            if block == NONE {
                continue;
            }
            let next = core.pool.next(block);
            let is_whole = Tide::is_merging(self, group) || core.last_mapped(flash, group, next).is_none();
            if is_whole || !core.copy_up_to(flash, group, block, next + 1)? {
                self.end_block(core, flash, index, place)?;
                continue;
            }
            let rise = &mut self.rises.rises[index];
            rise.left = rise.left.map(|left| left.saturating_sub(1));
            return Ok(true);
        }
        self.end_rise(core, flash, index).map(|()| true)
    }

    /// Leaves the region that was not written for the longest time, if that is [`STALE`] times as long as it
    /// takes to write one, or at once. `false`: none.
    pub(super) fn end_stale_rise<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        at_once: bool,
    ) -> Result<bool, Fault> {
        let stale = self.rises.clock.saturating_sub(u64::from(STALE * self.rises.span));
        let rises = self.rises.rises.iter().enumerate();
        let rises = rises.filter(|(_, rise)| rise.region != NONE && rise.left.is_none());
        let oldest = rises.min_by_key(|(_, rise)| rise.used).map(|(index, rise)| (index, rise.used));
        match oldest {
            Some((index, used)) if at_once || used < stale => {
                self.leave_rise(core, flash, index).map(|()| true)
            }
            _ => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sequence of requests of 8 pages, each `step` pages behind the one before, and as many stray pages of
    /// others between them.
    fn sequence(step: u32, requests: u32, clock: &mut u64, stray: &mut u64) -> Sequence {
        let mut sequence = Sequence { used: *clock, since: *stray, ..Sequence::default() };
        for request in 0..requests {
            (*clock, *stray) = (*clock + 16, *stray + 8);
            let base = request * step;
            assert_eq!(sequence.takes(base, base + 8, *clock, *stray), step == 8 || request == 0);
        }
        sequence
    }

    #[test]
    fn what_a_sequence_leaves_out_and_what_is_stray_is_known_of_late() {
        let (mut clock, mut stray) = (0, 0);
        let whole = sequence(8, 1000, &mut clock, &mut stray);
        assert_eq!((whole.pages, whole.beside(800, stray)), (8000, (0, 800)));
        let half = sequence(16, 1000, &mut clock, &mut stray);
        // None of it is in order.
        assert_eq!((half.pages, half.beside(800, stray)), (8000, (800, 400)));
    }

    #[test]
    fn a_pause_counts_as_few_pages() {
        let (mut clock, mut stray) = (0, 0);
        let mut sequence = sequence(8, 100, &mut clock, &mut stray);
        (clock, stray) = (clock + (1 << 40), stray + (1 << 40));
        assert!(sequence.takes(800, 808, clock, stray));
        let (_, others) = sequence.beside(808, stray);
        assert!((4_000..6_000).contains(&others), "{others}");
        // It is forgotten when the sequence has gone on for long.
        for request in 101..3_000 {
            clock += 8;
            assert!(sequence.takes(request * 8, request * 8 + 8, clock, stray));
        }
        assert!(sequence.beside(800, stray).1 < 40, "{sequence:?}");
    }
}
