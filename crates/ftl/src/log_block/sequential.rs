//! Log blocks for sequential writes: each belongs to one logical block and holds its pages at their offsets.
//!
//! NAND takes pages in order only, so an offset in front of the next one is reached by copying the pages
//! between: the newest version of each, from wherever it is. They would have to be copied by the merge
//! anyway; only the time differs. What kind of merge it was is told by what was copied: nothing is a switch;
//! pages behind and between those of a host that began with the first a partial merge; when pages were
//! gathered in front of the host's first one it is a full merge, with the log block as the fresh block.

use super::{Core, Merge};
use crate::flash::Flash;
use crate::log_block::stats::{MERGES, SEQUENTIAL_BLOCKS};
use nand::{Done, Fault, Lpn, Nand};

/// A log block and the logical block it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequential {
    pub(crate) block: u32,
    pub(crate) logical: u32,
    /// Pages were copied in front of the host's first one.
    gathered: bool,
    /// To be merged at the end of the request.
    pub(crate) closing: bool,
}

/// The sequential log blocks, least recently written first.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequentialArea {
    blocks: Vec<Sequential>,
    /// A log block whose pages are being gathered into another one of its logical block.
    replaced: Option<Sequential>,
    /// Log blocks opened, and of these merged by a switch or a partial merge, since
    /// [`SequentialArea::take_counts`].
    counts: (u32, u32),
}

impl SequentialArea {
    pub(crate) fn new(most: u32) -> SequentialArea {
        SequentialArea { blocks: Vec::with_capacity(most as usize + 1), replaced: None, counts: (0, 0) }
    }

    pub(crate) fn len(&self) -> u32 {
        self.blocks.len() as u32
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().chain(&self.replaced).map(|it| it.block)
    }

    /// The logical blocks that have one.
    pub(crate) fn logical_blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().map(|it| it.logical)
    }

    /// The log block of a logical block.
    pub(crate) fn find(&self, logical: u32) -> Option<usize> {
        self.blocks.iter().position(|it| it.logical == logical)
    }

    /// The one written longest ago.
    pub(crate) fn oldest(&self) -> Option<usize> {
        (!self.blocks.is_empty()).then_some(0)
    }

    /// The one whose merge copies the fewest pages; the one written longest ago among equals.
    pub(crate) fn cheapest<N: Nand>(&self, core: &Core, flash: &Flash<N>) -> Option<usize> {
        let cost = |it: &Sequential| {
            let next = core.pool.next(it.block);
            core.last_mapped(flash, it.logical, next).map_or(0, |last| last + 1 - next)
        };
        (0..self.blocks.len()).min_by_key(|&index| cost(&self.blocks[index]))
    }

    /// Gives a new log block to a logical block that has none. Room for it is the caller's business.
    pub(crate) fn open<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>, logical: u32) -> usize {
        debug_assert!(self.find(logical).is_none());
        flash.counters.count(&SEQUENTIAL_BLOCKS, 1);
        self.counts.0 += 1;
        let block = core.open_log(flash);
        self.blocks.push(Sequential { block, logical, gathered: false, closing: false });
        self.blocks.len() - 1
    }

    /// Puts a new log block into the place of the one at `index`, whose pages will be gathered into it: the
    /// host goes back. It must be merged within the request.
    pub(crate) fn replace<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>, index: usize) -> usize {
        assert!(self.replaced.is_none());
        let old = self.blocks.remove(index);
        self.replaced = Some(old);
        let index = self.open(core, flash, old.logical);
        self.blocks[index].closing = true;
        index
    }

    /// Has the log block at `index` merged at the end of the request.
    pub(crate) fn close_after_request(&mut self, index: usize) {
        self.blocks[index].closing = true;
    }

    /// At the end of a request in a logical block: merges its log block if that is due.
    pub(crate) fn end_request<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        logical: u32,
    ) -> Result<(), Fault> {
        match self.find(logical).filter(|&index| self.blocks[index].closing) {
            Some(index) => self.complete(core, flash, index).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Log blocks opened since this was asked last, and switch and partial merges.
    pub(crate) fn take_counts(&mut self) -> (u32, u32) {
        std::mem::take(&mut self.counts)
    }

    /// The next offset that the log block at `index` takes; `block_pages` when it takes none.
    pub(crate) fn next(&self, core: &Core, index: usize) -> u32 {
        core.pool.next(self.blocks[index].block)
    }

    /// Writes a page into the log block at `index` of its logical block, whose next offset is not behind it.
    /// A full block becomes the data block at once. `None` when a program failed: then the log block is
    /// gone, merged, and the page not written.
    pub(crate) fn write<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        index: usize,
        lpn: Lpn,
        at: Done,
    ) -> Result<Option<Done>, Fault> {
        let (logical, offset) = core.place(lpn);
        let mut it = self.blocks.remove(index);
        assert!(it.logical == logical && core.pool.next(it.block) <= offset);
        it.gathered |= core.pool.next(it.block) == 0 && offset > 0;
        self.blocks.push(it);
        let last = self.blocks.len() - 1;
        let written = if core.copy_up_to(flash, logical, it.block, offset)? {
            core.write_next(flash, it.block, lpn, at)?
        } else {
            None
        };
        if written.is_none() {
            self.dissolve(core, flash, last)?;
        } else if core.pool.next(it.block) == core.layout().block_pages {
            self.complete(core, flash, last)?;
        }
        Ok(written)
    }

    /// Copies what the log block at `index` lacks and makes it the data block. Returns the kind of merge that
    /// this was.
    pub(crate) fn complete<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        index: usize,
    ) -> Result<Merge, Fault> {
        let it = self.blocks[index];
        let next = core.pool.next(it.block);
        let end = core.last_mapped(flash, it.logical, next).map_or(next, |last| last + 1);
        if !core.copy_up_to(flash, it.logical, it.block, end)? {
            self.dissolve(core, flash, index)?;
            return Ok(Merge::Full);
        }
        self.blocks.remove(index);
        let kind = match (it.gathered, end > next) {
            (true, _) => Merge::Full,
            (false, true) => Merge::Partial,
            (false, false) => Merge::Switch,
        };
        self.counts.1 += u32::from(kind != Merge::Full);
        core.switch(flash, it.logical, it.block)?;
        self.release_replaced(core, flash)?;
        flash.counters.count(&MERGES[kind as usize], 1);
        flash.counters.collections_data += 1;
        flash.counters.foreground_collections += 1;
        Ok(kind)
    }

    /// Merges the log block at `index` into a fresh block.
    pub(crate) fn dissolve<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        index: usize,
    ) -> Result<(), Fault> {
        let it = self.blocks.remove(index);
        core.full_merge(flash, it.logical)?;
        self.release_replaced(core, flash)?;
        self.emptied(core, flash, it)
    }

    fn release_replaced<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        match self.replaced.take() {
            Some(old) => self.emptied(core, flash, old),
            None => Ok(()),
        }
    }

    fn emptied<N: Nand>(&self, core: &mut Core, flash: &mut Flash<N>, it: Sequential) -> Result<(), Fault> {
        flash.counters.collections_data += 1;
        flash.counters.foreground_collections += 1;
        core.release(flash, it.block, crate::Cause::Merge).map(|_| ())
    }

    /// A full merge of `logical` took all pages out of its log block: erases that.
    pub(crate) fn merged<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        logical: u32,
    ) -> Result<(), Fault> {
        let Some(index) = self.find(logical) else { return Ok(()) };
        let it = self.blocks.remove(index);
        self.emptied(core, flash, it)
    }

    /// Takes over, of the log blocks that recovery found (oldest first), the youngest that can be written
    /// further as sequential ones, `most` of them; the others stay in `logs`.
    pub(crate) fn restore<N: Nand>(&mut self, core: &Core, flash: &Flash<N>, logs: &mut Vec<u32>, most: u32) {
        for at in (0..logs.len()).rev() {
            if self.len() == most {
                break;
            }
            let block = logs[at];
            let Some(logical) = core.in_place_of(flash, block) else { continue };
            if core.pool.next(block) < core.layout().block_pages
                && self.find(logical).is_none()
                && !core.is_behind(flash, logical, block)
            {
                logs.remove(at);
                // What was copied into it is not known any more: nothing, if it began with the host's first
                // page.
                self.blocks.insert(0, Sequential { block, logical, gathered: false, closing: false });
            }
        }
    }
}

impl Core {
    /// Whether the data block holds a page that a log block, at the same offset, has passed over.
    fn is_behind<N: Nand>(&self, flash: &Flash<N>, logical: u32, block: u32) -> bool {
        let Some(data) = self.data_block(logical) else { return false };
        let valid = |offset: u32| {
            self.pool.page_if_there(data, offset).is_some_and(|page| flash.space.is_valid(page))
        };
        (0..self.pool.next(block)).any(valid)
    }
}
