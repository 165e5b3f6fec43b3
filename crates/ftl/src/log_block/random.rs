//! Log blocks for random writes: a FIFO of page-mapped blocks, the last of which is written.

use super::merge::collected;
use super::{Core, Layout, Policy};
use crate::bits;
use crate::counters::{Cause, Counters};
use crate::flash::Flash;
use crate::log_block::sequential::SequentialArea;
use crate::log_block::stats::{LOG_VICTIMS, LOG_VICTIM_PAGES, SECOND_CHANCES, SECOND_CHANCES_USED};
use nand::{Done, Fault, Lpn, Nand, Ppn};
use std::collections::VecDeque;

/// The random log blocks, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct RandomArea {
    pub(crate) blocks: VecDeque<u32>,
    /// By PPN: the page was moved inside the log and not rewritten since. One bit for each log page in a
    /// firmware.
    moved: Vec<u64>,
}

impl RandomArea {
    pub(crate) fn new(layout: &Layout) -> RandomArea {
        RandomArea {
            blocks: VecDeque::with_capacity(layout.log_blocks as usize + 16),
            moved: vec![0; (layout.physical_pages as usize).div_ceil(64)],
        }
    }

    /// The host is about to rewrite or trim `lpn`: if that was moved on in the log, the move was right.
    pub(crate) fn spared(&mut self, core: &Core, counters: &mut Counters, lpn: Lpn) {
        let Some(page) = core.log_page(lpn) else { return };
        if self.was_moved(page) {
            counters.count(&SECOND_CHANCES_USED, 1);
            self.mark(page, false);
        }
    }

    /// The same of the pages of a trim.
    pub(crate) fn all_spared(&mut self, core: &Core, counters: &mut Counters, first: Lpn, pages: u32) {
        (first.0..first.0 + pages).for_each(|lpn| self.spared(core, counters, Lpn(lpn)));
    }

    /// Whether a log page is there by a move.
    pub(crate) fn was_moved(&self, page: Ppn) -> bool {
        bits::has(&self.moved, page.0)
    }

    fn mark(&mut self, page: Ppn, moved: bool) {
        bits::set(&mut self.moved, page.0, moved);
    }

    /// Moves a page of the log block `victim`, which is in the list no more, to the rear. `false`: the rear
    /// is full.
    pub(crate) fn move_to_rear<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        lpn: Lpn,
    ) -> Result<bool, Fault> {
        let Some(rear) = self.rear(core) else { return Ok(false) };
        if !core.move_in_log(flash, lpn, rear, Done::READY)? {
            return Ok(false);
        }
        flash.counters.count(&SECOND_CHANCES, 1);
        if let Some(page) = core.log_page(lpn) {
            self.mark(page, true);
        }
        Ok(true)
    }

    /// Moves a page of a log block to the rear of this area, as nothing that deserves another chance.
    pub(crate) fn take_in<N: Nand>(
        &self,
        core: &mut Core,
        flash: &mut Flash<N>,
        lpn: Lpn,
    ) -> Result<bool, Fault> {
        self.rear(core).map_or(Ok(false), |rear| core.move_in_log(flash, lpn, rear, Done::READY))
    }

    pub(crate) fn len(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// The block that is written, if it has room.
    pub(crate) fn rear(&self, core: &Core) -> Option<u32> {
        self.blocks.back().copied().filter(|&block| core.pool.next(block) < core.layout().block_pages)
    }

    /// Opens a block at the rear. Room for it is the caller's business.
    pub(crate) fn open<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<u32, Fault> {
        let block = core.open_log(flash)?;
        self.blocks.push_back(block);
        Ok(block)
    }

    /// Writes a page at the rear, which must have room; `None` when programs failed up to its end.
    pub(crate) fn append<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        lpn: Lpn,
        at: Done,
    ) -> Result<Option<Done>, Fault> {
        let Some(rear) = self.rear(core) else { return Ok(None) };
        core.append(flash, rear, lpn, at)
    }

    /// Merges every logical block that has a valid page in the log block `victim`, which is in no list any
    /// more, and erases it. When that fails, it is the oldest again.
    pub(crate) fn merge<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        sequential: &mut SequentialArea,
        victim: u32,
    ) -> Result<(), Fault> {
        let merged = self.merge_pages(core, flash, sequential, victim);
        self.back(victim, merged)
    }

    /// Puts a victim that could not be emptied back, as the oldest.
    pub(crate) fn back(&mut self, victim: u32, emptied: Result<(), Fault>) -> Result<(), Fault> {
        if emptied.is_err() {
            self.blocks.push_front(victim);
        }
        emptied
    }

    fn merge_pages<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        sequential: &mut SequentialArea,
        victim: u32,
    ) -> Result<(), Fault> {
        chosen(core, flash, victim);
        for position in 0..core.layout().block_pages {
            if let Some(lpn) = core.log_lpn(flash, victim, position) {
                sequential.full_merge(core, flash, lpn)?;
            }
        }
        self.free(core, flash, victim)
    }

    /// Merges the oldest block, or the oldest sequential one when there is no other.
    pub(crate) fn merge_oldest<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        sequential: &mut SequentialArea,
    ) -> Result<(), Fault> {
        match (self.blocks.pop_front(), sequential.oldest()) {
            (Some(victim), _) => self.merge(core, flash, sequential, victim),
            (None, Some(victim)) => sequential.complete(core, flash, victim).map(|_| ()),
            (None, None) => Err(core.no_space(flash, 1)),
        }
    }

    /// Erases a log block in which nothing is valid.
    pub(crate) fn free<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        victim: u32,
    ) -> Result<(), Fault> {
        for position in 0..core.layout().block_pages {
            if let Some(page) = core.pool.page_if_there(victim, position) {
                self.mark(page, false);
            }
        }
        core.release(flash, victim, Cause::Merge)?;
        collected(flash);
        Ok(())
    }
}

/// Counts a random log block that is about to be emptied. Returns how many pages of it are valid.
pub(crate) fn chosen<N: Nand>(core: &Core, flash: &mut Flash<N>, victim: u32) -> u32 {
    let valid = core.pool.valid(victim);
    flash.counters.count(&LOG_VICTIMS, 1);
    flash.counters.count(&LOG_VICTIM_PAGES, u64::from(valid));
    valid
}

/// Bytes of the page map of `blocks` random log blocks: LPN and its place, 4 bytes each, as an uncompressed
/// cached mapping entry.
pub(crate) fn page_map_bytes(blocks: u32, block_pages: u32) -> u64 {
    8 * u64::from(blocks) * u64::from(block_pages)
}

/// Bytes of the map of `blocks` sequential log blocks: logical block and block, 4 bytes each.
pub(crate) fn block_map_bytes(blocks: u32) -> u64 {
    8 * u64::from(blocks)
}

/// Reads a parameter of switches: a string of `letters`, or `-` for none of them.
pub(crate) fn switches<P: Policy>(
    config: &crate::Config,
    letters: &str,
) -> Result<String, crate::ConfigError> {
    let given = config.parameter(&P::INFO, "techniques");
    let unknown = given.chars().find(|&letter| given != "-" && !letters.contains(letter));
    match unknown {
        Some(letter) => Err(crate::ConfigError(format!(
            "scheme {}: techniques = {given}: there is no technique '{letter}'; give letters of {letters}, or -",
            P::INFO.name
        ))),
        None => Ok(given),
    }
}
