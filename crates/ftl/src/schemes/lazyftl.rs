//! LazyFTL: Ma, Feng, Li, "LazyFTL: A Page-level Flash Translation Layer Optimized for NAND Flash Memory",
//! SIGMOD 2011.
//!
//! | paper's term | here | where |
//! | --- | --- | --- |
//! | update block area, cold block area | the host's and collection's streams | `space` |
//! | update mapping table (UMT): mappings of these areas, in memory | [`LazyTable::updates`] | `cmt::two_level` |
//! | global mapping table (GMT), its directory | [`Table`] | `table` |
//! | lazy update: a write does not ask where the page was | [`Update::update`] | here |
//! | commit: the mappings of a translation page, in one batch | [`LazyTable::commit`] | here |
//! | the invalidation of old pages, at the commit | [`LazyTable::owed`] | here |
//!
//! Choices where only an abstract and recollection are at hand:
//! - A write that finds no mapping in memory records the new one and reads nothing. The page that it
//!   supersedes stays valid in name, which is *owed*, until the commit has read the translation page and
//!   knows where it is.
//! - An area's conversion commits its mappings. Here the UMT has a budget (parameter `updates`, half of what
//!   the directory leaves), and when it is full the translation page whose mappings are the oldest on average
//!   is committed, with all its mappings; so the writes of a conversion are spread, and a request waits for
//!   one of them at most.
//! - A UMT entry is charged 6 bytes (place, PPN, whether owed), a translation page with entries 8, as TPFTL's
//!   nodes.
//! - The UMT has no more entries than there are pages to spare, as each may keep a superseded page in name.
//! - The rest of the budget caches mappings that were read, 8 bytes each, LRU.
//! - Pages moved by collection enter the UMT, as those of the cold area do, as long as there is room; else
//!   the page's mappings are committed with them.
//! - Collection copies a page that is superseded but owed, as it cannot know; the copy is dropped when moves
//!   are committed.
//! - A write counts as a hit where memory has the old mapping. Else it is a miss, though it waits for no
//!   flash read: the read is the commit's. What counts as replaced are entries; those of a commit for room
//!   are all dirty.
//! - A long trim commits the page's mappings first, so that nothing is owed in it.

use crate::cmt::segmented::SegmentedLru;
use crate::cmt::two_level::{TwoLevel, ENTRY_BYTES, NODE_BYTES};
use crate::counters::Cause;
use crate::engine::Ftl;
use crate::flash::Flash;
use crate::mapping::{Ask, Change, How, Lookup, Mapping, Moved, Pages, Unit, Update};
use crate::scheme::{CachedPage, Config, ConfigError, Info, Memory, Parameter};
use crate::table::{entry, entry_in, mapped, Table, UNMAPPED};
use nand::{Done, Lpn, Nand, Ppn, Result, Vtpn};
use std::ops::Range;

/// LazyFTL.
pub type LazyFtl = Ftl<LazyTable>;

const READ_BYTES: u64 = 8;

/// Mappings that the table on flash does not have yet, and some that it has.
///
/// No LPN is in both.
#[derive(Clone, Debug)]
pub struct LazyTable {
    updates: TwoLevel,
    reads: SegmentedLru,
    /// One bit an LPN: the table's entry leads to a page that is superseded but valid in name.
    owed: Vec<u64>,
    edits: Vec<(u32, u32)>,
    superseded: Vec<Ppn>,
    left: Vec<Moved>,
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

    /// Brings all mappings of a translation page from the UMT into the table, `moves` with them, and
    /// invalidates what they supersede.
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
            let lpn = Lpn(first + self.edits[at].0);
            self.owe(lpn, false);
            self.updates.remove(lpn);
        }
        Ok(done)
    }

    /// Makes room for a mapping of `vtpn` in the UMT. Commits at most one translation page.
    fn make_room<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table, at: Done) -> Result<Done> {
        if self.updates.free_bytes() >= NODE_BYTES + ENTRY_BYTES {
            return Ok(at);
        }
        let Some(oldest) = self.updates.coldest() else { return Ok(at) };
        let entries = u64::from(self.updates.len_of(oldest));
        let done = self.commit(flash, table, oldest, &[], Cause::Translation, at)?;
        flash.counters.replaced += entries;
        flash.counters.replaced_dirty += entries;
        Ok(done)
    }

    /// Adds a mapping to the UMT; there is room.
    fn add(&mut self, lpn: Lpn, ppn: u32, done: Done, owed: bool) {
        self.updates.insert(lpn, ppn, done);
        self.updates.write(lpn, ppn, done);
        self.owe(lpn, owed);
    }
}

impl Mapping for LazyTable {
    type Pages = Table;

    const INFO: Info = Info {
        name: "lazyftl",
        what: "page map whose writes ask for no mapping; new mappings are committed in batches, old pages invalidated then",
        paper: "Ma, Feng, Li: LazyFTL, SIGMOD 2011",
        stats: &[],
        parameters: &[Parameter {
            name: "updates",
            default: "50",
            what: "bytes of the update mapping table (UMT), percent of the cache; the rest caches mappings read",
        }],
    };

    fn new<N: Nand>(flash: &mut Flash<N>, table: &Table, config: &Config) -> Result<Self, ConfigError> {
        let percent = config.number(&Self::INFO, "updates", 10..=95)?;
        let bytes = table.cache_bytes("lazyftl", config, 20 * (NODE_BYTES + ENTRY_BYTES))?;
        // Until it is committed, an update keeps two pages: no more of them than there is room for.
        let room = u64::from(flash.space.spare + 1) * u64::from(flash.nand().geometry().superblock_pages());
        let most = u64::from(table.pages()) * NODE_BYTES + room * ENTRY_BYTES;
        let updates = (bytes * percent / 100).min(most);
        let lpns = table.exported_pages() as usize;
        let reads = ((bytes - updates) / READ_BYTES).min(lpns as u64) as usize;
        let entries = table.entries_per_page() as usize;
        Ok(LazyTable {
            updates: TwoLevel::new(updates, table.pages(), table.entries_per_page()),
            reads: SegmentedLru::new(reads, lpns, 0),
            owed: vec![0; lpns.div_ceil(64)],
            edits: Vec::with_capacity(2 * entries),
            superseded: Vec::with_capacity(entries),
            left: Vec::with_capacity(entries),
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
        if self.reads.is_full() {
            if let Some(victim) = self.reads.victim().map(|victim| victim.lpn) {
                self.reads.remove(victim);
                flash.counters.replaced += 1;
            }
        }
        self.reads.insert(lpn, ppn, done);
        Ok(Lookup::new(mapped(ppn), done, How::Loaded))
    }

    #[inline]
    fn expect<N: Nand>(&self, flash: &Flash<N>, table: &Table, lpn: Lpn, soon: bool) {
        self.updates.expect(lpn);
        self.reads.expect(lpn);
        table.expect(flash, lpn, soon);
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
        if self.updates.len_of(vtpn) > 0 {
            at = self.commit(flash, table, vtpn, &[], Cause::Translation, at)?;
        }
        table.trim(flash, vtpn, slots, at, |lpn| self.reads.remove(lpn).map(|read| mapped(read.ppn)))
    }

    // Checkpoint and checks

    fn clean_one<N: Nand>(&mut self, flash: &mut Flash<N>, table: &mut Table) -> Result<Option<Done>> {
        while self.clean_below < table.pages() && self.updates.len_of(Vtpn(self.clean_below)) == 0 {
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
        let (entries, nodes) = self.updates.bytes();
        Memory { parts: vec![("UMT", entries + nodes), ("CMT", self.reads.len() as u64 * READ_BYTES)] }
    }

    fn cached(&self, _table: &Table, each: &mut dyn FnMut(CachedPage)) {
        self.updates.each_node(each);
    }

    fn check<N: Nand>(&self, _flash: &Flash<N>, _table: &Table) -> Result<(), String> {
        self.updates.check()?;
        self.reads.check()?;
        let mut breach = None;
        self.each_owed(|lpn| {
            if !self.updates.contains(lpn) {
                breach = Some(format!("LPN {} is owed an invalidation but has no new mapping", lpn.0));
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
            return Ok(Lookup::new(mapped(update.ppn), at, How::CachedEntry));
        }
        let at = self.make_room(flash, table, at)?;
        let known = self.reads.remove(lpn);
        self.add(lpn, entry(ppn), programmed, known.is_none());
        let how = if known.is_some() { How::CachedEntry } else { How::Loaded };
        Ok(Lookup::new(known.and_then(|read| mapped(read.ppn)), at, how))
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
        let room = self.updates.free_bytes() >= NODE_BYTES + left.len() as u64 * ENTRY_BYTES;
        for moved in &left {
            self.reads.remove(moved.lpn);
            if room {
                self.add(moved.lpn, moved.to.0, moved.done, false);
            }
        }
        *(if room { &mut flash.counters.gc_hits } else { &mut flash.counters.gc_misses }) +=
            left.len() as u64;
        let done = if room || left.is_empty() {
            Ok(Done::READY)
        } else {
            self.commit(flash, table, vtpn, &left, Cause::Collection, Done::READY)
        };
        self.left = left;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmt::tests::mapped_table;
    use crate::flash::Content;
    use crate::space::Stream;
    use nand::timing::NoClock;
    use nand::{PageKind, SimNand, Source};

    struct World {
        flash: Flash<SimNand<NoClock>>,
        table: Table,
        mapping: LazyTable,
    }

    impl World {
        /// Two translation pages on flash, and room for some 20 updates.
        fn new() -> World {
            let (mut flash, table) = mapped_table(2);
            let config = Config::new(2 * 128, table.directory_bytes() + 300);
            let mapping = LazyTable::new(&mut flash, &table, &config).unwrap();
            World { flash, table, mapping }
        }

        /// A page of data, as the host writes it.
        fn program(&mut self, lpn: u32) -> Ppn {
            let content = Content::version(self.flash.next_version());
            let (kind, from) = (PageKind::Data, Source::Host);
            self.flash.program(Stream::HOST, kind, lpn, content, from, Cause::Host, Done::READY).unwrap().0
        }

        fn write(&mut self, lpn: u32) -> (Ppn, Option<Ppn>) {
            let ppn = self.program(lpn);
            let (flash, table, at) = (&mut self.flash, &mut self.table, Done::READY);
            let old = self
                .mapping
                .update(flash, table, Change { lpn: Lpn(lpn), rest: 1, ppn: Some(ppn), programmed: at, at })
                .unwrap()
                .ppn;
            old.into_iter().for_each(|old| self.flash.invalidate(old));
            (ppn, old)
        }

        /// As [`World::write`], with the mapping brought to flash.
        fn settle(&mut self, lpn: u32) -> Ppn {
            // What the table of the test leads to does not exist; nothing may be owed for it.
            let ppn = self.program(lpn);
            self.mapping.add(Lpn(lpn), ppn.0, Done::READY, false);
            self.clean();
            ppn
        }

        fn clean(&mut self) -> u32 {
            self.mapping.clean_below = 0;
            let (flash, table) = (&mut self.flash, &mut self.table);
            (0..).take_while(|_| self.mapping.clean_one(flash, table).unwrap().is_some()).count() as u32
        }

        fn read(&mut self, lpn: u32) -> Option<Ppn> {
            let (flash, table) = (&mut self.flash, &mut self.table);
            self.mapping.lookup(flash, table, Ask { lpn: Lpn(lpn), rest: 1, at: Done::READY }).unwrap().ppn
        }
    }

    #[test]
    fn a_write_reads_nothing_and_the_old_page_is_invalidated_at_the_commit() {
        let mut w = World::new();
        let first = w.settle(5);
        w.flash.counters = Default::default();
        let (second, old) = w.write(5);
        assert_eq!((old, w.flash.counters.reads_by(Cause::Translation)), (None, 0));
        assert!(w.flash.space.is_valid(first) && w.flash.space.is_valid(second));
        let mut owed = Vec::new();
        w.mapping.each_owed(|lpn| owed.push(lpn.0));
        assert_eq!(owed, [5]);
        let (third, old) = w.write(5);
        assert_eq!(old, Some(second), "the second is known");
        assert_eq!(w.clean(), 1);
        assert!(!w.flash.space.is_valid(first) && w.flash.space.is_valid(third));
        assert_eq!((w.read(5), w.mapping.check(&w.flash, &w.table)), (Some(third), Ok(())));
    }

    #[test]
    fn a_mapping_that_was_read_is_known_to_the_write() {
        let mut w = World::new();
        let first = w.settle(130);
        assert_eq!(w.read(130), Some(first));
        assert_eq!(w.write(130).1, Some(first));
        w.mapping.each_owed(|lpn| panic!("LPN {} is owed", lpn.0));
    }

    #[test]
    fn a_copy_of_a_superseded_page_is_dropped() {
        let mut w = World::new();
        let first = w.settle(7);
        let (second, _) = w.write(7);
        let copy = w.program(7);
        let moved = Moved { lpn: Lpn(7), slot: 7, from: first, to: copy, done: Done::READY };
        w.mapping.moved(&mut w.flash, &mut w.table, &[moved]).unwrap();
        w.flash.invalidate(first);
        assert!(!w.flash.space.is_valid(copy) && w.flash.space.is_valid(second));
        w.mapping.each_owed(|lpn| panic!("LPN {} is owed still", lpn.0));
        assert_eq!(w.clean(), 1);
        assert_eq!(w.read(7), Some(second));
    }

    #[test]
    fn a_full_update_table_commits_one_translation_page() {
        let mut w = World::new();
        let pages: Vec<u32> = (0..60).map(|i| if i % 2 == 0 { i } else { 128 + i }).collect();
        for &lpn in &pages {
            w.settle(lpn);
        }
        w.flash.counters = Default::default();
        let mut newest = Vec::new();
        for &lpn in &pages {
            if w.flash.counters.programs_by(Cause::Translation) == 0 {
                newest.push((lpn, w.write(lpn).0));
            }
        }
        let counters = &w.flash.counters;
        assert_eq!(
            (counters.programs_by(Cause::Translation), counters.replaced_dirty),
            (1, counters.replaced)
        );
        assert!(counters.replaced > 5, "all mappings of the page go in one program");
        for (lpn, ppn) in newest {
            assert_eq!(w.read(lpn), Some(ppn), "LPN {lpn}");
        }
        assert_eq!(w.mapping.check(&w.flash, &w.table), Ok(()));
    }
}
