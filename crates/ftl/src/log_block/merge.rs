//! Merges: what turns log pages back into data blocks.

use super::{Core, Merge, Role, LEAST_FREE};
use crate::counters::Cause;
use crate::flash::{Content, Flash};
use crate::log_block::pool::NONE;
use crate::log_block::stats::MERGES;
use nand::{Done, Fault, Lpn, Nand, PageKind, Ppn, Source};

/// Counts a log block that was emptied, whatever data block goes with it. The host waits for it.
pub(super) fn collected<N: Nand>(flash: &mut Flash<N>) {
    flash.counters.collections_data += 1;
    flash.counters.foreground_collections += 1;
}

/// What a page holds that only keeps the order: no LPN, no content.
const FILLER: Content = Content { version: 0, lost: true };

/// What became of a page that was to be copied.
pub(super) enum Copied {
    /// The program failed, and the block that it was in takes no more pages.
    Failed,
    /// No page has this place; a filler keeps it.
    Filler,
    /// The newest version of the LPN is there, too.
    Page(Lpn, Ppn),
}

impl Core {
    /// Copies the newest version of the page at `offset` of a logical block to the next page of `block`, or a
    /// filler when there is none.
    pub(super) fn copy<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        logical: u32,
        offset: u32,
        block: u32,
        after: Done,
    ) -> Result<Copied, Fault> {
        let newest =
            self.lpn(logical, offset).and_then(|lpn| Some((lpn, self.lookup_at(flash, logical, offset)?)));
        let Some((lpn, from)) = newest else {
            let placed = self.place_filler(flash, block, Cause::Merge)?;
            return Ok(if placed { Copied::Filler } else { Copied::Failed });
        };
        let placed = self.copy_page(flash, lpn, from, block, Cause::Merge, after)?;
        flash.counters.moved_data += u64::from(placed.is_some());
        Ok(placed.map_or(Copied::Failed, |ppn| Copied::Page(lpn, ppn)))
    }

    /// Copies the page of `lpn` at `from` to the next page of `block`. `None` when the program failed.
    pub(super) fn copy_page<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        from: Ppn,
        block: u32,
        cause: Cause,
        after: Done,
    ) -> Result<Option<Ppn>, Fault> {
        let kind = PageKind::Data;
        let (oob, read) = flash.read_to_move(from, cause, after)?;
        assert!(oob.kind == kind && oob.id == lpn.0, "LPN {} maps to a page of LPN {}", lpn.0, oob.id);
        let content = Content::of(oob);
        let source = content.source(Source::Page(from));
        let placed = self.pool.place(flash, block, kind, oob.id, content, source, cause, read)?;
        Ok(placed.map(|(ppn, _)| ppn))
    }

    /// Programs a filler to the next page of `block`. `false` when that failed.
    pub(super) fn place_filler<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        block: u32,
        cause: Cause,
    ) -> Result<bool, Fault> {
        let (kind, from) = (PageKind::Data, Source::Nothing);
        let placed = self.pool.place(flash, block, kind, NONE, FILLER, from, cause, Done::READY)?;
        Ok(placed.is_some())
    }

    /// The last offset of a logical block that holds something at or behind `from`.
    pub(crate) fn last_mapped<N: Nand>(&self, flash: &Flash<N>, logical: u32, from: u32) -> Option<u32> {
        let is_mapped = |&offset: &u32| self.lookup_at(flash, logical, offset).is_some();
        (from..self.layout.block_pages).rev().find(is_mapped)
    }

    /// Full merge: the newest pages of a logical block, from its data block and the whole log, in order into
    /// a fresh block, which becomes its data block. The old one is erased; log blocks lose the pages but
    /// stay.
    pub(crate) fn full_merge<N: Nand>(&mut self, flash: &mut Flash<N>, logical: u32) -> Result<(), Fault> {
        self.secure_trims(flash)?;
        let old = self.data_block(logical);
        if let Some(last) = self.last_mapped(flash, logical, 0) {
            let block = self.gather(flash, logical, last)?;
            for index in 0..self.staged.len() {
                let (lpn, ppn) = self.staged[index];
                self.record(flash, lpn, ppn, false);
            }
            self.roles[block as usize] = Role::Data(logical);
            self.data[logical as usize] = block;
        }
        flash.counters.count(&MERGES[Merge::Full as usize], 1);
        match old {
            Some(old) => self.release(flash, old, Cause::Merge).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Copies the pages `0..=last` of a logical block into a fresh block; the copies are in `staged`, not
    /// mapped yet. A block in which a program fails is given up, which costs nothing but time: the
    /// originals are still there.
    fn gather<N: Nand>(&mut self, flash: &mut Flash<N>, logical: u32, last: u32) -> Result<u32, Fault> {
        'again: loop {
            let block = self.pool.open(flash, false)?;
            self.staged.clear();
            for offset in 0..=last {
                match self.copy(flash, logical, offset, block, Done::READY)? {
                    Copied::Page(lpn, ppn) => self.staged.push((lpn, ppn)),
                    Copied::Filler => {}
                    Copied::Failed => {
                        self.release(flash, block, Cause::Merge)?;
                        continue 'again;
                    }
                }
            }
            return Ok(block);
        }
    }

    /// Programs pending trims ahead of a merge when room is short: the erase at its end needs them on flash,
    /// and must not fail for want of a block once the merge is made.
    pub(crate) fn secure_trims<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<(), Fault> {
        if self.pool.free_blocks() <= LEAST_FREE {
            self.write_pending(flash)
        } else {
            Ok(())
        }
    }

    /// Copies the newest pages of a logical block into the log block `block`, which holds its pages in place,
    /// up to but not including `offset`. `false` when a program failed.
    pub(crate) fn copy_up_to<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        logical: u32,
        block: u32,
        offset: u32,
    ) -> Result<bool, Fault> {
        while self.pool.next(block) < offset {
            match self.copy(flash, logical, self.pool.next(block), block, Done::READY)? {
                Copied::Page(lpn, ppn) => self.record(flash, lpn, ppn, true),
                Copied::Filler => {}
                Copied::Failed => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The log block `block`, which holds pages of a logical block in place, becomes its data block, in which
    /// nothing else may be valid any more. The old one is erased.
    pub(crate) fn switch<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        logical: u32,
        block: u32,
    ) -> Result<(), Fault> {
        for position in 0..self.layout.block_pages {
            if let Some(lpn) = self.log_lpn(flash, block, position) {
                debug_assert!(self.place(lpn) == (logical, position));
                let slot = self.slot(lpn);
                self.log[slot] = NONE;
            }
        }
        self.log_count -= 1;
        self.roles[block as usize] = Role::Data(logical);
        let old = std::mem::replace(&mut self.data[logical as usize], block);
        if old != NONE {
            self.release(flash, old, Cause::Merge)?;
        }
        Ok(())
    }

    /// Merges a log block that holds pages of one logical block alone, in any order, with its data block.
    pub(crate) fn merge_pair<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        logical: u32,
        block: u32,
    ) -> Result<Merge, Fault> {
        self.secure_trims(flash)?;
        let next = self.pool.next(block);
        let first = logical * self.layout.block_pages;
        let in_order = |position| self.log_lpn(flash, block, position) == Some(Lpn(first + position));
        if (0..next).all(in_order) {
            let end = self.last_mapped(flash, logical, next).map_or(next, |last| last + 1);
            if self.copy_up_to(flash, logical, block, end)? {
                let kind = if end > next { Merge::Partial } else { Merge::Switch };
                flash.counters.count(&MERGES[kind as usize], 1);
                collected(flash);
                self.switch(flash, logical, block)?;
                return Ok(kind);
            }
        }
        self.full_merge(flash, logical)?;
        collected(flash);
        self.release(flash, block, Cause::Merge)?;
        Ok(Merge::Full)
    }

    /// The logical block that all valid pages of a log block belong to; `None` when there are several, or no
    /// page.
    pub(crate) fn logical_of_log<N: Nand>(&self, flash: &Flash<N>, block: u32) -> Option<u32> {
        let lpns = (0..self.layout.block_pages).filter_map(|at| self.log_lpn(flash, block, at));
        let mut logicals = lpns.map(|lpn| self.place(lpn).0);
        let first = logicals.next()?;
        logicals.all(|logical| logical == first).then_some(first)
    }

    /// Moves a valid page of a log block, which is known to be where it is `after` that, to the log block
    /// `to`. `false` when that one is full.
    pub(crate) fn move_in_log<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        to: u32,
        after: Done,
    ) -> Result<bool, Fault> {
        let Some(from) = self.log_page(lpn) else { panic!("LPN {} is not in the log", lpn.0) };
        if self.pool.next(to) == self.layout.block_pages {
            return Ok(false);
        }
        let (kind, cause) = (PageKind::Data, Cause::Merge);
        let (oob, read) = flash.read_to_move(from, cause, after)?;
        let content = Content::of(oob);
        let source = content.source(Source::Page(from));
        let placed = self.pool.append(flash, to, kind, lpn.0, content, source, cause, read)?;
        if let Some((ppn, _)) = placed {
            flash.counters.moved_data += 1;
            self.record(flash, lpn, ppn, true);
        }
        Ok(placed.is_some())
    }
}
