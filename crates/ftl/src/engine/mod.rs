//! The one engine of FTLs that collect superblocks: with a [`Mapping`] it makes a [`Scheme`].
//!
//! The engine owns the way of a host's page to flash, room, collection, the trim journal, checkpoints,
//! recovery and the audit. What papers differ in are its parts: the [`Mapping`] with its [`Pages`] on flash,
//! the [`Placement`] of the host's pages, and what is read before its mapping is known ([`Predict`]).
//!
//! **Order of a host write.** The page is programmed as soon as it arrives, beside the mapping lookup, and is
//! acknowledged when both are done. The papers' models add the two times; but nothing in the program depends
//! on the old mapping, and NAND takes the pages of a block in order, so that a write which waits for its
//! mapping would hold up the writes behind it. On one die, as in the papers' models, both orders take the
//! same time.
//!
//! **Room.** Before each page operation there are at least `foreground_superblocks` free, which is enough for
//! all that one operation and one collection can write.

mod audit;
pub mod collector;
mod open;
mod placement;

pub use placement::{Copies, Gathering, HostStream, Known, Parts, Placement, Predict, Room};

use crate::breach::Breach;
use crate::checkpoint::{self, Journal};
use crate::counters::{Cause, Counters};
use crate::flash::{Content, Flash, Guessed};
use crate::mapping::{Ask, Change, How, Lookup, Mapping, Pages, Update};
use crate::scheme::{CachedPage, Coming, Config, Info, Memory, OpenError, Scheme};
use crate::space::Stream;
use crate::table::mapped;
use collector::Collector;
use nand::{Done, Lpn, Nand, Oob, Ppn, Result, Source, Vtpn};
use std::marker::PhantomData;
use std::ops::Range;

/// An FTL with mapping `M`, whose pages are placed by `P`, and read ahead of the mapping as `G` says.
#[derive(Clone, Debug)]
pub struct Ftl<M: Mapping, P: Placement<M> = HostStream, G = Known> {
    parts: Parts<M, P>,
    collector: Collector<P::Copies>,
    journal: Journal,
    /// With fewer free superblocks, a page operation waits for a collection to end.
    foreground: u32,
    /// With so many or fewer, writes carry collection along.
    background: u32,
    /// No collection begins before a page operation waits for it.
    foreground_only: bool,
    /// Pages read since reads carried a gathering on.
    reads: u32,
    exported_pages: u32,
    /// Pages of the array that are to be rewritten by now; below 0 where more were than had to be.
    due: i64,
    /// What is under way is moved to level the wear.
    is_leveling: bool,
    guess: PhantomData<G>,
}

/// Free superblocks that a gathering needs beside the reserve: two for its copies, because one may hold bad
/// blocks, and one for its mapping updates.
const FOR_A_GATHERING: u32 = 3;
/// Pages that the host reads for each step of a gathering that is due. Where it only reads, the gathering
/// would never come else; with four reads a step, it takes about half of the dies' time while it lasts.
pub(crate) const READS_A_STEP: u32 = 4;

// Room: collection in steps beside the host's requests, so that every page operation finds free superblocks.
impl<M: Mapping, P: Placement<M>, G: Predict<M>> Ftl<M, P, G> {
    /// Makes sure that the page operations that follow find room: `pages` pages that `writes` takes, which is
    /// what is left of a superblock at most; or one that reads.
    #[inline]
    pub(crate) fn make_room<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        writes: Option<Stream>,
        pages: u32,
    ) -> Result<()> {
        let enough = flash.free_superblocks() > self.background;
        if enough && !self.collector.is_active() && !self.is_gathering_due() && !flash.space.is_leveling_due()
        {
            return Ok(());
        }
        self.make_room_slowly(flash, writes, pages)
    }

    /// The part of [`Ftl::make_room`] in which something is done.
    ///
    /// On a full device only writes are refused: reads, whose lookups may write little, go on with the
    /// reserve.
    #[inline(never)]
    fn make_room_slowly<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        writes: Option<Stream>,
        pages: u32,
    ) -> Result<()> {
        if flash.is_worn() {
            // Nothing is collected any more: what there is left belongs to what has to be written yet.
            return Ok(());
        }
        let has_reserve = |flash: &Flash<N>| writes.is_none() && flash.free_superblocks() > 0;
        if flash.full && has_reserve(flash) {
            return Ok(());
        }
        if writes.is_some() && (self.collector.is_active() || self.start(flash)) {
            for _ in 0..self.pace(flash) * pages {
                self.step(flash)?;
            }
        }
        let mut collections = 0;
        while self.is_short(flash, writes) {
            let nothing = !self.collector.is_active() && !self.start_making_room(flash, true);
            collections += 1;
            if nothing || collections > 8 * flash.nand().geometry().superblocks() {
                let (free, needed) = (flash.free_superblocks(), self.needed(flash, writes));
                flash.full = true;
                return if has_reserve(flash) { Ok(()) } else { Err(flash.no_room(free, needed)) };
            }
            flash.counters.foreground_collections += 1;
            self.finish_collection(flash)?;
            if flash.is_worn() {
                return Ok(());
            }
        }
        flash.full = false;
        Ok(())
    }

    /// Steps beside each page that the host writes. Rewriting has a pace of its own, and levelling of wear
    /// that of the host, until room is wanted.
    fn pace<N: Nand>(&self, flash: &Flash<N>) -> u32 {
        let waits = self.collector.is_rewriting() && flash.free_superblocks() > self.background;
        match (waits, self.is_leveling) {
            (true, levels) => u32::from(levels),
            (false, _) => self.collector.pace::<M, P>(),
        }
    }

    /// A read of the host carries a gathering that is due along. Nothing else that makes room without writing
    /// data may do so: a checkpoint must not come between a page's copy and its commit, because recovery does
    /// not look at copies from before the checkpoint.
    #[inline]
    fn gather_beside_reads<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<()> {
        if !self.is_gathering_due() || flash.full || self.collector.is_rewriting() {
            return Ok(());
        }
        self.reads = (self.reads + 1) % READS_A_STEP;
        if self.reads == 0 && (self.collector.is_active() || self.start(flash)) {
            self.step(flash)?;
        }
        Ok(())
    }

    #[inline]
    fn is_gathering_due(&self) -> bool {
        self.parts.placement.is_gathering_due(&self.parts.mapping)
    }

    /// Whether the reserve would be touched by the next page operation.
    fn is_short<N: Nand>(&self, flash: &Flash<N>, writes: Option<Stream>) -> bool {
        flash.free_superblocks() < self.needed(flash, writes)
    }

    /// Free superblocks that the next page operation needs so that the reserve is not touched. A gathering
    /// holds it up further: the collection that may have to follow finds it whole.
    fn needed<N: Nand>(&self, flash: &Flash<N>, writes: Option<Stream>) -> u32 {
        let opens = u32::from(writes.is_some_and(|stream| flash.space.left(stream) == 0));
        let gathering = if self.collector.is_gathering() { FOR_A_GATHERING - 1 } else { 0 };
        self.foreground + gathering.max(opens * self.parts.placement.left_to_gather()) + opens
    }

    /// Starts what should be done beside the host's writes: a gathering that is due, or what makes room for
    /// it, or the collection of a superblock when few are free. `false`: nothing.
    fn start<N: Nand>(&mut self, flash: &mut Flash<N>) -> bool {
        let (free, due) = (flash.free_superblocks(), self.is_gathering_due());
        self.is_leveling = free > self.background && self.start_leveling(flash);
        if self.is_leveling {
            return true;
        }
        if due && free >= self.foreground + FOR_A_GATHERING {
            if let Some(gathering) = self.parts.placement.gather(&mut self.parts.mapping, flash) {
                self.collector.gather(gathering);
                return true;
            }
        }
        let is_low = free <= self.background && !self.foreground_only;
        (is_low || self.is_gathering_due()) && self.start_making_room(flash, false)
    }

    /// Starts what makes room, for a write that `waits` for it or beside those that do not. `false`: nothing
    /// does.
    fn start_making_room<N: Nand>(&mut self, flash: &mut Flash<N>, waits: bool) -> bool {
        let may_gather = flash.free_superblocks() >= self.foreground + FOR_A_GATHERING;
        let Parts { mapping, placement, .. } = &mut self.parts;
        match placement.make_room(mapping, flash, may_gather) {
            Room::Emptiest if waits => return self.collector.start_for_room(flash),
            Room::Emptiest => return self.collector.start(flash),
            Room::This(superblock) => self.collector.start_with(flash, superblock),
            Room::Gather(gathering) => self.collector.gather(gathering),
        }
        true
    }

    /// Starts moving what lags behind in wear, if that is due and the copies get a superblock of their own:
    /// beside pages that collection moves, which die soon, what lies for long would be moved again and again.
    fn start_leveling<N: Nand>(&mut self, flash: &mut Flash<N>) -> bool {
        let little = flash.nand().geometry().superblock_pages() / 16;
        if !flash.space.is_leveling_due() || flash.space.left(Stream::COLLECTION) > little {
            return false;
        }
        flash.space.close(Stream::COLLECTION);
        flash.space.levels();
        self.collector.start_rewriting(flash)
    }

    /// Starts rewriting what has lain longest. `false`: there is nothing.
    fn start_rewriting<N: Nand>(&mut self, flash: &mut Flash<N>) -> bool {
        if flash.free_superblocks() >= self.foreground + FOR_A_GATHERING {
            if let Some(gathering) = self.parts.placement.rewrite(&mut self.parts.mapping, flash) {
                // All LPNs together stand for the array.
                let pages = i64::from(flash.nand().geometry().pages());
                self.due -= i64::from(gathering.lpns) * pages / i64::from(self.exported_pages);
                self.collector.gather(gathering);
                return true;
            }
        }
        let begins = self.collector.start_rewriting(flash);
        self.due -= if begins { flash.nand().geometry().superblock_pages().into() } else { 0 };
        begins
    }

    #[inline]
    fn step<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<()> {
        self.collector.step(flash, &mut self.parts, &mut self.journal)
    }

    /// Ends the collection under way, if any.
    fn finish_collection<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<()> {
        while self.collector.is_active() {
            self.step(flash)?;
        }
        Ok(())
    }

    /// A step for each parallel unit.
    fn step_in_each_unit<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done> {
        for _ in 0..flash.nand().geometry().units() {
            self.step(flash)?;
        }
        Ok(flash.settle())
    }

    /// Makes every mapping on flash current, then writes a checkpoint: what was written before is not
    /// searched by recovery, and the trim journal starts anew.
    fn checkpoint<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done> {
        self.finish_collection(flash)?;
        let mut done = Done::READY;
        loop {
            self.make_room(flash, None, 1)?;
            match self.parts.mapping.clean_one(flash, &mut self.parts.pages)? {
                Some(cleaned) => done = flash.join(done, cleaned),
                None => break,
            }
        }
        checkpoint::write(flash, self.parts.pages.words(), &mut self.journal, done)
    }
}

// What is the same for every mapping; each method is that of [`Scheme`].
impl<M: Mapping, P: Placement<M>, G: Predict<M>> Ftl<M, P, G> {
    #[inline]
    pub(crate) fn read<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<(Option<Oob>, Done)> {
        if flash.is_worn() {
            return self.read_worn(flash, lpn, at);
        }
        let room = self.gather_beside_reads(flash).and_then(|()| self.make_room(flash, None, 1));
        if let Err(fault) = room {
            // The end of life may be found by a read, which goes on all the same.
            return if flash.is_worn() { self.read_worn(flash, lpn, at) } else { Err(fault) };
        }
        let mut at = at;
        // While pages are copied there may be an older copy of `lpn` that counts as valid until it is
        // committed.
        let ask = Ask { lpn, rest, at };
        let guess =
            if self.collector.is_active() { None } else { G::guess(&mut self.parts.mapping, flash, ask) };
        if let Some((ppn, thought)) = guess {
            match flash.read_guess(ppn, lpn, thought)? {
                Guessed::Right(oob, done) => {
                    flash.counters.lookups += 1;
                    flash.counters.model_hits += 1;
                    return Ok((Some(oob), done));
                }
                Guessed::Wrong(done) => at = done,
                Guessed::Lost(fault) => return Err(fault),
            }
        }
        flash.counters.lookups += 1;
        let found = self.parts.mapping.lookup(flash, &mut self.parts.pages, Ask { lpn, rest, at })?;
        count_cached(&mut flash.counters, found.how, 1);
        let Some(ppn) = found.ppn else { return Ok((None, found.done)) };
        if !found.exact {
            return self.read_near(flash, lpn, found, ppn);
        }
        let (oob, done) = flash.read_data(ppn, lpn, Cause::Host, found.done)?;
        flash.counters.model_hits += u64::from(found.how == How::Predicted);
        Ok((Some(oob), done))
    }

    /// Reads a page of a device at the end of its life. A lookup may have to write what it evicts, and there
    /// may be no room for that: so nothing is cached, and each read pays for the page of its mapping on
    /// flash.
    #[cold]
    fn read_worn<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        at: Done,
    ) -> Result<(Option<Oob>, Done)> {
        flash.counters.lookups += 1;
        let mut found = None;
        self.parts.each_entry(flash, lpn, 1, |_, entry| found = mapped(entry));
        let (unit, _) = self.parts.pages.units().place(lpn);
        let at = self.parts.pages.read_unit(flash, unit, at)?;
        let Some(ppn) = found else { return Ok((None, at)) };
        let (oob, done) = flash.read_data(ppn, lpn, Cause::Host, at)?;
        Ok((Some(oob), done))
    }

    /// Reads a page whose place is known only about.
    fn read_near<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        found: Lookup,
        near: Ppn,
    ) -> Result<(Option<Oob>, Done)> {
        match flash.read_guess(near, lpn, found.done)? {
            Guessed::Right(oob, done) => {
                flash.counters.model_hits += u64::from(found.how == How::Predicted);
                Ok((Some(oob), done))
            }
            Guessed::Wrong(done) => {
                let Some(there) = G::corrected(&self.parts.mapping, flash, near, lpn) else {
                    panic!(
                        "LPN {} was predicted at PPN {}, which does not tell where it is: {:?}",
                        lpn.0,
                        near.0,
                        flash.spare()
                    )
                };
                let (oob, done) = flash.read_data(there, lpn, Cause::Host, done)?;
                Ok((Some(oob), done))
            }
            Guessed::Lost(fault) => Err(fault),
        }
    }

    /// Trims unit by unit, each by `trim`.
    pub(crate) fn trim_units<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        first: Lpn,
        pages: u32,
        at: Done,
        trim: impl Fn(&mut Parts<M, P>, &mut Flash<N>, Vtpn, Range<u32>, Done) -> Result<Done>,
    ) -> Result<Done> {
        if pages == 0 {
            return Ok(at);
        }
        let as_one = M::Pages::ONE_RECORD_A_TRIM;
        let mut is_full = self.journal.is_nearly_full(flash);
        if as_one || is_full {
            self.make_room(flash, Some(Stream::HOST), 1)?;
            is_full = !as_one || self.journal.is_nearly_full(flash);
        }
        if is_full {
            self.checkpoint(flash)?;
        }
        if as_one {
            // Recorded first: collection, which may run in between, makes it durable before it erases
            // anything.
            self.journal.trimmed(flash, first, pages)?;
        }
        let units = self.parts.pages.units();
        let mut done = at;
        let (mut lpn, end) = (first.0, first.0 + pages);
        while lpn < end {
            self.make_room(flash, Some(Stream::HOST), 1)?;
            let (unit, slot) = units.place(Lpn(lpn));
            let count = (end - lpn).min(units.lpns_in(unit) - slot);
            let trimmed = trim(&mut self.parts, flash, unit, slot..slot + count, at)?;
            if !as_one {
                self.journal.trimmed(flash, Lpn(lpn), count)?;
            }
            done = flash.join(done, trimmed);
            lpn += count;
        }
        Ok(done)
    }

    pub(crate) fn flush<N: Nand>(&mut self, flash: &mut Flash<N>, at: Done) -> Result<Done> {
        self.make_room(flash, Some(Stream::HOST), 1)?;
        self.journal.write_pending(flash)?;
        let settled = flash.settle();
        Ok(flash.join(settled, at))
    }

    pub(crate) fn save<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<()> {
        self.journal.write_pending(flash)
    }

    pub(crate) fn idle<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>> {
        if !self.collector.is_active() && !self.start(flash) {
            return self.tidy(flash);
        }
        self.step_in_each_unit(flash).map(Some)
    }

    /// Has the mapping use a moment in which nobody asks for anything, where there is room for its writes.
    fn tidy<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>> {
        if flash.full || flash.is_worn() || self.is_short(flash, None) {
            return Ok(None);
        }
        self.parts.mapping.tidy(flash, &mut self.parts.pages)
    }

    /// But first ends what is under way, and makes room. Something begins when as many pages are due as a
    /// superblock has: idle moments and writes carry it on faster than calls come.
    pub(crate) fn rewrite<N: Nand>(&mut self, flash: &mut Flash<N>, due: u32) -> Result<Option<Done>> {
        let geometry = flash.nand().geometry();
        self.due = (self.due + i64::from(due)).min(geometry.pages().into());
        let is_due = self.due >= i64::from(geometry.superblock_pages());
        let room = is_due && flash.free_superblocks() > self.background;
        let busy = self.collector.is_active() || self.start(flash) || room && self.start_rewriting(flash);
        if !busy {
            return Ok(None);
        }
        self.step_in_each_unit(flash).map(Some)
    }

    pub(crate) fn power_off<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done> {
        self.make_room(flash, Some(Stream::HOST), 1)?;
        let done = self.checkpoint(flash)?;
        match self.parts.mapping.learned() {
            Some(learned) => checkpoint::write_models(flash, &mut self.journal, &learned, done),
            None => Ok(done),
        }
    }

    /// Calls `each` for every mapped LPN among `pages` from `first` on, in ascending order, free of charge.
    pub(crate) fn mapped_in<N: Nand>(
        &self,
        flash: &Flash<N>,
        first: Lpn,
        pages: u32,
        each: &mut dyn FnMut(Lpn, Ppn),
    ) {
        self.parts.each_entry(flash, first, pages, |lpn, entry| {
            if let Some(ppn) = mapped(entry) {
                each(lpn, ppn);
            }
        });
    }

    pub(crate) fn memory(&self) -> Memory {
        let mut memory = self.parts.mapping.memory(&self.parts.pages);
        memory.parts.splice(0..0, self.parts.pages.memory());
        self.parts.placement.add_memory(&mut memory);
        memory
    }

    /// What the engine works on.
    pub(crate) fn parts(&self) -> &Parts<M, P> {
        &self.parts
    }

    /// The same, to be changed.
    pub(crate) fn parts_mut(&mut self) -> &mut Parts<M, P> {
        &mut self.parts
    }
}

/// Counts `pages` lookups or updates that were answered from memory, if they were.
#[inline]
fn count_cached(counters: &mut Counters, how: How, pages: u64) {
    counters.cmt_hits += if how == How::CachedEntry { pages } else { 0 };
    counters.page_hits += if how == How::CachedPage { pages } else { 0 };
}

/// Counts updates of `pages` pages whose old places were found out so.
#[inline]
pub(crate) fn count_updates(counters: &mut Counters, how: How, pages: u64) {
    counters.lookups += pages;
    count_cached(counters, how, pages);
    counters.model_updates += if how == How::Predicted { pages } else { 0 };
}

impl<M: Update, P: Placement<M>, G: Predict<M>> Ftl<M, P, G> {
    /// Unmaps the LPNs at `slots` of a unit: a few one by one, as a write does it.
    fn trim_unit<N: Nand>(
        parts: &mut Parts<M, P>,
        flash: &mut Flash<N>,
        unit: Vtpn,
        slots: Range<u32>,
        at: Done,
    ) -> Result<Done> {
        let Parts { mapping, pages, .. } = parts;
        if slots.len() as u32 > M::TRIM_BY_ENTRY {
            return mapping.trim(flash, pages, unit, slots, at);
        }
        let first = pages.units().first_lpn(unit).0;
        let mut done = at;
        for lpn in slots.map(|slot| Lpn(first + slot)) {
            let old = mapping.update(flash, pages, Change { lpn, rest: 1, ppn: None, programmed: at, at })?;
            count_updates(&mut flash.counters, old.how, 1);
            if let Some(old) = old.ppn {
                flash.invalidate(old);
            }
            done = flash.join(done, old.done);
        }
        Ok(done)
    }
}

impl<M: Update, P: Placement<M>, G: Predict<M>> Scheme for Ftl<M, P, G> {
    const INFO: Info = M::INFO;
    const REWRITES: bool = true;

    fn open<N: Nand>(flash: &mut Flash<N>, config: &Config) -> Result<Self, OpenError> {
        Ftl::take_over(flash, config)
    }

    #[inline]
    fn read<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<(Option<Oob>, Done)> {
        self.read(flash, lpn, rest, at)
    }

    #[inline]
    fn write<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn, rest: u32, at: Done) -> Result<Done> {
        let Parts { placement, mapping, .. } = &mut self.parts;
        let stream = placement.stream(mapping, flash, lpn, rest);
        self.make_room(flash, Some(stream), 1)?;
        let Parts { placement, mapping, pages } = &mut self.parts;
        let content = Content::version(flash.next_version());
        let (from, cause) = (Source::Host, Cause::Host);
        let (ppn, programmed) = placement.program(mapping, flash, stream, lpn, content, from, cause, at)?;
        let old = match mapping.update(flash, pages, Change { lpn, rest, ppn: Some(ppn), programmed, at }) {
            Ok(old) => old,
            Err(fault) => {
                flash.invalidate(ppn);
                return Err(fault);
            }
        };
        count_updates(&mut flash.counters, old.how, 1);
        if let Some(old) = old.ppn {
            flash.invalidate(old);
        }
        Ok(flash.join(programmed, old.done))
    }

    fn trim<N: Nand>(&mut self, flash: &mut Flash<N>, first: Lpn, pages: u32, at: Done) -> Result<Done> {
        self.trim_units(flash, first, pages, at, Self::trim_unit)
    }

    fn flush<N: Nand>(&mut self, flash: &mut Flash<N>, at: Done) -> Result<Done> {
        self.flush(flash, at)
    }

    fn idle<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>> {
        self.idle(flash)
    }

    fn rewrite<N: Nand>(&mut self, flash: &mut Flash<N>, due: u32) -> Result<Option<Done>> {
        self.rewrite(flash, due)
    }

    fn power_off<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done> {
        self.power_off(flash)
    }

    fn save<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<()> {
        self.save(flash)
    }

    fn mapping<N: Nand>(&self, flash: &Flash<N>, each: &mut dyn FnMut(Lpn, Ppn)) {
        self.mapped_in(flash, Lpn(0), self.parts.pages.units().lpns(), each);
    }

    fn mapped_in<N: Nand>(&self, flash: &Flash<N>, first: Lpn, pages: u32, each: &mut dyn FnMut(Lpn, Ppn)) {
        self.mapped_in(flash, first, pages, each);
    }

    fn check<N: Nand>(&self, flash: &Flash<N>) -> Result<(), Breach> {
        self.check(flash)
    }

    fn memory(&self) -> Memory {
        self.memory()
    }

    fn cached(&self, each: &mut dyn FnMut(CachedPage)) {
        self.parts.mapping.cached(&self.parts.pages, each);
    }

    #[inline]
    fn expect<N: Nand>(&self, flash: &Flash<N>, lpn: Lpn, coming: Coming) {
        self.parts.mapping.expect(flash, &self.parts.pages, lpn, coming);
    }
}
