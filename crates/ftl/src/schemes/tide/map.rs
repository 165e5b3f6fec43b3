//! The log map where memory does not hold all of it.
//!
//! Which pages the log holds is always in memory ([`memory`](super::memory)), so a page at home is read at
//! once. The places of log pages are in memory while there is room. The others are on flash, in
//! **translation pages**: each holds, for a range of LPNs, which of them were in the log and their places.
//!
//! | when | what happens | charged |
//! | --- | --- | --- |
//! | a page is read whose place is on flash | its place is loaded, and those of the request, or of what is read in sequence ([`ReadAhead`]) | a read |
//! | a merge copies such a page | the same for the pages of its group | a read |
//! | a page is written | its new place is in memory; the old one is not asked for | - |
//! | memory is short | all places of the translation page used least recently are evicted | - |
//! | they are dirty | they are written back | a program; a read, if some were on flash alone |
//!
//! **Superseded pages.** A page that is written again while its old place is on flash leaves a page in some
//! log block that nobody knows to be invalid. Nobody needs to: log blocks are erased when the last group of
//! their bin is merged. Only a log block that is empty before its turn is not noticed
//! ([`LogMap::is_sure`]).
//!
//! **Power cuts.** Translation pages are swap space: recovery finds all places in the OOB of log blocks and
//! in the checkpoint, as it does without them, and erases these pages. One that cannot be read is rebuilt
//! from the OOB of all log blocks.
//!
//! The simulator keeps all places in an array ([`Core::log_page`]). A place that it reads from flash must
//! agree with that; in tests (with debug assertions) so must all others of the same translation page.

use super::memory::{shelf_bytes, Widths, GRAIN, SHELF};
use super::read_ahead::ReadAhead;
use crate::bits;
use crate::breach::Breach;
use crate::counters::Cause;
use crate::flash::{Content, Flash};
use crate::list::{linked, Links, List, NONE};
use crate::log_block::{Core, Layout};
use nand::{Divisor, Done, Fault, Lpn, Nand, PageKind, Ppn, Source};
use std::ops::Range;

/// Of the bytes of rows, an eighth is kept for places: those of pages just written have to be in memory, and
/// the more of them one translation page takes, the fewer programs they cost.
const SHARE_OF_PLACES: u64 = 8;

/// Translation pages that move out of a full block with each that is written. A full block is at most half
/// valid, so they have moved before the next block is full.
pub(super) const MOVED: u32 = 2;

/// A block of translation pages, full or nearly, that is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leaving {
    block: u32,
    /// The first translation page that may still be there.
    next: u32,
}

/// Pages of a group, and those of them whose place is in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Row {
    pages: u16,
    here: u16,
}

/// What is known of a translation page.
#[derive(Clone, Copy, Debug)]
struct Translation {
    links: Links,
    /// Where it is; [`NONE`] before it was written.
    ppn: u32,
    /// Pages of its range in the log, and those of them whose place is in memory.
    pages: u32,
    here: u32,
    /// Places in memory are newer than on flash.
    is_dirty: bool,
}

linked!(Translation);

/// Which pages the log holds, and of which of them the place is in memory.
#[derive(Clone, Debug)]
pub(super) struct LogMap {
    widths: Widths,
    /// Bytes that rows may take.
    limit: u64,
    /// Bytes that they take.
    bytes: u64,
    /// Places in memory.
    here: u32,
    /// A bit a page: the log holds it.
    in_log: Vec<u64>,
    /// A bit a page: its place is in memory.
    in_memory: Vec<u64>,
    /// When it is there: a firmware would let requests wait for the loads under way.
    known: Vec<Done>,
    /// By group.
    rows: Vec<Row>,
    /// Bits of the rows on each shelf.
    shelves: Vec<u32>,
    /// LPNs of a translation page.
    span: Divisor,
    vtpns: Vec<Translation>,
    /// Translation pages of which places are in memory, the one used last at the head.
    used: List,
    ahead: ReadAhead,
    /// The blocks that hold translation pages: page n is in number n mod their count, or [`NONE`] yet.
    blocks: Vec<u32>,
    /// The one that is emptied.
    leaving: Option<Leaving>,
    /// By block of the pool: something in it is superseded, and nobody knows what.
    unknown: Vec<bool>,
    buffer: Vec<u8>,
}

/// Bytes of a place in a translation page.
fn place_bytes(layout: &Layout) -> u32 {
    (u32::BITS - layout.physical_pages.leading_zeros()).div_ceil(8)
}

/// LPNs whose places fit a translation page, should the log hold all of them.
fn span(layout: &Layout) -> u32 {
    (layout.page_bytes * 8 / (1 + 8 * place_bytes(layout))) & !7
}

/// Translation pages.
pub(super) fn vtpns(layout: &Layout) -> u32 {
    layout.exported_pages.div_ceil(span(layout))
}

/// Blocks for them, of so many that are spare: twice what they fill, so that a full one is at most half
/// valid, and one that takes the place of a full one. Where much is spare, much of the map is on flash: then
/// one on each parallel unit, as it is read from all of them at once.
pub(super) fn blocks(layout: &Layout, spare: u32) -> u32 {
    (2 * vtpns(layout)).div_ceil(layout.block_pages).max((spare / 64).min(layout.parallel_units)) + 1
}

impl LogMap {
    /// A log without pages, with so many bytes for rows.
    pub(super) fn new(layout: &Layout, blocks_of_pool: u32, limit: u64) -> LogMap {
        let widths = Widths::new(layout, true);
        let groups = layout.logical_blocks;
        let in_shelf = |first: u32| (groups - first).min(SHELF) * widths.row(0, 0);
        let shelves: Vec<u32> = (0..groups).step_by(SHELF as usize).map(in_shelf).collect();
        let none = Translation { links: Links::NONE, ppn: NONE, pages: 0, here: 0, is_dirty: false };
        LogMap {
            widths,
            limit,
            bytes: shelves.iter().map(|&bits| shelf_bytes(bits)).sum(),
            here: 0,
            in_log: vec![0; layout.exported_pages.div_ceil(64) as usize],
            in_memory: vec![0; layout.exported_pages.div_ceil(64) as usize],
            known: vec![Done::READY; layout.exported_pages as usize],
            rows: vec![Row::default(); groups as usize],
            shelves,
            span: Divisor::new(span(layout)),
            vtpns: vec![none; vtpns(layout) as usize],
            used: List::EMPTY,
            ahead: ReadAhead::new(widths.places_in(limit / SHARE_OF_PLACES)),
            blocks: vec![NONE; layout.translation.saturating_sub(1).max(1) as usize],
            leaving: None,
            unknown: vec![false; blocks_of_pool as usize],
            buffer: vec![0; layout.page_bytes as usize],
        }
    }

    /// Bytes of the rows.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Translation pages.
    pub(super) fn vtpns(&self) -> u32 {
        self.vtpns.len() as u32
    }

    /// Whether the log holds a page whose place is on flash alone.
    #[inline]
    pub(super) fn is_away(&self, lpn: Lpn) -> bool {
        bits::has(&self.in_log, lpn.0) && !bits::has(&self.in_memory, lpn.0)
    }

    /// Whether everything in a log block that is not valid is known not to be.
    pub(super) fn is_sure(&self, block: u32) -> bool {
        !self.unknown[block as usize]
    }

    /// Nothing is left in a log block, or it is none any more.
    pub(super) fn erased(&mut self, block: u32) {
        self.unknown[block as usize] = false;
    }

    #[inline]
    fn vtpn_of(&self, lpn: Lpn) -> u32 {
        self.span.divide(lpn.0).0
    }

    // Rows

    fn change(&mut self, group: u32, change: impl FnOnce(&mut Row)) {
        let row = &mut self.rows[group as usize];
        let before = self.widths.row(row.pages.into(), row.here.into());
        change(row);
        let after = self.widths.row(row.pages.into(), row.here.into());
        let shelf = &mut self.shelves[(group / SHELF) as usize];
        self.bytes -= shelf_bytes(*shelf);
        *shelf = *shelf - before + after;
        self.bytes += shelf_bytes(*shelf);
    }

    /// The place of a page is in memory when `known` is.
    fn take_in(&mut self, group: u32, lpn: Lpn, known: Done) {
        self.known[lpn.0 as usize] = known;
        if bits::set(&mut self.in_memory, lpn.0, true) {
            self.change(group, |row| row.here += 1);
            self.here += 1;
            let vtpn = self.vtpn_of(lpn);
            self.vtpns[vtpn as usize].here += 1;
            if self.vtpns[vtpn as usize].here == 1 {
                self.used.push_front(&mut self.vtpns, vtpn);
            }
        }
    }

    fn put_out(&mut self, group: u32, lpn: Lpn) {
        if bits::set(&mut self.in_memory, lpn.0, false) {
            self.change(group, |row| row.here -= 1);
            self.here -= 1;
            let vtpn = self.vtpn_of(lpn);
            self.vtpns[vtpn as usize].here -= 1;
            if self.vtpns[vtpn as usize].here == 0 {
                self.vtpns[vtpn as usize].is_dirty = false;
                self.used.unlink(&mut self.vtpns, vtpn);
            }
        }
    }

    /// A page is read whose place is in memory, or which is at home. Returns when the place is known.
    #[inline]
    pub(super) fn used(&mut self, lpn: Lpn) -> Done {
        if bits::has(&self.in_memory, lpn.0) {
            self.touch(self.vtpn_of(lpn));
        }
        self.known(lpn)
    }

    /// When the place of a page is known that is not on flash alone.
    #[inline]
    pub(super) fn known(&self, lpn: Lpn) -> Done {
        if bits::has(&self.in_memory, lpn.0) {
            self.known[lpn.0 as usize]
        } else {
            Done::READY
        }
    }

    /// The places of a translation page are used.
    fn touch(&mut self, vtpn: u32) {
        if self.used.head() != vtpn && self.vtpns[vtpn as usize].here > 0 {
            self.used.unlink(&mut self.vtpns, vtpn);
            self.used.push_front(&mut self.vtpns, vtpn);
        }
    }

    /// A page is about to be written, or trimmed.
    pub(super) fn supersedes(&mut self, core: &Core, lpn: Lpn) {
        if !self.is_away(lpn) {
            return;
        }
        if let Some(ppn) = core.log_page(lpn) {
            self.unknown[core.pool.place_of(ppn).0 as usize] = true;
        }
    }

    /// A page was written, to the log or to its home.
    pub(super) fn written(&mut self, core: &Core, lpn: Lpn) {
        if core.log_page(lpn).is_none() {
            return self.left(core, lpn);
        }
        let (group, vtpn) = (core.place(lpn).0, self.vtpn_of(lpn));
        if bits::set(&mut self.in_log, lpn.0, true) {
            self.change(group, |row| row.pages += 1);
            self.vtpns[vtpn as usize].pages += 1;
        }
        self.take_in(group, lpn, Done::READY);
        self.vtpns[vtpn as usize].is_dirty = true;
        self.touch(vtpn);
    }

    /// A page may have left the log.
    pub(super) fn left(&mut self, core: &Core, lpn: Lpn) {
        if bits::has(&self.in_log, lpn.0) && core.log_page(lpn).is_none() {
            let group = core.place(lpn).0;
            self.put_out(group, lpn);
            bits::set(&mut self.in_log, lpn.0, false);
            self.change(group, |row| row.pages -= 1);
            let vtpn = self.vtpn_of(lpn);
            self.vtpns[vtpn as usize].pages -= 1;
        }
    }

    // Memory

    /// Whether there is room for one more page with its place.
    fn has_room(&self) -> bool {
        self.bytes + GRAIN <= self.limit
    }

    /// Bytes that the offsets of log pages may take.
    fn most_offsets(&self) -> u64 {
        self.limit - self.limit / SHARE_OF_PLACES
    }

    /// Pages that the log can take before their offsets have all the memory that they may have.
    pub(super) fn pages_left(&self) -> u32 {
        let offsets = self.bytes.saturating_sub(self.widths.places(self.here));
        let left = self.most_offsets().saturating_sub(offsets) * 8 / u64::from(self.widths.bits_of_offset());
        left.min(u64::from(u32::MAX)) as u32
    }

    /// Whether these are few.
    pub(super) fn is_short(&self) -> bool {
        self.pages_left() <= self.short()
    }

    /// How many are few: a sixteenth of all that there can be.
    pub(super) fn short(&self) -> u32 {
        let most = self.most_offsets() * 8 / u64::from(self.widths.bits_of_offset());
        (most / 16).min(u64::from(u32::MAX)) as u32
    }

    /// Evicts places until there is room for one more page, but not those of one translation page. `None`:
    /// no more can be evicted.
    fn evict_for<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        keep: u32,
        at: Done,
    ) -> Result<Option<Done>, Fault> {
        let mut at = at;
        while !self.has_room() {
            let coldest = self.used.tail();
            if coldest == NONE || coldest == keep {
                return Ok(None);
            }
            at = self.evict(core, flash, coldest, at)?;
        }
        Ok(Some(at))
    }

    /// As [`LogMap::evict_for`], any places.
    pub(super) fn make_room<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        at: Done,
    ) -> Result<Option<Done>, Fault> {
        self.evict_for(core, flash, NONE, at)
    }

    /// Evicts the places of a translation page; writes them back if they are newer than on flash.
    fn evict<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        vtpn: u32,
        at: Done,
    ) -> Result<Done, Fault> {
        let Translation { is_dirty, pages, here, .. } = self.vtpns[vtpn as usize];
        let mut done = at;
        if is_dirty {
            if here < pages {
                done = self.read(core, flash, vtpn, std::iter::empty(), Cause::Translation, done)?;
            }
            done = self.write(core, flash, vtpn, Cause::Translation, done)?;
        }
        flash.counters.replaced_dirty += u64::from(is_dirty);
        self.drop_places(core, flash, vtpn);
        Ok(done)
    }

    /// Puts the places of a translation page out of memory.
    fn drop_places<N: Nand>(&mut self, core: &Core, flash: &mut Flash<N>, vtpn: u32) {
        flash.counters.replaced += 1;
        let Range { start: mut from, end } = self.lpns_of(core, vtpn);
        while let Some(lpn) = bits::next(&self.in_memory, from, end) {
            self.put_out(core.place(Lpn(lpn)).0, Lpn(lpn));
            from = lpn + 1;
        }
    }

    /// Whether there is room for a place that is brought before it is asked for: what is clean makes it, but
    /// not the translation page `keep`.
    fn has_room_beside<N: Nand>(&mut self, core: &Core, flash: &mut Flash<N>, keep: u32) -> bool {
        while !self.has_room() {
            let coldest = self.used.tail();
            if coldest == NONE || coldest == keep || self.vtpns[coldest as usize].is_dirty {
                return false;
            }
            self.drop_places(core, flash, coldest);
        }
        true
    }

    // Translation pages

    /// Brings the place of a page that is read, the first of `rest` of a request, into memory, and those of
    /// the pages behind it that are read as well, or soon.
    pub(super) fn load_to_read<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<Done, Fault> {
        let pages = self.ahead.begin(lpn, rest);
        let others = (lpn.0 + 1..lpn.0 + pages).map(Lpn);
        let (done, end) = self.load(core, flash, lpn, others, Cause::Translation, at)?;
        self.ahead.ended(end);
        Ok(done)
    }

    /// Brings the place of a page into memory, and those of others in the same translation page while there
    /// is room. Returns when they are there, and the page behind the last one.
    pub(super) fn load<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        lpn: Lpn,
        others: impl Iterator<Item = Lpn> + Clone,
        cause: Cause,
        at: Done,
    ) -> Result<(Done, Lpn), Fault> {
        let vtpn = self.vtpn_of(lpn);
        let end = self.lpns_of(core, vtpn).end;
        let asked = std::iter::once(lpn).chain(others.take_while(|other| other.0 < end));
        self.touch(vtpn);
        // Without room, the place is taken from the page buffer.
        let at = self.evict_for(core, flash, vtpn, at)?.unwrap_or(at);
        let done = self.read(core, flash, vtpn, asked.clone(), cause, at)?;
        let mut brought = lpn;
        for (nth, lpn) in asked.enumerate() {
            if self.is_away(lpn) {
                if !self.has_room_beside(core, flash, vtpn) {
                    break;
                }
                self.take_in(core.place(lpn).0, lpn, done);
                flash.counters.prefetched += u64::from(nth > 0);
            }
            brought = lpn;
        }
        self.touch(vtpn);
        Ok((done, Lpn(brought.0 + 1)))
    }

    /// Reads a translation page for the places that are asked for. One that cannot be read is made anew from
    /// the OOB of the log.
    fn read<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        vtpn: u32,
        asked: impl Iterator<Item = Lpn>,
        cause: Cause,
        at: Done,
    ) -> Result<Done, Fault> {
        let ppn = Ppn(self.vtpns[vtpn as usize].ppn);
        match flash.read_metadata(ppn, PageKind::Translation, cause, at) {
            Ok(done) => {
                self.compare(core, flash.buffer(), vtpn, asked);
                if cfg!(debug_assertions) {
                    self.compare(core, flash.buffer(), vtpn, self.lpns_of(core, vtpn).map(Lpn));
                }
                Ok(done)
            }
            Err(Fault::Uncorrectable { done, .. }) => {
                let mut scanned = done;
                for ppn in core.log_pages() {
                    let (_, seen) = match flash.scan(ppn, Cause::Recovery, done) {
                        Err(Fault::Uncorrectable { done, .. }) => (None, done),
                        scan => scan?,
                    };
                    scanned = flash.join(scanned, seen);
                }
                flash.counters.rebuilt += 1;
                self.write(core, flash, vtpn, cause, scanned)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Programs a translation page.
    fn write<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        vtpn: u32,
        cause: Cause,
        at: Done,
    ) -> Result<Done, Fault> {
        let content = Content::version(flash.next_metadata_version());
        loop {
            let length = self.fill(core, vtpn);
            let from = Source::Metadata(&self.buffer[..length]);
            let kind = PageKind::Translation;
            let open = self.blocks[vtpn as usize % self.blocks.len()];
            let placed = match open {
                NONE => None,
                open => core.pool.append(flash, open, kind, vtpn, content, from, cause, at)?,
            };
            if let Some((ppn, done)) = placed {
                let it = &mut self.vtpns[vtpn as usize];
                let before = std::mem::replace(&mut it.ppn, ppn.0);
                it.is_dirty = false;
                if before != NONE {
                    flash.give_back(Ppn(before));
                }
                if cause != Cause::Collection {
                    self.move_pages(core, flash, MOVED)?;
                    if self.leaving.is_none() && self.is_nearly_full(core, open) {
                        self.renew(core, flash, vtpn)?;
                    }
                }
                return Ok(done);
            }
            self.renew(core, flash, vtpn)?;
        }
    }

    /// Whether a block has hardly more room than it loses while the pages of each other one move. All are
    /// filled at about the same pace, so without this many would be full at the same time, and one is emptied
    /// at a time. Room of a quarter of what is not valid is lost at most.
    fn is_nearly_full(&self, core: &Core, open: u32) -> bool {
        let (pages, valid) = (core.layout().block_pages, self.vtpns().div_ceil(self.blocks.len() as u32));
        pages - core.pool.next(open) <= (valid / MOVED).min(pages.saturating_sub(valid) / 4)
    }

    /// Opens another block for `vtpn` and the translation pages that share one with it. These move there in
    /// steps, so that no die has to program many of them before anything else.
    fn renew<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>, vtpn: u32) -> Result<(), Fault> {
        let number = vtpn % self.blocks.len() as u32;
        // The block that is emptied has to be free before another is opened. But if its pages go where no
        // room is left, they need the one that is opened.
        if self.leaving.is_some_and(|leaving| leaving.next % self.blocks.len() as u32 != number) {
            self.move_pages(core, flash, u32::MAX)?;
        }
        let opened = core.open_translation(flash, number % core.layout().parallel_units)?;
        let full = std::mem::replace(&mut self.blocks[number as usize], opened);
        self.move_pages(core, flash, u32::MAX)?;
        self.leaving = (full != NONE).then_some(Leaving { block: full, next: number });
        Ok(())
    }

    /// Moves so many translation pages out of the block that is emptied, and erases it when none is left.
    fn move_pages<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        pages: u32,
    ) -> Result<(), Fault> {
        let mut left = pages;
        while let Some(Leaving { block, next }) = self.leaving {
            if next >= self.vtpns() {
                self.leaving = None;
                flash.counters.collections_translation += 1;
                return core.release(flash, block, Cause::Collection).map(|_| ());
            }
            if self.is_in(core, next, block) {
                if left == 0 {
                    break;
                }
                left -= 1;
                let read =
                    self.read(core, flash, next, std::iter::empty(), Cause::Collection, Done::READY)?;
                // One that could not be read was made anew.
                if self.is_in(core, next, block) {
                    self.write(core, flash, next, Cause::Collection, read)?;
                }
            }
            // A program that failed may have begun to empty another block.
            if self.leaving == Some(Leaving { block, next }) {
                self.leaving = Some(Leaving { block, next: next + self.blocks.len() as u32 });
            }
        }
        Ok(())
    }

    /// Whether a translation page is in a block.
    fn is_in(&self, core: &Core, vtpn: u32, block: u32) -> bool {
        let ppn = self.vtpns[vtpn as usize].ppn;
        ppn != NONE && core.pool.place_of(Ppn(ppn)).0 == block
    }

    /// The LPNs of a translation page.
    fn lpns_of(&self, core: &Core, vtpn: u32) -> Range<u32> {
        let first = vtpn * self.span.get();
        first..(first + self.span.get()).min(core.layout().exported_pages)
    }

    /// Makes the content of a translation page: a bit for each LPN, and a place for each bit. Returns its
    /// length.
    fn fill(&mut self, core: &Core, vtpn: u32) -> usize {
        let Range { start: first, end } = self.lpns_of(core, vtpn);
        let (map, bytes) = (self.span.get() as usize / 8, place_bytes(core.layout()) as usize);
        self.buffer[..map].fill(0);
        let (mut at, mut from) = (map, first);
        while let Some(lpn) = bits::next(&self.in_log, from, end) {
            let Some(ppn) = core.log_page(Lpn(lpn)) else { panic!("LPN {lpn} is not in the log") };
            self.buffer[(lpn - first) as usize / 8] |= 1 << (lpn % 8);
            let place = &mut self.buffer[at..at + bytes];
            place.iter_mut().zip(ppn.0.to_le_bytes()).for_each(|(to, byte)| *to = byte);
            (at, from) = (at + bytes, lpn + 1);
        }
        at
    }

    /// Compares what a translation page says of some of its LPNs, in rising order, with the array of the
    /// simulator.
    fn compare(&self, core: &Core, page: &[u8], vtpn: u32, lpns: impl Iterator<Item = Lpn>) {
        let (first, bytes) = (vtpn * self.span.get(), place_bytes(core.layout()) as usize);
        let (map, places) = page.split_at(self.span.get() as usize / 8);
        // Places before those of this byte of the map.
        let (mut byte, mut before) = (0, 0);
        for lpn in lpns.filter(|&lpn| self.is_away(lpn)) {
            let (to, bit) = ((lpn.0 - first) as usize / 8, 1u8 << (lpn.0 % 8));
            before += map[byte..to].iter().map(|byte| byte.count_ones()).sum::<u32>();
            byte = to;
            let nth = before + (map[to] & (bit - 1)).count_ones();
            let mut place = [0; 4];
            let ppn = (map[to] & bit != 0).then(|| {
                place[..bytes].copy_from_slice(&places[nth as usize * bytes..][..bytes]);
                Ppn(u32::from_le_bytes(place))
            });
            assert!(ppn == core.log_page(lpn), "translation page {vtpn} has LPN {} at {ppn:?}", lpn.0);
        }
    }

    /// Checks the counts against the pages, and these against the array of the simulator.
    pub(super) fn check(&self, core: &Core) -> Result<(), Breach> {
        let mut rows = vec![Row::default(); self.rows.len()];
        for lpn in (0..core.layout().exported_pages).map(Lpn) {
            let (in_log, in_memory) = (bits::has(&self.in_log, lpn.0), bits::has(&self.in_memory, lpn.0));
            if in_log != core.log_page(lpn).is_some() || (in_memory && !in_log) {
                return Err(format!("the log map has LPN {} as {in_log}, {in_memory}", lpn.0).into());
            }
            let row = &mut rows[core.place(lpn).0 as usize];
            (row.pages, row.here) = (row.pages + u16::from(in_log), row.here + u16::from(in_memory));
        }
        if let Some(group) = (0..rows.len()).find(|&group| rows[group] != self.rows[group]) {
            return Err(format!(
                "group {group} has {:?}, and {:?} is counted",
                rows[group], self.rows[group]
            )
            .into());
        }
        if self.bytes > self.limit && self.here > 0 {
            return Err(format!("the rows of the log map take {} bytes of {}", self.bytes, self.limit).into());
        }
        Ok(())
    }
}
