//! A full merge in steps, between which the host goes on: a page is copied at a time, and the copies are
//! mapped when all of them are made.
//!
//! A page that the host writes or trims meanwhile is not mapped to its copy ([`Merging::forget`]). Nothing is
//! lost when the power is cut, or when a program fails: the originals are mapped and intact until the end.

use super::{Core, Role};
use crate::counters::Cause;
use crate::flash::Flash;
use crate::log_block::merge::Copied;
use crate::log_block::pool::NONE;
use nand::{Done, Fault, Hint, Lpn, Nand, Ppn};

/// A merge lets the processor fetch where its next pages are, once for so many pages: a cache line tells that
/// of at least as many.
const LOOK_AHEAD: u32 = 8;

/// A logical block that is being gathered into another block.
#[derive(Clone, Debug)]
pub(crate) struct Merging {
    pub(crate) logical: u32,
    /// Where to; [`NONE`] until one is opened, and again when a program failed.
    block: u32,
    /// Offsets to be copied.
    end: u32,
    /// By offset: whether the copy is to be mapped.
    staged: Vec<bool>,
}

impl Merging {
    /// No merge; room for blocks of so many pages.
    pub(crate) fn new(block_pages: u32) -> Merging {
        Merging { logical: NONE, block: NONE, end: 0, staged: Vec::with_capacity(block_pages as usize) }
    }

    /// Offset of the page that is copied next.
    pub(crate) fn offset(&self) -> u32 {
        self.staged.len() as u32
    }

    /// Pages still to be copied.
    pub(crate) fn left(&self) -> u32 {
        self.end - self.offset()
    }

    /// Whether it has a block to copy to.
    pub(crate) fn has_block(&self) -> bool {
        self.block != NONE
    }

    /// The page at `offset` is mapped elsewhere from now on.
    pub(crate) fn forget(&mut self, offset: u32) {
        if let Some(staged) = self.staged.get_mut(offset as usize) {
            *staged = false;
        }
    }
}

impl Core {
    /// Begins to merge a logical block. `false`: it holds nothing any more.
    pub(crate) fn begin_merge<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        merging: &mut Merging,
        logical: u32,
    ) -> Result<bool, Fault> {
        self.secure_trims(flash)?;
        let old = self.data_block(logical);
        let Some(last) = self.last_mapped(flash, logical, 0) else {
            if let Some(old) = old {
                self.release(flash, old, Cause::Merge)?;
            }
            return Ok(false);
        };
        if let Some(old) = old {
            // What the host wrote behind its pages now would not be copied.
            self.pool.close(old);
        }
        (merging.logical, merging.block, merging.end) = (logical, NONE, last + 1);
        merging.staged.clear();
        Ok(true)
    }

    /// Copies one page of a merge, which is known to be where it is `after` that, or ends it when all are
    /// copied. `true`: it has ended.
    pub(crate) fn step_merge<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        merging: &mut Merging,
        after: Done,
    ) -> Result<bool, Fault> {
        if merging.block == NONE {
            let unit = self.layout.unit_of(merging.logical);
            merging.block = self.pool.open_on(flash, false, unit)?;
            self.roles[merging.block as usize] = Role::Copy;
            merging.staged.clear();
            merging.end = self.last_mapped(flash, merging.logical, 0).map_or(0, |last| last + 1);
        }
        if merging.left() > 0 {
            let offset = merging.offset();
            match self.copy(flash, merging.logical, offset, merging.block, after)? {
                Copied::Page(..) => merging.staged.push(true),
                Copied::Filler => merging.staged.push(false),
                Copied::Failed => {
                    let failed = std::mem::replace(&mut merging.block, NONE);
                    merging.staged.clear();
                    return self.release(flash, failed, Cause::Merge).map(|_| false);
                }
            }
        }
        if merging.left() > 0 {
            self.expect_copy(flash, merging);
            return Ok(false);
        }
        self.end_merge(flash, merging)
    }

    /// Maps the copies, and erases what held the logical block before.
    /// `false`: it has to be made again.
    fn end_merge<N: Nand>(&mut self, flash: &mut Flash<N>, merging: &mut Merging) -> Result<bool, Fault> {
        self.secure_trims(flash)?;
        let (logical, block) = (merging.logical, merging.block);
        let is_staged = |offset| merging.staged.get(offset as usize) == Some(&true);
        let is_at_home = |offset| {
            self.log[self.slot_at(logical, offset)] == NONE
                && self.lookup_at(flash, logical, offset).is_some()
        };
        if (0..self.layout.block_pages).any(|offset| !is_staged(offset) && is_at_home(offset)) {
            // The home still holds a page: a trim failed that would have superseded it, or the home is
            // another one now.
            merging.block = NONE;
            return self.release(flash, block, Cause::Merge).map(|_| false);
        }
        self.map_copies(flash, merging);
        if self.pool.valid(block) == 0 {
            return self.release(flash, block, Cause::Merge).map(|_| true);
        }
        let old = self.data_block(logical);
        self.roles[block as usize] = Role::Data(logical);
        self.data[logical as usize] = block;
        if let Some(old) = old {
            self.release(flash, old, Cause::Merge)?;
        }
        Ok(true)
    }

    /// Maps the copies of a merge. Most supersede a page of the home: these are counted together.
    fn map_copies<N: Nand>(&mut self, flash: &mut Flash<N>, merging: &Merging) {
        let (logical, block) = (merging.logical, merging.block);
        let home = self.data_block(logical);
        let (mut mapped, mut superseded) = (0, 0);
        for (offset, _) in (0..).zip(&merging.staged).filter(|(_, &staged)| staged) {
            if self.log[self.slot_at(logical, offset)] != NONE {
                self.forget_at(flash, logical, offset, block);
            } else if let Some(home) = home {
                if let Some(old) = self.valid_page(flash, home, offset) {
                    flash.space.mark(old, false);
                    self.pool.supersede(flash, home, block);
                    superseded += 1;
                }
            }
            flash.space.mark(self.pool.page(block, offset), true);
            mapped += 1;
        }
        if let Some(home) = home {
            self.pool.count_marked(flash, home, superseded, false);
        }
        self.pool.count_marked(flash, block, mapped, true);
    }

    /// Opens a log block on a parallel unit.
    pub(crate) fn open_log_on<N: Nand>(&mut self, flash: &mut Flash<N>, unit: u32) -> Result<u32, Fault> {
        let block = self.pool.open_on(flash, true, unit)?;
        self.roles[block as usize] = Role::Log;
        self.log_count += 1;
        Ok(block)
    }

    /// Whether nothing in the home of a logical block is valid, so that another block can take its place.
    pub(crate) fn can_switch(&self, logical: u32) -> bool {
        self.data_block(logical).is_none_or(|block| self.pool.valid(block) == 0)
    }

    /// Pages of a logical block that the log holds.
    pub(crate) fn pages_in_log(&self, logical: u32) -> u32 {
        let first = self.slot_at(logical, 0);
        let pages = &self.log[first..first + self.layout.block_pages as usize];
        pages.iter().filter(|&&page| page != NONE).count() as u32
    }

    /// The programmed pages of all log blocks.
    pub(crate) fn log_pages(&self) -> Vec<Ppn> {
        let logs = (0..self.pool.numbers()).filter(|&block| self.is_log(block));
        let pages = logs.flat_map(|block| (0..self.pool.next(block)).map(move |position| (block, position)));
        pages.map(|(block, position)| self.pool.page(block, position)).collect()
    }

    /// Programs no further page of a log block.
    pub(crate) fn close_log(&mut self, block: u32) {
        self.pool.close(block);
    }

    /// Tells the memory hierarchy which page the next step of a merge will read: until then other merges have
    /// their turn.
    fn expect_copy<N: Nand>(&self, flash: &Flash<N>, merging: &Merging) {
        let (logical, offset) = (merging.logical, merging.offset());
        let from = match self.log[self.slot_at(logical, offset)] {
            NONE => self.data_block(logical).and_then(|home| self.pool.page_if_there(home, offset)),
            page => Some(Ppn(page)),
        };
        if let Some(from) = from {
            flash.nand().expect(Hint::Page(from));
        }
        if offset.is_multiple_of(LOOK_AHEAD) {
            self.expect_lookup(flash, logical, offset + LOOK_AHEAD);
        }
    }

    /// Tells the memory hierarchy what the lookup of a page will read.
    #[inline]
    fn expect_lookup<N: Nand>(&self, flash: &Flash<N>, logical: u32, offset: u32) {
        prefetch_index::prefetch_index(&self.log, self.slot_at(logical, offset));
        let Some(home) = self.data_block(logical) else { return };
        self.pool.expect(home);
        if let Some(ppn) = self.pool.page_if_there(home, offset) {
            flash.space.expect(ppn);
        }
    }

    /// Tells the memory hierarchy that `lpn` will be looked up, and if it `is_read` soon, the page itself.
    #[inline]
    pub(crate) fn expect<N: Nand>(&self, flash: &Flash<N>, lpn: Lpn, is_read: bool) {
        if is_read {
            if let Some(ppn) = self.lookup(flash, lpn) {
                flash.nand().expect(Hint::Page(ppn));
            }
        } else {
            let (logical, offset) = self.place(lpn);
            self.expect_lookup(flash, logical, offset);
        }
    }
}
