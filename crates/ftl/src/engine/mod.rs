//! Page-level FTLs: any [`Mapping`] with collection, trim journal, checkpoints and recovery makes a [`Scheme`].
//!
//! **Order of a host write.** The page is programmed as soon as it arrives, beside the mapping lookup, and is
//! acknowledged when both are done. The papers' models add the two times; but nothing in the program depends on the old
//! mapping, and NAND takes the pages of a block in order, so that a write which waits for its mapping would hold up
//! the writes behind it. On one die, as in the papers' models, both orders take the same time.
//!
//! **Room.** Before each page operation there are at least `foreground_superblocks` free, which is enough for all that
//! one operation and one collection can write.

pub(crate) mod audit;
pub mod collector;
pub(crate) mod room;
pub(crate) mod victim;

use crate::checkpoint::{self, Journal};
use crate::cmt::census::CachedPage;
use crate::counters::Cause;
use crate::flash::{Content, Flash, Guessed};
use crate::recover;
use crate::scheme::{Breach, Config, ConfigError, Info, Memory, OpenError, Scheme};
use crate::space::Stream;
use crate::table::{self, Table};
use audit::Audit;
use collector::{Collector, Gathering};
use nand::{Done, Fault, Geometry, Lpn, Nand, Oob, PageKind, Ppn, Source, Vtpn};
use room::{KeepsRoom, Thresholds};
use std::ops::Range;
use victim::{Collects, Victim};

/// A page that collection has copied.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Whose data it holds.
    pub lpn: Lpn,
    /// The LPN's place in its translation page.
    pub slot: u32,
    /// Where it was.
    pub from: Ppn,
    /// Where the copy is.
    pub to: Ppn,
    /// When the copy is programmed.
    pub done: Done,
}

/// What differs between page-level papers: how LPNs are turned into PPNs with a memory of `Config::cache_bytes`.
///
/// The mapping keeps the truth: what it holds in memory goes before what [`Table`] holds on flash.
pub trait Mapping: Sized + Clone + Send + 'static {
    /// Name, paper, parameters.
    const INFO: Info;

    /// Translation pages of the mapping's own beside the table's ([`Table::add_further_pages`]).
    fn further_pages(_table: &Table, _config: &Config) -> u32 {
        0
    }

    /// An empty cache over `table`, within `config.cache_bytes`, directory included.
    fn new(table: &Table, geometry: &Geometry, config: &Config) -> Result<Self, ConfigError>;

    /// What was learned and is worth keeping over an orderly power-off; `None` for nothing.
    fn learned(&self) -> Option<Vec<u8>> {
        None
    }

    /// Offers what [`Mapping::learned`] gave before, if nothing was written, moved or trimmed since. Comes before the first
    /// [`Mapping::restore`].
    fn relearn(&mut self, _learned: &[u8]) {}

    /// Offers the mappings of one translation page as recovery found them ([`table::UNMAPPED`] for none); `changed`
    /// when they are newer than on flash. Returns whether the mapping keeps them: else what changed is written to flash.
    fn restore(&mut self, _table: &Table, _vtpn: Vtpn, _entries: &[u32], _changed: bool) -> bool {
        false
    }

    /// The array is taken over and recovery has offered every translation page: time for streams of the mapping's own.
    /// `spare_superblocks` hold neither what the host sees, nor its mapping, nor the collection reserve.
    fn opened<N: Nand>(
        &mut self,
        _flash: &mut Flash<N>,
        _table: &Table,
        _spare_superblocks: u32,
    ) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Superblocks that collection keeps free beyond its threshold, for streams of the mapping's own.
    fn spare_wanted(&self) -> u32 {
        0
    }

    /// The stream that the host's next version of `lpn`, the first of `rest` pages of a request, is written to.
    #[inline]
    fn stream<N: Nand>(&mut self, _flash: &mut Flash<N>, _lpn: Lpn, _rest: u32) -> Stream {
        Stream::HOST
    }

    /// Whether [`Mapping::gather`] should be asked.
    #[inline]
    fn is_gathering_due(&self) -> bool {
        false
    }

    /// Pages that ought to be brought together now, if any. There is room for them.
    fn gather<N: Nand>(&mut self, _flash: &mut Flash<N>) -> Option<Gathering> {
        None
    }

    /// Pages to rewrite together because they have lain long, where the mapping gains by their order. Else superblocks are
    /// rewritten as they are.
    fn rewrite<N: Nand>(&mut self, _flash: &mut Flash<N>) -> Option<Gathering> {
        None
    }

    /// The last gathering is complete.
    fn gathered(&mut self) {}

    /// A page at which `lpn` may be, to be read before its mapping is known, and when that is thought.
    #[inline]
    fn guess<N: Nand>(&mut self, _flash: &mut Flash<N>, _lpn: Lpn, _at: Done) -> Option<(Ppn, Done)> {
        None
    }

    /// Where `lpn` is, and when that is known.
    fn lookup<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<(Option<Ppn>, Done), Fault>;

    /// Sets where `lpn` is and returns where it was, and when the change is made. `programmed` is the completion of the
    /// page's program: no mapping may reach flash before it.
    #[allow(clippy::too_many_arguments)]
    fn update<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        lpn: Lpn,
        rest: u32,
        ppn: Option<Ppn>,
        programmed: Done,
        at: Done,
    ) -> Result<(Option<Ppn>, Done), Fault>;

    /// Sets where the pages `moves`, all of translation page `vtpn`, are now. Completes when the change is as durable
    /// as the mapping makes it; the originals are erased after that.
    fn moved<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        moves: &[Moved],
    ) -> Result<Done, Fault>;

    /// Pages of one translation page up to which a trim goes through [`Mapping::update`], page by page, as a write does. A
    /// longer one changes the translation page itself ([`Mapping::trim`]): loading each entry would read the same page
    /// many times.
    const TRIM_BY_ENTRY: u32 = 8;

    /// Unmaps the LPNs at `slots` of translation page `vtpn`, and invalidates their pages.
    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        slots: Range<u32>,
        at: Done,
    ) -> Result<Done, Fault>;

    /// Writes one translation page for which memory holds newer mappings; `None` when there is no such page left.
    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table) -> Result<Option<Done>, Fault>;

    /// As [`Scheme::expect`].
    fn expect<N: Nand>(&self, flash: &Flash<N>, table: &Table, lpn: Lpn, soon: bool);

    /// What memory holds of `lpn`, if anything.
    fn held(&self, table: &Table, lpn: Lpn) -> Option<Option<Ppn>>;

    /// What a further page on flash says of `lpn`, if one goes before the table, read free of charge: for invariants and
    /// the checker alone.
    fn on_further_page<N: Nand>(&self, _flash: &Flash<N>, _table: &Table, _lpn: Lpn) -> Option<Option<Ppn>> {
        None
    }

    /// Bytes in use by structure, without the directory.
    fn memory(&self, table: &Table) -> Memory;

    /// Calls `each` for every LPN whose entry in the table leads to a page that is superseded but not invalidated yet,
    /// because the mapping did not look where it was.
    fn owed(&self, _each: &mut dyn FnMut(Lpn)) {}

    /// Calls `each` for every translation page of which mappings are in memory. A mapping that does not cache on demand
    /// has nothing to tell.
    fn cached(&self, _table: &Table, _each: &mut dyn FnMut(CachedPage)) {}

    /// Checks the structures against each other.
    fn check(&self, table: &Table) -> Result<(), String>;

    /// Checks what memory says of `lpn` against where it is.
    fn check_lpn(&self, _lpn: Lpn, _ppn: Option<Ppn>) -> Result<(), String> {
        Ok(())
    }
}

/// A page-level FTL with mapping `M`.
#[derive(Clone, Debug)]
pub struct PageLevel<M> {
    mapping: M,
    table: Table,
    collector: Collector,
    journal: Journal,
    thresholds: Thresholds,
}

impl<M: Mapping> PageLevel<M> {
    /// Unmaps the LPNs at `slots` of a translation page one by one, and invalidates their pages.
    fn trim_by_entry<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        vtpn: Vtpn,
        slots: Range<u32>,
        at: Done,
    ) -> Result<Done, Fault> {
        let first = self.table.first_lpn(vtpn).0;
        let mut done = at;
        for slot in slots {
            let lpn = Lpn(first + slot);
            let (old, known) = self.mapping.update(flash, &mut self.table, lpn, 1, None, at, at)?;
            if let Some(old) = old {
                flash.invalidate(old);
            }
            done = flash.join(done, known);
        }
        Ok(done)
    }

    /// The mapping, for tests.
    #[cfg(test)]
    pub(crate) fn mapping_structure(&self) -> &M {
        &self.mapping
    }

    /// The mapping, for tests that damage it.
    #[cfg(test)]
    pub(crate) fn mapping_structure_mut(&mut self) -> &mut M {
        &mut self.mapping
    }

    /// Calls `each` for `pages` LPNs from `first` on, in ascending order, free of charge.
    fn each_lpn<N: Nand>(
        &self,
        flash: &Flash<N>,
        first: Lpn,
        pages: u32,
        each: &mut dyn FnMut(Lpn, Option<Ppn>),
    ) {
        let mut content = Vec::new();
        let (mut lpn, end) = (first.0, first.0 + pages);
        while lpn < end {
            let (vtpn, from) = self.table.place(Lpn(lpn));
            self.table.inspect(flash, vtpn, &mut content);
            let first = self.table.first_lpn(vtpn).0;
            lpn = end.min(first + self.table.lpns_in(vtpn));
            for slot in from..lpn - first {
                let lpn = Lpn(first + slot);
                let held = self.mapping.held(&self.table, lpn);
                let held = held.or_else(|| self.mapping.on_further_page(flash, &self.table, lpn));
                each(lpn, held.unwrap_or(table::mapped(table::entry_in(&content, slot))));
            }
        }
    }

    /// Makes every mapping on flash current, then writes a checkpoint: what was written before is not searched by
    /// recovery, and the trim journal starts anew.
    fn checkpoint<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault> {
        let done = self.clean_all(flash)?;
        let written = checkpoint::write(flash, &self.table, &mut self.journal, done)?;
        Ok(written)
    }
}

impl<M: Mapping> KeepsRoom for PageLevel<M> {
    type Collector = Collector;

    #[inline]
    fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    #[inline]
    fn collector(&self) -> &Collector {
        &self.collector
    }

    fn collector_mut(&mut self) -> &mut Collector {
        &mut self.collector
    }

    fn start_rewriting<N: Nand>(&mut self, flash: &mut Flash<N>) -> bool {
        if flash.free_superblocks() >= self.thresholds.foreground + FOR_A_GATHERING {
            if let Some(gathering) = self.mapping.rewrite(flash) {
                self.collector.gather(gathering);
                return true;
            }
        }
        self.collector.start_with(Victim::oldest(flash))
    }

    #[inline]
    fn step<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<(), Fault> {
        self.collector.step(flash, &mut self.table, &mut self.mapping, &mut self.journal)
    }

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        self.mapping.clean_one(flash, &mut self.table)
    }

    #[inline]
    fn is_due(&self) -> bool {
        self.mapping.is_gathering_due()
    }

    /// A gathering that is due, or what makes room for it, or the collection of a superblock when few are free.
    fn start<N: Nand>(&mut self, flash: &mut Flash<N>) -> bool {
        let free = flash.free_superblocks();
        if self.is_due() && free >= self.thresholds.foreground + FOR_A_GATHERING {
            if let Some(gathering) = self.mapping.gather(flash) {
                self.collector.gather(gathering);
                return true;
            }
        }
        (free <= self.thresholds.background || self.is_due()) && self.collector.start(flash)
    }

    /// A gathering holds the reserve up further: the collection that may have to follow finds it whole.
    fn held(&self) -> u32 {
        if self.collector.is_gathering() {
            FOR_A_GATHERING - 1
        } else {
            0
        }
    }
}

impl<M: Mapping> Scheme for PageLevel<M> {
    const INFO: Info = M::INFO;
    const REWRITES: bool = true;

    fn open<N: Nand>(flash: &mut Flash<N>, config: &Config) -> Result<Self, OpenError> {
        config.check_parameters(&M::INFO)?;
        let geometry = flash.nand().geometry().clone();
        let mut table = Table::new(config.exported_pages, geometry.page_bytes);
        table.add_further_pages(M::further_pages(&table, config));
        let spare_superblocks = check_room(flash, table.pages() + table.further_pages(), config)?;
        let mut mapping = M::new(&table, &geometry, config)?;
        let mut journal = Journal::new(geometry.page_bytes);
        recover::recover(flash, &mut table, &mut journal, &mut mapping)?;
        mapping.opened(flash, &table, spare_superblocks)?;
        let collector = Collector::new(config.victims, geometry.superblock_pages(), &table);
        flash.keep_reserve(config.foreground_superblocks);
        let mut thresholds = Thresholds::new(config);
        thresholds.background += mapping.spare_wanted();
        Ok(PageLevel { mapping, table, collector, journal, thresholds })
    }

    #[inline]
    fn read<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<(Option<Oob>, Done), Fault> {
        self.make_room(flash, None)?;
        let mut at = at;
        // While pages are copied there may be an older copy of `lpn` that counts as valid until it is committed.
        let guess = if self.collector.is_active() { None } else { self.mapping.guess(flash, lpn, at) };
        if let Some((guess, thought)) = guess {
            match flash.read_guess(guess, lpn, thought)? {
                Guessed::Right(oob, done) => {
                    flash.counters.lookups += 1;
                    flash.counters.model_hits += 1;
                    return Ok((Some(oob), done));
                }
                Guessed::Wrong(done) => at = done,
                Guessed::Lost(fault) => return Err(fault),
            }
        }
        let (ppn, at) = self.mapping.lookup(flash, &mut self.table, lpn, rest, at)?;
        match ppn {
            Some(ppn) => {
                let (oob, done) = flash.read_data(ppn, lpn, Cause::Host, at)?;
                Ok((Some(oob), done))
            }
            None => Ok((None, at)),
        }
    }

    #[inline]
    fn write<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn, rest: u32, at: Done) -> Result<Done, Fault> {
        let stream = self.mapping.stream(flash, lpn, rest);
        self.make_room(flash, Some(stream))?;
        let content = Content::version(flash.next_version());
        let (ppn, programmed) =
            flash.program(stream, PageKind::Data, lpn.0, content, Source::Host, Cause::Host, at)?;
        let updated = self.mapping.update(flash, &mut self.table, lpn, rest, Some(ppn), programmed, at);
        let (old, known) = match updated {
            Ok(updated) => updated,
            Err(fault) => {
                flash.invalidate(ppn);
                return Err(fault);
            }
        };
        if let Some(old) = old {
            flash.invalidate(old);
        }
        Ok(flash.join(programmed, known))
    }

    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        first: Lpn,
        pages: u32,
        at: Done,
    ) -> Result<Done, Fault> {
        if self.journal.is_nearly_full(flash) {
            self.make_room(flash, Some(Stream::HOST))?;
            self.checkpoint(flash)?;
        }
        let mut done = at;
        let (mut lpn, end) = (first.0, first.0 + pages);
        while lpn < end {
            self.make_room(flash, Some(Stream::HOST))?;
            let (vtpn, slot) = self.table.place(Lpn(lpn));
            let count = (end - lpn).min(self.table.lpns_in(vtpn) - slot);
            let slots = slot..slot + count;
            let trimmed = if count <= M::TRIM_BY_ENTRY {
                self.trim_by_entry(flash, vtpn, slots, at)?
            } else {
                self.mapping.trim(flash, &mut self.table, vtpn, slots, at)?
            };
            self.journal.trimmed(flash, Lpn(lpn), count)?;
            done = flash.join(done, trimmed);
            lpn += count;
        }
        Ok(done)
    }

    fn flush<N: Nand>(&mut self, flash: &mut Flash<N>, at: Done) -> Result<Done, Fault> {
        self.make_room(flash, Some(Stream::HOST))?;
        self.journal.write_pending(flash)?;
        let settled = flash.settle();
        Ok(flash.join(settled, at))
    }

    fn idle<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        self.use_pause(flash)
    }

    fn rewrite<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        self.rewrite_some(flash)
    }

    fn power_off<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault> {
        self.make_room(flash, Some(Stream::HOST))?;
        let done = self.checkpoint(flash)?;
        match self.mapping.learned() {
            Some(learned) => checkpoint::write_models(flash, &mut self.journal, &learned, done),
            None => Ok(done),
        }
    }

    fn mapping<N: Nand>(&self, flash: &Flash<N>, each: &mut dyn FnMut(Lpn, Ppn)) {
        self.mapped_in(flash, Lpn(0), self.table.exported_pages(), each);
    }

    fn mapped_in<N: Nand>(&self, flash: &Flash<N>, first: Lpn, pages: u32, each: &mut dyn FnMut(Lpn, Ppn)) {
        self.each_lpn(flash, first, pages, &mut |lpn, ppn| {
            if let Some(ppn) = ppn {
                each(lpn, ppn);
            }
        });
    }

    fn check<N: Nand>(&self, flash: &Flash<N>) -> Result<(), Breach> {
        flash.space.check()?;
        self.mapping.check(&self.table)?;
        let mut audit = Audit::new(flash);
        self.each_lpn(flash, Lpn(0), self.table.exported_pages(), &mut |lpn, ppn| {
            if let Err(wrong) = self.mapping.check_lpn(lpn, ppn) {
                audit.breach(wrong);
            }
            if let Some(ppn) = ppn {
                audit.mapped(lpn, ppn);
            }
        });
        let mut content = Vec::new();
        self.mapping.owed(&mut |lpn| {
            let (vtpn, slot) = self.table.place(lpn);
            self.table.inspect(flash, vtpn, &mut content);
            if let Some(ppn) = table::mapped(table::entry_in(&content, slot)) {
                audit.owed(lpn, ppn);
            }
        });
        self.collector.moves().iter().for_each(|moved| audit.moved(moved.to));
        let vtpns = 0..self.table.pages() + self.table.further_pages();
        Ok(audit.finish(vtpns.filter_map(|vtpn| self.table.page(Vtpn(vtpn))))?)
    }

    #[inline]
    fn expect<N: Nand>(&self, flash: &Flash<N>, lpn: Lpn, soon: bool) {
        self.mapping.expect(flash, &self.table, lpn, soon);
    }

    fn cached(&self, each: &mut dyn FnMut(CachedPage)) {
        self.mapping.cached(&self.table, each);
    }

    fn memory(&self) -> Memory {
        let mut memory = self.mapping.memory(&self.table);
        memory.parts.insert(0, ("directory (GTD)", self.table.directory_bytes()));
        memory
    }
}

/// Superblocks beside the free ones that hold less than they could: one that each of the four streams writes, a second
/// metadata superblock while a checkpoint replaces another, and one that a power cut left half written.
const BESIDE_THE_RESERVE: u32 = 6;

/// Free superblocks that a gathering needs beside the reserve: two for its copies, because one may hold bad blocks, and one
/// for its mapping updates.
const FOR_A_GATHERING: u32 = 3;

/// Refuses a configuration in which collection could run out of room beside a mapping table of up to `table_pages`
/// translation pages. Returns the superblocks that are left over.
pub(crate) fn check_room<N: Nand>(
    flash: &Flash<N>,
    table_pages: u32,
    config: &Config,
) -> Result<u32, ConfigError> {
    if config.foreground_superblocks < 3 || config.background_superblocks < config.foreground_superblocks {
        return Err(ConfigError(format!(
            "collection thresholds: foreground {} and background {} superblocks; foreground must be at least 3 and \
             background at least foreground",
            config.foreground_superblocks, config.background_superblocks
        )));
    }
    let geometry = flash.nand().geometry();
    let superblock = u64::from(geometry.superblock_pages());
    let reserve = u64::from(config.foreground_superblocks + BESIDE_THE_RESERVE) * superblock;
    let needed = u64::from(config.exported_pages) + u64::from(table_pages) + reserve;
    let usable = flash.space.usable_pages();
    if config.exported_pages == 0 || needed > usable {
        return Err(ConfigError(format!(
            "over-provisioning: {} pages are exported, {} hold the mapping table and {} are needed for collection, of \
             {} usable; export from 1 to about {} pages",
            config.exported_pages,
            table_pages,
            reserve,
            usable,
            (usable - reserve.min(usable)).saturating_sub(u64::from(table_pages))
        )));
    }
    Ok(((usable - needed) / superblock) as u32)
}
