//! Superblocks: which are free, where each stream writes next, which pages are valid, and which superblock to
//! collect.
//!
//! A superblock passes through free -> open (one stream writes it) -> closed -> collecting -> free. Closed
//! superblocks stand in buckets by their valid pages, so that the greedy victim is found, and a page
//! invalidated, in constant time.

mod pooled;

use crate::bits;
use crate::breach::Breach;
use crate::list::{linked, Links, List, NONE};
use nand::{Divisor, Done, Geometry, Nand, PageKind, Pbn, Ppn};
use prefetch_index::prefetch_index;
use std::collections::VecDeque;
use std::ops::Range;

/// Where pages of one sort are written, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(pub usize);

impl Stream {
    /// What the host writes.
    pub const HOST: Stream = Stream(0);
    /// Pages with user data that collection copies.
    pub const COLLECTION: Stream = Stream(1);
    /// Translation pages, whoever has them written.
    pub const TRANSLATION: Stream = Stream(2);
    /// Checkpoints and the trim journal.
    pub const METADATA: Stream = Stream(3);
    /// Streams that every page-level FTL has.
    pub const COUNT: usize = 4;

    /// One of the further streams that a scheme may have for host pages, beside [`Stream::HOST`].
    pub fn further(index: usize) -> Stream {
        Stream(Stream::COUNT + index)
    }
}

/// Where a superblock is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Erased, and open to any stream.
    Free,
    /// A stream writes it.
    Open,
    /// Full, or abandoned by its stream.
    Closed,
    /// A victim: collection copies its valid pages and then erases it.
    Collecting,
    /// Every block of it is bad.
    Dead,
}

#[derive(Clone, Debug)]
struct Superblock {
    state: State,
    kind: PageKind,
    valid: u32,
    /// Pages in blocks that are not bad.
    capacity: u32,
    epoch: u32,
    links: Links,
}

linked!(Superblock);

/// Where a stream writes next. It has all units of its superblock, or a *lane*: some neighbouring ones, while
/// other streams write the others.
#[derive(Clone, Copy, Debug)]
struct Frontier {
    superblock: u32,
    cursor: u32,
    /// Where the cursor stands behind the last page: as far behind the superblock's end as the lane's first
    /// unit lies behind the first one.
    end: u32,
    /// Behind the last page of the lane in the cursor's row; the end, where there is no lane.
    row_end: u32,
    /// Units of the lane; 0 for all.
    lane: u32,
    /// Some pages ahead cannot be used (bad blocks, or blocks written further than others before a power
    /// cut).
    ragged: bool,
}

const SHUT: Frontier = Frontier { superblock: NONE, cursor: 0, end: 0, row_end: 0, lane: 0, ragged: false };

impl Frontier {
    /// Takes the page at the cursor, on a device of `units` units.
    #[inline]
    fn take(&mut self, units: u32) -> Ppn {
        let ppn = Ppn(self.cursor);
        self.cursor += 1;
        if self.cursor == self.row_end && self.lane > 0 {
            self.cursor += units - self.lane;
            self.row_end += units;
        }
        ppn
    }

    /// Whether a page from the cursor on belongs to it.
    #[inline]
    fn has(&self, ppn: Ppn, units: u32) -> bool {
        self.lane == 0 || (ppn.0 % units).wrapping_sub(self.end % units) < self.lane
    }

    #[inline]
    fn left(&self, units: u32) -> u32 {
        if self.lane == 0 || self.cursor == self.end {
            return self.end - self.cursor;
        }
        let last_row_end = self.end - units + self.lane;
        (last_row_end - self.row_end) / units * self.lane + self.row_end - self.cursor
    }
}

/// The state of every superblock and page, in the controller's memory.
#[derive(Clone, Debug)]
pub struct Space {
    geometry: Geometry,
    /// Of the geometry, as both are asked for with every page.
    units: u32,
    superblock_pages: Divisor,
    /// One bit a page, indexed by PPN.
    valid: Vec<u64>,
    superblocks: Vec<Superblock>,
    /// Each with the completion of its erase.
    free: VecDeque<(u32, Done)>,
    frontiers: Vec<Frontier>,
    /// Head and tail of the list of closed superblocks with as many valid or bad pages as the index says.
    buckets: Vec<List>,
    /// No bucket below this one is occupied.
    lowest: usize,
    epoch: u32,
    /// Blocks in which a program failed: not written again, and retired when their superblock is collected.
    suspect: Vec<bool>,
    valid_pages: [u64; 3],
    /// Free blocks of the pool that manages the array instead, if one does.
    pooled: u32,
    /// Superblocks that hold neither what the host sees, nor its mapping, nor the collection reserve.
    pub spare: u32,
    /// Valid pages and capacity of the data superblocks that were emptied for room lately, the older ones
    /// with less weight.
    emptied: (u64, u64),
    leveling: Leveling,
}

/// Static wear levelling. Free superblocks are used in turn, so that wear differs only by how long data lies:
/// a superblock lags behind the others by as many erases as they had, in the mean, since it was opened.
/// The number of its opening tells that, and no erase is counted.
#[derive(Clone, Copy, Debug, Default)]
struct Leveling {
    /// Openings after which what a superblock holds is moved; 0: never.
    lag: u32,
    /// The oldest superblock is looked for when openings reach this.
    next_look: u32,
    is_due: bool,
}

/// Superblocks emptied over which [`Space::emptied`] averages, for the most part.
const LATELY: u64 = 32;

impl Space {
    /// Every superblock free, as on a fresh array.
    pub fn new<N: Nand>(nand: &N) -> Space {
        let geometry = nand.geometry().clone();
        let count = geometry.superblocks();
        let mut space = Space {
            valid: vec![0; (geometry.pages() as usize).div_ceil(64)],
            superblocks: Vec::with_capacity(count as usize),
            free: VecDeque::with_capacity(count as usize),
            frontiers: vec![SHUT; Stream::COUNT],
            buckets: vec![List::EMPTY; geometry.superblock_pages() as usize + 1],
            lowest: 0,
            epoch: 0,
            suspect: vec![false; geometry.blocks() as usize],
            valid_pages: [0; 3],
            pooled: 0,
            spare: 0,
            emptied: (0, 0),
            leveling: Leveling::default(),
            units: geometry.units(),
            superblock_pages: Divisor::new(geometry.superblock_pages()),
            geometry,
        };
        for superblock in 0..count {
            let capacity = space.capacity(nand, superblock);
            let state = if capacity == 0 { State::Dead } else { State::Free };
            let fresh =
                Superblock { state, kind: PageKind::Data, valid: 0, capacity, epoch: 0, links: Links::NONE };
            space.superblocks.push(fresh);
            if state == State::Free {
                space.free.push_back((superblock, Done::READY));
            }
        }
        space
    }

    /// Adds streams ([`Stream::further`]), none of them with an open superblock.
    pub(crate) fn add_streams(&mut self, streams: usize) {
        self.frontiers.extend(std::iter::repeat_n(SHUT, streams));
    }

    /// The streams that were added.
    pub(crate) fn further_streams(&self) -> impl Iterator<Item = Stream> + use<> {
        (Stream::COUNT..self.frontiers.len()).map(Stream)
    }

    /// Superblocks that can be opened.
    #[inline]
    pub fn free_superblocks(&self) -> u32 {
        self.free.len() as u32 + self.pooled
    }

    /// Pages that can hold anything, bad blocks left out.
    pub fn usable_pages(&self) -> u64 {
        self.superblocks.iter().map(|s| u64::from(s.capacity)).sum()
    }

    /// Valid pages of a kind.
    pub fn valid_pages(&self, kind: PageKind) -> u64 {
        self.valid_pages[kind as usize]
    }

    /// Whether a page is valid.
    #[inline]
    pub fn is_valid(&self, ppn: Ppn) -> bool {
        bits::has(&self.valid, ppn.0)
    }

    /// Lets the processor fetch whether a page is valid.
    #[inline]
    pub(crate) fn expect(&self, ppn: Ppn) {
        prefetch_index(&self.valid, ppn.0 as usize / 64);
    }

    /// Whether a page is valid and holds user data.
    #[inline]
    pub fn is_valid_data(&self, ppn: Ppn) -> bool {
        self.is_valid(ppn) && self.kind(self.superblock_of(ppn)) == PageKind::Data
    }

    /// Valid pages in a superblock.
    pub fn valid_in(&self, superblock: u32) -> u32 {
        self.superblocks[superblock as usize].valid
    }

    /// Pages of a superblock in blocks that are not bad.
    pub fn capacity_of(&self, superblock: u32) -> u32 {
        self.superblocks[superblock as usize].capacity
    }

    /// The state of a superblock.
    pub fn state(&self, superblock: u32) -> State {
        self.superblocks[superblock as usize].state
    }

    /// What a superblock that is not free holds.
    pub fn kind(&self, superblock: u32) -> PageKind {
        self.superblocks[superblock as usize].kind
    }

    /// The number of a superblock's opening.
    pub fn epoch_of(&self, superblock: u32) -> u32 {
        self.superblocks[superblock as usize].epoch
    }

    /// The number of the latest opening of any superblock.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The superblock that a stream writes, and its next page, if one is open.
    pub fn frontier(&self, stream: Stream) -> Option<(u32, Ppn)> {
        let frontier = self.frontiers[stream.0];
        (frontier.superblock != NONE).then_some((frontier.superblock, Ppn(frontier.cursor)))
    }

    /// Whether a page that a stream has just been given lies in the first row of its superblock.
    #[inline]
    pub(crate) fn is_in_first_row(&self, stream: Stream, ppn: Ppn) -> bool {
        self.frontiers[stream.0].end - ppn.0 > self.superblock_pages.get() - self.units
    }

    /// Pages a stream can still write before it opens a superblock.
    #[inline]
    pub fn left(&self, stream: Stream) -> u32 {
        self.frontiers[stream.0].left(self.units)
    }

    /// The pages of one superblock that a stream will write next, in order: of its own one, or, when that is
    /// full, of the one that it will open. A program that fails changes what follows.
    pub(crate) fn upcoming<'a, N: Nand>(
        &'a self,
        nand: &'a N,
        stream: Stream,
    ) -> impl Iterator<Item = Ppn> + 'a {
        let frontier = self.frontiers[stream.0];
        let (from, end) = if frontier.cursor < frontier.end {
            (frontier.cursor, frontier.end)
        } else {
            self.free.front().map_or((0, 0), |&(next, _)| {
                let (first, end) = self.pages_of(next);
                (first.0, end.0)
            })
        };
        let units = self.units;
        let in_lane = move |ppn| frontier.cursor == frontier.end || frontier.has(ppn, units);
        (from..end).map(Ppn).filter(move |&ppn| {
            let (block, page) = self.geometry.block_of(ppn);
            in_lane(ppn)
                && !nand.is_bad(block)
                && !self.suspect[block.0 as usize]
                && nand.written(block) <= page
        })
    }

    #[inline]
    pub(crate) fn superblock_of(&self, ppn: Ppn) -> u32 {
        self.superblock_pages.divide(ppn.0).0
    }

    /// The first and one past the last page of a superblock.
    pub fn pages_of(&self, superblock: u32) -> (Ppn, Ppn) {
        [superblock, superblock + 1].map(|it| Ppn(it * self.superblock_pages.get())).into()
    }

    /// The next page of a stream, opening a superblock if it has none; `None` when it has none and none is
    /// free. The page must be programmed at once: NAND takes the pages of a block in order.
    ///
    /// Panics when none is free and no block is bad: then whoever writes has not kept the collection reserve.
    #[inline(always)]
    pub(crate) fn allocate<N: Nand>(
        &mut self,
        nand: &N,
        stream: Stream,
        kind: PageKind,
    ) -> Option<(Ppn, u32)> {
        let frontier = &mut self.frontiers[stream.0];
        if frontier.cursor == frontier.end || frontier.lane > 0 || frontier.ragged {
            return self.allocate_slowly(nand, stream, kind);
        }
        let ppn = Ppn(frontier.cursor);
        frontier.cursor += 1;
        Some((ppn, self.superblocks[frontier.superblock as usize].epoch))
    }

    /// The same for a stream that has to open a superblock, has a lane, or cannot use some pages.
    #[inline(never)]
    fn allocate_slowly<N: Nand>(&mut self, nand: &N, stream: Stream, kind: PageKind) -> Option<(Ppn, u32)> {
        loop {
            let frontier = &mut self.frontiers[stream.0];
            if frontier.cursor == frontier.end {
                let (superblock, _) = self.free.pop_front()?;
                self.close(stream);
                self.open(nand, stream, superblock, kind);
                continue;
            }
            let (ppn, frontier) = (frontier.take(self.units), *frontier);
            if !frontier.ragged || self.is_next(nand, ppn) {
                return Some((ppn, self.superblocks[frontier.superblock as usize].epoch));
            }
        }
    }

    /// Asserts that a stream which finds no superblock lacks it because blocks have failed.
    #[cold]
    pub(crate) fn must_be_worn<N: Nand>(&self, nand: &N, stream: Stream) {
        let is_worn =
            (0..self.geometry.blocks()).any(|block| nand.is_bad(Pbn(block)) || self.suspect[block as usize]);
        assert!(
            is_worn,
            "stream {} needs a superblock and none is free: the collection reserve was not kept",
            stream.0
        );
    }

    fn is_next<N: Nand>(&self, nand: &N, ppn: Ppn) -> bool {
        let (block, page) = self.geometry.block_of(ppn);
        !nand.is_bad(block) && !self.suspect[block.0 as usize] && nand.written(block) == page
    }

    fn open<N: Nand>(&mut self, nand: &N, stream: Stream, superblock: u32, kind: PageKind) {
        self.begin(nand, superblock, kind);
        let (first, end) = self.pages_of(superblock);
        let ragged = self.superblocks[superblock as usize].capacity < end.0 - first.0;
        self.frontiers[stream.0] =
            Frontier { superblock, cursor: first.0, end: end.0, row_end: end.0, lane: 0, ragged };
    }

    /// A superblock that was free is open from now on, and must be given to a stream at once.
    fn begin<N: Nand>(&mut self, nand: &N, superblock: u32, kind: PageKind) {
        self.epoch += 1;
        let it = &mut self.superblocks[superblock as usize];
        it.state = State::Open;
        it.kind = kind;
        it.epoch = self.epoch;
        if self.leveling.lag > 0 && self.epoch >= self.leveling.next_look {
            self.look_for_lag();
        }
        debug_assert!((0..self.units).all(|unit| {
            let block = Pbn(superblock * self.units + unit);
            nand.is_bad(block) || nand.written(block) == 0
        }));
    }

    /// Moves what lags `gap` erases behind, from now on; 0: nothing. Begins with other free superblocks than
    /// at the last start: a device that is switched off before all were used would else use the first ones
    /// alone.
    pub(crate) fn level_wear(&mut self, gap: u32) {
        let lag = gap.saturating_mul(self.geometry.superblocks());
        self.leveling = Leveling { lag, ..Leveling::default() };
        if lag > 0 && !self.free.is_empty() {
            self.free.rotate_left(self.epoch as usize % self.free.len());
        }
    }

    /// Whether a superblock lags so far behind that what it holds should be moved.
    #[inline]
    pub(crate) fn is_leveling_due(&self) -> bool {
        self.leveling.is_due
    }

    /// What lagged most is being moved: the next one is looked for when a superblock is opened.
    pub(crate) fn levels(&mut self) {
        (self.leveling.is_due, self.leveling.next_look) = (false, 0);
    }

    fn look_for_lag(&mut self) {
        let oldest = self.oldest().map_or(self.epoch, |superblock| self.epoch_of(superblock));
        let due = oldest.saturating_add(self.leveling.lag);
        (self.leveling.is_due, self.leveling.next_look) = (self.epoch > due, due.saturating_add(1));
    }

    /// Opens the next free superblock for data, and gives `units` of it to a stream, in place of what that
    /// has. `None` when none is free.
    pub(crate) fn open_lane<N: Nand>(&mut self, nand: &N, stream: Stream, units: Range<u32>) -> Option<u32> {
        let (superblock, _) = self.free.pop_front()?;
        self.close(stream);
        self.begin(nand, superblock, PageKind::Data);
        self.lend(nand, stream, superblock, units);
        Some(superblock)
    }

    /// Gives `units` of an open superblock to a stream, in place of what that has: of each the pages that are
    /// not written. No other stream may have any of them.
    pub(crate) fn lend<N: Nand>(&mut self, nand: &N, stream: Stream, superblock: u32, units: Range<u32>) {
        assert!(self.state(superblock) == State::Open && !units.is_empty());
        if self.frontiers[stream.0].superblock != superblock {
            self.close(stream);
        }
        let width = self.units;
        let rows = units.clone().filter_map(|unit| {
            let block = Pbn(superblock * width + unit);
            let is_usable = !nand.is_bad(block) && !self.is_suspect(block);
            is_usable.then(|| nand.written(block))
        });
        let row = rows.clone().min().unwrap_or(self.geometry.pages_per_block);
        let ragged = rows.clone().count() < units.len() || rows.max().is_some_and(|most| most > row);
        let (first, end) = self.pages_of(superblock);
        let is_all = units.len() as u32 == width;
        let cursor = first.0 + row * width + units.start;
        self.frontiers[stream.0] = Frontier {
            superblock,
            cursor,
            end: end.0 + units.start,
            row_end: if is_all { end.0 } else { cursor + units.len() as u32 },
            lane: if is_all { 0 } else { units.len() as u32 },
            ragged,
        };
    }

    /// Pages of an open superblock that are not spent.
    pub(crate) fn unwritten<N: Nand>(&self, nand: &N, superblock: u32) -> u32 {
        let (units, pages) = (self.units, self.geometry.pages_per_block);
        let blocks = (0..units).map(|unit| Pbn(superblock * units + unit));
        let usable = blocks.filter(|&block| !nand.is_bad(block) && !self.is_suspect(block));
        usable.map(|block| pages - nand.written(block)).sum()
    }

    /// Whether a page at or after the stream's next one is spent, or one before it may be unwritten. A power
    /// cut can leave that, as dies do not keep step; lanes have it as a rule.
    pub(crate) fn is_uneven<N: Nand>(&self, nand: &N, stream: Stream) -> bool {
        let Some((superblock, next)) = self.frontier(stream) else { return false };
        let units = self.units;
        let is_lane = self.frontiers[stream.0].lane > 0;
        is_lane
            || (0..units).map(|unit| Pbn(superblock * units + unit)).any(|block| {
                let written = nand.written(block);
                !nand.is_bad(block) && written > 0 && self.geometry.page_in(block, written - 1) >= next
            })
    }

    /// Ends a stream's superblock, full or not: from now on it can be collected, unless other streams have
    /// lanes of it.
    pub(crate) fn close(&mut self, stream: Stream) {
        let superblock = std::mem::replace(&mut self.frontiers[stream.0], SHUT).superblock;
        if superblock == NONE || self.frontiers.iter().any(|other| other.superblock == superblock) {
            return;
        }
        self.superblocks[superblock as usize].state = State::Closed;
        if self.is_listed(superblock) {
            self.link(superblock);
        }
    }

    /// Records that a page was programmed and is the current version of what it holds.
    #[inline]
    pub(crate) fn validate(&mut self, ppn: Ppn) {
        let word = &mut self.valid[ppn.0 as usize / 64];
        debug_assert!(*word >> (ppn.0 % 64) & 1 == 0);
        *word |= 1 << (ppn.0 % 64);
        let superblock = self.superblock_of(ppn);
        let it = &mut self.superblocks[superblock as usize];
        debug_assert!(it.state == State::Open);
        it.valid += 1;
        self.valid_pages[it.kind as usize] += 1;
    }

    /// Records that a page is not needed any more.
    #[inline]
    pub(crate) fn invalidate(&mut self, ppn: Ppn) {
        let word = &mut self.valid[ppn.0 as usize / 64];
        assert!(*word >> (ppn.0 % 64) & 1 == 1, "page {} invalidated twice", ppn.0);
        *word &= !(1 << (ppn.0 % 64));
        let superblock = self.superblock_of(ppn);
        let listed = self.is_listed(superblock);
        if listed {
            self.unlink(superblock);
        }
        let it = &mut self.superblocks[superblock as usize];
        it.valid -= 1;
        self.valid_pages[it.kind as usize] -= 1;
        if listed {
            self.link(superblock);
        }
    }

    /// The first valid page at or after `from` and before `end`.
    pub(crate) fn next_valid(&self, from: Ppn, end: Ppn) -> Option<Ppn> {
        bits::next(&self.valid, from.0, end.0).map(Ppn)
    }

    /// As [`Space::next_valid`], in `units` of a superblock alone.
    pub(crate) fn next_valid_in(&self, from: Ppn, end: Ppn, units: &Range<u32>) -> Option<Ppn> {
        let width = self.units;
        let mut from = from;
        loop {
            let found = self.next_valid(from, end)?;
            let (row, unit) = (found.0 - found.0 % width, found.0 % width);
            if units.contains(&unit) {
                return Some(found);
            }
            from = Ppn(if unit < units.start { row } else { row + width } + units.start);
        }
    }

    /// Marks the block of a failed program: it is written no further, and retired when collected.
    pub(crate) fn suspect(&mut self, ppn: Ppn) {
        let (block, _) = self.geometry.block_of(ppn);
        self.suspect[block.0 as usize] = true;
        let superblock = self.superblock_of(ppn);
        for frontier in &mut self.frontiers {
            frontier.ragged |= frontier.superblock == superblock;
        }
    }

    /// Whether a program failed in a block.
    pub(crate) fn is_suspect(&self, block: Pbn) -> bool {
        self.suspect[block.0 as usize]
    }

    /// The closed superblock whose collection gains the most pages (without bad blocks: the one with the
    /// fewest valid pages), the one closed first among equals; `None` when none gains anything.
    pub(crate) fn fewest_valid(&mut self) -> Option<u32> {
        while self.lowest < self.buckets.len() {
            let head = self.buckets[self.lowest].head();
            if head != NONE {
                return (self.lowest < self.buckets.len() - 1).then_some(head);
            }
            self.lowest += 1;
        }
        None
    }

    /// The closed superblock that can be emptied without moving user data and has the fewest valid pages:
    /// translation pages only, or nothing valid. Looks at all. For recovery, before data may move.
    pub(crate) fn fewest_valid_without_data(&self) -> Option<u32> {
        (0..)
            .zip(&self.superblocks)
            .filter(|(superblock, it)| {
                self.is_listed(*superblock)
                    && it.valid < it.capacity
                    && (it.kind == PageKind::Translation || it.valid == 0)
            })
            .min_by_key(|(_, it)| it.valid)
            .map(|(superblock, _)| superblock)
    }

    /// The closed superblock with the greatest (1 - u) / 2u x age; `None` when collecting gains nothing.
    /// Looks at all.
    pub(crate) fn best_benefit(&self) -> Option<u32> {
        let mut best: Option<(u32, u64, u64)> = None;
        for (superblock, it) in (0..).zip(&self.superblocks) {
            if !self.is_listed(superblock) || it.valid >= it.capacity {
                continue;
            }
            let age = u64::from(self.epoch - it.epoch) + 1;
            let benefit = u64::from(it.capacity - it.valid) * age;
            let cost = 2 * u64::from(it.valid);
            let better = |&(_, b, c): &(u32, u64, u64)| {
                u128::from(benefit) * u128::from(c) > u128::from(b) * u128::from(cost)
            };
            if cost == 0 {
                return Some(superblock);
            }
            if best.as_ref().is_none_or(better) {
                best = Some((superblock, benefit, cost));
            }
        }
        best.map(|(superblock, ..)| superblock)
    }

    /// The closed superblock that was opened first: it holds what has lain longest.
    pub(crate) fn oldest(&self) -> Option<u32> {
        let closed = (0..).zip(&self.superblocks).filter(|(superblock, _)| self.is_listed(*superblock));
        closed.min_by_key(|(_, it)| it.epoch).map(|(superblock, _)| superblock)
    }

    /// Valid pages and capacity of the data superblocks that collection emptied for room lately: what a page
    /// of room costs in moves. Both are 0 when it has not emptied any.
    pub fn emptied(&self) -> (u64, u64) {
        self.emptied
    }

    /// A superblock with user data is going to be emptied for room.
    pub(crate) fn empties(&mut self, superblock: u32) {
        let it = &self.superblocks[superblock as usize];
        let fade = |sum: u64| sum - sum / LATELY;
        self.emptied.0 = fade(self.emptied.0) + u64::from(it.valid);
        self.emptied.1 = fade(self.emptied.1) + u64::from(it.capacity);
    }

    /// Takes a closed superblock out of the buckets to empty it.
    pub(crate) fn collect(&mut self, superblock: u32) {
        assert!(self.state(superblock) == State::Closed);
        if self.is_listed(superblock) {
            self.unlink(superblock);
        }
        self.superblocks[superblock as usize].state = State::Collecting;
    }

    /// Returns an emptied and erased superblock to the free ones, or buries it when all its blocks are bad.
    pub(crate) fn release<N: Nand>(&mut self, nand: &N, superblock: u32, erased: Done) {
        let capacity = self.capacity(nand, superblock);
        let it = &mut self.superblocks[superblock as usize];
        assert!(
            it.state == State::Collecting && it.valid == 0,
            "superblock {superblock} erased with valid pages"
        );
        it.capacity = capacity;
        it.state = if capacity == 0 { State::Dead } else { State::Free };
        if capacity > 0 {
            self.free.push_back((superblock, erased));
        }
        let blocks = superblock as usize * self.units as usize;
        self.suspect[blocks..blocks + self.units as usize].fill(false);
    }

    fn capacity<N: Nand>(&self, nand: &N, superblock: u32) -> u32 {
        let units = self.units;
        let good = (0..units).filter(|unit| !nand.is_bad(Pbn(superblock * units + unit))).count() as u32;
        good * self.geometry.pages_per_block
    }

    /// Closed superblocks stand in the buckets, except metadata: its owner knows when it is obsolete.
    #[inline]
    fn is_listed(&self, superblock: u32) -> bool {
        let it = &self.superblocks[superblock as usize];
        it.state == State::Closed && it.kind != PageKind::Metadata
    }

    /// The pages that emptying a closed superblock does not gain: valid ones, and those in bad blocks.
    #[inline]
    fn bucket_of(&self, superblock: u32) -> usize {
        let it = &self.superblocks[superblock as usize];
        self.buckets.len() - 1 - it.capacity.saturating_sub(it.valid) as usize
    }

    fn link(&mut self, superblock: u32) {
        let bucket = self.bucket_of(superblock);
        self.buckets[bucket].push_back(&mut self.superblocks, superblock);
        self.lowest = self.lowest.min(bucket);
    }

    fn unlink(&mut self, superblock: u32) {
        let bucket = self.bucket_of(superblock);
        self.buckets[bucket].unlink(&mut self.superblocks, superblock);
    }
}

/// What recovery found a superblock to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) superblock: u32,
    pub(crate) kind: PageKind,
    pub(crate) epoch: u32,
    /// The first page that can still be programmed, in a block that is not bad.
    pub(crate) tail: Option<Ppn>,
}

impl Space {
    /// Takes over a superblock that is not free, at recovery: as closed, or as the frontier of `stream`.
    pub(crate) fn adopt(&mut self, found: Found, stream: Option<Stream>) {
        let (_, end) = self.pages_of(found.superblock);
        self.free.retain(|&(free, _)| free != found.superblock);
        self.epoch = self.epoch.max(found.epoch);
        let it = &mut self.superblocks[found.superblock as usize];
        it.kind = found.kind;
        it.epoch = found.epoch;
        it.state = State::Open;
        match (stream, found.tail) {
            (Some(stream), Some(tail)) => {
                assert!(self.frontiers[stream.0].superblock == NONE);
                self.frontiers[stream.0] = Frontier {
                    superblock: found.superblock,
                    cursor: tail.0,
                    end: end.0,
                    row_end: end.0,
                    lane: 0,
                    ragged: true,
                };
            }
            _ => {
                it.state = State::Closed;
                if self.is_listed(found.superblock) {
                    self.link(found.superblock);
                }
            }
        }
    }

    /// Marks a programmed page valid at recovery, in whatever superblock it lies.
    pub(crate) fn validate_found(&mut self, ppn: Ppn) {
        assert!(!self.is_valid(ppn), "two logical pages map to physical page {}", ppn.0);
        let superblock = self.superblock_of(ppn);
        let listed = self.is_listed(superblock);
        if listed {
            self.unlink(superblock);
        }
        self.valid[ppn.0 as usize / 64] |= 1 << (ppn.0 % 64);
        let it = &mut self.superblocks[superblock as usize];
        it.valid += 1;
        self.valid_pages[it.kind as usize] += 1;
        if listed {
            self.link(superblock);
        }
    }

    /// The free superblocks in the order in which they will be opened, each with the completion of its erase.
    pub(crate) fn free(&self) -> impl Iterator<Item = (u32, Done)> + '_ {
        self.free.iter().copied()
    }

    /// Checks the counts against the bits; one sentence for the first breach.
    pub fn check(&self) -> Result<(), Breach> {
        let mut by_kind = [0u64; 3];
        for (superblock, it) in (0..).zip(&self.superblocks) {
            let (first, end) = self.pages_of(superblock);
            let mut count = 0;
            let mut at = first;
            while let Some(ppn) = self.next_valid(at, end) {
                count += 1;
                at = Ppn(ppn.0 + 1);
            }
            let (counted, state) = (it.valid, it.state);
            if count != counted {
                return Err(
                    format!("superblock {superblock} counts {counted} valid pages but has {count}").into()
                );
            }
            if count > 0 && matches!(state, State::Free | State::Dead) {
                return Err(
                    format!("superblock {superblock} is {state:?} but has {count} valid pages").into()
                );
            }
            by_kind[it.kind as usize] += u64::from(count);
        }
        let counted = self.valid_pages;
        if by_kind != counted {
            return Err(format!("valid pages by kind are {by_kind:?} but {counted:?} are counted").into());
        }
        Ok(())
    }
}
