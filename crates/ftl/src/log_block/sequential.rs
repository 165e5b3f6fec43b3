//! Log blocks for sequential writes: each belongs to one logical block and holds its pages at their offsets.
//!
//! NAND takes pages in order only, so an offset in front of the next one is reached by copying the pages
//! between: the newest version of each, from wherever it is. They would have to be copied by the merge
//! anyway; only the time differs. A merge that copied nothing is a switch. A log block that the host wrote
//! from its first page on, and that takes the rest from elsewhere, is merged partially. Where pages were
//! gathered in front of the host's first one, [`InOrder`] says what the merge counts as.

use super::merge::collected;
use super::{Core, Merge};
use crate::flash::Flash;
use crate::log_block::stats::{MERGES, SEQUENTIAL_BLOCKS};
use nand::{Done, Fault, Lpn, Nand};
use std::collections::VecDeque;

/// Which merges count as partial ones though pages were gathered in front of the host's first page. The
/// others count as full merges, with the log block as the fresh block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InOrder {
    /// No merge: each of them counts as a full one.
    #[default]
    First,
    /// Those where the host went on at the page at which it had stopped when the log block before was merged:
    /// it wrote the logical block in order from its first page, in several allocations.
    Stream,
    /// Those where the host wrote at least half of the pages.
    Half,
    /// All merges of which the host wrote any page.
    Any,
}

/// Which log block makes room for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    /// One that would be merged in full now, else partially, else by a switch; the one written longest ago
    /// among equals.
    Merge,
    /// The one whose merge copies the fewest pages; the one written longest ago among equals.
    Cheapest,
    /// The one written longest ago.
    Oldest,
}

/// The room of a sequential area.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Log blocks that there may be.
    pub(crate) most: u32,
    /// Which one makes room for another.
    pub(crate) victim: Victim,
}

/// What became of log blocks of a sequential area.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Opened.
    pub(crate) opened: u32,
    /// Merged, in whatever way.
    pub(crate) merged: u32,
    /// Of these, by a switch or a partial merge.
    pub(crate) in_order: u32,
}

/// A log block and the logical block it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequential {
    pub(crate) block: u32,
    pub(crate) logical: u32,
    /// Pages were copied in front of the host's first one.
    front: bool,
    /// They were, and the host had not written those in order before.
    gathered: bool,
    /// Pages that the host wrote into it.
    host: u32,
    /// A program failed in it: it takes no page any more, and cannot become a data block.
    broken: bool,
    /// To be merged at the end of the request.
    pub(crate) closing: bool,
}

impl Sequential {
    fn new(block: u32, logical: u32) -> Sequential {
        Sequential { block, logical, front: false, gathered: false, host: 0, broken: false, closing: false }
    }
}

/// The sequential log blocks, least recently written first.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequentialArea {
    blocks: Vec<Sequential>,
    /// A log block whose pages are being gathered into another one of its logical block.
    replaced: Option<Sequential>,
    /// Since [`SequentialArea::take_counts`].
    counts: Counts,
    in_order: InOrder,
    /// With [`InOrder::Stream`]: logical blocks whose log block was merged before the host came to their end,
    /// and the offset where it stopped; the least recent first.
    stopped: VecDeque<(u32, u32)>,
    most_stopped: usize,
}

impl SequentialArea {
    pub(crate) fn new(most: u32) -> SequentialArea {
        SequentialArea { blocks: Vec::with_capacity(most as usize + 1), ..SequentialArea::default() }
    }

    /// An area with up to `most` blocks that counts merges by `in_order`.
    pub(crate) fn judged_by(most: u32, in_order: InOrder) -> SequentialArea {
        let most_stopped = if in_order == InOrder::Stream { most as usize } else { 0 };
        let stopped = VecDeque::with_capacity(most_stopped + 1);
        SequentialArea { in_order, stopped, most_stopped, ..SequentialArea::new(most) }
    }

    /// Bytes of what it remembers beside its map: logical block and offset, 4 and 2 bytes.
    pub(crate) fn memory(&self) -> u64 {
        6 * self.most_stopped as u64
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

    /// The block that makes room.
    pub(crate) fn victim<N: Nand>(&self, core: &Core, flash: &Flash<N>, rule: Victim) -> Option<usize> {
        let left = |it: &Sequential| {
            let next = core.pool.next(it.block);
            core.last_mapped(flash, it.logical, next).map_or(0, |last| last + 1 - next)
        };
        let price = |&index: &usize| {
            let it = &self.blocks[index];
            match rule {
                Victim::Merge => {
                    let next = core.pool.next(it.block);
                    Merge::Full as u32 - self.kind(it, next, next + left(it)) as u32
                }
                Victim::Cheapest => left(it),
                Victim::Oldest => 0,
            }
        };
        (0..self.blocks.len()).min_by_key(price)
    }

    /// The kind of a merge of `it` whose pages up to `next` stand, and that copies those up to `end`.
    fn kind(&self, it: &Sequential, next: u32, end: u32) -> Merge {
        let full = it.gathered
            && match self.in_order {
                InOrder::First | InOrder::Stream => true,
                InOrder::Half => 2 * it.host < end,
                InOrder::Any => false,
            };
        match (full, it.front || end > next) {
            (true, _) => Merge::Full,
            (false, true) => Merge::Partial,
            (false, false) => Merge::Switch,
        }
    }

    /// Remembers where the host stopped in a logical block that it wrote in order.
    fn stop(&mut self, it: &Sequential, next: u32, block_pages: u32) {
        if self.most_stopped > 0 && !it.gathered && next > 0 && next < block_pages {
            if self.stopped.len() == self.most_stopped {
                self.stopped.pop_front();
            }
            self.stopped.push_back((it.logical, next));
        }
    }

    /// Whether the host goes on at `offset` where it stopped in `logical`; forgets where that was.
    fn goes_on(&mut self, logical: u32, offset: u32) -> bool {
        let Some(at) = self.stopped.iter().position(|&(of, _)| of == logical) else { return false };
        self.stopped.remove(at).is_some_and(|(_, stopped)| stopped == offset)
    }

    /// Gives a new log block to a logical block that has none. Room for it is the caller's business.
    pub(crate) fn open<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        logical: u32,
    ) -> Result<usize, Fault> {
        debug_assert!(self.find(logical).is_none());
        let block = core.open_log(flash)?;
        flash.counters.count(&SEQUENTIAL_BLOCKS, 1);
        self.counts.opened += 1;
        self.blocks.push(Sequential::new(block, logical));
        Ok(self.blocks.len() - 1)
    }

    /// Puts a new log block into the place of the one at `index`, whose pages will be gathered into it: the
    /// host goes back. It must be merged within the request.
    pub(crate) fn replace<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        index: usize,
    ) -> Result<usize, Fault> {
        assert!(self.replaced.is_none());
        let old = self.blocks.remove(index);
        match self.open(core, flash, old.logical) {
            Ok(index) => {
                self.replaced = Some(old);
                self.blocks[index].closing = true;
                Ok(index)
            }
            Err(fault) => {
                self.blocks.push(old);
                Err(fault)
            }
        }
    }

    /// Whether a block is being replaced: a merge that found no space left it so.
    pub(crate) fn is_replacing(&self) -> bool {
        self.replaced.is_some()
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

    /// What became of log blocks since [`SequentialArea::take_counts`].
    #[inline]
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// What became of log blocks since this was asked last.
    pub(crate) fn take_counts(&mut self) -> Counts {
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
        if core.pool.next(it.block) == 0 {
            it.front = offset > 0;
            it.gathered = !self.goes_on(logical, offset) && it.front;
        }
        it.host += 1;
        self.blocks.push(it);
        let last = self.blocks.len() - 1;
        let written = if core.copy_up_to(flash, logical, it.block, offset)? {
            core.write_next(flash, it.block, lpn, at)?
        } else {
            None
        };
        if written.is_none() {
            self.blocks[last].broken = true;
            self.dissolve(core, flash, last)?;
        } else if core.pool.next(it.block) == core.layout().block_pages {
            self.complete(core, flash, last)?;
        }
        Ok(written)
    }

    /// Writes a page that does not belong into the random log: one whose place in the data block is free, one
    /// of a sequential request, one that is next in its log block. `None`: it belongs there, or a program
    /// failed.
    pub(crate) fn place<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        lpn: Lpn,
        is_sequential: bool,
        room: Room,
        at: Done,
    ) -> Result<Option<Done>, Fault> {
        let (logical, offset) = core.place(lpn);
        let mut owned = self.find(logical);
        if owned.is_none() {
            if let Some(done) = core.write_in_place(flash, lpn, at)? {
                return Ok(Some(done));
            }
        }
        if !is_sequential && owned.is_none_or(|index| self.next(core, index) != offset) {
            return Ok(None);
        }
        if let Some(index) = owned.filter(|&index| offset < self.next(core, index)) {
            self.complete(core, flash, index)?;
            owned = None;
        }
        let index = match owned {
            Some(index) => index,
            None => {
                self.make_room(core, flash, room)?;
                self.open(core, flash, logical)?
            }
        };
        self.write(core, flash, index, lpn, at)
    }

    /// Merges log blocks until one more may be opened.
    pub(crate) fn make_room<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        room: Room,
    ) -> Result<(), Fault> {
        self.shrink_to(core, flash, Room { most: room.most.saturating_sub(1), ..room })
    }

    /// Merges log blocks until there are not too many.
    pub(crate) fn shrink_to<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        room: Room,
    ) -> Result<(), Fault> {
        while self.len() > room.most {
            let Some(victim) = self.victim(core, flash, room.victim) else { return Ok(()) };
            self.complete(core, flash, victim)?;
        }
        Ok(())
    }

    /// Merges the logical block of a page in a random log block, and erases the log block of it here, if
    /// there is one: nothing in it is valid any more.
    pub(crate) fn full_merge<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        lpn: Lpn,
    ) -> Result<(), Fault> {
        let (logical, _) = core.place(lpn);
        core.full_merge(flash, logical)?;
        let Some(index) = self.find(logical) else { return Ok(()) };
        let it = self.blocks.remove(index);
        self.counts.merged += 1;
        self.stop(&it, core.pool.next(it.block), core.layout().block_pages);
        self.emptied(core, flash, it)
    }

    /// Copies what the log block at `index` lacks and makes it the data block. Returns the kind of merge that
    /// this was.
    pub(crate) fn complete<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        index: usize,
    ) -> Result<Merge, Fault> {
        core.secure_trims(flash)?;
        let it = self.blocks[index];
        if it.broken {
            return self.dissolve(core, flash, index).map(|()| Merge::Full);
        }
        let next = core.pool.next(it.block);
        let end = core.last_mapped(flash, it.logical, next).map_or(next, |last| last + 1);
        if !core.copy_up_to(flash, it.logical, it.block, end)? {
            self.blocks[index].broken = true;
            return self.dissolve(core, flash, index).map(|()| Merge::Full);
        }
        self.blocks.remove(index);
        let kind = self.kind(&it, next, end);
        self.stop(&it, next, core.layout().block_pages);
        self.counts.merged += 1;
        self.counts.in_order += u32::from(kind != Merge::Full);
        core.switch(flash, it.logical, it.block)?;
        self.release_replaced(core, flash)?;
        flash.counters.count(&MERGES[kind as usize], 1);
        collected(flash);
        Ok(kind)
    }

    /// Merges the log block at `index` into a fresh block.
    pub(crate) fn dissolve<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        index: usize,
    ) -> Result<(), Fault> {
        let it = self.blocks[index];
        core.full_merge(flash, it.logical)?;
        self.blocks.remove(index);
        self.counts.merged += 1;
        self.stop(&it, core.pool.next(it.block), core.layout().block_pages);
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
        collected(flash);
        core.release(flash, it.block, crate::Cause::Merge).map(|_| ())
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
                self.blocks.insert(0, Sequential::new(block, logical));
            }
        }
    }
}

impl Core {
    /// Whether the data block holds a page that a log block, at the same offset, has passed over.
    fn is_behind<N: Nand>(&self, flash: &Flash<N>, logical: u32, block: u32) -> bool {
        let Some(data) = self.data_block(logical) else { return false };
        let valid = |offset: u32| self.valid_page(flash, data, offset).is_some();
        (0..self.pool.next(block)).any(valid)
    }
}
