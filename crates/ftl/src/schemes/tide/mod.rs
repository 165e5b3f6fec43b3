//! Tide: an exact map in about two bits a page. No paper describes it; docs/schemes/tide.md does.
//!
//! | term | here | where |
//! | --- | --- | --- |
//! | group, home | a logical block and its data block | [`crate::log_block`] |
//! | log, log map | log blocks, [`Core::log_page`] | [`crate::log_block`] |
//! | timetable, bin | [`Timetable`] | `timetable.rs` |
//! | merge in steps | [`Merging`] | `merges.rs`, `log_block/steps.rs` |
//! | when merges are due, and how fast they go | [`Tide::make_room`] | `room.rs` |
//! | compaction | [`Compaction`] | `compact.rs` |
//! | a group that is put off | [`Tide::put_off`] | `put_off.rs` |
//! | places of log pages on flash | [`LogMap`] | `map.rs` |
//! | a sequence that becomes homes | [`Rises`] | `rise.rs`, `lengths.rs` |
//! | what is in memory | [`memory::parts`] | `memory.rs` |
//!
//! A page is at home, at its offset in its group's home, or in the log. Which pages the log holds is in
//! memory, and where it holds them, as far as memory goes. So a read of a page at home is one flash read,
//! whatever was written in which order, and most others are. A group that
//! is *merged* gets a new home with its newest pages; its old home and its log pages are garbage at once.
//! All log pages of a group go to the log blocks of one bin. When room is wanted, the groups of the front
//! bin are merged; after the last one all log blocks of that bin are empty, and are erased without a copy.
//!
//! **The house.** Tide is a policy of [`LogBlock`]. That has the block map (a home is a data block), the log,
//! the trim journal, checkpoints, and a recovery that needs no note of what was under way: every page carries
//! LPN and version, and of equal copies the older one counts. The page-level engine has better recovery time
//! and collection in steps, but its mapping is an entry a page, on flash: for Tide each of its parts would be
//! replaced. A scheme of its own would repeat the journal, the checkpoint, and the recovery. What the house
//! lacked for Tide is small and stands there: blocks of one NAND block ([`Policy::NARROW`]), logical blocks
//! that consecutive pages take by turns, and merges in steps.
//!
//! Choices, with their reasons:
//!
//! - **A home is one NAND block, and a log block too.** The room that a log by timetable loses is about
//!   2 sqrt(L S / 2) pages, for a log of L pages in blocks of S. With superblocks of 64 NAND blocks that is a
//!   third of the spare space of a device with 6.7 %; with NAND blocks it is 4 %. And a home that is a whole
//!   block is free when its group is merged: no home is ever collected.
//! - **Consecutive pages lie in groups on different dies**, by turns: else a sequence would be read from one
//!   die at a time. A group keeps its die for ever. With `width` they take fewer dies. Then a region is
//!   smaller, so shorter sequences are written to its end, and one stream has fewer dies. The default is all
//!   dies: one stream then gets the whole device, and with blocks of 2 MiB real logs are slower otherwise.
//! - **One merge on each die at a time**, each a page a step, by turns ([`Lane`]). Merges chosen without
//!   regard to dies leave a third of the dies idle and others with four, and a write then waits for the
//!   longest queue. A die that has no more groups in the front bin goes on with the next bins. Merges hold
//!   at most an eighth of the spare blocks.
//! - **Two blocks for each merge**: the one that is filled, and the old home of the merge before, whose
//!   erase waits for the last copy. With one, each merge would begin with that wait, and its steps would pile
//!   up.
//! - **An erase waits for what superseded the block's pages**, and for no other program. If it waited for
//!   all so far, the die with the longest queue would keep each other one from its next block. On
//!   filebench-fileserver dies stood idle so for 23 % of the time.
//! - **A group is assigned to its bin by the first page that goes to the log** after a merge, not by the
//!   merge. A group that is not written waits nowhere, and needs no stamp of its last merge.
//! - **The bins ahead at the mean rate** are 2 sqrt(L / S): what an open block a bin loses, and what a bin's
//!   worth of room loses, is least together there.
//! - **A page may go to a log block of one of the next bins**, if the die of its own bin's block has work:
//!   reads of the host, programs and erases, of merges too, less what each die has done meanwhile. Else pages
//!   that are written often, and long requests, wait in the queue of one die. A page in a later bin is no
//!   harm: it is invalid when its group is merged, and its place is free some bins later. A page in an
//!   earlier bin would keep that bin's blocks.
//! - **A burst goes to any later bin** whose log block is on a die that has no work; where there is none, to
//!   the die that has the least. Of 64 dies the few next bins have four or five, and a burst of fifty pages
//!   would wait on them. Few pages come in bursts that long, so the room that they keep for longer is little.
//! - **A burst opens more log blocks**, one for a page that would else wait behind another host page on
//!   each die that it may go to. They are full sooner or later, and then hold what their bin's next log block
//!   would; until then each has lost half a block, so they are a sixteenth of the log at most, and are opened
//!   after a pause alone, while no merge is due. A load without pauses keeps every die busy anyway.
//! - **Idle time makes room for twice the largest burst so far**, for 64 pages on each die at least; a pause
//!   in which that takes long, as after a load, in a sixteenth of the log. More of it would cost more merges
//!   for each page, and reads wait for merges that no burst needs. One die begins, and twice as many go on
//!   each time: pauses may be short. After more writes without a pause than the log holds it makes no room
//!   until the host writes again: that was a load, not a burst, and reads may be all that follows.
//! - **Of the bins near the one that is due, a group takes the one with the fewest groups on its die.** Else
//!   the last merges of a bin are all on a few dies, which then get every step, and each host request that
//!   wants one of them waits. Near is a quarter before and behind, and equal bins are taken by turns: the
//!   groups that a long request writes to would else all take one bin, whose log block is on one die.
//! - **A sequence goes straight to homes if that will cost less than the log**, as far as the sequences
//!   before it say how far it will go. A length from which all do is wrong for someone: files of 64 MiB lose
//!   their first pages to the log, and segments of 2 MiB begin regions that they do not end.
//! - **What a page of the log costs** is what the last merges copied for the pages that they freed, as a
//!   ratio of sums. A mean of ratios is led by the groups that had a page or two.
//! - **Steps a written page:** what a page of the log costs, times 2 (1 - r), where r is the part of the room
//!   that is left. When merges begin to be due that is nothing; with half of the room it is the price. So the
//!   steps change little from page to page. What the front bin still has to copy, by the pages that can be
//!   written before the log is full, is the least. As the only rule it asked for 2 to 50 copies by turns.
//! - **A step waits while its die has four programs to do**, and is made when it has fewer. The last merges
//!   of a bin are on a few dies, which would else get every step.
//! - **A bin writes to as many log blocks at once as cost a sixty-fourth of the log**, up to four, on
//!   different dies. With one a bin, and fewer bins than dies, some dies take no host page at all while
//!   others have a queue.
//! - **A bin opens one more log block** when all dies that its page may go to have work, the bin takes more
//!   than twice the pages of a mean one, and each of its own open blocks more than a die's share of all: one
//!   of every 64, on 64 dies. The groups that are written most wait for few bins, so most pages go to the log
//!   blocks of these, and to their dies. A block that takes so many pages is full soon, so little room is
//!   lost. Uniform writes go to all bins alike but the one furthest ahead, which has the fewest groups and
//!   gets the most: what it opens costs them 2 % more.
//! - **Copies are placed as pages of the host are.** What is compacted would else be in the queue of one die.
//! - **Blocks are erased together**, one on each die, when there are as many as merges may be under way, or
//!   no more than three are erased. A long request wants all dies, and waits if one of them erases; so dies
//!   that erase at the same time hold requests up less than as many that do so one after the other. The
//!   blocks that wait are some of the two that each merge has, so the log is no smaller.
//! - **The log takes all spare room, and memory takes what it can.** The offsets of log pages are always in
//!   memory. Places that do not fit are on flash, written back by translation page. When the offsets alone
//!   take too much, merges come earlier: the log is smaller, and a page costs more writes. Both are in this
//!   order because a place on flash costs a read of one page, and an early merge copies of a whole group.

mod compact;
mod lengths;
mod map;
mod memory;
mod merges;
mod put_off;
mod read_ahead;
mod rise;
mod room;
mod stats;
#[cfg(test)]
mod tests;
mod timetable;

use crate::bits;
use crate::breach::Breach;
use crate::counters::{Cause, Counters};
use crate::flash::Flash;
use crate::log_block::stats::{FULL_MERGES, SWITCH_MERGES};
use crate::log_block::steps::Merging;
use crate::log_block::{Core, HostPage, Layout, LogBlock, Policy, Shares};
use crate::scheme::{Config, ConfigError, Info, Parameter};
use compact::Compaction;
use map::LogMap;
use memory::Widths;
use merges::Lane;
use nand::{Done, Fault, Lpn, Nand};
use put_off::Gathered;
use rise::Rises;
use room::KEPT;
use stats::{BINS, COMPACTED, EARLY, HOME_PAGES, LOG_PAGES, MERGED_PAGES, PUT_OFF};
use timetable::{Timetable, NO_BIN};

/// Tide: homes in order, and a log that is merged by timetable.
pub type TideFtl = LogBlock<Tide>;

/// Blocks that each merge under way has to itself: the one that it fills, and one whose erase has time until
/// the next merge fills it.
const BLOCKS_A_MERGE: u32 = 2;

/// Bins that a group waits at most.
const MOST_BINS: u32 = 60;

/// Groups, bins, and merges under way.
#[derive(Clone, Debug)]
pub struct Tide {
    table: Timetable,
    /// By parallel unit.
    lanes: Vec<Lane>,
    /// The lane that is asked first for the next merge.
    lane: usize,
    /// Each lane has a merge, or has passed the last bin that it may take a group of.
    lanes_are_out: bool,
    /// The bin before the front, while log blocks of it are not empty.
    rest: Option<u8>,
    /// The first `active` of them are under way.
    merges: Vec<Merging>,
    /// The bins that their groups were in.
    bins: Vec<u8>,
    active: usize,
    /// Pages that these have still to copy.
    begun: u32,
    turn: usize,
    /// One bit a group: it is being merged.
    merging: Vec<u64>,
    block_pages: u32,
    compaction: Compaction,
    gathered: Gathered,
    rises: Rises,
    /// Times in a row that the host asked for nothing.
    calm: u32,
    /// Pages written to the log so far, copies too.
    log_pages: u64,
    /// Pages that merges have still to copy for what the host has written, in 1/[`room::ONE`].
    owed: u32,
    /// Pages that had been written to the log when the host asked for nothing last. Until so many are, it is
    /// a burst.
    paused_at: u64,
    burst_until: u64,
    /// The most pages that were written to the log between two pauses, but for loads of more than it holds.
    largest_burst: u64,
    /// What was written before the last pause was less than the log holds.
    comes_in_bursts: bool,
    /// Where memory does not hold all places of log pages.
    map: Option<LogMap>,
}

impl Tide {
    fn is_merging(&self, group: u32) -> bool {
        bits::has(&self.merging, group)
    }

    fn parts(&self, layout: &Layout, rows: u64) -> Vec<(&'static str, u64)> {
        memory::parts(layout, self.table.ahead(), rows, self.map.as_ref().map_or(0, LogMap::vtpns))
    }

    fn lane_of(&mut self, group: u32) -> &mut Lane {
        let lane = group as usize % self.lanes.len();
        &mut self.lanes[lane]
    }

    // Writes

    /// A page of the host was written. A copy that a merge made of it is not its newest content.
    fn written(&mut self, core: &Core, lpn: Lpn) {
        if let Some(map) = &mut self.map {
            map.written(core, lpn);
        }
        let (group, offset) = core.place(lpn);
        if self.is_merging(group) {
            let merges = &mut self.merges[..self.active];
            if let Some(merge) = merges.iter_mut().find(|merge| merge.logical == group) {
                merge.forget(offset);
            }
        }
    }

    /// Writes a page to the log block of its group's bin.
    fn write_to_log<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        group: u32,
        lpn: Lpn,
        at: Done,
    ) -> Result<Done, Fault> {
        let bin = self.table.written(group);
        flash.counters.count(&LOG_PAGES, 1);
        loop {
            let unit = self.unit_for(core, flash, bin)?;
            if let Some(done) = core.append(flash, unit, lpn, at)? {
                self.took_page(core, flash, unit)?;
                return Ok(done);
            }
        }
    }

    /// The log block for the next page of a bin: its own one, or another of this bin or of one of the next
    /// bins, if the die of its own is busy, and in a burst of any later bin. One more log block, if all of
    /// them are on busy dies.
    fn unit_for<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>, bin: u8) -> Result<u32, Fault> {
        self.table.wants_page(bin, self.log_pages);
        let own = self.unit_of(core, flash, bin)?;
        let least = self.least_busy(core, bin, own);
        if core.pool.load.is_busy(core.pool.unit_of(least)) && self.takes_extra(core, bin) {
            return Ok(self.open_extra(core, flash, bin)?.unwrap_or(least));
        }
        Ok(least)
    }

    /// A log block took a page, of the host or a copy.
    fn took_page<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>, unit: u32) -> Result<(), Fault> {
        self.table.next_open(self.table.bin_of_unit(unit));
        self.log_pages += 1;
        if core.pool.next(unit) == self.block_pages && self.table.close_extra(unit) {
            self.erase_if_dead(core, flash, Some(unit))?;
        }
        Ok(())
    }

    /// The log block that is written whose die has the least work, of those that a page of a bin may go to;
    /// `own`, the bin's, if its die is not busy.
    fn least_busy(&self, core: &Core, bin: u8, own: u32) -> u32 {
        let load = |&unit: &u32| core.pool.load.of(core.pool.unit_of(unit));
        if !core.pool.load.is_busy(core.pool.unit_of(own)) {
            return own;
        }
        let has_room = |unit: &u32| core.pool.next(*unit) < self.block_pages;
        let near = self.table.open_units(bin).chain(self.table.open_units_near(bin)).filter(has_room);
        let mut least = near.min_by_key(load).unwrap_or(own);
        if self.is_burst() && load(&least) > 0 {
            let mut far = self.table.open_units_far(bin).filter(has_room).peekable();
            while let Some(unit) = far.next_if(|_| load(&least) > 0) {
                least = if load(&unit) < load(&least) { unit } else { least };
            }
        }
        least
    }

    /// Whether what is written comes after a pause.
    fn is_burst(&self) -> bool {
        self.log_pages < self.burst_until
    }

    /// Whether a bin may write to one more log block: it takes more pages than others, and each of its blocks
    /// more than one of as many as there are dies, or a burst goes on.
    fn takes_extra(&self, core: &Core, bin: u8) -> bool {
        let has_room = self.room(core) > KEPT + self.tail();
        self.table.takes_extra(bin)
            && self.table.extras() < self.burst(core)
            && (has_room && self.table.is_busy(bin, core.layout().parallel_units)
                || self.is_burst() && !self.is_room_wanted(core))
    }

    /// Opens one more log block for a bin, on a die that is not busy, if one has a free block.
    fn open_extra<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        bin: u8,
    ) -> Result<Option<u32>, Fault> {
        match core.pool.longest_free(|die| !core.pool.load.is_busy(die)) {
            Some(die) => {
                let unit = core.open_log_on(flash, die)?;
                self.table.add_unit(bin, unit);
                self.table.add_extra(unit);
                Ok(Some(unit))
            }
            None => Ok(None),
        }
    }

    /// The log block that a bin's next page is written to, if it has room for it.
    fn open_in(&self, core: &Core, bin: u8) -> Option<u32> {
        self.table.open_unit(bin).filter(|&unit| core.pool.next(unit) < self.block_pages)
    }

    /// The log block that a bin's pages are written to, with room for a page.
    fn unit_of<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>, bin: u8) -> Result<u32, Fault> {
        if let Some(unit) = self.open_in(core, bin) {
            return Ok(unit);
        }
        let unit = match self.table.take_extra(bin) {
            Some(unit) => unit,
            None => {
                let unit = core.open_log(flash)?;
                self.table.add_unit(bin, unit);
                unit
            }
        };
        let full = self.table.replace_open(bin, unit);
        self.erase_if_dead(core, flash, full)?;
        Ok(unit)
    }

    /// Erases a log block that is written no more, if nothing in it is valid, and that is known.
    fn erase_if_dead<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        unit: Option<u32>,
    ) -> Result<(), Fault> {
        let is_sure = |unit: &u32| self.map.as_ref().is_none_or(|map| map.is_sure(*unit));
        match unit.filter(is_sure) {
            Some(unit) if core.is_dead_log(unit) => self.erase_log(core, flash, unit),
            _ => Ok(()),
        }
    }

    /// Erases a log block in which nothing is valid.
    fn erase_log<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>, unit: u32) -> Result<(), Fault> {
        let bin = self.table.bin_of_unit(unit);
        let in_turn = bin == self.table.front() || self.rest == Some(bin);
        core.release(flash, unit, Cause::Merge)?;
        if let Some(map) = &mut self.map {
            map.erased(unit);
        }
        self.compaction.erased(unit);
        self.table.remove_unit(unit);
        self.rest = self.rest.filter(|&rest| self.table.units_in(rest) > 0);
        flash.counters.collections_data += 1;
        flash.counters.count(&EARLY, u64::from(!in_turn));
        Ok(())
    }

    /// Erases what is left of a bin all of whose groups are merged, whatever is known of its log blocks.
    fn erase_merged<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>, bin: u8) -> Result<(), Fault> {
        if self.map.is_none() || self.table.groups_in(bin) > 0 || self.bins[..self.active].contains(&bin) {
            return Ok(());
        }
        loop {
            let dead = self.table.units_of(bin).find(|&unit| core.is_dead_log(unit));
            let Some(unit) = dead else { return Ok(()) };
            self.erase_log(core, flash, unit)?;
        }
    }

    /// Erases the log blocks whose last valid page went, but for those that are written.
    fn erase_emptied<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        while let Some(unit) = core.take_emptied() {
            let bin = self.table.bin_of_unit(unit);
            if bin != NO_BIN && !self.table.is_open(unit) {
                self.erase_if_dead(core, flash, Some(unit))?;
            }
        }
        Ok(())
    }
}

impl Policy for Tide {
    const INFO: Info = Info {
        name: "tide",
        what: "homes in order, a log merged by timetable: every read is one flash read, with about 2 bits a page",
        paper: "none: docs/schemes/tide.md",
        parameters: &[
            Parameter {
                name: "bins",
                default: "0",
                what: "bins that a group of the mean rate waits; 0 for 2 sqrt(log blocks), at most 60",
            },
            Parameter {
                name: "merges",
                default: "0",
                what: "merges under way at once; 0 for one a parallel unit, up to 1/16 of the spare blocks",
            },
            Parameter {
                name: "sequence",
                default: "0",
                what: "pages of a sequence that goes straight to homes; 0 for as many as pay",
            },
            Parameter {
                name: "width",
                default: "0",
                what: "parallel units that consecutive pages take by turns, if there are so many; 0 for all",
            },
        ],
        stats: &[SWITCH_MERGES, FULL_MERGES, LOG_PAGES, MERGED_PAGES, HOME_PAGES, BINS, EARLY, COMPACTED, PUT_OFF],
    };
    const LEAST_LOG: u32 = 4;
    const NARROW: bool = true;
    const WATCHES: bool = true;

    fn width(config: &Config, parallel_units: u32) -> Result<u32, ConfigError> {
        Ok(match config.number(&Self::INFO, "width", 0..=u32::MAX)? {
            0 => parallel_units,
            width => width.min(parallel_units),
        })
    }

    fn share_out(config: &Config, layout: &Layout, spare: u32) -> Shares {
        let wanted = config.number(&Self::INFO, "merges", 0..=u32::MAX).unwrap_or(0);
        let merges = match wanted {
            0 => (spare / 16).clamp(1, layout.parallel_units),
            wanted => wanted.min(spare / 4),
        };
        let merging = BLOCKS_A_MERGE * merges;
        // The largest log, and what the budget has to have room for: all places, or those of a small log.
        let largest = |translation: u32, vtpns: u32| {
            let fits = |log: u32| {
                let mut layout = *layout;
                (layout.log_blocks, layout.merging, layout.translation) = (log, merging, translation);
                let pages = u64::from(if vtpns > 0 { Self::LEAST_LOG } else { log } * layout.block_pages);
                let rows = Widths::new(&layout, vtpns > 0).most(&layout, pages);
                let ahead = ahead(config, log).unwrap_or(MOST_BINS);
                memory::fixed(&layout, ahead, vtpns) + rows <= config.cache_bytes
            };
            let (mut least, mut most) = (0, spare.saturating_sub(merging + translation));
            while least < most {
                let middle = least + (most - least).div_ceil(2);
                (least, most) = if fits(middle) { (middle, most) } else { (least, middle - 1) };
            }
            Shares { log: least, merging, translation }
        };
        let (all, paged) = (largest(0, 0), largest(map::blocks(layout, spare), map::vtpns(layout)));
        if paged.log > all.log {
            paged
        } else {
            all
        }
    }

    fn new(config: &Config, layout: &Layout) -> Result<Self, ConfigError> {
        config.number(&Self::INFO, "merges", 0..=layout.physical_pages / layout.block_pages)?;
        let ahead = ahead(config, layout.log_blocks)?;
        let (groups, blocks) = (layout.logical_blocks, layout.physical_pages / layout.block_pages);
        let merges = merges_of(layout) as usize;
        let vtpns = if layout.translation > 0 { map::vtpns(layout) } else { 0 };
        let fixed = memory::fixed(layout, ahead, vtpns);
        let limit = config.cache_bytes.saturating_sub(fixed);
        Ok(Tide {
            table: Timetable::new(groups, layout.parallel_units, blocks, layout.log_blocks, ahead),
            lanes: (0..layout.parallel_units).map(Lane::new).collect(),
            lane: 0,
            lanes_are_out: false,
            rest: None,
            // A clone of an empty buffer would have no room.
            merges: (0..merges).map(|_| Merging::new(layout.block_pages)).collect(),
            bins: vec![NO_BIN; merges],
            active: 0,
            begun: 0,
            turn: 0,
            merging: vec![0; groups.div_ceil(64) as usize],
            block_pages: layout.block_pages,
            compaction: Compaction::default(),
            gathered: Gathered::default(),
            rises: Rises::new(layout, config.number(&Self::INFO, "sequence", 0..=u32::MAX)?),
            calm: 0,
            log_pages: 0,
            owed: 0,
            paused_at: 0,
            burst_until: 0,
            largest_burst: 0,
            comes_in_bursts: true,
            map: (vtpns > 0).then(|| LogMap::new(layout, blocks, limit)),
        })
    }

    /// The log blocks go to the next bins, the oldest first; a group belongs to the bin of its oldest one.
    fn restore<N: Nand>(&mut self, core: &mut Core, flash: &Flash<N>, logs: Vec<u32>) {
        if let Some(map) = &mut self.map {
            (0..core.layout().exported_pages).for_each(|lpn| map.written(core, Lpn(lpn)));
        }
        // At least two: a bin of a device with one die leaves hundreds of blocks at once, and one that waits
        // is erased when it is needed.
        core.pool.erase_together(merges_of(core.layout()).max(2));
        let bins = bins_ahead(core.layout().log_blocks).min(self.table.bins() - 3);
        for (at, &unit) in logs.iter().enumerate() {
            let ahead = 1 + (at as u64 * u64::from(bins) / logs.len() as u64) as u32;
            let bin = (ahead % self.table.bins()) as u8;
            self.table.add_unit(bin, unit);
            if core.pool.next(unit) < self.block_pages {
                if let Some(other) = self.table.replace_open(bin, unit) {
                    core.close_log(other);
                }
                self.table.next_open(bin);
            }
            for position in 0..self.block_pages {
                let Some(lpn) = core.log_lpn(flash, unit, position) else { continue };
                let group = core.place(lpn).0;
                if self.table.bin_of(group) == NO_BIN {
                    self.table.assign(group, ahead);
                }
            }
        }
    }

    fn opened<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        self.make_memory(core, flash, Done::READY).map(|_| ())
    }

    #[inline]
    fn look_up<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<(bool, Done), Fault> {
        self.calm = 0;
        match &mut self.map {
            Some(map) if map.is_away(lpn) => Ok((false, map.load_to_read(core, flash, lpn, rest, at)?)),
            Some(map) => Ok((true, flash.join(at, map.used(lpn)))),
            None => Ok((true, at)),
        }
    }

    fn write<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        page: HostPage,
        at: Done,
    ) -> Result<Done, Fault> {
        self.calm = 0;
        self.make_room(core, flash)?;
        let at = self.make_memory(core, flash, at)?;
        let (group, offset) = core.place(page.lpn);
        self.rises.see(page, &self.gathered);
        if let Some(map) = &mut self.map {
            map.supersedes(core, page.lpn);
        }
        if let Some(done) = self.write_to_rise(core, flash, (group, offset), page.lpn, at)? {
            return Ok(done);
        }
        if !self.is_merging(group) {
            if let Some(done) = core.write_in_place(flash, page.lpn, at)? {
                flash.counters.count(&HOME_PAGES, 1);
                self.written(core, page.lpn);
                return Ok(done);
            }
        }
        if self.begin_rise(core, page, group) {
            if let Some(done) = self.write_to_rise(core, flash, (group, offset), page.lpn, at)? {
                return Ok(done);
            }
        }
        let done = self.write_to_log(core, flash, group, page.lpn, at)?;
        self.written(core, page.lpn);
        Ok(done)
    }

    fn shrink<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        let before = core.log_count();
        self.erase_emptied(core, flash)?;
        while core.log_count() >= before {
            // Nothing to merge is no failure: log blocks without a valid page may have been erased for it.
            if !self.step(core, flash)? && core.log_count() >= before {
                return Err(core.no_space(flash, 1));
            }
            self.erase_emptied(core, flash)?;
        }
        Ok(())
    }

    fn trims(&mut self, core: &Core, _counters: &mut Counters, first: Lpn, pages: u32) {
        if let Some(map) = &mut self.map {
            (first.0..first.0 + pages).for_each(|lpn| map.supersedes(core, Lpn(lpn)));
        }
    }

    fn trimmed(&mut self, core: &Core, first: Lpn, pages: u32) {
        if let Some(map) = &mut self.map {
            (first.0..first.0 + pages).for_each(|lpn| map.left(core, Lpn(lpn)));
        }
        for merge in &mut self.merges[..self.active] {
            for offset in 0..self.block_pages {
                let lpn = core.layout().lpn(merge.logical, offset);
                if lpn >= first.0 && lpn - first.0 < pages {
                    merge.forget(offset);
                }
            }
        }
    }

    fn is_merging(&self, logical: u32) -> bool {
        Tide::is_merging(self, logical)
    }

    fn idle<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        let written = self.log_pages - self.paused_at;
        if written > 0 {
            self.comes_in_bursts = written <= u64::from(core.log_limit() * self.block_pages);
            if self.comes_in_bursts {
                self.largest_burst = self.largest_burst.max(written);
            }
        }
        self.paused_at = self.log_pages;
        core.pool.load.clear();
        self.burst_until = self.log_pages + u64::from(self.burst(core) * self.block_pages);
        self.erase_emptied(core, flash)?;
        if !self.comes_in_bursts || !self.is_room_wanted_in_idle_time(core) {
            return Ok(None);
        }
        // For bursts to come few dies at first: the next request may come at once.
        let most = core.layout().parallel_units;
        let steps = if self.is_room_wanted(core) { most } else { most.min(1 << self.calm.min(16)) };
        self.calm += 1;
        for _ in 0..steps {
            if !self.step(core, flash)? {
                return Ok(None);
            }
        }
        Ok(Some(flash.settle()))
    }

    fn log_blocks(&self, each: &mut dyn FnMut(u32)) {
        self.table.all_units().chain(self.rises.blocks()).for_each(each);
    }

    fn memory(&self, layout: &Layout) -> Vec<(&'static str, u64)> {
        let paged = self.map.is_some();
        let blocks = if paged { Self::LEAST_LOG } else { layout.log_blocks };
        let pages = u64::from(blocks) * u64::from(layout.block_pages);
        self.parts(layout, Widths::new(layout, paged).most(layout, pages))
    }

    fn memory_now(&self, core: &Core) -> Vec<(&'static str, u64)> {
        self.parts(core.layout(), self.map.as_ref().map_or_else(|| memory::rows(core), LogMap::bytes))
    }

    fn check<N: Nand>(&self, core: &Core, _flash: &Flash<N>) -> Result<(), Breach> {
        self.table.check()?;
        self.check_lanes()?;
        self.rises.check()?;
        if let Some(map) = &self.map {
            map.check(core)?;
        }
        let under_way: Vec<u32> = self.merges[..self.active].iter().map(|merge| merge.logical).collect();
        let begun: u32 = self.merges[..self.active].iter().map(Merging::left).sum();
        if begun != self.begun {
            return Err(format!("merges have {begun} pages to copy, and {} are counted", self.begun).into());
        }
        let marked = (0..core.layout().logical_blocks).filter(|&group| self.is_merging(group)).count();
        if marked != under_way.len() || under_way.iter().any(|&group| !self.is_merging(group)) {
            return Err(format!("{marked} groups are marked as being merged, and {under_way:?} are").into());
        }
        Ok(())
    }
}

/// Merges under way at once.
fn merges_of(layout: &Layout) -> u32 {
    layout.merging / BLOCKS_A_MERGE
}

/// Bins that a group of the mean rate waits, as given or by the arithmetic of [`bins_ahead`].
fn ahead(config: &Config, log_blocks: u32) -> Result<u32, ConfigError> {
    Ok(match config.number(&Tide::INFO, "bins", 0..=MOST_BINS)? {
        0 => bins_ahead(log_blocks),
        given => given,
    })
}

/// Bins that a group of the mean rate waits. Lost are half a block for each of about F open ones, and a bin's
/// worth of room, 2 L / F, as bins fill up until their turn: least at 2 sqrt(L).
fn bins_ahead(log_blocks: u32) -> u32 {
    (4 * log_blocks).isqrt().clamp(1, MOST_BINS)
}
