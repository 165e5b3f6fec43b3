//! A pool of blocks for schemes that keep many of them open at once and write them in logical order.
//!
//! A **block** here is the logical superblock of the log-block papers: one NAND block on each parallel unit,
//! its pages striped over them, so that a merge uses all dies. On a single chip it is one NAND block, as in
//! the papers. Which NAND blocks belong together is decided anew at each opening: a bad one costs one NAND
//! block, never a whole row, and every block has all its pages. When a unit runs short of free NAND blocks
//! another unit lends one.
//!
//! A pool of **narrow** blocks has one NAND block in each, on the unit that is asked for at its opening.
//!
//! Pages of a block are programmed in order. The OOB epoch of a page is `opening * units + position`, so that
//! one readable page of a NAND block tells recovery which block it belonged to and where it stood.

use crate::breach::Breach;
use crate::counters::Cause;
use crate::flash::{Content, Flash};
use crate::list::{linked, Links, List};
use crate::log_block::load::{self, Load};
use nand::{Divisor, Done, Fault, Geometry, Nand, Oob, PageKind, Pbn, Ppn, Source};
use prefetch_index::prefetch_index;
use std::cmp::Reverse;
use std::collections::VecDeque;

pub(crate) use crate::list::NONE;

#[derive(Clone, Copy, Debug)]
struct Block {
    used: bool,
    opening: u32,
    /// The next page to program; `block_pages` when no more are to be.
    next: u32,
    /// What programs of the first row wait for.
    gate: Done,
    /// The program of its last page, of a block that is one NAND block.
    last: Done,
    /// The programs of what superseded its pages, of a block that is one NAND block.
    superseded: Done,
    links: Links,
}

linked!(Block);

const UNUSED: Block = Block {
    used: false,
    opening: 0,
    next: 0,
    gate: Done::READY,
    last: Done::READY,
    superseded: Done::READY,
    links: Links::NONE,
};

/// Free NAND blocks of a unit, each with the completion of its erase and when it was freed.
type Line = VecDeque<(Pbn, Done, u64)>;

/// Blocks in use and NAND blocks that are free, in the controller's memory.
#[derive(Clone, Debug)]
pub struct Pool {
    geometry: Geometry,
    units: u32,
    /// The same, to find the NAND block at a position.
    turns: Divisor,
    /// From a page of a NAND block to the next one.
    stride: u32,
    /// The same, and pages of a NAND block, to find the place of a page.
    lines: Divisor,
    rows: Divisor,
    block_pages: u32,
    blocks: Vec<Block>,
    /// By block: pages that hold the newest content of their LPN.
    valid: Vec<u32>,
    /// The page at position 0, of blocks that are one NAND block. Apart, as most lookups ask for it alone.
    firsts: Vec<u32>,
    /// Blocks in use, the one opened first at the head.
    order: List,
    /// NAND blocks by block and position; `NONE` where a power cut left none.
    members: Vec<u32>,
    /// By PBN: block and position, `NONE` when free or bad.
    owner: Vec<(u32, u32)>,
    unused: Vec<u32>,
    /// By unit.
    free: Vec<Line>,
    /// NAND blocks that were freed so far.
    freed: u64,
    free_count: u32,
    /// NAND blocks that are not bad.
    good: u32,
    openings: u32,
    /// Pages that were programmed.
    programmed: u64,
    suspect: Vec<bool>,
    /// NAND blocks of erased blocks that are erased when there are so many, each with what it waits for. One
    /// that is erased keeps its die busy for long, and requests that want all dies wait less often when dies
    /// are busy together.
    pending: VecDeque<(Pbn, Cause, Done)>,
    together: u32,
    /// By unit, while that is done.
    is_erased: Vec<bool>,
    /// Pages that were programmed when that was done last.
    erased_at: u64,
    /// Blocks that must be erased, in time, before the host begins another.
    reserve: u32,
    /// Work that units wait for, where blocks are one NAND block each.
    pub(crate) load: Load,
    /// By PBN: erases since the pool was made, for levelling of wear; empty without it.
    erases: Vec<u32>,
}

impl Pool {
    /// Every good NAND block free. `narrow`: a block is one NAND block, not one on each unit.
    pub fn new<N: Nand>(nand: &N, narrow: bool) -> Pool {
        let geometry = nand.geometry().clone();
        let (lines, nand_blocks) = (geometry.units(), geometry.blocks());
        let units = if narrow { 1 } else { lines };
        // Members that a power cut took away make blocks smaller, so that there can be more of them.
        let ids = nand_blocks;
        let mut pool = Pool {
            units,
            turns: Divisor::new(units),
            stride: lines,
            lines: Divisor::new(lines),
            rows: Divisor::new(geometry.pages_per_block),
            block_pages: units * geometry.pages_per_block,
            blocks: vec![UNUSED; ids as usize],
            valid: vec![0; ids as usize],
            firsts: vec![NONE; ids as usize],
            order: List::EMPTY,
            members: vec![NONE; ids as usize * units as usize],
            owner: vec![(NONE, 0); nand_blocks as usize],
            unused: (0..ids).rev().collect(),
            free: (0..lines).map(|_| VecDeque::with_capacity(geometry.blocks_per_plane as usize)).collect(),
            freed: 0,
            free_count: 0,
            good: 0,
            openings: 0,
            programmed: 0,
            suspect: vec![false; nand_blocks as usize],
            pending: VecDeque::with_capacity(nand_blocks as usize),
            is_erased: vec![false; lines as usize],
            together: 1,
            erased_at: 0,
            reserve: 0,
            load: Load::new(if narrow { lines } else { 0 }),
            erases: Vec::new(),
            geometry,
        };
        for block in (0..nand_blocks).map(Pbn).filter(|&block| !nand.is_bad(block)) {
            pool.good += 1;
            pool.put(block, Done::READY);
        }
        pool
    }

    fn put(&mut self, block: Pbn, erased: Done) {
        self.free[self.geometry.unit_of(block) as usize].push_back((block, erased, self.freed));
        self.freed += 1;
        self.free_count += 1;
    }

    /// Sets how many blocks must be erased, in time, before the first row of a block that the host begins:
    /// else host writes could fill what merges have freed in name before their copies are made, and a
    /// power cut would leave recovery without room.
    pub(crate) fn keep_reserve(&mut self, blocks: u32) {
        self.reserve = blocks;
    }

    /// Erases so many NAND blocks together from now on, while there are free ones.
    pub(crate) fn erase_together(&mut self, blocks: u32) {
        self.together = blocks.max(1);
    }

    /// Counts erases from now on, and lets blocks begin on each parallel unit by turns: the last NAND blocks
    /// of a block that is not written to its end need no erase, and would else be the same ones each time.
    pub(crate) fn level_wear(&mut self) {
        self.erases = vec![0; self.geometry.blocks() as usize];
    }

    /// A page is read: work for its parallel unit.
    #[inline]
    pub(super) fn reads(&mut self, ppn: Ppn) {
        self.load.add(self.lines.divide(ppn.0).1, load::READ);
    }

    /// How many pages a NAND block has.
    #[inline]
    pub fn block_pages(&self) -> u32 {
        self.block_pages
    }

    /// NAND blocks of a block.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Blocks that can be opened.
    #[inline]
    pub fn free_blocks(&self) -> u32 {
        (self.free_count + self.pending.len() as u32) / self.units
    }

    /// Superblocks that the free NAND blocks would make.
    pub(crate) fn free_superblocks(&self) -> u32 {
        self.free_count / self.stride
    }

    /// Blocks that all good NAND blocks make.
    #[inline]
    pub fn total_blocks(&self) -> u32 {
        self.good / self.units
    }

    /// Block numbers run below this.
    pub fn numbers(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Whether a block is open or full, not free.
    pub fn is_used(&self, block: u32) -> bool {
        self.blocks[block as usize].used
    }

    /// Number of the block's opening: greater for blocks opened later.
    pub fn opening(&self, block: u32) -> u32 {
        self.blocks[block as usize].opening
    }

    /// Number of the latest opening.
    pub fn openings(&self) -> u32 {
        self.openings
    }

    /// Blocks in use, the one opened first before the others.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = u32> + use<'_> {
        self.order.iter(&self.blocks)
    }

    /// Pages programmed since the pool was made.
    pub(crate) fn programmed(&self) -> u64 {
        self.programmed
    }

    /// The next page to program, `block_pages` when there is none.
    #[inline]
    pub fn next(&self, block: u32) -> u32 {
        self.blocks[block as usize].next
    }

    /// Pages of a block that hold the newest content of their LPN.
    #[inline]
    pub fn valid(&self, block: u32) -> u32 {
        self.valid[block as usize]
    }

    /// The page at `position` of a block, which must have that member.
    #[inline]
    pub fn page(&self, block: u32, position: u32) -> Ppn {
        if self.units == 1 {
            return Ppn(self.firsts[block as usize] + position * self.stride);
        }
        let (row, turn) = self.turns.divide(position);
        let member = self.members[(block * self.units + turn) as usize];
        self.geometry.page_in(Pbn(member), row)
    }

    /// The NAND block that a position of a block is in; [`NONE`] where a power cut left none.
    #[inline]
    fn member_at(&self, block: u32, position: u32) -> u32 {
        self.members[(block * self.units + self.turns.divide(position).1) as usize]
    }

    /// From a page of a NAND block to the next one.
    #[inline]
    pub(crate) fn stride(&self) -> usize {
        self.stride as usize
    }

    /// The parallel unit of a block that is one NAND block.
    #[inline]
    pub(crate) fn unit_of(&self, block: u32) -> u32 {
        self.lines.divide(self.members[(block * self.units) as usize]).1
    }

    /// As [`Pool::page`]; `None` where a power cut left no member.
    #[inline]
    pub(crate) fn page_if_there(&self, block: u32, position: u32) -> Option<Ppn> {
        let is_there = match self.units {
            1 => self.firsts[block as usize] != NONE,
            _ => self.member_at(block, position) != NONE,
        };
        is_there.then(|| self.page(block, position))
    }

    /// The block that a page in use belongs to, and its position there.
    #[inline]
    pub fn place_of(&self, ppn: Ppn) -> (u32, u32) {
        let (line, unit) = self.lines.divide(ppn.0);
        let (superblock, row) = self.rows.divide(line);
        let (block, position) = self.owner[(superblock * self.stride + unit) as usize];
        debug_assert!(block != NONE);
        (block, row * self.units + position)
    }

    /// Records that a page in use is the newest of what it holds.
    #[inline]
    pub(crate) fn validate<N: Nand>(&mut self, flash: &mut Flash<N>, ppn: Ppn) {
        self.validate_in(flash, self.place_of(ppn).0, ppn);
    }

    /// The same of a page that is known to be in a block.
    #[inline]
    pub(crate) fn validate_in<N: Nand>(&mut self, flash: &mut Flash<N>, block: u32, ppn: Ppn) {
        flash.space.validate_found(ppn);
        self.valid[block as usize] += 1;
    }

    /// Records that a page of a block is not needed any more: the last page of the block `by` has superseded
    /// it, or one before that; [`NONE`]: it was trimmed.
    #[inline]
    pub(crate) fn invalidate_in<N: Nand>(&mut self, flash: &mut Flash<N>, block: u32, ppn: Ppn, by: u32) {
        flash.space.invalidate(ppn);
        self.valid[block as usize] -= 1;
        self.supersede(flash, block, by);
    }

    /// The last page of the block `by`, or one before that, has superseded a page of a block; [`NONE`]: none
    /// has.
    #[inline]
    pub(crate) fn supersede<N: Nand>(&mut self, flash: &mut Flash<N>, block: u32, by: u32) {
        if self.units == 1 && by != NONE {
            let last = self.blocks[by as usize].last;
            let it = &mut self.blocks[block as usize];
            it.superseded = flash.join(it.superseded, last);
        }
    }

    /// So many pages of a block that is one NAND block were marked valid, or not
    /// ([`Space::mark`](crate::space::Space::mark)).
    pub(crate) fn count_marked<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        block: u32,
        pages: u32,
        are_valid: bool,
    ) {
        assert!(self.units == 1);
        flash.space.count_marked(self.page(block, 0), pages, are_valid);
        let valid = &mut self.valid[block as usize];
        *valid = if are_valid { *valid + pages } else { *valid - pages };
    }

    /// Lets the processor fetch what is known of a block.
    #[inline]
    pub(crate) fn expect(&self, block: u32) {
        prefetch_index(&self.blocks, block as usize);
    }

    /// When whatever superseded the pages of a block is on flash, as far as that is known: of a block that is
    /// one NAND block, whose pages are programmed in order.
    pub(crate) fn superseded(&self, block: u32) -> Option<Done> {
        (self.units == 1).then(|| self.blocks[block as usize].superseded)
    }

    /// Opens a block. `host`: it will take what the host writes, and so keeps the reserve in time.
    ///
    /// # Errors
    /// None is free: so many NAND blocks have failed that the reserve could not be kept.
    pub(crate) fn open<N: Nand>(&mut self, flash: &mut Flash<N>, host: bool) -> Result<u32, Fault> {
        let from = if self.units == 1 { self.longest_free(|_| true).unwrap_or(0) } else { 0 };
        self.open_on(flash, host, from)
    }

    /// Of the units that suit, the one whose next NAND block was freed first, before others if it keeps
    /// another one.
    pub(crate) fn longest_free(&self, suits: impl Fn(u32) -> bool) -> Option<u32> {
        let fronts =
            (0..).zip(&self.free).filter_map(|(unit, line)| Some((unit, line.len(), line.front()?.2)));
        let suiting = fronts.filter(|&(unit, ..)| suits(unit));
        suiting.min_by_key(|&(_, len, freed)| (len < 2, freed)).map(|(unit, ..)| unit)
    }

    /// As [`Pool::open`], with the block's first page on a parallel unit if that has a free NAND block.
    pub(crate) fn open_on<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        host: bool,
        from: u32,
    ) -> Result<u32, Fault> {
        self.open_any(flash, host, from, |_, _| 0)
    }

    /// As [`Pool::open_on`], of the free NAND blocks that were erased most often: for what lies long.
    pub(crate) fn open_worn<N: Nand>(&mut self, flash: &mut Flash<N>, from: u32) -> Result<u32, Fault> {
        self.open_any(flash, false, from, |line, erases| {
            let worn = |&at: &usize| (erases[line[at].0 .0 as usize], Reverse(at));
            (0..line.len()).max_by_key(worn).unwrap_or(0)
        })
    }

    /// As [`Pool::open_on`]; `choose` says which of the free NAND blocks of a unit, by their erases.
    fn open_any<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        host: bool,
        from: u32,
        choose: impl Fn(&Line, &[u32]) -> usize,
    ) -> Result<u32, Fault> {
        if self.units == 1 && self.free[from as usize].is_empty() {
            self.erase_pending(flash)?;
        }
        // Recovery takes pages in a block that was emptied for valid again, so one that is not erased yet is
        // no reserve. A block may turn out to be bad when it is erased; then others are there to be erased.
        while self.free_count < (1 + self.reserve) * self.units && !self.pending.is_empty() {
            self.erase_pending(flash)?;
        }
        if self.free_count < self.units {
            return Err(flash.no_room(self.free_blocks(), 1));
        }
        let Some(number) = self.unused.pop() else { panic!("more blocks than NAND blocks") };
        self.openings += 1;
        assert!(self.openings < NONE / self.units, "more openings of blocks than an epoch can count");
        let lines = self.free.len() as u32;
        let turns = self.units > 1 && !self.erases.is_empty();
        let from = if turns { self.openings % lines } else { from };
        for position in 0..self.units {
            let own = (from + position) % lines;
            let unit = if self.free[own as usize].is_empty() {
                (0..lines).max_by_key(|&unit| (self.free[unit as usize].len(), lines - unit))
            } else {
                Some(own)
            };
            let line = unit.map(|unit| &mut self.free[unit as usize]);
            let taken = line.and_then(|line| line.remove(choose(line, &self.erases)));
            let Some((member, ..)) = taken else { panic!("a free NAND block was counted but is not there") };
            debug_assert!(flash.nand().written(member) == 0 && !flash.nand().is_bad(member));
            self.free_count -= 1;
            self.members[(number * self.units + position) as usize] = member.0;
            self.owner[member.0 as usize] = (number, position);
        }
        let gate = if host { self.gate(flash) } else { Done::READY };
        flash.space.lent(self.free_superblocks());
        let first = self.geometry.page_in(Pbn(self.members[(number * self.units) as usize]), 0);
        self.firsts[number as usize] = first.0;
        self.blocks[number as usize] = Block { used: true, opening: self.openings, gate, ..UNUSED };
        self.order.push_back(&mut self.blocks, number);
        Ok(number)
    }

    /// When as many blocks are erased as are to be kept free.
    fn gate<N: Nand>(&self, flash: &mut Flash<N>) -> Done {
        let mut gate = Done::READY;
        let (in_each, mut left) = match self.units {
            1 => (1, self.reserve),
            units => (self.reserve as usize, self.reserve * units),
        };
        for line in &self.free {
            for &(_, erased, _) in line.iter().take(in_each.min(left as usize)) {
                gate = flash.join(gate, erased);
                left -= 1;
            }
        }
        gate
    }

    /// Programs no further page of a block.
    pub(crate) fn close(&mut self, block: u32) {
        self.blocks[block as usize].next = self.block_pages;
    }

    /// Programs the next page of a block. `None` when that failed: the block is closed then, because what
    /// follows would not stand at its place.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn place<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        block: u32,
        kind: PageKind,
        id: u32,
        content: Content,
        from: Source<'_>,
        cause: Cause,
        after: Done,
    ) -> Result<Option<(Ppn, Done)>, Fault> {
        let position = self.next(block);
        assert!(position < self.block_pages, "block {block} is full");
        let ppn = self.page(block, position);
        let Block { opening, gate, .. } = self.blocks[block as usize];
        let after = if position < self.units { flash.join(after, gate) } else { after };
        let epoch = opening * self.units + self.turns.divide(position).1;
        let oob = Oob { kind, id, version: content.version, epoch, lost: content.lost };
        self.programmed += 1;
        let unit = self.unit_of(block);
        self.load.add(unit, load::PROGRAM);
        match flash.program_page(ppn, oob, from, cause, after) {
            Ok(done) => {
                let it = &mut self.blocks[block as usize];
                (it.next, it.last) = (position + 1, done);
                Ok(Some((ppn, done)))
            }
            Err(Fault::ProgramFailed { .. }) => {
                let (member, _) = self.geometry.block_of(ppn);
                self.suspect[member.0 as usize] = true;
                self.close(block);
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Programs a page of a block wherever there is room, past programs that fail; `None` when the block is
    /// full.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn append<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        block: u32,
        kind: PageKind,
        id: u32,
        content: Content,
        from: Source<'_>,
        cause: Cause,
        after: Done,
    ) -> Result<Option<(Ppn, Done)>, Fault> {
        loop {
            let position = self.next(block);
            if position == self.block_pages {
                return Ok(None);
            }
            if self.suspect[self.member_at(block, position) as usize] {
                self.blocks[block as usize].next += 1;
                continue;
            }
            if let Some(placed) = self.place(flash, block, kind, id, content, from, cause, after)? {
                return Ok(Some(placed));
            }
            self.blocks[block as usize].next = position + 1;
        }
    }

    /// Erases an emptied block and frees it, `after` the copies made out of it, and whatever superseded its
    /// pages, are on flash. NAND blocks that fail, or in which a program failed, are retired.
    pub(crate) fn erase<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        block: u32,
        cause: Cause,
        after: Done,
    ) -> Result<Done, Fault> {
        let it = self.blocks[block as usize];
        let valid = self.valid(block);
        assert!(it.used && valid == 0, "block {block} erased with {valid} valid pages");
        let mut done = after;
        for position in 0..self.units {
            let slot = (block * self.units + position) as usize;
            let member = Pbn(std::mem::replace(&mut self.members[slot], NONE));
            if member.0 == NONE {
                continue;
            }
            self.owner[member.0 as usize] = (NONE, 0);
            if self.together > 1 {
                self.pending.push_back((member, cause, after));
            } else {
                done = self.free_member(flash, member, after, done, cause)?;
            }
        }
        self.order.unlink(&mut self.blocks, block);
        self.blocks[block as usize] = UNUSED;
        self.firsts[block as usize] = NONE;
        self.unused.push(block);
        let pause = u64::from(self.together * self.block_pages / 2);
        if self.pending.len() as u32 >= self.together && self.programmed >= self.erased_at + pause {
            done = self.erase_pending(flash)?;
        }
        flash.space.lent(self.free_superblocks());
        Ok(done)
    }

    /// Erases what is to be erased together, one NAND block on each parallel unit.
    fn erase_pending<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault> {
        self.erased_at = self.programmed;
        let mut done = Done::READY;
        self.is_erased.fill(false);
        for _ in 0..self.pending.len() {
            let Some((member, cause, after)) = self.pending.pop_front() else { break };
            let unit = self.geometry.unit_of(member) as usize;
            if std::mem::replace(&mut self.is_erased[unit], true) {
                self.pending.push_back((member, cause, after));
            } else {
                done = self.free_member(flash, member, after, done, cause)?;
            }
        }
        Ok(done)
    }

    fn free_member<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        member: Pbn,
        after: Done,
        done: Done,
        cause: Cause,
    ) -> Result<Done, Fault> {
        if flash.nand().is_bad(member) {
            return Ok(done);
        }
        if std::mem::take(&mut self.suspect[member.0 as usize]) {
            flash.retire_block(member);
            self.good -= 1;
            return Ok(done);
        }
        if flash.nand().written(member) == 0 {
            self.put(member, Done::READY);
            return Ok(done);
        }
        if let Some(erases) = self.erases.get_mut(member.0 as usize) {
            *erases += 1;
        }
        self.load.add(self.geometry.unit_of(member), load::ERASE);
        match flash.erase_block(member, cause, after) {
            Ok(erased) => {
                self.put(member, erased);
                Ok(flash.join(done, erased))
            }
            Err(Fault::EraseFailed { done: failed, .. }) => {
                flash.retire_block(member);
                self.good -= 1;
                Ok(flash.join(done, failed))
            }
            Err(fault) => Err(fault),
        }
    }

    /// Checks that every good NAND block is free or in one block; one sentence for the first breach.
    pub fn check<N: Nand>(&self, flash: &Flash<N>) -> Result<(), Breach> {
        let mut seen = vec![0u8; self.owner.len()];
        for &(member, ..) in self.free.iter().flatten() {
            seen[member.0 as usize] += 1;
            if flash.nand().written(member) != 0 || flash.nand().is_bad(member) {
                return Err(format!("NAND block {} is free but written or bad", member.0).into());
            }
        }
        for &(member, ..) in &self.pending {
            seen[member.0 as usize] += 1;
        }
        for block in (0..self.numbers()).filter(|&block| self.is_used(block)) {
            let mut valid = 0;
            for position in 0..self.units {
                let member = self.members[(block * self.units + position) as usize];
                if member == NONE {
                    continue;
                }
                seen[member as usize] += 1;
                if self.owner[member as usize] != (block, position) {
                    return Err(
                        format!("NAND block {member} does not know that it is in block {block}").into()
                    );
                }
                let rows = 0..self.geometry.pages_per_block;
                valid += rows
                    .filter(|&row| flash.space.is_valid(self.geometry.page_in(Pbn(member), row)))
                    .count() as u32;
            }
            if valid != self.valid(block) {
                return Err(format!(
                    "block {block} counts {} valid pages but has {valid}",
                    self.valid(block)
                )
                .into());
            }
        }
        let lost = (0..).zip(&seen).find(|&(member, &times)| {
            let once = !flash.nand().is_bad(Pbn(member));
            times > 1 || (once && times != 1)
        });
        match lost {
            Some((member, times)) => {
                Err(format!("NAND block {member} is free or in use {times} times").into())
            }
            None => Ok(()),
        }
    }
}

/// For recovery.
impl Pool {
    /// Takes a NAND block out of the free ones into block `number`, at `position`.
    pub(crate) fn adopt<N: Nand>(
        &mut self,
        flash: &Flash<N>,
        number: Option<u32>,
        opening: u32,
        position: u32,
        member: Pbn,
    ) -> u32 {
        if !flash.nand().is_bad(member) {
            self.take(member);
        }
        let number = number.unwrap_or_else(|| {
            let Some(number) = self.unused.pop() else { panic!("more blocks than NAND blocks") };
            self.firsts[number as usize] = self.geometry.page_in(member, 0).0;
            self.blocks[number as usize] = Block { used: true, opening, next: self.block_pages, ..UNUSED };
            self.order.push_back(&mut self.blocks, number);
            self.openings = self.openings.max(opening);
            number
        });
        let slot = (number * self.units + position) as usize;
        assert!(self.members[slot] == NONE, "two NAND blocks say they stand at the same place");
        self.members[slot] = member.0;
        self.owner[member.0 as usize] = (number, position);
        number
    }

    fn take(&mut self, member: Pbn) {
        let line = &mut self.free[self.geometry.unit_of(member) as usize];
        let before = line.len();
        line.retain(|&(free, ..)| free != member);
        assert!(line.len() + 1 == before, "NAND block {} is not free", member.0);
        self.free_count -= 1;
    }

    /// Erases a NAND block of which nothing is needed, and which belongs to no block.
    pub(crate) fn clear<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        member: Pbn,
        cause: Cause,
        after: Done,
    ) -> Result<Done, Fault> {
        self.take(member);
        self.free_member(flash, member, after, after, cause)
    }

    /// Whether some NAND blocks of a block are gone though it was written past its first row: it was being
    /// erased.
    pub(crate) fn is_damaged<N: Nand>(&self, flash: &Flash<N>, block: u32) -> bool {
        let members = &self.members[(block * self.units) as usize..][..self.units as usize];
        let rows = members.iter().filter(|&&m| m != NONE).map(|&m| flash.nand().written(Pbn(m))).max();
        members.contains(&NONE) && rows.is_some_and(|rows| rows > 1)
    }

    /// Lets a block be written further when its pages were programmed in order and nothing is missing; else
    /// closes it.
    pub(crate) fn reopen<N: Nand>(&mut self, flash: &Flash<N>, block: u32) {
        let members = &self.members[(block * self.units) as usize..][..self.units as usize];
        let whole = members.iter().all(|&m| m != NONE && !flash.nand().is_bad(Pbn(m)));
        let mut next = self.block_pages;
        if whole {
            let written = |position: u32| flash.nand().written(Pbn(members[position as usize]));
            let sum: u32 = (0..self.units).map(written).sum();
            let in_order = |position: u32| sum / self.units + u32::from(position < sum % self.units);
            if (0..self.units).all(|position| written(position) == in_order(position)) {
                next = sum;
            }
        }
        self.blocks[block as usize].next = next;
    }

    /// Begins with other free NAND blocks than at the last start, if wear is levelled: a device that is
    /// switched off before all were used would else use the first ones alone.
    pub(crate) fn vary_turns(&mut self) {
        let turns = self.openings / (self.stride / self.units);
        for line in self.free.iter_mut().filter(|line| !line.is_empty() && !self.erases.is_empty()) {
            line.rotate_left(turns as usize % line.len());
        }
    }

    /// Counts openings on after those that a checkpoint knew.
    pub(crate) fn resume_openings(&mut self, openings: u32) {
        self.openings = self.openings.max(openings);
    }

    /// Whether a NAND block belongs to a block in use.
    pub(crate) fn is_in_block(&self, member: Pbn) -> bool {
        self.owner[member.0 as usize].0 != NONE
    }

    /// The shape of the array.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }
}
