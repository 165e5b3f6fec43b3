//! ZFTL: Wang, Zhang, Kang, "ZFTL: A Zone-based Flash Translation Layer with a Two-tier Selective Caching
//! Mechanism", ICCT 2012.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | zone, active zone | [`ZoneTable::zone`] | here |
//! | second tier: the active translation page | [`ZoneTable::active`] | `cmt::pages` |
//! | first tier: entries, evicted in batches by translation page | [`ZoneTable::entries`] | `cmt::two_level` |
//! | zone switch | [`ZoneTable::enter`] | here |
//! | GTD, translation pages | [`Table`] | `table` |
//!
//! Choices where only other papers' account is at hand:
//! - A zone is a range of consecutive translation pages (parameter `zone`), at most a quarter of a
//!   superblock's pages, so that a switch cannot use up the room that is kept for mapping updates.
//! - A request outside the active zone switches: every dirty entry is written, one update for each
//!   translation page, and everything is dropped. Collection changes mappings of other zones on flash and
//!   does not switch.
//! - A miss loads the translation page into the second tier; entries that are used go to the first. The first
//!   tier is charged as TPFTL's nodes, the second its content and 8 bytes.
//! - When the first tier is full, the translation page whose entries are the least recently used on average
//!   leaves with all of them, in one update.
//! - Changed entries stand in the first tier alone, so the active page equals flash; an update of it is one
//!   program, no read.
//! - The paper keeps only the active zone's part of the directory in memory. Here the directory is in memory
//!   whole, as for every scheme, and charged.
//! - What counts as replaced are entries.
//! - Trims as in DFTL; a long one outside the active zone does not switch.

use crate::breach::Breach;
use crate::cmt::pages::PageCache;
use crate::cmt::two_level::{TwoLevel, ENTRY_BYTES, NODE_BYTES};
use crate::counters::Cause;
use crate::engine::Ftl;
use crate::flash::Flash;
use crate::mapping::{Ask, Change, How, Lookup, Mapping, Moved, Unit, Update};
use crate::scheme::{CachedPage, Coming, Config, ConfigError, Info, Memory, Parameter};
use crate::table::{entry, mapped, Table, PROGRAM_BUFFER};
use nand::{Done, Lpn, Nand, Result, Vtpn};
use std::ops::Range;

/// ZFTL: the engine with a cache that serves one zone at a time.
pub type Zftl = Ftl<ZoneTable>;

const PAGE_HEADER_BYTES: u64 = 8;

/// The active zone's mappings.
#[derive(Clone, Debug)]
pub struct ZoneTable {
    entries: TwoLevel,
    active: PageCache,
    zone_pages: u32,
    zone: Option<u32>,
    edits: Vec<(u32, u32)>,
    left: Vec<(u32, u32)>,
    victims: Vec<u32>,
}

impl ZoneTable {
    fn page_bytes(table: &Table) -> u64 {
        4 * u64::from(table.entries_per_page()) + PAGE_HEADER_BYTES
    }

    /// The translation pages of the active zone.
    fn pages(&self, table: &Table) -> Range<u32> {
        let first = self.zone.map_or(0, |zone| zone * self.zone_pages);
        let end = self.zone.map_or(0, |_| first + self.zone_pages);
        first..end.min(table.pages())
    }

    /// Makes the zone of `vtpn` the active one.
    fn enter<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        at: Done,
    ) -> Result<Done> {
        let zone = vtpn.0 / self.zone_pages;
        if self.zone == Some(zone) {
            return Ok(at);
        }
        let mut at = at;
        for left in self.pages(table).map(Vtpn) {
            if self.entries.len_of(left) > 0 {
                at = self.evict(flash, table, left, at)?;
            }
        }
        if !self.active.is_empty() {
            self.active.remove(self.active.tail());
        }
        self.zone = Some(zone);
        Ok(at)
    }

    /// Puts all entries of a translation page out of the first tier, with at most one update of it.
    fn evict<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        at: Done,
    ) -> Result<Done> {
        let mut at = at;
        let dirty = self.entries.dirty_of(vtpn);
        if dirty > 0 {
            at = self.write_dirty(flash, table, vtpn, &[], Cause::Translation, at)?;
            flash.counters.replaced_dirty += u64::from(dirty);
        }
        let mut victims = std::mem::take(&mut self.victims);
        self.entries.victims_of(vtpn, self.entries.len_of(vtpn), false, &mut victims);
        flash.counters.replaced += victims.len() as u64;
        for &slot in &victims {
            self.entries.remove_slot(slot);
        }
        self.victims = victims;
        Ok(at)
    }

    /// Writes the dirty entries of a translation page, and `moves`, in one update. Entries stay, clean.
    fn write_dirty<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        vtpn: Vtpn,
        moves: &[(u32, u32)],
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        let mut after = at;
        let edits = &mut self.edits;
        edits.clear();
        edits.extend_from_slice(moves);
        self.entries.each_dirty(vtpn, |dirty| {
            edits.push((table.place(dirty.lpn).1, dirty.ppn));
            after = flash.join(after, dirty.done);
        });
        let done = match self.active.find(vtpn) {
            Some(frame) => {
                for &(slot, ppn) in &self.edits {
                    self.active.write(flash, frame, slot, ppn, after);
                }
                self.active.write_back(flash, table, frame, cause, after)?
            }
            None => table.store(flash, vtpn, &self.edits, cause, after)?,
        };
        self.entries.cleaned(vtpn);
        Ok(done)
    }

    /// Brings the mapping of `lpn`, which the first tier does not hold, there.
    fn bring<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        table: &mut Table,
        lpn: Lpn,
        at: Done,
    ) -> Result<Lookup> {
        let (vtpn, slot) = table.place(lpn);
        let mut at = self.enter(flash, table, vtpn, at)?;
        while self.entries.free_bytes() < NODE_BYTES + ENTRY_BYTES {
            let Some(coldest) = self.entries.coldest() else { break };
            at = self.evict(flash, table, coldest, at)?;
        }
        let (frame, done, how) = match self.active.find(vtpn) {
            Some(frame) => (frame, flash.join(at, self.active.loaded(frame)), How::CachedPage),
            None => {
                if !self.active.is_empty() {
                    self.active.remove(self.active.tail());
                }
                let (frame, done) = self.active.load(flash, table, vtpn, Cause::Translation, at)?;
                (frame, done, How::Loaded)
            }
        };
        let ppn = self.active.entry(frame, slot);
        self.entries.insert(lpn, ppn, done);
        Ok(Lookup::new(mapped(ppn), done, how))
    }
}

impl Mapping for ZoneTable {
    type Pages = Table;

    const INFO: Info = Info {
        name: "zftl",
        what: "mappings of one zone cached at a time: an active translation page, and entries evicted in batches",
        paper: "Wang, Zhang, Kang: ZFTL, ICCT 2012",
        stats: &[],
        parameters: &[
            Parameter {
                name: "zone",
                default: "16",
                what: "translation pages of a zone; at most a quarter of a superblock's pages",
            },
            PROGRAM_BUFFER,
        ],
    };

    fn new<N: Nand>(flash: &mut Flash<N>, table: &Table, config: &Config) -> Result<Self, ConfigError> {
        let geometry = flash.nand().geometry();
        let most = (geometry.superblock_pages() / 4).max(1);
        let given = config.parameter(&Self::INFO, "zone");
        let zone_pages = given.parse::<u32>().ok().filter(|&pages| pages > 0).ok_or_else(|| {
            ConfigError(format!(
                "scheme zftl: zone = '{given}'; a number of translation pages from 1 is needed"
            ))
        })?;
        let page_bytes = Self::page_bytes(table);
        let bytes = table.cache_bytes("zftl", config, page_bytes + 4 * (ENTRY_BYTES + NODE_BYTES))?;
        let entries = table.entries_per_page() as usize;
        Ok(ZoneTable {
            entries: TwoLevel::new(bytes - page_bytes, table.pages(), table.entries_per_page()),
            active: PageCache::new(table, 1),
            zone_pages: zone_pages.min(most),
            zone: None,
            edits: Vec::with_capacity(2 * entries),
            left: Vec::with_capacity(entries),
            victims: Vec::with_capacity(entries),
        })
    }

    // Lookups

    #[inline]
    fn lookup<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, ask: Ask) -> Result<Lookup> {
        let Ask { lpn, at, .. } = ask;
        if let Some(hit) = self.entries.touch(lpn) {
            return Ok(Lookup::new(mapped(hit.ppn), flash.join(at, hit.done), How::CachedEntry));
        }
        self.bring(flash, table, lpn, at)
    }

    #[inline]
    fn expect<N: Nand>(&self, flash: &Flash<N>, table: &Table, lpn: Lpn, coming: Coming) {
        self.entries.expect(lpn);
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
        if let Some(frame) = self.active.find(vtpn) {
            self.active.remove(frame);
        }
        table.trim(flash, vtpn, slots, at, |lpn| {
            self.entries.remove(lpn).map(|(dropped, _)| mapped(dropped.ppn))
        })
    }

    // Checkpoint and checks

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table) -> Result<Option<Done>> {
        let Some(vtpn) = self.pages(table).map(Vtpn).find(|&vtpn| self.entries.dirty_of(vtpn) > 0) else {
            return Ok(None);
        };
        self.write_dirty(flash, table, vtpn, &[], Cause::Checkpoint, Done::READY).map(Some)
    }

    fn entries<N: Nand>(&self, of: Unit<'_, N, Table>, entries: &mut Vec<u32>) {
        let frame = self.active.find(of.unit);
        of.entries_or(entries, |lpn| {
            let cached = self.entries.peek(lpn).map(|cached| cached.ppn);
            cached.or_else(|| Some(self.active.entry(frame?, of.pages.place(lpn).1)))
        });
    }

    fn memory(&self, table: &Table) -> Memory {
        let (entries, nodes) = self.entries.bytes();
        let active = self.active.len() as u64 * Self::page_bytes(table);
        Memory { parts: vec![("first tier", entries + nodes), ("active translation page", active)] }
    }

    fn cached(&self, table: &Table, each: &mut dyn FnMut(CachedPage)) {
        for vtpn in self.pages(table).map(Vtpn) {
            let whole = self.active.find(vtpn).is_some();
            let entries = if whole { table.lpns_in(vtpn) } else { self.entries.len_of(vtpn) };
            if entries > 0 {
                each(CachedPage { vtpn, entries, dirty: self.entries.dirty_of(vtpn) });
            }
        }
    }

    fn check<N: Nand>(&self, _flash: &Flash<N>, table: &Table) -> Result<(), Breach> {
        self.entries.check()?;
        self.active.check()?;
        let zone = self.pages(table);
        for vtpn in (0..table.pages()).map(Vtpn) {
            let cached = self.entries.len_of(vtpn) > 0 || self.active.find(vtpn).is_some();
            if cached && !zone.contains(&vtpn.0) {
                return Err(format!("translation page {} is cached outside the active zone", vtpn.0).into());
            }
        }
        for frame in self.active.iter() {
            if self.active.dirty(frame) > 0 {
                return Err("the active translation page is not as on flash".into());
            }
        }
        Ok(())
    }
}

impl Update for ZoneTable {
    #[inline]
    fn update<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, to: Change) -> Result<Lookup> {
        let Change { lpn, ppn, programmed, at, .. } = to;
        if let Some(hit) = self.entries.write(lpn, entry(ppn), programmed) {
            return Ok(Lookup::new(mapped(hit.ppn), flash.join(at, hit.done), How::CachedEntry));
        }
        let old = self.bring(flash, table, lpn, at)?;
        self.entries.write(lpn, entry(ppn), programmed);
        Ok(old)
    }

    /// Cached mappings change in the cache; if another has to change on flash, all dirty ones of the page go
    /// with it.
    fn moved<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, moves: &[Moved]) -> Result<Done> {
        let vtpn = table.place(moves[0].lpn).0;
        let mut left = std::mem::take(&mut self.left);
        left.clear();
        let mut copied = Done::READY;
        for moved in moves {
            if self.entries.relocate(moved.lpn, moved.to.0, moved.done) {
                flash.counters.gc_hits += 1;
            } else {
                left.push((moved.slot, moved.to.0));
                copied = flash.join(copied, moved.done);
            }
        }
        flash.counters.gc_misses += left.len() as u64;
        let done = if left.is_empty() {
            Ok(Done::READY)
        } else {
            self.write_dirty(flash, table, vtpn, &left, Cause::Collection, copied)
        };
        self.left = left;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmt::tests::mapped_table;
    use crate::engine::count_updates;
    use crate::mapping::Pages;
    use nand::timing::NoClock;
    use nand::{Ppn, SimNand};

    struct World {
        flash: Flash<SimNand<NoClock>>,
        table: Table,
        mapping: ZoneTable,
    }

    impl World {
        /// Six translation pages of 128 mapped entries in zones of two; room for a page and `bytes` of
        /// entries.
        fn new(bytes: u64) -> World {
            let (mut flash, table) = mapped_table(6);
            let page = ZoneTable::page_bytes(&table);
            let mut config = Config::new(6 * 128, table.directory_bytes() + page + bytes);
            config.parameters.insert("zone".to_owned(), "2".to_owned());
            let mapping = ZoneTable::new(&mut flash, &table, &config).unwrap();
            World { flash, table, mapping }
        }

        fn read(&mut self, lpn: u32) -> Option<Ppn> {
            let (flash, table) = (&mut self.flash, &mut self.table);
            let found =
                self.mapping.lookup(flash, table, Ask { lpn: Lpn(lpn), rest: 1, at: Done::READY }).unwrap();
            count_updates(&mut self.flash.counters, found.how, 1);
            found.ppn
        }

        fn write(&mut self, lpn: u32, ppn: u32) {
            let (flash, table) = (&mut self.flash, &mut self.table);
            self.mapping
                .update(
                    flash,
                    table,
                    Change {
                        lpn: Lpn(lpn),
                        rest: 1,
                        ppn: mapped(ppn),
                        programmed: Done::READY,
                        at: Done::READY,
                    },
                )
                .unwrap();
        }

        fn counts(&self) -> (u64, u64) {
            let counters = &self.flash.counters;
            (counters.reads_by(Cause::Translation), counters.programs_by(Cause::Translation))
        }
    }

    #[test]
    fn a_zone_switch_writes_each_dirty_page_once_and_drops_everything() {
        let mut w = World::new(500);
        for (lpn, ppn) in [(1, 700), (2, 701), (130, 702), (131, 703)] {
            w.write(lpn, ppn);
        }
        assert_eq!(w.counts(), (2, 0), "both pages are of zone 0");
        w.read(600);
        assert_eq!(w.mapping.entries.len(), 1);
        assert_eq!(w.counts().1, 2, "two pages, four entries");
        assert_eq!((w.flash.counters.replaced, w.flash.counters.replaced_dirty), (4, 4));
        for (lpn, ppn) in [(1, 700), (2, 701), (130, 702), (131, 703)] {
            assert_eq!(w.read(lpn), Some(Ppn(ppn)));
        }
        assert_eq!(w.mapping.check(&w.flash, &w.table), Ok(()));
    }

    #[test]
    fn the_active_page_serves_its_neighbours_and_is_updated_without_a_read() {
        let mut w = World::new(500);
        for slot in 0..20 {
            assert_eq!(w.read(slot), Some(Ppn(10_000 + slot)));
        }
        assert_eq!((w.counts(), w.flash.counters.page_hits), ((1, 0), 19));
        w.write(3, 900);
        w.mapping.evict(&mut w.flash, &mut w.table, Vtpn(0), Done::READY).unwrap();
        assert_eq!(w.counts(), (1, 1), "the page is in memory");
        assert_eq!(w.read(3), Some(Ppn(900)), "from the active page");
        assert_eq!(w.counts(), (1, 1));
    }

    #[test]
    fn a_full_first_tier_evicts_a_whole_page() {
        let mut w = World::new(4 * (ENTRY_BYTES + NODE_BYTES));
        w.write(1, 700);
        w.write(2, 701);
        w.read(130);
        w.read(131);
        w.read(132);
        w.read(133);
        assert_eq!((w.mapping.entries.len_of(Vtpn(0)), w.mapping.entries.len_of(Vtpn(1))), (0, 4));
        assert_eq!((w.flash.counters.replaced, w.flash.counters.replaced_dirty), (2, 2));
        assert_eq!(w.read(1), Some(Ppn(700)));
    }
}
