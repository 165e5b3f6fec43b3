//! LazyFTL: Ma, Feng, Li, "LazyFTL: A Page-level Flash Translation Layer Optimized for NAND Flash Memory",
//! SIGMOD 2011.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | update and cold block area (UBA, CBA): what host and collection wrote last | [`Areas`] | `areas` |
//! | current update block, current cold block | `Areas::current` | `areas` |
//! | data block area (DBA), mapping block area (MBA) | all other blocks; translation pages | `space` |
//! | update mapping table (UMT): that of UBA and CBA | [`LazyTable::updates`] | `cmt::two_level` |
//! | update flag: flash does not have the mapping | a dirty entry | `cmt::two_level` |
//! | invalidate flag: the page that flash leads to is to be invalidated | [`LazyTable::owed`] | here |
//! | global mapping table (GMT), its directory, cached part | [`Table`], [`LazyTable::reads`] | `table` |
//! | algorithm 1, convert: a block of an area becomes a data block | [`LazyTable::convert`] | here |
//! | all mappings of the same GMT page are committed together | [`LazyTable::commit`] | here |
//! | convert cost: GMT pages that a block's mappings lie in | `Areas::choose` | `areas` |
//! | algorithm 2, collection: what the UMT knows elsewhere is not moved | [`Update::supersedes`] | here |
//! | algorithm 2: other pages go to the CBA | [`Update::moved`] | here |
//! | algorithm 3, write: no lookup | [`Update::update`] | here |
//!
//! We had the abstract, other papers' accounts, and notes that a reader of the algorithms published; not the
//! paper. Choices:
//! - The areas have as many blocks as the UMT has room for (parameter `updates`, percent of what the
//!   directory leaves), and the shares of host and collection follow what they write, as in the paper. The
//!   paper gives a number of blocks; but a mapping that was written again leaves room for others at once.
//! - A conversion is spread: it goes on by one translation page when the UMT needs room, so that a request
//!   waits for one commit at most (`conversion=whole` ends it at once, as the paper does).
//! - The oldest block is converted. The notes say: the one with the least convert cost, and any that is too
//!   old, which bounds the search of the paper's recovery. Where bytes bound the areas, the cheapest block
//!   (`order=cheapest`) often has one mapping left, and makes room for one (docs/schemes/lazyftl.md).
//!   `order=coldest` converts no blocks: the translation page that was written least lately is committed.
//! - A block of an area is as long as a NAND block, and shorter while the UMT has no room for eight such
//!   ones. On devices that write several dies at once it is that many pages written one after the other.
//! - Collection may choose a block of an area, if most of its pages were written again. Its mappings stay in
//!   the UMT and are of the CBA from then on.
//! - Where a victim's pages find no room in the UMT, one translation page is committed for them: that of the
//!   conversion under way, if that makes room, or their own.
//! - The paper caches GMT pages. Here single mappings are cached, 8 bytes each, LRU, in what the UMT leaves:
//!   a page of 4 KiB is half of a small cache. Mappings that leave the UMT enter it, as they were in the GMT
//!   page that was written.
//! - A UMT entry is charged 6 bytes (place, PPN, two flags), a translation page with entries 8, as TPFTL's
//!   nodes.
//! - The UMT has no more entries than there are pages to spare, as each may keep a superseded page in name.
//! - A write counts as a hit where memory has the old mapping. Else it is a miss, though it waits for no
//!   flash read: the read is the commit's. What counts as replaced are mappings: those that a conversion
//!   commits, as dirty, and those that leave the cache. A mapping that is committed enters the cache later
//!   and may leave it, so it can count twice: each count is room that was made in one of the two.
//! - A long trim commits the page's mappings first, so that nothing is owed in it. A short one is a mapping
//!   to nowhere, which belongs to a block of its own.

mod areas;
mod stats;

use crate::breach::Breach;
use crate::cmt::entries::Entry;
use crate::cmt::segmented::SegmentedLru;
use crate::cmt::two_level::{TwoLevel, ENTRY_BYTES, NODE_BYTES};
use crate::counters::Cause;
use crate::engine::Ftl;
use crate::flash::Flash;
use crate::mapping::{Ask, Change, How, Lookup, Mapping, Moved, Pages, Unit, Update};
use crate::scheme::{CachedPage, Coming, Config, ConfigError, Info, Memory, Parameter};
use crate::table::{entry, entry_in, mapped, Table, UNMAPPED};
use areas::{Area, Areas, Order};
use nand::{Done, Lpn, Nand, Ppn, Result, Vtpn};
use std::ops::Range;

/// LazyFTL: the engine with mappings that stay in memory until their blocks are converted.
pub type LazyFtl = Ftl<LazyTable>;

const READ_BYTES: u64 = 8;
/// Blocks of areas that the UMT has room for at least, where it has room for as many mappings.
const LEAST_BLOCKS: u64 = 8;

/// Mappings that the table on flash does not have yet, and some that it has.
///
/// No LPN is in both.
#[derive(Clone, Debug)]
pub struct LazyTable {
    updates: TwoLevel,
    areas: Areas,
    reads: SegmentedLru,
    /// Bytes for both, and at most for the UMT.
    bytes: u64,
    update_bytes: u64,
    order: Order,
    /// A conversion ends before the request goes on.
    whole: bool,
    /// The block that is being converted.
    converting: Option<u32>,
    /// One bit an LPN: the table's entry leads to a page that is superseded but valid in name.
    owed: Vec<u64>,
    edits: Vec<(u32, u32)>,
    superseded: Vec<Ppn>,
    left: Vec<Moved>,
    slots: Vec<u32>,
    /// No translation page below this one has mappings to commit, while a checkpoint runs.
    clean_below: u32,
}

impl LazyTable {
    fn owe(&mut self, lpn: Lpn, owed: bool) {
        let word = &mut self.owed[lpn.0 as usize / 64];
        *word = *word & !(1 << (lpn.0 % 64)) | u64::from(owed) << (lpn.0 % 64);
    }

    /// Calls `each` for every LPN that is owed an invalidation.
    fn each_owed(&self, mut each: impl FnMut(Lpn)) {
        for (at, &word) in (0..).zip(&self.owed) {
            let mut bits = word;
            while bits != 0 {
                each(Lpn(at * 64 + bits.trailing_zeros()));
                bits &= bits - 1;
            }
        }
    }

    #[inline]
    fn update_bytes_in_use(&self) -> u64 {
        let (entries, nodes) = self.updates.bytes();
        entries + nodes
    }

    /// Whether the UMT can take so many mappings of one translation page.
    #[inline]
    fn has_room(&self, mappings: usize) -> bool {
        self.update_bytes_in_use() + NODE_BYTES + mappings as u64 * ENTRY_BYTES <= self.update_bytes
    }

    // Conversion

    /// Makes room for a mapping in the UMT: goes on with the conversion under way, or begins one. Commits at
    /// most one translation page; where conversions are to be whole, as many as a block has pages, which is
    /// what the collection reserve holds for a request.
    fn convert<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, at: Done) -> Result<Done> {
        let mut done = at;
        let mut committed = None;
        let mut commits = if self.whole { self.areas.block_pages() } else { 1 };
        while let Some(lpn) = self.next_to_convert(table) {
            if self.updates.peek(lpn).is_some_and(Entry::is_dirty) {
                if commits == 0 {
                    break;
                }
                commits -= 1;
                let vtpn = table.place(lpn).0;
                let mappings = u64::from(self.updates.dirty_of(vtpn));
                let written = self.commit(flash, table, vtpn, &[], Cause::Translation, at)?;
                flash.counters.replaced += mappings;
                flash.counters.replaced_dirty += mappings;
                (done, committed) = (flash.join(done, written), Some(vtpn));
            }
            self.leave_area(flash, lpn);
            if self.has_room(1) && !(self.whole && self.converting.is_some()) {
                break;
            }
        }
        if let (Some(vtpn), false) = (committed, self.has_room(1)) {
            self.all_leave(flash, vtpn);
        }
        Ok(done)
    }

    /// The mapping that the conversion under way deals with next, or the first one of a conversion that
    /// begins. `None`: the areas are empty.
    fn next_to_convert(&mut self, table: &Table) -> Option<Lpn> {
        if self.order == Order::Coldest {
            let coldest = self.updates.coldest()?;
            self.updates.victims_of(coldest, 1, true, &mut self.slots);
            return self.slots.first().map(|&slot| self.updates.get(slot).lpn);
        }
        if !self.converting.is_some_and(|block| self.areas.contains(block)) {
            let shift = table.entries_per_page().trailing_zeros();
            self.converting = self.areas.choose(self.order, &self.updates, shift);
        }
        self.areas.first_of(self.converting?)
    }

    /// Brings all mappings of a translation page that the UMT has and flash has not into the table, `moves`
    /// with them, and invalidates what they supersede.
    fn commit<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        moves: &[Moved],
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        let first = table.first_lpn(vtpn).0;
        let loaded = table.load(flash, vtpn, cause, at)?;
        let (edits, superseded) = (&mut self.edits, &mut self.superseded);
        edits.clear();
        superseded.clear();
        let mut after = loaded.unwrap_or(at);
        let owed = |lpn: Lpn| self.owed[lpn.0 as usize / 64] >> (lpn.0 % 64) & 1 == 1;
        self.updates.each_dirty(vtpn, |update| {
            let slot = update.lpn.0 - first;
            if owed(update.lpn) && loaded.is_some() {
                superseded.extend(mapped(entry_in(flash.buffer(), slot)));
            }
            edits.push((slot, update.ppn));
        });
        let committed = edits.len();
        self.updates.each_dirty(vtpn, |update| after = flash.join(after, update.done));
        for moved in moves {
            edits.push((moved.slot, moved.to.0));
            after = flash.join(after, moved.done);
        }
        let done = table.store_loaded(flash, vtpn, edits, cause, after)?;
        for &old in &*superseded {
            flash.invalidate(old);
        }
        for at in 0..committed {
            let (slot, ppn) = self.edits[at];
            self.owe(Lpn(first + slot), false);
            self.areas.committed(ppn);
        }
        self.updates.cleaned(vtpn);
        flash.counters.count(&stats::COMMITS, 1);
        flash.counters.count(&stats::COMMITTED, committed as u64);
        Ok(done)
    }

    /// A mapping that flash has leaves the UMT for the cache. Its page lies in a data block from now on.
    fn leave_area<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn) {
        self.areas.remove(lpn);
        if let Some((update, _)) = self.updates.remove(lpn) {
            self.cache(flash, lpn, update.ppn, update.done);
        }
        if self.converting.is_some_and(|block| !self.areas.contains(block)) {
            self.converting = None;
            flash.counters.count(&stats::CONVERSIONS, 1);
        }
    }

    /// All mappings of a translation page leave the UMT. Flash has them.
    fn all_leave<N: Nand>(&mut self, flash: &mut Flash<N>, vtpn: Vtpn) {
        let mut slots = std::mem::take(&mut self.slots);
        self.updates.victims_of(vtpn, self.updates.len_of(vtpn), true, &mut slots);
        for slot in &mut slots {
            *slot = self.updates.get(*slot).lpn.0;
        }
        for &lpn in &slots {
            self.leave_area(flash, Lpn(lpn));
        }
        self.slots = slots;
    }

    /// Adds a mapping to the UMT, which has room. Flash does not have it.
    fn add<N: Nand>(&mut self, flash: &mut Flash<N>, area: Area, lpn: Lpn, ppn: u32, done: Done, owed: bool) {
        self.updates.insert(lpn, ppn, done);
        self.updates.write(lpn, ppn, done);
        self.areas.add(area, lpn, ppn);
        self.owe(lpn, owed);
        self.shrink_cache(flash, 0);
    }

    /// Adds a mapping to the cache, unless the UMT takes all.
    fn cache<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn, ppn: u32, done: Done) {
        if self.shrink_cache(flash, READ_BYTES) {
            self.reads.insert(lpn, ppn, done);
        }
    }

    /// Evicts mappings from the cache until so many bytes are free. Whether they are.
    #[inline]
    fn shrink_cache<N: Nand>(&mut self, flash: &mut Flash<N>, bytes: u64) -> bool {
        let most = self.bytes.saturating_sub(bytes + self.update_bytes_in_use()) / READ_BYTES;
        while self.reads.len() as u64 > most || bytes > 0 && self.reads.is_full() {
            let Some(victim) = self.reads.victim().map(|victim| victim.lpn) else { return false };
            self.reads.remove(victim);
            flash.counters.replaced += 1;
        }
        self.bytes >= bytes + self.update_bytes_in_use()
    }
}

impl Mapping for LazyTable {
    type Pages = Table;

    const INFO: Info = Info {
        name: "lazyftl",
        what: "page map whose writes ask for no mapping; blocks written last have theirs in memory until they are converted",
        paper: "Ma, Feng, Li: LazyFTL, SIGMOD 2011",
        stats: &stats::ALL,
        parameters: &[
            Parameter {
                name: "updates",
                default: "75",
                what: "bytes of the update mapping table (UMT) at most, percent of the cache; what it leaves caches mappings",
            },
            Parameter {
                name: "order",
                default: "oldest",
                what: "which block is converted: oldest, or cheapest (fewest translation pages to write); coldest: none as a whole",
            },
            Parameter {
                name: "conversion",
                default: "spread",
                what: "spread: a translation page when room is needed; whole: all of a block's at once, as in the paper",
            },
        ],
    };

    fn new<N: Nand>(flash: &mut Flash<N>, table: &Table, config: &Config) -> Result<Self, ConfigError> {
        let percent = config.number(&Self::INFO, "updates", 10..=95)?;
        let order = match config.parameter(&Self::INFO, "order").as_str() {
            "cheapest" => Order::Cheapest,
            "oldest" => Order::Oldest,
            "coldest" => Order::Coldest,
            other => {
                return Err(ConfigError(format!(
                    "scheme lazyftl: order = '{other}'; oldest, cheapest or coldest is needed"
                )))
            }
        };
        let whole = match config.parameter(&Self::INFO, "conversion").as_str() {
            "spread" => false,
            "whole" => true,
            other => {
                return Err(ConfigError(format!(
                    "scheme lazyftl: conversion = '{other}'; spread or whole is needed"
                )))
            }
        };
        let bytes = table.cache_bytes("lazyftl", config, 20 * (NODE_BYTES + ENTRY_BYTES))?;
        // Until it is committed, an update keeps two pages: no more of them than there is room for.
        let geometry = flash.nand().geometry();
        let room = u64::from(flash.space.spare + 1) * u64::from(geometry.superblock_pages());
        let most = u64::from(table.pages()) * NODE_BYTES + room * ENTRY_BYTES;
        let update_bytes = (bytes * percent / 100).min(most);
        let mut block_pages = geometry.pages_per_block;
        while block_pages > 1 && update_bytes / ENTRY_BYTES < LEAST_BLOCKS * u64::from(block_pages) {
            block_pages /= 2;
        }
        let lpns = table.exported_pages() as usize;
        let mappings = ((update_bytes / ENTRY_BYTES) as usize).min(lpns);
        let entries = table.entries_per_page() as usize;
        Ok(LazyTable {
            updates: TwoLevel::new(update_bytes, table.pages(), table.entries_per_page()),
            areas: Areas::new(mappings, lpns, geometry.pages(), block_pages, table.pages()),
            reads: SegmentedLru::new((bytes / READ_BYTES).min(lpns as u64) as usize, lpns, 0),
            bytes,
            update_bytes,
            order,
            whole,
            converting: None,
            owed: vec![0; lpns.div_ceil(64)],
            edits: Vec::with_capacity(2 * entries),
            superseded: Vec::with_capacity(entries),
            left: Vec::with_capacity(entries),
            slots: Vec::with_capacity(entries),
            clean_below: 0,
        })
    }

    // Lookups

    #[inline]
    fn lookup<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, ask: Ask) -> Result<Lookup> {
        let Ask { lpn, at, .. } = ask;
        if let Some(update) = self.updates.peek(lpn) {
            return Ok(Lookup::new(mapped(update.ppn), at, How::CachedEntry));
        }
        if let Some(&mut read) = self.reads.touch(lpn) {
            return Ok(Lookup::new(mapped(read.ppn), flash.join(at, read.done), How::CachedEntry));
        }
        let (vtpn, slot) = table.place(lpn);
        let (ppn, done) = match table.load(flash, vtpn, Cause::Translation, at)? {
            Some(done) => (entry_in(flash.buffer(), slot), done),
            None => (UNMAPPED, at),
        };
        self.cache(flash, lpn, ppn, done);
        Ok(Lookup::new(mapped(ppn), done, How::Loaded))
    }

    #[inline]
    fn expect<N: Nand>(&self, flash: &Flash<N>, table: &Table, lpn: Lpn, coming: Coming) {
        self.updates.expect(lpn);
        self.reads.expect(lpn);
        table.expect(flash, lpn, coming);
    }

    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        slots: Range<u32>,
        at: Done,
    ) -> Result<Done> {
        let mut at = at;
        if self.updates.dirty_of(vtpn) > 0 {
            at = self.commit(flash, table, vtpn, &[], Cause::Translation, at)?;
        }
        let LazyTable { updates, areas, reads, .. } = self;
        table.trim(flash, vtpn, slots, at, |lpn| {
            areas.remove(lpn);
            let held = updates.remove(lpn).map(|(update, _)| update).or_else(|| reads.remove(lpn));
            held.map(|held| mapped(held.ppn))
        })
    }

    // Checkpoint and checks

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table) -> Result<Option<Done>> {
        while self.clean_below < table.pages() && self.updates.dirty_of(Vtpn(self.clean_below)) == 0 {
            self.clean_below += 1;
        }
        if self.clean_below == table.pages() {
            return Ok(None);
        }
        let vtpn = Vtpn(self.clean_below);
        self.commit(flash, table, vtpn, &[], Cause::Checkpoint, Done::READY).map(Some)
    }

    fn entries<N: Nand>(&self, of: Unit<'_, N, Table>, entries: &mut Vec<u32>) {
        of.entries_or(entries, |lpn| {
            let held = self.updates.peek(lpn).or_else(|| self.reads.peek(lpn));
            held.map(|cached| cached.ppn)
        });
    }

    fn owed<N: Nand>(&self, flash: &Flash<N>, table: &Table, each: &mut dyn FnMut(Lpn, Ppn)) {
        let mut content = Vec::new();
        self.each_owed(|lpn| {
            let (vtpn, slot) = table.place(lpn);
            table.inspect(flash, vtpn, &mut content);
            if let Some(ppn) = mapped(entry_in(&content, slot)) {
                each(lpn, ppn);
            }
        });
    }

    fn memory(&self, _table: &Table) -> Memory {
        let reads = self.reads.len() as u64 * READ_BYTES;
        Memory { parts: vec![("UMT", self.update_bytes_in_use()), ("CMT", reads)] }
    }

    fn cached(&self, table: &Table, each: &mut dyn FnMut(CachedPage)) {
        for vtpn in (0..table.pages()).map(Vtpn) {
            let first = table.first_lpn(vtpn);
            let end = Lpn(first.0 + table.lpns_in(vtpn));
            let next = |from: Lpn| self.reads.next_present(from, end);
            let reads = std::iter::successors(next(first), |lpn| next(Lpn(lpn.0 + 1))).count() as u32;
            let entries = self.updates.len_of(vtpn) + reads;
            if entries > 0 {
                each(CachedPage { vtpn, entries, dirty: self.updates.dirty_of(vtpn) });
            }
        }
    }

    fn check<N: Nand>(&self, _flash: &Flash<N>, _table: &Table) -> Result<(), Breach> {
        self.updates.check()?;
        self.reads.check()?;
        self.areas.check(&self.updates)?;
        let mut breach = None;
        self.each_owed(|lpn| {
            if !self.updates.peek(lpn).is_some_and(Entry::is_dirty) {
                breach =
                    Some(Breach(format!("LPN {} is owed an invalidation but has no new mapping", lpn.0)));
            }
        });
        breach.map_or(Ok(()), Err)
    }
}

impl Update for LazyTable {
    #[inline]
    fn update<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, to: Change) -> Result<Lookup> {
        let Change { lpn, ppn, programmed, at, .. } = to;
        self.clean_below = 0;
        if let Some(update) = self.updates.write(lpn, entry(ppn), programmed) {
            self.areas.remove(lpn);
            self.areas.add(Area::Update, lpn, entry(ppn));
            return Ok(Lookup::new(mapped(update.ppn), at, How::CachedEntry));
        }
        let at = if self.has_room(1) { at } else { self.convert(flash, table, at)? };
        let known = self.reads.remove(lpn);
        self.add(flash, Area::Update, lpn, entry(ppn), programmed, known.is_none());
        let how = if known.is_some() { How::CachedEntry } else { How::Loaded };
        Ok(Lookup::new(known.and_then(|read| mapped(read.ppn)), at, how))
    }

    fn supersedes<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn, ppn: Ppn) -> bool {
        let elsewhere = self.updates.peek(lpn).is_some_and(|update| update.ppn != ppn.0);
        if elsewhere {
            self.owe(lpn, false);
            flash.counters.count(&stats::SUPERSEDED, 1);
        }
        elsewhere
    }

    fn moved<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, moves: &[Moved]) -> Result<Done> {
        let vtpn = table.place(moves[0].lpn).0;
        self.clean_below = 0;
        let mut left = std::mem::take(&mut self.left);
        left.clear();
        for moved in moves {
            match self.updates.peek(moved.lpn).map(|update| update.ppn) {
                Some(ppn) if ppn == moved.from.0 => {
                    self.updates.relocate(moved.lpn, moved.to.0, moved.done);
                    self.areas.remove(moved.lpn);
                    self.areas.add(Area::Cold, moved.lpn, moved.to.0);
                    flash.counters.gc_hits += 1;
                }
                Some(_) => {
                    // Superseded: the copy is of no use, and nothing is owed any more.
                    flash.invalidate(moved.to);
                    self.owe(moved.lpn, false);
                }
                None => left.push(*moved),
            }
        }
        let done = if left.is_empty() { Ok(Done::READY) } else { self.add_moved(flash, table, vtpn, &left) };
        self.left = left;
        done
    }
}

impl LazyTable {
    /// Adds mappings of moved pages, all of one translation page, to the UMT, or commits them with the others
    /// of that page: one translation page is written at most.
    fn add_moved<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        moves: &[Moved],
    ) -> Result<Done> {
        let mut done = Done::READY;
        if !self.has_room(moves.len()) {
            let next = self.next_to_convert(table).map(|lpn| table.place(lpn).0);
            let enough = |other: &Vtpn| *other != vtpn && self.updates.len_of(*other) as usize >= moves.len();
            let Some(other) = next.filter(enough) else {
                for moved in moves {
                    if let Some(read) = self.reads.peek_mut(moved.lpn) {
                        (read.ppn, read.done) = (moved.to.0, moved.done);
                    }
                }
                flash.counters.gc_misses += moves.len() as u64;
                return self.commit(flash, table, vtpn, moves, Cause::Collection, Done::READY);
            };
            if self.updates.dirty_of(other) > 0 {
                done = self.commit(flash, table, other, &[], Cause::Collection, Done::READY)?;
            }
            self.all_leave(flash, other);
        }
        for moved in moves {
            self.reads.remove(moved.lpn);
            self.add(flash, Area::Cold, moved.lpn, moved.to.0, moved.done, false);
        }
        flash.counters.gc_hits += moves.len() as u64;
        Ok(done)
    }
}

#[cfg(test)]
mod tests;
