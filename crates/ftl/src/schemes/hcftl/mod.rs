//! HCFTL: Chen, Li, Pan, Lyu, Li, Xu, "HCFTL: A Locality-Aware Page-Level Flash Translation Layer", DATE
//! 2019; and its longer form, Pan, Chen, Zhao, Xu, IEEE TCAD 2021.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | cached mapping table (CMT) | [`Clusters::cache`] | `cmt::segmented` |
//! | auxiliary cache for the entries newly evicted (TCAD) | [`Clusters::evicted`] | `dynamic` |
//! | dynamic translation pages (DTPs) | [`Dynamic`], [`Clusters::cluster`] | `dynamic` |
//! | the least difference between a page's LPNs (TCAD) | [`Evicted::window`] | `dynamic` |
//! | index over the entries in DTPs | [`Dynamic::find`] | `dynamic` |
//! | loading a DTP brings hot entries | [`Clusters::load_neighbours`] | here |
//! | GTD, translation pages | [`Table`] | `table` |
//!
//! Choices where only two abstracts are at hand:
//! - What is clustered: every dirty entry that leaves the CMT, and of the clean ones those that were asked
//!   for again since they came (parameter `cluster`); another clean one is on flash already, and not hot.
//! - A dirty entry is as new in a DTP as it was in memory: its translation page is updated when the DTP is
//!   emptied, one update for all its entries in one translation page, with what memory holds of that page
//!   besides.
//! - DTPs are used in turn. The one whose turn comes next is emptied meanwhile, one update for each entry
//!   that is put into the auxiliary cache, so that no request waits for a whole DTP.
//! - An entry that is loaded stays in its DTP, too, and leaves the CMT for nothing unless it was changed. A
//!   change, by the host or by collection, takes it out of the DTP; collection then updates its translation
//!   page.
//! - A DTP holds a sixteenth of the entries that the cache has bytes for, 8 bytes each, at most a page: a
//!   fuller one would drive out what is hot. The auxiliary cache holds two DTPs' entries, 8 bytes each; the
//!   window of them whose LPNs lie closest becomes a page. Emptying takes 4 bytes an entry.
//! - Index: the LPNs of a DTP in Elias-Fano code (about 2 + log2(LPNs / entries) bits each), two bits an
//!   entry for whether it still counts and whether it is newer than its translation page. Exact, so it never
//!   costs a read for nothing. The index may take a tenth of the cache (parameter `index`), which says how
//!   many DTPs there are.
//! - With a requested entry up to `load` others of its DTP are loaded, those nearest to it; the request does
//!   not wait for the room that these need. Their number is at most an eighth of a superblock's pages,
//!   because each may cost an update.
//! - Recovery knows nothing of DTPs: a checkpoint updates every translation page, and what came later is
//!   found in OOB.
//! - What counts as replaced are entries of the CMT.

pub mod dynamic;

use crate::breach::Breach;
use crate::cmt::census::Census;
use crate::cmt::entries::Entry;
use crate::cmt::segmented::SegmentedLru;
use crate::counters::Cause;
use crate::engine::Ftl;
use crate::flash::Flash;
use crate::mapping::{Ask, Change, How, Lookup, Mapping, Moved, Pages, Unit, Update};
use crate::scheme::{CachedPage, Coming, Config, ConfigError, Info, Memory, Parameter};
use crate::table::{entry, entry_in, mapped, Table, PROGRAM_BUFFER, UNMAPPED};
use dynamic::{Dynamic, Evicted, Kept};
use nand::{Done, Geometry, Lpn, Nand, Result, Vtpn};
use std::ops::Range;

/// HCFTL: the engine with entries that leave the cache in clusters.
pub type Hcftl = Ftl<Clusters>;

const ENTRY_BYTES: u64 = 8;
/// Bytes of an entry that waits for its translation page's update: its PPN; the index has its LPN.
const LEAVING_BYTES: u64 = 4;
/// Entries of a DTP without which clustering is none.
const LEAST_PER_PAGE: u64 = 4;
/// DTPs at least: one that was written and one that is emptied.
const LEAST_PAGES: u64 = 2;

/// Entries without which the CMT is none.
const LEAST_ENTRIES: u64 = 16;

/// CMT, auxiliary cache, and dynamic translation pages.
///
/// An LPN has its newest mapping in the first of these that has it: CMT, auxiliary cache, a DTP, its
/// translation page. It is not in the first two at once, nor in the auxiliary cache and a DTP, and a dirty
/// entry in the CMT is in no DTP.
#[derive(Clone, Debug)]
pub struct Clusters {
    cache: SegmentedLru,
    evicted: Evicted,
    /// Of CMT and auxiliary cache.
    census: Census,
    dynamic: Dynamic,
    /// Entries loaded beside a requested one.
    load: usize,
    /// Whether clean entries are clustered though nobody asked for them again.
    cluster_all: bool,
    edits: Vec<(u32, u32)>,
    /// LPN and PPN of entries that were read from DTPs.
    found: Vec<(u32, u32)>,
    /// LPN and PPN of entries to be loaded.
    neighbours: Vec<(Lpn, u32)>,
    /// Places to read.
    places: Vec<u32>,
    content: Vec<u8>,
}

impl Clusters {
    /// Entries of a DTP, and how many DTPs, that `bytes` of cache allow.
    fn sizes(table: &Table, config: &Config) -> Result<(u64, u64), ConfigError> {
        let percent = config.number(&Clusters::INFO, "index", 5..=60)?;
        let further = 4 * u64::from(table.further_pages());
        let bytes = config.cache_bytes.saturating_sub(table.memory_bytes() - further);
        let most = u64::from(table.entries_per_page()) * 4 / ENTRY_BYTES;
        let per_page = (bytes / ENTRY_BYTES / 16).clamp(LEAST_PER_PAGE, most);
        let index = Dynamic::index_bytes(per_page, u64::from(table.exported_pages())) + 4;
        let useful = u64::from(table.exported_pages()).div_ceil(per_page);
        Ok((per_page, (bytes * percent / 100 / index).min(useful).max(LEAST_PAGES)))
    }

    /// Bytes of auxiliary cache, entries that leave, and index.
    fn beside_the_cmt(&self, table: &Table) -> [u64; 3] {
        let (pages, per_page) = (u64::from(self.dynamic.pages()), u64::from(self.dynamic.per_page()));
        [
            2 * per_page * ENTRY_BYTES,
            per_page * LEAVING_BYTES,
            pages * Dynamic::index_bytes(per_page, u64::from(table.exported_pages())),
        ]
    }

    // Clustering

    /// Whether an entry goes to the auxiliary cache when it leaves the CMT: flash does not have it, or it is
    /// hot and in no DTP.
    fn is_worth_keeping(&self, leaving: &Entry) -> bool {
        let hot = self.cluster_all || leaving.used() > 0;
        leaving.is_dirty() || (hot && self.dynamic.find(leaving.lpn).is_none())
    }

    /// Makes room in the CMT.
    fn evict<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, at: Done) -> Result<Done> {
        let mut at = at;
        let was_dirty = self.cache.victim().is_some_and(Entry::is_dirty);
        let keeps = self.cache.victim().is_some_and(|victim| self.is_worth_keeping(victim));
        if keeps {
            if self.evicted.is_full() {
                at = self.cluster(flash, table, at)?;
            }
            at = self.empty_some(flash, table, at)?;
        }
        // An update of its translation page may have made it clean.
        let Some(&victim) = self.cache.victim() else { return Ok(at) };
        self.cache.remove(victim.lpn);
        flash.counters.replaced += 1;
        flash.counters.replaced_dirty += u64::from(was_dirty);
        if keeps && self.is_worth_keeping(&victim) {
            let (lpn, ppn, done, dirty) = (victim.lpn, victim.ppn, victim.done, victim.is_dirty());
            self.evicted.insert(Kept { lpn, ppn, done, dirty });
        } else {
            self.census.removed(table.place(victim.lpn).0, false);
        }
        Ok(at)
    }

    /// Writes a DTP from the auxiliary cache.
    fn cluster<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, at: Done) -> Result<Done> {
        let mut at = at;
        while self.dynamic.next_dirty().is_some() {
            at = self.empty_some(flash, table, at)?;
        }
        let window = self.evicted.window(self.dynamic.per_page() as usize);
        let entries = &self.evicted.entries()[window.clone()];
        self.content.fill(0xff);
        for (kept, pair) in entries.iter().zip(self.content.chunks_exact_mut(8)) {
            pair[..4].copy_from_slice(&kept.lpn.0.to_le_bytes());
            pair[4..].copy_from_slice(&kept.ppn.to_le_bytes());
            at = flash.join(at, kept.done);
        }
        let vtpn = self.dynamic.next_vtpn(table);
        let done = table.replace(flash, vtpn, &self.content, Cause::Translation, at)?;
        for kept in entries {
            self.census.removed(table.place(kept.lpn).0, kept.dirty);
        }
        self.dynamic.written(table, entries);
        self.evicted.drain(window);
        Ok(done)
    }

    /// Updates one translation page for the DTP whose turn comes next, if that has entries newer than theirs.
    fn empty_some<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, at: Done) -> Result<Done> {
        let Some(place) = self.dynamic.next_dirty() else { return Ok(at) };
        if !self.dynamic.is_leaving() {
            let vtpn = self.dynamic.next_vtpn(table);
            if let Some(done) = table.load(flash, vtpn, Cause::Translation, at)? {
                let page = flash.buffer();
                self.dynamic.leave(|position| entry_in(page, 2 * position + 1), done);
            }
        }
        let vtpn = table.place(self.dynamic.lpn(place)).0;
        self.found.clear();
        self.write_dirty(flash, table, vtpn, Cause::Translation, at)
    }

    /// Updates a translation page with what memory has newer, and with `found`, which was read from DTPs.
    fn write_dirty<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        let (first, mut after) = (table.first_lpn(vtpn), at);
        let end = Lpn(first.0 + table.lpns_in(vtpn));
        let edits = &mut self.edits;
        edits.clear();
        edits.extend(self.found.iter().map(|&(lpn, ppn)| (lpn - first.0, ppn)));
        for kept in self.evicted.between(first, end).iter().filter(|kept| kept.dirty) {
            edits.push((kept.lpn.0 - first.0, kept.ppn));
            after = flash.join(after, kept.done);
        }
        let mut from = first;
        while let Some(lpn) = self.cache.next_present(from, end) {
            if let Some(cached) = self.cache.peek(lpn).filter(|cached| cached.is_dirty()) {
                edits.push((lpn.0 - first.0, cached.ppn));
                after = flash.join(after, cached.done);
            }
            from = Lpn(lpn.0 + 1);
        }
        self.dynamic.each_leaving(first.0..end.0, |lpn, ppn, done| {
            edits.push((lpn - first.0, ppn));
            after = flash.join(after, done);
        });
        let done = table.store(flash, vtpn, edits, cause, after)?;
        for &(slot, _) in &*edits {
            let lpn = Lpn(first.0 + slot);
            if let Some(cached) = self.cache.peek_mut(lpn) {
                cached.set_dirty(false);
            }
            self.dynamic.clean(vtpn, lpn);
        }
        self.evicted.between(first, end).iter_mut().for_each(|kept| kept.dirty = false);
        self.census.cleaned(vtpn);
        Ok(done)
    }

    // Looking up

    /// Brings the mapping of `lpn`, which the CMT does not hold, there.
    fn bring<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        lpn: Lpn,
        at: Done,
    ) -> Result<Lookup> {
        let at = if self.cache.is_full() { self.evict(flash, table, at)? } else { at };
        if let Some(kept) = self.evicted.take(lpn) {
            let cached = self.cache.insert(lpn, kept.ppn, kept.done);
            cached.set_dirty(kept.dirty);
            cached.set_used(1);
            return Ok(Lookup::new(mapped(kept.ppn), flash.join(at, kept.done), How::CachedEntry));
        }
        let (vtpn, slot) = table.place(lpn);
        let place = self.dynamic.find(lpn);
        let (ppn, done, how) = match place.map(|place| (place, self.dynamic.in_memory(place))) {
            Some((_, Some((ppn, loaded)))) => (ppn, flash.join(at, loaded), How::CachedEntry),
            Some((place, None)) => {
                let (ppn, done) = self.load_neighbours(flash, table, place, at)?;
                return Ok(Lookup::new(mapped(ppn), done, How::Loaded));
            }
            None => match table.load(flash, vtpn, Cause::Translation, at)? {
                Some(done) => (entry_in(flash.buffer(), slot), done, How::Loaded),
                None => (UNMAPPED, at, How::Loaded),
            },
        };
        self.cache.insert(lpn, ppn, done);
        self.census.added(vtpn);
        Ok(Lookup::new(mapped(ppn), done, how))
    }

    /// Reads the DTP of a place, and brings its entry and those around it into the CMT.
    fn load_neighbours<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        place: u32,
        at: Done,
    ) -> Result<(u32, Done)> {
        let (dynamic, cache) = (&self.dynamic, &mut self.cache);
        let Some(done) = table.load(flash, dynamic.vtpn(table, place), Cause::Translation, at)? else {
            unreachable!("a DTP has entries but was never written")
        };
        let page = flash.buffer();
        let position = |place: u32| place % dynamic.per_page();
        let lpn = dynamic.lpn(place);
        assert!(entry_in(page, 2 * position(place)) == lpn.0, "the index leads to the wrong DTP");
        let ppn = entry_in(page, 2 * position(place) + 1);
        self.neighbours.clear();
        let others = dynamic.neighbours(place).filter(|&other| cache.peek(dynamic.lpn(other)).is_none());
        self.neighbours.extend(
            others.take(self.load).map(|other| (dynamic.lpn(other), entry_in(page, 2 * position(other) + 1))),
        );
        cache.insert(lpn, ppn, done);
        self.census.added(table.place(lpn).0);
        for at in 0..self.neighbours.len() {
            let (lpn, ppn) = self.neighbours[at];
            if self.cache.is_full() {
                self.evict(flash, table, done)?;
            }
            self.cache.insert(lpn, ppn, done);
            self.census.added(table.place(lpn).0);
            flash.counters.prefetched += 1;
        }
        Ok((ppn, done))
    }

    /// Reads into `found` what DTPs hold, newer than translation page `vtpn`, of its entries at `slots`. What
    /// is in memory is left out.
    fn find_dirty<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &Table,
        vtpn: Vtpn,
        slots: Range<u32>,
        at: Done,
    ) -> Result<Done> {
        let first = table.first_lpn(vtpn).0;
        let dynamic = &self.dynamic;
        let dirty = |&place: &u32| dynamic.is_dirty(place) && dynamic.in_memory(place).is_none();
        self.places.clear();
        if dynamic.has_dirty(vtpn) {
            self.places.extend(slots.filter_map(|slot| dynamic.find(Lpn(first + slot))).filter(dirty));
        }
        self.places.sort_unstable();
        self.found.clear();
        let (mut done, mut read) = (at, None);
        for &place in &self.places {
            let (vtpn, position) = (dynamic.vtpn(table, place), place % dynamic.per_page());
            if read != Some(vtpn) {
                if let Some(loaded) = table.load(flash, dynamic.vtpn(table, place), Cause::Translation, at)? {
                    done = flash.join(done, loaded);
                }
                read = Some(vtpn);
            }
            let ppn = entry_in(flash.buffer(), 2 * position + 1);
            self.found.push((dynamic.lpn(place).0, ppn));
        }
        self.found.sort_unstable();
        Ok(done)
    }
}

impl Mapping for Clusters {
    type Pages = Table;

    const INFO: Info = Info {
        name: "hcftl",
        what: "demand-cached page map; entries evicted together are packed into dynamic translation pages and come back together",
        paper: "Chen et al.: HCFTL, DATE 2019",
        stats: &[],
        parameters: &[
            Parameter {
                name: "cluster",
                default: "hot",
                what: "clean entries that are clustered: those asked for again, or all (hot, all); dirty ones always are",
            },
            Parameter {
                name: "load",
                default: "8",
                what: "entries of a dynamic translation page loaded beside the one asked for; at most an eighth of a superblock's pages",
            },
            Parameter {
                name: "index",
                default: "10",
                what: "bytes of the index over dynamic translation pages, percent of the cache",
            },
            PROGRAM_BUFFER,
        ],
    };

    fn shape(table: &mut Table, _geometry: &Geometry, config: &Config) -> Result<(), ConfigError> {
        table.add_further_pages(Self::sizes(table, config)?.1 as u32);
        Ok(())
    }

    fn new<N: Nand>(flash: &mut Flash<N>, table: &Table, config: &Config) -> Result<Self, ConfigError> {
        let geometry = flash.nand().geometry();
        let (per_page, pages) = Self::sizes(table, config)?;
        assert!(pages == u64::from(table.further_pages()), "the directory has room for every DTP");
        let load = config
            .number(&Clusters::INFO, "load", 0..=1 << 16)?
            .min(u64::from(geometry.superblock_pages() / 8));
        let cluster_all = match config.parameter(&Self::INFO, "cluster").as_str() {
            "hot" => false,
            "all" => true,
            given => {
                let what = format!("scheme hcftl: cluster = '{given}'; hot or all is needed");
                return Err(ConfigError(what));
            }
        };
        let lpns = table.exported_pages() as usize;
        let in_page = table.entries_per_page() as usize;
        let mut clusters = Clusters {
            cache: SegmentedLru::new(0, 0, 0),
            evicted: Evicted::new(2 * per_page as usize, lpns),
            census: Census::new(table.pages()),
            dynamic: Dynamic::new(pages as u32, per_page as u32, table.pages(), lpns),
            load: 0,
            cluster_all,
            edits: Vec::with_capacity(in_page),
            found: Vec::with_capacity(in_page),
            neighbours: Vec::with_capacity(load as usize),
            places: Vec::with_capacity(in_page),
            content: vec![0; geometry.page_bytes as usize],
        };
        let beside: u64 = clusters.beside_the_cmt(table).iter().sum();
        let bytes = table.cache_bytes("hcftl", config, beside + LEAST_ENTRIES * ENTRY_BYTES)? - beside;
        let entries = (bytes / ENTRY_BYTES).min(lpns as u64) as usize;
        clusters.cache = SegmentedLru::new(entries, lpns, 50);
        clusters.load = (load as usize).min(entries / 4);
        Ok(clusters)
    }

    // Lookups

    #[inline]
    fn lookup<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, ask: Ask) -> Result<Lookup> {
        let Ask { lpn, at, .. } = ask;
        if let Some(hit) = self.cache.touch(lpn) {
            hit.set_used(1);
            let (ppn, done) = (hit.ppn, hit.done);
            return Ok(Lookup::new(mapped(ppn), flash.join(at, done), How::CachedEntry));
        }
        self.bring(flash, table, lpn, at)
    }

    #[inline]
    fn expect<N: Nand>(&self, flash: &Flash<N>, table: &Table, lpn: Lpn, coming: Coming) {
        self.cache.expect(lpn);
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
        let at = self.find_dirty(flash, table, vtpn, slots.clone(), at)?;
        let Clusters { cache, evicted, census, dynamic, found, .. } = self;
        table.trim(flash, vtpn, slots, at, |lpn| {
            let newer = dynamic.find(lpn).filter(|&place| dynamic.is_dirty(place)).and_then(|place| {
                let read = || found.binary_search_by_key(&lpn.0, |pair| pair.0).ok().map(|at| found[at].1);
                dynamic.in_memory(place).map(|there| there.0).or_else(read)
            });
            dynamic.drop_entry(vtpn, lpn);
            let cached = cache.remove(lpn).map(|dropped| (dropped.ppn, dropped.is_dirty()));
            match cached.or_else(|| evicted.take(lpn).map(|kept| (kept.ppn, kept.dirty))) {
                Some((ppn, dirty)) => {
                    census.removed(vtpn, dirty);
                    Some(mapped(ppn))
                }
                None => newer.map(mapped),
            }
        })
    }

    // Checkpoint and checks

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table) -> Result<Option<Done>> {
        let first = [self.census.first_dirty(), self.dynamic.census().first_dirty()];
        let Some(vtpn) = first.into_iter().flatten().min() else { return Ok(None) };
        let at = self.find_dirty(flash, table, vtpn, 0..table.lpns_in(vtpn), Done::READY)?;
        self.write_dirty(flash, table, vtpn, Cause::Checkpoint, at).map(Some)
    }

    fn entries<N: Nand>(&self, of: Unit<'_, N, Table>, entries: &mut Vec<u32>) {
        let mut page = Vec::new();
        of.entries_or(entries, |lpn| {
            let cached = self.cache.peek(lpn).map(|cached| cached.ppn);
            cached.or_else(|| self.evicted.peek(lpn).map(|kept| kept.ppn)).or_else(|| {
                let place = self.dynamic.find(lpn)?;
                let in_memory = self.dynamic.in_memory(place).map(|entry| entry.0);
                in_memory.or_else(|| {
                    of.pages.inspect(of.flash, self.dynamic.vtpn(of.pages, place), &mut page);
                    Some(entry_in(&page, 2 * (place % self.dynamic.per_page()) + 1))
                })
            })
        });
    }

    fn memory(&self, table: &Table) -> Memory {
        let [_, leaving, index] = self.beside_the_cmt(table);
        Memory {
            parts: vec![
                ("CMT", self.cache.len() as u64 * ENTRY_BYTES),
                ("auxiliary cache", self.evicted.entries().len() as u64 * ENTRY_BYTES),
                ("DTP that is emptied", leaving),
                ("index of DTPs", index),
            ],
        }
    }

    fn cached(&self, _table: &Table, each: &mut dyn FnMut(CachedPage)) {
        self.census.each(each);
    }

    fn check<N: Nand>(&self, _flash: &Flash<N>, table: &Table) -> Result<(), Breach> {
        self.cache.check()?;
        self.evicted.check()?;
        let dirty = |lpn| self.cache.peek(lpn).is_some_and(|cached| cached.is_dirty());
        self.dynamic.check(table, |lpn| dirty(lpn) || self.evicted.peek(lpn).is_some())?;
        let mut counts = vec![(0, 0); table.pages() as usize];
        for lpn in (0..table.exported_pages()).map(Lpn) {
            let cached = self.cache.peek(lpn).map(|cached| cached.is_dirty());
            let kept = self.evicted.peek(lpn).map(|kept| kept.dirty);
            if cached.is_some() && kept.is_some() {
                return Err(format!("LPN {} is in the CMT and in the auxiliary cache", lpn.0).into());
            }
            if let Some(dirty) = cached.or(kept) {
                let count: &mut (u32, u32) = &mut counts[table.place(lpn).0 .0 as usize];
                *count = (count.0 + 1, count.1 + u32::from(dirty));
            }
        }
        for (vtpn, count) in (0..).map(Vtpn).zip(counts) {
            if count != (self.census.entries(vtpn), self.census.dirty(vtpn)) {
                return Err(format!("entries of translation page {} in memory are miscounted", vtpn.0).into());
            }
        }
        Ok(())
    }
}

impl Update for Clusters {
    #[inline]
    fn update<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, to: Change) -> Result<Lookup> {
        let Change { lpn, ppn, programmed, at, .. } = to;
        let found = match self.cache.touch(lpn) {
            Some(hit) => {
                hit.set_used(1);
                let (ppn, done) = (hit.ppn, hit.done);
                Lookup::new(mapped(ppn), flash.join(at, done), How::CachedEntry)
            }
            None => self.bring(flash, table, lpn, at)?,
        };
        let Some(cached) = self.cache.peek_mut(lpn) else { unreachable!("LPN {} was just brought", lpn.0) };
        (cached.ppn, cached.done) = (entry(ppn), programmed);
        if !cached.set_dirty(true) {
            let vtpn = table.place(lpn).0;
            self.census.dirtied(vtpn);
            self.dynamic.drop_entry(vtpn, lpn);
        }
        Ok(found)
    }

    /// Mappings in memory change there. The others leave their DTPs for their translation page: one update.
    fn moved<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, moves: &[Moved]) -> Result<Done> {
        let vtpn = table.place(moves[0].lpn).0;
        let Clusters { cache, evicted, census, dynamic, edits, .. } = self;
        let done = table.moved(flash, moves, edits, |_, moved| {
            if let Some(cached) = cache.peek_mut(moved.lpn) {
                (cached.ppn, cached.done) = (moved.to.0, moved.done);
                if !cached.set_dirty(true) {
                    census.dirtied(vtpn);
                    dynamic.drop_entry(vtpn, moved.lpn);
                }
            } else if let Some(kept) = evicted.peek_mut(moved.lpn) {
                (kept.ppn, kept.done) = (moved.to.0, moved.done);
                if !std::mem::replace(&mut kept.dirty, true) {
                    census.dirtied(vtpn);
                }
            } else {
                return false;
            }
            true
        })?;
        let first = table.first_lpn(vtpn).0;
        for &(slot, _) in &self.edits {
            self.dynamic.drop_entry(vtpn, Lpn(first + slot));
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests;
