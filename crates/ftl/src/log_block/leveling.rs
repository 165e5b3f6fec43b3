//! Static wear levelling: what a data block holds that has lain for long is copied to a free block, so that
//! its NAND blocks are used again.
//!
//! Free NAND blocks are used in turn, so wear differs only by how long data lies: a block lags behind the
//! others by as many erases as they had, in the mean, since it was opened. The number of its opening tells
//! that. It is in the OOB of its pages, so a power cut forgets nothing, and no erase is counted.
//!
//! The copy is made beside the host's writes, page by page, and mapped when it is whole. It takes the valid
//! pages of the data block alone: what the log holds of the logical block stays there, so no policy need know
//! of it. A page that the host supersedes meanwhile is not valid in the data block any more, and is left out
//! at the end. When a merge has replaced the data block meanwhile, the copy is given up. Recovery finds what
//! it finds of a full merge: the older of two equal copies, unless it was being erased.

use super::{Core, Role, RESERVE};
use crate::counters::Cause;
use crate::flash::Flash;
use crate::list::NONE;
use nand::{Done, Fault, Nand};

/// Of the pages that are to be copied by now, so many host pages take one each: a merge that programs many at
/// once does not stop the next write for as many copies.
const SPREAD: u64 = 16;

/// When data blocks are moved, and the move under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leveling {
    /// Openings of blocks after which what one holds is moved; 0: never.
    lag: u32,
    /// The oldest data block is looked for when openings reach this.
    next_look: u32,
    /// The data block that is copied, and the number of its opening; [`NONE`]: there is no move.
    source: u32,
    opening: u32,
    logical: u32,
    /// Where to; [`NONE`] until one is opened, and again when a program failed.
    copy: u32,
    /// Pages that others have programmed since the move began, and that no page was copied for yet.
    credit: u64,
    /// Pages programmed when that was counted last.
    programmed: u64,
}

impl Leveling {
    /// Moves what lags `gap` erases behind, on a device of so many blocks; 0: nothing.
    pub(super) fn new(gap: u32, blocks: u32) -> Leveling {
        Leveling {
            lag: gap.saturating_mul(blocks),
            next_look: 0,
            source: NONE,
            opening: 0,
            logical: 0,
            copy: NONE,
            credit: 0,
            programmed: 0,
        }
    }

    /// Whether anything is ever moved.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.lag > 0
    }

    /// Pages to copy now: as many as others have programmed. In the mean a move for each opening of a block
    /// is enough for any gap, however much a policy writes for a page of the host.
    fn steps(&mut self, programmed: u64, block_pages: u32) -> u64 {
        self.credit += programmed - self.programmed;
        let steps = self.credit.div_ceil(SPREAD).min(u64::from(block_pages));
        self.credit -= steps;
        steps
    }
}

impl Core {
    /// Goes on with the move under way, or begins one if that is due, beside a page that the host writes.
    /// `is_merging`: whether the policy has a merge of a logical block under way.
    pub(super) fn level_wear<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        leveling: &mut Leveling,
        is_merging: impl Fn(u32) -> bool,
    ) -> Result<(), Fault> {
        if leveling.source == NONE && !self.begin_move(flash, leveling, is_merging)? {
            return Ok(());
        }
        for _ in 0..leveling.steps(self.pool.programmed(), self.layout.block_pages) {
            if self.step_move(flash, leveling)? {
                break;
            }
        }
        leveling.programmed = self.pool.programmed();
        Ok(())
    }

    /// Chooses the data block that was opened first, if it lags too far behind. `false`: there is none, or
    /// no room. Then what is short of blocks goes first.
    fn begin_move<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        leveling: &mut Leveling,
        is_merging: impl Fn(u32) -> bool,
    ) -> Result<bool, Fault> {
        let now = self.pool.openings();
        if now < leveling.next_look || self.pool.free_blocks() <= RESERVE {
            return Ok(false);
        }
        let logical_of = |block: u32| match self.roles[block as usize] {
            Role::Data(logical) if !is_merging(logical) => Some((block, logical)),
            _ => None,
        };
        let oldest = self.pool.in_order().find_map(logical_of);
        let due = oldest.map_or(now, |(block, _)| self.pool.opening(block)).saturating_add(leveling.lag);
        let Some((source, logical)) = oldest.filter(|_| now > due) else {
            leveling.next_look = due.saturating_add(1);
            return Ok(false);
        };
        if self.pool.valid(source) == 0 {
            return self.release(flash, source, Cause::Rewrite).map(|_| false);
        }
        let opening = self.pool.opening(source);
        *leveling = Leveling {
            source,
            opening,
            logical,
            copy: NONE,
            credit: 1,
            programmed: self.pool.programmed(),
            ..*leveling
        };
        Ok(true)
    }

    /// Copies one page, or ends the move when all are copied. `true`: there is no move any more.
    fn step_move<N: Nand>(&mut self, flash: &mut Flash<N>, leveling: &mut Leveling) -> Result<bool, Fault> {
        let Leveling { source, opening, logical, .. } = *leveling;
        let is_there =
            self.roles[source as usize] == Role::Data(logical) && self.pool.opening(source) == opening;
        let last = if is_there { self.last_valid(flash, source) } else { None };
        let Some(last) = last.filter(|_| self.pool.free_blocks() >= RESERVE) else {
            return self.give_up_move(flash, leveling).map(|()| true);
        };
        if leveling.copy == NONE {
            leveling.copy = self.pool.open_worn(flash, self.layout.unit_of(logical))?;
            self.roles[leveling.copy as usize] = Role::Copy;
        }
        let offset = self.pool.next(leveling.copy);
        if offset <= last && !self.copy_in_place(flash, (logical, offset), source, leveling.copy)? {
            let failed = std::mem::replace(&mut leveling.copy, NONE);
            return self.release(flash, failed, Cause::Rewrite).map(|_| false);
        }
        if offset < last {
            return Ok(false);
        }
        self.end_move(flash, leveling).map(|()| true)
    }

    /// The last position of a data block that is valid.
    fn last_valid<N: Nand>(&self, flash: &Flash<N>, block: u32) -> Option<u32> {
        (0..self.layout.block_pages).rev().find(|&position| self.valid_page(flash, block, position).is_some())
    }

    /// Copies the page at an offset of the data block `source` to the same one of `copy`, or a filler where
    /// none is valid. `false` when the program failed.
    fn copy_in_place<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        (logical, offset): (u32, u32),
        source: u32,
        copy: u32,
    ) -> Result<bool, Fault> {
        let page = self.valid_page(flash, source, offset);
        match self.lpn(logical, offset).zip(page) {
            Some((lpn, page)) => {
                Ok(self.copy_page(flash, lpn, page, copy, Cause::Rewrite, Done::READY)?.is_some())
            }
            None => self.place_filler(flash, copy, Cause::Rewrite),
        }
    }

    /// Maps the copies of what is still valid in the data block, and erases that.
    fn end_move<N: Nand>(&mut self, flash: &mut Flash<N>, leveling: &mut Leveling) -> Result<(), Fault> {
        // Else the erase at the end could fail for want of a block once the copies are mapped.
        self.write_pending(flash)?;
        let Leveling { source, logical, copy, .. } = *leveling;
        for position in 0..self.pool.next(copy) {
            if self.valid_page(flash, source, position).is_some() {
                let Some(lpn) = self.lpn(logical, position) else { panic!("a page past the end is valid") };
                let moved = self.pool.page(copy, position);
                self.record(flash, lpn, moved, false);
            }
        }
        self.roles[copy as usize] = Role::Data(logical);
        self.data[logical as usize] = copy;
        (leveling.source, leveling.copy, leveling.next_look) = (NONE, NONE, 0);
        flash.counters.rewrites += 1;
        self.release(flash, source, Cause::Rewrite).map(|_| ())
    }

    /// The data block is another one by now, or blocks are short: the copy is garbage. Where blocks are
    /// short, the next move has time until each block was opened once.
    fn give_up_move<N: Nand>(&mut self, flash: &mut Flash<N>, leveling: &mut Leveling) -> Result<(), Fault> {
        let is_short = self.pool.free_blocks() < RESERVE;
        leveling.next_look = if is_short { self.pool.openings() + self.pool.total_blocks() } else { 0 };
        leveling.source = NONE;
        match std::mem::replace(&mut leveling.copy, NONE) {
            NONE => Ok(()),
            copy => self.release(flash, copy, Cause::Rewrite).map(|_| ()),
        }
    }
}
